//! A kind of our own, Thing, and what a server is made of that serves it.

use std::sync::Arc;

use capi_rules::admission::Webhooks;
use capstan_apiserver::{Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

/// With a status, a scale, a column, a default, an enum and bounds.
pub fn definition() -> CustomResourceDefinition {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "subresources": { "status": {}, "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector" } },
        "additionalPrinterColumns": [{ "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas" }],
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "replicas": { "type": "integer", "minimum": 0 },
                "mode": { "type": "string", "default": "fast", "enum": ["fast", "slow"] },
                "note": { "type": "string", "maxLength": 20 } } },
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } } },
    });
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.io" },
        "spec": { "group": "example.io", "scope": "Namespaced", "versions": [version],
            "names": { "kind": "Thing", "plural": "things", "shortNames": ["th"] } },
    }))
    .expect("a definition")
}

/// Definitions that are served from the start; tokens are `admin-token` and `viewer-token`.
pub fn options(definitions: Vec<CustomResourceDefinition>) -> Options {
    let tokens = Tokens { admin: "admin-token".to_owned(), read_only: "viewer-token".to_owned() };
    Options {
        clock: Clock::system(),
        rng: Rng::seeded(7),
        definitions,
        tokens,
        admission: Arc::new(Webhooks),
    }
}
