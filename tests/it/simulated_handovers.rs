//! The right to work goes from one process to another and back in the middle of rollouts: each process simulates the machines
//! in its own memory, and begins with what the other one left. Paused time; the seed that failed is printed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use capi_types::condition::{Conditioned as _, is_true};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_apiserver::ApiServer;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::write::{Mode, Part, Writer};
use capstan_engine::client::{Connection, get, in_process};
use capstan_engine::engine::lease::LeaseOptions;
use capstan_store::MemoryStore;
use capstan_worlds::standalone::engine::RunningEngine;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use http::Request;
use kube::api::{Api, ListParams};
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::simulation::{Paused, manifest, target_of};

/// Rollouts of one pair of processes.
const ROLLOUTS: u64 = 2;
/// Longer than a Lease is good and the other process needs to see it.
const STOPPED_S: u64 = 25;
/// A rollout of three control plane Machines with both handovers takes some four minutes.
const SETTLES_WITHIN: Duration = Duration::from_secs(900);

/// How many pairs are tried; `CAPSTAN_SIMULATED_HANDOVERS=N` asks for more.
fn pairs() -> u64 {
    let asked = std::env::var("CAPSTAN_SIMULATED_HANDOVERS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// A connection on which nothing gets through while its process stands still.
fn pausable(server: ApiServer, stands: watch::Receiver<bool>) -> Connection {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, mut stands) = (server.clone(), stands.clone());
        async move {
            // The sender lives as long as the test.
            let _ = stands.wait_for(|stands| !stands).await;
            let answer = server.oneshot(request).await;
            let _ = stands.wait_for(|stands| !stands).await;
            answer
        }
    });
    in_process(service, "engine", "default", false)
}

struct Process {
    engine: RunningEngine,
    stands: watch::Sender<bool>,
}

impl Process {
    fn start(stack: &Stack, options: &StackOptions, name: &str, seed: u64) -> Self {
        let lease = LeaseOptions::new("default", "capstan-engine", name);
        let options = StackOptions { rng: Rng::seeded(seed), lease: Some(lease), ..options.clone() };
        let (stands, seen) = watch::channel(false);
        Self { engine: RunningEngine::start(pausable(stack.server().clone(), seen), &options), stands }
    }
}

struct Pair {
    seed: u64,
    client: kube::Client,
    writer: Writer,
    processes: [Process; 2],
    names_seen: BTreeSet<String>,
}

impl Pair {
    fn leader(&self) -> Option<&Process> {
        self.processes.iter().find(|process| process.engine.handle().leads())
    }

    /// Waits, with a look at the Machines every second.
    async fn until(&mut self, what: &str, done: impl AsyncFn(&Self) -> bool) {
        let began = tokio::time::Instant::now();
        self.check().await;
        while !done(self).await {
            let late = began.elapsed() > SETTLES_WITHIN;
            assert!(!late, "seed {}: {what} did not happen\n{}", self.seed, self.describe().await);
            self.pass(1).await;
        }
    }

    async fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.check().await;
        }
    }

    async fn machines(&self) -> Vec<Machine> {
        let api: Api<Machine> = Api::namespaced(self.client.clone(), "default");
        api.list(&ListParams::default()).await.expect("a list").items
    }

    async fn check(&mut self) {
        let machines = self.machines().await;
        assert!(machines.len() <= 4, "seed {}: {} Machines", self.seed, machines.len());
        self.names_seen.extend(machines.into_iter().filter_map(|machine| machine.metadata.name));
    }

    async fn describe(&self) -> String {
        let mut text = String::new();
        for machine in self.machines().await {
            text.push_str(&format!("{:?}\n", machine.metadata.name));
            for c in machine.conditions().iter().filter(|c| c.status != "True") {
                text.push_str(&format!("  {} {} {}: {}\n", c.type_, c.status, c.reason, c.message));
            }
        }
        text
    }

    async fn has_settled(&self, version: &str) -> bool {
        let machines = self.machines().await;
        machines.len() == 3
            && machines.iter().all(|machine| {
                machine.spec.version.as_deref() == Some(version)
                    && machine.metadata.deletion_timestamp.is_none()
                    && is_true(machine.conditions(), "Available")
            })
    }

    /// Stops whoever leads until the other process has taken over and worked for a while.
    async fn hand_over(&mut self) {
        let led =
            self.processes.iter().position(|process| process.engine.handle().leads()).expect("one leads");
        let leader = self.processes[led].stands.clone();
        leader.send_replace(true);
        self.pass(STOPPED_S).await;
        assert!(self.processes[1 - led].engine.handle().leads(), "seed {}: nobody took over", self.seed);
        leader.send_replace(false);
        self.until("a takeover", async |pair: &Self| pair.leader().is_some()).await;
    }
}

async fn pair(seed: u64) -> (Pair, Stack) {
    let clock = Clock::new(Paused(tokio::time::Instant::now()));
    let options = StackOptions { engine: false, ..StackOptions::new(clock, Rng::seeded(seed)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options.clone()).await.expect("a server");
    let client = stack.connection("test", false).client;
    let start = |name: &str, of: u64| Process::start(&stack, &options, name, 2 * seed + of);
    let processes = [start("a", 0), start("b", 1)];
    let writer = Writer::new(client.clone(), "test");
    (Pair { seed, client, writer, processes, names_seen: BTreeSet::new() }, stack)
}

/// A → B → A during each rollout, at moments by chance.
async fn rolls_through_handovers(seed: u64) {
    let rng = Rng::seeded(seed).stream("handovers");
    let (mut pair, _stack) = pair(seed).await;
    for object in manifest(3, 0) {
        pair.writer.create_value(&target_of(&object), &object, Mode::Real).await.expect("created");
    }
    let key = ObjectKey::new("default", "harbor-cp");
    let first: KubeadmControlPlane =
        get(&pair.client, &key).await.expect("an answer").expect("the control plane");
    let first = first.spec.version;
    pair.until("the control plane", async |pair: &Pair| pair.has_settled(&first).await).await;
    for rollout in 1..=ROLLOUTS {
        let version = format!("{}.{}", first.rsplit_once('.').expect("a patch release").0, 40 + rollout);
        let body = json!({"spec": {"version": version}});
        let patched =
            pair.writer.patch_part::<KubeadmControlPlane>(&key, Part::Main, &body, Mode::Real).await;
        patched.expect("patched");
        for _ in 0..2 {
            pair.pass(rng.below(60)).await;
            pair.hand_over().await;
        }
        pair.until("the rollout", async |pair: &Pair| pair.has_settled(&version).await).await;
    }
    let made = usize::try_from(3 * (ROLLOUTS + 1)).expect("a few");
    assert_eq!(pair.names_seen.len(), made, "seed {seed}: Machines were made twice: {:?}", pair.names_seen);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_goes_on_whoever_simulates_its_machines() {
    for seed in 0..pairs() {
        rolls_through_handovers(seed).await;
    }
}
