//! Object metadata on its way in: what clients may set, and its spelling. Owns the rules
//! that hold for every kind; must not know the kinds.
//!
//! Source: apimachinery `pkg/api/validation/objectmeta.go`, v0.35.

use std::collections::BTreeSet;

use serde_json::Value;

use super::failure::Cause;
use super::{naming, object};

const ANNOTATIONS_BYTES_MAX: usize = 262_144;
/// `generateName` is cut to this, so that five more characters still make a label.
const PREFIX_CHARS_MAX: usize = 58;
pub const SUFFIX_CHARS: usize = 5;

/// Fields that only the server sets.
const SYSTEM: [&str; 5] =
    ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// Removes what clients may not set on create.
pub fn wipe_system_fields(object: &mut Value) {
    for field in SYSTEM.iter().chain(&["generation"]) {
        object::unset(object, field);
    }
}

/// Carries over what an update may not change or need not repeat.
pub fn carry_over(new: &mut Value, old: &Value) {
    for field in SYSTEM.iter().chain(&["generation", "name", "namespace"]) {
        match old["metadata"].get(field) {
            Some(value) => object::set(new, field, value.clone()),
            None => object::unset(new, field),
        }
    }
}

/// Keeps the first owner reference of each uid; true when one was dropped.
pub fn dedupe_owners(object: &mut Value) -> bool {
    let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return false;
    };
    let before = owners.len();
    let mut seen = BTreeSet::new();
    owners.retain(|owner| seen.insert(owner["uid"].as_str().unwrap_or_default().to_owned()));
    owners.len() < before
}

/// What a generated name starts with.
#[must_use]
pub fn name_prefix(generate_name: &str) -> String {
    generate_name.chars().take(PREFIX_CHARS_MAX).collect()
}

/// Everything wrong with the metadata. `name_rule` is the spelling of names of this kind.
#[must_use]
pub fn validate(object: &Value, namespaced: bool, name_rule: fn(&str) -> Vec<String>) -> Vec<Cause> {
    let metadata = &object["metadata"];
    let mut causes = Vec::new();
    let name = object::name(object);
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        let complaints = name_rule(name);
        causes.extend(complaints.iter().map(|c| Cause::invalid("metadata.name", &name.into(), c)));
    }
    if namespaced && object::text(object, "namespace").is_empty() {
        causes.push(Cause::required("metadata.namespace", ""));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let field = "metadata.labels";
        causes.extend(
            naming::qualified_name(key).iter().map(|c| Cause::invalid(field, &key.as_str().into(), c)),
        );
        let text = value.as_str().unwrap_or_default();
        causes.extend(naming::label_value(text).iter().map(|c| Cause::invalid(field, value, c)));
    }
    validate_annotations(&metadata["annotations"], &mut causes);
    validate_owners(&metadata["ownerReferences"], &mut causes);
    for finalizer in object::strings(object, "finalizers") {
        let complaints = naming::qualified_name(&finalizer);
        causes.extend(
            complaints.iter().map(|c| Cause::invalid("metadata.finalizers", &finalizer.as_str().into(), c)),
        );
    }
    causes
}

fn validate_annotations(annotations: &Value, causes: &mut Vec<Cause>) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        bytes += key.len() + value.as_str().unwrap_or_default().len();
        let complaints = naming::qualified_name(&key.to_lowercase());
        causes.extend(
            complaints.iter().map(|c| Cause::invalid("metadata.annotations", &key.as_str().into(), c)),
        );
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        causes.push(Cause::too_long("metadata.annotations", ANNOTATIONS_BYTES_MAX as u64));
    }
}

fn validate_owners(owners: &Value, causes: &mut Vec<Cause>) {
    let mut controllers = 0;
    for (index, owner) in owners.as_array().into_iter().flatten().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::invalid(path, &"".into(), "must not be empty"));
            }
        }
        controllers += usize::from(owner["controller"] == true);
    }
    if controllers > 1 {
        let detail = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid("metadata.ownerReferences", owners, detail));
    }
}

/// What an update of a terminating object may not do: add finalizers.
#[must_use]
pub fn validate_update(new: &Value, old: &Value) -> Vec<Cause> {
    if !object::is_terminating(old) {
        return Vec::new();
    }
    let before = object::strings(old, "finalizers");
    let added: Vec<String> =
        object::strings(new, "finalizers").into_iter().filter(|name| !before.contains(name)).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers [{}]",
        added.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
    );
    vec![Cause::forbidden("metadata.finalizers", &detail)]
}
