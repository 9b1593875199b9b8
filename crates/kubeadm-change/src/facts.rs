//! What is known of the cluster beyond its configuration. Owns the facts that rules look at, and how they are read
//! from Nodes and Pods; must not know any rule.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::minor_of;
use super::control_plane_object;
use super::document::{DocumentKind, Inputs};
use super::live::{self, LiveNode};
use super::network::is_dns_name;
use super::render::{CONTROLLER_MANAGER, Release, SCHEDULER};
use super::running;

/// Who looks after the control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManagedBy {
    /// People, by kubeadm on each node.
    #[default]
    Kubeadm,
    /// A KubeadmControlPlane, whose own configuration wins.
    ControlPlane,
}

/// What is seen of the running cluster, beside its documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Kubernetes' minor version.
    pub minor: Option<u64>,
    /// By their pods; of files without pods, by the label of their Nodes.
    pub control_plane: Vec<LiveNode>,
    /// Names of Nodes without an API server, in order.
    pub workers: Vec<String>,
    /// etcd runs as static pods, not on hosts of its own.
    pub has_local_etcd: bool,
    /// A flag or a Node names a cloud provider.
    pub has_cloud_provider: bool,
    /// Who would take back what is written by hand.
    pub managed_by: ManagedBy,
    /// The KubeadmControlPlane that was read is in Cluster API's v1beta1.
    pub has_older_control_plane: bool,
    /// Names of Nodes whose controller manager or scheduler holds its lock.
    pub lock_holders: BTreeSet<String>,
    /// The tag of etcd's image that kubeadm of this version takes when none is given.
    pub etcd_tag: Option<&'static str>,
    /// The image with which CoreDNS runs; `None` when its Deployment was not read.
    pub coredns_image: Option<String>,
    /// The size of etcd's database, the largest of all members; `None` when no member said it.
    pub etcd_database_bytes: Option<u64>,
}

impl ClusterFacts {
    /// Reads them from what was found beside the documents.
    pub fn read(inputs: &Inputs) -> Self {
        let nodes: Vec<&Value> = inputs.objects.iter().filter(|object| object["kind"] == "Node").collect();
        let mut control_plane = live::control_plane(&inputs.objects);
        // Pods may be missing among the files, or may not be listed: the label of a Node still
        // shows its part.
        if control_plane.is_empty() {
            control_plane = nodes.iter().filter_map(|node| live::labelled(node)).collect();
        }
        let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut workers: Vec<String> = nodes.iter().map(|node| name(node)).collect();
        // Names stand in commands and file names.
        workers.retain(|node| is_dns_name(node));
        workers.retain(|node| !control_plane.iter().any(|live| live.host.name == *node));
        workers.sort();
        let cluster = inputs.document(DocumentKind::Cluster).map(|document| &document.value);
        let annotation = |node: &Value| {
            node["metadata"]["annotations"]["cluster.x-k8s.io/owner-kind"] == "KubeadmControlPlane"
        };
        let is_managed =
            nodes.iter().any(|node| annotation(node)) || control_plane_object::object(inputs).is_some();
        let version = cluster.and_then(|value| value["kubernetesVersion"].as_str());
        let minor = version.and_then(minor_of);
        let release = version.and_then(Release::of);
        Self {
            minor,
            // kubeadm's default is a local etcd, also where no document is there.
            has_local_etcd: cluster.is_none_or(|value| value["etcd"]["external"].is_null()),
            has_cloud_provider: has_cloud_provider(cluster, &nodes, &control_plane),
            managed_by: if is_managed { ManagedBy::ControlPlane } else { ManagedBy::Kubeadm },
            has_older_control_plane: control_plane_object::object(inputs)
                .is_some_and(control_plane_object::is_older),
            lock_holders: lock_holders(&inputs.objects),
            etcd_tag: release.map(|release| release.etcd_tag(release.minor)),
            coredns_image: running::coredns_image(&inputs.objects),
            etcd_database_bytes: None,
            control_plane,
            workers,
        }
    }

    /// The tag of the image with which etcd runs on the first node that has one.
    pub fn running_etcd_tag(&self) -> Option<&str> {
        self.control_plane.iter().find_map(|node| node.host.etcd_tag.as_deref())
    }

    /// How many control plane nodes there are; `None` when neither pods nor Nodes show one.
    pub fn control_planes(&self) -> Option<usize> {
        Some(self.control_plane.len()).filter(|count| *count > 0)
    }
}

/// A holder is the name of a host and a random part, with `_` between.
fn lock_holders(objects: &[Value]) -> BTreeSet<String> {
    let is_lock = |object: &&Value| {
        let metadata = &object["metadata"];
        object["kind"] == "Lease"
            && metadata["namespace"] == "kube-system"
            && (metadata["name"] == CONTROLLER_MANAGER || metadata["name"] == SCHEDULER)
    };
    let holder = |lease: &Value| {
        let (node, _) = lease["spec"]["holderIdentity"].as_str()?.rsplit_once('_')?;
        Some(node.to_owned())
    };
    objects.iter().filter(is_lock).filter_map(holder).collect()
}

fn has_cloud_provider(cluster: Option<&Value>, nodes: &[&Value], control_plane: &[LiveNode]) -> bool {
    let has_flag = |value: &Value, component: &str| {
        let flags = value[component]["extraArgs"].as_array().into_iter().flatten();
        flags.into_iter().any(|flag| flag["name"] == "cloud-provider" && flag["value"] != "")
    };
    let configured =
        cluster.is_some_and(|value| has_flag(value, "apiServer") || has_flag(value, "controllerManager"));
    let running = control_plane
        .iter()
        .flat_map(|node| node.static_pods.values())
        .any(|pod| live::flag(pod, "cloud-provider").is_some_and(|value| !value.is_empty()));
    // A provider id of another form than that of bare metal comes from a cloud controller.
    let by_node = nodes.iter().filter_map(|node| node["spec"]["providerID"].as_str()).any(|id| {
        ["aws://", "gce://", "azure://", "openstack://", "vsphere://", "digitalocean://", "hcloud://"]
            .iter()
            .any(|known| id.starts_with(known))
    });
    configured || running || by_node
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::read_inputs;

    #[test]
    fn facts_are_read_from_documents_and_objects() {
        let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.2\ncontrollerManager: {extraArgs: [{name: cloud-provider, value: external}]}\netcd: {external: {endpoints: [https://e]}}\n";
        let mut inputs = read_inputs(&[("f".to_owned(), text.to_owned())]).expect("documents");
        inputs.objects.push(json!({"kind": "Node", "metadata": {"name": "w1", "annotations": {"cluster.x-k8s.io/owner-kind": "MachineSet"}}}));
        let facts = ClusterFacts::read(&inputs);
        assert_eq!((facts.minor, facts.has_local_etcd, facts.has_cloud_provider), (Some(34), false, true));
        assert_eq!(
            (facts.workers, facts.control_plane.len(), facts.managed_by),
            (vec!["w1".to_owned()], 0, ManagedBy::Kubeadm)
        );
        inputs.objects.push(json!({"kind": "Node", "metadata": {"name": "c1", "annotations": {"cluster.x-k8s.io/owner-kind": "KubeadmControlPlane"}}}));
        assert_eq!(ClusterFacts::read(&inputs).managed_by, ManagedBy::ControlPlane);
    }

    #[test]
    fn without_pods_nodes_are_of_the_control_plane_by_their_label() {
        let text =
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.2\n";
        let mut inputs = read_inputs(&[("f".to_owned(), text.to_owned())]).expect("documents");
        let address = json!({"addresses": [{"type": "Hostname", "address": "c1"}, {"type": "InternalIP", "address": "10.0.0.1"}]});
        let label = json!({"node-role.kubernetes.io/control-plane": ""});
        inputs
            .objects
            .push(json!({"kind": "Node", "metadata": {"name": "c1", "labels": label}, "status": address}));
        inputs.objects.push(json!({"kind": "Node", "metadata": {"name": "w1"}, "status": address}));
        let facts = ClusterFacts::read(&inputs);
        assert_eq!(facts.control_planes(), Some(1));
        assert_eq!(
            (facts.control_plane[0].host.address.as_str(), facts.workers),
            ("10.0.0.1", vec!["w1".to_owned()])
        );
    }
}
