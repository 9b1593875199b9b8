//! Whole objects inside of objects: their `apiVersion`, `kind` and `metadata`. Judges nothing else.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/objectmeta/validation.go`, v0.36.

use serde_json::Value;

use super::{Cause, Node, Path};
use crate::object::metadata;
use k8s_machinery::validation::naming;

/// What is wrong with embedded objects anywhere below `root`, which is not embedded itself.
pub(super) fn check(root: &Node, value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    root.children(Path::Root, value, &mut |node, path, value| walk(node, path, value, &mut causes));
    causes
}

fn walk(node: &Node, path: Path<'_>, value: &Value, out: &mut Vec<Cause>) {
    if !node.has_keyed_lists {
        return;
    }
    if node.embedded && value.is_object() {
        object(path, value, out);
    }
    node.children(path, value, &mut |node, path, value| walk(node, path, value, out));
}

fn object(path: Path<'_>, value: &Value, out: &mut Vec<Cause>) {
    for key in ["apiVersion", "kind"] {
        let field = || path.key(key).to_string();
        match value.get(key) {
            None => out.push(Cause::required(field(), "")),
            Some(Value::String(text)) if text.is_empty() => {
                out.push(Cause::invalid(field(), &value[key], "must not be empty"));
            }
            Some(Value::String(text)) => spelling(key, text, &field(), out),
            Some(other) => out.push(Cause::invalid(field(), other, "must be a string")),
        }
    }
    let Some(found) = value.get("metadata") else { return };
    if !found.is_object() {
        return out.push(Cause::invalid(path.key("metadata").to_string(), found, "must be an object"));
    }
    let mut named = value.clone();
    // Upstream gives an object without a name one, so that only other faults are found.
    if named["metadata"]["name"].as_str().unwrap_or_default().is_empty() {
        named["metadata"]["name"] = "fakename".into();
    }
    // The scope of the kind is not known; a namespace in the object makes it a namespaced one.
    let namespaced = !named["metadata"]["namespace"].as_str().unwrap_or_default().is_empty();
    let found = metadata::validate(&named, namespaced, path_segment);
    out.extend(found.into_iter().map(|cause| {
        let field = path.key(&cause.field).to_string();
        Cause { field, ..cause }
    }));
}

fn spelling(key: &str, text: &str, field: &str, out: &mut Vec<Cause>) {
    if key == "apiVersion" {
        if text.matches('/').count() > 1 {
            let detail = format!("unexpected GroupVersion string: {text}");
            out.push(Cause::invalid(field, &text.into(), &detail));
        }
        return;
    }
    let complaints = naming::dns_1035_label(&text.to_lowercase());
    if !complaints.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
        out.push(Cause::invalid(field, &text.into(), &detail));
    }
}

/// A name that can stand in a URL.
fn path_segment(name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if matches!(name, "." | "..") {
        complaints.push(format!("may not be '{name}'"));
    }
    for c in ['/', '%'] {
        if name.contains(c) {
            complaints.push(format!("may not contain '{c}'"));
        }
    }
    complaints
}
