//! What explains a verdict: which causes, in which order, how many objects each.

use super::*;

fn worker(name: &str) -> Builder {
    machine("a", ("MachineSet", "a-md-1"), name)
}

fn sick(name: &str, message: &str) -> Value {
    worker(name).condition("NodeHealthy", "False", "NodeNotHealthy", message).0
}

fn words(fleet: &Fleet) -> Vec<String> {
    fleet.causes(fleet.clusters()[0]).into_iter().map(|cause| cause.words).collect()
}

#[test]
fn two_faults_are_two_causes_and_the_worse_comes_first() {
    let mut objects = small_cluster("a");
    let missing =
        "Scaling up from 0 to 1 replicas is blocked because:\n* DevMachineTemplate gpu does not exist";
    objects.push(deployment("a", "a-gpu", 0).condition("ScalingUp", "True", "ScalingUp", missing).0);
    objects.push(sick("a-md-1-9", "* Node.Ready: down"));
    let fleet = fleet_of(&objects);
    let cluster = fleet.clusters()[0];
    assert_eq!(words(&fleet), ["DevMachineTemplate gpu does not exist (gpu)", "down (md-1-9)"]);
    assert_eq!(fleet.what_is_wrong(cluster), "DevMachineTemplate gpu does not exist (gpu) +1 more");
    let leaf = fleet.causes(cluster)[1].leaf;
    let names: Vec<&str> = fleet
        .chain(cluster, leaf)
        .iter()
        .map(|hop| fleet.row(hop.id).expect("there").name.as_ref())
        .collect();
    assert_eq!(names, ["a", "a-md", "a-md-1", "a-md-1-9"]);
}

#[test]
fn the_same_trouble_on_many_objects_is_one_cause() {
    let mut objects = small_cluster("a");
    for at in 0..16 {
        objects.push(sick(&format!("a-md-1-x{at}"), "* Node.Ready: down"));
    }
    let fleet = fleet_of(&objects);
    assert_eq!(words(&fleet), ["down (16 Machines)"]);
    assert_eq!(fleet.causes(fleet.clusters()[0])[0].count, 16);
    // Other words for the same reason are said in plain words.
    objects.push(sick("a-md-1-y", "* Node.Ready: out of disk"));
    assert_eq!(words(&fleet_of(&objects)), ["the Node is not healthy (17 Machines)"]);
}

#[test]
fn evidence_has_its_age_and_is_explained() {
    let mut objects = small_cluster("a");
    objects.push(
        worker("a-md-1-9")
            .condition("NodeHealthy", "False", "NodeNotHealthy", "")
            .since("NodeHealthy", "2026-11-20T09:38:00Z")
            .0,
    );
    let fleet = fleet_of(&objects);
    let leaf = fleet.cause(fleet.clusters()[0]).pop().expect("a chain");
    assert_eq!(leaf.since, parse_rfc3339("2026-11-20T09:38:00Z"));
    let words = fleet.explanation(leaf.id).expect("an explanation");
    assert!(words.check.contains("MachineHealthCheck"), "{words:?}");
}

#[test]
fn what_a_condition_names_can_be_followed() {
    let mut objects = small_cluster("a");
    let message = "* Machines a-md-1-0, a-md-1-1, gone:\n  * NodeHealthy: down";
    objects[3] = set("a", "a-md", "a-md-1", 2).condition("MachinesReady", "False", "NotReady", message).0;
    let fleet = fleet_of(&objects);
    let set = fleet.find(SourceId(0), Uid::parse("MachineSet/a-md-1")).expect("there");
    let names: Vec<&str> =
        fleet.mentioned(set).into_iter().map(|id| fleet.row(id).expect("there").name.as_ref()).collect();
    assert_eq!(names, ["a-md-1-0", "a-md-1-1"]);
    let details = fleet.details(set).expect("there");
    assert_eq!(details.links.iter().filter(|link| link.relation == Relation::Mentioned).count(), 2);
}
