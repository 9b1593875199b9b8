//! Real engine processes hand the work to each other: the one that leads is killed, or asked to end, and the one that waits
//! goes on. Two of each in the suite; `CAPSTAN_HANDOVERS=N` asks for N of each in up to eight pairs side by side, and
//! prints how long they took.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use tokio::time::Instant;

use crate::standalone::{BINARY, Standalone};

/// What does not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(180);
/// So often the leader renews before it is ended: the one that waits has seen it by then.
const RENEWALS: usize = 6;
const PAIRS_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    Asked,
}

/// Who holds the Lease, one entry after each change.
struct Holders(BoxStream<'static, Lease>);

impl Holders {
    fn of(leases: Api<Lease>) -> Self {
        let config = watcher::Config::default().fields("metadata.name=capstan-engine");
        let seen = watcher(leases, config).default_backoff().applied_objects();
        Self(seen.filter_map(|lease| async { lease.ok() }).boxed())
    }

    async fn next(&mut self) -> (String, i32) {
        let lease = tokio::time::timeout(PATIENCE, self.0.next()).await.expect("in time").expect("a Lease");
        let spec = lease.spec.unwrap_or_default();
        (spec.holder_identity.unwrap_or_default(), spec.lease_transitions.unwrap_or(0))
    }

    /// Waits until somebody else than `before` holds it.
    async fn other_than(&mut self, before: &str) -> (String, i32) {
        loop {
            let (holder, transitions) = self.next().await;
            if !holder.is_empty() && holder != before {
                return (holder, transitions);
            }
        }
    }
}

/// Two engines with a Lease of their own.
struct Pair<'a> {
    server: &'a Standalone,
    namespace: String,
    leader: Engine,
    waiting: Engine,
    holders: Holders,
    holder: String,
}

struct Engine(Child);

impl Engine {
    fn start(server: &Standalone, namespace: &str) -> Self {
        let mut command = Command::new(BINARY);
        command.arg("--kubeconfig").arg(server.kubeconfig());
        command.args(["engine", "--lease-namespace", namespace]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the engine starts"))
    }

    fn end(&mut self, how: End) {
        if how == End::Killed {
            self.0.kill().expect("killed");
            return;
        }
        let asked = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        assert!(asked.is_ok_and(|status| status.success()));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'a> Pair<'a> {
    async fn start(server: &'a Standalone, number: usize) -> Self {
        let client = server.client().await;
        let namespace = format!("pair-{number}");
        let object: Namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": namespace}}))
            .expect("a namespace");
        Api::all(client.clone()).create(&PostParams::default(), &object).await.expect("created");
        let mut holders = Holders::of(Api::namespaced(client, &namespace));
        let leader = Engine::start(server, &namespace);
        let (holder, _) = holders.other_than("").await;
        let waiting = Engine::start(server, &namespace);
        Self { server, leader, waiting, holders, holder, namespace }
    }

    /// Ends the leader, and answers how long it takes until the other one holds the Lease. Another one waits then.
    async fn hand_over(&mut self, how: End) -> Duration {
        for _ in 0..RENEWALS {
            let (holder, _) = self.holders.next().await;
            assert_eq!(holder, self.holder, "nobody else takes a Lease that is renewed");
        }
        let began = Instant::now();
        self.leader.end(how);
        let (holder, transitions) = self.holders.other_than(&self.holder).await;
        let took = began.elapsed();
        println!(
            "{}: {how:?} {} -> {holder} after {:.1} s, transition {transitions}",
            self.namespace,
            self.holder,
            took.as_secs_f64()
        );
        let next = Engine::start(self.server, &self.namespace);
        self.leader = std::mem::replace(&mut self.waiting, next);
        self.holder = holder;
        took
    }
}

async fn play(server: &Standalone, number: usize, rounds: usize) -> Vec<(End, Duration)> {
    let mut pair = Pair::start(server, number).await;
    let mut took = Vec::new();
    for _ in 0..rounds {
        for how in [End::Killed, End::Asked] {
            took.push((how, pair.hand_over(how).await));
        }
    }
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_engine_takes_over_from_one_that_is_killed_or_ends() {
    let rounds: usize = std::env::var("CAPSTAN_HANDOVERS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    let pairs = rounds.clamp(1, PAIRS_MAX);
    let share = |number: usize| rounds / pairs + usize::from(number < rounds % pairs);
    let played = (0..pairs).map(|number| play(&server, number, share(number)));
    let took: Vec<(End, Duration)> = futures::future::join_all(played).await.concat();
    for how in [End::Killed, End::Asked] {
        let mut times: Vec<f64> =
            took.iter().filter(|(end, _)| *end == how).map(|(_, took)| took.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{how:?}: {} times, median {median:.1} s, worst {worst:.1} s", times.len());
        assert_eq!(times.len(), rounds);
    }
}
