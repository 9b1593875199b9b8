//! CustomResourceDefinitions: what the server fills in and checks, and when one is established. Must not
//! know the resources that a definition makes, nor stores or requests.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions/{v1/defaults.go,validation}`,
//! `pkg/controller/{status/naming_controller.go,establish}`,
//! `pkg/apiserver/customresource_handler.go`, v0.36.
//! Intended differences: names are accepted and the definition is established in the same write; a version
//! that cannot be converted without losing fields is not served.

use serde_json::{Map, Value, json};

use super::Catalog;
use crate::object;
use crate::schema::crd;

/// Keeps a definition until its objects are gone. Added by the first delete.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in names and conversion, and what the status starts from.
pub fn prepare(definition: &mut Value) {
    crd::default(definition);
    let names = json!({ "plural": "", "kind": "" });
    definition["status"] = json!({ "conditions": [], "acceptedNames": names, "storedVersions": [] });
    note_storage_version(definition);
}

/// The same for an update; the status follows a changed spec.
pub fn prepare_update(definition: &mut Value, old: &Value) {
    crd::default(definition);
    if definition["spec"] != old["spec"] {
        note_storage_version(definition);
    }
}

/// Versions are only ever added here: who migrated the objects may remove one.
fn note_storage_version(definition: &mut Value) {
    let stored = storage_version(definition).to_owned();
    let versions = &mut definition["status"]["storedVersions"];
    if !versions.is_array() {
        *versions = json!([]);
    }
    if let Some(list) = versions.as_array_mut()
        && !stored.is_empty()
        && !list.iter().any(|version| *version == stored.as_str())
    {
        list.push(stored.into());
    }
}

pub(super) fn storage_version(definition: &Value) -> &str {
    let versions = definition["spec"]["versions"].as_array();
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    stored.and_then(|version| version["name"].as_str()).unwrap_or_default()
}

/// Accepts the names that no other definition in the group has, and sets `NamesAccepted` and `Established`.
/// Names that were accepted before stay until better ones are free.
pub fn establish(definition: &mut Value, catalog: &Catalog, now: &str) {
    let wanted = &definition["spec"]["names"];
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let own = object::name(definition);
    let mut accepted = definition["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    let mut conflict = None;
    for (field, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ] {
        let before = texts(accepted.get(field).unwrap_or(&Value::Null));
        let taken = |name: &String| {
            !before.contains(name)
                // Kinds and list kinds share one space of names, all the others another.
                && if field.ends_with("ind") {
                    catalog.has_kind(group, name, own)
                } else {
                    catalog.has_name(group, name, own)
                }
        };
        let complaints: Vec<String> = texts(&wanted[field])
            .iter()
            .filter(|name| taken(name))
            .map(|name| format!("\"{name}\" is already in use"))
            .collect();
        // As upstream, of several conflicts the last one in this order is told.
        match complaints.as_slice() {
            [] => take(&mut accepted, field, &wanted[field]),
            [one] => conflict = Some((reason, one.clone())),
            several => conflict = Some((reason, format!("[{}]", several.join(", ")))),
        }
    }
    // Categories may be shared, so they are never in conflict.
    take(&mut accepted, "categories", &wanted["categories"]);
    definition["status"]["acceptedNames"] = Value::Object(accepted);
    let names = match &conflict {
        None => condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
        Some((reason, message)) => condition("NamesAccepted", "False", reason, message, now),
    };
    set_condition(definition, names);
    // Once established it stays so, whatever happens to its names.
    if conflict.is_none() && !is_true(definition, "Established") {
        let message = "the initial names have been accepted";
        set_condition(definition, condition("Established", "True", "InitialNamesAccepted", message, now));
    } else if !has_condition(definition, "Established") {
        let message = "not all names are accepted";
        set_condition(definition, condition("Established", "False", "NotAccepted", message, now));
    }
}

fn take(accepted: &mut Map<String, Value>, field: &str, value: &Value) {
    if value.is_null() {
        accepted.remove(field);
    } else {
        accepted.insert(field.to_owned(), value.clone());
    }
}

/// Would names that are free now change what this definition has?
pub fn waits_for_names(definition: &Value) -> bool {
    definition["spec"]["names"] != definition["status"]["acceptedNames"]
}

fn condition(type_: &str, status: &str, reason: &str, message: &str, now: &str) -> Value {
    json!({ "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now })
}

/// Adds or replaces a condition; its time only moves with its status.
pub fn set_condition(definition: &mut Value, mut condition: Value) {
    let status = &mut definition["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(list) = status["conditions"].as_array_mut() else { return };
    match list.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}

/// Says that objects are being removed, or that none are left.
pub fn set_terminating(definition: &mut Value, in_progress: bool, now: &str) {
    let (status, reason, message) = if in_progress {
        ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
    } else {
        ("False", "InstanceDeletionCompleted", "removed all instances")
    };
    set_condition(definition, condition("Terminating", status, reason, message, now));
}

pub(super) fn is_true(definition: &Value, type_: &str) -> bool {
    conditions(definition).any(|c| c["type"] == type_ && c["status"] == "True")
}

fn has_condition(definition: &Value, type_: &str) -> bool {
    conditions(definition).any(|c| c["type"] == type_)
}

fn conditions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["status"]["conditions"].as_array().into_iter().flatten()
}

pub(super) fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice);
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Names that a definition holds in its group, whether it is served or not: of resources, and of kinds.
pub fn held_names(definition: &Value) -> (Vec<String>, Vec<String>) {
    let names = &definition["status"]["acceptedNames"];
    let of = |fields: &[&str]| {
        let all = fields.iter().flat_map(|field| texts(&names[*field]));
        all.filter(|name| !name.is_empty()).collect()
    };
    (of(&["plural", "singular", "shortNames"]), of(&["kind", "listKind"]))
}

pub(super) fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["spec"]["versions"].as_array().into_iter().flatten()
}

/// Conversion only renames the version (webhooks are not called). That loses nothing when both versions
/// have the same fields; any other version would drop fields without a word, so it is not served.
pub(super) fn converts_without_loss(definition: &Value, version: &Value) -> bool {
    let stored = versions(definition).find(|version| version["storage"] == true);
    stored.is_some_and(|stored| {
        let schema = |version: &Value| fields_of(&version["schema"]["openAPIV3Schema"]);
        stored["name"] == version["name"]
            || (definition["spec"]["conversion"]["strategy"] != "Webhook"
                && schema(stored) == schema(version))
    })
}

/// A schema without its descriptions.
fn fields_of(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else { return schema.clone() };
    let kept = map.iter().filter(|(key, value)| *key != "description" || !value.is_string());
    let below = |key: &str, value: &Value| match (key, value) {
        ("properties", Value::Object(fields)) => {
            fields.iter().map(|(name, field)| (name.clone(), fields_of(field))).collect()
        }
        ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => branches.iter().map(fields_of).collect(),
        ("items" | "additionalProperties" | "not", _) => fields_of(value),
        _ => value.clone(),
    };
    kept.map(|(key, value)| (key.clone(), below(key, value))).collect()
}

/// What the writer of a definition should know although it is accepted.
pub fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = crd::warnings(definition, old);
    let spec = &definition["spec"];
    let left_out = versions(definition)
        .filter(|version| version["served"] == true && !converts_without_loss(definition, version));
    warnings.extend(left_out.map(|version| {
        format!(
            "{}/{} {} is not served: its fields differ from those of the storage version {}, and this server does not \
             call conversion webhooks",
            spec["group"].as_str().unwrap_or_default(),
            version["name"].as_str().unwrap_or_default(),
            spec["names"]["kind"].as_str().unwrap_or_default(),
            storage_version(definition),
        )
    }));
    warnings
}
