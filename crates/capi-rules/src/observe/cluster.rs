//! What a Cluster is judged by. Must not judge it.

use super::source::{Objects as _, Source, key_of};
use crate::status::cluster::{Descendants, Observed};
use crate::status::machine::Probe;
use capi_types::cluster::Cluster;

/// Everything about a Cluster but its class. `probe`: how the connection to the workload cluster is.
pub fn cluster(source: &impl Source, cluster: &Cluster, probe: Probe) -> Observed {
    let key = key_of(cluster);
    Observed {
        cluster: cluster.clone(),
        infrastructure: source.infrastructure_of_cluster(cluster),
        control_plane: source.control_plane_of_cluster(cluster),
        probe,
        descendants: Descendants {
            machine_deployments: source.machine_deployments().of_cluster(&key),
            machine_sets: source.machine_sets().of_cluster(&key),
            machine_pools: source.machine_pools().of_cluster(&key),
            machines: source.machines().of_cluster(&key),
        },
        ..Observed::default()
    }
}
