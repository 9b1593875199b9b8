//! What follows the next steps: the planner runs again and again, as if every Machine came up and went as it should.
//! Owns that assumption; every decision is the planner's.

use std::sync::Arc;

use chrono::TimeDelta;
use serde_json::Value;

use super::step::{self, NextStep};
use super::{ObjectPlan, State};
use crate::api::condition::{Status, find};
use crate::api::machine::{Machine, MachineStatus};
use crate::api::machine_set::MachineSet;
use crate::api::reference::NodeRef;
use crate::observe::assumed_members;
use crate::plan::control_plane::{Decision, Observed, Workload, decide};
use crate::plan::{Step, Write, machine_deployment};
use crate::status::conditions::setter::{self, condition};
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::machine::ETCD_MEMBER;
use crate::time::{Timestamp, to_k8s};

/// Passes that are looked ahead.
const PASSES_MAX: usize = 60;

pub(super) const NAMES: &str =
    "names of new Machines are drawn when they are made: new1 stands for the first of them";
pub(super) const ALL_GOES_WELL: &str =
    "what follows holds if every Machine comes up and goes as it should, and nothing else is changed";

/// What stands in a name for the random part of the `count`th new object.
pub(super) fn placeholder(count: usize) -> String {
    format!("new{count}")
}

/// The Machines made and deleted after the first pass of a control plane, until it settles.
pub(super) fn of_control_plane(first: &Decision, plan: &ObjectPlan, now: Timestamp) -> Vec<NextStep> {
    if !matches!(plan.state, State::Acting | State::Waiting) || first.observed.is_deleting() {
        return Vec::new();
    }
    let (mut observed, mut steps) = (first.observed.clone(), first.plan.steps.clone());
    let (mut made, mut all) = (1, Vec::new());
    for pass in 1..PASSES_MAX {
        let moment = later(now, pass);
        for step in &steps {
            made += usize::from(carried_out(&mut observed, step, moment));
        }
        settle(&mut observed, moment);
        observed.name_suffix = placeholder(made);
        let decision = decide(observed.clone(), moment);
        steps = decision.plan.steps;
        steps.retain(Step::is_about_machines);
        if steps.is_empty() {
            break;
        }
        all.extend(step::steps(&steps, &|_| None));
    }
    all
}

fn later(now: Timestamp, pass: usize) -> Timestamp {
    let seconds = TimeDelta::seconds(i64::try_from(pass).unwrap_or(0));
    now.checked_add_signed(seconds).unwrap_or(now)
}

/// Was a Machine made?
fn carried_out(observed: &mut Observed, step: &Step, moment: Timestamp) -> bool {
    let mut parts: Vec<&Value> = Vec::new();
    for write in &step.writes {
        match write {
            Write::Create { content, .. } => parts.push(content),
            Write::Delete { object } => observed.machines.retain(|m| m.name() != object.key.name),
            Write::Patch { object, .. } => {
                let adopted = observed.orphans.iter().position(|m| m.name() == object.key.name);
                observed.machines.extend(adopted.map(|at| observed.orphans.remove(at)));
            }
            _ => {}
        }
    }
    let made = owned(&parts, moment);
    let is_made = made.is_some();
    observed.machines.extend(made);
    is_made
}

/// The Machine among what one step creates, with the two objects behind it.
fn owned(parts: &[&Value], moment: Timestamp) -> Option<OwnedMachine> {
    let part = |is_it: &dyn Fn(&str) -> bool| {
        parts.iter().find(|part| part["kind"].as_str().is_some_and(is_it)).map(|part| (*part).clone())
    };
    let mut machine: Machine = serde_json::from_value(part(&|kind| kind == "Machine")?).ok()?;
    machine.metadata.creation_timestamp = Some(to_k8s(moment));
    let bootstrap = part(&|kind| kind == "KubeadmConfig").and_then(|c| serde_json::from_value(c).ok());
    let infrastructure = part(&|kind| kind != "Machine" && kind != "KubeadmConfig");
    Some(OwnedMachine { machine, bootstrap, infrastructure })
}

/// Machines in deletion are gone, Machines on their way are up, and unhealthy ones stay unhealthy.
fn settle(observed: &mut Observed, moment: Timestamp) {
    observed.machines.retain(|m| !m.is_deleting());
    let types: Vec<&str> =
        observed.component_conditions().iter().copied().chain([ETCD_MEMBER, "UpToDate", "Ready"]).collect();
    for owned in observed.machines.iter_mut().filter(|m| m.node_name().is_none()) {
        come_up(&mut owned.machine, &types, moment);
    }
    if matches!(observed.workload, Workload::Assumed(_) | Workload::Reached(_)) {
        observed.workload = Workload::Assumed(assumed_members(observed));
    }
}

fn come_up(machine: &mut Machine, types: &[&str], moment: Timestamp) {
    let name = machine.metadata.name.clone().unwrap_or_default();
    let status: &mut MachineStatus = machine.status.get_or_insert_default();
    status.node_ref = Some(NodeRef { name });
    for type_ in types {
        if find(&status.conditions, type_).is_none_or(|c| c.status != "True") {
            let up = condition(type_, Status::True, "Assumed", "");
            setter::set(&mut status.conditions, up, None, moment);
        }
    }
}

/// The MachineSets made, scaled and deleted after the first pass of a MachineDeployment, until it settles.
pub(super) fn of_deployment(
    first: &machine_deployment::Observed,
    plan: &crate::plan::Plan,
    now: Timestamp,
) -> Vec<NextStep> {
    let mut observed = first.clone();
    let (mut steps, mut all) = (plan.steps.clone(), Vec::new());
    for pass in 1..PASSES_MAX {
        let moment = later(now, pass);
        for step in &steps {
            step.writes.iter().for_each(|write| written(&mut observed, write));
        }
        observed.sets.iter_mut().for_each(|set| full(Arc::make_mut(set)));
        counted(&mut observed);
        let mut next = machine_deployment::plan(&observed, moment).steps;
        next.retain(|step| step.writes.iter().any(is_about_replicas));
        if next.is_empty() || next == steps {
            break;
        }
        all.extend(step::steps(&next, &|name| replicas_of(&observed.sets, name)));
        steps = next;
    }
    all
}

/// How many replicas a MachineSet has, by name.
pub(super) fn replicas_of(sets: &[Arc<MachineSet>], name: &str) -> Option<i32> {
    sets.iter().find(|set| set.metadata.name.as_deref() == Some(name))?.spec.replicas
}

fn is_about_replicas(write: &Write) -> bool {
    match write {
        Write::Patch { body, .. } | Write::Apply { body, .. } => body["spec"]["replicas"].is_i64(),
        Write::Create { .. } | Write::Delete { .. } => true,
        _ => false,
    }
}

fn written(observed: &mut machine_deployment::Observed, write: &Write) {
    match write {
        Write::Create { content, .. } => {
            let made = serde_json::from_value::<MachineSet>(content.clone()).ok();
            observed.sets.extend(made.map(Arc::new));
        }
        Write::Delete { object } => {
            observed.sets.retain(|set| set.metadata.name.as_deref() != Some(object.key.name.as_str()));
        }
        Write::Patch { object, body } | Write::Apply { object, body, .. } => {
            let mut sets = observed.sets.iter_mut();
            if let Some(set) = sets.find(|set| set.metadata.name.as_deref() == Some(object.key.name.as_str()))
            {
                let replicas = body["spec"]["replicas"].as_i64().and_then(|n| i32::try_from(n).ok());
                let set = Arc::make_mut(set);
                set.spec.replicas = replicas.or(set.spec.replicas);
            }
        }
        _ => {}
    }
}

/// All Machines that it wants are there and available.
fn full(set: &mut MachineSet) {
    let (wanted, generation) = (set.spec.replicas.unwrap_or(0), set.metadata.generation);
    let status = set.status.get_or_insert_default();
    status.replicas = Some(wanted);
    status.ready_replicas = Some(wanted);
    status.available_replicas = Some(wanted);
    status.observed_generation = generation;
}

fn counted(observed: &mut machine_deployment::Observed) {
    let generation = observed.deployment.metadata.generation;
    let total: i32 = observed.sets.iter().filter_map(|set| set.spec.replicas).sum();
    let status = observed.deployment.status.get_or_insert_default();
    status.replicas = Some(total);
    status.available_replicas = Some(total);
    status.observed_generation = generation;
}
