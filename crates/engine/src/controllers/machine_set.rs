//! The MachineSet controller: reads the templates and the control plane, opens a run with what belongs to whom, and
//! draws names. Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/machineset`, v1.14.2 (MS-1, MS-9).

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::apply::Applied;
use super::external::Reader;
use super::reconcile::{Ended, Reconcile};
use super::{Context, cluster_key_of, keys_of, machine, status, sweep, workers};
use crate::client::Cache;
use crate::engine::{Outcome, ReconcileError, Trigger};
use capi_rules::observe::{self, Templates, namespace};
use capi_rules::plan::machine_set::InStep;
use capi_rules::plan::opening::followed_set;
use capi_rules::plan::{Plan, machine_set as planned};
use capi_rules::status::machine_set as judged;
use capi_types::cluster::Cluster;
use capi_types::key::ObjectKey;
use capi_types::machine_set::MachineSet;
use capi_types::name_template::RANDOM_BYTES;
use capi_types::names::{CORE_GROUP, finalizer};
use capstan_base::time::Timestamp;

pub(super) struct MachineSets {
    pub context: Context,
    pub compared: Compared,
}

/// What of each MachineSet was in step after its last run, by its uid.
#[derive(Default)]
pub(super) struct Compared(Mutex<HashMap<String, InStep>>);

impl Compared {
    fn take(&self, set: &MachineSet) -> InStep {
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        self.0.lock().remove(uid).unwrap_or_default()
    }

    /// A set without such Machines, such as one that goes, leaves nothing behind.
    fn keep(&self, set: &MachineSet, known: InStep) {
        if let Some(uid) = set.metadata.uid.clone().filter(|_| !known.is_empty()) {
            self.0.lock().insert(uid, known);
        }
    }
}

#[async_trait]
impl Reconcile for MachineSets {
    type Object = MachineSet;
    type Observed = planned::Observed;
    type Judged = planned::Observed;

    const NAME: &'static str = "machine-set";
    const FINALIZER: Option<&'static str> = Some(finalizer::MACHINE_SET);

    fn context(&self) -> &Context {
        &self.context
    }

    fn objects(&self) -> &Cache<MachineSet> {
        &self.context.caches.machine_sets
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let mut triggers = workers::triggers(caches, &caches.machine_sets);
        triggers.push(Trigger::owned_by(&caches.machines, CORE_GROUP, "MachineSet"));
        let (sets, all) = (workers::by_cluster(&caches.machine_sets), caches.machine_sets.clone());
        triggers.push(caches.externals.trigger(Reader::MachineSetPreflight, move |turned| {
            let cluster = turned.object().and_then(cluster_key_of);
            cluster.map(|cluster| sets.keys(&cluster)).unwrap_or_default()
        }));
        triggers.push(caches.externals.trigger(Reader::MachineSetClones, move |turned| {
            // What changes on one object reaches the set through its Machine.
            if turned.object().is_some() { Vec::new() } else { keys_of(&all.list()) }
        }));
        triggers
    }

    fn cluster(&self, object: &Arc<MachineSet>) -> Result<Result<Arc<Cluster>, Outcome>, ReconcileError> {
        workers::cluster(&self.context, object.as_ref()).map(Ok)
    }

    async fn observe(
        &self,
        object: &Arc<MachineSet>,
        cluster: &Arc<Cluster>,
    ) -> Result<Option<planned::Observed>, ReconcileError> {
        let (context, caches) = (&self.context, &self.context.caches);
        workers::prepare(context, object.as_ref()).await;
        let followed = followed_set(object, cluster);
        let templates = Templates::of(caches, namespace(object.as_ref()), &object.spec.template.spec);
        let machines = observe::machines_of_set(caches, &followed);
        let (set, machines) =
            workers::open(context, (object.as_ref(), &followed), cluster, &templates, machines).await?;
        let control_plane = [cluster.spec.control_plane_ref.as_ref()];
        caches.externals.prepare(Reader::MachineSetPreflight, control_plane).await;
        let references = machines.iter().flat_map(|machine| machine::references(machine));
        caches.externals.prepare(Reader::MachineSetClones, references).await;
        let count = planned::names_wanted(&set, machines.len());
        let taken: Vec<&str> = machines.iter().filter_map(|m| m.metadata.name.as_deref()).collect();
        let owner = ("MachineSet", &ObjectKey::of(&set));
        let suffixes = context.names.parts(owner, &taken, (count, RANDOM_BYTES));
        let clones = observe::clones(caches, &machines);
        let observed = observe::machine_set(caches, &set, cluster, machines, &templates, suffixes);
        Ok(Some(planned::Observed { clones, updates_in_place: context.asking.is_on(), ..observed }))
    }

    fn plan(&self, mut observed: planned::Observed, now: Timestamp) -> (planned::Observed, Plan) {
        let plan = planned::plan_sparing(&observed, &self.compared.take(&observed.set), now);
        self.compared.keep(&observed.set, InStep::after(&observed, &plan));
        observed.machines = planned::remediate::marked(&observed, now);
        (observed, plan)
    }

    async fn report(
        &self,
        _: &Arc<MachineSet>,
        observed: planned::Observed,
        applied: Applied,
    ) -> Result<Ended, ReconcileError> {
        let context = &self.context;
        let before = observed.set.clone();
        let is_complete = applied.failure.is_none() && planned::is_complete(&observed);
        let mut status = judged::status(&planned::judged(observed), context.clock.now());
        if is_complete {
            status.observed_generation = before.metadata.generation;
        }
        let recheck = planned::recheck(&before, &status);
        let after = MachineSet { status: Some(status), ..before.clone() };
        let reported = status::write(context, &before, &after, judged::OWNED).await?;
        let swept = sweep::at_rest(context, &before, workers::templates(&before), reported).await?;
        Ok(Ended::of(applied).again_within(recheck).again_within(swept))
    }
}
