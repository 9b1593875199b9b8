//! Changes that existing Machines take without being replaced: labels, annotations, readiness gates,
//! deletion timeouts, taints. Must not touch version or references.
//! Source: KCP-5; `kubeadmcontrolplane_controller.go` (`syncMachines`), v1.14.0.
//!
//! Intended difference: upstream applies on the server and so takes away a label or annotation that
//! left the template; here it stays on existing Machines until they are replaced.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Act, Flow, Observed, Pending, Sync, Why, desired};
use crate::api::machine::{Machine, MachineDeletion};
use crate::api::names::annotation;
use crate::status::control_plane::OwnedMachine;

/// Timeout for deleting the Node of a Machine that is being deleted, when unset.
const NODE_DELETION_TIMEOUT_S: i32 = 10;

pub fn machines(p: &mut Pending) -> Flow {
    for index in 0..p.observed.machines.len() {
        let owned = &p.observed.machines[index];
        let (sync, what) = difference(&p.observed, owned);
        if what.is_empty() {
            continue;
        }
        let after = sync.machine.clone();
        p.step(Act::Sync(Box::new(sync)), Why::OutOfSync { what });
        // Later rules see the Machine as it will be.
        if let Some(machine) = after {
            p.observed.machines[index].machine = machine;
        }
    }
    Flow::Continue(())
}

fn difference(observed: &Observed, owned: &OwnedMachine) -> (Sync, Vec<&'static str>) {
    let mut sync = Sync { name: owned.name().to_owned(), ..Sync::default() };
    let mut what = Vec::new();
    let machine = if owned.is_deleting() { leaving(observed, owned) } else { staying(observed, owned) };
    if machine.metadata.labels != owned.machine.metadata.labels {
        what.push("labels");
    }
    if machine.metadata.annotations != owned.machine.metadata.annotations {
        what.push("annotations");
    }
    if machine.spec != owned.machine.spec {
        what.push("gates, timeouts or taints");
    }
    if !what.is_empty() {
        sync.machine = Some(machine);
    }
    if !owned.is_deleting() {
        let config = owned.bootstrap.as_ref().map(|c| &c.metadata);
        sync.bootstrap = config.and_then(|m| {
            metadata_patch(
                observed,
                m.labels.as_ref().unwrap_or(&BTreeMap::new()),
                m.annotations.as_ref().unwrap_or(&BTreeMap::new()),
            )
        });
        sync.infrastructure = owned.infrastructure.as_ref().and_then(|object| {
            metadata_patch(
                observed,
                &strings(&object["metadata"]["labels"]),
                &strings(&object["metadata"]["annotations"]),
            )
        });
        if sync.bootstrap.is_some() || sync.infrastructure.is_some() {
            what.push("labels or annotations of its objects");
        }
    }
    (sync, what)
}

fn staying(observed: &Observed, owned: &OwnedMachine) -> Machine {
    let mut machine = owned.machine.clone();
    machine.metadata.labels.get_or_insert_default().extend(desired::labels(observed));
    let remediated = owned.annotation(annotation::REMEDIATION_FOR).map(str::to_owned);
    let annotations = desired::machine_annotations(observed, remediated);
    machine.metadata.annotations.get_or_insert_default().extend(annotations);
    let template = &observed.control_plane.spec.machine_template.spec;
    machine.spec.readiness_gates = desired::readiness_gates(observed);
    machine.spec.taints = template.taints.clone();
    // What the template leaves open stays as admission defaulted it.
    if let Some(wanted) = &template.deletion {
        let deletion = machine.spec.deletion.get_or_insert_default();
        merge_timeouts(deletion, wanted);
    }
    machine
}

/// A Machine on its way out takes timeouts and taints only.
fn leaving(observed: &Observed, owned: &OwnedMachine) -> Machine {
    let mut machine = owned.machine.clone();
    let template = &observed.control_plane.spec.machine_template.spec;
    machine.spec.taints = template.taints.clone();
    let deletion = machine.spec.deletion.get_or_insert_default();
    deletion.node_deletion_timeout_seconds.get_or_insert(NODE_DELETION_TIMEOUT_S);
    if let Some(wanted) = &template.deletion {
        merge_timeouts(deletion, wanted);
    }
    machine
}

fn merge_timeouts(deletion: &mut MachineDeletion, wanted: &MachineDeletion) {
    deletion.node_drain_timeout_seconds = wanted.node_drain_timeout_seconds;
    deletion.node_volume_detach_timeout_seconds = wanted.node_volume_detach_timeout_seconds;
    if wanted.node_deletion_timeout_seconds.is_some() {
        deletion.node_deletion_timeout_seconds = wanted.node_deletion_timeout_seconds;
    }
}

/// Labels and annotations that the object lacks or has differently; `None` when it has them all.
fn metadata_patch(
    observed: &Observed,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<Value> {
    let mut metadata = Map::new();
    for (field, wanted, found) in [
        ("labels", desired::labels(observed), labels),
        ("annotations", desired::template_annotations(observed), annotations),
    ] {
        let lacking: BTreeMap<_, _> = wanted.into_iter().filter(|(k, v)| found.get(k) != Some(v)).collect();
        if !lacking.is_empty() {
            metadata.insert(field.to_owned(), json!(lacking));
        }
    }
    (!metadata.is_empty()).then(|| json!({ "metadata": metadata }))
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}
