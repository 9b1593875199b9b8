//! The Cluster controller: asks how the connection to the workload cluster is, and reports milestones once they are
//! stored. Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/cluster`, v1.14.2.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;

use super::apply::{self, Applied};
use super::external::{Reader, Referrers};
use super::machine::probe;
use super::reconcile::{Ended, Reconcile};
use super::{Context, cluster_key_of, keys_of, kubeconfig, status};
use crate::client::errors::chain;
use crate::client::{Cache, Object, get};
use crate::engine::{Outcome, ReconcileError, Trigger};
use crate::workload::Announcement;
use capi_rules::observe;
use capi_rules::plan::{Plan, Shown, cluster as planned};
use capi_rules::status::cluster::{self as judged, Kubeconfig};
use capi_rules::status::control_plane::certificates::Purpose;
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::names::finalizer;
use capi_types::reference::ContractRef;
use capstan_base::time::Timestamp;

pub(super) struct Clusters {
    pub context: Context,
}

#[async_trait]
impl Reconcile for Clusters {
    type Object = Cluster;
    type Observed = judged::Observed;
    type Judged = judged::Observed;

    const NAME: &'static str = "cluster";
    const FINALIZER: Option<&'static str> = Some(finalizer::CLUSTER);
    const CONCURRENCY: usize = 50;

    fn context(&self) -> &Context {
        &self.context
    }

    fn objects(&self) -> &Cache<Cluster> {
        &self.context.caches.clusters
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let (referrers, all) = (Referrers::new(&caches.clusters, references), caches.clusters.clone());
        vec![
            Trigger::own(&caches.clusters),
            by_label(&caches.machine_deployments),
            by_label(&caches.machine_sets),
            by_label(&caches.machine_pools),
            by_label(&caches.machines),
            // Before an object is adopted it has neither owner nor label, so the references are searched.
            caches.externals.trigger(Reader::Cluster, move |turned| referrers.keys(turned)),
            Trigger::announced(self.context.workload.changes(), Announcement::Missed, move |announcement| {
                match announcement {
                    Announcement::Cluster(key) => vec![key.clone()],
                    // A Cluster is judged by its connection and by its Machines, not by Nodes.
                    Announcement::Node { .. } => Vec::new(),
                    Announcement::Missed => keys_of(&all.list()),
                }
            }),
        ]
    }

    fn cluster(&self, object: &Arc<Cluster>) -> Result<Result<Arc<Cluster>, Outcome>, ReconcileError> {
        Ok(Ok(object.clone()))
    }

    async fn observe(
        &self,
        object: &Arc<Cluster>,
        _: &Arc<Cluster>,
    ) -> Result<Option<Self::Observed>, ReconcileError> {
        let context = &self.context;
        context.caches.externals.prepare(Reader::Cluster, references(object)).await;
        let probe = probe(&context.workload.connection(&ObjectKey::of(object.as_ref())));
        let mut observed = observe::cluster(&context.caches, object, probe);
        observed.graces = context.graces;
        observed.lacks_topology_controller = true;
        if observed.makes_kubeconfig() {
            observed.kubeconfig = self.kubeconfig(&ObjectKey::of(object.as_ref())).await;
        }
        Ok(Some(observed))
    }

    fn plan(&self, observed: Self::Observed, _: Timestamp) -> (Self::Judged, Plan) {
        let plan = planned::plan(&observed);
        (observed, plan)
    }

    async fn report(
        &self,
        object: &Arc<Cluster>,
        mut observed: Self::Judged,
        applied: Applied,
    ) -> Result<Ended, ReconcileError> {
        let (context, about) = (&self.context, ObjectRef::of(object.as_ref()));
        let before = applied.latest(&about).unwrap_or_else(|| observed.cluster.clone());
        observed.cluster = before.clone();
        observed.failed = applied.shown() == Some(Shown::ClusterDeletion);
        let mut status = judged::status(&observed, context.clock.now());
        // A pass that failed has not carried out what the spec asks for.
        if applied.failure.is_none() && judged::is_complete(&observed) {
            status.observed_generation = before.metadata.generation;
        }
        let after = Cluster { status: Some(status), ..before.clone() };
        // Milestones follow a status that was stored: after
        // a refused one the next pass reports them.
        if status::write(context, &before, &after, &judged::OWNED).await? == status::Outcome::Written {
            apply::apply(context, &about, &planned::milestones(&before, &after)).await.into_result()?;
        }
        Ok(Ended::of(applied))
    }
}

impl Clusters {
    async fn kubeconfig(&self, cluster: &ObjectKey) -> Kubeconfig {
        let client = self.context.writer.client();
        let exists = async |name: String| {
            let found = get::<Secret>(client, &ObjectKey::new(&cluster.namespace, name)).await;
            found.map(|secret| secret.is_some()).map_err(|error| chain(&error))
        };
        match exists(kubeconfig::secret_name(&cluster.name)).await {
            Ok(true) => Kubeconfig::Found,
            // Without its own authority a kubeconfig could not be signed, and the plan waits.
            Ok(false) => match exists(Purpose::Ca.secret_name(&cluster.name)).await {
                Ok(has_authority) => Kubeconfig::Missing { has_authority },
                Err(error) => Kubeconfig::Unreadable(error),
            },
            Err(error) => Kubeconfig::Unreadable(error),
        }
    }
}

/// On every change of objects that carry a cluster's label: that cluster.
fn by_label<K: Object>(cache: &Cache<K>) -> Trigger {
    Trigger::on(cache, |old, new| new.or(old).and_then(cluster_key_of).into_iter().collect())
}

/// Infrastructure and control plane.
fn references(cluster: &Cluster) -> [Option<&ContractRef>; 2] {
    [cluster.spec.infrastructure_ref.as_ref(), cluster.spec.control_plane_ref.as_ref()]
}
