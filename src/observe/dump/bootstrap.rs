//! What a dump holds of a KubeadmConfig. Must not judge it.

use super::Dump;
use crate::api::bootstrap::KubeadmConfig;
use crate::api::key::ObjectKey;
use crate::api::machine::Machine;
use crate::status::bootstrap::Observed;

impl Dump {
    /// Everything a KubeadmConfig is judged by; `None` without owner or Cluster.
    pub fn config(&self, key: &ObjectKey, config: &KubeadmConfig) -> Option<Observed> {
        let ns = key.namespace.as_str();
        let owners = config.metadata.owner_references.iter().flatten();
        let machine = owners.into_iter().find_map(|owner| {
            let key = ObjectKey::new(ns, &owner.name);
            match owner.kind.as_str() {
                "Machine" => self.machines.get(&key).map(|machine| (**machine).clone()),
                // A pool's config is judged as that of a worker.
                "MachinePool" => self.machine_pools.get(&key).map(|pool| {
                    let mut machine = Machine::new(&owner.name, pool.spec.template.spec.clone());
                    machine.metadata.namespace = Some(ns.to_owned());
                    machine
                }),
                _ => None,
            }
        })?;
        let cluster = self.clusters.get(&ObjectKey::new(ns, &machine.spec.cluster_name))?;
        Some(Observed {
            config: config.clone(),
            cluster: (**cluster).clone(),
            machine,
            ..Observed::default()
        })
    }
}
