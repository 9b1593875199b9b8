//! MachineDeployment, MachineSet, Machine, MachinePool, MachineHealthCheck.
//! Source: `core/webhooks/admission/{machinedeployment,machineset,machine,machinepool,
//! machinehealthcheck}.go`.

use serde_json::{Value, json};

use super::value::{
    check_int_or_percent, check_name, check_naming, check_taints, check_version, default_replicas, fill,
    immutable, label_cluster, prefix_version, set, text,
};
use crate::api::names::label;
use crate::apiserver::failure::Cause;
use crate::apiserver::naming;

/// How long the deletion of a node is retried.
const NODE_DELETION_TIMEOUT_S: i64 = 10;
/// How long a machine may take to get its node before it counts as unhealthy.
const NODE_STARTUP_TIMEOUT_S: i64 = 600;
/// Shorter startup timeouts are refused.
const NODE_STARTUP_TIMEOUT_S_MIN: i64 = 30;

const MATCH_LABELS: [&str; 3] = ["spec", "selector", "matchLabels"];
const TEMPLATE_LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];

pub(super) fn default_deployment(old: Option<&Value>, deployment: &mut Value) {
    label_cluster(deployment);
    default_replicas(old, deployment);
    let strategy = ["spec", "rollout", "strategy"];
    fill(deployment, &strategy, "type", json!("RollingUpdate"));
    if text(deployment, "/spec/rollout/strategy/type") == "RollingUpdate" {
        let rolling = ["spec", "rollout", "strategy", "rollingUpdate"];
        fill(deployment, &rolling, "maxSurge", json!(1));
        fill(deployment, &rolling, "maxUnavailable", json!(0));
    }
    fill(deployment, &["spec", "deletion"], "order", json!("Random"));
    default_selector(deployment, label::DEPLOYMENT_NAME);
    let cluster = text(deployment, "/spec/clusterName").to_owned();
    if !cluster.is_empty() {
        set(deployment, &MATCH_LABELS, label::CLUSTER_NAME, json!(cluster));
        set(deployment, &TEMPLATE_LABELS, label::CLUSTER_NAME, json!(cluster));
    }
    prefix_version(deployment, "/spec/template/spec/version");
}

pub(super) fn default_set(old: Option<&Value>, set: &mut Value) {
    label_cluster(set);
    default_replicas(old, set);
    fill(set, &["spec", "deletion"], "order", json!("Random"));
    default_selector(set, label::SET_NAME);
    prefix_version(set, "/spec/template/spec/version");
}

/// An owner without a selector owns what carries its name.
fn default_selector(owner: &mut Value, key: &str) {
    let selector = &owner["spec"]["selector"];
    let empty = |part: &str| match &selector[part] {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if empty("matchLabels") && empty("matchExpressions") {
        let value = json!(naming::to_label_value(text(owner, "/metadata/name")));
        set(owner, &MATCH_LABELS, key, value.clone());
        set(owner, &TEMPLATE_LABELS, key, value);
    }
}

pub(super) fn default_machine(_: Option<&Value>, machine: &mut Value) {
    label_cluster(machine);
    prefix_version(machine, "/spec/version");
    let deletion = ["spec", "deletion"];
    fill(machine, &deletion, "nodeDeletionTimeoutSeconds", json!(NODE_DELETION_TIMEOUT_S));
}

pub(super) fn default_pool(old: Option<&Value>, pool: &mut Value) {
    label_cluster(pool);
    default_replicas(old, pool);
    prefix_version(pool, "/spec/template/spec/version");
    let deletion = ["spec", "template", "spec", "deletion"];
    fill(pool, &deletion, "nodeDeletionTimeoutSeconds", json!(NODE_DELETION_TIMEOUT_S));
}

pub(super) fn default_health_check(_: Option<&Value>, check: &mut Value) {
    label_cluster(check);
    fill(check, &["spec", "checks"], "nodeStartupTimeoutSeconds", json!(NODE_STARTUP_TIMEOUT_S));
}

pub(super) fn check_deployment(old: Option<&Value>, deployment: &Value, causes: &mut Vec<Cause>) {
    check_owner(old, deployment, causes);
    let rolling = "/spec/rollout/strategy/rollingUpdate";
    for pointer in ["maxSurge", "maxUnavailable"] {
        check_int_or_percent(deployment, &format!("{rolling}/{pointer}"), causes);
    }
    check_int_or_percent(deployment, "/spec/remediation/maxInFlight", causes);
    let zero = |field: &str| deployment.pointer(&format!("{rolling}/{field}")) == Some(&json!(0));
    if zero("maxSurge") && zero("maxUnavailable") {
        let detail = "maxUnavailable and maxSurge cannot both be 0";
        causes.push(Cause::invalid("spec.rollout.strategy.rollingUpdate", &json!(0), detail));
    }
}

pub(super) fn check_set(old: Option<&Value>, set: &Value, causes: &mut Vec<Cause>) {
    check_owner(old, set, causes);
}

/// What MachineDeployments and MachineSets have in common.
fn check_owner(old: Option<&Value>, owner: &Value, causes: &mut Vec<Cause>) {
    check_name(owner, causes);
    immutable(old, owner, "/spec/clusterName", causes);
    let cluster = text(owner, "/spec/clusterName");
    if cluster != text(owner, "/spec/template/spec/clusterName") {
        let detail = "spec.clusterName and spec.template.spec.clusterName must be set to the same value";
        let found = &owner["spec"]["template"]["spec"]["clusterName"];
        causes.push(Cause::invalid("spec.template.spec.clusterName", found, detail));
    }
    check_bootstrap(owner, "/spec/template/spec/bootstrap", causes);
    check_selector(owner, causes);
    check_version(owner, "/spec/template/spec/version", causes);
    check_naming(owner, "/spec/machineNaming/template", causes);
    check_taints(owner, "/spec/template/spec/taints", true, causes);
}

fn check_bootstrap(object: &Value, pointer: &str, causes: &mut Vec<Cause>) {
    let bootstrap = object.pointer(pointer).unwrap_or(&Value::Null);
    let given =
        |field: &str| bootstrap.get(field).is_some_and(|value| !value.is_null() && *value != json!({}));
    if !given("dataSecretName") && !given("configRef") {
        let at = super::value::dotted(pointer);
        let detail = format!("expected either {at}.dataSecretName or {at}.configRef to be populated");
        causes.push(Cause::required(at, &detail));
    }
}

/// The machines that are made must be the ones that are selected.
fn check_selector(owner: &Value, causes: &mut Vec<Cause>) {
    let labels = &owner["spec"]["template"]["metadata"]["labels"];
    let wanted = owner["spec"]["selector"]["matchLabels"].as_object();
    let pairs: Vec<_> = wanted.into_iter().flatten().collect();
    if pairs.iter().any(|(key, value)| labels.get(key.as_str()) != Some(value)) {
        let shown: Vec<_> = pairs
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let detail = format!("must match spec.selector \"{}\"", shown.join(","));
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, &detail));
    }
}

pub(super) fn check_machine(old: Option<&Value>, machine: &Value, causes: &mut Vec<Cause>) {
    let labels = &machine["metadata"]["labels"];
    if labels.get(label::POOL_NAME).is_none() {
        check_bootstrap(machine, "/spec/bootstrap", causes);
    }
    immutable(old, machine, "/spec/clusterName", causes);
    check_version(machine, "/spec/version", causes);
    check_taints(machine, "/spec/taints", labels.get(label::CONTROL_PLANE).is_none(), causes);
}

pub(super) fn check_pool(old: Option<&Value>, pool: &Value, causes: &mut Vec<Cause>) {
    check_bootstrap(pool, "/spec/template/spec/bootstrap", causes);
    immutable(old, pool, "/spec/clusterName", causes);
    check_version(pool, "/spec/template/spec/version", causes);
}

pub(super) fn check_health_check(old: Option<&Value>, check: &Value, causes: &mut Vec<Cause>) {
    let selector = &check["spec"]["selector"];
    let empty = |part: &str| selector[part].as_object().is_none_or(serde_json::Map::is_empty);
    if empty("matchLabels") && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required("spec.selector", "selector must not be empty"));
    }
    let cluster = text(check, "/spec/clusterName");
    if selector["matchLabels"].get(label::CLUSTER_NAME).is_some_and(|name| name != cluster) {
        let detail = "cannot specify a cluster selector other than the one specified by ClusterName";
        causes.push(Cause::invalid("spec.selector", selector, detail));
    }
    immutable(old, check, "/spec/clusterName", causes);
    let timeout = &check["spec"]["checks"]["nodeStartupTimeoutSeconds"];
    if timeout.as_i64().is_some_and(|s| s != 0 && s < NODE_STARTUP_TIMEOUT_S_MIN) {
        causes.push(Cause::invalid("spec.checks.nodeStartupTimeoutSeconds", timeout, "must be at least 30s"));
    }
    check_int_or_percent(check, "/spec/remediation/triggerIf/unhealthyLessThanOrEqualTo", causes);
}
