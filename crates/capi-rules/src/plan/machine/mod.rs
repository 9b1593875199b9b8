//! What happens to a Machine next: bootstrap, infrastructure, Node, an update in place, and the long way out. Owns the
//! order of rules; must not know how steps are performed.
//! Source: cluster-api `core/reconcilers/machine/machine_controller*.go`, v1.14.2.

mod deletion;
mod node;
mod provider;
#[cfg(test)]
mod tests;
pub mod update;
mod why;

use std::time::Duration;

use serde_json::json;

use super::{Plan, Write, ownership};
use crate::status::machine::{Observed, available_in};
use capi_types::key::{ObjectKey, ObjectRef, cluster_label, controller_of};
use capi_types::machine::Machine;
use capi_types::names::{finalizer, label};
use capstan_base::time::Timestamp;
pub use deletion::{complaint, error, leave};
use why::Why;

/// How soon a Cluster that should exist is looked for again.
const CLUSTER_RETRY: Duration = Duration::from_secs(30);

/// The plan for a Machine that is not paused. Every rule speaks even when an earlier one waits, as
/// upstream runs all its phases; only the first finalizer comes alone. The way out of one that is being
/// deleted is [`leave`].
pub fn plan(o: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if !o.is_deleting() && !ownership::has_finalizer(&o.machine, finalizer::MACHINE) {
        // The finalizer comes alone: nothing may be made for
        // a Machine that could vanish without its way out.
        plan.step(ownership::add_finalizer(&o.machine, finalizer::MACHINE), Why::Finalizer);
        return plan;
    }
    owner_and_labels(o, &mut plan);
    provider::bootstrap(o, &mut plan);
    provider::infrastructure(o, &mut plan);
    node::rules(o, &mut plan);
    update::rules(o, &mut plan);
    if let Some(left) = available_in(o, now).and_then(|left| left.to_std().ok()) {
        // No event comes when minReadySeconds are over.
        plan.recheck_within(left.max(Duration::from_secs(1)));
    }
    plan
}

/// When a Machine whose Cluster does not exist is looked at again. The Cluster's arrival wakes it by label; `None`.
pub fn recheck_without_cluster(machine: &Machine) -> Option<Duration> {
    cluster_label(machine).is_none().then_some(CLUSTER_RETRY)
}

fn cluster_key(o: &Observed) -> ObjectKey {
    ObjectKey::of(o.cluster.as_ref())
}

/// The cluster label always; the Cluster as owner only for Machines that nothing else made.
fn owner_and_labels(o: &Observed, plan: &mut Plan) {
    let machine = &o.machine;
    let target = ObjectRef::of(machine);
    let cluster = &machine.spec.cluster_name;
    if cluster_label(machine) != Some(cluster) {
        let body = json!({"metadata": {"labels": {label::CLUSTER_NAME: cluster}}});
        plan.step(Write::Patch { object: target.clone(), body }, Why::ClusterLabel);
    }
    let has = |name: &str| machine.metadata.labels.as_ref().is_some_and(|all| all.contains_key(name));
    // A label without a controller marks an orphan: its
    // maker adopts it, and it does not stand alone.
    let made_by_others = [label::SET_NAME, label::POOL_NAME, label::CONTROL_PLANE_NAME].into_iter().any(has);
    let owners = machine.metadata.owner_references.clone().unwrap_or_default();
    let owned = owners.iter().any(|r| r.kind == "Cluster" && r.name == *cluster);
    if !made_by_others && !owned && controller_of(machine).is_none() {
        let owners = ownership::with_owner(owners, ownership::owner(o.cluster.as_ref(), false));
        let body = json!({"metadata": {"ownerReferences": owners}});
        plan.step(Write::Patch { object: target, body }, Why::StandAlone);
    }
}
