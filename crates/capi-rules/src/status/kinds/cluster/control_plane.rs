//! `ControlPlaneAvailable` and `ControlPlaneInitialized` of a Cluster.
//! Source: `cluster_controller_status.go`, v1.14.2.

use super::{Census, Observed, waiting_for_topology};
use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{Draft, internal_error};
use crate::status::contract::External;
use crate::status::contract::mirror::Mirrored;
use crate::status::machines::Member;
use capi_types::cluster::ClusterInitialization;
use capi_types::condition::Status;

/// A Cluster with stand-alone control plane Machines has no object to mirror: upstream calls that an
/// internal error for ever, and so do we.
pub(super) fn available<'a>(o: &'a Observed, flags: &ClusterInitialization) -> NewCondition<'a> {
    const TYPE: &str = "ControlPlaneAvailable";
    if o.control_plane == External::NotSet && o.has_topology() {
        return waiting_for_topology(TYPE, Status::False, o.is_deleting());
    }
    Mirrored {
        target: TYPE,
        source_type: "Available",
        initialized: flags.control_plane_initialized == Some(true),
        not_yet: "NotAvailable",
        field: "status.initialization.controlPlaneInitialized",
        owner_deleting: o.is_deleting(),
        gone: " while the cluster still exists",
    }
    .of(&o.control_plane)
}

/// `None`: once true, it is never touched again.
pub(super) fn initialized(
    o: &Observed,
    census: Option<&Census<'_>>,
    draft: &Draft,
) -> Option<NewCondition<'static>> {
    const TYPE: &str = "ControlPlaneInitialized";
    // Timeouts of workers count from its transition, so
    // a control plane that restarts must not turn it.
    if draft.find(TYPE).is_some_and(|c| c.status == "True") {
        return None;
    }
    let yes = || NewCondition::new(TYPE, Status::True, "Initialized", "");
    let no = |message: &'static str| NewCondition::new(TYPE, Status::False, "NotInitialized", message);
    Some(match &o.control_plane {
        External::NotSet if o.has_topology() => waiting_for_topology(TYPE, Status::Unknown, o.is_deleting()),
        External::NotSet => {
            let Some(census) = census else { return Some(internal_error(TYPE)) };
            // Without an object that says so, the first Node
            // is the proof of an API server that answers.
            let joined = |m: &Member<'_>| m.machine.status.as_ref().is_some_and(|s| s.node_ref.is_some());
            if census.control_plane.iter().any(joined) {
                yes()
            } else {
                no("Waiting for the first control plane machine to have status.nodeRef set")
            }
        }
        External::Found(control_plane) if control_plane.initialized_is_malformed() => internal_error(TYPE),
        External::Found(control_plane) if control_plane.control_plane_initialized() => yes(),
        External::Found(_) => no("Control plane not yet initialized"),
        // Upstream asks whether the *infrastructure* is missing here; the quirk is kept.
        External::NotFound { kind } | External::Unreadable { kind, .. }
            if o.infrastructure.is_not_found() =>
        {
            NewCondition::new(TYPE, Status::Unknown, "ObjectDoesNotExist", format!("{kind} does not exist"))
        }
        External::NotFound { .. } | External::Unreadable { .. } => internal_error(TYPE),
    })
}
