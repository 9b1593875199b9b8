//! Hours in minutes: writers, rollouts, and connections that come, are left half open and go. Memory, descriptors,
//! threads and the data file stay bounded, and at rest they are given back. Bounds come from what there was at the
//! start; nothing depends on speed.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchParams};
use serde_json::json;
use tokio::net::TcpStream;

use super::measures::Sample;
use super::{Bounds, PATIENCE, Target, in_time};

const WRITERS: u64 = 4;
/// Of one writer in one round.
const TURNS: u64 = 20;
/// Opened and left in one round.
const CONNECTIONS: u64 = 8;
const PAYLOAD_BYTES_MAX: u64 = 8_000;
/// A rollout begins every so many rounds.
const ROLLOUT_EVERY: u64 = 10;
/// How much more than at the start there may be, under load and at rest.
const LOADED_MORE_MIB: u64 = 600;
const REST_MORE_MIB: u64 = 250;
const REST_MORE_DESCRIPTORS: usize = 16;
const REST_MORE_THREADS: u64 = 8;
const DATA_FILE_MAX_MIB: u64 = 512;

/// Creates, changes and deletes objects of its own.
async fn write(client: Client, writer: u64, round: u64, payload: String) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    for turn in 0..TURNS / 4 {
        let name = format!("churn-{writer}-{round}-{turn}");
        let map = json!({ "metadata": { "name": name }, "data": { "payload": payload } });
        let map: ConfigMap = serde_json::from_value(map).expect("a ConfigMap");
        in_time("a creation", maps.create(&PostParams::default(), &map)).await.expect("created");
        for change in 0..2 {
            let body = Patch::Merge(json!({ "data": { "change": change.to_string() } }));
            let parameters = PatchParams::default();
            in_time("a change", maps.patch(&name, &parameters, &body)).await.expect("changed");
        }
        in_time("a deletion", maps.delete(&name, &DeleteParams::default())).await.expect("deleted");
    }
}

/// Opens connections of all kinds and leaves them: bare ones, watches, requests of a client of their own.
async fn connect(target: &Target) {
    let address = target.server().address.clone();
    let mut bare = Vec::new();
    for _ in 0..CONNECTIONS {
        bare.push(TcpStream::connect(&address).await.expect("a connection"));
    }
    let client = target.client().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let parameters = WatchParams::default();
    let watches = (0..CONNECTIONS).map(|_| maps.watch(&parameters, "0"));
    for watch in in_time("watches", futures::future::join_all(watches)).await {
        drop(watch.expect("a watch"));
    }
}

struct Churn {
    bounds: Bounds,
    target: Target,
    start: Sample,
    most: Sample,
    rounds: u64,
}

impl Churn {
    fn sample(&mut self) -> Sample {
        let now = Sample::of(self.target.server().id(), &self.target.data_file());
        self.most = Sample {
            resident_mib: self.most.resident_mib.max(now.resident_mib),
            resident_max_mib: now.resident_max_mib,
            descriptors: self.most.descriptors.max(now.descriptors),
            threads: self.most.threads.max(now.threads),
            data_file_mib: self.most.data_file_mib.max(now.data_file_mib),
        };
        now
    }

    async fn round(&mut self) {
        let client = self.target.client().await;
        let writers = (0..WRITERS).map(|writer| {
            let length = usize::try_from(self.bounds.rng.below(PAYLOAD_BYTES_MAX)).expect("small");
            write(client.clone(), writer, self.rounds, self.bounds.rng.suffix(length))
        });
        tokio::join!(futures::future::join_all(writers), connect(&self.target));
        if (self.rounds + 1).is_multiple_of(ROLLOUT_EVERY) {
            self.target.server().says(&["rollout", "restart", "md/aurora-web", "--yes"]);
        }
        self.rounds += 1;
        let now = self.sample();
        assert!(
            now.resident_mib <= self.start.resident_mib + LOADED_MORE_MIB,
            "{now:?} after {:?}",
            self.start
        );
        assert!(now.data_file_mib <= DATA_FILE_MAX_MIB, "{now:?}");
    }

    fn is_at_rest(&self, now: Sample) -> bool {
        now.resident_mib <= self.start.resident_mib + REST_MORE_MIB
            && now.descriptors <= self.start.descriptors + REST_MORE_DESCRIPTORS
            && now.threads <= self.start.threads + REST_MORE_THREADS
    }

    /// Waits until what was used is given back.
    async fn rest(&mut self) -> Sample {
        let mut looks = tokio::time::interval(Duration::from_millis(200));
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let now = looks.tick().await;
            let sample = self.sample();
            if self.is_at_rest(sample) {
                return sample;
            }
            assert!(
                now < end,
                "not given back after {PATIENCE:?}: {sample:?}; at the start {:?}",
                self.start
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_used_under_load_is_given_back() {
    let bounds = Bounds::of(1);
    let target = Target::started(&["--sample", "healthy-ha"]);
    if bounds.is_long() {
        target.server().says(&["wait", "cluster/aurora", "--for=verdict=ok", "--timeout=120s"]);
    }
    let start = Sample::of(target.server().id(), &target.data_file());
    let mut churn = Churn { bounds, target, start, most: start, rounds: 0 };
    while churn.bounds.goes_on() {
        churn.round().await;
    }
    let rest = churn.rest().await;
    churn.target.assert_calm();
    println!("{} rounds, {} writes", churn.rounds, churn.rounds * WRITERS * TURNS);
    println!("start {:?}\nmost  {:?}\nrest  {rest:?}", churn.start, churn.most);
}
