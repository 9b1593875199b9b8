//! The Machine controller: asks for its Node, what runs there and what is attached (`observe`), and goes through a
//! deletion in turns (`deletion`). Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/machine`, v1.14.2.

mod by_node;
mod deletion;
mod observe;
mod triggers;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::by_node::MachinesByNode;
pub use self::observe::probe;
use super::apply::Applied;
use super::reconcile::{Ended, Reconcile};
use super::{Context, status};
use crate::client::Cache;
use crate::engine::{Outcome, ReconcileError, Trigger};
use capi_rules::plan::machine::update;
use capi_rules::plan::{Plan, machine as planned};
use capi_rules::status::machine::{self as judged, NodeReading, Observed};
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::names::finalizer;
use capi_types::reference::ContractRef;
use capstan_base::time::Timestamp;

/// After a Node could not be read over a connection that stands.
const UNREAD_RETRY: Duration = Duration::from_secs(10);

pub(super) struct Machines {
    pub context: Context,
}

#[async_trait]
impl Reconcile for Machines {
    type Object = Machine;
    type Observed = Observed;
    type Judged = Observed;

    const NAME: &'static str = "machine";
    const FINALIZER: Option<&'static str> = Some(finalizer::MACHINE);
    const CONCURRENCY: usize = 100;

    fn context(&self) -> &Context {
        &self.context
    }

    fn objects(&self) -> &Cache<Machine> {
        &self.context.caches.machines
    }

    fn triggers(&self) -> Vec<Trigger> {
        triggers::triggers(&self.context)
    }

    fn cluster(&self, object: &Arc<Machine>) -> Result<Result<Arc<Cluster>, Outcome>, ReconcileError> {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let found = self.context.caches.clusters.get(&ObjectKey::new(namespace, &object.spec.cluster_name));
        let without = || planned::recheck_without_cluster(object);
        Ok(found.ok_or_else(|| without().map_or(Outcome::Done, Outcome::RequeueAfter)))
    }

    async fn observe(
        &self,
        object: &Arc<Machine>,
        cluster: &Arc<Cluster>,
    ) -> Result<Option<Observed>, ReconcileError> {
        Ok(Some(self.gather(object, cluster).await))
    }

    fn plan(&self, observed: Observed, now: Timestamp) -> (Observed, Plan) {
        let plan = planned::plan(&observed, now);
        (observed, plan)
    }

    async fn report(
        &self,
        object: &Arc<Machine>,
        mut observed: Observed,
        applied: Applied,
    ) -> Result<Ended, ReconcileError> {
        if let Some(latest) = applied.latest(&ObjectRef::of(object.as_ref())) {
            observed.machine = latest;
        }
        let mut ended = Ended::of(applied);
        ended.failure = ended.failure.or(update::failure(&observed).map(ReconcileError::failed));
        // After the usual phases, as upstream, which runs them in deletion, too.
        if observed.is_deleting() {
            let left = self.leave(&mut observed).await;
            ended = Ended { failure: ended.failure.or(left.failure), ..left };
        }
        let before = observed.machine.clone();
        let mut status = judged::status(&observed, self.context.clock.now());
        // As upstream: a pass that failed leaves the generation unobserved.
        if ended.failure.is_some() {
            status.observed_generation = before.status.as_ref().and_then(|s| s.observed_generation);
        }
        let after = Machine { status: Some(status), ..before.clone() };
        status::write(&self.context, &before, &after, &judged::owned(&observed)).await?;
        Ok(ended.again_within(self.unread_node(&observed).then_some(UNREAD_RETRY)))
    }
}

impl Machines {
    /// Its Node could not be read although the workload cluster is connected: no announcement will follow.
    fn unread_node(&self, observed: &Observed) -> bool {
        let cluster = ObjectKey::of(observed.cluster.as_ref());
        observed.node == NodeReading::NotConnected && self.context.workload.connection(&cluster).connected
    }
}

/// Infrastructure and bootstrap.
pub(super) fn references(machine: &Machine) -> [Option<&ContractRef>; 2] {
    [Some(&machine.spec.infrastructure_ref), machine.spec.bootstrap.config_ref.as_ref()]
}
