//! One copy of each repeated text or value. Owns the tables that decoding looks things up in; rows
//! hold plain `Arc`s and need no lock to be read. Must not know what the texts mean.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::{Equivalent, HashSet};
use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;

use super::row::{
    ConditionText, ConditionWords, GroupKind, GroupKindWords, LabelWords, Labels, Owner, OwnerWords,
    Reference,
};
use capi_types::key::Gvk;

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
    pub fn entries(&self) -> usize {
        let t = self.tables.lock();
        t.texts.set.len() + t.conditions.set.len() + t.labels.set.len() + t.owners.set.len()
    }
}

impl Tables {
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(found) = self.texts.known(text) {
            return found;
        }
        self.texts.add(Arc::from(text))
    }

    /// A condition that is there already.
    pub(super) fn known_condition(&self, words: &ConditionWords<'_>) -> Option<Arc<ConditionText>> {
        self.conditions.known(words)
    }

    /// Labels that are there already.
    pub(super) fn known_labels<T: AsRef<str>>(&self, words: &LabelWords<'_, T>) -> Option<Arc<Labels>> {
        self.labels.known(words)
    }

    /// An owner that is there already.
    pub(super) fn known_owner(&self, words: &OwnerWords<'_>) -> Option<Arc<Owner>> {
        self.owners.known(words)
    }

    /// A group and kind that are there already.
    pub(super) fn known_kind(&self, words: &GroupKindWords<'_>) -> Option<Arc<GroupKind>> {
        self.kinds.known(words)
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
    fn known<Q: Hash + Equivalent<Arc<T>> + ?Sized>(&self, words: &Q) -> Option<Arc<T>> {
        self.set.get(words).cloned()
    }

    fn add(&mut self, value: Arc<T>) -> Arc<T> {
        if self.set.len() >= self.sweep_at {
            // A count of one is that of the table itself: no row uses the value any more.
            self.set.retain(|held| Arc::strong_count(held) > 1);
            // Twice what is left: the cost of sweeps stays in proportion to what is added.
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
    use crate::fleet::row::{Severity, Uid};
    use capi_types::condition::Status;

    #[test]
    fn equal_texts_share_one_copy() {
        let interner = Interner::default();
        let (a, b) = interner.with(|t| (t.text("Ready"), t.text("Ready")));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(interner.entries(), 1);
    }

    /// By words that are not shared yet, hashed as the values are.
    #[test]
    fn what_is_there_is_found_by_its_words() {
        let interner = Interner::default();
        interner.with(|t| {
            let [a, b, c] = ["a", "b", "c"].map(|text| t.text(text));
            let words = ConditionWords {
                type_: "a",
                status: Status::True,
                severity: Severity::Info,
                reason: "b",
                message: "c",
            };
            assert_eq!(t.known_condition(&words), None);
            let made = t.condition(ConditionText {
                type_: a.clone(),
                status: Status::True,
                severity: Severity::Info,
                reason: b.clone(),
                message: c.clone(),
            });
            assert_eq!(t.known_condition(&words), Some(made));
            assert_eq!(t.known_condition(&ConditionWords { message: "", ..words }), None);

            let made = t.labels(Labels([(a.clone(), b.clone()), (b.clone(), c.clone())].into()));
            assert_eq!(t.known_labels(&LabelWords(&[("a", "b"), ("b", "c")])), Some(made));
            assert_eq!(t.known_labels(&LabelWords(&[("a", "b")])), None);

            let words =
                OwnerWords { uid: Uid::parse("1"), group: "a", kind: "b", name: "c", controller: true };
            let made = t.owner(Owner {
                uid: words.uid,
                group: a.clone(),
                kind: b.clone(),
                name: c,
                controller: true,
            });
            assert_eq!(t.known_owner(&words), Some(made));
            assert_eq!(t.known_owner(&OwnerWords { controller: false, ..words }), None);

            let made = t.kind(GroupKind { group: a, kind: b });
            assert_eq!(t.known_kind(&GroupKindWords { group: "a", kind: "b" }), Some(made));
        });
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
