//! Sends each question to the kind of connection its cluster needs: the simulated world or a real
//! cluster. Owns the choice; must not know how either answers.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::Value;
use tokio::sync::broadcast::{self, error::RecvError};

use super::{Addon, Announcement, Connection, EtcdView, Eviction, PodScope, Workload, WorkloadError};
use crate::client::Cache;
use capi_types::cluster::Cluster;
use capi_types::dev::DevCluster;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;

/// Says whether a cluster is simulated.
pub type IsSimulated = Arc<dyn Fn(&ObjectKey) -> bool + Send + Sync>;

/// Simulated and real clusters behind one [`Workload`].
pub struct Router {
    simulated: Arc<dyn Workload>,
    real: Arc<dyn Workload>,
    is_simulated: IsSimulated,
    changes: broadcast::Sender<Announcement>,
}

impl Router {
    /// Must be called inside a runtime: it joins the announcements of both.
    pub fn new(simulated: Arc<dyn Workload>, real: Arc<dyn Workload>, is_simulated: IsSimulated) -> Self {
        let changes = broadcast::Sender::new(1024);
        for source in [simulated.changes(), real.changes()] {
            tokio::spawn(forward(source, changes.clone()));
        }
        Self { simulated, real, is_simulated, changes }
    }

    fn of(&self, cluster: &ObjectKey) -> &dyn Workload {
        if (self.is_simulated)(cluster) { self.simulated.as_ref() } else { self.real.as_ref() }
    }
}

/// A cluster is simulated when its infrastructure is a DevCluster with the in-memory backend, also before that DevCluster is read and
/// after it is deleted: nothing real would answer for it.
pub fn by_infrastructure(clusters: Cache<Cluster>, dev_clusters: Cache<DevCluster>) -> IsSimulated {
    Arc::new(move |key| {
        let Some(cluster) = clusters.get(key) else { return true };
        let Some(dev_cluster) = dev_cluster_of(&cluster) else { return false };
        dev_clusters.get(&dev_cluster).is_none_or(|dev| dev.spec.backend.in_memory.is_some())
    })
}

/// The DevCluster that a Cluster names as its infrastructure.
pub(super) fn dev_cluster_of(cluster: &Cluster) -> Option<ObjectKey> {
    let reference = cluster.spec.infrastructure_ref.as_ref().filter(|it| it.kind == "DevCluster")?;
    Some(ObjectKey::new(cluster.metadata.namespace.clone().unwrap_or_default(), &reference.name))
}

async fn forward(mut source: broadcast::Receiver<Announcement>, changes: broadcast::Sender<Announcement>) {
    loop {
        let announcement = match source.recv().await {
            Ok(announcement) => announcement,
            // What was missed is not known, so that everything counts as changed.
            Err(RecvError::Lagged(_)) => Announcement::Missed,
            Err(RecvError::Closed) => return,
        };
        // It is fine when there is no listener.
        let _ = changes.send(announcement);
    }
}

#[async_trait]
impl Workload for Router {
    fn connection(&self, cluster: &ObjectKey) -> Connection {
        self.of(cluster).connection(cluster)
    }

    fn changes(&self) -> broadcast::Receiver<Announcement> {
        self.changes.subscribe()
    }

    async fn nodes(&self, cluster: &ObjectKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        self.of(cluster).nodes(cluster).await
    }

    async fn nodes_now(&self, cluster: &ObjectKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        self.of(cluster).nodes_now(cluster).await
    }

    async fn node(&self, cluster: &ObjectKey, name: &str) -> Result<Option<Arc<Node>>, WorkloadError> {
        self.of(cluster).node(cluster, name).await
    }

    async fn nodes_with(
        &self,
        cluster: &ObjectKey,
        provider_id: &str,
    ) -> Result<Vec<Arc<Node>>, WorkloadError> {
        self.of(cluster).nodes_with(cluster, provider_id).await
    }

    async fn patch_node(
        &self,
        cluster: &ObjectKey,
        name: &str,
        patch: &Value,
    ) -> Result<Node, WorkloadError> {
        self.of(cluster).patch_node(cluster, name, patch).await
    }

    async fn delete_node(&self, cluster: &ObjectKey, name: &str) -> Result<(), WorkloadError> {
        self.of(cluster).delete_node(cluster, name).await
    }

    async fn pods(&self, cluster: &ObjectKey, scope: &PodScope) -> Result<Vec<Pod>, WorkloadError> {
        self.of(cluster).pods(cluster, scope).await
    }

    async fn namespaces(&self, cluster: &ObjectKey) -> Result<Vec<Namespace>, WorkloadError> {
        self.of(cluster).namespaces(cluster).await
    }

    async fn daemon_sets(&self, cluster: &ObjectKey) -> Result<Vec<DaemonSet>, WorkloadError> {
        self.of(cluster).daemon_sets(cluster).await
    }

    async fn volume_attachments(&self, cluster: &ObjectKey) -> Result<Vec<VolumeAttachment>, WorkloadError> {
        self.of(cluster).volume_attachments(cluster).await
    }

    async fn persistent_volumes(&self, cluster: &ObjectKey) -> Result<Vec<PersistentVolume>, WorkloadError> {
        self.of(cluster).persistent_volumes(cluster).await
    }

    async fn evict(
        &self,
        cluster: &ObjectKey,
        pod: &ObjectKey,
        grace_period_s: Option<u32>,
    ) -> Result<Eviction, WorkloadError> {
        self.of(cluster).evict(cluster, pod, grace_period_s).await
    }

    async fn bootstrap_token(
        &self,
        cluster: &ObjectKey,
        id: &str,
    ) -> Result<Option<Timestamp>, WorkloadError> {
        self.of(cluster).bootstrap_token(cluster, id).await
    }

    async fn store_bootstrap_token(
        &self,
        cluster: &ObjectKey,
        token: &str,
        expires: Timestamp,
    ) -> Result<(), WorkloadError> {
        self.of(cluster).store_bootstrap_token(cluster, token, expires).await
    }

    async fn etcd(&self, cluster: &ObjectKey) -> Result<EtcdView, WorkloadError> {
        self.of(cluster).etcd(cluster).await
    }

    async fn remove_member(&self, cluster: &ObjectKey, member: u64) -> Result<(), WorkloadError> {
        self.of(cluster).remove_member(cluster, member).await
    }

    async fn move_leader(&self, cluster: &ObjectKey, to: u64) -> Result<(), WorkloadError> {
        self.of(cluster).move_leader(cluster, to).await
    }

    async fn kubeadm_config(&self, cluster: &ObjectKey) -> Result<Option<ConfigMap>, WorkloadError> {
        self.of(cluster).kubeadm_config(cluster).await
    }

    async fn patch_kubeadm_config(&self, cluster: &ObjectKey, patch: &Value) -> Result<(), WorkloadError> {
        self.of(cluster).patch_kubeadm_config(cluster, patch).await
    }

    async fn addon_image(&self, cluster: &ObjectKey, addon: Addon) -> Result<Option<String>, WorkloadError> {
        self.of(cluster).addon_image(cluster, addon).await
    }

    async fn set_addon_image(
        &self,
        cluster: &ObjectKey,
        addon: Addon,
        image: &str,
    ) -> Result<(), WorkloadError> {
        self.of(cluster).set_addon_image(cluster, addon, image).await
    }

    async fn api_server_expiry(
        &self,
        cluster: &ObjectKey,
        node: &str,
        port: u16,
    ) -> Result<Timestamp, WorkloadError> {
        self.of(cluster).api_server_expiry(cluster, node, port).await
    }

    async fn binds_cluster_role(&self, cluster: &ObjectKey, name: &str) -> Result<bool, WorkloadError> {
        self.of(cluster).binds_cluster_role(cluster, name).await
    }

    async fn bind_cluster_role(
        &self,
        cluster: &ObjectKey,
        binding: &ClusterRoleBinding,
    ) -> Result<(), WorkloadError> {
        self.of(cluster).bind_cluster_role(cluster, binding).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::cluster::ClusterSpec;
    use capi_types::dev::DevClusterSpec;
    use serde_json::json;

    fn cluster(name: &str, infrastructure: Value) -> Cluster {
        let spec: ClusterSpec =
            serde_json::from_value(json!({ "infrastructureRef": infrastructure })).expect("a spec");
        let mut cluster = Cluster::new(name, spec);
        cluster.metadata.namespace = Some("default".to_owned());
        cluster
    }

    fn named(kind: &str) -> Value {
        json!({ "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "infrastructure" })
    }

    fn dev_cluster(backend: Value) -> DevCluster {
        let spec: DevClusterSpec = serde_json::from_value(json!({ "backend": backend })).expect("a spec");
        let mut dev = DevCluster::new("infrastructure", spec);
        dev.metadata.namespace = Some("default".to_owned());
        dev
    }

    /// A simulated cluster has no API server of its own to connect to, also when the Cluster or its DevCluster is gone.
    #[test]
    fn a_cluster_whose_dev_cluster_is_gone_is_simulated() {
        let (in_memory, docker) =
            (dev_cluster(json!({ "inMemory": {} })), dev_cluster(json!({ "docker": {} })));
        for (infrastructure, dev, expected) in [
            (named("DevCluster"), Some(in_memory.clone()), true),
            (named("DevCluster"), Some(docker), false),
            (named("DevCluster"), None, true),
            (named("HostCluster"), Some(in_memory), false),
            (named("HostCluster"), None, false),
            (Value::Null, None, false),
        ] {
            let (clusters, dev_clusters) = (Cache::new(), Cache::new());
            clusters.upsert(cluster("c", infrastructure.clone()));
            dev.into_iter().for_each(|dev| dev_clusters.upsert(dev));
            let is_simulated = by_infrastructure(clusters, dev_clusters);
            assert_eq!(is_simulated(&ObjectKey::new("default", "c")), expected, "{infrastructure}");
            assert!(is_simulated(&ObjectKey::new("default", "gone")));
        }
    }
}
