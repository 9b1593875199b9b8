//! What a dump holds of a KubeadmControlPlane beyond the objects at hand: Secrets and the workload cluster. Must
//! not judge it.

use k8s_openapi::api::core::v1::{Node, Pod};

use super::workload::Workload as Remote;
use super::{Dump, last_seen};
use crate::observe::{self, assumed_members};
use crate::status::control_plane::certificates::{Certificates, Purpose};
use crate::status::control_plane::pods::is_control_plane as is_control_plane_node;
use crate::status::control_plane::{Connection, Kubeconfig, Observed, Reached, Workload};
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, cluster_label};

/// Failed probes after which a connection counts as down.
const DOWN: u32 = 5;

impl Dump {
    /// Everything a control plane is judged by; `None` without its Cluster.
    pub fn control_plane(&self, key: &ObjectKey, object: &KubeadmControlPlane) -> Option<Observed> {
        let owner = object.metadata.owner_references.iter().flatten().find(|o| o.kind == "Cluster");
        let name = owner.map(|o| o.name.as_str()).or_else(|| cluster_label(object))?;
        let cluster_key = ObjectKey::new(&key.namespace, name);
        let cluster = self.clusters.get(&cluster_key)?;
        let mut observed = observe::control_plane(self, object, cluster);
        observed.kubeconfig = Kubeconfig::Found { ours: true, controlled: true, expires: None };
        // The names of new Machines are drawn when they are created.
        "xxxxxxxxxx".clone_into(&mut observed.name_suffix);
        observed.certificates = self.certificates(&key.namespace, name, &observed);
        if observed.endpoint().is_some() && !observed.machines.is_empty() {
            observed.workload = self.remote(&cluster_key, cluster, &observed);
        }
        Some(observed)
    }

    /// In a dump without any Secret all certificates count as existing.
    fn certificates(&self, ns: &str, cluster: &str, observed: &Observed) -> Certificates {
        let needed = Purpose::needed(!observed.etcd_is_managed());
        let secrets = self.secrets(ns);
        // People leave Secrets out of dumps with good reason; that must not look like lost keys.
        let there = |p: &Purpose| secrets.is_empty() || secrets.contains(p.secret_name(cluster).as_str());
        Certificates::Found(needed.iter().copied().filter(there).collect())
    }

    fn remote(&self, key: &ObjectKey, cluster: &Cluster, observed: &Observed) -> Workload {
        // Without system Pods in the dump each static Pod would count as missing.
        if let Some(remote) = self.workload(key).filter(|remote| remote.has_system_pods()) {
            return Workload::Reached(Box::new(reached(remote, observed)));
        }
        match last_seen(cluster) {
            Some(last_success) => Workload::Down(Connection {
                last_success,
                consecutive_failures: DOWN,
                ..Connection::default()
            }),
            None => Workload::Assumed(assumed_members(observed)),
        }
    }
}

fn reached(remote: &Remote, observed: &Observed) -> Reached {
    let referred =
        |node: &Node| observed.machines.iter().any(|m| m.node_name() == node.metadata.name.as_deref());
    // A Node without the label is kept where a Machine names it: the missing label is a finding.
    let nodes = remote.nodes.values().filter(|node| is_control_plane_node(node) || referred(node));
    let system = |pod: &&Pod| pod.metadata.namespace.as_deref() == Some("kube-system");
    Reached {
        nodes: Ok(nodes.map(|node| (**node).clone()).collect()),
        pods: Ok(remote.pods.iter().filter(system).cloned().collect()),
        etcd: assumed_members(observed),
        kubeadm_config: Ok(None),
        kube_proxy_image: None,
        core_dns_image: None,
        bindings_missing: Vec::new(),
    }
}
