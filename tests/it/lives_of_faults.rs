//! Lives of clusters in which something breaks, as words over O, P, U, D and B (see `lives`), and how long a fault takes
//! to be shown beyond the time that it is allowed. `docs/verdicts.md` has the same table for people.

use capi_types::dev::PODS_ANNOTATION;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_dashboard::fleet::Verdict;
use capstan_worlds::provider::faults::Fault;
use serde_json::{Value, json};

use super::lives::Recorder;
use super::simulation::{labels, manifest, worker_names};

/// A fault is shown so soon after the end of what it is allowed, seconds.
const DELAY_MAX_S: u64 = 20;

fn harbor() -> ObjectKey {
    ObjectKey::new("default", "harbor")
}

/// A well cluster whose workers run these Pods.
async fn with_pods(seed: u64, pods: Value) -> Recorder {
    let mut life = Recorder::start(seed).await;
    let mut objects = manifest(1, 2);
    for object in &mut objects {
        if object["kind"] == "DevMachineTemplate" && object["metadata"]["name"] == "harbor-md-0" {
            object["spec"]["template"]["metadata"] =
                json!({"annotations": {PODS_ANNOTATION: pods.to_string()}});
        }
    }
    life.sim.create(objects).await;
    life.settle(1, 2, "v1.34.1").await;
    life.begin().await;
    life
}

/// Holds how long `verdict` took to be shown after `began_s` plus what it is allowed, and prints it.
#[track_caller]
fn shown_in_time(life: &Recorder, what: &str, verdict: Verdict, began_s: u64, allowed_s: u64) {
    let at_s = life.shown_at(verdict, began_s).unwrap_or_else(|| panic!("{what}: missed\n{}", life.story()));
    let delay_s = at_s.saturating_sub(began_s + allowed_s);
    println!(
        "{what}: {verdict} {} s after the fault, {delay_s} s late, changes {}",
        at_s - began_s,
        life.changes()
    );
    assert!(delay_s <= DELAY_MAX_S, "{what}: {delay_s} s late\n{}", life.story());
    assert!(at_s >= began_s, "{what}: shown before the fault\n{}", life.story());
}

#[tokio::test(start_paused = true)]
async fn a_node_dies_and_nobody_replaces_it() {
    let mut life = Recorder::well(31, 1, 2).await;
    let name = worker_names(&life.sim).await.pop().expect("a worker");
    let began_s = life.sim.elapsed_s();
    life.sim.world.set_fault(&harbor(), Fault::NodeNotReady(name.clone()), true);
    life.run(300).await;
    life.expect("OD");
    shown_in_time(&life, "a Node is not ready", Verdict::Degraded, began_s, 15);
    let short = name.trim_start_matches("harbor-");
    assert!(life.story().contains(short), "the cause is the Machine that broke\n{}", life.story());
    life.sim.world.set_fault(&harbor(), Fault::NodeNotReady(name), false);
    life.run(120).await;
    life.expect("ODO");
}

#[tokio::test(start_paused = true)]
async fn a_node_dies_and_its_health_check_replaces_it() {
    let mut life = Recorder::start(38).await;
    let mut objects = manifest(1, 2);
    objects.push(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers", "namespace": "default"},
        "spec": {"clusterName": "harbor",
            "selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": "harbor-md-0"}},
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 60}]}}}));
    life.sim.create(objects).await;
    life.settle(1, 2, "v1.34.1").await;
    life.begin().await;
    let name = worker_names(&life.sim).await.pop().expect("a worker");
    let began_s = life.sim.elapsed_s();
    life.sim.world.set_fault(&harbor(), Fault::NodeNotReady(name.clone()), true);
    life.run(120).await;
    life.settle(1, 2, "v1.34.1").await;
    life.expect("ODPO");
    shown_in_time(&life, "a Node that a check replaces", Verdict::Degraded, began_s, 15);
    assert!(!worker_names(&life.sim).await.contains(&name), "it was replaced");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_is_silent() {
    let mut life = Recorder::well(32, 1, 2).await;
    let name = worker_names(&life.sim).await.pop().expect("a worker");
    let began_s = life.sim.elapsed_s();
    life.sim.world.set_fault(&harbor(), Fault::NodeSilent(name), true);
    life.run(300).await;
    life.expect("OD");
    shown_in_time(&life, "a kubelet is silent", Verdict::Degraded, began_s, 15);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_and_goes_is_one_fault() {
    let mut life = Recorder::well(33, 1, 2).await;
    let name = worker_names(&life.sim).await.pop().expect("a worker");
    for _ in 0..4 {
        life.sim.world.set_fault(&harbor(), Fault::NodeNotReady(name.clone()), true);
        life.run(60).await;
        life.sim.world.set_fault(&harbor(), Fault::NodeNotReady(name.clone()), false);
        life.run(60).await;
    }
    assert!(life.changes() <= 4, "not one change for each turn: {}\n{}", life.word(), life.story());
    life.run(900).await;
    assert!(life.word().ends_with('O'), "quiet again: {}\n{}", life.word(), life.story());
}

#[tokio::test(start_paused = true)]
async fn the_api_of_a_workload_cluster_is_gone_for_a_while() {
    for (gone_s, word) in [(40, "O"), (180, "OUO"), (480, "OUDO")] {
        let mut life = Recorder::well(34, 3, 2).await;
        life.sim.world.set_fault(&harbor(), Fault::Unreachable, true);
        life.run(gone_s).await;
        life.sim.world.set_fault(&harbor(), Fault::Unreachable, false);
        life.run(300).await;
        assert_eq!(life.word(), word, "gone for {gone_s} s\n{}", life.story());
    }
}

#[tokio::test(start_paused = true)]
async fn an_etcd_member_of_an_old_machine_breaks() {
    let mut life = Recorder::well(35, 3, 0).await;
    let machines: Vec<Machine> = life.sim.list().await;
    let is_control_plane = |m: &&Machine| labels(*m).any(|l| l == "cluster.x-k8s.io/control-plane");
    let name =
        machines.iter().find(is_control_plane).and_then(|m| m.metadata.name.clone()).expect("a Machine");
    let began_s = life.sim.elapsed_s();
    life.sim.world.set_fault(&harbor(), Fault::EtcdNoSpace(name), true);
    life.run(300).await;
    life.expect("OD");
    // The control plane looks at its members about once a minute.
    shown_in_time(&life, "an etcd member is full", Verdict::Degraded, began_s, 75);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_released_in_time() {
    let mut life =
        with_pods(36, json!([{"name": "web", "budgetSeconds": 120, "terminationSeconds": 5}])).await;
    life.upgrade_control_plane().await;
    life.upgrade_workers().await;
    life.run(10).await;
    life.settle(1, 2, "v1.35.0").await;
    life.expect("OPO");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_never_released() {
    let mut life =
        with_pods(37, json!([{"name": "web", "budgetSeconds": 100_000, "terminationSeconds": 5}])).await;
    let name = worker_names(&life.sim).await.pop().expect("a worker");
    let began_s = life.sim.elapsed_s();
    life.sim.delete::<Machine>(&name).await;
    life.run(1200).await;
    life.expect("OPB");
    shown_in_time(&life, "a drain that a budget holds", Verdict::Blocked, began_s, 300);
    assert!(life.story().contains("disruption budget"), "{}", life.story());
}
