//! MachineDeployment, MachineSet, Machine, MachinePool, MachineHealthCheck.
//!
//! Source: cluster-api `core/webhooks/admission/{machinedeployment,machineset,machine,machinepool,
//! machinehealthcheck}.go`, v1.14.2.

use serde_json::{Value, json};

use super::finding::{Denial, Findings};
use super::naming_template::check_machine_naming;
use super::parts::{
    check_fixed, check_health_limits, check_max_in_flight, check_metadata, check_name,
    check_rollout_strategy, check_taints, check_version, check_worker_taints, dotted,
};
use super::selector::Selector;
use super::value::{annotation, at, fill, is_defined, items, label_cluster, prefix_version, set, text};
use super::{Request, Review};
use capi_types::names::{annotation as key, label};
use capi_types::preflight::{ALL_CHECKS, PreflightCheck};
use k8s_machinery::validation::naming;

/// How long the deletion of a node is retried.
const NODE_DELETION_TIMEOUT_S: i64 = 10;
/// How long a machine may take to get its node before it counts as unhealthy.
const NODE_STARTUP_TIMEOUT_S: i64 = 600;

const MATCH_LABELS: [&str; 3] = ["spec", "selector", "matchLabels"];
const TEMPLATE_LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];

pub(super) fn default_deployment(request: &Request<'_>, deployment: &mut Value) -> Result<(), Denial> {
    label_cluster(deployment);
    default_replicas(request, deployment)?;
    let strategy = ["spec", "rollout", "strategy"];
    fill(deployment, &strategy, "type", json!("RollingUpdate"));
    if text(deployment, "/spec/rollout/strategy/type") == "RollingUpdate" {
        let rolling = ["spec", "rollout", "strategy", "rollingUpdate"];
        fill(deployment, &rolling, "maxSurge", json!(1));
        fill(deployment, &rolling, "maxUnavailable", json!(0));
    }
    let name = text(deployment, "/metadata/name").to_owned();
    default_selector(deployment, label::DEPLOYMENT_NAME, &name);
    let cluster = text(deployment, "/spec/clusterName").to_owned();
    if !cluster.is_empty() {
        // Set even when it is there: Machines of another Cluster must never be selected.
        set(deployment, &MATCH_LABELS, label::CLUSTER_NAME, json!(cluster));
        set(deployment, &TEMPLATE_LABELS, label::CLUSTER_NAME, json!(cluster));
    }
    prefix_version(deployment, "/spec/template/spec/version");
    Ok(())
}

pub(super) fn default_set(request: &Request<'_>, set: &mut Value) -> Result<(), Denial> {
    label_cluster(set);
    default_replicas(request, set)?;
    // Unlike that of a MachineDeployment, its name may be longer than a label's value.
    let name = naming::to_label_value(text(set, "/metadata/name"));
    default_selector(set, label::SET_NAME, &name);
    prefix_version(set, "/spec/template/spec/version");
    Ok(())
}

/// An owner without a selector owns what carries its name.
fn default_selector(owner: &mut Value, key: &str, name: &str) {
    let selector = at(owner, "/spec/selector");
    let empty = |part: &str| match &selector[part] {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    // A selector that is only expressions is one, and must not be narrowed.
    if empty("matchLabels") && empty("matchExpressions") {
        set(owner, &MATCH_LABELS, key, json!(name));
        set(owner, &TEMPLATE_LABELS, key, json!(name));
    }
}

pub(super) fn default_machine(_: &Request<'_>, machine: &mut Value) -> Result<(), Denial> {
    label_cluster(machine);
    prefix_version(machine, "/spec/version");
    let deletion = ["spec", "deletion"];
    fill(machine, &deletion, "nodeDeletionTimeoutSeconds", json!(NODE_DELETION_TIMEOUT_S));
    Ok(())
}

pub(super) fn default_pool(request: &Request<'_>, pool: &mut Value) -> Result<(), Denial> {
    label_cluster(pool);
    default_replicas(request, pool)?;
    let deletion = ["spec", "template", "spec", "deletion"];
    fill(pool, &deletion, "nodeDeletionTimeoutSeconds", json!(NODE_DELETION_TIMEOUT_S));
    prefix_version(pool, "/spec/template/spec/version");
    Ok(())
}

pub(super) fn default_health_check(_: &Request<'_>, check: &mut Value) -> Result<(), Denial> {
    label_cluster(check);
    fill(check, &["spec", "checks"], "nodeStartupTimeoutSeconds", json!(NODE_STARTUP_TIMEOUT_S));
    Ok(())
}

/// Replicas when they are not given: what the autoscaler's bounds allow, or one.
fn default_replicas(request: &Request<'_>, new: &mut Value) -> Result<(), Denial> {
    if !at(new, "/spec/replicas").is_null() {
        return Ok(());
    }
    let bounds = [key::AUTOSCALER_MIN_SIZE, key::AUTOSCALER_MAX_SIZE];
    let replicas = match bounds.map(|bound| annotation(new, bound).map(|value| (bound, value))) {
        [Some(min), Some(max)] => {
            let min = node_group_size(request.kind, min)?;
            let max = node_group_size(request.kind, max)?;
            let before = request.old.and_then(|old| at(old, "/spec/replicas").as_i64());
            // Not `clamp`, which panics where people wrote a minimum above the maximum.
            before.map_or(min, |before| if before < min { min } else { before.min(max) })
        }
        _ => 1,
    };
    set(new, &["spec"], "replicas", json!(replicas));
    Ok(())
}

fn node_group_size(kind: &str, (key, value): (&str, &str)) -> Result<i64, Denial> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    value.parse::<i32>().map(i64::from).map_err(|error| {
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        // The misspelling is upstream's.
        Denial::Sentence(format!(
            "failed to caculate {kind} replicas value: could not parse the value of the {key:?} annotation: \
             strconv.ParseInt: parsing {value:?}: {why}"
        ))
    })
}

pub(super) fn check_deployment(review: &Review<'_>, out: &mut Findings) {
    let deployment = review.new;
    check_name(deployment, "must be a valid label value:", out);
    check_bootstrap(deployment, "/spec/template/spec/bootstrap", out);
    check_selector(deployment, out, |out, field, _, detail| out.forbidden(field, detail));
    check_skipped_preflight(deployment, out);
    check_cluster_name(review, out);
    check_rollout_strategy(at(deployment, "/spec/rollout/strategy"), "spec.rollout.strategy", out);
    check_max_in_flight(at(deployment, "/spec/remediation"), "spec.remediation", out);
    check_version(text(deployment, "/spec/template/spec/version"), "spec.template.spec.version", out);
    let naming = at(deployment, "/spec/machineNaming/template");
    check_machine_naming(naming, "spec.machineNaming.template", ".machineSet.name", out);
    check_template_taints(deployment, out);
    check_metadata(at(deployment, "/spec/template/metadata"), "spec.template.metadata", out);
}

pub(super) fn check_set(review: &Review<'_>, out: &mut Findings) {
    let set = review.new;
    check_bootstrap(set, "/spec/template/spec/bootstrap", out);
    check_selector(set, out, Findings::invalid);
    check_skipped_preflight(set, out);
    check_cluster_name(review, out);
    check_version(text(set, "/spec/template/spec/version"), "spec.template.spec.version", out);
    check_template_taints(set, out);
    let naming = at(set, "/spec/machineNaming/template");
    check_machine_naming(naming, "spec.machineNaming.template", ".machineSet.name", out);
    check_metadata(at(set, "/spec/template/metadata"), "spec.template.metadata", out);
}

fn check_template_taints(owner: &Value, out: &mut Findings) {
    let (taints, field) = (at(owner, "/spec/template/spec/taints"), "spec.template.spec.taints");
    check_taints(taints, field, out);
    check_worker_taints(taints, field, out);
}

/// The cluster never changes, and the Machines belong to the same one.
fn check_cluster_name(review: &Review<'_>, out: &mut Findings) {
    check_fixed(review.old, review.new, "/spec/clusterName", out);
    let cluster = text(review.new, "/spec/clusterName");
    if cluster != text(review.new, "/spec/template/spec/clusterName") {
        let detail = "spec.clusterName and spec.template.spec.clusterName must be set to the same value";
        out.invalid("spec.clusterName", &json!(cluster), detail);
    }
}

fn check_bootstrap(object: &Value, pointer: &str, out: &mut Findings) {
    let bootstrap = at(object, pointer);
    if bootstrap["dataSecretName"].is_null() && !is_defined(&bootstrap["configRef"]) {
        let field = dotted(pointer);
        let detail = format!("expected either {field}.dataSecretName or {field}.configRef to be populated");
        out.required(field, &detail);
    }
}

/// The machines that are made must be the ones that are selected. The two kinds of owners refuse it
/// with different types of causes.
fn check_selector(owner: &Value, out: &mut Findings, refuse: fn(&mut Findings, &'static str, &Value, &str)) {
    let selector = at(owner, "/spec/selector");
    match Selector::of(selector) {
        Err(why) => out.invalid("spec.selector", selector, &why),
        Ok(selector) => {
            let labels = at(owner, "/spec/template/metadata/labels");
            if !selector.matches(labels) {
                let detail = format!("must match spec.selector \"{selector}\"");
                refuse(out, "spec.template.metadata.labels", labels, &detail);
            }
        }
    }
}

fn check_skipped_preflight(object: &Value, out: &mut Findings) {
    let skipped = annotation(object, key::SKIP_PREFLIGHT_CHECKS).unwrap_or_default();
    if skipped.is_empty() {
        return;
    }
    let mut known: Vec<&str> = PreflightCheck::ALL.iter().map(|check| check.name()).collect();
    known.push(ALL_CHECKS);
    // Upstream prints a sorted set.
    known.sort_unstable();
    let unknown: Vec<&str> =
        skipped.split(',').map(str::trim).filter(|check| !known.contains(check)).collect();
    if !unknown.is_empty() {
        let detail = format!("skipped preflight check(s) must be among: [{}]", known.join(" "));
        let field = format!("metadata.annotations.{}", key::SKIP_PREFLIGHT_CHECKS);
        out.invalid(field, &json!(unknown), &detail);
    }
}

pub(super) fn check_machine(review: &Review<'_>, out: &mut Findings) {
    let machine = review.new;
    let labels = at(machine, "/metadata/labels");
    // Machines of a pool share its configuration, and have none of their own.
    let of_pool = labels.get(label::POOL_NAME).is_some()
        || items(at(machine, "/metadata/ownerReferences")).iter().any(|owner| owner["kind"] == "MachinePool");
    if !of_pool {
        check_bootstrap(machine, "/spec/bootstrap", out);
    }
    check_fixed(review.old, machine, "/spec/clusterName", out);
    check_version(text(machine, "/spec/version"), "spec.version", out);
    let taints = at(machine, "/spec/taints");
    check_taints(taints, "spec.taints", out);
    if labels.get(label::CONTROL_PLANE).is_none() {
        check_worker_taints(taints, "spec.taints", out);
    }
}

pub(super) fn check_pool(review: &Review<'_>, out: &mut Findings) {
    let pool = review.new;
    check_bootstrap(pool, "/spec/template/spec/bootstrap", out);
    check_cluster_name(review, out);
    check_version(text(pool, "/spec/template/spec/version"), "spec.template.spec.version", out);
    if !items(at(pool, "/spec/template/spec/taints")).is_empty() {
        out.forbidden("spec.taints", "taints feature for MachinePools is not yet implemented");
    }
    check_metadata(at(pool, "/spec/template/metadata"), "spec.template.metadata", out);
}

pub(super) fn check_health_check(review: &Review<'_>, out: &mut Findings) {
    let check = review.new;
    let selector = at(check, "/spec/selector");
    match Selector::of(selector) {
        Err(why) => out.invalid("spec.selector", selector, &why),
        Ok(selector) if selector.is_empty() => out.required("spec.selector", "selector must not be empty"),
        Ok(_) => {}
    }
    let cluster = text(check, "/spec/clusterName");
    if selector["matchLabels"].get(label::CLUSTER_NAME).is_some_and(|name| name != cluster) {
        let detail = "cannot specify a cluster selector other than the one specified by ClusterName";
        out.invalid("spec.selector", selector, detail);
    }
    check_fixed(review.old, check, "/spec/clusterName", out);
    check_health_limits(at(check, "/spec"), "spec", out);
}
