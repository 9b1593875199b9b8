//! Machines that change their MachineSet to be updated where they stand: the old one hands them over, the new one makes
//! them what its template says and hands them to their controller. Must not decide which MachineSet gives and which
//! takes; that is `machine_deployment::in_place`.
//! Source: cluster-api `core/reconcilers/machineset/machineset_controller.go` (`startMoveMachines`,
//! `triggerInPlaceUpdate`, `completeMoveMachine`, `syncReplicas`), v1.14.2 (MS-5, MS-7, §2.10 of the notes).
//! Intended difference: a Machine that is being deleted is not handed to its controller, which would not update it.

use std::time::Duration;

use serde_json::json;

use super::{Observed, Why, delete, desired, in_order};
use crate::plan::in_place::mark_pending;
use crate::plan::ownership::owner;
use crate::plan::{Plan, Step, StepAction, Write, field_owners};
use crate::status::contract::External;
use crate::status::machine_set::is_pending_acknowledge;
use crate::status::machines::{Member, is_updating_in_place, name};
use capi_types::hook::Hook;
use capi_types::key::{ObjectRef, annotation, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capi_types::names::{annotation as keys, label, manager};
use capstan_base::time::Timestamp;

/// After a move that the other MachineSet does not agree to yet.
const NOT_AGREED_RETRY: Duration = Duration::from_secs(5);

/// Names in an annotation with commas.
fn listed<'a>(set: &'a MachineSet, key: &str) -> Vec<&'a str> {
    annotation(set, key).unwrap_or_default().split(',').filter(|name| !name.is_empty()).collect()
}

/// MS-5: the Machines that are handed to their controller in this pass, by name.
pub(super) fn begin(observed: &Observed, plan: &mut Plan) -> Vec<String> {
    let mut begun = Vec::new();
    if !observed.updates_in_place {
        return begun;
    }
    for (index, machine) in observed.machines.iter().enumerate() {
        if !is_due(&observed.set, machine) {
            continue;
        }
        match writes(observed, index, machine) {
            Ok(writes) => {
                plan.steps.extend(Step::of(writes, Why::UpdateInPlace).map(|step| Step {
                    action: Some(StepAction::UpdateInPlace { machine: name(machine).to_owned() }),
                    ..step
                }));
                begun.push(name(machine).to_owned());
            }
            Err(what) => plan.block(Why::CannotBegin { machine: name(machine).to_owned(), what }),
        }
    }
    begun
}

/// Marked, not handed over yet, and counted by the MachineDeployment where one counts.
fn is_due(set: &MachineSet, machine: &Machine) -> bool {
    let hooks = annotation(machine, keys::PENDING_HOOKS).unwrap_or_default();
    let is_pending = hooks.split(',').any(|hook| hook.trim() == Hook::UpdateMachine.as_str());
    if annotation(machine, keys::UPDATE_IN_PROGRESS).is_none()
        || is_pending
        || machine.metadata.deletion_timestamp.is_some()
    {
        return false;
    }
    // Without the list no acknowledgement comes, as after a
    // rollout that was taken back: waiting would not end.
    let waits = is_pending_acknowledge(machine) && !listed(set, keys::RECEIVE_MACHINES_FROM).is_empty();
    !waits || listed(set, keys::ACKNOWLEDGED_MOVE).contains(&name(machine))
}

/// Infrastructure (the most likely to be refused), configuration, Machine, then what its controller waits for.
///
/// # Errors
/// The kind of what is missing.
fn writes(observed: &Observed, index: usize, machine: &Machine) -> Result<Vec<Write>, String> {
    let set = &observed.set;
    let [infrastructure, bootstrap] = observed.clones.get(index).ok_or("the InfraMachine")?;
    let refers = machine.spec.bootstrap.config_ref.is_some();
    let parts = [
        (Some(infrastructure), &observed.infrastructure_template),
        (refers.then_some(bootstrap), &observed.bootstrap_template),
    ];
    let mut writes = Vec::new();
    for (clone, template) in parts.into_iter().filter_map(|(clone, template)| Some((clone?, template))) {
        let live = found(clone)?;
        // A template that left after the Machine was moved:
        // nothing says what the object should become.
        let template = template.as_ref().ok_or_else(|| format!("the template of {}", live["kind"]))?;
        let intent = desired::updated_clone(live, set, template);
        writes.extend(field_owners::keep_value(live, intent, manager::MACHINE_SET));
    }
    writes.extend(field_owners::keep(machine, &desired::updated(machine, set), manager::MACHINE_SET));
    let object = ObjectRef::of(machine);
    let hooks = mark_pending(annotation(machine, keys::PENDING_HOOKS), Hook::UpdateMachine.as_str());
    let mut annotations = json!({ keys::PENDING_HOOKS: hooks });
    if is_pending_acknowledge(machine) {
        annotations[keys::PENDING_ACKNOWLEDGE_MOVE] = json!(null);
    }
    let body = json!({ "metadata": { "annotations": annotations } });
    writes.push(Write::Patch { object: object.clone(), body });
    let message = "Machine starting in-place update".to_owned();
    writes.push(Write::Event {
        about: object,
        warning: false,
        reason: "SuccessfulStartInPlaceUpdate",
        message,
    });
    Ok(writes)
}

fn found(clone: &External) -> Result<&serde_json::Value, String> {
    match clone {
        External::Found(provided) => Ok(provided.content()),
        External::NotFound { kind } => Err(kind.clone()),
        External::Unreadable { error, .. } => Err(error.clone()),
        External::NotSet => Err("the InfraMachine".to_owned()),
    }
}

/// Machines that arrived and are not counted yet: `spec.replicas` does not have them. `begun`: counted in this pass.
pub(super) fn not_counted(observed: &Observed, begun: &[String]) -> usize {
    // Without the list no acknowledgement comes, so a
    // Machine that waits for one counts as any other.
    if listed(&observed.set, keys::RECEIVE_MACHINES_FROM).is_empty() {
        return 0;
    }
    let waits = |machine: &&std::sync::Arc<Machine>| {
        is_pending_acknowledge(machine) && begun.iter().all(|begun| begun != name(machine))
    };
    observed.machines.iter().filter(waits).count()
}

/// MS-7: up to `count` Machines go to the MachineSet `target`, if it agrees.
pub(super) fn hand_over(observed: &Observed, target: &str, count: usize, now: Timestamp, plan: &mut Plan) {
    let hash = match agreed(observed, target) {
        Ok(hash) => hash,
        Err(sentence) => {
            plan.block(Why::CannotMove(sentence));
            plan.recheck_within(NOT_AGREED_RETRY);
            return;
        }
    };
    let mut left = count;
    for machine in in_order(&observed.set, &observed.machines, now) {
        if left == 0 {
            return;
        }
        let is_leaving = machine.metadata.deletion_timestamp.is_some();
        if Member::of(&machine).is_to_be_remediated() && !is_leaving {
            delete(observed, &machine, Why::Unhealthy, plan);
        } else if !is_leaving {
            let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
            if is_updating_in_place(&machine) || !has_node {
                // Neither moved nor counted: others are, or it is later.
                continue;
            }
            // Never absent here: `agreed` has read its label.
            let Some(new) = &observed.target else { return };
            plan.step(moved(&observed.set, &machine, new, &hash), Why::Move(target.to_owned()));
        }
        // Machines in deletion count, too: each lowers the number without a move.
        left -= 1;
    }
}

/// The label by which the Deployment tells its MachineSets apart.
///
/// # Errors
/// Why Machines cannot move there.
fn agreed(observed: &Observed, target: &str) -> Result<String, String> {
    let own = observed.set.metadata.name.as_deref().unwrap_or_default();
    let Some(set) = &observed.target else {
        return Err(format!(
            "failed to get MachineSet {target}, which is the target for the move operation: it does not exist"
        ));
    };
    if !listed(set, keys::RECEIVE_MACHINES_FROM).contains(&own) {
        let from = annotation(set.as_ref(), keys::RECEIVE_MACHINES_FROM).unwrap_or_default();
        return Err(format!(
            "MachineSet {own} is set to move replicas to {target}, but {target} only accepts Machines from {from}"
        ));
    }
    let hash = label_of(set.as_ref(), label::MACHINE_TEMPLATE_HASH);
    hash.map(str::to_owned).ok_or_else(|| {
        format!("MachineSet {target} does not have the {} label", label::MACHINE_TEMPLATE_HASH)
    })
}

/// The list of owners is replaced as a whole: refused when the Machine changed meanwhile.
fn moved(from: &MachineSet, machine: &Machine, to: &MachineSet, hash: &str) -> Write {
    let mut owners = machine.metadata.owner_references.clone().unwrap_or_default();
    let new = owner(to, true);
    match owners.iter_mut().find(|owner| Some(&owner.uid) == from.metadata.uid.as_ref()) {
        Some(old) => *old = new,
        None => owners.push(new),
    }
    // Owner and label change together: selectors have the label, and with one of the two alone
    // neither MachineSet would count the Machine.
    let body = json!({ "metadata": {
        "ownerReferences": owners,
        "labels": { label::MACHINE_TEMPLATE_HASH: hash },
        "annotations": { keys::UPDATE_IN_PROGRESS: "", keys::PENDING_ACKNOWLEDGE_MOVE: "" },
    } });
    Write::Patch { object: ObjectRef::of(machine), body }.if_unchanged(&machine.metadata)
}
