//! Which clusters turned when: seen in this run and, before it, in earlier ones. Owns how many turns are kept, when
//! anybody watched, and how the clusters stood at a moment. Must not know how it is drawn or kept.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Fleet;
use super::row::Uid;
use super::verdict::Verdict;
use capstan_base::time::Timestamp;

/// Turns kept in memory, newest: some hundred kilobytes.
const TURNS_MAX: usize = 10_000;

/// A cluster that has another verdict than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turned {
    /// When that was seen, seconds since the epoch.
    pub at_s: u32,
    pub cluster: Uid,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// `None`: it was not there, or nothing was known of it.
    pub from: Option<Verdict>,
    /// `None`: it is gone.
    pub to: Option<Verdict>,
}

/// A moment in the run of a dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunMark {
    pub at_s: u32,
    pub is: RunPart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPart {
    /// Everything was listed for the first time.
    Began,
    /// Somebody was at the keys.
    Looked,
    /// Somebody left it, or a signal ended it.
    Ended,
}

/// How a cluster stood when it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stood {
    namespace: Arc<str>,
    name: Arc<str>,
    verdict: Verdict,
}

/// How many clusters were at fault in a part of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// No dashboard ran.
    Unknown,
    /// The most that were at fault at once.
    Most(usize),
}

#[derive(Default)]
pub(super) struct Turns {
    turns: VecDeque<Turned>,
    stood: FxHashMap<Uid, Stood>,
    /// When earlier runs watched: from, until.
    watched: Vec<(u32, u32)>,
    began_s: Option<u32>,
    /// When somebody looked last before now.
    looked_s: Option<u32>,
    /// Not given to the next run yet; empty where nothing is kept.
    pub(super) unsaved_turns: Vec<Turned>,
    pub(super) unsaved_marks: Vec<RunMark>,
    pub(super) is_kept: bool,
}

impl Turns {
    /// A turn of an earlier run, the oldest first.
    pub(super) fn take_turn(&mut self, turn: Turned) {
        let known = self.stood.get(&turn.cluster).map(|stood| stood.verdict);
        // Two dashboards that ran side by side both saw it.
        if known == turn.to {
            return;
        }
        self.note_stood(&turn);
        self.push(turn);
    }

    /// A moment of an earlier run; `last_s`: of what was kept before it.
    pub(super) fn take_mark(&mut self, mark: RunMark, last_s: u32) {
        if mark.is == RunPart::Began {
            self.end_span(last_s);
            self.watched.push((mark.at_s, mark.at_s));
        }
        if mark.is == RunPart::Ended {
            self.end_span(mark.at_s);
        } else {
            self.looked_s = self.looked_s.max(Some(mark.at_s));
        }
    }

    /// What was kept last shows until when the last run watched at least.
    pub(super) fn end_span(&mut self, at_s: u32) {
        if let Some((from_s, until_s)) = self.watched.last_mut() {
            *until_s = (*until_s).max(at_s).max(*from_s);
        }
    }

    fn note_stood(&mut self, turn: &Turned) {
        match turn.to {
            Some(verdict) => {
                let (namespace, name) = (turn.namespace.clone(), turn.name.clone());
                self.stood.insert(turn.cluster, Stood { namespace, name, verdict });
            }
            None => drop(self.stood.remove(&turn.cluster)),
        }
    }

    fn push(&mut self, turn: Turned) {
        if self.turns.len() == TURNS_MAX {
            self.turns.pop_front();
        }
        self.turns.push_back(turn);
    }

    fn turn(&mut self, turn: Turned) {
        self.note_stood(&turn);
        if self.is_kept {
            self.unsaved_turns.push(turn.clone());
        }
        self.push(turn);
    }

    fn mark(&mut self, mark: RunMark) {
        if self.is_kept {
            self.unsaved_marks.push(mark);
        }
    }

    /// How the clusters that turned since then stood at that moment; `None` of one: it was not there, or not known.
    fn stood_at(&self, at_s: u32) -> FxHashMap<Uid, Option<Verdict>> {
        let mut stood = FxHashMap::default();
        // Backwards, so that the first turn after the moment counts.
        for turn in self.turns.iter().rev().take_while(|turn| turn.at_s > at_s) {
            stood.insert(turn.cluster, turn.from);
        }
        stood
    }

    /// When anybody began to watch.
    fn first_s(&self) -> Option<u32> {
        self.watched.first().map(|(from_s, _)| *from_s).or(self.began_s)
    }

    fn is_watched(&self, from_s: u32, until_s: u32, now_s: u32) -> bool {
        let current = self.began_s.map(|began_s| (began_s, now_s));
        self.watched.iter().copied().chain(current).any(|(from, until)| from <= until_s && until > from_s)
    }
}

/// Does a verdict count as a fault in the past of a fleet? What could not be read does not.
fn is_fault(verdict: Option<Verdict>) -> bool {
    verdict.is_some_and(Verdict::is_at_fault)
}

impl Fleet {
    /// Notes which clusters turned. Not before everything is listed, nor while a server is lost: nothing is known then.
    pub(super) fn note_turns(&mut self) {
        if !self.index.is_live || !self.index.lost.is_empty() {
            return;
        }
        let at_s = self.now_s();
        let mut turned = Vec::new();
        for id in self.clusters() {
            let Some(row) = self.row(*id) else { continue };
            let verdict = self.verdict(*id);
            let from = self.turns.stood.get(&row.uid).map(|stood| stood.verdict);
            if from != Some(verdict) {
                let (namespace, name) = (row.namespace.as_ref().into(), row.name.as_ref().into());
                turned.push(Turned { at_s, cluster: row.uid, namespace, name, from, to: Some(verdict) });
            }
        }
        let gone = self.turns.stood.iter().filter(|(uid, _)| self.cluster_with(**uid).is_none());
        turned.extend(gone.map(|(uid, stood)| Turned {
            at_s,
            cluster: *uid,
            namespace: stood.namespace.clone(),
            name: stood.name.clone(),
            from: Some(stood.verdict),
            to: None,
        }));
        if self.turns.began_s.is_none() {
            self.turns.began_s = Some(at_s);
            self.turns.mark(RunMark { at_s, is: RunPart::Began });
        }
        turned.into_iter().for_each(|turn| self.turns.turn(turn));
    }

    fn cluster_with(&self, uid: Uid) -> Option<super::RowId> {
        self.sources.keys().find_map(|source| self.find(*source, uid))
    }

    /// Somebody comes back to the keys, and was at them last at that moment.
    pub fn looked_last(&mut self, at_s: u32) {
        self.turns.looked_s = Some(at_s);
    }

    /// When somebody looked last before now, seconds since the epoch; `None`: that is not known.
    pub fn looked_s(&self) -> Option<u32> {
        self.turns.looked_s
    }

    /// Notes for the next run that somebody was at the keys, or that this run ends.
    pub fn mark_run(&mut self, is: RunPart, at: Timestamp) {
        // A run that never saw everything has nothing to compare with.
        if self.turns.began_s.is_some() {
            self.turns.mark(RunMark { at_s: super::seconds(at), is });
        }
    }

    /// The clusters that have another verdict than at that moment, or than when they were seen first, and which they had. One that
    /// came since then had none.
    pub fn turned_since(&self, at_s: u32) -> Vec<Turned> {
        // How everything stood when it was listed for the first time is not news.
        let at_s = at_s.max(self.turns.first_s().unwrap_or(0));
        let stood = self.turns.stood_at(at_s);
        let mut last: FxHashMap<Uid, &Turned> = FxHashMap::default();
        self.turns.turns.iter().filter(|turn| turn.at_s > at_s).for_each(|turn| {
            last.insert(turn.cluster, turn);
        });
        let mut all: Vec<Turned> = last
            .into_values()
            .map(|turn| Turned { from: stood.get(&turn.cluster).copied().flatten(), ..turn.clone() })
            .filter(|turn| turn.from != turn.to)
            .collect();
        all.sort_by(|a, b| (b.to, b.at_s, &a.namespace, &a.name).cmp(&(a.to, a.at_s, &b.namespace, &b.name)));
        all
    }

    /// How many clusters were at fault at most in each of `parts` equal parts of the last `seconds`, the oldest first; of
    /// one namespace where one is named.
    pub fn faults_over(&self, seconds: u32, parts: u32, namespace: Option<&str>) -> Vec<Faults> {
        let now_s = self.now_s();
        let part_s = (seconds / parts.max(1)).max(1);
        // Parts begin at round moments of the clock, so that what is over stays as it is.
        let end_s = now_s.div_ceil(part_s).saturating_mul(part_s);
        let is_meant = |turn: &&Turned| namespace.is_none_or(|wanted| *turn.namespace == *wanted);
        let stood = self.turns.stood.values();
        let stood = stood.filter(|stood| namespace.is_none_or(|wanted| *stood.namespace == *wanted));
        let mut count = stood.filter(|stood| is_fault(Some(stood.verdict))).count();
        let mut turns = self.turns.turns.iter().rev().filter(is_meant).peekable();
        let mut all = Vec::new();
        for back in 0..parts {
            let until_s = end_s.saturating_sub(back * part_s);
            let from_s = until_s.saturating_sub(part_s);
            let mut most = count;
            // Back through the turns of this part: what each of them left is taken back.
            while let Some(turn) = turns.next_if(|turn| turn.at_s > from_s) {
                count = count + usize::from(is_fault(turn.from)) - usize::from(is_fault(turn.to)).min(count);
                most = most.max(count);
            }
            let is_watched = self.turns.is_watched(from_s, until_s, now_s);
            all.push(if is_watched { Faults::Most(most) } else { Faults::Unknown });
        }
        all.reverse();
        all
    }

    /// Every turn that is known, the oldest first.
    pub fn turns(&self) -> impl Iterator<Item = &Turned> {
        self.turns.turns.iter()
    }

    /// Since when this run has seen everything, seconds since the epoch.
    pub fn watched_from_s(&self) -> Option<u32> {
        self.turns.began_s
    }

    /// For how long it is known how clusters stood, seconds.
    pub fn watched_for_s(&self) -> u32 {
        self.turns.first_s().map_or(0, |from_s| self.now_s().saturating_sub(from_s))
    }
}
