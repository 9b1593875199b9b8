//! The shape of every controller's run: begin, observe, plan, apply, report, let go. Owns the order, and what ends a run early;
//! must not know any kind.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::apply::{self, Applied};
use super::{Context, log_blockers, status};
use crate::client::{Cache, Object};
use crate::engine::{Controller, Outcome, ReconcileError, Trigger};
use capi_rules::plan::begin::{Begin, begin};
use capi_rules::plan::{Plan, Step};
use capi_rules::status::conditions::setter;
use capi_types::cluster::Cluster;
use capi_types::condition::Conditioned;
use capi_types::key::{ObjectKey, ObjectRef};
use capstan_base::time::Timestamp;

/// What differs between the kinds. Decisions are not among it: `plan` and `status` make them.
#[async_trait]
pub(super) trait Reconcile: Send + Sync + 'static {
    type Object: Object + Conditioned;
    /// What the plan looks at.
    type Observed: Send + Sync;
    /// What the status looks at, planning included.
    type Judged: Send + Sync;

    /// Names the queue and the trace.
    const NAME: &'static str;
    const FINALIZER: Option<&'static str>;
    /// How many keys run at once.
    const CONCURRENCY: usize = 10;
    /// Two runs of one key start at least this far apart.
    const INTERVAL: Duration = Duration::from_secs(1);

    fn context(&self) -> &Context;

    fn objects(&self) -> &Cache<Self::Object>;

    fn triggers(&self) -> Vec<Trigger>;

    /// The Cluster that the object belongs to, or how the run ends without one.
    ///
    /// # Errors
    /// When there has to be one.
    fn cluster(&self, object: &Arc<Self::Object>) -> Result<Result<Arc<Cluster>, Outcome>, ReconcileError>;

    /// Gathers what the plan looks at; `None` ends the run.
    ///
    /// # Errors
    /// When something cannot be read that is not allowed to be unknown, or what comes first cannot be written.
    async fn observe(
        &self,
        object: &Arc<Self::Object>,
        cluster: &Arc<Cluster>,
    ) -> Result<Option<Self::Observed>, ReconcileError>;

    fn plan(&self, observed: Self::Observed, now: Timestamp) -> (Self::Judged, Plan);

    /// What is written before the steps of the plan, as it justifies them.
    ///
    /// # Errors
    /// When the server refuses.
    async fn announce(&self, _judged: &Self::Judged) -> Result<(), ReconcileError> {
        Ok(())
    }

    /// Writes the status, with what came of the steps.
    ///
    /// # Errors
    /// When the server refuses.
    async fn report(
        &self,
        object: &Arc<Self::Object>,
        judged: Self::Judged,
        applied: Applied,
    ) -> Result<Ended, ReconcileError>;
}

#[derive(Debug)]
pub(super) struct Ended {
    pub failure: Option<ReconcileError>,
    /// Besides what the plan asks for.
    pub next: Outcome,
    /// Lets the object go, now that its last status is written.
    pub release: Option<Step>,
}

impl Ended {
    pub(super) fn of(applied: Applied) -> Self {
        Self { failure: applied.failure.map(|failure| failure.error), next: Outcome::Done, release: None }
    }

    /// Another run after `delay` at the latest.
    pub(super) fn again_within(mut self, delay: Option<Duration>) -> Self {
        self.next = self.next.and(delay.map_or(Outcome::Done, Outcome::RequeueAfter));
        self
    }
}

/// The controller of a kind.
pub(super) struct Run<R>(pub R);

#[async_trait]
impl<R: Reconcile> Controller for Run<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn triggers(&self) -> Vec<Trigger> {
        self.0.triggers()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let (kind, context) = (&self.0, self.0.context());
        let Some(object) = kind.objects().get(key) else { return Ok(Outcome::Done) };
        let cluster = match kind.cluster(&object)? {
            Ok(cluster) => cluster,
            Err(outcome) => return Ok(outcome),
        };
        if !goes_on(context, object.as_ref(), &cluster, R::FINALIZER).await? {
            return Ok(Outcome::Done);
        }
        let Some(observed) = kind.observe(&object, &cluster).await? else { return Ok(Outcome::Done) };
        let (judged, mut plan) = kind.plan(observed, context.clock.now());
        // Kept for the end: watchers see the last status before the object goes.
        let release = plan.take_release();
        let about = ObjectRef::of(object.as_ref());
        log_blockers(&about, &plan.blockers);
        kind.announce(&judged).await?;
        let applied = apply::apply(context, &about, &plan.steps).await;
        // Also after a failed step: the status is where people look for it.
        let ended = kind.report(&object, judged, applied).await?;
        // With anything left undone the object is not let go.
        if let Some(failure) = ended.failure {
            return Err(failure);
        }
        let Some(release) = release.or(ended.release) else { return Ok(outcome(&plan).and(ended.next)) };
        apply::apply(context, &about, &[release]).await.into_result().map(|()| Outcome::Done)
    }

    fn concurrency(&self) -> usize {
        R::CONCURRENCY
    }

    fn rate_interval(&self) -> Duration {
        R::INTERVAL
    }
}

/// When a plan wants to be looked at again.
pub(super) fn outcome(plan: &Plan) -> Outcome {
    let recheck = plan.recheck.map_or(Outcome::Done, Outcome::RequeueAfter);
    // A hold wins over a recheck: triggers in between are what it keeps away.
    plan.hold.map_or(recheck, Outcome::NotBefore)
}

async fn goes_on<K: Object + Conditioned>(
    context: &Context,
    object: &K,
    cluster: &Cluster,
    finalizer: Option<&str>,
) -> Result<bool, ReconcileError> {
    match begin(object, cluster, finalizer) {
        Begin::Run => return Ok(true),
        Begin::Stop => {}
        Begin::Finalizer(step) => {
            apply::apply(context, &ObjectRef::of(object), &[*step]).await.into_result()?;
        }
        Begin::Paused(condition) => {
            let mut after = object.clone();
            let generation = object.meta().generation;
            setter::set(after.conditions_mut(), *condition, generation, context.clock.now());
            status::write(context, object, &after, &["Paused"]).await?;
        }
    }
    Ok(false)
}
