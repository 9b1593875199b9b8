//! Transactions evaluated on top of what is visible, before they are durable. One stage is one
//! group commit. Must not know how it becomes durable.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::image::State;
use super::{Blob, Change, Entry, Key, Outcome, Revision, Txn, Write};

/// A transaction with its values packed, so that packing happens outside of the writer.
pub(super) struct Packed {
    expect: Vec<(Key, Revision)>,
    writes: Vec<(Key, Option<Blob>)>,
}

impl From<Txn> for Packed {
    fn from(txn: Txn) -> Self {
        let pack = |write| match write {
            Write::Put(key, value) => (key, Some(Blob::pack(&value))),
            Write::Delete(key) => (key, None),
        };
        Self { expect: txn.expect, writes: txn.writes.into_iter().map(pack).collect() }
    }
}

/// Accepted changes that are not visible to readers yet.
pub(super) struct Stage {
    revision: Revision,
    overlay: FxHashMap<Key, Option<Entry>>,
    changes: Vec<Arc<Change>>,
}

impl Stage {
    pub(super) fn new(revision: Revision) -> Self {
        Self { revision, overlay: FxHashMap::default(), changes: Vec::new() }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn changes(&self) -> &[Arc<Change>] {
        &self.changes
    }

    pub(super) fn into_changes(self) -> Vec<Arc<Change>> {
        self.changes
    }

    fn current(&self, state: &State, key: &str) -> Option<Entry> {
        // A transaction sees those before it in the group, which readers do not see yet.
        self.overlay.get(key).cloned().unwrap_or_else(|| state.get(key).cloned())
    }

    /// Leaves out the revisions up to `floor`.
    pub(super) fn raise(&mut self, floor: Revision) -> Outcome {
        self.revision = self.revision.max(floor);
        Outcome::Committed(self.revision)
    }

    /// Takes `txn` in, or answers with the expectation that does not hold.
    pub(super) fn add(&mut self, state: &State, txn: Packed) -> Outcome {
        for (key, expected) in txn.expect {
            let current = self.current(state, &key);
            if current.as_ref().map_or(0, |entry| entry.modified) != expected {
                return Outcome::Conflict { key, current };
            }
        }
        let revision = self.revision + 1;
        for (key, value) in txn.writes {
            let previous = self.current(state, &key);
            if value.is_none() && previous.is_none() {
                continue;
            }
            let current = value.map(|value| Entry {
                key: key.clone(),
                created: previous.as_ref().map_or(revision, |entry| entry.created),
                modified: revision,
                value,
            });
            self.overlay.insert(key.clone(), current.clone());
            self.changes.push(Arc::new(Change { revision, key, current, previous }));
            // A transaction that changes nothing takes no revision.
            self.revision = revision;
        }
        Outcome::Committed(self.revision)
    }
}
