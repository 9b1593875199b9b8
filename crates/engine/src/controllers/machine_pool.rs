//! The MachinePool controller: asks for Nodes and for the machines that the infrastructure shows. Must not decide anything
//! itself.
//! Source: cluster-api `core/reconcilers/machinepool`, v1.14.2.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;

use super::apply::Applied;
use super::by_cluster::ByCluster;
use super::external::{Reader, owners, referring};
use super::reconcile::{Ended, Reconcile};
use super::{Context, cluster_key_of, cluster_turned, keys_of, status};
use crate::client::{Cache, Index, Live};
use crate::engine::{Outcome, ReconcileError, Trigger};
use crate::workload::{Announcement, WorkloadError};
use capi_rules::observe;
use capi_rules::plan::naming::label_value;
use capi_rules::plan::{Plan, machine_pool as planned};
use capi_rules::status::contract::Provided;
use capi_rules::status::machine_pool::{self as judged, Observed};
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, ObjectRef, cluster_label, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_pool::MachinePool;
use capi_types::names::{CORE_GROUP, finalizer, label};
use capi_types::reference::ContractRef;
use capstan_base::time::Timestamp;

pub(super) struct MachinePools {
    pub context: Context,
}

#[async_trait]
impl Reconcile for MachinePools {
    type Object = MachinePool;
    type Observed = Observed;
    type Judged = Observed;

    const NAME: &'static str = "machine-pool";
    const FINALIZER: Option<&'static str> = Some(finalizer::MACHINE_POOL);
    const CONCURRENCY: usize = 50;

    fn context(&self) -> &Context {
        &self.context
    }

    fn objects(&self) -> &Cache<MachinePool> {
        &self.context.caches.machine_pools
    }

    fn triggers(&self) -> Vec<Trigger> {
        triggers(&self.context)
    }

    fn cluster(&self, object: &Arc<MachinePool>) -> Result<Result<Arc<Cluster>, Outcome>, ReconcileError> {
        let key = ObjectKey::of(object.as_ref());
        let named = ObjectKey::new(&key.namespace, &object.spec.cluster_name);
        let missing = || ReconcileError::failed(format!("MachinePool {key}: there is no Cluster {named}"));
        self.context.caches.clusters.get(&named).ok_or_else(missing).map(Ok)
    }

    async fn observe(
        &self,
        object: &Arc<MachinePool>,
        cluster: &Arc<Cluster>,
    ) -> Result<Option<Observed>, ReconcileError> {
        let caches = &self.context.caches;
        caches.externals.prepare(Reader::MachinePool, references(object)).await;
        let mut observed = observe::machine_pool(caches, object, cluster);
        observed.hosts = self.hosts(&observed).await;
        observed.nodes = match self.nodes(object, &ObjectKey::of(cluster.as_ref())).await {
            Ok(nodes) => Some(nodes.into_iter().map(Arc::unwrap_or_clone).collect()),
            Err(WorkloadError::NotConnected) => None,
            Err(error) => return Err(ReconcileError::failed(format!("Nodes cannot be read: {error}"))),
        };
        Ok(Some(observed))
    }

    fn plan(&self, observed: Observed, now: Timestamp) -> (Observed, Plan) {
        let plan = planned::plan(&observed, now);
        (observed, plan)
    }

    async fn report(
        &self,
        object: &Arc<MachinePool>,
        mut observed: Observed,
        applied: Applied,
    ) -> Result<Ended, ReconcileError> {
        let mut status = judged::status(&observed, self.context.clock.now());
        if let Some(latest) = applied.latest(&ObjectRef::of(object.as_ref())) {
            observed.pool = latest;
        }
        if applied.failure.is_none() && judged::is_complete(&observed) {
            status.observed_generation = observed.pool.metadata.generation;
        }
        let before = observed.pool;
        let after = MachinePool { status: Some(status), ..before.clone() };
        status::write(&self.context, &before, &after, &judged::OWNED).await?;
        Ok(Ended::of(applied))
    }
}

impl MachinePools {
    /// One that was met before is missing only by the word of the API itself.
    async fn nodes(&self, pool: &MachinePool, cluster: &ObjectKey) -> Result<Vec<Arc<Node>>, WorkloadError> {
        let nodes = self.context.workload.nodes(cluster).await?;
        let known: BTreeSet<_> = nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
        let met = pool.status.iter().flat_map(|status| &status.node_refs);
        if met.filter_map(|reference| reference.name.as_deref()).all(|name| known.contains(name)) {
            return Ok(nodes);
        }
        self.context.workload.nodes_now(cluster).await
    }

    /// The machines that the infrastructure shows, if it names their kind.
    async fn hosts(&self, observed: &Observed) -> Vec<Provided> {
        let Some(infrastructure) = observed.infrastructure.found() else { return Vec::new() };
        let Some(kind) = infrastructure.text(&["status", "infrastructureMachineKind"]) else {
            return Vec::new();
        };
        let reference = &observed.pool.spec.template.spec.infrastructure_ref;
        let of_kind = ContractRef {
            api_group: reference.api_group.clone(),
            kind: kind.to_owned(),
            name: String::new(),
        };
        let (key, cluster) = (ObjectKey::of(&observed.pool), &observed.pool.spec.cluster_name);
        // A name that is too long for a label stands there as its hash.
        let pool = label_value(&key.name);
        let externals = &self.context.caches.externals;
        externals.prepare(Reader::MachinePoolHosts, [Some(&of_kind)]).await;
        externals.select(Reader::MachinePoolHosts, &of_kind, &key.namespace, |host| {
            label_of(host, label::POOL_NAME) == Some(pool.as_str()) && cluster_label(host) == Some(cluster)
        })
    }
}

/// Bootstrap and infrastructure.
fn references(pool: &MachinePool) -> [Option<&ContractRef>; 2] {
    let spec = &pool.spec.template.spec;
    [Some(&spec.infrastructure_ref), spec.bootstrap.config_ref.as_ref()]
}

/// The pool itself, what it refers to, the machines that its infrastructure shows, its Machines, its Cluster and its Nodes.
fn triggers(context: &Context) -> Vec<Trigger> {
    let caches = &context.caches;
    let all = caches.machine_pools.clone();
    let by_cluster = ByCluster::new(&all, |pool: &MachinePool| Some(&pool.spec.cluster_name));
    let [on_cluster, on_host, on_machine, on_news] = std::array::from_fn(|_| by_cluster.clone());
    let (referrers, by_node) = (all.clone(), Index::new(&all, nodes_of));
    vec![
        Trigger::own(&caches.machine_pools),
        caches.externals.trigger(Reader::MachinePool, move |turned| match turned.object() {
            Some(_) => owners(turned, CORE_GROUP, "MachinePool"),
            None => referring(&referrers, turned, references),
        }),
        caches.externals.trigger(Reader::MachinePoolHosts, move |turned| {
            turned.objects().flat_map(|host| of_label(&on_host, host)).collect()
        }),
        Trigger::on(&caches.machines, move |old: Option<&Machine>, new| {
            [old, new].into_iter().flatten().flat_map(|machine| of_label(&on_machine, machine)).collect()
        }),
        Trigger::on(&caches.clusters, move |old, new| {
            let Some(key) = cluster_turned(old, new) else { return Vec::new() };
            on_cluster.keys(&key)
        }),
        Trigger::announced(context.workload.changes(), Announcement::Missed, move |announcement| {
            match announcement {
                Announcement::Cluster(cluster) => on_news.keys(cluster),
                Announcement::Node { cluster, node } => {
                    let terms = node_terms(Some(&node.name), node.provider_id.as_ref());
                    let mut pools: Vec<_> = terms.iter().flat_map(|term| by_node.get(term)).collect();
                    // Names of Nodes repeat from cluster to cluster.
                    pools.retain(|pool| {
                        pool.spec.cluster_name == cluster.name
                            && pool.metadata.namespace.as_ref() == Some(&cluster.namespace)
                    });
                    keys_of(&pools)
                }
                Announcement::Missed => keys_of(&all.list()),
            }
        }),
    ]
}

/// Its Nodes by name, and by provider ID.
fn nodes_of(pool: &MachinePool) -> Vec<String> {
    let refs = pool.status.iter().flat_map(|status| &status.node_refs);
    let names = refs.flat_map(|reference| node_terms(reference.name.as_ref(), None));
    names.chain(pool.spec.provider_id_list.iter().flat_map(|id| node_terms(None, Some(id)))).collect()
}

fn node_terms(name: Option<&String>, provider_id: Option<&String>) -> Vec<String> {
    let (name, id) = (name.map(|name| format!("node {name}")), provider_id.map(|id| format!("id {id}")));
    name.into_iter().chain(id).collect()
}

/// The pool that an object's label names.
fn of_label<K: Live>(pools: &ByCluster<MachinePool>, object: &K) -> Vec<ObjectKey> {
    let Some(wanted) = label_of(object, label::POOL_NAME) else { return Vec::new() };
    let mut found = cluster_key_of(object).map(|cluster| pools.get(&cluster)).unwrap_or_default();
    found.retain(|pool| pool.metadata.name.as_deref().is_some_and(|name| label_value(name) == wanted));
    keys_of(&found)
}
