//! Which objects count as what: one line per case.

use super::*;

fn context() -> Context {
    Context { now_s: seconds(now()), undated_s: seconds(now()) - 60, ..Context::default() }
}

#[track_caller]
fn check(built: Builder, expected: Verdict) {
    let row = row_of(&built.0);
    let limits = crate::fleet::usual::limits(&[], 60);
    let judgement = judge(&row, &Context { limits: [None, None, None, Some(limits)], ..context() });
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
        worker("late to be available")
            .condition("Available", "False", "WaitingForMinReadySeconds", "")
            .since("Available", NOW),
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
    let in_place = |name: &str| worker(name).condition("Updating", "True", "InPlaceUpdating", "");
    check(in_place("in place").since("Updating", NOW), Verdict::Progressing);
    check(in_place("in place for weeks"), Verdict::Degraded);
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
        cluster("unseen")
            .condition("RemoteConnectionProbe", "False", "ProbeFailed", "")
            .since("RemoteConnectionProbe", NOW)
            .condition("WorkersAvailable", "False", "NotAvailable", ""),
        Verdict::Unknown,
    );
    check(
        cluster("unreachable").condition("RemoteConnectionProbe", "False", "ProbeFailed", ""),
        Verdict::Degraded,
    );
    check(cluster("down").condition("ControlPlaneAvailable", "False", "NotAvailable", ""), Verdict::Degraded);
    check(
        cluster("few workers").condition("WorkersAvailable", "False", "NotAvailable", ""),
        Verdict::Degraded,
    );
    check(
        cluster("workers coming")
            .condition("WorkersAvailable", "False", "NotAvailable", "")
            .since("WorkersAvailable", "2026-11-20T09:59:00Z"),
        Verdict::Progressing,
    );
    let rolling = |name: &str| cluster(name).condition("RollingOut", "True", "RollingOut", "");
    check(rolling("rolling").since("RollingOut", NOW), Verdict::Progressing);
    check(rolling("stands still"), Verdict::Degraded);
    check(
        cluster("held").condition("TopologyReconciled", "False", "MachineDeploymentsUpgradeDeferred", ""),
        Verdict::Ok,
    );
    check(
        cluster("bad class").condition("TopologyReconciled", "False", "ReconcileFailed", ""),
        Verdict::Blocked,
    );
    check(
        cluster("never computed").condition("TopologyReconciled", "False", "NoTopologyController", ""),
        Verdict::Blocked,
    );
    check(
        cluster("upgrading")
            .condition("TopologyReconciled", "False", "ClusterUpgrading", "")
            .since("TopologyReconciled", NOW),
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
    check(waiting(), Verdict::Progressing);
    let well = Context { control_plane: Verdict::Ok, ..context() };
    let judgement = judge(&row_of(&waiting().0), &well);
    assert_eq!(
        (judgement.verdict, judgement.rank),
        (Verdict::Blocked, Rank::Hold),
        "its control plane is well"
    );
    // Between the infrastructure and its first Machine nothing of a control plane acts.
    let coming = judge(&row_of(&waiting().0), &Context { is_initialized: false, ..well });
    assert_eq!((coming.verdict, coming.rank), (Verdict::Progressing, Rank::Echo), "it comes up");
    check(control_plane("a", 3), Verdict::Ok);
    check(
        control_plane("a", 3).condition("EtcdClusterHealthy", "False", "NotHealthy", ""),
        Verdict::Degraded,
    );
    let never_told = |built: Builder| {
        built.condition(
            "EtcdClusterHealthy",
            "Unknown",
            "InspectionFailed",
            "Waiting for Cluster control plane to be initialized",
        )
    };
    check(never_told(control_plane("a", 3)), Verdict::Degraded);
    let etcd = json!({"external": {"endpoints": ["https://10.0.0.9:2379"]}});
    let external =
        |built: Builder| built.set("/spec/kubeadmConfigSpec/clusterConfiguration/etcd", etcd.clone());
    check(never_told(external(control_plane("a", 3))), Verdict::Ok);
    check(
        external(control_plane("a", 3)).condition("EtcdClusterHealthy", "False", "NotHealthy", ""),
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
fn a_pause_alone_is_not_a_verdict() {
    let paused = |built: Builder| built.condition("Paused", "True", "Paused", "");
    check(paused(deployment("a", "quiet", 3)), Verdict::Ok);
    check(paused(deployment("a", "edited", 3)).set("/metadata/generation", json!(2)), Verdict::Ok);
    check(
        paused(deployment("a", "stopped", 3).set("/status/upToDateReplicas", json!(1))),
        Verdict::Progressing,
    );
    let slow = provisioning("slow").set("/metadata/creationTimestamp", json!(LONG_AGO));
    check(paused(slow), Verdict::Progressing);
    check(paused(worker("sick")).condition("NodeHealthy", "False", "NodeNotHealthy", ""), Verdict::Degraded);
    let leaving = worker("leaving").set("/metadata/deletionTimestamp", json!(NOW));
    check(paused(leaving), Verdict::Blocked);
    let replaced = worker("replaced").set("/metadata/deletionTimestamp", json!(NOW));
    let replaced = replaced.condition("UpToDate", "False", "NotUpToDate", "");
    check(paused(replaced), Verdict::Progressing);
}

#[test]
fn a_worker_waits_for_the_control_plane_without_a_clock() {
    let row = row_of(&provisioning("early").set("/metadata/creationTimestamp", json!(LONG_AGO)).0);
    let judgement = judge(&row, &Context { is_initialized: false, ..context() });
    assert_eq!((judgement.verdict, judgement.rank, judgement.due_s), (Verdict::Progressing, Rank::Queued, 0));
}

#[test]
fn a_machine_that_was_up_is_not_coming_up() {
    let fell = provisioning("fell")
        .condition("Deleting", "False", "NotDeleting", "")
        .since("Deleting", "2026-11-20T09:55:00Z")
        .since("Available", "2026-11-20T09:58:00Z");
    check(fell.condition("NodeHealthy", "False", "NodeNotHealthy", ""), Verdict::Degraded);
}

#[test]
fn what_takes_too_long_turns_by_itself() {
    let mut fleet = fleet_of(&[cluster("a").0, control_plane("a", 0).0, provisioning("a-md-1-0").0]);
    let cluster = fleet.clusters()[0];
    assert_eq!(fleet.verdict(cluster), Verdict::Progressing);
    let due_s = fleet.next_due_s().expect("a limit");
    assert_eq!(due_s, seconds(now()) + 1, "five minutes without samples");
    let later = now() + chrono::Duration::seconds(1);
    assert_eq!(fleet.advance(later).clusters, [cluster]);
    assert_eq!(fleet.verdict(cluster), Verdict::Degraded);
    assert!(fleet.advance(later).is_empty());
}

/// Certificates end at this moment, their owner replaces Machines before that or does not: verdict, words, and whether it is said.
/// A control plane that is paused replaces nothing, whatever it would do.
#[test]
fn certificates_end_under_a_control_plane_that_is_paused() {
    for (is_paused, verdict) in [(false, Verdict::Ok), (true, Verdict::Degraded)] {
        let mut objects = small_cluster("a");
        for object in &mut objects {
            if object["metadata"]["name"] == "a-cp-0" {
                object["status"]["certificatesExpiryDate"] = json!("2026-11-24T00:00:00Z");
            }
            if object["kind"] == "KubeadmControlPlane" {
                object["spec"]["rollout"] = json!({"before": {"certificatesExpiryDays": 21}});
                if is_paused {
                    object["metadata"]["annotations"]["cluster.x-k8s.io/paused"] = json!("");
                }
            }
        }
        let fleet = fleet_of(&objects);
        assert_eq!(fleet.verdict(fleet.clusters()[0]), verdict, "{is_paused}");
    }
}

#[test]
fn certificates_that_end_turn_the_verdict_in_time() {
    for (end, renews, verdict, words, is_said) in [
        ("2027-06-01T00:00:00Z", false, Verdict::Ok, "", false),
        ("2026-12-15T00:00:00Z", false, Verdict::Ok, "", true),
        ("2026-11-24T00:00:00Z", false, Verdict::Degraded, "its certificates end on 2026-11-24 (cp-0)", true),
        ("2026-11-24T00:00:00Z", true, Verdict::Ok, "", true),
        ("2026-11-20T09:00:00Z", true, Verdict::Blocked, "its certificates ended on 2026-11-20 (cp-0)", true),
        ("not a moment", false, Verdict::Ok, "", false),
    ] {
        let mut objects = small_cluster("a");
        for object in &mut objects {
            if object["metadata"]["name"] == "a-cp-0" {
                object["status"]["certificatesExpiryDate"] = json!(end);
            }
            if object["kind"] == "KubeadmControlPlane" && renews {
                object["spec"]["rollout"] = json!({"before": {"certificatesExpiryDays": 21}});
            }
        }
        let fleet = fleet_of(&objects);
        let id = fleet.clusters()[0];
        assert_eq!((fleet.verdict(id), fleet.what_is_wrong(id).as_str()), (verdict, words), "{end}");
        let (plane, _) =
            fleet.rows().find(|(_, row)| row.kind == Kind::ControlPlane).expect("a control plane");
        let line = fleet.line(Item::Row(plane)).expect("a line");
        assert_eq!(line.tags.contains(&Tag::CertificatesEnd), is_said, "{end}");
    }
}
