//! What happens once to the `managedFields` of an object before a manager applies to it for the first time: fields
//! that were written otherwise are given up, for a field with a second owner would never be removed. Must not know
//! how the new list is sent.

use serde_json::{Map, Value, json};

use super::{BEFORE_FIRST_APPLY, is_apply_of, is_main};
use crate::names::manager;

/// Fields of metadata that are owned pair by pair.
const PAIRS: [&str; 2] = ["f:labels", "f:annotations"];

/// Whose fields are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverScope {
    /// All that the engine wrote by updates: the next apply takes what it wants of it.
    Whole,
    /// Labels and annotations that the object was created with; the rest of it stays with its owner.
    Metadata,
}

/// A manager that is about to apply to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Handover {
    /// Who applies; see [`names::manager`](crate::names::manager).
    pub manager: &'static str,
    /// Whose fields are given up.
    pub scope: HandoverScope,
    /// The field set of the labels and annotations that the manager takes. Others keep their owner: what nobody
    /// owns goes when the last owned label, or annotation, goes.
    pub taken: Value,
}

impl Handover {
    /// Of an object that `manager` is to keep as `intent` has it.
    pub fn new(manager: &'static str, scope: HandoverScope, intent: &Value) -> Self {
        Self { manager, scope, taken: fields_of_metadata(intent) }
    }

    /// The list that replaces that of `object`; `None` when nothing has to be given up.
    pub fn of(&self, object: &Value) -> Option<Value> {
        let nothing = Vec::new();
        let before = object["metadata"]["managedFields"].as_array().unwrap_or(&nothing);
        let mut after: Vec<Value> = before.iter().filter_map(|entry| self.left_of(entry)).collect();
        let has_applied = before.iter().any(|entry| is_apply_of(entry, self.manager));
        // Where nothing is given up, the first apply of a whole object makes the entry by itself.
        let is_enough = has_applied || (self.scope == HandoverScope::Whole && !before.is_empty());
        // No write, or each look at the object would make one.
        if after == *before && is_enough {
            return None;
        }
        let entry = |manager: &str, operation: &str, set: &Value| {
            json!({"manager": manager, "operation": operation, "apiVersion": object["apiVersion"],
                   "fieldsType": "FieldsV1", "fieldsV1": set})
        };
        let is_ours = |entry: &Value| entry["manager"] == manager::PATCHES && entry["operation"] == "Update";
        // Without an owner so far: our own entry takes them, as if its patches had written them.
        let unrecorded = before.is_empty()
            || before.iter().any(is_of_everything)
                && !after.iter().any(|entry| is_main(entry) && is_ours(entry));
        // What is about to be applied is left out: two owners would keep it for ever.
        let rest = without_pairs(fields_of_metadata(object), &self.taken);
        if unrecorded && let Some(rest) = rest {
            after.push(entry(manager::PATCHES, "Update", &rest));
        }
        if !has_applied {
            // As upstream: a field that is not tracked.
            let named = json!({"f:metadata": {"f:name": {}}});
            let seed = if self.scope == HandoverScope::Whole { &named } else { &self.taken };
            after.push(entry(self.manager, "Apply", seed));
        }
        Some(Value::Array(after))
    }

    fn left_of(&self, entry: &Value) -> Option<Value> {
        let name = entry["manager"].as_str().unwrap_or_default();
        let updates = entry["operation"] == "Update" && is_main(entry);
        let gives_up = match self.scope {
            // Whatever the scope: an owner of all fields makes every later removal fail.
            _ if is_of_everything(entry) => return None,
            HandoverScope::Whole => updates && name == manager::PATCHES,
            HandoverScope::Metadata => {
                updates && [manager::PATCHES, manager::UPSTREAM_PATCHES].contains(&name)
                    || manager::OF_SPEC.iter().any(|name| is_apply_of(entry, name))
            }
        };
        // Others' entries, and sets that cannot be read, stay as they are.
        if !gives_up || !entry["fieldsV1"].is_object() {
            return Some(entry.clone());
        }
        let mut entry = entry.clone();
        let mut set = entry["fieldsV1"].take();
        if self.scope == HandoverScope::Whole {
            set = only_pairs(&set);
        }
        entry["fieldsV1"] = without_pairs(set, &self.taken)?;
        Some(entry)
    }
}

fn is_of_everything(entry: &Value) -> bool {
    entry["manager"] == BEFORE_FIRST_APPLY
}

/// Labels and annotations of a field set, and nothing else.
fn only_pairs(set: &Value) -> Value {
    let pairs = PAIRS.iter().filter_map(|field| {
        let below = set["f:metadata"].get(field)?;
        Some(((*field).to_owned(), below.clone()))
    });
    json!({ "f:metadata": Value::Object(pairs.collect()) })
}

/// A field set without the labels and annotations of another; `None` when nothing is left.
fn without_pairs(mut set: Value, taken: &Value) -> Option<Value> {
    let root = set.as_object_mut()?;
    if let Some(metadata) = root.get_mut("f:metadata").and_then(Value::as_object_mut) {
        for field in PAIRS {
            let Some(below) = metadata.get_mut(field).and_then(Value::as_object_mut) else { continue };
            below.retain(|path, _| taken["f:metadata"][field].get(path).is_none());
            // The mark of the parent alone owns nothing that is worth an entry.
            if below.keys().all(|path| path == ".") {
                metadata.remove(field);
            }
        }
        if metadata.keys().all(|path| path == ".") {
            root.remove("f:metadata");
        }
    }
    (!root.is_empty()).then_some(set)
}

/// The field set of the labels and annotations of `object`, as an apply of them would be recorded: an empty map is
/// owned itself.
fn fields_of_metadata(object: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        let Some(pairs) = object["metadata"][field].as_object() else { continue };
        let paths: Map<String, Value> = pairs.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
        metadata.insert(format!("f:{field}"), Value::Object(paths));
    }
    if metadata.is_empty() { json!({}) } else { json!({ "f:metadata": metadata }) }
}
