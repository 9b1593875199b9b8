//! What a fleet shows over time, and what it names as the cause.

use super::*;

/// A fleet that was listed and is watched, with these objects.
fn live(objects: &[Value]) -> Fleet {
    let mut fleet = fleet_of(objects);
    let feed = FeedKey { source: SourceId(0), group: CORE_GROUP.into(), kind: "Cluster".into() };
    fleet.apply(vec![Delta::Feed { feed, state: FeedState::Live, at: now() }]);
    fleet
}

/// What is shown of the only cluster, and from which second after [`NOW`] on, until `end_s`. Rows arrive at
/// their second.
fn shown(fleet: &mut Fleet, arrivals: &[(i64, Value)], end_s: i64) -> Vec<(i64, Verdict)> {
    let cluster = fleet.clusters()[0];
    let mut turns: Vec<(i64, Verdict)> = Vec::new();
    for second in 0..=end_s {
        fleet.advance(now() + chrono::Duration::seconds(second));
        let rows = arrivals.iter().filter(|(at, _)| *at == second);
        fleet.apply(rows.map(|(_, object)| Delta::Upsert(row_of(object))).collect());
        let verdict = fleet.verdict(cluster);
        if turns.last().is_none_or(|(_, last)| *last != verdict) {
            turns.push((second, verdict));
        }
    }
    turns
}

fn worker() -> Builder {
    worker_named("a-md-1-0")
}

fn worker_named(name: &str) -> Builder {
    machine("a", ("MachineSet", "a-md-1"), name)
}

fn sick(reason: &str) -> Value {
    worker().condition("NodeHealthy", "False", reason, "* Node.Ready: down").since("NodeHealthy", NOW).0
}

#[test]
fn a_node_that_falls_is_shown_after_it_stayed_down() {
    let mut fleet = live(&small_cluster("a"));
    let turns = shown(&mut fleet, &[(10, sick("NodeNotHealthy")), (60, worker().0)], 120);
    assert_eq!(turns, [(0, Verdict::Ok), (25, Verdict::Degraded), (75, Verdict::Ok)]);

    let mut fleet = live(&small_cluster("a"));
    assert_eq!(shown(&mut fleet, &[(10, sick("NodeNotHealthy")), (20, worker().0)], 120), [(0, Verdict::Ok)]);

    let mut fleet = live(&small_cluster("a"));
    let turns = shown(&mut fleet, &[(10, sick("NodeDeleted"))], 120);
    assert_eq!(turns, [(0, Verdict::Ok), (15, Verdict::Degraded)]);
}

#[test]
fn what_is_shown_still_is_not_explained_by_what_is_better() {
    let blocked = "Scaling up from 1 to 2 replicas is blocked because:\n* ... (\"KubeadmVersionSkew\" preflight check failed)";
    let skewed = set("a", "a-md", "a-md-1", 2)
        .condition("ScalingUp", "True", "ScalingUp", blocked)
        .since("ScalingUp", "2026-11-20T09:00:00Z");
    let taken_back = set("a", "a-md", "a-md-1", 2).set("/metadata/generation", json!(2));
    let mut fleet = live(&small_cluster("a"));
    assert_eq!(
        shown(&mut fleet, &[(10, skewed.0), (100, taken_back.0)], 100).last(),
        Some(&(70, Verdict::Blocked))
    );
    let words = fleet.what_is_wrong(fleet.clusters()[0]);
    assert_eq!(
        words,
        "not blocked any more, not for long yet: status is behind spec (generation 1 of 2) (md-1)"
    );
}

#[test]
fn what_is_due_is_all_that_time_costs() {
    let mut fleet = live(&small_cluster("a"));
    assert_eq!(fleet.next_due_s(), None, "a well fleet waits for nothing");
    fleet.apply(vec![Delta::Upsert(row_of(&sick("NodeNotHealthy")))]);
    assert_eq!(fleet.next_due_s(), Some(seconds(now()) + 15));
}

#[test]
fn what_waits_its_turn_is_never_the_cause() {
    let mut objects = small_cluster("a");
    for name in ["a-md-1-0", "a-md-1-1"] {
        let queued =
            machine("a", ("MachineSet", "a-md-1"), name).condition("UpToDate", "False", "NotUpToDate", "");
        objects.push(queued.0);
    }
    let boots = machine("a", ("MachineSet", "a-md-1"), "a-md-1-9")
        .set("/metadata/creationTimestamp", json!(NOW))
        .condition("InfrastructureReady", "False", "NotReady", "VM is starting")
        .condition("Ready", "False", "NotReady", "")
        .condition("Available", "False", "NotReady", "")
        .condition("Deleting", "False", "NotDeleting", "")
        .since("Available", NOW);
    objects.push(boots.0);
    let fleet = fleet_of(&objects);
    let cluster = fleet.clusters()[0];
    assert_eq!(fleet.verdict(cluster), Verdict::Progressing);
    assert_eq!(fleet.what_is_wrong(cluster), "VM is starting (md-1-9)");
}

#[test]
fn every_order_of_arrival_ends_in_the_same_verdicts() {
    let mut objects = small_cluster("a");
    objects[0] = cluster("a").condition("WorkersAvailable", "False", "NotAvailable", "").0;
    objects[7] = sick("NodeNotHealthy");
    let of = |objects: &[Value]| {
        let mut fleet = Fleet::new();
        fleet.advance(now());
        for object in objects {
            fleet.apply(vec![Delta::Upsert(row_of(object))]);
        }
        picture(&fleet, &TreeOptions::default())
    };
    let forward = of(&objects);
    objects.reverse();
    assert_eq!(of(&objects), forward);
}

#[test]
fn a_status_that_stays_behind_is_a_fault_of_a_controller_at_work_only() {
    let behind = || deployment("a", "a-md", 2).set("/metadata/generation", json!(2)).0;
    let mut fleet = live(&small_cluster("a"));
    assert_eq!(shown(&mut fleet, &[(10, behind())], 400).last(), Some(&(311, Verdict::Unknown)));

    let mut fleet = live(&small_cluster("a"));
    let other = deployment("b", "b-md", 2).condition("RollingOut", "False", "NotRollingOut", "again").0;
    fleet.apply(vec![Delta::Upsert(row_of(&deployment("b", "b-md", 2).0))]);
    let turns = shown(&mut fleet, &[(10, behind()), (60, other)], 400);
    assert_eq!(turns.last(), Some(&(311, Verdict::Degraded)));
}

#[test]
fn without_contact_nothing_is_claimed() {
    let mut fleet = live(&small_cluster("a"));
    let feed = FeedKey { source: SourceId(0), group: CORE_GROUP.into(), kind: "Cluster".into() };
    let lost = FeedState::Lost { error: "connection refused".into() };
    fleet.apply(vec![Delta::Feed { feed: feed.clone(), state: lost, at: now() }]);
    assert_eq!(fleet.next_due_s(), Some(seconds(now()) + 30));
    assert_eq!(shown(&mut fleet, &[], 60), [(0, Verdict::Ok), (30, Verdict::Unknown)]);
    let cluster = fleet.clusters()[0];
    assert_eq!(fleet.what_is_wrong(cluster), "was ok");
    let again = Delta::Feed { feed, state: FeedState::Live, at: now() + chrono::Duration::seconds(60) };
    assert!(fleet.apply(vec![again]).overview);
    assert_eq!(fleet.verdict(cluster), Verdict::Ok);
}

#[test]
fn stages_of_a_deletion_have_their_own_clocks() {
    let leaving = |stage: &str, began: &str| {
        worker()
            .set("/metadata/deletionTimestamp", json!("2026-11-20T09:50:00Z"))
            .set(stage, json!(began))
            .condition(
                "Deleting",
                "True",
                "DrainingNode",
                "cannot evict pod as it would violate the pod's disruption budget.",
            )
    };
    let of =
        |built: Builder| judge(&row_of(&built.0), &Context { now_s: seconds(now()), ..Context::default() });
    let stage = "/status/deletion/nodeDrainStartTime";
    assert_eq!(
        of(leaving(stage, "2026-11-20T09:58:00Z")).verdict,
        Verdict::Progressing,
        "it drains for two minutes"
    );
    assert_eq!(of(leaving(stage, "2026-11-20T09:52:00Z")).verdict, Verdict::Blocked);
    let other = "/status/deletion/waitForPreDrainHookStartTime";
    assert_eq!(
        of(leaving(other, "2026-11-20T09:58:00Z")).verdict,
        Verdict::Blocked,
        "counted from the deletion"
    );
    let forced =
        leaving(stage, "2026-11-20T09:52:00Z").set("/spec/deletion/nodeDrainTimeoutSeconds", json!(600));
    assert_eq!(of(forced).verdict, Verdict::Progressing, "it ends by force in two minutes");
}

#[test]
fn what_a_person_holds_back_is_said() {
    let old = |name: &str| {
        worker_named(name).condition("UpToDate", "False", "NotUpToDate", "* Version v1, v2 required").0
    };
    let mut objects = small_cluster("a");
    objects[2] = deployment("a", "a-md", 2)
        .set("/spec/rollout", json!({"strategy": {"type": "OnDelete"}}))
        .set("/status/upToDateReplicas", json!(0))
        .0;
    objects.extend([old("a-md-1-0"), old("a-md-1-1")]);
    let text = picture(&fleet_of(&objects), &TreeOptions::default());
    assert!(text.contains("Cluster a Provisioned [held]"), "{text}");
    assert!(text.contains("ok MachineDeployment a-md v1.36.2 2/2/2/2/0 [held]"), "{text}");

    let mut objects = small_cluster("a");
    let versions = json!([{"version": "v1.35.0", "replicas": 3}]);
    objects[1] =
        control_plane("a", 3).set("/status/versions", versions).condition("Paused", "True", "Paused", "").0;
    let fleet = fleet_of(&objects);
    assert_eq!(fleet.verdict(fleet.clusters()[0]), Verdict::Progressing);
    assert_eq!(fleet.what_is_wrong(fleet.clusters()[0]), "paused, 3 pending (cp)");
}

#[test]
fn many_slow_machines_are_one_line() {
    let mut objects = small_cluster("a");
    for at in 0..4 {
        let boots = worker_named(&format!("a-md-1-x{at}"))
            .set("/metadata/creationTimestamp", json!("2026-11-20T09:59:30Z"))
            .condition("InfrastructureReady", "False", "NotReady", "VM is starting")
            .condition("Ready", "False", "NotReady", "")
            .condition("Available", "False", "NotReady", "")
            .condition("Deleting", "False", "NotDeleting", "")
            .since("Available", "2026-11-20T09:59:30Z")
            .since("Deleting", "2026-11-20T09:59:30Z");
        objects.push(boots.0);
    }
    let fleet = fleet_of(&objects);
    let wrong = fleet.what_is_wrong(fleet.clusters()[0]);
    assert!(wrong.starts_with("VM is starting, 30 s"), "{wrong}");
    let many = "(4 Machines, 4 of them longer than usual: quota, image or network?)";
    assert!(wrong.ends_with(many), "{wrong}");
}

/// What the list says of the only cluster a moment after the arrivals, and since which second after [`NOW`].
fn said(objects: &[Value], arrivals: &[(i64, Value)], end_s: i64) -> (String, Option<i64>) {
    let mut fleet = live(objects);
    shown(&mut fleet, arrivals, end_s);
    let cluster = fleet.clusters()[0];
    let since = fleet.since(cluster).map(|at| (at - now()).num_seconds());
    (fleet.what_is_wrong(cluster), since)
}

/// A Machine that comes up for the first time.
fn coming_up() -> Value {
    let missing =
        |built: Builder, type_: &str| built.condition(type_, "False", "NotReady", "").since(type_, NOW);
    let fresh = worker().set("/metadata/creationTimestamp", json!(NOW)).set("/status/nodeRef", Value::Null);
    ["Available", "Ready", "InfrastructureReady", "NodeHealthy"].into_iter().fold(fresh, missing).0
}

#[test]
fn only_what_was_not_well_is_well_again() {
    let broken = || sick("NodeDeleted");
    let (words, since) = said(&small_cluster("a"), &[(10, broken()), (60, worker().0)], 65);
    assert_eq!((words.as_str(), since), ("well again, not for long yet (md-1-0)", Some(60)));
    // A creation was called well again, too.
    let (words, _) = said(&small_cluster("a"), &[(10, coming_up()), (60, worker().0)], 62);
    assert_eq!(words, "done, not for long yet (md-1-0)");
    assert_eq!(said(&small_cluster("a"), &[(10, coming_up()), (60, worker().0)], 80).0, "");
}

/// Three clusters' worth of Machines were red for ten minutes with words that promised the end of it, and without an age.
#[test]
fn what_flaps_says_so_and_for_how_long_it_has_been_well() {
    let turns = [(10, sick("NodeDeleted")), (40, worker().0), (70, sick("NodeDeleted")), (100, worker().0)];
    for (second, word) in [(110, "flapping"), (690, "flapping")] {
        let (words, since) = said(&small_cluster("a"), &turns, second);
        assert!(words.contains(word) && words.starts_with("well again"), "{second} s: {words}");
        assert_eq!(since, Some(100), "{second} s");
    }
    assert_eq!(said(&small_cluster("a"), &turns, 701).0, "");
}
