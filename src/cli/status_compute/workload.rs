//! Nodes and Pods of workload clusters in a dump, and which cluster each belongs to. Must not judge them.
//!
//! Whose it is: the cluster that `--workload` names for its file; else of a Node the cluster in its
//! `cluster.x-k8s.io/cluster-name` and `cluster-namespace` annotations, which Cluster API writes; else of a
//! Pod the cluster of the one Node that has the name it runs on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;

use crate::api::key::{ObjectKey, annotation};

const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
const CLUSTER_NAMESPACE: &str = "cluster.x-k8s.io/cluster-namespace";

/// What is known of one workload cluster.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
}

impl Workload {
    /// The pods on a Node.
    #[must_use]
    pub fn pods_on(&self, node: &str) -> Vec<Pod> {
        self.pods.iter().filter(|p| node_of(p) == Some(node)).cloned().collect()
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Sorts Nodes and Pods by cluster; a remark for each that belongs to none.
#[must_use]
pub fn sorted(documents: Vec<(Value, Option<ObjectKey>)>) -> (BTreeMap<ObjectKey, Workload>, Vec<String>) {
    let mut workloads: BTreeMap<ObjectKey, Workload> = BTreeMap::new();
    let mut remarks = Vec::new();
    let (nodes, pods): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(|(value, _)| value["kind"] == "Node");
    for (value, stated) in nodes {
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match serde_json::from_value::<Node>(value) {
            Err(error) => remarks.push(format!("Node {name} is left out: {error}")),
            Ok(node) => match stated.or_else(|| annotated(&node)) {
                Some(cluster) => workloads.entry(cluster).or_default().nodes.push(node),
                None => remarks.push(format!(
                    "Node {name} is left out: it has no {CLUSTER_NAME} annotation; name its cluster with --workload"
                )),
            },
        }
    }
    for (value, stated) in pods {
        let name = super::dump::key_of(&value);
        match serde_json::from_value::<Pod>(value) {
            Err(error) => remarks.push(format!("Pod {name} is left out: {error}")),
            Ok(pod) => match stated.or_else(|| hosting(&workloads, &pod)) {
                Some(cluster) => workloads.entry(cluster).or_default().pods.push(pod),
                None => remarks.push(format!(
                    "Pod {name} is left out: its Node does not tell its cluster; name it with --workload"
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
    let has = |workload: &Workload| workload.nodes.iter().any(|n| n.metadata.name.as_deref() == Some(name));
    let mut found = workloads.iter().filter(|(_, workload)| has(workload)).map(|(cluster, _)| cluster);
    let first = found.next()?;
    found.next().is_none().then(|| first.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_and_pods_find_their_cluster() {
        let node = |name: &str, cluster: &str| {
            (
                json!({"kind": "Node", "metadata": {"name": name, "annotations": {CLUSTER_NAMESPACE: "ns", CLUSTER_NAME: cluster}}}),
                None,
            )
        };
        let pod = |name: &str, node: &str, stated: Option<&str>| {
            let value = json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node, "containers": []}});
            (value, stated.map(|c| ObjectKey::new("ns", c)))
        };
        let (workloads, remarks) = sorted(vec![
            pod("p1", "n1", None),
            pod("p2", "both", None),
            pod("p3", "n1", Some("b")),
            node("n1", "a"),
            node("both", "a"),
            node("both", "b"),
            (json!({"kind": "Node", "metadata": {"name": "stray"}}), None),
        ]);
        let counts: Vec<(String, usize, usize)> =
            workloads.iter().map(|(key, w)| (key.name.clone(), w.nodes.len(), w.pods.len())).collect();
        assert_eq!(counts, [("a".to_owned(), 2, 1), ("b".to_owned(), 1, 1)]);
        assert_eq!(
            remarks,
            [
                "Node stray is left out: it has no cluster.x-k8s.io/cluster-name annotation; name its cluster with --workload",
                "Pod default/p2 is left out: its Node does not tell its cluster; name it with --workload",
            ]
        );
        assert_eq!(workloads[&ObjectKey::new("ns", "a")].pods_on("n1").len(), 1);
    }
}
