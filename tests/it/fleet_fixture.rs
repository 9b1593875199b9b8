//! A small fleet as objects, without a server: one healthy cluster, one rolling, one broken, one
//! that is being created. Written for screens; the numbers fit together as upstream's would.

use std::sync::Arc;

use capstan::api::key::Gvk;
use capstan::fleet::decode::{Decoder, Slim};
use capstan::fleet::{Delta, FeedKey, FeedState, Interner, SourceId, Uid};
use capstan::time::{Timestamp, parse_rfc3339, rfc3339};
use serde_json::{Value, json};

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
        for kind in ["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "Machine"] {
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

fn well(b: &mut Builder, name: &str, workers: u32) {
    let uid = b.cluster(name, 4_321, "Provisioned", [3; 5], [workers; 5], WELL);
    let cluster = ("Cluster", name, uid.as_str());
    let cp = format!("{name}-cp");
    let kcp = b.set("KubeadmControlPlane", &cp, cluster, name, "v1.35.1", [3; 5], WELL);
    for suffix in ["4x7tq", "9kdpl", "w2mzn"] {
        let owner = ("KubeadmControlPlane", cp.as_str(), kcp.as_str());
        b.machine(&format!("{cp}-{suffix}"), owner, name, "v1.35.1", 4_300, "Running", MACHINE_WELL);
    }
    let md = format!("{name}-md-0");
    let md_uid = b.set("MachineDeployment", &md, cluster, name, "v1.35.1", [workers; 5], WELL);
    let ms = format!("{md}-7vj9c");
    let ms_uid =
        b.set("MachineSet", &ms, ("MachineDeployment", &md, &md_uid), name, "v1.35.1", [workers; 5], WELL);
    for at in 0..workers {
        let owner = ("MachineSet", ms.as_str(), ms_uid.as_str());
        b.machine(&format!("{ms}-m{at:04}"), owner, name, "v1.35.1", 4_200, "Running", MACHINE_WELL);
    }
}

fn rolling(b: &mut Builder) {
    let name = "prod-us-2";
    let rolling = but(
        WELL,
        &[(
            "RollingOut",
            "True",
            "RollingOut",
            "Rolling out 2 not up-to-date replicas\n* Version v1.34.3, v1.35.1 required",
            7,
        )],
    );
    let uid = b.cluster(name, 90_000, "Provisioned", [3, 4, 4, 4, 2], [2; 5], &rolling);
    let cluster = ("Cluster", name, uid.as_str());
    let kcp =
        b.set("KubeadmControlPlane", "prod-us-2-cp", cluster, name, "v1.35.1", [3, 4, 4, 4, 2], &rolling);
    let owner = ("KubeadmControlPlane", "prod-us-2-cp", kcp.as_str());
    let old =
        but(MACHINE_WELL, &[("UpToDate", "False", "NotUpToDate", "* Version v1.34.3, v1.35.1 required", 7)]);
    for suffix in ["b5gxk", "hn8rt"] {
        b.machine(&format!("prod-us-2-cp-{suffix}"), owner, name, "v1.34.3", 50_000, "Running", &old);
    }
    b.machine("prod-us-2-cp-q6vlw", owner, name, "v1.35.1", 6, "Running", MACHINE_WELL);
    b.machine("prod-us-2-cp-zz41d", owner, name, "v1.35.1", 2, "Running", MACHINE_WELL);
    let md_uid = b.set("MachineDeployment", "prod-us-2-md-0", cluster, name, "v1.34.3", [2; 5], WELL);
    let owner = ("MachineDeployment", "prod-us-2-md-0", md_uid.as_str());
    let ms_uid = b.set("MachineSet", "prod-us-2-md-0-8ppx6", owner, name, "v1.34.3", [2; 5], WELL);
    for suffix in ["5tbhc", "lq2sx"] {
        let owner = ("MachineSet", "prod-us-2-md-0-8ppx6", ms_uid.as_str());
        b.machine(
            &format!("prod-us-2-md-0-8ppx6-{suffix}"),
            owner,
            name,
            "v1.34.3",
            50_000,
            "Running",
            MACHINE_WELL,
        );
    }
}

fn broken(b: &mut Builder) {
    let name = "edge-7";
    let lost = "* Machine edge-7-md-0-qq2lk-x8f4z:\n  * NodeHealthy: Node.Ready: Kubelet stopped posting node status.";
    let unavailable = but(WELL, &[("Available", "False", "NotAvailable", lost, 95)]);
    let uid = b.cluster(name, 20_000, "Provisioned", [1; 5], [2, 2, 1, 1, 2], &unavailable);
    let cluster = ("Cluster", name, uid.as_str());
    let kcp = b.set("KubeadmControlPlane", "edge-7-cp", cluster, name, "v1.34.3", [1; 5], WELL);
    b.machine(
        "edge-7-cp-t9m2v",
        ("KubeadmControlPlane", "edge-7-cp", &kcp),
        name,
        "v1.34.3",
        19_900,
        "Running",
        MACHINE_WELL,
    );
    let down =
        but(WELL, &[("Available", "False", "NotAvailable", "1 available replicas, at least 2 required", 95)]);
    let md_uid = b.set("MachineDeployment", "edge-7-md-0", cluster, name, "v1.34.3", [2, 2, 1, 1, 2], &down);
    let ms_uid = b.set(
        "MachineSet",
        "edge-7-md-0-qq2lk",
        ("MachineDeployment", "edge-7-md-0", &md_uid),
        name,
        "v1.34.3",
        [2, 2, 1, 1, 2],
        WELL,
    );
    let owner = ("MachineSet", "edge-7-md-0-qq2lk", ms_uid.as_str());
    b.machine("edge-7-md-0-qq2lk-5kx2w", owner, name, "v1.34.3", 19_000, "Running", MACHINE_WELL);
    let dead = but(
        MACHINE_WELL,
        &[
            ("Available", "False", "NotReady", "", 95),
            (
                "Ready",
                "False",
                "NotReady",
                "* NodeHealthy: Node.Ready: Kubelet stopped posting node status.",
                95,
            ),
            ("NodeReady", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", 95),
            (
                "NodeHealthy",
                "Unknown",
                "NodeHealthUnknown",
                "* Node.Ready: Kubelet stopped posting node status.",
                95,
            ),
        ],
    );
    b.machine("edge-7-md-0-qq2lk-x8f4z", owner, name, "v1.34.3", 19_000, "Running", &dead);
}

fn creating(b: &mut Builder) {
    let name = "lab-3";
    let young = but(
        WELL,
        &[
            (
                "Available",
                "False",
                "NotAvailable",
                "* ControlPlaneAvailable: Control plane not yet initialized",
                1,
            ),
            ("ScalingUp", "True", "ScalingUp", "Scaling up from 1 to 3 replicas", 1),
        ],
    );
    let uid = b.cluster(name, 1, "Provisioned", [3, 1, 0, 0, 1], [1, 1, 0, 0, 1], &young);
    let cluster = ("Cluster", name, uid.as_str());
    let kcp = b.set("KubeadmControlPlane", "lab-3-cp", cluster, name, "v1.35.1", [3, 1, 0, 0, 1], &young);
    let starting = but(
        MACHINE_WELL,
        &[
            ("Available", "False", "NotReady", "", 1),
            ("Ready", "False", "NotReady", "* InfrastructureReady: waiting for the VM to be provisioned", 1),
            ("InfrastructureReady", "False", "NotReady", "waiting for the VM to be provisioned", 1),
            ("NodeReady", "Unknown", "NodeInspectionPending", "", 1),
            ("NodeHealthy", "Unknown", "NodeInspectionPending", "", 1),
        ],
    );
    b.machine(
        "lab-3-cp-6dd8r",
        ("KubeadmControlPlane", "lab-3-cp", &kcp),
        name,
        "v1.35.1",
        1,
        "Provisioning",
        &starting,
    );
    let waiting =
        but(WELL, &[("Available", "False", "NotAvailable", "0 available replicas, at least 1 required", 1)]);
    b.set("MachineDeployment", "lab-3-md-0", cluster, name, "v1.35.1", [1, 0, 0, 0, 0], &waiting);
}

/// The sample fleet.
pub fn sample() -> Vec<Delta> {
    let mut b = Builder::default();
    well(&mut b, "prod-eu-1", 3);
    rolling(&mut b);
    broken(&mut b);
    creating(&mut b);
    b.deltas()
}

/// Clusters as older servers have them: one with both kinds of conditions, one with only the older, and one that was
/// upgraded but whose controllers have not said anything new yet.
pub fn older() -> Vec<Delta> {
    let mut b = Builder::default();
    both(&mut b);
    only_older(&mut b);
    let deprecated = json!({"conditions": older_conditions(&[("Ready", "True", "", ""), ("InfrastructureReady", "True", "", "")])});
    b.add(
        "Cluster",
        "upgraded",
        None,
        9_000,
        json!({
        "spec": {"topology": {"classRef": {"name": "small"}, "version": "v1.35.1"}},
        "status": {"phase": "Provisioned", "deprecated": {"v1beta1": deprecated},
                   "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}}),
    );
    b.deltas()
}

/// Type, status, severity, reason.
fn older_conditions(all: &[(&str, &str, &str, &str)]) -> Value {
    let one = |(type_, status, severity, reason): &(&str, &str, &str, &str)| {
        let mut condition = json!({"type": type_, "status": status, "lastTransitionTime": ago(40)});
        for (key, text) in [("severity", severity), ("reason", reason)] {
            if !text.is_empty() {
                condition[key] = json!(text);
            }
        }
        condition
    };
    all.iter().map(one).collect()
}

/// Served as v1beta1 by a server that knows v1beta2.
fn both(b: &mut Builder) {
    let version = json!("cluster.x-k8s.io/v1beta1");
    b.add("Cluster", "served-as-v1beta1", None, 9_000, json!({
        "apiVersion": version,
        "status": {"phase": "Provisioned", "infrastructureReady": true, "controlPlaneReady": true,
            "conditions": older_conditions(&[("Ready", "False", "Error", "Broken"), ("ControlPlaneInitialized", "True", "", "")]),
            "v1beta2": {"conditions": conditions(WELL), "controlPlane": counts([1; 5]), "workers": counts([2; 5])}}}));
}

/// What a server before v1beta2 says.
fn only_older(b: &mut Builder) {
    let version = json!("cluster.x-k8s.io/v1beta1");
    let name = "only-v1beta1";
    let uid = b.add("Cluster", name, None, 9_000, json!({
        "apiVersion": version,
        "spec": {"topology": {"class": "small", "version": "v1.31.2"}},
        "status": {"phase": "Provisioned", "infrastructureReady": true, "controlPlaneReady": true,
            "conditions": older_conditions(&[("Ready", "False", "Warning", "ScalingUp"), ("ControlPlaneInitialized", "True", "", ""),
                ("InfrastructureReady", "True", "", "")])}}));
    let labels = json!({"cluster.x-k8s.io/cluster-name": name});
    let plane = b.add("KubeadmControlPlane", "only-v1beta1-cp", Some(("Cluster", name, &uid)), 9_000, json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "metadata": {"labels": labels},
        "spec": {"replicas": 3, "version": "v1.31.2"},
        "status": {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "initialized": true,
            "conditions": older_conditions(&[("Ready", "False", "Warning", "ScalingUp"), ("Resized", "False", "Warning", "ScalingUp")])}}));
    let machine_labels = json!({"cluster.x-k8s.io/cluster-name": name, "cluster.x-k8s.io/control-plane": ""});
    for (suffix, phase, all) in [
        ("8xk2p", "Running", older_conditions(&[("Ready", "True", "", ""), ("NodeHealthy", "True", "", "")])),
        (
            "zd4lm",
            "Failed",
            older_conditions(&[
                ("Ready", "False", "Error", "InstanceTerminated"),
                ("InfrastructureReady", "False", "Error", "InstanceTerminated"),
                ("NodeHealthy", "Unknown", "", "NodeInspectionFailed"),
                ("BootstrapReady", "True", "", ""),
            ]),
        ),
    ] {
        b.add("Machine", &format!("only-v1beta1-cp-{suffix}"), Some(("KubeadmControlPlane", "only-v1beta1-cp", &plane)), 8_000, json!({
            "apiVersion": version, "metadata": {"labels": machine_labels},
            "spec": {"clusterName": name, "version": "v1.31.2", "failureDomain": "zone-b", "providerID": format!("cloud:///zone-b/i-{suffix}")},
            "status": {"phase": phase, "nodeRef": {"name": format!("ip-10-0-0-{suffix}")}, "conditions": all,
                "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}], "nodeInfo": {"osImage": "Debian GNU/Linux 13"}}}));
    }
}

/// A cluster whose texts try to harm the terminal.
pub fn hostile() -> Vec<Delta> {
    let mut b = Builder::default();
    let message = "\x1b[2J\x1b]0;owned\x07red \x1b[31mtext\u{202e}reversed\u{200b}\r\nsecond line\twith tab";
    let all = but(WELL, &[("Available", "False", "Not\x1b[31mAvailable", message, 3)]);
    b.cluster("evil\u{202e}name", 60, "Prov\x07isioned", [1; 5], [0; 5], &all);
    b.deltas()
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

/// `clusters` clusters with `machines` worker Machines each, all well.
pub fn large(clusters: u32, machines: u32) -> Vec<Delta> {
    let mut b = Builder::default();
    for at in 0..clusters {
        well(&mut b, &format!("bulk-{at:04}"), machines);
    }
    b.deltas()
}

/// One object of the sample as it is after a change.
pub fn renewed(name: &str) -> Vec<Delta> {
    let rows = sample().into_iter().filter_map(|delta| match delta {
        Delta::Upsert(row) if row.name.as_ref() == name => Some(row),
        _ => None,
    });
    let renewed = rows.map(|row| {
        let mut row = (*row).clone();
        row.resource_version += 1_000;
        Delta::Upsert(Arc::new(row))
    });
    renewed.collect()
}

/// One cluster as it is in the middle of a rollout, or before or after it: a control plane of three and two deployments.
pub struct RollingCluster {
    b: Builder,
    name: &'static str,
    plane: String,
    cluster: String,
}

/// What an owner says of itself.
pub struct OwnerState<'a> {
    pub version: &'a str,
    pub replicas: u32,
    pub conditions: Vec<Condition<'a>>,
    /// Merged into its `spec`.
    pub spec: Value,
}

impl<'a> OwnerState<'a> {
    /// Nothing to replace.
    pub fn settled(version: &'a str, replicas: u32) -> Self {
        Self { version, replicas, conditions: WELL.to_vec(), spec: json!({}) }
    }

    /// It says that it rolls, for so many minutes.
    pub fn rolling(version: &'a str, replicas: u32, minutes: i64) -> Self {
        let rolling = [("RollingOut", "True", "RollingOut", "Rolling out not up-to-date replicas", minutes)];
        Self { conditions: but(WELL, &rolling), ..Self::settled(version, replicas) }
    }
}

impl RollingCluster {
    pub fn new(name: &'static str, plane: OwnerState<'_>) -> Self {
        Self::of_cluster(name, plane, json!({}))
    }

    /// `rest` is merged into the Cluster.
    pub fn of_cluster(name: &'static str, plane: OwnerState<'_>, rest: Value) -> Self {
        let mut b = Builder::default();
        let n = plane.replicas;
        let conditions = but(
            WELL,
            &[
                ("ControlPlaneInitialized", "True", "Initialized", "", 90_000),
                ("InfrastructureReady", "True", "Ready", "", 90_000),
            ],
        );
        let cluster = b.cluster(name, 90_000, "Provisioned", [n; 5], [4; 5], &conditions);
        merge(b.objects.last_mut().expect("the Cluster"), rest);
        let mut all = Self { b, name, plane: String::new(), cluster };
        all.plane = all.owner("KubeadmControlPlane", "cp", ("Cluster", name, all.cluster.clone()), plane);
        all
    }

    /// A MachinePool whose Machines are its provider's alone.
    pub fn pool(&mut self, suffix: &str, state: OwnerState<'_>) {
        self.owner("MachinePool", suffix, ("Cluster", self.name, self.cluster.clone()), state);
    }

    fn owner(
        &mut self,
        kind: &str,
        suffix: &str,
        owner: (&str, &str, String),
        state: OwnerState<'_>,
    ) -> String {
        let counts = [state.replicas; 5];
        let (name, owner) = (format!("{}-{suffix}", self.name), (owner.0, owner.1, owner.2.as_str()));
        let uid = self.b.set(kind, &name, owner, self.name, state.version, counts, &state.conditions);
        let object = self.b.objects.last_mut().expect("the owner");
        object["metadata"]["creationTimestamp"] = json!(ago(80_000));
        merge(&mut object["spec"], state.spec);
        uid
    }

    /// A deployment with one MachineSet per version, the new one last; `blocked` is what the new one waits for.
    pub fn deployment(
        &mut self,
        suffix: &str,
        state: OwnerState<'_>,
        sets: &[&str],
        blocked: &str,
    ) -> Vec<(String, String)> {
        let version = state.version.to_owned();
        let cluster = ("Cluster", self.name, self.cluster.clone());
        let uid = self.owner("MachineDeployment", suffix, cluster, state);
        let deployment = format!("{}-{suffix}", self.name);
        let mut made = Vec::new();
        for (at, set) in sets.iter().enumerate() {
            let mut of_set = OwnerState::settled(&version, 2);
            if at + 1 == sets.len() && !blocked.is_empty() {
                let message = format!("Scaling up from 0 to 2 replicas is blocked because:\n* {blocked}");
                of_set.conditions =
                    but(WELL, &[("ScalingUp", "True", "ScalingUp", Box::leak(message.into_boxed_str()), 4)]);
            }
            let name = format!("{suffix}-{set}");
            let owner = ("MachineDeployment", deployment.as_str(), uid.clone());
            made.push((format!("{}-{name}", self.name), self.owner("MachineSet", &name, owner, of_set)));
        }
        made
    }

    /// A Machine of the control plane.
    pub fn control_plane_machine(&mut self, suffix: &str, version: &str, state: &MachineState<'_>) {
        let owner = ("KubeadmControlPlane", format!("{}-cp", self.name), self.plane.clone());
        self.machine(&format!("cp-{suffix}"), (owner.0, &owner.1, &owner.2), version, state);
    }

    /// A Machine of a MachineSet that [`Self::deployment`] made.
    pub fn worker(&mut self, set: &(String, String), suffix: &str, version: &str, state: &MachineState<'_>) {
        let name = format!("{}-{suffix}", set.0.trim_start_matches(self.name).trim_start_matches('-'));
        self.machine(&name, ("MachineSet", &set.0, &set.1), version, state);
    }

    fn machine(&mut self, name: &str, owner: (&str, &str, &str), version: &str, state: &MachineState<'_>) {
        let (name, phase) = (format!("{}-{name}", self.name), state.phase());
        self.b.machine(&name, owner, self.name, version, 0, phase, &state.conditions());
        let object = self.b.objects.last_mut().expect("the Machine");
        let seconds_ago = |seconds: i64| rfc3339(now() - chrono::Duration::seconds(seconds));
        object["metadata"]["creationTimestamp"] = json!(seconds_ago(state.made()));
        if let MachineState::Deleting { asked_s, .. } = state {
            object["metadata"]["deletionTimestamp"] = json!(seconds_ago(*asked_s));
        }
        for c in object["status"]["conditions"].as_array_mut().expect("a list") {
            let made_s = state.made();
            let seconds = match (state, c["type"].as_str()) {
                (MachineState::Deleting { asked_s, .. }, Some("Deleting")) => *asked_s,
                (_, Some("UpToDate")) if !matches!(state, MachineState::New { .. }) => continue,
                (_, Some("BootstrapConfigReady")) => made_s - 4,
                (MachineState::Starting { .. }, _) => made_s - 2,
                (_, Some("InfrastructureReady")) => made_s - 26,
                (
                    MachineState::New { up_s, .. },
                    Some("Ready" | "Available" | "NodeHealthy" | "NodeReady"),
                ) => made_s - up_s,
                (_, Some("Ready" | "Available" | "NodeHealthy" | "NodeReady")) => made_s - 60,
                _ => made_s - 2,
            };
            c["lastTransitionTime"] = json!(seconds_ago(seconds));
        }
    }

    pub fn deltas(self) -> Vec<Delta> {
        self.b.deltas()
    }
}

/// How a Machine is; times in seconds before now.
pub enum MachineState<'a> {
    Old,
    /// Made so long ago, and up so many seconds later.
    New {
        made_s: i64,
        up_s: i64,
    },
    Starting {
        made_s: i64,
    },
    Deleting {
        asked_s: i64,
        reason: &'a str,
        message: &'a str,
    },
}

impl<'a> MachineState<'a> {
    fn made(&self) -> i64 {
        match self {
            Self::Old | Self::Deleting { .. } => 3_000_000,
            Self::New { made_s, .. } | Self::Starting { made_s } => *made_s,
        }
    }

    fn phase(&self) -> &'static str {
        match self {
            Self::Old | Self::New { .. } => "Running",
            Self::Starting { .. } => "Provisioning",
            Self::Deleting { .. } => "Deleting",
        }
    }

    fn conditions(&self) -> Vec<Condition<'a>> {
        const NOT_UP_TO_DATE: Condition<'static> =
            ("UpToDate", "False", "NotUpToDate", "* Version v1.34.3, v1.35.1 required", 7);
        match self {
            Self::New { .. } => MACHINE_WELL.to_vec(),
            Self::Old => but(MACHINE_WELL, &[NOT_UP_TO_DATE]),
            Self::Deleting { reason, message, .. } => {
                but(MACHINE_WELL, &[NOT_UP_TO_DATE, ("Deleting", "True", reason, message, 1)])
            }
            Self::Starting { .. } => but(
                MACHINE_WELL,
                &[
                    ("Available", "False", "NotReady", "", 1),
                    ("Ready", "False", "NotReady", "* InfrastructureReady: VM is being provisioned", 1),
                    ("InfrastructureReady", "False", "NotReady", "VM is being provisioned", 1),
                    ("NodeReady", "Unknown", "NodeInspectionPending", "", 1),
                    ("NodeHealthy", "Unknown", "NodeInspectionPending", "", 1),
                ],
            ),
        }
    }
}

/// A deployment that waits because the control plane is upgraded first.
pub const CONTROL_PLANE_UPGRADING: &str =
    "KubeadmControlPlane prod/rolling-cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)";

/// A control plane in the middle of its rollout, workers that wait for it, and workers whose rollout is scheduled.
pub fn rolling_cluster() -> Vec<Delta> {
    let mut c = RollingCluster::new("rolling", OwnerState::rolling("v1.35.1", 3, 4));
    c.control_plane_machine("8gtlh", "v1.34.3", &MachineState::Old);
    c.control_plane_machine("lkcfv", "v1.34.3", &MachineState::Old);
    c.control_plane_machine("85qjm", "v1.35.1", &MachineState::New { made_s: 120, up_s: 58 });
    c.control_plane_machine("lnwmv", "v1.35.1", &MachineState::Starting { made_s: 15 });
    let sets = c.deployment(
        "md-0",
        OwnerState::rolling("v1.35.1", 2, 4),
        &["h4tbp", "hkmbd"],
        CONTROL_PLANE_UPGRADING,
    );
    for suffix in ["l9smf", "psqxz"] {
        c.worker(&sets[0], suffix, "v1.34.3", &MachineState::Old);
    }
    let after = rfc3339(now() + chrono::Duration::minutes(475));
    let web = OwnerState { spec: json!({"rollout": {"after": after}}), ..OwnerState::settled("v1.34.3", 2) };
    let sets = c.deployment("web", web, &["7vj9c"], "");
    for suffix in ["5tbhc", "lq2sx"] {
        c.worker(&sets[0], suffix, "v1.34.3", &MachineState::New { made_s: 900_000, up_s: 60 });
    }
    c.deltas()
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

/// A cluster with 33 workers, of which one is lost and three start.
pub fn odd_one_out() -> Vec<Delta> {
    let mut b = Builder::default();
    let name = "fleet-0031";
    well(&mut b, name, 29);
    let set = format!("{name}-md-0-7vj9c");
    let is_set = |object: &&Value| object["metadata"]["name"] == set.as_str();
    let uid = b
        .objects
        .iter()
        .find(is_set)
        .and_then(|set| set["metadata"]["uid"].as_str())
        .expect("a set")
        .to_owned();
    let owner = ("MachineSet", set.as_str(), uid.as_str());
    let message = "* Node.Ready: Kubelet stopped posting node status.";
    let lost = [
        ("Available", "False", "NotReady", "", 22),
        ("Ready", "False", "NotReady", "* NodeHealthy: Node.Ready: Kubelet stopped posting node status.", 22),
        ("NodeReady", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", 22),
        ("NodeHealthy", "Unknown", "NodeHealthUnknown", message, 22),
    ];
    b.machine(&format!("{set}-tjmw5"), owner, name, "v1.35.1", 4_200, "Running", &but(MACHINE_WELL, &lost));
    let starting = [
        ("Available", "False", "NotReady", "", 1),
        ("Ready", "False", "NotReady", "* InfrastructureReady: waiting for the VM to be provisioned", 1),
        ("InfrastructureReady", "False", "NotReady", "waiting for the VM to be provisioned", 1),
        ("NodeReady", "Unknown", "NodeInspectionPending", "", 1),
        ("NodeHealthy", "Unknown", "NodeInspectionPending", "", 1),
    ];
    for suffix in ["aaaaa", "bbbbb", "ccccc"] {
        let all = but(MACHINE_WELL, &starting);
        b.machine(&format!("{set}-{suffix}"), owner, name, "v1.35.1", 1, "Provisioning", &all);
    }
    b.deltas()
}
