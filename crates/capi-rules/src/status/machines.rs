//! Conditions of several Machines together: readiness, up-to-dateness, remediation, stale deletions.
//! Owns the conditions that MachineSets, MachineDeployments, control planes and Clusters share; must
//! not know which of them asks.
//! Source: cluster-api `core/reconcilers/{machineset,machinedeployment,cluster}/*_status.go`, v1.14.2.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::versions;
use crate::status::conditions::merge::{Aggregate, Reasons, Source};
use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::wording::{DELAY_CAUSE, OVERDUE, join_limited};
use capi_types::condition::{Conditioned as _, Status, find};
use capi_types::condition_types::Polarity;
use capi_types::key::annotation as annotation_of;
use capi_types::machine::Machine;
use capi_types::machine_set::VersionCount;
use capi_types::names::{annotation, label};
use capstan_base::time::{Timestamp, from_k8s};

/// A deletion that takes longer is reported as stale.
pub const STALE_DELETION: TimeDelta = TimeDelta::minutes(15);
/// A drain that takes longer has its likely causes named.
pub const SLOW_DRAIN: TimeDelta = TimeDelta::minutes(5);
/// Younger Machines need not have an `UpToDate` condition yet.
const UP_TO_DATE_GRACE: TimeDelta = TimeDelta::seconds(10);

/// Has the control plane label, with any value.
pub fn is_control_plane(machine: &Machine) -> bool {
    has_label(machine, label::CONTROL_PLANE)
}

/// Belongs to a MachinePool.
pub fn is_pool_machine(machine: &Machine) -> bool {
    has_label(machine, label::POOL_NAME)
}

fn has_label(machine: &Machine, name: &str) -> bool {
    machine.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(name))
}

/// The name; empty before the server has given one.
pub fn name(machine: &Machine) -> &str {
    machine.metadata.name.as_deref().unwrap_or_default()
}

/// An update in place runs, or is being prepared: it carries the annotation or has a pending hook.
pub fn is_updating_in_place(machine: &Machine) -> bool {
    annotation_of(machine, annotation::UPDATE_IN_PROGRESS).is_some()
        || annotation_of(machine, annotation::PENDING_HOOKS)
            .is_some_and(|hooks| hooks.split(',').any(|hook| hook.trim() == "UpdateMachine"))
}

/// Whether a Node can be reached, by the condition of its Machine about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It reports, be it that it is not ready.
    Reachable,
    /// Its kubelet is silent, it is gone, or nothing of its cluster is reached.
    Unreachable,
    /// It was not read yet, or could not be read.
    NotKnown,
}

impl Reach {
    /// `node`: status and reason of `NodeReady`, else of `NodeHealthy`, which older releases have alone.
    pub fn of(node: Option<(&str, &str)>) -> Self {
        const SILENT: [&str; 5] = [
            "NodeReadyUnknown",
            "NodeHealthyUnknown",
            "NodeHealthUnknown",
            "NodeConditionsFailed",
            "ConnectionDown",
        ];
        match node {
            Some(("Unknown", reason)) if SILENT.contains(&reason) => Self::Unreachable,
            // Other reasons say nothing of the Node.
            Some(("Unknown", _)) | None => Self::NotKnown,
            // No kubelet is left that could end its pods.
            Some((_, "NodeDeleted" | "NodeNotFound")) => Self::Unreachable,
            Some(_) => Self::Reachable,
        }
    }

    /// Of the Node of a Machine.
    pub fn of_machine(machine: &Machine) -> Self {
        let condition = |type_| find(machine.conditions(), type_);
        let found = condition("NodeReady").or_else(|| condition("NodeHealthy"));
        Self::of(found.map(|c| (c.status.as_str(), c.reason.as_str())))
    }
}

/// A Machine with those of its conditions that its owners look at, found in one pass over the list.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// As it was read.
    pub machine: &'a Machine,
    /// What the Machine itself needs, added up.
    pub ready: Option<&'a Condition>,
    /// Ready for `minReadySeconds`.
    pub available: Option<&'a Condition>,
    /// Whether it is as its owner wants it.
    pub up_to_date: Option<&'a Condition>,
    /// `HealthCheckSucceeded`, which a MachineHealthCheck writes.
    pub healthy: Option<&'a Condition>,
    /// `OwnerRemediated`: a MachineHealthCheck asks its owner to replace it.
    pub remediated: Option<&'a Condition>,
}

impl<'a> Member<'a> {
    /// Goes through the conditions once.
    pub fn of(machine: &'a Machine) -> Self {
        let mut member =
            Self { machine, ready: None, available: None, up_to_date: None, healthy: None, remediated: None };
        for condition in machine.conditions() {
            let slot = match condition.type_.as_str() {
                "Ready" => &mut member.ready,
                "Available" => &mut member.available,
                UP_TO_DATE => &mut member.up_to_date,
                HEALTHY => &mut member.healthy,
                REMEDIATED => &mut member.remediated,
                _ => continue,
            };
            // The first of a type counts, as `find` has it.
            slot.get_or_insert(condition);
        }
        member
    }

    /// A health check found it unhealthy.
    fn is_unhealthy(&self) -> bool {
        self.healthy.is_some_and(|c| c.status == "False")
    }

    /// And its owner is asked to act.
    pub fn is_to_be_remediated(&self) -> bool {
        self.is_unhealthy() && self.remediated.is_some_and(|c| c.status == "False")
    }
}

const UP_TO_DATE: &str = "UpToDate";
const HEALTHY: &str = "HealthCheckSucceeded";
const REMEDIATED: &str = "OwnerRemediated";

impl Source for Member<'_> {
    fn kind(&self) -> &str {
        "Machine"
    }

    fn name(&self) -> &str {
        name(self.machine)
    }

    fn is_control_plane_machine(&self) -> bool {
        is_control_plane(self.machine)
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        match type_ {
            "Ready" => self.ready,
            "Available" => self.available,
            UP_TO_DATE => self.up_to_date,
            HEALTHY => self.healthy,
            REMEDIATED => self.remediated,
            _ => find(self.machine.conditions(), type_),
        }
    }
}

/// Every Machine with what its owners look at.
pub fn members<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Vec<Member<'a>> {
    machines.into_iter().map(Member::of).collect()
}

/// The version each Machine runs (its kubelet's, or else what its spec asks for), counted. Of versions
/// that cannot be compared the one of the oldest Machine comes first.
pub fn versions<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Vec<VersionCount> {
    // Counted before sorting: a fleet has many Machines and few versions.
    let mut seen: BTreeMap<&str, (Age<'_>, i32)> = BTreeMap::new();
    for machine in machines {
        let age = age(machine);
        let (oldest, count) = seen.entry(running_version(machine)).or_insert((age, 0));
        *oldest = age.min(*oldest);
        *count += 1;
    }
    let mut seen: Vec<(&str, (Age<'_>, i32))> = seen.into_iter().collect();
    seen.sort_by_key(|(_, (oldest, _))| *oldest);
    versions::count(seen.into_iter().map(|(version, (_, count))| (version, count)))
}

/// When it was made; of Machines made at once the name decides.
type Age<'a> = (Option<jiff::Timestamp>, Option<&'a str>);

fn age(machine: &Machine) -> Age<'_> {
    (machine.metadata.creation_timestamp.as_ref().map(|t| t.0), machine.metadata.name.as_deref())
}

fn running_version(machine: &Machine) -> &str {
    let kubelet =
        machine.status.as_ref().and_then(|s| s.node_info.as_ref()).map(|info| info.kubelet_version.as_str());
    // What runs counts before what is wanted: a Machine of a pool states none.
    kubelet.filter(|v| !v.is_empty()).or(machine.spec.version.as_deref()).unwrap_or_default()
}

/// `RollingOut`: Machines whose `UpToDate` is false, with the distinct reasons, versions first.
pub fn rolling_out(machines: &[Member<'_>]) -> NewCondition<'static> {
    const TYPE: &str = "RollingOut";
    let outdated: Vec<&Condition> =
        machines.iter().filter_map(|m| m.up_to_date).filter(|c| c.status == "False").collect();
    if outdated.is_empty() {
        return NewCondition::new(TYPE, Status::False, "NotRollingOut", "");
    }
    let texts: BTreeSet<&str> =
        outdated.iter().map(|c| c.message.as_str()).filter(|text| !text.is_empty()).collect();
    let lines: BTreeSet<(bool, &str)> = texts
        .into_iter()
        // By line, as Machines share some of their reasons and not all.
        .flat_map(|text| text.split('\n'))
        // `false` sorts first, so versions lead and all others follow by name.
        .map(|line| (!line.starts_with("* Version"), line))
        .collect();
    let mut message = format!("Rolling out {} not up-to-date replicas", outdated.len());
    for (_, line) in lines {
        message.push('\n');
        message.push_str(line);
    }
    NewCondition::new(TYPE, Status::True, TYPE, message)
}

/// How many of these conditions are there and true.
pub fn count_true<'a>(conditions: impl IntoIterator<Item = Option<&'a Condition>>) -> i32 {
    let count = conditions.into_iter().flatten().filter(|c| c.status == "True").count();
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The aggregate of `Ready` as the condition `target`; no Machines is true, `NoReplicas`.
pub fn ready<'a>(target: &'a str, machines: &[Member<'_>]) -> NewCondition<'a> {
    aggregate(target, "Ready", Reasons::READY, machines)
}

/// The aggregate of `UpToDate` as the condition `target`, over Machines that have it or are older
/// than ten seconds.
pub fn up_to_date<'a>(target: &'a str, machines: &[Member<'_>], now: Timestamp) -> NewCondition<'a> {
    // A Machine of this moment has not been judged yet, and would make the sum unknown.
    let old_enough = |m: &Member<'_>| created(m.machine).is_some_and(|at| now - at > UP_TO_DATE_GRACE);
    let considered: Vec<Member<'_>> =
        machines.iter().copied().filter(|m| m.up_to_date.is_some() || old_enough(m)).collect();
    aggregate(target, UP_TO_DATE, Reasons::UP_TO_DATE, &considered)
}

fn aggregate<'a>(
    target: &'a str,
    source_type: &'a str,
    reasons: Reasons,
    machines: &[Member<'_>],
) -> NewCondition<'a> {
    if machines.is_empty() {
        // Apart, since an aggregate of nothing has no status.
        return NewCondition::new(target, Status::True, "NoReplicas", "");
    }
    Aggregate { source_type, target, polarity: Polarity::Positive, reasons }.of(machines)
}

/// The `Remediating` condition. `owner` is the kind that will not act on the other unhealthy Machines
/// (`by MachineSet`), or empty for a Cluster.
pub fn remediating<'a, 'm: 'a>(
    machines: impl IntoIterator<Item = &'a Member<'m>>,
    owner: &str,
) -> NewCondition<'static> {
    let unhealthy: Vec<Member<'_>> = machines.into_iter().copied().filter(Member::is_unhealthy).collect();
    let queue: Vec<Member<'_>> = unhealthy.iter().copied().filter(Member::is_to_be_remediated).collect();
    // The queue hides the others: a message names only what its owner acts on.
    if !queue.is_empty() {
        let owner_remediated = Aggregate {
            source_type: REMEDIATED,
            target: "Remediating",
            polarity: Polarity::Positive,
            reasons: Reasons { issue: "Remediating", unknown: "Remediating", info: "Remediating" },
        };
        let message = owner_remediated.of(&queue).message;
        return NewCondition::new("Remediating", Status::True, "Remediating", message);
    }
    let mut names: Vec<&str> = unhealthy.iter().map(|m| name(m.machine)).collect();
    names.sort_unstable();
    let suffix = if owner.is_empty() { String::new() } else { format!(" by {owner}") };
    let message = match names.as_slice() {
        [] => String::new(),
        [one] => format!("Machine {one} is not healthy (not to be remediated{suffix})"),
        many => format!("Machines {} are not healthy (not to be remediated{suffix})", join_limited(many, 3)),
    };
    NewCondition::new("Remediating", Status::False, "NotRemediating", message)
}

/// A sentence about Machines whose deletion takes more than fifteen minutes, with the likely causes
/// of slow drains. Empty when there are none.
pub fn stale<'a>(machines: impl IntoIterator<Item = &'a Machine>, now: Timestamp) -> String {
    let stale: Vec<&Machine> = machines
        .into_iter()
        .filter(|m| {
            m.metadata.deletion_timestamp.as_ref().is_some_and(|at| now - from_k8s(at) > STALE_DELETION)
        })
        .collect();
    let mut names: Vec<&str> = stale.iter().map(|m| name(m)).collect();
    names.sort_unstable();
    let headline = match names.as_slice() {
        [] => return String::new(),
        [one] => format!("Machine {one} is in deletion {OVERDUE}"),
        many => format!("Machines {} are in deletion {OVERDUE}", join_limited(many, 3)),
    };
    let found: BTreeSet<&str> = stale.iter().flat_map(|m| slow_drain_causes(m, now)).collect();
    let causes: Vec<&str> =
        // In the table's order, which is upstream's, and not by name.
        DRAIN_CAUSES.iter().map(|(cause, _)| *cause).filter(|c| found.contains(c)).collect();
    if causes.is_empty() { headline } else { format!("{headline}, {DELAY_CAUSE} {}", causes.join(", ")) }
}

fn slow_drain_causes(machine: &Machine, now: Timestamp) -> Vec<&'static str> {
    let started = machine
        .status
        .as_ref()
        .and_then(|s| s.deletion.as_ref())
        .and_then(|d| d.node_drain_start_time.as_ref());
    let slow = started.is_some_and(|at| now - from_k8s(at) > SLOW_DRAIN);
    match find(machine.conditions(), "Deleting") {
        // Only while the drain is what the deletion waits for: the message is of that stage.
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
pub fn drain_causes(message: &str) -> Vec<&'static str> {
    DRAIN_CAUSES.iter().filter(|(_, text)| message.contains(text)).map(|(cause, _)| *cause).collect()
}

fn created(machine: &Machine) -> Option<Timestamp> {
    machine.metadata.creation_timestamp.as_ref().map(from_k8s)
}
