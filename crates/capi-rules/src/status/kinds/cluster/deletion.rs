//! How far the deletion of a Cluster is: workers, control plane, infrastructure, in this order.
//! `plan::cluster` reads the stage and does its work.
//! Source: `reconcileDelete`, `cluster_controller.go`, v1.14.2.

use std::sync::Arc;

use kube::Resource;

use super::{Descendants, Observed};
use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{CHECK_LOGS, not_deleting};
use crate::status::conditions::wording::join_limited;
use crate::status::contract::External;
use capi_types::condition::Status;
use capi_types::key::annotation;

/// Set when every extension has agreed to the deletion.
const OK_TO_DELETE: &str = "runtime.cluster.x-k8s.io/ok-to-delete";

/// What a deletion is waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It stays.
    NotDeleting,
    /// A runtime extension has not agreed yet.
    BeforeDeleteHook,
    /// What is left is not known: it could not be listed.
    CannotTell,
    /// One line per kind with objects left.
    Workers(Vec<String>),
    /// `None`: it cannot be read.
    ControlPlane(Option<String>),
    /// `None`: it cannot be read.
    Infrastructure(Option<String>),
    /// Nothing is left but the finalizer.
    Completed,
}

/// The stage of a deletion.
pub fn stage(o: &Observed) -> Stage {
    if !o.is_deleting() {
        return Stage::NotDeleting;
    }
    if o.asks_hooks && o.has_topology() && annotation(&o.cluster, OK_TO_DELETE).is_none() {
        return Stage::BeforeDeleteHook;
    }
    // Not known is not none: a control plane deleted too early leaves workers that cannot drain.
    let Some(descendants) = o.known_descendants() else { return Stage::CannotTell };
    let left = descendants_left(o, descendants);
    if !left.is_empty() {
        return Stage::Workers(left);
    }
    match &o.control_plane {
        External::Found(found) => return Stage::ControlPlane(Some(found.kind.clone())),
        // An object that cannot be read may still be there,
        // and its infrastructure must not go before it.
        External::Unreadable { .. } => return Stage::ControlPlane(None),
        External::NotFound { .. } | External::NotSet => {}
    }
    match &o.infrastructure {
        External::Found(found) => Stage::Infrastructure(Some(found.kind.clone())),
        External::Unreadable { .. } => Stage::Infrastructure(None),
        External::NotFound { .. } | External::NotSet => Stage::Completed,
    }
}

/// Lines of the `WaitingForWorkersDeletion` message. Control plane Machines count only when no control
/// plane object will take them down.
fn descendants_left(o: &Observed, d: &Descendants) -> Vec<String> {
    let stand_alone =
        if o.control_plane == External::NotSet { d.control_plane_machines() } else { Vec::new() };
    [
        ("Control plane Machines", names(stand_alone.into_iter())),
        ("MachineDeployments", names(d.machine_deployments.iter().map(Arc::as_ref))),
        ("MachineSets", names(d.machine_sets.iter().map(Arc::as_ref))),
        ("MachinePools", names(d.machine_pools.iter().map(Arc::as_ref))),
        ("Worker Machines", names(d.all_worker_machines().into_iter())),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(what, names)| format!("* {what}: {}", join_limited(&names, 5)))
    .collect()
}

fn names<'a, K: Resource + 'a>(objects: impl Iterator<Item = &'a K>) -> Vec<String> {
    let mut names: Vec<String> = objects.filter_map(|object| object.meta().name.clone()).collect();
    names.sort_unstable();
    names
}

pub(super) fn condition(o: &Observed) -> NewCondition<'static> {
    let (reason, message) = match stage(o) {
        Stage::NotDeleting => return not_deleting(),
        Stage::BeforeDeleteHook => {
            ("WaitingForBeforeDeleteHook", "Waiting for BeforeClusterDelete hook".to_owned())
        }
        _ if o.failed => ("InternalError", CHECK_LOGS.to_owned()),
        Stage::CannotTell | Stage::ControlPlane(None) | Stage::Infrastructure(None) => {
            ("InternalError", CHECK_LOGS.to_owned())
        }
        Stage::Workers(lines) => ("WaitingForWorkersDeletion", lines.join("\n")),
        Stage::ControlPlane(Some(kind)) => {
            ("WaitingForControlPlaneDeletion", format!("Waiting for {kind} to be deleted"))
        }
        Stage::Infrastructure(Some(kind)) => {
            ("WaitingForInfrastructureDeletion", format!("Waiting for {kind} to be deleted"))
        }
        Stage::Completed => ("DeletionCompleted", "Deletion completed".to_owned()),
    };
    NewCondition::new("Deleting", Status::True, reason, message)
}
