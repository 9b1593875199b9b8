//! Fleets by what is wrong in them: the sample has one healthy cluster, one rolling, one broken and one that is being created.

use std::sync::Arc;

use capi_types::condition::Status;
use capstan_dashboard::fleet::{ConditionText, Delta, Kind, Row};
use serde_json::Value;

use super::{Builder, MACHINE_WELL, WELL, but};

pub(super) fn well(b: &mut Builder, name: &str, workers: u32) {
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

pub(super) fn rolling(b: &mut Builder) {
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

pub(super) fn creating(b: &mut Builder) {
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

/// One row of the sample, changed, as news.
fn changed(is_it: impl Fn(&Row) -> bool, change: impl Fn(&mut Row)) -> Vec<Delta> {
    let found = sample().into_iter().find_map(|delta| match delta {
        Delta::Upsert(row) if is_it(&row) => Some(row.as_ref().clone()),
        _ => None,
    });
    let mut row = found.expect("a row of the sample");
    row.resource_version += 1_000_000;
    change(&mut row);
    vec![Delta::Upsert(Arc::new(row))]
}

/// A Node of the cluster stops to report.
pub fn node_lost(cluster: &str) -> Vec<Delta> {
    let is_it = |row: &Row| row.kind == Kind::Machine && row.cluster.as_ref() == cluster;
    changed(is_it, |row| {
        let healthy = row.conditions.iter_mut().find(|c| c.type_.as_ref() == "NodeHealthy").expect("a Node");
        let (status, reason) = (Status::False, "NodeNotHealthy".into());
        let message = "* Node.Ready: Kubelet stopped posting node status.".into();
        healthy.text = Arc::new(ConditionText { status, reason, message, ..(*healthy.text).clone() });
        healthy.since_s = u32::try_from(super::now().timestamp()).expect("a moment");
    })
}

/// The Cluster is paused.
pub fn paused(cluster: &str) -> Vec<Delta> {
    let is_it = |row: &Row| row.kind == Kind::Cluster && row.name.as_ref() == cluster;
    let mut all = sample();
    all.extend(changed(is_it, |row| row.paused = true));
    all
}

/// A cluster whose texts try to harm the terminal.
pub fn hostile() -> Vec<Delta> {
    let mut b = Builder::default();
    let message = "\x1b[2J\x1b]0;owned\x07red \x1b[31mtext\u{202e}reversed\u{200b}\r\nsecond line\twith tab";
    let all = but(WELL, &[("Available", "False", "Not\x1b[31mAvailable", message, 3)]);
    b.cluster("evil\u{202e}name", 60, "Prov\x07isioned", [1; 5], [0; 5], &all);
    b.deltas()
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
