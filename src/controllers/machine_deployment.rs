//! The MachineDeployment controller: adopts MachineSets, performs the plan, writes the status. Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/machinedeployment`, v1.14.0 (MD-1, MD-2, MD-12).

use std::sync::Arc;

use async_trait::async_trait;

use super::adoption::adopt;
use super::{Context, apply, finalizer, log_blockers, status as status_write, template, workers};
use crate::api::cluster::Cluster;
use crate::api::key::{ObjectKey, ObjectRef};
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_set::MachineSet;
use crate::api::name_template::RANDOM_BYTES;
use crate::api::names::{self, CORE_GROUP, label};
use crate::client::{Mode, Precondition};
use crate::engine::{Controller, Outcome, ReconcileError, Trigger};
use crate::observe::{self, Member, Templates};
use crate::plan::machine_deployment::{Observed, plan};
use crate::plan::ownership::{add_owner, owner};
use crate::status::machine_deployment::{self as judged, OWNED};

pub struct MachineDeployments {
    context: Context,
}

impl MachineDeployments {
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn reconcile_live(
        &self,
        deployment: &MachineDeployment,
        cluster: &Cluster,
    ) -> Result<Outcome, ReconcileError> {
        let context = &self.context;
        let deployment = &self.follow_cluster(deployment, cluster).await?;
        let namespace = deployment.metadata.namespace.clone().unwrap_or_default();
        let deleting = deployment.metadata.deletion_timestamp.is_some();
        let templates = if deleting {
            Templates::default()
        } else {
            Templates::of(&context.caches, &namespace, &deployment.spec.template.spec)
        };
        template::own_all(context, cluster, &templates).await?;
        let sets = self.adopted_sets(deployment).await?;
        if deleting && sets.is_empty() {
            finalizer::remove(context, deployment, names::finalizer::MACHINE_DEPLOYMENT).await?;
            return Ok(Outcome::Done);
        }
        let now = context.clock.now();
        let observed = Observed {
            deployment: deployment.clone(),
            sets: sets.clone(),
            missing_templates: templates.missing.clone(),
            suffix: context.rng.suffix(RANDOM_BYTES),
        };
        let plan = plan(&observed, now);
        let about = ObjectRef::of(deployment);
        let applied = apply::apply(context, &about, &plan.steps).await;
        let before: MachineDeployment = applied.latest(&about).unwrap_or_else(|| deployment.clone());
        let failed = applied.failure.is_some() || templates.unreadable.is_some();
        let facts = observe::machine_deployment(&context.caches, &before, sets, &templates);
        let mut status = judged::status(&facts, now);
        if !failed {
            status.observed_generation = before.metadata.generation;
        }
        let after = MachineDeployment { status: Some(status), ..before.clone() };
        status_write::write(context, &before, &after, OWNED).await?;
        applied.into_result()?;
        log_blockers(&about, &plan.blockers);
        Ok(plan.recheck.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    /// The cluster-name label, and the Cluster as an owner that does not control.
    async fn follow_cluster(
        &self,
        deployment: &MachineDeployment,
        cluster: &Cluster,
    ) -> Result<MachineDeployment, ReconcileError> {
        let mut after = deployment.clone();
        let labels = after.metadata.labels.get_or_insert_default();
        labels.insert(label::CLUSTER_NAME.to_owned(), deployment.spec.cluster_name.clone());
        add_owner(&mut after.metadata, owner(cluster, false));
        let guard = Precondition::unchanged(deployment);
        Ok(self.context.writer.patch(deployment, &after, &guard, Mode::Real).await?)
    }

    /// MachineSets that it controls; orphans that its selector matches are adopted first.
    async fn adopted_sets(
        &self,
        deployment: &MachineDeployment,
    ) -> Result<Vec<Arc<MachineSet>>, ReconcileError> {
        let mut mine = Vec::new();
        for member in observe::machine_sets_of(&self.context.caches, deployment) {
            mine.push(match member {
                Member::Controlled(set) => set,
                Member::Orphan(set) => Arc::new(adopt(&self.context, deployment, set.as_ref()).await?),
            });
        }
        Ok(mine)
    }
}

#[async_trait]
impl Controller for MachineDeployments {
    fn name(&self) -> &'static str {
        "machine-deployment"
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let mut triggers = workers::triggers(caches, &caches.machine_deployments);
        triggers.push(Trigger::owned_by(&caches.machine_sets, CORE_GROUP, "MachineDeployment"));
        triggers
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        match workers::begin(&self.context, &self.context.caches.machine_deployments, key).await? {
            Some((deployment, cluster)) => self.reconcile_live(&deployment, &cluster).await,
            None => Ok(Outcome::Done),
        }
    }
}
