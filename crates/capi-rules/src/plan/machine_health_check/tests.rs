//! Which writes follow from which judgement: marks, requests for remediation, limits.

use std::sync::Arc;

use chrono::TimeDelta;

use super::*;
use crate::status::machine_health_check::TargetNode;
use capi_types::cluster::Cluster;
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

fn said(type_: &str, status: &str, reason: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": ago(86_400)})
}

fn cluster() -> Cluster {
    object(
        json!({"metadata": {"name": "c", "namespace": "ns", "uid": "c"}, "spec": {}, "status": {"conditions": [
        said("ControlPlaneInitialized", "True", "Why"), said("InfrastructureReady", "True", "Why")]}}),
    )
}

/// Followed already, so that only what is judged is written.
fn check(remediation: &Value) -> MachineHealthCheck {
    let check = object(json!({"metadata": {"name": "mhc", "namespace": "ns", "uid": "mhc", "generation": 1},
        "spec": {"clusterName": "c", "selector": {}, "remediation": remediation, "checks": {"unhealthyNodeConditions": [
            {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]}}}));
    followed_check(&check, &cluster())
}

/// A Machine whose Node says nothing for so long; `None`: the Node is fine.
fn target(name: &str, silent_s: Option<i64>, conditions: &[Value]) -> Target {
    let machine = object(
        json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": ago(86_400),
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "i", "kind": "H", "name": name}},
        "status": {"nodeRef": {"name": format!("node-{name}")}, "conditions": conditions}}),
    );
    let (status, since) = silent_s.map_or(("True", 86_400), |silent_s| ("Unknown", silent_s));
    let ready = json!({"type": "Ready", "status": status, "reason": "R", "lastTransitionTime": ago(since)});
    let node = Arc::new(object(json!({"status": {"conditions": [ready]}})));
    Target { machine: Arc::new(machine), node: TargetNode::Found(node) }
}

fn healthy(name: &str) -> Target {
    target(name, None, &[said("HealthCheckSucceeded", "True", "HealthCheckSucceeded")])
}

fn observed(remediation: Value, targets: Vec<Target>) -> Observed {
    let check = check(&remediation);
    let judged = judged::Observed { check, cluster: cluster(), targets, connected: true, external: None };
    Observed::new(judged, Remediator::default())
}

/// Steps, blockers, and after how many seconds it is looked at again.
fn said_of(o: &Observed) -> (Vec<String>, Vec<String>, Option<u64>) {
    let (_, plan) = plan(o, now());
    let steps = plan.steps.iter().map(|step| {
        let writes: Vec<String> = step.writes.iter().map(ToString::to_string).collect();
        writes.join(" + ")
    });
    let blockers = plan.blockers.iter().map(|blocker| format!("{}: {blocker}", blocker.reason.rule));
    (steps.collect(), blockers.collect(), plan.recheck.map(|delay| delay.as_secs()))
}

const MARKED: &str = "set HealthCheckSucceeded=False/UnhealthyNode, OwnerRemediated=False/WaitingForRemediation of Machine \
                      ns/a + report MachineMarkedUnhealthy on Machine ns/a";

#[test]
fn an_unhealthy_machine_is_left_to_its_owner() {
    for (why, remediation, conditions, expected) in [
        ("for the first time", json!(null), vec![], MARKED),
        (
            "its owner is at work",
            json!(null),
            vec![said("OwnerRemediated", "False", "MachineDeleting")],
            "set HealthCheckSucceeded=False/UnhealthyNode of Machine ns/a + report MachineMarkedUnhealthy on Machine ns/a",
        ),
        ("it was replaced before", json!(null), vec![said("OwnerRemediated", "True", "R")], MARKED),
        ("within the limit", json!({"triggerIf": {"unhealthyLessThanOrEqualTo": 1}}), vec![], MARKED),
        ("within the range", json!({"triggerIf": {"unhealthyInRange": "[1-2]"}}), vec![], MARKED),
    ] {
        let o = observed(remediation, vec![target("a", Some(301), &conditions), healthy("b")]);
        assert_eq!(said_of(&o), (vec![expected.to_owned()], vec![], None), "{why}");
    }
}

#[test]
fn marks_that_stand_are_not_written_again() {
    let o = observed(json!(null), vec![target("a", Some(301), &[])]);
    let (_, first) = plan(&o, now());
    let Some(Write::MachineConditions { conditions, owned, .. }) = first.steps[0].writes.first() else {
        unreachable!("marks come first")
    };
    assert_eq!(*owned, ["HealthCheckSucceeded"], "an owner at work is not overruled");
    let stored: Vec<Value> = conditions.iter().map(|c| serde_json::to_value(c).expect("JSON")).collect();
    let o = observed(json!(null), vec![target("a", Some(301), &stored), healthy("b")]);
    assert_eq!(said_of(&o).0, ["report MachineMarkedUnhealthy on Machine ns/a"]);
    assert_eq!(said_of(&observed(json!(null), vec![healthy("b")])), (vec![], vec![], None), "at rest");
}

#[test]
fn beyond_the_limit_findings_are_written_and_nothing_is_asked_for() {
    let refusal = "Remediation is not allowed, the number of not started or unhealthy machines";
    for (trigger, expected) in [
        (
            json!({"unhealthyLessThanOrEqualTo": 1}),
            format!("{refusal} exceeds maxUnhealthy (total: 3, unhealthy: 2, maxUnhealthy: 1)"),
        ),
        (
            json!({"unhealthyLessThanOrEqualTo": "40%"}),
            format!("{refusal} exceeds maxUnhealthy (total: 3, unhealthy: 2, maxUnhealthy: 40%)"),
        ),
        (
            json!({"unhealthyInRange": "[3-3]"}),
            format!(
                "{refusal} does not fall within the range (total: 3, unhealthy: 2, unhealthyRange: [3-3])"
            ),
        ),
    ] {
        let targets = vec![target("a", Some(301), &[]), target("b", Some(301), &[]), healthy("c")];
        let o = observed(json!({ "triggerIf": trigger }), targets);
        let mark = |name| format!("set HealthCheckSucceeded=False/UnhealthyNode of Machine ns/{name}");
        let (steps, blockers, _) = said_of(&o);
        assert_eq!(
            steps,
            ["report RemediationRestricted on MachineHealthCheck ns/mhc".to_owned(), mark("a"), mark("b")]
        );
        assert_eq!(blockers, [format!("too-many-unhealthy: {expected}")]);
    }
    let starting = target("a", Some(10), &[]);
    let o = observed(json!({"triggerIf": {"unhealthyLessThanOrEqualTo": 0}}), vec![starting]);
    let (steps, blockers, again) = said_of(&o);
    assert_eq!(
        (steps, blockers.len(), again),
        (vec![], 1, Some(291)),
        "no event without a finding; the time counts on"
    );
}

#[test]
fn a_check_looks_again_when_the_next_timeout_has_passed() {
    let targets = vec![target("a", Some(100), &[]), target("b", Some(290), &[]), healthy("c")];
    assert_eq!(said_of(&observed(json!(null), targets)), (vec![], vec![], Some(11)));
}

#[test]
fn a_machine_that_recovered_is_marked() {
    let failed =
        [said("HealthCheckSucceeded", "False", "UnhealthyNode"), said("OwnerRemediated", "False", "R")];
    let o = observed(json!(null), vec![target("a", None, &failed)]);
    assert_eq!(said_of(&o).0, ["set HealthCheckSucceeded=True/HealthCheckSucceeded of Machine ns/a"]);
}

fn outside() -> Value {
    json!({"templateRef": {"apiVersion": "vet.io/v1", "kind": "CureTemplate", "name": "t"}})
}

fn with(template: Option<Value>, requests: &[(&str, bool)], targets: Vec<Target>) -> Observed {
    let judged = observed(outside(), targets).judged;
    let request = |(name, is_leaving): &(&str, bool)| {
        let key = ObjectKey::new("ns", *name);
        let object = ObjectRef { gvk: definition::gvk("vet.io", "v1", "Cure"), key, uid: "u".to_owned() };
        ((*name).to_owned(), RemediationRequest { object, is_leaving: *is_leaving })
    };
    Observed::new(judged, Remediator { template, requests: requests.iter().map(request).collect() })
}

fn cure_template() -> Value {
    json!({"apiVersion": "vet.io/v1", "kind": "CureTemplate", "metadata": {"name": "t", "namespace": "ns"},
        "spec": {"template": {"spec": {"dose": 3}}}})
}

#[test]
fn a_request_is_made_from_the_template_and_taken_back() {
    let ill = |name| target(name, Some(301), &[]);
    let o = with(Some(cure_template()), &[], vec![ill("a"), ill("b")]);
    let asked = |name: &str| {
        format!(
            "create Cure ns/{name} + set HealthCheckSucceeded=False/UnhealthyNode, \
             ExternallyRemediated=False/WaitingForRemediation of Machine ns/{name} + report MachineMarkedUnhealthy on Machine \
             ns/{name}"
        )
    };
    assert_eq!(said_of(&o), (vec![asked("a"), asked("b")], vec![], None));
    let (_, made) = plan(&o, now());
    assert!(!made.steps[0].on_failure.is_independent, "without the first request, the second waits");
    let Write::Create { content, .. } = &made.steps[0].writes[0] else { unreachable!("a request") };
    assert_eq!(content["spec"], json!({"dose": 3}));
    assert_eq!(content["metadata"]["labels"], json!({"cluster.x-k8s.io/cluster-name": "c"}));
    let owner = &content["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&json!("Machine"), &json!("a"), &Value::Null)
    );

    let o = with(Some(cure_template()), &[("a", false)], vec![ill("a")]);
    let under_way = "remediated-outside: Cure a asks for the remediation of Machine a";
    assert_eq!(said_of(&o), (vec![], vec![under_way.to_owned()], None));
    for (leaving, expected) in [(false, vec!["delete Cure ns/a"]), (true, vec![])] {
        let o = with(Some(cure_template()), &[("a", leaving)], vec![healthy("a"), healthy("b")]);
        assert_eq!(said_of(&o).0, expected);
    }
}

#[test]
fn without_its_template_nothing_is_asked_for() {
    let o = with(None, &[], vec![target("a", Some(301), &[]), target("b", None, &[])]);
    let (outcome, _) = plan(&o, now());
    assert!(!outcome.complete);
    let missing = "remediation-template-missing: Error retrieving remediation template CureTemplate ns/t";
    assert_eq!(said_of(&o), (vec![], vec![missing.to_owned()], Some(30)));
}

#[test]
fn a_check_belongs_to_its_cluster() {
    let mut o = observed(json!(null), Vec::new());
    o.judged.check.metadata.labels = None;
    o.judged.check.metadata.owner_references = None;
    assert_eq!(said_of(&o).0, ["patch MachineHealthCheck ns/mhc"]);
}

#[test]
fn what_cannot_be_judged_is_tried_again() {
    let mut o = observed(json!(null), vec![target("a", Some(301), &[])]);
    o.judged.connected = false;
    let sentence =
        "health-unknown: the Machines cannot be checked: there is no connection to the workload cluster";
    assert_eq!(said_of(&o), (vec![], vec![sentence.to_owned()], Some(30)));
    let o = observed(json!({"triggerIf": {"unhealthyInRange": "[5-1]"}}), vec![target("a", Some(301), &[])]);
    assert_eq!(said_of(&o).0, Vec::<String>::new());
}
