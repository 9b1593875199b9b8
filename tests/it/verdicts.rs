//! Verdicts over conditions that capstan's own rules wrote: where a verdict looks for a fragment of a message,
//! the rule that writes it and the rule that reads it are run together, so that rewording one fails here.

use std::collections::BTreeSet;
use std::sync::Arc;

use capi_rules::observe::dump::Dump;
use capi_rules::observe::dump::document::Document;
use capi_rules::plan::machine_set::preflight::{ControlPlane, Preflight, failures};
use capi_rules::recompute::all;
use capi_rules::status::machine_set;
use capi_types::key::Gvk;
use capi_types::machine_set::MachineSet;
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_dashboard::fleet::decode::{Decoder, Slim};
use capstan_dashboard::fleet::{Basis, Context, Judgement, SourceId, Verdict, judge};
use serde_json::{Value, json};

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn verdict(object: &Value) -> (Verdict, Option<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').expect("a group");
    let kind = text(&object["kind"]);
    let gvk = Gvk {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        kind,
        namespaced: true,
    };
    let slim: Slim = serde_json::from_value(object.clone()).expect("any object decodes");
    let row = Decoder::for_kind(SourceId(0), gvk, Arc::default()).row(&slim);
    let now_s = u32::try_from(now().timestamp()).expect("in range");
    let Judgement { verdict, why, .. } = judge(&row, &Context { now_s, ..Context::default() });
    let condition =
        if let Basis::Condition(at) = why { Some(row.conditions[at].type_.to_string()) } else { None };
    (verdict, condition)
}

/// The object with the status that capstan's rules make of all of `objects`.
fn computed(objects: &[Value], kind: &str) -> Value {
    let documents = objects.iter().map(|value| Document::from(value.clone())).collect();
    let all = all(&Dump::new(documents), now());
    all.into_iter().find(|c| c.after["kind"] == kind).expect("its status is computed").after
}

fn object(api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "spec": spec,
        "metadata": {"name": name, "namespace": "ns", "generation": 1, "uid": name,
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}}})
}

const CORE: &str = "cluster.x-k8s.io/v1beta2";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

fn template(name: &str) -> Value {
    object(
        &format!("{INFRASTRUCTURE}/v1beta2"),
        "DevMachineTemplate",
        name,
        json!({"template": {"spec": {}}}),
    )
}

fn machine_template() -> Value {
    json!({"metadata": {"labels": {"set": "a"}}, "spec": {"clusterName": "c", "version": "v1.34.0",
        "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "DevMachineTemplate", "name": "gone"}}})
}

fn blocked_by(type_: &str) -> (Verdict, Option<String>) {
    (Verdict::Blocked, Some(type_.to_owned()))
}

#[test]
fn a_missing_template_blocks_what_would_scale_up() {
    let spec = json!({"clusterName": "c", "replicas": 3, "selector": {"matchLabels": {"set": "a"}},
        "template": machine_template()});
    let plane = json!({"replicas": 3, "version": "v1.34.0", "machineTemplate": {"spec": {"infrastructureRef":
        {"apiGroup": INFRASTRUCTURE, "kind": "DevMachineTemplate", "name": "gone"}}},
        "kubeadmConfigSpec": {}});
    let cluster = object(
        CORE,
        "Cluster",
        "c",
        json!({"controlPlaneRef": {"apiGroup":
        "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "p"}}),
    );
    let objects = [
        cluster,
        template("another"),
        object(CORE, "MachineSet", "s", spec.clone()),
        object(CORE, "MachineDeployment", "d", spec),
        object("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "p", plane),
    ];
    for kind in ["MachineSet", "MachineDeployment"] {
        assert_eq!(verdict(&computed(&objects, kind)), blocked_by("ScalingUp"), "{kind}");
    }
    let mut plane = computed(&objects, "KubeadmControlPlane");
    plane["status"]["initialization"] = json!({"controlPlaneInitialized": true});
    plane["status"]["conditions"] = plane["status"]["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .filter(|c| c["type"] == "ScalingUp")
        .cloned()
        .collect();
    assert_eq!(verdict(&plane), blocked_by("ScalingUp"));
}

/// The set with the status that its rules make of it when these sentences keep Machines back.
fn held_back(preflight: Vec<String>) -> Value {
    let spec = json!({"clusterName": "c", "replicas": 3, "selector": {"matchLabels": {"set": "a"}},
        "template": machine_template()});
    let mut set = object(CORE, "MachineSet", "s", spec);
    let typed: MachineSet = serde_json::from_value(set.clone()).expect("a MachineSet");
    let observed = machine_set::Observed {
        set: typed,
        machines: Some(Vec::new()),
        missing_templates: Vec::new(),
        preflight,
    };
    set["status"] = serde_json::to_value(machine_set::status(&observed, now())).expect("a status");
    set
}

#[test]
fn a_version_skew_needs_somebody_and_a_control_plane_that_moves_does_not() {
    let preflight = |version: &str, reported: &[&str]| Preflight {
        set: "ns/s".to_owned(),
        control_plane: Some(ControlPlane {
            name: "KubeadmControlPlane ns/p".to_owned(),
            version: "v1.34.0".to_owned(),
            reported: reported.iter().map(|v| (*v).to_owned()).collect(),
            odd: None,
        }),
        version: Some(version.to_owned()),
        kubeadm: true,
        skip: BTreeSet::new(),
        ..Preflight::default()
    };
    for version in ["v1.35.0", "v1.30.0", "v1.33.0"] {
        let sentences = failures(&preflight(version, &["v1.34.0"]));
        assert!(!sentences.is_empty(), "{version}: the preflight holds the set back");
        assert_eq!(verdict(&held_back(sentences)), blocked_by("ScalingUp"), "{version}");
    }
    let sentences = failures(&preflight("v1.34.0", &["v1.33.0", "v1.34.0"]));
    assert_eq!(sentences.len(), 1, "the control plane moves: {sentences:?}");
    assert_eq!(verdict(&held_back(sentences)), (Verdict::Progressing, Some("ScalingUp".to_owned())));
}

#[test]
fn a_missing_pod_is_not_a_missing_template() {
    let sentence = "control plane waits: Machine m reports EtcdPodHealthy is false (Pod does not exist)";
    let (verdict, _) = verdict(&held_back(vec![sentence.to_owned()]));
    assert_eq!(verdict, Verdict::Progressing);
}

#[test]
fn a_deletion_that_takes_long_is_blocked() {
    let spec = json!({"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "providerID": "any://m",
        "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "DevMachine", "name": "m"}});
    let mut machine = object(CORE, "Machine", "m", spec);
    machine["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    machine["status"] = json!({"conditions": [{"type": "Deleting", "status": "True", "reason": "DrainingNode",
        "message": "Drain not completed yet", "lastTransitionTime": "2026-11-20T09:30:00Z"}]});
    for (since, expected) in
        [("2026-11-20T09:50:00Z", Verdict::Progressing), ("2026-11-20T09:40:00Z", Verdict::Blocked)]
    {
        machine["metadata"]["deletionTimestamp"] = json!(since);
        let cluster = object(CORE, "Cluster", "c", json!({}));
        let after = computed(&[cluster, machine.clone()], "Machine");
        assert_eq!(verdict(&after).0, expected, "deleted since {since}: {}", after["status"]["conditions"]);
    }
}
