//! How many Machines of a cluster were there and ready at moments of the past: from what was seen to happen to them, and what
//! those that are there say of themselves. Must not know how it is drawn.

use rustc_hash::FxHashMap;

use crate::fleet::row::{Kind, RowId, Uid};
use crate::fleet::timeline::{Happened, TimelineEntry};
use crate::fleet::{Fleet, Row};
use capi_types::condition::Status;

/// Machines at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachinesThen {
    pub ready: usize,
    pub there: usize,
}

/// What is known of the life of one Machine.
#[derive(Default)]
struct Life {
    made_s: u32,
    gone_s: Option<u32>,
    /// When it was ready from then on, and when it was not; the oldest first.
    ready: Vec<(u32, bool)>,
}

impl Life {
    /// By what the Machine says of itself.
    fn of(machine: &Row) -> Self {
        let ready = machine.condition("Ready").map(|c| (c.since_s, c.status == Status::True));
        let deleting = machine.is_deleting().then_some((machine.deleting_since_s, false));
        let ready = ready.into_iter().chain(deleting).collect();
        Self { made_s: machine.created_s, gone_s: None, ready }
    }

    /// What was seen of it counts more, the oldest first.
    fn note(&mut self, entry: &TimelineEntry) {
        match &entry.happened {
            Happened::Made => self.made_s = entry.at_s,
            Happened::Gone => self.gone_s = Some(entry.at_s),
            Happened::Deleted => self.ready.push((entry.at_s, false)),
            Happened::Flip(flip) if flip.type_.as_ref() == "Ready" => {
                if flip.from == Some(Status::True) {
                    // It was ready until then, since nobody knows when.
                    self.ready.push((self.made_s, true));
                }
                self.ready.push((entry.at_s, flip.to == Some(Status::True)));
            }
            _ => {}
        }
    }

    fn is_there(&self, at_s: u32) -> bool {
        self.made_s <= at_s && self.gone_s.is_none_or(|gone_s| gone_s > at_s)
    }

    fn is_ready(&self, at_s: u32) -> bool {
        let last =
            self.ready.iter().filter(|(since_s, _)| *since_s <= at_s).max_by_key(|(since_s, _)| *since_s);
        self.is_there(at_s) && last.is_some_and(|(_, is_ready)| *is_ready)
    }
}

impl Fleet {
    /// The Machines of a cluster at each of these moments, seconds since the epoch.
    pub fn machines_at(&self, cluster: RowId, moments: &[u32]) -> Vec<MachinesThen> {
        let mut lives: FxHashMap<Uid, Life> = FxHashMap::default();
        for machine in self.members(cluster, Kind::Machine).iter().filter_map(|id| self.row(*id)) {
            lives.insert(machine.uid, Life::of(machine));
        }
        let seen = self.row(cluster).into_iter().flat_map(|row| self.seen_in_cluster_of(row));
        for entry in seen.filter(|entry| entry.kind == Kind::Machine) {
            // One that is gone was there, and ready, until something else was seen.
            let before = || Life { ready: vec![(0, true)], ..Life::default() };
            lives.entry(entry.uid).or_insert_with(before).note(entry);
        }
        let then = |at_s: &u32| MachinesThen {
            there: lives.values().filter(|life| life.is_there(*at_s)).count(),
            ready: lives.values().filter(|life| life.is_ready(*at_s)).count(),
        };
        moments.iter().map(then).collect()
    }
}
