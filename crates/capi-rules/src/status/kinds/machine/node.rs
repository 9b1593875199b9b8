//! `NodeReady` and `NodeHealthy` of a Machine. Owns when remote knowledge is kept, doubted or
//! replaced; must not know how a Node is read.
//! Source: `setNodeHealthyAndReadyConditions`, `machine_controller_status.go`, v1.14.2.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Node, NodeCondition};

use super::{NodeReading, Observed, cluster_provisioned, control_plane_initialized_since};
use crate::status::conditions::new_condition::{NewCondition, UNSTAMPED};
use crate::status::conditions::setter::{CHECK_LOGS, Draft};
use capi_types::condition::Status;
use capi_types::machine::MachineStatus;
use capstan_base::time::{Timestamp, rfc3339};

const READY: &str = "NodeReady";
const HEALTHY: &str = "NodeHealthy";

/// Sets both conditions, or leaves both as they are.
pub(super) fn judge(draft: &mut Draft, o: &Observed, status: &MachineStatus, now: Timestamp) {
    match known(draft, o, status, now) {
        Known::Same(status, reason, message) => {
            for type_ in [READY, HEALTHY] {
                draft.set(NewCondition::new(type_, status, reason, message.clone()));
            }
        }
        Known::Reported(node) => {
            draft.set(ready(node));
            draft.set(healthy(node));
        }
        Known::Before => {}
    }
}

/// What is known of a Node.
enum Known<'a> {
    /// The same for both conditions.
    Same(Status, &'static str, Cow<'static, str>),
    /// What it reports now.
    Reported(&'a Node),
    /// What is there already.
    Before,
}

fn known<'a>(draft: &Draft, o: &'a Observed, status: &MachineStatus, now: Timestamp) -> Known<'a> {
    // Short interruptions leave what is known; only what was never said is filled in.
    let unreported = || draft.find(READY).is_none() || draft.find(HEALTHY).is_none();
    let last_probe = || {
        let text = o.probe.last_success.map(|at| format!("Last successful probe at {}", rfc3339(at)));
        Known::Same(Status::Unknown, "ConnectionDown", text.unwrap_or_default().into())
    };
    if !cluster_provisioned(&o.cluster) {
        return inspection("Waiting for Cluster status.initialization.infrastructureProvisioned to be true");
    }
    let Some(initialized) = control_plane_initialized_since(&o.cluster) else {
        return inspection("Waiting for Cluster control plane to be initialized");
    };
    if o.probe.not_established_yet {
        let text = "Remote connection not established yet".into();
        return if unreported() {
            Known::Same(Status::Unknown, "ConnectionDown", text)
        } else {
            Known::Before
        };
    }
    // Counted from the initialization at the earliest: before that no probe could succeed.
    let last_heard = o.probe.last_success.map_or(initialized, |at| at.max(initialized));
    if now - last_heard > o.graces.conditions {
        return last_probe();
    }
    match &o.node {
        NodeReading::NotConnected if unreported() => last_probe(),
        NodeReading::NotConnected => Known::Before,
        NodeReading::Found(node) => Known::Reported(node),
        NodeReading::Failed(_) => Known::Same(Status::Unknown, "InternalError", CHECK_LOGS.into()),
        NodeReading::NotAsked | NodeReading::NotFound => missing(o, status),
    }
}

fn inspection<'a>(message: impl Into<Cow<'static, str>>) -> Known<'a> {
    Known::Same(Status::Unknown, "InspectionFailed", message.into())
}

fn missing<'a>(o: &Observed, status: &MachineStatus) -> Known<'a> {
    let deleted = |message: String| Known::Same(Status::False, "NodeDeleted", message.into());
    let recorded = status.node_ref.as_ref().map(|r| r.name.as_str());
    match (o.is_deleting(), recorded, o.machine.spec.provider_id.as_deref()) {
        (true, Some(name), _) => deleted(format!("Node {name} has been deleted")),
        (true, None, _) => Known::Same(Status::Unknown, "NodeDoesNotExist", "Node does not exist".into()),
        (false, Some(name), _) => {
            deleted(format!("Node {name} has been deleted while the Machine still exists"))
        }
        (false, None, Some(id)) if !id.is_empty() => {
            inspection(format!("Waiting for a Node with spec.providerID {id} to exist"))
        }
        (false, None, _) => {
            let kind = &o.machine.spec.infrastructure_ref.kind;
            inspection(format!("Waiting for {kind} to report spec.providerID"))
        }
    }
}

/// The last one of a type counts, as upstream walks the list to its end.
fn reported<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().rfind(|c| c.type_ == type_)
}

fn ready(node: &Node) -> NewCondition<'_> {
    let Some(found) = reported(node, "Ready") else {
        let message = "* Node.Ready: Condition not yet reported";
        return NewCondition::new(READY, Status::Unknown, "NodeReadyUnknown", message);
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
    // The Node's own time: MachineHealthChecks count timeouts from it.
    let since = found.last_transition_time.clone().unwrap_or(UNSTAMPED);
    NewCondition { since, ..NewCondition::new(READY, status, reason, message) }
}

fn healthy(node: &Node) -> NewCondition<'_> {
    let mut lines = Vec::new();
    let mut texts: Vec<Cow<'_, str>> = Vec::new();
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
        let text: Cow<'_, str> = match found.message.as_deref() {
            None | Some("") => format!("Condition is {}", found.status).into(),
            Some(message) => message.into(),
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
    NewCondition::new(HEALTHY, status, reason, lines.join("\n"))
}
