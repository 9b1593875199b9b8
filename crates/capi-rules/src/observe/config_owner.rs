//! Whom a KubeadmConfig is for. Must not judge it.
//! Source: cluster-api `bootstrap/kubeadm/reconcilers/kubeadmconfig/configowner.go`, v1.14.2.

use std::sync::Arc;

use super::source::{Objects as _, Source, namespace};
use capi_types::bootstrap::KubeadmConfig;
use capi_types::key::{ObjectKey, refers_to};
use capi_types::machine::Machine;
use capi_types::machine_pool::MachinePool;
use capi_types::names::CORE_GROUP;

/// A Machine, or what stands for one.
#[derive(Clone, Debug)]
pub struct ConfigOwner {
    /// Of a MachinePool: a Machine of its name as its template has it.
    pub machine: Machine,
    /// `None`: it is a Machine.
    pub pool: Option<Arc<MachinePool>>,
}

/// The first owner that is here.
pub fn config_owner(source: &impl Source, config: &KubeadmConfig) -> Option<ConfigOwner> {
    let namespace = namespace(config);
    config.metadata.owner_references.iter().flatten().find_map(|owner| {
        let key = ObjectKey::new(namespace, &owner.name);
        if refers_to(owner, CORE_GROUP, "Machine") {
            let machine = source.machines().get(&key)?;
            Some(ConfigOwner { machine: Arc::unwrap_or_clone(machine), pool: None })
        } else if refers_to(owner, CORE_GROUP, "MachinePool") {
            let pool = source.machine_pools().get(&key)?;
            Some(ConfigOwner { machine: of_template(&pool, key), pool: Some(pool) })
        } else {
            None
        }
    })
}

fn of_template(pool: &MachinePool, key: ObjectKey) -> Machine {
    let mut machine = Machine::new(&key.name, pool.spec.template.spec.clone());
    machine.metadata.namespace = Some(key.namespace);
    // The template's own field may be empty; the pool's is required.
    machine.spec.cluster_name.clone_from(&pool.spec.cluster_name);
    machine
}
