//! Machines as their MachineSet wants them, and the objects made with them. Pure.
//! Source: cluster-api `core/reconcilers/machineset/machineset_controller.go` (`computeDesiredMachine`),
//! v1.14.2 (MS-D1, MS-3).
//! Intended difference: of the finalizers only the own one is applied (upstream repeats those that it read, and so
//! can put back one that was just taken away).

use std::collections::BTreeMap;

use serde_json::Value;

use super::Observed;
use crate::plan::naming::{NamingError, label_value, machine_name};
use crate::plan::ownership::owner;
use crate::plan::template::{Clone as Made, clone_of};
use capi_types::key::{ObjectKey, label};
use capi_types::machine::{Machine, MachineDeletion};
use capi_types::machine_set::MachineSet;
use capi_types::names::{self, label as labels};
use capi_types::reference::ContractRef;

const DEFAULT_NAMING: &str = "{{ .machineSet.name }}-{{ .random }}";
const NODE_DELETION_TIMEOUT_S: i32 = 10;

/// A Machine to be created, with its bootstrap configuration and infrastructure machine.
pub(super) struct Trio {
    pub(super) machine: Machine,
    pub(super) bootstrap: Option<Value>,
    pub(super) infrastructure: Value,
}

fn set_name(set: &MachineSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// One new Machine and the two objects it refers to, all of the same name.
pub(super) fn new_machine(
    observed: &Observed,
    infrastructure: &Value,
    suffix: &str,
) -> Result<Trio, NamingError> {
    let set = &observed.set;
    let naming =
        set.spec.machine_naming.as_ref().and_then(|n| n.template.as_deref()).unwrap_or(DEFAULT_NAMING);
    let variables = [(".cluster.name", set.spec.cluster_name.as_str()), (".machineSet.name", set_name(set))];
    let name = machine_name(naming, &variables, suffix)?;
    let key = ObjectKey::new(set.metadata.namespace.clone().unwrap_or_default(), &name);

    let mut machine = owned(set, Some(name.clone()));

    let clone = |template: &Value| {
        clone_of(
            template,
            &Made {
                key: key.clone(),
                cluster_name: &set.spec.cluster_name,
                labels: machine_labels(set),
                annotations: machine_annotations(set),
                owner: owner(set, true),
            },
        )
    };
    let infrastructure = clone(infrastructure);
    let bootstrap = observed.bootstrap_template.as_deref().map(clone);
    machine.spec.infrastructure_ref = reference_to(&machine.spec.infrastructure_ref, &name);
    if bootstrap.is_some()
        && let Some(config) = &machine.spec.bootstrap.config_ref
    {
        machine.spec.bootstrap.config_ref = Some(reference_to(config, &name));
    }
    Ok(Trio { machine, bootstrap, infrastructure })
}

fn reference_to(template: &ContractRef, name: &str) -> ContractRef {
    ContractRef {
        api_group: template.api_group.clone(),
        kind: template.kind.trim_end_matches("Template").to_owned(),
        name: name.to_owned(),
    }
}

/// What of an existing Machine belongs to its MachineSet: everything that follows it without a replacement, and
/// what the Machine was made with.
pub(super) fn kept(live: &Machine, set: &MachineSet) -> Machine {
    let mut machine = owned(set, live.metadata.name.clone());
    machine.spec.bootstrap.config_ref.clone_from(&live.spec.bootstrap.config_ref);
    machine.spec.infrastructure_ref.clone_from(&live.spec.infrastructure_ref);
    machine.spec.version.clone_from(&live.spec.version);
    machine.spec.failure_domain.clone_from(&live.spec.failure_domain);
    machine
}

/// The same of a Machine that becomes what the template says.
pub(super) fn updated(live: &Machine, set: &MachineSet) -> Machine {
    let mut machine = kept(live, set);
    machine.spec.version.clone_from(&set.spec.template.spec.version);
    machine.spec.failure_domain.clone_from(&set.spec.template.spec.failure_domain);
    machine
}

/// What of an object behind a Machine follows its template in an update in place: spec, where it was cloned from, and
/// the template's own labels and annotations. What is kept in step anyway is left out; the mark says that it is ready.
/// Source: `completeMoveMachine`.
/// Intended difference: upstream leaves the template's own labels and annotations as they were.
pub(super) fn updated_clone(live: &Value, set: &MachineSet, template: &Value) -> Value {
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let own = Made {
        key: ObjectKey::new(set.metadata.namespace.clone().unwrap_or_default(), name),
        cluster_name: &set.spec.cluster_name,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        owner: owner(set, true),
    };
    let mut made = clone_of(template, &own);
    let (labels, annotations) = (machine_labels(set), machine_annotations(set));
    let metadata = &mut made["metadata"];
    retain(metadata, "labels", |key| !labels.contains_key(key));
    retain(metadata, "annotations", |key| !annotations.contains_key(key));
    metadata["annotations"][names::annotation::UPDATE_IN_PROGRESS] = Value::String(String::new());
    // The Machine owns the object by now, and a server refuses a second controller. An empty map
    // would make the manager an owner of the field itself.
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("ownerReferences");
        metadata.retain(|_, value| value.as_object().is_none_or(|pairs| !pairs.is_empty()));
    }
    made
}

fn retain(metadata: &mut Value, field: &str, keeps: impl Fn(&str) -> bool) {
    if let Some(pairs) = metadata[field].as_object_mut() {
        pairs.retain(|key, _| keeps(key));
    }
}

/// A Machine in deletion follows only in what still matters to it.
pub(super) fn leaving(live: &Machine, set: &MachineSet) -> Machine {
    let mut machine = live.clone();
    in_place(&mut machine, set);
    let deletion = machine.spec.deletion.get_or_insert_with(MachineDeletion::default);
    // Upstream fills its default in: without a timeout the deletion of a Node is tried for ever.
    deletion.node_deletion_timeout_seconds.get_or_insert(NODE_DELETION_TIMEOUT_S);
    machine
}

fn owned(set: &MachineSet, name: Option<String>) -> Machine {
    let mut machine = Machine { spec: set.spec.template.spec.clone(), ..Machine::default() };
    machine.metadata.name = name;
    machine.metadata.namespace.clone_from(&set.metadata.namespace);
    // From the first write on: a Machine deleted before
    // its controller saw it would leave its host behind.
    machine.metadata.finalizers = Some(vec![names::finalizer::MACHINE.to_owned()]);
    machine.metadata.owner_references = Some(vec![owner(set, true)]);
    machine.metadata.labels = Some(machine_labels(set));
    machine.metadata.annotations = Some(machine_annotations(set)).filter(|all| !all.is_empty());
    machine.spec.cluster_name.clone_from(&set.spec.cluster_name);
    machine
}

/// Labels of a Machine and of the objects behind it.
pub(super) fn machine_labels(set: &MachineSet) -> BTreeMap<String, String> {
    let mut all = set.spec.template.metadata.clone().unwrap_or_default().labels;
    all.insert(labels::CLUSTER_NAME.to_owned(), set.spec.cluster_name.clone());
    all.insert(labels::SET_NAME.to_owned(), label_value(set_name(set)));
    if let Some(deployment) = label(set, labels::DEPLOYMENT_NAME) {
        all.insert(labels::DEPLOYMENT_NAME.to_owned(), deployment.to_owned());
    }
    all
}

/// Annotations of a Machine and of the objects behind it.
pub(super) fn machine_annotations(set: &MachineSet) -> BTreeMap<String, String> {
    set.spec.template.metadata.clone().unwrap_or_default().annotations
}

fn in_place(machine: &mut Machine, set: &MachineSet) {
    let wanted = &set.spec.template.spec;
    machine.spec.readiness_gates.clone_from(&wanted.readiness_gates);
    machine.spec.min_ready_seconds = wanted.min_ready_seconds;
    machine.spec.taints.clone_from(&wanted.taints);
    if wanted.deletion.is_some() {
        machine.spec.deletion.clone_from(&wanted.deletion);
    }
}
