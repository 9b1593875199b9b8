//! What a MachineHealthCheck changes: how long a Machine may take, and whether anybody replaces it.

use super::*;

const CREATED: &str = "2026-11-20T09:59:00Z";

/// A check of all workers of the cluster `a`.
fn check(spec: Value) -> Builder {
    object("MachineHealthCheck", "a-workers")
        .of("a")
        .set("/spec/selector", json!({"matchLabels": {"pool": "a"}}))
        .set("/spec/checks", spec)
        .condition("RemediationAllowed", "True", "RemediationAllowed", "")
}

/// A worker that has everything but its Node, since a minute before now.
fn boots() -> Builder {
    let built = machine("a", ("MachineSet", "a-md-1"), "a-md-1-9")
        .set("/metadata/creationTimestamp", json!(CREATED))
        .set("/metadata/labels/pool", json!("a"))
        .set("/status/nodeRef", json!({}))
        .condition("NodeHealthy", "Unknown", "InspectionFailed", "Waiting for a Node with spec.providerID x")
        .condition("Ready", "Unknown", "ReadyUnknown", "")
        .condition("Available", "False", "NotReady", "")
        .condition("Deleting", "False", "NotDeleting", "");
    let types = ["BootstrapConfigReady", "InfrastructureReady", "NodeHealthy", "Available", "Deleting"];
    types.into_iter().fold(built, |built, type_| built.since(type_, CREATED))
}

/// A cluster without workers that were up before, which would say how long one takes.
fn cluster_of_new_workers() -> Vec<Value> {
    let mut objects = small_cluster("a");
    objects.retain(|object| {
        !object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("a-md-1-"))
    });
    objects
}

fn verdict_after(check: Option<Builder>, machine: Builder, seconds_: i64) -> Verdict {
    let mut objects = cluster_of_new_workers();
    objects.extend(check.map(|check| check.0));
    objects.push(machine.0);
    let mut fleet = fleet_of(&objects);
    fleet.advance(now() + chrono::Duration::seconds(seconds_));
    fleet.verdict(fleet.clusters()[0])
}

#[test]
fn a_node_has_as_long_as_its_check_gives_it() {
    let short = || check(json!({"nodeStartupTimeoutSeconds": 90}));
    let off = check(json!({"nodeStartupTimeoutSeconds": 0}));
    let others = short().set("/spec/selector", json!({"matchLabels": {"pool": "b"}}));
    for (check, seconds_, expected) in [
        (Some(short()), 29, Verdict::Progressing),
        (Some(short()), 31, Verdict::Degraded),
        (Some(off), 31, Verdict::Progressing),
        (Some(others), 31, Verdict::Progressing),
        (None, 31, Verdict::Progressing),
    ] {
        let words = format!("{:?} {seconds_}", check.as_ref().map(|c| c.0["spec"].to_string()));
        assert_eq!(verdict_after(check, boots(), seconds_), expected, "{words}");
    }
}

#[test]
fn a_condition_lasts_as_long_as_its_check_bears_it() {
    let bears = |list: &str, type_: &str| {
        check(json!({list: [{"type": type_, "status": "False", "timeoutSeconds": 70}]}))
    };
    let sick = || {
        boots()
            .set("/status/nodeRef/name", json!("n"))
            .condition("NodeReady", "False", "NodeNotReady", "no network")
            .since("NodeReady", CREATED)
    };
    for (list, type_, seconds_, expected) in [
        ("unhealthyNodeConditions", "Ready", 9, Verdict::Progressing),
        ("unhealthyNodeConditions", "Ready", 11, Verdict::Degraded),
        ("unhealthyMachineConditions", "NodeReady", 11, Verdict::Degraded),
        ("unhealthyNodeConditions", "DiskPressure", 11, Verdict::Progressing),
    ] {
        assert_eq!(verdict_after(Some(bears(list, type_)), sick(), seconds_), expected, "{list} {type_}");
    }
}

#[test]
fn what_checks_bear_counts_once_they_look_at_it() {
    let bears = |list: &str, type_: &str| {
        check(json!({list: [{"type": type_, "status": "Unknown", "timeoutSeconds": 70}],
            "nodeStartupTimeoutSeconds": 600}))
    };
    let boots = || {
        boots()
            .condition(
                "NodeReady",
                "Unknown",
                "NodeDoesNotExist",
                "Waiting for DevMachine to set spec.providerID",
            )
            .since("NodeReady", CREATED)
    };
    for (list, type_, is_up, expected) in [
        // It has no Node: until the startup timeout upstream looks at none.
        ("unhealthyNodeConditions", "Ready", true, Verdict::Progressing),
        ("unhealthyMachineConditions", "NodeReady", true, Verdict::Degraded),
        ("unhealthyMachineConditions", "NodeReady", false, Verdict::Progressing),
    ] {
        let mut objects = cluster_of_new_workers();
        let cluster = objects.iter_mut().find(|object| object["kind"] == "Cluster").expect("a cluster");
        cluster["status"]["initialization"]["controlPlaneInitialized"] = is_up.into();
        objects.extend([bears(list, type_).0, boots().0]);
        let mut fleet = fleet_of(&objects);
        fleet.advance(now() + chrono::Duration::seconds(11));
        assert_eq!(fleet.verdict(fleet.clusters()[0]), expected, "{list} {type_} {is_up}");
    }
}

#[test]
fn an_unhealthy_machine_that_nobody_may_replace_is_blocked() {
    let sick =
        || boots().condition("HealthCheckSucceeded", "False", "UnhealthyNode", "not ready for 5 minutes");
    let closed = check(json!({})).condition("RemediationAllowed", "False", "TooManyUnhealthy", "");
    assert_eq!(verdict_after(Some(check(json!({}))), sick(), 1), Verdict::Degraded);
    assert_eq!(verdict_after(Some(closed), sick(), 1), Verdict::Blocked);
}

/// The Machine was named as the cause, with the word that its owner replaces it.
#[test]
fn the_check_that_allows_nothing_is_the_cause() {
    let sick =
        || boots().condition("HealthCheckSucceeded", "False", "UnhealthyNode", "not ready for 5 minutes");
    let words = "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy (1/0)";
    let closed = || check(json!({})).condition("RemediationAllowed", "False", "TooManyUnhealthy", words);
    let mut objects = cluster_of_new_workers();
    objects.extend([closed().0, sick().0]);
    let mut fleet = fleet_of(&objects);
    let cluster = fleet.clusters()[0];
    let told = |fleet: &Fleet| {
        let causes = fleet.causes(cluster);
        let named = causes.iter().filter_map(|cause| Some((fleet.row(cause.leaf)?, cause)));
        named.map(|(row, cause)| (row.name.to_string(), cause.verdict)).collect::<Vec<_>>()
    };
    let machine = ("a-md-1-9".to_owned(), Verdict::Blocked);
    assert_eq!(told(&fleet), [("a-workers".to_owned(), Verdict::Blocked), machine]);
    assert!(fleet.what_is_wrong(cluster).starts_with("none is replaced: too many unhealthy (workers)"));
    let check_words = fleet.explanation(fleet.causes(cluster)[0].leaf).expect("words");
    assert!(check_words.check.contains("triggerIf"), "{}", check_words.check);
    let machine_words = fleet.explanation(fleet.causes(cluster)[1].leaf).expect("words");
    assert!(machine_words.means.contains("allows no replacement"), "{}", machine_words.means);
    // A check that allows nothing is not a fault while every Machine is well.
    let well = boots().condition("HealthCheckSucceeded", "True", "Healthy", "");
    fleet.apply(vec![Delta::Upsert(row_of(&well.set("/metadata/resourceVersion", json!("9")).0))]);
    fleet.advance(now() + chrono::Duration::seconds(60));
    assert!(told(&fleet).iter().all(|(name, _)| name != "a-workers"), "{:?}", told(&fleet));
}

#[test]
fn a_check_that_goes_or_changes_is_judged_by_at_once() {
    let mut objects = cluster_of_new_workers();
    objects.extend([check(json!({"nodeStartupTimeoutSeconds": 90})).0, boots().0]);
    let mut fleet = fleet_of(&objects);
    let cluster = fleet.clusters()[0];
    fleet.advance(now() + chrono::Duration::seconds(40));
    assert_eq!(fleet.verdict(cluster), Verdict::Degraded);
    let longer = check(json!({"nodeStartupTimeoutSeconds": 900}));
    let longer = longer.set("/status/expectedMachines", json!(3)).set("/status/currentHealthy", json!(2));
    fleet.apply(vec![Delta::Upsert(row_of(&longer.0))]);
    fleet.advance(now() + chrono::Duration::seconds(60));
    assert_eq!(fleet.verdict(cluster), Verdict::Progressing);
    let nodes = fleet.tree(cluster, &TreeOptions::default()).nodes;
    let last = nodes.last().expect("a node");
    let line = fleet.line(last.item).expect("a line");
    assert_eq!((line.kind, last.depth, last.verdict), ("MachineHealthCheck", 1, Verdict::Ok));
    let counters = line.counters.expect("counters");
    assert_eq!((counters.desired, counters.available), (Some(3), Some(2)));
    assert_eq!(nodes[0].size as usize, nodes.len(), "it stands below the Cluster");
}
