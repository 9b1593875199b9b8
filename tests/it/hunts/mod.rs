//! A whole engine, its server and simulated hosts in one thread on a paused clock, with faults by chance and checkers that share
//! no rule with the planners. A seed that fails prints its command and the smallest schedule that still does.
//!
//! `CAPSTAN_HUNT_SEEDS=N` runs more seeds than the suite has time for, from `CAPSTAN_HUNT_FROM=S` on; `CAPSTAN_HUNT_SEED=S`
//! runs one. `tests/simulate` sets them.

mod schedule;
mod weather;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use capi_types::condition::{Conditioned as _, find, is_true};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::DevMachine;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capstan_base::rng::Rng;
use capstan_engine::workload::Workload as _;
use capstan_worlds::provider::faults::Fault;
use serde_json::{Value, json};

use self::schedule::{Event, Schedule};
use self::weather::Sky;
use crate::simulation::{Sim, labels, manifest, settled, worker_names};

/// So many seeds in the suite.
const SEEDS: u64 = 2;
/// After the last event and the end of the weather a run has this long to settle, or to show what holds it.
const SETTLE_S: u64 = 1_800;
const VERSION: &str = "v1.34.1";
const NEXT_VERSION: &str = "v1.35.0";

fn harbor() -> ObjectKey {
    ObjectKey::new("default", "harbor")
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    Settled,
    /// It waits for what its conditions say.
    Blocked(String),
}

/// One run in a runtime of its own. `Err`: what did not hold.
fn run(schedule: &Schedule) -> Result<Ended, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(live(schedule))));
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default())
    })
}

/// What is wanted at the moment.
struct Wanted {
    workers: i32,
    control_plane_version: &'static str,
    workers_version: &'static str,
}

async fn live(schedule: &Schedule) -> Result<Ended, String> {
    let mut sim = Sim::start(schedule.seed).await;
    let (most, _) = schedule.worker_bounds();
    sim.machines_max = (usize::try_from(schedule.control_plane).unwrap_or(0) + 1, most);
    let mut objects = manifest(schedule.control_plane, schedule.workers);
    objects.extend(checks());
    sim.create(objects).await;
    let (planes, workers) = (count(schedule.control_plane), count(schedule.workers));
    sim.until("the cluster comes up", 600, async |s| settled(s, planes, workers, VERSION).await).await;
    let sky = Sky::new(Rng::seeded(schedule.seed).stream("weather"), schedule.weather);
    let overhead = sky.clone();
    sim.disturb_by(Arc::new(move |request| overhead.disturb(request)));
    let mut wanted = Wanted { workers, control_plane_version: VERSION, workers_version: VERSION };
    let began_s = sim.elapsed_s();
    for (at_s, event) in &schedule.events {
        watch_until(&mut sim, began_s + at_s).await?;
        happen(&mut sim, schedule, event, &mut wanted).await;
    }
    let last_s = sim.elapsed_s() + 60;
    watch_until(&mut sim, last_s).await?;
    sky.clear();
    settle(&mut sim, &wanted, planes).await
}

/// Health checks for both kinds of Machines.
fn checks() -> Vec<Value> {
    let check = |name: &str, selector: Value| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterName": "harbor", "selector": selector,
                "checks": {"unhealthyNodeConditions": [
                    {"type": "Ready", "status": "Unknown", "timeoutSeconds": 60},
                    {"type": "Ready", "status": "False", "timeoutSeconds": 60}]}}})
    };
    vec![
        check("workers", json!({"matchLabels": {"cluster.x-k8s.io/deployment-name": "harbor-md-0"}})),
        check("planes", json!({"matchLabels": {"cluster.x-k8s.io/control-plane": ""}})),
    ]
}

fn count(n: u32) -> i32 {
    i32::try_from(n).expect("few")
}

/// Second by second, with the checkers.
async fn watch_until(sim: &mut Sim, at_s: u64) -> Result<(), String> {
    while sim.elapsed_s() < at_s {
        tokio::time::sleep(Duration::from_secs(1)).await;
        restart_when_dead(sim);
        look(sim).await?;
    }
    Ok(())
}

/// An engine that died at a write is followed by another.
fn restart_when_dead(sim: &mut Sim) {
    if sim.is_killed() {
        let seed = 1_000 + sim.elapsed_s();
        sim.restart(seed);
    }
}

async fn happen(sim: &mut Sim, schedule: &Schedule, event: &Event, wanted: &mut Wanted) {
    let deployment = "harbor-md-0";
    match event {
        Event::Scale(replicas) => {
            wanted.workers = *replicas;
            sim.patch::<MachineDeployment>(deployment, json!({"spec": {"replicas": replicas}})).await;
        }
        Event::UpgradeControlPlane => {
            wanted.control_plane_version = NEXT_VERSION;
            sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"version": NEXT_VERSION}})).await;
        }
        Event::UpgradeWorkers => {
            wanted.workers_version = NEXT_VERSION;
            let body = json!({"spec": {"template": {"spec": {"version": NEXT_VERSION}}}});
            sim.patch::<MachineDeployment>(deployment, body).await;
        }
        Event::Limits(surge, unavailable) => {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
            sim.patch::<MachineDeployment>(deployment, json!({"spec": {"rollout": {"strategy": strategy}}}))
                .await;
        }
        Event::DeleteWorker => {
            if let Some(name) = worker_names(sim).await.first() {
                sim.delete::<Machine>(name).await;
            }
        }
        Event::WorkerFails => {
            if let Some(name) = worker_names(sim).await.first() {
                sim.world.set_fault(&harbor(), Fault::NodeSilent(name.clone()), true);
            }
        }
        Event::MemberFails => fail_member(sim).await,
        Event::Unreachable(seconds) => {
            sim.world.set_fault(&harbor(), Fault::Unreachable, true);
            tokio::time::sleep(Duration::from_secs(*seconds)).await;
            sim.world.set_fault(&harbor(), Fault::Unreachable, false);
        }
        Event::Restart(seconds) => {
            sim.kill_after(0);
            tokio::time::sleep(Duration::from_secs(*seconds)).await;
            sim.restart(schedule.seed + sim.elapsed_s());
        }
        Event::DieAtWrite(creations) => sim.kill_after(*creations),
        Event::ClockJump(seconds) => sim.shift_clock(*seconds),
    }
}

/// A control plane Machine that does not lead etcd falls silent.
async fn fail_member(sim: &Sim) {
    let Ok(view) = sim.world.etcd(&harbor()).await else { return };
    if view.members.len() < 3 {
        return;
    }
    let follower = view.members.iter().find(|member| Some(member.id) != view.leader);
    if let Some(member) = follower {
        sim.world.set_fault(&harbor(), Fault::NodeSilent(member.name.clone()), true);
    }
}

/// What must hold at every moment.
async fn look(sim: &Sim) -> Result<(), String> {
    let machines: Vec<Machine> = sim.list().await;
    let (mut planes, mut workers) = (0, 0);
    for machine in machines.iter().filter(|m| m.metadata.deletion_timestamp.is_none()) {
        let is_plane = labels(machine).any(|label| label == "cluster.x-k8s.io/control-plane");
        *(if is_plane { &mut planes } else { &mut workers }) += 1;
        let owners = machine.metadata.owner_references.iter().flatten();
        if !owners.into_iter().any(|owner| owner.controller == Some(true)) {
            return Err(format!("Machine {:?} has no controller", machine.metadata.name));
        }
    }
    let (planes_max, workers_max) = sim.machines_max;
    if planes > planes_max || workers > workers_max {
        return Err(format!(
            "{planes} + {workers} Machines, {planes_max} + {workers_max} at most are allowed"
        ));
    }
    if let Ok(view) = sim.world.etcd(&harbor()).await
        && !view.members.is_empty()
        && view.leader.is_none()
    {
        return Err(format!("etcd lost its leader by what the engine did: {view:?}"));
    }
    Ok(())
}

/// It comes to rest as it is wanted, or shows what holds it; and nothing is left behind.
async fn settle(sim: &mut Sim, wanted: &Wanted, planes: i32) -> Result<Ended, String> {
    let limit_s = sim.elapsed_s() + SETTLE_S;
    while !is_as_wanted(sim, wanted, planes).await {
        if sim.elapsed_s() >= limit_s {
            return match blocked_by(sim).await {
                Some(why) => Ok(Ended::Blocked(why)),
                None => Err(format!(
                    "not settled after {SETTLE_S} s, and nothing shows why\n{}",
                    state(sim).await
                )),
            };
        }
        let next_s = sim.elapsed_s() + 1;
        watch_until(sim, next_s).await?;
    }
    let (mut machines, mut hosts) = (0, 0);
    for _ in 0..900 {
        (machines, hosts) = (sim.list::<Machine>().await.len(), sim.list::<DevMachine>().await.len());
        if machines == hosts {
            return Ok(Ended::Settled);
        }
        let next_s = sim.elapsed_s() + 1;
        watch_until(sim, next_s).await?;
    }
    Err(format!("{hosts} hosts are left of {machines} Machines"))
}

async fn is_as_wanted(sim: &Sim, wanted: &Wanted, planes: i32) -> bool {
    let Some(plane) = sim.get::<KubeadmControlPlane>("harbor-cp").await else { return false };
    let Some(pool) = sim.get::<MachineDeployment>("harbor-md-0").await else { return false };
    let (plane, pool) = (plane.status.unwrap_or_default(), pool.status.unwrap_or_default());
    let all = |counts: [Option<i32>; 3], want: i32| counts.iter().all(|count| count.unwrap_or(0) == want);
    let machines: Vec<Machine> = sim.list().await;
    let is_right = |machine: &Machine| {
        let is_plane = labels(machine).any(|label| label == "cluster.x-k8s.io/control-plane");
        let version = if is_plane { wanted.control_plane_version } else { wanted.workers_version };
        machine.spec.version.as_deref() == Some(version) && machine.metadata.deletion_timestamp.is_none()
    };
    all([plane.replicas, plane.available_replicas, plane.up_to_date_replicas], planes)
        && all([pool.replicas, pool.available_replicas, pool.up_to_date_replicas], wanted.workers)
        && machines.len() == usize::try_from(planes + wanted.workers).unwrap_or(0)
        && machines.iter().all(is_right)
}

/// A condition that says why it does not go on.
async fn blocked_by(sim: &Sim) -> Option<String> {
    let machines: Vec<Machine> = sim.list().await;
    let unwell = machines.iter().find(|machine| !is_true(machine.conditions(), "Available"));
    if let Some(machine) = unwell {
        // Who was asked to replace it says more than that it is not well.
        let said = |type_: &str| find(machine.conditions(), type_).map(|c| c.message.clone());
        return ["OwnerRemediated", "Ready"].iter().filter_map(|type_| said(type_)).find(|m| !m.is_empty());
    }
    let plane = sim.get::<KubeadmControlPlane>("harbor-cp").await?;
    let pool = sim.get::<MachineDeployment>("harbor-md-0").await?;
    let says = |conditions: &[capi_types::condition::Condition]| {
        let found =
            ["RollingOut", "ScalingUp", "ScalingDown"].iter().filter_map(|type_| find(conditions, type_));
        found.filter(|c| c.status == "True").map(|c| c.message.clone()).find(|m| m.contains("because"))
    };
    let sets: Vec<MachineSet> = sim.list().await;
    let of_sets = || sets.iter().find_map(|set| says(set.conditions()));
    says(plane.conditions()).or_else(|| says(pool.conditions())).or_else(of_sets)
}

async fn state(sim: &Sim) -> String {
    let mut text = String::new();
    for machine in sim.list::<Machine>().await {
        let version = machine.spec.version.clone().unwrap_or_default();
        let going = if machine.metadata.deletion_timestamp.is_some() { " in deletion" } else { "" };
        text.push_str(&format!(
            "  {:?} {version}{going}\n",
            machine.metadata.name.clone().unwrap_or_default()
        ));
        for c in machine.conditions().iter().filter(|c| c.status != "True") {
            text.push_str(&format!("      {}={} {} {:?}\n", c.type_, c.status, c.reason, c.message));
        }
    }
    text
}

/// The smallest schedule found that still fails, and how it fails.
fn shrunk(schedule: Schedule, why: String) -> (Schedule, String) {
    let (mut least, mut why) = (schedule, why);
    // Each success makes it smaller, so that this ends.
    while let Some((smaller, said)) =
        least.smaller().into_iter().find_map(|smaller| run(&smaller).err().map(|said| (smaller, said)))
    {
        (least, why) = (smaller, said);
    }
    (least, why)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn no_fault_breaks_what_must_hold() {
    let first = number("CAPSTAN_HUNT_SEED").or_else(|| number("CAPSTAN_HUNT_FROM")).unwrap_or(1);
    let seeds =
        if number("CAPSTAN_HUNT_SEED").is_some() { 1 } else { number("CAPSTAN_HUNT_SEEDS").unwrap_or(SEEDS) };
    let (mut settled, mut blocked) = (0, 0);
    let began = std::time::Instant::now();
    for seed in first..first + seeds {
        let schedule = Schedule::drawn(seed);
        match run(&schedule) {
            Ok(Ended::Settled) => settled += 1,
            Ok(Ended::Blocked(why)) => {
                blocked += 1;
                println!("seed {seed} waits: {}", why.replace('\n', " "));
            }
            Err(why) => {
                let (least, why) = shrunk(schedule, why);
                panic!("{why}\n{least}again: tests/simulate engine --seed {seed}");
            }
        }
    }
    let took_s = began.elapsed().as_secs_f64();
    println!(
        "whole engine: {seeds} seeds in {took_s:.0} s: {settled} settled, {blocked} blocked and saying why"
    );
    assert!(settled > 0 || seeds < SEEDS, "nothing ever settles");
}
