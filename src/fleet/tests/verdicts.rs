//! Which objects count as what: one line per case.

use super::*;
use crate::fleet::judge::{BLOCKED_AFTER_S, COMING_UP_S};

#[track_caller]
fn check(built: Builder, expected: Verdict) {
    let row = row_of(&built.0);
    let judgement = judge(&row, seconds(now()));
    assert_eq!(judgement.verdict, expected, "because of {:?}", judgement.why);
}

fn worker(name: &str) -> Builder {
    machine("a", ("MachineSet", "a-md-1"), name)
}

/// A Machine that was created a moment ago and has no Node yet.
fn provisioning(name: &str) -> Builder {
    worker(name)
        .set("/metadata/creationTimestamp", json!("2026-11-20T09:55:00Z"))
        .set("/status/nodeRef", json!(null))
        .condition("InfrastructureReady", "False", "NotReady", "")
        .condition(
            "NodeHealthy",
            "Unknown",
            "InspectionFailed",
            "Waiting for DevMachine to report spec.providerID",
        )
        .condition("Ready", "False", "NotReady", "")
        .condition("Available", "False", "NotReady", "")
}

#[test]
fn machines() {
    check(worker("well"), Verdict::Ok);
    check(
        worker("late to be available").condition("Available", "False", "WaitingForMinReadySeconds", ""),
        Verdict::Progressing,
    );
    check(
        worker("old").condition("UpToDate", "False", "NotUpToDate", "* Version v1, v2 required"),
        Verdict::Progressing,
    );
    check(
        worker("sick").condition("NodeHealthy", "False", "NodeNotHealthy", "* Node.Ready: x"),
        Verdict::Degraded,
    );
    check(worker("unseen").condition("NodeHealthy", "Unknown", "ConnectionDown", ""), Verdict::Unknown);
    check(worker("without node").condition("NodeHealthy", "False", "NodeDeleted", ""), Verdict::Degraded);
    check(worker("in place").condition("Updating", "True", "InPlaceUpdating", ""), Verdict::Progressing);
    check(
        worker("in place, failed").condition("Updating", "True", "InPlaceUpdateFailed", ""),
        Verdict::Blocked,
    );
    check(
        worker("to be replaced").condition("OwnerRemediated", "False", "WaitingForRemediation", ""),
        Verdict::Degraded,
    );
    check(
        worker("not replaced").condition("OwnerRemediated", "False", "CannotBeRemediated", ""),
        Verdict::Blocked,
    );
    check(provisioning("new"), Verdict::Progressing);
    check(
        provisioning("lost").condition("InfrastructureReady", "False", "ObjectDeleted", ""),
        Verdict::Degraded,
    );
    check(provisioning("slow").set("/metadata/creationTimestamp", json!(LONG_AGO)), Verdict::Degraded);
    check(worker("gated").condition("Ready", "False", "NotReady", "* MyGate: no"), Verdict::Degraded);
}

#[test]
fn deletion() {
    let leaving = |at: &str| {
        worker("leaving").set("/metadata/deletionTimestamp", json!(at)).condition(
            "Deleting",
            "True",
            "DrainingNode",
            "Drain not completed yet",
        )
    };
    check(leaving("2026-11-20T09:58:00Z"), Verdict::Progressing);
    check(leaving("2026-11-20T09:00:00Z"), Verdict::Degraded);
    let hangs = "* Deleting: Machine deletion in progress since more than 15m, stage: DrainingNode, delay likely due to PodDisruptionBudgets";
    check(leaving("2026-11-20T09:40:00Z").condition("Ready", "False", "NotReady", hangs), Verdict::Blocked);
    let goes_on = "* Deleting: Machine deletion in progress, stage: DrainingNode";
    check(
        leaving("2026-11-20T09:50:00Z").condition("Ready", "False", "NotReady", goes_on),
        Verdict::Progressing,
    );
    check(leaving("not a time"), Verdict::Degraded);
}

#[test]
fn clusters() {
    check(cluster("well"), Verdict::Ok);
    check(
        cluster("unseen").condition("RemoteConnectionProbe", "False", "ProbeFailed", "").condition(
            "WorkersAvailable",
            "False",
            "NotAvailable",
            "",
        ),
        Verdict::Unknown,
    );
    check(cluster("down").condition("ControlPlaneAvailable", "False", "NotAvailable", ""), Verdict::Degraded);
    check(
        cluster("few workers").condition("WorkersAvailable", "False", "NotAvailable", ""),
        Verdict::Degraded,
    );
    check(
        cluster("workers coming")
            .condition("WorkersAvailable", "False", "NotAvailable", "")
            .since("WorkersAvailable", "2026-11-20T09:50:00Z"),
        Verdict::Progressing,
    );
    check(cluster("rolling").condition("RollingOut", "True", "RollingOut", ""), Verdict::Progressing);
    check(
        cluster("held").condition("TopologyReconciled", "False", "MachineDeploymentsUpgradeDeferred", ""),
        Verdict::Blocked,
    );
    check(
        cluster("bad class").condition("TopologyReconciled", "False", "ReconcileFailed", ""),
        Verdict::Blocked,
    );
    check(
        cluster("upgrading").condition("TopologyReconciled", "False", "ClusterUpgrading", ""),
        Verdict::Progressing,
    );
    let fresh = |created: &str| {
        cluster("fresh")
            .set("/metadata/creationTimestamp", json!(created))
            .set("/status/initialization", json!({"infrastructureProvisioned": true}))
            .condition("ControlPlaneInitialized", "False", "NotInitialized", "")
            .condition("Available", "False", "NotAvailable", "")
            .condition("RemoteConnectionProbe", "False", "ProbeFailed", "")
    };
    check(fresh("2026-11-20T09:55:00Z"), Verdict::Progressing);
    check(fresh(LONG_AGO), Verdict::Degraded);
    check(object("Cluster", "silent"), Verdict::Unknown);
    check(
        object("Cluster", "just made").set("/metadata/creationTimestamp", json!("2026-11-20T09:59:30Z")),
        Verdict::Progressing,
    );
}

#[test]
fn owners_of_machines() {
    check(deployment("a", "well", 3), Verdict::Ok);
    check(deployment("a", "short", 3).condition("Available", "False", "NotAvailable", ""), Verdict::Degraded);
    check(deployment("a", "behind", 3).set("/metadata/generation", json!(2)), Verdict::Progressing);
    check(deployment("a", "lagging", 3).set("/status/readyReplicas", json!(2)), Verdict::Progressing);
    let blocked = "Scaling up from 1 to 3 replicas is blocked because:\n* ... (\"KubeadmVersionSkew\" preflight check failed)";
    check(set("a", "md", "skew", 3).condition("ScalingUp", "True", "ScalingUp", blocked), Verdict::Blocked);
    let waits = "Scaling up from 1 to 3 replicas is blocked because:\n* cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)";
    let waiting = || set("a", "md", "waits", 3).condition("ScalingUp", "True", "ScalingUp", waits);
    check(waiting().since("ScalingUp", "2026-11-20T09:50:00Z"), Verdict::Progressing);
    check(waiting(), Verdict::Blocked);
    check(control_plane("a", 3), Verdict::Ok);
    check(
        control_plane("a", 3).condition("EtcdClusterHealthy", "False", "NotHealthy", ""),
        Verdict::Degraded,
    );
    check(
        control_plane("a", 3)
            .condition("EtcdClusterHealthy", "False", "NotHealthy", "")
            .condition("ScalingUp", "True", "ScalingUp", "")
            .since("ScalingUp", NOW),
        Verdict::Progressing,
    );
    check(object("MachinePool", "p").of("a").set("/status/phase", json!("Running")).replicas(2), Verdict::Ok);
    check(object("MachinePool", "p").of("a").set("/status/phase", json!("Failed")), Verdict::Degraded);
}

#[test]
fn pauses_matter_when_something_is_left_to_do() {
    check(deployment("a", "quiet", 3).condition("Paused", "True", "Paused", ""), Verdict::Ok);
    check(
        deployment("a", "stopped", 3)
            .condition("Paused", "True", "Paused", "")
            .set("/metadata/generation", json!(2)),
        Verdict::Blocked,
    );
}

#[test]
fn what_takes_too_long_turns_by_itself() {
    let mut fleet = fleet_of(&[cluster("a").0, provisioning("a-md-1-0").0]);
    let cluster = fleet.clusters()[0];
    assert_eq!(fleet.verdict(cluster), Verdict::Progressing);
    let later = now() + chrono::Duration::seconds((COMING_UP_S + BLOCKED_AFTER_S).into());
    assert_eq!(fleet.advance(later).clusters, [cluster]);
    assert_eq!(fleet.verdict(cluster), Verdict::Degraded);
    assert!(fleet.advance(later).is_empty());
}
