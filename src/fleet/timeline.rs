//! Condition flips in the order in which they were seen, bounded. Must not know how they are drawn
//! or kept.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Fleet;
use super::row::{Row, RowId, SourceId, Uid, moment};
use crate::api::condition::Status;
use crate::time::Timestamp;

/// Flips kept for the whole fleet: about 1 MB.
const FLIPS_MAX: usize = 10_000;

/// One condition that changed its status on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flip {
    pub source: SourceId,
    pub uid: Uid,
    pub type_: Arc<str>,
    /// `None`: the condition was not there, or what it said before was not seen.
    pub from: Option<Status>,
    /// `None`: the condition is gone.
    pub to: Option<Status>,
    pub reason: Arc<str>,
    /// Seconds since the epoch, from the object; 0 when it does not say.
    pub at_s: u32,
}

impl Flip {
    #[must_use]
    pub fn at(&self) -> Option<Timestamp> {
        moment(self.at_s)
    }
}

#[derive(Default)]
pub(super) struct Timeline {
    flips: VecDeque<Flip>,
}

impl Timeline {
    /// Notes what differs between two states of one object. A new object is not news: what it says is
    /// read from its conditions.
    pub(super) fn record(&mut self, before: Option<&Row>, after: &Row) {
        let Some(before) = before else { return };
        for now in &after.conditions {
            let was = before.condition(&now.type_);
            if was.is_some_and(|was| was.status == now.status) {
                continue;
            }
            self.push(Flip {
                source: after.source,
                uid: after.uid,
                type_: now.type_.clone(),
                from: was.map(|was| was.status),
                to: Some(now.status),
                reason: now.reason.clone(),
                at_s: now.since_s,
            });
        }
        for was in before.conditions.iter().filter(|was| after.condition(&was.type_).is_none()) {
            self.push(Flip {
                source: after.source,
                uid: after.uid,
                type_: was.type_.clone(),
                from: Some(was.status),
                to: None,
                reason: was.reason.clone(),
                at_s: 0,
            });
        }
    }

    fn push(&mut self, flip: Flip) {
        if self.flips.len() == FLIPS_MAX {
            self.flips.pop_front();
        }
        self.flips.push_back(flip);
    }
}

impl Fleet {
    /// Flips seen on any object since the program started, oldest first.
    pub fn flips(&self) -> impl DoubleEndedIterator<Item = &Flip> {
        self.timeline.flips.iter()
    }

    /// What is known of one object's past, newest first: the flips that were seen, and for conditions
    /// that have not flipped since, when they last did by their own account.
    #[must_use]
    pub fn timeline(&self, id: RowId) -> Vec<Flip> {
        let Some(row) = self.row(id) else { return Vec::new() };
        let mut flips: Vec<Flip> =
            self.flips().filter(|f| f.source == row.source && f.uid == row.uid).cloned().collect();
        for c in &row.conditions {
            if !flips.iter().any(|f| f.type_ == c.type_ && f.at_s == c.since_s) {
                flips.push(Flip {
                    source: row.source,
                    uid: row.uid,
                    type_: c.type_.clone(),
                    from: None,
                    to: Some(c.status),
                    reason: c.reason.clone(),
                    at_s: c.since_s,
                });
            }
        }
        flips.sort_by_key(|f| std::cmp::Reverse(f.at_s));
        flips
    }
}
