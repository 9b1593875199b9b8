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
    machine("a", ("MachineSet", "a-md-1"), "a-md-1-0")
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
    assert_eq!(fleet.what_is_wrong(cluster), "a-md-1-9: InfrastructureReady: VM is starting");
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
