//! Statements 111-130: server-side apply and managedFields. Here is what they all begin with.

mod merging;
mod refusals;
mod tracking;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{APPLY, Answer, Site};
use crate::things::definition;

const GEARS: &str = "/apis/example.io/v1/namespaces/default/gears";

/// `gears.example.io`: something that merges in every way.
fn gears() -> CustomResourceDefinition {
    let text = json!({"type": "string"});
    let condition =
        json!({"type": "object", "required": ["type"], "properties": {"type": text, "status": text}});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "image": text, "mode": {"type": "string", "default": "fast"},
            "inner": {"type": "object", "properties": {"a": text, "b": text}},
            "unit": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
            "plain": {"type": "array", "items": text},
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"},
            "conditions": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"], "items": condition}}}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.io"},
        "spec": {"group": "example.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "Gear", "plural": "gears"}},
    }))
    .expect("a definition")
}

/// Null: without a spec.
fn gear(spec: Value) -> Value {
    let mut object = json!({"apiVersion": "example.io/v1", "kind": "Gear", "metadata": {"name": "g"}});
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

async fn site() -> Site {
    Site::serving(vec![gears(), definition()]).await
}

impl Site {
    async fn apply(&self, path: &str, manager: &str, object: &Value) -> Answer {
        self.patch(&format!("{path}?fieldManager={manager}"), APPLY, object).await
    }

    /// Applies a gear `g`, which must go well.
    async fn gear(&self, manager: &str, spec: Value) -> Value {
        let answer = self.apply(&format!("{GEARS}/g"), manager, &gear(spec)).await;
        assert!(matches!(answer.code, 200 | 201), "{}", answer.text());
        answer.json()
    }

    async fn shown(&self, path: &str) -> Value {
        self.get(path).await.expect(200).json()
    }
}

/// One line per entry: manager, operation and subresource, then the fields as JSON.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    let line = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let below =
            if text("subresource").is_empty() { String::new() } else { format!("/{}", text("subresource")) };
        format!("{} {}{below} {}", text("manager"), text("operation"), entry["fieldsV1"])
    };
    entries.iter().map(line).collect()
}
