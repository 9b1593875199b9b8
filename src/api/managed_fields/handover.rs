//! What happens once to the `managedFields` of an object before a manager applies to it for the first time: fields
//! that were written otherwise are given up, for a field with a second owner would never be removed. Must not know
//! how the new list is sent.

use serde_json::{Map, Value, json};

use super::{BEFORE_FIRST_APPLY, is_apply_of, is_main};
use crate::api::names::manager;

/// Whose fields are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All that the engine wrote by updates: the next apply takes what it wants of it.
    Whole,
    /// Labels and annotations that the object was created with; the rest of it stays with its owner.
    Metadata,
}

/// A manager that is about to apply to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Handover {
    pub manager: &'static str,
    pub scope: Scope,
    /// The field set that the manager starts with.
    pub seed: Value,
}

impl Handover {
    /// Of an object that `manager` keeps as a whole. As upstream, it starts with a field that has no owners.
    #[must_use]
    pub fn whole(manager: &'static str) -> Self {
        Self { manager, scope: Scope::Whole, seed: json!({"f:metadata": {"f:name": {}}}) }
    }

    /// Of an object whose labels and annotations `manager` keeps: it starts with those of `intent`.
    #[must_use]
    pub fn of_metadata(manager: &'static str, intent: &Value) -> Self {
        Self { manager, scope: Scope::Metadata, seed: fields_of_metadata(intent) }
    }

    /// The list that replaces that of `object`; `None` when nothing has to be given up.
    #[must_use]
    pub fn of(&self, object: &Value) -> Option<Value> {
        let nothing = Vec::new();
        let before = object["metadata"]["managedFields"].as_array().unwrap_or(&nothing);
        let mut after: Vec<Value> = before.iter().filter_map(|entry| self.left_of(entry)).collect();
        let has_applied = before.iter().any(|entry| is_apply_of(entry, self.manager));
        // Where nothing is given up, the first apply of a whole object makes the entry by itself.
        let is_enough = has_applied || (self.scope == Scope::Whole && !before.is_empty());
        if after == *before && is_enough {
            return None;
        }
        if !has_applied {
            after.push(json!({
                "manager": self.manager, "operation": "Apply", "apiVersion": object["apiVersion"],
                "fieldsType": "FieldsV1", "fieldsV1": self.seed,
            }));
        }
        Some(Value::Array(after))
    }

    fn left_of(&self, entry: &Value) -> Option<Value> {
        let name = entry["manager"].as_str().unwrap_or_default();
        let updates = entry["operation"] == "Update" && is_main(entry);
        match self.scope {
            _ if name == BEFORE_FIRST_APPLY => None,
            Scope::Whole if updates && name == manager::PATCHES => None,
            Scope::Metadata if updates && [manager::PATCHES, manager::UPSTREAM_PATCHES].contains(&name) => {
                without_metadata(entry)
            }
            Scope::Metadata if manager::OF_SPEC.iter().any(|name| is_apply_of(entry, name)) => {
                without_metadata(entry)
            }
            _ => Some(entry.clone()),
        }
    }
}

/// The entry without labels and annotations; `None` when nothing else is in it.
fn without_metadata(entry: &Value) -> Option<Value> {
    let mut entry = entry.clone();
    let Some(set) = entry["fieldsV1"].as_object_mut() else { return Some(entry) };
    if let Some(metadata) = set.get_mut("f:metadata").and_then(Value::as_object_mut) {
        metadata.remove("f:labels");
        metadata.remove("f:annotations");
        if metadata.keys().all(|path| path == ".") {
            set.remove("f:metadata");
        }
    }
    (!set.is_empty()).then_some(entry)
}

/// The field set of the labels and annotations of `intent`, as an apply of them would be recorded.
#[must_use]
pub fn fields_of_metadata(intent: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        let Some(pairs) = intent["metadata"][field].as_object() else { continue };
        let paths: Map<String, Value> = pairs.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
        metadata.insert(format!("f:{field}"), Value::Object(paths));
    }
    if metadata.is_empty() { json!({}) } else { json!({ "f:metadata": metadata }) }
}
