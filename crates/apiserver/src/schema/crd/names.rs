//! Names of a CustomResourceDefinition: spelling only. Must not know whether another definition has them.

use serde_json::{Value, json};

use super::{Cause, text};
use k8s_machinery::validation::naming;

/// Names that a spec must have, unlike a status.
pub(super) fn required(names: &Value, causes: &mut Vec<Cause>) {
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(names, &format!("/{key}")).is_empty() {
            causes.push(Cause::required(format!("spec.names.{key}"), ""));
        }
    }
}

/// Names that are there, under the path `at`.
pub(super) fn check(names: &Value, at: &str, causes: &mut Vec<Cause>) {
    for key in ["plural", "singular"] {
        label(&names[key], format!("{at}.{key}"), causes);
    }
    for key in ["kind", "listKind"] {
        let name = text(names, &format!("/{key}"));
        let complaints = naming::dns_1035_label(&name.to_lowercase());
        if !name.is_empty() && !complaints.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
            causes.push(Cause::invalid(format!("{at}.{key}"), &json!(name), &detail));
        }
    }
    list(&names["shortNames"], &format!("{at}.shortNames"), causes);
    let kind = text(names, "/kind");
    if !kind.is_empty() && kind == text(names, "/listKind") {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid(format!("{at}.listKind"), &json!(kind), detail));
    }
    list(&names["categories"], &format!("{at}.categories"), causes);
}

fn list(names: &Value, at: &str, causes: &mut Vec<Cause>) {
    for (index, name) in names.as_array().into_iter().flatten().enumerate() {
        let text = name.as_str().unwrap_or_default();
        let complaints = naming::dns_1035_label(text);
        if !complaints.is_empty() {
            causes.push(Cause::invalid(format!("{at}[{index}]"), name, &complaints.join(",")));
        }
    }
}

fn label(name: &Value, field: String, causes: &mut Vec<Cause>) {
    let text = name.as_str().unwrap_or_default();
    let complaints = naming::dns_1035_label(text);
    if !text.is_empty() && !complaints.is_empty() {
        causes.push(Cause::invalid(field, name, &complaints.join(",")));
    }
}
