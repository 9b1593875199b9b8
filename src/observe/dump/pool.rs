//! What a dump holds of a MachinePool. Must not judge it.

use std::sync::Arc;

use super::Dump;
use crate::api::key::{ObjectKey, cluster_label, controller_of, label as label_of};
use crate::api::machine::Machine;
use crate::api::machine_pool::MachinePool;
use crate::api::names::label;
use crate::observe::{Objects as _, Source as _};
use crate::plan::adoption::is_controlled;
use crate::status::machine_pool::Observed;

impl Dump {
    /// Everything a MachinePool is judged by.
    pub fn machine_pool(&self, key: &ObjectKey, pool: &MachinePool) -> Observed {
        let ns = key.namespace.as_str();
        let spec = &pool.spec.template.spec;
        let mine = |m: &Machine| is_of_pool(m, key, pool);
        Observed {
            pool: pool.clone(),
            bootstrap: self.external(ns, spec.bootstrap.config_ref.as_ref()),
            infrastructure: self.external(ns, Some(&spec.infrastructure_ref)),
            machines: self.machines.select(ns, mine).into_iter().map(Arc::unwrap_or_clone).collect(),
            nodes: self
                .workload(&ObjectKey::new(ns, &pool.spec.cluster_name))
                .map(|w| w.nodes.values().map(|node| (**node).clone()).collect()),
        }
    }

    /// The MachinePool that decides whether the Machine is up to date; not one that is being deleted.
    pub fn pool_of(&self, key: &ObjectKey, machine: &Machine) -> Option<(&ObjectKey, &MachinePool)> {
        let pool = ObjectKey::new(&key.namespace, label_of(machine, label::POOL_NAME)?);
        let (key, pool) = self.machine_pools.get_key_value(&pool)?;
        (pool.metadata.deletion_timestamp.is_none() && is_of_pool(machine, key, pool)).then_some((key, pool))
    }
}

fn is_of_pool(machine: &Machine, key: &ObjectKey, pool: &MachinePool) -> bool {
    let owner = controller_of(machine);
    label_of(machine, label::POOL_NAME) == Some(key.name.as_str())
        && cluster_label(machine) == Some(pool.spec.cluster_name.as_str())
        && (owner.is_none() || is_controlled(owner, pool))
}
