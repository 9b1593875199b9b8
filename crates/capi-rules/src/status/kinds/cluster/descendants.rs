//! Conditions of a Cluster that sum up what it is made of.
//! Source: `cluster_controller_status.go`, v1.14.2.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Census, Observed};
use crate::status::conditions::merge::{Aggregate, Reasons, Reporter};
use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{Draft, internal_error};
use crate::status::contract::External;
use crate::status::machines;
use capi_types::condition::{Conditioned as _, Status, find};
use capi_types::condition_types::Polarity;
use capstan_base::time::Timestamp;

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

/// `census` is `None` when it is not known what belongs to the Cluster.
pub(super) fn judge(draft: &mut Draft, o: &Observed, census: Option<&Census<'_>>, now: Timestamp) {
    let Some(census) = census else {
        for type_ in TYPES {
            draft.set(internal_error(type_));
        }
        return;
    };
    let (control_plane, workers) = (&census.control_plane, &census.workers);
    draft.set(workers_available(o));
    draft.set(machines::ready("ControlPlaneMachinesReady", control_plane));
    draft.set(machines::ready("WorkerMachinesReady", workers));
    draft.set(machines::up_to_date("ControlPlaneMachinesUpToDate", control_plane, now));
    draft.set(machines::up_to_date("WorkerMachinesUpToDate", workers, now));
    // Malformed conditions of the control plane count as not reported, as upstream ignores them here.
    let reported = o.control_plane.found().map(|c| (c, c.conditions().unwrap_or_default()));
    let provider = reported.as_ref().map(|(c, conditions)| reporter(&c.kind, Some(&c.name), conditions));
    for (rule, with_sets) in [(&ROLLING_OUT, false), (&SCALING_UP, true), (&SCALING_DOWN, true)] {
        draft.set(moving(o, provider, rule, with_sets));
    }
    draft.set(machines::remediating(census.without_pools(), ""));
}

fn workers_available(o: &Observed) -> NewCondition<'static> {
    const TYPE: &str = "WorkersAvailable";
    let sources: Vec<Reporter<'_>> = deployments(o).collect();
    if sources.is_empty() {
        return NewCondition::new(TYPE, Status::True, "NoWorkers", "");
    }
    let rule = Aggregate {
        source_type: "Available",
        target: TYPE,
        polarity: Polarity::Positive,
        reasons: Reasons::AVAILABLE,
    };
    rule.of(&sources)
}

fn deployments(o: &Observed) -> impl Iterator<Item = Reporter<'_>> {
    let all = o.descendants.machine_deployments.iter();
    all.map(|d| reporter("MachineDeployment", d.metadata.name.as_deref(), d.conditions()))
}

fn reporter<'a>(kind: &'a str, name: Option<&'a str>, conditions: &'a [Condition]) -> Reporter<'a> {
    Reporter { kind, name: name.unwrap_or_default(), conditions }
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
fn moving(
    o: &Observed,
    control_plane: Option<Reporter<'_>>,
    rule: &Aggregate<'static>,
    with_sets: bool,
) -> NewCondition<'static> {
    // Without it a control plane that rolls out could be reported as one that does not.
    if matches!(o.control_plane, External::Unreadable { .. }) {
        return internal_error(rule.target);
    }
    // The contract does not ask control planes for these conditions, so a missing one means nothing.
    let reports = |c: &Reporter<'_>| find(c.conditions, rule.source_type).is_some();
    let mut sources: Vec<Reporter<'_>> = control_plane.filter(reports).into_iter().collect();
    sources.extend(deployments(o));
    if with_sets {
        let own = o.descendants.machine_sets.iter().filter(|set| o.owns(Arc::as_ref(set)));
        sources.extend(own.map(|set| reporter("MachineSet", set.metadata.name.as_deref(), set.conditions())));
    }
    if sources.is_empty() {
        return NewCondition::new(rule.target, Status::False, rule.reasons.info, "");
    }
    rule.of(&sources)
}
