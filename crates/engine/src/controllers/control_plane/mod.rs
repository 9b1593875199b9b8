//! The KubeadmControlPlane controller: asks for Secrets and the workload cluster (`observe`), and reports what an
//! inspection found on the Machines. Must not decide anything itself; `plan::control_plane` does.
//! Source: cluster-api `controlplane/kubeadm/reconcilers/kubeadmcontrolplane`, v1.14.2.

mod observe;
mod triggers;

use std::sync::Arc;

use async_trait::async_trait;

use super::apply::{self, Applied};
use super::reconcile::{Ended, Reconcile};
use super::{Context, status, sweep};
use crate::client::Cache;
use crate::engine::{Outcome, ReconcileError, Trigger};
use capi_rules::plan::Plan;
use capi_rules::plan::control_plane::{Decision, Observed, decide};
use capi_rules::status::control_plane::{self as judged, OWNED, OWNED_ON_MACHINES, inspected_machine};
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, ObjectRef, refers_to};
use capi_types::names::{CORE_GROUP, finalizer};
use capi_types::reference::ContractRef;
use capstan_base::time::Timestamp;

/// Keeps control planes as their specs want them.
pub(super) struct ControlPlanes {
    pub context: Context,
}

#[async_trait]
impl Reconcile for ControlPlanes {
    type Object = KubeadmControlPlane;
    type Observed = Observed;
    type Judged = Decision;

    const NAME: &'static str = "kubeadm-control-plane";
    const FINALIZER: Option<&'static str> = Some(finalizer::KUBEADM_CONTROL_PLANE);

    fn context(&self) -> &Context {
        &self.context
    }

    fn objects(&self) -> &Cache<KubeadmControlPlane> {
        &self.context.caches.control_planes
    }

    fn triggers(&self) -> Vec<Trigger> {
        triggers::triggers(&self.context)
    }

    /// The one that owns the control plane; none until its controller has found it.
    fn cluster(
        &self,
        object: &Arc<KubeadmControlPlane>,
    ) -> Result<Result<Arc<Cluster>, Outcome>, ReconcileError> {
        let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|o| refers_to(o, CORE_GROUP, "Cluster"));
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let named = |name: &str| self.context.caches.clusters.get(&ObjectKey::new(namespace, name));
        Ok(owner.and_then(|owner| named(&owner.name)).ok_or(Outcome::Done))
    }

    async fn observe(
        &self,
        object: &Arc<KubeadmControlPlane>,
        cluster: &Arc<Cluster>,
    ) -> Result<Option<Observed>, ReconcileError> {
        observe::observe(&self.context, object, cluster).await.map(Some)
    }

    fn plan(&self, observed: Observed, now: Timestamp) -> (Decision, Plan) {
        let mut decision = decide(observed, now);
        let plan = std::mem::take(&mut decision.plan);
        (decision, plan)
    }

    /// Conditions of Machines are written before anything else happens, as they justify it.
    async fn announce(&self, decision: &Decision) -> Result<(), ReconcileError> {
        let Some(inspection) = &decision.pass.inspection else { return Ok(()) };
        let namespace = decision.observed.control_plane.metadata.namespace.as_deref().unwrap_or_default();
        for (name, conditions) in &inspection.machines {
            let key = ObjectKey::new(namespace, name);
            let Some(before) = self.context.caches.machines.get(&key) else { continue };
            let after = inspected_machine(&before, conditions);
            status::write(&self.context, &*before, &after, &OWNED_ON_MACHINES).await?;
        }
        Ok(())
    }

    async fn report(
        &self,
        before: &Arc<KubeadmControlPlane>,
        mut decision: Decision,
        applied: Applied,
    ) -> Result<Ended, ReconcileError> {
        let context = &self.context;
        if applied.failure.is_some() {
            decision.pass.fail(&decision.observed);
        }
        let status = judged::status(&decision.observed, &decision.pass, context.clock.now());
        let after = KubeadmControlPlane { status: Some(status), ..(**before).clone() };
        let reported = status::write(context, &**before, &after, &OWNED).await?;
        let swept = sweep::at_rest(context, &**before, references(before), reported).await?;
        if applied.failure.is_none() {
            // What is noted here stands for a pass that did everything that it planned.
            apply::apply(context, &ObjectRef::of(&**before), &decision.notes).await.into_result()?;
        }
        Ok(Ended::of(applied).again_within(swept))
    }
}

/// The template of its Machines' infrastructure.
fn references(object: &KubeadmControlPlane) -> [Option<&ContractRef>; 2] {
    [Some(&object.spec.machine_template.spec.infrastructure_ref), None]
}
