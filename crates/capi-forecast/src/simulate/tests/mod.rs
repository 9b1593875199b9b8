//! Worlds grown from manifests, and what becomes of them.

mod following;
mod hunted;
mod in_place;
mod lives;
mod rollouts;
mod sequences;

use std::time::Duration;

use serde_json::{Value, json};

use super::agenda::Order;
use super::begin::{Beginning, too_large, world_of};
use super::chronicle::{Chronicle, Detail};
use super::course::{Course, Ending};
use super::hosts::HostState;
use super::timing::{Span, Tempo, Timing};
use super::timings::Timings;
use super::way::{Actors, Faults, Until, Way};
use super::world::World;
use super::{Scenario, simulate};
use capi_rules::observe::dump::Dump;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_base::time::{Timestamp, parse_rfc3339};

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

/// A minute for a host, half a minute for its Node, 40 seconds to drain, 20 to take a host down.
fn timing() -> Timing {
    Timing {
        bootstrap: Span::exactly(2),
        infrastructure: Span::new(50, 60, 90),
        node: Span::new(20, 30, 60),
        drain: Span::new(20, 40, 60),
        removal: Span::new(10, 20, 30),
        update: Span::new(10, 30, 60),
        cluster: Span::exactly(30),
    }
}

fn way() -> Way {
    let horizon = Duration::from_secs(3600);
    Way {
        order: Order::Fixed,
        actors: Actors::All,
        tempo: Tempo::Usual,
        until: Until::Settled,
        horizon,
        faults: Faults::default(),
        in_place: None,
    }
}

/// Cluster `c` with a control plane and one MachineDeployment, as they are first written down.
fn manifest(control_plane: u32, workers: u32) -> Vec<Value> {
    let reference = |group: &str, kind: &str, name: &str| json!({"apiGroup": format!("{group}cluster.x-k8s.io"), "kind": kind, "name": name});
    let object = |group: &str, kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": format!("{group}cluster.x-k8s.io/v1beta2"), "kind": kind,
               "metadata": {"name": name, "namespace": "n", "uid": name, "creationTimestamp": "2026-11-20T10:00:00Z",
                   "generation": 1, "labels": {"cluster.x-k8s.io/cluster-name": "c"}}, "spec": spec})
    };
    let mine = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/deployment-name": "md"});
    let host = json!({"template": {"spec": {}}});
    vec![
        object(
            "",
            "Cluster",
            "c",
            json!({
            "controlPlaneRef": reference("controlplane.", "KubeadmControlPlane", "cp"),
            "infrastructureRef": reference("infrastructure.", "XCluster", "c")}),
        ),
        object("infrastructure.", "XCluster", "c", json!({})),
        object("infrastructure.", "XMachineTemplate", "t", host),
        object("bootstrap.", "KubeadmConfigTemplate", "b", json!({"template": {"spec": {}}})),
        object(
            "controlplane.",
            "KubeadmControlPlane",
            "cp",
            json!({
            "replicas": control_plane, "version": "v1.34.1",
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "machineTemplate": {"spec": {"infrastructureRef": reference("infrastructure.", "XMachineTemplate", "t")}},
            "kubeadmConfigSpec": {}}),
        ),
        object(
            "",
            "MachineDeployment",
            "md",
            json!({
            "clusterName": "c", "replicas": workers, "selector": {"matchLabels": mine},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
            "template": {"metadata": {"labels": mine}, "spec": {
                "clusterName": "c", "version": "v1.34.1",
                "bootstrap": {"configRef": reference("bootstrap.", "KubeadmConfigTemplate", "b")},
                "infrastructureRef": reference("infrastructure.", "XMachineTemplate", "t")}}}),
        ),
    ]
}

fn begun(objects: Vec<Value>) -> Beginning {
    let dump = Dump::new(objects.into_iter().map(Into::into).collect());
    world_of(&dump, &ObjectKey::new("n", "c"), now()).expect("the Cluster")
}

fn course(begun: Beginning, way: Way) -> Course {
    let at = begun.world.now;
    let mut timings = Timings::default();
    timings.kinds.insert("XMachine".to_owned(), timing());
    Course::new(begun, way, timings, Chronicle::new(Detail::Sequence, at))
}

/// A Cluster that came up and has nothing to do.
fn grown(control_plane: u32, workers: u32) -> World {
    let mut course = course(begun(manifest(control_plane, workers)), way());
    let ending = course.go();
    assert_eq!(ending, Ending::Settled, "{}", report(&course));
    course.world
}

/// The world goes on from here.
fn again(mut world: World) -> Beginning {
    let up = HostState { next: None, is_stuck: false };
    let hosts = world.all::<Machine>().map(|m| (m.metadata.name.clone().expect("a name"), up)).collect();
    world.census.begin();
    let _ = world.take_changes();
    Beginning { world, hosts, assumptions: Vec::new() }
}

/// What happened, and who waits for what.
fn report(course: &Course) -> String {
    let mut text = String::new();
    for event in &course.chronicle.events {
        text.push_str(&format!("{:>5} {}: {} [{}]\n", event.at_s, event.who, event.does, event.why));
    }
    for machine in course.world.all::<Machine>() {
        let conditions = machine.status.iter().flat_map(|s| &s.conditions).filter(|c| c.status != "True");
        for c in conditions {
            let name = machine.metadata.name.as_deref().unwrap_or_default();
            text.push_str(&format!("      {name} {}={}/{} {:?}\n", c.type_, c.status, c.reason, c.message));
        }
    }
    for (actor, blockers) in &course.blockers {
        for blocker in blockers {
            text.push_str(&format!("      {}/{} waits: {blocker}\n", actor.kind.name(), actor.name));
        }
    }
    text
}

/// Only what happened to Machines and replicas: seconds, who, what.
fn sequence(course: &Course) -> Vec<String> {
    course.chronicle.events.iter().map(|e| format!("{} {}: {}", e.at_s, e.who, e.does)).collect()
}

/// A typing error in a number of replicas must not take the memory of the host.
#[test]
fn a_cluster_that_is_too_large_is_refused_with_the_reason() {
    let key = ObjectKey::new("n", "c");
    let dump = |workers| Dump::new(manifest(3, workers).into_iter().map(Into::into).collect());
    assert_eq!(too_large(&dump(99_997), &key), None);
    let large = dump(u32::try_from(i32::MAX).expect("a number"));
    let why = "Cluster n/c is not simulated: it wants 2147483650 Machines, and 100000 are the most";
    assert_eq!(too_large(&large, &key).as_deref(), Some(why));
    assert!(world_of(&large, &key, now()).is_none());
    let told = simulate(&large, None, &Scenario::default(), now());
    assert!(told.clusters.is_empty() && told.remarks.contains(&why.to_owned()), "{:?}", told.remarks);
}
