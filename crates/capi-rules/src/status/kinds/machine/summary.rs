//! `Updating`, `UpToDate`, `Ready` and `Available` of a Machine: what its other conditions add up to.
//! Source: `machine_controller_status.go`, v1.14.2.

use std::borrow::Cow;

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Observed, Update};
use crate::status::conditions::merge::{Priority, Reasons, Summary};
use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{Draft, condition};
use crate::status::conditions::wording::{DELAY_CAUSE, IN_PLACE, NO_INFRASTRUCTURE, OVERDUE};
use crate::status::machine_template;
use crate::status::machines::{SLOW_DRAIN, STALE_DELETION, drain_causes};
use capi_types::condition::{Status, find};
use capi_types::condition_types::MACHINE_READY_PARTS;
use capi_types::machine::MachineStatus;
use capstan_base::time::{Timestamp, from_k8s};

pub(super) fn updating(o: &Observed) -> NewCondition<'static> {
    if !o.is_updating_in_place() {
        return NewCondition::new("Updating", Status::False, "NotUpdating", "");
    }
    let (reason, message) = match &o.update {
        Some(Update::Running(words)) if !words.is_empty() => {
            ("InPlaceUpdating", format!("{IN_PLACE}: {words}"))
        }
        Some(Update::Running(_) | Update::Done) | None => ("InPlaceUpdating", IN_PLACE.to_owned()),
        Some(Update::InfrastructureMissing) => {
            ("InPlaceUpdateFailed", format!("In-place update not possible: {NO_INFRASTRUCTURE}"))
        }
        Some(Update::Failed) => (
            "InPlaceUpdateFailed",
            "UpdateMachine hook failed: please check controller logs for errors".to_owned(),
        ),
    };
    NewCondition::new("Updating", Status::True, reason, message)
}

/// `None` for Machines that are not workers of a MachineDeployment: their control plane judges them, or no controller does.
pub(super) fn up_to_date(
    o: &Observed,
    status: &MachineStatus,
    draft: &Draft,
    now: Timestamp,
) -> Option<NewCondition<'static>> {
    const TYPE: &str = "UpToDate";
    let (set, deployment) = o.deployment.as_ref()?;
    let no = |reason, message: String| Some(NewCondition::new(TYPE, Status::False, reason, message));
    let differences = machine_template::differences(&set.spec.template.spec, &deployment.spec.template.spec);
    let mut lines: Vec<String> = differences.iter().map(|d| format!("* {}", d.condition)).collect();
    let after = deployment.spec.rollout.as_ref().and_then(|r| r.after.as_ref()).map(from_k8s);
    let created = set.metadata.creation_timestamp.as_ref().map(from_k8s);
    if after.zip(created).is_some_and(|(after, created)| after < now && created < after) {
        lines.push("* MachineDeployment spec.rolloutAfter expired".to_owned());
    }
    if !lines.is_empty() {
        return no("NotUpToDate", lines.join("\n"));
    }
    // After the template: a change that came meanwhile is the stronger reason.
    if let Some(updating) = draft.find("Updating").filter(|c| c.status == "True") {
        let text = if updating.message.is_empty() { IN_PLACE } else { &updating.message };
        return no("Updating", format!("* {text}"));
    }
    let kubelet = status.node_info.as_ref().map_or("", |info| info.kubelet_version.as_str());
    let wanted = o.machine.spec.version.as_deref().unwrap_or_default();
    // After an update in place the spec has the new version before the kubelet runs it.
    if !kubelet.is_empty() && kubelet != wanted {
        return no("Updating", format!("* Node.status.nodeInfo.kubeletVersion {kubelet}, {wanted} required"));
    }
    Some(NewCondition::new(TYPE, Status::True, "UpToDate", ""))
}

/// A Machine is not ready while one of these is true.
const NOT_WHILE: [&str; 2] = ["Deleting", "Updating"];

pub(super) fn ready(
    o: &Observed,
    status: &MachineStatus,
    conditions: &[Condition],
    now: Timestamp,
) -> NewCondition<'static> {
    let deleting = o.is_deleting();
    let exceptions = |c: &Condition| excused(c, deleting);
    let types: Vec<&str> = NOT_WHILE.into_iter().chain(MACHINE_READY_PARTS).collect();
    let mut summary = Summary::new("Ready", types, Reasons::READY);
    summary.negative = Cow::Borrowed(&NOT_WHILE);
    summary.add_gates(&o.machine.spec.readiness_gates);
    // Most Machines have no health check.
    summary.ignored_if_missing = &["HealthCheckSucceeded"];
    summary.exceptions = Some(&exceptions);
    summary.transform = Some(group_control_plane_lines);
    if deleting {
        // The condition itself may carry a long drain
        // message, which would fill every summary above it.
        summary.overrides.push(deleting_for_summary(o, status, conditions, now));
    }
    summary.of(conditions)
}

/// While a Machine is deleted, objects that are gone already are as they should be.
fn excused(c: &Condition, deleting: bool) -> Option<Priority> {
    let gone = || match c.type_.as_str() {
        "BootstrapConfigReady" | "InfrastructureReady" => {
            matches!(c.reason.as_str(), "ObjectDeleted" | "ObjectDoesNotExist")
        }
        "NodeHealthy" => matches!(c.reason.as_str(), "NodeDeleted" | "NodeDoesNotExist"),
        _ => false,
    };
    (deleting && gone()).then_some(Priority::Info)
}

fn deleting_for_summary(
    o: &Observed,
    status: &MachineStatus,
    conditions: &[Condition],
    now: Timestamp,
) -> Condition {
    let (reason, detail) =
        find(conditions, "Deleting").map_or(("", ""), |c| (c.reason.as_str(), c.message.as_str()));
    let since =
        o.machine.metadata.deletion_timestamp.as_ref().map_or(TimeDelta::zero(), |at| now - from_k8s(at));
    let mut message = "Machine deletion in progress".to_owned();
    if since > STALE_DELETION {
        message.push_str(&format!(" {OVERDUE}"));
    }
    message.push_str(&format!(", stage: {reason}"));
    let drain = status.deletion.as_ref().and_then(|d| d.node_drain_start_time.as_ref());
    let slow = drain.is_some_and(|at| now - from_k8s(at) > SLOW_DRAIN);
    // Causes only where somebody may have to act: a fresh drain is expected to meet them.
    if since > STALE_DELETION && reason == "DrainingNode" && slow {
        let causes = drain_causes(detail);
        if !causes.is_empty() {
            message.push_str(&format!(", {DELAY_CAUSE} {}", causes.join(", ")));
        }
    }
    condition("Deleting", Status::True, "Deleting", message)
}

/// Equal lines of at least two control plane components become one.
pub(super) fn group_control_plane_lines(lines: Vec<String>) -> Vec<String> {
    let is_component = |line: &str| {
        let name = line.split(':').next().unwrap_or_default();
        ["* APIServer", "* ControllerManager", "* Scheduler"].iter().any(|p| name.starts_with(p))
            || name == "* EtcdPodHealthy"
    };
    let rest = |line: &str| line.split_once(':').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    let components: Vec<String> = lines.iter().filter(|l| is_component(l)).map(|l| rest(l)).collect();
    if components.len() < 2 || components.iter().any(|c| *c != components[0]) {
        return lines;
    }
    let mut grouped = Vec::new();
    let mut done = false;
    for line in lines {
        if !is_component(&line) {
            grouped.push(line);
        } else if !done {
            done = true;
            grouped.push(format!("* Control plane components:{}", components[0]));
        }
    }
    grouped
}

pub(super) fn available(o: &Observed, conditions: &[Condition], now: Timestamp) -> NewCondition<'static> {
    const TYPE: &str = "Available";
    let Some(ready) = find(conditions, "Ready").filter(|c| c.status == "True") else {
        return NewCondition::new(TYPE, Status::False, "NotReady", "");
    };
    let since = from_k8s(&ready.last_transition_time);
    let wait = TimeDelta::seconds(i64::from(o.machine.spec.min_ready_seconds.unwrap_or(0)));
    if now - since >= wait {
        NewCondition::new(TYPE, Status::True, "Available", "")
    } else {
        NewCondition::new(TYPE, Status::False, "WaitingForMinReadySeconds", "")
    }
}
