//! The KubeadmControlPlane controller: observe, decide, apply, report. Must not decide anything
//! itself; `plan::control_plane` does.

mod observe;

use std::sync::Arc;

use async_trait::async_trait;

use super::external::{Reader, referring};
use super::status::{Outcome as Reported, write};
use super::{Context, apply, cluster_key_of, keys_of, log_blockers, pause, sweep};
use crate::api::cluster::Cluster;
use crate::api::condition::Condition;
use crate::api::control_plane::KubeadmControlPlane;
use crate::api::key::{ObjectKey, ObjectRef, refers_to};
use crate::api::names::{CONTROL_PLANE_GROUP, CORE_GROUP, finalizer, label};
use crate::api::reference::ContractRef;
use crate::engine::{Controller, Outcome, ReconcileError, Trigger};
use crate::plan::control_plane::{Decision, decide};
use crate::status::control_plane::{OWNED, OWNED_ON_MACHINES, status};
use crate::workload::Announcement;

const KIND: &str = "KubeadmControlPlane";

/// Keeps control planes as their specs want them.
pub struct ControlPlaneController {
    context: Context,
}

impl ControlPlaneController {
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn run(
        &self,
        object: &Arc<KubeadmControlPlane>,
        cluster: &Arc<Cluster>,
    ) -> Result<Outcome, ReconcileError> {
        let context = &self.context;
        if !pause::may_run(context, &**object, cluster, finalizer::KUBEADM_CONTROL_PLANE).await? {
            return Ok(Outcome::Done);
        }
        let observed = observe::observe(context, object, cluster).await?;
        let mut decision = decide(observed, context.clock.now());
        self.report_machines(object, &decision).await?;
        let about = ObjectRef::of(&**object);
        log_blockers(&about, &decision.plan.blockers);
        let performed = apply::apply(context, &about, &decision.plan.steps).await.into_result();
        if decision.plan.is_last {
            return performed.map(|()| Outcome::Done);
        }
        if performed.is_err() {
            decision.pass.completed = false;
            decision.pass.deletion_failed = decision.observed.is_deleting();
        }
        let reported = self.report(object, &decision).await?;
        let swept = sweep::at_rest(context, &**object, references(object), reported).await;
        performed?;
        let soonest = [decision.plan.recheck, swept?].into_iter().flatten().min();
        Ok(soonest.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    /// Conditions of Machines are written before anything else happens, as they justify it.
    async fn report_machines(
        &self,
        owner: &KubeadmControlPlane,
        decision: &Decision,
    ) -> Result<(), ReconcileError> {
        let Some(inspection) = &decision.pass.inspection else { return Ok(()) };
        let namespace = owner.metadata.namespace.clone().unwrap_or_default();
        for (name, conditions) in &inspection.machines {
            let key = ObjectKey::new(namespace.clone(), name);
            let Some(before) = self.context.caches.machines.get(&key) else { continue };
            let mut after = (*before).clone();
            // The inspection saw an older Machine: what others have said since is theirs.
            let owned = |condition: &Condition| OWNED_ON_MACHINES.contains(&condition.type_.as_str());
            let list = &mut after.status.get_or_insert_default().conditions;
            list.retain(|condition| !owned(condition));
            list.extend(conditions.iter().filter(|condition| owned(condition)).cloned());
            write(&self.context, &*before, &after, &OWNED_ON_MACHINES).await?;
        }
        Ok(())
    }

    async fn report(
        &self,
        before: &KubeadmControlPlane,
        decision: &Decision,
    ) -> Result<Reported, ReconcileError> {
        let mut after = before.clone();
        after.status = Some(status(&decision.observed, &decision.pass, self.context.clock.now()));
        Ok(write(&self.context, before, &after, &OWNED).await?)
    }

    /// The Cluster that owns the control plane; `None` until its controller has said so.
    fn owner(&self, object: &KubeadmControlPlane) -> Option<Arc<Cluster>> {
        let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|o| refers_to(o, CORE_GROUP, "Cluster"))?;
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        self.context.caches.clusters.get(&ObjectKey::new(namespace, &owner.name))
    }
}

#[async_trait]
impl Controller for ControlPlaneController {
    fn name(&self) -> &'static str {
        "kubeadm-control-plane"
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let by_cluster = caches.clusters.clone();
        let by_label = caches.clusters.clone();
        let [control_planes, all, every] = std::array::from_fn(|_| caches.control_planes.clone());
        vec![
            Trigger::own(&caches.control_planes),
            Trigger::owned_by(&caches.machines, CONTROL_PLANE_GROUP, KIND),
            Trigger::owned_by(&caches.kubeadm_configs, CONTROL_PLANE_GROUP, KIND),
            // Orphans to adopt, and workers whose end a deletion waits for.
            Trigger::on(&caches.machines, move |old, new| {
                let Some(machine) = new.or(old) else { return Vec::new() };
                let labels = machine.metadata.labels.as_ref();
                let of_control_plane = labels.is_some_and(|l| l.contains_key(label::CONTROL_PLANE));
                if new.is_some() && !of_control_plane {
                    return Vec::new();
                }
                let cluster = cluster_key_of(machine).and_then(|key| by_label.get(&key));
                cluster.and_then(|c| key_of(&c)).into_iter().collect()
            }),
            Trigger::on(&caches.clusters, |old, new| new.or(old).and_then(key_of).into_iter().collect()),
            caches.externals.trigger(Reader::KubeadmControlPlane, move |turned| {
                referring(&control_planes, turned, references)
            }),
            caches.externals.trigger(Reader::KubeadmControlPlaneHosts, move |turned| match turned.object() {
                Some(_) => Vec::new(),
                None => keys_of(&all.list()),
            }),
            Trigger::announced(self.context.workload.changes(), Announcement::Missed, move |announcement| {
                match announcement {
                    Announcement::Node { node, .. } if !node.is_control_plane => Vec::new(),
                    Announcement::Cluster(cluster) | Announcement::Node { cluster, .. } => {
                        by_cluster.get(cluster).and_then(|c| key_of(&c)).into_iter().collect()
                    }
                    Announcement::Missed => keys_of(&every.list()),
                }
            }),
        ]
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(object) = self.context.caches.control_planes.get(key) else { return Ok(Outcome::Done) };
        match self.owner(&object) {
            Some(cluster) => self.run(&object, &cluster).await,
            None => Ok(Outcome::Done),
        }
    }
}

/// The template of its Machines' infrastructure.
fn references(object: &KubeadmControlPlane) -> [Option<&ContractRef>; 2] {
    [Some(&object.spec.machine_template.spec.infrastructure_ref), None]
}

/// The control plane that a Cluster refers to.
fn key_of(cluster: &Cluster) -> Option<ObjectKey> {
    let reference = cluster.spec.control_plane_ref.as_ref().filter(|r| r.kind == KIND)?;
    Some(ObjectKey::new(cluster.metadata.namespace.clone().unwrap_or_default(), &reference.name))
}
