//! The Cluster controller: asks for the connection, performs the plan, writes the status. Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/cluster`, v1.14.0.

use async_trait::async_trait;

use super::external::{Reader, referring};
use super::machine::probe;
use super::pause::{self, Pause};
use super::{Context, apply, cluster_key_of, keys_of, log_blockers, status as status_write};
use crate::api::cluster::Cluster;
use crate::api::key::{ObjectKey, ObjectRef};
use crate::api::names::finalizer;
use crate::api::reference::ContractRef;
use crate::client::{Cache, Object};
use crate::engine::{Controller, Outcome, ReconcileError, Trigger};
use crate::observe;
use crate::plan::ownership::has_finalizer;
use crate::plan::{Shown, cluster as planned};
use crate::status::cluster as judged;
use crate::workload::Announcement;

pub struct Clusters {
    context: Context,
}

impl Clusters {
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

/// On every change of objects that carry a cluster's label: that cluster.
fn by_label<K: Object>(cache: &Cache<K>) -> Trigger {
    Trigger::on(cache, |old, new| new.or(old).and_then(cluster_key_of).into_iter().collect())
}

#[async_trait]
impl Controller for Clusters {
    fn name(&self) -> &'static str {
        "cluster"
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let (clusters, all) = (caches.clusters.clone(), caches.clusters.clone());
        vec![
            Trigger::own(&caches.clusters),
            by_label(&caches.machine_deployments),
            by_label(&caches.machine_sets),
            by_label(&caches.machine_pools),
            by_label(&caches.machines),
            // Before an object is adopted it has neither owner nor label, so the references are searched.
            caches.externals.trigger(Reader::Cluster, move |turned| referring(&clusters, turned, references)),
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

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let context = &self.context;
        let Some(cluster) = context.caches.clusters.get(key) else { return Ok(Outcome::Done) };
        context.caches.externals.prepare(Reader::Cluster, references(&cluster)).await;
        let probe = probe(&context.workload.connection(key));
        let mut observed = observe::cluster(&context.caches, &cluster, probe);
        let plan = planned::plan(&observed);
        let about = ObjectRef::of(cluster.as_ref());
        if cluster.metadata.deletion_timestamp.is_none()
            && !has_finalizer(cluster.as_ref(), finalizer::CLUSTER)
        {
            apply::apply(context, &about, &plan.steps).await.into_result()?;
            return Ok(Outcome::Done);
        }
        if pause::check(context, cluster.as_ref(), Some(&cluster)).await? == Pause::Stop {
            return Ok(Outcome::Done);
        }
        log_blockers(&about, &plan.blockers);
        let applied = apply::apply(context, &about, &plan.steps).await;
        if let Some(latest) = applied.latest(&about) {
            observed.cluster = latest;
        }
        observed.failed = applied.failure.as_ref().is_some_and(|f| f.shown == Some(Shown::ClusterDeletion));
        let before = observed.cluster.clone();
        let mut status = judged::status(&observed, context.clock.now());
        if applied.failure.is_none() && judged::is_complete(&observed) {
            status.observed_generation = before.metadata.generation;
        }
        let after = Cluster { status: Some(status), ..before.clone() };
        if status_write::write(context, &before, &after, &judged::OWNED).await?
            == status_write::Outcome::Written
        {
            apply::apply(context, &about, &planned::milestones(&before, &after)).await.into_result()?;
        }
        applied.into_result()?;
        Ok(plan.recheck.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    fn concurrency(&self) -> usize {
        50
    }
}

/// Infrastructure and control plane.
fn references(cluster: &Cluster) -> [Option<&ContractRef>; 2] {
    [cluster.spec.infrastructure_ref.as_ref(), cluster.spec.control_plane_ref.as_ref()]
}
