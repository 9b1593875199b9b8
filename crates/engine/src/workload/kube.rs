//! Real workload clusters, reached through the kubeconfig Secrets that the control plane provider
//! writes. Owns these connections; must not know who asks. etcd is reached through them (`etcd::StackedEtcd`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, Pod, PodSpec, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, ListParams, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

#[cfg(feature = "etcd")]
use super::etcd::{Access, StackedEtcd, access};
use super::nodes::provider_id;
use super::probe::{Dial, Live, Prober, Slot, by_secret};
use super::router::{IsSimulated, by_infrastructure, dev_cluster_of};
#[cfg(not(feature = "etcd"))]
use super::without_etcd::StackedEtcd;
use super::{
    Addon, Announcement, Connection, EtcdView, Eviction, JudgedAfter, PodScope, Workload, WorkloadError,
};
use super::{api_server, token};
use crate::client::write::Part;
use crate::client::{Cache, Change, Mode, Precondition, WriteError, Writer, errors, get};
use capi_types::cluster::Cluster;
use capi_types::dev::DevCluster;
use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp};

const KUBE_SYSTEM: &str = "kube-system";
/// How long a reader waits for the list of Nodes that makes the copy current.
const LIST_MAX: Duration = Duration::from_secs(10);

/// Connections to real workload clusters.
pub struct KubeWorkloads(Arc<Inner>);

struct Inner {
    slots: Mutex<BTreeMap<ObjectKey, Kept>>,
    changes: broadcast::Sender<Announcement>,
    management: Writer,
    clock: Clock,
    rng: Rng,
    dial: Dial,
    judged_after: JudgedAfter,
}

/// One connection and the task that keeps it.
struct Kept {
    slot: Arc<Mutex<Slot>>,
    prober: AbortHandle,
}

impl KubeWorkloads {
    /// `management` carries the permit under which workload clusters are written, too.
    pub fn new(
        management: Writer,
        clock: Clock,
        rng: Rng,
        read_only: bool,
        judged_after: JudgedAfter,
    ) -> Self {
        let dial = by_secret(management.client().clone(), read_only);
        Self::dialing(management, clock, rng, dial, judged_after)
    }

    /// The same for clusters that are reached in another way than by their kubeconfig Secrets.
    pub fn dialing(
        management: Writer,
        clock: Clock,
        rng: Rng,
        dial: Dial,
        judged_after: JudgedAfter,
    ) -> Self {
        // Readers that fall further behind get `Missed`, which wakes everything instead.
        let (slots, changes) = (Mutex::new(BTreeMap::new()), broadcast::Sender::new(1024));
        Self(Arc::new(Inner { slots, changes, management, clock, rng, dial, judged_after }))
    }

    /// Connects to every cluster whose infrastructure is provisioned and that is not `simulated`, and
    /// lets go of those that are deleted. The cache must be fed inside a runtime.
    pub fn attach(&self, clusters: &Cache<Cluster>, simulated: IsSimulated) {
        let inner = Arc::clone(&self.0);
        clusters.on_change(move |change: &Change<'_, Cluster>| match change.new {
            Some(cluster) if is_provisioned(cluster) => {
                let key = ObjectKey::of(cluster);
                if !simulated(&key) {
                    inner.open(&key);
                }
            }
            Some(_) => {}
            None => change.old.into_iter().for_each(|cluster| inner.close(&ObjectKey::of(cluster))),
        });
    }

    /// [`Self::attach`] to every cluster that is not simulated; answers which are. A DevCluster that is read after its Cluster may say
    /// that it is real.
    pub fn attach_real(&self, clusters: &Cache<Cluster>, dev_clusters: &Cache<DevCluster>) -> IsSimulated {
        let is_simulated = by_infrastructure(clusters.clone(), dev_clusters.clone());
        self.attach(clusters, is_simulated.clone());
        let (inner, clusters) = (Arc::clone(&self.0), clusters.clone());
        dev_clusters.on_change(move |change: &Change<'_, DevCluster>| {
            let real = change.new.filter(|dev| dev.spec.backend.in_memory.is_none());
            let Some(key) = real.map(ObjectKey::of) else { return };
            let names_it =
                |cluster: &Cluster| is_provisioned(cluster) && dev_cluster_of(cluster).as_ref() == Some(&key);
            let of_it = clusters.select(&key.namespace, names_it);
            of_it.iter().for_each(|cluster| inner.open(&ObjectKey::of(cluster.as_ref())));
        });
        is_simulated
    }

    fn live(&self, cluster: &ObjectKey) -> Result<Live, WorkloadError> {
        let slots = self.0.slots.lock();
        // Both locks are held for a moment only, the map before the slot, here as everywhere.
        let kept = slots.get(cluster).ok_or(WorkloadError::NotConnected)?;
        kept.slot.lock().live.clone().ok_or(WorkloadError::NotConnected)
    }

    /// The connection. Its Nodes are current, or cannot be so soon: what they lack may exist then.
    async fn followed(&self, cluster: &ObjectKey) -> Result<Live, WorkloadError> {
        let live = self.live(cluster)?;
        if let Some(term) = self.0.management.term() {
            live.nodes.renew_in(term);
        }
        // Late or not, callers look at what the copy says of itself.
        let _ = tokio::time::timeout(LIST_MAX, live.nodes.cache.settled()).await;
        Ok(live)
    }

    /// All objects of a kind.
    async fn all<K: crate::client::Object>(&self, cluster: &ObjectKey) -> Result<Vec<K>, WorkloadError> {
        let api: Api<K> = Api::all(self.live(cluster)?.writer.client().clone());
        Ok(api.list(&ListParams::default()).await.map_err(of_read)?.items)
    }

    /// The etcd on the control plane Nodes.
    #[cfg(feature = "etcd")]
    async fn stacked_etcd(&self, cluster: &ObjectKey) -> Result<StackedEtcd, WorkloadError> {
        let workload = self.live(cluster)?.writer.client().clone();
        let nodes = self.nodes(cluster).await?;
        let nodes =
            nodes.iter().map(|node| super::NodeIdentity::of(node)).filter(|node| node.is_control_plane);
        let nodes = nodes.map(|node| node.name).collect();
        match access(self.0.management.client(), cluster, self.0.clock.now()).await {
            Ok(Access::Stacked(tls)) => Ok(StackedEtcd { workload, tls, nodes }),
            // Members elsewhere need not run on Nodes, so there is no pod to forward to.
            Ok(Access::External(_)) => Err(WorkloadError::Unsupported("external etcd")),
            Err(words) => Err(WorkloadError::Unreachable(words)),
        }
    }

    #[cfg(not(feature = "etcd"))]
    async fn stacked_etcd(&self, _: &ObjectKey) -> Result<StackedEtcd, WorkloadError> {
        Ok(StackedEtcd)
    }

    /// The same, to change it: only a process that leads may.
    async fn stacked_etcd_to_change(&self, cluster: &ObjectKey) -> Result<StackedEtcd, WorkloadError> {
        if self.live(cluster)?.writer.permitted() {
            self.stacked_etcd(cluster).await
        } else {
            Err(WorkloadError::Refused("this process does not lead".to_owned()))
        }
    }

    async fn addon(&self, cluster: &ObjectKey, addon: Addon) -> Result<Option<AddonObject>, WorkloadError> {
        let live = self.live(cluster)?;
        let client = live.writer.client();
        Ok(match addon {
            Addon::KubeProxy => {
                get(client, &system_key("kube-proxy")).await.map_err(of_read)?.map(AddonObject::Set)
            }
            Addon::CoreDns => {
                get(client, &system_key("coredns")).await.map_err(of_read)?.map(AddonObject::Deployment)
            }
        })
    }
}

impl Inner {
    fn open(&self, cluster: &ObjectKey) {
        let mut slots = self.slots.lock();
        // Every change of the Cluster comes here, not only the first one.
        if slots.contains_key(cluster) {
            return;
        }
        let slot = Arc::new(Mutex::new(Slot::default()));
        let prober = Prober {
            cluster: cluster.clone(),
            management: self.management.clone(),
            slot: Arc::clone(&slot),
            changes: self.changes.clone(),
            clock: self.clock.clone(),
            rng: self.rng.stream(&cluster.to_string()),
            dial: Arc::clone(&self.dial),
            judged_after: self.judged_after,
        };
        let prober = tokio::spawn(prober.run()).abort_handle();
        slots.insert(cluster.clone(), Kept { slot, prober });
    }

    fn close(&self, cluster: &ObjectKey) {
        if let Some(kept) = self.slots.lock().remove(cluster) {
            kept.prober.abort();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for kept in self.slots.get_mut().values() {
            // A task goes on when its handle is dropped.
            kept.prober.abort();
        }
    }
}

fn is_provisioned(cluster: &Cluster) -> bool {
    let initialization = cluster.status.as_ref().and_then(|s| s.initialization.as_ref());
    initialization.and_then(|i| i.infrastructure_provisioned) == Some(true)
}

fn system_key(name: &str) -> ObjectKey {
    ObjectKey::new(KUBE_SYSTEM, name)
}

/// The object behind an add-on.
enum AddonObject {
    Set(DaemonSet),
    Deployment(Deployment),
}

impl AddonObject {
    fn pod(&mut self) -> Option<&mut PodSpec> {
        match self {
            Self::Set(set) => set.spec.as_mut()?.template.spec.as_mut(),
            Self::Deployment(deployment) => deployment.spec.as_mut()?.template.spec.as_mut(),
        }
    }

    /// The image of the container that carries the add-on's name, else of the first one.
    fn image(&mut self, addon: Addon) -> Option<&mut Option<String>> {
        let name = match addon {
            Addon::KubeProxy => "kube-proxy",
            Addon::CoreDns => "coredns",
        };
        let containers = &mut self.pod()?.containers;
        let at = containers.iter().position(|c| c.name == name).unwrap_or(0);
        containers.get_mut(at).map(|container| &mut container.image)
    }
}

/// An API answer is a refusal, everything else is silence.
#[allow(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
fn of_read(error: kube::Error) -> WorkloadError {
    match &error {
        // 429 and 5xx come from a server in trouble: they refuse nothing for good.
        kube::Error::Api(status) if status.code < 500 && status.code != 429 => {
            WorkloadError::Refused(status.message.clone())
        }
        _ => WorkloadError::Unreachable(errors::chain(&error)),
    }
}

fn of_write(error: WriteError) -> WorkloadError {
    match error {
        WriteError::Refused { source, what, .. } if matches!(&source, kube::Error::Api(s) if s.is_not_found()) => {
            WorkloadError::NotFound(what)
        }
        WriteError::Refused { source, .. } => of_read(source),
        other => WorkloadError::Refused(other.to_string()),
    }
}

/// 404: gone. 429: a disruption budget, with the causes it gives. 403 in a namespace that is being
/// deleted: a sentence that is the same for all its pods. Every other answer: refused.
/// Source: cluster-api `drain.go` (`EvictPods`), v1.14.2.
fn of_eviction(error: kube::Error) -> Result<Eviction, WorkloadError> {
    const TERMINATING: &str = "Cannot evict pod from terminating namespace: unable to create eviction \
                               (kube-controller-manager should set deletionTimestamp)";
    let kube::Error::Api(status) = error else { return Err(of_read(error)) };
    let causes = status.details.as_ref().map(|details| &details.causes);
    Ok(match status.code {
        _ if status.is_not_found() => Eviction::Gone,
        429 => Eviction::Refused(match causes {
            Some(causes) => {
                let causes: Vec<&str> = causes.iter().map(|cause| cause.message.as_str()).collect();
                format!("{} {}", status.message, causes.join(","))
            }
            None => status.message,
        }),
        403 if causes.into_iter().flatten().any(|cause| cause.reason == "NamespaceTerminating") => {
            Eviction::Refused(TERMINATING.to_owned())
        }
        _ => Eviction::Refused(status.message),
    })
}

#[async_trait]
impl Workload for KubeWorkloads {
    fn connection(&self, cluster: &ObjectKey) -> Connection {
        self.0.slots.lock().get(cluster).map(|kept| kept.slot.lock().connection.clone()).unwrap_or_default()
    }

    fn changes(&self) -> broadcast::Receiver<Announcement> {
        self.0.changes.subscribe()
    }

    async fn nodes(&self, cluster: &ObjectKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        let nodes = self.followed(cluster).await?.nodes;
        if nodes.cache.is_current() { Ok(nodes.cache.list()) } else { self.nodes_now(cluster).await }
    }

    async fn nodes_now(&self, cluster: &ObjectKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        Ok(self.all(cluster).await?.into_iter().map(Arc::new).collect())
    }

    async fn node(&self, cluster: &ObjectKey, name: &str) -> Result<Option<Arc<Node>>, WorkloadError> {
        let live = self.followed(cluster).await?;
        let key = ObjectKey::new("", name);
        let known = live.nodes.cache.get(&key).filter(|_| live.nodes.cache.is_current());
        if known.is_some() {
            return Ok(known);
        }
        Ok(get(live.writer.client(), &key).await.map_err(of_read)?.map(Arc::new))
    }

    /// What is known stays known while the copy is not current; what it lacks is looked for then, and an API that does
    /// not answer leaves that open.
    async fn nodes_with(
        &self,
        cluster: &ObjectKey,
        provider_id: &str,
    ) -> Result<Vec<Arc<Node>>, WorkloadError> {
        let nodes = self.followed(cluster).await?.nodes;
        // A Node that is known keeps its ID for good, so an old copy is right about it.
        let known = nodes.with_provider_id(provider_id);
        if nodes.cache.is_current() || !known.is_empty() {
            return Ok(known);
        }
        let mut all = self.nodes_now(cluster).await.map_err(|error| match error {
            WorkloadError::Unreachable(why) => {
                tracing::debug!(%cluster, "Nodes are not known: {why}");
                WorkloadError::NotConnected
            }
            other => other,
        })?;
        all.retain(|node| self::provider_id(node) == Some(provider_id));
        Ok(all)
    }

    async fn patch_node(
        &self,
        cluster: &ObjectKey,
        name: &str,
        patch: &Value,
    ) -> Result<Node, WorkloadError> {
        let live = self.live(cluster)?;
        let key = ObjectKey::new("", name);
        let node: Node =
            live.writer.patch_part(&key, Part::Main, patch, Mode::Real).await.map_err(of_write)?;
        // The next read must not miss our own write.
        live.nodes.cache.upsert(node.clone());
        Ok(node)
    }

    async fn delete_node(&self, cluster: &ObjectKey, name: &str) -> Result<(), WorkloadError> {
        let (live, key) = (self.live(cluster)?, ObjectKey::new("", name));
        let none = Precondition::default();
        live.writer.delete::<Node>(&key, &none, Mode::Real).await.map_err(of_write)
    }

    async fn pods(&self, cluster: &ObjectKey, scope: &PodScope) -> Result<Vec<Pod>, WorkloadError> {
        let client = self.live(cluster)?.writer.client().clone();
        let (api, params): (Api<Pod>, _) = match scope {
            PodScope::KubeSystem => (Api::namespaced(client, KUBE_SYSTEM), ListParams::default()),
            PodScope::OnNode(node) => {
                (Api::all(client), ListParams::default().fields(&format!("spec.nodeName={node}")))
            }
        };
        Ok(api.list(&params).await.map_err(of_read)?.items)
    }

    async fn namespaces(&self, cluster: &ObjectKey) -> Result<Vec<Namespace>, WorkloadError> {
        self.all(cluster).await
    }

    async fn daemon_sets(&self, cluster: &ObjectKey) -> Result<Vec<DaemonSet>, WorkloadError> {
        self.all(cluster).await
    }

    async fn volume_attachments(&self, cluster: &ObjectKey) -> Result<Vec<VolumeAttachment>, WorkloadError> {
        self.all(cluster).await
    }

    async fn persistent_volumes(&self, cluster: &ObjectKey) -> Result<Vec<PersistentVolume>, WorkloadError> {
        self.all(cluster).await
    }

    async fn evict(
        &self,
        cluster: &ObjectKey,
        pod: &ObjectKey,
        grace_period_s: Option<u32>,
    ) -> Result<Eviction, WorkloadError> {
        let live = self.live(cluster)?;
        // The request below does not pass through the writer, which checks this otherwise.
        if !live.writer.permitted() {
            return Err(WorkloadError::Refused("this process does not lead".to_owned()));
        }
        let api: Api<Pod> = Api::namespaced(live.writer.client().clone(), &pod.namespace);
        // Not `Api::evict`: it misspells the options, so that the server does not see them.
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "namespace": pod.namespace, "name": pod.name },
            "deleteOptions": { "gracePeriodSeconds": grace_period_s },
        });
        let params = PostParams::default();
        match api.create_subresource::<_, Value>("eviction", &pod.name, &params, &eviction).await {
            Ok(_) => Ok(Eviction::Started),
            Err(error) => of_eviction(error),
        }
    }

    async fn bootstrap_token(
        &self,
        cluster: &ObjectKey,
        id: &str,
    ) -> Result<Option<Timestamp>, WorkloadError> {
        let live = self.live(cluster)?;
        let secret: Option<Secret> = get(live.writer.client(), &token::key(id)).await.map_err(of_read)?;
        Ok(secret.as_ref().map(token::expiration))
    }

    async fn store_bootstrap_token(
        &self,
        cluster: &ObjectKey,
        token: &str,
        expires: Timestamp,
    ) -> Result<(), WorkloadError> {
        let live = self.live(cluster)?;
        let wanted = token::secret(token, expires);
        let key = ObjectKey::of(&wanted);
        match get::<Secret>(live.writer.client(), &key).await.map_err(of_read)? {
            Some(before) => {
                // Only the data: labels and annotations of others stay.
                let after = Secret { data: wanted.data, ..before.clone() };
                write(&live.writer, &before, &after).await
            }
            None => live.writer.create(&wanted, Mode::Real).await.map(drop).map_err(of_write),
        }
    }

    async fn etcd(&self, cluster: &ObjectKey) -> Result<EtcdView, WorkloadError> {
        self.stacked_etcd(cluster).await?.view().await
    }

    async fn remove_member(&self, cluster: &ObjectKey, member: u64) -> Result<(), WorkloadError> {
        self.stacked_etcd_to_change(cluster).await?.remove(member).await
    }

    async fn move_leader(&self, cluster: &ObjectKey, to: u64) -> Result<(), WorkloadError> {
        self.stacked_etcd_to_change(cluster).await?.move_leader(to).await
    }

    async fn kubeadm_config(&self, cluster: &ObjectKey) -> Result<Option<ConfigMap>, WorkloadError> {
        let live = self.live(cluster)?;
        get(live.writer.client(), &system_key("kubeadm-config")).await.map_err(of_read)
    }

    async fn patch_kubeadm_config(&self, cluster: &ObjectKey, patch: &Value) -> Result<(), WorkloadError> {
        let live = self.live(cluster)?;
        let key = system_key("kubeadm-config");
        live.writer.patch_part::<ConfigMap>(&key, Part::Main, patch, Mode::Real).await.map_err(of_write)?;
        Ok(())
    }

    async fn addon_image(&self, cluster: &ObjectKey, addon: Addon) -> Result<Option<String>, WorkloadError> {
        let object = self.addon(cluster, addon).await?;
        Ok(object.and_then(|mut o| o.image(addon).and_then(|image| image.clone())))
    }

    async fn set_addon_image(
        &self,
        cluster: &ObjectKey,
        addon: Addon,
        image: &str,
    ) -> Result<(), WorkloadError> {
        let live = self.live(cluster)?;
        let missing = || WorkloadError::NotFound(format!("{addon:?}"));
        let before = self.addon(cluster, addon).await?.ok_or_else(missing)?;
        match before {
            AddonObject::Set(before) => {
                let mut after = AddonObject::Set(before.clone());
                *after.image(addon).ok_or_else(missing)? = Some(image.to_owned());
                let AddonObject::Set(after) = after else { return Ok(()) };
                write(&live.writer, &before, &after).await
            }
            AddonObject::Deployment(before) => {
                let mut after = AddonObject::Deployment(before.clone());
                *after.image(addon).ok_or_else(missing)? = Some(image.to_owned());
                let AddonObject::Deployment(after) = after else { return Ok(()) };
                write(&live.writer, &before, &after).await
            }
        }
    }

    async fn api_server_expiry(
        &self,
        cluster: &ObjectKey,
        node: &str,
        port: u16,
    ) -> Result<Timestamp, WorkloadError> {
        let live = self.live(cluster)?;
        api_server::certificate_expiry(live.writer.client().clone(), node, port).await
    }

    async fn binds_cluster_role(&self, cluster: &ObjectKey, name: &str) -> Result<bool, WorkloadError> {
        let live = self.live(cluster)?;
        let found = get::<ClusterRoleBinding>(live.writer.client(), &ObjectKey::new("", name)).await;
        found.map(|binding| binding.is_some()).map_err(of_read)
    }

    async fn bind_cluster_role(
        &self,
        cluster: &ObjectKey,
        binding: &ClusterRoleBinding,
    ) -> Result<(), WorkloadError> {
        let live = self.live(cluster)?;
        match live.writer.create(binding, Mode::Real).await {
            Err(error) if !error.already_exists() => Err(of_write(error)),
            _ => Ok(()),
        }
    }
}

async fn write<K: crate::client::Object>(
    writer: &Writer,
    before: &K,
    after: &K,
) -> Result<(), WorkloadError> {
    // A merge patch replaces lists as a whole: containers that changed meanwhile would be lost.
    let unchanged = Precondition::unchanged(before);
    writer.patch(before, after, &unchanged, Mode::Real).await.map_err(of_write)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use kube::core::response::{Status, StatusCause, StatusDetails};

    use super::*;
    use crate::client::in_process;

    /// Reaches nothing.
    fn workloads() -> KubeWorkloads {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
        });
        let management = Writer::new(in_process(service, "management", "default", false).client, "test");
        KubeWorkloads::new(management, Clock::system(), Rng::seeded(1), false, JudgedAfter::default())
    }

    /// Whichever of the two is read first; and none is opened for a simulated cluster, nor after its DevCluster is gone.
    #[tokio::test]
    async fn only_clusters_that_are_not_simulated_are_connected_to() {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"infrastructureRef":
                {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "d"}},
            "status": {"initialization": {"infrastructureProvisioned": true}}}))
        .expect("a Cluster");
        for (backend, is_connected) in [("inMemory", false), ("docker", true)] {
            let dev: DevCluster = serde_json::from_value(
                json!({"metadata": {"name": "d", "namespace": "default"}, "spec": {"backend": {backend: {}}}}),
            )
            .expect("a DevCluster");
            for is_cluster_first in [true, false] {
                let (workloads, clusters, dev_clusters) = (workloads(), Cache::new(), Cache::new());
                workloads.attach_real(&clusters, &dev_clusters);
                let has_slot = || workloads.0.slots.lock().contains_key(&ObjectKey::of(&cluster));
                if is_cluster_first {
                    clusters.upsert(cluster.clone());
                    assert!(!has_slot());
                }
                dev_clusters.upsert(dev.clone());
                clusters.upsert(cluster.clone());
                assert_eq!(has_slot(), is_connected, "{backend} {is_cluster_first}");
                dev_clusters.remove(&ObjectKey::of(&dev));
                let mut changed = cluster.clone();
                changed.metadata.resource_version = Some("9".to_owned());
                clusters.upsert(changed);
                assert_eq!(has_slot(), is_connected, "{backend} {is_cluster_first}");
            }
        }
    }

    fn eviction(code: u16, reason: &str, message: &str, causes: Option<&[(&str, &str)]>) -> Eviction {
        let cause = |(reason, message): &(&str, &str)| StatusCause {
            reason: (*reason).to_owned(),
            message: (*message).to_owned(),
            field: String::new(),
        };
        let details = causes.map(|causes| StatusDetails {
            causes: causes.iter().map(cause).collect(),
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            retry_after_seconds: 0,
        });
        let mut status = Status::failure(message, reason).with_code(code);
        status.details = details;
        of_eviction(kube::Error::Api(Box::new(status))).expect("an answer")
    }

    #[test]
    fn evictions_end_in_the_servers_words() {
        let refused = |words: &str| Eviction::Refused(words.to_owned());
        const BUDGET: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
        assert_eq!(eviction(404, "NotFound", "pods \"a\" not found", None), Eviction::Gone);
        assert_eq!(eviction(429, "TooManyRequests", BUDGET, None), refused(BUDGET));
        let causes: &[(&str, &str)] =
            &[("DisruptionBudget", "web needs 1"), ("DisruptionBudget", "db needs 2")];
        assert_eq!(
            eviction(429, "TooManyRequests", BUDGET, Some(causes)),
            refused(&format!("{BUDGET} web needs 1,db needs 2"))
        );
        assert_eq!(eviction(429, "TooManyRequests", BUDGET, Some(&[])), refused(&format!("{BUDGET} ")));
        assert_eq!(
            eviction(403, "Forbidden", "no", Some(&[("NamespaceTerminating", "")])),
            refused(
                "Cannot evict pod from terminating namespace: unable to create eviction \
                 (kube-controller-manager should set deletionTimestamp)"
            )
        );
        assert_eq!(eviction(403, "Forbidden", "no", None), refused("no"));
        assert_eq!(eviction(500, "InternalError", "two budgets", None), refused("two budgets"));
        let silent = of_eviction(kube::Error::LinesCodecMaxLineLengthExceeded);
        assert!(matches!(silent, Err(WorkloadError::Unreachable(_))), "{silent:?}");
    }
}
