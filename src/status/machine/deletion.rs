//! How far the deletion of a Machine is. Owns the order of the stages and their wording; must not
//! know how a stage is performed: `plan::machine` reads the stage and does its work.
//! Source: `reconcileDelete`, `machine_controller.go`, v1.14.0.
//!
//! Intended difference: attached volumes are read from the Node's status only.

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Failed, NodeReading, Observed, PodsReading};
use crate::api::machine::{DeletionProgress, MachineStatus};
use crate::api::names::annotation;
use crate::status::condition_ops::{self, CHECK_LOGS, Status};
use crate::status::contract::External;
use crate::status::drain::{Drain, classify};
use crate::status::wording::join_limited;
use crate::time::{Timestamp, from_k8s, rfc3339, to_k8s};

/// The step a deletion is waiting for, in the order they come.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    NotDeleting,
    /// Whether the Node may be deleted cannot be told.
    CannotTell(String),
    /// Somebody's annotations hold the drain; full keys, sorted.
    PreDrainHooks(Vec<String>),
    /// `None` while the pods are not known yet.
    Drain(Option<Drain>),
    DrainFailed,
    /// Names of volumes that are still attached.
    VolumeDetach(Vec<String>),
    /// Somebody's annotations hold the infrastructure; full keys, sorted.
    PreTerminateHooks(Vec<String>),
    Infrastructure,
    Bootstrap,
    Node,
    Completed,
}

impl Stage {
    /// The Node holds it: a drain, or attached volumes.
    #[must_use]
    pub fn is_of_the_node(&self) -> bool {
        matches!(self, Self::Drain(_) | Self::DrainFailed | Self::VolumeDetach(_))
    }
}

/// The stage at `now`.
#[must_use]
pub fn stage(o: &Observed, now: Timestamp) -> Stage {
    if !o.is_deleting() {
        return Stage::NotDeleting;
    }
    let node_goes = match node_deletion_allowed(o) {
        Ok(allowed) => allowed,
        Err(error) => return Stage::CannotTell(error),
    };
    if node_goes && let Some(stage) = before_terminate(o, now) {
        return stage;
    }
    let hooks = hooks(o, annotation::PRE_TERMINATE_HOOK_PREFIX);
    if !hooks.is_empty() {
        return Stage::PreTerminateHooks(hooks);
    }
    if !is_gone(&o.infrastructure) {
        return Stage::Infrastructure;
    }
    if o.machine.spec.bootstrap.config_ref.is_some() && !is_gone(&o.bootstrap) {
        return Stage::Bootstrap;
    }
    if node_goes && node_is_left(o) {
        return Stage::Node;
    }
    Stage::Completed
}

fn before_terminate(o: &Observed, now: Timestamp) -> Option<Stage> {
    let hooks = hooks(o, annotation::PRE_DRAIN_HOOK_PREFIX);
    if !hooks.is_empty() {
        return Some(Stage::PreDrainHooks(hooks));
    }
    if drain_applies(o, now) {
        match drain(o, now) {
            Stage::Completed => {}
            stage => return Some(stage),
        }
    }
    let volumes = attached_volumes(o);
    (volume_wait_applies(o, now) && !volumes.is_empty()).then_some(Stage::VolumeDetach(volumes))
}

fn drain(o: &Observed, now: Timestamp) -> Stage {
    match (&o.node, &o.pods) {
        (NodeReading::NotFound | NodeReading::NotAsked, _) => Stage::Completed,
        (NodeReading::NotConnected | NodeReading::Failed(_), _) | (_, PodsReading::Failed(_)) => {
            Stage::DrainFailed
        }
        (NodeReading::Found(_), _) if o.failed == Some(Failed::Drain) => Stage::DrainFailed,
        (NodeReading::Found(_), PodsReading::NotAsked) => Stage::Drain(None),
        (NodeReading::Found(node), PodsReading::Known(pods)) => {
            let drain = classify(node, pods, &o.evictions, now);
            if drain.is_complete() { Stage::Completed } else { Stage::Drain(Some(drain)) }
        }
    }
}

/// May the Node be deleted with the Machine? Without it, pre-drain hooks, drain and volumes do not
/// matter either.
///
/// # Errors
/// Why it cannot be told.
pub fn node_deletion_allowed(o: &Observed) -> Result<bool, String> {
    if o.cluster.metadata.deletion_timestamp.is_some() || o.node_name().is_none() {
        return Ok(false);
    }
    match &o.control_plane {
        External::Unreadable { kind, error } => return Err(format!("{kind} could not be read: {error}")),
        External::Found(control_plane) if control_plane.is_deleting() => return Ok(false),
        External::Found(control_plane) if control_plane.flag("/status/externalManagedControlPlane") => {
            return Ok(true);
        }
        External::Found(_) | External::NotFound { .. } | External::NotSet => {}
    }
    Ok(o.control_plane_machines_left > 0)
}

fn hooks(o: &Observed, prefix: &str) -> Vec<String> {
    // Annotations are kept sorted by key.
    o.machine
        .metadata
        .annotations
        .iter()
        .flat_map(|all| all.keys())
        .filter(|k| k.starts_with(prefix))
        .cloned()
        .collect()
}

fn is_gone(external: &External) -> bool {
    matches!(external, External::NotFound { .. } | External::NotSet)
}

fn infrastructure_is_going(o: &Observed) -> bool {
    o.infrastructure.found().is_none_or(super::Provided::is_deleting)
}

fn progress(o: &Observed) -> DeletionProgress {
    o.machine.status.as_ref().and_then(|s| s.deletion.clone()).unwrap_or_default()
}

fn expired(start: Option<&Time>, limit_s: Option<i32>, now: Timestamp) -> bool {
    let limit = TimeDelta::seconds(i64::from(limit_s.unwrap_or(0)));
    limit > TimeDelta::zero() && start.is_some_and(|at| now - from_k8s(at) >= limit)
}

/// Is draining still to be considered at all?
#[must_use]
pub fn drain_applies(o: &Observed, now: Timestamp) -> bool {
    let progress = progress(o);
    let limit = o.machine.spec.deletion.as_ref().and_then(|d| d.node_drain_timeout_seconds);
    !o.has_annotation(annotation::EXCLUDE_NODE_DRAINING)
        && progress.wait_for_pre_terminate_hook_start_time.is_none()
        && !infrastructure_is_going(o)
        && !expired(progress.node_drain_start_time.as_ref(), limit, now)
}

fn volume_wait_applies(o: &Observed, now: Timestamp) -> bool {
    let progress = progress(o);
    let limit = o.machine.spec.deletion.as_ref().and_then(|d| d.node_volume_detach_timeout_seconds);
    !o.has_annotation(annotation::EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH)
        && progress.wait_for_pre_terminate_hook_start_time.is_none()
        && !infrastructure_is_going(o)
        && !expired(progress.wait_for_node_volume_detach_start_time.as_ref(), limit, now)
}

fn attached_volumes(o: &Observed) -> Vec<String> {
    let Some(node) = o.node.found().filter(|n| !crate::status::drain::is_unreachable(n)) else {
        return Vec::new();
    };
    let attached = node.status.as_ref().and_then(|s| s.volumes_attached.as_ref());
    let mut names: Vec<String> = attached.into_iter().flatten().map(|v| v.name.clone()).collect();
    names.sort_unstable();
    names
}

/// A Node that was not looked for is deleted by name, to be sure.
fn node_is_left(o: &Observed) -> bool {
    !matches!(o.node, NodeReading::NotFound)
}

/// Is the time over after which a Node that cannot be deleted is left behind? Never, when no limit is set.
#[must_use]
pub fn node_deletion_expired(o: &Observed, now: Timestamp) -> bool {
    let limit = o.machine.spec.deletion.as_ref().and_then(|d| d.node_deletion_timeout_seconds);
    expired(o.machine.metadata.deletion_timestamp.as_ref(), limit, now)
}

/// The `Deleting` condition of a Machine at `stage`, reading failed writes from `o`.
#[must_use]
pub(super) fn condition(o: &Observed, stage: &Stage, now: Timestamp) -> Condition {
    let started = |at: Option<Time>| rfc3339(at.as_ref().map_or(now, from_k8s));
    let infrastructure = &o.machine.spec.infrastructure_ref.kind;
    let bootstrap = o.machine.spec.bootstrap.config_ref.as_ref().map_or("", |r| r.kind.as_str());
    let (reason, message) = match stage {
        Stage::NotDeleting => return condition_ops::not_deleting(),
        Stage::CannotTell(_) => ("InternalError", CHECK_LOGS.to_owned()),
        Stage::PreDrainHooks(hooks) => (
            "WaitingForPreDrainHook",
            format!("Waiting for pre-drain hooks to succeed (hooks: {})", hooks.join(",")),
        ),
        Stage::Drain(None) => {
            let since = started(progress(o).node_drain_start_time);
            ("DrainingNode", format!("Drain not completed yet (started at {since}):"))
        }
        Stage::Drain(Some(drain)) => {
            ("DrainingNode", drain.message(&started(progress(o).node_drain_start_time)))
        }
        Stage::DrainFailed => {
            ("DrainingNode", "Error draining Node, please check controller logs for errors".to_owned())
        }
        Stage::VolumeDetach(volumes) => {
            let since = started(progress(o).wait_for_node_volume_detach_start_time);
            let names = join_limited(volumes, 5);
            let line = "* Node with .status.volumesAttached entries not matching a PersistentVolume";
            let head = format!("Waiting for Node volumes to be detached (started at {since})");
            ("WaitingForVolumeDetach", format!("{head}\n{line}: {names}"))
        }
        Stage::PreTerminateHooks(hooks) => (
            "WaitingForPreTerminateHook",
            format!("Waiting for pre-terminate hooks to succeed (hooks: {})", hooks.join(",")),
        ),
        Stage::Infrastructure if o.failed == Some(Failed::DeleteInfrastructure) => {
            failed_to_delete(infrastructure)
        }
        Stage::Infrastructure => {
            ("WaitingForInfrastructureDeletion", format!("Waiting for {infrastructure} to be deleted"))
        }
        Stage::Bootstrap if o.failed == Some(Failed::DeleteBootstrap) => failed_to_delete(bootstrap),
        Stage::Bootstrap => ("WaitingForBootstrapDeletion", format!("Waiting for {bootstrap} to be deleted")),
        Stage::Node if o.failed == Some(Failed::DeleteNode) && !node_deletion_expired(o, now) => {
            ("DeletingNode", "Error deleting Node, please check controller logs for errors".to_owned())
        }
        Stage::Node | Stage::Completed => ("DeletionCompleted", "Deletion completed".to_owned()),
    };
    condition_ops::condition("Deleting", Status::True, reason, message)
}

fn failed_to_delete(kind: &str) -> (&'static str, String) {
    ("InternalError", format!("Failed to delete {kind}, please check controller logs for errors"))
}

/// Notes when the stage began; timeouts count from there.
pub(super) fn record_start(status: &mut MachineStatus, stage: &Stage, now: Timestamp) {
    let mut progress = status.deletion.clone().unwrap_or_default();
    let slot = match stage {
        Stage::PreDrainHooks(_) => &mut progress.wait_for_pre_drain_hook_start_time,
        Stage::Drain(_) | Stage::DrainFailed => &mut progress.node_drain_start_time,
        Stage::VolumeDetach(_) => &mut progress.wait_for_node_volume_detach_start_time,
        Stage::PreTerminateHooks(_) => &mut progress.wait_for_pre_terminate_hook_start_time,
        _ => return,
    };
    slot.get_or_insert_with(|| to_k8s(now));
    status.deletion = Some(progress);
}
