//! The writes behind each act of a control plane, and what their failure means. Pure; must not decide what is
//! done.
//! Source: `kubeadmcontrolplane_controller.go`, `scale.go`, `helpers.go`, v1.14.2.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::{Act, NewMachine, Observed, Template, Why, desired};
use crate::plan::keys::KeyCall;
use crate::plan::ownership::{owner, remove_finalizer, take_over};
use crate::plan::{Complaint, OnFailure, Step, Write, field_owners, template};
use crate::status::control_plane::OwnedMachine;
use capi_types::condition::Condition;
use capi_types::key::{ObjectKey, ObjectRef, refers_to};
use capi_types::names::{BOOTSTRAP_GROUP, annotation, finalizer, manager};

/// `act` as writes, with what it is called and why it is done.
pub fn step(observed: &Observed, act: &Act, why: Why) -> Step {
    Step {
        action: Some(act.action()),
        writes: writes(observed, act),
        reason: why.into(),
        is_bookkeeping: matches!(
            act,
            Act::OwnTemplate
                | Act::Keys(KeyCall::AdoptKubeconfig | KeyCall::AdoptCertificates { .. })
                | Act::Annotate { .. }
                | Act::RemoveFinalizer
        ),
        on_failure: OnFailure {
            // A deletion goes on with the other Machines when one cannot be deleted.
            is_independent: observed.is_deleting(),
            // Objects of a Machine that was never made would
            // stay behind: no controller looks for them.
            is_undone: matches!(act, Act::CreateMachine(_)),
            event: complaint(observed, act),
            shown: None,
        },
    }
}

/// Upstream's events for failed steps.
fn complaint(observed: &Observed, act: &Act) -> Option<Complaint> {
    let cluster = ObjectKey::of(&observed.cluster);
    let (reason, tried) = match act {
        Act::CreateMachine(new) if new.joins => (
            "FailedScaleUp",
            format!("Failed to create additional control plane Machine for cluster {cluster}"),
        ),
        Act::CreateMachine(_) => (
            "FailedInitialization",
            format!("Failed to create initial control plane Machine for cluster {cluster} control plane"),
        ),
        // Upstream names no Machine here; it deletes all in one go.
        Act::DeleteMachine { .. } if observed.is_deleting() => (
            "FailedDelete",
            format!("Failed to delete control plane Machines for cluster {cluster} control plane"),
        ),
        Act::DeleteMachine { machine } => (
            "FailedScaleDown",
            format!("Failed to delete control plane Machine {machine} for cluster {cluster} control plane"),
        ),
        _ => return None,
    };
    Some(Complaint { about: ObjectRef::of(&observed.control_plane), reason, tried })
}

/// In their order; none for what is not there (any more).
fn writes(observed: &Observed, act: &Act) -> Vec<Write> {
    let control_plane = &observed.control_plane;
    match act {
        Act::RemoveFinalizer => vec![remove_finalizer(control_plane, finalizer::KUBEADM_CONTROL_PLANE)],
        Act::Adopt { machine } => {
            let orphan = observed.orphans.iter().find(|m| m.name() == machine);
            orphan.map(|orphan| adopted(observed, orphan)).unwrap_or_default()
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
        Act::Sync(sync) | Act::UpdateInPlace(sync) => sync.writes.clone(),
        Act::CreateMachine(new) => created(observed, new),
        Act::DeleteMachine { machine } | Act::ReleaseMachine { machine } => {
            of_machine(observed, machine, act).into_iter().collect()
        }
        Act::MarkMachine { machine, condition } => {
            condition_of(observed, machine, &condition.type_, Some(condition.clone()))
        }
        Act::UnmarkMachine { machine, condition } => condition_of(observed, machine, condition, None),
    }
}

/// The Secrets that the Machine's configuration made for the cluster, then the Machine.
fn adopted(observed: &Observed, orphan: &OwnedMachine) -> Vec<Write> {
    let control_plane = &observed.control_plane;
    let config = orphan.machine.spec.bootstrap.config_ref.as_ref().map(|r| r.name.as_str());
    let data = orphan.machine.spec.bootstrap.data_secret_name.as_deref();
    let is_configs = |owner: &OwnerReference| {
        refers_to(owner, BOOTSTRAP_GROUP, "KubeadmConfig") && Some(&*owner.name) == config
    };
    // The bootstrap data stays with its configuration, and goes with it.
    let secrets = observed.secrets.iter().filter(|secret| secret.name.as_deref() != data);
    let taken = secrets.filter_map(|secret| {
        let mut owners = secret.owner_references.clone().unwrap_or_default();
        let place = owners.iter().position(is_configs)?;
        // In place of the configuration: with both, the Secret would have two controllers.
        owners[place] = owner(control_plane, true);
        let secret = Secret { metadata: secret.clone(), ..Secret::default() };
        let body = json!({ "metadata": { "ownerReferences": owners } });
        Some(Write::Patch { object: ObjectRef::of(&secret), body }.if_unchanged(&secret.metadata))
    });
    taken.chain([take_over(control_plane, &orphan.machine)]).collect()
}

/// Infrastructure, configuration, Machine: a reader that sees the Machine finds what it refers to.
fn created(observed: &Observed, new: &NewMachine) -> Vec<Write> {
    let (labels, annotations) = (desired::labels(observed), desired::template_annotations(observed));
    let (all, metadata) = (manager::KUBEADM_CONTROL_PLANE, manager::KUBEADM_CONTROL_PLANE_METADATA);
    let bootstrap = serde_json::to_value(&new.bootstrap).unwrap_or_default();
    let clones = [new.infrastructure.clone(), bootstrap];
    let clones = clones.map(|clone| field_owners::create_clone(clone, all, metadata, &labels, &annotations));
    clones.into_iter().flatten().chain([field_owners::create(&new.machine, all)]).collect()
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
