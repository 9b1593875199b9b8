//! Lists, losses and refusals.

use super::*;

fn key(kind: &str) -> FeedKey {
    FeedKey { source: SourceId(0), group: CORE_GROUP.into(), kind: kind.into() }
}

fn feed(kind: &str, state: FeedState, at: Timestamp) -> Delta {
    Delta::Feed { feed: key(kind), state, at }
}

#[test]
fn what_a_new_list_does_not_name_has_vanished() {
    let mut fleet = fleet_of(&small_cluster("a"));
    let kept = ["Machine/a-cp-0", "Machine/a-cp-1"].map(Uid::parse).to_vec();
    let changes = fleet.apply(vec![Delta::Listed { feed: key("Machine"), uids: kept }]);
    assert_eq!(changes.rows, 3);
    let cluster = fleet.clusters()[0];
    assert_eq!(fleet.members(cluster, Kind::Machine).len(), 2);
    assert_eq!(fleet.members(cluster, Kind::MachineSet).len(), 1, "other kinds stay");
    fleet.apply(vec![Delta::Listed { feed: key("Cluster"), uids: vec![] }]);
    assert!(fleet.clusters().is_empty());
}

fn last_good(fleet: &Fleet) -> Option<Timestamp> {
    fleet.feed(SourceId(0), "Machine").expect("a feed").last_good
}

#[test]
fn a_lost_feed_keeps_its_rows_and_tells_their_age() {
    let mut fleet = fleet_of(&small_cluster("a"));
    let later = now() + chrono::Duration::seconds(90);
    fleet.apply(vec![feed("Machine", FeedState::Live, now())]);
    assert_eq!(last_good(&fleet), None);
    let lost = FeedState::Lost { error: "no API server answers".into() };
    let changes = fleet.apply(vec![feed("Machine", lost.clone(), later)]);
    assert!(changes.overview);
    assert_eq!(last_good(&fleet), Some(later));
    assert_eq!(fleet.len(), 9);
    assert!(fleet.apply(vec![feed("Machine", lost, later)]).is_empty(), "the same again is no news");
    fleet.apply(vec![feed("Machine", FeedState::Live, later)]);
    assert_eq!(last_good(&fleet), None);
}

#[test]
fn no_access_is_not_emptiness() {
    let mut fleet = Fleet::new();
    let refused = FeedState::NoAccess { error: "may not list machines".into() };
    fleet.apply(vec![feed("Machine", refused.clone(), now()), feed("Cluster", FeedState::Live, now())]);
    let machines = fleet.feed(SourceId(0), "Machine").expect("known");
    assert_eq!((&machines.state, machines.listed), (&refused, false));
    assert!(fleet.feed(SourceId(0), "Cluster").expect("known").listed);
}

#[test]
fn flips_are_remembered_and_bounded() {
    let mut fleet = fleet_of(&small_cluster("a"));
    let id = fleet.find(SourceId(0), Uid::parse("Machine/a-cp-0")).expect("there");
    assert_eq!(fleet.flips().count(), 0, "a first sight is no change");
    for turn in 0..12_000 {
        let status = if turn % 2 == 0 { "False" } else { "True" };
        let turned =
            machine("a", ("KubeadmControlPlane", "a-cp"), "a-cp-0").condition("NodeHealthy", status, "X", "");
        fleet.apply(vec![Delta::Upsert(row_of(&turned.0))]);
    }
    assert_eq!(fleet.flips().count(), 10_000);
    let last = fleet.flips().next_back().expect("some");
    assert_eq!((last.from, last.to), (Some(Status::False), Some(Status::True)));
    assert!(fleet.timeline(id).len() >= 6);
}

#[test]
fn an_unchanged_object_is_no_change() {
    let objects = small_cluster("a");
    let mut fleet = fleet_of(&objects);
    let revision = fleet.revision();
    let again = fleet.apply(objects.iter().map(|o| Delta::Upsert(row_of(o))).collect());
    assert!(again.is_empty());
    assert_eq!(fleet.revision(), revision);
}

#[test]
fn old_servers_are_read_as_far_as_they_go() {
    let new_conditions =
        json!([{"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": LONG_AGO}]);
    let with_both = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment",
        "metadata": {"name": "md", "namespace": "default", "uid": "1", "creationTimestamp": LONG_AGO},
        "spec": {"clusterName": "a", "replicas": 3},
        "status": {"phase": "Running", "replicas": 3, "readyReplicas": 1, "updatedReplicas": 2,
            "conditions": [{"type": "Ready", "status": "False", "severity": "Error"}],
            "v1beta2": {"conditions": new_conditions, "readyReplicas": 3}},
    });
    let row = row_of(&with_both);
    assert!(!row.legacy);
    assert_eq!(row.conditions.len(), 1);
    let counters = row.counters().expect("counters");
    assert_eq!((counters.ready, counters.up_to_date), (Some(3), Some(2)));

    let mut old = with_both;
    old["status"]["v1beta2"] = json!(null);
    let row = row_of(&old);
    assert!(row.legacy);
    assert_eq!(row.conditions[0].reason.as_ref(), "NoReasonReported");
    assert_eq!(
        judge(&row, &Context { now_s: seconds(now()), ..Context::default() }).verdict,
        Verdict::Degraded
    );
}

#[test]
fn severities_of_older_conditions_tell_a_fault_from_progress() {
    let verdict = |severity: &str, reason: &str, phase: &str| {
        let row = row_of(&json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
            "metadata": {"name": "m", "namespace": "default", "uid": "1", "creationTimestamp": LONG_AGO},
            "status": {"phase": phase,
                "conditions": [{"type": "Ready", "status": "False", "severity": severity, "reason": reason}]}}));
        judge(&row, &Context { now_s: seconds(now()), ..Context::default() }).verdict
    };
    for (severity, reason, phase, expected) in [
        ("Error", "BootstrapFailed", "Provisioning", Verdict::Degraded),
        ("Error", "ScalingUp", "Running", Verdict::Degraded),
        ("Warning", "NodeConditionsFailed", "Running", Verdict::Degraded),
        ("Warning", "NodeConditionsFailed", "Provisioning", Verdict::Progressing),
        ("Warning", "RollingUpdateInProgress", "Running", Verdict::Progressing),
        ("Warning", "ScalingUp", "", Verdict::Progressing),
        ("Info", "WaitingForInfrastructure", "Running", Verdict::Progressing),
        ("", "Unsaid", "Running", Verdict::Degraded),
    ] {
        assert_eq!(verdict(severity, reason, phase), expected, "{severity} {reason} {phase}");
    }
}

#[test]
fn older_conditions_are_told_by_where_they_are_and_how_they_look() {
    let older = json!([{"type": "Ready", "status": "False", "severity": "Error", "reason": "Broken"}]);
    let bare = json!([{"type": "Ready", "status": "True"}]);
    let newer = json!([{"type": "Available", "status": "True", "reason": "Available"}]);
    let control_plane = |group: &str, version: &str, status: serde_json::Value| {
        row_of(&json!({
            "apiVersion": format!("{group}/{version}"), "kind": "AnyControlPlane",
            "metadata": {"name": "cp", "namespace": "default", "uid": "1"}, "status": status}))
    };
    const PLANES: &str = "controlplane.cluster.x-k8s.io";
    for (group, version, status, first, legacy) in [
        (
            PLANES,
            "v1beta2",
            json!({"conditions": newer, "deprecated": {"v1beta1": {"conditions": older}}}),
            "Available",
            false,
        ),
        (PLANES, "v1beta2", json!({"deprecated": {"v1beta1": {"conditions": older}}}), "Ready", true),
        (
            PLANES,
            "v1beta1",
            json!({"conditions": older, "v1beta2": {"conditions": newer}}),
            "Available",
            false,
        ),
        (PLANES, "v1beta1", json!({"conditions": newer}), "Available", true),
        (PLANES, "v1beta2", json!({"conditions": older}), "Ready", true),
        (PLANES, "v1beta2", json!({"conditions": bare}), "Ready", true),
        (PLANES, "v1alpha1", json!({"conditions": newer}), "Available", false),
    ] {
        let row = control_plane(group, version, status.clone());
        assert_eq!((row.conditions[0].type_.as_ref(), row.legacy), (first, legacy), "{version} {status}");
    }
    assert!(!control_plane(PLANES, "v1beta1", json!({})).legacy, "nothing is not old");
}
