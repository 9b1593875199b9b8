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

/// What a control plane Machine was made with.
const RECORD: &str = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration";

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

/// Conditions of releases before 1.9, all true: the Cluster came first, then its control plane, then its workers.
fn well(types: &[&str]) -> Value {
    let all: Vec<(&str, &str)> = types.iter().map(|type_| (*type_, "08:05")).collect();
    well_since(&all)
}

fn well_since(types: &[(&str, &str)]) -> Value {
    let of = |(type_, minute): &(&str, &str)| json!({"type": type_, "status": "True", "lastTransitionTime": format!("2026-11-20T{minute}:00Z")});
    types.iter().map(of).collect()
}

/// As the releases leave the one of the first Machine.
fn first_config() -> Value {
    json!({"format": "cloud-config", "initConfiguration": {"localAPIEndpoint": {}, "nodeRegistration": {"imagePullPolicy": "IfNotPresent"}},
        "clusterConfiguration": {"apiServer": {}, "controllerManager": {}, "scheduler": {}, "dns": {}, "etcd": {},
            "networking": {"serviceSubnet": "10.96.0.0/12"}, "clusterName": "yard", "controlPlaneEndpoint": "127.0.0.1:6443",
            "kubernetesVersion": "v1.31.0", "featureGates": {"ControlPlaneKubeletLocalMode": true}}})
}

/// A Machine that runs, with what is behind it.
fn machine(name: &str, owner: (&str, &str, &str), is_control_plane: bool) -> [Value; 3] {
    let spec = json!({"clusterName": "yard", "version": "v1.31.0", "providerID": format!("yard://{name}"),
        "bootstrap": {"dataSecretName": name, "configRef": reference(BOOTSTRAP, "KubeadmConfig", name)},
        "infrastructureRef": reference(PROVIDER, "YardMachine", name)});
    let [bootstrap, host, node] =
        if is_control_plane { ["08:02", "08:04", "08:05"] } else { ["08:06", "08:08", "08:10"] };
    let mut types = vec![
        ("Ready", host),
        ("BootstrapReady", bootstrap),
        ("InfrastructureReady", host),
        ("NodeHealthy", node),
    ];
    if is_control_plane {
        let parts = [
            "APIServerPodHealthy",
            "ControllerManagerPodHealthy",
            "SchedulerPodHealthy",
            "EtcdPodHealthy",
            "EtcdMemberHealthy",
        ];
        types.extend(parts.map(|type_| (type_, node)));
    }
    let status = json!({"phase": "Running", "bootstrapReady": true, "infrastructureReady": true, "observedGeneration": 1,
        "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": "n"}, "conditions": well_since(&types)});
    let mut machine = owned(object(CORE, "Machine", name, spec, status), owner.0, owner.1, owner.2);
    machine["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    let labels = &mut machine["metadata"]["labels"];
    if is_control_plane {
        labels["cluster.x-k8s.io/control-plane"] = json!("");
        labels["cluster.x-k8s.io/control-plane-name"] = json!(owner.2);
        machine["metadata"]["annotations"] = json!({RECORD: "{}"});
    } else {
        *labels = pool_labels(true);
        labels["cluster.x-k8s.io/set-name"] = json!("yard-md-h");
    }
    let labels = machine["metadata"]["labels"].clone();
    let spec = if is_control_plane { first_config() } else { json!({"joinConfiguration": {}}) };
    let config =
        object(BOOTSTRAP, "KubeadmConfig", name, spec, json!({"ready": true, "dataSecretName": name}));
    let host = object(
        PROVIDER,
        "YardMachine",
        name,
        json!({"providerID": format!("yard://{name}")}),
        json!({"ready": true, "conditions": well(&["Ready"])}),
    );
    let behind = [config, host].map(|mut object| {
        object["metadata"]["labels"] = labels.clone();
        owned(object, CORE, "Machine", name)
    });
    let [config, host] = behind;
    [machine, config, host]
}

/// What Machines of the pool are found by; `hashed`: of one of its MachineSets.
fn pool_labels(hashed: bool) -> Value {
    let mut labels = json!({"pool": "a", "cluster.x-k8s.io/cluster-name": "yard", "cluster.x-k8s.io/deployment-name": "yard-md"});
    if hashed {
        labels["machine-template-hash"] = json!("h");
    }
    labels
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
            "conditions": well_since(&[("Ready", "08:05"), ("ControlPlaneInitialized", "08:05"), ("ControlPlaneReady", "08:05"),
                ("InfrastructureReady", "08:01")])}),
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
    let template = json!({"metadata": {"labels": pool_labels(false)}, "spec": {"clusterName": "yard", "version": "v1.31.0",
        "bootstrap": {"configRef": reference(BOOTSTRAP, "KubeadmConfigTemplate", "t")},
        "infrastructureRef": reference(PROVIDER, "YardMachineTemplate", "t")}});
    let counters = json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2,
        "fullyLabeledReplicas": 2, "observedGeneration": 1, "phase": "Running", "conditions": well(&["Ready", "Available"])});
    let deployment = object(
        CORE,
        "MachineDeployment",
        "yard-md",
        json!({"clusterName": "yard", "replicas": 2, "selector": {"matchLabels": pool_labels(false)}, "template": template,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}),
        counters.clone(),
    );
    let mut set = object(
        CORE,
        "MachineSet",
        "yard-md-h",
        json!({"clusterName": "yard", "replicas": 2, "template": template,
            "selector": {"matchLabels": pool_labels(true)}}),
        counters,
    );
    set["metadata"]["labels"] = pool_labels(true);
    set["metadata"]["annotations"] = json!({"machinedeployment.clusters.x-k8s.io/revision": "1",
        "machinedeployment.clusters.x-k8s.io/desired-replicas": "2", "machinedeployment.clusters.x-k8s.io/max-replicas": "3"});
    set["spec"]["template"]["metadata"]["labels"] = pool_labels(true);
    let ready = json!({"ready": true});
    let mut all = vec![
        cluster,
        owned(plane, CORE, "Cluster", "yard"),
        owned(deployment, CORE, "Cluster", "yard"),
        owned(set, CORE, "MachineDeployment", "yard-md"),
        object(PROVIDER, "YardCluster", "yard", json!({}), ready),
        owned(template_of(PROVIDER, "YardMachineTemplate"), CORE, "Cluster", "yard"),
        owned(template_of(BOOTSTRAP, "KubeadmConfigTemplate"), CORE, "Cluster", "yard"),
    ];
    all.extend(machine("yard-cp-1", (CONTROL_PLANE, "KubeadmControlPlane", "yard-cp"), true));
    all.extend(machine("yard-md-h-1", (CORE, "MachineSet", "yard-md-h"), false));
    all.extend(machine("yard-md-h-2", (CORE, "MachineSet", "yard-md-h"), false));
    all
}

fn template_of(group: &str, kind: &str) -> Value {
    object(group, kind, "t", json!({"template": {"spec": {}}}), Value::Null)
}

async fn place() -> Place {
    holding(fleet()).await
}

async fn holding(objects: Vec<Value>) -> Place {
    let mut place = Place::serving(definitions(), Arc::new(AdmitAll)).await;
    for object in objects {
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
        for word in ["blocked", "waits", "unknown", "not initialized", "not up-to-date", "acting"] {
            assert!(!answer.document.contains(word), "{line}: it is well\n{}", answer.document);
        }
    }
}

/// What changes an object of the fleet before it is planned.
type Variant = (&'static str, fn(&mut Vec<Value>));

/// Its KubeadmConfig was compared, as later releases do it: every Machine that was made before a release set a gate was to be
/// replaced.
#[tokio::test]
async fn a_control_plane_machine_is_outdated_by_what_its_release_compares() {
    fn of<'f>(fleet: &'f mut [Value], kind: &str, name: &str) -> &'f mut Value {
        let found = fleet.iter_mut().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
        found.expect("an object")
    }
    let stays: [Variant; 3] = [
        ("as release 1.8.5 leaves it", |_| {}),
        ("made before release 1.8.2", |fleet| {
            let config = of(fleet, "KubeadmConfig", "yard-cp-1");
            let configuration = config["spec"]["clusterConfiguration"].as_object_mut();
            configuration.expect("a configuration").remove("featureGates");
        }),
        ("adopted, without a record", |fleet| {
            of(fleet, "Machine", "yard-cp-1")["metadata"]["annotations"] = Value::Null;
            let flags = json!({"clusterConfiguration": {"apiServer": {"extraArgs": {"v": "4"}}}});
            of(fleet, "KubeadmControlPlane", "yard-cp")["spec"]["kubeadmConfigSpec"] = flags;
        }),
    ];
    let goes: [Variant; 3] = [
        ("another flag", |fleet| {
            let flags = json!({"clusterConfiguration": {"apiServer": {"extraArgs": {"v": "4"}}}});
            of(fleet, "KubeadmControlPlane", "yard-cp")["spec"]["kubeadmConfigSpec"] = flags;
        }),
        ("another file", |fleet| {
            let files = json!({"files": [{"path": "/a", "content": "b"}]});
            of(fleet, "KubeadmControlPlane", "yard-cp")["spec"]["kubeadmConfigSpec"] = files;
        }),
        ("another version", |fleet| {
            of(fleet, "KubeadmControlPlane", "yard-cp")["spec"]["version"] = json!("v1.31.4");
        }),
    ];
    let all = stays.into_iter().map(|it| (it, false)).chain(goes.into_iter().map(|it| (it, true)));
    for ((name, vary), is_replaced) in all {
        let mut objects = fleet();
        vary(&mut objects);
        let place = holding(objects).await;
        let Command::Plan(args) = command("plan kcp/yard-cp") else { panic!("plan") };
        let answer =
            plan::from_server(&place.connection(true), &args, "default", now(), Style::default()).await;
        let document = answer.expect("a plan").document;
        println!("{name}\n{document}");
        assert_eq!(document.contains("not up-to-date"), is_replaced, "{name}\n{document}");
    }
}

/// What is written to a file for `--change`, and what the forecast then says.
#[tokio::test]
async fn a_patch_in_the_version_of_the_server_is_tried_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("patch.yaml");
    let place = place().await;
    let of = |api_version: &str, kind: &str, name: &str, spec: &str| {
        format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n")
    };
    for (text, expected) in [
        (
            of(
                "cluster.x-k8s.io/v1beta1",
                "MachineDeployment",
                "yard-md",
                "{template: {spec: {version: v1.31.4}}, strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}}",
            ),
            Ok("yard-md: never below 1 available, never more than 2 Machines"),
        ),
        (
            of(
                "cluster.x-k8s.io/v1beta2",
                "MachineDeployment",
                "yard-md",
                "{template: {spec: {version: v1.31.4}}, rollout: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}}}",
            ),
            Ok("yard-md: never below 1 available, never more than 2 Machines"),
        ),
        (
            of(
                "controlplane.cluster.x-k8s.io/v1beta1",
                "KubeadmControlPlane",
                "yard-cp",
                "{kubeadmConfigSpec: {clusterConfiguration: {apiServer: {extraArgs: {v: '4'}}}}}",
            ),
            Ok("KubeadmControlPlane/yard-cp: never below 1 available, never more than 2 Machines"),
        ),
        (
            of("cluster.x-k8s.io/v1beta1", "MachineDeployment", "yard-md", "{stratgy: {type: OnDelete}}"),
            Err("spec.stratgy.type of v1beta1 changes nothing of a MachineDeployment"),
        ),
    ] {
        std::fs::write(&path, &text).expect("written");
        let Command::Simulate(args) = command(&format!("simulate cluster/yard --change {}", path.display()))
        else {
            panic!("simulate")
        };
        let connection = place.connection(true);
        let answer =
            simulate::from_server(&connection, &args, "default", (now(), &[]), Style::default()).await;
        match (answer, expected) {
            (Ok(answer), Ok(line)) => assert!(answer.document.contains(line), "{text}{}", answer.document),
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{text}{error}"),
            (answer, expected) => panic!("{text}{expected:?}: {:?}", answer.map(|it| it.document)),
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
