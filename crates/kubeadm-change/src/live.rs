//! What runs, read from mirror pods: the control plane nodes, their static pods, and the facts of each host that
//! no configuration holds. Owns reading pods; must not know what should run.
//!
//! Source: kubeadm `constants.go` (annotations), `config/cluster.go` (`getAPIEndpoint`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::beyond;
use super::image::tag_of;
use super::network::is_dns_name;
use super::render::{API_SERVER, CONTROLLER_MANAGER, ETCD, HostFacts, Mount, SCHEDULER, StaticPod, Volume};
use k8s_machinery::names::NODE_ROLE_CONTROL_PLANE;

const ADVERTISE: &str = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint";
const CRI_SOCKET: &str = "kubeadm.alpha.kubernetes.io/cri-socket";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// One control plane node as its mirror pods show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// What the pods show of the host: address, port, mounted folders.
    pub host: HostFacts,
    /// By component; one that does not run there is missing.
    pub static_pods: BTreeMap<&'static str, StaticPod>,
    /// What each of them holds beside what a configuration can say, from what kubeadm writes to what runs.
    pub beyond: BTreeMap<&'static str, Vec<String>>,
}

/// The nodes on which an API server runs as a static pod, by name.
pub fn control_plane(objects: &[Value]) -> Vec<LiveNode> {
    let mut pods: BTreeMap<&str, BTreeMap<&'static str, &Value>> = BTreeMap::new();
    for object in objects.iter().filter(|object| object["kind"] == "Pod") {
        let metadata = &object["metadata"];
        let is_mirror =
            metadata["annotations"].get(MIRROR).is_some() && metadata["namespace"] == "kube-system";
        let component = [ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER]
            .into_iter()
            .find(|component| metadata["labels"]["component"] == *component);
        // Names stand in commands and file names.
        let node = object["spec"]["nodeName"].as_str().filter(|name| is_dns_name(name));
        if let (true, Some(component), Some(node)) = (is_mirror, component, node) {
            pods.entry(node).or_default().insert(component, object);
        }
    }
    let mut found: Vec<LiveNode> =
        pods.into_iter().filter_map(|(node, pods)| live_node(node, &pods)).collect();
    for node in &mut found {
        node.host.cri_socket = cri_socket(objects, &node.host.name);
    }
    found
}

/// From the annotation that kubeadm gives a Node; later releases keep the socket in a file on the host.
fn cri_socket(objects: &[Value], name: &str) -> Option<String> {
    let mut nodes = objects.iter().filter(|object| object["kind"] == "Node");
    let node = nodes.find(|node| node["metadata"]["name"] == name)?;
    let socket = node["metadata"]["annotations"][CRI_SOCKET].as_str()?;
    // The socket stands in a file of kubeadm, and whoever may write Nodes has chosen it.
    socket.starts_with("unix:///").then(|| socket.to_owned())
}

/// A control plane node whose pods were not read, by the label that kubeadm gives it; its API server has the usual port.
pub fn labelled(node: &Value) -> Option<LiveNode> {
    let name = node["metadata"]["name"].as_str().filter(|name| is_dns_name(name))?;
    node["metadata"]["labels"].get(NODE_ROLE_CONTROL_PLANE)?;
    let mut addresses = node["status"]["addresses"].as_array()?.iter();
    let internal = addresses.find(|address| address["type"] == "InternalIP")?;
    let host = HostFacts::new(name, internal["address"].as_str()?);
    Some(LiveNode { host, static_pods: BTreeMap::new(), beyond: BTreeMap::new() })
}

fn live_node(name: &str, pods: &BTreeMap<&'static str, &Value>) -> Option<LiveNode> {
    let server = pods.get(API_SERVER)?;
    let endpoint = server["metadata"]["annotations"][ADVERTISE].as_str().unwrap_or_default();
    let static_pods: BTreeMap<&'static str, StaticPod> =
        pods.iter().map(|(component, pod)| (*component, static_pod(component, pod))).collect();
    let beyond = pods.iter().map(|(component, pod)| (*component, beyond::differences(component, pod)));
    let beyond = beyond.filter(|(_, lines)| !lines.is_empty()).collect();
    let running = static_pods.get(API_SERVER)?;
    // A manifest without kubeadm's annotation still has the flags.
    let (address, port) = split_endpoint(endpoint).or_else(|| {
        Some((flag(running, "advertise-address")?.to_owned(), flag(running, "secure-port")?.parse().ok()?))
    })?;
    let mut host = HostFacts::new(name, &address);
    host.port = port;
    // kubeadm mounts only those folders of authorities that the host has, and names each of these
    // volumes after its path.
    host.ca_folders = running
        .volumes
        .iter()
        .filter(|volume| {
            volume.host_path.strip_prefix('/').is_some_and(|path| path.replace('/', "-") == volume.name)
        })
        .map(|volume| volume.host_path.clone())
        .collect();
    // The variables came from the shell that ran kubeadm, so no document has them.
    host.proxy_variables = proxies(running);
    host.etcd_tag = static_pods.get(ETCD).and_then(|pod| tag_of(&pod.image)).map(str::to_owned);
    host.joined_members = static_pods.get(ETCD).map_or_else(Vec::new, joined_members);
    let manager = static_pods.get(CONTROLLER_MANAGER);
    // Without the authority's key on the host kubeadm leaves the flag empty.
    host.external_ca = manager.is_some_and(|pod| flag(pod, "cluster-signing-key-file") == Some(""));
    Some(LiveNode { host, static_pods, beyond })
}

/// The last value of a flag of a running pod.
pub fn flag<'p>(pod: &'p StaticPod, name: &str) -> Option<&'p str> {
    flags(pod, name).pop()
}

/// All values of a flag of a running pod.
pub fn flags<'p>(pod: &'p StaticPod, name: &str) -> Vec<&'p str> {
    let arguments = pod.command.iter();
    let value = |argument: &'p String| argument.strip_prefix("--")?.strip_prefix(name)?.strip_prefix('=');
    arguments.filter_map(value).collect()
}

fn split_endpoint(endpoint: &str) -> Option<(String, u16)> {
    let (host, port) = endpoint.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))
}

/// Variables that kubeadm took from the shell: they end with `_proxy`, in either case.
fn proxies(pod: &StaticPod) -> Vec<(String, String)> {
    let text = |variable: &Value, field: &str| variable[field].as_str().unwrap_or_default().to_owned();
    let variables = pod.env.iter().map(|variable| (text(variable, "name"), text(variable, "value")));
    variables.filter(|(name, _)| name.to_ascii_lowercase().ends_with("_proxy")).collect()
}

fn joined_members(etcd: &StaticPod) -> Vec<String> {
    // Only `kubeadm join` writes it; the first member has its own name alone.
    if flag(etcd, "initial-cluster-state") != Some("existing") {
        return Vec::new();
    }
    flag(etcd, "initial-cluster").unwrap_or_default().split(',').map(str::to_owned).collect()
}

fn static_pod(component: &str, pod: &Value) -> StaticPod {
    let container = beyond::own_container(component, pod);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    // kubeadm writes all words into `command`; a hand edit may have put some into `args`.
    let words = list(&container["command"]).into_iter().chain(list(&container["args"]));
    let volume = |volume: &Value| Volume {
        name: text(&volume["name"]),
        host_path: text(&volume["hostPath"]["path"]),
        type_: text(&volume["hostPath"]["type"]),
    };
    let mount = |mount: &Value| Mount {
        name: text(&mount["name"]),
        mount_path: text(&mount["mountPath"]),
        read_only: mount["readOnly"].as_bool().unwrap_or_default(),
    };
    StaticPod {
        command: words.map(|word| text(&word)).collect(),
        image: text(&container["image"]),
        env: list(&container["env"]),
        volumes: list(&pod["spec"]["volumes"]).iter().map(volume).collect(),
        volume_mounts: list(&container["volumeMounts"]).iter().map(mount).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::{ClusterSettings, node};

    /// The mirror pods that kubeadm's manifests lead to on a node.
    fn pods(host: &HostFacts, configuration: &Value) -> Vec<Value> {
        let settings = ClusterSettings::new(configuration, None).expect("a version");
        let artefacts = node(&settings, host).expect("an address");
        let pod = |(component, pod): (&&str, &StaticPod)| {
            let volumes: Vec<Value> = pod
                .volumes
                .iter()
                .map(|v| json!({"name": v.name, "hostPath": {"path": v.host_path, "type": v.type_}}))
                .collect();
            json!({
                "kind": "Pod",
                "metadata": {
                    "namespace": "kube-system", "labels": {"component": component},
                    "annotations": {MIRROR: "x", ADVERTISE: format!("{}:{}", host.address, host.port)},
                },
                "spec": {"nodeName": host.name, "volumes": volumes, "containers": [{
                    "command": pod.command, "image": pod.image, "env": pod.env, "volumeMounts": pod.volume_mounts,
                }]},
            })
        };
        artefacts.static_pods.iter().map(pod).collect()
    }

    #[test]
    fn a_node_is_read_back_from_its_pods() {
        let configuration =
            json!({"kubernetesVersion": "v1.34.0", "networking": {"podSubnet": "10.244.0.0/16"}});
        let mut host = HostFacts::new("n2", "10.0.0.2");
        host.port = 8443;
        host.proxy_variables = vec![("HTTPS_PROXY".to_owned(), "http://p".to_owned())];
        host.joined_members =
            vec!["n1=https://10.0.0.1:2380".to_owned(), "n2=https://10.0.0.2:2380".to_owned()];
        host.external_ca = true;
        host.etcd_tag = Some("3.6.6-0".to_owned());
        let found = control_plane(&pods(&host, &configuration));
        let settings = ClusterSettings::new(&configuration, None).expect("a version");
        let rendered = node(&settings, &host).expect("an address");
        assert_eq!(found, [LiveNode { host, static_pods: rendered.static_pods, beyond: BTreeMap::new() }]);
    }

    #[test]
    fn the_socket_of_the_runtime_is_an_annotation_of_the_node() {
        let mut objects = pods(&HostFacts::new("n1", "10.0.0.1"), &json!({"kubernetesVersion": "v1.34.0"}));
        let node = |socket: &str| json!({"kind": "Node", "metadata": {"name": "n1", "annotations": {CRI_SOCKET: socket}}});
        objects.push(node("unix:///run/crio/crio.sock"));
        let socket = |objects: &[Value]| control_plane(objects)[0].host.cri_socket.clone();
        assert_eq!(socket(&objects).as_deref(), Some("unix:///run/crio/crio.sock"));
        objects.pop();
        objects.push(node("$(touch x)"));
        assert_eq!(socket(&objects), None);
    }

    #[test]
    fn other_pods_are_no_control_plane() {
        let own = json!({"kind": "Pod", "metadata": {"namespace": "kube-system", "labels": {"component": "kube-apiserver"}}, "spec": {"nodeName": "n1"}});
        assert_eq!(control_plane(&[own, json!({"kind": "Node"})]), []);
    }
}
