//! Updates in place, as upstream's controllers report them: a worker that is updated where it stands, one after the other.

use super::*;

/// A moment so many seconds after [`NOW`], as objects write it.
fn at(seconds_: i64) -> String {
    capstan_base::time::rfc3339(now() + chrono::Duration::seconds(seconds_))
}

const STEP: &str = "In-place update in progress: Extension node-updater is updating kubelet packages";

fn worker(index: usize) -> Builder {
    machine("a", ("MachineSet", "a-md-1"), &format!("a-md-1-{index}"))
        .condition("Updating", "False", "NotUpdating", "")
        .condition("Deleting", "False", "NotDeleting", "")
}

/// A worker that is not as its deployment wants it.
fn old(index: usize) -> Value {
    worker(index).condition("UpToDate", "False", "NotUpToDate", "* Version v1.36.1, v1.36.2 required").0
}

/// A worker that is being updated since then.
fn updating(index: usize, since: i64) -> Builder {
    let built = worker(index)
        .condition("UpToDate", "False", "Updating", &format!("* {STEP}"))
        .condition("Updating", "True", "InPlaceUpdating", STEP)
        .condition("Ready", "False", "NotReady", &format!("* Updating: {STEP}"))
        .condition("Available", "False", "NotReady", "")
        .set("/status/phase", json!("Updating"));
    ["UpToDate", "Updating", "Ready", "Available"]
        .iter()
        .fold(built, |built, type_| built.since(type_, &at(since)))
}

/// What owns the workers, while so many of two are as wanted and one of them is updated.
fn owners(up_to_date: u32, ready: u32, since: i64) -> Vec<Value> {
    let rolls = |built: Builder| {
        let status = if up_to_date < 2 { "True" } else { "False" };
        let reason = if up_to_date < 2 { "RollingOut" } else { "NotRollingOut" };
        let (count, ready) = (json!(up_to_date), json!(ready));
        built
            .set("/status/upToDateReplicas", count)
            .set("/status/readyReplicas", ready.clone())
            .set("/status/availableReplicas", ready)
            .condition("RollingOut", status, reason, "Rolling out not up-to-date replicas")
            .since("RollingOut", &at(since))
    };
    let of_machines = |built: Builder| {
        let (status, reason) = if ready < 2 { ("False", "NotReady") } else { ("True", "Ready") };
        built
            .condition("MachinesReady", status, reason, &format!("* Machine: Updating: {STEP}"))
            .since("MachinesReady", &at(since))
    };
    let deployment = rolls(deployment("a", "a-md", 2));
    let set = of_machines(set("a", "a-md", "a-md-1", 2).set("/status/readyReplicas", json!(ready)));
    vec![deployment.0, set.0]
}

/// Plays what arrives at which second, and collects what is shown of the cluster.
fn word(arrivals: &[(i64, Vec<Value>)], end_s: i64) -> (String, Fleet) {
    let mut fleet = fleet_of(&small_cluster("a"));
    let feed = FeedKey { source: SourceId(0), group: CORE_GROUP.into(), kind: "Cluster".into() };
    fleet.apply(vec![Delta::Feed { feed, state: FeedState::Live, at: now() }]);
    let cluster = fleet.clusters()[0];
    let mut verdicts: Vec<Verdict> = Vec::new();
    for second in 0..=end_s {
        fleet.advance(now() + chrono::Duration::seconds(second));
        let rows = arrivals.iter().filter(|(at, _)| *at == second).flat_map(|(_, objects)| objects);
        fleet.apply(rows.map(|object| Delta::Upsert(row_of(object))).collect());
        verdicts.push(fleet.verdict(cluster));
    }
    verdicts.dedup();
    let letters = verdicts.iter().map(|verdict| verdict.word().chars().next().unwrap_or('?'));
    (letters.collect::<String>().to_uppercase(), fleet)
}

/// Until the first worker is updated: the beginning of all lives here.
fn begun() -> Vec<(i64, Vec<Value>)> {
    vec![
        (10, [owners(0, 2, 10), vec![old(0), old(1)]].concat()),
        (15, [owners(0, 1, 15), vec![updating(0, 15).0]].concat()),
    ]
}

#[test]
fn workers_are_updated_one_after_the_other() {
    let mut life = begun();
    // The kubelet restarts: its Node is not ready for a while.
    let restarts = updating(0, 15).condition("NodeHealthy", "False", "NodeNotHealthy", "* Node.Ready: down");
    life.extend([
        (60, vec![restarts.since("NodeHealthy", &at(60)).0]),
        (120, vec![updating(0, 15).0]),
        (200, [owners(1, 2, 15), vec![worker(0).0]].concat()),
        (203, [owners(1, 1, 203), vec![updating(1, 203).0]].concat()),
        (400, [owners(2, 2, 400), vec![worker(1).0]].concat()),
    ]);
    assert_eq!(word(&life, 500).0, "OPO");
}

#[test]
fn an_update_that_fails_is_blocked_and_one_that_never_ends_is_degraded() {
    let mut life = begun();
    let failed =
        updating(0, 15).condition("Updating", "True", "InPlaceUpdateFailed", "no space left on device");
    life.push((60, vec![failed.since("Updating", &at(15)).0]));
    let (shown, fleet) = word(&life, 500);
    assert_eq!(shown, "OPB");
    let wrong = fleet.what_is_wrong(fleet.clusters()[0]);
    assert!(wrong.ends_with("(md-1-0)") && wrong.contains("no space left on device"), "{wrong}");
    let (shown, fleet) = word(&begun(), 2 * 3600 + 60);
    assert_eq!(shown, "OPD");
    assert!(fleet.what_is_wrong(fleet.clusters()[0]).ends_with("(md-1-0)"));
}
