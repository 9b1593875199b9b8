//! Tables for the verdicts on Machines, for the limit, and for what is written.

use serde_json::{Value, json};

use super::*;
use crate::status::tests::witness;
use capstan_base::time::{parse_rfc3339, rfc3339};

fn now() -> Timestamp {
    parse_rfc3339("2026-01-01T12:00:00Z").expect("a moment")
}

fn ago(seconds: i64) -> String {
    rfc3339(now() - TimeDelta::seconds(seconds))
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn said(type_: &str, status: &str, since: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "Why", "message": "", "lastTransitionTime": since})
}

fn cluster() -> Cluster {
    object(json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": {}, "status": {"conditions": [
        said("ControlPlaneInitialized", "True", &ago(86_400)), said("InfrastructureReady", "True", &ago(86_400))]}}))
}

fn check(spec: Value) -> MachineHealthCheck {
    let mut all = json!({"clusterName": "c", "selector": {"matchLabels": {"pool": "a"}}});
    k8s_machinery::merge::apply(&mut all, &spec);
    object(json!({"metadata": {"name": "mhc", "namespace": "ns", "generation": 1}, "spec": all}))
}

fn machine(name: &str) -> Machine {
    object(json!({"metadata": {"name": name, "namespace": "ns", "creationTimestamp": ago(86_400),
            "labels": {"cluster.x-k8s.io/cluster-name": "c", "pool": "a"}},
        "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "i", "kind": "DevMachine", "name": name}},
        "status": {"nodeRef": {"name": format!("node-{name}")}}}))
}

fn node(conditions: Value) -> TargetNode {
    TargetNode::Found(Arc::new(object(json!({"status": {"conditions": conditions}}))))
}

fn with_node(name: &str) -> Target {
    Target { machine: machine(name).into(), node: node(json!([])) }
}

fn annotated(mut target: Target, key: &str) -> Target {
    Arc::make_mut(&mut target.machine)
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(key.to_owned(), String::new());
    target
}

fn observed(spec: Value, targets: Vec<Target>) -> Observed {
    Observed { check: check(spec), cluster: cluster(), targets, connected: true, external: None }
}

fn health(o: &Observed) -> String {
    match classify(o, &o.targets[0], now()) {
        TargetHealth::Healthy => "healthy".to_owned(),
        TargetHealth::Untouched => "untouched".to_owned(),
        TargetHealth::Pending { next_check } => format!("pending {}", next_check.num_seconds()),
        TargetHealth::Unhealthy { reason, message } => format!("{reason} {message}"),
    }
}

fn lasting(since: i64) -> Target {
    let ready = json!([said("Ready", "Unknown", &ago(since))]);
    Target { machine: machine("a").into(), node: node(ready) }
}

fn node_checks() -> Value {
    json!({"checks": {"unhealthyNodeConditions": [
        {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}, {"type": "Other", "status": "True", "timeoutSeconds": 1}]}})
}

#[test]
fn a_node_condition_counts_after_its_timeout() {
    for (since, expected) in [
        (299, "pending 2"),
        (300, "pending 1"),
        (
            301,
            "UnhealthyNode Health check failed:\n  * Condition Ready on Node is reporting status Unknown with reason Why \
             for more than 5m0s",
        ),
        (-60, "pending 361"),
    ] {
        assert_eq!(health(&observed(node_checks(), vec![lasting(since)])), expected, "{since}");
    }
}

/// Its Node had registered, and only the reference to it was late.
#[test]
fn a_machine_whose_node_is_there_did_start_up() {
    let mut unreferenced = machine("a");
    unreferenced.status.as_mut().expect("a status").node_ref = None;
    let target = |node: TargetNode| Target { machine: unreferenced.clone().into(), node };
    let startup = "NodeStartupTimeout Health check failed:\n  * Node failed to report startup in 10m0s";
    for (node, expected, blames) in
        [(TargetNode::None, startup, true), (TargetNode::Unrecorded, "untouched", false)]
    {
        let o = observed(json!({}), vec![target(node)]);
        assert_eq!((health(&o).as_str(), blames_nodes(&o, now())), (expected, blames));
    }
}

#[test]
fn nodes_are_blamed_before_a_replacement_is_asked_for_and_not_after() {
    let gone = || Target { machine: machine("a").into(), node: TargetNode::Gone };
    assert!(blames_nodes(&observed(node_checks(), vec![with_node("b"), gone()]), now()));
    assert!(blames_nodes(&observed(node_checks(), vec![lasting(301)]), now()));
    assert!(!blames_nodes(&observed(node_checks(), vec![lasting(299), with_node("b")]), now()));
    let by_hand = annotated(with_node("b"), annotation::REMEDIATE_MACHINE);
    assert!(!blames_nodes(&observed(node_checks(), vec![by_hand]), now()), "no Node is the reason");
    let mut asked = gone();
    *Arc::make_mut(&mut asked.machine).conditions_mut() =
        vec![object(said("OwnerRemediated", "False", &ago(1)))];
    assert!(!blames_nodes(&observed(node_checks(), vec![asked]), now()));
    let unconnected = Observed { connected: false, ..observed(node_checks(), vec![gone()]) };
    assert!(!blames_nodes(&unconnected, now()));
}

#[test]
fn machine_conditions_come_first_and_name_the_reason() {
    let mut spec = node_checks();
    spec["checks"]["unhealthyMachineConditions"] =
        json!([{"type": "Ready", "status": "False", "timeoutSeconds": 60}]);
    let mut target = lasting(301);
    *Arc::make_mut(&mut target.machine).conditions_mut() = vec![object(said("Ready", "False", &ago(61)))];
    assert_eq!(
        health(&observed(spec.clone(), vec![target.clone()])),
        "UnhealthyMachine Health check failed:\n  * Condition Ready on Machine is reporting status False with reason Why \
         for more than 1m0s\n  * Condition Ready on Node is reporting status Unknown with reason Why for more than 5m0s"
    );
    target.node = node(json!([]));
    *Arc::make_mut(&mut target.machine).conditions_mut() = vec![object(said("Ready", "False", &ago(59)))];
    assert_eq!(health(&observed(spec, vec![target])), "pending 2");
}

#[test]
fn a_machine_without_node_has_ten_minutes_from_the_last_thing_it_waits_for() {
    let waiting = |since: i64, checks: Value| {
        let mut machine = machine("a");
        machine.status = None;
        *machine.conditions_mut() = vec![object(said("InfrastructureReady", "True", &ago(since)))];
        health(&observed(
            json!({ "checks": checks }),
            vec![Target { machine: machine.into(), node: TargetNode::None }],
        ))
    };
    let late = "NodeStartupTimeout Health check failed:\n  * Node failed to report startup in";
    assert_eq!(waiting(600, json!({})), "pending 1");
    assert_eq!(waiting(601, json!({})), format!("{late} 10m0s"));
    assert_eq!(waiting(601, json!({"nodeStartupTimeoutSeconds": 900})), "pending 300");
    assert_eq!(waiting(45, json!({"nodeStartupTimeoutSeconds": 30})), format!("{late} 30s"));
    assert_eq!(waiting(90_000, json!({"nodeStartupTimeoutSeconds": 0})), "untouched");
}

#[test]
fn special_machines_have_their_own_verdicts() {
    let gone = Target { machine: machine("a").into(), node: TargetNode::Gone };
    assert_eq!(
        health(&observed(json!({}), vec![gone])),
        "NodeDeleted Health check failed:\n  * Node node-a has been deleted"
    );
    let marked = annotated(with_node("a"), "cluster.x-k8s.io/remediate-machine");
    assert_eq!(
        health(&observed(json!({}), vec![marked])),
        "HasRemediateAnnotation Health check failed: marked for remediation via cluster.x-k8s.io/remediate-machine annotation"
    );
    let mut leaving = with_node("a");
    Arc::make_mut(&mut leaving.machine).metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(now()));
    assert_eq!(health(&observed(json!({}), vec![leaving])), "untouched");
    assert_eq!(health(&observed(json!({}), vec![with_node("a")])), "healthy");
}

#[test]
fn nothing_is_checked_before_the_cluster_is_up() {
    let mut o = observed(node_checks(), vec![lasting(1000)]);
    o.cluster.conditions_mut().retain(|c| c.type_ != "InfrastructureReady");
    assert_eq!(health(&o), "healthy", "a Machine with a Node passes unchecked, as upstream has it");
    let mut o = observed(json!({}), vec![Target { machine: machine("a").into(), node: TargetNode::None }]);
    o.cluster.conditions_mut().retain(|c| c.type_ != "ControlPlaneInitialized");
    assert_eq!(health(&o), "untouched");
    let labels = Arc::make_mut(&mut o.targets[0].machine).metadata.labels.get_or_insert_default();
    labels.insert("cluster.x-k8s.io/control-plane".to_owned(), String::new());
    assert!(health(&o).starts_with("NodeStartupTimeout"), "control plane Machines are always checked");
}

/// `healthy` good Machines, then `bad` ones marked by hand.
fn fleet(spec: Value, healthy: usize, bad: usize) -> Observed {
    let names: Vec<String> = (0..healthy + bad).map(|i| format!("m{i}")).collect();
    let targets = names
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let target = with_node(name);
            if i < healthy { target } else { annotated(target, "cluster.x-k8s.io/remediate-machine") }
        })
        .collect();
    observed(spec, targets)
}

fn trigger(value: Value) -> Value {
    json!({"remediation": {"triggerIf": value}})
}

#[test]
fn the_limit_is_a_number_a_share_or_a_range() {
    const TOO_MANY: &str =
        "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy";
    const OUTSIDE: &str = "Remediation is not allowed, the number of not started or unhealthy machines does not fall within the range";
    for (value, healthy, bad, left, refusal) in [
        (json!({}), 0, 3, 0, None),
        (json!({}), 3, 0, 3, None),
        (json!({"unhealthyLessThanOrEqualTo": 2}), 1, 2, 0, None),
        (
            json!({"unhealthyLessThanOrEqualTo": 1}),
            1,
            2,
            0,
            Some(format!("{TOO_MANY} (total: 3, unhealthy: 2, maxUnhealthy: 1)")),
        ),
        (json!({"unhealthyLessThanOrEqualTo": "40%"}), 3, 2, 0, None),
        (
            json!({"unhealthyLessThanOrEqualTo": "40%"}),
            2,
            2,
            0,
            Some(format!("{TOO_MANY} (total: 4, unhealthy: 2, maxUnhealthy: 40%)")),
        ),
        (json!({"unhealthyInRange": "[1-3]"}), 2, 1, 2, None),
        (json!({"unhealthyInRange": "[1-3]"}), 0, 3, 0, None),
        (
            json!({"unhealthyInRange": "[1-3]"}),
            2,
            0,
            0,
            Some(format!("{OUTSIDE} (total: 2, unhealthy: 0, unhealthyRange: [1-3])")),
        ),
        (
            json!({"unhealthyInRange": "[1-3]"}),
            0,
            4,
            0,
            Some(format!("{OUTSIDE} (total: 4, unhealthy: 4, unhealthyRange: [1-3])")),
        ),
    ] {
        let outcome = judge(&fleet(trigger(value.clone()), healthy, bad), now());
        let expected = match &refusal {
            None => ("True", "RemediationAllowed", ""),
            Some(message) => ("False", "TooManyUnhealthy", message.as_str()),
        };
        let conditions = &outcome.status.conditions;
        witness::expect("MachineHealthCheck", conditions, "RemediationAllowed", expected);
        assert_eq!(outcome.status.remediations_allowed, Some(left), "{value}");
        assert_eq!(outcome.status.expected_machines, Some(int(healthy + bad)));
        assert_eq!(outcome.status.current_healthy, Some(int(healthy)));
    }
}

#[test]
fn a_limit_that_makes_no_sense_stops_the_pass() {
    for (value, error) in [
        (json!({"unhealthyInRange": "[3-1]"}), "unhealthyInRange \"[3-1]\" is no range like [1-3]"),
        (json!({"unhealthyInRange": "some"}), "unhealthyInRange \"some\" is no range like [1-3]"),
        (
            json!({"unhealthyLessThanOrEqualTo": "few"}),
            "unhealthyLessThanOrEqualTo \"few\" is no number or percentage",
        ),
    ] {
        let outcome = judge(&fleet(trigger(value), 1, 1), now());
        assert_eq!(
            (outcome.failure, outcome.marks.len()),
            (Some(PassFailure::BadLimit(error.to_owned())), 0)
        );
        let counted = (outcome.status.expected_machines, outcome.status.current_healthy);
        assert_eq!(counted, (Some(2), Some(1)), "what was counted before is written");
        assert_eq!(outcome.status.remediations_allowed, None);
    }
    let mut away = fleet(json!({}), 1, 1);
    away.connected = false;
    let outcome = judge(&away, now());
    assert_eq!(outcome.failure, Some(PassFailure::NotConnected));
    let types: Vec<&str> = outcome.status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!((types, outcome.status.expected_machines), (vec!["Paused"], None));
    away.cluster.conditions_mut().clear();
    assert_eq!(judge(&away, now()).failure, None, "before initialization no Node is asked for");
}

/// Every mark as `machine: TYPE=STATUS/REASON…`, those that are not written in brackets.
fn marked(o: &Observed) -> Vec<String> {
    let outcome = judge(o, now());
    let text = |c: &Condition| format!("{}={}/{}", c.type_, c.status, c.reason);
    let line = |m: &Mark| {
        let conditions: Vec<String> = m.conditions.iter().map(text).collect();
        let line = format!("{}: {}", m.machine, conditions.join(" "));
        if m.persisted { line } else { format!("[{line}]") }
    };
    outcome.marks.iter().map(line).collect()
}

#[test]
fn owners_are_asked_when_remediation_is_allowed() {
    let good = "m0: HealthCheckSucceeded=True/HealthCheckSucceeded";
    let bad = "m1: HealthCheckSucceeded=False/HasRemediateAnnotation";
    let mut o = fleet(json!({}), 1, 1);
    assert_eq!(marked(&o), [good, &format!("{bad} OwnerRemediated=False/WaitingForRemediation")]);
    *Arc::make_mut(&mut o.targets[1].machine).conditions_mut() =
        vec![object(said("OwnerRemediated", "False", &ago(5)))];
    assert_eq!(marked(&o), [good, bad], "the owner is at work");
    *Arc::make_mut(&mut o.targets[1].machine).conditions_mut() =
        vec![object(said("OwnerRemediated", "True", &ago(5)))];
    assert!(marked(&o)[1].ends_with("WaitingForRemediation"));
    Arc::make_mut(&mut o.targets[1].machine).metadata.deletion_timestamp =
        Some(capstan_base::time::to_k8s(now()));
    assert_eq!(marked(&o), [good, bad], "it is leaving already");
    let too_many = fleet(trigger(json!({"unhealthyLessThanOrEqualTo": 0})), 1, 1);
    assert_eq!(marked(&too_many), [good, bad]);
}

#[test]
fn an_external_request_is_made_once_and_failures_are_not_written() {
    let with = |template_exists, creation_fails, requests: &[&str]| {
        let mut o = fleet(json!({}), 1, 2);
        o.external = Some(ExternalRemediation {
            kind: "FixTemplate".to_owned(),
            template: "ns/fix".to_owned(),
            template_exists,
            creation_fails,
            requests: requests.iter().map(|r| (*r).to_owned()).collect(),
        });
        o
    };
    let good = "m0: HealthCheckSucceeded=True/HealthCheckSucceeded";
    let bad = |name: &str| format!("{name}: HealthCheckSucceeded=False/HasRemediateAnnotation");
    let made = |name: &str| format!("{} ExternallyRemediated=False/WaitingForRemediation", bad(name));
    assert_eq!(marked(&with(true, false, &[])), [format!("[{good}]"), made("m1"), made("m2")]);
    assert_eq!(
        marked(&with(true, false, &["m0", "m1"])),
        [good.to_owned(), format!("[{}]", bad("m1"))],
        "a request that exists ends the work on unhealthy Machines"
    );
    let missing = with(false, false, &[]);
    assert_eq!(
        marked(&missing)[1],
        format!("[{} ExternallyRemediated=False/RemediationTemplateNotFound]", bad("m1"))
    );
    let outcome = judge(&missing, now());
    assert_eq!(
        outcome.marks[1].conditions[1].message,
        "Error retrieving remediation template FixTemplate ns/fix"
    );
    assert!(!outcome.complete, "upstream ends the pass with an error");
    assert!(!judge(&with(true, true, &[]), now()).complete);
    assert!(judge(&with(true, false, &["m0", "m1"]), now()).complete);
    assert_eq!(
        marked(&with(true, true, &[]))[1],
        format!("[{} ExternallyRemediated=False/RemediationRequestCreationFailed]", bad("m1"))
    );
}

#[track_caller]
fn expect_mark(o: &Observed, at: usize, type_: &str, expected: (&str, &str, &str)) {
    let outcome = judge(o, now());
    witness::expect("Machine by MachineHealthCheck", &outcome.marks[at].conditions, type_, expected);
}

#[test]
fn every_mark_on_a_machine() {
    const CHECKED: &str = "HealthCheckSucceeded";
    expect_mark(&fleet(json!({}), 1, 0), 0, CHECKED, ("True", CHECKED, ""));
    let annotated =
        "Health check failed: marked for remediation via cluster.x-k8s.io/remediate-machine annotation";
    expect_mark(&fleet(json!({}), 0, 1), 0, CHECKED, ("False", "HasRemediateAnnotation", annotated));
    let asked = ("False", "WaitingForRemediation", "Waiting for remediation");
    expect_mark(&fleet(json!({}), 0, 1), 0, "OwnerRemediated", asked);
    let gone = Target { machine: machine("a").into(), node: TargetNode::Gone };
    let message = "Health check failed:\n  * Node node-a has been deleted";
    expect_mark(&observed(json!({}), vec![gone]), 0, CHECKED, ("False", "NodeDeleted", message));
    let message = "Health check failed:\n  * Condition Ready on Node is reporting status Unknown with reason Why for more than 5m0s";
    expect_mark(
        &observed(node_checks(), vec![lasting(301)]),
        0,
        CHECKED,
        ("False", "UnhealthyNode", message),
    );
    let mut late = machine("a");
    late.status = None;
    let message = "Health check failed:\n  * Node failed to report startup in 10m0s";
    let late = Target { machine: late.into(), node: TargetNode::None };
    expect_mark(&observed(json!({}), vec![late]), 0, CHECKED, ("False", "NodeStartupTimeout", message));
    let mut bad = with_node("a");
    *Arc::make_mut(&mut bad.machine).conditions_mut() = vec![object(said("Ready", "False", &ago(61)))];
    let checks = json!({"checks": {"unhealthyMachineConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 60}]}});
    let message = "Health check failed:\n  * Condition Ready on Machine is reporting status False with reason Why for more than 1m0s";
    expect_mark(&observed(checks, vec![bad]), 0, CHECKED, ("False", "UnhealthyMachine", message));
}

#[test]
fn every_mark_of_an_external_remediation() {
    const TYPE: &str = "ExternallyRemediated";
    let with = |template_exists, creation_fails| {
        let mut o = fleet(json!({}), 0, 1);
        let (kind, template) = ("FixTemplate".to_owned(), "ns/fix".to_owned());
        let requests = BTreeSet::new();
        o.external = Some(ExternalRemediation { kind, template, template_exists, creation_fails, requests });
        o
    };
    expect_mark(&with(true, false), 0, TYPE, ("False", "WaitingForRemediation", ""));
    let missing = "Error retrieving remediation template FixTemplate ns/fix";
    expect_mark(&with(false, false), 0, TYPE, ("False", "RemediationTemplateNotFound", missing));
    expect_mark(&with(true, true), 0, TYPE, ("False", "RemediationRequestCreationFailed", CHECK_LOGS));
}

#[test]
fn who_is_a_target() {
    let check = check(json!({}));
    assert!(is_target(&check, &machine("a")));
    for change in [
        json!({"labels": {"pool": "b"}}),
        json!({"labels": {"cluster.x-k8s.io/cluster-name": "other"}}),
        json!({"namespace": "elsewhere"}),
        json!({"annotations": {"cluster.x-k8s.io/paused": ""}}),
        json!({"annotations": {"cluster.x-k8s.io/skip-remediation": ""}}),
    ] {
        let mut value = serde_json::to_value(machine("a")).expect("JSON");
        k8s_machinery::merge::apply(&mut value["metadata"], &change);
        assert!(!is_target(&check, &object(value)), "{change}");
    }
}

#[test]
fn targets_are_named_in_order_and_the_next_look_is_the_soonest() {
    let mut o = fleet(node_checks(), 2, 1);
    o.targets.reverse();
    let mut soon = lasting(290);
    Arc::make_mut(&mut soon.machine).metadata.name = Some("m9".to_owned());
    o.targets.push(soon);
    let outcome = judge(&o, now());
    assert_eq!(outcome.status.targets, ["m0", "m1", "m2", "m9"]);
    assert_eq!(outcome.recheck, Some(TimeDelta::seconds(11)));
    let types: Vec<&str> = outcome.status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["RemediationAllowed", "Paused"]);
}
