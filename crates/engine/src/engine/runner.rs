//! Runs one controller: takes keys from its queue, several at once, one run per key, panics
//! contained. Owns the async part around the queue; must not know what a run does.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::controller::{Controller, Enqueue, Outcome, ReconcileError};
use super::echo::Echoes;
use super::lease::{Leadership, Term};
use super::preparation::Preparation;
use super::queue::{Pace, Queue};
use super::trace::{Ending, Entry, Trace};
use crate::client::write::{WriteLog, Written};
use capi_types::key::ObjectKey;
use capstan_base::time::Clock;

/// A controller's queue, shared by its triggers, its runner and those who look on.
#[derive(Clone)]
pub struct WorkQueue(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    wake: Notify,
    started: Instant,
}

impl WorkQueue {
    pub fn new(pace: Pace) -> Self {
        Self(Arc::new(Shared {
            queue: Mutex::new(Queue::new(pace)),
            wake: Notify::new(),
            started: Instant::now(),
        }))
    }

    /// Asks for a run of `key`.
    pub fn trigger(&self, key: &ObjectKey) {
        let now = self.now();
        self.0.queue.lock().trigger(key, now);
        self.0.wake.notify_one();
    }

    /// As a trigger wants it.
    pub fn enqueue(&self) -> Enqueue {
        let queue = self.clone();
        Arc::new(move |key| queue.trigger(&key))
    }

    /// See [`Queue::is_idle`].
    pub fn is_idle(&self) -> bool {
        self.0.queue.lock().is_idle()
    }

    fn now(&self) -> Duration {
        self.0.started.elapsed()
    }
}

/// One controller and what its runs need.
pub struct Runner {
    pub controller: Arc<dyn Controller>,
    pub queue: WorkQueue,
    pub echoes: Echoes,
    pub leadership: Leadership,
    pub preparation: Arc<Preparation>,
    pub trace: Trace,
    pub clock: Clock,
}

/// What a spawned task reports.
enum Report {
    /// A run ended; its echoes are still to come.
    Ran { key: ObjectKey, outcome: Option<Outcome>, writes: Vec<Written> },
    /// The echoes have come.
    EchoesSeen { key: ObjectKey, outcome: Option<Outcome> },
}

impl Runner {
    /// Runs until cancelled, then lets the runs that have started end (their writes are refused
    /// when the lease is lost).
    pub async fn run(mut self, stop: CancellationToken) {
        let mut tasks: JoinSet<Report> = JoinSet::new();
        let mut active = 0_usize;
        loop {
            if self.leadership.leads() {
                // One term for all keys started here: a right that
                // is lost and won again makes their writes fail.
                let term = Term::begin(&self.leadership);
                self.preparation.begin(&term);
                self.start_due(&term, &mut tasks, &mut active);
            }
            let next_start = self.next_start();
            // A trigger since the look at the queue is not lost: `Notify` keeps one permit.
            let woken = self.queue.0.wake.notified();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(report) = tasks.join_next() => self.take(report, &mut tasks, &mut active),
                () = woken => {}
                () = self.leadership.changed() => {}
                // With every place taken a due key would end this sleep at once, over and over.
                () = sleep_until(next_start), if active < self.controller.concurrency() => {}
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    fn next_start(&self) -> Option<Instant> {
        let start = self.queue.0.queue.lock().next_start()?;
        // While following, due keys stay in the queue; a change of leadership wakes us.
        self.leadership.leads().then(|| self.queue.0.started + start)
    }

    fn start_due(&self, term: &Term, tasks: &mut JoinSet<Report>, active: &mut usize) {
        while *active < self.controller.concurrency() {
            let now = self.queue.now();
            let Some(key) = self.queue.0.queue.lock().next(now) else { return };
            *active += 1;
            let (controller, trace, clock) =
                (Arc::clone(&self.controller), self.trace.clone(), self.clock.clone());
            tasks.spawn(term.clone().scope(run_once(controller, key, trace, clock)));
        }
    }

    fn take(
        &self,
        report: Result<Report, tokio::task::JoinError>,
        tasks: &mut JoinSet<Report>,
        active: &mut usize,
    ) {
        match report {
            Ok(Report::Ran { key, outcome, writes }) => {
                // A place is for a run; waiting for echoes
                // costs nothing, and only the key stays held.
                *active -= 1;
                if writes.is_empty() {
                    self.finish(&key, outcome);
                } else {
                    let echoes = self.echoes.clone();
                    tasks.spawn(async move {
                        echoes.seen_by_watches(writes).await;
                        Report::EchoesSeen { key, outcome }
                    });
                }
            }
            Ok(Report::EchoesSeen { key, outcome }) => self.finish(&key, outcome),
            // Panics are caught inside the task; this is the runtime shutting down.
            Err(error) => tracing::error!(controller = self.controller.name(), "a run was lost: {error}"),
        }
    }

    fn finish(&self, key: &ObjectKey, outcome: Option<Outcome>) {
        let now = self.queue.now();
        self.queue.0.queue.lock().finish(key, outcome, now);
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        // Never: another branch ends the wait.
        None => std::future::pending().await,
    }
}

async fn run_once(controller: Arc<dyn Controller>, key: ObjectKey, trace: Trace, clock: Clock) -> Report {
    let (at, began) = (clock.now(), Instant::now());
    let log = WriteLog::default();
    let run = AssertUnwindSafe(log.record(controller.reconcile(&key))).catch_unwind().await;
    // Also of a run that failed: it may have written before, and must not run again on old data.
    let writes = log.take();
    let (outcome, ending) = judge(run);
    report_trouble(controller.name(), &key, &ending);
    trace.push(Entry {
        at,
        controller: controller.name(),
        key: key.clone(),
        took: began.elapsed(),
        writes: writes.len(),
        ending,
    });
    Report::Ran { key, outcome, writes }
}

type Run = Result<Result<Outcome, ReconcileError>, Box<dyn std::any::Any + Send>>;

fn judge(run: Run) -> (Option<Outcome>, Ending) {
    match run {
        Ok(Ok(outcome)) => {
            let ending = match outcome {
                Outcome::Done => Ending::Done,
                Outcome::RequeueAfter(wait) => Ending::RequeueAfter(wait),
                Outcome::NotBefore(wait) => Ending::NotBefore(wait),
            };
            (Some(outcome), ending)
        }
        Ok(Err(error)) => {
            (None, Ending::Failed { conflict: error.is_conflict(), message: error.to_string() })
        }
        Err(panic) => (None, Ending::Panicked(panic_text(panic.as_ref()))),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

fn report_trouble(controller: &'static str, key: &ObjectKey, ending: &Ending) {
    match ending {
        Ending::Failed { message, conflict: true } => tracing::debug!(controller, %key, "{message}"),
        Ending::Failed { message, .. } => tracing::warn!(controller, %key, "{message}"),
        Ending::Panicked(message) => tracing::error!(controller, %key, "panicked: {message}"),
        Ending::Done | Ending::RequeueAfter(_) | Ending::NotBefore(_) => {}
    }
}
