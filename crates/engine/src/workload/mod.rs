//! Reaching into a workload cluster: nodes, pods, storage, etcd members, the kubeadm configuration map.
//! Owns the `Workload` trait and connections; must not know who asks.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::Value;
use tokio::sync::broadcast;

use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;

mod api_server;
mod budgets;
#[cfg(feature = "etcd")]
pub mod etcd;
mod forward;
pub mod kube;
pub mod nodes;
mod probe;
pub mod router;
pub mod static_pods;
mod token;
#[cfg(not(feature = "etcd"))]
mod without_etcd;

pub use budgets::{HeldBudget, held_budgets};
pub use nodes::NodeIdentity;
pub use probe::{Dial, REQUEST_TIMEOUT, connect_to, kubeconfig_of};
pub use router::Router;

/// Everything the controllers ask of workload clusters. `cluster` is the key of the Cluster object.
#[async_trait]
pub trait Workload: Send + Sync + 'static {
    /// How the connection is: data, no request.
    fn connection(&self, cluster: &ObjectKey) -> Connection;

    /// What changes from now on.
    fn changes(&self) -> broadcast::Receiver<Announcement>;

    /// All of them, as they were reported last.
    async fn nodes(&self, cluster: &ObjectKey) -> Result<Vec<Arc<Node>>, WorkloadError>;

    /// All of them, as they are now: past every copy, for what must not be decided by an old one.
    async fn nodes_now(&self, cluster: &ObjectKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        self.nodes(cluster).await
    }

    /// `None` when there is no such node: that is never the word of a copy.
    async fn node(&self, cluster: &ObjectKey, name: &str) -> Result<Option<Arc<Node>>, WorkloadError>;

    /// Those with a provider ID, as they were reported last: one may have joined since.
    async fn nodes_with(
        &self,
        cluster: &ObjectKey,
        provider_id: &str,
    ) -> Result<Vec<Arc<Node>>, WorkloadError>;

    /// One merge patch: labels, annotations, `spec.unschedulable`, `spec.taints` (the list is replaced).
    async fn patch_node(&self, cluster: &ObjectKey, name: &str, patch: &Value)
    -> Result<Node, WorkloadError>;

    /// A node that is already gone is fine.
    async fn delete_node(&self, cluster: &ObjectKey, name: &str) -> Result<(), WorkloadError>;

    async fn pods(&self, cluster: &ObjectKey, scope: &PodScope) -> Result<Vec<Pod>, WorkloadError>;

    async fn namespaces(&self, cluster: &ObjectKey) -> Result<Vec<Namespace>, WorkloadError>;

    /// Of all namespaces.
    async fn daemon_sets(&self, cluster: &ObjectKey) -> Result<Vec<DaemonSet>, WorkloadError>;

    /// Of all Nodes.
    async fn volume_attachments(&self, cluster: &ObjectKey) -> Result<Vec<VolumeAttachment>, WorkloadError>;

    async fn persistent_volumes(&self, cluster: &ObjectKey) -> Result<Vec<PersistentVolume>, WorkloadError>;

    /// Asks for eviction; it may be held up by a disruption budget. Without a grace period the pod has
    /// its own.
    async fn evict(
        &self,
        cluster: &ObjectKey,
        pod: &ObjectKey,
        grace_period_s: Option<u32>,
    ) -> Result<Eviction, WorkloadError>;

    /// When the join token with this public half ends. `None` when there is no such token.
    async fn bootstrap_token(
        &self,
        cluster: &ObjectKey,
        id: &str,
    ) -> Result<Option<Timestamp>, WorkloadError>;

    /// Creates a join token (`id.secret`), or gives the one with its public half a new end.
    async fn store_bootstrap_token(
        &self,
        cluster: &ObjectKey,
        token: &str,
        expires: Timestamp,
    ) -> Result<(), WorkloadError>;

    /// Members, leader and alarms as etcd itself reports them.
    async fn etcd(&self, cluster: &ObjectKey) -> Result<EtcdView, WorkloadError>;

    /// A member that is already gone is fine; the last one is refused.
    async fn remove_member(&self, cluster: &ObjectKey, member: u64) -> Result<(), WorkloadError>;

    async fn move_leader(&self, cluster: &ObjectKey, to: u64) -> Result<(), WorkloadError>;

    /// `kube-system/kubeadm-config`. `None` when it does not exist.
    async fn kubeadm_config(&self, cluster: &ObjectKey) -> Result<Option<ConfigMap>, WorkloadError>;

    /// One merge patch on `kube-system/kubeadm-config`.
    async fn patch_kubeadm_config(&self, cluster: &ObjectKey, patch: &Value) -> Result<(), WorkloadError>;

    /// The image of an add-on's first container. `None` when the add-on does not exist.
    async fn addon_image(&self, cluster: &ObjectKey, addon: Addon) -> Result<Option<String>, WorkloadError>;

    async fn set_addon_image(
        &self,
        cluster: &ObjectKey,
        addon: Addon,
        image: &str,
    ) -> Result<(), WorkloadError>;

    /// When the certificate ends that the API server on this Node serves at this port.
    async fn api_server_expiry(
        &self,
        cluster: &ObjectKey,
        node: &str,
        port: u16,
    ) -> Result<Timestamp, WorkloadError>;

    /// Is there a ClusterRoleBinding of this name?
    async fn binds_cluster_role(&self, cluster: &ObjectKey, name: &str) -> Result<bool, WorkloadError>;

    /// Creates it; one that exists already is fine.
    async fn bind_cluster_role(
        &self,
        cluster: &ObjectKey,
        binding: &ClusterRoleBinding,
    ) -> Result<(), WorkloadError>;
}

/// A change in a workload cluster that controllers may have to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// The connection, etcd or the settings of this Cluster: every object of it may look different.
    Cluster(ObjectKey),
    /// A Node, or what runs on it: came, changed or went.
    Node { cluster: ObjectKey, node: NodeIdentity },
    /// Announcements were missed: anything may have changed.
    Missed,
}

/// Add-ons that kubeadm installs and the control plane keeps in step with the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Addon {
    /// DaemonSet `kube-system/kube-proxy`.
    KubeProxy,
    /// Deployment `kube-system/coredns`.
    CoreDns,
}

/// Which pods to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodScope {
    KubeSystem,
    /// All that run on one node, in every namespace.
    OnNode(String),
}

/// What came of asking for an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The pod is being deleted.
    Started,
    /// There is no such pod (any more).
    Gone,
    /// Refused, in the server's words: by a disruption budget (429) or for another reason.
    Refused(String),
}

/// One etcd member as the member list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    pub id: u64,
    /// The node's name; empty until the member has started.
    pub name: String,
    /// Where the other members reach it, such as `https://10.0.0.1:2380`.
    pub peer_urls: Vec<String>,
    pub learner: bool,
    /// Kinds of alarms this member raised: `NOSPACE`, `CORRUPT`.
    pub alarms: Vec<String>,
}

/// One answer of etcd. Taken from one member, so it may be behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdView {
    /// Ordered by name, then id.
    pub members: Vec<EtcdMember>,
    /// Id of the leader; `None` without one (no quorum).
    pub leader: Option<u64>,
}

/// How the connection to one workload cluster is.
/// Source: cluster-api `controllers/clustercache`, v1.14.2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    pub last_probe: Option<Timestamp>,
    pub last_probe_success: Option<Timestamp>,
    /// 0 after a success.
    pub consecutive_failures: u32,
    /// False after [`FAILURES_MAX`] failures or a 401, and before the first connect.
    pub connected: bool,
}

/// How long after the last successful probe those who listen judge a cluster anew, soonest first. They are woken a little
/// later, because they compare with "longer than".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgedAfter(pub [TimeDelta; 2]);

impl Default for JudgedAfter {
    fn default() -> Self {
        Self([TimeDelta::seconds(50), TimeDelta::minutes(5)])
    }
}

impl JudgedAfter {
    pub fn wakes(self) -> [TimeDelta; 2] {
        self.0.map(|after| after + TimeDelta::seconds(1))
    }
}

/// So many failed probes in a row end a connection.
pub const FAILURES_MAX: u32 = 5;

impl Connection {
    /// Never reached, and not tried often enough to call it down.
    pub fn not_established_yet(&self) -> bool {
        self.last_probe_success.is_none() && self.consecutive_failures < FAILURES_MAX
    }
}

/// A question to a workload cluster that got no answer. *Unreachable* and *unhealthy* lead to
/// different plans, so they are never mixed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// There is no connection; existing knowledge should be kept.
    #[error("connection to the workload cluster is down")]
    NotConnected,
    /// A connection exists but this request got no answer.
    #[error("workload cluster cannot be reached: {0}")]
    Unreachable(String),
    #[error("{0} not found in the workload cluster")]
    NotFound(String),
    /// The cluster refused.
    #[error("workload cluster refused: {0}")]
    Refused(String),
    /// etcd has no leader: it answers nothing that needs one.
    #[error("invalid etcd cluster, no leader found")]
    NoEtcdLeader,
    /// A member answered, but it did not list the members.
    #[error("etcd members are not known: {0}")]
    EtcdMembers(String),
    /// A member listed the members, but not their alarms.
    #[error("etcd alarms are not known: {0}")]
    EtcdAlarms(String),
    /// This kind of connection cannot do it; the answer is unknown, not bad.
    #[error("{0} is not supported for this workload cluster yet")]
    Unsupported(&'static str),
}
