//! What runs in a cluster beside what is stored: Nodes, static pods, served certificates, kubelets, add-ons. Owns how it
//! is read from objects; must not know what should run, nor how anything is asked for.

use std::collections::{BTreeMap, BTreeSet};

use capstan_base::time::parse_rfc3339;
use serde_json::Value;

use super::check::minor_of;
use super::live::{self, LiveNode};
use super::network::parse_ip;
use super::render::{API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER};

/// Something that is asked for by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sighting<T> {
    /// Nothing needed it.
    #[default]
    NotAsked,
    /// It cannot be seen from here: a right is missing, or nothing serves it. Why, in a sentence.
    Hidden(String),
    /// It did not come now.
    Unknown(String),
    /// As it was read.
    Known(T),
}

/// A static pod as its mirror pod shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    /// Its readiness probe succeeds.
    pub ready: bool,
    /// Why its container does not run, in the kubelet's words.
    pub trouble: Option<String>,
}

/// What is seen of a Node and of the host behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningNode {
    /// Its kubelet reports it as ready.
    pub ready: bool,
    /// Nothing new is scheduled there.
    pub cordoned: bool,
    /// What drained it and has not given it back yet, as its annotation says. Anybody may have written that.
    pub drained_by: Option<String>,
    /// It was this change.
    pub drained_by_us: bool,
    /// The address of type `InternalIP`.
    pub address: Option<String>,
    /// All of that type; a cluster of two families has one of each.
    pub addresses: Vec<String>,
    /// By component.
    pub pods: BTreeMap<&'static str, PodState>,
    /// The names in the certificate that is served, by kubeadm's name of it (`apiserver`, `etcd-server`).
    pub served: BTreeMap<&'static str, Sighting<BTreeSet<String>>>,
    /// KubeletConfiguration in effect, with all defaults.
    pub kubelet: Sighting<Value>,
    /// `/livez` and `/readyz` of its own API server, asked through its kubelet.
    pub api_server: Sighting<()>,
    /// Its member of etcd, by the metrics of that member.
    pub member: Sighting<EtcdProgress>,
    /// The minor version of its kubelet.
    pub kubelet_minor: Option<u64>,
    /// When its kubelet last renewed its Lease, by the clock of its host.
    pub heartbeat: Option<String>,
}

/// What a member of etcd says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdProgress {
    /// It knows a leader.
    pub has_leader: bool,
    /// Proposals that it knows to be committed.
    pub committed: u64,
    /// Proposals of these that are in its database.
    pub applied: u64,
}

/// Proposals that a member may be behind the others: they are read one after the other, and a busy cluster commits meanwhile.
const BEHIND_MAX: u64 = 2_000;

/// A DaemonSet or a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddonState {
    /// With its tag.
    pub image: String,
    /// When its pods were last restarted by a person or by us: RFC 3339, in the time zone of whoever did it. Empty: never.
    pub restarted_at: String,
    /// Pods that there should be.
    pub wanted: u64,
    /// Pods of the newest version.
    pub updated: u64,
    /// Pods that serve.
    pub available: u64,
    /// Its controller has seen the newest version.
    pub is_observed: bool,
}

impl AddonState {
    /// Were its pods last restarted before this moment, given as RFC 3339? Restarted in the same second counts as after it.
    pub fn is_older_than(&self, moment: &str) -> bool {
        parse_rfc3339(moment).is_some_and(|moment| {
            // What is not a moment was never a restart.
            parse_rfc3339(&self.restarted_at).is_none_or(|restarted| restarted < moment)
        })
    }

    /// All its pods are new and run.
    pub fn is_rolled_out(&self) -> bool {
        self.is_observed && self.updated >= self.wanted && self.available >= self.wanted
    }
}

/// What was seen before, by the same program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenBefore {
    /// The heartbeats of Nodes when something was done there, or when they were first looked at: only what is reported after
    /// them is new.
    pub heartbeats: BTreeMap<String, String>,
    /// What did not run when the program began, by Node and component.
    pub troubles: BTreeSet<(String, String)>,
}

/// Everything that runs, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// By name.
    pub nodes: BTreeMap<String, RunningNode>,
    /// The static pods of control plane nodes, as they are written.
    pub control_plane: Vec<LiveNode>,
    /// `None`: there is no such DaemonSet.
    pub kube_proxy: Option<AddonState>,
    /// `None`: there is no such Deployment.
    pub coredns: Option<AddonState>,
    /// When the ConfigMap of kube-proxy was last written: RFC 3339.
    pub proxy_written_at: String,
    /// `/readyz` of the endpoint.
    pub is_endpoint_ready: Option<bool>,
    /// To know what is new from what was there.
    pub before: SeenBefore,
    /// What could not be read, with the right that is missing where that is why.
    pub gaps: Vec<String>,
}

impl Running {
    /// From Nodes, mirror pods, the two add-ons and the ConfigMap of kube-proxy.
    pub fn of(objects: &[Value]) -> Self {
        let mut running = Self { control_plane: live::control_plane(objects), ..Self::default() };
        for object in objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match object["kind"].as_str() {
                Some("Node") => drop(running.nodes.insert(name.to_owned(), node(object))),
                Some("DaemonSet") if name == "kube-proxy" => running.kube_proxy = Some(daemon_set(object)),
                Some("Deployment") if name == "coredns" => running.coredns = Some(deployment(object)),
                _ => {}
            }
        }
        // Behind all Nodes: a pod may stand before its Node in the list.
        for object in objects.iter().filter(|object| object["kind"] == "Pod") {
            let component = [ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER]
                .into_iter()
                .find(|component| object["metadata"]["labels"]["component"] == *component);
            let node = object["spec"]["nodeName"].as_str().and_then(|node| running.nodes.get_mut(node));
            if let (Some(component), Some(node)) = (component, node) {
                node.pods.insert(component, pod(object));
            }
        }
        running
    }

    /// A node other than `except` on which a component is not Ready.
    pub fn waits_for(&self, component: &str, except: &str) -> Option<&str> {
        let nodes = self.control_plane.iter().map(|node| node.host.name.as_str());
        nodes.filter(|node| *node != except).find(|name| {
            let Some(node) = self.nodes.get(*name) else { return false };
            // A mirror pod stays Ready in the API when its kubelet reports to the API server that is down.
            let is_silent = component == API_SERVER && matches!(node.api_server, Sighting::Unknown(_));
            is_silent || node.pods.get(component).is_some_and(|pod| !pod.ready)
        })
    }

    /// A member of etcd other than that of `except` that is not well or has not caught up, and why.
    pub fn member_to_wait_for(&self, except: &str) -> Option<(&str, String)> {
        let members = || {
            let nodes = self.nodes.iter().filter(|(name, _)| *name != except);
            nodes.map(|(name, node)| (name.as_str(), &node.member))
        };
        let known = || {
            self.nodes.values().filter_map(|node| match &node.member {
                Sighting::Known(member) => Some(member),
                _ => None,
            })
        };
        // The furthest of all members counts, that of `except` too: the others must have kept up with it.
        let most = known().map(|member| member.committed).max().unwrap_or_default();
        members().find_map(|(name, member)| {
            let why = match member {
                // A missing right does not pass by waiting: the change would never go on.
                Sighting::NotAsked | Sighting::Hidden(_) => return None,
                Sighting::Unknown(why) => why.clone(),
                Sighting::Known(member) if !member.has_leader => "it knows no leader".to_owned(),
                Sighting::Known(member) if member.applied + BEHIND_MAX < most => {
                    format!("it has applied {} of {most} proposals", member.applied)
                }
                Sighting::Known(_) => return None,
            };
            Some((name, why))
        })
    }

    /// Why what the API shows of a control plane node may be the past. Its kubelet reports to the API server beside it (since
    /// Kubernetes 1.33): when that one is down, mirror pods stay as they were, and the Node stays Ready for most of a minute.
    pub fn staleness(&self, name: &str) -> Option<String> {
        let Some(node) = self.nodes.get(name) else { return Some("there is no such Node".to_owned()) };
        if !node.ready {
            return Some("the Node is not Ready: what its mirror pods say may be old".to_owned());
        }
        let before = self.before.heartbeats.get(name);
        // The stamp is of the host's clock, which may go back: any other stamp is a new one.
        let has_reported = before.is_some() && node.heartbeat.is_some() && node.heartbeat.as_ref() != before;
        match &node.api_server {
            Sighting::Unknown(why) => Some(format!(
                "its own API server does not answer: what its mirror pods say may be old ({why})"
            )),
            Sighting::Known(()) if before.is_some() && !has_reported => {
                Some("its kubelet has not reported since then".to_owned())
            }
            Sighting::Known(()) => None,
            Sighting::NotAsked => Some("its own API server was not asked".to_owned()),
            // A missing right does not come by waiting: the renewed Lease has to be enough.
            Sighting::Hidden(_) if has_reported => None,
            Sighting::Hidden(why) => Some(format!(
                "its own API server cannot be asked, and its kubelet has not reported since then ({why})"
            )),
        }
    }

    /// The components of control plane nodes that do not run as they should, by Node and component.
    pub fn troubles(&self) -> BTreeSet<(String, String)> {
        let nodes = self.control_plane.iter().filter_map(|node| self.nodes.get_key_value(&node.host.name));
        let of_node = |(name, node): (&String, &RunningNode)| {
            let down = node.pods.iter().filter(|(_, pod)| !pod.ready || pod.trouble.is_some());
            down.map(|(component, _)| (name.clone(), (*component).to_owned())).collect::<Vec<_>>()
        };
        nodes.flat_map(of_node).collect()
    }
}

fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == condition && c["status"] == "True")
}

fn node(object: &Value) -> RunningNode {
    let addresses = object["status"]["addresses"].as_array().into_iter().flatten();
    let internal = addresses.filter(|address| address["type"] == "InternalIP");
    let internal = internal.filter_map(|address| address["address"].as_str());
    // They stand in a command.
    let addresses: Vec<String> =
        internal.filter(|address| parse_ip(address).is_some()).map(str::to_owned).collect();
    RunningNode {
        ready: is_true(object, "Ready"),
        cordoned: object["spec"]["unschedulable"] == true,
        drained_by: object["metadata"]["annotations"][DRAINED].as_str().map(str::to_owned),
        address: addresses.first().cloned(),
        addresses,
        kubelet_minor: object["status"]["nodeInfo"]["kubeletVersion"].as_str().and_then(minor_of),
        ..RunningNode::default()
    }
}

fn pod(object: &Value) -> PodState {
    let statuses = object["status"]["containerStatuses"].as_array().into_iter().flatten();
    let waiting = statuses.map(|status| &status["state"]["waiting"]).find(|waiting| {
        waiting["reason"]
            .as_str()
            // Every start passes through these two; other reasons last until somebody acts.
            .is_some_and(|reason| !matches!(reason, "ContainerCreating" | "PodInitializing"))
    });
    let words = |waiting: &Value| {
        let reason = waiting["reason"].as_str().unwrap_or_default();
        match waiting["message"].as_str() {
            Some(message) => format!("{reason}: {message}"),
            None => reason.to_owned(),
        }
    };
    PodState { ready: is_true(object, "Ready"), trouble: waiting.map(words) }
}

fn template(object: &Value, container: &str) -> (String, String) {
    let template = &object["spec"]["template"];
    let containers = template["spec"]["containers"].as_array().into_iter().flatten();
    let named = containers.filter(|c| c["name"] == container).find_map(|c| c["image"].as_str());
    let first = template["spec"]["containers"][0]["image"].as_str();
    let restarted = template["metadata"]["annotations"][RESTARTED].as_str().unwrap_or_default();
    (named.or(first).unwrap_or_default().to_owned(), restarted.to_owned())
}

/// Annotation of a Node that a change drained: the id of its plan.
pub const DRAINED: &str = "capstan.dev/drained-by-change";

/// What `kubectl rollout restart` writes.
pub const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

fn is_observed(object: &Value) -> bool {
    // Before the controller has seen a new template its counts are of the old one, and look rolled out.
    object["status"]["observedGeneration"].as_u64() >= object["metadata"]["generation"].as_u64()
}

fn daemon_set(object: &Value) -> AddonState {
    let count = |field: &str| object["status"][field].as_u64().unwrap_or_default();
    let (image, restarted_at) = template(object, "kube-proxy");
    AddonState {
        image,
        restarted_at,
        wanted: count("desiredNumberScheduled"),
        updated: count("updatedNumberScheduled"),
        available: count("numberAvailable"),
        is_observed: is_observed(object),
    }
}

fn deployment(object: &Value) -> AddonState {
    let count = |field: &str| object["status"][field].as_u64().unwrap_or_default();
    let (image, restarted_at) = template(object, "coredns");
    AddonState {
        image,
        restarted_at,
        // The default of apps/v1 for a Deployment without replicas.
        wanted: object["spec"]["replicas"].as_u64().unwrap_or(1),
        updated: count("updatedReplicas"),
        available: count("availableReplicas"),
        is_observed: is_observed(object),
    }
}

/// The image with which CoreDNS runs.
pub fn coredns_image(objects: &[Value]) -> Option<String> {
    let is_coredns =
        |object: &&Value| object["kind"] == "Deployment" && object["metadata"]["name"] == "coredns";
    let (image, _) = template(objects.iter().find(is_coredns)?, "coredns");
    Some(image).filter(|image| !image.is_empty())
}

/// When the data of a ConfigMap was last written, as its managers noted it: RFC 3339; empty when nothing is noted.
pub fn written_at(config_map: &Value) -> String {
    let managers = config_map["metadata"]["managedFields"].as_array().into_iter().flatten();
    // Labels and annotations have managers and times, too: only writers of the data count.
    let of_data = managers.filter(|manager| !manager["fieldsV1"]["f:data"].is_null());
    of_data.filter_map(|manager| manager["time"].as_str()).max().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_pods_and_add_ons_are_read() {
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let objects = [
            json!({"kind": "Node", "metadata": {"name": "cp-0"}, "status": {"conditions": ready("True"), "nodeInfo": {"kubeletVersion": "v1.36.3"}, "addresses": [
                {"type": "Hostname", "address": "cp-0"}, {"type": "InternalIP", "address": "-oProxyCommand=x"}, {"type": "InternalIP", "address": "10.0.0.1"}]}}),
            json!({"kind": "Node", "metadata": {"name": "w-0"}, "spec": {"unschedulable": true}, "status": {"conditions": ready("Unknown")}}),
            json!({"kind": "Pod", "metadata": {"labels": {"component": "etcd"}}, "spec": {"nodeName": "cp-0"}, "status": {
                "conditions": ready("False"), "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}}]}}),
            json!({"kind": "DaemonSet", "metadata": {"name": "kube-proxy", "generation": 2}, "spec": {"template": {"spec": {"containers": [{"name": "kube-proxy", "image": "p:1"}]}}},
                "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2}}),
            json!({"kind": "Deployment", "metadata": {"name": "coredns", "generation": 2}, "spec": {"replicas": 2, "template": {"metadata": {"annotations": {RESTARTED: "2026-01-01T00:00:00Z"}}, "spec": {"containers": [{"name": "coredns", "image": "c:1"}]}}},
                "status": {"observedGeneration": 2, "updatedReplicas": 2, "availableReplicas": 2}}),
        ];
        let running = Running::of(&objects);
        let node = &running.nodes["cp-0"];
        assert_eq!(
            (node.ready, node.address.as_deref(), node.kubelet_minor),
            (true, Some("10.0.0.1"), Some(36)),
            "only addresses stand in commands"
        );
        assert_eq!(
            node.pods[ETCD],
            PodState { ready: false, trouble: Some("CrashLoopBackOff: back-off 10s".to_owned()) }
        );
        assert!(!running.nodes["w-0"].ready && running.nodes["w-0"].cordoned);
        assert!(!running.kube_proxy.expect("there").is_rolled_out(), "the newest version was not seen");
        let coredns = running.coredns.expect("there");
        assert!(
            coredns.is_rolled_out()
                && coredns.restarted_at == "2026-01-01T00:00:00Z"
                && coredns.image == "c:1"
        );
    }

    #[test]
    fn a_member_is_waited_for_until_it_has_caught_up() {
        let member =
            |has_leader, applied| Sighting::Known(EtcdProgress { has_leader, committed: 10_000, applied });
        for (seen, words) in [
            (member(true, 9_990), None),
            (member(true, 7_000), Some("it has applied 7000 of 10000 proposals")),
            (member(false, 10_000), Some("it knows no leader")),
            (Sighting::Unknown("no page came".to_owned()), Some("no page came")),
            (Sighting::Hidden("no right".to_owned()), None),
            (Sighting::NotAsked, None),
        ] {
            let mut running = Running::default();
            running.nodes.insert(
                "cp-0".to_owned(),
                RunningNode { member: member(true, 10_000), ..RunningNode::default() },
            );
            running
                .nodes
                .insert("cp-1".to_owned(), RunningNode { member: seen.clone(), ..RunningNode::default() });
            let waits = running.member_to_wait_for("cp-0");
            assert_eq!(waits, words.map(|words| ("cp-1", words.to_owned())), "{seen:?}");
            assert_eq!(running.member_to_wait_for("cp-1"), None, "its own turn");
        }
    }

    #[test]
    fn only_writes_of_data_count() {
        let map = json!({"metadata": {"managedFields": [
            {"time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {}}},
            {"time": "2026-02-01T00:00:00Z", "fieldsV1": {"f:metadata": {}}},
        ]}});
        assert_eq!(written_at(&map), "2026-01-01T00:00:00Z");
        assert_eq!(written_at(&json!({})), "");
    }
}
