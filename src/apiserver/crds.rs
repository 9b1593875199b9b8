//! CustomResourceDefinitions: what the server fills in and checks, when one is established, and the
//! resources it makes served. Must not know stores or requests.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions/{v1/defaults.go,validation}`,
//! `pkg/controller/{status/naming_controller.go,establish}`, v0.35.
//! Intended difference: names are accepted and the definition is established in the same write.

use std::hash::Hasher as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::failure::Cause;
use super::object;
use super::resource::{Catalog, Resource, ScalePaths};
use super::schema::{Schema, crd};
use super::strategy::{Custom, LazySchema, Strategy};
use super::table::Columns;

/// Keeps a definition until its objects are gone. Added by the first delete.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in names and conversion, and what the status starts from.
pub fn prepare(definition: &mut Value) {
    crd::default(definition);
    definition["status"] = json!({ "conditions": [], "storedVersions": [] });
    refresh_status(definition);
}

/// The same for an update; the status follows a changed spec.
pub fn prepare_update(definition: &mut Value, old: &Value) {
    crd::default(definition);
    if definition["spec"] != old["spec"] {
        refresh_status(definition);
    }
}

/// Accepted names and stored versions follow the spec.
fn refresh_status(definition: &mut Value) {
    let stored = storage_version(definition).to_owned();
    definition["status"]["acceptedNames"] = definition["spec"]["names"].clone();
    let versions = &mut definition["status"]["storedVersions"];
    match versions.as_array_mut() {
        Some(list) if list.iter().any(|version| *version == stored.as_str()) => {}
        Some(list) => list.push(stored.into()),
        None => *versions = json!([stored]),
    }
}

fn storage_version(definition: &Value) -> &str {
    let versions = definition["spec"]["versions"].as_array();
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    stored.and_then(|version| version["name"].as_str()).unwrap_or_default()
}

/// Sets `NamesAccepted` and `Established` by what else is served.
pub fn establish(definition: &mut Value, catalog: &Catalog, now: &str) {
    let (names, established) = match conflict(definition, catalog) {
        None => (
            condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
            condition(
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
                now,
            ),
        ),
        Some((reason, name)) => {
            let message = format!("\"{name}\" is already in use");
            (
                condition("NamesAccepted", "False", reason, &message, now),
                condition("Established", "False", "NotAccepted", "not all names are accepted", now),
            )
        }
    };
    set_condition(definition, names);
    // Once established it stays so, whatever happens to its names.
    if !is_true(definition, "Established") {
        set_condition(definition, established);
    }
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

fn is_true(definition: &Value, type_: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == type_ && c["status"] == "True")
}

/// A name of the definition that another resource of the group has already.
fn conflict(definition: &Value, catalog: &Catalog) -> Option<(&'static str, String)> {
    let spec = &definition["spec"];
    let group = spec["group"].as_str()?;
    let own = object::name(definition);
    let others: Vec<_> = catalog
        .all()
        .filter(|r| r.group == group)
        .filter(|r| !matches!(&r.strategy, Strategy::Custom(custom) if custom.definition == own))
        .collect();
    let taken = |name: &str| {
        others
            .iter()
            .any(|r| r.plural == name || r.singular == name || r.short_names.iter().any(|s| s == name))
    };
    let kind_taken = |kind: &str| others.iter().any(|r| r.kind == kind || r.list_kind == kind);
    let text = |field: &str| spec["names"][field].as_str().unwrap_or_default().to_owned();
    let short_names = texts(&spec["names"]["shortNames"]);
    let checks = [
        ("ListKindConflict", Some(text("listKind")).filter(|name| kind_taken(name))),
        ("KindConflict", Some(text("kind")).filter(|name| kind_taken(name))),
        ("ShortNamesConflict", short_names.into_iter().find(|name| taken(name))),
        ("SingularConflict", Some(text("singular")).filter(|name| taken(name))),
        ("PluralConflict", Some(text("plural")).filter(|name| taken(name))),
    ];
    checks.into_iter().find_map(|(reason, name)| Some((reason, name?)))
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The resources a definition makes served, one per version; none before it is established.
/// With a conversion webhook, which is not called, only the storage version is served: converting
/// by renaming alone would lose fields without a word.
#[must_use]
pub fn resources(definition: &Value) -> Vec<Arc<Resource>> {
    if !is_true(definition, "Established") {
        return Vec::new();
    }
    let spec = &definition["spec"];
    let storage = storage_version(definition);
    let webhook = spec["conversion"]["strategy"] == "Webhook";
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .filter(|version| !webhook || version["storage"] == true)
        .map(|version| Arc::new(resource(definition, version, storage)))
        .collect()
}

/// Do both mean the same to clients?
#[must_use]
pub fn same(a: &Resource, b: &Resource) -> bool {
    let (Strategy::Custom(x), Strategy::Custom(y)) = (&a.strategy, &b.strategy) else { return false };
    x.version_tag == y.version_tag && a.terminating == b.terminating && a.storage_version == b.storage_version
}

fn resource(definition: &Value, version: &Value, storage: &str) -> Resource {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&names["plural"]));
    let name = text(&version["name"]);
    let deprecation = (version["deprecated"] == true).then(|| {
        let said = text(&version["deprecationWarning"]);
        if said.is_empty() { format!("{group}/{name} {} is deprecated", text(&names["kind"])) } else { said }
    });
    Resource {
        prefix: format!("/registry/{group}/{plural}/"),
        version: name,
        singular: text(&names["singular"]),
        kind: text(&names["kind"]),
        list_kind: text(&names["listKind"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        storage_version: storage.to_owned(),
        has_status: version["subresources"].get("status").is_some(),
        scale: scale(&version["subresources"]["scale"]),
        strategy: Strategy::Custom(custom(definition, version)),
        columns: Columns::custom(version),
        deprecation,
        terminating: object::is_terminating(definition),
        group,
        plural,
    }
}

fn scale(paths: &Value) -> Option<ScalePaths> {
    let pointer = |field: &str| paths[field].as_str().map(|path| path.replace('.', "/"));
    Some(ScalePaths {
        spec_replicas: pointer("specReplicasPath")?,
        status_replicas: pointer("statusReplicasPath")?,
        selector: pointer("labelSelectorPath"),
    })
}

fn custom(definition: &Value, version: &Value) -> Custom {
    let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let name = version["name"].as_str().unwrap_or_default().to_owned();
    // As text, until somebody needs it: a tenth of what it takes as a value.
    let schema = version["schema"]["openAPIV3Schema"].to_string();
    let schema_tag = tag(&(&name, &schema));
    let rest: Vec<String> = version
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, _)| *field != "schema")
        .map(|(field, value)| format!("{field}={value}"))
        .collect();
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    Custom {
        schema_tag,
        version_tag: tag(&(schema_tag, rest, definition["spec"]["names"].to_string())),
        selectable_fields: selectable
            .filter_map(|field| Some(field["jsonPath"].as_str()?.trim_start_matches('.').to_owned()))
            .collect(),
        schema: LazySchema::new(move || compile(&kind, &name, &schema)),
        definition: object::name(definition).to_owned(),
    }
}

fn compile(kind: &str, version: &str, schema: &str) -> Result<Schema, Vec<Cause>> {
    const AT: &str = "spec.validation.openAPIV3Schema";
    let schema: Value =
        serde_json::from_str(schema).map_err(|e| vec![Cause::invalid(AT, &Value::Null, &e.to_string())])?;
    Schema::custom(kind, version, &schema, AT)
}

/// Never 0, which is the tag of built-in kinds.
fn tag(content: &impl std::hash::Hash) -> u32 {
    let mut hasher = rustc_hash::FxHasher::default();
    content.hash(&mut hasher);
    let hash = hasher.finish();
    u32::try_from((hash ^ (hash >> 32)) & 0xffff_ffff).unwrap_or(1).max(1)
}
