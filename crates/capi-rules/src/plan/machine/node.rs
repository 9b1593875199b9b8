//! The Machine and its Node: the first meeting, and the labels, annotations and taints that the Node
//! gets from the Machine.
//! Source: `machine_controller_noderef.go` (`reconcileNode`, `patchNode`, `propagateMachineTaintsToNode`), v1.14.2.
//!
//! Upstream propagates taints behind the gate `MachineTaintPropagation`, without which its webhooks refuse them: a
//! Machine that has some may have them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Map, Value, json};

use super::cluster_key;
use super::why::Why;
use crate::plan::{Plan, WorkloadCall, Write, external};
use crate::status::machine::{NodeReading, Observed, control_plane_initialized_since};
use capi_types::key::{ObjectRef, annotation, controller_of};
use capi_types::machine::MachineTaint;
use capi_types::names::annotation as names;

const LABELS_FROM_MACHINE: &str = "cluster.x-k8s.io/labels-from-machine";
const ANNOTATIONS_FROM_MACHINE: &str = "cluster.x-k8s.io/annotations-from-machine";
const TAINTS_FROM_MACHINE: &str = "cluster.x-k8s.io/taints-from-machine";
const INTERRUPTIBLE: &str = "cluster.x-k8s.io/interruptible";
const UNINITIALIZED: (&str, &str) = ("node.cluster.x-k8s.io/uninitialized", "NoSchedule");
const OUTDATED_REVISION: (&str, &str) = ("node.cluster.x-k8s.io/outdated-revision", "PreferNoSchedule");

pub(super) fn rules(o: &Observed, plan: &mut Plan) {
    let id = o.machine.spec.provider_id.as_deref().unwrap_or_default();
    let recorded = o.machine.status.as_ref().and_then(|s| s.node_ref.as_ref());
    match &o.node {
        // In deletion, too, as upstream, which runs this phase before the way out.
        NodeReading::Found(node) => met(o, node, recorded.is_none(), plan),
        // Without an ID no Node can be its own, and in deletion none need come.
        _ if o.is_deleting() || id.is_empty() => {}
        _ if control_plane_initialized_since(&o.cluster).is_none() => plan.block(Why::WaitingForControlPlane),
        NodeReading::NotFound => plan.block(match recorded {
            Some(node) => Why::NodeVanished { name: node.name.clone() },
            None => Why::WaitingForNode { id: id.to_owned() },
        }),
        NodeReading::Failed(error) => {
            let about = ObjectRef::of(&o.machine);
            let (reason, message) = ("Failed to retrieve Node by ProviderID", error.clone());
            plan.step(Write::Event { about, warning: true, reason, message }, Why::Report);
            plan.block(external::Why::Unreadable { error: error.clone() });
        }
        NodeReading::NotConnected | NodeReading::NotAsked => {}
    }
}

fn met(o: &Observed, node: &Node, first: bool, plan: &mut Plan) {
    let name = node.metadata.name.clone().unwrap_or_default();
    if first {
        plan.step(
            Write::Event {
                about: ObjectRef::of(&o.machine),
                warning: false,
                reason: "SuccessfulSetNodeRef",
                message: name.clone(),
            },
            Why::NodeFound { name: name.clone() },
        );
    }
    if let Some(body) = metadata_patch(o, node, first) {
        let becomes_interruptible =
            body["metadata"]["labels"].get(INTERRUPTIBLE).is_some_and(|v| !v.is_null());
        let call = WorkloadCall::PatchNode { node: name.clone(), body };
        plan.step(Write::Workload { cluster: cluster_key(o), call }, Why::NodeMetadata);
        if becomes_interruptible {
            let (about, reason) = (ObjectRef::of(&o.machine), "SuccessfulSetInterruptibleNodeLabel");
            plan.step(Write::Event { about, warning: false, reason, message: name }, Why::NodeMetadata);
        }
    }
}

/// The merge patch that brings the Node's metadata and taints in step; `None` when they are.
fn metadata_patch(o: &Observed, node: &Node, first: bool) -> Option<Value> {
    let empty = BTreeMap::new();
    let old_labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let old_annotations = node.metadata.annotations.as_ref().unwrap_or(&empty);

    let labels = synced_labels(o);
    let from_machine = synced_annotations(o);
    let mut annotations = from_machine.clone();
    // Noted on the Node: a key that leaves the Machine is taken off, one that others set stays.
    annotations.insert(LABELS_FROM_MACHINE.to_owned(), keys(&labels));
    annotations.insert(ANNOTATIONS_FROM_MACHINE.to_owned(), keys(&from_machine));
    // Last, so that no annotation of the Machine can pass for its identity.
    annotations.extend(identity(o));
    let old_taints = node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
    let mut taints = taints(o, &old_taints);
    if let Some(tracking) = machine_taints(o, old_annotations, first, &mut taints) {
        annotations.insert(TAINTS_FROM_MACHINE.to_owned(), tracking);
    }

    let mut metadata = Map::new();
    let changes = [
        ("labels", changes(old_labels, &labels, tracked(old_annotations, LABELS_FROM_MACHINE))),
        (
            "annotations",
            changes(old_annotations, &annotations, tracked(old_annotations, ANNOTATIONS_FROM_MACHINE)),
        ),
    ];
    for (field, changed) in changes {
        if !changed.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(changed));
        }
    }
    let mut body = Map::new();
    if taints != old_taints {
        body.insert("spec".to_owned(), json!({ "taints": taints }));
    }
    if metadata.is_empty() && body.is_empty() {
        return None;
    }
    // Taints are a list that the patch replaces as a whole: kubelet and others write it as well.
    if let Some(version) = &node.metadata.resource_version {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
    body.insert("metadata".to_owned(), Value::Object(metadata));
    Some(Value::Object(body))
}

fn identity(o: &Observed) -> BTreeMap<String, String> {
    let machine = &o.machine;
    let mut all = BTreeMap::from([
        ("cluster.x-k8s.io/cluster-name".to_owned(), machine.spec.cluster_name.clone()),
        (
            "cluster.x-k8s.io/cluster-namespace".to_owned(),
            machine.metadata.namespace.clone().unwrap_or_default(),
        ),
        ("cluster.x-k8s.io/machine".to_owned(), machine.metadata.name.clone().unwrap_or_default()),
    ]);
    if let Some(owner) = controller_of(machine) {
        all.insert("cluster.x-k8s.io/owner-kind".to_owned(), owner.kind.clone());
        all.insert("cluster.x-k8s.io/owner-name".to_owned(), owner.name.clone());
    }
    all
}

fn synced_labels(o: &Observed) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = o
        .machine
        .metadata
        .labels
        .iter()
        .flatten()
        .filter(|(key, _)| {
            // Kubelets may give themselves neither roles nor labels of the restricted domain.
            key.starts_with("node-role.kubernetes.io")
                || in_domain(key, "node-restriction.kubernetes.io")
                || in_domain(key, "node.cluster.x-k8s.io")
                || o.synced_keys.labels.iter().any(|pattern| pattern.is_match(key))
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if o.infrastructure.found().is_some_and(|i| i.flag(&["status", "interruptible"])) {
        labels.insert(INTERRUPTIBLE.to_owned(), String::new());
    }
    labels
}

fn synced_annotations(o: &Observed) -> BTreeMap<String, String> {
    let all = o.machine.metadata.annotations.iter().flatten();
    let wanted = |key: &str| {
        in_domain(key, "node.cluster.x-k8s.io")
            || o.synced_keys.annotations.iter().any(|pattern| pattern.is_match(key))
    };
    all.filter(|(key, _)| wanted(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn in_domain(key: &str, domain: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    // The dot keeps `evil-node.cluster.x-k8s.io` out of the domain.
    prefix == domain || prefix.strip_suffix(domain).is_some_and(|sub| sub.ends_with('.'))
}

fn keys(map: &BTreeMap<String, String>) -> String {
    map.keys().cloned().collect::<Vec<_>>().join(",")
}

fn tracked<'a>(annotations: &'a BTreeMap<String, String>, name: &str) -> BTreeSet<&'a str> {
    annotations.get(name).into_iter().flat_map(|list| list.split(',')).filter(|key| !key.is_empty()).collect()
}

/// New and changed entries, and `null` for those that came from the Machine before and do not now.
fn changes(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
    tracked: BTreeSet<&str>,
) -> Map<String, Value> {
    let removed = tracked.into_iter().filter(|key| !new.contains_key(*key) && old.contains_key(*key));
    let mut changed: Map<String, Value> = removed.map(|key| (key.to_owned(), Value::Null)).collect();
    changed.extend(new.iter().filter(|(k, v)| old.get(*k) != Some(*v)).map(|(k, v)| (k.clone(), json!(v))));
    changed
}

fn taints(o: &Observed, old: &[Taint]) -> Vec<Taint> {
    let is = |taint: &Taint, (key, effect): (&str, &str)| taint.key == key && taint.effect == effect;
    // The bootstrap sets it so that nothing runs before labels and taints are there.
    let mut taints: Vec<Taint> = old.iter().filter(|t| !is(t, UNINITIALIZED)).cloned().collect();
    match o.deployment.as_ref().map(|(set, md)| {
        (
            revision(annotation(set.as_ref(), names::REVISION)),
            revision(annotation(md.as_ref(), names::REVISION)),
        )
    }) {
        // Pods of a drain move to Nodes that stay, not to one that goes next.
        Some((Some(set), Some(deployment))) if set < deployment => {
            if !taints.iter().any(|t| is(t, OUTDATED_REVISION)) {
                let (key, effect) = OUTDATED_REVISION;
                taints.push(Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() });
            }
        }
        _ => taints.retain(|t| !is(t, OUTDATED_REVISION)),
    }
    taints
}

/// Brings the Machine's taints in: those that are kept in step, and at the first meeting those that are set once.
/// Returns the note about the former; `None` where a Machine has and had none.
fn machine_taints(
    o: &Observed,
    annotations: &BTreeMap<String, String>,
    first: bool,
    taints: &mut Vec<Taint>,
) -> Option<String> {
    let before = annotations.get(TAINTS_FROM_MACHINE);
    if o.machine.spec.taints.is_empty() && before.is_none() {
        return None;
    }
    let name = |key: &str, effect: &str| format!("{key}:{effect}");
    let (kept, once): (Vec<&MachineTaint>, Vec<&MachineTaint>) =
        o.machine.spec.taints.iter().partition(|taint| taint.propagation != "OnInitialization");
    let names: BTreeSet<String> = kept.iter().map(|taint| name(&taint.key, &taint.effect)).collect();
    let gone = tracked(annotations, TAINTS_FROM_MACHINE);
    taints.retain(|taint| {
        let name = name(&taint.key, &taint.effect);
        !gone.contains(name.as_str()) || names.contains(&name)
    });
    // The note shows that taints were set before, also where the reference to the Node was lost.
    let once = once.into_iter().filter(|_| first && before.is_none());
    for wanted in kept.into_iter().chain(once) {
        let new = Taint {
            key: wanted.key.clone(),
            effect: wanted.effect.clone(),
            value: wanted.value.clone(),
            ..Taint::default()
        };
        match taints.iter_mut().find(|taint| taint.key == new.key && taint.effect == new.effect) {
            Some(taint) if taint.value == new.value => {}
            Some(taint) => *taint = new,
            None => taints.push(new),
        }
    }
    Some(names.into_iter().collect::<Vec<_>>().join(","))
}

fn revision(text: Option<&str>) -> Option<i64> {
    text.and_then(|text| text.parse().ok())
}
