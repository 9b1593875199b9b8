//! What is true of a MachineSet: counters, versions, conditions. Must not know how Machines are made.
//! Source: cluster-api `core/reconcilers/machineset/machineset_controller_status.go`, v1.14.2.

use std::sync::Arc;

use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{Draft, internal_error, not_deleting, not_paused};
use crate::status::conditions::wording::{BLOCKED_BECAUSE, DO_NOT_EXIST, DOES_NOT_EXIST};
use crate::status::machines::{self, Member};
use capi_types::condition::Status;
use capi_types::key::annotation;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::{MachineSet, MachineSetStatus};
use capi_types::names;
use capstan_base::time::Timestamp;
use k8s_machinery::selector;

/// The condition types this kind owns.
pub const OWNED: &[&str] =
    &["Paused", "ScalingUp", "ScalingDown", "MachinesReady", "MachinesUpToDate", "Remediating", "Deleting"];

/// Everything the status depends on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// As it is now, this run's own writes included.
    pub set: MachineSet,
    /// Those it controls, deleting ones included. `None`: they could not be listed.
    pub machines: Option<Vec<Arc<Machine>>>,
    /// Kinds of templates that it refers to and that do not exist, bootstrap first.
    pub missing_templates: Vec<String>,
    /// Why no Machine was created in this pass; empty when none was due or none was held back.
    pub preflight: Vec<String>,
}

/// The status of a MachineSet that is not paused. `observedGeneration` is the caller's to set.
pub fn status(observed: &Observed, now: Timestamp) -> MachineSetStatus {
    // The old one is the base, so that what is not computed here is kept.
    let mut status = observed.set.status.clone().unwrap_or_default();
    status.selector = Some(selector::to_text(&observed.set.spec.selector));
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), observed.set.metadata.generation, now);
    draft.set(not_paused());
    match &observed.machines {
        Some(list) => {
            let all = machines::members(list.iter().map(Arc::as_ref));
            count(&mut status, &all);
            judge(&mut draft, observed, &all, now);
        }
        None => {
            for type_ in OWNED.iter().filter(|type_| **type_ != "Paused") {
                draft.set(internal_error(type_));
            }
        }
    }
    status.conditions = draft.finish();
    status
}

fn count(status: &mut MachineSetStatus, all: &[Member<'_>]) {
    // Machines in an update are there, but not to be relied on: only the total counts them.
    let settled: Vec<Member<'_>> =
        all.iter().copied().filter(|m| !machines::is_updating_in_place(m.machine)).collect();
    status.replicas = Some(number(all.len()));
    status.ready_replicas = Some(machines::count_true(settled.iter().map(|m| m.ready)));
    status.available_replicas = Some(machines::count_true(settled.iter().map(|m| m.available)));
    status.up_to_date_replicas = Some(machines::count_true(settled.iter().map(|m| m.up_to_date)));
    status.versions = machines::versions(all.iter().map(|m| m.machine));
}

fn judge(draft: &mut Draft, observed: &Observed, all: &[Member<'_>], now: Timestamp) {
    draft.set(scaling_up(observed, number(all.len())));
    draft.set(scaling_down(observed, all, now));
    draft.set(machines::ready("MachinesReady", all));
    draft.set(machines::up_to_date("MachinesUpToDate", all, now));
    draft.set(machines::remediating(all, "MachineSet"));
    draft.set(deleting(observed, all, now));
}

/// Does a missing template end the pass with an error, so that the generation does not count as observed?
/// Not of a MachineSet that goes, nor of one whose MachineDeployment (`None`: it has none) has moved on to
/// another revision. Source: `reconcileExternalTemplateReference`, `machineset_controller.go`.
pub fn needs_templates(set: &MachineSet, deployment: Option<&MachineDeployment>) -> bool {
    let own = annotation(set, names::annotation::REVISION).unwrap_or_default();
    let is_current = |deployment: &MachineDeployment| {
        annotation(deployment, names::annotation::REVISION).unwrap_or_default() == own
    };
    !is_deleting(set) && deployment.is_none_or(is_current)
}

fn is_deleting(set: &MachineSet) -> bool {
    set.metadata.deletion_timestamp.is_some()
}

/// Wanted Machines: none while deleting, `None` when the spec leaves it open.
fn desired(set: &MachineSet) -> Option<i32> {
    set.spec.replicas.map(|replicas| if is_deleting(set) { 0 } else { replicas })
}

fn waiting_for_replicas(type_: &str) -> NewCondition<'_> {
    NewCondition::new(type_, Status::Unknown, "WaitingForReplicasSet", "Waiting for spec.replicas set")
}

fn scaling_up(observed: &Observed, current: i32) -> NewCondition<'static> {
    let Some(desired) = desired(&observed.set) else { return waiting_for_replicas("ScalingUp") };
    let missing = missing_text(&observed.missing_templates);
    // A warning ahead: a missing template does no harm until a Machine has to be made.
    if current >= desired {
        let would_be_blocked = !missing.is_empty() && !is_deleting(&observed.set);
        let message = if would_be_blocked {
            format!("Scaling up would be blocked because {missing}")
        } else {
            String::new()
        };
        return NewCondition::new("ScalingUp", Status::False, "NotScalingUp", message);
    }
    let mut message = format!("Scaling up from {current} to {desired} replicas");
    let blockers: Vec<&str> = observed
        .preflight
        .iter()
        .map(String::as_str)
        .chain([missing.as_str()])
        .filter(|m| !m.is_empty())
        .collect();
    if !blockers.is_empty() {
        message.push_str(&format!(" {BLOCKED_BECAUSE}:"));
        for blocker in blockers {
            message.push_str("\n* ");
            message.push_str(blocker);
        }
    }
    NewCondition::new("ScalingUp", Status::True, "ScalingUp", message)
}

fn scaling_down(observed: &Observed, all: &[Member<'_>], now: Timestamp) -> NewCondition<'static> {
    let Some(desired) = desired(&observed.set) else { return waiting_for_replicas("ScalingDown") };
    // A Machine that was moved here is not surplus until the MachineDeployment has counted it.
    let current = number(all.iter().filter(|m| !is_pending_acknowledge(m.machine)).count());
    if current <= desired {
        return NewCondition::new("ScalingDown", Status::False, "NotScalingDown", "");
    }
    let message = format!("Scaling down from {current} to {desired} replicas");
    NewCondition::new("ScalingDown", Status::True, "ScalingDown", with_stale(message, all, now))
}

fn deleting(observed: &Observed, all: &[Member<'_>], now: Timestamp) -> NewCondition<'static> {
    if !is_deleting(&observed.set) {
        return not_deleting();
    }
    NewCondition::new("Deleting", Status::True, "Deleting", deleting_text(all, now))
}

/// `Deleting N Machines` with stale deletions, or `Deletion completed`.
pub(super) fn deleting_text(all: &[Member<'_>], now: Timestamp) -> String {
    match all.len() {
        0 => "Deletion completed".to_owned(),
        1 => with_stale("Deleting 1 Machine".to_owned(), all, now),
        n => with_stale(format!("Deleting {n} Machines"), all, now),
    }
}

pub(super) fn with_stale(message: String, all: &[Member<'_>], now: Timestamp) -> String {
    match machines::stale(all.iter().map(|m| m.machine), now) {
        stale if stale.is_empty() => message,
        stale => format!("{message}\n* {stale}"),
    }
}

/// `X does not exist`, or `X and Y do not exist`; empty when nothing is missing.
pub(super) fn missing_text(kinds: &[String]) -> String {
    match kinds {
        [] => String::new(),
        [one] => format!("{one} {DOES_NOT_EXIST}"),
        many => format!("{} {DO_NOT_EXIST}", many.join(" and ")),
    }
}

/// Moved here in place, and not yet counted by the MachineDeployment.
pub fn is_pending_acknowledge(machine: &Machine) -> bool {
    annotation(machine, names::annotation::PENDING_ACKNOWLEDGE_MOVE).is_some()
}

fn number(machines: usize) -> i32 {
    i32::try_from(machines).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::conditions::setter::{CHECK_LOGS, condition};
    use crate::status::tests::{machine_sums, witness};
    use capi_types::condition::Conditioned as _;
    use capi_types::machine_set::VersionCount;
    use capstan_base::time::parse_rfc3339;

    fn now() -> Timestamp {
        parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
    }

    fn observed(replicas: Option<i32>, machines: usize) -> Observed {
        let mut set = MachineSet::default();
        set.spec.replicas = replicas;
        let machine = |i: usize| {
            let mut machine = Machine::default();
            machine.metadata.name = Some(format!("m{i}"));
            machine.spec.version = Some("v1.35.4".into());
            *machine.conditions_mut() = vec![
                condition("Ready", Status::True, "Ready", ""),
                condition("Available", Status::of(i > 0), "X", ""),
                condition("UpToDate", Status::True, "UpToDate", ""),
            ];
            Arc::new(machine)
        };
        Observed {
            set,
            machines: Some((0..machines).map(machine).collect()),
            missing_templates: Vec::new(),
            preflight: Vec::new(),
        }
    }

    #[track_caller]
    fn expect(observed: &Observed, type_: &str, expected: (&str, &str, &str)) {
        witness::expect("MachineSet", &status(observed, now()).conditions, type_, expected);
    }

    #[test]
    fn machines_are_summed_up() {
        machine_sums::check("MachineSet", now(), |machines| {
            let set = Observed { machines: Some(machines), ..observed(Some(1), 0) };
            status(&set, now()).conditions
        });
    }

    #[test]
    fn a_set_at_rest() {
        let calm = observed(Some(3), 3);
        expect(&calm, "ScalingDown", ("False", "NotScalingDown", ""));
        expect(&calm, "Deleting", ("False", "NotDeleting", ""));
        let waiting = "Waiting for spec.replicas set";
        expect(&observed(None, 0), "ScalingDown", ("Unknown", "WaitingForReplicasSet", waiting));
    }

    #[test]
    fn counters_come_from_machine_conditions() {
        let status = status(&observed(Some(3), 3), now());
        assert_eq!((status.replicas, status.ready_replicas), (Some(3), Some(3)));
        assert_eq!((status.available_replicas, status.up_to_date_replicas), (Some(2), Some(3)));
        assert_eq!(status.versions[0], VersionCount { version: "v1.35.4".into(), replicas: Some(3) });
    }

    #[test]
    fn machines_updating_in_place_count_only_as_replicas() {
        let mut set = observed(Some(1), 1);
        let mut machine = (*set.machines.clone().expect("a list")[0]).clone();
        let key = names::annotation::UPDATE_IN_PROGRESS.to_owned();
        machine.metadata.annotations = Some([(key, String::new())].into());
        set.machines = Some(vec![Arc::new(machine)]);
        let status = status(&set, now());
        assert_eq!(
            (status.replicas, status.ready_replicas, status.up_to_date_replicas),
            (Some(1), Some(0), Some(0))
        );
    }

    #[test]
    fn scaling_says_how_far_and_what_blocks() {
        expect(&observed(Some(3), 3), "ScalingUp", ("False", "NotScalingUp", ""));
        let mut up = observed(Some(3), 1);
        expect(&up, "ScalingUp", ("True", "ScalingUp", "Scaling up from 1 to 3 replicas"));
        up.preflight = vec!["control plane is busy".into()];
        up.missing_templates = vec!["KubeadmConfigTemplate".into(), "DevMachineTemplate".into()];
        expect(
            &up,
            "ScalingUp",
            (
                "True",
                "ScalingUp",
                "Scaling up from 1 to 3 replicas is blocked because:\n* control plane is busy\n\
                 * KubeadmConfigTemplate and DevMachineTemplate do not exist",
            ),
        );
        expect(
            &observed(Some(1), 3),
            "ScalingDown",
            ("True", "ScalingDown", "Scaling down from 3 to 1 replicas"),
        );
        expect(
            &observed(None, 0),
            "ScalingUp",
            ("Unknown", "WaitingForReplicasSet", "Waiting for spec.replicas set"),
        );
    }

    #[test]
    fn deletion_counts_machines_down() {
        let mut gone = observed(Some(2), 2);
        gone.set.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
        expect(&gone, "Deleting", ("True", "Deleting", "Deleting 2 Machines"));
        expect(&gone, "ScalingDown", ("True", "ScalingDown", "Scaling down from 2 to 0 replicas"));
        gone.machines = Some(Vec::new());
        expect(&gone, "Deleting", ("True", "Deleting", "Deletion completed"));
    }

    #[test]
    fn earlier_revisions_outlive_their_templates() {
        let revised =
            |revision: &str| Some([(names::annotation::REVISION.to_owned(), revision.to_owned())].into());
        let mut set = MachineSet::default();
        set.metadata.annotations = revised("1");
        let mut deployment = MachineDeployment::default();
        deployment.metadata.annotations = revised("1");
        assert!(needs_templates(&set, None));
        assert!(needs_templates(&set, Some(&deployment)));
        deployment.metadata.annotations = revised("2");
        assert!(!needs_templates(&set, Some(&deployment)));
        set.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
        assert!(!needs_templates(&set, None));
    }

    #[test]
    fn what_could_not_be_listed_is_unknown_and_keeps_its_counters() {
        let mut blind = observed(Some(2), 0);
        blind.machines = None;
        blind.set.status = Some(MachineSetStatus { replicas: Some(7), ..MachineSetStatus::default() });
        assert_eq!(status(&blind, now()).replicas, Some(7));
        for type_ in OWNED.iter().filter(|type_| **type_ != "Paused") {
            expect(&blind, type_, ("Unknown", "InternalError", CHECK_LOGS));
        }
    }
}
