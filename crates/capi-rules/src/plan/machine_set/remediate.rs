//! Machines that a health check found unhealthy: marked, and deleted so that scaling replaces them. Must not judge
//! health; a MachineHealthCheck does.
//! Source: cluster-api `core/reconcilers/machineset` (`reconcileUnhealthyMachines`), v1.14.2 (MS-6).

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::preflight;
use super::{Observed, PREFLIGHT_RECHECK, Why};
use crate::plan::{Plan, Write};
use crate::status::conditions::setter::Draft;
use crate::status::remediation::{DELETING, Workers, awaits_remediation, owner_remediated};
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::ObjectRef;
use capi_types::machine::Machine;
use capstan_base::time::Timestamp;

const MARK: &str = "OwnerRemediated";

/// All marks are written before the first deletion: a status that a reader sees in between names the reason.
pub(super) fn unhealthy(observed: &Observed, plan: &mut Plan) {
    for machine in observed.machines.iter().filter(|m| has_recovered(m)) {
        plan.step(write(machine, None), Why::HealthyAgain);
    }
    let marks = match marks(observed) {
        Ok(marks) => marks,
        Err(unread) => {
            plan.block(Why::Preflight(unread));
            plan.recheck_within(PREFLIGHT_RECHECK);
            return;
        }
    };
    for (machine, mark) in &marks {
        if !stands(machine, mark) {
            plan.step(write(machine, Some(mark.clone())), Why::Unhealthy);
        }
    }
    for (machine, mark) in marks {
        if mark.reason == DELETING {
            plan.step(Write::Delete { object: ObjectRef::of(machine) }, Why::Unhealthy);
        } else {
            plan.block(Why::RemediationHeld(mark.message));
            plan.recheck_within(PREFLIGHT_RECHECK);
        }
    }
}

/// The Machines as they are once the marks of this pass are written; the status of this pass is about them.
pub fn marked(observed: &Observed, now: Timestamp) -> Vec<Arc<Machine>> {
    let marks = marks(observed).unwrap_or_default();
    let with_mark = |machine: &Arc<Machine>| {
        // By address: both lists borrow from the same `observed`.
        let mark = marks.iter().find(|(marked, _)| std::ptr::eq(*marked, machine.as_ref()));
        if mark.is_none() && !has_recovered(machine) {
            return Arc::clone(machine);
        }
        let mut draft = Draft::new(machine.conditions(), machine.metadata.generation, now);
        match mark {
            Some((_, mark)) => draft.set(mark.clone()),
            None => draft.remove(MARK),
        }
        let mut machine = machine.as_ref().clone();
        *machine.conditions_mut() = draft.finish();
        Arc::new(machine)
    };
    observed.machines.iter().map(with_mark).collect()
}

/// The checks before a new Machine are made only when a Machine waits for remediation.
///
/// # Errors
/// What the checks could not read: then nothing is marked.
fn marks(observed: &Observed) -> Result<Vec<(&Machine, Condition)>, String> {
    let machines: Vec<&Machine> = observed.machines.iter().map(AsRef::as_ref).collect();
    if !machines.iter().copied().any(awaits_remediation) {
        return Ok(Vec::new());
    }
    let limits = &observed.remediation;
    let preflight =
        // An old MachineSet remediates nothing, so a preflight
        // that cannot be read must not stop its marks.
        if limits.is_current_revision { preflight::check(&observed.preflight)? } else { Vec::new() };
    Ok(owner_remediated(&Workers { machines, limits, preflight }))
}

/// Its health check passes again, and the mark is still there.
fn has_recovered(machine: &Machine) -> bool {
    let is =
        |type_: &str, status: &str| find(machine.conditions(), type_).is_some_and(|c| c.status == status);
    machine.metadata.deletion_timestamp.is_none() && is("HealthCheckSucceeded", "True") && is(MARK, "False")
}

fn stands(machine: &Machine, mark: &Condition) -> bool {
    let stored = find(machine.conditions(), MARK);
    stored.is_some_and(|c| c.status == mark.status && c.reason == mark.reason && c.message == mark.message)
}

fn write(machine: &Machine, condition: Option<Condition>) -> Write {
    let condition = condition.map(Box::new);
    Write::MachineCondition { machine: ObjectRef::of(machine), type_: MARK.to_owned(), condition }
}
