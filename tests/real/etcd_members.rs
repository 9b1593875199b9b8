//! Three members of one etcd below the real server: one is killed, one hangs (SIGSTOP), the leader is
//! killed, and the server starts with each of them down. Counted are requests begun 2 s after a
//! member went until it is back; at most 1 % may fail.
//!
//! `CAPSTAN_ETCD_MEMBERS_ROUNDS=N` does N rounds of everything, on every member
//! (`tests/attack/run etcd-members`); the suite does a short one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};

use crate::keeping::etcd::{Cluster, is_installed};
use crate::standalone::Standalone;

const ROUNDS: &str = "CAPSTAN_ETCD_MEMBERS_ROUNDS";
/// What the loss of a member may cost.
const GRACE: Duration = Duration::from_secs(2);
const WORKERS: usize = 4;
/// Requests counted per loss.
const COUNTED: usize = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Killed,
    Paused,
}

/// What requests came to.
#[derive(Default)]
struct Tally {
    /// Begun within the grace.
    early: AtomicUsize,
    early_failed: AtomicUsize,
    counted: AtomicUsize,
    failed: AtomicUsize,
    slowest_ms: AtomicUsize,
}

impl Tally {
    fn note(&self, begun: Duration, took: Duration, result: Result<(), kube::Error>) {
        let (all, failed) = match begun < GRACE {
            true => (&self.early, &self.early_failed),
            false => (&self.counted, &self.failed),
        };
        all.fetch_add(1, Ordering::Relaxed);
        self.slowest_ms.fetch_max(usize::try_from(took.as_millis()).unwrap_or(usize::MAX), Ordering::Relaxed);
        if let Err(error) = result {
            println!(
                "failed {:.1} s after the loss, within {:.1} s: {error}",
                begun.as_secs_f64(),
                took.as_secs_f64()
            );
            failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

/// One request: writes and reads in turn.
async fn request(maps: &Api<ConfigMap>, name: &str, turn: usize) -> Result<(), kube::Error> {
    match turn % 5 {
        0 => maps.create(&PostParams::default(), &map(name)).await.map(drop),
        1 => maps.get(name).await.map(drop),
        2 => {
            let patch = serde_json::json!({ "data": { "turn": turn.to_string() } });
            maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
        }
        3 => maps.list(&ListParams::default().limit(10)).await.map(drop),
        _ => maps.delete(name, &DeleteParams::default()).await.map(drop),
    }
}

/// Sends requests from now on, until enough of them were counted.
async fn load(maps: &Api<ConfigMap>, label: &str) -> Tally {
    let (tally, start) = (Arc::new(Tally::default()), Instant::now());
    let worker = |worker: usize| {
        let (maps, tally, label) = (maps.clone(), tally.clone(), label.to_owned());
        tokio::spawn(async move {
            let mut turn = 0;
            while turn % 5 != 0 || tally.counted.load(Ordering::Relaxed) < COUNTED {
                let (begun, name) = (Instant::now(), format!("{label}-{worker}-{}", turn / 5));
                let result = request(&maps, &name, turn).await;
                tally.note(begun - start, begun.elapsed(), result);
                turn += 1;
            }
        })
    };
    for worker in (0..WORKERS).map(worker).collect::<Vec<_>>() {
        worker.await.expect("a worker");
    }
    Arc::into_inner(tally).expect("all workers are done")
}

/// The place of the leader.
async fn leader(cluster: &Cluster) -> usize {
    loop {
        for place in 0..3 {
            let mut client =
                etcd_client::Client::connect([cluster.endpoint(place)], None).await.expect("a client");
            let Ok(status) = client.status().await else { continue };
            if status.leader() != 0 && status.header().is_some_and(|head| head.member_id() == status.leader())
            {
                return place;
            }
        }
    }
}

/// A member goes while requests come, and comes back.
async fn lose(cluster: &mut Cluster, maps: &Api<ConfigMap>, place: usize, loss: Loss, label: &str) {
    match loss {
        Loss::Killed => cluster.kill(place),
        Loss::Paused => cluster.pause(place),
    }
    let tally = load(maps, label).await;
    match loss {
        Loss::Killed => cluster.restart(place),
        Loss::Paused => cluster.resume(place),
    }
    let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    println!(
        "{label}: member {place} {loss:?}: {} of {} failed after the first {} s ({} of {} before), slowest {} ms",
        of(&tally.failed),
        of(&tally.counted),
        GRACE.as_secs(),
        of(&tally.early_failed),
        of(&tally.early),
        of(&tally.slowest_ms)
    );
    assert!(of(&tally.failed) * 100 <= of(&tally.counted), "{label}: more than 1 % failed");
}

async fn maps(server: &Standalone) -> Api<ConfigMap> {
    Api::namespaced(server.client().await, "default")
}

fn rounds() -> Option<usize> {
    std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_a_dead_or_hung_member_of_three_costs_no_request_after_two_seconds() {
    if !is_installed() {
        return;
    }
    let (mut cluster, folder) = (Cluster::start(), tempfile::tempdir().expect("a folder"));
    let server = Standalone::start(folder.path(), &["--no-engine", "--store", &cluster.address()]);
    let maps = maps(&server).await;
    // The server stays with the first member until it fails, and then with the next.
    let mut losses = vec![(0, Loss::Killed), (1, Loss::Paused)];
    for _ in 1..rounds().unwrap_or(1) {
        losses.extend((0..3).flat_map(|place| [(place, Loss::Killed), (place, Loss::Paused)]));
    }
    for (round, (place, loss)) in losses.into_iter().enumerate() {
        lose(&mut cluster, &maps, place, loss, &format!("member-{round}")).await;
    }
    for round in 0..rounds().unwrap_or(1) {
        for loss in [Loss::Killed, Loss::Paused] {
            let place = leader(&cluster).await;
            lose(&mut cluster, &maps, place, loss, &format!("leader-{round}-{loss:?}").to_lowercase()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_a_server_starts_with_any_member_of_three_down() {
    if !is_installed() {
        return;
    }
    let mut cluster = Cluster::start();
    for _ in 0..rounds().unwrap_or(1) {
        for (place, loss) in [(0, Loss::Paused), (0, Loss::Killed), (1, Loss::Killed), (2, Loss::Killed)] {
            match loss {
                Loss::Killed => cluster.kill(place),
                Loss::Paused => cluster.pause(place),
            }
            let (folder, begun) = (tempfile::tempdir().expect("a folder"), Instant::now());
            let server = Standalone::start(folder.path(), &["--no-engine", "--store", &cluster.address()]);
            let maps = maps(&server).await;
            maps.create(&PostParams::default(), &map("x")).await.expect("a write");
            maps.delete("x", &DeleteParams::default()).await.expect("a deletion");
            println!(
                "member {place} {loss:?}: started and written after {:.1} s",
                begun.elapsed().as_secs_f64()
            );
            match loss {
                Loss::Killed => cluster.restart(place),
                Loss::Paused => cluster.resume(place),
            }
        }
    }
}
