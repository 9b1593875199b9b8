//! Small builders for tests of status and plan: a healthy control plane of three.

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::certificates::{Certificates, Purpose};
use super::{Kubeconfig, Observed, OwnedMachine, Reached, Template, Workload};
use crate::etcd::{Member, Members, Membership};
use crate::status::in_place::InPlace;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capstan_base::time::{Timestamp, parse_rfc3339, rfc3339};

pub fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").unwrap()
}

pub fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A control plane that has been initialized for an hour.
pub fn control_plane(replicas: i32) -> KubeadmControlPlane {
    of(json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {
            "name": "prod-control-plane", "namespace": "default", "uid": "kcp-uid", "generation": 1,
            "creationTimestamp": "2026-11-20T08:00:00Z",
            "finalizers": ["kubeadm.controlplane.cluster.x-k8s.io"],
        },
        "spec": {
            "replicas": replicas,
            "version": "v1.34.1",
            "machineTemplate": { "spec": { "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io",
                "kind": "DevMachineTemplate",
                "name": "prod-control-plane",
            } } },
        },
        "status": {
            "initialization": { "controlPlaneInitialized": true },
            "conditions": [condition("Initialized", "True"), condition("CertificatesAvailable", "True")],
        },
    }))
}

pub fn condition(type_: &str, status: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": "2026-11-20T09:00:00Z",
    })
}

pub fn cluster() -> Cluster {
    of(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": { "name": "prod", "namespace": "default", "uid": "cluster-uid" },
        "spec": { "controlPlaneEndpoint": { "host": "10.0.0.9", "port": 6443 } },
        "status": { "initialization": { "infrastructureProvisioned": true } },
    }))
}

pub const HEALTHY: [&str; 9] = [
    "Ready",
    "Available",
    "UpToDate",
    "NodeKubeadmLabelsAndTaintsSet",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
];

const HEALTHY_GATES: [&str; 6] = [
    "NodeKubeadmLabelsAndTaintsSet",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
];

/// A healthy Machine with Node `node-NAME`, created an hour ago.
pub fn machine(name: &str) -> OwnedMachine {
    machine_created(name, "2026-11-20T09:00:00Z")
}

pub fn machine_created(name: &str, created: &str) -> OwnedMachine {
    let labels = json!({
        "cluster.x-k8s.io/cluster-name": "prod",
        "cluster.x-k8s.io/control-plane": "",
        "cluster.x-k8s.io/control-plane-name": "prod-control-plane",
    });
    let conditions: Vec<Value> = HEALTHY.iter().map(|t| condition(t, "True")).collect();
    OwnedMachine {
        machine: of(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("uid-{name}"),
                "creationTimestamp": created, "labels": labels,
                "annotations": { "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": "" },
            },
            "spec": {
                "clusterName": "prod",
                "version": "v1.34.1",
                "deletion": { "nodeDeletionTimeoutSeconds": 10 },
                "readinessGates": HEALTHY_GATES.map(|t| json!({ "conditionType": t })),
                "providerID": format!("in-memory://{name}"),
                "bootstrap": { "configRef": {
                    "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name,
                } },
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name,
                },
            },
            "status": { "nodeRef": { "name": format!("node-{name}") }, "conditions": conditions },
        })),
        bootstrap: Some(of(json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmConfig",
            "metadata": { "name": name, "namespace": "default", "uid": format!("cfg-{name}"), "labels": labels },
            "spec": {
                "clusterConfiguration": { "featureGates": { "ControlPlaneKubeletLocalMode": true } },
                "joinConfiguration": { "controlPlane": {} },
            },
        }))),
        infrastructure: Some(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "DevMachine",
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("infra-{name}"), "labels": labels,
                "annotations": {
                    "cluster.x-k8s.io/cloned-from-name": "prod-control-plane",
                    "cluster.x-k8s.io/cloned-from-groupkind":
                        "DevMachineTemplate.infrastructure.cluster.x-k8s.io",
                },
            },
        })),
    }
}

pub fn template() -> Template {
    Template::Found(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "DevMachineTemplate",
        "metadata": {
            "name": "prod-control-plane", "namespace": "default",
            "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod", "uid": "cluster-uid",
            }],
        },
        "spec": { "template": { "spec": { "backend": { "inMemory": {} } } } },
    }))
}

/// A ready control plane Node, an hour old.
pub fn node(name: &str) -> Node {
    of(json!({
        "metadata": {
            "name": name, "labels": { "node-role.kubernetes.io/control-plane": "" },
            "creationTimestamp": "2026-11-20T09:00:00Z",
        },
        "spec": { "taints": [{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }] },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    }))
}

/// The four running static pods of a Node.
pub fn pods(node: &str) -> Vec<Pod> {
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"]
        .iter()
        .map(|component| {
            of(json!({
                "metadata": { "name": format!("{component}-{node}"), "namespace": "kube-system" },
                "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
            }))
        })
        .collect()
}

pub fn member(id: u64, name: &str) -> Member {
    Member { id, name: name.to_owned(), ..Member::default() }
}

/// The state of a workload cluster with these Machines; the first one leads.
pub fn reached(machines: &[OwnedMachine]) -> Reached {
    let nodes: Vec<String> = machines.iter().filter_map(|m| m.node_name().map(str::to_owned)).collect();
    Reached {
        nodes: Ok(nodes.iter().map(|n| node(n)).collect()),
        pods: Ok(nodes.iter().flat_map(|n| pods(n)).collect()),
        etcd: Membership::Known(Members {
            list: nodes.iter().zip(1..).map(|(n, id)| member(id, n)).collect(),
            leader: (!nodes.is_empty()).then_some(1),
        }),
        kubeadm_config: Ok(Some(json!({ "kubernetesVersion": "v1.34.1" }))),
        kube_proxy_image: None,
        core_dns_image: None,
        bindings_missing: Vec::new(),
    }
}

/// A control plane with these healthy Machines and nothing to do.
pub fn observed(machines: Vec<OwnedMachine>) -> Observed {
    let replicas = i32::try_from(machines.len()).unwrap();
    Observed {
        cluster: cluster(),
        control_plane: control_plane(replicas),
        workload: Workload::Reached(Box::new(reached(&machines))),
        machines,
        orphans: Vec::new(),
        secrets: Vec::new(),
        foreign: Vec::new(),
        worker_machines: Vec::new(),
        machine_pools: Vec::new(),
        template: template(),
        certificates: Certificates::Found(Purpose::needed(false).to_vec()),
        unowned_certificates: Vec::new(),
        kubeconfig: Kubeconfig::Found { ours: true, controlled: true, expires: None },
        name_suffix: "abcdefghij".to_owned(),
        in_place: InPlace::Off,
        is_of_older_release: false,
    }
}

pub fn three() -> Observed {
    observed(vec![
        machine_created("m1", "2026-11-20T09:00:00Z"),
        machine_created("m2", "2026-11-20T09:10:00Z"),
        machine_created("m3", "2026-11-20T09:20:00Z"),
    ])
}

/// `now` as text, shifted.
pub fn ago(minutes: i64) -> String {
    rfc3339(now() - chrono::TimeDelta::minutes(minutes))
}
