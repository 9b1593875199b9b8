//! What a dump holds of a KubeadmConfig. Must not judge it.

use std::sync::Arc;

use super::Dump;
use crate::observe::{ConfigOwner, Objects as _, config_owner, older_version};
use crate::plan::adoption::is_controlled;
use crate::status::bootstrap::Observed;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine::Machine;

impl Dump {
    /// Puts what older releases compare of a control plane Machine where later ones look for it. What follows may then change
    /// the objects, and is judged by one rule.
    pub(super) fn put_recorded_configurations(&mut self) {
        for ObjectKey { namespace, name } in &self.of_older_releases {
            let Some(plane) = self.control_planes.get(&ObjectKey::new(namespace, name)) else { continue };
            let owned = |machine: &Machine| is_controlled(controller_of(machine), plane.as_ref());
            for machine in self.machines.select(namespace, owned) {
                let reference = machine.spec.bootstrap.config_ref.as_ref();
                let config = reference.map(|it| ObjectKey::new(namespace, &it.name));
                if let Some(config) = config.and_then(|key| self.configs.get_mut(&key)) {
                    let made_with = older_version::made_with(&machine, plane);
                    Arc::make_mut(config).spec.cluster_configuration = made_with;
                }
            }
        }
    }

    /// Everything a KubeadmConfig is judged by; `None` without owner or Cluster.
    pub fn config(&self, key: &ObjectKey, config: &KubeadmConfig) -> Option<Observed> {
        let ConfigOwner { machine, pool } = config_owner(self, config)?;
        let cluster = self.clusters.get(&ObjectKey::new(&key.namespace, &machine.spec.cluster_name))?;
        Some(Observed {
            config: config.clone(),
            cluster: (**cluster).clone(),
            machine,
            pool,
            ..Observed::default()
        })
    }
}
