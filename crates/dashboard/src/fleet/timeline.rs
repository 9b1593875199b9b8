//! What was seen to happen to objects, cluster by cluster, bounded. Must not know how it is drawn or kept.
//!
//! Each cluster has its own list, so that a busy cluster does not push out what happened in a quiet one. When all
//! lists together are full, the longest are cut to one length.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Fleet;
use super::index::{ClusterKey, cluster_key};
use super::row::{Condition, Kind, Row, RowId, Uid, moment};
use super::turned::{RunMark, Turned};
use capi_types::condition::Status;
use capstan_base::time::Timestamp;

/// Entries kept for the whole fleet: about 2 MB with their names.
const ENTRIES_MAX: usize = 10_000;
/// Entries kept for one cluster.
const CLUSTER_MAX: usize = 2_000;
/// What is left of [`ENTRIES_MAX`] after the longest lists were cut.
const ENTRIES_AFTER_CUT: usize = ENTRIES_MAX / 4 * 3;
/// Entries that one reading gives.
const READ_MAX: usize = 1_000;
/// Entries that wait for being kept; of more the oldest are not.
const UNSAVED_MAX: usize = 5_000;
/// Two dashboards see the same thing within so many seconds.
const SAME_S: u32 = 5;

/// A condition that changed its status; of `Deleting` also its reason, which names the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flip {
    pub type_: Arc<str>,
    /// `None`: the condition was not there, or what it was before was not seen.
    pub from: Option<Status>,
    /// `None`: the condition is gone.
    pub to: Option<Status>,
    pub reason: Arc<str>,
}

/// What happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    Made,
    /// Its deletion was asked for.
    Deleted,
    /// It does not exist any more.
    Gone,
    Flip(Flip),
    /// Its `spec.version`, or that of its template.
    Version {
        from: Arc<str>,
        to: Arc<str>,
    },
    /// Its `spec.replicas`.
    Replicas {
        from: u32,
        to: u32,
    },
    Paused(bool),
}

/// One thing that happened to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineEntry {
    /// Seconds since the epoch: by the object's own account where it gives one, else when it was seen.
    pub at_s: u32,
    pub uid: Uid,
    pub kind: Kind,
    pub name: Arc<str>,
    pub happened: Happened,
}

impl TimelineEntry {
    pub fn at(&self) -> Option<Timestamp> {
        moment(self.at_s)
    }

    /// The same for what was seen and for what the object says of it.
    fn key(&self) -> (Uid, u32, &str) {
        let what = match &self.happened {
            Happened::Made => "made",
            Happened::Deleted => "deleted",
            Happened::Gone => "gone",
            Happened::Flip(flip) => flip.type_.as_ref(),
            Happened::Version { .. } => "version",
            Happened::Replicas { .. } => "replicas",
            Happened::Paused(_) => "paused",
        };
        (self.uid, self.at_s, what)
    }

    fn of(row: &Row, at_s: u32, happened: Happened) -> Self {
        Self { at_s, uid: row.uid, kind: row.kind, name: row.name.as_ref().into(), happened }
    }
}

/// What was seen in an earlier run, and the uid of the Cluster that it happened in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastEntry {
    pub cluster: Uid,
    pub entry: TimelineEntry,
}

/// What is kept of one run for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Happened(PastEntry),
    Turned(Turned),
    Run(RunMark),
}

impl Kept {
    /// Seconds since the epoch.
    pub fn at_s(&self) -> u32 {
        match self {
            Self::Happened(past) => past.entry.at_s,
            Self::Turned(turn) => turn.at_s,
            Self::Run(mark) => mark.at_s,
        }
    }
}

#[derive(Default)]
pub(super) struct Timeline {
    of: FxHashMap<ClusterKey, VecDeque<TimelineEntry>>,
    len: usize,
    /// Entries so far, those that were cut included.
    noted: u64,
    /// Of an earlier run, by the uid of the Cluster, until that is seen: another one may have its name meanwhile.
    earlier: FxHashMap<Uid, Vec<TimelineEntry>>,
    /// The uids of the Clusters that were seen.
    uids: FxHashMap<ClusterKey, Uid>,
    /// Not given to the next run yet; empty where nothing is kept.
    unsaved: VecDeque<(ClusterKey, TimelineEntry)>,
    is_kept: bool,
}

impl Timeline {
    /// Notes what differs between two states of one object. Without `is_live` a new object is not news: what it
    /// says is read from its conditions. Answers whether there was something to note.
    pub(super) fn record(&mut self, before: Option<&Row>, after: &Row, now_s: u32, is_live: bool) -> bool {
        let noted = self.noted;
        match before {
            Some(before) => self.record_change(before, after, now_s),
            None if is_live => self.push(after, after.created_s, Happened::Made),
            None => {}
        }
        self.noted != noted
    }

    fn record_change(&mut self, before: &Row, after: &Row, now_s: u32) {
        if after.is_deleting() && !before.is_deleting() {
            self.push(after, after.deleting_since_s, Happened::Deleted);
        }
        if before.version != after.version {
            let (from, to) = (before.version.clone(), after.version.clone());
            self.push(after, now_s, Happened::Version { from, to });
        }
        if before.paused != after.paused {
            self.push(after, now_s, Happened::Paused(after.paused));
        }
        let wanted = |row: &Row| row.counters().and_then(|c| c.desired);
        if let (Some(from), Some(to)) = (wanted(before), wanted(after))
            && from != to
        {
            self.push(after, now_s, Happened::Replicas { from, to });
        }
        self.record_flips(before, after, now_s);
    }

    fn record_flips(&mut self, before: &Row, after: &Row, now_s: u32) {
        for now in &after.conditions {
            let was = before.condition(&now.type_);
            let is_same = was.is_some_and(|was| was.status == now.status);
            let is_next_step =
                now.type_.as_ref() == "Deleting" && was.is_some_and(|was| was.reason != now.reason);
            if is_same && !is_next_step {
                continue;
            }
            // A step within `Deleting` does not move the condition's date.
            let at_s = if is_same || now.since_s == 0 { now_s } else { now.since_s };
            self.push(after, at_s, Happened::Flip(flip(now, was.map(|was| was.status))));
        }
        for was in before.conditions.iter().filter(|was| after.condition(&was.type_).is_none()) {
            let (type_, reason) = (was.type_.clone(), was.reason.clone());
            let gone = Flip { type_, from: Some(was.status), to: None, reason };
            self.push(after, now_s, Happened::Flip(gone));
        }
    }

    /// A Cluster is seen for the first time: what was seen of it in an earlier run is its past.
    pub(super) fn welcome(&mut self, cluster: &Row) {
        self.uids.insert(cluster_key(cluster), cluster.uid);
        let Some(past) = self.earlier.remove(&cluster.uid) else { return };
        let entries = self.of.entry(cluster_key(cluster)).or_default();
        self.len += past.len();
        // In front of what was seen meanwhile, in its own order.
        past.into_iter().rev().for_each(|entry| entries.push_front(entry));
        if self.len > ENTRIES_MAX {
            self.cut();
        }
    }

    pub(super) fn record_gone(&mut self, row: &Row, now_s: u32) {
        self.push(row, now_s, Happened::Gone);
    }

    fn push(&mut self, row: &Row, at_s: u32, happened: Happened) {
        self.noted += 1;
        let (key, entry) = (cluster_key(row), TimelineEntry::of(row, at_s, happened));
        if self.is_kept {
            if self.unsaved.len() == UNSAVED_MAX {
                self.unsaved.pop_front();
            }
            self.unsaved.push_back((key.clone(), entry.clone()));
        }
        let entries = self.of.entry(key).or_default();
        if entries.len() == CLUSTER_MAX {
            entries.pop_front();
            self.len -= 1;
        }
        entries.push_back(entry);
        self.len += 1;
        if self.len > ENTRIES_MAX {
            self.cut();
        }
    }

    /// Cuts the longest lists to one length, so that there is room again.
    fn cut(&mut self) {
        let lengths: Vec<usize> = self.of.values().map(VecDeque::len).collect();
        let mut keep = CLUSTER_MAX;
        while keep > 0 && lengths.iter().map(|len| (*len).min(keep)).sum::<usize>() > ENTRIES_AFTER_CUT {
            keep /= 2;
        }
        self.of.values_mut().for_each(|entries| drop(entries.drain(..entries.len().saturating_sub(keep))));
        self.of.retain(|_, entries| !entries.is_empty());
        self.len = self.of.values().map(VecDeque::len).sum();
    }

    /// `seen`: when each thing was seen last; what two dashboards saw is taken once.
    fn take_past(&mut self, past: PastEntry, seen: &mut FxHashMap<(Uid, String), u32>) {
        let what = (past.entry.uid, format!("{:?}", past.entry.happened));
        let before = seen.insert(what, past.entry.at_s);
        if before.is_none_or(|at_s| past.entry.at_s > at_s.saturating_add(SAME_S)) {
            self.earlier.entry(past.cluster).or_default().push(past.entry);
        }
    }

    fn take_unsaved(&mut self) -> Vec<PastEntry> {
        let (mut ready, mut waiting) = (Vec::new(), VecDeque::new());
        for (key, entry) in self.unsaved.drain(..) {
            match self.uids.get(&key) {
                Some(cluster) => ready.push(PastEntry { cluster: *cluster, entry }),
                None => waiting.push_back((key, entry)),
            }
        }
        self.unsaved = waiting;
        ready
    }

    fn of_cluster(&self, row: &Row) -> impl DoubleEndedIterator<Item = &TimelineEntry> {
        self.of.get(&cluster_key(row)).into_iter().flatten()
    }
}

fn flip(now: &Condition, from: Option<Status>) -> Flip {
    Flip { type_: now.type_.clone(), from, to: Some(now.status), reason: now.reason.clone() }
}

impl Fleet {
    /// Takes in what was kept of earlier runs, before anything else is known, and keeps for the next one what happens from
    /// now on.
    pub fn keep_history(&mut self, kept: Vec<Kept>) {
        (self.timeline.is_kept, self.turns.is_kept) = (true, true);
        let mut last_s = 0;
        let mut seen = FxHashMap::default();
        for one in kept {
            let at_s = one.at_s();
            match one {
                Kept::Happened(past) => self.timeline.take_past(past, &mut seen),
                Kept::Turned(turn) => self.turns.take_turn(turn),
                Kept::Run(mark) => self.turns.take_mark(mark, last_s),
            }
            last_s = last_s.max(at_s);
        }
        self.turns.end_span(last_s);
    }

    /// What happened since this was asked last, the oldest first, where it is kept. Of a Cluster that was not seen yet it
    /// waits.
    pub fn unsaved_history(&mut self) -> Vec<Kept> {
        let mut all: Vec<Kept> = self.timeline.take_unsaved().into_iter().map(Kept::Happened).collect();
        all.extend(self.turns.unsaved_turns.drain(..).map(Kept::Turned));
        all.extend(self.turns.unsaved_marks.drain(..).map(Kept::Run));
        all.sort_by_key(Kept::at_s);
        all
    }

    /// Something waits for being kept.
    pub fn has_unsaved_history(&self) -> bool {
        let has_marks = !self.turns.unsaved_turns.is_empty() || !self.turns.unsaved_marks.is_empty();
        has_marks || self.timeline.unsaved.iter().any(|(key, _)| self.timeline.uids.contains_key(key))
    }

    /// What was seen to happen in the cluster that an object belongs to, in the order in which it was seen.
    pub fn seen_in_cluster_of(&self, row: &Row) -> impl DoubleEndedIterator<Item = &TimelineEntry> {
        self.timeline.of_cluster(row)
    }

    /// What is known of an object's past, newest first: what was seen, and, for what was not, when it was made and
    /// when its conditions last changed, by its own account. Of a Cluster everything below it; of the Machines
    /// there that were not watched, when they were made, got ready and were deleted.
    pub fn timeline(&self, id: RowId) -> Vec<TimelineEntry> {
        let Some(row) = self.row(id) else { return Vec::new() };
        let is_cluster = row.kind == Kind::Cluster;
        let seen = self.seen_in_cluster_of(row).filter(|e| is_cluster || e.uid == row.uid).cloned().collect();
        let mut known: Vec<TimelineEntry> = own_account(row).collect();
        if is_cluster {
            known.extend(self.accounts_of_machines(id));
        }
        newest(seen, known, READ_MAX)
    }

    /// The newest of what is known of the past of an object, without the accounts of what is below it: cheap enough for every
    /// picture.
    pub fn latest(&self, id: RowId, most: usize) -> Vec<TimelineEntry> {
        let Some(row) = self.row(id) else { return Vec::new() };
        let is_cluster = row.kind == Kind::Cluster;
        let seen = self.seen_in_cluster_of(row).rev().filter(|e| is_cluster || e.uid == row.uid);
        let mut seen: Vec<TimelineEntry> = seen.take(most).cloned().collect();
        seen.reverse();
        newest(seen, own_account(row).collect(), most)
    }

    /// The newest of what the Machines of a cluster say of their own past.
    fn accounts_of_machines(&self, cluster: RowId) -> impl Iterator<Item = TimelineEntry> + '_ {
        let mut moments: Vec<(u32, RowId, Mark)> = Vec::new();
        for machine in self.members(cluster, Kind::Machine) {
            let marks = self.row(*machine).into_iter().flat_map(|row| marks(row));
            moments.extend(marks.map(|(at_s, mark)| (at_s, *machine, mark)));
        }
        moments.sort_by_key(|(at_s, ..)| std::cmp::Reverse(*at_s));
        moments.truncate(READ_MAX);
        moments.into_iter().filter_map(|(at_s, machine, mark)| mark.entry(self.row(machine)?, at_s))
    }
}

/// What was seen and what objects say of themselves, which counts where it was not seen; newest first.
fn newest(mut all: Vec<TimelineEntry>, mut known: Vec<TimelineEntry>, most: usize) -> Vec<TimelineEntry> {
    let seen: FxHashSet<(Uid, u32, &str)> = all.iter().map(TimelineEntry::key).collect();
    known.retain(|entry| !seen.contains(&entry.key()));
    all.append(&mut known);
    // Of one second the last that was seen comes first.
    all.reverse();
    all.sort_by_key(|e| std::cmp::Reverse(e.at_s));
    all.truncate(most);
    all
}

/// What an object says of its own past.
fn own_account(row: &Row) -> impl Iterator<Item = TimelineEntry> + '_ {
    let made = TimelineEntry::of(row, row.created_s, Happened::Made);
    let deleted = row.is_deleting().then(|| TimelineEntry::of(row, row.deleting_since_s, Happened::Deleted));
    // A condition as old as its object came with it, and is not a change.
    let flips = row.conditions.iter().filter(|c| c.since_s != 0 && c.since_s != row.created_s);
    let flips = flips.map(|c| TimelineEntry::of(row, c.since_s, Happened::Flip(flip(c, None))));
    std::iter::once(made).chain(deleted).chain(flips)
}

/// The moments in the life of a Machine that are worth a line of its cluster's timeline.
#[derive(Clone, Copy)]
enum Mark {
    Made,
    Ready,
    Deleted,
}

impl Mark {
    fn entry(self, row: &Row, at_s: u32) -> Option<TimelineEntry> {
        let happened = match self {
            Self::Made => Happened::Made,
            Self::Ready => Happened::Flip(flip(row.condition("Ready")?, None)),
            Self::Deleted => Happened::Deleted,
        };
        Some(TimelineEntry::of(row, at_s, happened))
    }
}

fn marks(row: &Row) -> impl Iterator<Item = (u32, Mark)> + use<> {
    let ready = row.condition("Ready").filter(|c| c.status == Status::True).map_or(0, |c| c.since_s);
    [(row.created_s, Mark::Made), (ready, Mark::Ready), (row.deleting_since_s, Mark::Deleted)]
        .into_iter()
        .filter(|(at_s, _)| *at_s != 0)
}
