//! The plan of a Machine from outside: how it comes up, and why its deletion waits. Must not decide it.

use std::sync::Arc;

use super::evidence::{About, owners_of_machine};
use super::in_place::offered;
use super::next_steps;
use super::paused::paused;
use super::{Held, Look, ObjectPlan};
use capi_rules::observe::dump::Dump;
use capi_rules::plan::evidence::Evidence;
use capi_rules::plan::{Blocker, Plan, Reason, Wait, machine as planned};
use capi_rules::status::machine::{Observed, control_plane_initialized_since};
use capi_types::condition::{Conditioned as _, find};
use capi_types::hook::Hook;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::names::CORE_GROUP;
use capstan_base::time::Timestamp;

const KIND: &str = "Machine";
const NODES: &str = "Nodes of the workload cluster were not asked";

pub(super) fn plan(dump: &Dump, key: &ObjectKey, object: &Arc<Machine>, now: Timestamp) -> ObjectPlan {
    let cluster = object.spec.cluster_name.as_str();
    let mut plan = ObjectPlan::new(KIND, key, cluster);
    plan.within = owners_of_machine(dump, object);
    plan.within.push(format!("Cluster/{cluster}"));
    let about = About { dump, group: CORE_GROUP, kind: KIND, key, cluster };
    let of = dump.clusters.get(&ObjectKey::new(&key.namespace, cluster));
    // Even where the Cluster was not read: the annotation alone pauses a Machine.
    if let Some(paused) = paused(about, object.as_ref(), of.map(AsRef::as_ref), &plan) {
        return paused;
    }
    let Some(mut observed) = dump.machine(key, object, now) else {
        return plan.unknown(&super::cluster::missing(cluster));
    };
    // Where a Machine is updated already, the gate is open.
    observed.updates_in_place = observed.is_updating_in_place();
    // A dump without Nodes must not look like a cluster without Nodes.
    let nodes_are_known = dump.workload(&ObjectKey::new(&key.namespace, cluster)).is_some();
    let decided = decided(&observed, nodes_are_known, now);
    plan.next = next_steps(&decided.steps, &|_| None);
    plan.blockers = decided.blockers.iter().map(|b| Held::of(b, |e| about.seen(e))).collect();
    plan.next_look = Look::of(&decided, now);
    if observed.updates_in_place {
        plan.assumptions.extend(updated_by(dump));
    }
    if observed.is_deleting() {
        let referred = [Some(&object.spec.infrastructure_ref), object.spec.bootstrap.config_ref.as_ref()];
        let left_out = referred.into_iter().flatten().filter(|reference| dump.left_out(Some(reference)));
        let said = |kind: &str, name: &str| format!("{kind} {name} was not read: it is as the Machine says");
        plan.assumptions.extend(left_out.map(|reference| said(&reference.kind, &reference.name)));
    }
    if !nodes_are_known && observed.is_deleting() {
        plan.assumptions.push(format!("{NODES}: what the deletion waits for is as its condition says"));
    } else if !nodes_are_known && !is_up(object) {
        plan.assumptions.push(format!("{NODES}: the Machine's Node has not joined yet"));
    }
    plan.judged()
}

/// Who updates it, and what cannot be seen from outside.
fn updated_by(dump: &Dump) -> Option<String> {
    let handlers = offered(dump, Hook::UpdateMachine);
    let who = handlers.join(", ");
    (!handlers.is_empty())
        .then(|| format!("{who} updates it; when it is asked again is known to the controllers only"))
}

fn is_up(machine: &Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| status.node_ref.is_some())
}

/// The planner's answer; where it would need a Node that was not read, what is stored.
fn decided(observed: &Observed, nodes_are_known: bool, now: Timestamp) -> Plan {
    let mut plan = planned::plan(observed, now);
    if observed.is_deleting() {
        // What its controller saw is better than a guess, as long as no Node was read.
        match stored_deletion(observed).filter(|_| !nodes_are_known || observed.told_deletion.is_some()) {
            Some(blocker) => plan.blockers.push(blocker),
            None => {
                let leaves = planned::leave(observed, now);
                let needs_node = |b: &Blocker| b.wait == Wait::Node;
                // The planner would say that the Node is gone, which is not known.
                if !nodes_are_known && leaves.blockers.iter().any(needs_node) {
                    plan.blockers.push(drained_first());
                } else {
                    plan.extend(leaves);
                }
            }
        }
        return plan;
    }
    let id = observed.machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
    // Before an ID is there the planner itself says what is awaited.
    let awaited = id.filter(|_| !nodes_are_known && !is_up(&observed.machine));
    if let (Some(id), true) = (awaited, control_plane_initialized_since(&observed.cluster).is_some()) {
        let sentence = format!("no Node with provider ID {id} has joined yet");
        let reason = Reason { rule: "waiting-for-node", sentence };
        plan.blockers.push(Blocker { reason, wait: Wait::UnderWay, evidence: Evidence::own("NodeReady") });
    }
    plan
}

fn drained_first() -> Blocker {
    let sentence = "its Node is drained first, as far as Pods let it".to_owned();
    under_way("draining", sentence)
}

/// What the deletion waits for, from the `Deleting` condition.
fn stored_deletion(observed: &Observed) -> Option<Blocker> {
    let stored = find(observed.machine.conditions(), "Deleting").filter(|c| c.status == "True")?;
    let rule = match stored.reason.as_str() {
        "DrainingNode" => "draining",
        "WaitingForVolumeDetach" => "waiting-for-volumes",
        "WaitingForPreDrainHook" | "WaitingForPreTerminateHook" => "waiting-for-hooks",
        "WaitingForInfrastructureDeletion" | "WaitingForBootstrapDeletion" => "waiting-for-deletion",
        _ => return None,
    };
    // Upstream lists pods and volumes on the lines below.
    let sentence = stored.message.lines().next().unwrap_or_default().trim_end_matches(':').to_owned();
    Some(under_way(rule, sentence))
}

fn under_way(rule: &'static str, sentence: String) -> Blocker {
    let (reason, evidence) = (Reason { rule, sentence }, Evidence::own("Deleting"));
    Blocker { reason, wait: Wait::UnderWay, evidence }
}
