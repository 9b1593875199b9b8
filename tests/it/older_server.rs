//! A server that has Cluster API only as v1beta1: its Clusters are planned, run ahead, described and previewed as those of v1beta2, by the
//! conversion that files have.

use std::sync::Arc;

use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine_deployment::MachineDeployment;
use capstan::cli::args::{Cli, Command};
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_commands::output::Style;
use capstan_commands::{describe, plan, simulate};
use capstan_dashboard::actions::{Action, Outlook, Request};
use clap::Parser as _;
use k8s_machinery::admission::AdmitAll;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::actions::Place;
use crate::actions_older_version::{anything, only_older};

const CORE: &str = "cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const PROVIDER: &str = "infrastructure.cluster.x-k8s.io";

const NOTE: &str = "objects of v1beta1 read as v1beta2, by Cluster API's own conversion";

fn definitions() -> Vec<CustomResourceDefinition> {
    let core = ["Cluster", "MachineDeployment", "MachineSet", "MachinePool", "Machine", "MachineHealthCheck"];
    let bootstrap = ["KubeadmConfig", "KubeadmConfigTemplate"];
    let provider = ["YardCluster", "YardMachine", "YardMachineTemplate"];
    let of = |group: &'static str, kinds: &[&str]| {
        kinds.iter().map(|kind| only_older(group, kind, &anything())).collect::<Vec<_>>()
    };
    [
        of(CORE, &core),
        of(CONTROL_PLANE, &["KubeadmControlPlane"]),
        of(BOOTSTRAP, &bootstrap),
        of(PROVIDER, &provider),
    ]
    .concat()
}

fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": name, "namespace": "default"})
}

fn object(group: &str, kind: &str, name: &str, spec: Value, status: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "spec": spec, "status": status,
        "metadata": {"name": name, "namespace": "default", "uid": uid(kind, name), "generation": 1,
            "creationTimestamp": "2026-11-20T08:00:00Z", "labels": {"cluster.x-k8s.io/cluster-name": "yard"}}})
}

fn uid(kind: &str, name: &str) -> String {
    let sum = format!("{kind}/{name}")
        .bytes()
        .fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("7f4f7d0e-53c7-4c8c-9d5e-{:012x}", sum & 0xffff_ffff_ffff)
}

fn owned(mut object: Value, group: &str, kind: &str, name: &str) -> Value {
    let owner = json!([{"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": name, "uid": uid(kind, name),
        "controller": kind != "Cluster"}]);
    object["metadata"]["ownerReferences"] = owner;
    object
}

/// Conditions of releases before 1.9, all true.
fn well(types: &[&str]) -> Value {
    let of =
        |type_: &&str| json!({"type": type_, "status": "True", "lastTransitionTime": "2026-11-20T08:10:00Z"});
    types.iter().map(of).collect()
}

/// A Machine that runs, with what is behind it.
fn machine(name: &str, owner: (&str, &str, &str), is_control_plane: bool) -> [Value; 3] {
    let spec = json!({"clusterName": "yard", "version": "v1.31.0", "providerID": format!("yard://{name}"),
        "bootstrap": {"dataSecretName": name, "configRef": reference(BOOTSTRAP, "KubeadmConfig", name)},
        "infrastructureRef": reference(PROVIDER, "YardMachine", name)});
    let mut types = vec!["Ready", "BootstrapReady", "InfrastructureReady", "NodeHealthy"];
    if is_control_plane {
        types.extend(["APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy"]);
        types.extend(["EtcdPodHealthy", "EtcdMemberHealthy"]);
    }
    let status = json!({"phase": "Running", "bootstrapReady": true, "infrastructureReady": true, "observedGeneration": 1,
        "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": "n"}, "conditions": well(&types)});
    let mut machine = owned(object(CORE, "Machine", name, spec, status), owner.0, owner.1, owner.2);
    machine["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    let labels = &mut machine["metadata"]["labels"];
    if is_control_plane {
        labels["cluster.x-k8s.io/control-plane"] = json!("");
        labels["cluster.x-k8s.io/control-plane-name"] = json!(owner.2);
    } else {
        labels["pool"] = json!("a");
        labels["cluster.x-k8s.io/deployment-name"] = json!("yard-md");
        labels["machine-template-hash"] = json!("h");
    }
    let config =
        object(BOOTSTRAP, "KubeadmConfig", name, json!({}), json!({"ready": true, "dataSecretName": name}));
    let host = object(
        PROVIDER,
        "YardMachine",
        name,
        json!({"providerID": format!("yard://{name}")}),
        json!({"ready": true, "conditions": well(&["Ready"])}),
    );
    [machine, owned(config, CORE, "Machine", name), owned(host, CORE, "Machine", name)]
}

/// A Cluster with one control plane Machine and two workers, as a release before 1.9 leaves it.
fn fleet() -> Vec<Value> {
    let cluster = object(
        CORE,
        "Cluster",
        "yard",
        json!({"controlPlaneRef": reference(CONTROL_PLANE, "KubeadmControlPlane", "yard-cp"),
            "controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443},
            "infrastructureRef": reference(PROVIDER, "YardCluster", "yard")}),
        json!({"phase": "Provisioned", "controlPlaneReady": true, "infrastructureReady": true, "observedGeneration": 1,
            "conditions": well(&["Ready", "ControlPlaneInitialized", "ControlPlaneReady", "InfrastructureReady"])}),
    );
    let plane = object(
        CONTROL_PLANE,
        "KubeadmControlPlane",
        "yard-cp",
        json!({"replicas": 1, "version": "v1.31.0", "kubeadmConfigSpec": {}, "rolloutStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1}},
            "machineTemplate": {"infrastructureRef": reference(PROVIDER, "YardMachineTemplate", "t"), "nodeDrainTimeout": "5m"}}),
        json!({"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "initialized": true, "ready": true, "version": "v1.31.0",
            "observedGeneration": 1, "conditions": well(&["Ready", "Available", "CertificatesAvailable", "MachinesReady"])}),
    );
    let template = json!({"metadata": {"labels": {"pool": "a"}}, "spec": {"clusterName": "yard", "version": "v1.31.0",
        "bootstrap": {"configRef": reference(BOOTSTRAP, "KubeadmConfigTemplate", "t")},
        "infrastructureRef": reference(PROVIDER, "YardMachineTemplate", "t")}});
    let counters = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2,
        "fullyLabeledReplicas": 2, "observedGeneration": 1, "phase": "Running", "conditions": well(&["Ready", "Available"])});
    let deployment = object(
        CORE,
        "MachineDeployment",
        "yard-md",
        json!({"clusterName": "yard", "replicas": 2, "selector": {"matchLabels": {"pool": "a"}}, "template": template,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}),
        counters.clone(),
    );
    let mut set = object(
        CORE,
        "MachineSet",
        "yard-md-h",
        json!({"clusterName": "yard", "replicas": 2, "template": template,
            "selector": {"matchLabels": {"pool": "a", "machine-template-hash": "h"}}}),
        counters,
    );
    set["metadata"]["labels"]["pool"] = json!("a");
    set["metadata"]["labels"]["machine-template-hash"] = json!("h");
    set["spec"]["template"]["metadata"]["labels"]["machine-template-hash"] = json!("h");
    let ready = json!({"ready": true});
    let mut all = vec![
        cluster,
        owned(plane, CORE, "Cluster", "yard"),
        owned(deployment, CORE, "Cluster", "yard"),
        owned(set, CORE, "MachineDeployment", "yard-md"),
        object(PROVIDER, "YardCluster", "yard", json!({}), ready),
        object(PROVIDER, "YardMachineTemplate", "t", json!({"template": {"spec": {}}}), Value::Null),
        object(BOOTSTRAP, "KubeadmConfigTemplate", "t", json!({"template": {"spec": {}}}), Value::Null),
    ];
    all.extend(machine("yard-cp-1", (CONTROL_PLANE, "KubeadmControlPlane", "yard-cp"), true));
    all.extend(machine("yard-md-h-1", (CORE, "MachineSet", "yard-md-h"), false));
    all.extend(machine("yard-md-h-2", (CORE, "MachineSet", "yard-md-h"), false));
    all
}

async fn place() -> Place {
    let mut place = Place::serving(definitions(), Arc::new(AdmitAll)).await;
    for object in fleet() {
        place = place.with(object).await;
    }
    place
}

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn command(line: &str) -> Command {
    let words = std::iter::once("capstan").chain(line.split(' '));
    Cli::try_parse_from(words).expect("arguments").command.expect("a command")
}

fn assert_noted(remarks: &[String]) {
    assert!(remarks.iter().any(|remark| remark.ends_with(NOTE)), "{remarks:?}");
    assert!(!remarks.iter().any(|remark| remark.contains("not read")), "{remarks:?}");
}

#[tokio::test]
async fn a_cluster_of_a_server_without_the_newer_version_is_planned() {
    let place = place().await;
    let connection = place.connection(true);
    for line in ["plan", "plan cluster/yard", "plan kcp/yard-cp", "plan md yard-md"] {
        let Command::Plan(args) = command(line) else { panic!("plan") };
        let answer = plan::from_server(&connection, &args, "default", now(), Style::default()).await;
        let answer = answer.unwrap_or_else(|error| panic!("{line}: {error}"));
        println!("{line}\n{}\n{:?}", answer.document, answer.remarks);
        assert_noted(&answer.remarks);
        for word in ["blocked", "waits", "unknown", "not initialized"] {
            assert!(!answer.document.contains(word), "{line}: it is well\n{}", answer.document);
        }
    }
}

#[tokio::test]
async fn a_change_is_run_ahead_there() {
    let place = place().await;
    let Command::Simulate(args) = command("simulate cluster/yard --set md/yard-md:replicas=3") else {
        panic!("simulate")
    };
    let connection = place.connection(true);
    let answer = simulate::from_server(&connection, &args, "default", (now(), &[]), Style::default()).await;
    let answer = answer.expect("a simulation");
    println!("{}\n{:?}", answer.document, answer.remarks);
    assert_noted(&answer.remarks);
    assert!(answer.document.contains("MachineSet yard-md-h"), "{}", answer.document);
}

#[tokio::test]
async fn a_preview_has_the_plan_before_and_after_there() {
    let place = place().await;
    let key = ObjectKey::new("default", "yard-md");
    let target = ObjectRef { gvk: Gvk::of::<MachineDeployment>(), key, uid: String::new() };
    for (action, follows) in [
        (Action::Scale { replicas: 3 }, "yard-md"),
        (Action::SetVersion { version: "v1.31.4".to_owned() }, "yard-md"),
        (Action::Restart, "yard-md"),
    ] {
        let preview = place.executor(false).preview(&Request::new(target.clone(), action.clone())).await;
        let preview = preview.unwrap_or_else(|error| panic!("{action}: {error}"));
        let Outlook::Known(change) = &preview.outlook else { panic!("{action}: {:?}", preview.outlook) };
        println!("{action}\n{change:#?}");
        assert_ne!(change.after.first(), Some(&change.before), "{action}");
        assert!(change.after.iter().any(|line| line.contains(follows)), "{action}: {:?}", change.after);
        assert!(!change.course.is_empty(), "{action}");
    }
}

#[tokio::test]
async fn it_is_described_without_a_wrong_word() {
    let place = place().await;
    let Command::Describe(args) = command("describe cluster yard") else { panic!("describe") };
    let seen = describe::describe(&place.connection(true), &args, "default", now(), Style::default()).await;
    let seen = seen.expect("a tree");
    println!("{}\n{:?}", seen.document, seen.remarks);
    assert_eq!(seen.verdict, capstan_dashboard::fleet::Verdict::Ok, "{}", seen.document);
}
