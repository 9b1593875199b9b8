//! Where the topology of a Cluster has what an action changes in an object that it owns, and the change there. Pure. Owns which
//! fields of which kinds a topology has; must not write anything.
//! Source: cluster-api `api/core/v1beta2/cluster_types.go` (`Topology`) and `exp/topology/desiredstate/desired_state.go`, v1.14.2: what
//! a topology does not set, its controller leaves alone.

use serde_json::{Value, json};

use super::fields::{self, REPLICAS, kubernetes_version};
use super::finding;
use super::related::Related;
use super::sent::text_at;
use crate::operations::{Finding, Severity};
use capi_types::names::label;
use capstan_base::text::sanitize_line;

/// The findings say that the change belongs to the topology.
pub(super) const OWNED: &str = "topology-owned";

/// The change of one field, where the Cluster has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopologyChange {
    /// As it is served.
    api_version: String,
    namespace: String,
    name: String,
    /// Such as `spec.topology.workers.machineDeployments[md-0].replicas`.
    path: String,
    /// A merge patch of the Cluster; a list in it is whole.
    pub(super) patch: Value,
}

/// What the topology has to do with a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopologyPlace {
    /// Its field is the one that is kept.
    There(Box<TopologyChange>),
    /// It has the field and does not set it, so that nothing puts the object's own back.
    LeftFree { cluster: String, path: String },
    /// It owns the object and has no such field for its kind, in a sentence.
    Nowhere(String),
}

impl TopologyPlace {
    /// `None`: no topology owns the object, the patch changes nothing that one sets, or the Cluster was not read.
    pub(super) fn of(related: &Related, patch: Option<&Value>) -> Option<Self> {
        let object = &related.object;
        let change = Changed::of(related.kind(), patch?)?;
        let cluster = related.cluster.as_ref().filter(|_| is_owned(object) && related.kind() != "Cluster")?;
        let place = match change {
            Changed::Version(version) => version_of_all(cluster, version),
            Changed::Replicas(count) => replicas(related, cluster, count),
        };
        Some(place.unwrap_or_else(|| Self::Nowhere(nowhere(related.kind(), change, cluster))))
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        match self {
            Self::There(change) => finding(
                Severity::Warning,
                OWNED,
                format!(
                    "the topology of Cluster {} sets this field and puts it back; change {} of the Cluster instead",
                    sanitize_line(&change.name),
                    sanitize_line(&change.path)
                ),
            ),
            Self::LeftFree { cluster, path } => finding(
                Severity::Note,
                "topology-leaves-free",
                format!("Cluster {cluster} does not set {path}: what is written here stays"),
            ),
            Self::Nowhere(why) => finding(Severity::Warning, "not-in-topology", why.clone()),
        }
    }
}

/// The Cluster was not read, so that the place cannot be named.
pub(super) fn unnamed(related: &Related, patch: Option<&Value>) -> Option<Finding> {
    let is_changed = patch.is_some_and(|patch| Changed::of(related.kind(), patch).is_some());
    if !is_changed || !is_owned(&related.object) || related.cluster.is_some() {
        return None;
    }
    let text =
        "the topology of its Cluster may put this field back; change spec.topology of the Cluster instead";
    finding(Severity::Warning, "topology-unread", text)
}

impl TopologyChange {
    /// The Cluster by its names, with what changes.
    pub(super) fn document(&self) -> Value {
        let mut document = json!({"apiVersion": self.api_version, "kind": "Cluster",
            "metadata": {"name": self.name, "namespace": self.namespace}});
        document["spec"] = self.patch["spec"].clone();
        document
    }

    /// For the head of a file.
    pub(super) fn remark(&self) -> String {
        let list = "; the list is whole, because a merge patch replaces lists";
        let list = if self.path.contains('[') { list } else { "" };
        format!("{} of Cluster {}/{}{list}", self.path, self.namespace, self.name)
    }
}

#[derive(Clone, Copy)]
enum Changed<'a> {
    Replicas(&'a Value),
    Version(&'a Value),
}

impl<'a> Changed<'a> {
    /// Of a pause, a schedule or a deletion nothing stands in a topology, and it does not put them back.
    fn of(kind: &str, patch: &'a Value) -> Option<Self> {
        let replicas = patch.pointer(REPLICAS).map(Self::Replicas);
        replicas.or_else(|| patch.pointer(kubernetes_version(kind)).map(Self::Version))
    }
}

fn is_owned(object: &Value) -> bool {
    !object["metadata"]["labels"][label::TOPOLOGY_OWNED].is_null()
}

/// One version for the control plane and all workers.
fn version_of_all(cluster: &Value, version: &Value) -> Option<TopologyPlace> {
    let pointer = kubernetes_version("Cluster");
    cluster.pointer(pointer)?;
    let patch = fields::patch(pointer, version.clone());
    Some(there(cluster, "spec.topology.version", patch))
}

fn replicas(related: &Related, cluster: &Value, count: &Value) -> Option<TopologyPlace> {
    const CONTROL_PLANE: &str = "/spec/topology/controlPlane/replicas";
    if related.is_control_plane() {
        let path = "spec.topology.controlPlane.replicas";
        let is_set = cluster.pointer(CONTROL_PLANE).is_some_and(Value::is_number);
        let patch = fields::patch(CONTROL_PLANE, count.clone());
        return Some(if is_set { there(cluster, path, patch) } else { left_free(cluster, path) });
    }
    let (list, mark) = match related.kind() {
        "MachineDeployment" => ("machineDeployments", label::TOPOLOGY_DEPLOYMENT),
        "MachinePool" => ("machinePools", label::TOPOLOGY_POOL),
        _ => return None,
    };
    let name = related.object["metadata"]["labels"][mark].as_str()?;
    let mut groups = cluster.pointer(&format!("/spec/topology/workers/{list}"))?.as_array()?.clone();
    let group = groups.iter_mut().find(|group| group["name"] == name)?;
    let path = format!("spec.topology.workers.{list}[{name}].replicas");
    // A number that the topology does not set is nobody's to put back.
    if !group["replicas"].is_number() {
        return Some(left_free(cluster, &path));
    }
    // The whole list is sent: a merge patch replaces lists.
    group["replicas"] = count.clone();
    Some(there(cluster, &path, json!({"spec": {"topology": {"workers": {list: groups}}}})))
}

fn there(cluster: &Value, path: &str, patch: Value) -> TopologyPlace {
    TopologyPlace::There(Box::new(TopologyChange {
        api_version: text_at(cluster, "/apiVersion"),
        namespace: text_at(cluster, "/metadata/namespace"),
        name: text_at(cluster, "/metadata/name"),
        path: path.to_owned(),
        patch,
    }))
}

fn left_free(cluster: &Value, path: &str) -> TopologyPlace {
    let name = text_at(cluster, "/metadata/name");
    TopologyPlace::LeftFree { cluster: sanitize_line(&name), path: sanitize_line(path) }
}

fn nowhere(kind: &str, change: Changed<'_>, cluster: &Value) -> String {
    let field = match change {
        Changed::Replicas(_) => "number of replicas",
        Changed::Version(_) => "version",
    };
    let name = sanitize_line(&text_at(cluster, "/metadata/name"));
    format!(
        "it belongs to the topology of Cluster {name}, which has no place for the {field} of this {}: what is above it may put it back",
        sanitize_line(kind)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Value {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c", "namespace": "prod"},
            "spec": {"controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "cp"},
                "topology": {"version": "v1.36.0", "controlPlane": {"replicas": 3}, "workers": {
                    "machineDeployments": [{"name": "a", "class": "k", "replicas": 2}, {"name": "b", "class": "k"}],
                    "machinePools": [{"name": "p", "class": "k", "replicas": 4}]}}}})
    }

    fn owned(kind: &str, group: &str, mark: (&str, &str)) -> Related {
        let mut labels = json!({label::TOPOLOGY_OWNED: ""});
        labels[mark.0] = mark.1.into();
        let object = json!({"apiVersion": format!("{group}/v1beta2"), "kind": kind, "metadata": {"name": "x", "labels": labels}});
        Related { cluster: Some(cluster()), ..Related::alone(object) }
    }

    fn said(related: &Related, patch: &Value) -> (String, Value) {
        let place = TopologyPlace::of(related, Some(patch));
        let document = match &place {
            Some(TopologyPlace::There(change)) => change.document()["spec"]["topology"].clone(),
            _ => Value::Null,
        };
        let found = place.as_ref().and_then(TopologyPlace::finding).or_else(|| unnamed(related, Some(patch)));
        (found.map(|found| format!("{}: {}", found.rule, found.text)).unwrap_or_default(), document)
    }

    #[test]
    fn a_field_is_changed_where_the_topology_has_it() {
        let (core, planes) = ("cluster.x-k8s.io", "controlplane.cluster.x-k8s.io");
        let scale = json!({"spec": {"replicas": 5}});
        let worker = json!({"spec": {"template": {"spec": {"version": "v1.36.1"}}}});
        let puts_back = |path: &str| {
            format!(
                "topology-owned: the topology of Cluster c sets this field and puts it back; change {path} of the Cluster instead"
            )
        };
        let plane = owned("KubeadmControlPlane", planes, ("x", ""));
        let group = |name: &str| owned("MachineDeployment", core, (label::TOPOLOGY_DEPLOYMENT, name));
        let pool = owned("MachinePool", core, (label::TOPOLOGY_POOL, "p"));
        let version = json!({"version": "v1.36.1"});
        for (related, patch, text, document) in [
            (
                &plane,
                &scale,
                puts_back("spec.topology.controlPlane.replicas"),
                json!({"controlPlane": {"replicas": 5}}),
            ),
            (
                &plane,
                &json!({"spec": {"version": "v1.36.1"}}),
                puts_back("spec.topology.version"),
                version.clone(),
            ),
            (
                &group("a"),
                &scale,
                puts_back("spec.topology.workers.machineDeployments[a].replicas"),
                json!({"workers": {"machineDeployments": [
                    {"name": "a", "class": "k", "replicas": 5}, {"name": "b", "class": "k"}]}}),
            ),
            (&group("a"), &worker, puts_back("spec.topology.version"), version),
            (
                &pool,
                &scale,
                puts_back("spec.topology.workers.machinePools[p].replicas"),
                json!({"workers": {"machinePools": [{"name": "p", "class": "k", "replicas": 5}]}}),
            ),
        ] {
            assert_eq!(said(related, patch), (text, document));
        }
        // An autoscaler has the number then.
        let free = "topology-leaves-free: Cluster c does not set spec.topology.workers.machineDeployments[b].replicas: \
                    what is written here stays";
        assert_eq!(said(&group("b"), &scale), (free.to_owned(), Value::Null));
    }

    #[test]
    fn what_has_no_place_in_a_topology_says_so() {
        let scale = json!({"spec": {"replicas": 5}});
        let set = owned("MachineSet", "cluster.x-k8s.io", ("x", ""));
        let nowhere = "not-in-topology: it belongs to the topology of Cluster c, which has no place for the number of replicas of \
                       this MachineSet: what is above it may put it back";
        assert_eq!(said(&set, &scale).0, nowhere);
        let gone = owned("MachineDeployment", "cluster.x-k8s.io", (label::TOPOLOGY_DEPLOYMENT, "gone"));
        assert!(said(&gone, &scale).0.starts_with("not-in-topology: "), "{}", said(&gone, &scale).0);
        let unread = Related { cluster: None, ..gone };
        assert!(said(&unread, &scale).0.starts_with("topology-unread: "), "{}", said(&unread, &scale).0);
        let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}});
        assert_eq!(said(&set, &paused).0, "", "it is not put back");
        let mut own = Related::alone(json!({"kind": "MachineDeployment", "metadata": {"name": "x"}}));
        own.cluster = Some(cluster());
        assert_eq!(said(&own, &scale).0, "", "a Cluster with a topology may have others beside it");
    }
}
