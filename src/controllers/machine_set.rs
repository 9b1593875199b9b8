//! The MachineSet controller: gathers Machines, templates and the control plane's state, performs the
//! plan, writes the status. Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/machineset`, v1.14.0 (MS-1, MS-9).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::adoption::adopt;
use super::template::{Templates, clone_kind};
use super::{Context, apply, cluster_key_of, finalizer, status as status_write, workers};
use crate::api::cluster::Cluster;
use crate::api::key::{ObjectKey, controller_of, label as label_of};
use crate::api::machine::Machine;
use crate::api::machine_set::{MachineSet, MachineSetStatus};
use crate::api::name_template::RANDOM_BYTES;
use crate::api::names::{self, CORE_GROUP, label};
use crate::client::{Mode, Precondition};
use crate::engine::{Controller, Outcome, ReconcileError, Trigger};
use crate::plan::machine_set::preflight::{Preflight, check};
use crate::plan::machine_set::{Observed, plan, preflight_messages};
use crate::plan::ownership::{add_owner, owner};
use crate::status::machine_set::{self as judged, OWNED};
use crate::status::selector::matches;

/// When Machines that are not ready are looked at again, should no event come.
const NOT_READY_RECHECK: Duration = Duration::from_secs(15);
/// Machines made in one pass at most, so that one pass stays short.
const MADE_AT_ONCE_MAX: usize = 100;

pub struct MachineSets {
    context: Context,
}

impl MachineSets {
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn reconcile_live(&self, set: &MachineSet, cluster: &Cluster) -> Result<Outcome, ReconcileError> {
        let context = &self.context;
        let set = &self.follow_cluster(set, cluster).await?;
        let namespace = set.metadata.namespace.clone().unwrap_or_default();
        let deleting = set.metadata.deletion_timestamp.is_some();
        let templates = Templates::of(&context.caches, &namespace, &set.spec.template.spec);
        if !deleting {
            templates.own(context, cluster).await?;
        }
        let machines = self.adopted_machines(set, &namespace).await?;
        if deleting && machines.is_empty() {
            finalizer::remove(context, set, names::finalizer::MACHINE_SET).await?;
            return Ok(Outcome::Done);
        }
        let observed = self.observe(set, cluster, machines, &templates);
        let now = context.clock.now();
        let plan = plan(&observed, now);
        let applied = apply::apply(context, &plan.steps).await;
        let facts = judged::Observed {
            set: set.clone(),
            machines: Some(observed.machines),
            missing_templates: templates.missing,
            preflight: preflight_messages(&plan),
        };
        let mut status = judged::status(&facts, now);
        let missing = !facts.missing_templates.is_empty() && self.needs_templates(set, &namespace);
        let unread = !facts.preflight.is_empty() && check(&observed.preflight).is_err();
        if applied.failure.is_none() && templates.unreadable.is_none() && !missing && !unread {
            status.observed_generation = set.metadata.generation;
        }
        let recheck = recheck(set, &status);
        let after = MachineSet { status: Some(status), ..set.clone() };
        status_write::write(context, set, &after, OWNED).await?;
        applied.into_result()?;
        let soonest = [plan.recheck, recheck.filter(|_| !deleting)].into_iter().flatten().min();
        Ok(soonest.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    fn needs_templates(&self, set: &MachineSet, namespace: &str) -> bool {
        let deployment = label_of(set, label::DEPLOYMENT_NAME);
        let deployment = deployment
            .and_then(|name| self.context.caches.machine_deployments.get(&ObjectKey::new(namespace, name)));
        judged::needs_templates(set, deployment.as_deref())
    }

    fn observe(
        &self,
        set: &MachineSet,
        cluster: &Cluster,
        machines: Vec<Arc<Machine>>,
        templates: &Templates,
    ) -> Observed {
        let context = &self.context;
        let spec = &set.spec.template.spec;
        let missing =
            usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0).saturating_sub(machines.len());
        Observed {
            set: set.clone(),
            infrastructure_template: templates.infrastructure.clone(),
            bootstrap_template: templates.bootstrap.clone(),
            infrastructure_kind: clone_kind(&context.caches, Some(&spec.infrastructure_ref)),
            bootstrap_kind: clone_kind(&context.caches, spec.bootstrap.config_ref.as_ref()),
            missing_templates: templates.missing.clone(),
            preflight: self.preflight(set, cluster),
            suffixes: (0..missing.min(MADE_AT_ONCE_MAX)).map(|_| context.rng.suffix(RANDOM_BYTES)).collect(),
            machines,
        }
    }

    fn preflight(&self, set: &MachineSet, cluster: &Cluster) -> Preflight {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let external = |reference| self.context.caches.external(namespace, reference);
        let control_plane = external(cluster.spec.control_plane_ref.as_ref());
        let template = external(set.spec.template.spec.bootstrap.config_ref.as_ref());
        Preflight::gather(set, cluster, &control_plane, &template)
    }

    /// The cluster-name label everywhere it is needed; a stand-alone MachineSet belongs to its Cluster.
    async fn follow_cluster(
        &self,
        set: &MachineSet,
        cluster: &Cluster,
    ) -> Result<MachineSet, ReconcileError> {
        let mut after = set.clone();
        let pair = (label::CLUSTER_NAME.to_owned(), set.spec.cluster_name.clone());
        after.metadata.labels.get_or_insert_default().extend([pair.clone()]);
        after.spec.selector.match_labels.get_or_insert_default().extend([pair.clone()]);
        after.spec.template.metadata.get_or_insert_default().labels.extend([pair]);
        if label_of(set, label::DEPLOYMENT_NAME).is_none() && controller_of(set).is_none() {
            add_owner(&mut after.metadata, owner(cluster, false));
        }
        let guard = Precondition::unchanged(set);
        Ok(self.context.writer.patch(set, &after, &guard, Mode::Real).await?)
    }

    /// Machines that it controls; orphans that its selector matches are adopted first.
    async fn adopted_machines(
        &self,
        set: &MachineSet,
        namespace: &str,
    ) -> Result<Vec<Arc<Machine>>, ReconcileError> {
        let mut mine = Vec::new();
        let selected = |m: &Machine| matches(&set.spec.selector, m.metadata.labels.as_ref());
        for machine in self.context.caches.machines.select(namespace, selected) {
            match controller_of(machine.as_ref()) {
                Some(owner) if Some(&owner.uid) == set.metadata.uid.as_ref() => mine.push(machine),
                Some(_) => {}
                None => mine.push(Arc::new(adopt(&self.context, set, machine.as_ref()).await?)),
            }
        }
        Ok(mine)
    }
}

/// Source: the deferred requeue of MS-1.
fn recheck(set: &MachineSet, status: &MachineSetStatus) -> Option<Duration> {
    let min_ready_s =
        set.spec.template.spec.min_ready_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
    if status.ready_replicas != status.replicas {
        Some(NOT_READY_RECHECK)
    } else if min_ready_s > 0 && status.available_replicas != status.replicas {
        Some(Duration::from_secs(min_ready_s))
    } else {
        None
    }
}

#[async_trait]
impl Controller for MachineSets {
    fn name(&self) -> &'static str {
        "machine-set"
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let mut triggers = workers::triggers(caches, &caches.machine_sets);
        triggers.push(Trigger::owned_by(&caches.machines, CORE_GROUP, "MachineSet"));
        triggers.push(workers::of_cluster(&caches.machine_sets, &caches.control_planes, cluster_key_of));
        triggers
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        match workers::begin(&self.context, &self.context.caches.machine_sets, key).await? {
            Some((set, cluster)) => self.reconcile_live(&set, &cluster).await,
            None => Ok(Outcome::Done),
        }
    }
}
