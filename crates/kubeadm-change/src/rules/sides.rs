//! What a change goes from and to in effect: what is stored, what runs, and what a component takes when nothing is given. Owns
//! how these are found for a path; must not know a condition.

use serde_json::Value;

use super::super::difference::FieldChange;
use super::super::document::DocumentKind;
use super::super::facts::ClusterFacts;
use super::super::image::tag_of;
use super::super::live;
use super::super::path::PathStep;
use super::super::render::{API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER, StaticPod};

/// Both sides of a change.
pub(super) struct Sides {
    /// Each value that counts before it: what is stored and what runs, which may differ, or the default.
    pub(super) olds: Vec<Value>,
    pub(super) new: Value,
}

impl Sides {
    /// `unset`: what the component takes when nothing is given.
    pub(super) fn of(change: &FieldChange, facts: &ClusterFacts, unset: Option<&str>) -> Self {
        // Without a stored tag and a pod, kubeadm's own of this release stands for the old one.
        let unset = if is_etcd_tag(change) { facts.etcd_tag } else { unset };
        let default = unset.map_or(Value::Null, Value::from);
        // An empty text is a value of a flag, and nothing in a field.
        let is_flag = flag(&change.path.0).is_some();
        let is_given = |value: &Value| !value.is_null() && (is_flag || *value != "");
        let mut olds = running(change, facts);
        if is_given(&change.old) {
            // Stored and running values may differ while a change is half done: each counts as an old one.
            olds.insert(0, change.old.clone());
        }
        if olds.is_empty() {
            olds.push(default.clone());
        }
        Self { olds, new: if is_given(&change.new) { change.new.clone() } else { default } }
    }
}

fn is_etcd_tag(change: &FieldChange) -> bool {
    change.kind == DocumentKind::Cluster && change.path.to_string() == "etcd.local.imageTag"
}

/// The values with which the pods of the control plane run, node by node.
fn running(change: &FieldChange, facts: &ClusterFacts) -> Vec<Value> {
    if change.kind != DocumentKind::Cluster {
        return Vec::new();
    }
    let of = |component: &str, value: &dyn Fn(&StaticPod) -> Option<Value>| {
        let pods = facts.control_plane.iter().filter_map(|node| node.static_pods.get(component));
        pods.filter_map(value).collect()
    };
    if is_etcd_tag(change) {
        return of(ETCD, &|pod| tag_of(&pod.image).map(Value::from));
    }
    match flag(&change.path.0) {
        Some((component, name)) => of(component, &|pod| {
            let values: Vec<Value> = live::flags(pod, name).into_iter().map(Value::from).collect();
            (!values.is_empty()).then_some(Value::Array(values))
        }),
        None => Vec::new(),
    }
}

/// The component and the name of a flag in `extraArgs`.
fn flag(path: &[PathStep]) -> Option<(&'static str, &str)> {
    let field = |step: &PathStep, name: &str| *step == PathStep::Field(name.to_owned());
    let (component, rest) = match path {
        [etcd, local, rest @ ..] if field(etcd, "etcd") && field(local, "local") => (ETCD, rest),
        [first, rest @ ..] => {
            let known = [
                ("apiServer", API_SERVER),
                ("controllerManager", CONTROLLER_MANAGER),
                ("scheduler", SCHEDULER),
            ];
            (known.into_iter().find(|(name, _)| field(first, name))?.1, rest)
        }
        [] => return None,
    };
    match rest {
        [list, PathStep::Item(name), ..] if field(list, "extraArgs") => Some((component, name)),
        _ => None,
    }
}
