//! Whole lives: create, scale, roll out, remediate, delete. Bounds are checked after every step by
//! the world; the transcripts are golden and meant to be read.

use chrono::TimeDelta;

use super::world::World;
use crate::status::conditions::setter::{self, condition};
use crate::status::control_plane::fixtures::of;
use capi_types::condition::Status;
use capi_types::control_plane::ControlPlaneStrategy;
use capi_types::names::annotation;
use capstan_base::time::to_k8s;
use capstan_testing::golden::golden;

pub fn surge(world: &mut World, max_surge: i32) {
    let strategy: ControlPlaneStrategy = of(serde_json::json!({
        "type": "RollingUpdate", "rollingUpdate": { "maxSurge": max_surge },
    }));
    world.observed.control_plane.spec.rollout.get_or_insert_default().strategy = Some(strategy);
    world.max_surge = usize::try_from(max_surge).unwrap();
    world.machines_max = world.observed.machines.len() + world.max_surge;
}

/// The steady state of a healthy control plane.
pub fn assert_healthy(world: &World, replicas: i32) {
    for (type_, expected) in [
        ("Available", "True/Available"),
        ("Initialized", "True/Initialized"),
        ("CertificatesAvailable", "True/Available"),
        ("EtcdClusterHealthy", "True/Healthy"),
        ("ControlPlaneComponentsHealthy", "True/Healthy"),
        ("MachinesReady", "True/Ready"),
        ("MachinesUpToDate", "True/UpToDate"),
        ("RollingOut", "False/NotRollingOut"),
        ("ScalingUp", "False/NotScalingUp"),
        ("ScalingDown", "False/NotScalingDown"),
        ("Remediating", "False/NotRemediating"),
        ("Deleting", "False/NotDeleting"),
        ("Paused", "False/NotPaused"),
    ] {
        assert_eq!(world.condition(type_), expected, "{type_}\n{}", world.transcript());
    }
    let status = world.observed.control_plane.status.as_ref().unwrap();
    let counters =
        [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
    assert_eq!(counters, [Some(replicas); 4]);
    assert_eq!(world.members.len(), usize::try_from(replicas).unwrap());
}

#[test]
fn three_machines_come_up_one_after_the_other() {
    let mut world = World::new(3);
    world.settle();
    assert_healthy(&world, 3);
    golden("control_plane_create_3", &world.transcript());
}

#[test]
fn scaling_from_three_to_one_to_five() {
    let mut world = World::running(3);
    world.say("scale to 1");
    world.set_replicas(1);
    world.settle();
    assert_healthy(&world, 1);
    world.say("scale to 5");
    world.set_replicas(5);
    world.settle();
    assert_healthy(&world, 5);
    golden("control_plane_scale_3_1_5", &world.transcript());
}

#[test]
fn a_version_change_rolls_with_surge_one() {
    let mut world = World::running(3);
    let before: Vec<String> = world.names().iter().map(ToString::to_string).collect();
    world.say("version v1.35.0, maxSurge 1");
    surge(&mut world, 1);
    world.observed.control_plane.spec.version = "v1.35.0".into();
    world.settle();
    assert_healthy(&world, 3);
    assert_eq!(world.versions(), ["v1.35.0"; 3]);
    assert!(world.names().iter().all(|name| !before.contains(&(*name).to_owned())));
    golden("control_plane_rollout_surge_1", &world.transcript());
}

#[test]
fn a_template_change_rolls_without_surge() {
    let mut world = World::running(3);
    world.say("another infrastructure template, maxSurge 0");
    surge(&mut world, 0);
    world.observed.control_plane.spec.machine_template.spec.infrastructure_ref.name = "bigger".into();
    if let super::super::Template::Found(template) = &mut world.observed.template {
        template["metadata"]["name"] = "bigger".into();
    }
    world.settle();
    assert_healthy(&world, 3);
    golden("control_plane_rollout_surge_0", &world.transcript());
}

#[test]
fn a_rollout_waits_for_its_moment_and_says_when_to_look_again() {
    let mut world = World::running(1);
    surge(&mut world, 1);
    let before = world.names()[0].to_owned();
    let moment = world.now + TimeDelta::minutes(30);
    world.observed.control_plane.spec.rollout.get_or_insert_default().after = Some(to_k8s(moment));
    world.settle();
    assert_eq!(world.names(), [before.as_str()], "too early");
    let recheck = world.decide().plan.recheck.expect("a moment to look again");
    let left = (moment - world.now).to_std().unwrap();
    assert_eq!(recheck, left + std::time::Duration::from_secs(1));
    world.now = moment + TimeDelta::seconds(1);
    world.settle();
    assert_eq!(world.names().len(), 1);
    assert_ne!(world.names(), [before.as_str()]);
    assert_healthy(&world, 1);
    assert_eq!(world.decide().plan.recheck, None);
}

#[test]
fn nothing_happens_while_paused_and_everything_after() {
    let mut world = World::running(1);
    world.observed.cluster.spec.paused = Some(true);
    world.set_replicas(3);
    let decision = world.decide();
    assert!(decision.paused && decision.plan.steps.is_empty());
    assert_eq!(decision.plan.blockers[0].to_string(), "Cluster spec.paused is set to true");
    world.observed.cluster.spec.paused = None;
    world.settle();
    assert_healthy(&world, 3);
}

#[test]
fn an_unhealthy_machine_is_replaced_and_the_replacement_remembers() {
    let mut world = World::running(3);
    let bad = world.names()[1].to_owned();
    world.say("the API server of the second Machine fails; its health check asks for remediation");
    world.broken.push(bad.clone());
    let now = world.now;
    for type_ in ["HealthCheckSucceeded", "OwnerRemediated"] {
        let list = &mut world.machine(&bad).machine.status.as_mut().unwrap().conditions;
        setter::set(list, condition(type_, Status::False, "Test", ""), None, now);
    }
    world.settle();
    assert_healthy(&world, 3);
    assert!(!world.names().contains(&bad.as_str()));
    let noted = |m: &&crate::status::control_plane::OwnedMachine| {
        m.annotation(annotation::REMEDIATION_FOR).is_some_and(|note| note.contains(&bad))
    };
    assert_eq!(world.observed.machines.iter().filter(noted).count(), 1);
    let last = world.observed.control_plane.status.as_ref().unwrap().last_remediation.clone().unwrap();
    assert_eq!((last.machine.as_str(), last.retry_count), (bad.as_str(), 0));
    golden("control_plane_remediation", &world.transcript());
}

#[test]
fn a_broken_machine_blocks_scaling_until_it_recovers() {
    let mut world = World::running(3);
    let bad = world.names()[0].to_owned();
    world.broken.push(bad);
    world.set_replicas(5);
    world.settle();
    assert_eq!(world.names().len(), 3);
    let status = world.observed.control_plane.status.as_ref().unwrap();
    let scaling = capi_types::condition::find(&status.conditions, "ScalingUp").unwrap();
    assert_eq!(
        scaling.message,
        "Scaling up from 3 to 5 replicas is blocked because:\n* waiting for control plane components to become healthy"
    );
    world.broken.clear();
    world.settle();
    assert_healthy(&world, 5);
}

#[test]
fn deletion_waits_for_workers_and_takes_all_machines_at_once() {
    let mut world = World::running(3);
    world.say("deleted while a worker exists");
    world.observed.worker_machines = vec!["worker-1".into()];
    world.observed.control_plane.metadata.deletion_timestamp = Some(to_k8s(world.now));
    world.settle();
    assert_eq!(world.names().len(), 3);
    assert_eq!(world.condition("Deleting"), "True/WaitingForWorkersDeletion");
    world.say("the worker is gone");
    world.observed.worker_machines.clear();
    world.settle();
    assert!(world.names().is_empty());
    assert_eq!(world.observed.control_plane.metadata.finalizers, None);
    golden("control_plane_delete", &world.transcript());
}

#[test]
fn a_lost_machine_leaves_a_member_that_is_removed_before_its_replacement_comes() {
    let mut world = World::running(3);
    let lost = world.names()[2].to_owned();
    world.say("the third Machine vanishes without farewell");
    world.observed.machines.retain(|m| m.name() != lost);
    world.settle();
    assert_healthy(&world, 3);
    golden("control_plane_lost_machine", &world.transcript());
}
