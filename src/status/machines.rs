//! What a set of Machines says together: readiness, up-to-dateness, remediation, stale deletions.
//! Owns the conditions that MachineSets, MachineDeployments, control planes and Clusters share; must
//! not know which of them asks.
//! Source: cluster-api `core/reconcilers/{machineset,machinedeployment,cluster}/*_status.go`, v1.14.0.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::condition_ops::{Polarity, Status, condition};
use super::merge::{Aggregate, Reasons, Source};
use super::versions;
use super::wording::join_limited;
use crate::api::condition::{Conditioned as _, find, is_false, is_true};
use crate::api::key::annotation as annotation_of;
use crate::api::machine::Machine;
use crate::api::machine_set::VersionCount;
use crate::api::names::{annotation, label};
use crate::time::{Timestamp, from_k8s};

/// A deletion that takes longer is reported as stale.
pub const STALE_DELETION: TimeDelta = TimeDelta::minutes(15);
/// A drain that takes longer has its likely causes named.
pub const SLOW_DRAIN: TimeDelta = TimeDelta::minutes(5);
/// Younger Machines need not have an `UpToDate` condition yet.
const UP_TO_DATE_GRACE: TimeDelta = TimeDelta::seconds(10);

/// Has the control plane label, with any value.
#[must_use]
pub fn is_control_plane(machine: &Machine) -> bool {
    machine.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::CONTROL_PLANE))
}

/// The name; empty before the server has given one.
#[must_use]
pub fn name(machine: &Machine) -> &str {
    machine.metadata.name.as_deref().unwrap_or_default()
}

/// An update in place runs, or is being prepared: it carries the annotation or has a pending hook.
#[must_use]
pub fn is_updating_in_place(machine: &Machine) -> bool {
    annotation_of(machine, annotation::UPDATE_IN_PROGRESS).is_some()
        || annotation_of(machine, annotation::PENDING_HOOKS)
            .is_some_and(|hooks| hooks.split(',').any(|hook| hook.trim() == "UpdateMachine"))
}

/// The version each Machine runs (its kubelet's, or else what its spec asks for), counted. Of versions
/// that cannot be compared the one of the oldest Machine comes first.
#[must_use]
pub fn versions(all: &[&Machine]) -> Vec<VersionCount> {
    let mut ordered = all.to_vec();
    ordered.sort_by_cached_key(|m| {
        (m.metadata.creation_timestamp.as_ref().map(|t| t.0), m.metadata.name.clone())
    });
    versions::count(ordered.iter().map(|m| (running_version(m), 1)))
}

fn running_version(machine: &Machine) -> &str {
    let kubelet =
        machine.status.as_ref().and_then(|s| s.node_info.as_ref()).map(|info| info.kubelet_version.as_str());
    kubelet.filter(|v| !v.is_empty()).or(machine.spec.version.as_deref()).unwrap_or_default()
}

/// `RollingOut`: Machines whose `UpToDate` is false, with the distinct reasons, versions first.
#[must_use]
pub fn rolling_out(machines: &[&Machine]) -> Condition {
    const TYPE: &str = "RollingOut";
    let outdated: Vec<&Condition> = machines
        .iter()
        .filter_map(|m| find(m.conditions(), "UpToDate"))
        .filter(|c| c.status == "False")
        .collect();
    if outdated.is_empty() {
        return condition(TYPE, Status::False, "NotRollingOut", "");
    }
    let texts: BTreeSet<&str> =
        outdated.iter().map(|c| c.message.as_str()).filter(|text| !text.is_empty()).collect();
    let lines: BTreeSet<(bool, &str)> = texts
        .into_iter()
        .flat_map(|text| text.split('\n'))
        .map(|line| (!line.starts_with("* Version"), line))
        .collect();
    let mut message = format!("Rolling out {} not up-to-date replicas", outdated.len());
    for (_, line) in lines {
        message.push('\n');
        message.push_str(line);
    }
    condition(TYPE, Status::True, TYPE, message)
}

/// Machines as inputs of an aggregate, in the given order.
#[must_use]
pub fn sources<'a>(machines: &[&'a Machine]) -> Vec<Source<'a>> {
    machines
        .iter()
        .map(|m| Source {
            kind: "Machine",
            name: name(m),
            control_plane_machine: is_control_plane(m),
            conditions: m.conditions(),
        })
        .collect()
}

/// How many Machines have the condition `type_` true.
#[must_use]
pub fn count_true(machines: &[&Machine], type_: &str) -> i32 {
    let count = machines.iter().filter(|m| is_true(m.conditions(), type_)).count();
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The aggregate of `Ready` as the condition `target`; no Machines is true, `NoReplicas`.
#[must_use]
pub fn ready(target: &str, machines: &[&Machine]) -> Condition {
    aggregate(target, "Ready", Reasons::READY, machines)
}

/// The aggregate of `UpToDate` as the condition `target`, over Machines that have it or are older
/// than ten seconds.
#[must_use]
pub fn up_to_date(target: &str, machines: &[&Machine], now: Timestamp) -> Condition {
    let considered: Vec<&Machine> = machines
        .iter()
        .copied()
        .filter(|m| {
            find(m.conditions(), "UpToDate").is_some()
                || created(m).is_some_and(|at| now - at > UP_TO_DATE_GRACE)
        })
        .collect();
    aggregate(target, "UpToDate", Reasons::UP_TO_DATE, &considered)
}

fn aggregate(target: &str, source_type: &str, reasons: Reasons, machines: &[&Machine]) -> Condition {
    if machines.is_empty() {
        return condition(target, Status::True, "NoReplicas", "");
    }
    Aggregate { source_type, target, polarity: Polarity::Positive, reasons }.of(&sources(machines))
}

/// Machines that a health check found unhealthy and whose owner is asked to act.
#[must_use]
pub fn to_remediate<'a>(machines: &[&'a Machine]) -> Vec<&'a Machine> {
    machines
        .iter()
        .copied()
        .filter(|m| {
            is_false(m.conditions(), "HealthCheckSucceeded") && is_false(m.conditions(), "OwnerRemediated")
        })
        .collect()
}

/// The `Remediating` condition. `owner` is the kind that will not act on the other unhealthy Machines
/// (`by MachineSet`), or empty for a Cluster.
#[must_use]
pub fn remediating(machines: &[&Machine], owner: &str) -> Condition {
    let queue = to_remediate(machines);
    if !queue.is_empty() {
        let owner_remediated = Aggregate {
            source_type: "OwnerRemediated",
            target: "Remediating",
            polarity: Polarity::Positive,
            reasons: Reasons { issue: "Remediating", unknown: "Remediating", info: "Remediating" },
        };
        let message = owner_remediated.of(&sources(&queue)).message;
        return condition("Remediating", Status::True, "Remediating", message);
    }
    let mut names: Vec<&str> = machines
        .iter()
        .filter(|m| is_false(m.conditions(), "HealthCheckSucceeded"))
        .map(|m| name(m))
        .collect();
    names.sort_unstable();
    let suffix = if owner.is_empty() { String::new() } else { format!(" by {owner}") };
    let message = match names.as_slice() {
        [] => String::new(),
        [one] => format!("Machine {one} is not healthy (not to be remediated{suffix})"),
        many => format!("Machines {} are not healthy (not to be remediated{suffix})", join_limited(many, 3)),
    };
    condition("Remediating", Status::False, "NotRemediating", message)
}

/// A sentence about Machines whose deletion takes more than fifteen minutes, with the likely causes
/// of slow drains. Empty when there are none.
#[must_use]
pub fn stale(machines: &[&Machine], now: Timestamp) -> String {
    let stale: Vec<&Machine> = machines
        .iter()
        .copied()
        .filter(|m| {
            m.metadata.deletion_timestamp.as_ref().is_some_and(|at| now - from_k8s(at) > STALE_DELETION)
        })
        .collect();
    let mut names: Vec<&str> = stale.iter().map(|m| name(m)).collect();
    names.sort_unstable();
    let headline = match names.as_slice() {
        [] => return String::new(),
        [one] => format!("Machine {one} is in deletion since more than 15m"),
        many => format!("Machines {} are in deletion since more than 15m", join_limited(many, 3)),
    };
    let found: BTreeSet<&str> = stale.iter().flat_map(|m| slow_drain_causes(m, now)).collect();
    let causes: Vec<&str> =
        DRAIN_CAUSES.iter().map(|(cause, _)| *cause).filter(|c| found.contains(c)).collect();
    if causes.is_empty() {
        headline
    } else {
        format!("{headline}, delay likely due to {}", causes.join(", "))
    }
}

fn slow_drain_causes(machine: &Machine, now: Timestamp) -> Vec<&'static str> {
    let started = machine
        .status
        .as_ref()
        .and_then(|s| s.deletion.as_ref())
        .and_then(|d| d.node_drain_start_time.as_ref());
    let slow = started.is_some_and(|at| now - from_k8s(at) > SLOW_DRAIN);
    match find(machine.conditions(), "Deleting") {
        Some(c) if slow && c.status == "True" && c.reason == "DrainingNode" => drain_causes(&c.message),
        _ => Vec::new(),
    }
}

/// Cause and the text in a drain message that gives it away, in the order they are printed.
const DRAIN_CAUSES: [(&str, &str); 4] = [
    ("PodDisruptionBudgets", "cannot evict pod as it would violate the pod's disruption budget."),
    ("Pods not terminating", "deletionTimestamp set, but still not removed from the Node"),
    ("Pod eviction errors", "failed to evict Pod"),
    ("Pods not completed yet", "waiting for completion"),
];

/// The causes of a slow drain that its message names.
#[must_use]
pub fn drain_causes(message: &str) -> Vec<&'static str> {
    DRAIN_CAUSES.iter().filter(|(_, text)| message.contains(text)).map(|(cause, _)| *cause).collect()
}

fn created(machine: &Machine) -> Option<Timestamp> {
    machine.metadata.creation_timestamp.as_ref().map(from_k8s)
}
