//! What runs on simulated nodes besides the control plane: pods, what holds them there, and their
//! volumes. Owns how they come and go; must not know who drains a node, nor why.
//!
//! Not upstream, whose simulated nodes are empty. A pod is bound to its node: it is not started again
//! elsewhere, every node gets its own from the annotation. Evictions are forgotten with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::TimeDelta;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{AttachedVolume, Namespace, Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde::Deserialize;
use serde_json::{Value, json};

use super::kubeadm;
use capi_types::key::ObjectKey;
use capstan_base::time::{Timestamp, rfc3339, to_k8s};
use capstan_engine::workload::Eviction;
use capstan_physics::eviction;

/// The driver of simulated volumes.
const DRIVER: &str = "volumes.capstan.dev";
/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// One pod as the annotation of a DevMachine describes it. All durations are seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TenantSpec {
    /// `default` when empty.
    pub namespace: String,
    /// Followed by the node's name, as a pod is unique.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// The DaemonSet that controls it.
    pub daemon_set: Option<String>,
    /// How long it takes to stop.
    pub termination_seconds: u32,
    /// How long a disruption budget holds it, counted from the first eviction asked for.
    pub budget_seconds: u32,
    /// How long after its node was cordoned it ends by itself.
    pub completion_seconds: Option<u32>,
    /// It uses a volume through a claim with this name, followed by the node's.
    pub claim: Option<String>,
    /// How long its volume stays attached when it is gone.
    pub detach_seconds: u32,
}

impl TenantSpec {
    /// Reads the annotation: a JSON list.
    ///
    /// # Errors
    /// It is not such a list.
    pub fn parse(text: &str) -> Result<Vec<Self>, serde_json::Error> {
        serde_json::from_str(text)
    }

    fn key(&self, node: &str) -> ObjectKey {
        let namespace = if self.namespace.is_empty() { "default" } else { &self.namespace };
        ObjectKey::new(namespace, format!("{}-{node}", self.name))
    }

    fn pod(&self, node: &str, at: Timestamp) -> Pod {
        let key = self.key(node);
        let owner = match &self.daemon_set {
            Some(set) => ("apps/v1", "DaemonSet", set.as_str()),
            None => ("apps/v1", "ReplicaSet", self.name.as_str()),
        };
        let volume = self.claim.as_ref().map(|claim| {
            json!({ "name": "data", "persistentVolumeClaim": { "claimName": format!("{claim}-{node}") } })
        });
        let pod = json!({
            "metadata": {
                "namespace": key.namespace,
                "name": key.name,
                "labels": self.labels,
                "creationTimestamp": rfc3339(at),
                "ownerReferences": [{ "apiVersion": owner.0, "kind": owner.1, "name": owner.2, "uid": owner.2,
                                      "controller": true }],
            },
            "spec": {
                "nodeName": node,
                "containers": [{ "name": self.name }],
                "terminationGracePeriodSeconds": self.termination_seconds,
                "volumes": volume.into_iter().collect::<Vec<_>>(),
            },
        });
        Pod { status: Some(kubeadm::pod_status(&self.name, at)), ..made(pod) }
    }
}

/// An object written here; one that could not be read would be empty.
fn made<K: serde::de::DeserializeOwned + Default>(value: Value) -> K {
    serde_json::from_value(value).unwrap_or_default()
}

/// One pod, and what was asked of it.
#[derive(Clone, Debug, PartialEq)]
struct Tenant {
    spec: TenantSpec,
    node: String,
    asked: Option<Timestamp>,
    ends: Option<Timestamp>,
}

/// One volume: bound for ever, attached until it is detached.
#[derive(Clone, Debug, PartialEq)]
struct Volume {
    claim: ObjectKey,
    node: Option<String>,
    detaches: Option<Timestamp>,
}

/// What ended by itself.
#[derive(Debug, Default)]
pub struct Ended {
    pub pods: Vec<ObjectKey>,
    /// Nodes on which something ended, or began to.
    pub nodes: BTreeSet<String>,
}

/// All pods and volumes of one cluster that the annotation asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenants {
    pods: BTreeMap<ObjectKey, Tenant>,
    /// By name of the PersistentVolume.
    volumes: BTreeMap<String, Volume>,
    /// Divides every duration.
    time_scale: f64,
}

impl Tenants {
    pub fn new(time_scale: f64) -> Self {
        Self { pods: BTreeMap::new(), volumes: BTreeMap::new(), time_scale }
    }

    /// Starts the pods of a new node.
    pub fn settle(&mut self, node: &str, specs: &[TenantSpec], at: Timestamp) -> Vec<Pod> {
        for spec in specs {
            let (key, node) = (spec.key(node), node.to_owned());
            if let Some(claim) = &spec.claim {
                let claim = ObjectKey::new(key.namespace.clone(), format!("{claim}-{node}"));
                let volume = Volume { claim, node: Some(node.clone()), detaches: None };
                // Claims of two namespaces may have one name; volumes have no namespace. A namespace has
                // no dot, so that no other claim gives the same name.
                let name = format!("pv-{}.{}", volume.claim.namespace, volume.claim.name);
                self.volumes.insert(name, volume);
            }
            self.pods.insert(key, Tenant { spec: spec.clone(), node, asked: None, ends: None });
        }
        specs.iter().map(|spec| spec.pod(node, at)).collect()
    }

    /// Asks a pod to go. `None`: it is none of these.
    pub fn evict(&mut self, pod: &mut Pod, grace_period_s: Option<u32>, now: Timestamp) -> Option<Eviction> {
        let scale = self.time_scale;
        let tenant = self.pods.get_mut(&ObjectKey::of(pod))?;
        // Asked again it does not begin anew: the first grace period counts.
        if tenant.ends.is_some() {
            return Some(Eviction::Started);
        }
        // The budget counts from the first request, as if a replacement came up since then.
        if now < *tenant.asked.get_or_insert(now) + scaled(tenant.spec.budget_seconds, scale) {
            return Some(Eviction::Refused(eviction::no_room(&tenant.spec.name, 1, 1)));
        }
        self.delete(pod, grace_period_s, now)
    }

    /// Begins the end of a pod, whatever its budget says. `None`: it is none of these.
    pub fn delete(&mut self, pod: &mut Pod, grace_period_s: Option<u32>, now: Timestamp) -> Option<Eviction> {
        let scale = self.time_scale;
        let tenant = self.pods.get_mut(&ObjectKey::of(pod))?;
        let grace_s = grace_period_s.unwrap_or(tenant.spec.termination_seconds);
        // The pod may be done before its grace period is over, never after it.
        let ends = now + scaled(grace_s.min(tenant.spec.termination_seconds), scale);
        // A later deletion may shorten what is left, and never adds to it.
        if tenant.ends.is_none_or(|before| ends < before) {
            pod.metadata.deletion_timestamp = Some(to_k8s(now + scaled(grace_s, scale)));
            pod.metadata.deletion_grace_period_seconds = Some(i64::from(grace_s));
            tenant.ends = Some(ends);
        }
        Some(Eviction::Started)
    }

    /// Lets end what is due; `is_alive`: does the kubelet of a node still work?
    pub fn advance(
        &mut self,
        now: Timestamp,
        nodes: &BTreeMap<String, Arc<Node>>,
        is_alive: impl Fn(&str) -> bool,
    ) -> Ended {
        let mut ended = Ended::default();
        for tenant in self.pods.values_mut().filter(|t| t.ends.is_none()) {
            let cordoned = nodes.get(&tenant.node).and_then(|n| n.spec.as_ref()?.unschedulable) == Some(true);
            // A job counts down only when its node is cordoned,
            // so that a drain finds it whenever it comes.
            if let (true, Some(seconds)) = (cordoned, tenant.spec.completion_seconds) {
                tenant.ends = Some(now + scaled(seconds, self.time_scale));
                ended.nodes.insert(tenant.node.clone());
            }
        }
        // Without its kubelet no pod ends, however long ago it was asked to.
        let is_due = |t: &Tenant| is_alive(&t.node) && t.ends.is_some_and(|ends| ends <= now);
        let due = self.pods.iter().filter(|(_, tenant)| is_due(tenant));
        ended.pods = due.map(|(key, _)| key.clone()).collect();
        for key in &ended.pods {
            let Some(tenant) = self.pods.remove(key) else { continue };
            ended.nodes.insert(tenant.node.clone());
            let Some(claim) = &tenant.spec.claim else { continue };
            let claim = ObjectKey::new(key.namespace.clone(), format!("{claim}-{}", tenant.node));
            let detaches = tenant.ends.unwrap_or(now) + scaled(tenant.spec.detach_seconds, self.time_scale);
            let used = self.volumes.values_mut().filter(|volume| volume.claim == claim);
            // From the pod's own end on, also where it was not looked at until now.
            used.for_each(|volume| volume.detaches = Some(detaches));
        }
        for volume in self.volumes.values_mut().filter(|v| v.detaches.is_some_and(|at| at <= now)) {
            // The volume itself stays: only the attachment ends.
            ended.nodes.extend(volume.node.take());
            volume.detaches = None;
        }
        ended
    }

    /// When something ends next, after `now`.
    pub fn next_moment(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.pods.values().filter_map(|tenant| tenant.ends);
        let detaches = self.volumes.values().filter_map(|volume| volume.detaches);
        ends.chain(detaches).filter(|at| *at > now).min()
    }

    /// Takes away what was on a node.
    pub fn leave(&mut self, node: &str) {
        self.pods.retain(|_, tenant| tenant.node != node);
        for volume in self.volumes.values_mut().filter(|volume| volume.node.as_deref() == Some(node)) {
            (volume.node, volume.detaches) = (None, None);
        }
    }

    /// The volumes in the status of a node.
    pub fn attached_to(&self, node: &str) -> Vec<AttachedVolume> {
        let here = self.volumes.iter().filter(|(_, volume)| volume.node.as_deref() == Some(node));
        // Kubernetes names a CSI volume in a Node so: driver and handle with `^` between.
        let name = |name: &String| format!("kubernetes.io/csi/{DRIVER}^{name}");
        here.map(|(name_, _)| AttachedVolume { name: name(name_), device_path: String::new() }).collect()
    }

    pub fn attachments(&self) -> Vec<VolumeAttachment> {
        let attached = self.volumes.iter().filter_map(|(name, volume)| Some((name, volume.node.as_ref()?)));
        let attachment = |(name, node): (&String, &String)| {
            made(json!({
                "metadata": { "name": format!("csi-{name}") },
                "spec": { "attacher": DRIVER, "nodeName": node, "source": { "persistentVolumeName": name } },
                "status": { "attached": true },
            }))
        };
        attached.map(attachment).collect()
    }

    pub fn volumes(&self) -> Vec<PersistentVolume> {
        let volume = |(name, volume): (&String, &Volume)| {
            made(json!({
                "metadata": { "name": name },
                "spec": {
                    "csi": { "driver": DRIVER, "volumeHandle": name },
                    "claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "namespace": volume.claim.namespace,
                        "name": volume.claim.name,
                    },
                },
            }))
        };
        self.volumes.iter().map(volume).collect()
    }

    pub fn daemon_sets(&self) -> Vec<DaemonSet> {
        let named = |(key, tenant): (&ObjectKey, &Tenant)| {
            Some((key.namespace.clone(), tenant.spec.daemon_set.clone()?))
        };
        let names: BTreeSet<(String, String)> = self.pods.iter().filter_map(named).collect();
        let set = |(namespace, name): (String, String)| {
            made(json!({ "metadata": { "namespace": namespace, "name": name } }))
        };
        names.into_iter().map(set).collect()
    }

    pub fn namespaces(&self) -> Vec<Namespace> {
        let used = self.pods.keys().map(|key| key.namespace.as_str());
        let names: BTreeSet<&str> = NAMESPACES.into_iter().chain(used).collect();
        let namespace = |name: &str| {
            let labels = json!({ "kubernetes.io/metadata.name": name });
            made(json!({ "metadata": { "name": name, "labels": labels } }))
        };
        names.into_iter().map(namespace).collect()
    }
}

fn scaled(seconds: u32, time_scale: f64) -> TimeDelta {
    let millis = f64::from(seconds) * 1000.0 / time_scale;
    // The clamp keeps a tiny scale from a moment beyond the calendar.
    TimeDelta::milliseconds(millis.clamp(0.0, 1e12) as i64)
}
