//! The Machines made, updated and deleted after the first pass of a control plane, until it settles. Must not decide any.

use serde_json::Value;

use super::{Course, PASSES_MAX, later, placeholder};
use crate::forecast::in_place::Way;
use crate::forecast::next_steps;
use capi_rules::observe::assumed_members;
use capi_rules::plan::control_plane::{Decision, Observed, Workload, decide};
use capi_rules::plan::{Step, Write};
use capi_rules::status::conditions::setter::{self, condition};
use capi_rules::status::control_plane::OwnedMachine;
use capi_rules::status::control_plane::machine::ETCD_MEMBER;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::condition::{Status, find};
use capi_types::key::ObjectRef;
use capi_types::machine::{Machine, MachineStatus};
use capi_types::names::annotation;
use capi_types::reference::NodeRef;
use capstan_base::time::{Timestamp, to_k8s};
use k8s_machinery::merge;

/// The course after `first`.
pub(in crate::forecast) fn of_control_plane(first: &Decision, now: Timestamp) -> Course {
    let (mut observed, mut steps) = (first.observed.clone(), first.plan.steps.clone());
    let mut course = Course { lowest: available(&observed, None), ..Course::default() };
    let mut made = 1;
    for pass in 1..PASSES_MAX {
        let moment = later(now, pass);
        let mut is_repeated = false;
        for step in &steps {
            is_repeated |= note(step, &observed, &mut course);
            made += usize::from(carried_out(&mut observed, step, moment));
        }
        settle(&mut observed, moment);
        observed.name_suffix = placeholder(made);
        let decision = decide(observed.clone(), moment);
        steps = decision.plan.steps;
        steps.retain(Step::is_about_machines);
        if steps.is_empty() || is_repeated {
            break;
        }
        course.steps.extend(next_steps(&steps, &|_| None));
    }
    course
}

/// What a step means for Machines that were there before. Answers whether a Machine is updated once more, as one whose
/// update changes nothing would be for ever.
fn note(step: &Step, observed: &Observed, course: &mut Course) -> bool {
    let (name, way) = match (step.updated_machine(), step.deleted_machine()) {
        (Some(name), _) => (name, Way::InPlace),
        (None, Some(name)) => (name, Way::Replacement),
        (None, None) => return false,
    };
    course.lowest = course.lowest.min(available(observed, Some(name)));
    let is_repeated = course.ways.iter().any(|(known, ..)| known == name);
    if !is_repeated {
        course.ways.push((name.to_owned(), way, step.reason.sentence.clone()));
    }
    is_repeated
}

/// Machines with a Node, without one of them.
fn available(observed: &Observed, without: Option<&str>) -> usize {
    let is_there =
        |m: &&OwnedMachine| !m.is_deleting() && m.node_name().is_some() && Some(m.name()) != without;
    observed.machines.iter().filter(is_there).count()
}

/// Was a Machine made?
fn carried_out(observed: &mut Observed, step: &Step, moment: Timestamp) -> bool {
    let mut parts: Vec<&Value> = Vec::new();
    let updated = step.updated_machine();
    for write in &step.writes {
        match write {
            Write::Create { content, .. } => parts.push(content),
            Write::Delete { object } => observed.machines.retain(|m| m.name() != object.key.name),
            Write::Patch { object, body } | Write::Apply { object, body, .. } => {
                let adopted = observed.orphans.iter().position(|m| m.name() == object.key.name);
                observed.machines.extend(adopted.map(|at| observed.orphans.remove(at)));
                let mine = updated.and_then(|name| observed.machines.iter_mut().find(|m| m.name() == name));
                if let Some(owned) = mine {
                    write_part(owned, object, body);
                }
            }
            _ => {}
        }
    }
    if let Some(owned) = updated.and_then(|name| observed.machines.iter_mut().find(|m| m.name() == name)) {
        end_update(owned);
    }
    let made = owned(&parts, moment);
    let is_made = made.is_some();
    observed.machines.extend(made);
    is_made
}

/// One of the objects of a Machine that is updated, with what is written to it.
fn write_part(owned: &mut OwnedMachine, object: &ObjectRef, body: &Value) {
    fn merged<T: serde::Serialize + serde::de::DeserializeOwned>(before: &T, body: &Value) -> Option<T> {
        let mut value = serde_json::to_value(before).ok()?;
        merge::apply(&mut value, body);
        serde_json::from_value(value).ok()
    }
    match object.gvk.kind.as_str() {
        "Machine" => {
            if let Some(machine) = merged::<Machine>(&owned.machine, body) {
                owned.machine = machine;
            }
        }
        "KubeadmConfig" => {
            let config = owned.bootstrap.as_ref().and_then(|config| merged::<KubeadmConfig>(config, body));
            owned.bootstrap = config.or(owned.bootstrap.take());
        }
        _ => {
            if let Some(host) = &mut owned.infrastructure {
                merge::apply(host, body);
            }
        }
    }
}

/// Its extension has done it.
fn end_update(owned: &mut OwnedMachine) {
    let marks = [annotation::UPDATE_IN_PROGRESS, annotation::PENDING_HOOKS];
    if let Some(annotations) = &mut owned.machine.metadata.annotations {
        annotations.retain(|key, _| !marks.contains(&key.as_str()));
    }
    for metadata in owned.bootstrap.iter_mut().map(|config| &mut config.metadata) {
        if let Some(annotations) = &mut metadata.annotations {
            annotations.remove(annotation::UPDATE_IN_PROGRESS);
        }
    }
    let host = owned.infrastructure.as_mut().and_then(|host| host["metadata"]["annotations"].as_object_mut());
    host.into_iter().for_each(|annotations| drop(annotations.remove(annotation::UPDATE_IN_PROGRESS)));
    let version = owned.machine.spec.version.clone();
    let status = owned.machine.status.as_mut();
    if let (Some(info), Some(version)) = (status.and_then(|s| s.node_info.as_mut()), version) {
        info.kubelet_version = version;
    }
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

/// Machines in deletion are gone, Machines on their way are up, updates under way are done, and unhealthy Machines stay
/// unhealthy.
fn settle(observed: &mut Observed, moment: Timestamp) {
    observed.machines.retain(|m| !m.is_deleting());
    let types: Vec<&str> =
        observed.component_conditions().iter().copied().chain([ETCD_MEMBER, "UpToDate", "Ready"]).collect();
    for owned in &mut observed.machines {
        let is_updated = owned.is_updating_in_place();
        if is_updated {
            end_update(owned);
        }
        if is_updated || owned.node_name().is_none() {
            come_up(&mut owned.machine, &types, moment);
        }
    }
    if matches!(observed.workload, Workload::Assumed(_) | Workload::Reached(_)) {
        observed.workload = Workload::Assumed(assumed_members(observed));
    }
}

fn come_up(machine: &mut Machine, types: &[&str], moment: Timestamp) {
    let name = machine.metadata.name.clone().unwrap_or_default();
    let status: &mut MachineStatus = machine.status.get_or_insert_default();
    status.node_ref.get_or_insert(NodeRef { name });
    for type_ in types {
        if find(&status.conditions, type_).is_none_or(|c| c.status != "True") {
            let up = condition(type_, Status::True, "Assumed", "");
            setter::set(&mut status.conditions, up, None, moment);
        }
    }
}
