//! What a CustomResourceDefinition itself must satisfy, and the defaults it gets.
//! Must not know instances or how definitions become served resources.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions/{v1/defaults.go,validation/validation.go}`,
//! v0.35.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Cause, Schema};
use crate::apiserver::naming;
use crate::apiserver::table::Columns;

const APPROVED: &str = "api-approved.kubernetes.io";
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

/// Fills what the author left to the server.
pub fn default(definition: &mut Value) {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut fill = |key: &str, value: String| {
            if names.get(key).and_then(Value::as_str).unwrap_or_default().is_empty() {
                names.insert(key.to_owned(), Value::from(value));
            }
        };
        fill("singular", kind.to_lowercase());
        fill("listKind", format!("{kind}List"));
    }
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(conversion) = conversion.as_object_mut().filter(|c| !c.contains_key("strategy")) {
        conversion.insert("strategy".to_owned(), json!("None"));
    }
}

/// The path of a version's schema in complaints.
#[must_use]
pub fn schema_path(versions: usize, index: usize) -> String {
    if versions == 1 {
        "spec.validation.openAPIV3Schema".to_owned()
    } else {
        format!("spec.versions[{index}].schema.openAPIV3Schema")
    }
}

/// Everything wrong with a (defaulted) definition; with `old`, also what must not change.
#[must_use]
pub fn check(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    identity(definition, &mut causes);
    names(&definition["spec"]["names"], &mut causes);
    versions(definition, &mut causes);
    if let Some(old) = old {
        immutable(definition, old, &mut causes);
    }
    causes
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn identity(definition: &Value, causes: &mut Vec<Cause>) {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let name = text(definition, "/metadata/name");
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &json!(name), detail));
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Some(complaint) = naming::dns_subdomain(group).first() {
        causes.push(Cause::invalid("spec.group", &json!(group), complaint));
    } else if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    }
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|p| group == *p || group.ends_with(&format!(".{p}")));
    if protected && !group.ends_with("x-k8s.io") && definition["metadata"]["annotations"][APPROVED].is_null()
    {
        let detail = format!(
            "protected groups must have approval annotation \"{APPROVED}\", see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        causes.push(Cause::required(format!("metadata.annotations[{APPROVED}]"), &detail));
    }
    match text(definition, "/spec/scope") {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(Cause::required("spec.scope", "")),
        other => causes.push(Cause::not_supported("spec.scope", &json!(other), &["Cluster", "Namespaced"])),
    }
    if definition["spec"]["preserveUnknownFields"] == json!(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &json!(true), detail));
    }
}

fn names(names: &Value, causes: &mut Vec<Cause>) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let name = text(names, &format!("/{key}"));
        let field = format!("spec.names.{key}");
        if name.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if let Some(complaint) = naming::dns_label(&name.to_lowercase()).first() {
            let detail = if name == name.to_lowercase() {
                complaint.clone()
            } else {
                format!("may have mixed case, but should otherwise match: {complaint}")
            };
            causes.push(Cause::invalid(field, &json!(name), &detail));
        }
    }
    let kind = text(names, "/kind");
    if !kind.is_empty() && kind == text(names, "/listKind") {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &json!(kind), detail));
    }
}

fn versions(definition: &Value, causes: &mut Vec<Cause>) {
    let empty = Vec::new();
    let versions = definition["spec"]["versions"].as_array().unwrap_or(&empty);
    if versions.is_empty() {
        causes.push(Cause::required("spec.versions", "must have at least one version"));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        let name = text(version, "/name");
        if let Some(complaint) = naming::dns_label(name).first() {
            causes.push(Cause::invalid(format!("{at}.name"), &json!(name), complaint));
        }
        if !seen.insert(name) {
            causes.push(Cause::invalid("spec.versions", &json!(name), "must contain unique version names"));
        }
        schema(definition, version, &schema_path(versions.len(), index), causes);
        columns(version, &at, causes);
        scale(version, &at, causes);
    }
    if versions.iter().filter(|version| version["storage"] == json!(true)).count() != 1 {
        let names: Vec<_> = versions.iter().map(|version| version["name"].clone()).collect();
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &Value::Array(names), detail));
    }
}

fn schema(definition: &Value, version: &Value, at: &str, causes: &mut Vec<Cause>) {
    match version.pointer("/schema/openAPIV3Schema") {
        Some(schema @ Value::Object(_)) => {
            let kind = text(definition, "/spec/names/kind");
            if let Err(found) = Schema::custom(kind, text(version, "/name"), schema, at) {
                causes.extend(found);
            }
        }
        _ => causes.push(Cause::required(at, "schemas are required")),
    }
}

fn columns(version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let columns = version["additionalPrinterColumns"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, column) in columns.iter().enumerate() {
        let at = format!("{at}.additionalPrinterColumns[{index}]");
        if text(column, "/name").is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        let type_ = text(column, "/type");
        if !COLUMN_TYPES.contains(&type_) {
            causes.push(Cause::not_supported(format!("{at}.type"), &json!(type_), &COLUMN_TYPES));
        }
        let path = text(column, "/jsonPath");
        if path.is_empty() {
            causes.push(Cause::required(format!("{at}.jsonPath"), ""));
        } else if let Err(problem) = Columns::check_path(path) {
            causes.push(Cause::invalid(format!("{at}.jsonPath"), &json!(path), &problem));
        }
    }
}

fn scale(version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let Some(scale) = version.pointer("/subresources/scale") else { return };
    for (key, roots, required) in [
        ("specReplicasPath", &[".spec."][..], true),
        ("statusReplicasPath", &[".status."][..], true),
        ("labelSelectorPath", &[".spec.", ".status."][..], false),
    ] {
        let path = text(scale, &format!("/{key}"));
        let field = format!("{at}.subresources.scale.{key}");
        if path.is_empty() {
            if required {
                causes.push(Cause::required(field, ""));
            }
        } else if path.contains(['[', ']', '*']) || !roots.iter().any(|root| path.starts_with(root)) {
            let roots: Vec<_> = roots.iter().map(|root| root.trim_end_matches('.')).collect();
            let detail = format!("should be a json path under {}", roots.join(" or "));
            causes.push(Cause::invalid(field, &json!(path), &detail));
        }
    }
}

fn immutable(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let established = old["status"]["conditions"]
        .as_array()
        .is_some_and(|all| all.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
    for (pointer, always) in [
        ("/spec/group", true),
        ("/spec/names/plural", true),
        ("/spec/scope", false),
        ("/spec/names/kind", false),
    ] {
        if (always || established) && new.pointer(pointer) != old.pointer(pointer) {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            let value = new.pointer(pointer).cloned().unwrap_or_default();
            causes.push(Cause::invalid(field, &value, "field is immutable"));
        }
    }
    let stored = new["status"]["storedVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let versions = new["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let detail = "must appear in spec.versions";
            causes.push(Cause::invalid(format!("status.storedVersions[{index}]"), name, detail));
        }
    }
}
