//! Machines of the past: counted from what was seen and from what those that are there say.

use chrono::TimeDelta;

use super::*;

#[test]
fn machines_are_counted_at_moments_of_the_past() {
    let at = |minute: i64| now() + TimeDelta::minutes(minute);
    let seconds = |minute: i64| u32::try_from(at(minute).timestamp()).expect("a moment");
    let mut fleet = Fleet::new();
    fleet.advance(now());
    let feed = FeedKey { source: SourceId(0), group: CORE_GROUP.into(), kind: "Cluster".into() };
    let mut deltas: Vec<Delta> = small_cluster("a").iter().map(|o| Delta::Upsert(row_of(o))).collect();
    deltas.push(Delta::Feed { feed, state: FeedState::Live, at: now() });
    fleet.apply(deltas);
    let id = fleet.clusters()[0];
    let before = fleet.machines_at(id, &[seconds(0)])[0];
    assert!(before.there > 0 && before.ready == before.there, "{before:?}");
    // A new one comes after 5 minutes and is ready after 10; an old one goes after 15.
    let since = |minute: i64| capstan_base::time::rfc3339(at(minute));
    let new = |ready: &str, minute: i64| {
        machine("a", ("MachineSet", "a-md-1"), "a-md-1-new")
            .set("/metadata/creationTimestamp", json!(since(5)))
            .condition("Ready", ready, "Why", "")
            .since("Ready", &since(minute))
            .0
    };
    let mut news = |minute: i64, delta: Delta| {
        fleet.advance(at(minute));
        fleet.apply(vec![delta]);
    };
    news(5, Delta::Upsert(row_of(&new("False", 5))));
    news(10, Delta::Upsert(row_of(&new("True", 10))));
    let old = row_of(&machine("a", ("MachineSet", "a-md-1"), "a-md-1-0").0).uid;
    news(15, Delta::Remove { source: SourceId(0), uid: old });
    let counts: Vec<(usize, usize)> = fleet
        .machines_at(id, &[seconds(1), seconds(6), seconds(11), seconds(16)])
        .into_iter()
        .map(|then| (then.ready - before.ready + 1, then.there - before.there + 1))
        .collect();
    assert_eq!(counts, [(1, 1), (1, 2), (2, 2), (1, 1)]);
}
