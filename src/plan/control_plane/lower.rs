//! The writes behind each act of a control plane, and what their failure means. Pure; must not decide what is
//! done.
//! Source: `kubeadmcontrolplane_controller.go`, `scale.go`, `helpers.go`, v1.14.0.

use serde_json::json;

use super::{Act, NewMachine, Observed, Sync, Template, Why};
use crate::api::condition::Condition;
use crate::api::key::{ObjectKey, ObjectRef};
use crate::api::names::{annotation, finalizer};
use crate::plan::keys::KeyCall;
use crate::plan::ownership::{owner, remove_finalizer, take_over};
use crate::plan::{OnFailure, Step, Write, template};
use crate::status::contract::reference_to;

/// The step that does `act`.
pub fn step(observed: &Observed, act: &Act, why: Why) -> Step {
    Step {
        title: Some(act.to_string()),
        writes: writes(observed, act),
        reason: why.into(),
        is_bookkeeping: matches!(
            act,
            Act::OwnTemplate
                | Act::Keys(KeyCall::AdoptKubeconfig)
                | Act::Annotate { .. }
                | Act::RemoveFinalizer
        ),
        on_failure: OnFailure {
            // A deletion goes on with the other Machines when one cannot be deleted.
            is_independent: observed.is_deleting(),
            is_undone: matches!(act, Act::CreateMachine(_)),
            event: failure_event(observed, act)
                .map(|reason| (ObjectRef::of(&observed.control_plane), reason)),
            shown: None,
        },
    }
}

/// Upstream's events for failed steps.
fn failure_event(observed: &Observed, act: &Act) -> Option<&'static str> {
    match act {
        Act::CreateMachine(new) if new.joins => Some("FailedScaleUp"),
        Act::CreateMachine(_) => Some("FailedInitialization"),
        Act::DeleteMachine { .. } if observed.is_deleting() => Some("FailedDelete"),
        Act::DeleteMachine { .. } => Some("FailedScaleDown"),
        _ => None,
    }
}

/// In their order; none for what is not there (any more).
fn writes(observed: &Observed, act: &Act) -> Vec<Write> {
    let control_plane = &observed.control_plane;
    match act {
        Act::RemoveFinalizer => vec![remove_finalizer(control_plane, finalizer::KUBEADM_CONTROL_PLANE)],
        Act::Adopt { machine } => {
            let orphan = observed.orphans.iter().find(|m| m.name() == machine);
            orphan.map(|orphan| take_over(control_plane, &orphan.machine)).into_iter().collect()
        }
        Act::OwnTemplate => match &observed.template {
            Template::Found(content) => template::own(&observed.cluster, content).into_iter().collect(),
            Template::Missing | Template::Unreadable(_) => Vec::new(),
        },
        Act::Annotate { key, value } => {
            let body = json!({ "metadata": { "annotations": { *key: value } } });
            vec![Write::Patch { object: ObjectRef::of(control_plane), body }]
        }
        Act::Keys(call) => {
            let (cluster, owner) = (ObjectKey::of(&observed.cluster), owner(control_plane, true));
            vec![Write::Keys { cluster, owner, call: call.clone() }]
        }
        Act::Workload(call) => {
            vec![Write::Workload { cluster: ObjectKey::of(&observed.cluster), call: call.clone() }]
        }
        Act::Sync(sync) => synced(observed, sync),
        Act::CreateMachine(new) => created(new),
        Act::DeleteMachine { machine } | Act::ReleaseMachine { machine } => {
            of_machine(observed, machine, act).into_iter().collect()
        }
        Act::MarkMachine { machine, condition } => {
            condition_of(observed, machine, &condition.type_, Some(condition.clone()))
        }
        Act::UnmarkMachine { machine, condition } => condition_of(observed, machine, condition, None),
    }
}

/// Infrastructure, configuration, Machine: whoever sees the Machine finds what it refers to.
fn created(new: &NewMachine) -> Vec<Write> {
    let (object, content) = (reference_to(&new.infrastructure), new.infrastructure.clone());
    vec![Write::Create { object, content }, Write::create(&new.bootstrap), Write::create(&new.machine)]
}

fn of_machine(observed: &Observed, name: &str, act: &Act) -> Option<Write> {
    let object = ObjectRef::of(&observed.machine(name)?.machine);
    if matches!(act, Act::DeleteMachine { .. }) {
        return Some(Write::Delete { object });
    }
    let body = json!({ "metadata": { "annotations": { annotation::KCP_CLEANUP_HOOK: null } } });
    Some(Write::Patch { object, body })
}

fn condition_of(
    observed: &Observed,
    name: &str,
    type_: &str,
    condition: Option<Box<Condition>>,
) -> Vec<Write> {
    let machine = observed.machine(name).map(|owned| ObjectRef::of(&owned.machine));
    let write = |machine| Write::MachineCondition { machine, type_: type_.to_owned(), condition };
    machine.map(write).into_iter().collect()
}

fn synced(observed: &Observed, sync: &Sync) -> Vec<Write> {
    let Some(owned) = observed.machine(&sync.name) else { return Vec::new() };
    let machine = sync.machine.as_ref().and_then(|after| Write::difference(&owned.machine, after));
    let mut writes: Vec<Write> = machine.into_iter().collect();
    if let (Some(body), Some(config)) = (&sync.bootstrap, &owned.bootstrap) {
        writes.push(Write::Patch { object: ObjectRef::of(config), body: body.clone() });
    }
    if let (Some(body), Some(content)) = (&sync.infrastructure, &owned.infrastructure) {
        writes.push(Write::Patch { object: reference_to(content), body: body.clone() });
    }
    writes
}
