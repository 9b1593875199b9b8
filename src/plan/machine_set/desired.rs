//! Machines as their MachineSet wants them, and the objects made with them. Pure.
//! Source: cluster-api `core/reconcilers/machineset/machineset_controller.go` (`computeDesiredMachine`),
//! v1.14.0 (MS-D1, MS-3).
//! Intended difference: labels and annotations that the template no longer has stay on existing
//! Machines (upstream's server-side apply removes them).

use serde_json::Value;

use super::Observed;
use crate::api::key::{ObjectKey, label};
use crate::api::machine::{Machine, MachineDeletion};
use crate::api::machine_set::MachineSet;
use crate::api::names::{self, label as labels};
use crate::api::reference::ContractRef;
use crate::plan::naming::{NamingError, label_value, machine_name};
use crate::plan::ownership::owner;
use crate::plan::template::{Clone as Made, clone_of};

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

    let mut machine = Machine { spec: set.spec.template.spec.clone(), ..Machine::default() };
    machine.metadata.name = Some(name.clone());
    machine.metadata.namespace.clone_from(&set.metadata.namespace);
    machine.metadata.finalizers = Some(vec![names::finalizer::MACHINE.to_owned()]);
    machine.metadata.owner_references = Some(vec![owner(set, true)]);
    follow(&mut machine, set);

    let clone = |template: &Value| {
        let template_meta = set.spec.template.metadata.clone().unwrap_or_default();
        clone_of(
            template,
            &Made {
                key: key.clone(),
                cluster_name: &set.spec.cluster_name,
                labels: machine.metadata.labels.clone().unwrap_or_default(),
                annotations: template_meta.annotations,
                owner: owner(set, true),
            },
        )
    };
    let infrastructure = clone(infrastructure);
    let bootstrap = observed.bootstrap_template.as_ref().map(clone);
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

/// An existing Machine with everything that follows its MachineSet without being replaced. One in
/// deletion follows only in what still matters to it.
pub(super) fn synced(live: &Machine, set: &MachineSet) -> Machine {
    let mut machine = live.clone();
    if live.metadata.deletion_timestamp.is_some() {
        in_place(&mut machine, set);
        let deletion = machine.spec.deletion.get_or_insert_with(MachineDeletion::default);
        deletion.node_deletion_timeout_seconds.get_or_insert(NODE_DELETION_TIMEOUT_S);
    } else {
        follow(&mut machine, set);
    }
    machine
}

fn follow(machine: &mut Machine, set: &MachineSet) {
    in_place(machine, set);
    machine.spec.cluster_name.clone_from(&set.spec.cluster_name);
    let template = set.spec.template.metadata.clone().unwrap_or_default();
    let own = machine.metadata.labels.get_or_insert_default();
    own.extend(template.labels);
    own.insert(labels::CLUSTER_NAME.to_owned(), set.spec.cluster_name.clone());
    own.insert(labels::SET_NAME.to_owned(), label_value(set_name(set)));
    if let Some(deployment) = label(set, labels::DEPLOYMENT_NAME) {
        own.insert(labels::DEPLOYMENT_NAME.to_owned(), deployment.to_owned());
    }
    if !template.annotations.is_empty() {
        machine.metadata.annotations.get_or_insert_default().extend(template.annotations);
    }
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
