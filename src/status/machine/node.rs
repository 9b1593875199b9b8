//! `NodeReady` and `NodeHealthy` of a Machine. Owns when remote knowledge is kept, doubted or
//! replaced; must not know how a Node is read.
//! Source: `setNodeHealthyAndReadyConditions`, `machine_controller_status.go`, v1.14.0.

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    NodeReading, Observed, REMOTE_CONDITIONS_GRACE, cluster_provisioned, control_plane_initialized_since,
};
use crate::api::machine::MachineStatus;
use crate::status::condition_ops::{CHECK_LOGS, Draft, Status, condition};
use crate::time::{Timestamp, rfc3339};

const READY: &str = "NodeReady";
const HEALTHY: &str = "NodeHealthy";

/// Sets both conditions, or leaves both as they are.
pub(super) fn judge(draft: &mut Draft, o: &Observed, status: &MachineStatus, now: Timestamp) {
    if let NodeVerdict::Same(status, reason, message) = verdict(draft, o, status, now) {
        for type_ in [READY, HEALTHY] {
            draft.set(condition(type_, status, reason, message.clone()));
        }
    } else if let (true, Some(node)) = (o.may_trust_node(now), o.node.found()) {
        draft.set(ready(node));
        draft.set(healthy(node));
    }
}

enum NodeVerdict {
    /// The same for both.
    Same(Status, &'static str, String),
    /// From the Node, when it is at hand; else keep what is there.
    FromNode,
}

impl Observed {
    fn may_trust_node(&self, now: Timestamp) -> bool {
        cluster_provisioned(&self.cluster)
            && control_plane_initialized_since(&self.cluster).is_some()
            && !self.probe.not_established_yet
            && !self.probe_is_old(now)
    }

    fn probe_is_old(&self, now: Timestamp) -> bool {
        let reference = self.probe.last_success.max(control_plane_initialized_since(&self.cluster));
        reference.is_none_or(|at| now - at > REMOTE_CONDITIONS_GRACE)
    }
}

fn verdict(draft: &Draft, o: &Observed, status: &MachineStatus, now: Timestamp) -> NodeVerdict {
    use NodeVerdict::{FromNode, Same};
    let inspection = |message: String| Same(Status::Unknown, "InspectionFailed", message);
    let unreported = draft.find(READY).is_none() || draft.find(HEALTHY).is_none();
    let last_probe = || {
        let text = o.probe.last_success.map(|at| format!("Last successful probe at {}", rfc3339(at)));
        Same(Status::Unknown, "ConnectionDown", text.unwrap_or_default())
    };
    if !cluster_provisioned(&o.cluster) {
        return inspection(
            "Waiting for Cluster status.initialization.infrastructureProvisioned to be true".to_owned(),
        );
    }
    if control_plane_initialized_since(&o.cluster).is_none() {
        return inspection("Waiting for Cluster control plane to be initialized".to_owned());
    }
    if o.probe.not_established_yet {
        let text = "Remote connection not established yet".to_owned();
        return if unreported { Same(Status::Unknown, "ConnectionDown", text) } else { FromNode };
    }
    if o.probe_is_old(now) {
        return last_probe();
    }
    match &o.node {
        NodeReading::NotConnected if unreported => last_probe(),
        NodeReading::NotConnected | NodeReading::Found(_) => FromNode,
        NodeReading::Failed(_) => Same(Status::Unknown, "InternalError", CHECK_LOGS.to_owned()),
        NodeReading::NotAsked | NodeReading::NotFound => missing(o, status),
    }
}

fn missing(o: &Observed, status: &MachineStatus) -> NodeVerdict {
    use NodeVerdict::Same;
    let inspection = |message: String| Same(Status::Unknown, "InspectionFailed", message);
    let recorded = status.node_ref.as_ref().map(|r| r.name.as_str());
    match (o.is_deleting(), recorded, o.machine.spec.provider_id.as_deref()) {
        (true, Some(name), _) => Same(Status::False, "NodeDeleted", format!("Node {name} has been deleted")),
        (true, None, _) => Same(Status::Unknown, "NodeDoesNotExist", "Node does not exist".to_owned()),
        (false, Some(name), _) => {
            let message = format!("Node {name} has been deleted while the Machine still exists");
            Same(Status::False, "NodeDeleted", message)
        }
        (false, None, Some(id)) if !id.is_empty() => {
            inspection(format!("Waiting for a Node with spec.providerID {id} to exist"))
        }
        (false, None, _) => inspection(format!(
            "Waiting for {} to report spec.providerID",
            o.machine.spec.infrastructure_ref.kind
        )),
    }
}

/// The last one of a type counts, as upstream walks the list to its end.
fn reported<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().rfind(|c| c.type_ == type_)
}

fn ready(node: &Node) -> Condition {
    let Some(found) = reported(node, "Ready") else {
        let message = "* Node.Ready: Condition not yet reported";
        return condition(READY, Status::Unknown, "NodeReadyUnknown", message);
    };
    let (status, reason) = match found.status.as_str() {
        "True" => (Status::True, "NodeReady"),
        "False" => (Status::False, "NodeNotReady"),
        _ => (Status::Unknown, "NodeReadyUnknown"),
    };
    let text = found.message.as_deref().unwrap_or_default();
    let message = if status == Status::True || text.is_empty() {
        String::new()
    } else {
        format!("* Node.Ready: {text}")
    };
    let mut ready = condition(READY, status, reason, message);
    if let Some(at) = &found.last_transition_time {
        ready.last_transition_time = at.clone();
    }
    ready
}

fn healthy(node: &Node) -> Condition {
    let mut lines = Vec::new();
    let mut texts = Vec::new();
    let (mut failures, mut unknowns) = (0, 0);
    for (type_, normal) in
        [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")]
    {
        let Some(found) = reported(node, type_) else {
            lines.push(format!("* Node.{type_}: Condition not yet reported"));
            unknowns += 1;
            continue;
        };
        if found.status == normal {
            continue;
        }
        let text = match found.message.as_deref() {
            None | Some("") => format!("Condition is {}", found.status),
            Some(message) => message.to_owned(),
        };
        lines.push(format!("* Node.{type_}: {text}"));
        texts.push(text);
        if found.status == "Unknown" { unknowns += 1 } else { failures += 1 }
    }
    // Upstream's quirk: the collapse also drops "not yet reported" lines.
    if texts.len() > 1 && texts.iter().all(|text| *text == texts[0]) {
        lines = vec![format!("* Node.AllConditions: {}", texts[0])];
    }
    let (status, reason) = match (failures, unknowns) {
        (0, 0) => (Status::True, "NodeHealthy"),
        (0, _) => (Status::Unknown, "NodeHealthyUnknown"),
        _ => (Status::False, "NodeNotHealthy"),
    };
    condition(HEALTHY, status, reason, lines.join("\n"))
}
