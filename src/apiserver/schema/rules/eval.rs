//! Runs CEL expressions within a budget. The core language is evaluated here, so that every step is counted
//! and macros the engine lacks work; functions of the libraries are the engine's. Knows no schemas.
//!
//! Source: cel-go `interpreter/{interpretable,runtimecost}.go`.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kube::core::cel::KubeCelExt as _;
use kube::core::cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    operators,
};
use kube::core::cel::cel::objects::{Key, Map, OptionalValue};
use kube::core::cel::cel::{Context, ExecutionError, Value};

use super::cost::{self, Cost};
use super::functions;
use super::macros::{self, Macro, Pairs};
use crate::apiserver::schema::pattern::Pattern;

/// Patterns kept compiled; a rule that builds patterns from values must not fill the memory.
const PATTERNS_MAX: usize = 200;

thread_local! {
    /// The engine's functions. Not shared: it cannot cross threads.
    static ENGINE: Context<'static> = Context::default().with_all();
    static PATTERNS: RefCell<HashMap<String, Pattern>> = RefCell::new(HashMap::new());
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// The call costs more than one may.
    Limit,
    Failed(String),
}

fn failed<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Failed(what.into()))
}

fn no_overload<T>() -> Result<T, Fault> {
    failed("no such overload")
}

/// A variable and those around it.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    name: &'a str,
    value: &'a Value,
    outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(name: &'a str, value: &'a Value, outer: Option<&'a Scope<'a>>) -> Self {
        Self { name, value, outer }
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        if self.name == name { Some(self.value) } else { self.outer?.find(name) }
    }
}

/// Evaluates; answers with what it cost, also when it failed.
pub(super) fn run(expression: &IdedExpr, scope: &Scope<'_>) -> (Result<Value, Fault>, u64) {
    let mut machine = Machine { spent: Cost(0) };
    let result = machine.eval(expression, scope);
    (result, machine.spent.0)
}

struct Machine {
    spent: Cost,
}

impl Machine {
    fn spend(&mut self, cost: Cost) -> Result<(), Fault> {
        self.spent = self.spent + cost;
        if self.spent.0 > cost::CALL_MAX { Err(Fault::Limit) } else { Ok(()) }
    }

    fn eval(&mut self, e: &IdedExpr, scope: &Scope<'_>) -> Result<Value, Fault> {
        match &e.expr {
            Expr::Literal(literal) => Ok(value_of(literal)),
            Expr::Ident(name) => {
                self.spend(cost::ONE)?;
                match scope.find(name) {
                    Some(value) => Ok(value.clone()),
                    None if macros::is_type_name(name) => Ok(type_value(name)),
                    None => failed(format!("no such attribute(s): {name}")),
                }
            }
            Expr::Select(select) => self.select(select, scope),
            Expr::Call(call) => self.call(call, scope),
            Expr::List(list) => self.list(list, scope),
            Expr::Map(map) => self.map(map, scope),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, scope),
            Expr::Struct(_) | Expr::Unspecified => failed("unsupported expression"),
        }
    }

    fn bool(&mut self, e: &IdedExpr, scope: &Scope<'_>) -> Result<bool, Fault> {
        match self.eval(e, scope)? {
            Value::Bool(flag) => Ok(flag),
            _ => no_overload(),
        }
    }

    fn select(&mut self, select: &SelectExpr, scope: &Scope<'_>) -> Result<Value, Fault> {
        let operand = self.eval(&select.operand, scope)?;
        self.spend(cost::ONE)?;
        let found = field(&operand, &select.field)?;
        if select.test {
            return Ok(Value::Bool(match &found {
                Some(value) => optional(value).is_none_or(|inner| inner.value().is_some()),
                None => false,
            }));
        }
        found.map_or_else(|| failed(format!("no such key: {}", select.field)), Ok)
    }

    fn list(&mut self, list: &ListExpr, scope: &Scope<'_>) -> Result<Value, Fault> {
        self.spend(cost::LIST)?;
        let mut items = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            let value = self.eval(element, scope)?;
            match optional(&value).filter(|_| list.optional_indices.contains(&index)) {
                Some(inner) => items.extend(inner.value().cloned()),
                None => items.push(value),
            }
        }
        Ok(Value::List(Arc::new(items)))
    }

    fn map(&mut self, map: &MapExpr, scope: &Scope<'_>) -> Result<Value, Fault> {
        self.spend(cost::MAP)?;
        let mut entries = HashMap::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return failed("unsupported expression") };
            let key = key_of(&self.eval(&entry.key, scope)?)?;
            let value = self.eval(&entry.value, scope)?;
            match optional(&value).filter(|_| entry.optional) {
                Some(inner) => entries.extend(inner.value().cloned().map(|value| (key, value))),
                None => {
                    entries.insert(key, value);
                }
            }
        }
        Ok(Value::Map(Map { map: Arc::new(entries) }))
    }

    fn comprehension(&mut self, c: &ComprehensionExpr, scope: &Scope<'_>) -> Result<Value, Fault> {
        let range = self.eval(&c.iter_range, scope)?;
        let mut accumulated = self.eval(&c.accu_init, scope)?;
        for (key, item) in pairs(&range)? {
            let element = item.filter(|_| matches!(range, Value::List(_))).unwrap_or(key);
            let outer = Scope::new(&c.accu_var, &accumulated, Some(scope));
            let inner = Scope::new(&c.iter_var, &element, Some(&outer));
            if !self.bool(&c.loop_cond, &inner)? {
                break;
            }
            accumulated = match self.eval(&c.loop_step, &inner) {
                Ok(value) => value,
                // `all` and `exists` go on: a later item may decide.
                Err(fault @ Fault::Failed(_)) if matches!(accumulated, Value::Bool(_)) => {
                    return self.decide(c, scope, &range, accumulated, fault);
                }
                Err(fault) => return Err(fault),
            };
        }
        self.eval(&c.result, &Scope::new(&c.accu_var, &accumulated, Some(scope)))
    }

    /// An item failed: the others may still make `all` false or `exists` true, otherwise the fault stands.
    fn decide(
        &mut self,
        c: &ComprehensionExpr,
        scope: &Scope<'_>,
        range: &Value,
        neutral: Value,
        fault: Fault,
    ) -> Result<Value, Fault> {
        for (key, item) in pairs(range)? {
            let element = item.filter(|_| matches!(range, Value::List(_))).unwrap_or(key);
            let outer = Scope::new(&c.accu_var, &neutral, Some(scope));
            match self.eval(&c.loop_step, &Scope::new(&c.iter_var, &element, Some(&outer))) {
                Ok(value) if value != neutral => return Ok(value),
                Err(Fault::Limit) => return Err(Fault::Limit),
                _ => {}
            }
        }
        Err(fault)
    }

    fn call(&mut self, call: &CallExpr, scope: &Scope<'_>) -> Result<Value, Fault> {
        if let Some(found) = macros::of(call) {
            return self.expand(&found, scope);
        }
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, then, other]) => {
                let chosen = if self.bool(condition, scope)? { then } else { other };
                self.eval(chosen, scope)
            }
            (operators::LOGICAL_AND, [left, right]) => self.either(left, right, false, scope),
            (operators::LOGICAL_OR, [left, right]) => self.either(left, right, true, scope),
            (operators::NOT_STRICTLY_FALSE, [condition]) => {
                let truth = self.bool(condition, scope);
                self.spend(cost::ONE)?;
                Ok(Value::Bool(truth.unwrap_or(true)))
            }
            (operators::OPT_SELECT, [operand, name]) => {
                let (operand, name) = (self.eval(operand, scope)?, self.eval(name, scope)?);
                self.spend(cost::ONE)?;
                let Value::String(name) = name else { return no_overload() };
                let found = field(&operand, &name)?;
                Ok(found
                    .filter(|value| optional(value).is_some())
                    .unwrap_or_else(|| some(field(&operand, &name).ok().flatten())))
            }
            _ => self.plain_call(call, name, scope),
        }
    }

    fn plain_call(&mut self, call: &CallExpr, name: &str, scope: &Scope<'_>) -> Result<Value, Fault> {
        let space = match call.target.as_deref().map(|target| &target.expr) {
            Some(Expr::Ident(space))
                if functions::is_qualified(space, name) && scope.find(space).is_none() =>
            {
                Some(space.as_str())
            }
            _ => None,
        };
        let target = call.target.as_deref().filter(|_| space.is_none());
        let mut values = Vec::with_capacity(call.args.len() + 1);
        for part in target.into_iter().chain(&call.args) {
            values.push(self.eval(part, scope)?);
        }
        let sizes: Vec<u64> = values.iter().map(size).collect();
        let qualified = space.map(|space| format!("{space}.{name}"));
        self.spend(match name {
            operators::ADD => cost::of_addition(
                matches!(values.first(), Some(Value::String(_) | Value::Bytes(_))),
                sizes.first().copied().unwrap_or(0),
                sizes.get(1).copied().unwrap_or(0),
            ),
            _ => cost::of_call(qualified.as_deref().unwrap_or(name), &sizes),
        })?;
        match values.as_slice() {
            [left, right] if target.is_none() && space.is_none() => {
                if let Some(result) = binary(name, left, right) {
                    return result;
                }
            }
            [only] if target.is_none() && space.is_none() => match (name, only) {
                (operators::LOGICAL_NOT, Value::Bool(flag)) => return Ok(Value::Bool(!flag)),
                (operators::NEGATE, Value::Int(n)) => {
                    return n.checked_neg().map_or_else(|| failed("integer overflow"), |n| Ok(Value::Int(n)));
                }
                (operators::NEGATE, Value::Float(n)) => return Ok(Value::Float(-n)),
                ("type", value) => return Ok(type_value(type_name(value))),
                ("dyn", value) => return Ok(value.clone()),
                _ => {}
            },
            _ => {}
        }
        match (name, values.as_slice()) {
            ("matches", [Value::String(text), Value::String(pattern)]) => matches(text, pattern),
            _ => library(call, space, target.is_some(), values),
        }
    }

    /// `&&` and `||`: one side can decide although the other fails.
    fn either(
        &mut self,
        left: &IdedExpr,
        right: &IdedExpr,
        decides: bool,
        scope: &Scope<'_>,
    ) -> Result<Value, Fault> {
        let first = self.bool(left, scope);
        if first == Ok(decides) || first == Err(Fault::Limit) {
            return first.map(Value::Bool);
        }
        let second = self.bool(right, scope);
        match (first, second) {
            (_, Ok(flag)) if flag == decides => Ok(Value::Bool(decides)),
            (_, Err(Fault::Limit)) => Err(Fault::Limit),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(_), Ok(flag)) => Ok(Value::Bool(flag)),
        }
    }

    fn expand(&mut self, found: &Macro<'_>, scope: &Scope<'_>) -> Result<Value, Fault> {
        match found {
            Macro::Bind { name, value, body } => {
                let value = self.eval(value, scope)?;
                self.eval(body, &Scope::new(name, &value, Some(scope)))
            }
            Macro::Optional { target, name, body, flat } => {
                let target = self.eval(target, scope)?;
                self.spend(cost::ONE)?;
                let Some(inner) = optional(&target) else { return no_overload() };
                let Some(value) = inner.value() else { return Ok(target.clone()) };
                let result = self.eval(body, &Scope::new(name, value, Some(scope)))?;
                Ok(if *flat { result } else { some(Some(result)) })
            }
            Macro::Sort { target, name, key } => {
                let target = self.eval(target, scope)?;
                let Value::List(items) = &target else { return no_overload() };
                let mut keyed = Vec::with_capacity(items.len());
                for item in items.iter() {
                    self.spend(cost::ONE)?;
                    keyed.push((self.eval(key, &Scope::new(name, item, Some(scope)))?, item.clone()));
                }
                if keyed.windows(2).any(|pair| pair[0].0.partial_cmp(&pair[1].0).is_none()) {
                    return no_overload();
                }
                keyed.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
                Ok(Value::List(Arc::new(keyed.into_iter().map(|(_, item)| item).collect())))
            }
            Macro::Pairs { target, index, value, filter, body, result } => {
                let range = self.eval(target, scope)?;
                let mut kept = Vec::new();
                for (first, second) in pairs(&range)? {
                    let Some(second) = second else { return no_overload() };
                    self.spend(cost::ONE)?;
                    let outer = Scope::new(index, &first, Some(scope));
                    let inner = Scope::new(value, &second, Some(&outer));
                    if let Some(filter) = filter
                        && !self.bool(filter, &inner)?
                    {
                        continue;
                    }
                    let made = self.eval(body, &inner)?;
                    match (result, &made) {
                        (Pairs::All, Value::Bool(false)) => return Ok(Value::Bool(false)),
                        (Pairs::Exists, Value::Bool(true)) => return Ok(Value::Bool(true)),
                        _ => kept.push((first, made)),
                    }
                }
                collect(*result, kept)
            }
        }
    }
}

/// The result of a comprehension over pairs from what its body gave.
fn collect(result: Pairs, kept: Vec<(Value, Value)>) -> Result<Value, Fault> {
    let mut map = HashMap::new();
    match result {
        Pairs::All => return Ok(Value::Bool(true)),
        Pairs::Exists => return Ok(Value::Bool(false)),
        Pairs::ExistsOne => {
            let held = kept.iter().filter(|(_, made)| *made == Value::Bool(true)).count();
            return Ok(Value::Bool(held == 1));
        }
        Pairs::List => return Ok(Value::List(Arc::new(kept.into_iter().map(|(_, made)| made).collect()))),
        Pairs::Map => {
            for (key, made) in kept {
                map.insert(key_of(&key)?, made);
            }
        }
        Pairs::Entries => {
            for (_, made) in kept {
                let Value::Map(entries) = made else { return no_overload() };
                map.extend(entries.map.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
    }
    Ok(Value::Map(Map { map: Arc::new(map) }))
}

fn value_of(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(flag) => Value::Bool(*flag.inner()),
        LiteralValue::Int(n) => Value::Int(*n.inner()),
        LiteralValue::UInt(n) => Value::UInt(*n.inner()),
        LiteralValue::Double(n) => Value::Float(*n.inner()),
        LiteralValue::String(text) => Value::String(Arc::new(text.inner().to_owned())),
        LiteralValue::Bytes(bytes) => Value::Bytes(Arc::new(bytes.inner().to_vec())),
        LiteralValue::Null => Value::Null,
    }
}

/// Types are values too; the engine has no others of this variant.
fn type_value(name: &str) -> Value {
    Value::Function(Arc::new(name.to_owned()), None)
}

fn type_name(value: &Value) -> &str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Function(..) => "type",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Opaque(opaque) => opaque.runtime_type_name(),
        Value::Null => "null_type",
    }
}

fn optional(value: &Value) -> Option<&OptionalValue> {
    <&OptionalValue>::try_from(value).ok()
}

fn some(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// An optional of the value, for `oldSelf`.
pub(super) fn optional_of(value: Option<Value>) -> Value {
    some(value)
}

/// A field of a map or object, or an optional of it when the operand is optional.
fn field(operand: &Value, name: &str) -> Result<Option<Value>, Fault> {
    if let Some(inner) = optional(operand) {
        let found = inner.value().map(|value| field(value, name)).transpose()?.flatten();
        return Ok(Some(some(found)));
    }
    match operand {
        Value::Map(map) => Ok(map.map.get(&Key::String(Arc::new(name.to_owned()))).cloned()),
        _ => no_overload(),
    }
}

fn key_of(value: &Value) -> Result<Key, Fault> {
    match value {
        Value::Int(n) => Ok(Key::Int(*n)),
        Value::UInt(n) => Ok(Key::Uint(*n)),
        Value::Bool(flag) => Ok(Key::Bool(*flag)),
        Value::String(text) => Ok(Key::String(text.clone())),
        #[allow(clippy::cast_possible_truncation, reason = "checked to be whole")]
        Value::Float(n) if n.fract() == 0.0 => Ok(Key::Int(*n as i64)),
        _ => failed("unsupported key type"),
    }
}

/// Index and item of a list, key and value of a map (in order of keys).
fn pairs(range: &Value) -> Result<Vec<(Value, Option<Value>)>, Fault> {
    match range {
        Value::List(items) => {
            Ok((0..).zip(items.iter()).map(|(index, item)| (Value::Int(index), Some(item.clone()))).collect())
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            Ok(entries.into_iter().map(|(key, value)| (Value::from(key), Some(value.clone()))).collect())
        }
        _ => no_overload(),
    }
}

/// Elements or characters; one for anything else.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.chars().count() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(items) => items.len() as u64,
        Value::Map(map) => map.map.len() as u64,
        _ => 1,
    }
}

/// An operator of two values. `None`: it is none.
fn binary(name: &str, left: &Value, right: &Value) -> Option<Result<Value, Fault>> {
    let order = |wanted: fn(Ordering) -> bool| match left.partial_cmp(right) {
        Some(order) => Ok(Value::Bool(wanted(order))),
        None => no_overload(),
    };
    let (a, b) = (|| left.clone(), || right.clone());
    Some(match name {
        operators::EQUALS => Ok(Value::Bool(left == right)),
        operators::NOT_EQUALS => Ok(Value::Bool(left != right)),
        operators::LESS => order(Ordering::is_lt),
        operators::LESS_EQUALS => order(Ordering::is_le),
        operators::GREATER => order(Ordering::is_gt),
        operators::GREATER_EQUALS => order(Ordering::is_ge),
        operators::ADD => match (left, right) {
            (Value::Bytes(a), Value::Bytes(b)) => {
                Ok(Value::Bytes(Arc::new([a.as_slice(), b.as_slice()].concat())))
            }
            _ => (a() + b()).map_err(fault),
        },
        operators::SUBSTRACT => (a() - b()).map_err(fault),
        operators::MULTIPLY => (a() * b()).map_err(fault),
        operators::DIVIDE => (a() / b()).map_err(fault),
        operators::MODULO => (a() % b()).map_err(fault),
        operators::IN => contains(left, right),
        operators::INDEX => {
            index(left, right).and_then(|found| found.map_or_else(|| failed(missing(left, right)), Ok))
        }
        operators::OPT_INDEX => index(left, right).map(|found| match found {
            Some(value) if optional(&value).is_some() => value,
            found => some(found),
        }),
        _ => return None,
    })
}

fn contains(value: &Value, container: &Value) -> Result<Value, Fault> {
    match container {
        Value::List(items) => Ok(Value::Bool(items.contains(value))),
        Value::Map(map) => Ok(Value::Bool(key_of(value).is_ok_and(|key| map.map.contains_key(&key)))),
        _ => no_overload(),
    }
}

fn index(container: &Value, at: &Value) -> Result<Option<Value>, Fault> {
    if let Some(inner) = optional(container) {
        let found = inner.value().map(|value| index(value, at)).transpose()?.flatten();
        return Ok(Some(some(found)));
    }
    match container {
        Value::List(items) => match key_of(at)? {
            Key::Int(at) => Ok(usize::try_from(at).ok().and_then(|at| items.get(at)).cloned()),
            Key::Uint(at) => Ok(usize::try_from(at).ok().and_then(|at| items.get(at)).cloned()),
            _ => no_overload(),
        },
        Value::Map(map) => Ok(map.map.get(&key_of(at)?).cloned()),
        _ => no_overload(),
    }
}

fn missing(container: &Value, at: &Value) -> String {
    let shown = match at {
        Value::String(text) => text.to_string(),
        Value::Int(n) => n.to_string(),
        Value::UInt(n) => n.to_string(),
        other => format!("{other:?}"),
    };
    let what = if matches!(container, Value::List(_)) { "index out of bounds" } else { "no such key" };
    format!("{what}: {shown}")
}

fn matches(text: &str, pattern: &str) -> Result<Value, Fault> {
    PATTERNS.with_borrow_mut(|known| {
        if !known.contains_key(pattern) {
            let compiled = Pattern::new(pattern)
                .map_err(|problem| Fault::Failed(format!("error parsing regexp: {problem}: `{pattern}`")))?;
            if known.len() >= PATTERNS_MAX {
                known.clear();
            }
            known.insert(pattern.to_owned(), compiled);
        }
        Ok(Value::Bool(known.get(pattern).is_some_and(|pattern| pattern.is_match(text))))
    })
}

/// Lets the engine do what it knows: the arguments become variables of a call.
fn library(
    call: &CallExpr,
    space: Option<&str>,
    is_method: bool,
    values: Vec<Value>,
) -> Result<Value, Fault> {
    let ident = |name: String| IdedExpr { id: 0, expr: Expr::Ident(name) };
    ENGINE.with(|engine| {
        let mut context = engine.new_inner_scope();
        let mut names = Vec::with_capacity(values.len());
        for (at, value) in values.into_iter().enumerate() {
            let name = format!("@{at}");
            context.add_variable_from_value(name.clone(), value);
            names.push(name);
        }
        let mut names = names.into_iter();
        let target = match space {
            Some(space) => Some(ident(space.to_owned())),
            None => {
                if is_method {
                    names.next().map(ident)
                } else {
                    None
                }
            }
        };
        let call = CallExpr {
            func_name: call.func_name.clone(),
            target: target.map(Box::new),
            args: names.map(ident).collect(),
        };
        Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &context).map_err(fault)
    })
}

/// In cel-go's words, where it has them.
fn fault(error: ExecutionError) -> Fault {
    Fault::Failed(match error {
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. } => "no such overload".to_owned(),
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { message, .. } => message,
        other => other.to_string(),
    })
}
