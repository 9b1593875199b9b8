//! Tables for the Machine's conditions and phase.

mod boundaries;
mod deletions;
mod learned;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::status::contract::Provided;

fn now() -> Timestamp {
    parse_rfc3339("2026-01-01T12:00:00Z").expect("a moment")
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn external(kind: &str, status: Value, spec: Value) -> External {
    External::Found(Provided::new(
        json!({"kind": kind, "metadata": {"name": "m"}, "spec": spec, "status": status}),
    ))
}

/// A worker whose providers are ready and whose Node is there.
fn running() -> Observed {
    let spec = json!({
        "clusterName": "c",
        "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "m"},
                      "dataSecretName": "m"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "m"},
        "version": "v1.34.1",
        "providerID": "in-memory://m",
    });
    let since = "2026-01-01T11:00:00Z";
    Observed {
        machine: object(json!({"metadata": {"name": "m", "namespace": "ns", "generation": 2,
            "creationTimestamp": since}, "spec": spec})),
        cluster: object(json!({"metadata": {"name": "c"}, "spec": {}, "status": {
            "initialization": {"infrastructureProvisioned": true},
            "conditions": [{"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
                            "message": "", "lastTransitionTime": since}]}})),
        bootstrap: external(
            "KubeadmConfig",
            json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "m",
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]}),
            json!({}),
        ),
        infrastructure: external(
            "DevMachine",
            json!({"initialization": {"provisioned": true},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "failureDomain": "z1"}),
            json!({"providerID": "in-memory://m"}),
        ),
        probe: Probe { last_success: Some(now()), ..Probe::default() },
        control_plane_machines_left: 1,
        node: NodeReading::Found(Arc::new(node(&[
            ("Ready", "True", ""),
            ("MemoryPressure", "False", ""),
            ("DiskPressure", "False", ""),
            ("PIDPressure", "False", ""),
        ]))),
        ..Observed::default()
    }
}

fn node(conditions: &[(&str, &str, &str)]) -> Node {
    let list: Vec<Value> =
        conditions.iter().map(|(t, s, m)| json!({"type": t, "status": s, "message": m})).collect();
    object(json!({"metadata": {"name": "m"}, "spec": {"providerID": "in-memory://m"}, "status": {
        "conditions": list,
        "nodeInfo": {"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "v1.34.1", "machineID": "", "operatingSystem": "linux",
            "osImage": "", "systemUUID": ""}}}))
}

/// These pods in namespaces that exist, and no rules.
fn tenants(pods: Vec<Pod>) -> TenantsReading {
    let namespaces = pods.iter().filter_map(|pod| pod.metadata.namespace.clone());
    let namespaces = Ok(namespaces.map(|name| (name, BTreeMap::new())).collect());
    TenantsReading::Known(Box::new(Tenants {
        rules: Ok(Vec::new()),
        namespaces,
        daemon_sets: BTreeSet::new(),
        pods,
    }))
}

/// Nothing is attached anywhere.
fn no_storage() -> StorageReading {
    StorageReading::Known(Box::new(Storage { attachments: Ok(Vec::new()), volumes: Ok(Vec::new()) }))
}

fn annotate(o: &mut Observed, name: &str) {
    o.machine.metadata.annotations.get_or_insert_default().insert(name.to_owned(), String::new());
}

fn said<'a>(status: &'a MachineStatus, type_: &str) -> (&'a str, &'a str, &'a str) {
    find(&status.conditions, type_)
        .map_or(("", "", ""), |c| (c.status.as_str(), c.reason.as_str(), c.message.as_str()))
}

#[test]
fn a_running_worker_is_ready_and_available() {
    let status = status(&running(), now());
    for (type_, expected) in [
        ("Available", ("True", "Available", "")),
        ("Ready", ("True", "Ready", "")),
        ("BootstrapConfigReady", ("True", "Ready", "")),
        ("InfrastructureReady", ("True", "Ready", "")),
        ("NodeHealthy", ("True", "NodeHealthy", "")),
        ("NodeReady", ("True", "NodeReady", "")),
        ("Updating", ("False", "NotUpdating", "")),
        ("Paused", ("False", "NotPaused", "")),
        ("Deleting", ("False", "NotDeleting", "")),
    ] {
        assert_eq!(said(&status, type_), expected, "{type_}");
    }
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.failure_domain.as_deref(), Some("z1"));
    assert_eq!(status.addresses[0].address, "10.0.0.1");
    assert_eq!(status.node_info.map(|i| i.kubelet_version).as_deref(), Some("v1.34.1"));
    let order: Vec<_> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(
        order,
        [
            "Available",
            "Ready",
            "BootstrapConfigReady",
            "InfrastructureReady",
            "NodeHealthy",
            "NodeReady",
            "Updating",
            "Paused",
            "Deleting"
        ]
    );
}

#[test]
fn the_first_control_plane_machine_waits_as_in_appendix_b() {
    let mut o = running();
    o.cluster = object(json!({"metadata": {}, "spec": {},
        "status": {"initialization": {"infrastructureProvisioned": true}}}));
    o.machine.spec.provider_id = None;
    o.machine.spec.bootstrap.data_secret_name = None;
    o.bootstrap = external("KubeadmConfig", json!({}), json!({}));
    o.infrastructure = external("DevMachine", json!({}), json!({}));
    o.node = NodeReading::NotAsked;
    let status = status(&o, now());
    let waiting = "Waiting for Cluster control plane to be initialized";
    assert_eq!(
        said(&status, "BootstrapConfigReady"),
        ("False", "NotReady", "KubeadmConfig status.initialization.dataSecretCreated is false")
    );
    assert_eq!(
        said(&status, "InfrastructureReady"),
        ("False", "NotReady", "DevMachine status.initialization.provisioned is false")
    );
    assert_eq!(said(&status, "NodeReady"), ("Unknown", "InspectionFailed", waiting));
    assert_eq!(
        said(&status, "Ready").2,
        format!(
            "* BootstrapConfigReady: KubeadmConfig status.initialization.dataSecretCreated is false\n\
             * InfrastructureReady: DevMachine status.initialization.provisioned is false\n* NodeHealthy: {waiting}"
        )
    );
    assert_eq!(said(&status, "Available"), ("False", "NotReady", ""));
    assert_eq!(status.phase.as_deref(), Some("Pending"));
}

#[test]
fn a_node_is_awaited_by_provider_id() {
    let mut o = running();
    o.node = NodeReading::NotFound;
    let expected = "Waiting for a Node with spec.providerID in-memory://m to exist";
    assert_eq!(said(&status(&o, now()), "NodeHealthy"), ("Unknown", "InspectionFailed", expected));
    assert_eq!(status(&o, now()).phase.as_deref(), Some("Provisioned"));
    o.machine.spec.provider_id = None;
    o.infrastructure = external("DevMachine", json!({}), json!({}));
    assert_eq!(said(&status(&o, now()), "NodeReady").2, "Waiting for DevMachine to report spec.providerID");
}

#[test]
fn node_troubles_are_told_apart_and_collapsed() {
    let cases: [(&[(&str, &str, &str)], (&str, &str, &str)); 4] = [
        (
            &[
                ("Ready", "False", "cni"),
                ("MemoryPressure", "False", ""),
                ("DiskPressure", "True", ""),
                ("PIDPressure", "False", ""),
            ],
            ("False", "NodeNotHealthy", "* Node.Ready: cni\n* Node.DiskPressure: Condition is True"),
        ),
        (
            &[
                ("Ready", "Unknown", "x"),
                ("MemoryPressure", "Unknown", "x"),
                ("DiskPressure", "Unknown", "x"),
                ("PIDPressure", "Unknown", "x"),
            ],
            ("Unknown", "NodeHealthyUnknown", "* Node.AllConditions: x"),
        ),
        (
            &[("Ready", "True", ""), ("MemoryPressure", "False", ""), ("DiskPressure", "False", "")],
            ("Unknown", "NodeHealthyUnknown", "* Node.PIDPressure: Condition not yet reported"),
        ),
        (
            &[("Ready", "Unknown", "x"), ("MemoryPressure", "Unknown", "x")],
            ("Unknown", "NodeHealthyUnknown", "* Node.AllConditions: x"),
        ),
    ];
    for (conditions, expected) in cases {
        let mut o = running();
        o.node = NodeReading::Found(Arc::new(node(conditions)));
        assert_eq!(said(&status(&o, now()), "NodeHealthy"), expected);
    }
}

#[test]
fn what_a_lost_connection_leaves_behind() {
    let mut o = running();
    o.machine.status = Some(status(&o, now()));
    o.node = NodeReading::NotConnected;
    o.probe.last_success = Some(now() - TimeDelta::minutes(4));
    assert_eq!(
        said(&status(&o, now()), "NodeReady"),
        ("True", "NodeReady", ""),
        "kept within the grace period"
    );
    o.probe.last_success = Some(now() - TimeDelta::minutes(6));
    let text = "Last successful probe at 2026-01-01T11:54:00Z";
    assert_eq!(said(&status(&o, now()), "NodeReady"), ("Unknown", "ConnectionDown", text));
}

#[test]
fn available_waits_for_min_ready_seconds() {
    let mut o = running();
    o.machine.spec.min_ready_seconds = Some(30);
    o.machine.status = Some(status(&o, now()));
    assert_eq!(said(&status(&o, now()), "Available").1, "WaitingForMinReadySeconds");
    assert_eq!(available_in(&o, now()), Some(TimeDelta::seconds(30)));
    assert_eq!(said(&status(&o, now() + TimeDelta::seconds(30)), "Available").0, "True");
}

fn deleting() -> Observed {
    let mut o = running();
    o.machine.metadata.deletion_timestamp = Some(to_k8s(now()));
    o
}

#[test]
fn deletion_goes_through_its_stages_in_order() {
    let stage = |o: &Observed| deletion::stage(o, now());
    let hook = |o: &mut Observed, name: &str| {
        o.machine.metadata.annotations.get_or_insert_default().insert(name.to_owned(), String::new());
    };
    let mut o = deleting();
    hook(&mut o, "pre-drain.delete.hook.machine.cluster.x-k8s.io/a");
    hook(&mut o, "pre-terminate.delete.hook.machine.cluster.x-k8s.io/b");
    assert!(matches!(stage(&o), deletion::Stage::PreDrainHooks(keys) if keys.len() == 1));
    o.machine.metadata.annotations.get_or_insert_default().retain(|k, _| !k.starts_with("pre-drain"));
    assert_eq!(stage(&o), deletion::Stage::Drain(None));
    let pod: Pod = object(json!({"metadata": {"namespace": "d", "name": "p"}}));
    o.tenants = tenants(vec![pod]);
    assert!(matches!(stage(&o), deletion::Stage::Drain(Some(d)) if d.evict.len() == 1));
    o.tenants = tenants(Vec::new());
    assert_eq!(stage(&o), deletion::Stage::VolumeDetach(None));
    o.storage = no_storage();
    assert!(matches!(stage(&o), deletion::Stage::PreTerminateHooks(_)));
    o.machine.metadata.annotations = None;
    assert_eq!(stage(&o), deletion::Stage::Infrastructure);
    o.infrastructure = External::NotFound { kind: "DevMachine".to_owned() };
    assert_eq!(stage(&o), deletion::Stage::Bootstrap);
    o.bootstrap = External::NotFound { kind: "KubeadmConfig".to_owned() };
    assert_eq!(stage(&o), deletion::Stage::Node);
    o.node = NodeReading::NotFound;
    assert_eq!(stage(&o), deletion::Stage::Completed);
}

#[test]
fn the_node_stays_when_the_cluster_or_its_control_plane_goes() {
    let mut o = deleting();
    assert_eq!(deletion::node_deletion_allowed(&o), Ok(true));
    o.control_plane_machines_left = 0;
    assert_eq!(deletion::node_deletion_allowed(&o), Ok(false), "no control plane Machine is left");
    o.control_plane = external("XControlPlane", json!({"externalManagedControlPlane": true}), json!({}));
    assert_eq!(deletion::node_deletion_allowed(&o), Ok(true));
    o.control_plane = External::Unreadable { kind: "X".to_owned(), error: "no".to_owned() };
    assert!(deletion::node_deletion_allowed(&o).is_err());
    Arc::make_mut(&mut o.cluster).metadata.deletion_timestamp = Some(to_k8s(now()));
    assert_eq!(deletion::node_deletion_allowed(&o), Ok(false));
    assert_eq!(deletion::stage(&o, now()), deletion::Stage::Infrastructure);
}

#[test]
fn ready_of_a_deleting_machine_names_the_stage() {
    let mut o = deleting();
    (o.tenants, o.storage) = (tenants(Vec::new()), no_storage());
    let first = status(&o, now());
    assert_eq!(
        said(&first, "Deleting"),
        ("True", "WaitingForInfrastructureDeletion", "Waiting for DevMachine to be deleted")
    );
    assert_eq!(
        said(&first, "Ready").2,
        "* Deleting: Machine deletion in progress, stage: WaitingForInfrastructureDeletion"
    );
    assert_eq!(first.phase.as_deref(), Some("Deleting"));
    o.infrastructure = External::NotFound { kind: "DevMachine".to_owned() };
    o.machine.status = Some(first);
    o.probe.last_success = Some(now() + TimeDelta::minutes(16));
    let later = status(&o, now() + TimeDelta::minutes(16));
    assert_eq!(
        said(&later, "InfrastructureReady"),
        ("False", "ObjectDeleted", "DevMachine has been deleted")
    );
    assert_eq!(
        said(&later, "Ready").2,
        "* Deleting: Machine deletion in progress since more than 15m, stage: WaitingForBootstrapDeletion"
    );
}

#[test]
fn equal_control_plane_lines_are_grouped() {
    let lines = |list: &[&str]| list.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
    let mixed = lines(&[
        "* NodeHealthy: x",
        "* APIServerPodHealthy: y",
        "* SchedulerPodHealthy: y",
        "* EtcdPodHealthy: y",
        "* EtcdMemberHealthy: y",
    ]);
    assert_eq!(
        summary::group_control_plane_lines(mixed),
        ["* NodeHealthy: x", "* Control plane components: y", "* EtcdMemberHealthy: y"]
    );
    let different = lines(&["* APIServerPodHealthy: y", "* SchedulerPodHealthy: z"]);
    assert_eq!(summary::group_control_plane_lines(different.clone()), different);
}

#[test]
fn a_worker_is_compared_through_its_set() {
    let mut o = running();
    let template = |version: &str| {
        json!({"spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "version": version,
        "infrastructureRef": {"apiGroup": "g", "kind": "DevMachineTemplate", "name": "t"}}})
    };
    let owner = |version: &str| json!({"metadata": {"name": "md"}, "spec": {"clusterName": "c", "selector": {}, "template": template(version)}});
    o.deployment = Some((object(owner("v1.34.1")), object(owner("v1.35.0"))));
    assert_eq!(
        said(&status(&o, now()), "UpToDate"),
        ("False", "NotUpToDate", "* Version v1.34.1, v1.35.0 required")
    );
    o.deployment = Some((object(owner("v1.34.1")), object(owner("v1.34.1"))));
    assert_eq!(said(&status(&o, now()), "UpToDate"), ("True", "UpToDate", ""));
    o.machine.spec.version = Some("v1.35.0".to_owned());
    assert_eq!(
        said(&status(&o, now()), "UpToDate"),
        ("False", "Updating", "* Node.status.nodeInfo.kubeletVersion v1.34.1, v1.35.0 required")
    );
}
