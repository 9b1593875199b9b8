//! What a dump holds of a MachinePool. Must not judge it.

use super::Dump;
use crate::observe::{self, is_of_pool};
use crate::status::machine_pool::Observed;
use capi_types::key::{ObjectKey, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_pool::MachinePool;
use capi_types::names::label;

impl Dump {
    /// Everything a MachinePool is judged by.
    pub fn machine_pool(&self, key: &ObjectKey, pool: &MachinePool) -> Observed {
        let cluster = ObjectKey::new(&key.namespace, &pool.spec.cluster_name);
        let found = self.clusters.get(&cluster).cloned().unwrap_or_default();
        let nodes = self.workload(&cluster);
        let nodes = nodes.map(|w| w.nodes.values().map(|node| (**node).clone()).collect());
        Observed { nodes, ..observe::machine_pool(self, pool, &found) }
    }

    /// The MachinePool that decides whether the Machine is up to date; not one that is being deleted.
    pub fn pool_of(&self, key: &ObjectKey, machine: &Machine) -> Option<(&ObjectKey, &MachinePool)> {
        let pool = ObjectKey::new(&key.namespace, label_of(machine, label::POOL_NAME)?);
        let (key, pool) = self.machine_pools.get_key_value(&pool)?;
        (pool.metadata.deletion_timestamp.is_none() && is_of_pool(machine, key, pool)).then_some((key, pool))
    }
}
