//! What a dump holds of the simulator's infrastructure kinds. Must not judge them.

use super::Dump;
use crate::status::dev::{Observed, Part};
use crate::status::machine::{cluster_provisioned, control_plane_initialized_since};
use crate::status::machines::is_control_plane;
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, find};
use capi_types::dev::{DevCluster, DevMachine};
use capi_types::key::{ObjectKey, controller_of};

impl Dump {
    /// By the owner reference, if the dump has that object.
    pub fn cluster_of_infrastructure(&self, key: &ObjectKey, object: &DevCluster) -> Option<&Cluster> {
        let owners = object.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|o| o.kind == "Cluster")?;
        self.clusters.get(&ObjectKey::new(&key.namespace, &owner.name)).map(AsRef::as_ref)
    }

    /// Everything a DevMachine is judged by; `None` without its Machine or Cluster, or with another
    /// backend. Whether a part is up says its stored condition: only the simulator knows.
    pub fn dev_machine(&self, key: &ObjectKey, object: &DevMachine) -> Option<Observed> {
        object.spec.backend.in_memory.as_ref()?;
        let ns = key.namespace.as_str();
        let owner = controller_of(object).filter(|o| o.kind == "Machine")?;
        let machine = self.machines.get(&ObjectKey::new(ns, &owner.name))?;
        let cluster = self.clusters.get(&ObjectKey::new(ns, &machine.spec.cluster_name))?;
        let part = |type_: &str| match find(object.conditions(), type_) {
            Some(c) if c.status == "True" => Part::Up,
            Some(c) if c.reason == "InternalError" => Part::Failed,
            _ => Part::Starting,
        };
        Some(Observed {
            machine: object.clone(),
            control_plane: is_control_plane(machine),
            cluster_provisioned: cluster_provisioned(cluster),
            control_plane_initialized: control_plane_initialized_since(cluster).is_some(),
            has_bootstrap_data: machine.spec.bootstrap.data_secret_name.is_some(),
            vm: part("VMProvisioned"),
            node: part("NodeProvisioned"),
            etcd: part("EtcdProvisioned"),
            api_server: part("APIServerProvisioned"),
        })
    }
}
