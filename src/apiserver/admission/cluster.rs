//! Cluster. Source: `core/webhooks/admission/cluster.go`.

use serde_json::{Value, json};

use super::value::{check_version, prefix_version, text};
use crate::apiserver::failure::Cause;
use crate::apiserver::naming;

pub(super) fn default(_: Option<&Value>, cluster: &mut Value) {
    prefix_version(cluster, "/spec/topology/version");
}

pub(super) fn check(old: Option<&Value>, cluster: &Value, causes: &mut Vec<Cause>) {
    let name = text(cluster, "/metadata/name");
    if let Some(complaint) = naming::label_value(name).first() {
        let detail = format!("must be a valid label value {complaint}");
        causes.push(Cause::invalid("metadata.name", &json!(name), &detail));
    }
    let has = |object: &Value, field: &str| !object["spec"][field].is_null();
    if !["controlPlaneRef", "infrastructureRef", "topology"].iter().any(|field| has(cluster, field)) {
        let detail = "one of spec.controlPlaneRef, spec.infrastructureRef or spec.topology must be set";
        causes.push(Cause::forbidden("spec", detail));
    }
    if let Some(old) = old {
        for field in ["controlPlaneRef", "infrastructureRef"] {
            if has(old, field) && !has(cluster, field) {
                causes.push(Cause::forbidden(format!("spec.{field}"), "cannot be removed"));
            }
        }
        if has(old, "topology") && !has(cluster, "topology") {
            causes.push(Cause::forbidden("spec.topology", "cannot be removed from an existing Cluster"));
        }
    }
    check_version(cluster, "/spec/topology/version", causes);
    for network in ["pods", "services"] {
        let blocks = &cluster["spec"]["clusterNetwork"][network]["cidrBlocks"];
        for (index, block) in blocks.as_array().into_iter().flatten().enumerate() {
            if !block.as_str().is_some_and(is_cidr) {
                let field = format!("spec.clusterNetwork.{network}.cidrBlocks[{index}]");
                let detail = format!("invalid CIDR address: {}", block.as_str().unwrap_or_default());
                causes.push(Cause::invalid(field, block, &detail));
            }
        }
    }
}

fn is_cidr(text: &str) -> bool {
    crate::apiserver::schema::format::is_cidr(text)
}
