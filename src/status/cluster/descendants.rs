//! Conditions of a Cluster that sum up what it is made of.
//! Source: `cluster_controller_status.go`, v1.14.0.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Descendants, Observed};
use crate::api::condition::{Conditioned as _, find};
use crate::status::condition_ops::{Draft, Polarity, Status, condition, internal_error};
use crate::status::contract::External;
use crate::status::machines;
use crate::status::merge::{Aggregate, Reasons, Source};
use crate::time::Timestamp;

/// Every condition that is judged by descendants, and by nothing else when they are not known.
const TYPES: [&str; 9] = [
    "WorkersAvailable",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
    "RollingOut",
    "ScalingUp",
    "ScalingDown",
    "Remediating",
];

pub(super) fn judge(draft: &mut Draft, o: &Observed, now: Timestamp) {
    let Some(descendants) = o.known_descendants() else {
        for type_ in TYPES {
            draft.set(internal_error(type_));
        }
        return;
    };
    let (control_plane, workers) = (descendants.control_plane_machines(), descendants.worker_machines());
    draft.set(workers_available(descendants));
    draft.set(machines::ready("ControlPlaneMachinesReady", &control_plane));
    draft.set(machines::ready("WorkerMachinesReady", &workers));
    draft.set(machines::up_to_date("ControlPlaneMachinesUpToDate", &control_plane, now));
    draft.set(machines::up_to_date("WorkerMachinesUpToDate", &workers, now));
    draft.set(moving(o, descendants, &ROLLING_OUT, false));
    draft.set(moving(o, descendants, &SCALING_UP, true));
    draft.set(moving(o, descendants, &SCALING_DOWN, true));
    draft.set(machines::remediating(&descendants.machines_without_pools(), ""));
}

fn workers_available(descendants: &Descendants) -> Condition {
    const TYPE: &str = "WorkersAvailable";
    let sources = deployments(descendants);
    if sources.is_empty() {
        return condition(TYPE, Status::True, "NoWorkers", "");
    }
    let rule = Aggregate {
        source_type: "Available",
        target: TYPE,
        polarity: Polarity::Positive,
        reasons: Reasons::AVAILABLE,
    };
    rule.of(&sources)
}

fn deployments(descendants: &Descendants) -> Vec<Source<'_>> {
    descendants
        .machine_deployments
        .iter()
        .map(|d| source("MachineDeployment", d.metadata.name.as_deref(), d.conditions()))
        .collect()
}

fn source<'a>(kind: &'a str, name: Option<&'a str>, conditions: &'a [Condition]) -> Source<'a> {
    Source { kind, name: name.unwrap_or_default(), control_plane_machine: false, conditions }
}

const ROLLING_OUT: Aggregate<'static> = movement(
    "RollingOut",
    Reasons { issue: "RollingOut", unknown: "RollingOutUnknown", info: "NotRollingOut" },
);
const SCALING_UP: Aggregate<'static> =
    movement("ScalingUp", Reasons { issue: "ScalingUp", unknown: "ScalingUpUnknown", info: "NotScalingUp" });
const SCALING_DOWN: Aggregate<'static> = movement(
    "ScalingDown",
    Reasons { issue: "ScalingDown", unknown: "ScalingDownUnknown", info: "NotScalingDown" },
);

const fn movement(type_: &'static str, reasons: Reasons) -> Aggregate<'static> {
    Aggregate { source_type: type_, target: type_, polarity: Polarity::Negative, reasons }
}

/// The control plane takes part only when it reports the condition; a MachineDeployment always does.
fn moving(o: &Observed, descendants: &Descendants, rule: &Aggregate<'_>, with_sets: bool) -> Condition {
    if matches!(o.control_plane, External::Unreadable { .. }) {
        return internal_error(rule.target);
    }
    // Malformed conditions of the control plane count as not reported, as upstream ignores them here.
    let reported = o.control_plane.found().map(|c| (c, c.conditions().unwrap_or_default()));
    let mut sources = Vec::new();
    if let Some((control_plane, conditions)) = &reported
        && find(conditions, rule.source_type).is_some()
    {
        sources.push(source(&control_plane.kind, Some(&control_plane.name), conditions));
    }
    sources.extend(deployments(descendants));
    if with_sets {
        let own = descendants.machine_sets.iter().filter(|set| o.owns(*set));
        sources.extend(own.map(|set| source("MachineSet", set.metadata.name.as_deref(), set.conditions())));
    }
    if sources.is_empty() {
        return condition(rule.target, Status::False, rule.reasons.info, "");
    }
    rule.of(&sources)
}
