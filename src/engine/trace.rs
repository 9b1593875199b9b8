//! The last runs of all controllers, for the engine screen and for tests. Owns a bounded ring; must
//! not know what the runs did.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::api::key::ObjectKey;
use crate::time::Timestamp;

/// How a run ended.
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

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Timestamp,
    pub controller: &'static str,
    pub key: ObjectKey,
    pub took: Duration,
    pub writes: usize,
    pub ending: Ending,
}

/// A shared ring; the oldest entries fall out.
#[derive(Clone, Debug)]
pub struct Trace {
    ring: Arc<Mutex<VecDeque<Entry>>>,
    capacity: usize,
}

impl Trace {
    /// A ring of at most `capacity` entries.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { ring: Arc::default(), capacity }
    }

    pub fn push(&self, entry: Entry) {
        let mut ring = self.ring.lock();
        if ring.len() == self.capacity {
            ring.pop_front();
        }
        ring.push_back(entry);
    }

    /// Oldest first.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.ring.lock().iter().cloned().collect()
    }
}
