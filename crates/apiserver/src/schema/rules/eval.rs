//! Runs CEL expressions within a budget. The core language is evaluated here, so that every step is counted
//! and macros the engine lacks work. Knows no schemas.
//!
//! Source: cel-go `interpreter/{interpretable,runtimecost}.go`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kube::core::cel::cel::Value;
use kube::core::cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, MapExpr, SelectExpr, operators,
};
use kube::core::cel::cel::objects::Map;

use super::cost::{self, Cost};
use super::functions;
use super::macros::{self, Macro, Pairs};
use super::operations::{
    Fault, binary, failed, field, key_of, library, matches, no_overload, optional, optional_of, pairs, size,
    type_name, type_value, value_of,
};

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
                    // Texts, lists and maps are behind an `Arc`: the clone copies no content.
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
                // `has` of an optional asks for a value in it, not for the field.
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
            // One variable runs over the items of a list, but over the keys of a map.
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
        // Items before the fault did not decide, so the ones run again only cost.
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
                // Spending comes behind: it repeats a limit, which `unwrap_or` would hide.
                self.spend(cost::ONE)?;
                Ok(Value::Bool(truth.unwrap_or(true)))
            }
            (operators::OPT_SELECT, [operand, name]) => {
                let (operand, name) = (self.eval(operand, scope)?, self.eval(name, scope)?);
                self.spend(cost::ONE)?;
                let Value::String(name) = name else { return no_overload() };
                let found = field(&operand, &name)?;
                // A field of an optional is one already, and must not be wrapped again.
                Ok(found
                    .filter(|value| optional(value).is_some())
                    .unwrap_or_else(|| optional_of(field(&operand, &name).ok().flatten())))
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
            // The receiver of a method is among the values, too, so two values alone make no
            // operator.
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
            // The engine's own `matches` compiles anew for each call, and knows Rust's syntax
            // instead of Go's.
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
        // A budget that is used up is not a fault that the other side can outvote.
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
                Ok(if *flat { result } else { optional_of(Some(result)) })
            }
            Macro::Sort { target, name, key } => {
                let target = self.eval(target, scope)?;
                let Value::List(items) = &target else { return no_overload() };
                let mut keyed = Vec::with_capacity(items.len());
                for item in items.iter() {
                    self.spend(cost::ONE)?;
                    keyed.push((self.eval(key, &Scope::new(name, item, Some(scope)))?, item.clone()));
                }
                // Neighbours suffice: values that compare are of one class, and a list that leaves
                // its class does so between two neighbours.
                if keyed.windows(2).any(|pair| pair[0].0.partial_cmp(&pair[1].0).is_none()) {
                    return no_overload();
                }
                keyed.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
                Ok(Value::List(Arc::new(keyed.into_iter().map(|(_, item)| item).collect())))
            }
            Macro::Pairs { target, index, value, filter, body, result } => {
                let range = self.eval(target, scope)?;
                let mut kept = Vec::new();
                let mut fault = None;
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
                    let Some(decides) = result.decides() else {
                        let made = self.eval(body, &inner)?;
                        kept.push((first, made));
                        continue;
                    };
                    // As with `&&` and `||`, one element that decides outvotes those that fail.
                    match self.bool(body, &inner) {
                        Ok(held) if held == decides => return Ok(Value::Bool(decides)),
                        Ok(_) => {}
                        Err(Fault::Limit) => return Err(Fault::Limit),
                        Err(failed) => fault = fault.or(Some(failed)),
                    }
                }
                fault.map_or_else(|| collect(*result, kept), Err)
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
