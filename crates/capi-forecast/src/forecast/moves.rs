//! What the plan of a MachineDeployment says of updates in place: which Machines move to its current MachineSet, and which
//! are replaced. Must not decide it.

use std::collections::BTreeMap;

use super::ahead::{Ahead, AssumedAnswers};
use super::in_place::{Cost, Known, MachineUpdate, SURGE, Updates, Way, offered};
use super::{NextStep, ObjectPlan, State};
use crate::simulate::agreed_move;
use capi_rules::observe::dump::Dump;
use capi_rules::observe::{self, Member};
use capi_rules::plan::machine_deployment::{self as planned, Observed};
use capi_rules::plan::machine_set::in_order;
use capi_rules::status::in_place::{InPlace, Verdict};
use capi_rules::status::machines::name;
use capi_types::hook::Hook;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;

/// The Machines of each MachineSet that is there now, in the order in which they go.
type Leaving = BTreeMap<String, Vec<String>>;

/// Adds what is expected of its Machines, where an extension is registered and Machines change.
pub(super) fn fill(
    plan: &mut ObjectPlan,
    dump: &Dump,
    (known, ahead): (&Known, &Ahead<'_>),
    observed: &Observed,
    now: Timestamp,
) {
    let handlers = offered(dump, Hook::CanUpdateMachineSet);
    let is_held = observed.deployment.metadata.deletion_timestamp.is_some()
        // Nothing moves then, whatever an extension would say.
        || observed.deployment.spec.paused == Some(true);
    if (handlers.is_empty() && !observed.in_place.is_on()) || is_held {
        return;
    }
    // As if the gate were open: what could be asked must show before anybody asks.
    let on = Observed { in_place: InPlace::On(BTreeMap::new()), ..observed.clone() };
    let candidates: Vec<String> = planned::in_place::questions(&on, now)
        .into_iter()
        .filter_map(|question| question.old.metadata.name)
        .collect();
    if candidates.is_empty() {
        return;
    }
    let leaving = leaving(dump, observed, now);
    let cluster = ObjectKey::new(&plan.namespace, &plan.cluster);
    // The run ahead is of the whole Cluster; only Machines of these MachineSets are told here.
    let is_its = |machine: &str| leaving.values().flatten().any(|known| known == machine);
    let changes = ahead.of(&cluster, AssumedAnswers::Known).changes(is_its);
    let is_asked = known.is_asked() && observed.in_place.is_on();
    let is_decided = |set: &String| is_asked || is_agreed(observed, set);
    let is_known = plan.state != State::Blocked && candidates.iter().all(is_decided);
    // A blocked rollout never gets to its Machines, so that its run ahead says nothing of them.
    let machines = if plan.state != State::Blocked {
        let undecided = candidates.iter().filter(|set| !is_decided(set));
        let open: Vec<&String> = undecided.filter_map(|set| leaving.get(set)).flatten().collect();
        let decided = changes.iter().filter(|(name, _)| !open.contains(&name));
        let mut all: Vec<MachineUpdate> = decided.map(|change| update(change, observed, &leaving)).collect();
        let left = unknown(&candidates, observed, &leaving);
        // A Machine is named once: what the run ahead saw outweighs what is merely possible.
        let is_left = |update: &MachineUpdate| all.iter().all(|known| known.machine != update.machine);
        let left: Vec<MachineUpdate> = left.into_iter().filter(is_left).collect();
        all.extend(left);
        all
    } else {
        unknown(&candidates, observed, &leaving)
    };
    let cost = |assumed: AssumedAnswers| Cost {
        wanted: usize::try_from(observed.deployment.spec.replicas.unwrap_or(1)).unwrap_or(0),
        lowest: ahead.of(&cluster, assumed).lowest(plan.kind, &plan.name),
        has_members: false,
    };
    let availability = cost(AssumedAnswers::Known).sentence(
        cost(AssumedAnswers::Covered),
        cost(AssumedAnswers::Refused),
        is_known,
    );
    let updates = Updates { machines, handlers, asked: is_asked, availability };
    plan.assumptions.extend(known.assumptions(&updates));
    plan.updates = Some(updates);
}

/// Its controllers know already that it hands its Machines over.
fn is_agreed(observed: &Observed, set: &str) -> bool {
    let live = observed.sets.iter().find(|live| live.metadata.name.as_deref() == Some(set));
    let covers = matches!(observed.in_place.of(set), Some(Ok(Verdict::InPlace { .. })));
    // The mark alone is not enough: it may be of a template before this one.
    covers && live.is_some_and(|live| agreed_move(live).is_some())
}

fn update((machine, step): &(String, NextStep), observed: &Observed, leaving: &Leaving) -> MachineUpdate {
    let (way, mut covered, mut reason) = (Way::of(&step.does), Vec::new(), step.reason.clone());
    let set = leaving.iter().find(|(_, machines)| machines.contains(machine)).map(|(set, _)| set.as_str());
    match set.and_then(|set| observed.in_place.of(set)) {
        Some(Ok(Verdict::InPlace { covered: by })) if way == Way::InPlace => covered = by.clone(),
        // Covered, and yet replaced: only the surge does that.
        Some(Ok(Verdict::InPlace { .. })) => SURGE.clone_into(&mut reason),
        Some(Ok(Verdict::Replace(why))) => reason = why.to_string(),
        Some(Err(_)) | None => {}
    }
    MachineUpdate { machine: machine.clone(), way, reason, covered }
}

fn unknown(candidates: &[String], observed: &Observed, leaving: &Leaving) -> Vec<MachineUpdate> {
    let of_set = |set: &String| {
        let reason = match observed.in_place.of(set) {
            Some(Err(why)) => why.clone(),
            _ => format!("it is of MachineSet {set}, which does not have the template any more"),
        };
        let machines = leaving.get(set).into_iter().flatten();
        machines
            .map(|machine| MachineUpdate {
                machine: machine.clone(),
                way: Way::Unknown,
                reason: reason.clone(),
                covered: Vec::new(),
            })
            .collect::<Vec<_>>()
    };
    candidates.iter().flat_map(of_set).collect()
}

/// The Machines of each MachineSet in the order in which they go.
fn leaving(dump: &Dump, observed: &Observed, now: Timestamp) -> Leaving {
    let mut all = Leaving::new();
    for set in &observed.sets {
        let machines: Vec<_> =
            observe::machines_of_set(dump, set).into_iter().map(Member::into_object).collect();
        let names = in_order(set, &machines, now).iter().map(|machine| name(machine).to_owned()).collect();
        all.insert(set.metadata.name.clone().unwrap_or_default(), names);
    }
    all
}
