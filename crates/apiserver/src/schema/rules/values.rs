//! From JSON to the values rules compute with, as the schema says: only declared fields, dates as
//! timestamps, base64 as bytes. Evaluates nothing.
//!
//! Source: apiserver `pkg/cel/common/{adaptor,valuesunstructured}.go`, v0.36.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base64::Engine as _;
use kube::core::cel::cel::Value;
use kube::core::cel::cel::objects::{Key, Map};
use serde_json::Value as Json;

use super::kinds;
use crate::schema::{ListType, Node, Type, format};

/// The value of `json` under the schema `node`; `whole` objects also show `apiVersion`, `kind` and names.
pub(super) fn of(node: &Node, whole: bool, json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        // What is declared `number` is a double for CEL, also when it has no fraction.
        Json::Number(number) => match number.as_i64().filter(|_| node.type_ != Type::Number) {
            Some(number) => Value::Int(number),
            None => whole_number(node, number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => of_text(node, text),
        Json::Array(items) => {
            let item = |json| match &node.items {
                Some(items) => of(items, items.embedded, json),
                None => Value::Null,
            };
            Value::List(Arc::new(items.iter().map(item).collect()))
        }
        Json::Object(fields) => {
            let mut map: HashMap<Key, Value> = HashMap::with_capacity(fields.len());
            let mut put = |key: &str, value| map.insert(Key::String(Arc::new(key.to_owned())), value);
            for (key, json) in fields {
                match (key.as_str(), node.properties.get(key), &node.additional) {
                    ("apiVersion" | "kind", ..) if whole => {
                        put(key, text(json.as_str().unwrap_or_default()));
                    }
                    ("metadata", ..) if whole => {
                        put(key, metadata(json));
                    }
                    (_, Some(child), _) => {
                        // CEL cannot write every name, and a name that it cannot write is not a field.
                        // Keys of a map are data, and stay as they are.
                        if let Some(name) = kinds::escape(key) {
                            put(&name, of(child, child.embedded, json));
                        }
                    }
                    (_, None, Some(child)) => {
                        put(key, of(child, child.embedded, json));
                    }
                    (_, None, None) => {}
                }
            }
            Value::Map(Map { map: Arc::new(map) })
        }
    }
}

pub(super) fn text(text: &str) -> Value {
    Value::String(Arc::new(text.to_owned()))
}

fn metadata(json: &Json) -> Value {
    let names = ["name", "generateName"].into_iter();
    let shown =
        names.filter_map(|key| Some((Key::String(Arc::new(key.to_owned())), text(json.get(key)?.as_str()?))));
    Value::Map(Map { map: Arc::new(shown.collect()) })
}

/// `1.0` is an integer where one is declared.
fn whole_number(node: &Node, number: f64) -> Value {
    // Checked to be whole and in range.
    let whole = || number as i64;
    let fits = number.fract() == 0.0 && number.abs() < 9.2e18;
    if fits && matches!(node.type_, Type::Integer | Type::IntOrString) {
        Value::Int(whole())
    } else {
        Value::Float(number)
    }
}

fn of_text(node: &Node, content: &str) -> Value {
    let parsed = match kinds::format(node) {
        "date-time" => {
            capstan_base::time::parse_rfc3339(content).map(|at| Value::Timestamp(at.fixed_offset()))
        }
        "date" => chrono::NaiveDate::parse_from_str(content, "%Y-%m-%d")
            .ok()
            .and_then(|day| day.and_hms_opt(0, 0, 0))
            .map(|at| Value::Timestamp(at.and_utc().fixed_offset())),
        "duration" => format::duration(content)
            .map(|duration| Value::Duration(chrono::Duration::nanoseconds(duration.ns()))),
        "byte" => base64::engine::general_purpose::STANDARD
            .decode(content)
            .ok()
            .map(|bytes| Value::Bytes(Arc::new(bytes))),
        _ => None,
    };
    parsed.unwrap_or_else(|| text(content))
}

/// What makes an item of a list the one that it was: its keys, or all of it.
fn identity<'v>(node: &Node, item: &'v Json) -> Vec<Option<&'v Json>> {
    match &node.list {
        ListType::Map(keys) => keys.iter().map(|key| item.get(key)).collect(),
        ListType::Atomic | ListType::Set => vec![Some(item)],
    }
}

/// The old value with its sets and keyed lists in the order of the new one, so that comparing the two
/// ignores order where the schema says that order means nothing.
pub(super) fn align(node: &Node, old: &Json, new: &Json) -> Json {
    match (old, new) {
        (Json::Object(old), Json::Object(new)) => {
            let aligned = |(key, value): (&String, &Json)| {
                let below = node.properties.get(key).or(node.additional.as_deref());
                let value = match (below, new.get(key)) {
                    (Some(below), Some(new)) => align(below, value, new),
                    _ => value.clone(),
                };
                (key.clone(), value)
            };
            Json::Object(old.iter().map(aligned).collect())
        }
        (Json::Array(old), Json::Array(new)) if node.list != ListType::Atomic => {
            let mut places: HashMap<_, VecDeque<usize>> = HashMap::new();
            for (at, item) in old.iter().enumerate() {
                places.entry(identity(node, item)).or_default().push_back(at);
            }
            let mut left = vec![true; old.len()];
            let mut ordered = Vec::with_capacity(old.len());
            for item in new {
                let Some(at) = places.get_mut(&identity(node, item)).and_then(VecDeque::pop_front) else {
                    continue;
                };
                left[at] = false;
                ordered.push(
                    node.items.as_deref().map_or_else(|| old[at].clone(), |n| align(n, &old[at], item)),
                );
            }
            ordered.extend(old.iter().zip(left).filter(|(_, left)| *left).map(|(item, _)| item.clone()));
            Json::Array(ordered)
        }
        _ => old.clone(),
    }
}
