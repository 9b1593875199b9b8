//! Engines that die between the clones of a Machine and the Machine: what is left behind goes after ten
//! minutes, and nothing that a Machine uses goes with it.

use std::time::Duration;

use capi_rules::plan::sweep::Candidate;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::dev::DevMachine;
use capi_types::key::{ObjectRef, controller_of, refers_to};
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capi_types::names::CORE_GROUP;
use capstan_base::rng::Rng;
use capstan_engine::client::Object;
use capstan_engine::controllers::names::Names;
use capstan_engine::controllers::{Caches, Context, sweep};
use capstan_engine::engine::{Engine, EngineOptions};
use serde_json::{Value, json};

use super::simulation::{Sim, manifest, settled};

/// Names of what no Machine has taken over.
async fn unused<K: Object>(sim: &Sim) -> Vec<String> {
    let is_taken = |object: &K| {
        let owners = object.meta().owner_references.iter().flatten();
        owners.into_iter().any(|owner| refers_to(owner, CORE_GROUP, "Machine"))
    };
    let all: Vec<K> = sim.list().await;
    all.iter().filter(|object| !is_taken(object)).filter_map(|object| object.meta().name.clone()).collect()
}

async fn count_unused(sim: &Sim) -> usize {
    unused::<DevMachine>(sim).await.len() + unused::<KubeadmConfig>(sim).await.len()
}

/// Writes of the two controllers that make Machines, by all their runs so far.
fn writes(sim: &Sim) -> usize {
    let entries = sim.handle.trace().entries();
    let makes = |name: &str| matches!(name, "machine-set" | "kubeadm-control-plane");
    entries.iter().filter(|entry| makes(entry.controller)).map(|entry| entry.writes).sum()
}

/// The control plane's host, configuration and Machine, then the set's configuration, host and Machine.
#[tokio::test(start_paused = true)]
async fn a_kill_at_any_write_of_a_creation_leaves_nothing_after_ten_minutes() {
    for (creations, left) in [(1, 1), (2, 2), (3, 0), (4, 1), (5, 2), (6, 0)] {
        let mut sim = Sim::start(41).await;
        sim.kill_after(creations);
        sim.create(manifest(1, 1)).await;
        sim.until("the kill", 180, async |s| s.is_killed()).await;
        sim.restart(42);
        sim.until("1 + 1 machines up", 300, async |s| settled(s, 1, 1, "v1.34.1").await).await;
        assert_eq!(count_unused(&sim).await, left, "left behind by a kill after {creations} creations");

        tokio::time::sleep(Duration::from_secs(480)).await;
        sim.until("nothing left behind", 120, async |s| count_unused(s).await == 0).await;
        let counts = (sim.list::<DevMachine>().await.len(), sim.list::<KubeadmConfig>().await.len());
        assert_eq!(counts, (2, 2), "after {creations} creations");
        let before = writes(&sim);
        tokio::time::sleep(Duration::from_secs(900)).await;
        assert!(settled(&sim, 1, 1, "v1.34.1").await, "after {creations} creations");
        assert_eq!(writes(&sim), before, "a settled fleet is written to");
    }
}

/// What the set made for a Machine `late`, in its newest form.
fn clone_of(object: Value, set: &MachineSet, template: &str) -> Value {
    let mut object = object;
    object["metadata"] = json!({
        "name": "late",
        "namespace": "default",
        "annotations": {
            "cluster.x-k8s.io/cloned-from-name": "harbor-md-0",
            "cluster.x-k8s.io/cloned-from-groupkind": template,
        },
        "ownerReferences": [{
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "controller": true,
            "name": set.metadata.name, "uid": set.metadata.uid,
        }],
    });
    object.as_object_mut().expect("an object").remove("status");
    object
}

/// The engine is dead, and `late`, a host of the set, has been there for longer than ten minutes.
async fn with_late_host() -> (Sim, MachineSet, Value) {
    let sim = Sim::start(43).await;
    sim.create(manifest(1, 1)).await;
    sim.until("1 + 1 machines up", 300, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    sim.kill_after(0);
    let set = sim.list::<MachineSet>().await.remove(0);
    let machines: Vec<Machine> = sim.list().await;
    let of_set = |machine: &&Machine| controller_of(*machine).is_some_and(|owner| owner.kind == "MachineSet");
    let worker = machines.iter().find(of_set).expect("a worker");
    let host: DevMachine = sim.get(&worker.spec.infrastructure_ref.name).await.expect("its host");
    let host = serde_json::to_value(host).expect("an object");
    let late = clone_of(host, &set, "DevMachineTemplate.infrastructure.cluster.x-k8s.io");
    sim.create(vec![late]).await;
    let mut machine = serde_json::to_value(worker).expect("an object");
    machine["metadata"] = json!({"name": "late", "namespace": "default"});
    machine["spec"]["infrastructureRef"]["name"] = json!("late");
    machine.as_object_mut().expect("an object").remove("status");
    tokio::time::sleep(Duration::from_secs(700)).await;
    (sim, set, machine)
}

/// Copies as an engine has them whose watches bring nothing.
fn blind(sim: &Sim) -> Context {
    let client = sim.connection.client.clone();
    let mut engine = Engine::new(client, sim.clock.clone(), Rng::seeded(1), EngineOptions::default());
    Context {
        caches: Caches::of(&mut engine),
        writer: sim.writer.clone(),
        workload: sim.world.clone(),
        clock: sim.clock.clone(),
        rng: Rng::seeded(1),
        names: Names::new(Rng::seeded(1)),
        unchanged: Default::default(),
        events: Default::default(),
        synced_keys: Default::default(),
        asking: Default::default(),
        graces: Default::default(),
    }
}

/// The host as it is now.
async fn seen(sim: &Sim) -> Vec<Candidate> {
    let host = sim.get::<DevMachine>("late").await;
    host.iter().map(|h| Candidate { object: ObjectRef::of(h), metadata: h.metadata.clone() }).collect()
}

#[tokio::test(start_paused = true)]
async fn a_clone_whose_machine_the_engine_has_not_seen_yet_stays() {
    let (sim, set, machine) = with_late_host().await;
    let (context, set, found) = (blind(&sim), ObjectRef::of(&set), seen(&sim).await);
    sim.create(vec![machine]).await;
    assert_eq!(sweep::delete_unused(&context, &set, found.clone()).await.expect("an answer"), None);
    assert!(sim.get::<DevMachine>("late").await.is_some(), "its Machine is there");
    sim.delete::<Machine>("late").await;
    sweep::delete_unused(&context, &set, found).await.expect("an answer");
    assert!(sim.get::<DevMachine>("late").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_changed_since_it_was_seen_stays() {
    let (sim, set, _) = with_late_host().await;
    let (context, set, found) = (blind(&sim), ObjectRef::of(&set), seen(&sim).await);
    sim.patch::<DevMachine>("late", json!({"metadata": {"labels": {"somebody": "takes-it"}}})).await;
    sweep::delete_unused(&context, &set, found).await.expect("a conflict is left for the next time");
    assert!(sim.get::<DevMachine>("late").await.is_some());
    sweep::delete_unused(&context, &set, seen(&sim).await).await.expect("an answer");
    assert!(sim.get::<DevMachine>("late").await.is_none());
}
