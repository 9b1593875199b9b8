//! A cluster whose control plane is looked after by a KubeadmControlPlane: the same request as a patch of that object,
//! with what its webhook and its rollouts allow. Owns the translation; must not know steps on nodes.
//!
//! Source: cluster-api `controlplane/kubeadm/webhooks/admission/kubeadmcontrolplane.go`, v1.14.0.

use serde_json::{Map, Value, json};

use super::super::difference::{differences, text_of};
use super::super::document::{DocumentKind, Inputs};
use super::super::path::{FieldPath, PathStep};
use super::super::request::WantedDocuments;
use super::super::rules::{ControlPlaneEffect, Judgement};
use super::super::units::duration_ns;
use super::JudgedChange;

const OWNED: &str = "topology.cluster.x-k8s.io/owned";
const NS_PER_DAY: i128 = 86_400_000_000_000;

/// Judges each change once more, as the KubeadmControlPlane would, and makes the patch for it.
pub(super) fn translate(
    inputs: &Inputs,
    target: &WantedDocuments,
    judged: &mut [JudgedChange],
    notes: &mut Vec<String>,
) -> Option<Value> {
    let object = inputs.objects.iter().find(|object| object["kind"] == "KubeadmControlPlane");
    for judged in judged.iter_mut() {
        restrict(judged);
        if object.is_some_and(|object| !object["metadata"]["labels"][OWNED].is_null()) {
            block(
                judged,
                "The KubeadmControlPlane belongs to a topology, which would put its own values back.",
                "Change the ClusterClass, or a variable of the Cluster that it offers for this.",
            );
        }
    }
    match object {
        None => notes.push("a KubeadmControlPlane looks after this cluster: the patch is for that object, in the management cluster".to_owned()),
        Some(object) if is_paused(object) => notes.push("the KubeadmControlPlane is paused: nothing happens before that ends".to_owned()),
        Some(_) => {}
    }
    let cluster = target.document(DocumentKind::Cluster)?;
    if let Some(object) = object {
        notes.extend(overwritten(object, &cluster.old));
    }
    let mut patch = Map::new();
    for judged in judged.iter().filter(|judged| judged.change.kind == DocumentKind::Cluster) {
        set_field(&mut patch, &judged.change.path, &cluster.new);
    }
    (!patch.is_empty()).then(|| json!({"spec": {"kubeadmConfigSpec": {"clusterConfiguration": patch}}}))
}

/// What a rollout writes from the object whatever is stored.
/// Source: cluster-api `controlplane/kubeadm/pkg/workload_cluster.go` (`UpdateClusterConfiguration` and its callers), v1.14.0.
const WRITTEN: [&str; 5] = ["imageRepository", "featureGates", "apiServer", "controllerManager", "scheduler"];

/// Where the stored configuration is not that of the object: the next rollout takes it back.
fn overwritten(object: &Value, stored: &Value) -> Vec<String> {
    let own = &object["spec"]["kubeadmConfigSpec"]["clusterConfiguration"];
    let mut written = stored.clone();
    for field in WRITTEN {
        let value = own[field].clone();
        if field == "imageRepository" && value.is_null() {
            continue;
        }
        written[field] = value;
    }
    let found = differences(DocumentKind::Cluster, stored, &written);
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
    if judged.finding.verdict == Judgement::Block {
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

/// Sets the field of the patch that holds `path`: lists and their items are replaced as a whole.
fn set_field(patch: &mut Map<String, Value>, path: &FieldPath, new: &Value) {
    let names: Vec<&str> = path
        .0
        .iter()
        .map_while(|step| match step {
            PathStep::Field(name) => Some(name.as_str()),
            PathStep::Item(_) | PathStep::Index(_) => None,
        })
        .collect();
    let Some((last, above)) = names.split_last() else { return };
    let value = names.iter().try_fold(new, |value, name| value.get(*name)).cloned().unwrap_or_default();
    let mut at = patch;
    for name in above {
        let next = at.entry((*name).to_owned()).or_insert_with(|| json!({}));
        let Value::Object(map) = next else { return };
        at = map;
    }
    let (name, value) = match *last {
        "certificateValidityPeriod" => ("certificateValidityPeriodDays".to_owned(), days(&value)),
        name => (name.to_owned(), value),
    };
    at.insert(name, value);
}

fn days(value: &Value) -> Value {
    duration_ns(&text_of(value))
        .map_or(Value::Null, |ns| Value::from(i64::try_from(ns / NS_PER_DAY).unwrap_or(i64::MAX)))
}
