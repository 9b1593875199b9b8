//! Runner and triggers under paused time, with a controller whose runs are scripted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::echo::Echoes;
use super::lease::Leadership;
use super::queue::Pace;
use super::runner::{Runner, WorkQueue};
use super::trace::{Ending, Trace};
use super::{Controller, Outcome, ReconcileError, Trigger};
use crate::client::Cache;
use capi_types::key::ObjectKey;
use capstan_base::time::Clock;

type Script = dyn Fn(&ObjectKey, usize) -> Result<Outcome, ReconcileError> + Send + Sync;

/// Notes when each run began; the script says how it ends.
#[derive(Clone)]
struct Scripted {
    runs: Arc<Mutex<Vec<(Duration, String)>>>,
    began: Instant,
    takes: Duration,
    concurrency: usize,
    script: Arc<Script>,
}

#[async_trait]
impl Controller for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn triggers(&self) -> Vec<Trigger> {
        Vec::new()
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let run = {
            let mut runs = self.runs.lock();
            runs.push((self.began.elapsed(), key.name.clone()));
            runs.iter().filter(|(_, name)| *name == key.name).count()
        };
        tokio::time::sleep(self.takes).await;
        (self.script)(key, run)
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }
}

struct Harness {
    scripted: Scripted,
    queue: WorkQueue,
    trace: Trace,
    stop: CancellationToken,
}

fn harness(
    concurrency: usize,
    interval_ms: u64,
    script: impl Fn(&ObjectKey, usize) -> Result<Outcome, ReconcileError> + Send + Sync + 'static,
) -> Harness {
    let scripted = Scripted {
        runs: Arc::default(),
        began: Instant::now(),
        takes: Duration::from_millis(10),
        concurrency,
        script: Arc::new(script),
    };
    let queue = WorkQueue::new(Pace::with_interval(Duration::from_millis(interval_ms)));
    let (trace, stop) = (Trace::new(100), CancellationToken::new());
    let runner = Runner {
        controller: Arc::new(scripted.clone()),
        queue: queue.clone(),
        echoes: Echoes::default(),
        leadership: Leadership::alone(Clock::fixed(chrono::DateTime::UNIX_EPOCH)),
        preparation: Arc::default(),
        trace: trace.clone(),
        clock: Clock::fixed(chrono::DateTime::UNIX_EPOCH),
    };
    tokio::spawn(runner.run(stop.clone()));
    Harness { scripted, queue, trace, stop }
}

impl Harness {
    fn runs(&self) -> Vec<(u64, String)> {
        let runs = self.scripted.runs.lock();
        runs.iter().map(|(at, name)| (u64::try_from(at.as_millis()).unwrap_or(0), name.clone())).collect()
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn at(ms: u64, name: &str) -> (u64, String) {
    (ms, name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn n_at_once_and_the_rest_after_them() {
    let harness = harness(2, 0, |_, _| Ok(Outcome::Done));
    for name in ["a", "b", "c"] {
        harness.queue.trigger(&key(name));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(harness.runs(), [at(0, "a"), at(0, "b"), at(10, "c")]);
    assert!(harness.queue.is_idle());
    harness.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn one_run_per_key_and_one_more_for_what_came_meanwhile() {
    let harness = harness(4, 0, |_, _| Ok(Outcome::Done));
    harness.queue.trigger(&key("a"));
    tokio::time::sleep(Duration::from_millis(5)).await;
    harness.queue.trigger(&key("a"));
    harness.queue.trigger(&key("a"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(harness.runs(), [at(0, "a"), at(10, "a")]);
}

#[tokio::test(start_paused = true)]
async fn errors_back_off_on_top_of_the_interval() {
    let harness =
        harness(
            1,
            1000,
            |_, run| if run < 3 { Err(ReconcileError::failed("not yet")) } else { Ok(Outcome::Done) },
        );
    harness.queue.trigger(&key("a"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(harness.runs(), [at(0, "a"), at(1015, "a"), at(2035, "a")]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failed_run_and_nothing_more() {
    let harness = harness(1, 0, |_, run| if run == 1 { panic!("on purpose") } else { Ok(Outcome::Done) });
    harness.queue.trigger(&key("a"));
    harness.queue.trigger(&key("b"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let endings: Vec<_> = harness.trace.entries().into_iter().map(|e| (e.key.name, e.ending)).collect();
    assert!(endings.contains(&("a".to_owned(), Ending::Panicked("on purpose".to_owned()))), "{endings:?}");
    assert!(endings.contains(&("a".to_owned(), Ending::Done)), "it is tried again: {endings:?}");
}

#[tokio::test(start_paused = true)]
async fn timers_run_keys_again() {
    let harness = harness(1, 0, |_, run| {
        Ok(if run < 3 { Outcome::RequeueAfter(Duration::from_secs(20)) } else { Outcome::Done })
    });
    harness.queue.trigger(&key("a"));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(harness.runs(), [at(0, "a"), at(20_010, "a"), at(40_020, "a")]);
}

#[tokio::test(start_paused = true)]
async fn triggers_map_changes_to_keys() {
    let cache: Cache<ConfigMap> = Cache::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let trigger = Trigger::own(&cache);
    (trigger.0)(Arc::new(move |key| sink.lock().push(key.to_string())));
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some("one".to_owned());
    map.metadata.resource_version = Some("7".to_owned());
    cache.upsert(map.clone());
    cache.upsert(map); // the same version again: no change
    cache.remove(&key("one"));
    assert_eq!(*seen.lock(), ["default/one", "default/one"]);
    assert_eq!(cache.progress().seen, 7);
}
