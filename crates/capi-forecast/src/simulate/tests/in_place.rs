//! Updates in place run ahead of time: what extensions said decides who stays, and what they did not cover is replaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::forecast::{StepAction, forecast};
use crate::simulate::{InPlaceAnswer, InPlaceAnswers, Whom};
use capi_rules::status::in_place::{Covered, Replace, Verdict};
use capi_rules::status::machines::is_updating_in_place;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::ObjectKey;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;

fn answers(kind: &'static str, world: &World, names: Vec<String>, answer: &InPlaceAnswer) -> Way {
    let whom = |name: String| Whom { kind, key: ObjectKey::new(&world.key.namespace, name) };
    let answers = names.into_iter().map(|name| (whom(name), answer.clone())).collect();
    Way {
        in_place: Some(Arc::new(InPlaceAnswers { answers, without_dry_runs: false, gate_is_open: None })),
        ..way()
    }
}

fn covered() -> InPlaceAnswer {
    Ok(Verdict::InPlace { covered: vec![Covered { handler: "patcher".to_owned(), fields: Vec::new() }] })
}

/// A new version for the workers, with these limits.
fn rolled(limits: (u32, u32), answer: &InPlaceAnswer) -> (Course, Ending) {
    let mut world = grown(1, 3);
    let sets = world.all::<MachineSet>().filter_map(|set| set.metadata.name.clone()).collect();
    let way = answers("MachineSet", &world, sets, answer);
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": limits.0, "maxUnavailable": limits.1}});
    let patch =
        json!({"spec": {"template": {"spec": {"version": "v1.34.3"}}, "rollout": {"strategy": strategy}}});
    world.merge::<MachineDeployment>("md", &patch);
    let mut course = course(again(world), way);
    let ending = course.go();
    (course, ending)
}

fn count(course: &Course, what: &str) -> usize {
    sequence(course).iter().filter(|line| line.contains(what)).count()
}

fn lowest(course: &Course, owner: &str) -> (usize, usize) {
    let top = course.world.census.tops().find(|(id, _)| *id == owner).map(|(_, top)| top).expect(owner);
    (top.available_min, top.machines_max)
}

fn of_version(course: &Course, version: &str) -> usize {
    course.world.all::<Machine>().filter(|m| m.spec.version.as_deref() == Some(version)).count()
}

#[test]
fn covered_workers_stay_and_one_at_a_time_is_away() {
    let (course, ending) = rolled((0, 1), &covered());
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    assert_eq!((count(&course, "create Machine "), count(&course, "delete Machine ")), (0, 0));
    assert_eq!(count(&course, "it is updated in place"), 3, "{:#?}", sequence(&course));
    assert_eq!(lowest(&course, "MachineDeployment/md"), (2, 3));
    assert_eq!(of_version(&course, "v1.34.3"), 3);
    let kubelets = course.world.workload.nodes.values().filter_map(|n| n.status.clone()?.node_info);
    assert_eq!(kubelets.filter(|info| info.kubelet_version == "v1.34.3").count(), 3);
}

#[test]
fn one_machine_of_the_surge_lets_the_others_be_updated() {
    let (course, ending) = rolled((1, 0), &covered());
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    let (made, gone) = (count(&course, "create Machine "), count(&course, "delete Machine "));
    assert_eq!((made, gone), (1, 1), "{:#?}", sequence(&course));
    let updated = count(&course, "it is updated in place");
    assert_eq!(updated, 2, "the one that goes stays as it is: {:#?}", sequence(&course));
    assert_eq!(lowest(&course, "MachineDeployment/md"), (3, 4));
}

#[test]
fn what_is_not_covered_is_replaced_and_no_answer_holds() {
    let (course, ending) = rolled((0, 1), &Ok(Verdict::Replace(Replace::NoExtension)));
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    assert_eq!((count(&course, "create Machine "), count(&course, "it is updated in place")), (3, 0));
    let (course, ending) = rolled((0, 1), &Err("connection refused".to_owned()));
    assert_eq!(ending, Ending::Stuck, "{}", report(&course));
    assert!(report(&course).contains("connection refused"), "{}", report(&course));
}

#[test]
fn a_control_plane_is_updated_one_machine_after_the_other() {
    let mut world = grown(3, 0);
    let machines = world.all::<Machine>().filter_map(|m| m.metadata.name.clone()).collect();
    let way = answers("Machine", &world, machines, &covered());
    let limits = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}});
    let patch = json!({"spec": {"version": "v1.35.0", "rollout": {"strategy": limits}}});
    world.merge::<KubeadmControlPlane>("cp", &patch);
    let mut course = course(again(world), way);
    let ending = course.go();
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    assert_eq!((count(&course, "create Machine "), count(&course, "it is updated in place")), (0, 3));
    assert_eq!(lowest(&course, "KubeadmControlPlane/cp"), (2, 3));
    assert_eq!(of_version(&course, "v1.35.0"), 3);
    assert_eq!(course.chronicle.margin_min, Some(1), "no member of etcd goes");
}

/// The world at the first moment at which a Machine is updated in place.
fn in_the_middle(world: &World, way: &Way) -> World {
    for steps in 1..200 {
        let way = Way { until: Until::Steps(steps), ..way.clone() };
        let mut course = course(again(world.clone()), way);
        let ending = course.go();
        assert_eq!(ending, Ending::Reached, "no Machine was updated: {}", report(&course));
        if course.world.all::<Machine>().any(|machine| is_updating_in_place(machine)) {
            return course.world;
        }
    }
    panic!("no Machine was updated in 200 steps");
}

/// What a server would list of it, and `more`.
pub(super) fn dump_of(world: &World, more: &[Value]) -> Dump {
    fn of<K: serde::Serialize>(table: &BTreeMap<ObjectKey, Arc<K>>) -> impl Iterator<Item = Value> {
        table.values().map(|object| serde_json::to_value(object.as_ref()).expect("an object"))
    }
    // Names of new Machines begin anew in a plan: those that are there have others.
    let named = |value: Value| {
        let text = value.to_string().replace("-new", "-old");
        serde_json::from_str::<Value>(&text).expect("an object")
    };
    let objects = of(&world.clusters)
        .chain(of(&world.control_planes))
        .chain(of(&world.machine_deployments))
        .chain(of(&world.machine_sets))
        .chain(of(&world.machines))
        .chain(world.externals.all().cloned())
        .chain(more.iter().cloned());
    Dump::new(objects.map(named).map(Into::into).collect())
}

/// Everything that the plans of a world say is done next, or after that; nobody is asked.
fn planned(world: &World, more: &[Value]) -> Vec<StepAction> {
    let plans = forecast(&dump_of(world, more), world.now).objects;
    let steps = plans.iter().flat_map(|plan| plan.next.iter().chain(&plan.then));
    steps.map(|step| step.does.clone()).collect()
}

fn comes_or_goes(action: &&StepAction) -> bool {
    action.created_machine().is_some() || action.deleted_machine().is_some()
}

/// Run ahead without asking anybody: Machines made, gone, and updated.
fn run_ahead(world: &World) -> [usize; 3] {
    let mut course = course(again(world.clone()), way());
    let ending = course.go();
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    ["create Machine ", "delete Machine ", "it is updated in place"].map(|what| count(&course, what))
}

/// While a pool was updated in place, its plan, what was run ahead and the screens said that these Machines go.
#[test]
fn workers_that_are_updated_in_place_are_never_said_to_go() {
    let mut world = grown(1, 3);
    let sets = world.all::<MachineSet>().filter_map(|set| set.metadata.name.clone()).collect();
    let way = answers("MachineSet", &world, sets, &covered());
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let patch =
        json!({"spec": {"template": {"spec": {"version": "v1.34.3"}}, "rollout": {"strategy": strategy}}});
    world.merge::<MachineDeployment>("md", &patch);
    let middle = in_the_middle(&world, &way);
    assert_eq!(run_ahead(&middle), [0, 0, 3]);
    let steps = planned(&middle, &[]);
    assert_eq!(steps.iter().find(comes_or_goes), None, "{steps:#?}");
    let plans = forecast(&dump_of(&middle, &[]), middle.now).objects;
    let pool = plans.iter().find(|plan| plan.kind == "MachineDeployment").expect("the pool");
    let updates = pool.updates.as_ref().expect("what is expected of its Machines");
    assert!(updates.is_in_place_throughout() && !updates.machines.is_empty(), "{updates:#?}");
}

#[test]
fn control_plane_machines_that_are_updated_in_place_are_never_said_to_go() {
    let mut world = grown(3, 0);
    let machines = world.all::<Machine>().filter_map(|m| m.metadata.name.clone()).collect();
    let way = answers("Machine", &world, machines, &covered());
    let limits = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}});
    let patch = json!({"spec": {"version": "v1.35.0", "rollout": {"strategy": limits}}});
    world.merge::<KubeadmControlPlane>("cp", &patch);
    let middle = in_the_middle(&world, &way);
    assert_eq!(run_ahead(&middle), [0, 0, 3]);
    // The extensions were not asked about the two Machines that are left.
    let steps = planned(&middle, &[]);
    let open = steps.iter().filter(|step| matches!(step, StepAction::UpdateOrReplace { .. })).count();
    assert_eq!(open, 2, "{steps:#?}");
    assert_eq!(steps.iter().find(comes_or_goes), None, "{steps:#?}");
}

/// Before anything moves: what is done either way, then what is not known. Without an extension Machines are replaced.
#[test]
fn where_nobody_was_asked_a_plan_says_both() {
    let extension = json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": "x"},
        "spec": {}, "status": {"handlers": [{"name": "can.x", "requestHook": {
            "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "CanUpdateMachine"}}]},
    });
    for (surge, extensions, expected) in
        [(0, &[extension.clone()][..], [0, 0, 3]), (1, &[extension], [1, 0, 3]), (0, &[], [3, 3, 0])]
    {
        let mut world = grown(3, 0);
        let limits = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}});
        let patch = json!({"spec": {"version": "v1.35.0", "rollout": {"strategy": limits}}});
        world.merge::<KubeadmControlPlane>("cp", &patch);
        let steps = planned(&world, extensions);
        let of = |what: &dyn Fn(&StepAction) -> bool| steps.iter().filter(|step| what(step)).count();
        let counts = [
            of(&|step| step.created_machine().is_some()),
            of(&|step| step.deleted_machine().is_some()),
            of(&|step| matches!(step, StepAction::UpdateOrReplace { .. })),
        ];
        assert_eq!(counts, expected, "surge {surge}: {steps:#?}");
    }
}
