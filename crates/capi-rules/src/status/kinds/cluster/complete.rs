//! Did a pass over a Cluster get through? What upstream ends with an error does not count the generation
//! as observed, though the rest of the status is written. Must not know what is written.
//! Source: the errors that `reconcileInfrastructure`, `reconcileControlPlane` and `getDescendants` return,
//! `cluster_controller{,_phases}.go`, v1.14.2.

use super::{Observed, initialization};
use crate::status::contract::{External, Provided};

/// Nothing that the pass needed was missing, unreadable or malformed. Failed writes are the caller's to
/// know.
pub fn is_complete(o: &Observed) -> bool {
    !o.looks() || (infrastructure_is_read(o) && control_plane_is_read(o) && !o.descendants_failed)
}

fn infrastructure_is_read(o: &Observed) -> bool {
    let was = initialization(&o.cluster).infrastructure_provisioned == Some(true);
    let is_sound = |i: &Provided| {
        // Domains are read only of an infrastructure that is used, so only then can they be wrong.
        let used = !i.is_deleting() && (was || i.provisioned());
        !i.provisioned_is_malformed() && (!used || i.failure_domains().is_ok())
    };
    is_read(o, &o.infrastructure, was, is_sound)
}

fn control_plane_is_read(o: &Observed) -> bool {
    let was = initialization(&o.cluster).control_plane_initialized == Some(true);
    is_read(o, &o.control_plane, was, |c| !c.initialized_is_malformed())
}

/// `was`: it was there and ready, and must not be gone while the Cluster is to live.
fn is_read(o: &Observed, object: &External, was: bool, is_sound: impl Fn(&Provided) -> bool) -> bool {
    match object {
        External::NotSet => true,
        External::Unreadable { .. } => false,
        External::NotFound { .. } => o.is_deleting() || !was,
        External::Found(found) => is_sound(found),
    }
}
