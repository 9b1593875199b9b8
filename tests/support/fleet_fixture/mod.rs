//! Small fleets as objects, without a server. Written for screens; the numbers fit together as upstream's would. Here is
//! what makes a fleet of objects, and news that are no objects.

mod older;
mod rolling;
mod sample;
mod troubles;

use std::sync::Arc;

use capi_types::key::Gvk;
use capstan_base::time::{Timestamp, parse_rfc3339, rfc3339};
use capstan_dashboard::fleet::decode::{Decoder, Slim};
use capstan_dashboard::fleet::{Delta, FeedKey, FeedState, Interner, SourceId, Uid};
use serde_json::{Value, json};

pub use older::older;
pub use rolling::{CONTROL_PLANE_UPGRADING, MachineState, OwnerState, RollingCluster, rolling_cluster};
pub use sample::{hostile, large, node_lost, odd_one_out, paused, renewed, sample};
pub use troubles::{TROUBLES, every_state, troubled};

/// The moment at which all screens are drawn.
pub fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T12:00:00Z").expect("a moment")
}

fn ago(minutes: i64) -> String {
    rfc3339(now() - chrono::Duration::minutes(minutes))
}

const SOURCE: SourceId = SourceId(0);
const CORE: &str = "cluster.x-k8s.io";
const PLANES: &str = "controlplane.cluster.x-k8s.io";

fn gvk(kind: &str) -> Gvk {
    Gvk {
        group: if kind == "KubeadmControlPlane" { PLANES } else { CORE }.to_owned(),
        version: "v1beta2".to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: true,
    }
}

/// Collects objects and turns them into one batch.
#[derive(Default)]
pub struct Builder {
    objects: Vec<Value>,
    next_uid: u32,
}

/// A condition: type, status, reason, message, minutes since it turned.
pub type Condition<'a> = (&'a str, &'a str, &'a str, &'a str, i64);

fn conditions(all: &[Condition<'_>]) -> Value {
    all.iter()
        .map(|(type_, status, reason, message, minutes)| {
            json!({"type": type_, "status": status, "reason": reason, "message": message,
                   "lastTransitionTime": ago(*minutes)})
        })
        .collect()
}

/// Desired, current, ready, available, up to date.
pub type Counts = [u32; 5];

fn counts(c: Counts) -> Value {
    json!({"desiredReplicas": c[0], "replicas": c[1], "readyReplicas": c[2], "availableReplicas": c[3],
           "upToDateReplicas": c[4]})
}

impl Builder {
    /// Adds an object; answers its uid.
    pub fn add(
        &mut self,
        kind: &str,
        name: &str,
        owner: Option<(&str, &str, &str)>,
        minutes: i64,
        rest: Value,
    ) -> String {
        self.next_uid += 1;
        let uid = format!("00000000-0000-4000-8000-{:012}", self.next_uid);
        let mut object = json!({
            "apiVersion": gvk(kind).api_version(), "kind": kind,
            "metadata": {"name": name, "namespace": "prod", "uid": uid, "generation": 2,
                         "creationTimestamp": ago(minutes), "resourceVersion": self.next_uid.to_string()},
            "status": {"observedGeneration": 2},
        });
        if let Some((kind, name, uid)) = owner {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": gvk(kind).api_version(), "kind": kind,
                "name": name, "uid": uid, "controller": true}]);
        }
        merge(&mut object, rest);
        self.objects.push(object);
        uid
    }

    pub fn cluster(
        &mut self,
        name: &str,
        minutes: i64,
        phase: &str,
        planes: Counts,
        workers: Counts,
        all: &[Condition<'_>],
    ) -> String {
        let rest = json!({
            "spec": {"controlPlaneRef": {"apiGroup": PLANES, "kind": "KubeadmControlPlane", "name": format!("{name}-cp")},
                     "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": name}},
            "status": {"phase": phase, "conditions": conditions(all), "controlPlane": counts(planes),
                       "workers": counts(workers),
                       "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": planes[2] > 0}},
        });
        self.add("Cluster", name, None, minutes, rest)
    }

    /// What has replicas: control plane, deployment or set.
    pub fn set(
        &mut self,
        kind: &str,
        name: &str,
        owner: (&str, &str, &str),
        cluster: &str,
        version: &str,
        c: Counts,
        all: &[Condition<'_>],
    ) -> String {
        let mut status = counts(c);
        status["conditions"] = conditions(all);
        status["initialization"] = json!({"controlPlaneInitialized": c[2] > 0});
        status["phase"] = json!(if kind == "MachineDeployment" { "Running" } else { "" });
        let spec = if kind == "KubeadmControlPlane" {
            json!({"replicas": c[0], "version": version})
        } else {
            json!({"replicas": c[0], "clusterName": cluster, "template": {"spec": {"version": version, "clusterName": cluster}}})
        };
        let labels = json!({"labels": {"cluster.x-k8s.io/cluster-name": cluster}});
        self.add(kind, name, Some(owner), 4_000, json!({"metadata": labels, "spec": spec, "status": status}))
    }

    pub fn machine(
        &mut self,
        name: &str,
        owner: (&str, &str, &str),
        cluster: &str,
        version: &str,
        minutes: i64,
        phase: &str,
        all: &[Condition<'_>],
    ) -> String {
        let mut labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        if owner.0 == "KubeadmControlPlane" {
            labels["cluster.x-k8s.io/control-plane"] = json!("");
        }
        let node = if phase == "Running" { json!({"name": name}) } else { json!({}) };
        let rest = json!({
            "metadata": {"labels": labels},
            "spec": {"clusterName": cluster, "version": version, "failureDomain": "zone-a",
                     "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}},
                     "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name}},
            "status": {"phase": phase, "nodeRef": node, "conditions": conditions(all)},
        });
        self.add("Machine", name, Some(owner), minutes, rest)
    }

    /// As they are on a server.
    pub fn into_objects(self) -> Vec<Value> {
        self.objects
    }

    /// One batch: everything, and every feed live.
    pub fn deltas(self) -> Vec<Delta> {
        let interner = Arc::new(Interner::default());
        let mut deltas = vec![Delta::Source { source: SOURCE, name: "demo".into() }];
        for object in self.objects {
            let kind = object["kind"].as_str().expect("a kind").to_owned();
            let (_, version) =
                object["apiVersion"].as_str().and_then(|v| v.split_once('/')).expect("a version");
            let gvk = Gvk { version: version.to_owned(), ..gvk(&kind) };
            let decoder = Decoder::for_kind(SOURCE, gvk, interner.clone());
            let slim: Slim = serde_json::from_value(object).expect("an object");
            deltas.push(Delta::Upsert(Arc::new(decoder.row(&slim))));
        }
        for kind in [
            "Cluster",
            "KubeadmControlPlane",
            "MachineDeployment",
            "MachineSet",
            "Machine",
            "MachineHealthCheck",
        ] {
            let kind = gvk(kind);
            let feed = FeedKey { source: SOURCE, group: kind.group.into(), kind: kind.kind.into() };
            deltas.push(Delta::Feed { feed, state: FeedState::Live, at: now() });
        }
        deltas
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in b {
                merge(a.entry(key).or_insert(Value::Null), value);
            }
        }
        (a, b) => *a = b,
    }
}

const WELL: &[Condition<'static>] = &[
    ("Available", "True", "Available", "", 4_000),
    ("RollingOut", "False", "NotRollingOut", "", 4_000),
    ("ScalingUp", "False", "NotScalingUp", "", 4_000),
    ("ScalingDown", "False", "NotScalingDown", "", 4_000),
    ("Remediating", "False", "NotRemediating", "", 4_000),
    ("Deleting", "False", "NotDeleting", "", 4_000),
    ("Paused", "False", "NotPaused", "", 4_000),
];

const MACHINE_WELL: &[Condition<'static>] = &[
    ("Available", "True", "Available", "", 4_000),
    ("Ready", "True", "Ready", "", 4_000),
    ("UpToDate", "True", "UpToDate", "", 4_000),
    ("BootstrapConfigReady", "True", "Ready", "", 4_000),
    ("InfrastructureReady", "True", "Ready", "", 4_000),
    ("NodeReady", "True", "NodeReady", "", 4_000),
    ("NodeHealthy", "True", "NodeHealthy", "", 4_000),
    ("Deleting", "False", "NotDeleting", "", 4_000),
    ("Paused", "False", "NotPaused", "", 4_000),
];

/// `base` with some conditions replaced.
fn but<'a>(base: &[Condition<'a>], changed: &[Condition<'a>]) -> Vec<Condition<'a>> {
    let mut all = base.to_vec();
    for change in changed {
        match all.iter_mut().find(|c| c.0 == change.0) {
            Some(place) => *place = *change,
            None => all.push(*change),
        }
    }
    all
}

/// A feed's news.
pub fn feed(kind: &str, state: FeedState, minutes: i64) -> Delta {
    let of = gvk(kind);
    let feed = FeedKey { source: SOURCE, group: of.group.into(), kind: of.kind.into() };
    Delta::Feed { feed, state, at: now() - chrono::Duration::minutes(minutes) }
}

/// The source's server has another history than before.
pub fn replaced() -> Vec<Delta> {
    vec![Delta::Replaced { source: SOURCE }]
}

/// Something a source has to tell.
pub fn notice(text: &str) -> Delta {
    Delta::Notice { source: SOURCE, text: Some(text.into()) }
}

/// The same rows with other uids: for several fixtures in one fleet.
pub fn with_uids(deltas: Vec<Delta>, number: usize) -> Vec<Delta> {
    let renamed = |uid: Uid| Uid::parse(&format!("{uid}-{number}"));
    let rows = deltas.into_iter().map(|delta| match delta {
        Delta::Upsert(row) => {
            let mut row = (*row).clone();
            row.uid = renamed(row.uid);
            if let Some(owner) = &mut row.owner {
                Arc::make_mut(owner).uid = renamed(owner.uid);
            }
            Delta::Upsert(Arc::new(row))
        }
        other => other,
    });
    rows.collect()
}
