//! Rollouts run ahead of time: who acts, when, how low it goes, and where it stands still.

use serde_json::json;

use super::*;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::machine_deployment::MachineDeployment;
use capstan_base::rng::Rng;

fn lowest(course: &Course, owner: &str) -> (usize, usize) {
    let top = course.world.census.tops().find(|(id, _)| *id == owner).map(|(_, top)| top).expect(owner);
    (top.available_min, top.machines_max)
}

/// The world with a merge patch on its MachineDeployment, and its end.
fn rolled(mut world: World, patch: serde_json::Value, way: Way) -> (Course, Ending) {
    world.merge::<MachineDeployment>("md", &patch);
    let mut course = course(again(world), way);
    let ending = course.go();
    (course, ending)
}

fn new_version() -> serde_json::Value {
    json!({"spec": {"template": {"spec": {"version": "v1.34.3"}}}})
}

#[test]
fn a_manifest_comes_up() {
    let world = grown(3, 2);
    assert_eq!(world.all::<Machine>().count(), 5);
    assert_eq!(world.workload.etcd.votes(), (3, 2));
    let since = (world.now - now()).num_seconds();
    assert!((300..900).contains(&since), "three control plane Machines one after the other: {since} s");
}

#[test]
fn workers_roll_one_by_one_and_never_below_their_number() {
    let (course, ending) = rolled(grown(1, 3), new_version(), way());
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    assert_eq!(lowest(&course, "MachineDeployment/md"), (3, 4));
    let versions: Vec<_> = course.world.all::<Machine>().filter_map(|m| m.spec.version.clone()).collect();
    assert_eq!(versions.iter().filter(|v| *v == "v1.34.3").count(), 3, "{versions:?}");
    let told = sequence(&course);
    let created = told.iter().filter(|line| line.contains("create Machine ")).count();
    let deleted = told.iter().filter(|line| line.contains("delete Machine ")).count();
    assert_eq!((created, deleted), (3, 3), "{told:#?}");
}

#[test]
fn without_surge_one_is_missing_at_a_time() {
    let limits = json!({"maxSurge": 0, "maxUnavailable": 1});
    let mut patch = new_version();
    patch["spec"]["rollout"] = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}});
    let (course, ending) = rolled(grown(1, 3), patch, way());
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    assert_eq!(lowest(&course, "MachineDeployment/md").0, 2);
}

#[test]
fn a_control_plane_rolls_and_etcd_keeps_its_quorum() {
    let mut world = grown(3, 0);
    world.merge::<KubeadmControlPlane>("cp", &json!({"spec": {"version": "v1.35.0"}}));
    let mut course = course(again(world), way());
    let ending = course.go();
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    assert_eq!(lowest(&course, "KubeadmControlPlane/cp"), (3, 4));
    assert_eq!(course.chronicle.margin_min, Some(1), "with three members and with four one may fail");
    let told = sequence(&course);
    assert_eq!(told.iter().filter(|line| line.contains("remove etcd member")).count(), 3, "{told:#?}");
    assert_eq!(course.world.workload.etcd.listed().count(), 3);
}

#[test]
fn a_machine_that_never_becomes_a_node_stops_a_rollout() {
    let faults = Faults { stillborn: vec![1], ..Faults::default() };
    let (course, ending) = rolled(grown(1, 3), new_version(), Way { faults, ..way() });
    assert_eq!(ending, Ending::Stuck, "{}", report(&course));
    assert_eq!(lowest(&course, "MachineDeployment/md"), (3, 4), "nothing is taken away for it");
    let waits = course.blockers.values().flatten().map(|b| b.reason.rule).collect::<Vec<_>>();
    assert!(waits.contains(&"waiting-for-infrastructure"), "{waits:?}");
}

#[test]
fn the_order_by_chance_ends_as_the_fixed_one() {
    let world = grown(3, 4);
    for seed in 0..20 {
        let rng = Rng::seeded(seed);
        let (order, tempo) = (Order::Random(rng.stream("order")), Tempo::Drawn(rng.stream("tempo")));
        let (course, ending) = rolled(world.clone(), new_version(), Way { order, tempo, ..way() });
        assert_eq!(ending, Ending::Settled, "seed {seed}\n{}", report(&course));
        let (low, most) = lowest(&course, "MachineDeployment/md");
        assert!(low >= 4 && most <= 5, "seed {seed}: {low} available, {most} Machines");
    }
}

#[test]
fn controllers_that_are_cut_in_the_middle_go_on_later() {
    let world = grown(3, 3);
    for seed in 0..20 {
        let faults = Faults { cut_one_in: Some((4, Rng::seeded(seed))), ..Faults::default() };
        let (course, ending) = rolled(world.clone(), new_version(), Way { faults, ..way() });
        assert_eq!(ending, Ending::Settled, "seed {seed}\n{}", report(&course));
        assert_eq!(course.world.all::<Machine>().count(), 6, "seed {seed}");
    }
}

#[test]
fn a_scheduled_rollout_is_waited_for() {
    let mut world = grown(1, 2);
    let after = world.now + chrono::TimeDelta::minutes(30);
    let patch = json!({"spec": {"rollout": {"after": capstan_base::time::rfc3339(after)}}});
    world.merge::<MachineDeployment>("md", &patch);
    let mut course = course(again(world), way());
    let ending = course.go();
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    let first = course.chronicle.events.first().expect("something happens");
    assert_eq!(first.at_s, 1800, "{}", report(&course));
}

#[test]
fn workers_that_would_be_ahead_of_their_control_plane_are_held() {
    let patch = json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}});
    let (course, ending) = rolled(grown(1, 2), patch, way());
    assert_eq!(ending, Ending::Stuck, "{}", report(&course));
    let waits = course.blockers.values().flatten().map(|b| b.reason.rule).collect::<Vec<_>>();
    assert!(waits.contains(&"preflight"), "{waits:?}");
}
