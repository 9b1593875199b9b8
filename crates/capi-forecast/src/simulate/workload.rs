//! The workload cluster of a world: Nodes, static pods, etcd members, pods and disruption budgets. Owns what is there;
//! must not know what is decided from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Pod, PodCondition, PodStatus, Taint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::drain::Tenancy;
use capi_rules::etcd::{Member, Members, Membership};
use capi_rules::status::control_plane::{Connection, OwnedMachine, Reached, Workload as Reading};
use capi_types::names::label::NODE_ROLE_CONTROL_PLANE as ROLE;
use capstan_base::time::{Timestamp, to_k8s};
use capstan_physics::boot::BootStage;
use capstan_physics::etcd::{self, Etcd};

/// The conditions of a Node that are false when it is well.
const PRESSURES: [&str; 3] = ["MemoryPressure", "DiskPressure", "PIDPressure"];

#[derive(Clone, Debug, Default)]
pub(super) struct WorkloadState {
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// Names of Nodes by provider ID.
    ids: BTreeMap<String, String>,
    /// Of control plane Nodes.
    static_pods: BTreeMap<String, Vec<Pod>>,
    pub etcd: Etcd,
    /// kubeadm's `ClusterConfiguration`; `None` before the first Machine is up.
    pub configuration: Option<Value>,
    /// Somebody else runs the control plane.
    pub is_managed_outside: bool,
    pub tenancy: Tenancy,
    /// Names of Nodes whose Machine went while nobody could reach this cluster: they stay, whoever comes later.
    pub abandoned: BTreeSet<String>,
    member_ids: u64,
}

impl WorkloadState {
    /// The API server answers.
    pub(super) fn is_reachable(&self) -> bool {
        // Another provider's control plane shows no pods here; it is taken to answer.
        self.is_managed_outside || !self.static_pods.is_empty()
    }

    pub(super) fn node_with(&self, provider_id: &str) -> Option<Arc<Node>> {
        self.nodes.get(self.ids.get(provider_id)?).cloned()
    }

    pub(super) fn put_node(&mut self, node: Node) {
        let name = node.metadata.name.clone().unwrap_or_default();
        if let Some(id) = node.spec.as_ref().and_then(|s| s.provider_id.clone()) {
            self.ids.insert(id, name.clone());
        }
        self.nodes.insert(name, Arc::new(node));
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        if let Some(node) = self.nodes.remove(name)
            && let Some(id) = node.spec.as_ref().and_then(|s| s.provider_id.as_ref())
        {
            self.ids.remove(id);
        }
        // What the Node's name stood for ends with it: a later Node may have it again.
        self.tenancy.forget(name);
        self.static_pods.remove(name);
    }

    /// The static pods of a control plane Node; of `broken` ones there is none.
    pub(super) fn run_components(&mut self, node: &str, broken: &[&str]) {
        let components = BootStage::of(true).iter().flat_map(|stage| stage.components());
        // A missing pod is what a controller sees of a component that does not come up.
        let well = components.filter(|component| !broken.contains(component));
        self.static_pods.insert(node.to_owned(), well.map(|c| static_pod(&format!("{c}-{node}"))).collect());
    }

    /// What runs on a control plane host ends with it.
    pub(super) fn stop_components(&mut self, node: &str) {
        self.static_pods.remove(node);
        self.etcd.end(node);
        self.etcd.elect();
    }

    /// A member joins; the first one leads.
    pub(super) fn join_etcd(&mut self, node: &str, answers: bool) {
        self.member_ids += 1;
        self.etcd.join(node, self.member_ids);
        // Joined all the same: a silent member counts for the quorum.
        if !answers {
            self.etcd.end(node);
        }
        self.etcd.elect();
    }

    /// A request that etcd refuses changes nothing: its controller asks again.
    pub(super) fn leave_etcd(&mut self, id: u64) {
        if self.etcd.remove(id).is_ok() {
            self.etcd.elect();
        }
    }

    /// What a control plane's controller reads.
    pub(super) fn reading(&self, machines: &[OwnedMachine], etcd_is_managed: bool) -> Reading {
        if !self.is_reachable() {
            // Never probed, so that rules which count failed probes do not speak.
            return Reading::Down(Connection::default());
        }
        let of = |m: &OwnedMachine| m.node_name().and_then(|name| self.nodes.get(name));
        let nodes: Vec<Node> = machines.iter().filter_map(of).map(|node| node.as_ref().clone()).collect();
        Reading::Reached(Box::new(Reached {
            nodes: Ok(nodes),
            pods: Ok(self.static_pods.values().flatten().cloned().collect()),
            etcd: if etcd_is_managed { self.membership() } else { Membership::NotAsked },
            kubeadm_config: Ok(self.configuration.clone()),
            // A forecast leaves add-ons out, and absent ones are left alone.
            kube_proxy_image: None,
            core_dns_image: None,
            bindings_missing: Vec::new(),
        }))
    }

    fn membership(&self) -> Membership {
        if self.etcd.listed().next().is_none() {
            return Membership::NoNodes;
        }
        let Some(leader) = self.etcd.leader() else { return Membership::NoLeader };
        let member = |(node, m): (&str, &etcd::Member)| Member {
            id: m.id,
            name: node.to_owned(),
            learner: false,
            // What else is wrong with a member is not told apart.
            alarms: if m.answers { Vec::new() } else { vec!["NOSPACE".to_owned()] },
        };
        Membership::Known(Members { list: self.etcd.listed().map(member).collect(), leader: Some(leader.id) })
    }
}

/// A Node as its kubelet registers it. `ready`: the status of its `Ready` condition and since when it has it.
pub(super) fn node(
    name: &str,
    provider_id: Option<&str>,
    version: Option<&str>,
    is_control_plane: bool,
    (ready, since): (&str, Timestamp),
) -> Node {
    let condition = |type_: &str, status: &str| NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(to_k8s(since)),
        ..NodeCondition::default()
    };
    let mut conditions: Vec<NodeCondition> = PRESSURES
        .iter()
        // A kubelet that is silent reports none of them.
        .map(|type_| condition(type_, if ready == "Unknown" { "Unknown" } else { "False" }))
        .collect();
    conditions.push(condition("Ready", ready));
    let role = || BTreeMap::from([(ROLE.to_owned(), String::new())]);
    let taint = || Taint { key: ROLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            creation_timestamp: Some(to_k8s(since)),
            labels: is_control_plane.then(role),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: provider_id.map(str::to_owned),
            taints: is_control_plane.then(|| vec![taint()]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            conditions: Some(conditions),
            node_info: version.map(|version| NodeSystemInfo {
                kubelet_version: version.to_owned(),
                ..NodeSystemInfo::default()
            }),
            ..NodeStatus::default()
        }),
    }
}

fn static_pod(name: &str) -> Pod {
    let ready =
        PodCondition { type_: "Ready".to_owned(), status: "True".to_owned(), ..PodCondition::default() };
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("kube-system".to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
        status: Some(PodStatus {
            phase: Some("Running".to_owned()),
            conditions: Some(vec![ready]),
            ..PodStatus::default()
        }),
    }
}
