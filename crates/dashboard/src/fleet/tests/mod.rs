//! Tests of the model: small object builders, a text picture of a fleet, and what must hold.

mod calm;
mod causes;
mod chaos;
mod control_planes;
mod explained;
mod feeds;
mod health_checks;
mod hosts;
mod in_place;
mod marks;
mod over_time;
mod picture;
mod samples;
mod turned;
mod verdicts;

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::decode::{Decoder, Slim};
use super::*;
use capi_types::condition::Status;
use capi_types::key::Gvk;
use capi_types::names::{CONTROL_PLANE_GROUP, CORE_GROUP};
use capstan_base::time::{Timestamp, parse_rfc3339};

/// The moment every test calls now.
pub(in crate::fleet) const NOW: &str = "2026-11-20T10:00:00Z";
const LONG_AGO: &str = "2026-10-02T11:04:00Z";

pub(in crate::fleet) fn now() -> Timestamp {
    parse_rfc3339(NOW).expect("a moment")
}

/// A fleet that holds these objects, at [`NOW`].
pub(in crate::fleet) fn fleet_of(objects: &[Value]) -> Fleet {
    let mut fleet = Fleet::new();
    fleet.advance(now());
    fleet.apply(objects.iter().map(|o| Delta::Upsert(row_of(o))).collect());
    fleet
}

/// The row of one object, through the same decoder as a watch.
pub(in crate::fleet) fn row_of(object: &Value) -> Arc<Row> {
    let (group, version) =
        object["apiVersion"].as_str().and_then(|v| v.split_once('/')).unwrap_or(("", "v1"));
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let gvk = Gvk {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        kind,
        namespaced: true,
    };
    let slim: Slim = serde_json::from_value(object.clone()).expect("any object decodes");
    Arc::new(Decoder::for_kind(SourceId(0), gvk, Arc::default()).row(&slim))
}

pub(in crate::fleet) struct Builder(pub(in crate::fleet) Value);

pub(in crate::fleet) fn object(kind: &str, name: &str) -> Builder {
    let group = if kind.ends_with("ControlPlane") { CONTROL_PLANE_GROUP } else { CORE_GROUP };
    Builder(json!({
        "apiVersion": format!("{group}/v1beta2"),
        "kind": kind,
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("{kind}/{name}"), "resourceVersion": "1",
            "generation": 1, "creationTimestamp": LONG_AGO, "labels": {},
        },
        "spec": {}, "status": { "observedGeneration": 1, "conditions": [] },
    }))
}

impl Builder {
    pub(in crate::fleet) fn set(mut self, pointer: &str, value: Value) -> Self {
        let mut at = &mut self.0;
        for key in pointer.trim_start_matches('/').split('/') {
            at = &mut at[key.replace("~1", "/")];
        }
        *at = value;
        self
    }

    pub(in crate::fleet) fn of(self, cluster: &str) -> Self {
        self.set("/metadata/labels/cluster.x-k8s.io~1cluster-name", json!(cluster))
            .set("/spec/clusterName", json!(cluster))
    }

    pub(in crate::fleet) fn owned_by(self, kind: &str, name: &str) -> Self {
        let owner = json!({
            "apiVersion": format!("{CORE_GROUP}/v1beta2"), "kind": kind, "name": name,
            "uid": format!("{kind}/{name}"), "controller": true,
        });
        self.set("/metadata/ownerReferences", json!([owner]))
    }

    pub(in crate::fleet) fn condition(
        mut self,
        type_: &str,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Self {
        let list = self.0["status"]["conditions"].as_array_mut().expect("a list");
        list.retain(|c| c["type"] != type_);
        list.push(json!({
            "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": LONG_AGO,
        }));
        self
    }

    pub(in crate::fleet) fn since(mut self, type_: &str, at: &str) -> Self {
        for c in self.0["status"]["conditions"].as_array_mut().expect("a list") {
            if c["type"] == type_ {
                c["lastTransitionTime"] = json!(at);
            }
        }
        self
    }

    pub(in crate::fleet) fn replicas(self, n: u32) -> Self {
        let mut built = self.set("/spec/replicas", json!(n));
        for counter in ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"] {
            built = built.set(&format!("/status/{counter}"), json!(n));
        }
        built
    }
}

pub(in crate::fleet) fn cluster(name: &str) -> Builder {
    object("Cluster", name)
        .set(
            "/spec/controlPlaneRef",
            json!({
                "apiGroup": CONTROL_PLANE_GROUP, "kind": "KubeadmControlPlane", "name": format!("{name}-cp"),
            }),
        )
        .set(
            "/spec/infrastructureRef",
            json!({
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": name,
            }),
        )
        .set(
            "/status/initialization",
            json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true}),
        )
        .set("/status/phase", json!("Provisioned"))
        .condition("Available", "True", "Available", "")
        .condition("RemoteConnectionProbe", "True", "ProbeSucceeded", "")
        .condition("InfrastructureReady", "True", "Ready", "")
        .condition("ControlPlaneAvailable", "True", "Available", "")
        .condition("WorkersAvailable", "True", "Available", "")
}

pub(in crate::fleet) fn control_plane(cluster: &str, replicas: u32) -> Builder {
    object("KubeadmControlPlane", &format!("{cluster}-cp"))
        .of(cluster)
        .owned_by("Cluster", cluster)
        .set("/spec/version", json!("v1.36.2"))
        .set("/status/initialization", json!({"controlPlaneInitialized": true}))
        .replicas(replicas)
        .condition("Available", "True", "Available", "")
}

pub(in crate::fleet) fn deployment(cluster: &str, name: &str, replicas: u32) -> Builder {
    object("MachineDeployment", name)
        .of(cluster)
        .set("/spec/template/spec/version", json!("v1.36.2"))
        .replicas(replicas)
        .condition("Available", "True", "Available", "")
        .condition("RollingOut", "False", "NotRollingOut", "")
}

pub(in crate::fleet) fn set(cluster: &str, deployment: &str, name: &str, replicas: u32) -> Builder {
    object("MachineSet", name)
        .of(cluster)
        .owned_by("MachineDeployment", deployment)
        .replicas(replicas)
        .condition("MachinesReady", "True", "Ready", "")
}

pub(in crate::fleet) fn machine(cluster: &str, owner: (&str, &str), name: &str) -> Builder {
    object("Machine", name)
        .of(cluster)
        .owned_by(owner.0, owner.1)
        .set("/spec/version", json!("v1.36.2"))
        .set("/spec/infrastructureRef", json!({
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name,
        }))
        .set("/spec/bootstrap/configRef", json!({
            "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": format!("{name}-config"),
        }))
        .set("/status/nodeRef/name", json!(format!("{name}-node")))
        .set("/status/phase", json!("Running"))
        .condition("Available", "True", "Available", "")
        .condition("Ready", "True", "Ready", "")
        .condition("UpToDate", "True", "UpToDate", "")
        .condition("BootstrapConfigReady", "True", "Ready", "")
        .condition("InfrastructureReady", "True", "Ready", "")
        .condition("NodeHealthy", "True", "NodeHealthy", "")
}

/// A well cluster: control plane of three, one deployment with one set of two.
pub(in crate::fleet) fn small_cluster(name: &str) -> Vec<Value> {
    let (md, ms) = (format!("{name}-md"), format!("{name}-md-1"));
    let mut all =
        vec![cluster(name).0, control_plane(name, 3).0, deployment(name, &md, 2).0, set(name, &md, &ms, 2).0];
    for i in 0..3 {
        let owner = format!("{name}-cp");
        let built = machine(name, ("KubeadmControlPlane", &owner), &format!("{name}-cp-{i}"));
        all.push(built.set("/metadata/labels/cluster.x-k8s.io~1control-plane", json!("")).0);
    }
    for i in 0..2 {
        all.push(machine(name, ("MachineSet", &ms), &format!("{ms}-{i}")).0);
    }
    all
}

/// Everything a person would see, as text: trees with verdict, and the cause of each cluster.
pub(in crate::fleet) fn picture(fleet: &Fleet, options: &TreeOptions) -> String {
    let mut text = String::new();
    for cluster in fleet.clusters() {
        let tree = fleet.tree(*cluster, options);
        for node in &tree.nodes {
            let line = fleet.line(node.item).expect("every node has a line");
            let indent = "  ".repeat(node.depth.into());
            let _ = write!(text, "{indent}{}", node.verdict);
            for part in [line.kind, line.name, line.version, line.phase] {
                if !part.is_empty() {
                    let _ = write!(text, " {part}");
                }
            }
            if let Some(c) = line.counters {
                let show = |n: Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
                let all = [c.desired, c.current, c.ready, c.available, c.up_to_date].map(show);
                let _ = write!(text, " {}", all.join("/"));
            }
            for tag in line.tags {
                let _ = write!(text, " [{}]", tag.word());
            }
            text.push('\n');
        }
        let wrong = fleet.what_is_wrong(*cluster);
        if !wrong.is_empty() {
            let _ = writeln!(text, "! {wrong}");
        }
    }
    text
}
