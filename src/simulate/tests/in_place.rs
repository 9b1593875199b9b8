//! Updates in place run ahead of time: what extensions said decides who stays, and what they did not cover is replaced.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::control_plane::KubeadmControlPlane;
use crate::api::key::ObjectKey;
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_set::MachineSet;
use crate::forecast::in_place::{InPlaceAnswer, InPlaceAnswers, Whom};
use crate::status::in_place::{Covered, Replace, Verdict};

fn answers(kind: &'static str, world: &World, names: Vec<String>, answer: &InPlaceAnswer) -> Way {
    let whom = |name: String| Whom { kind, key: ObjectKey::new(&world.key.namespace, name) };
    let answers = names.into_iter().map(|name| (whom(name), answer.clone())).collect();
    Way { in_place: Some(Arc::new(InPlaceAnswers { answers, without_dry_runs: false })), ..way() }
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
