//! Strategic merge patch for the served built-in kinds: lists merge by a key, and `$` directives say
//! what plain JSON cannot. Owns the merge keys and the algorithm; must not know requests or stores.
//!
//! Source: apimachinery `pkg/util/strategicpatch/patch.go`, v0.35 (`mergeMap`, `mergeSlice`,
//! `normalizeElementOrder`).

use std::collections::HashSet;

use serde_json::{Map, Value};

use self::places::{Places, first_places};
use crate::failure::Failure;

mod places;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// How a list takes a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// The patch replaces it.
    Replace,
    /// Scalars, merged as a set.
    Set,
    /// Objects, merged by this field.
    Keyed(&'static str),
}

/// Lists that merge, by kind (empty: every kind) and dotted path. All others are replaced.
/// Source: `patchStrategy` and `patchMergeKey` tags in k8s.io/api and apimachinery, v0.35.
const LISTS: [(&str, &str, List); 11] = [
    ("", "metadata.finalizers", List::Set),
    ("", "metadata.ownerReferences", List::Keyed("uid")),
    ("Namespace", "status.conditions", List::Keyed("type")),
    ("Node", "status.conditions", List::Keyed("type")),
    ("Node", "status.addresses", List::Keyed("type")),
    ("Node", "spec.podCIDRs", List::Set),
    ("Pod", "spec.containers", List::Keyed("name")),
    ("Pod", "status.conditions", List::Keyed("type")),
    ("DaemonSet", "spec.template.spec.containers", List::Keyed("name")),
    ("Deployment", "spec.template.spec.containers", List::Keyed("name")),
    ("Deployment", "status.conditions", List::Keyed("type")),
];

type Object = Map<String, Value>;

/// The object with the patch merged into it.
///
/// # Errors
/// 400 for a directive that is not understood, 422 for a list item without its merge key.
pub fn merge(kind: &str, target: Value, patch: Value) -> Result<Value, Failure> {
    let merger = Merger { kind };
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => merger.object("", target, patch).map(Value::Object),
        _ => Err(Failure::bad_request("error decoding patch: a JSON object is expected")),
    }
}

/// The merge keys and merge strategy of a list, for OpenAPI's `x-kubernetes-patch-*`.
pub fn merge_key(kind: &str, path: &str) -> Option<&'static str> {
    match list(kind, path) {
        List::Keyed(key) => Some(key),
        List::Set => Some(""),
        List::Replace => None,
    }
}

fn list(kind: &str, path: &str) -> List {
    LISTS
        .iter()
        .find(|(k, p, _)| (k.is_empty() || *k == kind) && *p == path)
        .map_or(List::Replace, |(_, _, list)| *list)
}

struct Merger<'a> {
    kind: &'a str,
}

impl Merger<'_> {
    /// Maps merge key by key. `path` is the dotted path of the map, empty at the root.
    fn object(&self, path: &str, mut target: Object, mut patch: Object) -> Result<Object, Failure> {
        match patch.remove(PATCH) {
            None => {}
            Some(Value::String(directive)) if directive == "replace" => return Ok(without_directives(patch)),
            Some(Value::String(directive)) if directive == "delete" => return Ok(Object::new()),
            Some(other) => return Err(unknown_directive(&other)),
        }
        retain_keys(&mut target, &mut patch)?;
        // Lists with an order are merged and taken out of the patch here; the loop has the others.
        self.ordered_lists(path, &mut target, &mut patch)?;
        for (key, value) in patch {
            if let Some(field) = key.strip_prefix(DELETE_FROM) {
                delete_scalars(&mut target, field, value)?;
                continue;
            }
            let merged = match (target.remove(&key), value) {
                // `remove` above has deleted the field already.
                (_, Value::Null) => continue,
                (Some(Value::Object(old)), Value::Object(new)) => {
                    Value::Object(self.object(&join(path, &key), old, new)?)
                }
                (Some(Value::Array(old)), Value::Array(new)) => {
                    Value::Array(self.list(&join(path, &key), old, new)?)
                }
                (_, new) => without_directives_value(new),
            };
            target.insert(key, merged);
        }
        Ok(target)
    }

    fn list(&self, path: &str, old: Vec<Value>, new: Vec<Value>) -> Result<Vec<Value>, Failure> {
        match list(self.kind, path) {
            List::Replace => Ok(new.into_iter().map(without_directives_value).collect()),
            List::Set => {
                let mut merged = old;
                merged.extend(new);
                let mut seen = HashSet::with_capacity(merged.len());
                merged.retain(|item| seen.insert(item.clone()));
                Ok(merged)
            }
            List::Keyed(key) => self.keyed(path, key, old, new),
        }
    }

    fn keyed(
        &self,
        path: &str,
        key: &str,
        mut old: Vec<Value>,
        new: Vec<Value>,
    ) -> Result<Vec<Value>, Failure> {
        let mut changes = Vec::with_capacity(new.len());
        let mut replace = false;
        let mut unwanted = HashSet::new();
        for item in new {
            match item.get(PATCH).map(|d| d.as_str().unwrap_or_default()) {
                None => changes.push(item),
                Some("replace") => replace = true,
                Some("delete") => {
                    unwanted.insert(key_of(&item, key, path)?.clone());
                }
                Some(_) => return Err(unknown_directive(&item[PATCH])),
            }
        }
        if replace {
            return Ok(changes.into_iter().map(without_directives_value).collect());
        }
        // Deletions come first, wherever they stand in the patch, as upstream.
        old.retain(|item| item.get(key).is_none_or(|found| !unwanted.contains(found)));
        let mut places = Places::of(&old, key);
        for change in changes {
            let wanted = key_of(&change, key, path)?.clone();
            let at = places.first(&wanted);
            match (at.and_then(|at| Some((at, old.get_mut(at)?))), change) {
                (Some((at, slot)), Value::Object(change)) => {
                    // Only objects have a merge key, so nothing but an object is found at a place.
                    let Value::Object(before) = slot.take() else { continue };
                    *slot = Value::Object(self.object(path, before, change)?);
                    // A merge may take the key away: null deletes it.
                    places.moved(at, &wanted, slot.get(key));
                }
                (_, change) => {
                    let added = without_directives_value(change);
                    places.add(old.len(), added.get(key));
                    old.push(added);
                }
            }
        }
        Ok(old)
    }

    /// `$setElementOrder/field`: merges the list of that field, then puts it in the order wanted;
    /// items that only the server has keep their place relative to the others.
    fn ordered_lists(&self, path: &str, target: &mut Object, patch: &mut Object) -> Result<(), Failure> {
        let markers: Vec<String> = patch.keys().filter(|k| k.starts_with(ELEMENT_ORDER)).cloned().collect();
        for marker in markers {
            let field = marker.trim_start_matches(ELEMENT_ORDER).to_owned();
            let Some(Value::Array(order)) = patch.remove(&marker) else {
                return Err(Failure::bad_request(format!(
                    "invalid patch format of {marker}: a list is expected"
                )));
            };
            let at = join(path, &field);
            let strategy = list(self.kind, &at);
            let before = match target.get(&field) {
                Some(Value::Array(items)) => items.clone(),
                _ => Vec::new(),
            };
            let merged = match patch.remove(&field) {
                Some(Value::Array(changes)) => self.list(&at, before.clone(), changes)?,
                Some(Value::Null) => {
                    target.remove(&field);
                    continue;
                }
                Some(_) => {
                    return Err(Failure::bad_request(format!(
                        "invalid patch format of {field}: a list is expected"
                    )));
                }
                None if target.contains_key(&field) => before.clone(),
                None => continue,
            };
            target.insert(field, Value::Array(in_order(merged, &order, &before, strategy)));
        }
        Ok(())
    }
}

/// What tells an item of such a list apart: itself, or its merge key.
fn identity(item: &Value, strategy: List) -> Option<&Value> {
    match strategy {
        List::Keyed(key) => item.get(key),
        List::Set | List::Replace => Some(item),
    }
}

fn in_order(merged: Vec<Value>, order: &[Value], before: &[Value], strategy: List) -> Vec<Value> {
    let wanted = first_places(order, |item| identity(item, strategy));
    let were = first_places(before, |item| identity(item, strategy));
    let place = |item: &Value| identity(item, strategy).and_then(|key| wanted.get(key)).copied();
    let was = |item: &Value| identity(item, strategy).and_then(|key| were.get(key)).copied();
    let (mut named, server_only): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(item).is_some());
    // Cached: a place is found by hashing the item, which may be an object.
    named.sort_by_cached_key(place);
    let mut out = Vec::with_capacity(named.len() + server_only.len());
    let mut rest = server_only.into_iter().peekable();
    for item in named {
        // A new item had no place: what only the server has waits for the next item that had one.
        if let Some(mine) = was(&item) {
            while let Some(other) = rest.next_if(|other| was(other).is_some_and(|theirs| theirs < mine)) {
                out.push(other);
            }
        }
        out.push(item);
    }
    out.extend(rest);
    out
}

/// `$retainKeys`: of the target, only these keys stay.
fn retain_keys(target: &mut Object, patch: &mut Object) -> Result<(), Failure> {
    match patch.remove(RETAIN_KEYS) {
        None => Ok(()),
        Some(Value::Array(keys)) => {
            let kept: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
            target.retain(|key, _| kept.contains(key.as_str()));
            Ok(())
        }
        Some(_) => Err(Failure::bad_request("invalid patch format of retainKeys: a list is expected")),
    }
}

fn delete_scalars(target: &mut Object, field: &str, unwanted: Value) -> Result<(), Failure> {
    let Value::Array(unwanted) = unwanted else {
        return Err(Failure::bad_request(format!(
            "invalid patch format of {DELETE_FROM}{field}: a list is expected"
        )));
    };
    if let Some(Value::Array(items)) = target.get_mut(field) {
        let unwanted: HashSet<Value> = unwanted.into_iter().collect();
        items.retain(|item| !unwanted.contains(item));
    }
    Ok(())
}

fn key_of<'a>(item: &'a Value, key: &str, path: &str) -> Result<&'a Value, Failure> {
    item.get(key).ok_or_else(|| {
        let mut failure = Failure::unpatchable();
        failure.message = format!("{path}: map: {item} does not contain declared merge key: {key}");
        failure
    })
}

fn unknown_directive(directive: &Value) -> Failure {
    Failure::bad_request(format!(
        "unknown patch type found: {directive}; delete, replace and merge keys are known"
    ))
}

/// New content carries no directives into the object, and no nulls.
fn without_directives(map: Object) -> Object {
    map.into_iter()
        .filter(|(key, value)| {
            let directive = key == PATCH
                || key == RETAIN_KEYS
                || key.starts_with(DELETE_FROM)
                || key.starts_with(ELEMENT_ORDER);
            !directive && !value.is_null()
        })
        .map(|(key, value)| (key, without_directives_value(value)))
        .collect()
}

fn without_directives_value(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(without_directives(map)),
        Value::Array(items) => {
            items.into_iter().filter(|item| item.get(PATCH).is_none()).map(without_directives_value).collect()
        }
        other => other,
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod oracle;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules() {
        let owner = |uid: &str, name: &str| json!({"uid": uid, "name": name});
        for (what, kind, target, patch, expected) in [
            (
                "maps merge, null deletes",
                "ConfigMap",
                json!({"data": {"a": "1", "b": "2"}}),
                json!({"data": {"a": null, "c": "3", "d": null}}),
                json!({"data": {"b": "2", "c": "3"}}),
            ),
            (
                "lists without a key are replaced",
                "Node",
                json!({"spec": {"taints": [{"key": "a"}]}}),
                json!({"spec": {"taints": [{"key": "b"}]}}),
                json!({"spec": {"taints": [{"key": "b"}]}}),
            ),
            (
                "keyed lists merge items",
                "Node",
                json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]}}),
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "New"}]}}),
                json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}, {"type": "New"}]}}),
            ),
            (
                "an item is deleted by its key",
                "Secret",
                json!({"metadata": {"ownerReferences": [owner("1", "a"), owner("2", "b")]}}),
                json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "1"}]}}),
                json!({"metadata": {"ownerReferences": [owner("2", "b")]}}),
            ),
            (
                "a keyed list is replaced",
                "Secret",
                json!({"metadata": {"ownerReferences": [owner("1", "a")]}}),
                json!({"metadata": {"ownerReferences": [{"$patch": "replace"}, owner("2", "b")]}}),
                json!({"metadata": {"ownerReferences": [owner("2", "b")]}}),
            ),
            (
                "finalizers merge as a set",
                "Secret",
                json!({"metadata": {"finalizers": ["a", "b"]}}),
                json!({"metadata": {"finalizers": ["b", "c"]}}),
                json!({"metadata": {"finalizers": ["a", "b", "c"]}}),
            ),
            (
                "scalars are deleted from a list",
                "Secret",
                json!({"metadata": {"finalizers": ["a", "b"]}}),
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
                json!({"metadata": {"finalizers": ["b"]}}),
            ),
            (
                "element order, with one the server has alone",
                "Node",
                json!({"status": {"conditions": [{"type": "A"}, {"type": "S"}, {"type": "B"}]}}),
                json!({"status": {
                    "$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}, {"type": "N"}],
                    "conditions": [{"type": "N"}],
                }}),
                json!({"status": {"conditions": [{"type": "S"}, {"type": "B"}, {"type": "A"}, {"type": "N"}]}}),
            ),
            (
                "a map is replaced",
                "ConfigMap",
                json!({"data": {"a": "1"}}),
                json!({"data": {"$patch": "replace", "b": "2"}}),
                json!({"data": {"b": "2"}}),
            ),
            (
                "a map is emptied",
                "ConfigMap",
                json!({"data": {"a": "1"}}),
                json!({"data": {"$patch": "delete"}}),
                json!({"data": {}}),
            ),
            (
                "keys are retained",
                "ConfigMap",
                json!({"data": {"a": "1", "b": "2"}}),
                json!({"data": {"$retainKeys": ["b", "c"], "c": "3"}}),
                json!({"data": {"b": "2", "c": "3"}}),
            ),
            (
                "a new map carries no directives or nulls",
                "ConfigMap",
                json!({}),
                json!({"data": {"a": null, "b": "2", "$retainKeys": ["b"]}}),
                json!({"data": {"b": "2"}}),
            ),
        ] {
            assert_eq!(merge(kind, target, patch), Ok(expected), "{what}");
        }
    }

    #[test]
    fn wrong_directives_are_refused() {
        let target = json!({"metadata": {"finalizers": ["a"], "ownerReferences": []}});
        for (patch, code) in [
            (json!({"$patch": "zap"}), 400),
            (json!({"metadata": {"$retainKeys": "a"}}), 400),
            (json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}), 400),
            (json!({"metadata": {"$setElementOrder/finalizers": {}}}), 400),
            (json!({"metadata": {"ownerReferences": [{"name": "no uid"}]}}), 422),
        ] {
            let failure = merge("Secret", target.clone(), patch.clone()).expect_err("refused");
            assert_eq!(failure.code(), code, "{patch}");
        }
    }
}
