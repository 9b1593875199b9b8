//! A recording that is played: where it stands, how fast it goes, and the clock that everything on the screen reads meanwhile.
//! Owns the player; must not know how it is drawn, nor where the recording came from.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::fleet::watch::Tape;
use crate::fleet::{Delta, Fleet, SourceId, Turned, Verdict};
use capstan_base::time::{Clock, TimeSource, Timestamp};

/// How much faster than it happened.
const SPEEDS: [i64; 5] = [1, 10, 60, 600, 3_600];
/// A jump is such a part of all of it.
const JUMP_PART: i64 = 20;

/// The time of the replay, for whoever asks for the time.
#[derive(Clone, Debug, Default)]
pub struct ReplayClock(Arc<AtomicI64>);

impl TimeSource for ReplayClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_timestamp_millis(self.0.load(Ordering::Relaxed)).unwrap_or_default()
    }
}

/// A way to another moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// To the next change, or to before the last one.
    Step(bool),
    /// By a part of all of it.
    Jump(bool),
    /// To where a cluster turned next, or before.
    Turn(bool),
    To(i64),
}

/// A recording, and where it stands.
pub struct Replay {
    tape: Arc<Tape>,
    clock: ReplayClock,
    /// What really passes while it plays.
    real: Clock,
    /// The first change that was not taken in yet.
    next: usize,
    speed: usize,
    /// Since when it plays: what the real clock said when it was looked at last.
    plays_since: Option<Timestamp>,
    /// When clusters turned, milliseconds since the epoch, and whether for the worse.
    turns: Vec<(i64, bool)>,
}

impl Replay {
    /// It stands where everything was listed for the first time. `real`: what passes while it plays.
    pub fn new(tape: Arc<Tape>, real: Clock) -> Self {
        let clock = ReplayClock::default();
        let mut replay = Self { tape, clock, real, next: 0, speed: 1, plays_since: None, turns: Vec::new() };
        replay.find_turns();
        replay
    }

    /// What the program takes the time from.
    pub fn clock(&self) -> Clock {
        Clock::new(self.clock.clone())
    }

    pub fn at_ms(&self) -> i64 {
        self.clock.0.load(Ordering::Relaxed)
    }

    pub fn span_ms(&self) -> (i64, i64) {
        self.tape.span_ms()
    }

    pub fn turns(&self) -> &[(i64, bool)] {
        &self.turns
    }

    pub fn is_playing(&self) -> bool {
        self.plays_since.is_some()
    }

    pub fn speed(&self) -> i64 {
        SPEEDS[self.speed]
    }

    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    /// Plays, or stops.
    pub fn toggle(&mut self) {
        self.plays_since = if self.is_playing() { None } else { Some(self.real.now()) };
    }

    /// It stands still from now on.
    pub fn stop(&mut self) {
        self.plays_since = None;
    }

    /// It stands at this moment; what came before it is taken in by [`Replay::forward`].
    pub fn stand_at(&mut self, at_ms: i64) -> Timestamp {
        self.clock.0.store(at_ms, Ordering::Relaxed);
        self.clock.now()
    }

    /// From its beginning once more.
    pub fn rewind(&mut self) {
        self.next = 0;
    }

    /// The next speed; after the last one the first.
    pub fn change_speed(&mut self) {
        self.speed = (self.speed + 1) % SPEEDS.len();
    }

    /// Where it stands by now while it plays.
    pub fn played_to(&mut self) -> Option<i64> {
        let since = self.plays_since.as_mut()?;
        let now = self.real.now();
        let passed_ms = (now - *since).num_milliseconds();
        *since = now;
        Some(self.at_ms().saturating_add(passed_ms.saturating_mul(self.speed())))
    }

    /// The moment that a way leads to.
    pub fn goal(&self, seek: Seek) -> i64 {
        let (first, last) = self.span_ms();
        let at = self.at_ms();
        let part = ((last - first) / JUMP_PART).max(1_000);
        let turns = self.turns.iter().map(|(turn, _)| *turn);
        match seek {
            Seek::Step(true) => self.tape.at_ms(self.next).unwrap_or(last),
            Seek::Step(false) => self.before(),
            Seek::Jump(true) => at + part,
            Seek::Jump(false) => at - part,
            Seek::Turn(true) => turns.filter(|turn| *turn > at).min().unwrap_or(last),
            Seek::Turn(false) => turns.filter(|turn| *turn < at).max().unwrap_or(first),
            Seek::To(to) => to,
        }
    }

    /// The moment of the change before those of the moment that it stands at.
    fn before(&self) -> i64 {
        let at = self.at_ms();
        let earlier = (0..self.next).rev().filter_map(|next| self.tape.at_ms(next));
        earlier.into_iter().find(|ms| *ms < at).unwrap_or(self.span_ms().0)
    }

    /// The changes from where it stands to a moment, those of one second together.
    pub fn forward(&mut self, to_ms: i64) -> Vec<(Timestamp, Vec<Delta>)> {
        let mut batches: Vec<(Timestamp, Vec<Delta>)> = Vec::new();
        while let Some(ms) = self.tape.at_ms(self.next).filter(|ms| *ms <= to_ms) {
            let at = Timestamp::from_timestamp_millis(ms).unwrap_or_default();
            let delta = self.tape.delta(self.next, SourceId(0));
            self.next += 1;
            match batches.last_mut() {
                Some((last, deltas)) if last.timestamp() == at.timestamp() => deltas.extend(delta),
                _ => batches.push((at, delta.into_iter().collect())),
            }
        }
        batches
    }

    /// Plays all of it once, to know when clusters turned and where everything was listed.
    fn find_turns(&mut self) {
        let mut fleet = Fleet::new();
        let (first, last) = self.span_ms();
        let mut listed_ms = None;
        for (at, deltas) in self.forward(last) {
            fleet.advance(at);
            fleet.apply(deltas);
            if listed_ms.is_none() && fleet.watched_from_s().is_some() {
                // The whole second: what came within it belongs together.
                listed_ms = Some((at.timestamp() + 1) * 1_000);
            }
        }
        let began_s = fleet.watched_from_s().unwrap_or(0);
        let turned = fleet.turns().filter(|turn| turn.at_s > began_s);
        self.turns = turned.map(|turn| (i64::from(turn.at_s) * 1_000, is_worse(turn))).collect();
        self.turns.dedup();
        self.next = 0;
        // One that ended before everything was listed shows what there is.
        self.clock.0.store(listed_ms.unwrap_or(last).clamp(first, last), Ordering::Relaxed);
    }
}

fn is_worse(turn: &Turned) -> bool {
    turn.to > turn.from && turn.to.is_some_and(Verdict::is_at_fault)
}
