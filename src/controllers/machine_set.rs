//! The MachineSet controller: adopts Machines, performs the plan, writes the status. Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/machineset`, v1.14.0 (MS-1, MS-9).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::adoption::adopt;
use super::external::Reader;
use super::{Context, apply, cluster_key_of, finalizer, status as status_write, sweep, template, workers};
use crate::api::cluster::Cluster;
use crate::api::key::{ObjectKey, ObjectRef, controller_of, label as label_of};
use crate::api::machine::Machine;
use crate::api::machine_set::{MachineSet, MachineSetStatus};
use crate::api::name_template::RANDOM_BYTES;
use crate::api::names::{self, CORE_GROUP, label};
use crate::client::{Mode, Precondition};
use crate::engine::{Controller, Outcome, ReconcileError, Trigger};
use crate::observe::{self, Member, Templates};
use crate::plan::machine_set::preflight::check;
use crate::plan::machine_set::{plan, preflight_messages};
use crate::plan::ownership::{add_owner, owner};
use crate::status::machine_set::{self as judged, OWNED};

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
            template::own_all(context, cluster, &templates).await?;
        }
        let machines = self.adopted_machines(set).await?;
        if deleting && machines.is_empty() {
            finalizer::remove(context, set, names::finalizer::MACHINE_SET).await?;
            return Ok(Outcome::Done);
        }
        let control_plane = [cluster.spec.control_plane_ref.as_ref()];
        context.caches.externals.prepare(Reader::MachineSetPreflight, control_plane).await;
        let suffixes = self.suffixes(set, machines.len());
        let observed = observe::machine_set(&context.caches, set, cluster, machines, &templates, suffixes);
        let now = context.clock.now();
        let plan = plan(&observed, now);
        let applied = apply::apply(context, &ObjectRef::of(set), &plan.steps).await;
        let preflight = preflight_messages(&observed);
        let facts = judged::Observed {
            set: set.clone(),
            machines: Some(observed.machines),
            missing_templates: templates.missing,
            preflight,
        };
        let mut status = judged::status(&facts, now);
        let missing = !facts.missing_templates.is_empty() && observe::needs_templates(&context.caches, set);
        let unread = !facts.preflight.is_empty() && check(&observed.preflight).is_err();
        if applied.failure.is_none() && templates.unreadable.is_none() && !missing && !unread {
            status.observed_generation = set.metadata.generation;
        }
        let recheck = recheck(set, &status);
        let after = MachineSet { status: Some(status), ..set.clone() };
        let reported = status_write::write(context, set, &after, OWNED).await?;
        let swept = sweep::at_rest(context, set, workers::templates(set), reported).await;
        applied.into_result()?;
        let soonest = [plan.recheck, recheck.filter(|_| !deleting), swept?].into_iter().flatten().min();
        Ok(soonest.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    /// Random parts of names for the Machines that are missing.
    fn suffixes(&self, set: &MachineSet, current: usize) -> Vec<String> {
        let missing = usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or(0).saturating_sub(current);
        (0..missing.min(MADE_AT_ONCE_MAX)).map(|_| self.context.rng.suffix(RANDOM_BYTES)).collect()
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
    async fn adopted_machines(&self, set: &MachineSet) -> Result<Vec<Arc<Machine>>, ReconcileError> {
        let mut mine = Vec::new();
        for member in observe::machines_of_set(&self.context.caches, set) {
            mine.push(match member {
                Member::Controlled(machine) => machine,
                Member::Orphan(machine) => Arc::new(adopt(&self.context, set, machine.as_ref()).await?),
            });
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
        let sets = caches.machine_sets.clone();
        triggers.push(caches.externals.trigger(Reader::MachineSetPreflight, move |turned| {
            let cluster = turned.object().and_then(cluster_key_of);
            cluster.map(|cluster| workers::of(&sets, &cluster)).unwrap_or_default()
        }));
        triggers
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        match workers::begin(&self.context, &self.context.caches.machine_sets, key).await? {
            Some((set, cluster)) => self.reconcile_live(&set, &cluster).await,
            None => Ok(Outcome::Done),
        }
    }
}
