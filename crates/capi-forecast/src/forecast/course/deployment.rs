//! The MachineSets made, scaled and deleted after the first pass of a MachineDeployment, and the Machines that move
//! between them, until it settles. Must not decide any.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{Course, PASSES_MAX, later};
use crate::forecast::in_place::Way;
use crate::forecast::next_steps;
use capi_rules::plan::machine_deployment::Observed;
use capi_rules::plan::ownership::owner;
use capi_rules::plan::{Step, Write, machine_deployment};
use capi_types::key::annotation;
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capi_types::names::annotation as keys;
use capstan_base::time::Timestamp;

/// How MachineSets agree on a move.
const MOVES: [&str; 3] = [keys::MOVE_MACHINES_TO, keys::RECEIVE_MACHINES_FROM, keys::ACKNOWLEDGED_MOVE];

/// Passes that are looked ahead to know of each Machine whether it moves: three for one of a large pool.
const MOVING_PASSES_MAX: usize = 5_000;

/// The Machines of each MachineSet that is there now, in the order in which they go.
pub(in crate::forecast) type Leaving = BTreeMap<String, Vec<String>>;

/// The course after the steps of the first pass.
pub(in crate::forecast) fn of_deployment(
    first: &Observed,
    steps: &[Step],
    leaving: Leaving,
    now: Timestamp,
) -> Course {
    let mut world = World { observed: first.clone(), leaving, course: Course::default() };
    world.course.lowest = world.available();
    let mut steps = steps.to_vec();
    let passes_max = if first.in_place.is_on() { MOVING_PASSES_MAX } else { PASSES_MAX };
    for pass in 1..passes_max {
        let moment = later(now, pass);
        for step in &steps {
            step.writes.iter().for_each(|write| world.written(write));
        }
        world.fewer();
        world.settle();
        let mut next = machine_deployment::plan(&world.observed, moment).steps;
        next.retain(|step| step.writes.iter().any(is_about_replicas));
        if next.is_empty() || next == steps {
            break;
        }
        if pass < PASSES_MAX {
            let sets = &world.observed.sets;
            world.course.steps.extend(next_steps(&next, &|name| replicas_of(sets, name)));
        }
        steps = next;
    }
    world.course
}

/// How many replicas a MachineSet has, by name.
pub(in crate::forecast) fn replicas_of(sets: &[Arc<MachineSet>], name: &str) -> Option<i32> {
    sets.iter().find(|set| set.metadata.name.as_deref() == Some(name))?.spec.replicas
}

fn is_about_replicas(write: &Write) -> bool {
    match write {
        Write::Patch { body, .. } | Write::Apply { body, .. } => body["spec"]["replicas"].is_i64(),
        Write::Create { .. } | Write::Delete { .. } => true,
        _ => false,
    }
}

/// The MachineSets as they become.
struct World {
    observed: Observed,
    leaving: Leaving,
    course: Course,
}

impl World {
    fn written(&mut self, write: &Write) {
        let sets = &mut self.observed.sets;
        let place = |sets: &[Arc<MachineSet>], name: &str| {
            sets.iter().position(|set| set.metadata.name.as_deref() == Some(name))
        };
        match write {
            Write::Create { content, .. } => {
                let made = serde_json::from_value::<MachineSet>(content.clone()).ok();
                sets.extend(made.map(|mut made| {
                    // Machines that move there name it as their owner.
                    made.metadata.uid = made.metadata.uid.or_else(|| made.metadata.name.clone());
                    Arc::new(made)
                }));
            }
            Write::Delete { object } => {
                sets.retain(|set| set.metadata.name.as_deref() != Some(object.key.name.as_str()));
            }
            Write::Patch { object, body } => {
                if let Some(at) = place(sets, &object.key.name) {
                    scaled(Arc::make_mut(&mut sets[at]), body);
                }
            }
            Write::Apply { object, intent, .. } => {
                if let Some(at) = place(sets, &object.key.name) {
                    let set = Arc::make_mut(&mut sets[at]);
                    scaled(set, intent);
                    agreed(set, intent);
                }
            }
            _ => {}
        }
    }

    /// Machines go, or move to another MachineSet, where there are more than wanted.
    fn fewer(&mut self) {
        for at in 0..self.observed.sets.len() {
            let set = self.observed.sets[at].clone();
            let surplus = surplus(&set);
            let name = set.metadata.name.clone().unwrap_or_default();
            let target = annotation(set.as_ref(), keys::MOVE_MACHINES_TO).filter(|target| !target.is_empty());
            let queue = self.leaving.entry(name.clone()).or_default();
            // Those that came up in this forecast have no names.
            let names: Vec<String> = queue.drain(..surplus.min(queue.len())).collect();
            let (way, reason) = match target {
                Some(target) => (Way::InPlace, format!("it moves to MachineSet {target}")),
                None => (Way::Replacement, format!("MachineSet {name} has one Machine fewer")),
            };
            let known = names.iter().map(|machine| (machine.clone(), way, reason.clone()));
            self.course.ways.extend(known);
            if let Some(target) = target.map(str::to_owned) {
                let placeholders = (names.len()..surplus).map(|n| format!("{name}-{n}"));
                let moved: Vec<String> = names.iter().cloned().chain(placeholders).collect();
                self.arrive(&target, &moved);
            }
            let wanted = set.spec.replicas.unwrap_or(0);
            let status = Arc::make_mut(&mut self.observed.sets[at]).status.get_or_insert_default();
            if surplus > 0 {
                status.replicas = Some(wanted);
                status.available_replicas = Some(status.available_replicas.unwrap_or(0).min(wanted));
            }
        }
        self.course.lowest = self.course.lowest.min(self.available());
    }

    /// They are there, updated, and not counted yet.
    fn arrive(&mut self, target: &str, names: &[String]) {
        let sets = &mut self.observed.sets;
        let Some(set) = sets.iter_mut().find(|set| set.metadata.name.as_deref() == Some(target)) else {
            return;
        };
        let set = Arc::make_mut(set);
        let controller = owner(&*set, true);
        let status = set.status.get_or_insert_default();
        let more = i32::try_from(names.len()).unwrap_or(i32::MAX);
        status.replicas = Some(status.replicas.unwrap_or(0).saturating_add(more));
        for name in names {
            let metadata = ObjectMeta {
                name: Some(name.clone()),
                namespace: set.metadata.namespace.clone(),
                annotations: Some([(keys::PENDING_ACKNOWLEDGE_MOVE.to_owned(), String::new())].into()),
                owner_references: Some(vec![controller.clone()]),
                ..ObjectMeta::default()
            };
            self.observed.machines.push(Arc::new(Machine { metadata, ..Machine::default() }));
        }
    }

    /// All Machines that are wanted are there and available; those that were counted wait for nothing.
    fn settle(&mut self) {
        let counted: Vec<String> = self
            .observed
            .sets
            .iter()
            .filter_map(|set| annotation(set.as_ref(), keys::ACKNOWLEDGED_MOVE))
            .flat_map(|names| names.split(',').map(str::to_owned))
            .collect();
        self.observed.machines.retain(|machine| {
            let is_pending = annotation(machine.as_ref(), keys::PENDING_ACKNOWLEDGE_MOVE).is_some();
            !is_pending || !counted.iter().any(|name| Some(name) == machine.metadata.name.as_ref())
        });
        for set in &mut self.observed.sets {
            let waiting = waiting(&self.observed.machines, set);
            full(Arc::make_mut(set), waiting);
        }
        let generation = self.observed.deployment.metadata.generation;
        let total: i32 = self.observed.sets.iter().filter_map(|set| set.spec.replicas).sum();
        let status = self.observed.deployment.status.get_or_insert_default();
        status.replicas = Some(total);
        status.available_replicas = Some(total);
        status.observed_generation = generation;
    }

    fn available(&self) -> usize {
        let of = |set: &Arc<MachineSet>| set.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0);
        usize::try_from(self.observed.sets.iter().map(of).sum::<i32>()).unwrap_or(0)
    }
}

/// Machines beyond those wanted, without those that are not counted yet.
fn surplus(set: &MachineSet) -> usize {
    let there = set.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
    let is_taking = annotation(set, keys::RECEIVE_MACHINES_FROM).is_some();
    let over = if is_taking { 0 } else { there - set.spec.replicas.unwrap_or(0) };
    usize::try_from(over).unwrap_or(0)
}

fn waiting(machines: &[Arc<Machine>], set: &MachineSet) -> i32 {
    let is_here = |machine: &&Arc<Machine>| {
        let owners = machine.metadata.owner_references.iter().flatten();
        annotation(machine.as_ref(), keys::PENDING_ACKNOWLEDGE_MOVE).is_some()
            && owners.into_iter().any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
    };
    i32::try_from(machines.iter().filter(is_here).count()).unwrap_or(i32::MAX)
}

fn scaled(set: &mut MachineSet, body: &Value) {
    let replicas = body["spec"]["replicas"].as_i64().and_then(|n| i32::try_from(n).ok());
    set.spec.replicas = replicas.or(set.spec.replicas);
}

/// An apply takes away what its intent does not have.
fn agreed(set: &mut MachineSet, intent: &Value) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    for key in MOVES {
        match intent["metadata"]["annotations"][key].as_str() {
            Some(value) => drop(annotations.insert(key.to_owned(), value.to_owned())),
            None => drop(annotations.remove(key)),
        }
    }
}

/// All Machines that it wants are there and available, and so many that it does not count yet are there.
fn full(set: &mut MachineSet, waiting: i32) {
    let (wanted, generation) = (set.spec.replicas.unwrap_or(0), set.metadata.generation);
    let status = set.status.get_or_insert_default();
    status.replicas = Some(wanted + waiting);
    status.ready_replicas = Some(wanted);
    status.available_replicas = Some(wanted);
    status.up_to_date_replicas = Some(wanted);
    status.observed_generation = generation;
}
