//! A Machine that is updated where it stands: when an extension is asked to go on, with what, and what ends it. Must not
//! know how extensions are reached; the answer stands in `Observed`.
//! Source: cluster-api `core/reconcilers/machine/machine_controller_inplace_update.go`, v1.14.2 (M-6).
//! Intended difference: an event says why an update failed; upstream leaves that to the log of its manager.

use serde_json::{Value, json};

use super::why::Why;
use crate::plan::in_place::pending_without;
use crate::plan::{Plan, Write};
use crate::status::conditions::wording::NO_INFRASTRUCTURE;
use crate::status::contract::{External, Provided};
use crate::status::machine::{Observed, Update, initialization};
use capi_types::hook::{Hook, MachineObjects, UpdateMachineRequest, subject};
use capi_types::key::{ObjectRef, annotation as value_of};
use capi_types::names::annotation;

/// What is due for an update now, before any answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The Machine is not being updated, or its update cannot be read yet.
    Nothing,
    /// The owner prepares it.
    Prepared,
    /// The infrastructure is not there, so that there is nothing to update.
    InfrastructureMissing,
    /// An extension is asked.
    Call,
    /// It was called off: what is left of it goes.
    CleanUp,
}

/// By the annotations and the owner's wishes; in deletion nothing is due.
pub fn due(o: &Observed) -> Due {
    let marked = o.has_annotation(annotation::UPDATE_IN_PROGRESS);
    if !o.updates_in_place || o.is_deleting() || !o.is_updating_in_place() {
        return Due::Nothing;
    }
    // The hook alone is left by a pass that ended before its last write.
    if !marked {
        return Due::CleanUp;
    }
    // The owner writes the hook last: until then the objects may be half prepared.
    if !is_pending(o) {
        return Due::Prepared;
    }
    let done = initialization(&o.machine);
    let is_up = done.infrastructure_provisioned == Some(true)
        && done.bootstrap_data_secret_created == Some(true)
        && o.machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    // Upstream skips it silently: there is no host yet that could be updated.
    if !is_up {
        return Due::Nothing;
    }
    match &o.infrastructure {
        External::Found(host) if is_marked(host) && is_ready(&o.bootstrap) => Due::Call,
        External::Found(_) | External::Unreadable { .. } => Due::Prepared,
        External::NotFound { .. } | External::NotSet => Due::InfrastructureMissing,
    }
}

fn is_pending(o: &Observed) -> bool {
    let hooks = value_of(&o.machine, annotation::PENDING_HOOKS).unwrap_or_default();
    hooks.split(',').any(|hook| hook.trim() == Hook::UpdateMachine.as_str())
}

fn is_marked(object: &Provided) -> bool {
    object.content()["metadata"]["annotations"].get(annotation::UPDATE_IN_PROGRESS).is_some()
}

/// A Machine without a bootstrap configuration needs none.
fn is_ready(bootstrap: &External) -> bool {
    match bootstrap {
        External::Found(config) => is_marked(config),
        External::Unreadable { .. } => false,
        External::NotFound { .. } | External::NotSet => true,
    }
}

/// What the extension is sent: the objects as they should be. It compares them with what the host is.
pub fn request(o: &Observed) -> UpdateMachineRequest {
    let content = |external: &External| match external {
        External::Found(object) => subject(object.content()),
        _ => Value::Null,
    };
    let mut machine = serde_json::to_value(&o.machine).unwrap_or_default();
    machine["apiVersion"] = json!("cluster.x-k8s.io/v1beta2");
    machine["kind"] = json!("Machine");
    UpdateMachineRequest::new(MachineObjects {
        machine: subject(&machine),
        infrastructure_machine: content(&o.infrastructure),
        bootstrap_config: content(&o.bootstrap),
    })
}

/// What makes the pass a failed one, which is tried again sooner and later and later.
pub fn failure(o: &Observed) -> Option<String> {
    match (&o.update, due(o)) {
        (Some(Update::InfrastructureMissing), Due::InfrastructureMissing) => {
            Some(format!("in-place update failed: {NO_INFRASTRUCTURE}"))
        }
        (Some(Update::Failed), Due::Call) => {
            let error = o.update_error.as_deref().unwrap_or("UpdateMachine hook failed");
            Some(format!("in-place update failed: {error}"))
        }
        _ => None,
    }
}

pub(super) fn rules(o: &Observed, plan: &mut Plan) {
    match (&o.update, due(o)) {
        (_, Due::Nothing) => {}
        (_, Due::CleanUp) => complete(o, Why::UpdateOrphaned, plan),
        (_, Due::Prepared) => plan.block(Why::WaitingForMarks),
        (_, Due::InfrastructureMissing) => fail(o, NO_INFRASTRUCTURE, plan),
        (Some(Update::Done), Due::Call) => complete(o, Why::Updated, plan),
        (Some(Update::Running(words)), Due::Call) => {
            plan.block(Why::Updating { words: words.clone() });
            if let Some(again) = o.update_again {
                plan.recheck_within(again);
            }
        }
        (Some(Update::Failed | Update::InfrastructureMissing), Due::Call) => {
            let error = o.update_error.as_deref();
            fail(o, error.unwrap_or("UpdateMachine hook failed"), plan);
        }
        (None, Due::Call) => plan.block(Why::Updating { words: String::new() }),
    }
}

fn fail(o: &Observed, error: &str, plan: &mut Plan) {
    let why = Why::UpdateFailed { error: error.to_owned() };
    let message = why.to_string();
    let about = ObjectRef::of(&o.machine);
    plan.step(Write::Event { about, warning: true, reason: "FailedInPlaceUpdate", message }, why.clone());
    plan.block(why);
}

/// The mark goes from the Machine, then from the objects behind it; last the hook, by which its owner sees the end.
fn complete(o: &Observed, why: Why, plan: &mut Plan) {
    let without = |object: ObjectRef| {
        let body = json!({ "metadata": { "annotations": { annotation::UPDATE_IN_PROGRESS: null } } });
        Write::Patch { object, body }
    };
    if o.has_annotation(annotation::UPDATE_IN_PROGRESS) {
        plan.step(without(ObjectRef::of(&o.machine)), why.clone());
    }
    for external in [&o.infrastructure, &o.bootstrap] {
        if let External::Found(object) = external
            && is_marked(object)
        {
            plan.step(without(object.reference()), why.clone());
        }
    }
    let left = pending_without(value_of(&o.machine, annotation::PENDING_HOOKS), Hook::UpdateMachine.as_str());
    let body = json!({ "metadata": { "annotations": { annotation::PENDING_HOOKS: left } } });
    plan.step(Write::Patch { object: ObjectRef::of(&o.machine), body }, why);
}
