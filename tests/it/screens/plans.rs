//! What a planner says, in a tree and in details, and when it is asked.

use capi_forecast::forecast::{Forecast, Held, NextStep, ObjectPlan, Seen, State, StepAction};
use capstan_dashboard::tui::plans::PlanReading;

use super::*;

/// Plans as a server's would be read for the cluster that rolls.
fn plans_of_the_rolling_cluster() -> Forecast {
    let step = |does: StepAction, reason: &str| NextStep {
        does,
        count: 1,
        rule: "rollout".to_owned(),
        reason: reason.to_owned(),
        is_bookkeeping: false,
    };
    let of = |kind, name: &str, within: &[&str], state| ObjectPlan {
        kind,
        namespace: "prod".to_owned(),
        name: name.to_owned(),
        cluster: "prod-us-2".to_owned(),
        state,
        next: Vec::new(),
        then: Vec::new(),
        updates: None,
        blockers: Vec::new(),
        next_look: None,
        assumptions: Vec::new(),
        has_members: false,
        within: within.iter().map(|id| (*id).to_owned()).collect(),
    };
    let cluster = of("Cluster", "prod-us-2", &[], State::Settled);
    let mut plane = of("KubeadmControlPlane", "prod-us-2-cp", &["Cluster/prod-us-2"], State::Acting);
    let name = |name: &str| format!("prod-us-2-cp-{name}");
    let delete = StepAction::Delete { kind: "Machine".to_owned(), name: name("b5gxk") };
    let create =
        StepAction::CreateControlPlaneMachine { name: name("new1"), joins: true, failure_domain: None };
    plane.next = vec![step(delete, "Version v1.34.3, v1.35.1 required")];
    plane.then = vec![step(create, "1 not up-to-date, maxSurge is 1")];
    plane.assumptions = vec!["the workload cluster was not asked".to_owned()];
    let within = ["MachineDeployment/prod-us-2-md-0", "Cluster/prod-us-2"];
    let mut set = of("MachineSet", "prod-us-2-md-0-8ppx6", &within, State::Blocked);
    set.blockers = vec![Held {
        rule: "preflight".to_owned(),
        sentence: "KubeadmControlPlane prod/prod-us-2-cp is upgrading".to_owned(),
        on_its_way: false,
        evidence: vec![Seen {
            object: "KubeadmControlPlane prod/prod-us-2-cp".to_owned(),
            condition: Some("RollingOut".to_owned()),
            field: None,
            value: "True RollingOut".to_owned(),
            message: "Rolling out 2 not up-to-date replicas".to_owned(),
            since: Some("2026-11-20T11:51:00Z".to_owned()),
        }],
    }];
    Forecast {
        api_version: "capstan/v1alpha1",
        kind: "Plan",
        at: "2026-11-20T12:00:00Z".to_owned(),
        objects: vec![cluster, plane, set],
        remarks: vec!["Secret objects were not read".to_owned()],
    }
}

fn is_plan(effect: &&Effect) -> bool {
    matches!(effect, Effect::Read { subject: Subject::Plans(_), .. })
}

/// Answers the question for plans among `effects`.
fn answer_plans(model: &mut Model, effects: Vec<Effect>, plans: Result<Forecast, String>) -> u64 {
    let asked = effects.into_iter().filter_map(|effect| match effect {
        Effect::Read { subject: subject @ Subject::Plans(_), wait_ms, .. } => Some((subject, wait_ms)),
        _ => None,
    });
    let mut asked: Vec<_> = asked.collect();
    let (subject, wait_ms) = asked.pop().expect("asked");
    assert!(asked.is_empty(), "asked once");
    let reading = PlanReading { plans, ahead: None, authors: Vec::new(), took_ms: 900 };
    let outcome = EffectOutcome::Read { subject, reading: Reading::Plans(reading) };
    assert_eq!(update(model, Msg::Done(outcome)).len(), 0, "nothing is asked again");
    wait_ms
}

#[test]
fn a_tree_says_what_is_next_and_what_blocks_it() {
    let mut model = sample(PLAIN);
    let effects = keys(&mut model, "\":tree prod-us-2\" enter");
    assert_eq!(answer_plans(&mut model, effects, Ok(plans_of_the_rolling_cluster())), 0);
    keys(&mut model, "down");
    golden::screen("tree-next-80x24", &text(&mut model));
    keys(&mut model, "/ \"8ppx6\" enter end up up");
    assert!(text(&mut model).contains("blocked because KubeadmControlPlane prod/prod-us-2-cp is upgrading"));
}

#[test]
fn the_details_have_a_plan() {
    for (name, eyes, typed) in
        [("plan-control-plane-80x24", PLAIN, "down 4"), ("plan-cluster-200x50", LARGE, "4")]
    {
        let mut model = sample(eyes);
        let effects = keys(&mut model, "\":tree prod-us-2\" enter");
        answer_plans(&mut model, effects, Ok(plans_of_the_rolling_cluster()));
        assert_eq!(keys(&mut model, typed).iter().filter(is_plan).count(), 0);
        golden::screen(name, &text(&mut model));
    }
    let mut model = sample(PLAIN);
    let effects = keys(&mut model, "\":tree prod-us-2\" enter 4");
    assert!(text(&mut model).contains("reading the cluster"));
    answer_plans(&mut model, effects, Err("the server does not answer".to_owned()));
    assert!(text(&mut model).contains("the server does not answer"));
}

#[test]
fn plans_are_read_again_only_after_a_change_of_their_cluster() {
    let mut model = sample(PLAIN);
    let effects = keys(&mut model, "\":tree prod-us-2\" enter");
    answer_plans(&mut model, effects, Ok(plans_of_the_rolling_cluster()));
    assert!(told(&mut model, Msg::Tick).is_empty() && keys(&mut model, "down up").is_empty());
    assert!(told(&mut model, Msg::Fleet(fixture::sample())).is_empty(), "the same again is no change");
    let effects = told(&mut model, Msg::Fleet(fixture::renewed("prod-us-2-cp")));
    let wait_ms = answer_plans(&mut model, effects, Ok(plans_of_the_rolling_cluster()));
    assert_eq!(wait_ms, 9_000, "ten times what reading took");
    let effects = told(&mut model, Msg::Fleet(fixture::renewed("prod-eu-1")));
    assert!(effects.is_empty(), "another cluster");
}

#[test]
fn a_large_cluster_is_read_only_when_its_plan_is_opened() {
    let mut model = model(PLAIN, fixture::large(1, 1_001));
    assert_eq!(keys(&mut model, "enter").iter().filter(is_plan).count(), 0);
    assert_eq!(keys(&mut model, "4").iter().filter(is_plan).count(), 1);
}
