//! What is true of a MachineDeployment: counters, phase, conditions, and how far a rollout may go.
//! Must not know which MachineSet is made or removed.
//! Source: cluster-api `core/reconcilers/machinedeployment/machinedeployment_status.go`, `mdutil/util.go`, v1.14.2.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::machine_set::{deleting_text, missing_text, with_stale};
use crate::status::amount::{Round, literal, scaled};
use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{Draft, internal_error, not_deleting, not_paused};
use crate::status::conditions::wording::BLOCKED_BECAUSE;
use crate::status::machines::{self, Member};
use crate::status::versions;
use capi_types::condition::Status;
use capi_types::machine::Machine;
use capi_types::machine_deployment::{DeploymentStrategy, MachineDeployment, MachineDeploymentStatus};
use capi_types::machine_set::{MachineSet, MachineSetStatus, VersionCount};
use capstan_base::time::Timestamp;
use k8s_machinery::selector;

/// The condition types this kind owns.
pub const OWNED: &[&str] = &[
    "Paused",
    "Available",
    "RollingOut",
    "ScalingUp",
    "ScalingDown",
    "MachinesReady",
    "MachinesUpToDate",
    "Remediating",
    "Deleting",
];

/// Everything the status depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// As it is now, this run's own writes included.
    pub deployment: MachineDeployment,
    /// Those it controls. `None`: they could not be listed, or a template could not be read.
    pub sets: Option<Vec<Arc<MachineSet>>>,
    /// All that its selector matches, whatever owns them.
    pub machines: Vec<Arc<Machine>>,
    /// Kinds of templates that it refers to and that do not exist, bootstrap first.
    pub missing_templates: Vec<String>,
}

/// Does a pass over these facts go through, so that the generation counts as observed?
pub fn is_complete(observed: &Observed) -> bool {
    observed.sets.is_some()
}

/// The status of a MachineDeployment that is not paused. `observedGeneration` is the caller's to set.
pub fn status(observed: &Observed, now: Timestamp) -> MachineDeploymentStatus {
    let mut status = observed.deployment.status.clone().unwrap_or_default();
    status.selector = Some(selector::to_text(&observed.deployment.spec.selector));
    if let Some(sets) = &observed.sets {
        status.replicas = sum(sets, |s| s.replicas);
        status.ready_replicas = sum(sets, |s| s.ready_replicas);
        status.available_replicas = sum(sets, |s| s.available_replicas);
        status.up_to_date_replicas = sum(sets, |s| s.up_to_date_replicas);
        status.versions = versions_of(sets);
    }
    status.phase = Some(phase(observed).to_owned());
    let mut draft =
        Draft::new(std::mem::take(&mut status.conditions), observed.deployment.metadata.generation, now);
    draft.set(not_paused());
    judge(&mut draft, observed, &status, now);
    status.conditions = draft.finish();
    status
}

fn sum(sets: &[Arc<MachineSet>], field: impl Fn(&MachineSetStatus) -> Option<i32>) -> Option<i32> {
    // No sum without an addend: nothing reported is not the same as 0.
    sets.iter().filter_map(|s| s.status.as_ref().and_then(&field)).reduce(i32::saturating_add)
}

fn versions_of(sets: &[Arc<MachineSet>]) -> Vec<VersionCount> {
    let seen = sets
        .iter()
        .flat_map(|s| s.status.iter().flat_map(|status| &status.versions))
        .map(|v| (v.version.as_str(), v.replicas.unwrap_or(0)));
    versions::count(seen)
}

fn is_deleting(deployment: &MachineDeployment) -> bool {
    deployment.metadata.deletion_timestamp.is_some()
}

fn phase(observed: &Observed) -> &'static str {
    let (Some(sets), Some(desired)) = (&observed.sets, observed.deployment.spec.replicas) else {
        return "Unknown";
    };
    let current = sum(sets, |s| s.replicas).unwrap_or(0);
    match desired.cmp(&current) {
        // First: a deletion shrinks whatever the numbers say.
        _ if is_deleting(&observed.deployment) => "ScalingDown",
        std::cmp::Ordering::Equal => "Running",
        std::cmp::Ordering::Less => "ScalingDown",
        std::cmp::Ordering::Greater => "ScalingUp",
    }
}

fn judge(draft: &mut Draft, observed: &Observed, status: &MachineDeploymentStatus, now: Timestamp) {
    let all = machines::members(observed.machines.iter().map(Arc::as_ref));
    let current = status.replicas.unwrap_or(0);
    draft.set(available(observed, status));
    draft.set(machines::rolling_out(&all));
    draft.set(scaling_up(observed, current));
    draft.set(scaling_down(observed, current, &all, now));
    draft.set(machines::ready("MachinesReady", &all));
    draft.set(machines::up_to_date("MachinesUpToDate", &all, now));
    draft.set(machines::remediating(&all, "MachineDeployment/MachineSet"));
    draft.set(deleting(observed, &all, now));
}

fn available(observed: &Observed, status: &MachineDeploymentStatus) -> NewCondition<'static> {
    let unknown = |reason, message| NewCondition::new("Available", Status::Unknown, reason, message);
    if observed.sets.is_none() {
        return internal_error("Available");
    }
    let Some(desired) = observed.deployment.spec.replicas else {
        return unknown("WaitingForReplicasSet", "Waiting for spec.replicas set");
    };
    let Some(available) = status.available_replicas else {
        return unknown("WaitingForAvailableReplicasSet", "Waiting for status.availableReplicas set");
    };
    let needed = desired.saturating_sub(max_unavailable(&observed.deployment));
    if available >= needed {
        return NewCondition::new("Available", Status::True, "Available", "");
    }
    let mut message = format!("{available} available replicas, at least {needed} required");
    if strategy(&observed.deployment).is_some_and(|s| s.type_ == "RollingUpdate") {
        let value = max_unavailable_text(&observed.deployment);
        message.push_str(&format!(
            " (spec.strategy.rollout.maxUnavailable is {value}, spec.replicas is {desired})"
        ));
    }
    if is_deleting(&observed.deployment) {
        // Numbers are of no interest then, and upstream drops them.
        "Deletion in progress".clone_into(&mut message);
    }
    NewCondition::new("Available", Status::False, "NotAvailable", message)
}

/// Wanted Machines while scaling: none while deleting. `Err` is the condition to report instead.
fn desired(observed: &Observed, type_: &'static str) -> Result<i32, NewCondition<'static>> {
    if observed.sets.is_none() {
        return Err(internal_error(type_));
    }
    match observed.deployment.spec.replicas {
        None => Err(NewCondition::new(
            type_,
            Status::Unknown,
            "WaitingForReplicasSet",
            "Waiting for spec.replicas set",
        )),
        Some(_) if is_deleting(&observed.deployment) => Ok(0),
        Some(replicas) => Ok(replicas),
    }
}

fn scaling_up(observed: &Observed, current: i32) -> NewCondition<'static> {
    let desired = match desired(observed, "ScalingUp") {
        Ok(desired) => desired,
        Err(unknown) => return unknown,
    };
    let deleting = is_deleting(&observed.deployment);
    let missing = if deleting { String::new() } else { missing_text(&observed.missing_templates) };
    let (status, reason, mut message) = if current >= desired {
        let message = if missing.is_empty() { "" } else { "Scaling up would be blocked because " };
        (Status::False, "NotScalingUp", message.to_owned())
    } else {
        let because = if missing.is_empty() { String::new() } else { format!(" {BLOCKED_BECAUSE} ") };
        (Status::True, "ScalingUp", format!("Scaling up from {current} to {desired} replicas{because}"))
    };
    message.push_str(&missing);
    NewCondition::new("ScalingUp", status, reason, message)
}

fn scaling_down(
    observed: &Observed,
    current: i32,
    machines: &[Member<'_>],
    now: Timestamp,
) -> NewCondition<'static> {
    match desired(observed, "ScalingDown") {
        Err(unknown) => unknown,
        Ok(desired) if current > desired => {
            let message = format!("Scaling down from {current} to {desired} replicas");
            NewCondition::new("ScalingDown", Status::True, "ScalingDown", with_stale(message, machines, now))
        }
        Ok(_) => NewCondition::new("ScalingDown", Status::False, "NotScalingDown", ""),
    }
}

fn deleting(observed: &Observed, machines: &[Member<'_>], now: Timestamp) -> NewCondition<'static> {
    let Some(sets) = &observed.sets else { return internal_error("Deleting") };
    if !is_deleting(&observed.deployment) {
        return not_deleting();
    }
    // Machines go first; MachineSets without any are named only once none is left.
    let message = if machines.is_empty() && !sets.is_empty() {
        format!("Deleting {} MachineSets", sets.len())
    } else {
        deleting_text(machines, now)
    };
    NewCondition::new("Deleting", Status::True, "Deleting", message)
}

fn strategy(deployment: &MachineDeployment) -> Option<&DeploymentStrategy> {
    deployment.spec.rollout.as_ref()?.strategy.as_ref()
}

/// The strategy's type; a deployment without one rolls.
pub fn is_rolling_update(deployment: &MachineDeployment) -> bool {
    strategy(deployment).is_none_or(|s| s.type_ == "RollingUpdate")
}

/// Machines replaced only when a person deletes them.
pub fn is_on_delete(deployment: &MachineDeployment) -> bool {
    strategy(deployment).is_some_and(|s| s.type_ == "OnDelete")
}

/// Extra Machines during a rollout; percentages round up. 0 for `OnDelete`.
pub fn max_surge(deployment: &MachineDeployment) -> i32 {
    if is_rolling_update(deployment) { fenceposts(deployment).0 } else { 0 }
}

/// Machines that may be missing during a rollout; percentages round down, capped at the replicas.
/// 0 for `OnDelete` and without replicas; 1 when surge and this would both be 0.
pub fn max_unavailable(deployment: &MachineDeployment) -> i32 {
    let replicas = deployment.spec.replicas.unwrap_or(0);
    if !is_rolling_update(deployment) || replicas == 0 { 0 } else { fenceposts(deployment).1.min(replicas) }
}

/// Source: `ResolveFenceposts` in `mdutil/util.go`.
fn fenceposts(deployment: &MachineDeployment) -> (i32, i32) {
    let replicas = deployment.spec.replicas.unwrap_or(0);
    let rolling = strategy(deployment).and_then(|s| s.rolling_update.as_ref());
    let surge = rolling.and_then(|r| r.max_surge.as_ref()).map_or(1, |v| resolve(v, replicas, Round::Up));
    let unavailable =
        rolling.and_then(|r| r.max_unavailable.as_ref()).map_or(0, |v| resolve(v, replicas, Round::Down));
    // With both at 0 a rollout could neither add nor remove anything.
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// What is neither a number nor a percentage counts as 0, as admission refuses it; nor is anything
/// negative.
fn resolve(value: &IntOrString, total: i32, round: Round) -> i32 {
    scaled(value, total, round).unwrap_or(0).max(0)
}

/// What is not set is printed as Go prints it.
fn max_unavailable_text(deployment: &MachineDeployment) -> String {
    let rolling = strategy(deployment).and_then(|s| s.rolling_update.as_ref());
    rolling.and_then(|r| r.max_unavailable.as_ref()).map_or_else(|| "<nil>".to_owned(), literal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::conditions::setter::{CHECK_LOGS, condition};
    use crate::status::tests::{machine_sums, witness};
    use capi_types::condition::{Conditioned as _, find};
    use capi_types::machine_deployment::{DeploymentRollingUpdate, DeploymentRollout};
    use capstan_base::time::parse_rfc3339;

    fn now() -> Timestamp {
        parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
    }

    fn deployment(replicas: i32, surge: &str, unavailable: &str) -> MachineDeployment {
        let value = |text: &str| match text.parse() {
            Ok(n) => IntOrString::Int(n),
            Err(_) => IntOrString::String(text.to_owned()),
        };
        let mut md = MachineDeployment::default();
        md.spec.replicas = Some(replicas);
        md.spec.rollout = Some(DeploymentRollout {
            after: None,
            strategy: Some(DeploymentStrategy {
                type_: "RollingUpdate".into(),
                rolling_update: Some(DeploymentRollingUpdate {
                    max_surge: Some(value(surge)),
                    max_unavailable: Some(value(unavailable)),
                }),
            }),
        });
        md
    }

    fn set(replicas: i32, available: i32) -> Arc<MachineSet> {
        let status = MachineSetStatus {
            replicas: Some(replicas),
            ready_replicas: Some(available),
            available_replicas: Some(available),
            up_to_date_replicas: Some(replicas),
            ..MachineSetStatus::default()
        };
        Arc::new(MachineSet { status: Some(status), ..MachineSet::default() })
    }

    fn observed(deployment: MachineDeployment, sets: Vec<Arc<MachineSet>>) -> Observed {
        Observed { deployment, sets: Some(sets), machines: Vec::new(), missing_templates: Vec::new() }
    }

    fn said(observed: &Observed, type_: &str) -> (String, String, String) {
        let conditions = status(observed, now()).conditions;
        let c = find(&conditions, type_).expect("the condition");
        (c.status.clone(), c.reason.clone(), c.message.clone())
    }

    #[track_caller]
    fn expect(observed: &Observed, type_: &str, expected: (&str, &str, &str)) {
        witness::expect("MachineDeployment", &status(observed, now()).conditions, type_, expected);
    }

    /// Three wanted and there, with these Machines.
    fn with(machines: Vec<Arc<Machine>>) -> Observed {
        Observed { machines, ..observed(deployment(3, "1", "0"), vec![set(3, 3)]) }
    }

    #[test]
    fn machines_are_summed_up() {
        machine_sums::check("MachineDeployment", now(), |machines| status(&with(machines), now()).conditions);
        expect(&with(Vec::new()), "RollingOut", ("False", "NotRollingOut", ""));
        let old = with(vec![machine_sums::machine(&[("UpToDate", Status::False, "* old")], now())]);
        expect(&old, "RollingOut", ("True", "RollingOut", "Rolling out 1 not up-to-date replicas\n* old"));
    }

    #[test]
    fn replicas_decide_the_rest() {
        let calm = observed(deployment(3, "1", "0"), vec![set(3, 3)]);
        for (type_, reason) in
            [("ScalingUp", "NotScalingUp"), ("ScalingDown", "NotScalingDown"), ("Deleting", "NotDeleting")]
        {
            expect(&calm, type_, ("False", reason, ""));
        }
        expect(&calm, "Available", ("True", "Available", ""));
        let few = observed(deployment(3, "1", "0"), vec![set(1, 1)]);
        expect(&few, "ScalingUp", ("True", "ScalingUp", "Scaling up from 1 to 3 replicas"));
        let lack = "1 available replicas, at least 3 required (spec.strategy.rollout.maxUnavailable is 0, spec.replicas is 3)";
        expect(&few, "Available", ("False", "NotAvailable", lack));
        let mut gone = observed(deployment(3, "1", "0"), vec![set(4, 1)]);
        gone.deployment.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
        expect(&gone, "ScalingDown", ("True", "ScalingDown", "Scaling down from 4 to 0 replicas"));
        expect(&gone, "Available", ("False", "NotAvailable", "Deletion in progress"));
        expect(&gone, "Deleting", ("True", "Deleting", "Deleting 1 MachineSets"));
        let mut unset = calm.clone();
        unset.deployment.spec.replicas = None;
        for type_ in ["Available", "ScalingUp", "ScalingDown"] {
            expect(&unset, type_, ("Unknown", "WaitingForReplicasSet", "Waiting for spec.replicas set"));
        }
        let fresh = observed(deployment(3, "1", "0"), vec![Arc::new(MachineSet::default())]);
        let waiting = "Waiting for status.availableReplicas set";
        expect(&fresh, "Available", ("Unknown", "WaitingForAvailableReplicasSet", waiting));
        let mut blind = calm;
        blind.sets = None;
        for type_ in ["Available", "ScalingUp", "ScalingDown", "Deleting"] {
            expect(&blind, type_, ("Unknown", "InternalError", CHECK_LOGS));
        }
    }

    #[test]
    fn fenceposts_round_as_upstream_does() {
        for (replicas, surge, unavailable, expected) in [
            (10, "25%", "25%", (3, 2)),
            (3, "1", "0", (1, 0)),
            (3, "0", "0", (0, 1)),
            (1, "0", "5", (0, 1)),
            (0, "1", "1", (1, 0)),
        ] {
            let md = deployment(replicas, surge, unavailable);
            assert_eq!((max_surge(&md), max_unavailable(&md)), expected, "{replicas} {surge} {unavailable}");
        }
    }

    #[test]
    fn availability_counts_down_from_replicas() {
        let ok = observed(deployment(3, "1", "1"), vec![set(3, 2)]);
        assert_eq!(said(&ok, "Available").1, "Available");
        let bad = observed(deployment(3, "1", "0"), vec![set(2, 1), set(1, 1)]);
        assert_eq!(
            said(&bad, "Available").2,
            "2 available replicas, at least 3 required (spec.strategy.rollout.maxUnavailable is 0, spec.replicas is 3)"
        );
        let mut unset = observed(deployment(3, "1", "0"), vec![set(2, 2)]);
        let rollout = unset.deployment.spec.rollout.as_mut().expect("a rollout");
        rollout.strategy.as_mut().expect("a strategy").rolling_update = None;
        assert_eq!(
            said(&unset, "Available").2,
            "2 available replicas, at least 3 required (spec.strategy.rollout.maxUnavailable is <nil>, spec.replicas is 3)"
        );
        let fresh = observed(deployment(3, "1", "0"), vec![Arc::new(MachineSet::default())]);
        assert_eq!(said(&fresh, "Available").1, "WaitingForAvailableReplicasSet");
        assert_eq!(status(&fresh, now()).replicas, None);
    }

    #[test]
    fn rolling_out_lists_versions_first() {
        let mut rolling = observed(deployment(2, "1", "0"), vec![set(2, 2)]);
        let machine = |message: &str| {
            let mut machine = Machine::default();
            *machine.conditions_mut() = vec![condition("UpToDate", Status::False, "NotUpToDate", message)];
            Arc::new(machine)
        };
        rolling.machines = vec![
            machine("* DevMachine is not up-to-date\n* Version v1, v2 required"),
            machine("* Version v1, v2 required"),
        ];
        assert_eq!(
            said(&rolling, "RollingOut").2,
            "Rolling out 2 not up-to-date replicas\n* Version v1, v2 required\n* DevMachine is not up-to-date"
        );
        // Somebody else's message may have empty lines: they are listed once, a message that is empty is not.
        rolling.machines = vec![machine("\n* b\n"), machine(""), machine("\n* a")];
        assert_eq!(said(&rolling, "RollingOut").2, "Rolling out 3 not up-to-date replicas\n\n* a\n* b");
        rolling.machines = vec![machine("")];
        assert_eq!(said(&rolling, "RollingOut").2, "Rolling out 1 not up-to-date replicas");
    }

    #[test]
    fn phases_and_blocked_scaling() {
        for (desired, current, expected) in [(3, 3, "Running"), (3, 1, "ScalingUp"), (1, 3, "ScalingDown")] {
            let md = observed(deployment(desired, "1", "0"), vec![set(current, current)]);
            assert_eq!(status(&md, now()).phase.as_deref(), Some(expected));
        }
        let mut blocked = observed(deployment(3, "1", "0"), vec![set(1, 1)]);
        blocked.missing_templates = vec!["DevMachineTemplate".into()];
        assert_eq!(
            said(&blocked, "ScalingUp").2,
            "Scaling up from 1 to 3 replicas is blocked because DevMachineTemplate does not exist"
        );
        blocked.sets = None;
        assert_eq!(status(&blocked, now()).phase.as_deref(), Some("Unknown"));
        assert_eq!(said(&blocked, "Deleting").1, "InternalError");
    }
}
