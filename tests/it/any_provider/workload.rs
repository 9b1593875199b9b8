//! A workload cluster with Nodes and nothing on them, for Machines that no simulation knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use capi_types::key::ObjectKey;
use capstan_base::time::{Clock, Timestamp};
use capstan_engine::workload::{
    Addon, Announcement, Connection, EtcdView, Eviction, PodScope, Workload, WorkloadError,
};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::provider::Hosts;

/// The Nodes of all clusters, by name.
pub struct Yard {
    clock: Clock,
    nodes: Mutex<BTreeMap<String, Arc<Node>>>,
    changes: broadcast::Sender<Announcement>,
}

impl Yard {
    pub fn new(clock: Clock) -> Self {
        Self { clock, nodes: Mutex::default(), changes: broadcast::Sender::new(100) }
    }

    pub fn names(&self) -> Vec<String> {
        self.nodes.lock().keys().cloned().collect()
    }
}

/// A Node that is ready.
pub fn ready_node(name: &str, provider_id: &str, version: &str) -> Node {
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "Kubelet"});
    let pressures = ["MemoryPressure", "DiskPressure", "PIDPressure"];
    let mut conditions: Vec<Value> = pressures.iter().map(|p| condition(p, "False")).collect();
    conditions.push(condition("Ready", "True"));
    let node = json!({
        "metadata": {"name": name},
        "spec": {"providerID": provider_id},
        "status": {
            "conditions": conditions,
            "nodeInfo": {"kubeletVersion": version, "architecture": "", "bootID": "", "containerRuntimeVersion": "",
                         "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "",
                         "osImage": "", "systemUUID": ""},
        },
    });
    serde_json::from_value(node).expect("a Node")
}

#[async_trait]
impl Hosts for Yard {
    async fn join(&self, cluster: &ObjectKey, name: &str, provider_id: &str, version: &str) {
        let node = Arc::new(ready_node(name, provider_id, version));
        if self.nodes.lock().insert(name.to_owned(), node).is_none() {
            // Nobody listening is fine.
            let _ = self.changes.send(Announcement::Cluster(cluster.clone()));
        }
    }

    async fn leave(&self, cluster: &ObjectKey, name: &str) {
        if self.nodes.lock().remove(name).is_some() {
            let _ = self.changes.send(Announcement::Cluster(cluster.clone()));
        }
    }
}

#[async_trait]
impl Workload for Yard {
    fn connection(&self, _: &ObjectKey) -> Connection {
        let now = Some(self.clock.now());
        Connection { last_probe: now, last_probe_success: now, consecutive_failures: 0, connected: true }
    }

    fn changes(&self) -> broadcast::Receiver<Announcement> {
        self.changes.subscribe()
    }

    async fn nodes(&self, _: &ObjectKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        Ok(self.nodes.lock().values().cloned().collect())
    }

    async fn node(&self, _: &ObjectKey, name: &str) -> Result<Option<Arc<Node>>, WorkloadError> {
        Ok(self.nodes.lock().get(name).cloned())
    }

    async fn nodes_with(&self, _: &ObjectKey, id: &str) -> Result<Vec<Arc<Node>>, WorkloadError> {
        let has = |node: &&Arc<Node>| node.spec.as_ref().and_then(|s| s.provider_id.as_deref()) == Some(id);
        Ok(self.nodes.lock().values().filter(has).cloned().collect())
    }

    async fn patch_node(&self, _: &ObjectKey, name: &str, patch: &Value) -> Result<Node, WorkloadError> {
        let mut nodes = self.nodes.lock();
        let node = nodes.get_mut(name).ok_or_else(|| WorkloadError::NotFound(name.to_owned()))?;
        let mut value = serde_json::to_value(node.as_ref()).expect("JSON");
        json_patch::merge(&mut value, patch);
        let patched: Node = serde_json::from_value(value).expect("a Node");
        *node = Arc::new(patched.clone());
        Ok(patched)
    }

    async fn delete_node(&self, cluster: &ObjectKey, name: &str) -> Result<(), WorkloadError> {
        self.leave(cluster, name).await;
        Ok(())
    }

    async fn pods(&self, _: &ObjectKey, _: &PodScope) -> Result<Vec<Pod>, WorkloadError> {
        Ok(Vec::new())
    }

    async fn namespaces(&self, _: &ObjectKey) -> Result<Vec<Namespace>, WorkloadError> {
        Ok(Vec::new())
    }

    async fn daemon_sets(&self, _: &ObjectKey) -> Result<Vec<DaemonSet>, WorkloadError> {
        Ok(Vec::new())
    }

    async fn volume_attachments(&self, _: &ObjectKey) -> Result<Vec<VolumeAttachment>, WorkloadError> {
        Ok(Vec::new())
    }

    async fn persistent_volumes(&self, _: &ObjectKey) -> Result<Vec<PersistentVolume>, WorkloadError> {
        Ok(Vec::new())
    }

    async fn evict(&self, _: &ObjectKey, _: &ObjectKey, _: Option<u32>) -> Result<Eviction, WorkloadError> {
        Ok(Eviction::Gone)
    }

    async fn bootstrap_token(&self, _: &ObjectKey, _: &str) -> Result<Option<Timestamp>, WorkloadError> {
        Ok(None)
    }

    async fn store_bootstrap_token(&self, _: &ObjectKey, _: &str, _: Timestamp) -> Result<(), WorkloadError> {
        Err(WorkloadError::Unsupported("a join token"))
    }

    async fn api_server_expiry(&self, _: &ObjectKey, _: &str, _: u16) -> Result<Timestamp, WorkloadError> {
        Err(WorkloadError::Unsupported("a certificate"))
    }

    async fn etcd(&self, _: &ObjectKey) -> Result<EtcdView, WorkloadError> {
        Err(WorkloadError::Unsupported("etcd"))
    }

    async fn remove_member(&self, _: &ObjectKey, _: u64) -> Result<(), WorkloadError> {
        Err(WorkloadError::Unsupported("etcd"))
    }

    async fn move_leader(&self, _: &ObjectKey, _: u64) -> Result<(), WorkloadError> {
        Err(WorkloadError::Unsupported("etcd"))
    }

    async fn kubeadm_config(&self, _: &ObjectKey) -> Result<Option<ConfigMap>, WorkloadError> {
        Ok(None)
    }

    async fn patch_kubeadm_config(&self, _: &ObjectKey, _: &Value) -> Result<(), WorkloadError> {
        Err(WorkloadError::Unsupported("kubeadm"))
    }

    async fn addon_image(&self, _: &ObjectKey, _: Addon) -> Result<Option<String>, WorkloadError> {
        Ok(None)
    }

    async fn set_addon_image(&self, _: &ObjectKey, _: Addon, _: &str) -> Result<(), WorkloadError> {
        Err(WorkloadError::Unsupported("add-ons"))
    }

    async fn binds_cluster_role(&self, _: &ObjectKey, _: &str) -> Result<bool, WorkloadError> {
        Err(WorkloadError::Unsupported("roles"))
    }

    async fn bind_cluster_role(&self, _: &ObjectKey, _: &ClusterRoleBinding) -> Result<(), WorkloadError> {
        Err(WorkloadError::Unsupported("roles"))
    }
}
