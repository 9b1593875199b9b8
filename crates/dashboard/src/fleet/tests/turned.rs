//! Which clusters turned since a moment, how many were at fault over the past, and what is new in one of them.

use chrono::TimeDelta;

use super::*;
use crate::fleet::{Faults, Kept, RunPart, Turned};

fn live(kind: &str) -> Delta {
    let feed = FeedKey { source: SourceId(0), group: CORE_GROUP.into(), kind: kind.into() };
    Delta::Feed { feed, state: FeedState::Live, at: now() }
}

/// Everything is listed; the name of the source tells where the rows are.
fn listed(objects: &[Value], kept: Vec<Kept>, minutes: i64) -> Fleet {
    let mut fleet = Fleet::new();
    fleet.keep_history(kept);
    fleet.advance(now() + TimeDelta::minutes(minutes));
    let mut deltas = vec![Delta::Source { source: SourceId(0), name: "prod".into() }];
    deltas.extend(objects.iter().map(|o| Delta::Upsert(row_of(o))));
    deltas.push(live("Cluster"));
    fleet.apply(deltas);
    fleet
}

fn broken(name: &str) -> Value {
    cluster(name).condition("InfrastructureReady", "False", "Broken", "gone").0
}

fn after(minutes: i64) -> u32 {
    u32::try_from((now() + TimeDelta::minutes(minutes)).timestamp()).expect("a moment")
}

fn words(turned: &[Turned]) -> Vec<String> {
    let word = |verdict: Option<Verdict>| verdict.map_or("-", Verdict::word);
    turned.iter().map(|t| format!("{} {}>{}", t.name, word(t.from), word(t.to))).collect()
}

#[test]
fn the_next_run_knows_what_turned_while_nobody_looked() {
    let two = [cluster("a").0, cluster("b").0];
    let mut first = listed(&two, Vec::new(), 0);
    assert_eq!(first.turned_since(after(0)), [], "what is listed first is not news");
    first.mark_run(RunPart::Looked, now() + TimeDelta::minutes(1));
    first.mark_run(RunPart::Ended, now() + TimeDelta::minutes(2));
    let kept = first.unsaved_history();
    let mut next = listed(&[broken("a"), cluster("c").0], kept.clone(), 60);
    let since_s = next.looked_s().expect("somebody looked");
    assert_eq!(since_s, after(1));
    let turned = next.turned_since(since_s);
    assert_eq!(words(&turned), ["a unknown>degraded", "c ->unknown", "b unknown>-"]);
    // What turned back in between did not turn.
    next.advance(now() + TimeDelta::minutes(70));
    next.apply(vec![Delta::Upsert(row_of(&cluster("a").0))]);
    next.advance(now() + TimeDelta::minutes(90));
    assert_eq!(words(&next.turned_since(since_s)), ["c ->unknown", "b unknown>-"]);
    // A third run reads all of it; what two runs saw counts once.
    let more = next.unsaved_history();
    let third = listed(&[cluster("a").0, cluster("c").0], [kept, more.clone(), more].concat(), 100);
    assert_eq!(words(&third.turned_since(after(1))), ["c ->unknown", "b unknown>-"]);
}

#[test]
fn nothing_turns_while_a_server_is_lost() {
    let mut fleet = listed(&[cluster("a").0], Vec::new(), 0);
    let feed = FeedKey { source: SourceId(0), group: CORE_GROUP.into(), kind: "Cluster".into() };
    let lost = FeedState::Lost { error: "no route".into() };
    fleet.apply(vec![Delta::Feed { feed, state: lost, at: now() }]);
    fleet.advance(now() + TimeDelta::minutes(5));
    assert_eq!(fleet.verdict(fleet.clusters()[0]), Verdict::Unknown);
    assert_eq!(fleet.turned_since(after(-1)), []);
}

#[test]
fn faults_are_counted_over_the_past_and_gaps_are_gaps() {
    let mut first = listed(&[cluster("a").0, cluster("b").0], Vec::new(), 0);
    first.apply(vec![Delta::Upsert(row_of(&broken("a")))]);
    first.advance(now() + TimeDelta::minutes(20));
    first.apply(vec![Delta::Upsert(row_of(&cluster("a").0))]);
    first.advance(now() + TimeDelta::minutes(40));
    first.mark_run(RunPart::Ended, now() + TimeDelta::minutes(40));
    let next = listed(&[cluster("a").0, broken("b")], first.unsaved_history(), 160);
    let faults = next.faults_over(3 * 3_600, 9, None);
    let known = |most| Faults::Most(most);
    // Parts of 20 minutes, the last one ends now: from 0 to 40 somebody watched, from 160 on again.
    assert_eq!(faults.len(), 9);
    assert_eq!(faults[1], known(1), "{faults:?}");
    assert!(faults[3..8].iter().all(|part| *part == Faults::Unknown), "{faults:?}");
    assert_eq!(faults[8], known(1), "{faults:?}");
    assert_eq!(next.faults_over(3_600, 1, Some("other")), [known(0)]);
    assert_eq!(next.watched_for_s(), 160 * 60);
}

#[test]
fn news_of_a_cluster_are_what_matters_to_somebody_who_was_away() {
    let mut fleet = Fleet::new();
    fleet.advance(now());
    let mut deltas: Vec<Delta> = small_cluster("a").iter().map(|o| Delta::Upsert(row_of(o))).collect();
    deltas.push(live("Cluster"));
    fleet.apply(deltas);
    let id = fleet.clusters()[0];
    assert_eq!(fleet.news_of(id, after(0), None), None);
    fleet.advance(now() + TimeDelta::minutes(5));
    let made = machine("a", ("MachineSet", "a-md-1"), "a-md-1-9")
        .set("/metadata/creationTimestamp", json!("2026-11-20T10:05:00Z"));
    let newer = control_plane("a", 3).set("/spec/version", json!("v1.36.0"));
    fleet.apply(vec![Delta::Upsert(row_of(&made.0)), Delta::Upsert(row_of(&newer.0))]);
    let gone = row_of(&made.0).uid;
    fleet.apply(vec![Delta::Remove { source: SourceId(0), uid: gone }]);
    let news = fleet.news_of(id, after(1), None).expect("something happened");
    assert_eq!((news.changes.made, news.changes.gone, news.was), (1, 1, None));
    assert!(news.changes.version.is_some_and(|(_, to)| to.as_ref() == "v1.36.0"));
    assert_eq!(fleet.news_of(id, after(6), None), None);
}
