//! The API of a simulated cluster that asked for one: where it is, which objects it shows, and what the changes of its
//! clients mean, deletions and evictions of pods among them. Must not know how it is served, nor by whom.

use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use serde_json::{Value, json};

use super::kubeadm::KUBE_SYSTEM;
use super::sim_cluster::SimCluster;
use super::tenants::Tenants;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;
use capstan_engine::workload::{Addon, Eviction, WorkloadError};
use k8s_machinery::merge;

/// Kinds of which a simulated cluster itself makes objects; a client may keep others beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShownKind {
    Namespace,
    Node,
    ConfigMap,
    DaemonSet,
    Deployment,
    Pod,
}

impl ShownKind {
    /// What others need comes first.
    pub const ALL: [Self; 6] =
        [Self::Namespace, Self::Node, Self::ConfigMap, Self::DaemonSet, Self::Deployment, Self::Pod];
}

impl SimCluster {
    /// Every object that the simulation makes, as its API shows it at `now`.
    pub fn objects(&self, shown: ShownKind, now: Timestamp) -> Vec<(ObjectKey, Value)> {
        let nodes = self.seen_nodes();
        let objects: Vec<Value> = match shown {
            ShownKind::Namespace => values(self.tenants.namespaces()),
            ShownKind::Node => values(nodes.iter().map(|node| &**node)),
            ShownKind::ConfigMap => values(self.config_maps.values()),
            ShownKind::Pod => values(self.pods.values()),
            ShownKind::DaemonSet => {
                let tenants = self.tenants.daemon_sets();
                let names = tenants.iter().map(ObjectKey::of);
                names
                    .map(|key| daemon_set(&key, nodes.len()))
                    .chain(self.add_on(Addon::KubeProxy, now))
                    .collect()
            }
            ShownKind::Deployment => self.add_on(Addon::CoreDns, now).into_iter().collect(),
        };
        objects.into_iter().map(|object| (key_of(&object), object)).collect()
    }

    fn add_on(&self, addon: Addon, now: Timestamp) -> Option<Value> {
        Some(self.addons.get(&addon)?.object(addon, self.seen_nodes().len(), now, self.time_scale))
    }

    /// A client changed an object of the simulation: `patch` is what differs.
    ///
    /// # Errors
    /// The patch does not fit, or the object is gone.
    pub fn accept(
        &mut self,
        shown: ShownKind,
        key: &ObjectKey,
        patch: &Value,
        now: Timestamp,
    ) -> Result<(), WorkloadError> {
        match shown {
            // The rest of a Node is the simulation's own, and a client's echo of it may be old.
            ShownKind::Node => self.patch_node(&key.name, &of_clients(patch)).map(|_| ()),
            ShownKind::ConfigMap => match patch.get("data") {
                // Hosts read nothing but the data.
                Some(data) => self.patch_config_map(&key.name, &json!({ "data": data })),
                None => Ok(()),
            },
            ShownKind::DaemonSet | ShownKind::Deployment if key.namespace == KUBE_SYSTEM => {
                let addon = if shown == ShownKind::DaemonSet { Addon::KubeProxy } else { Addon::CoreDns };
                let template_patch = patch.pointer("/spec/template");
                if let (Some(add_on), Some(patch)) = (self.addons.get_mut(&addon), template_patch) {
                    // The Nodes and the scale do not matter: only the template is taken.
                    let mut template = add_on.object(addon, 0, now, 1.0)["spec"]["template"].take();
                    merge::apply(&mut template, patch);
                    add_on.accept(&template, now);
                }
                Ok(())
            }
            // What clients change of other objects stays theirs: nothing here depends on it.
            _ => Ok(()),
        }
    }

    /// A client deleted an object of the simulation. What nobody deletes for good (a static pod, an add-on) stays,
    /// and is shown again.
    pub fn deleted(&mut self, shown: ShownKind, key: &ObjectKey, now: Timestamp) {
        match shown {
            ShownKind::Node => self.remove_node(&key.name),
            ShownKind::ConfigMap => drop(self.config_maps.remove(&key.name)),
            ShownKind::Pod if key.namespace != KUBE_SYSTEM => self.delete_pod(key, now),
            _ => {}
        }
    }
}

impl SimCluster {
    /// Asks a pod to go.
    pub fn evict(&mut self, pod: &ObjectKey, grace_period_s: Option<u32>, now: Timestamp) -> Eviction {
        self.end_pod(pod, |tenants, found| tenants.evict(found, grace_period_s, now))
    }

    /// Deletes a pod at once: disruption budgets are asked for evictions only.
    pub fn delete_pod(&mut self, pod: &ObjectKey, now: Timestamp) {
        self.end_pod(pod, |tenants, found| tenants.delete(found, Some(0), now));
    }

    fn end_pod(
        &mut self,
        pod: &ObjectKey,
        end: impl FnOnce(&mut Tenants, &mut Pod) -> Option<Eviction>,
    ) -> Eviction {
        let Some(found) = self.pods.get_mut(pod) else { return Eviction::Gone };
        let answer = end(&mut self.tenants, found);
        if let Some(node) = found.spec.as_ref().and_then(|spec| spec.node_name.clone()) {
            self.note_node(&node);
        }
        // A pod that is none of the tenants has no budget and nothing to end: it goes at once.
        answer.unwrap_or_else(|| {
            self.pods.remove(pod);
            Eviction::Started
        })
    }
}

/// Of a change of a Node what its kubelet does not write back.
fn of_clients(patch: &Value) -> Value {
    let mut mine = json!({});
    for (part, fields) in [("metadata", ["labels", "annotations"]), ("spec", ["unschedulable", "taints"])] {
        for field in fields {
            if let Some(change) = patch[part].get(field) {
                mine[part][field] = change.clone();
            }
        }
    }
    mine
}

fn values<K: Serialize>(objects: impl IntoIterator<Item = K>) -> Vec<Value> {
    objects.into_iter().filter_map(|object| serde_json::to_value(object).ok()).collect()
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

/// A DaemonSet with a pod on each node that wants one.
fn daemon_set(key: &ObjectKey, nodes: usize) -> Value {
    let labels = json!({ "app": key.name });
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "namespace": key.namespace, "name": key.name },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": key.name }] },
            },
        },
        "status": {
            "currentNumberScheduled": nodes, "desiredNumberScheduled": nodes, "numberMisscheduled": 0,
            "numberReady": nodes, "numberAvailable": nodes, "updatedNumberScheduled": nodes,
        },
    })
}
