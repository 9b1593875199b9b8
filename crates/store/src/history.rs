//! Recent changes, bounded; what "too old" means is decided here. Must not know who reads it.
//!
//! It is an undo log: each change holds the value before it, so both the changes after a revision
//! and the whole store as it was at a revision can be told from it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Change, Entry, Key, Revision};

/// How much is kept whatever is asked. Age is bounded from outside, by compaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) changes_max: usize,
    pub(super) bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { changes_max: 200_000, bytes_max: 64 << 20 }
    }
}

#[derive(Debug)]
pub(super) struct History {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    /// Changes up to and including this revision are gone.
    compacted: Revision,
    bounds: Bounds,
}

/// What a change costs in memory. Its current value is shared with the object or with the
/// previous value of a later change, so only the value before counts.
fn weight(change: &Change) -> usize {
    const FIXED: usize = 200;
    FIXED + change.previous.as_ref().map_or(0, |entry| entry.value.packed().len())
}

impl History {
    pub(super) fn new(compacted: Revision, bounds: Bounds) -> Self {
        Self { changes: VecDeque::new(), bytes: 0, compacted, bounds }
    }

    pub(super) fn compacted(&self) -> Revision {
        self.compacted
    }

    /// About what the changes cost, wherever they are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(feature = "etcd")]
    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    pub(super) fn push(&mut self, change: Arc<Change>) {
        self.bytes += weight(&change);
        self.changes.push_back(change);
    }

    /// The changes above `revision`, oldest first.
    pub(super) fn after(&self, revision: Revision) -> impl Iterator<Item = &Arc<Change>> {
        let start = self.changes.partition_point(|change| change.revision <= revision);
        self.changes.range(start..)
    }

    /// What keys under `prefix` that changed above `revision` held at `revision`.
    pub(super) fn undo(&self, prefix: &str, revision: Revision) -> BTreeMap<Key, Option<Entry>> {
        let mut undone = BTreeMap::new();
        for change in self.after(revision).filter(|change| change.key.starts_with(prefix)) {
            // The first change above the revision knows the value of that moment; later ones do
            // not.
            undone.entry(change.key.clone()).or_insert_with(|| change.previous.clone());
        }
        undone
    }

    /// Drops whole revisions up to `upto`, and more when over the bounds, but never the newest
    /// revision. Returns what was dropped.
    pub(super) fn trim(&mut self, upto: Revision) -> Vec<Arc<Change>> {
        let newest = self.changes.back().map_or(0, |change| change.revision);
        let mut dropped = Vec::new();
        while let Some(oldest) = self.changes.front() {
            let over = self.changes.len() > self.bounds.changes_max || self.bytes > self.bounds.bytes_max;
            // The rest of a revision that is cut goes too: a reader must not get half a
            // transaction.
            let same = oldest.revision == self.compacted;
            if !(same || oldest.revision <= upto || (over && oldest.revision < newest)) {
                break;
            }
            let Some(change) = self.changes.pop_front() else { break };
            self.bytes -= weight(&change);
            self.compacted = change.revision;
            dropped.push(change);
        }
        // An idle store stays readable at its newest change, whatever is compacted.
        self.compacted = self.compacted.max(upto.min(newest));
        dropped
    }
}
