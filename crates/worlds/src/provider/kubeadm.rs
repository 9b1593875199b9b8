//! What `kubeadm init` and `join` leave behind in a simulated cluster: nodes, static pods, the
//! configuration map, add-on images. Owns these objects' shapes; must not know when they appear.
//! Source: in-memory backend of DevMachine, v1.14.2. Difference: static pods carry the mirror
//! annotation, as real ones do.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, ContainerState, ContainerStateRunning, ContainerStatus, Node, NodeAddress,
    NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Pod, PodCondition, PodSpec, PodStatus, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use capi_types::dev::Host;
use capi_types::names::label::NODE_ROLE_CONTROL_PLANE;
use capstan_base::time::{Timestamp, to_k8s};

pub const KUBE_SYSTEM: &str = "kube-system";
pub const KUBEADM_CONFIG: &str = "kubeadm-config";
const MEMORY: &str = "memory";
/// The image that upstream's fake gives CoreDNS.
pub const CORE_DNS_IMAGE: &str = "registry.k8s.io/coredns/coredns:v1.10.1";

/// What a node is made from.
pub struct NodeFacts<'a> {
    pub name: &'a str,
    pub provider_id: &'a str,
    /// The Kubernetes version has its `v`, and is empty when the machine states none.
    pub host: &'a Host,
    pub addresses: &'a [(&'static str, String)],
    pub control_plane: bool,
    pub at: Timestamp,
}

/// A node that is ready and under no pressure.
pub fn node(facts: &NodeFacts<'_>) -> Node {
    let mut labels = BTreeMap::from([
        ("kubernetes.io/hostname".to_owned(), facts.name.to_owned()),
        ("kubernetes.io/os".to_owned(), "linux".to_owned()),
        ("kubernetes.io/arch".to_owned(), "amd64".to_owned()),
    ]);
    let mut taints = None;
    if facts.control_plane {
        labels.insert(NODE_ROLE_CONTROL_PLANE.to_owned(), String::new());
        let (key, effect) = (NODE_ROLE_CONTROL_PLANE.to_owned(), "NoSchedule".to_owned());
        taints = Some(vec![Taint { key, effect, ..Taint::default() }]);
    }
    let conditions =
        [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")];
    Node {
        metadata: ObjectMeta {
            name: Some(facts.name.to_owned()),
            labels: Some(labels),
            creation_timestamp: Some(to_k8s(facts.at)),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(facts.provider_id.to_owned()),
            taints,
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            conditions: Some(
                conditions.map(|(type_, status)| node_condition(type_, status, facts.at)).into(),
            ),
            node_info: Some(system_info(facts)),
            addresses: Some(
                facts
                    .addresses
                    .iter()
                    .map(|(type_, address)| NodeAddress {
                        type_: (*type_).to_owned(),
                        address: address.clone(),
                    })
                    .collect(),
            ),
            capacity: facts
                .host
                .memory
                .clone()
                .map(|memory| BTreeMap::from([(MEMORY.to_owned(), Quantity(memory))])),
            ..NodeStatus::default()
        }),
    }
}

/// What becomes of a node when its host becomes another.
pub fn host_patch(host: &Host) -> Value {
    let version = &host.kubelet_version;
    let mut status = json!({ "nodeInfo": { "kubeletVersion": version, "kubeProxyVersion": version } });
    if let Some(memory) = &host.memory {
        status["capacity"] = json!({ MEMORY: memory });
    }
    json!({ "status": status })
}

/// One condition of a node, turned at `at`.
pub fn node_condition(type_: &str, status: &str, at: Timestamp) -> NodeCondition {
    NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(to_k8s(at)),
        last_heartbeat_time: Some(to_k8s(at)),
        ..NodeCondition::default()
    }
}

fn system_info(facts: &NodeFacts<'_>) -> NodeSystemInfo {
    NodeSystemInfo {
        architecture: "amd64".to_owned(),
        operating_system: "linux".to_owned(),
        os_image: "capstan simulated host".to_owned(),
        kernel_version: "6.12.0".to_owned(),
        container_runtime_version: "containerd://2.1.0".to_owned(),
        kubelet_version: facts.host.kubelet_version.clone(),
        kube_proxy_version: facts.host.kubelet_version.clone(),
        machine_id: facts.name.to_owned(),
        system_uuid: facts.name.to_owned(),
        boot_id: facts.name.to_owned(),
        ..NodeSystemInfo::default()
    }
}

/// A static pod of the control plane (`etcd`, `kube-apiserver`, ...), running and ready.
pub fn static_pod(component: &str, node: &str, at: Timestamp) -> Pod {
    let name = format!("{component}-{node}");
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Pod {
        metadata: ObjectMeta {
            labels: Some(BTreeMap::from([label("component", component), label("tier", "control-plane")])),
            annotations: Some(BTreeMap::from([label("kubernetes.io/config.mirror", &name)])),
            name: Some(name),
            namespace: Some(KUBE_SYSTEM.to_owned()),
            creation_timestamp: Some(to_k8s(at)),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            node_name: Some(node.to_owned()),
            containers: vec![Container { name: component.to_owned(), ..Container::default() }],
            ..PodSpec::default()
        }),
        status: Some(pod_status(component, at)),
    }
}

/// A pod with one container, running and ready.
pub fn pod_status(component: &str, at: Timestamp) -> PodStatus {
    let running = ContainerStateRunning { started_at: Some(to_k8s(at)) };
    PodStatus {
        phase: Some("Running".to_owned()),
        conditions: Some(vec![PodCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(to_k8s(at)),
            ..PodCondition::default()
        }]),
        container_statuses: Some(vec![ContainerStatus {
            name: component.to_owned(),
            ready: true,
            started: Some(true),
            state: Some(ContainerState { running: Some(running), ..ContainerState::default() }),
            ..ContainerStatus::default()
        }]),
        start_time: Some(to_k8s(at)),
        ..PodStatus::default()
    }
}

/// `kube-system/kubeadm-config` with an empty ClusterConfiguration, as upstream's fake writes it.
pub fn config_map(at: Timestamp) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(KUBEADM_CONFIG.to_owned()),
            namespace: Some(KUBE_SYSTEM.to_owned()),
            creation_timestamp: Some(to_k8s(at)),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("ClusterConfiguration".to_owned(), String::new())])),
        ..ConfigMap::default()
    }
}

pub fn kube_proxy_image(version: &str) -> String {
    format!("registry.k8s.io/kube-proxy:{version}")
}
