//! What a Machine is judged by and that has to be waited for: its Node, what runs on it, what is attached. Must
//! not judge it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node};

use super::Machines;
use crate::controllers::external::Reader;
use crate::controllers::in_place;
use crate::workload::nodes::provider_id;
use crate::workload::{Connection, PodScope, WorkloadError};
use capi_rules::observe::{self, NamedNode};
use capi_rules::status::drain::Tenants;
use capi_rules::status::drain::volumes::{Storage, attached};
use capi_rules::status::machine::deletion::leaving_node;
use capi_rules::status::machine::{
    NodeReading, Observed, Probe, StorageReading, TenantsReading, control_plane_initialized_since,
};
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine::Machine;
use capi_types::machine_drain_rule::MachineDrainRule;

impl Machines {
    /// Everything but what a deletion asks for on its way.
    pub(super) async fn gather(&self, machine: &Machine, cluster: &Arc<Cluster>) -> Observed {
        let context = &self.context;
        let cluster_key = ObjectKey::of(cluster.as_ref());
        let control_plane = cluster.spec.control_plane_ref.as_ref();
        let references = super::references(machine).into_iter().chain([control_plane]);
        context.caches.externals.prepare(Reader::Machine, references).await;
        let probe = probe(&context.workload.connection(&cluster_key));
        let mut observed = observe::machine(&context.caches, machine, cluster, probe);
        observed.graces = context.graces;
        observed.synced_keys = Arc::clone(&context.synced_keys);
        // Of the Machine alone: copying all Nodes in each run made the cost grow with their square.
        observed.node = self.node(&observed, &cluster_key).await;
        observed.named_node = self.named_node(&observed, &cluster_key).await;
        in_place::go_on(context, &mut observed).await;
        observed
    }

    /// The Node with the Machine's provider ID.
    async fn node(&self, observed: &Observed, cluster: &ObjectKey) -> NodeReading {
        let id = observed.machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
        if let Some(id) = id {
            let recorded = observed.machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
            return match (self.node_with(id, cluster).await, recorded) {
                (NodeReading::NotFound, Some(recorded)) => self.missed(id, &recorded.name, cluster).await,
                (reading, _) => reading,
            };
        }
        // Upstream starts to watch Nodes before it looks for an ID.
        let watched = control_plane_initialized_since(&observed.cluster).is_some();
        match self.context.workload.connection(cluster).connected {
            false if watched => NodeReading::NotConnected,
            _ => NodeReading::NotAsked,
        }
    }

    async fn node_with(&self, id: &str, cluster: &ObjectKey) -> NodeReading {
        match self.context.workload.nodes_with(cluster, id).await {
            Ok(nodes) => observe::node_with(id, nodes),
            Err(error) => unread(&error),
        }
    }

    /// A Node that was met before and is missing now counts as deleted only by the word of the API itself.
    async fn missed(&self, id: &str, name: &str, cluster: &ObjectKey) -> NodeReading {
        match self.context.workload.node(cluster, name).await {
            Ok(Some(node)) if provider_id(&node) == Some(id) => NodeReading::Found(node),
            Ok(_) => NodeReading::NotFound,
            // An API that does not answer proves no deletion.
            Err(WorkloadError::Unreachable(why)) => {
                tracing::debug!(%cluster, "whether Node {name} exists is not known: {why}");
                NodeReading::NotConnected
            }
            Err(error) => unread(&error),
        }
    }

    /// The Node that a deletion needs, where that is another than `node`.
    async fn named_node(&self, observed: &Observed, cluster: &ObjectKey) -> NodeReading {
        match observe::named_node(observed) {
            NamedNode::Same => NodeReading::NotAsked,
            NamedNode::Borrowed { provider_id } => self.borrowed(&provider_id, cluster).await,
            NamedNode::Recorded { name } => match self.context.workload.node(cluster, &name).await {
                Ok(Some(node)) => NodeReading::Found(node),
                Ok(None) => NodeReading::NotFound,
                Err(error) => unread(&error),
            },
        }
    }

    /// Without it the Machine goes undrained: what is known may be behind.
    async fn borrowed(&self, id: &str, cluster: &ObjectKey) -> NodeReading {
        if let found @ NodeReading::Found(_) = self.node_with(id, cluster).await {
            return found;
        }
        let mut nodes = self.context.workload.nodes_now(cluster).await.unwrap_or_default();
        nodes.retain(|node| provider_id(node) == Some(id));
        match observe::node_with(id, nodes) {
            found @ NodeReading::Found(_) => found,
            _ => NodeReading::NotAsked,
        }
    }

    /// What runs on the Machine's Node. What only pods make interesting is read only with pods.
    pub(super) async fn tenants(&self, observed: &Observed) -> TenantsReading {
        let cluster = ObjectKey::of(observed.cluster.as_ref());
        let workload = &self.context.workload;
        let node = observed.node_name().unwrap_or_default().to_owned();
        let pods = match workload.pods(&cluster, &PodScope::OnNode(node)).await {
            Ok(pods) => pods,
            Err(error) => return TenantsReading::Failed(error.to_string()),
        };
        let (mut namespaces, mut daemon_sets) = (Ok(BTreeMap::new()), BTreeSet::new());
        if !pods.is_empty() {
            namespaces = self.namespaces(&cluster).await;
        }
        if pods.iter().filter_map(controller_of).any(|owner| owner.kind == "DaemonSet") {
            daemon_sets = self.daemon_sets(&cluster).await;
        }
        let rules = self.drain_rules(&cluster.namespace);
        TenantsReading::Known(Box::new(Tenants { pods, rules, namespaces, daemon_sets }))
    }

    /// Labels by name.
    async fn namespaces(
        &self,
        cluster: &ObjectKey,
    ) -> Result<BTreeMap<String, BTreeMap<String, String>>, String> {
        let labels = |o: &Namespace| o.metadata.labels.clone().unwrap_or_default();
        let listed = self.context.workload.namespaces(cluster).await.map_err(|error| error.to_string())?;
        Ok(listed.iter().map(|o| (o.metadata.name.clone().unwrap_or_default(), labels(o))).collect())
    }

    async fn daemon_sets(&self, cluster: &ObjectKey) -> BTreeSet<ObjectKey> {
        match self.context.workload.daemon_sets(cluster).await {
            Ok(sets) => sets.iter().map(ObjectKey::of).collect(),
            Err(error) => {
                tracing::warn!(
                    "DaemonSets of Cluster {cluster} cannot be read, their pods are evicted: {error}"
                );
                BTreeSet::new()
            }
        }
    }

    fn drain_rules(&self, namespace: &str) -> Result<Vec<Arc<MachineDrainRule>>, String> {
        let rules = &self.context.caches.machine_drain_rules;
        match rules.unreadable().into_iter().find(|(key, _)| key.namespace == namespace) {
            // A rule that cannot be read may forbid to drain a pod: without it nothing is evicted.
            Some((key, error)) => Err(format!("MachineDrainRule {key}: {error}")),
            None => Ok(rules.in_namespace(namespace)),
        }
    }

    /// What is attached in the workload cluster; PersistentVolumes only when something is.
    pub(super) async fn storage(&self, observed: &Observed) -> StorageReading {
        let cluster = ObjectKey::of(observed.cluster.as_ref());
        let workload = &self.context.workload;
        let attachments = workload.volume_attachments(&cluster).await.map_err(|error| error.to_string());
        let mut storage = Storage { attachments, volumes: Ok(Vec::new()) };
        let holds = |node: &Node| attached(node, &storage).is_ok_and(|attached| !attached.is_empty());
        if leaving_node(observed).found().is_some_and(holds) {
            storage.volumes = workload.persistent_volumes(&cluster).await.map_err(|error| error.to_string());
        }
        StorageReading::Known(Box::new(storage))
    }
}

fn unread(error: &WorkloadError) -> NodeReading {
    match error {
        WorkloadError::NotConnected => NodeReading::NotConnected,
        error => NodeReading::Failed(error.to_string()),
    }
}

/// How a connection is, in the words of `status`.
pub fn probe(connection: &Connection) -> Probe {
    Probe {
        last_success: connection.last_probe_success,
        not_established_yet: connection.not_established_yet(),
        failing: connection.consecutive_failures > 0,
    }
}
