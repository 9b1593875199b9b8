//! Did a pass over a Machine get through? What upstream ends with an error does not count the generation
//! as observed, though the rest of the status is written. Must not know what is written.
//! Source: the errors that `Reconcile` and its phases return, `machine_controller{,_phases,_noderef}.go`,
//! v1.14.2.

use super::deletion::{Stage, node_resists};
use super::{
    NodeReading, Observed, certificates_expiry, control_plane_initialized_since, initialization,
    offered_data_secret,
};
use crate::status::contract::External;
use capstan_base::time::{Timestamp, parse_rfc3339};

/// Nothing that the pass needed was missing, unreadable or malformed. Failed writes are the caller's to
/// know.
pub(super) fn is_complete(o: &Observed, stage: &Stage, now: Timestamp) -> bool {
    let expiry_is_read = certificates_expiry(o).is_none_or(|text| parse_rfc3339(text).is_some());
    let deletion_goes_on = match stage {
        Stage::CannotTell(_) | Stage::DrainFailed(_) | Stage::VolumesUnknown(_) => false,
        Stage::Node => !node_resists(o, now),
        _ => true,
    };
    bootstrap_is_read(o) && infrastructure_is_read(o) && node_is_read(o) && expiry_is_read && deletion_goes_on
}

fn bootstrap_is_read(o: &Observed) -> bool {
    match &o.bootstrap {
        External::NotSet | External::NotFound { .. } => true,
        External::Unreadable { .. } => false,
        External::Found(bootstrap) => {
            let offers = || {
                bootstrap.is_deleting()
                    || !bootstrap.data_secret_created()
                    || offered_data_secret(bootstrap).is_some()
            };
            // With a name on the Machine upstream reads no more of the object.
            o.machine.spec.bootstrap.data_secret_name.is_some()
                || (!bootstrap.data_secret_created_is_malformed() && offers())
        }
    }
}

fn infrastructure_is_read(o: &Observed) -> bool {
    match &o.infrastructure {
        External::Found(infrastructure) => !infrastructure.provisioned_is_malformed(),
        // Gone after it was there, under a Machine that is to live.
        External::NotFound { .. } => {
            o.is_deleting() || initialization(&o.machine).infrastructure_provisioned != Some(true)
        }
        // The reference is required, so its absence is as wrong as an object that cannot be read.
        External::NotSet | External::Unreadable { .. } => false,
    }
}

fn node_is_read(o: &Observed) -> bool {
    let has_id = o.machine.spec.provider_id.as_ref().is_some_and(|id| !id.is_empty());
    match &o.node {
        // Without an ID upstream stops before it asks for a connection.
        NodeReading::NotConnected => !has_id && control_plane_initialized_since(&o.cluster).is_none(),
        NodeReading::NotFound => {
            o.is_deleting() || o.machine.status.as_ref().is_none_or(|s| s.node_ref.is_none())
        }
        NodeReading::Failed(_) => false,
        NodeReading::NotAsked | NodeReading::Found(_) => true,
    }
}
