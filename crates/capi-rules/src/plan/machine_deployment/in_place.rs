//! Machines that change their MachineSet instead of being replaced: old MachineSets are told to hand theirs over, the
//! current one to take them, and each that arrived is counted once. Where Machines are moved, the surge shrinks to what
//! starts the rollout. The numbers are those of `rolling`; must not know how Machines are moved or updated, nor how
//! extensions are reached.
//! Source: cluster-api `core/reconcilers/machinedeployment/machinedeployment_rollout_rollingupdate.go`
//! (`reconcileReplicasPendingAcknowledgeMove`, `reconcileInPlaceUpdateIntent`),
//! `machinedeployment_canupdatemachineset.go`, v1.14.2 (MD-5, MD-8, MD-CAN).

use std::collections::BTreeSet;

use serde_json::Value;

use super::desired::annotate;
use super::identify::identify;
use super::{Observed, Rollout, Share, Why};
use crate::plan::Plan;
use crate::status::in_place::{Replace, Verdict};
use crate::status::machine_deployment::is_rolling_update;
use crate::status::machines::{is_updating_in_place, name};
use capi_types::hook::{MachineSetObjects, subject};
use capi_types::key::{annotation, controller_of};
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capi_types::names::annotation as keys;
use capstan_base::time::Timestamp;

/// Annotations of MachineSets that only their MachineDeployment writes.
pub const OWN_ANNOTATIONS: [&str; 3] =
    [keys::MOVE_MACHINES_TO, keys::RECEIVE_MACHINES_FROM, keys::ACKNOWLEDGED_MOVE];

/// A MachineSet whose Machines another one should take over; both as they will be stored, with the replicas that they
/// have now, as upstream sends them: 0 of one that is to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The one that gives its Machines.
    pub old: MachineSet,
    /// The one that takes them.
    pub new: MachineSet,
}

/// A MachineSet with its templates as a request carries them. Null: it refers to none.
pub fn sent(
    set: &MachineSet,
    infrastructure: Option<&Value>,
    bootstrap: Option<&Value>,
) -> MachineSetObjects {
    let sent = |template: Option<&Value>| template.map_or(Value::Null, subject);
    MachineSetObjects {
        machine_set: subject(&serde_json::to_value(set).unwrap_or_default()),
        infrastructure_machine_template: sent(infrastructure),
        bootstrap_config_template: sent(bootstrap),
    }
}

/// Why Machines of one of these MachineSets cannot go to the other without asking.
pub fn not_comparable([current, desired]: &[MachineSetObjects; 2]) -> Option<Replace> {
    if current.infrastructure_machine_template.is_null() || desired.infrastructure_machine_template.is_null()
    {
        return Some(Replace::Missing { what: "the infrastructure template".to_owned() });
    }
    let is_one_sided =
        current.bootstrap_config_template.is_null() != desired.bootstrap_config_template.is_null();
    is_one_sided.then_some(Replace::OneSidedBootstrap)
}

/// What has to be known before this MachineDeployment can be planned.
pub fn questions(observed: &Observed, now: Timestamp) -> Vec<Question> {
    let deployment = &observed.deployment;
    let rolls = deployment.metadata.deletion_timestamp.is_none()
        && deployment.spec.paused != Some(true)
        && is_rolling_update(deployment);
    if !observed.in_place.is_on() || !rolls {
        return Vec::new();
    }
    let identified = identify(deployment, &observed.sets, now);
    // Blockers of this trial are dropped: the plan reports them itself.
    let Some(mut rollout) = Rollout::begin(observed, &identified, false, &mut Plan::default()) else {
        return Vec::new();
    };
    // The plan acknowledges first, too: the raised number decides whether there is anything to ask.
    acknowledge(&mut rollout, observed);
    let Some(current) = &rollout.current else { return Vec::new() };
    let question = |index: usize| Question { old: as_asked(&rollout.old[index]), new: as_asked(current) };
    candidates(&rollout).into_iter().map(question).collect()
}

fn as_asked(share: &Share) -> MachineSet {
    let mut set = share.desired.clone();
    set.spec.replicas = Some(share.spec);
    set
}

/// Old MachineSets that have Machines to hand over, by position.
fn candidates(rollout: &Rollout) -> Vec<usize> {
    // By spec and not by intent, as upstream: growth decided in this pass does not count.
    if rollout.current.as_ref().is_none_or(|current| current.spec >= rollout.replicas) {
        return Vec::new();
    }
    let old = rollout.old.iter().enumerate();
    old.filter(|(_, share)| share.status > 0 && share.eligible).map(|(index, _)| index).collect()
}

/// MD-5: Machines that arrived at the current MachineSet raise its replicas, each once.
pub(super) fn acknowledge(rollout: &mut Rollout, observed: &Observed) {
    let Some(current) = rollout.current.as_mut().filter(|_| observed.in_place.is_on()) else { return };
    let Some(live) = &current.live else { return };
    // As stored, not as desired: a name counts once it was written together with the raised number.
    let known: BTreeSet<&str> =
        annotation(live.as_ref(), keys::ACKNOWLEDGED_MOVE).unwrap_or_default().split(',').collect();
    let arrived = |machine: &Machine| {
        let controlled =
            controller_of(machine).is_some_and(|owner| Some(&owner.uid) == live.metadata.uid.as_ref());
        controlled && annotation(machine, keys::PENDING_ACKNOWLEDGE_MOVE).is_some()
    };
    let names: BTreeSet<&str> = observed.machines.iter().filter(|m| arrived(m)).map(|m| name(m)).collect();
    // Not annotated: the apply takes the list away, and a Machine that comes again is counted anew.
    if names.is_empty() {
        return;
    }
    // The list has every Machine that waits, not only
    // new ones: a name left out would be counted again.
    let list = joined(&names);
    let new = names.iter().filter(|name| !known.contains(*name)).count();
    if new > 0 {
        // Into `spec` and not an intent: the rules that
        // follow count the Machine as one that is there.
        current.spec += i32::try_from(new).unwrap_or(i32::MAX);
        current.note(format!("acknowledge Machines {list} moved from an old MachineSet"));
    }
    annotate(&mut current.desired, keys::ACKNOWLEDGED_MOVE, list);
}

/// MD-8: which old MachineSets hand Machines over, and how much of the surge is still needed then.
///
/// # Errors
/// When that is not known of one of them.
pub(super) fn intend(rollout: &mut Rollout, observed: &Observed) -> Result<(), Why> {
    if !observed.in_place.is_on() {
        return Ok(());
    }
    let Some(target) = rollout.current.as_ref().map(|current| current.name().to_owned()) else {
        return Ok(());
    };
    let mut givers = BTreeSet::new();
    for index in candidates(rollout) {
        let share = &mut rollout.old[index];
        let set = share.name().to_owned();
        match observed.in_place.of(&set) {
            None => return Err(Why::NotAsked(set)),
            Some(Err(detail)) => return Err(Why::NoAnswer { set, detail: detail.clone() }),
            // Not an error: other old MachineSets may still hand theirs over.
            Some(Ok(Verdict::Replace(_))) => {}
            Some(Ok(Verdict::InPlace { .. })) => {
                share.note(format!("should scale down by moving Machines to MachineSet {target}"));
                annotate(&mut share.desired, keys::MOVE_MACHINES_TO, target.clone());
                givers.insert(set);
            }
        }
    }
    if givers.is_empty() {
        return Ok(());
    }
    let givers: BTreeSet<&str> = givers.iter().map(String::as_str).collect();
    let in_progress = is_in_progress(rollout, observed);
    if let Some(current) = &mut rollout.current {
        annotate(&mut current.desired, keys::RECEIVE_MACHINES_FROM, joined(&givers));
        save_surge(current, rollout.max_surge, in_progress);
    }
    Ok(())
}

/// A Machine that can be updated makes a new one superfluous: one at most starts a rollout that nothing else moves.
fn save_surge(current: &mut super::Share, max_surge: i32, in_progress: bool) {
    let Some(up) = current.intent.map(|intent| intent - current.spec).filter(|up| *up > 0) else { return };
    let without = (up - max_surge).max(0);
    let surge = up - without;
    if surge <= 0 {
        return;
    }
    let mut kept = without;
    if without == 0 && !in_progress {
        kept = 1;
        current.note("surge 1 allowed to create availability for in-place updates".to_owned());
    } else {
        current.note(format!("surge {surge} dropped to prioritize in-place updates"));
    }
    current.intent = (kept > 0).then_some(current.spec + kept);
}

/// Something moves already, or is not back yet.
fn is_in_progress(rollout: &Rollout, observed: &Observed) -> bool {
    let Some(current) = &rollout.current else { return false };
    let shrinks = |share: &super::Share| {
        share.spec < share.status || share.intent.is_some_and(|intent| intent < share.spec)
    };
    current.spec != current.status
        || rollout.old.iter().any(shrinks)
        || current.spec != current.up_to_date
        || observed.machines.iter().any(|machine| is_updating_in_place(machine))
        || current.spec != current.available
}

fn joined(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(",")
}
