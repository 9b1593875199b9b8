//! Machines that are updated where they stand instead of being replaced: which one may be, what extensions are asked
//! about it, and the writes that begin it. One at a time, for an outdated Machine would otherwise be deleted now: the
//! control plane could do without it should the update fail. Must not know how extensions are reached.
//! Source: KCP-IP, KCP-CAN, KCP-14; `update.go` (`rollingUpdate`), `inplace.go`, `inplace_canupdatemachine.go`,
//! `inplace_trigger.go`, v1.14.2.
//! Intended difference: labels and annotations of the infrastructure template's own metadata are applied together with
//! its spec, for their owner here is the manager of the spec.

use std::ops::ControlFlow;

use serde_json::{Map, Value, json};

use super::preflight::{self, Intent};
use super::{Act, Blocked, Flow, Observed, Pending, Sync, Template, Why, desired};
use crate::plan::in_place::mark_pending;
use crate::plan::ownership::owner;
use crate::plan::{Write, field_owners};
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::up_to_date::{self, Difference, kubeadm};
use crate::status::in_place::{Replace, Verdict};
use capi_types::bootstrap::KubeadmConfig;
use capi_types::hook::{Hook, MachineObjects, subject};
use capi_types::key::ObjectRef;
use capi_types::machine::Machine;
use capi_types::names::{annotation, manager};
use capstan_base::time::Timestamp;
use k8s_machinery::merge;

/// The Machine on whose answer the plan depends, if there is one.
pub fn asks(observed: &Observed, now: Timestamp) -> Option<String> {
    let owner = &observed.control_plane;
    let is_outdated =
        |m: &&OwnedMachine| !m.is_deleting() && !up_to_date::control_plane_machine(owner, m, now).is_empty();
    // Without an outdated Machine nothing has to be decided, and no copy for `decide` is made.
    let rolls = observed.in_place.is_on() && observed.machines.iter().any(|m| is_outdated(&m));
    rolls.then(|| super::decide(observed.clone(), now).asks).flatten()
}

/// The outdated Machines that may be updated in place as far as their owner and people have a say, by name.
pub fn candidates(observed: &Observed, now: Timestamp) -> Vec<String> {
    let may = |m: &&OwnedMachine| {
        let differences = up_to_date::control_plane_machine(&observed.control_plane, m, now);
        !m.is_deleting() && !differences.is_empty() && is_eligible(m, &differences)
    };
    observed.machines.iter().filter(may).map(|m| m.name().to_owned()).collect()
}

/// Begins what was marked and not finished, such as by a process that ended in between.
pub(super) fn finish(p: &mut Pending) -> Flow {
    let begun = |m: &&OwnedMachine| m.annotation(annotation::UPDATE_IN_PROGRESS).is_some() && !is_pending(m);
    let names: Vec<String> = p.observed.machines.iter().filter(begun).map(|m| m.name().to_owned()).collect();
    if names.is_empty() {
        return Flow::Continue(());
    }
    // Every one: an earlier pass chose them, and none may stay half begun.
    for name in names {
        begin(p, &name, Why::UpdateBegun)?;
    }
    Flow::Break(())
}

fn is_pending(machine: &OwnedMachine) -> bool {
    let hooks = machine.annotation(annotation::PENDING_HOOKS).unwrap_or_default();
    hooks.split(',').any(|hook| hook.trim() == Hook::UpdateMachine.as_str())
}

/// May this outdated Machine be updated in place, as far as its owner and people have a say?
pub(super) fn is_eligible(machine: &OwnedMachine, differences: &[Difference]) -> bool {
    let marks = [annotation::DELETE_MACHINE, annotation::REMEDIATE_MACHINE];
    // New certificates and a restart come with a new Machine only.
    let replaced = |d: &Difference| matches!(d, Difference::CertificatesExpire | Difference::RolloutAfter);
    marks.iter().all(|mark| machine.annotation(mark).is_none()) && !differences.iter().any(replaced)
}

/// Updates the Machine in place, or waits for that. `Continue`: it has to be replaced, because of this.
pub(super) fn attempt(p: &mut Pending, name: &str, why: Why) -> ControlFlow<(), String> {
    let all = preflight::check(&p.observed, &p.conditions, Intent::Update);
    if !all.blockers.is_empty() {
        // The candidate itself may be what is unhealthy: then it is replaced instead of updated.
        let others = preflight::check(&p.observed, &p.conditions, Intent::Remove(name));
        if others.blockers.is_empty() {
            return ControlFlow::Continue("it is not well, and all others are".to_owned());
        }
        preflight::require(p, Intent::Update)?;
    }
    match p.observed.in_place.of(name).cloned() {
        Some(Ok(Verdict::InPlace { .. })) => {
            begin(p, name, why)?;
            ControlFlow::Break(())
        }
        Some(Ok(Verdict::Replace(reason))) => ControlFlow::Continue(reason.to_string()),
        Some(Err(detail)) => {
            p.fail(Blocked::NoAnswer { machine: name.to_owned(), detail })?;
            ControlFlow::Break(())
        }
        None => {
            // The caller asks extensions about this one and plans again; no answer is guessed.
            p.asks = Some(name.to_owned());
            p.wait(Blocked::NotAsked { machine: name.to_owned() }, None)?;
            ControlFlow::Break(())
        }
    }
}

/// The writes that hand the Machine to its controller, in upstream's order: the mark, the infrastructure (the most
/// likely to be refused), the configuration, the Machine, and the hook that its controller waits for.
fn begin(p: &mut Pending, name: &str, why: Why) -> Flow {
    let Some(owned) = p.observed.machine(name) else { return Flow::Break(()) };
    let wanted = match Desired::of(&p.observed, owned) {
        Ok(wanted) => wanted,
        Err(reason) => {
            let (machine, what) = (name.to_owned(), missing(&reason));
            return p.fail(Blocked::CannotBegin { machine, what });
        }
    };
    let writes = writes(owned, &wanted);
    p.step(Act::UpdateInPlace(Box::new(Sync { name: name.to_owned(), writes })), why);
    Flow::Continue(())
}

fn missing(reason: &Replace) -> String {
    match reason {
        Replace::Missing { what } => what.clone(),
        other => other.to_string(),
    }
}

fn writes(owned: &OwnedMachine, wanted: &Desired) -> Vec<Write> {
    let object = ObjectRef::of(&owned.machine);
    let annotate = |key: &str, value: &str| {
        let body = json!({ "metadata": { "annotations": { key: value } } });
        Write::Patch { object: object.clone(), body }
    };
    let mut writes = Vec::new();
    // First of all: a pass that ends in between is finished by the next one because of it.
    if owned.annotation(annotation::UPDATE_IN_PROGRESS).is_none() {
        writes.push(annotate(annotation::UPDATE_IN_PROGRESS, ""));
    }
    let manager = manager::KUBEADM_CONTROL_PLANE;
    if let Some(live) = &owned.infrastructure {
        writes.extend(field_owners::keep_value(live, wanted.applied_infrastructure(), manager));
    }
    if let Some(live) = owned.bootstrap.as_ref().map(value_of) {
        let applied = field_owners::keep_value(&live, wanted.applied_bootstrap(), manager);
        // The wanted configuration is one for joining; an apply takes the section of a first
        // Machine away only where its manager owns it.
        let is_init = live.pointer("/spec/initConfiguration").is_some();
        let removes = applied.iter().any(|write| match write {
            Write::Apply { body, .. } => body.pointer("/spec/initConfiguration").is_some_and(Value::is_null),
            _ => false,
        });
        writes.extend(applied);
        if is_init && !removes {
            // Objects of older releases: no manager owns the field.
            let object = owned.bootstrap.as_ref().map(ObjectRef::of);
            let body = json!({ "spec": { "initConfiguration": null } });
            writes.extend(object.map(|object| Write::Patch { object, body }));
        }
    }
    writes.extend(field_owners::keep(&owned.machine, &wanted.machine, manager));
    let hooks = mark_pending(owned.annotation(annotation::PENDING_HOOKS), Hook::UpdateMachine.as_str());
    writes.push(annotate(annotation::PENDING_HOOKS, &hooks));
    let message = "Machine starting in-place update".to_owned();
    writes.push(Write::Event {
        about: object,
        warning: false,
        reason: "SuccessfulStartInPlaceUpdate",
        message,
    });
    writes
}

/// A Machine and the objects behind it as the control plane wants them now.
#[derive(Clone, Debug)]
struct Desired {
    machine: Machine,
    infrastructure: Value,
    /// The template's own labels and annotations, which the manager of the spec owns.
    template: [Map<String, Value>; 2],
    bootstrap: KubeadmConfig,
}

impl Desired {
    fn of(observed: &Observed, owned: &OwnedMachine) -> Result<Self, Replace> {
        let absent = |what: &str| Replace::Missing { what: what.to_owned() };
        let live = owned.infrastructure.as_ref().ok_or_else(|| absent("InfraMachine"))?;
        let cloned = &live["metadata"]["annotations"];
        let origin = [annotation::CLONED_FROM_NAME, annotation::CLONED_FROM_GROUP_KIND];
        let Template::Found(template) = &observed.template else { return Err(absent("InfraMachine")) };
        // A Machine without an origin counts as matching
        // its template: there is nothing to update it to.
        if origin.iter().any(|key| !cloned[*key].is_string()) {
            return Err(absent("InfraMachine"));
        }
        let config = owned.bootstrap.as_ref().ok_or_else(|| absent("KubeadmConfig"))?;
        let mut machine = desired::kept_machine(observed, owned);
        machine.spec.version = Some(observed.control_plane.spec.version.clone());
        let mut bootstrap = desired::joining_config(observed, owned.name());
        bootstrap.metadata.name.clone_from(&config.metadata.name);
        bootstrap.metadata.owner_references = owners(observed, &value_of(config));
        let mut infrastructure = desired::infrastructure(observed, owned.name());
        infrastructure["metadata"]["name"] = live["metadata"]["name"].clone();
        match owners(observed, live) {
            Some(owners) => infrastructure["metadata"]["ownerReferences"] = json!(owners),
            None => remove(&mut infrastructure["metadata"], "ownerReferences"),
        }
        let pairs = |field: &str| template.pointer(&format!("/spec/template/metadata/{field}"));
        let template = ["labels", "annotations"].map(|f| pairs(f).and_then(Value::as_object).cloned());
        let mut template = template.map(Option::unwrap_or_default);
        let (labels, annotations) = (desired::labels(observed), desired::template_annotations(observed));
        // What the manager of the metadata keeps in step must not get a second owner.
        template[0].retain(|key, _| !labels.contains_key(key));
        template[1].retain(|key, _| !annotations.contains_key(key));
        Ok(Self { machine, infrastructure, template, bootstrap })
    }

    /// Without what is kept in step anyway; with the mark that the Machine's controller waits for.
    fn applied_infrastructure(&self) -> Value {
        let mut applied = self.infrastructure.clone();
        let origin = [annotation::CLONED_FROM_NAME, annotation::CLONED_FROM_GROUP_KIND];
        let mut annotations = self.template[1].clone();
        // The manager that applies this owns them since the creation: left out, they would vanish.
        for key in origin {
            annotations.insert(key.to_owned(), applied["metadata"]["annotations"][key].clone());
        }
        annotations.insert(annotation::UPDATE_IN_PROGRESS.to_owned(), json!(""));
        applied["metadata"]["annotations"] = Value::Object(annotations);
        if self.template[0].is_empty() {
            remove(&mut applied["metadata"], "labels");
        } else {
            applied["metadata"]["labels"] = Value::Object(self.template[0].clone());
        }
        applied
    }

    fn applied_bootstrap(&self) -> Value {
        let mut applied = value_of(&self.bootstrap);
        remove(&mut applied["metadata"], "labels");
        applied["metadata"]["annotations"] = json!({ annotation::UPDATE_IN_PROGRESS: "" });
        applied
    }
}

/// The control plane owns what no Machine owns yet.
fn owners(
    observed: &Observed,
    live: &Value,
) -> Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>> {
    let owners = live["metadata"]["ownerReferences"].as_array();
    let of_machine = owners.is_some_and(|all| all.iter().any(|owner| owner["kind"] == "Machine"));
    (!of_machine).then(|| vec![owner(&observed.control_plane, false)])
}

/// What extensions are asked about a Machine. Two of the objects have to be completed by the server: dry runs of
/// applies fill in what others own.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// As it is, complete.
    pub machine: Value,
    /// As it should be: an intent of [`manager::KUBEADM_CONTROL_PLANE`] for a dry run.
    pub machine_intent: Value,
    /// Intents for dry runs: as it is, and as it should be.
    pub infrastructure: [Value; 2],
    /// As it is, and as it should be.
    pub bootstrap: [Value; 2],
}

/// What to ask about the Machine `name`.
///
/// # Errors
/// Why it has to be replaced without asking.
pub fn question(observed: &Observed, name: &str) -> Result<Question, Replace> {
    let gone = || Replace::Missing { what: format!("Machine {name}") };
    let owned = observed.machine(name).ok_or_else(gone)?;
    let wanted = Desired::of(observed, owned)?;
    let mut current = owned.infrastructure.clone().unwrap_or_default();
    for field in ["labels", "annotations"] {
        // These are kept in step without an update.
        current["metadata"][field] = wanted.infrastructure["metadata"][field].clone();
    }
    let metadata = value_of(&wanted.bootstrap);
    let spec = observed.control_plane.spec.kubeadm_config_spec.as_ref();
    let spec = spec.map_or(Value::Null, |spec| serde_json::to_value(spec).unwrap_or_default());
    let live = owned.bootstrap.as_ref().map_or(Value::Null, |live| value_of(live)["spec"].clone());
    let sides = kubeadm::prepared(&live, &spec, &observed.control_plane.spec.version);
    Ok(Question {
        machine: value_of(&owned.machine),
        machine_intent: value_of(&wanted.machine),
        infrastructure: [intent_of(&current), wanted.infrastructure],
        bootstrap: sides.map(|spec| {
            let mut config = metadata.clone();
            config["spec"] = spec;
            config
        }),
    })
}

impl Question {
    /// As the request has them: `machine` and `infrastructure` as the server completed the intents.
    pub fn sides(&self, machine: &Value, infrastructure: &[Value; 2]) -> [MachineObjects; 2] {
        let side = |machine: &Value, index: usize| MachineObjects {
            machine: subject(machine),
            infrastructure_machine: subject(&infrastructure[index]),
            bootstrap_config: subject(&self.bootstrap[index]),
        };
        [side(&self.machine, 0), side(machine, 1)]
    }
}

impl Question {
    /// The same where no dry run may be sent: the intents are laid over the objects as they are, and nothing is filled in.
    pub fn sides_without_server(&self) -> [MachineObjects; 2] {
        let over = |base: &Value, intent: &Value| {
            let mut completed = base.clone();
            merge::apply(&mut completed, intent);
            completed
        };
        let machine = over(&self.machine, &self.machine_intent);
        let [current, desired] = &self.infrastructure;
        self.sides(&machine, &[current.clone(), over(current, desired)])
    }
}

/// What of an object an apply sends. Source: `FilterIntent`, `internal/util/ssa`.
fn intent_of(object: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "labels", "annotations", "finalizers", "ownerReferences"] {
        let value = &object["metadata"][field];
        if !value.is_null() {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": metadata, "spec": object["spec"],
    })
}

/// Typed objects always serialise: their maps have text keys.
fn value_of(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
