//! What a person has seen and wants quiet: acknowledged until it is well again, or shelved for a while with a reason.
//! Owns what may be marked and when a mark ends; must not know where marks are kept, nor how they are drawn.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::Fleet;
use super::row::{Kind, RowId, Uid};
use crate::fleet::Verdict;

/// An acknowledgement lasts a day: what is still wrong then is looked at again.
const ACKNOWLEDGED_S: u32 = 24 * 3600;
/// Nothing is shelved for longer.
const SHELVED_MAX_S: u32 = 7 * 24 * 3600;
/// As many marks are kept; the one that ends first leaves.
const MARKS_MAX: usize = 1_000;

/// One object that a person wants quiet, with what was wrong with it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub uid: Uid,
    /// Kind, namespace and name, for who reads the file.
    pub object: Box<str>,
    /// Kind and condition type of the first cause. Another cause ends the mark.
    pub cause: Box<str>,
    /// A worse one ends the mark.
    pub verdict: Verdict,
    /// Seconds since the epoch.
    pub until_s: u32,
    /// Why it is shelved; `None`: it was only seen, and the mark ends when it is well.
    pub reason: Option<Box<str>>,
}

impl Mark {
    pub fn is_shelf(&self) -> bool {
        self.reason.is_some()
    }
}

#[derive(Default)]
pub(super) struct Marks {
    by_uid: FxHashMap<Uid, Mark>,
    /// What is above marked objects, where everything that is wrong is marked; and the mark that ends first.
    above: FxHashMap<Uid, Uid>,
    /// They differ from what was saved last.
    is_changed: bool,
}

impl Marks {
    pub(super) fn until_s(&self) -> Option<u32> {
        self.by_uid.values().map(|mark| mark.until_s).min()
    }

    /// The object's own, or, where all that is wrong with it is marked below it, one of those.
    fn of(&self, uid: Uid) -> Option<&Mark> {
        self.by_uid.get(&uid).or_else(|| self.by_uid.get(self.above.get(&uid)?))
    }

    fn insert(&mut self, mark: Mark) {
        self.by_uid.insert(mark.uid, mark);
        let first = self.by_uid.values().min_by_key(|mark| mark.until_s).map(|mark| mark.uid);
        if let Some(uid) = first.filter(|_| self.by_uid.len() > MARKS_MAX) {
            self.by_uid.remove(&uid);
        }
    }
}

impl Fleet {
    /// What a person noted of the object, as long as that holds; or of everything below it that is wrong.
    pub fn mark(&self, id: RowId) -> Option<&Mark> {
        if self.marks.by_uid.is_empty() {
            return None;
        }
        self.marks.of(self.row(id)?.uid)
    }

    /// What a person noted of the object itself.
    pub fn own_mark(&self, id: RowId) -> Option<&Mark> {
        self.marks.by_uid.get(&self.row(id)?.uid)
    }

    /// How many clusters are shelved.
    pub fn shelved_clusters(&self) -> usize {
        if self.marks.by_uid.is_empty() {
            return 0;
        }
        self.clusters().iter().filter(|id| self.is_shelved(**id)).count()
    }

    /// It stands below all others.
    pub(super) fn is_shelved(&self, id: RowId) -> bool {
        self.mark(id).is_some_and(Mark::is_shelf)
    }

    /// Notes that what is wrong with the object was seen.
    ///
    /// # Errors
    /// Why it cannot be, in a sentence.
    pub fn acknowledge(&mut self, id: RowId) -> Result<(), String> {
        self.put_mark(id, ACKNOWLEDGED_S, None)
    }

    /// Puts what is wrong with the object aside for so long.
    ///
    /// # Errors
    /// Why it cannot be, in a sentence.
    pub fn shelve(&mut self, id: RowId, for_s: u32, reason: &str) -> Result<(), String> {
        if for_s == 0 || for_s > SHELVED_MAX_S {
            return Err("shelve for at least a second and at most 7d".to_owned());
        }
        if reason.trim().is_empty() {
            return Err("a reason is needed: `shelve 8h the disk is being replaced`".to_owned());
        }
        self.put_mark(id, for_s, Some(capstan_base::text::sanitize_line(reason.trim()).into()))
    }

    /// Takes the note back. Answers whether there was one.
    pub fn unmark(&mut self, id: RowId) -> bool {
        let uid = self.row(id).map(|row| row.uid);
        let is_gone = uid.is_some_and(|uid| self.marks.by_uid.remove(&uid).is_some());
        self.note_marks(is_gone)
    }

    /// Takes in what was kept of an earlier run.
    pub fn set_marks(&mut self, marks: Vec<Mark>) {
        marks.into_iter().for_each(|mark| self.marks.insert(mark));
    }

    /// All marks where they changed since this was asked last, by object.
    pub fn unsaved_marks(&mut self) -> Option<Vec<Mark>> {
        if !std::mem::take(&mut self.marks.is_changed) {
            return None;
        }
        let mut all: Vec<Mark> = self.marks.by_uid.values().cloned().collect();
        all.sort_by(|a, b| (&a.object, a.uid).cmp(&(&b.object, b.uid)));
        Some(all)
    }

    fn put_mark(&mut self, id: RowId, for_s: u32, reason: Option<Box<str>>) -> Result<(), String> {
        let row = self.row(id).ok_or("the object does not exist any more")?;
        let verdict = self.index.last_verdict(id);
        if verdict <= Verdict::Progressing {
            return Err(format!("it is {verdict}: there is nothing to quieten"));
        }
        let place = if row.namespace.is_empty() { String::new() } else { format!("{}/", row.namespace) };
        let object = format!("{} {place}{}", row.gvk.kind, row.name).into();
        let (uid, until_s) = (row.uid, self.now_s().saturating_add(for_s));
        let cause = self.first_cause(id).into();
        self.marks.insert(Mark { uid, object, cause, verdict, until_s, reason });
        self.note_marks(true);
        Ok(())
    }

    /// Takes away the marks that ended. Answers whether one did.
    pub(super) fn settle_marks(&mut self) -> bool {
        // Before everything was read, nothing can be said to be well.
        if self.marks.by_uid.is_empty() || !self.index.is_live {
            return false;
        }
        let over: Vec<Uid> =
            self.marks.by_uid.values().filter(|mark| self.is_over(mark)).map(|mark| mark.uid).collect();
        for uid in &over {
            self.marks.by_uid.remove(uid);
        }
        if over.is_empty() {
            return self.settle_above();
        }
        self.note_marks(true)
    }

    fn note_marks(&mut self, is_changed: bool) -> bool {
        self.marks.is_changed |= is_changed;
        self.revision += u64::from(is_changed);
        if is_changed {
            self.settle_above();
        }
        is_changed
    }

    /// Works out again what is quiet because all that is wrong below it is. Answers whether that changed.
    fn settle_above(&mut self) -> bool {
        let marked = self.marks.by_uid.keys().filter_map(|uid| self.find_anywhere(*uid));
        let above: BTreeSet<RowId> = marked.flat_map(|id| self.above(id)).collect();
        let quiet =
            above.into_iter().filter_map(|id| Some((self.row(id)?.uid, self.mark_of_causes(id)?.uid)));
        let quiet: FxHashMap<Uid, Uid> = quiet.collect();
        let is_changed = quiet != self.marks.above;
        self.marks.above = quiet;
        self.revision += u64::from(is_changed);
        is_changed
    }

    /// What owns the object, from the nearest on, and its cluster.
    fn above(&self, id: RowId) -> Vec<RowId> {
        let owners = std::iter::successors(self.owner_of(id), |above| self.owner_of(*above));
        // Owner references may run in circles.
        owners.take(Kind::ALL.len()).chain(self.cluster_of(id)).filter(|above| *above != id).collect()
    }

    fn find_anywhere(&self, uid: Uid) -> Option<RowId> {
        self.feeds.keys().find_map(|key| self.index.find(key.source, uid))
    }

    fn is_over(&self, mark: &Mark) -> bool {
        if self.now_s() >= mark.until_s {
            return true;
        }
        // An object that is not here may belong to another management cluster.
        let Some(id) = self.find_anywhere(mark.uid) else { return false };
        // Without contact nothing proves that the object is well, or worse.
        if self.index.is_lost(id) {
            return false;
        }
        let verdict = self.index.last_verdict(id);
        if verdict <= Verdict::Progressing {
            return !mark.is_shelf();
        }
        // A person has seen another trouble than this one.
        verdict > mark.verdict || self.first_cause(id) != mark.cause.as_ref()
    }
}
