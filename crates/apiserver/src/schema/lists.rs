//! Sets and keyed lists: no two items with one key. Judges nothing else.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/listtype/validation.go`, v0.36.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Cause, ListType, Node, Path};

/// Second occurrences of a key anywhere in `value`. With `old`, nothing when the old object had some
/// already.
pub(super) fn check(root: &Node, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(root, Path::Root, value, &mut causes);
    if !causes.is_empty()
        && let Some(old) = old
    {
        let mut before = Vec::new();
        walk(root, Path::Root, old, &mut before);
        if !before.is_empty() {
            return Vec::new();
        }
    }
    causes
}

fn walk(node: &Node, path: Path<'_>, value: &Value, out: &mut Vec<Cause>) {
    if !node.has_keyed_lists {
        return;
    }
    if let Value::Array(items) = value {
        out.extend(duplicates(&node.list, items, path));
    }
    node.children(path, value, &mut |node, path, value| walk(node, path, value, out));
}

/// Only the second occurrence is named, however many there are.
fn duplicates(list: &ListType, items: &[Value], path: Path<'_>) -> Vec<Cause> {
    let keys: Vec<Value> = match list {
        ListType::Atomic => return Vec::new(),
        ListType::Set => items.to_vec(),
        ListType::Map(keys) => {
            if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
                let detail = "must be an object for an array of list-type map";
                return vec![Cause::invalid(path.index(index).to_string(), &items[index], detail)];
            }
            items.iter().map(|item| key_of(keys, item)).collect()
        }
    };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let times = seen.entry(key.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(Cause::duplicate(path.index(index).to_string(), key));
        }
    }
    found
}

fn key_of(keys: &[String], item: &Value) -> Value {
    let pairs = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(pairs.collect::<Map<_, _>>())
}
