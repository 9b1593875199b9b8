//! The objects of a healthy cluster, and what their statuses settle to. Made from specs alone.

use capi_rules::observe::dump::Dump;
use capi_rules::observe::dump::document::Document;
use capi_rules::recompute::all;
use capstan_base::time::parse_rfc3339;
use serde_json::{Value, json};

const CORE: &str = "cluster.x-k8s.io/v1beta2";
const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const BOOT: &str = "bootstrap.cluster.x-k8s.io/v1beta2";
pub const PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta2";
const SINCE: &str = "2026-11-20T09:00:00Z";

fn object(api: &str, kind: &str, name: &str, owner: Option<(&str, &str, &str)>, labels: &Value) -> Value {
    let owners: Vec<Value> = owner
        .map(|(api, kind, name)| json!({"apiVersion": api, "kind": kind, "name": name, "uid": format!("{kind}-{name}"), "controller": true}))
        .into_iter()
        .collect();
    let mut all = json!({"cluster.x-k8s.io/cluster-name": "c"});
    k8s_machinery::merge::apply(&mut all, labels);
    json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "ns", "uid": format!("{kind}-{name}"),
        "generation": 1, "creationTimestamp": SINCE, "labels": all, "ownerReferences": owners}})
}

fn with(mut object: Value, more: Value) -> Value {
    k8s_machinery::merge::apply(&mut object, &more);
    object
}

fn reference(api: &str, kind: &str, name: &str) -> Value {
    json!({"apiGroup": api.split('/').next(), "kind": kind, "name": name})
}

fn yes(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": "Given", "message": "", "lastTransitionTime": SINCE})
}

pub fn cluster() -> [Value; 2] {
    let cluster = with(
        object(CORE, "Cluster", "c", None, &json!({})),
        json!({"spec": {"controlPlaneEndpoint": {"host": "10.0.0.9", "port": 6443},
            "infrastructureRef": reference(INFRA, "DevCluster", "c"), "controlPlaneRef": reference(PLANE, "KubeadmControlPlane", "cp")},
            "status": {"initialization": {"infrastructureProvisioned": true}}}),
    );
    let infrastructure = object(INFRA, "DevCluster", "c", Some((CORE, "Cluster", "c")), &json!({}));
    let more =
        json!({"spec": {"backend": {"inMemory": {}}}, "status": {"initialization": {"provisioned": true}}});
    [cluster, with(infrastructure, more)]
}

pub fn control_plane(replicas: i32, status: Value) -> [Value; 2] {
    let object_ = object(PLANE, "KubeadmControlPlane", "cp", Some((CORE, "Cluster", "c")), &json!({}));
    let spec = json!({"replicas": replicas, "version": "v1.34.1",
        "machineTemplate": {"spec": {"infrastructureRef": reference(INFRA, "DevMachineTemplate", "t")}}});
    let template = object(INFRA, "DevMachineTemplate", "t", None, &json!({}));
    [with(object_, json!({"spec": spec, "status": status})), template]
}

/// A Machine with its two providers, as far as `up` says: both done, or neither.
pub fn machine(
    name: &str,
    owner: (&str, &str, &str),
    labels: &Value,
    gates: &[&str],
    up: bool,
) -> [Value; 3] {
    let gates: Vec<Value> = gates.iter().map(|gate| json!({ "conditionType": gate })).collect();
    let mut machine = with(
        object(CORE, "Machine", name, Some(owner), labels),
        json!({"spec": {"clusterName": "c", "version": "v1.34.1", "readinessGates": gates,
            "bootstrap": {"configRef": reference(BOOT, "KubeadmConfig", name)},
            "infrastructureRef": reference(INFRA, "DevMachine", name)}}),
    );
    let of_machine = Some((CORE, "Machine", name));
    let mut config = with(
        object(BOOT, "KubeadmConfig", name, of_machine, labels),
        json!({"spec": {"clusterConfiguration": {"featureGates": {"ControlPlaneKubeletLocalMode": true}}, "joinConfiguration": {"controlPlane": {}}}}),
    );
    let mut infrastructure = with(
        object(INFRA, "DevMachine", name, of_machine, labels),
        json!({"spec": {"backend": {"inMemory": {}}}, "metadata": {"annotations": {"cluster.x-k8s.io/cloned-from-name": "t",
            "cluster.x-k8s.io/cloned-from-groupkind": "DevMachineTemplate.infrastructure.cluster.x-k8s.io"}}}),
    );
    if up {
        machine["spec"]["providerID"] = format!("in-memory://{name}").into();
        machine["spec"]["bootstrap"]["dataSecretName"] = name.into();
        config["status"] = json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": name});
        infrastructure["spec"]["providerID"] = format!("in-memory://{name}").into();
        let parts = ["VMProvisioned", "NodeProvisioned", "EtcdProvisioned", "APIServerProvisioned"].map(yes);
        infrastructure["status"] = json!({"initialization": {"provisioned": true}, "conditions": parts});
    }
    [machine, config, infrastructure]
}

fn node(name: &str, control_plane: bool) -> Value {
    let role = "node-role.kubernetes.io/control-plane";
    let taints = if control_plane { json!([{"key": role, "effect": "NoSchedule"}]) } else { json!([]) };
    let labels = if control_plane { json!({role: ""}) } else { json!({}) };
    let said =
        |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": SINCE});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels, "creationTimestamp": SINCE,
            "annotations": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/cluster-namespace": "ns"}},
        "spec": {"providerID": format!("in-memory://{name}"), "taints": taints},
        "status": {"conditions": [said("Ready", "True"), said("MemoryPressure", "False"), said("DiskPressure", "False"), said("PIDPressure", "False")],
            "nodeInfo": {"architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                "kubeletVersion": "v1.34.1", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""}}})
}

pub const GATES: [&str; 6] = [
    "NodeKubeadmLabelsAndTaintsSet",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
];

/// Appendix A of the status reference: one control plane Machine, one worker, specs alone.
pub fn healthy() -> Vec<Value> {
    let mut all: Vec<Value> = cluster().into();
    let initialized =
        json!({"initialization": {"controlPlaneInitialized": true}, "conditions": [yes("Initialized")]});
    all.extend(control_plane(1, initialized));
    let mut first = machine(
        "cp-0",
        (PLANE, "KubeadmControlPlane", "cp"),
        &json!({"cluster.x-k8s.io/control-plane": ""}),
        &GATES,
        true,
    );
    // Etcd is not asked here, so the Machine already has the condition that its member is healthy.
    let member = with(yes("EtcdMemberHealthy"), json!({"reason": "Healthy"}));
    first[0]["status"] = json!({"nodeRef": {"name": "cp-0"}, "conditions": [member]});
    all.extend(first);
    let labels = json!({"cluster.x-k8s.io/deployment-name": "md", "pool": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"clusterName": "c", "version": "v1.34.1",
        "bootstrap": {"configRef": reference(BOOT, "KubeadmConfigTemplate", "b")},
        "infrastructureRef": reference(INFRA, "DevMachineTemplate", "t")}});
    let spec = json!({"spec": {"clusterName": "c", "replicas": 1, "selector": {"matchLabels": {"pool": "a"}}, "template": template}});
    all.push(object(BOOT, "KubeadmConfigTemplate", "b", None, &json!({})));
    all.push(with(
        object(CORE, "MachineDeployment", "md", Some((CORE, "Cluster", "c")), &json!({})),
        spec.clone(),
    ));
    all.push(with(object(CORE, "MachineSet", "ms", Some((CORE, "MachineDeployment", "md")), &labels), spec));
    all.extend(machine("w-0", (CORE, "MachineSet", "ms"), &labels, &[], true));
    let check = object(CORE, "MachineHealthCheck", "mhc", Some((CORE, "Cluster", "c")), &json!({}));
    all.push(with(check, json!({"spec": {"clusterName": "c", "selector": {"matchLabels": {"pool": "a"}}}})));
    all.extend([node("cp-0", true), node("w-0", false)]);
    for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"] {
        all.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{component}-cp-0"), "namespace": "kube-system"},
            "spec": {"nodeName": "cp-0", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
    }
    for secret in ["ca", "sa", "proxy", "etcd"] {
        all.push(object("v1", "Secret", &format!("c-{secret}"), None, &json!({})));
    }
    all
}

/// Computes level after level until nothing changes.
pub fn settled(mut objects: Vec<Value>) -> Vec<Value> {
    let now = parse_rfc3339("2026-11-20T10:00:00Z").unwrap();
    for _ in 0..12 {
        let documents = objects.iter().map(|value| Document::from(value.clone()));
        let computed = all(&Dump::new(documents.collect()), now);
        assert_eq!(computed.iter().filter_map(|c| c.left.clone()).collect::<Vec<_>>(), Vec::<String>::new());
        if computed.iter().all(|c| c.before == c.after) {
            return objects;
        }
        for one in computed {
            let same = |o: &&mut Value| {
                o["kind"] == one.kind.name() && o["metadata"]["name"] == one.key.name.as_str()
            };
            *objects.iter_mut().find(same).unwrap() = one.after;
        }
    }
    panic!("the statuses do not settle");
}
