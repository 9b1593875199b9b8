//! A cluster whose control plane is looked after by a KubeadmControlPlane: the same request as a patch of that object,
//! with what its webhook and its rollouts allow. Owns the translation; must not know steps on nodes.
//!
//! Source: cluster-api `controlplane/kubeadm/webhooks/admission/kubeadmcontrolplane.go`, v1.14.2.

use serde_json::{Map, Value, json};

use super::super::control_plane_object::{
    TIMEOUT, VALIDITY, as_it_stands, configuration, days, is_older, is_only_newer, object, readable, version,
};
use super::super::convert::{as_map, flag_lists};
use super::super::difference::differences;
use super::super::document::{DocumentKind, Inputs};
use super::super::path::{FieldPath, PathStep};
use super::super::request::WantedDocuments;
use super::super::rules::{ControlPlaneEffect, Judgement};
use super::JudgedChange;

const OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// Judges each change once more, as the KubeadmControlPlane would, and makes the patch for it.
pub(super) fn translate(
    inputs: &Inputs,
    target: &WantedDocuments,
    judged: &mut [JudgedChange],
    notes: &mut Vec<String>,
) -> Option<Value> {
    let object = readable(inputs);
    let wanted = target.document(DocumentKind::Cluster).map_or(&Value::Null, |cluster| &cluster.new);
    for judged in judged.iter_mut() {
        if object.is_some_and(is_older) && judged.change.kind == DocumentKind::Cluster {
            restrict_older(judged, wanted);
        }
        // The field's own rules first: their reasons say more than that the object was not read.
        restrict(judged);
        match object {
            None if judged.change.kind == DocumentKind::Cluster => without_object(inputs, judged),
            Some(object) if !object["metadata"]["labels"][OWNED].is_null() => block(
                judged,
                "The KubeadmControlPlane belongs to a topology, which would put its own values back.",
                "Change the ClusterClass, or a variable of the Cluster that it offers for this.",
            ),
            _ => {}
        }
    }
    let object = object?;
    if is_paused(object) {
        notes.push("the KubeadmControlPlane is paused: nothing happens before that ends".to_owned());
    }
    notes.extend(
        inputs.document(DocumentKind::Cluster).into_iter().flat_map(|d| overwritten(object, &d.value)),
    );
    let mut patch = Map::new();
    for judged in judged.iter().filter(|judged| judged.change.kind == DocumentKind::Cluster) {
        // From the object's own lists with the request in them: those of the store lack what only
        // the object has.
        set_field(&mut patch, &judged.change.path, wanted);
    }
    let mut patch = Value::Object(patch);
    if is_older(object) {
        put_in_older_form(&mut patch, as_it_stands(object));
    }
    // A request of kubelet or kube-proxy alone leaves nothing for the object.
    let is_empty = patch.as_object().is_some_and(Map::is_empty);
    (!is_empty).then(|| json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": patch}}}))
}

/// A patch whose lists of flags are those that are wanted, as one of the maps that an object of v1beta1 (`own`) has.
fn put_in_older_form(patch: &mut Value, own: &Value) {
    // What was taken away as a whole may hold the time for the API server, which no list of v1beta2 has there.
    if patch["apiServer"].is_null() && !own["apiServer"][TIMEOUT].is_null() {
        let fields = own["apiServer"].as_object().into_iter().flatten().map(|(name, _)| name);
        let gone = fields.filter(|name| *name != TIMEOUT).map(|name| (name.clone(), Value::Null));
        if let Some(server) = patch.get_mut("apiServer") {
            *server = gone.collect();
        }
    }
    for path in flag_lists() {
        let pointer = format!("/{}", path.join("/"));
        let Some(list) = patch.pointer_mut(&pointer) else { continue };
        // Flags that stand twice were refused before.
        let Some(Ok(mut flags)) = list.as_array().map(|items| as_map(items, &path.join("."))) else {
            continue;
        };
        // A merge patch leaves what it does not name.
        for (name, _) in own.pointer(&pointer).and_then(Value::as_object).into_iter().flatten() {
            flags.entry(name.clone()).or_insert(Value::Null);
        }
        *list = Value::Object(flags);
    }
}

/// What an object of v1beta1 cannot say, and what it can say where one of v1beta2 cannot.
fn restrict_older(judged: &mut JudgedChange, wanted: &Value) {
    let names = field_names(&judged.change.path);
    if names.first().is_some_and(|first| is_only_newer(first)) {
        block(
            judged,
            "A KubeadmControlPlane in version v1beta1 has no field for it.",
            "It needs Cluster API's v1beta2, which servers have since release 1.11.",
        );
    } else if names == ["apiServer", TIMEOUT] {
        judged.finding.control_plane_effect = ControlPlaneEffect::Rollout;
    } else if names.last() == Some(&"extraArgs")
        && at(wanted, &names).as_array().is_some_and(|flags| as_map(flags, "").is_err())
    {
        block(
            judged,
            "The flag stands twice, and a KubeadmControlPlane in version v1beta1 has one value per flag.",
            "Give the flag once.",
        );
    }
}

/// A merge patch replaces lists: one that is not made from the object's own would delete what only the object has.
fn without_object(inputs: &Inputs, judged: &mut JudgedChange) {
    let (message, alternative) = match object(inputs) {
        None => (
            "A KubeadmControlPlane looks after this cluster, and it was not read: a patch that is not made from its own lists would delete what only it has.",
            "Run it against the management cluster with --cluster NAMESPACE/NAME, or put the object beside the files.",
        ),
        Some(object) => (
            &*format!("The KubeadmControlPlane is in version {}, which is not read here.", version(object)),
            "Give it in v1beta2 or v1beta1: `kubectl get kubeadmcontrolplanes.v1beta1.controlplane.cluster.x-k8s.io NAME -o yaml`.",
        ),
    };
    block(judged, message, alternative);
}

/// Where the stored configuration is not that of the object: the next rollout takes it back.
fn overwritten(object: &Value, stored: &Value) -> Vec<String> {
    let found = differences(DocumentKind::Cluster, stored, &configuration(object, stored));
    found
        .iter()
        .map(|change| {
            format!(
                "the next rollout overwrites {}: {} is stored, the KubeadmControlPlane has {}",
                change.path,
                change.old_text(),
                change.new_text()
            )
        })
        .collect()
}

fn is_paused(object: &Value) -> bool {
    object["metadata"]["annotations"].get("cluster.x-k8s.io/paused").is_some()
}

fn block(judged: &mut JudgedChange, message: &str, alternative: &str) {
    // The first reason stays: that of the rule says more than that of the webhook. One that
    // `--force` passes gives way: what the object does not allow cannot be forced.
    if judged.finding.verdict == Judgement::Block && !judged.finding.forceable {
        return;
    }
    judged.finding.verdict = Judgement::Block;
    judged.finding.forceable = false;
    message.clone_into(&mut judged.finding.message);
    judged.finding.alternative = Some(alternative.to_owned());
}

fn restrict(judged: &mut JudgedChange) {
    match (judged.change.kind, judged.finding.control_plane_effect) {
        (DocumentKind::Cluster, ControlPlaneEffect::Refused) => block(
            judged,
            "The webhook of KubeadmControlPlane does not allow a change of this field.",
            "Make a new cluster, or leave the field as it is.",
        ),
        (DocumentKind::Cluster, _) if is_inexact(judged) => block(
            judged,
            "KubeadmControlPlane counts in whole days, from 1 to 1095, and this is not a number of them.",
            "Ask for a multiple of 24h, such as 2400h.",
        ),
        (DocumentKind::Cluster, ControlPlaneEffect::Unmodelled) => block(
            judged,
            "KubeadmControlPlane has no field for it: the next rollout would write the document without it.",
            "Leave it as it is.",
        ),
        (DocumentKind::Kubelet, _) => block(
            judged,
            "Machines are made from templates: a change in the workload cluster reaches no new one, and KubeadmControlPlane has no field for it.",
            "Put a kubeletconfiguration patch into `files` and `patches` of the KubeadmControlPlane and of the KubeadmConfigTemplates of the workers.",
        ),
        _ => {}
    }
}

fn is_inexact(judged: &JudgedChange) -> bool {
    judged.change.path == FieldPath::default().field(VALIDITY) && days(&judged.change.new).is_none()
}

/// Sets the field of the patch that holds `path`: lists and their items are replaced as a whole, with those of `new`.
fn set_field(patch: &mut Map<String, Value>, path: &FieldPath, new: &Value) {
    let names = field_names(path);
    // Its schema allows no list and no structure without content.
    let emptied = (1..=names.len()).find(|end| is_hollow(at(new, &names[..*end])));
    let names = &names[..emptied.unwrap_or(names.len())];
    let Some((last, above)) = names.split_last() else { return };
    let value = if emptied.is_some() { Value::Null } else { at(new, names).clone() };
    let mut inner = patch;
    for name in above {
        let next = inner.entry((*name).to_owned()).or_insert_with(|| json!({}));
        let Value::Object(map) = next else { return };
        inner = map;
    }
    let (name, value) = match *last {
        // v1beta2 of Cluster API counts days, where kubeadm has a duration.
        VALIDITY => ("certificateValidityPeriodDays", days(&value).map_or(Value::Null, Value::from)),
        name => (name, value),
    };
    inner.insert(name.to_owned(), value);
}

/// The fields of a path down to the first list.
fn field_names(path: &FieldPath) -> Vec<&str> {
    let fields = path.0.iter().map_while(|step| match step {
        PathStep::Field(name) => Some(name.as_str()),
        PathStep::Item(_) | PathStep::Index(_) => None,
    });
    fields.collect()
}

fn at<'v>(value: &'v Value, names: &[&str]) -> &'v Value {
    names.iter().try_fold(value, |value, name| value.get(*name)).unwrap_or(&Value::Null)
}

/// Nothing stands there, nor below it.
fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_hollow),
        _ => false,
    }
}
