//! What a MachinePool is judged by, and which Machines are its own. Must not judge it.

use std::sync::Arc;

use super::source::{Objects as _, Source, key_of};
use crate::plan::adoption::is_controlled;
use crate::plan::naming::label_value;
use crate::status::machine_pool::Observed;
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, cluster_label, controller_of, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_pool::MachinePool;
use capi_types::names::label;

/// Everything but the Nodes, and the machines that the infrastructure shows.
pub fn machine_pool(source: &impl Source, pool: &MachinePool, cluster: &Arc<Cluster>) -> Observed {
    let (key, spec) = (key_of(pool), &pool.spec.template.spec);
    let mut machines = source.machines().of_cluster(&key_of(cluster.as_ref()));
    machines.retain(|machine| is_of_pool(machine, &key, pool));
    Observed {
        pool: pool.clone(),
        cluster: Arc::clone(cluster),
        bootstrap: source.external(&key.namespace, spec.bootstrap.config_ref.as_ref()),
        infrastructure: source.external(&key.namespace, Some(&spec.infrastructure_ref)),
        machines: machines.into_iter().map(Arc::unwrap_or_clone).collect(),
        ..Observed::default()
    }
}

/// By label, unless another object controls it.
pub fn is_of_pool(machine: &Machine, key: &ObjectKey, pool: &MachinePool) -> bool {
    let owner = controller_of(machine);
    // Long names are hashed in the label, so the value is made the same way before it is compared.
    label_of(machine, label::POOL_NAME) == Some(label_value(&key.name).as_str())
        && cluster_label(machine) == Some(pool.spec.cluster_name.as_str())
        && (owner.is_none() || is_controlled(owner, pool))
}
