//! Lives of clusters as sequences of verdicts: our engine and simulated machines under a paused clock, watched
//! by the model of the dashboard, which is looked at every second. Repeats are collapsed, so that a life is a
//! word over O (ok), P (progressing), U (unknown), D (degraded) and B (blocked). `docs/verdicts.md` has the
//! same table for people.

use std::time::Duration;

use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;
use capstan_dashboard::fleet::watch::{self, Scope};
use capstan_dashboard::fleet::{Delta, Fleet, SourceId, Verdict};
use serde_json::{Value, json};

use super::simulation::{Sim, manifest, settled, worker_names};

/// What came in during a life, by when: to be played again without an engine.
#[derive(Clone)]
pub struct Recording {
    pub batches: Vec<(Timestamp, Vec<Delta>)>,
    /// From when on the life counts.
    pub begins: Timestamp,
    pub ends: Timestamp,
}

/// What the dashboard shows of one life.
pub struct Recorder {
    pub sim: Sim,
    fleet: Fleet,
    batches: tokio::sync::mpsc::Receiver<Vec<Delta>>,
    _source: watch::Source,
    /// Second, verdict and cause, where the verdict changed.
    turns: Vec<(u64, Verdict, String)>,
    recorded: Vec<(Timestamp, Vec<Delta>)>,
    begins: Timestamp,
}

impl Recorder {
    pub async fn start(seed: u64) -> Self {
        let mut sim = Sim::start(seed).await;
        sim.machines_max = (9, 9);
        let scope = Scope { namespace: Some("default".to_owned()) };
        let (batches, source) =
            watch::spawn(&sim.connection, SourceId(0), scope, sim.clock.clone(), Rng::seeded(seed));
        let begins = sim.clock.now();
        let (fleet, turns, recorded) = (Fleet::new(), Vec::new(), Vec::new());
        Self { sim, fleet, batches, _source: source, turns, recorded, begins }
    }

    /// A well cluster, from which the life counts.
    pub async fn well(seed: u64, control_plane: u32, workers: u32) -> Self {
        let mut life = Self::start(seed).await;
        life.sim.create(manifest(control_plane, workers)).await;
        life.settle(control_plane, workers, "v1.34.1").await;
        life.begin().await;
        life
    }

    /// Counts from now on.
    pub async fn begin(&mut self) {
        self.turns.clear();
        self.begins = self.sim.clock.now();
        self.second().await;
    }

    /// Everything that came in until now.
    pub fn recording(&self) -> Recording {
        Recording { batches: self.recorded.clone(), begins: self.begins, ends: self.sim.clock.now() }
    }

    /// How often what is shown changed.
    pub fn changes(&self) -> usize {
        self.turns.len().saturating_sub(1)
    }

    /// When this verdict was shown first from then on, as `Sim::elapsed_s`.
    pub fn shown_at(&self, verdict: Verdict, from_s: u64) -> Option<u64> {
        self.turns
            .iter()
            .find(|(at_s, shown, _)| *at_s >= from_s && *shown == verdict)
            .map(|(at_s, ..)| *at_s)
    }

    pub async fn settle(&mut self, control_plane: u32, workers: u32, version: &str) {
        let count = |n: u32| i32::try_from(n).expect("a few");
        for _ in 0..900 {
            if settled(&self.sim, count(control_plane), count(workers), version).await {
                return self.run(20).await;
            }
            self.second().await;
        }
        panic!("not settled: {}\n{}", self.word(), self.story());
    }

    pub async fn run(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.second().await;
        }
    }

    async fn second(&mut self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = self.sim.clock.now();
        while let Ok(batch) = self.batches.try_recv() {
            self.recorded.push((now, batch.clone()));
            self.fleet.apply(batch);
        }
        self.fleet.advance(now);
        let Some(cluster) = self.fleet.clusters().first().copied() else { return };
        let verdict = self.fleet.verdict(cluster);
        if self.turns.last().is_none_or(|(_, last, _)| *last != verdict) {
            self.turns.push((self.sim.elapsed_s(), verdict, self.fleet.what_is_wrong(cluster)));
        }
    }

    pub fn word(&self) -> String {
        let letter = |verdict: Verdict| match verdict {
            Verdict::Ok => 'O',
            Verdict::Progressing => 'P',
            Verdict::Unknown => 'U',
            Verdict::Degraded => 'D',
            Verdict::Blocked => 'B',
        };
        self.turns.iter().map(|(_, verdict, _)| letter(*verdict)).collect()
    }

    pub fn story(&self) -> String {
        self.turns.iter().map(|(at, verdict, cause)| format!("{at} s {verdict}: {cause}\n")).collect()
    }

    #[track_caller]
    pub fn expect(&self, word: &str) {
        assert_eq!(self.word(), word, "\n{}", self.story());
    }

    pub async fn scale(&self, control_plane: Option<u32>, workers: Option<u32>) {
        if let Some(n) = control_plane {
            self.sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"replicas": n}})).await;
        }
        if let Some(n) = workers {
            self.sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": n}})).await;
        }
    }

    pub async fn upgrade_control_plane(&self) {
        self.sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"version": "v1.35.0"}})).await;
    }

    pub async fn upgrade_workers(&self) {
        let body = json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}});
        self.sim.patch::<MachineDeployment>("harbor-md-0", body).await;
    }

    pub async fn pause(&self, paused: bool) {
        self.sim.patch::<Cluster>("harbor", json!({"spec": {"paused": paused}})).await;
    }
}

/// The objects of a cluster with the part of their spec changed that a pointer names.
fn with(mut objects: Vec<Value>, kind: &str, pointer: &str, value: Value) -> Vec<Value> {
    for object in objects.iter_mut().filter(|o| o["kind"] == kind) {
        if let Some(found) = object.pointer_mut(pointer) {
            *found = value.clone();
        }
    }
    objects
}

#[tokio::test(start_paused = true)]
async fn creation() {
    for (control_plane, workers) in [(1, 0), (1, 2), (3, 2), (5, 0)] {
        let mut life = Recorder::start(1).await;
        life.sim.create(manifest(control_plane, workers)).await;
        life.settle(control_plane, workers, "v1.34.1").await;
        life.expect("PO");
    }
}

#[tokio::test(start_paused = true)]
async fn workers_scale_up_and_down() {
    let mut life = Recorder::well(2, 1, 2).await;
    life.scale(None, Some(4)).await;
    life.run(10).await;
    life.settle(1, 4, "v1.34.1").await;
    life.expect("OPO");
    life.scale(None, Some(1)).await;
    life.run(10).await;
    life.settle(1, 1, "v1.34.1").await;
    life.expect("OPOPO");
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_grows_and_shrinks() {
    let mut life = Recorder::well(3, 1, 0).await;
    life.scale(Some(3), None).await;
    life.run(10).await;
    life.settle(3, 0, "v1.34.1").await;
    life.scale(Some(1), None).await;
    life.run(10).await;
    life.settle(1, 0, "v1.34.1").await;
    life.expect("OPOPO");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_whose_workers_wait_for_the_control_plane() {
    let mut life = Recorder::well(4, 3, 3).await;
    life.upgrade_control_plane().await;
    life.run(3).await;
    // Asked for too early: the new MachineSet waits until the control plane is through.
    life.upgrade_workers().await;
    life.settle(3, 3, "v1.35.0").await;
    life.expect("OPO");
}

#[tokio::test(start_paused = true)]
async fn pauses() {
    let mut life = Recorder::well(5, 1, 2).await;
    life.pause(true).await;
    life.run(90).await;
    life.pause(false).await;
    life.run(30).await;
    life.expect("O");

    life.upgrade_control_plane().await;
    life.run(12).await;
    life.pause(true).await;
    life.run(1800).await;
    life.expect("OP");
    life.pause(false).await;
    life.run(200).await;
    life.expect("OPO");
}

#[tokio::test(start_paused = true)]
async fn deletions() {
    let mut life = Recorder::well(6, 1, 2).await;
    let name = worker_names(&life.sim).await.pop().expect("a worker");
    life.sim.delete::<Machine>(&name).await;
    life.run(10).await;
    life.settle(1, 2, "v1.34.1").await;
    life.expect("OPO");
    life.sim.delete::<Cluster>("harbor").await;
    life.run(120).await;
    assert!(life.fleet.clusters().is_empty(), "it is gone");
    life.expect("OPOP");
}

#[tokio::test(start_paused = true)]
async fn controllers_restart() {
    let mut life = Recorder::well(7, 3, 2).await;
    life.sim.restart(70);
    life.run(300).await;
    life.expect("O");
}

#[tokio::test(start_paused = true)]
async fn a_template_that_was_never_there() {
    let mut life = Recorder::start(8).await;
    let gone = with(
        manifest(1, 2),
        "MachineDeployment",
        "/spec/template/spec/infrastructureRef/name",
        json!("gone"),
    );
    life.sim.create(gone).await;
    life.run(300).await;
    life.expect("PB");
    assert!(life.story().contains("does not exist"), "{}", life.story());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_gets_a_node() {
    let mut life = Recorder::start(9).await;
    let late = json!({"template": {"spec": {"backend": {"inMemory":
        {"vm": {"provisioning": {"startupDuration": "24h", "startupJitter": "0"}}}}}}});
    let mut objects = manifest(1, 2);
    for object in &mut objects {
        if object["kind"] == "DevMachineTemplate" && object["metadata"]["name"] == "harbor-md-0" {
            object["spec"] = late.clone();
        }
    }
    life.sim.create(objects).await;
    life.run(500).await;
    life.expect("PD");
    assert!(life.story().contains("its server is still starting"), "{}", life.story());
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_stops_in_the_middle() {
    // Time alone ends every progress: nothing is written any more, and somebody has to look.
    for stop_s in [5, 15, 25, 40] {
        let mut life = Recorder::start(10).await;
        life.sim.create(manifest(3, 2)).await;
        life.run(stop_s).await;
        life.sim.kill_after(0);
        life.run(1800).await;
        let word = life.word();
        assert!(
            word.starts_with('P') && word.ends_with(['D', 'B', 'U']),
            "{stop_s} s: {word}\n{}",
            life.story()
        );
    }
    for stop_s in [4, 12, 30] {
        let mut life = Recorder::well(11, 3, 2).await;
        life.upgrade_control_plane().await;
        life.run(stop_s).await;
        life.sim.kill_after(0);
        life.run(1800).await;
        let word = life.word();
        assert!(word.ends_with(['D', 'B', 'U']), "{stop_s} s into an upgrade: {word}\n{}", life.story());
    }
}

/// Cuts a life every ten seconds: a model that begins there comes to the same verdict.
async fn cut(life: &mut Recorder, cuts: u32) {
    for _ in 0..cuts {
        life.run(10).await;
        let scope = Scope { namespace: Some("default".to_owned()) };
        let (mut batches, _source) =
            watch::spawn(&life.sim.connection, SourceId(0), scope, life.sim.clock.clone(), Rng::seeded(1));
        let mut fresh = Fleet::new();
        fresh.advance(life.sim.clock.now());
        life.run(2).await;
        while let Ok(batch) = batches.try_recv() {
            fresh.apply(batch);
        }
        fresh.advance(life.sim.clock.now());
        let of = |fleet: &Fleet| fleet.clusters().first().map(|id| fleet.verdict(*id));
        // What is shown lags by what has to hold first, and only there.
        let (shown, seen) = (of(&life.fleet), of(&fresh));
        let is_lag = shown == Some(Verdict::Progressing) && seen == Some(Verdict::Ok);
        let is_early = shown == Some(Verdict::Ok) && seen == Some(Verdict::Progressing);
        assert!(shown == seen || is_lag || is_early, "{shown:?} {seen:?}\n{}", life.story());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_dashboard_comes_to_the_same_verdict() {
    let mut life = Recorder::start(12).await;
    life.sim.create(manifest(3, 2)).await;
    cut(&mut life, 12).await;
    let mut life = Recorder::well(13, 3, 2).await;
    life.upgrade_control_plane().await;
    life.upgrade_workers().await;
    cut(&mut life, 12).await;
    life.settle(3, 2, "v1.35.0").await;
    life.sim.delete::<Cluster>("harbor").await;
    cut(&mut life, 6).await;
}
