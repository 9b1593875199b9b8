//! The past of the demo's fleet, lived through in virtual time.

use std::sync::Arc;
use std::time::Duration;

use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned, find};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::Gvk;
use capi_types::machine::Machine;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp};
use capstan_engine::client::{Connection, Object, read};
use capstan_store::MemoryStore;
use capstan_worlds::samples::{Chapter, aged};
use capstan_worlds::standalone::past;
use capstan_worlds::standalone::stack::{Stack, StackOptions};

use tokio::sync::OnceCell;

use super::simulation::manifest;

const DEMO_SEED: u64 = 7;

pub fn now() -> Timestamp {
    Timestamp::from_timestamp(1_795_168_800, 0).expect("a moment")
}

fn options(seed: u64) -> StackOptions {
    StackOptions::new(Clock::fixed(now()), Rng::seeded(seed))
}

/// What is there after these chapters.
async fn lived_through(chapters: Vec<Chapter>, seed: u64) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    past::replay(store.clone(), chapters, options(seed)).await.expect("a past");
    store
}

/// A server over it. No engine goes on with it.
async fn server(store: Arc<MemoryStore>, seed: u64) -> Stack {
    Stack::start(store, StackOptions { engine: false, ..options(seed) }).await.expect("a server")
}

/// `capstan demo --seed 7`, at a moment that does not move. Its past takes half a minute, and is lived through once for all tests
/// that only look at it.
pub async fn demo() -> Stack {
    static LIVED: OnceCell<Arc<MemoryStore>> = OnceCell::const_new();
    let store = LIVED.get_or_init(|| lived_through(aged::chapters(), DEMO_SEED)).await;
    server(store.clone(), DEMO_SEED).await
}

async fn all<K: Object>(connection: &Connection) -> Vec<K> {
    let values = read::list_values(&connection.client, &Gvk::of::<K>(), "default", "").await;
    let values = values.expect("a list").into_iter();
    values.map(|value| serde_json::from_value(value).expect("of this kind")).collect()
}

/// Names and ages in minutes.
async fn machines(chapters: Vec<Chapter>, seed: u64) -> Vec<(String, i64)> {
    let stack = server(lived_through(chapters, seed).await, seed).await;
    let machines: Vec<Machine> = all(&stack.connection("test", true)).await;
    let mut found: Vec<_> =
        machines.into_iter().map(|m| (name(&m).to_owned(), age(&m).num_minutes())).collect();
    found.sort();
    found
}

fn name<K: Object>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn age<K: Object>(object: &K) -> chrono::TimeDelta {
    let created = object.meta().creation_timestamp.as_ref().expect("a creation time");
    now() - capstan_base::time::from_k8s(created)
}

fn is_true(object: &impl Conditioned, type_: &str) -> bool {
    find(object.conditions(), type_).is_some_and(|c| c.status == "True")
}

#[tokio::test]
async fn a_seed_gives_the_same_names_and_ages() {
    let chapters = || {
        let chapter = |ago_s, lasts_s, objects| Chapter {
            ago: Duration::from_secs(ago_s),
            lasts: Duration::from_secs(lasts_s),
            objects,
            edits: Vec::new(),
        };
        vec![chapter(7 * 86_400, 90, manifest(1, 2)), chapter(20, 20, Vec::new())]
    };
    let first = machines(chapters(), 7).await;
    assert_eq!(first.len(), 3, "{first:?}");
    assert!(first.iter().all(|(_, minutes)| *minutes >= 7 * 1440 - 2), "a week old: {first:?}");
    assert_eq!(machines(chapters(), 7).await, first);
    assert_ne!(machines(chapters(), 8).await, first);
}

#[tokio::test]
async fn the_demo_opens_on_a_fleet_that_is_weeks_old() {
    let stack = demo().await;
    let connection = stack.connection("test", true);
    let clusters: Vec<Cluster> = all(&connection).await;
    let control_planes: Vec<KubeadmControlPlane> = all(&connection).await;
    let machines: Vec<Machine> = all(&connection).await;
    let cluster = |wanted: &str| clusters.iter().find(|c| name(*c) == wanted).expect("the Cluster");
    let of = |wanted: &'static str| machines.iter().filter(move |m| m.spec.cluster_name == wanted);
    assert!(clusters.iter().all(|c| age(c).num_days() == 23 && is_true(c, "RemoteConnectionProbe")));
    for well in ["aurora", "fjord"] {
        assert!(is_true(cluster(well), "Available") && of(well).all(|m| is_true(m, "Ready")), "{well}");
    }
    assert!(of("aurora").all(|m| m.spec.version.as_deref() == Some("v1.35.1") && age(m).num_days() <= 16));
    assert!(of("reef").count() == 5 && of("reef").all(|m| is_true(m, "Ready")));
    assert!(is_true(cluster("fjord"), "Paused"));
    assert!(control_planes.iter().any(|k| name(k) == "borealis-control-plane" && is_true(k, "RollingOut")));
    let lost: Vec<_> =
        of("cascade").filter(|m| m.status.as_ref().is_none_or(|s| s.node_ref.is_none())).collect();
    assert!(lost.len() == 2 && lost.iter().all(|m| age(*m).num_hours() == 2), "the pool of 3 hours ago");
    let held: Vec<_> = of("estuary").filter(|m| m.metadata.deletion_timestamp.is_some()).collect();
    let reason = held.first().and_then(|m| find(m.conditions(), "Deleting")).map(|c| c.reason.as_str());
    assert_eq!((held.len(), reason), (1, Some("DrainingNode")));
}
