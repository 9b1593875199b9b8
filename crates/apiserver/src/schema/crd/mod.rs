//! What a CustomResourceDefinition itself must satisfy, and the defaults it gets.
//! Owns identity, status and updates; `names` and `versions` own their parts. Must not know instances
//! or how definitions become served resources.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions/{v1/defaults.go,validation/validation.go}`,
//! v0.36.
//! Intended difference: a spec that did not change is not judged again, so that a server that checks
//! more than the one before never blocks a status write.

mod conversion;
mod names;
mod versions;

use serde_json::{Value, json};

use super::Cause;
use k8s_machinery::validation::naming;

const APPROVED: &str = "api-approved.kubernetes.io";

/// Fills what the author left to the server.
pub fn default(definition: &mut Value) {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut fill = |key: &str, value: String| {
            let missing = names.get(key).and_then(Value::as_str).unwrap_or_default().is_empty();
            if missing && !kind.is_empty() {
                names.insert(key.to_owned(), Value::from(value));
            }
        };
        fill("singular", kind.to_lowercase());
        fill("listKind", format!("{kind}List"));
    }
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(service) = conversion.pointer_mut("/webhook/clientConfig/service")
        && service.is_object()
        && service["port"].is_null()
    {
        service["port"] = json!(443);
    }
}

/// Everything wrong with a (defaulted) definition; with `old`, also what must not change.
pub fn check(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if old.is_none() {
        name(definition, &mut causes);
    }
    if old.is_none_or(|old| old["spec"] != definition["spec"]) {
        group_and_scope(definition, &mut causes);
        versions::check(definition, old, &mut causes);
        names::required(&definition["spec"]["names"], &mut causes);
        names::check(&definition["spec"]["names"], "spec.names", &mut causes);
        conversion::check(&definition["spec"]["conversion"], &mut causes);
        stored_versions(definition, &mut causes);
        preserve_unknown(definition, &mut causes);
        if let Some(old) = old {
            immutable(definition, old, &mut causes);
        }
    }
    names::check(&definition["status"]["acceptedNames"], "status.acceptedNames", &mut causes);
    approval(definition, old, &mut causes);
    causes
}

/// What a writer of a definition should know although it is accepted: formats that mean nothing
/// here. With `old`, only what is new.
pub fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(versions::unknown_formats).unwrap_or_default();
    let mut new = versions::unknown_formats(definition);
    new.retain(|format| !known.contains(format));
    new.into_iter().map(|format| format!("unrecognized format \"{format}\"")).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn name(definition: &Value, causes: &mut Vec<Cause>) {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let name = text(definition, "/metadata/name");
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &json!(name), detail));
    }
}

fn group_and_scope(definition: &Value, causes: &mut Vec<Cause>) {
    let group = text(definition, "/spec/group");
    let complaints = naming::dns_subdomain(group);
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if !complaints.is_empty() {
        causes.push(Cause::invalid("spec.group", &json!(group), &complaints.join(",")));
    } else if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", &json!(group), "should be a domain with at least one dot"));
    }
    match text(definition, "/spec/scope") {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(Cause::required("spec.scope", "")),
        other => causes.push(Cause::not_supported("spec.scope", &json!(other), &["Cluster", "Namespaced"])),
    }
}

fn preserve_unknown(definition: &Value, causes: &mut Vec<Cause>) {
    if definition["spec"]["preserveUnknownFields"] == json!(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", &json!(true), detail));
    }
}

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Given,
    Bypassed,
}

fn approval_of(definition: &Value) -> Approval {
    let annotation = definition["metadata"]["annotations"][APPROVED].as_str().unwrap_or_default();
    if annotation.is_empty() {
        Approval::Missing
    } else if annotation.starts_with("unapproved") {
        Approval::Bypassed
    } else if annotation
        .parse::<http::Uri>()
        .is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some_and(|host| !host.is_empty()))
    {
        Approval::Given
    } else {
        Approval::Invalid
    }
}

/// Groups of the Kubernetes community need a sign of approval. `*.x-k8s.io` do not.
fn approval(definition: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let group = text(definition, "/spec/group");
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|p| group == *p || group.ends_with(&format!(".{p}")));
    let approval = approval_of(definition);
    // An annotation that is as wrong as it was blocks no other change.
    if !protected || old.is_some_and(|old| approval_of(old) == approval) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let must = format!("protected groups must have approval annotation \"{APPROVED}\"");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match approval {
        Approval::Missing => causes.push(Cause::required(field, &format!("{must}, {see}"))),
        Approval::Invalid => {
            let detail = format!("{must} with either a URL or a reason starting with \"unapproved\", {see}");
            causes.push(Cause::invalid(field, &definition["metadata"]["annotations"][APPROVED], &detail));
        }
        Approval::Given | Approval::Bypassed => {}
    }
}

fn stored_versions(definition: &Value, causes: &mut Vec<Cause>) {
    const FIELD: &str = "status.storedVersions";
    let stored = &definition["status"]["storedVersions"];
    let names = stored.as_array().map(Vec::as_slice).unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    // A definition that was never stored has no status yet.
    if definition["status"].is_null() {
        return;
    }
    if names.is_empty() {
        return causes.push(Cause::invalid(FIELD, &Value::Null, "must have at least one stored version"));
    }
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !names.contains(&version["name"]) {
            let detail = format!("must have the storage version {}", text(version, "/name"));
            causes.push(Cause::invalid(FIELD, stored, &detail));
        }
    }
    for (index, name) in names.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let v = name.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {v} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {v} and removes {v} from \
                 status.storedVersions"
            );
            causes.push(Cause::invalid(format!("{FIELD}[{index}]"), name, &detail));
        }
    }
}

fn immutable(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    // A definition that was never established has no objects, so scope and kind may still change.
    let established = old["status"]["conditions"]
        .as_array()
        .is_some_and(|all| all.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
    for (pointer, always) in [
        ("/spec/scope", false),
        ("/spec/names/kind", false),
        ("/spec/group", true),
        ("/spec/names/plural", true),
    ] {
        if (always || established) && new.pointer(pointer) != old.pointer(pointer) {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            let value = new.pointer(pointer).cloned().unwrap_or_default();
            causes.push(Cause::invalid(field, &value, "field is immutable"));
        }
    }
}
