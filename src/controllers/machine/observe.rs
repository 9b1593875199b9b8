//! What a Machine is judged by, gathered from the caches and the workload cluster. Must not judge it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node};

use super::Machines;
use crate::api::cluster::Cluster;
use crate::api::key::{ObjectKey, controller_of, label as label_of};
use crate::api::machine::Machine;
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_drain_rule::MachineDrainRule;
use crate::api::machine_set::MachineSet;
use crate::api::names::label;
use crate::status::drain::Tenants;
use crate::status::drain::volumes::{Storage, attached};
use crate::status::machine::deletion::{borrowed_id, leaving_node};
use crate::status::machine::{
    NodeReading, Observed, Probe, StorageReading, TenantsReading, control_plane_initialized_since,
};
use crate::status::machines::is_control_plane;
use crate::workload::{Connection, PodScope, WorkloadError};

impl Machines {
    /// Everything but what a deletion asks for on its way.
    pub(super) async fn observe(&self, machine: &Machine, cluster: &Arc<Cluster>) -> Observed {
        let caches = &self.context.caches;
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        let cluster_key = ObjectKey::of(cluster.as_ref());
        let mut observed = Observed {
            machine: machine.clone(),
            cluster: Arc::clone(cluster),
            bootstrap: caches.external(namespace, machine.spec.bootstrap.config_ref.as_ref()),
            infrastructure: caches.external(namespace, Some(&machine.spec.infrastructure_ref)),
            probe: probe(&self.context.workload.connection(&cluster_key)),
            deployment: self.deployment_of(machine, namespace),
            ..Observed::default()
        };
        if observed.is_deleting() {
            // Nobody else asks, and reading both costs more the larger the cluster is.
            observed.control_plane = caches.external(namespace, cluster.spec.control_plane_ref.as_ref());
            observed.control_plane_machines_left = self.control_plane_machines_left(&cluster_key);
        }
        observed.node = self.node(&observed, &cluster_key).await;
        observed.named_node = self.named_node(&observed, &cluster_key).await;
        observed
    }

    fn control_plane_machines_left(&self, cluster: &ObjectKey) -> usize {
        let machines = self.context.caches.machines_of(cluster);
        machines.iter().filter(|m| is_control_plane(m) && m.metadata.deletion_timestamp.is_none()).count()
    }

    fn deployment_of(
        &self,
        machine: &Machine,
        namespace: &str,
    ) -> Option<(Arc<MachineSet>, Arc<MachineDeployment>)> {
        let caches = &self.context.caches;
        let owner = controller_of(machine).filter(|owner| owner.kind == "MachineSet")?;
        let set = caches.machine_sets.get(&ObjectKey::new(namespace, &owner.name))?;
        let deployment = label_of(set.as_ref(), label::DEPLOYMENT_NAME)?;
        let deployment = caches.machine_deployments.get(&ObjectKey::new(namespace, deployment))?;
        Some((set, deployment))
    }

    /// The Node with the Machine's provider ID.
    async fn node(&self, observed: &Observed, cluster: &ObjectKey) -> NodeReading {
        let id = observed.machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
        if let Some(id) = id {
            return self.node_with(id, cluster).await;
        }
        // Upstream starts to watch Nodes before it looks for an ID.
        let watched = control_plane_initialized_since(&observed.cluster).is_some();
        match self.context.workload.connection(cluster).connected {
            false if watched => NodeReading::NotConnected,
            _ => NodeReading::NotAsked,
        }
    }

    async fn node_with(&self, id: &str, cluster: &ObjectKey) -> NodeReading {
        let mut nodes = match self.context.workload.nodes_with(cluster, id).await {
            Ok(nodes) => nodes,
            Err(error) => return unread(&error),
        };
        match (nodes.pop(), nodes.len()) {
            (None, _) => NodeReading::NotFound,
            (Some(node), 0) => reading(node),
            (Some(_), more) => NodeReading::Failed(format!("{} Nodes have provider ID {id}", more + 1)),
        }
    }

    /// The Node that a deletion needs, where that is another than `node`.
    async fn named_node(&self, observed: &Observed, cluster: &ObjectKey) -> NodeReading {
        if let Some(id) = borrowed_id(observed) {
            // The Machine goes also when its Node cannot be found.
            let found = self.node_with(id, cluster).await;
            return if found.found().is_some() { found } else { NodeReading::NotAsked };
        }
        let found = observed.node.found().and_then(|node| node.metadata.name.as_deref());
        let name = observed.node_name().filter(|name| observed.is_deleting() && found != Some(*name));
        let Some(name) = name else { return NodeReading::NotAsked };
        match self.context.workload.node(cluster, name).await {
            Ok(Some(node)) => reading(node),
            Ok(None) => NodeReading::NotFound,
            Err(error) => unread(&error),
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

fn reading(node: Arc<Node>) -> NodeReading {
    NodeReading::Found(Box::new(Arc::unwrap_or_clone(node)))
}

fn unread(error: &WorkloadError) -> NodeReading {
    match error {
        WorkloadError::NotConnected => NodeReading::NotConnected,
        error => NodeReading::Failed(error.to_string()),
    }
}

/// How a connection is, in the words of `status`.
#[must_use]
pub fn probe(connection: &Connection) -> Probe {
    Probe {
        last_success: connection.last_probe_success,
        not_established_yet: connection.not_established_yet(),
        failing: connection.consecutive_failures > 0,
    }
}
