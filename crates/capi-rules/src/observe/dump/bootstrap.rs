//! What a dump holds of a KubeadmConfig. Must not judge it.

use super::Dump;
use crate::observe::{ConfigOwner, config_owner};
use crate::status::bootstrap::Observed;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::key::ObjectKey;

impl Dump {
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
