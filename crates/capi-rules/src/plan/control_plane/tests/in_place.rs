//! Machines that are updated where they stand: whole rollouts with golden transcripts, and what is asked, written and
//! waited for.

use serde_json::{Value, json};

use super::super::in_place::{asks, question};
use super::super::{Observed, decide};
use super::sequences::{assert_healthy, surge};
use super::world::World;
use crate::plan::{Step, Write};
use crate::status::control_plane::{Template, fixtures};
use crate::status::in_place::{Covered, InPlace, Replace, Verdict};
use capi_types::hook::Hook;
use capi_types::names::annotation;
use capstan_testing::golden::golden;

const NEW: &str = "v1.35.0";

fn can(_: &str) -> Result<Verdict, String> {
    Ok(Verdict::InPlace {
        covered: vec![Covered { handler: "can-update-machine.ext".to_owned(), fields: Vec::new() }],
    })
}

fn cannot(_: &str) -> Result<Verdict, String> {
    Ok(Verdict::Replace(Replace::NoExtension))
}

fn rolled(replicas: i32, max_surge: i32, says: super::world::Says) -> World {
    let mut world = World::running(replicas);
    world.says = Some(says);
    world.say(&format!("version {NEW} in place, maxSurge {max_surge}"));
    surge(&mut world, max_surge);
    world.observed.control_plane.spec.version = NEW.into();
    world.settle();
    assert_healthy(&world, replicas);
    assert!(world.versions().iter().all(|version| *version == NEW));
    world
}

/// The Machine that a step hands to its controller, to be updated where it stands.
fn updated_machine(step: &Step) -> Option<&str> {
    step.writes.iter().find_map(|write| match write {
        Write::Patch { object, body } if object.gvk.kind == "Machine" => {
            let hooks = body["metadata"]["annotations"][annotation::PENDING_HOOKS].as_str()?;
            hooks.contains(Hook::UpdateMachine.as_str()).then_some(object.key.name.as_str())
        }
        _ => None,
    })
}

/// How many of the first Machines are still there.
fn kept(world: &World) -> usize {
    let text = world.transcript();
    let names = world.names();
    names.iter().filter(|name| text.contains(&format!("Machine {name} is updated to {NEW}"))).count()
}

#[test]
fn without_surge_every_machine_is_updated_in_place() {
    let world = rolled(3, 0, can);
    assert_eq!(kept(&world), 3);
    golden("control_plane_in_place_3_surge_0", &world.transcript());
}

#[test]
fn with_surge_the_last_outdated_machine_is_deleted() {
    let world = rolled(3, 1, can);
    assert_eq!(kept(&world), 2);
    golden("control_plane_in_place_3_surge_1", &world.transcript());
}

#[test]
fn a_single_machine_is_replaced_by_the_surge() {
    let world = rolled(1, 1, can);
    assert_eq!(kept(&world), 0);
    golden("control_plane_in_place_1_surge_1", &world.transcript());
}

#[test]
fn an_extension_that_cannot_means_replacement() {
    assert_eq!(kept(&rolled(3, 0, cannot)), 0);
}

#[test]
fn the_fall_back_in_the_middle_replaces_the_rest() {
    let mut world = World::running(3);
    let first = world.names()[0].to_owned();
    world.says = Some(can);
    world.say("version v1.35.0 in place, then the extension changes its mind, maxSurge 0");
    surge(&mut world, 0);
    world.observed.control_plane.spec.version = NEW.into();
    while !world.transcript().contains(&format!("update Machine {first} in place")) {
        world.pass();
    }
    world.says = Some(cannot);
    world.settle();
    assert_healthy(&world, 3);
    assert_eq!(kept(&world), 1);
    golden("control_plane_in_place_fall_back", &world.transcript());
}

#[test]
fn a_rollout_waits_for_an_extension_that_does_not_answer() {
    let mut world = World::running(3);
    world.says = Some(|_| Err("cannot call extension handler x: connection refused".to_owned()));
    surge(&mut world, 0);
    world.observed.control_plane.spec.version = NEW.into();
    for _ in 0..20 {
        world.pass();
    }
    let names = world.names().join(", ");
    assert_eq!(world.names().len(), 3, "nothing was deleted: {names}");
    let decision = world.decide();
    assert_eq!(decision.plan.blockers[0].reason.rule, "extensions-do-not-answer");
    assert!(decision.plan.recheck.is_some(), "it is asked again");
    world.says = Some(can);
    world.settle();
    assert_eq!(kept(&world), 3);
}

/// Three healthy Machines, one of them due for an update in place.
fn outdated() -> Observed {
    let mut o = fixtures::three();
    o.in_place = InPlace::On(std::collections::BTreeMap::new());
    o.control_plane.spec.version = NEW.into();
    let rollout = o.control_plane.spec.rollout.get_or_insert_default();
    rollout.strategy = Some(fixtures::of(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}})));
    o
}

fn answered(mut o: Observed, name: &str) -> Observed {
    o.in_place = InPlace::On([(name.to_owned(), can(name))].into());
    o
}

#[test]
fn what_begins_an_update_is_written_in_upstreams_order() {
    let o = outdated();
    let name = asks(&o, fixtures::now()).expect("a question");
    let plan = decide(answered(o, &name), fixtures::now()).plan;
    let step = plan.steps.iter().find(|s| updated_machine(s) == Some("m1"));
    let step = step.expect("the update");
    let writes: Vec<String> = step.writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        writes,
        [
            "patch Machine default/m1",
            "apply DevMachine default/m1",
            "apply KubeadmConfig default/m1",
            "apply Machine default/m1",
            "patch Machine default/m1",
            "report SuccessfulStartInPlaceUpdate on Machine default/m1",
        ]
    );
    let Write::Apply { intent, .. } = &step.writes[1] else { panic!("an apply") };
    let notes = intent["metadata"]["annotations"].as_object().expect("annotations");
    let keys: Vec<&str> = notes.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [annotation::CLONED_FROM_GROUP_KIND, annotation::CLONED_FROM_NAME, annotation::UPDATE_IN_PROGRESS]
    );
    assert_eq!(intent["metadata"]["labels"], Value::Null);
    let Write::Patch { body, .. } = &step.writes[4] else { panic!("a patch") };
    assert_eq!(*body, json!({"metadata": {"annotations": {annotation::PENDING_HOOKS: "UpdateMachine"}}}));
}

#[test]
fn an_update_that_was_begun_is_finished_first() {
    let mut o = outdated();
    let annotations = o.machines[2].machine.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::UPDATE_IN_PROGRESS.to_owned(), String::new());
    let plan = decide(o.clone(), fixtures::now()).plan;
    assert_eq!(plan.steps.last().expect("a step").reason.rule, "update-begun");
    assert_eq!(plan.steps.last().and_then(|s| updated_machine(s)), Some("m3"));
    o.template = Template::Missing;
    o.machines[2].infrastructure = None;
    o.template = fixtures::three().template;
    let plan = decide(o, fixtures::now()).plan;
    assert_eq!(
        plan.blockers[0].to_string(),
        "failed to complete triggering in-place update for Machine m3, could not compute desired InfraMachine"
    );
}

#[test]
fn people_can_insist_on_a_replacement() {
    for mark in [annotation::DELETE_MACHINE, annotation::REMEDIATE_MACHINE] {
        let mut o = outdated();
        for owned in &mut o.machines {
            let annotations = owned.machine.metadata.annotations.get_or_insert_default();
            annotations.insert(mark.to_owned(), String::new());
        }
        assert_eq!(asks(&o, fixtures::now()), None, "{mark}");
    }
    let mut o = outdated();
    o.in_place = InPlace::Off;
    assert_eq!(asks(&o, fixtures::now()), None, "the gate is closed");
}

#[test]
fn a_candidate_that_is_not_well_is_replaced() {
    let mut o = outdated();
    let name = asks(&o, fixtures::now()).expect("a question");
    assert_eq!(name, "m1");
    if let crate::status::control_plane::Workload::Reached(facts) = &mut o.workload
        && let Ok(pods) = &mut facts.pods
    {
        pods.retain(|pod| pod.metadata.name.as_deref() != Some("kube-scheduler-node-m1"));
    }
    let plan = decide(o, fixtures::now()).plan;
    let last = plan.steps.last().expect("a step");
    assert_eq!(last.deleted_machine(), Some("m1"));
    assert_eq!(
        last.reason.sentence,
        "Version v1.34.1, v1.35.0 required; not in place: it is not well, and all others are"
    );
}

#[test]
fn the_question_has_both_sides_without_what_is_kept_in_step() {
    let o = outdated();
    let asked = question(&o, "m1").expect("a question");
    assert_eq!(asked.machine["spec"]["version"], "v1.34.1");
    assert_eq!(asked.machine_intent["spec"]["version"], NEW);
    let [current, desired] = &asked.infrastructure;
    assert_eq!(current["metadata"]["labels"], desired["metadata"]["labels"]);
    let [current, desired] = &asked.bootstrap;
    assert_eq!(current["metadata"], desired["metadata"]);
    let [before, after] = asked.sides(&asked.machine_intent, &asked.infrastructure);
    assert_eq!(before.machine["spec"]["version"], "v1.34.1");
    assert_eq!(after.machine["spec"]["version"], NEW);
    assert!(before.machine.get("status").is_none(), "a status is not sent");
    let mut gone = o;
    gone.machines[0].bootstrap = None;
    let why = question(&gone, "m1").expect_err("no configuration");
    assert_eq!(why.to_string(), "KubeadmConfig is not there to be compared");
}
