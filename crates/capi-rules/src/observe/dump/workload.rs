//! Nodes and Pods of workload clusters in a dump, and which cluster each belongs to. Must not judge them.
//!
//! A Node or Pod belongs to the cluster that `--workload` names for its file. Otherwise a Node belongs to the cluster
//! in its `cluster.x-k8s.io/cluster-name` and `cluster-namespace` annotations, which Cluster API writes, and a Pod to
//! the cluster of the only Node with the name in its spec.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::{Document, key_of};
use capi_types::key::{ObjectKey, annotation};
use k8s_openapi::api::core::v1::{Node, Pod};

const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
const CLUSTER_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";

/// What is known of one workload cluster.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// By name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    pub pods: Vec<Pod>,
    /// Names of Nodes by provider ID: a fleet has too many Machines to search all Nodes for each of them.
    provider_ids: BTreeMap<String, Vec<String>>,
}

impl Workload {
    /// The Nodes with a provider ID: more than one is a mistake in the workload cluster.
    pub fn nodes_with(&self, provider_id: &str) -> Vec<Arc<Node>> {
        let names = self.provider_ids.get(provider_id);
        names.into_iter().flatten().filter_map(|name| self.nodes.get(name)).cloned().collect()
    }

    fn index(&mut self) {
        for (name, node) in &self.nodes {
            if let Some(id) = node.spec.as_ref().and_then(|s| s.provider_id.clone()) {
                self.provider_ids.entry(id).or_default().push(name.clone());
            }
        }
    }

    /// There are Pods of the control plane's namespace, so that a missing one does not exist.
    pub fn has_system_pods(&self) -> bool {
        // A single one is enough: whoever collects them collects the whole namespace.
        self.pods.iter().any(|p| p.metadata.namespace.as_deref() == Some("kube-system"))
    }

    /// In all namespaces, whether they run or have ended.
    pub fn pods_on(&self, node: &str) -> Vec<Pod> {
        self.pods.iter().filter(|p| node_of(p) == Some(node)).cloned().collect()
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Sorts Nodes and Pods by cluster; a remark for each that belongs to none.
pub fn sorted(documents: Vec<Document>) -> (BTreeMap<ObjectKey, Workload>, Vec<String>) {
    let mut workloads: BTreeMap<ObjectKey, Workload> = BTreeMap::new();
    let mut remarks = Vec::new();
    // Nodes first: most Pods are placed by the Node that they run on.
    let (nodes, pods): (Vec<_>, Vec<_>) = documents.into_iter().partition(|d| d.value["kind"] == "Node");
    for Document { value, workload: stated, origin } in nodes {
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match serde_json::from_value::<Node>(value) {
            Err(error) => remarks.push(format!("{origin}: Node {name} is left out: {error}")),
            Ok(node) => match stated.or_else(|| annotated(&node)) {
                Some(cluster) => {
                    let nodes = &mut workloads.entry(cluster).or_default().nodes;
                    if nodes.insert(name.clone(), Arc::new(node)).is_some() {
                        remarks.push(format!("{origin}: Node {name} was there before: this one counts"));
                    }
                }
                None => remarks.push(format!(
                    "{origin}: Node {name} is left out: it has no {CLUSTER_NAME} annotation; name its cluster with --workload"
                )),
            },
        }
    }
    // After all Nodes, as one that is there twice counts once.
    workloads.values_mut().for_each(Workload::index);
    for Document { value, workload: stated, origin } in pods {
        let name = key_of(&value);
        match serde_json::from_value::<Pod>(value) {
            Err(error) => remarks.push(format!("{origin}: Pod {name} is left out: {error}")),
            Ok(pod) => match stated.or_else(|| hosting(&workloads, &pod)) {
                Some(cluster) => workloads.entry(cluster).or_default().pods.push(pod),
                None => remarks.push(format!(
                    "{origin}: Pod {name} is left out: its Node does not tell its cluster; name it with --workload"
                )),
            },
        }
    }
    (workloads, remarks)
}

fn annotated(node: &Node) -> Option<ObjectKey> {
    Some(ObjectKey::new(annotation(node, CLUSTER_NAMESPACE)?, annotation(node, CLUSTER_NAME)?))
}

/// The only cluster with a Node of the name that the Pod runs on.
fn hosting(workloads: &BTreeMap<ObjectKey, Workload>, pod: &Pod) -> Option<ObjectKey> {
    let name = node_of(pod)?;
    let has = |workload: &Workload| workload.nodes.contains_key(name);
    let mut found = workloads.iter().filter(|(_, workload)| has(workload)).map(|(cluster, _)| cluster);
    let first = found.next()?;
    // Names like `node-1` are in many clusters; a guess would show Pods in a wrong one.
    found.next().is_none().then(|| first.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_and_pods_find_their_cluster() {
        let node = |name: &str, cluster: &str| {
            let value = json!({"kind": "Node", "metadata": {"name": name, "annotations": {CLUSTER_NAMESPACE: "ns", CLUSTER_NAME: cluster}}});
            Document::from(value)
        };
        let pod = |name: &str, node: &str, stated: Option<&str>| {
            let value = json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node, "containers": []}});
            Document { workload: stated.map(|c| ObjectKey::new("ns", c)), ..value.into() }
        };
        let (workloads, remarks) = sorted(vec![
            pod("p1", "n1", None),
            pod("p2", "both", None),
            pod("p3", "n1", Some("b")),
            node("n1", "a"),
            node("both", "a"),
            node("both", "b"),
            json!({"kind": "Node", "metadata": {"name": "stray"}}).into(),
        ]);
        let counts: Vec<(String, usize, usize)> =
            workloads.iter().map(|(key, w)| (key.name.clone(), w.nodes.len(), w.pods.len())).collect();
        assert_eq!(counts, [("a".to_owned(), 2, 1), ("b".to_owned(), 1, 1)]);
        assert_eq!(
            remarks,
            [
                ":0: Node stray is left out: it has no cluster.x-k8s.io/cluster-name annotation; name its cluster with --workload",
                ":0: Pod default/p2 is left out: its Node does not tell its cluster; name it with --workload",
            ]
        );
        assert_eq!(workloads[&ObjectKey::new("ns", "a")].pods_on("n1").len(), 1);
    }
}
