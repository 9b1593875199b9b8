//! The simulated world as a [`Workload`]: what a client of a workload cluster would read. Owns the
//! translation; must not know who asks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::etcd;
use super::faults::Fault;
use super::kubeadm::KUBEADM_CONFIG;
use super::world::World;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;
use capstan_engine::workload::{
    Addon, Announcement, Connection, EtcdView, Eviction, PodScope, Workload, WorkloadError,
};

/// How long an eviction takes to answer under [`Fault::SlowEvictions`].
const SLOW_EVICTION: Duration = Duration::from_secs(6);

#[async_trait]
impl Workload for World {
    fn connection(&self, cluster: &ObjectKey) -> Connection {
        self.link(cluster)
    }

    fn changes(&self) -> broadcast::Receiver<Announcement> {
        self.subscribe()
    }

    async fn nodes(&self, cluster: &ObjectKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.seen_nodes()))
    }

    async fn node(&self, cluster: &ObjectKey, name: &str) -> Result<Option<Arc<Node>>, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.seen_node(name)))
    }

    async fn nodes_with(&self, cluster: &ObjectKey, id: &str) -> Result<Vec<Arc<Node>>, WorkloadError> {
        let known = self.read(cluster, |sim, now| sim.known_nodes_with(id, now));
        // Not through `ask`: what a client knows already it knows without the server.
        known.unwrap_or(Err(WorkloadError::NotConnected))
    }

    async fn patch_node(
        &self,
        cluster: &ObjectKey,
        name: &str,
        patch: &Value,
    ) -> Result<Node, WorkloadError> {
        self.write(cluster, |sim| sim.patch_node(name, patch))
    }

    async fn delete_node(&self, cluster: &ObjectKey, name: &str) -> Result<(), WorkloadError> {
        self.write(cluster, |sim| {
            sim.remove_node(name);
            Ok(())
        })
    }

    async fn pods(&self, cluster: &ObjectKey, scope: &PodScope) -> Result<Vec<Pod>, WorkloadError> {
        let wanted = |key: &ObjectKey, pod: &Pod| match scope {
            PodScope::KubeSystem => key.namespace == "kube-system",
            PodScope::OnNode(node) => pod.spec.as_ref().and_then(|s| s.node_name.as_ref()) == Some(node),
        };
        self.ask(cluster, |sim| {
            Ok(sim.pods.iter().filter(|(key, pod)| wanted(key, pod)).map(|(_, pod)| pod.clone()).collect())
        })
    }

    async fn namespaces(&self, cluster: &ObjectKey) -> Result<Vec<Namespace>, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.tenants.namespaces()))
    }

    async fn daemon_sets(&self, cluster: &ObjectKey) -> Result<Vec<DaemonSet>, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.tenants.daemon_sets()))
    }

    async fn volume_attachments(&self, cluster: &ObjectKey) -> Result<Vec<VolumeAttachment>, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.tenants.attachments()))
    }

    async fn persistent_volumes(&self, cluster: &ObjectKey) -> Result<Vec<PersistentVolume>, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.tenants.volumes()))
    }

    /// Upstream's fake has no eviction route, so every pod counts as gone; here the pod really goes.
    async fn evict(
        &self,
        cluster: &ObjectKey,
        pod: &ObjectKey,
        grace_period_s: Option<u32>,
    ) -> Result<Eviction, WorkloadError> {
        if self.ask(cluster, |sim| Ok(sim.faults.contains_key(&Fault::SlowEvictions)))? {
            // No lock is held here: the other clusters go on.
            tokio::time::sleep(SLOW_EVICTION).await;
        }
        let now = self.now();
        self.write(cluster, |sim| Ok(sim.evict(pod, grace_period_s, now)))
    }

    async fn bootstrap_token(
        &self,
        cluster: &ObjectKey,
        id: &str,
    ) -> Result<Option<Timestamp>, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.join_tokens.get(id).copied()))
    }

    async fn store_bootstrap_token(
        &self,
        cluster: &ObjectKey,
        token: &str,
        expires: Timestamp,
    ) -> Result<(), WorkloadError> {
        // The secret half is not needed here; the Secret is named after the first.
        let id = token.split_once('.').map_or(token, |(id, _)| id);
        self.write(cluster, |sim| {
            sim.join_tokens.insert(id.to_owned(), expires);
            Ok(())
        })
    }

    async fn etcd(&self, cluster: &ObjectKey) -> Result<EtcdView, WorkloadError> {
        self.ask(cluster, |sim| etcd::view(&sim.etcd))
    }

    async fn remove_member(&self, cluster: &ObjectKey, member: u64) -> Result<(), WorkloadError> {
        self.write(cluster, |sim| sim.etcd.remove(member).map_err(|refusal| etcd::refused(refusal, member)))
    }

    async fn move_leader(&self, cluster: &ObjectKey, to: u64) -> Result<(), WorkloadError> {
        self.write(cluster, |sim| sim.etcd.move_leader(to).map_err(|refusal| etcd::refused(refusal, to)))
    }

    async fn kubeadm_config(&self, cluster: &ObjectKey) -> Result<Option<ConfigMap>, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.config_maps.get(KUBEADM_CONFIG).cloned()))
    }

    async fn patch_kubeadm_config(&self, cluster: &ObjectKey, patch: &Value) -> Result<(), WorkloadError> {
        self.write(cluster, |sim| sim.patch_config_map(KUBEADM_CONFIG, patch))
    }

    async fn addon_image(&self, cluster: &ObjectKey, addon: Addon) -> Result<Option<String>, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.addons.get(&addon).map(|add_on| add_on.image.clone())))
    }

    async fn set_addon_image(
        &self,
        cluster: &ObjectKey,
        addon: Addon,
        image: &str,
    ) -> Result<(), WorkloadError> {
        let now = self.now();
        self.write(cluster, |sim| {
            let missing = || WorkloadError::NotFound(format!("{addon:?}"));
            let template = json!({ "spec": { "containers": [{ "image": image }] } });
            sim.addons.get_mut(&addon).ok_or_else(missing)?.accept(&template, now);
            Ok(())
        })
    }

    async fn api_server_expiry(
        &self,
        cluster: &ObjectKey,
        node: &str,
        _: u16,
    ) -> Result<Timestamp, WorkloadError> {
        self.ask(cluster, |sim| sim.api_server_expiry(node))
    }

    async fn binds_cluster_role(&self, cluster: &ObjectKey, name: &str) -> Result<bool, WorkloadError> {
        self.ask(cluster, |sim| Ok(sim.cluster_role_bindings.contains(name)))
    }

    async fn bind_cluster_role(
        &self,
        cluster: &ObjectKey,
        binding: &ClusterRoleBinding,
    ) -> Result<(), WorkloadError> {
        self.write(cluster, |sim| {
            sim.cluster_role_bindings.extend(binding.metadata.name.clone());
            Ok(())
        })
    }
}
