//! The MachineDeployment controller: reads the templates, and opens a run with what belongs to whom. Must not decide
//! anything itself.
//! Source: cluster-api `core/reconcilers/machinedeployment`, v1.14.2 (MD-1, MD-2, MD-12).

use std::sync::Arc;

use async_trait::async_trait;

use super::apply::Applied;
use super::reconcile::{Ended, Reconcile};
use super::{Context, in_place, status, workers};
use crate::client::Cache;
use crate::engine::{Outcome, ReconcileError, Trigger};
use capi_rules::observe::{self, Templates};
use capi_rules::plan::opening::followed_deployment;
use capi_rules::plan::{Plan, machine_deployment as planned};
use capi_rules::status::machine_deployment as judged;
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine_deployment::MachineDeployment;
use capi_types::name_template::RANDOM_BYTES;
use capi_types::names::{CORE_GROUP, finalizer};
use capstan_base::time::Timestamp;

pub(super) struct MachineDeployments {
    pub context: Context,
}

/// What the plan looks at, and the templates, which the status counts too.
pub(super) struct Facts {
    observed: planned::Observed,
    templates: Templates,
    /// Something that the plan needs is missing, or it cannot follow the spec.
    is_blocked: bool,
}

#[async_trait]
impl Reconcile for MachineDeployments {
    type Object = MachineDeployment;
    type Observed = Facts;
    type Judged = Facts;

    const NAME: &'static str = "machine-deployment";
    const FINALIZER: Option<&'static str> = Some(finalizer::MACHINE_DEPLOYMENT);

    fn context(&self) -> &Context {
        &self.context
    }

    fn objects(&self) -> &Cache<MachineDeployment> {
        &self.context.caches.machine_deployments
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let mut triggers = workers::triggers(caches, &caches.machine_deployments);
        triggers.push(Trigger::owned_by(&caches.machine_sets, CORE_GROUP, "MachineDeployment"));
        triggers
    }

    fn cluster(
        &self,
        object: &Arc<MachineDeployment>,
    ) -> Result<Result<Arc<Cluster>, Outcome>, ReconcileError> {
        workers::cluster(&self.context, object.as_ref()).map(Ok)
    }

    async fn observe(
        &self,
        object: &Arc<MachineDeployment>,
        cluster: &Arc<Cluster>,
    ) -> Result<Option<Facts>, ReconcileError> {
        let (context, caches) = (&self.context, &self.context.caches);
        workers::prepare(context, object.as_ref()).await;
        let templates = Templates::of_deployment(caches, object);
        let sets = observe::machine_sets_of(caches, object);
        let followed = followed_deployment(object, cluster);
        let (deployment, sets) =
            workers::open(context, (object.as_ref(), &followed), cluster, &templates, sets).await?;
        let missing_templates = templates.missing.clone();
        let taken: Vec<&str> = sets.iter().filter_map(|set| set.metadata.name.as_deref()).collect();
        let owner = ("MachineDeployment", &ObjectKey::of(&deployment));
        let suffix = context.names.parts(owner, &taken, (1, RANDOM_BYTES)).concat();
        let mut observed = planned::Observed {
            deployment,
            sets,
            missing_templates,
            suffix,
            machines: Vec::new(),
            in_place: context.asking.nothing_asked(),
        };
        // Only questions about updates in place need the Machines.
        if context.asking.is_on() {
            observed.machines = observe::machines_of_deployment(caches, &observed.deployment);
            observed.in_place = in_place::of_deployment(context, &observed).await;
        }
        Ok(Some(Facts { observed, templates, is_blocked: false }))
    }

    fn plan(&self, facts: Facts, now: Timestamp) -> (Facts, Plan) {
        let plan = planned::plan(&facts.observed, now);
        (Facts { is_blocked: !plan.blockers.is_empty(), ..facts }, plan)
    }

    async fn report(
        &self,
        object: &Arc<MachineDeployment>,
        facts: Facts,
        applied: Applied,
    ) -> Result<Ended, ReconcileError> {
        let context = &self.context;
        let latest = applied.latest(&ObjectRef::of(object.as_ref()));
        let before: MachineDeployment = latest.unwrap_or(facts.observed.deployment);
        let sets = facts.observed.sets;
        let observed = observe::machine_deployment(&context.caches, &before, sets, &facts.templates);
        let mut status = judged::status(&observed, context.clock.now());
        // With a template missing the spec has not been carried out, although nothing failed.
        if applied.failure.is_none() && !facts.is_blocked && judged::is_complete(&observed) {
            status.observed_generation = before.metadata.generation;
        }
        let after = MachineDeployment { status: Some(status), ..before.clone() };
        status::write(context, &before, &after, judged::OWNED).await?;
        Ok(Ended::of(applied))
    }
}
