//! Changes that existing Machines take without being replaced: labels, annotations, readiness gates,
//! deletion timeouts, taints. Must not touch version or references.
//! Source: KCP-5; `kubeadmcontrolplane_controller.go` (`syncMachines`), v1.14.2.

use serde_json::Value;

use super::{Act, Flow, Observed, Pending, Sync, Why, desired};
use crate::plan::{Write, field_owners};
use crate::status::control_plane::OwnedMachine;
use capi_types::machine::{Machine, MachineDeletion};
use capi_types::names::manager;
use k8s_machinery::merge;

/// Timeout for deleting the Node of a Machine that is being deleted, when unset.
const NODE_DELETION_TIMEOUT_S: i32 = 10;

pub fn machines(p: &mut Pending) -> Flow {
    // Later releases keep more fields than its own does, such as gates, and would never find them.
    if p.observed.is_of_older_release {
        return Flow::Continue(());
    }
    for index in 0..p.observed.machines.len() {
        let owned = &p.observed.machines[index];
        let own = of_machine(&p.observed, owned);
        // The objects behind a Machine on its way out may be gone before the write arrives.
        let clones = if owned.is_deleting() { Vec::new() } else { of_clones(&p.observed, owned) };
        if own.is_empty() && clones.is_empty() {
            continue;
        }
        let (name, what) = (owned.name().to_owned(), what(&own, &clones));
        // Not the writes to the objects behind it: later rules look at Machines only.
        let after = own.iter().fold(owned.machine.clone(), written);
        let writes = own.into_iter().chain(clones).collect();
        p.step(Act::Sync(Box::new(Sync { name, writes })), Why::OutOfSync { what });
        // Later rules see the Machine as it will be.
        p.observed.machines[index].machine = after;
    }
    Flow::Continue(())
}

fn of_machine(observed: &Observed, owned: &OwnedMachine) -> Vec<Write> {
    if owned.is_deleting() {
        let patch = Write::difference(&owned.machine, &leaving(observed, owned));
        return patch.into_iter().collect();
    }
    let intent = desired::kept_machine(observed, owned);
    field_owners::keep(&owned.machine, &intent, manager::KUBEADM_CONTROL_PLANE)
}

/// Labels and annotations of the bootstrap configuration and the infrastructure machine.
fn of_clones(observed: &Observed, owned: &OwnedMachine) -> Vec<Write> {
    let (labels, annotations) = (desired::labels(observed), desired::template_annotations(observed));
    let keep = |live: &Value| {
        let metadata = manager::KUBEADM_CONTROL_PLANE_METADATA;
        field_owners::keep_metadata(live, &labels, &annotations, metadata)
    };
    let config = owned.bootstrap.as_ref().map(field_owners::metadata_of);
    config.iter().chain(&owned.infrastructure).flat_map(keep).collect()
}

/// What differs, in words.
fn what(own: &[Write], clones: &[Write]) -> Vec<&'static str> {
    let touches = |path: &str| own.iter().filter_map(body).any(|body| body.pointer(path).is_some());
    let mut what = Vec::new();
    for (path, words) in [
        ("/metadata/labels", "labels"),
        ("/metadata/annotations", "annotations"),
        ("/spec", "gates, timeouts or taints"),
    ] {
        if touches(path) {
            what.push(words);
        }
    }
    if !clones.is_empty() {
        what.push("labels or annotations of its objects");
    }
    // A handover of field owners alone touches neither labels nor spec.
    if what.is_empty() {
        what.push("owners of its fields");
    }
    what
}

fn body(write: &Write) -> Option<&Value> {
    match write {
        Write::Patch { body, .. } | Write::Apply { body, .. } => Some(body),
        _ => None,
    }
}

fn written(machine: Machine, write: &Write) -> Machine {
    let Some(body) = body(write) else { return machine };
    let Ok(mut value) = serde_json::to_value(&machine) else { return machine };
    merge::apply(&mut value, body);
    // A patch that made the Machine unreadable would be
    // refused by the server; the pass goes on without it.
    serde_json::from_value(value).unwrap_or(machine)
}

/// A Machine on its way out takes timeouts and taints only.
fn leaving(observed: &Observed, owned: &OwnedMachine) -> Machine {
    let mut machine = owned.machine.clone();
    let template = &observed.control_plane.spec.machine_template.spec;
    machine.spec.taints = template.taints.clone();
    let deletion = machine.spec.deletion.get_or_insert_default();
    // Upstream fills its default in first: without a timeout a Node's deletion is tried for ever.
    deletion.node_deletion_timeout_seconds.get_or_insert(NODE_DELETION_TIMEOUT_S);
    if let Some(wanted) = &template.deletion {
        merge_timeouts(deletion, wanted);
    }
    machine
}

fn merge_timeouts(deletion: &mut MachineDeletion, wanted: &MachineDeletion) {
    deletion.node_drain_timeout_seconds = wanted.node_drain_timeout_seconds;
    deletion.node_volume_detach_timeout_seconds = wanted.node_volume_detach_timeout_seconds;
    // Only this one has a default, which an unset field of the template must not remove.
    if wanted.node_deletion_timeout_seconds.is_some() {
        deletion.node_deletion_timeout_seconds = wanted.node_deletion_timeout_seconds;
    }
}
