//! The resources that a CustomResourceDefinition makes: one per served version, with its schema, columns and subresources.
//! Must not know how a definition is checked or established, nor stores or requests.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/customresource_handler.go`, v0.36.
//! Intended difference: a version that cannot be converted without losing fields is not served.

use std::hash::Hasher as _;
use std::sync::Arc;

use serde_json::Value;

use super::crds::{converts_without_loss, is_true, storage_version, texts, versions};
use super::strategy::{Custom, LazySchema, Strategy};
use super::{Resource, ScalePaths, compare_versions};
use crate::object;
use crate::schema::Schema;
use crate::table::Columns;
use k8s_machinery::validation::cause::Cause;

/// The resources a definition makes served, one per version; none before it is established.
pub fn resources(definition: &Value) -> Vec<Arc<Resource>> {
    if !is_true(definition, "Established") {
        return Vec::new();
    }
    let storage = storage_version(definition);
    let served = versions(definition).filter(|version| version["served"] == true);
    served
        .filter(|version| converts_without_loss(definition, version))
        .map(|version| Arc::new(resource(definition, version, storage)))
        .collect()
}

/// Do both mean the same to clients?
pub fn same(a: &Resource, b: &Resource) -> bool {
    let (Strategy::Custom(x), Strategy::Custom(y)) = (&a.strategy, &b.strategy) else { return false };
    x.version_tag == y.version_tag && a.terminating == b.terminating && a.storage_version == b.storage_version
}

fn resource(definition: &Value, version: &Value, storage: &str) -> Resource {
    let spec = &definition["spec"];
    // The accepted names count: those in the spec may be another definition's.
    let names = &definition["status"]["acceptedNames"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&names["plural"]));
    let name = text(&version["name"]);
    let deprecation = (version["deprecated"] == true).then(|| deprecation(definition, version));
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

/// The warning that every request to a deprecated version gets.
fn deprecation(definition: &Value, version: &Value) -> String {
    if let Some(said) = version["deprecationWarning"].as_str() {
        return said.to_owned();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind) = (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["kind"]));
    let name = text(&version["name"]);
    let better = versions(definition)
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .map(|other| text(&other["name"]))
        .filter(|other| compare_versions(other, &name).is_lt())
        .min_by(|a, b| compare_versions(a, b));
    let instead = better.map(|better| format!("; use {group}/{better} {kind}")).unwrap_or_default();
    format!("{group}/{name} {kind} is deprecated{instead}")
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
    // As text until it is needed: a tenth of what it takes as a value.
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
        version_tag: tag(&(schema_tag, rest, definition["status"]["acceptedNames"].to_string())),
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
    Schema::stored(kind, version, &schema, AT)
}

/// Never 0, which is the tag of built-in kinds.
fn tag(content: &impl std::hash::Hash) -> u32 {
    // The tag is stored: should the hash ever change, objects are fitted anew when they are read.
    let mut hasher = rustc_hash::FxHasher::default();
    content.hash(&mut hasher);
    let hash = hasher.finish();
    u32::try_from((hash ^ (hash >> 32)) & 0xffff_ffff).unwrap_or(1).max(1)
}
