//! Static pods and Nodes of one control plane Machine as conditions. Must not know other Machines.
//! Source: cluster-api `controlplane/kubeadm/pkg/workload_cluster_conditions.go`
//! (`updateStaticPodCondition`, `updateStaticPodConditions`), v1.14.2.

use k8s_openapi::api::core::v1::{ContainerStatus, Node, NodeCondition, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::machine::{COMPONENTS, LABELS_AND_TAINTS, OwnedMachine};
use crate::status::conditions::setter::{CHECK_LOGS, condition};
use capi_types::condition::Status;
use capi_types::names::label::NODE_ROLE_CONTROL_PLANE as ROLE;

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Names of the static pods, in the order of [`COMPONENTS`].
const POD_NAMES: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];

/// The conditions of a Machine's Node and pods. `node` is its Node when there is one; `pods` are the
/// static pods of the cluster. Types that keep their stored value are absent from the result.
pub fn conditions(
    machine: &OwnedMachine,
    node: Option<&Node>,
    pods: &Result<Vec<Pod>, String>,
    managed_etcd: bool,
) -> Vec<Condition> {
    let types = if managed_etcd { &COMPONENTS[..] } else { &COMPONENTS[..3] };
    if machine.is_deleting() {
        let leaving = |type_: &str| condition(type_, Status::False, "Deleting", "Machine is deleting");
        // Upstream still judges the Node of a Machine that leaves, but not its pods.
        let labels = node.map_or_else(|| leaving(LABELS_AND_TAINTS), |node| labels_and_taints(machine, node));
        return std::iter::once(labels).chain(types.iter().map(|t| leaving(t))).collect();
    }
    let message = match (machine.node_name(), node) {
        (None, _) => waiting_for_node(machine),
        (Some(name), None) => format!("Node {name} does not exist"),
        (Some(name), Some(node)) if is_unreachable(node) => format!("Node {name} is unreachable"),
        (Some(name), Some(node)) => {
            let mut list = vec![labels_and_taints(machine, node)];
            let parts = types.iter().zip(POD_NAMES);
            list.extend(
                parts.filter_map(|(type_, pod)| pod_condition(type_, &format!("{pod}-{name}"), node, pods)),
            );
            return list;
        }
    };
    unknown(types, &message)
}

/// Everything about the Machine's Node and pods unknown, for the same reason.
pub fn unknown(types: &[&str], message: &str) -> Vec<Condition> {
    let say = |type_: &str| condition(type_, Status::Unknown, "InspectionFailed", message);
    std::iter::once(say(LABELS_AND_TAINTS)).chain(types.iter().map(|t| say(t))).collect()
}

/// What a Machine without a Node is waiting for.
pub fn waiting_for_node(machine: &OwnedMachine) -> String {
    match machine.provider_id() {
        Some(id) => format!("Waiting for a Node with spec.providerID {id} to exist"),
        None => {
            format!("Waiting for {} to report spec.providerID", machine.machine.spec.infrastructure_ref.kind)
        }
    }
}

fn is_unreachable(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    taints.into_iter().any(|t| t.key == UNREACHABLE && t.effect == "NoExecute")
}

fn labels_and_taints(machine: &OwnedMachine, node: &Node) -> Condition {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let labelled = node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(ROLE));
    let mut taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    let tainted = !taint_is_expected(machine) || taints.any(|t| t.key == ROLE && t.effect == "NoSchedule");
    let missing = match (labelled, tainted) {
        (true, true) => return condition(LABELS_AND_TAINTS, Status::True, "Set", ""),
        (false, true) => format!("the {ROLE} label"),
        (false, false) => format!("the {ROLE} label and the {ROLE}:NoSchedule taint"),
        (true, false) => format!("the {ROLE}:NoSchedule taint"),
    };
    condition(LABELS_AND_TAINTS, Status::False, "NotSet", format!("Node {name} does not have {missing}"))
}

/// kubeadm taints control plane Nodes unless the configuration lists other taints, or none.
fn taint_is_expected(machine: &OwnedMachine) -> bool {
    if machine.machine.spec.taints.iter().any(|t| t.key == ROLE && t.effect == "NoSchedule") {
        return true;
    }
    let Some(config) = &machine.bootstrap else { return false };
    // The stored configuration may have both halves; kubeadm
    // used the join half if it names a control plane.
    let join = config.spec.join_configuration.as_ref().filter(|j| j.control_plane.is_some());
    let registration = match join {
        Some(join) => join.node_registration.as_ref(),
        None => config.spec.init_configuration.as_ref().and_then(|i| i.node_registration.as_ref()),
    };
    let taints = registration.and_then(|r| r.taints.as_ref());
    taints.is_none_or(|taints| taints.iter().any(|t| t.key == ROLE && t.effect == "NoSchedule"))
}

/// The condition of one static pod; `None` keeps the stored one.
fn pod_condition(type_: &str, name: &str, node: &Node, pods: &Result<Vec<Pod>, String>) -> Option<Condition> {
    let say = |status, reason: &str, message: &str| Some(condition(type_, status, reason, message));
    let ready = node_condition(node, "Ready");
    // The kubelet does not report, so the pods are as they were when it last did.
    if ready.is_some_and(|c| c.status == "Unknown") {
        return say(
            Status::Unknown,
            "InspectionFailed",
            "Node Ready condition is Unknown, Pod data might be stale",
        );
    }
    let Ok(pods) = pods else { return say(Status::Unknown, "InspectionFailed", CHECK_LOGS) };
    let Some(pod) = pods.iter().find(|p| p.metadata.name.as_deref() == Some(name)) else {
        return say(Status::False, "DoesNotExist", "Pod does not exist");
    };
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
    match phase {
        "Pending" => say(Status::False, "Provisioning", pending(pod)),
        "Running" => Some(running(type_, pod)),
        "Succeeded" | "Failed" => say(Status::False, "Failed", "All the containers have been terminated"),
        "Unknown" => say(Status::Unknown, "InspectionFailed", "Pod is reporting Unknown status"),
        // Upstream does not handle other phases, and leaves the stored condition.
        _ => None,
    }
}

fn pending(pod: &Pod) -> &'static str {
    let holds = |type_: &str| pod_condition_of(pod, type_).is_some_and(|c| c.status == "True");
    match (holds("PodScheduled"), holds("Initialized")) {
        (false, _) => "Waiting to be scheduled",
        (true, false) => "Running init containers",
        (true, true) => "",
    }
}

fn running(type_: &str, pod: &Pod) -> Condition {
    if pod_condition_of(pod, "Ready").is_some_and(|c| c.status == "True") {
        return condition(type_, Status::True, "Running", "");
    }
    let containers: Vec<&ContainerStatus> =
        pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten()).collect();
    let waiting: Vec<&str> = containers
        .iter()
        .filter_map(|c| c.state.as_ref()?.waiting.as_ref())
        .map(|w| w.reason.as_deref().unwrap_or_default())
        .collect();
    if !waiting.is_empty() {
        // Waiting is normal at a start; after a crash it is a back-off.
        let crashed = containers
            .iter()
            .filter_map(|c| c.last_state.as_ref()?.terminated.as_ref())
            .any(|t| t.exit_code != 0);
        let reason = if crashed { "Failed" } else { "Provisioning" };
        return condition(type_, Status::False, reason, waiting.join(", "));
    }
    let ended: Vec<&str> = containers
        .iter()
        .filter_map(|c| c.state.as_ref()?.terminated.as_ref())
        .map(|t| t.reason.as_deref().unwrap_or_default())
        .collect();
    if !ended.is_empty() {
        return condition(type_, Status::False, "Failed", ended.join(", "));
    }
    condition(type_, Status::False, "Provisioning", "Waiting for startup or readiness probes")
}

fn node_condition<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == type_)
}

fn pod_condition_of<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == type_)
}

/// Whether the Node carries the control plane label.
pub fn is_control_plane(node: &Node) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(ROLE))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;
    use serde_json::{Value, json};

    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "kube-apiserver-n1" }, "status": status }))
            .unwrap()
    }

    /// The API server's condition for a pod status.
    fn check(status: Value, expected: (&str, &str, &str)) {
        let node = fixtures::node("n1");
        let got =
            pod_condition("APIServerPodHealthy", "kube-apiserver-n1", &node, &Ok(vec![pod(status)])).unwrap();
        assert_eq!((got.status.as_str(), got.reason.as_str(), got.message.as_str()), expected);
    }

    #[test]
    fn every_state_of_a_static_pod() {
        let ready = |s: &str| json!([{ "type": "Ready", "status": s }]);
        check(json!({ "phase": "Running", "conditions": ready("True") }), ("True", "Running", ""));
        check(json!({ "phase": "Pending" }), ("False", "Provisioning", "Waiting to be scheduled"));
        check(
            json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "True" }] }),
            ("False", "Provisioning", "Running init containers"),
        );
        check(
            json!({ "phase": "Pending", "conditions": [
                { "type": "PodScheduled", "status": "True" }, { "type": "Initialized", "status": "True" },
            ] }),
            ("False", "Provisioning", ""),
        );
        let container = |state: Value, last: Value| {
            json!({ "phase": "Running", "conditions": ready("False"), "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": state, "lastState": last,
            }] })
        };
        check(
            container(
                json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
                json!({ "terminated": { "exitCode": 1 } }),
            ),
            ("False", "Failed", "CrashLoopBackOff"),
        );
        check(
            container(json!({ "waiting": { "reason": "ContainerCreating" } }), json!({})),
            ("False", "Provisioning", "ContainerCreating"),
        );
        check(
            container(json!({ "terminated": { "exitCode": 0, "reason": "Completed" } }), json!({})),
            ("False", "Failed", "Completed"),
        );
        check(
            container(json!({ "running": {} }), json!({})),
            ("False", "Provisioning", "Waiting for startup or readiness probes"),
        );
        check(json!({ "phase": "Failed" }), ("False", "Failed", "All the containers have been terminated"));
        check(
            json!({ "phase": "Unknown" }),
            ("Unknown", "InspectionFailed", "Pod is reporting Unknown status"),
        );
    }

    #[test]
    fn absent_unreadable_and_stale_pods() {
        let node = fixtures::node("n1");
        let of = |node: &Node, pods: &Result<Vec<Pod>, String>| pod_condition("T", "p", node, pods).unwrap();
        assert_eq!(of(&node, &Ok(vec![])).reason, "DoesNotExist");
        assert_eq!(of(&node, &Err("refused".into())).message, CHECK_LOGS);
        let mut stale = node;
        if let Some(c) = stale.status.as_mut().and_then(|s| s.conditions.as_mut()) {
            c[0].status = "Unknown".into();
        }
        assert_eq!(
            of(&stale, &Ok(vec![])).message,
            "Node Ready condition is Unknown, Pod data might be stale"
        );
    }

    #[test]
    fn labels_and_taints_are_checked_against_what_kubeadm_was_told() {
        let mut machine = fixtures::machine("m1");
        let mut node = fixtures::node("n1");
        assert_eq!(labels_and_taints(&machine, &node).reason, "Set");
        node.spec = None;
        assert_eq!(
            labels_and_taints(&machine, &node).message,
            "Node n1 does not have the node-role.kubernetes.io/control-plane:NoSchedule taint"
        );
        node.metadata.labels = None;
        assert_eq!(
            labels_and_taints(&machine, &node).message,
            "Node n1 does not have the node-role.kubernetes.io/control-plane label and the \
             node-role.kubernetes.io/control-plane:NoSchedule taint"
        );
        machine.bootstrap = None;
        assert_eq!(
            labels_and_taints(&machine, &node).message,
            "Node n1 does not have the node-role.kubernetes.io/control-plane label"
        );
    }
}
