//! How far the deletion of a Machine is. Owns the order of the stages; must not know how a stage is
//! performed: `plan::machine` reads the stage and does its work. What a stage is called says
//! `condition`.
//! Source: `reconcileDelete`, `machine_controller.go`, v1.14.2.

mod condition;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) use condition::{condition, record_starts};

use super::{Failed, NodeReading, Observed, StorageReading, TenantsReading};
use crate::status::contract::External;
use crate::status::drain::volumes::{Held, attached};
use crate::status::drain::{Drain, Grounds, Tenants, classify, is_unreachable};
use capi_types::machine::DeletionProgress;
use capi_types::names::annotation;
use capstan_base::time::{Timestamp, from_k8s};

/// The step a deletion is waiting for, in the order they come.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// It stays.
    NotDeleting,
    /// Whether the Node may be deleted is not known, or the drain's start could not be stored.
    CannotTell(String),
    /// Somebody's annotations hold the drain; full keys, sorted.
    PreDrainHooks(Vec<String>),
    /// `None` while it is not known what runs on the Node.
    Drain(Option<Drain>),
    /// Why.
    DrainFailed(String),
    /// `None` while it is not known what is attached to the Node.
    VolumeDetach(Option<Held>),
    /// Why the attached volumes are not known.
    VolumesUnknown(String),
    /// Somebody's annotations hold the infrastructure; full keys, sorted.
    PreTerminateHooks(Vec<String>),
    /// Its infrastructure machine is on its way out.
    Infrastructure,
    /// Its bootstrap configuration is on its way out.
    Bootstrap,
    /// Its Node is on its way out.
    Node,
    /// Nothing is left but the finalizer.
    Completed,
}

/// A stage, and what was passed on the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// What the deletion waits for.
    pub stage: Stage,
    /// The drain was looked at: it has begun.
    pub drains: bool,
    /// So were the volumes, after a drain that is over or does not apply.
    pub detaches: bool,
}

/// What must be read before the stage is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What runs on the Node.
    Tenants,
    /// What is attached to the Node.
    Storage,
}

/// Where a deletion stands, drain and detachment timeouts included.
pub fn stage(o: &Observed, now: Timestamp) -> Stage {
    course(o, now).stage
}

/// The stage at `now` and the way to it.
pub fn course(o: &Observed, now: Timestamp) -> Course {
    let mut course = Course { stage: Stage::NotDeleting, drains: false, detaches: false };
    if o.is_deleting() {
        course.stage = course.walk(o, now);
    }
    course
}

impl Course {
    /// What was evicted since `before` was the end of the drain.
    pub fn ends_drain_of(&self, before: &Self) -> bool {
        matches!(before.stage, Stage::Drain(Some(_))) && !matches!(self.stage, Stage::Drain(_))
    }

    fn walk(&mut self, o: &Observed, now: Timestamp) -> Stage {
        // First: without a Node to delete neither hooks before the drain nor volumes matter.
        let node_goes = match node_deletion_allowed(o) {
            Ok(allowed) => allowed,
            Err(error) => return Stage::CannotTell(error),
        };
        if node_goes && let Some(stage) = self.clear_node(o, now) {
            return stage;
        }
        // After the drain: these hooks hold the host, such as a control plane its etcd member.
        let hooks = hooks(o, annotation::PRE_TERMINATE_HOOK_PREFIX);
        if !hooks.is_empty() {
            return Stage::PreTerminateHooks(hooks);
        }
        // The host before its configuration: a host that boots late still reads the data.
        if !is_gone(&o.infrastructure) {
            return Stage::Infrastructure;
        }
        if o.machine.spec.bootstrap.config_ref.is_some() && !is_gone(&o.bootstrap) {
            return Stage::Bootstrap;
        }
        // Last: a kubelet that still ran would register its Node again.
        if node_goes && !matches!(leaving_node(o), NodeReading::NotFound) {
            return Stage::Node;
        }
        Stage::Completed
    }

    fn clear_node(&mut self, o: &Observed, now: Timestamp) -> Option<Stage> {
        let hooks = hooks(o, annotation::PRE_DRAIN_HOOK_PREFIX);
        if !hooks.is_empty() {
            return Some(Stage::PreDrainHooks(hooks));
        }
        if drain_applies(o, now) {
            // Noted even when nothing is left to drain, for
            // its start is recorded and its end reported.
            self.drains = true;
            if let Some(stage) = drain(o, now) {
                return Some(stage);
            }
        }
        if volume_wait_applies(o, now) {
            self.detaches = true;
            return volumes(o, now);
        }
        None
    }

    /// The drain has just ended, or ends in this run.
    pub fn is_drained(&self) -> bool {
        self.drains && !matches!(self.stage, Stage::CannotTell(_) | Stage::Drain(_) | Stage::DrainFailed(_))
    }

    /// Nothing is attached to the Node any more.
    pub fn is_detached(&self) -> bool {
        self.detaches && !matches!(self.stage, Stage::VolumeDetach(_) | Stage::VolumesUnknown(_))
    }

    /// What to read next to know the stage; `None` when it is known.
    pub fn wants(&self, o: &Observed) -> Option<Wanted> {
        match &self.stage {
            Stage::Drain(None) => Some(Wanted::Tenants),
            Stage::VolumeDetach(None) if o.storage == StorageReading::NotAsked => Some(Wanted::Storage),
            Stage::VolumeDetach(None) => Some(Wanted::Tenants),
            _ => None,
        }
    }
}

/// The provider ID that leads to the Node when the Machine has none and its Node was never met: the one
/// of its infrastructure.
pub fn borrowed_id(o: &Observed) -> Option<&str> {
    // Only for a deletion that comes before the first meeting: else the Node would stay behind.
    let own = o.machine.spec.provider_id.as_ref().is_some_and(|id| !id.is_empty());
    if own || !o.is_deleting() || o.cluster.metadata.deletion_timestamp.is_some() || o.node_name().is_some() {
        return None;
    }
    o.infrastructure.found()?.text(&["spec", "providerID"])
}

/// The Node that goes with the Machine, by its recorded name.
pub fn leaving_node(o: &Observed) -> &NodeReading {
    if o.named_node == NodeReading::NotAsked { &o.node } else { &o.named_node }
}

/// The Node to look at; `None` when it is gone.
fn present_node(o: &Observed) -> Option<Result<&Node, String>> {
    match leaving_node(o) {
        NodeReading::NotFound => None,
        NodeReading::Found(node) => Some(Ok(node)),
        NodeReading::NotConnected => Some(Err("connection to the workload cluster is down".to_owned())),
        NodeReading::NotAsked => Some(Err("the Node was not read".to_owned())),
        NodeReading::Failed(error) => Some(Err(error.clone())),
    }
}

fn grounds<'a>(o: &'a Observed, node: &'a Node, tenants: &'a Tenants) -> Grounds<'a> {
    Grounds { cluster: &o.cluster, machine: &o.machine, node, tenants }
}

/// `None` when nothing is left to drain.
fn drain(o: &Observed, now: Timestamp) -> Option<Stage> {
    // Without a stored start the timeout would begin anew with each pass, and never end.
    if o.failed == Some(Failed::RecordDrainStart) {
        return Some(Stage::CannotTell("the start of the drain could not be stored".to_owned()));
    }
    let node = match present_node(o)? {
        Ok(node) => node,
        Err(error) => return Some(Stage::DrainFailed(error)),
    };
    if o.failed == Some(Failed::Cordon) {
        return Some(Stage::DrainFailed("the Node could not be cordoned".to_owned()));
    }
    let tenants = match &o.tenants {
        TenantsReading::NotAsked => return Some(Stage::Drain(None)),
        TenantsReading::Failed(error) => return Some(Stage::DrainFailed(error.clone())),
        TenantsReading::Known(tenants) => tenants,
    };
    match classify(grounds(o, node, tenants), &o.evictions, now) {
        Ok(drain) if drain.is_complete() => None,
        Ok(drain) => Some(Stage::Drain(Some(drain))),
        Err(error) => Some(Stage::DrainFailed(error)),
    }
}

/// `None` when nothing that matters is attached.
fn volumes(o: &Observed, now: Timestamp) -> Option<Stage> {
    let node = match present_node(o)? {
        Ok(node) => node,
        Err(error) => return Some(Stage::VolumesUnknown(error)),
    };
    // The kubelet cannot report that volumes are detached, so waiting would not end.
    if is_unreachable(node) {
        return None;
    }
    let StorageReading::Known(storage) = &o.storage else { return Some(Stage::VolumeDetach(None)) };
    let attached = match attached(node, storage) {
        // Before Pods are read: most Nodes have nothing attached after a drain.
        Ok(attached) if attached.is_empty() => return None,
        Ok(attached) => attached,
        Err(error) => return Some(Stage::VolumesUnknown(error)),
    };
    let tenants = match &o.tenants {
        TenantsReading::NotAsked => return Some(Stage::VolumeDetach(None)),
        TenantsReading::Failed(error) => return Some(Stage::VolumesUnknown(error.clone())),
        TenantsReading::Known(tenants) => tenants,
    };
    match attached.held(grounds(o, node, tenants), storage, now) {
        Ok(held) if held.is_empty() => None,
        Ok(held) => Some(Stage::VolumeDetach(Some(held))),
        Err(error) => Some(Stage::VolumesUnknown(error)),
    }
}

/// May the Node be deleted with the Machine? Without it, pre-drain hooks, drain and volumes do not
/// matter either.
///
/// # Errors
/// Why it is not known.
pub fn node_deletion_allowed(o: &Observed) -> Result<bool, String> {
    // With the Cluster all Nodes go: to drain them would only cost time.
    if o.cluster.metadata.deletion_timestamp.is_some() || o.node_name().is_none() {
        return Ok(false);
    }
    match &o.control_plane {
        External::Unreadable { kind, error } => return Err(format!("{kind} could not be read: {error}")),
        External::Found(control_plane) if control_plane.is_deleting() => return Ok(false),
        // An external control plane has no Machines that could be counted.
        External::Found(control_plane) if control_plane.flag(&["status", "externalManagedControlPlane"]) => {
            return Ok(true);
        }
        External::Found(_) | External::NotFound { .. } | External::NotSet => {}
    }
    // Without a control plane Machine there is no API server that a drain could ask.
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

/// When the stages of the deletion began, as stored.
pub fn progress(o: &Observed) -> DeletionProgress {
    o.machine.status.as_ref().and_then(|s| s.deletion.clone()).unwrap_or_default()
}

fn expired(start: Option<&Time>, limit_s: Option<i32>, now: Timestamp) -> bool {
    let limit = TimeDelta::seconds(i64::from(limit_s.unwrap_or(0)));
    // 0 and unset both mean that there is no limit.
    limit > TimeDelta::zero() && start.is_some_and(|at| now - from_k8s(at) >= limit)
}

/// Is draining still to be considered at all?
pub fn drain_applies(o: &Observed, now: Timestamp) -> bool {
    let progress = progress(o);
    let limit = o.machine.spec.deletion.as_ref().and_then(|d| d.node_drain_timeout_seconds);
    !o.has_annotation(annotation::EXCLUDE_NODE_DRAINING)
        // As upstream: with the wait for pre-terminate hooks the drain is over for good.
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

/// The Node could not be deleted, or the workload cluster could not be reached, and that is to be tried again.
pub(super) fn node_resists(o: &Observed, now: Timestamp) -> bool {
    (o.failed == Some(Failed::DeleteNode) || *leaving_node(o) == NodeReading::NotConnected)
        && !node_deletion_expired(o, now)
}

/// Is the time over after which a Node that cannot be deleted is left behind? Never, when no limit is set.
pub fn node_deletion_expired(o: &Observed, now: Timestamp) -> bool {
    let limit = o.machine.spec.deletion.as_ref().and_then(|d| d.node_deletion_timeout_seconds);
    expired(o.machine.metadata.deletion_timestamp.as_ref(), limit, now)
}
