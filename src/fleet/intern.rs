//! One copy of each repeated text or value. Owns the tables that decoding looks things up in; rows
//! hold plain `Arc`s and need no lock to be read. Must not know what the texts mean.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;

use super::row::{ConditionText, GroupKind, Labels, Owner, Reference};
use crate::api::key::Gvk;

/// Below this many entries a table is never swept.
const SWEEP_MIN: usize = 4096;

/// Shared by all feeds of one process. Entries that no row uses any more are dropped in sweeps, so
/// that texts which change for ever (messages with times in them) do not pile up.
#[derive(Default)]
pub struct Interner {
    tables: Mutex<Tables>,
}

#[derive(Default)]
pub(super) struct Tables {
    texts: Table<str>,
    conditions: Table<ConditionText>,
    labels: Table<Labels>,
    owners: Table<Owner>,
    kinds: Table<GroupKind>,
    references: Table<Reference>,
    resources: Table<Gvk>,
}

impl Interner {
    /// Runs `body` with the tables held: one lock for a whole batch of objects.
    pub(super) fn with<T>(&self, body: impl FnOnce(&mut Tables) -> T) -> T {
        body(&mut self.tables.lock())
    }

    /// Entries held, for figures and tests.
    #[must_use]
    pub fn entries(&self) -> usize {
        let t = self.tables.lock();
        t.texts.set.len() + t.conditions.set.len() + t.labels.set.len() + t.owners.set.len()
    }
}

impl Tables {
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(found) = self.texts.set.get(text) {
            return found.clone();
        }
        self.texts.add(Arc::from(text))
    }

    pub(super) fn condition(&mut self, value: ConditionText) -> Arc<ConditionText> {
        self.conditions.intern(value)
    }

    pub(super) fn labels(&mut self, value: Labels) -> Arc<Labels> {
        self.labels.intern(value)
    }

    pub(super) fn owner(&mut self, value: Owner) -> Arc<Owner> {
        self.owners.intern(value)
    }

    pub(super) fn kind(&mut self, value: GroupKind) -> Arc<GroupKind> {
        self.kinds.intern(value)
    }

    pub(super) fn reference(&mut self, value: Reference) -> Arc<Reference> {
        self.references.intern(value)
    }

    pub(super) fn resource(&mut self, value: Gvk) -> Arc<Gvk> {
        self.resources.intern(value)
    }
}

struct Table<T: ?Sized> {
    set: HashSet<Arc<T>, FxBuildHasher>,
    sweep_at: usize,
}

impl<T: ?Sized> Default for Table<T> {
    fn default() -> Self {
        Self { set: HashSet::default(), sweep_at: SWEEP_MIN }
    }
}

impl<T: ?Sized + Hash + Eq> Table<T> {
    fn add(&mut self, value: Arc<T>) -> Arc<T> {
        if self.set.len() >= self.sweep_at {
            self.set.retain(|held| Arc::strong_count(held) > 1);
            self.sweep_at = (self.set.len() * 2).max(SWEEP_MIN);
        }
        self.set.insert(value.clone());
        value
    }
}

impl<T: Hash + Eq> Table<T> {
    fn intern(&mut self, value: T) -> Arc<T> {
        match self.set.get(&value) {
            Some(found) => found.clone(),
            None => self.add(Arc::new(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_copy() {
        let interner = Interner::default();
        let (a, b) = interner.with(|t| (t.text("Ready"), t.text("Ready")));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(interner.entries(), 1);
    }

    #[test]
    fn texts_that_nobody_uses_are_dropped() {
        let interner = Interner::default();
        let kept = interner.with(|t| t.text("kept"));
        for i in 0..SWEEP_MIN * 4 {
            interner.with(|t| drop(t.text(&format!("message {i}"))));
        }
        assert!(interner.entries() <= SWEEP_MIN * 2, "{}", interner.entries());
        assert!(Arc::ptr_eq(&kept, &interner.with(|t| t.text("kept"))));
    }
}
