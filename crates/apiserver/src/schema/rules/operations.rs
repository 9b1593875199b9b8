//! What an expression's parts come to once their operands are known: literals, types, fields, operators, and
//! functions of the libraries, which are the engine's. Must not know scopes or costs.
//!
//! Source: cel-go `interpreter/interpretable.go`, `common/types`.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kube::core::cel::KubeCelExt as _;
use kube::core::cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use kube::core::cel::cel::objects::{Key, OptionalValue};
use kube::core::cel::cel::{Context, ExecutionError, Value};

use crate::schema::pattern::Pattern;

/// What compiled patterns may take in a thread; a rule that builds patterns from values must not fill the memory.
const PATTERNS_BYTES_MAX: usize = 4 * 1024 * 1024;

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

pub(super) fn failed<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Failed(what.into()))
}

pub(super) fn no_overload<T>() -> Result<T, Fault> {
    failed("no such overload")
}

pub(super) fn value_of(literal: &LiteralValue) -> Value {
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
pub(super) fn type_value(name: &str) -> Value {
    Value::Function(Arc::new(name.to_owned()), None)
}

pub(super) fn type_name(value: &Value) -> &str {
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

pub(super) fn optional(value: &Value) -> Option<&OptionalValue> {
    <&OptionalValue>::try_from(value).ok()
}

pub(super) fn optional_of(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// A field of a map or object, or an optional of it when the operand is optional.
pub(super) fn field(operand: &Value, name: &str) -> Result<Option<Value>, Fault> {
    if let Some(inner) = optional(operand) {
        let found = inner.value().map(|value| field(value, name)).transpose()?.flatten();
        return Ok(Some(optional_of(found)));
    }
    match operand {
        Value::Map(map) => Ok(map.map.get(&Key::String(Arc::new(name.to_owned()))).cloned()),
        _ => no_overload(),
    }
}

pub(super) fn key_of(value: &Value) -> Result<Key, Fault> {
    match value {
        Value::Int(n) => Ok(Key::Int(*n)),
        Value::UInt(n) => Ok(Key::Uint(*n)),
        Value::Bool(flag) => Ok(Key::Bool(*flag)),
        Value::String(text) => Ok(Key::String(text.clone())),
        // Checked to be whole.
        Value::Float(n) if n.fract() == 0.0 => Ok(Key::Int(*n as i64)),
        _ => failed("unsupported key type"),
    }
}

/// Index and item of a list, key and value of a map (in order of keys).
pub(super) fn pairs(range: &Value) -> Result<Vec<(Value, Option<Value>)>, Fault> {
    match range {
        Value::List(items) => {
            Ok((0..).zip(items.iter()).map(|(index, item)| (Value::Int(index), Some(item.clone()))).collect())
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.map.iter().collect();
            // In order of keys, so that the same rule has the same result and message each time.
            entries.sort_by(|a, b| a.0.cmp(b.0));
            Ok(entries.into_iter().map(|(key, value)| (Value::from(key), Some(value.clone()))).collect())
        }
        _ => no_overload(),
    }
}

/// Elements or characters; one for anything else.
pub(super) fn size(value: &Value) -> u64 {
    match value {
        // cel-go counts code points, not bytes.
        Value::String(text) => text.chars().count() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(items) => items.len() as u64,
        Value::Map(map) => map.map.len() as u64,
        _ => 1,
    }
}

/// An operator of two values. `None`: it is none.
pub(super) fn binary(name: &str, left: &Value, right: &Value) -> Option<Result<Value, Fault>> {
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
            found => optional_of(found),
        }),
        _ => return None,
    })
}

fn contains(value: &Value, container: &Value) -> Result<Value, Fault> {
    match container {
        Value::List(items) => Ok(Value::Bool(items.contains(value))),
        // What cannot be a key is in no map: `in` is false then, and does not fail.
        Value::Map(map) => Ok(Value::Bool(key_of(value).is_ok_and(|key| map.map.contains_key(&key)))),
        _ => no_overload(),
    }
}

fn index(container: &Value, at: &Value) -> Result<Option<Value>, Fault> {
    if let Some(inner) = optional(container) {
        let found = inner.value().map(|value| index(value, at)).transpose()?.flatten();
        return Ok(Some(optional_of(found)));
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

pub(super) fn matches(text: &str, pattern: &str) -> Result<Value, Fault> {
    PATTERNS.with_borrow_mut(|known| {
        if !known.contains_key(pattern) {
            let compiled = Pattern::new(pattern)
                .map_err(|problem| Fault::Failed(format!("error parsing regexp: {problem}: `{pattern}`")))?;
            let bytes: usize = known.values().map(Pattern::memory).sum();
            // Emptying all guards the memory; rules with fixed patterns compile theirs again at once.
            if bytes + compiled.memory() > PATTERNS_BYTES_MAX {
                known.clear();
            }
            known.insert(pattern.to_owned(), compiled);
        }
        Ok(Value::Bool(known.get(pattern).is_some_and(|pattern| pattern.is_match(text))))
    })
}

/// Lets the engine do what it knows: the arguments become variables of a call.
pub(super) fn library(
    call: &CallExpr,
    space: Option<&str>,
    is_method: bool,
    values: Vec<Value>,
) -> Result<Value, Fault> {
    let ident = |name: String| IdedExpr { id: 0, expr: Expr::Ident(name) };
    ENGINE.with(|engine| {
        // Arguments are variables of an inner scope, so that none stays in the shared engine.
        let mut context = engine.new_inner_scope();
        let mut names = Vec::with_capacity(values.len());
        for (at, value) in values.into_iter().enumerate() {
            // No variable of a rule has such a name, as `@` begins no identifier.
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
