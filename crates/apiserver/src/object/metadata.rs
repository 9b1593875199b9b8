//! Object metadata on its way in: what clients may set, and its spelling. Owns the rules
//! that hold for every kind; must not know the kinds.
//!
//! Source: apimachinery `pkg/api/validation/objectmeta.go`, v0.35.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object;
use k8s_machinery::validation::cause::Cause;
use k8s_machinery::validation::labels::{validate_annotations, validate_labels};
use k8s_machinery::validation::naming;

/// `generateName` is cut to this, so that five more characters still make a label.
const PREFIX_CHARS_MAX: usize = 58;
pub const SUFFIX_CHARS: usize = 5;

/// Fields that only the server sets.
const SYSTEM: [&str; 5] =
    ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

/// Second controllers that are complained about.
const CONTROLLERS_NAMED_MAX: usize = 8;

const DUPLICATE_OWNERS: &str = ".metadata.ownerReferences contains duplicate entries; API server dedups owner \
     references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate \
     UID(s) observed: ";
/// Finalizers of the API itself.
const STANDARD_FINALIZERS: [&str; 3] = [ORPHAN, FOREGROUND, "kubernetes"];

/// Removes what clients may not set on create.
pub fn wipe_system_fields(object: &mut Value) {
    for field in SYSTEM.iter().chain(&["generation"]) {
        object::unset(object, field);
    }
}

/// Leaves out lists, maps and texts with nothing in them, as Go does: to have no labels and to have an
/// empty map of them is the same object. An empty list of managed fields is a wish of its own.
pub fn drop_empty(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|field, value| match value {
        _ if field == "managedFields" => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    });
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

/// Keeps the first owner reference of each uid. A warning when one was dropped.
pub fn dedupe_owners(object: &mut Value) -> Option<String> {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut)?;
    let (mut seen, mut repeated) = (BTreeSet::new(), Vec::new());
    owners.retain(|owner| {
        let uid = owner["uid"].as_str().unwrap_or_default().to_owned();
        let first = seen.insert(uid.clone());
        if !first {
            repeated.push(uid);
        }
        first
    });
    (!repeated.is_empty()).then(|| format!("{DUPLICATE_OWNERS}{}", repeated.join(", ")))
}

/// Warnings about finalizers that only the new object has and whose names others may use too.
/// Upstream says so of custom resources only.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let before: BTreeSet<String> =
        old.map(|old| object::strings(old, "finalizers")).unwrap_or_default().into_iter().collect();
    let added: BTreeSet<String> = object::strings(new, "finalizers").into_iter().collect();
    // Finalizers that were there before are not brought up again with each update.
    let unqualified = |name: &&String| {
        !before.contains(*name) && !name.contains('/') && !STANDARD_FINALIZERS.contains(&name.as_str())
    };
    let warn = |name: &String| {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        format!(
            "metadata.finalizers: \"{name}\": prefer a domain-qualified finalizer name{path} to avoid accidental \
             conflicts with other finalizer writers"
        )
    };
    added.iter().filter(unqualified).map(warn).collect()
}

/// What a generated name starts with.
pub fn name_prefix(generate_name: &str) -> String {
    generate_name.chars().take(PREFIX_CHARS_MAX).collect()
}

/// Everything wrong with the metadata. `name_rule` is the spelling of names of this kind.
pub fn validate(object: &Value, namespaced: bool, name_rule: fn(&str) -> Vec<String>) -> Vec<Cause> {
    let metadata = &object["metadata"];
    let mut causes = Vec::new();
    let prefix = object::text(object, "generateName");
    if !prefix.is_empty() {
        let complaints = name_rule(&without_trailing_dash(prefix));
        causes.extend(complaints.iter().map(|c| Cause::invalid("metadata.generateName", &prefix.into(), c)));
    }
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
    validate_labels(&metadata["labels"], "metadata.labels", &mut causes);
    validate_annotations(&metadata["annotations"], "metadata.annotations", &mut causes);
    validate_owners(&metadata["ownerReferences"], &mut causes);
    validate_finalizers(&object::strings(object, "finalizers"), &mut causes);
    causes
}

/// A prefix is judged as a name that goes on: a dash at its end is not a mistake.
fn without_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            // As upstream's mask, two characters become one.
            let kept: String = rest.chars().take(rest.chars().count() - 1).collect();
            kept + "a"
        }
        _ => prefix.to_owned(),
    }
}

/// Upstream names the list, not the place in it.
fn validate_owners(owners: &Value, causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.ownerReferences";
    let (mut controller, mut named) = (None::<String>, 0);
    for owner in owners.as_array().into_iter().flatten() {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(field).is_empty() {
                let detail =
                    if field == "apiVersion" { "version must not be empty" } else { "must not be empty" };
                causes.push(Cause::invalid(format!("{FIELD}.{field}"), &"".into(), detail));
            }
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid(FIELD, owner, detail));
        }
        if owner["controller"] == true {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                None => controller = Some(this),
                // Each shows the whole list.
                Some(_) if named == CONTROLLERS_NAMED_MAX => {}
                Some(first) => {
                    named += 1;
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for \
                         {first} and {this}"
                    );
                    causes.push(Cause::invalid(FIELD, owners, &detail));
                }
            }
        }
    }
}

fn validate_finalizers(finalizers: &[String], causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.finalizers";
    for finalizer in finalizers {
        let complaints = naming::qualified_name(finalizer);
        causes.extend(complaints.iter().map(|c| Cause::invalid(FIELD, &finalizer.as_str().into(), c)));
    }
    let has = |wanted: &str| finalizers.iter().any(|name| name == wanted);
    if has(FOREGROUND) && has(ORPHAN) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        causes.push(Cause::invalid(FIELD, &finalizers.to_vec().into(), &detail));
    }
}

/// What an update of a terminating object may not do: add finalizers.
pub fn validate_update(new: &Value, old: &Value) -> Vec<Cause> {
    if !object::is_terminating(old) {
        return Vec::new();
    }
    let before: BTreeSet<String> = object::strings(old, "finalizers").into_iter().collect();
    let added: BTreeSet<String> =
        object::strings(new, "finalizers").into_iter().filter(|name| !before.contains(name)).collect();
    if added.is_empty() {
        return Vec::new();
    }
    // The list as Go prints it.
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
    );
    vec![Cause::forbidden("metadata.finalizers", &detail)]
}
