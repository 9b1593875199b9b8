//! The right to write, and until when. Owns the check before every write; must not know how a right is won.
//!
//! It ends by two clocks: one that goes on while the machine sleeps, and the wall clock, which shows that a virtual
//! machine stood still. A jump of the wall clock forwards ends a right early, which is safe.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::write::{Fences, Permit};
use capi_types::key::ObjectKey;
use capstan_base::time::{Clock, Timestamp};
use k8s_machinery::lease::Fence;

/// One holding of one Lease: a Lease that was made anew has another uid, each taking another number of transitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencingToken {
    pub lease: ObjectKey,
    pub lease_uid: String,
    pub transitions: i32,
}

impl FencingToken {
    fn fence(self) -> Fence {
        let ObjectKey { namespace, name } = self.lease;
        Fence { namespace, name, uid: self.lease_uid, transitions: self.transitions }
    }
}

/// A moment on both clocks of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Counts suspension.
    pub steady: Instant,
    pub wall: Timestamp,
}

impl Moment {
    pub fn now(clock: &Clock) -> Self {
        // The runtime's clock stands still while the machine
        // sleeps, and others' records run out then.
        Self { steady: Instant::now() + clock.suspended(), wall: clock.now() }
    }
}

/// Whether this process may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Right {
    No,
    /// It ends when either clock has reached its moment, unless renewed.
    Until {
        end: Moment,
        tokens: Vec<FencingToken>,
    },
    Always,
}

impl Right {
    /// Both are needed.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Always, right) | (right, Self::Always) => right,
            (Self::Until { end: a, mut tokens }, Self::Until { end: b, tokens: more }) => {
                tokens.extend(more);
                let end = Moment { steady: a.steady.min(b.steady), wall: a.wall.min(b.wall) };
                Self::Until { end, tokens }
            }
        }
    }

    pub fn holds(&self, now: Moment) -> bool {
        match self {
            Self::No => false,
            Self::Until { end, .. } => now.steady < end.steady && now.wall < end.wall,
            Self::Always => true,
        }
    }

    fn tokens(&self) -> &[FencingToken] {
        match self {
            Self::Until { tokens, .. } => tokens,
            Self::No | Self::Always => &[],
        }
    }
}

/// Who leads, as seen here. Clones watch the same state.
#[derive(Clone)]
pub struct Leadership {
    /// All of them are needed.
    rights: Vec<watch::Receiver<Right>>,
    clock: Clock,
}

impl Leadership {
    pub(super) fn new(right: watch::Receiver<Right>, clock: Clock) -> Self {
        Self { rights: vec![right], clock }
    }

    /// May writes leave now? Checked against the clocks, so a stuck elector cannot keep the right.
    pub fn leads(&self) -> bool {
        let now = Moment::now(&self.clock);
        self.rights.iter().all(|right| right.borrow().holds(now))
    }

    pub(in crate::engine) fn right(&self) -> Right {
        self.rights.iter().fold(Right::Always, |all, right| all.and(right.borrow().clone()))
    }

    /// Leads only while `right` holds too.
    pub(in crate::engine) fn with(mut self, right: watch::Receiver<Right>) -> Self {
        self.rights.push(right);
        self
    }

    /// Leads only while `other` leads too.
    pub(in crate::engine) fn and(mut self, other: &Self) -> Self {
        self.rights.extend(other.rights.iter().cloned());
        self
    }

    /// The holdings that the right rests on.
    pub fn tokens(&self) -> Vec<FencingToken> {
        self.rights.iter().flat_map(|right| right.borrow().tokens().to_vec()).collect()
    }

    /// Resolves when it may have changed: won, lost, or run out.
    pub async fn changed(&mut self) {
        let clock = &self.clock;
        let each = self.rights.iter_mut().map(|right| Box::pin(turned(right, clock)));
        futures::future::select_all(each).await;
    }

    /// For the writer: the right of the run that writes, where one does, else this one.
    pub fn permit(&self) -> Permit {
        let leadership = self.clone();
        Arc::new(move || RUN.try_with(Term::holds).unwrap_or_else(|_| leadership.leads()))
    }

    /// For the writer: what the run that writes was begun under, where one does, else what holds now.
    pub fn fences(&self) -> Fences {
        let leadership = self.clone();
        Arc::new(move || {
            let tokens = RUN.try_with(|term| term.tokens.clone()).unwrap_or_else(|_| leadership.tokens());
            tokens.into_iter().map(FencingToken::fence).collect()
        })
    }

    /// Leads without a lease: one process alone with its own server.
    pub fn alone(clock: Clock) -> Self {
        // The sender may go: the last value stays readable.
        let (_, right) = watch::channel(Right::Always);
        Self::new(right, clock)
    }
}

/// What a run was begun under. A right that was lost and won again in between is another one: what the run has read
/// may be older than what others wrote.
#[derive(Clone)]
pub struct Term {
    leadership: Leadership,
    tokens: Vec<FencingToken>,
}

tokio::task_local! {
    /// Set around one run, so that controllers cannot forget it.
    static RUN: Term;
}

impl Term {
    pub fn begin(leadership: &Leadership) -> Self {
        Self { leadership: leadership.clone(), tokens: leadership.tokens() }
    }

    /// The holdings that it rests on.
    pub fn tokens(&self) -> &[FencingToken] {
        &self.tokens
    }

    /// May this run write now?
    pub fn holds(&self) -> bool {
        self.leadership.leads() && self.leadership.tokens() == self.tokens
    }

    /// Runs `work`; its writes (same task) need this term.
    pub async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        RUN.scope(self, work).await
    }
}

async fn turned(right: &mut watch::Receiver<Right>, clock: &Clock) {
    let before = right.borrow_and_update().clone();
    let had_none = before == Right::No;
    tokio::select! {
        biased;
        () = flipped(right, had_none) => {}
        () = ran_out(before, clock) => {}
    }
}

async fn flipped(right: &mut watch::Receiver<Right>, had_none: bool) {
    if right.wait_for(|now| (*now == Right::No) != had_none).await.is_err() {
        // Without its elector a right changes no more.
        std::future::pending::<()>().await;
    }
}

async fn ran_out(right: Right, clock: &Clock) {
    let now = Moment::now(clock);
    match right {
        // Renewals move it while we sleep; the caller looks again.
        Right::Until { end, .. } if end.steady > now.steady => {
            tokio::time::sleep(end.steady - now.steady).await;
        }
        // A right that has run out, or never does, changes by what is sent alone.
        _ => std::future::pending().await,
    }
}
