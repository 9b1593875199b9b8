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

#[test]
fn a_machine_that_stays_well_changes_no_line_of_a_list_of_clusters() {
    let mut fleet = fleet_of(&small_cluster("a"));
    let cluster = fleet.clusters().to_vec();
    let well = || machine("a", ("MachineSet", "a-md-1"), "a-md-1-0");
    let elsewhere = well().set("/status/failureDomain", json!("zone-b"));
    let ill = || {
        well().condition("Ready", "Unknown", "Unknown", "").condition("NodeHealthy", "Unknown", "Lost", "")
    };
    for (case, machine, is_shown) in [
        ("what no list shows", elsewhere, false),
        ("it turns", ill(), true),
        ("it stays ill and says why", ill().condition("Ready", "Unknown", "Unknown", "no answer"), true),
        ("it is well again", well(), true),
        ("a condition comes", well().condition("Updating", "False", "NotUpdating", ""), true),
        ("an older generation is observed", well().set("/metadata/generation", json!(2)), true),
    ] {
        let changes = fleet.apply(vec![Delta::Upsert(row_of(&machine.0))]);
        assert_eq!(changes.clusters, cluster, "{case}");
        assert_eq!(changes.lines, if is_shown { cluster.clone() } else { Vec::new() }, "{case}");
    }
    let removed =
        fleet.apply(vec![Delta::Remove { source: SourceId(0), uid: Uid::parse("Machine/a-md-1-0") }]);
    assert_eq!(removed.lines, cluster);
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

/// So many times the condition of one Machine turns, false first.
fn turns(cluster: &str, count: usize) -> Vec<Delta> {
    let (plane, name) = (format!("{cluster}-cp"), format!("{cluster}-cp-0"));
    let row = |status: &str| {
        let machine = machine(cluster, ("KubeadmControlPlane", &plane), &name);
        row_of(&machine.condition("NodeHealthy", status, "X", "").0)
    };
    let rows = [row("False"), row("True")];
    (0..count).map(|turn| Delta::Upsert(rows[turn % 2].clone())).collect()
}

#[test]
fn flips_are_remembered_and_bounded() {
    let mut fleet = fleet_of(&small_cluster("a"));
    let id = fleet.find(SourceId(0), Uid::parse("Machine/a-cp-0")).expect("there");
    let row = fleet.row(id).expect("there").clone();
    assert_eq!(fleet.seen_in_cluster_of(&row).count(), 0, "a first sight is no change");
    fleet.apply(turns("a", 12_000));
    assert_eq!(fleet.seen_in_cluster_of(&row).count(), 2_000);
    let last = fleet.seen_in_cluster_of(&row).next_back().expect("some");
    let Happened::Flip(flip) = &last.happened else { panic!("{last:?}") };
    assert_eq!((flip.from, flip.to), (Some(Status::False), Some(Status::True)));
    let timeline = fleet.timeline(id);
    assert!(timeline.len() >= 500 && timeline.is_sorted_by_key(|e| std::cmp::Reverse(e.at_s)));
}

/// One list for the whole fleet forgot what happened in a quiet cluster within seconds.
#[test]
fn a_busy_cluster_does_not_push_out_what_a_quiet_one_did() {
    let names: Vec<String> = (0..12).map(|n| format!("busy-{n}")).collect();
    let objects = names.iter().map(String::as_str).chain(["quiet"]).flat_map(small_cluster);
    let mut fleet = fleet_of(&objects.collect::<Vec<_>>());
    fleet.apply(turns("quiet", 2));
    names.iter().for_each(|name| drop(fleet.apply(turns(name, 2_000))));
    let seen = |cluster: &str| {
        let id = fleet.find(SourceId(0), Uid::parse(&format!("Machine/{cluster}-cp-0"))).expect("there");
        fleet.seen_in_cluster_of(fleet.row(id).expect("there")).count()
    };
    assert_eq!(seen("quiet"), 2);
    let busy = names.iter().map(|name| seen(name)).sum::<usize>();
    assert!((5_000..=10_000).contains(&busy), "{busy}");
}

#[test]
fn the_timeline_of_a_cluster_has_everything_below_it() {
    let mut fleet = fleet_of(&small_cluster("a"));
    let cluster = fleet.clusters()[0];
    let later = now() + chrono::Duration::seconds(5);
    let kinds = ["Cluster", "Machine"].map(|kind| feed(kind, FeedState::Live, later));
    fleet.apply(kinds.to_vec());
    let made = machine("a", ("KubeadmControlPlane", "a-cp"), "a-cp-9")
        .set("/metadata/creationTimestamp", json!(capstan_base::time::rfc3339(later)));
    let (uid, source) = (Uid::parse("Machine/a-cp-9"), SourceId(0));
    fleet.apply(vec![Delta::Upsert(row_of(&made.0))]);
    fleet.apply(vec![Delta::Remove { source, uid }]);
    let newest: Vec<(String, Happened)> =
        fleet.timeline(cluster).into_iter().take(2).map(|e| (e.name.to_string(), e.happened)).collect();
    let of = |happened| ("a-cp-9".to_owned(), happened);
    assert!(newest.contains(&of(Happened::Made)) && newest.contains(&of(Happened::Gone)), "{newest:?}");
    let others = fleet.timeline(cluster).iter().filter(|e| e.kind == Kind::Machine).count();
    assert!(others > 2, "what was not watched is there by the Machines' own account");
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

/// What an object says, and its counters: current, ready, available.
#[test]
fn what_a_status_leaves_out_is_zero_in_the_older_version_and_unknown_in_the_newer_one() {
    let counters = |kind: &str, version: &str, status: Value| {
        let group = if kind.ends_with("ControlPlane") { CONTROL_PLANE_GROUP } else { CORE_GROUP };
        let row = row_of(&json!({
            "apiVersion": format!("{group}/{version}"), "kind": kind,
            "metadata": {"name": "a", "namespace": "default", "uid": "1"}, "spec": {"replicas": 3},
            "status": status}));
        let counters = row.counters().expect("counters");
        (counters.current, counters.ready, counters.available)
    };
    let seen = json!({"observedGeneration": 1, "replicas": 3});
    let with = |field: &str, number: u32| {
        let mut status = seen.clone();
        status[field] = json!(number);
        status
    };
    for (kind, version, status, expected) in [
        ("MachineDeployment", "v1beta1", with("unavailableReplicas", 3), (Some(3), Some(0), Some(0))),
        ("MachinePool", "v1beta1", with("unavailableReplicas", 1), (Some(3), Some(0), Some(2))),
        ("MachinePool", "v1beta1", seen.clone(), (Some(3), Some(0), Some(0))),
        ("MachineSet", "v1beta1", with("availableReplicas", 2), (Some(3), Some(0), Some(2))),
        ("MachineSet", "v1beta1", with("unavailableReplicas", 9), (Some(3), Some(0), Some(0))),
        ("KubeadmControlPlane", "v1beta1", with("readyReplicas", 2), (Some(3), Some(2), Some(2))),
        ("MachineDeployment", "v1beta1", json!({}), (None, None, None)),
        ("MachineDeployment", "v1beta1", json!({"phase": "ScalingUp"}), (Some(0), Some(0), Some(0))),
        ("MachineDeployment", "v1beta2", seen.clone(), (Some(3), None, None)),
        ("TalosControlPlane", "v1alpha3", with("unavailableReplicas", 1), (Some(3), None, Some(2))),
        ("TalosControlPlane", "v1alpha3", with("readyReplicas", 2), (Some(3), Some(2), None)),
    ] {
        assert_eq!(counters(kind, version, status.clone()), expected, "{kind} {version} {status}");
    }
}

#[test]
fn what_its_controllers_gave_up_is_not_well_whatever_its_conditions_repeat() {
    let message = json!({"failureReason": "CreateError", "failureMessage": "quota exceeded"});
    let reason = json!({"failureReason": "CreateError"});
    let status = |field: &str, value: Value| {
        let conditions =
            ["Available", "Ready"].map(|type_| json!({"type": type_, "status": "True", "reason": type_}));
        let mut status = json!({"observedGeneration": 1, "phase": "Running", "conditions": conditions});
        match field {
            "" => status.as_object_mut().expect("a map").extend(value.as_object().expect("a map").clone()),
            _ => status[field] = value,
        }
        status
    };
    let kinds = ["Cluster", "Machine", "MachinePool", "MachineSet", "KubeadmControlPlane", "DevMachine"];
    for kind in kinds {
        for (status, words) in [
            (status("", message.clone()), "Failure: quota exceeded"),
            (status("", reason.clone()), "Failure: CreateError"),
            (status("deprecated", json!({"v1beta1": message})), "Failure: quota exceeded"),
            (status("phase", json!("Failed")), "Failed"),
        ] {
            for version in ["v1beta1", "v1beta2"] {
                let group = if kind.ends_with("ControlPlane") { CONTROL_PLANE_GROUP } else { CORE_GROUP };
                let row = row_of(&json!({
                    "apiVersion": format!("{group}/{version}"), "kind": kind, "spec": {},
                    "metadata": {"name": "a", "namespace": "default", "uid": "1", "creationTimestamp": LONG_AGO},
                    "status": status}));
                let judgement = judge(&row, &Context { now_s: seconds(now()), ..Context::default() });
                assert_eq!(judgement.verdict, Verdict::Degraded, "{kind} {status}");
                let said = crate::fleet::evidence::words(&row, judgement, seconds(now()));
                assert_eq!(said, words, "{kind} {version} {status}");
            }
        }
    }
}

/// An older pool says by its phase that its machines are not there; an older Machine says why by a part of its summary.
#[test]
fn older_objects_are_judged_by_phase_and_by_the_part_that_fails() {
    let row = |kind: &str, phase: &str, conditions: Value| {
        row_of(&json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind, "spec": {},
            "metadata": {"name": "a", "namespace": "default", "uid": "1", "creationTimestamp": LONG_AGO},
            "status": {"observedGeneration": 1, "phase": phase, "conditions": conditions}}))
    };
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({"type": type_, "status": status, "severity": if status == "True" { "" } else { "Error" },
            "reason": reason, "lastTransitionTime": LONG_AGO})
    };
    let well = json!([condition("Ready", "True", "")]);
    let broken = json!([
        condition("Ready", "False", "Failed"),
        condition("BootstrapReady", "True", ""),
        condition("InfrastructureReady", "False", "NoQuota"),
    ]);
    for (kind, phase, conditions, verdict, words) in [
        ("MachinePool", "ScalingUp", well.clone(), Verdict::Progressing, "ScalingUp"),
        ("MachinePool", "Running", well.clone(), Verdict::Ok, ""),
        ("Machine", "Running", well, Verdict::Ok, ""),
        ("Machine", "Running", broken, Verdict::Degraded, "InfrastructureReady: NoQuota"),
    ] {
        let row = row(kind, phase, conditions);
        let judgement = judge(&row, &Context { now_s: seconds(now()), ..Context::default() });
        let said = crate::fleet::evidence::words(&row, judgement, seconds(now()));
        assert_eq!((judgement.verdict, said.as_str()), (verdict, words), "{kind} {phase}");
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

#[test]
fn what_happened_is_known_to_the_next_run_of_the_same_cluster_only() {
    let mut fleet = Fleet::new();
    fleet.keep_history(Vec::new());
    fleet.advance(now());
    fleet.apply(small_cluster("a").iter().map(|object| Delta::Upsert(row_of(object))).collect());
    let turned =
        machine("a", ("MachineSet", "a-md-1"), "a-md-1-0").condition("Ready", "False", "NotReady", "down").0;
    fleet.apply(vec![Delta::Upsert(row_of(&turned))]);
    let past = fleet.unsaved_history();
    let uid = fleet.row(fleet.clusters()[0]).expect("there").uid;
    let is_of_it = |kept: &Kept| matches!(kept, Kept::Happened(past) if past.cluster == uid);
    assert!(!past.is_empty() && past.iter().all(is_of_it), "{past:?}");
    assert!(fleet.unsaved_history().is_empty() && !fleet.has_unsaved_history(), "nothing happened since");
    let flips = |fleet: &Fleet| {
        let entries = fleet.timeline(fleet.clusters()[0]);
        entries.iter().filter(|e| matches!(&e.happened, Happened::Flip(flip) if flip.from.is_some())).count()
    };
    // Two dashboards saw it, one of them a second later.
    let mut both = past.clone();
    both.extend(past.iter().cloned().map(|kept| match kept {
        Kept::Happened(mut past) => {
            past.entry.at_s += 1;
            Kept::Happened(past)
        }
        other => other,
    }));
    let mut next = Fleet::new();
    next.keep_history(both);
    next.apply(small_cluster("a").iter().map(|object| Delta::Upsert(row_of(object))).collect());
    assert_eq!((flips(&fleet), flips(&next)), (1, 1));
    assert!(next.unsaved_history().is_empty(), "it is kept already");
    // Made anew under its name.
    let mut other = Fleet::new();
    other.keep_history(past);
    let mut objects = small_cluster("a");
    objects[0]["metadata"]["uid"] = json!("another");
    other.apply(objects.iter().map(|object| Delta::Upsert(row_of(object))).collect());
    assert_eq!(flips(&other), 0);
    let mut nobody = fleet_of(&small_cluster("a"));
    nobody.apply(vec![Delta::Upsert(row_of(&turned))]);
    assert!(nobody.unsaved_history().is_empty(), "nothing is kept");
}
