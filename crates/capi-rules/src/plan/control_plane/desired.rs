//! What a control plane's Machines, and the objects behind them, look like. Must not know whether any
//! of them exists.
//! Source: KCP-D1; `controlplane/kubeadm/pkg/desiredstate/desired_state.go`, v1.14.2.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{NewMachine, Observed, Template};
use crate::plan::naming::{self, NamingError};
use crate::plan::ownership::owner;
use crate::plan::template::{Clone, clone_of};
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::up_to_date::kubeadm;
use capi_types::bootstrap::{KubeadmConfig, KubeadmConfigSpec};
use capi_types::condition_types::CONTROL_PLANE_GATES;
use capi_types::key::ObjectKey;
use capi_types::machine::{Bootstrap, Machine, MachineSpec, ReadinessGate};
use capi_types::name_template::RANDOM_BYTES;
use capi_types::names::{BOOTSTRAP_GROUP, annotation, label};
use capi_types::reference::ContractRef;

const NAMING_TEMPLATE: &str = "{{ .kubeadmControlPlane.name }}-{{ .random }}";

/// A Machine that joins (or is the first), with its configuration and infrastructure machine.
pub fn new_machine(
    observed: &Observed,
    failure_domain: Option<String>,
    joins: bool,
) -> Result<NewMachine, NamingError> {
    let name = machine_name(observed)?;
    let namespace = observed.control_plane.metadata.namespace.clone();
    let meta = |annotations, owner| ObjectMeta {
        name: Some(name.clone()),
        namespace: namespace.clone(),
        labels: Some(labels(observed)),
        annotations: Some(annotations).filter(|a: &BTreeMap<_, _>| !a.is_empty()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let remediated = observed.control_plane.metadata.annotations.as_ref();
    let remediated = remediated.and_then(|a| a.get(annotation::REMEDIATION_IN_PROGRESS)).cloned();
    let mut machine = Machine::new(&name, machine_spec(observed, &name, failure_domain));
    machine.metadata = meta(machine_annotations(observed, remediated), owner(&observed.control_plane, true));
    let mut bootstrap = KubeadmConfig::new(&name, bootstrap_spec(observed, joins));
    // Not as controller: the Machine becomes that as
    // soon as it is there, and there may be one only.
    bootstrap.metadata = meta(template_annotations(observed), owner(&observed.control_plane, false));
    let infrastructure = infrastructure(observed, &name);
    Ok(NewMachine { machine, bootstrap, infrastructure, joins })
}

/// What of an existing Machine belongs to its control plane: everything that follows it without a replacement, and
/// what the Machine was made with.
pub fn kept_machine(observed: &Observed, owned: &OwnedMachine) -> Machine {
    let live = &owned.machine.spec;
    let mut machine =
        Machine::new(owned.name(), machine_spec(observed, owned.name(), live.failure_domain.clone()));
    // The version changes only by a replacement or an update in place, never in passing.
    machine.spec.version.clone_from(&live.version);
    machine.spec.bootstrap.config_ref.clone_from(&live.bootstrap.config_ref);
    machine.spec.infrastructure_ref.clone_from(&live.infrastructure_ref);
    // An apply without it would take the count of retries away.
    let remediated = owned.annotation(annotation::REMEDIATION_FOR).map(str::to_owned);
    machine.metadata.namespace.clone_from(&owned.machine.metadata.namespace);
    machine.metadata.labels = Some(labels(observed));
    machine.metadata.annotations = Some(machine_annotations(observed, remediated));
    machine.metadata.owner_references = Some(vec![owner(&observed.control_plane, true)]);
    machine
}

fn machine_name(observed: &Observed) -> Result<String, NamingError> {
    let own = observed.control_plane.metadata.name.as_deref().unwrap_or_default();
    let cluster = observed.cluster.metadata.name.as_deref().unwrap_or_default();
    let naming = observed.control_plane.spec.machine_naming.as_ref().and_then(|n| n.template.as_deref());
    let variables = [(".cluster.name", cluster), (".kubeadmControlPlane.name", own)];
    let suffix: String = observed.name_suffix.chars().take(RANDOM_BYTES).collect();
    naming::machine_name(naming.unwrap_or(NAMING_TEMPLATE), &variables, &suffix)
}

/// Labels of a Machine and of the objects behind it.
pub fn labels(observed: &Observed) -> BTreeMap<String, String> {
    let template = observed.control_plane.spec.machine_template.metadata.as_ref();
    let mut labels = template.map(|t| t.labels.clone()).unwrap_or_default();
    let own = observed.control_plane.metadata.name.as_deref().unwrap_or_default();
    let cluster = observed.cluster.metadata.name.clone().unwrap_or_default();
    // After the template's: people must not overwrite what Machines are found by.
    labels.insert(label::CLUSTER_NAME.to_owned(), cluster);
    labels.insert(label::CONTROL_PLANE.to_owned(), String::new());
    labels.insert(label::CONTROL_PLANE_NAME.to_owned(), naming::label_value(own));
    labels
}

/// Annotations of the objects behind a Machine.
pub fn template_annotations(observed: &Observed) -> BTreeMap<String, String> {
    let template = observed.control_plane.spec.machine_template.metadata.as_ref();
    template.map(|t| t.annotations.clone()).unwrap_or_default()
}

/// Annotations of a Machine: the template's, the hook, and what it replaces.
pub fn machine_annotations(observed: &Observed, remediated: Option<String>) -> BTreeMap<String, String> {
    let mut annotations = template_annotations(observed);
    annotations.insert(annotation::KCP_CLEANUP_HOOK.to_owned(), String::new());
    if let Some(note) = remediated {
        annotations.insert(annotation::REMEDIATION_FOR.to_owned(), note);
    }
    annotations
}

fn machine_spec(observed: &Observed, name: &str, failure_domain: Option<String>) -> MachineSpec {
    let template = &observed.control_plane.spec.machine_template.spec;
    let kind = template.infrastructure_ref.kind.trim_end_matches("Template").to_owned();
    let config = ContractRef {
        api_group: BOOTSTRAP_GROUP.to_owned(),
        kind: "KubeadmConfig".to_owned(),
        name: name.to_owned(),
    };
    MachineSpec {
        cluster_name: observed.cluster.metadata.name.clone().unwrap_or_default(),
        version: Some(observed.control_plane.spec.version.clone()),
        failure_domain,
        bootstrap: Bootstrap { config_ref: Some(config), data_secret_name: None },
        infrastructure_ref: ContractRef {
            api_group: template.infrastructure_ref.api_group.clone(),
            kind,
            name: name.to_owned(),
        },
        deletion: template.deletion.clone(),
        readiness_gates: readiness_gates(observed),
        taints: template.taints.clone(),
        ..MachineSpec::default()
    }
}

/// What a control plane Machine must report before it is ready, then what the user adds.
pub fn readiness_gates(observed: &Observed) -> Vec<ReadinessGate> {
    // The last two are about etcd pods and members, which an external etcd does not have.
    let types = if observed.etcd_is_managed() { &CONTROL_PLANE_GATES[..] } else { &CONTROL_PLANE_GATES[..4] };
    let mut gates: Vec<ReadinessGate> =
        types.iter().map(|t| ReadinessGate { condition_type: (*t).to_owned(), polarity: None }).collect();
    for gate in &observed.control_plane.spec.machine_template.spec.readiness_gates {
        // A server refuses a list with one condition type twice.
        if gates.iter().all(|known| known.condition_type != gate.condition_type) {
            gates.push(gate.clone());
        }
    }
    gates
}

/// The configuration of a Machine that joins, without owners.
pub fn joining_config(observed: &Observed, name: &str) -> KubeadmConfig {
    let mut config = KubeadmConfig::new(name, bootstrap_spec(observed, true));
    config.metadata.namespace.clone_from(&observed.control_plane.metadata.namespace);
    config.metadata.labels = Some(labels(observed));
    config.metadata.annotations = Some(template_annotations(observed)).filter(|all| !all.is_empty());
    config
}

fn bootstrap_spec(observed: &Observed, joins: bool) -> KubeadmConfigSpec {
    let spec = &observed.control_plane.spec;
    let wanted = spec.kubeadm_config_spec.as_ref().and_then(|s| serde_json::to_value(s).ok());
    let wanted = wanted.unwrap_or(Value::Null);
    let made = if joins {
        kubeadm::desired_join(&wanted, &spec.version)
    } else {
        kubeadm::desired_init(&wanted, &spec.version)
    };
    // The value came from this very type, with fields taken away or filled as the type allows.
    serde_json::from_value(made).unwrap_or_default()
}

/// The infrastructure machine as the template has it; null without a template.
pub fn infrastructure(observed: &Observed, name: &str) -> Value {
    let Template::Found(template) = &observed.template else { return Value::Null };
    let namespace = observed.control_plane.metadata.namespace.as_deref().unwrap_or_default();
    clone_of(
        template,
        &Clone {
            key: ObjectKey::new(namespace, name),
            cluster_name: observed.cluster.metadata.name.as_deref().unwrap_or_default(),
            labels: labels(observed),
            annotations: template_annotations(observed),
            owner: owner(&observed.control_plane, false),
        },
    )
}
