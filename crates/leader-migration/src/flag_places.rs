//! The objects in which the flags of controller managers are kept, as they were read: kubeadm's configuration, a
//! KubeadmControlPlane, static pods, DaemonSets and Deployments. Owns which objects count; must not know edits.

use std::collections::BTreeSet;

use serde_json::Value;

use super::flag_lists::value_in;
use super::manager_kind::ManagerKind;
use super::manifest::manager_in;

/// What was read. Its text is as it was read: it is cleaned where it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagPlaces {
    /// `ClusterConfiguration` of ConfigMap `kubeadm-config`, or why it cannot be read. `None`: it is not there.
    pub cluster_configuration: Option<Result<Value, String>>,
    /// KubeadmControlPlanes, which are in a management cluster.
    pub control_planes: Vec<Value>,
    /// Pods of the two programs that no controller of the cluster made: static ones.
    pub static_pods: Vec<Value>,
    /// DaemonSets, Deployments and StatefulSets whose pods run one of the two programs.
    pub workloads: Vec<Value>,
    /// Why workloads were not read.
    pub unread_workloads: Option<String>,
}

impl FlagPlaces {
    /// Out of objects of any kind.
    pub fn of(objects: &[Value]) -> Self {
        let mut places = Self::default();
        objects.iter().for_each(|object| places.add(object));
        places
    }

    fn add(&mut self, object: &Value) {
        match object["kind"].as_str() {
            Some("ConfigMap") if object["metadata"]["name"] == "kubeadm-config" => {
                self.cluster_configuration = Some(cluster_configuration(object));
            }
            Some("KubeadmControlPlane") => self.control_planes.push(object.clone()),
            Some("Pod") if is_static(object) && runs_manager(&object["spec"]) => {
                self.static_pods.push(object.clone());
            }
            Some("DaemonSet" | "Deployment" | "StatefulSet")
                if runs_manager(&object["spec"]["template"]["spec"]) =>
            {
                self.workloads.push(object.clone());
            }
            // Lists may be typed: whatever has items is one.
            _ => list(&object["items"]).iter().for_each(|item| self.add(item)),
        }
    }

    /// Does a workload make cloud-controller-managers, or has every node with a kube-controller-manager one of its own? While they
    /// come node by node as static pods, those of the other nodes are still to be made.
    pub fn runs_cloud(&self) -> bool {
        let runs = |spec: &Value, kind: ManagerKind| {
            list(&spec["containers"]).iter().any(|container| manager_in(container) == Some(kind))
        };
        let makes = |workload: &Value| {
            runs(&workload["spec"]["template"]["spec"], ManagerKind::CloudControllerManager)
        };
        let nodes_of = |kind: ManagerKind| -> BTreeSet<&str> {
            let pods = self.static_pods.iter().filter(|pod| runs(&pod["spec"], kind));
            pods.filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect()
        };
        let clouds = nodes_of(ManagerKind::CloudControllerManager);
        self.workloads.iter().any(makes)
            || !clouds.is_empty() && nodes_of(ManagerKind::KubeControllerManager).is_subset(&clouds)
    }

    /// The cloud provider that kubeadm or Cluster API give to kube-controller-manager, and which of them says so.
    pub fn declared_provider(&self) -> Option<(String, &'static str)> {
        let kubeadm = self.cluster_configuration.iter().flatten().map(|root| (root, "kubeadm-config"));
        let planes = self.control_planes.iter();
        let planes = planes.map(|plane| {
            (&plane["spec"]["kubeadmConfigSpec"]["clusterConfiguration"], "the KubeadmControlPlane")
        });
        // A KubeadmControlPlane writes kubeadm's configuration over: it says what will run.
        planes.chain(kubeadm).find_map(|(root, of)| {
            let provider = value_in(&root["controllerManager"]["extraArgs"], "cloud-provider")?;
            Some((provider.to_owned(), of))
        })
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn runs_manager(spec: &Value) -> bool {
    list(&spec["containers"]).iter().any(|container| manager_in(container).is_some())
}

/// A kubelet's own pods are owned by their Node.
fn is_static(pod: &Value) -> bool {
    // `all`: files hold manifests of static pods, which have no owner yet.
    list(&pod["metadata"]["ownerReferences"]).iter().all(|owner| owner["kind"] == "Node")
}

fn cluster_configuration(map: &Value) -> Result<Value, String> {
    let text = map["data"]["ClusterConfiguration"].as_str().ok_or("it has no ClusterConfiguration")?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| format!("not YAML: {}", error.without_snippet()))?;
    let mut documents = documents.into_iter().filter(Value::is_object);
    documents.next().ok_or_else(|| "its ClusterConfiguration is not a map".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_counts_among_objects_of_any_kind() {
        let container = json!({"image": "r/kube-controller-manager:v1.27.1"});
        let pod = |owner: Value| json!({"kind": "Pod", "metadata": {"name": "p", "ownerReferences": owner}, "spec": {"containers": [container]}});
        let set = json!({"kind": "DaemonSet", "spec": {"template": {"spec": {"containers": [{"image": "r/ccm:v1"}]}}}});
        let stranger =
            json!({"kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"image": "dns"}]}}}});
        let map = json!({"kind": "ConfigMap", "metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration":
            "controllerManager:\n  extraArgs:\n    cloud-provider: gce\n"}});
        let objects = [
            json!({"kind": "List", "items": [pod(Value::Null), pod(json!([{"kind": "Node"}])), pod(json!([{"kind": "ReplicaSet"}]))]}),
            set,
            stranger,
            map,
        ];
        let places = FlagPlaces::of(&objects);
        assert_eq!((places.static_pods.len(), places.workloads.len()), (2, 1));
        assert_eq!(places.declared_provider(), Some(("gce".to_owned(), "kubeadm-config")));
        let broken = json!({"kind": "ConfigMap", "metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": "a: ["}});
        let broken = FlagPlaces::of(&[broken]);
        assert!(
            matches!(&broken.cluster_configuration, Some(Err(why)) if why.starts_with("not YAML")),
            "{broken:?}"
        );
        assert_eq!(broken.declared_provider(), None);
    }
}
