//! Cluster, as far as it needs no other object; what its topology has to do with its class is in
//! `topology`.
//!
//! Source: cluster-api `core/webhooks/admission/cluster.go`, v1.14.2. Variables are neither defaulted
//! nor checked: there is no variables engine.

use serde_json::{Value, json};

use super::finding::{Denial, Findings};
use super::parts::{check_metadata, check_name, check_rollout_strategy, check_taints};
use super::value::{annotation, at, is_defined, items, items_at, set, text};
use super::{Request, Review, topology};
use capi_types::names::annotation as key;
use k8s_machinery::validation::address::is_cidr;
use k8s_machinery::validation::cause::Cause;
use k8s_machinery::version;

pub(super) fn default(_: &Request<'_>, cluster: &mut Value) -> Result<(), Denial> {
    if !is_defined(at(cluster, "/spec/topology")) {
        return Ok(());
    }
    // Also an empty version gets its letter, and is refused for the rest.
    let version = text(cluster, "/spec/topology/version");
    if !version.starts_with('v') {
        let version = format!("v{version}");
        set(cluster, &["spec", "topology"], "version", json!(version));
    }
    if text(cluster, "/spec/topology/classRef/name").is_empty() {
        // Upstream reads the class while it fills in defaults, and cannot do so without a name.
        return Err(Denial::Cause(Cause::required("spec.topology.classRef.name", "cannot be empty")));
    }
    Ok(())
}

pub(super) fn check(review: &Review<'_>, out: &mut Findings) {
    let cluster = review.new;
    check_name(cluster, "must be a valid label value", out);
    let has = |object: &Value, field: &str| is_defined(&object["spec"][field]);
    let lost = |field: &str| review.old.is_some_and(|old| has(old, field)) && !has(cluster, field);
    if lost("infrastructureRef") {
        out.forbidden("spec.infrastructureRef", "cannot be removed");
    }
    if !["controlPlaneRef", "infrastructureRef", "topology"].iter().any(|field| has(cluster, field)) {
        let detail = "one of spec.controlPlaneRef, spec.infrastructureRef or spec.topology must be set";
        out.forbidden("spec", detail);
    }
    if lost("controlPlaneRef") {
        out.forbidden("spec.controlPlaneRef", "cannot be removed");
    }
    check_networks(cluster, out);
    if has(cluster, "topology") {
        check_topology(review, out);
    }
    if lost("topology") {
        out.forbidden("spec.topology", "cannot be removed from an existing Cluster");
    }
}

fn check_networks(cluster: &Value, out: &mut Findings) {
    for network in ["pods", "services"] {
        let field = format!("spec.clusterNetwork.{network}.cidrBlocks");
        let blocks = items(at(cluster, &format!("/spec/clusterNetwork/{network}/cidrBlocks")));
        for (index, block) in blocks.iter().enumerate() {
            let cidr = block.as_str().unwrap_or_default();
            if !is_cidr(cidr) {
                out.invalid(format!("{field}[{index}]"), block, &format!("invalid CIDR address: {cidr}"));
            }
        }
    }
}

fn check_topology(review: &Review<'_>, out: &mut Findings) {
    let topology = at(review.new, "/spec/topology");
    if text(topology, "/classRef/name").is_empty() {
        // Nothing more is checked: all further rules compare with the class.
        return out.required("spec.topology.class", "classRef.name cannot be empty");
    }
    let version = text(topology, "/version");
    if !version.starts_with('v') {
        out.invalid("spec.topology.version", &json!(version), "must start with v");
    }
    if !version::is_strict(version) {
        let detail = "version must be a valid semantic version";
        out.invalid("spec.topology.version", &json!(version), detail);
    }
    check_members(topology, out);
    check_concurrency(review.new, out);
    topology::check(review, out);
}

/// The control plane and the groups of workers: metadata, rollouts, taints.
fn check_members(topology: &Value, out: &mut Findings) {
    let control_plane = "spec.topology.controlPlane";
    let plane = &topology["controlPlane"];
    check_metadata(&plane["metadata"], &format!("{control_plane}.metadata"), out);
    check_taints(&plane["taints"], &format!("{control_plane}.taints"), out);
    for list in ["machineDeployments", "machinePools"] {
        for member in items_at(topology, &format!("/workers/{list}")) {
            let field = format!("spec.topology.workers.{list}[{}]", text(member, "/name"));
            check_metadata(&member["metadata"], &format!("{field}.metadata"), out);
            if list == "machineDeployments" {
                let strategy = at(member, "/rollout/strategy");
                check_rollout_strategy(strategy, &format!("{field}.rollout.strategy"), out);
            }
            check_taints(&member["taints"], &format!("{field}.taints"), out);
        }
    }
}

/// How many groups of workers are upgraded at once.
fn check_concurrency(cluster: &Value, out: &mut Findings) {
    let Some(value) = annotation(cluster, key::TOPOLOGY_UPGRADE_CONCURRENCY) else { return };
    let field = format!("metadata.annotations.{}", key::TOPOLOGY_UPGRADE_CONCURRENCY);
    match value.parse::<i64>() {
        Err(_) => {
            let detail = format!(
                "could not parse the value of the annotation: strconv.Atoi: parsing {value:?}: invalid syntax"
            );
            out.invalid(field, &json!(value), &detail);
        }
        Ok(groups) if groups < 1 => out.invalid(field, &json!(value), "value cannot be less than 1"),
        Ok(_) => {}
    }
}
