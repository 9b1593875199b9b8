//! What the controllers did: sums since the start, for `/metrics`, and the last runs, for tests that explain a
//! failure. Owns the sums and a bounded ring; must not know what the runs are about.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    RequeueAfter(Duration),
    NotBefore(Duration),
    /// The error's text; `conflict` marks the harmless kind.
    Failed {
        message: String,
        conflict: bool,
    },
    /// The controller panicked; the engine goes on.
    Panicked(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Timestamp,
    pub controller: &'static str,
    pub key: ObjectKey,
    pub took: Duration,
    pub writes: usize,
    pub ending: Ending,
}

impl Ending {
    /// The label `result` of controller-runtime's `controller_runtime_reconcile_total`, v0.24.
    fn result(&self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::RequeueAfter(_) | Self::NotBefore(_) => "requeue_after",
            Self::Failed { .. } | Self::Panicked(_) => "error",
        }
    }
}

/// One controller's runs since the start.
#[derive(Clone, Debug, Default)]
struct Sums {
    by_result: BTreeMap<&'static str, u64>,
    panics: u64,
    writes: usize,
    took: Duration,
}

impl Sums {
    fn add(&mut self, entry: &Entry) {
        *self.by_result.entry(entry.ending.result()).or_default() += 1;
        self.panics += u64::from(matches!(entry.ending, Ending::Panicked(_)));
        self.writes += entry.writes;
        self.took += entry.took;
    }

    fn runs(&self) -> u64 {
        self.by_result.values().sum()
    }
}

/// Shared by all controllers; the oldest entries of the ring fall out.
#[derive(Clone, Debug)]
pub struct Trace {
    ring: Arc<Mutex<VecDeque<Entry>>>,
    sums: Arc<Mutex<BTreeMap<&'static str, Sums>>>,
    capacity: usize,
}

impl Trace {
    /// A ring of at most `capacity` entries.
    pub fn new(capacity: usize) -> Self {
        Self { ring: Arc::default(), sums: Arc::default(), capacity }
    }

    pub fn push(&self, entry: Entry) {
        self.sums.lock().entry(entry.controller).or_default().add(&entry);
        let mut ring = self.ring.lock();
        if ring.len() == self.capacity {
            ring.pop_front();
        }
        ring.push_back(entry);
    }

    /// Oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.ring.lock().iter().cloned().collect()
    }

    /// The sums in Prometheus' text format 0.0.4, under controller-runtime's names where it has such a number.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let sums = self.sums.lock();
        let mut number = |name: &str, help: &str, value: &dyn Fn(&Sums) -> String| {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n");
            for (controller, sums) in sums.iter() {
                let _ = writeln!(text, "{name}{{controller=\"{controller}\"}} {}", value(sums));
            }
        };
        number("controller_runtime_reconcile_panics_total", "Runs that panicked.", &|s| s.panics.to_string());
        number("capstan_reconcile_writes_total", "Writes sent by runs.", &|s| s.writes.to_string());
        number("capstan_reconcile_seconds_total", "Time spent in runs.", &|s| {
            s.took.as_secs_f64().to_string()
        });
        number("capstan_reconcile_runs_total", "Runs with any result.", &|s| s.runs().to_string());
        let name = "controller_runtime_reconcile_total";
        let _ = write!(text, "# HELP {name} Runs by result.\n# TYPE {name} counter\n");
        for (controller, sums) in sums.iter() {
            for (result, count) in &sums.by_result {
                let _ = writeln!(text, "{name}{{controller=\"{controller}\",result=\"{result}\"}} {count}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_summed_up_by_controller_and_result_even_when_they_fell_out_of_the_ring() {
        let trace = Trace::new(1);
        let failed = Ending::Failed { message: "no".to_owned(), conflict: true };
        for (controller, ending) in [
            ("machine", Ending::Done),
            ("machine", failed),
            ("machine", Ending::RequeueAfter(Duration::from_secs(1))),
            ("cluster", Ending::Panicked("oh".to_owned())),
        ] {
            let (at, key) = (Timestamp::UNIX_EPOCH, ObjectKey::new("ns", "a"));
            trace.push(Entry { at, controller, key, took: Duration::from_millis(500), writes: 2, ending });
        }
        assert_eq!(trace.entries().len(), 1);
        let text = trace.metrics();
        for line in [
            "controller_runtime_reconcile_total{controller=\"machine\",result=\"success\"} 1",
            "controller_runtime_reconcile_total{controller=\"machine\",result=\"error\"} 1",
            "controller_runtime_reconcile_total{controller=\"machine\",result=\"requeue_after\"} 1",
            "controller_runtime_reconcile_total{controller=\"cluster\",result=\"error\"} 1",
            "controller_runtime_reconcile_panics_total{controller=\"cluster\"} 1",
            "controller_runtime_reconcile_panics_total{controller=\"machine\"} 0",
            "capstan_reconcile_writes_total{controller=\"machine\"} 6",
            "capstan_reconcile_seconds_total{controller=\"machine\"} 1.5",
            "capstan_reconcile_runs_total{controller=\"machine\"} 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }
}
