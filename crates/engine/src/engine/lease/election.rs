//! One process's part in the election on one Lease, as a pure state machine: what to send next, what an answer means,
//! until when the right holds. Must not know how requests are sent, nor which clock the moments are from.
//! Source: client-go `tools/leaderelection/leaderelection.go` (`tryAcquireOrRenew`): expiry is judged by the local
//! clock since the record last changed, never by the times in it.
//!
//! Where it is stricter: the right is counted from the moment a renewal was sent, not from its answer; a record is ours
//! only when this process sent it; a Lease that vanished under its holder does not count as free.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::LeaseOptions;
use super::record::{LastRecord, Record, Seen};
use super::right::{FencingToken, Moment, Right};

/// Records kept that were sent and not answered: each may still turn out to have been stored.
const SENT_MAX: usize = 8;

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseRequest {
    Read,
    Create(Record),
    /// Only while the Lease is unchanged.
    Update {
        of: Seen,
        record: Record,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseReply {
    Found(Option<Seen>),
    Stored(Seen),
    /// Somebody else was first, or the Lease is gone.
    Overtaken,
    /// The server will not answer otherwise before somebody changes rights.
    Forbidden(String),
    /// It may have been stored.
    Failed(String),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Holds,
    /// Another holds it, or was first.
    Waits,
    /// A server elects for this Lease.
    Coordinated,
    Forbidden(String),
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Send(LeaseRequest),
    Rest(Standing),
}

/// How far the taking from another holder is.
#[derive(Clone, Debug, Default)]
struct Seizing {
    /// It was ours: it is not taken from others again.
    is_over: bool,
    /// From then on a holder whose record was replaced must have stopped.
    former_stops: Option<Instant>,
}

#[derive(Clone, Debug)]
pub struct Election {
    options: LeaseOptions,
    observed: LastRecord,
    /// The records that were sent: the last one that was stored, then those whose outcome is unknown.
    sent: VecDeque<Record>,
    /// What the server has of us, to renew without reading first.
    held: Option<Seen>,
    /// The write under way: when it was sent, and whether nothing was read before it.
    writing: Option<(Moment, bool)>,
    seizing: Seizing,
    right: Right,
}

impl Election {
    pub fn new(options: LeaseOptions) -> Self {
        let (observed, sent, seizing) = (LastRecord::default(), VecDeque::new(), Seizing::default());
        Self { options, observed, sent, held: None, writing: None, seizing, right: Right::No }
    }

    pub fn right(&self) -> &Right {
        &self.right
    }

    /// Begins an attempt.
    pub fn begin(&mut self, now: Moment) -> LeaseRequest {
        // A renewal needs no read while the right holds: nobody else
        // may have taken the Lease. After a pause somebody may.
        match self.held.clone().filter(|_| self.right.holds(now)) {
            Some(held) => self.update(held, now, true),
            None => LeaseRequest::Read,
        }
    }

    /// Takes the answer to what was sent last.
    pub fn on(&mut self, answer: LeaseReply, now: Moment) -> Next {
        let writing = self.writing.take();
        let next = match answer {
            LeaseReply::Found(found) => self.found(found, now),
            LeaseReply::Stored(seen) => {
                self.stored(seen, writing, now);
                Next::Rest(Standing::Holds)
            }
            LeaseReply::Overtaken => {
                self.held = None;
                let was_blind = writing.is_some_and(|(_, blind)| blind);
                // Something beside the election may have written the Lease,
                // such as a label: a read shows whether it is still ours.
                if was_blind { Next::Send(LeaseRequest::Read) } else { Next::Rest(Standing::Waits) }
            }
            LeaseReply::Forbidden(why) => Next::Rest(Standing::Forbidden(why)),
            LeaseReply::Failed(why) => Next::Rest(Standing::Unknown(why)),
        };
        // A renewal that failed leaves the right until
        // its end: others wait for the record to run out.
        let is_lost = matches!(next, Next::Rest(Standing::Waits | Standing::Coordinated));
        if is_lost || !self.right.holds(now) {
            self.right = Right::No;
        }
        next
    }

    fn found(&mut self, found: Option<Seen>, now: Moment) -> Next {
        let Some(seen) = found else {
            // Whoever held it when it vanished goes on until it notices.
            let vanished = self.observed.runs_out().filter(|_| !self.right.holds(now));
            self.seizing.former_stops = self.seizing.former_stops.max(vanished);
            // While the right holds, the record that vanished
            // is our own, and there is nobody to wait for.
            let record = self.record(None, now);
            self.remember(&record);
            self.writing = Some((now, false));
            return Next::Send(LeaseRequest::Create(record));
        };
        if seen.is_coordinated {
            return Next::Rest(Standing::Coordinated);
        }
        // First and always: it also notes since when the record is the same. `seizes` comes last,
        // because it begins the wait for a former holder.
        let is_vacant = self.observed.is_vacant(&seen.record, now.steady);
        if is_vacant || self.is_ours(&seen.record) || self.seizes(&seen.record, now.steady) {
            Next::Send(self.update(seen, now, false))
        } else {
            Next::Rest(Standing::Waits)
        }
    }

    fn update(&mut self, of: Seen, now: Moment, is_blind: bool) -> LeaseRequest {
        let record = self.record(Some(&of.record), now);
        self.remember(&record);
        self.writing = Some((now, is_blind));
        LeaseRequest::Update { of, record }
    }

    fn stored(&mut self, seen: Seen, writing: Option<(Moment, bool)>, now: Moment) {
        // The last one was stored over all before it.
        let surplus = self.sent.len().saturating_sub(1);
        self.sent.drain(..surplus);
        self.seizing.is_over = true;
        // Only the note counts here: by it the end of this record is known, should the Lease
        // vanish.
        self.observed.is_vacant(&seen.record, now.steady);
        let token = FencingToken {
            lease: self.options.key(),
            lease_uid: seen.uid.clone(),
            transitions: seen.record.transitions,
        };
        self.held = Some(seen);
        // Counted from the sending: others count from when they saw the record, which is
        // later. While a former holder may write, the Lease is held without the right.
        if let Some((sent, _)) = writing.filter(|_| !self.has_former_holder(now.steady)) {
            let wall = sent.wall + self.options.renew_deadline;
            let end = Moment { steady: sent.steady + self.options.renew_deadline, wall };
            self.right = Right::Until { end, tokens: vec![token] };
        }
    }

    /// Is it to be taken from its holder? The holder may write until its record would have run out.
    fn seizes(&mut self, record: &Record, now: Instant) -> bool {
        if !self.options.seize || self.seizing.is_over {
            return false;
        }
        if self.seizing.former_stops.is_none() {
            let LeaseOptions { namespace, name, .. } = &self.options;
            let (holder, wait_s) = (&record.holder, record.duration_s);
            tracing::warn!("taking Lease {namespace}/{name} from {holder}, which may go on for {wait_s} s");
        }
        // Anew with each read: the holder may have renewed since the last one.
        self.seizing.former_stops = Some(now + record.duration());
        true
    }

    fn has_former_holder(&self, now: Instant) -> bool {
        self.seizing.former_stops.is_some_and(|stops| now < stops)
    }

    /// Did this process write it? The name in it does not decide: another process may have the same.
    fn is_ours(&self, record: &Record) -> bool {
        self.sent.iter().any(|sent| sent.is_same_writing(record))
    }

    fn remember(&mut self, record: &Record) {
        self.sent.push_back(record.clone());
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
    }

    fn record(&self, before: Option<&Record>, now: Moment) -> Record {
        let now_us = Some(now.wall.timestamp_micros());
        // With each change of hands the number grows,
        // by which a server compares fences of holdings.
        let same = before.filter(|record| !record.is_free() && self.is_ours(record));
        let changes_hands = before.is_some() && same.is_none();
        let transitions = before.map_or(0, |record| record.transitions);
        Record {
            holder: self.options.identity.clone(),
            duration_s: u32::try_from(self.options.duration.as_secs()).unwrap_or(u32::MAX),
            acquired_us: same.and_then(|record| record.acquired_us).or(now_us),
            renewed_us: now_us,
            transitions: transitions.saturating_add(i32::from(changes_hands)),
        }
    }

    /// The right ends; the Lease runs out by itself unless this process competes again.
    pub fn abandon(&mut self) {
        self.right = Right::No;
    }

    /// A record that was sent may be stored, whether it led or not. The right ends at once.
    pub fn resign(&mut self) -> Option<LeaseRequest> {
        self.right = Right::No;
        (!self.sent.is_empty()).then_some(LeaseRequest::Read)
    }

    /// An empty holder lets the next one in at once. A Lease that another has taken stays as it is.
    pub fn give_back(&mut self, found: Option<Seen>, now: Moment) -> Option<LeaseRequest> {
        let of = found.filter(|seen| !seen.record.is_free() && self.is_ours(&seen.record))?;
        let now_us = Some(now.wall.timestamp_micros());
        let record = Record {
            holder: String::new(),
            // As client-go releases: the API refuses a Lease whose duration is not positive.
            duration_s: 1,
            acquired_us: now_us,
            renewed_us: now_us,
            transitions: of.record.transitions,
        };
        Some(LeaseRequest::Update { of, record })
    }
}
