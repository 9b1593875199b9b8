//! The members of one etcd: which of them is asked, and when the next one is. Requests stay with one
//! member while it answers; one that does not is put aside, probed, and taken back. Must not know
//! what a request is for: its caller decides whether it may be sent twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::COMPACT_KEY;
use super::wire::{Call, Failure, Feed, Member, Query, WatchFrom};
use crate::Revision;

/// How long a member that does not answer is left alone: first and longest.
const ASIDE_MIN: Duration = Duration::from_millis(500);
const ASIDE_MAX: Duration = Duration::from_secs(5);
/// How long a probe may take.
const PROBE_MAX: Duration = Duration::from_secs(1);
/// Between two rounds over all members.
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// How long a request is repeated while no member accepts connections: long enough for a restart.
const UNREACHABLE_MAX: Duration = Duration::from_secs(2);

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// At one member, in the first round; twice as long in each later one.
    pub(super) attempt: Duration,
    /// Over all rounds.
    pub(super) total: Duration,
}

impl Patience {
    /// One member may be hung and one may be electing a leader.
    pub(super) const REQUEST: Self = Self { attempt: Duration::from_secs(1), total: Duration::from_secs(8) };
    /// For what became of a request whose answer was lost.
    pub(super) const SETTLE: Self = Self { attempt: Duration::from_secs(1), total: Duration::from_secs(6) };
    /// Many objects at once.
    pub(super) const PAGE: Self = Self { attempt: Duration::from_secs(10), total: Duration::from_secs(30) };
}

/// Whether a member is asked.
#[derive(Clone, Copy, Debug)]
struct Health {
    is_aside: bool,
    /// Before the next probe.
    pause: Duration,
}

struct Seat {
    endpoint: String,
    member: Box<dyn Member>,
    health: watch::Sender<Health>,
}

pub(super) struct Members {
    seats: Vec<Seat>,
    /// The place of the one that is asked first.
    first: AtomicUsize,
}

/// The attempts at one request so far.
pub(super) struct Attempts {
    patience: Patience,
    started: Instant,
    deadline: Instant,
    /// Places asked in this round.
    tried: Vec<usize>,
    round: u32,
    /// In this round a request got through to a member.
    got_through: bool,
}

impl Attempts {
    pub(super) fn within(patience: Patience) -> Self {
        let started = Instant::now();
        Self {
            patience,
            started,
            deadline: started + patience.total,
            tried: Vec::new(),
            round: 0,
            got_through: false,
        }
    }
}

impl Members {
    pub(super) fn new(members: Vec<(String, Box<dyn Member>)>) -> Arc<Self> {
        let seat = |(endpoint, member)| Seat {
            endpoint,
            member,
            health: watch::Sender::new(Health { is_aside: false, pause: ASIDE_MIN }),
        };
        Arc::new(Self { seats: members.into_iter().map(seat).collect(), first: AtomicUsize::new(0) })
    }

    /// Makes a request that may be made more than once, until it is answered.
    pub(super) async fn repeat<C: Call>(&self, call: &C, patience: Patience) -> Result<C::Answer, Failure> {
        let mut attempts = Attempts::within(patience);
        loop {
            match self.attempt(call, &mut attempts).await {
                Err(failure) if self.may_go_on(&failure, &mut attempts).await => {}
                result => return result,
            }
        }
    }

    /// Makes a request once, at the best member that was not asked in this round.
    pub(super) async fn attempt<C: Call>(
        &self,
        call: &C,
        attempts: &mut Attempts,
    ) -> Result<C::Answer, Failure> {
        let place = self.best(&attempts.tried);
        attempts.tried.push(place);
        let wanted = self.attempt_max(attempts);
        let given = wanted.min(attempts.deadline.saturating_duration_since(Instant::now()));
        let Some(seat) = self.seats.get(place) else {
            return Err(Failure::Refused("it has no address".to_owned()));
        };
        let Ok(result) = timeout(given, call.make(&*seat.member)).await else {
            let failure = Failure::no_answer(given);
            // What had no time to answer is not to blame.
            if given == wanted {
                self.put_aside(place, &failure);
            }
            return Err(failure);
        };
        match &result {
            Err(failure) if failure.is_of_member() => self.put_aside(place, failure),
            // A refusal is an answer, too: the member is there.
            _ => self.take_back(place),
        }
        result
    }

    fn attempt_max(&self, attempts: &Attempts) -> Duration {
        // With a single member there is no other one to ask.
        let first = match self.seats.len() {
            1 => attempts.patience.total * 3 / 4,
            _ => attempts.patience.attempt,
        };
        first * 2_u32.saturating_pow(attempts.round)
    }

    /// After a failure that may be tried again: is there time for it? Waits a moment
    /// when every member was asked.
    pub(super) async fn may_go_on(&self, failure: &Failure, attempts: &mut Attempts) -> bool {
        if !failure.is_of_member() {
            return false;
        }
        attempts.got_through |= !failure.is_unsent();
        if attempts.tried.len() >= self.seats.len() {
            if !attempts.got_through && attempts.started.elapsed() >= UNREACHABLE_MAX {
                return false;
            }
            attempts.tried.clear();
            attempts.got_through = false;
            attempts.round += 1;
            sleep(ROUND_PAUSE).await;
        }
        Instant::now() < attempts.deadline
    }

    /// Begins a watch at the best member; its place goes with it.
    pub(super) async fn watch(&self, from: Revision) -> Result<(usize, Box<dyn Feed>), Failure> {
        let mut attempts = Attempts::within(Patience::REQUEST);
        let place = self.best(&attempts.tried);
        // One attempt is enough here: the mirror comes back after a pause.
        Ok((place, self.attempt(&WatchFrom(from), &mut attempts).await?))
    }

    /// The place to ask next: the usual one, else one that answers, else any that was not `tried`.
    fn best(&self, tried: &[usize]) -> usize {
        // A hint only: every place is right, so it needs no order.
        let first = self.first.load(Ordering::Relaxed);
        let places = || (0..self.seats.len()).map(|step| (first + step) % self.seats.len());
        let untried = || places().filter(|place| !tried.contains(place));
        untried().find(|place| !self.is_aside(*place)).or_else(|| untried().next()).unwrap_or(first)
    }

    fn is_aside(&self, place: usize) -> bool {
        self.seats.get(place).is_some_and(|seat| seat.health.borrow().is_aside)
    }

    /// Waits until the member is put aside.
    pub(super) async fn until_aside(&self, place: usize) {
        let Some(seat) = self.seats.get(place) else { return };
        // The sender is ours, so it is there.
        let _ = seat.health.subscribe().wait_for(|health| health.is_aside).await;
    }

    /// From now on others are asked first.
    pub(super) fn put_aside(&self, place: usize, failure: &Failure) {
        let Some(seat) = self.seats.get(place) else { return };
        let mut was_aside = false;
        seat.health.send_modify(|health| {
            was_aside = health.is_aside;
            health.is_aside = true;
            health.pause = if was_aside { (health.pause * 2).min(ASIDE_MAX) } else { ASIDE_MIN };
        });
        // One line for each outage, not one for each probe that fails.
        if !was_aside {
            let others = match self.seats.len() {
                1 => "it is tried again",
                _ => "other members are asked",
            };
            tracing::warn!(
                "etcd at {} does not answer: {}; {others} until it does",
                seat.endpoint,
                failure.reason()
            );
        }
        if self.first.load(Ordering::Relaxed) == place {
            self.first.store(self.best(&[]), Ordering::Relaxed);
        }
    }

    fn take_back(&self, place: usize) {
        let Some(seat) = self.seats.get(place) else { return };
        let back = seat.health.send_if_modified(|health| std::mem::replace(&mut health.is_aside, false));
        if back {
            tracing::info!("etcd at {} answers again", seat.endpoint);
        }
        // Requests stay where they are, so that a member that comes and goes does not draw them
        // along.
        if self.is_aside(self.first.load(Ordering::Relaxed)) {
            self.first.store(place, Ordering::Relaxed);
        }
    }

    /// Probes the members that were put aside. Runs until dropped.
    pub(super) async fn probe(self: Arc<Self>) {
        futures::future::join_all((0..self.seats.len()).map(|place| self.probe_one(place))).await;
    }

    async fn probe_one(&self, place: usize) {
        let Some(seat) = self.seats.get(place) else { return };
        // A read goes through the leader: a member that is cut off from it does not count as back.
        let question = Query::key(COMPACT_KEY);
        loop {
            self.until_aside(place).await;
            let pause = seat.health.borrow().pause;
            sleep(pause).await;
            // A request may have been answered there meanwhile.
            if !self.is_aside(place) {
                continue;
            }
            let answer = timeout(PROBE_MAX, seat.member.range(&question)).await;
            match answer.unwrap_or_else(|_| Err(Failure::no_answer(PROBE_MAX))) {
                Err(failure) if failure.is_of_member() => self.put_aside(place, &failure),
                _ => self.take_back(place),
            }
        }
    }
}
