//! What a person has seen and wants quiet, and when it comes back.

use super::*;
use crate::fleet::kept::KeptTimes;

fn worker() -> Builder {
    machine("a", ("MachineSet", "a-md-1"), "a-md-1-0")
}

fn sick() -> Value {
    worker().condition("NodeHealthy", "False", "NodeNotHealthy", "* Node.Ready: down").0
}

/// A fleet that was listed and is watched, with a worker whose Node is down.
fn broken() -> (Fleet, RowId) {
    let mut fleet = fleet_of(&small_cluster("a"));
    let feed = FeedKey { source: SourceId(0), group: CORE_GROUP.into(), kind: "Cluster".into() };
    fleet.apply(vec![Delta::Upsert(row_of(&sick()))]);
    fleet.apply(vec![Delta::Feed { feed, state: FeedState::Live, at: now() }]);
    let cluster = fleet.clusters()[0];
    pass(&mut fleet, 60);
    assert_eq!(fleet.verdict(cluster), Verdict::Degraded);
    (fleet, cluster)
}

fn pass(fleet: &mut Fleet, seconds: i64) {
    let now_s = i64::from(fleet.now_s()) + seconds;
    fleet.advance(Timestamp::from_timestamp(now_s, 0).expect("a moment"));
}

fn put(fleet: &mut Fleet, object: &Value) {
    fleet.apply(vec![Delta::Upsert(row_of(object))]);
    pass(fleet, 120);
}

fn is_quiet(fleet: &Fleet, id: RowId) -> bool {
    fleet.mark(id).is_some()
}

#[test]
fn what_was_seen_is_quiet_until_it_is_well() {
    let (mut fleet, cluster) = broken();
    fleet.acknowledge(cluster).expect("it is broken");
    assert!(fleet.line(Item::Row(cluster)).expect("a line").tags.contains(&Tag::Acknowledged));
    assert_eq!(fleet.verdict(cluster), Verdict::Degraded, "a mark changes no verdict");
    put(&mut fleet, &worker().0);
    assert!(!is_quiet(&fleet, cluster), "it is well");
    put(&mut fleet, &sick());
    assert!(!is_quiet(&fleet, cluster), "another episode");
    assert!(fleet.acknowledge(cluster).is_ok());
    pass(&mut fleet, 24 * 3600);
    assert!(!is_quiet(&fleet, cluster), "a day is over");
}

#[test]
fn what_is_shelved_comes_back_in_time() {
    let (mut fleet, cluster) = broken();
    for (for_s, reason) in [(0, "x"), (8 * 24 * 3600, "x"), (3600, " ")] {
        assert!(fleet.shelve(cluster, for_s, reason).is_err(), "{for_s} {reason}");
    }
    fleet.shelve(cluster, 3600, "a disk\u{1b}").expect("it is broken");
    let mark = fleet.mark(cluster).expect("shelved").clone();
    assert_eq!((mark.object.as_ref(), mark.cause.as_ref()), ("Cluster default/a", "Machine NodeHealthy"));
    assert!(!mark.reason.expect("a reason").contains('\u{1b}'));
    assert_eq!(fleet.shelved_clusters(), 1);
    put(&mut fleet, &worker().0);
    assert!(is_quiet(&fleet, cluster), "it may fail again within the hour");
    assert!(fleet.next_due_s().is_some_and(|due_s| due_s == mark.until_s));
    pass(&mut fleet, 3600);
    assert!(!is_quiet(&fleet, cluster));
    assert_eq!(fleet.acknowledge(cluster), Err("it is ok: there is nothing to quieten".to_owned()));
}

#[test]
fn what_gets_worse_or_different_comes_back() {
    let worse = worker().condition("OwnerRemediated", "False", "CannotBeRemediated", "no owner").0;
    let other = worker().condition("InfrastructureReady", "False", "Stopped", "the VM is gone").0;
    for object in [worse, other] {
        let (mut fleet, cluster) = broken();
        fleet.shelve(cluster, 3600, "a disk").expect("it is broken");
        put(&mut fleet, &object);
        assert!(!is_quiet(&fleet, cluster), "{}", fleet.what_is_wrong(cluster));
    }
}

#[test]
fn what_is_above_marked_objects_is_quiet_as_long_as_nothing_else_is_wrong() {
    let (mut fleet, cluster) = broken();
    let row = |fleet: &Fleet, name: &str| {
        fleet.rows().find(|(_, row)| row.name.as_ref() == name).map(|(id, _)| id).expect("a row")
    };
    let (worker, set) = (row(&fleet, "a-md-1-0"), row(&fleet, "a-md-1"));
    fleet.shelve(worker, 3600, "a disk").expect("it is broken");
    for above in [cluster, set] {
        assert_eq!(fleet.mark(above).map(|mark| mark.object.as_ref()), Some("Machine default/a-md-1-0"));
        assert!(fleet.own_mark(above).is_none());
    }
    assert_eq!((fleet.shelved_clusters(), fleet.verdict(cluster)), (1, Verdict::Degraded));
    // Another one is broken as well: that is shown, and first.
    let other = || machine("a", ("MachineSet", "a-md-1"), "a-md-1-1");
    put(&mut fleet, &other().condition("InfrastructureReady", "False", "Stopped", "the VM is gone").0);
    assert!(!is_quiet(&fleet, cluster) && is_quiet(&fleet, worker));
    assert!(fleet.what_is_wrong(cluster).contains("(md-1-1)"), "{}", fleet.what_is_wrong(cluster));
    // With the same trouble it is one cause, which is not quiet either.
    put(&mut fleet, &other().condition("NodeHealthy", "False", "NodeNotHealthy", "* Node.Ready: down").0);
    assert!(!is_quiet(&fleet, cluster) && is_quiet(&fleet, worker));
    fleet.acknowledge(row(&fleet, "a-md-1-1")).expect("it is broken");
    let mark = fleet.mark(cluster).expect("everything is marked");
    assert!(!mark.is_shelf(), "of one the trouble was only seen: {mark:?}");
    assert_eq!(fleet.shelved_clusters(), 0);
    assert!(fleet.unmark(worker) && !is_quiet(&fleet, cluster));
}

#[test]
fn marks_are_kept_and_taken_in_again() {
    let (mut fleet, cluster) = broken();
    assert_eq!(fleet.unsaved_marks(), None);
    fleet.shelve(cluster, 3600, "a disk").expect("it is broken");
    let marks = fleet.unsaved_marks().expect("one is new");
    assert_eq!(fleet.unsaved_marks(), None);
    let (mut fresh, cluster) = broken();
    fresh.set_marks(marks);
    pass(&mut fresh, 60);
    assert!(is_quiet(&fresh, cluster));
    assert!(fresh.unmark(cluster) && !is_quiet(&fresh, cluster));
    assert_eq!(fresh.unsaved_marks(), Some(Vec::new()));
    // Before everything was read nothing is over.
    let mut empty = Fleet::new();
    let unknown = Mark {
        uid: Uid::parse("x"),
        object: "".into(),
        cause: "".into(),
        verdict: Verdict::Ok,
        until_s: 1,
        reason: None,
    };
    empty.set_marks(vec![unknown]);
    empty.advance(now());
    assert_eq!(empty.unsaved_marks(), None);
}

#[test]
fn usual_times_of_an_earlier_run_only_lengthen() {
    let boots = |seconds: i64| {
        let mut objects = small_cluster("a");
        // No worker of the cluster says how long one takes.
        objects.retain(|object| {
            !object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("a-md-1-"))
        });
        let created = "2026-11-20T10:00:00Z";
        let built = machine("a", ("MachineSet", "a-md-1"), "a-md-1-9")
            .set("/metadata/creationTimestamp", json!(created))
            .condition("InfrastructureReady", "False", "NotReady", "VM is starting")
            .condition("Ready", "False", "NotReady", "")
            .condition("Available", "False", "NotReady", "")
            .condition("Deleting", "False", "NotDeleting", "")
            .since("Available", created);
        objects.push(built.0);
        let mut fleet = Fleet::new();
        let time = |source: &str, newest_first: Vec<u32>| UsualTime {
            source: source.into(),
            infrastructure: "DevMachine".into(),
            control_plane: false,
            newest_first,
        };
        let usual = vec![time("here", vec![600, 620, 580]), time("elsewhere", vec![1; 3])];
        fleet.set_usual_times(KeptTimes { usual, ..KeptTimes::default() });
        fleet.apply(vec![Delta::Source { source: SourceId(0), name: "here".into() }]);
        fleet.advance(now());
        fleet.apply(objects.iter().map(|o| Delta::Upsert(row_of(o))).collect());
        pass(&mut fleet, seconds);
        fleet
    };
    let verdict = |fleet: &Fleet| fleet.verdict(fleet.clusters()[0]);
    assert_eq!(verdict(&boots(1200)), Verdict::Progressing, "ten minutes are usual here");
    assert_eq!(verdict(&boots(7300)), Verdict::Degraded);
    assert_eq!(boots(1).unsaved_usual_times(), None, "nothing came up before our eyes");
}
