//! The work queue of one controller as plain data: which key may run when. Takes `now` as an
//! argument; owns dedupe, delay, backoff, the minimum distance between runs, and the hold while a key
//! runs. Must not know the runtime, nor what a key means.
//! Source: controller-runtime's work queue and cluster-api `util/controller`, v1.14.2.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::controller::Outcome;
use capi_types::key::ObjectKey;

/// A moment on the engine's monotonic clock: time since it was started.
pub type Moment = Duration;

/// How long a key waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Two runs of one key start at least this far apart.
    pub interval: Duration,
    /// First wait after a failure, doubled by each further one; added to `interval`.
    pub backoff: Duration,
    /// Longest wait after failures.
    pub backoff_max: Duration,
}

impl Pace {
    /// Upstream's numbers: 5 ms doubling up to 1000 s, on top of `interval`.
    pub fn with_interval(interval: Duration) -> Self {
        Self { interval, backoff: Duration::from_millis(5), backoff_max: Duration::from_secs(1000) }
    }

    /// `interval + backoff × 2^failures`, at most `backoff_max`.
    pub fn wait_after(&self, failures: u32) -> Duration {
        // More bits than 31 would overflow; the bound below is reached long before.
        let factor = 1_u32.checked_shl(failures.min(31)).unwrap_or(u32::MAX);
        (self.interval + self.backoff.saturating_mul(factor)).min(self.backoff_max)
    }
}

/// So few runs are not worth a look at all items.
const ENDED_MIN: usize = 32;

/// Keys waiting and running.
#[derive(Debug)]
pub struct Queue {
    pace: Pace,
    items: BTreeMap<ObjectKey, Item>,
    /// Waiting keys by start, then by order of arrival.
    waiting: BTreeSet<(Moment, u64, ObjectKey)>,
    running: usize,
    arrivals: u64,
    /// Runs that ended since those whose time has passed were looked for.
    ended: usize,
}

#[derive(Debug, Default)]
struct Item {
    /// Place in `waiting`, when it waits.
    slot: Option<(Moment, u64)>,
    /// A trigger asked for the run that it waits for (as opposed to a timer).
    triggered: bool,
    running: bool,
    /// A trigger fired while it ran.
    again: bool,
    /// It may not start before this.
    earliest: Moment,
    failures: u32,
}

impl Queue {
    pub fn new(pace: Pace) -> Self {
        Self { pace, items: BTreeMap::new(), waiting: BTreeSet::new(), running: 0, arrivals: 0, ended: 0 }
    }

    /// A trigger fired: run the key as soon as allowed. Fires while running are remembered, any
    /// number of them as one; a backoff is cut short, as upstream.
    pub fn trigger(&mut self, key: &ObjectKey, now: Moment) {
        let item = self.items.entry(key.clone()).or_default();
        if item.running {
            item.again = true;
            return;
        }
        item.triggered = true;
        // A failure moves only its place, not `earliest`:
        // a trigger runs it again at once, as upstream.
        let start = now.max(item.earliest);
        self.wait_until(key, start);
    }

    /// Takes the next key that may start, and holds it.
    pub fn next(&mut self, now: Moment) -> Option<ObjectKey> {
        let (start, _, _) = self.waiting.first()?;
        if *start > now {
            return None;
        }
        let (_, _, key) = self.waiting.pop_first()?;
        let item = self.items.get_mut(&key)?;
        item.slot = None;
        item.triggered = false;
        item.running = true;
        // Counted from the start: a run that takes long need not wait again after its end.
        item.earliest = now + self.pace.interval;
        self.running += 1;
        Some(key)
    }

    /// When the next waiting key may start.
    pub fn next_start(&self) -> Option<Moment> {
        self.waiting.first().map(|(start, _, _)| *start)
    }

    /// A run ended. `outcome` is `None` when it failed.
    pub fn finish(&mut self, key: &ObjectKey, outcome: Option<Outcome>, now: Moment) {
        let Some(item) = self.items.get_mut(key) else { return };
        item.running = false;
        self.running -= 1;
        let again = std::mem::take(&mut item.again);
        let timer = match outcome {
            None => {
                let wait = self.pace.wait_after(item.failures);
                item.failures = item.failures.saturating_add(1);
                Some(now + wait)
            }
            Some(outcome) => {
                item.failures = 0;
                match outcome {
                    Outcome::Done => None,
                    // A wait shorter than the interval must not
                    // run the key more often than a trigger could.
                    Outcome::RequeueAfter(wait) => Some((now + wait).max(item.earliest)),
                    Outcome::NotBefore(wait) => {
                        // Unlike a requeue this also holds back triggers that fire meanwhile.
                        item.earliest = item.earliest.max(now + wait);
                        Some(item.earliest)
                    }
                }
            }
        };
        item.triggered = again;
        let triggered = again.then(|| now.max(item.earliest));
        match [timer, triggered].into_iter().flatten().min() {
            Some(start) => self.wait_until(key, start),
            None => self.forget_idle(key, now),
        }
    }

    /// Nothing runs and nothing was triggered; only timers may be left.
    pub fn is_idle(&self) -> bool {
        self.running == 0 && !self.items.values().any(|item| item.triggered)
    }

    /// How often a key failed in a row.
    pub fn failures(&self, key: &ObjectKey) -> u32 {
        self.items.get(key).map_or(0, |item| item.failures)
    }

    /// The earlier of its present place and `start`.
    fn wait_until(&mut self, key: &ObjectKey, start: Moment) {
        let Some(item) = self.items.get_mut(key) else { return };
        if let Some((at, arrival)) = item.slot {
            if at <= start {
                return;
            }
            self.waiting.remove(&(at, arrival, key.clone()));
        }
        // The number of arrival keeps keys of one moment in their order, so that none starves.
        self.arrivals += 1;
        item.slot = Some((start, self.arrivals));
        self.waiting.insert((start, self.arrivals, key.clone()));
    }

    /// Keys that ended well keep only their `earliest`, and not even that once it has passed.
    fn forget_idle(&mut self, key: &ObjectKey, now: Moment) {
        if self.items.get(key).is_some_and(|item| item.earliest <= now) {
            self.items.remove(key);
        }
        // Others whose time has passed meanwhile go in passing, so that the map does not grow with
        // every object that ever existed. A look with every run would cost the square of the runs within an
        // interval.
        self.ended += 1;
        if self.ended > self.items.len() / 2 + ENDED_MIN {
            self.items.retain(|_, item| item.running || item.slot.is_some() || item.earliest > now);
            self.ended = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Moment {
        Duration::from_millis(n)
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    fn queue(interval: u64) -> Queue {
        Queue::new(Pace::with_interval(ms(interval)))
    }

    #[test]
    fn many_triggers_are_one_run_in_order_of_arrival() {
        let mut q = queue(0);
        for name in ["b", "a", "b", "b"] {
            q.trigger(&key(name), ms(0));
        }
        assert_eq!(q.next(ms(0)), Some(key("b")));
        assert_eq!(q.next(ms(0)), Some(key("a")));
        assert_eq!(q.next(ms(0)), None);
    }

    #[test]
    fn a_running_key_is_held_and_run_once_more() {
        let mut q = queue(0);
        q.trigger(&key("a"), ms(0));
        assert_eq!(q.next(ms(0)), Some(key("a")));
        q.trigger(&key("a"), ms(1));
        q.trigger(&key("a"), ms(2));
        assert_eq!(q.next(ms(2)), None);
        assert!(!q.is_idle());
        q.finish(&key("a"), Some(Outcome::Done), ms(3));
        assert_eq!(q.next(ms(3)), Some(key("a")));
        q.finish(&key("a"), Some(Outcome::Done), ms(4));
        assert_eq!(q.next(ms(9)), None);
        assert!(q.is_idle());
    }

    #[test]
    fn runs_keep_their_distance() {
        let mut q = queue(1000);
        q.trigger(&key("a"), ms(0));
        assert_eq!(q.next(ms(0)), Some(key("a")));
        q.finish(&key("a"), Some(Outcome::Done), ms(10));
        q.trigger(&key("a"), ms(20));
        assert_eq!(q.next(ms(999)), None);
        assert!(!q.is_idle(), "work is pending although it may not start yet");
        assert_eq!(q.next_start(), Some(ms(1000)));
        assert_eq!(q.next(ms(1000)), Some(key("a")));
    }

    #[test]
    fn failures_wait_longer_and_longer_and_a_trigger_cuts_it_short() {
        let mut q = queue(0);
        q.trigger(&key("a"), ms(0));
        let mut now = ms(0);
        for expected in [5, 10, 20, 40] {
            assert_eq!(q.next(now), Some(key("a")));
            q.finish(&key("a"), None, now);
            assert_eq!(q.next_start(), Some(now + ms(expected)));
            now += ms(expected);
        }
        q.trigger(&key("a"), now - ms(30));
        assert_eq!(q.next(now - ms(30)), Some(key("a")));
        q.finish(&key("a"), Some(Outcome::Done), now);
        assert_eq!(q.failures(&key("a")), 0);
    }

    #[test]
    fn backoff_is_bounded() {
        let pace = Pace::with_interval(ms(1000));
        for (failures, expected) in
            [(0, 1005), (1, 1010), (10, 6120), (17, 656_360), (18, 1_000_000), (500, 1_000_000)]
        {
            assert_eq!(pace.wait_after(failures), ms(expected), "{failures}");
        }
    }

    #[test]
    fn requeue_yields_to_a_trigger_but_not_before_does_not() {
        let mut q = queue(0);
        for (outcome, start) in
            [(Outcome::RequeueAfter(ms(5000)), ms(100)), (Outcome::NotBefore(ms(5000)), ms(5000))]
        {
            let mut fresh = queue(0);
            std::mem::swap(&mut q, &mut fresh);
            q.trigger(&key("a"), ms(0));
            assert_eq!(q.next(ms(0)), Some(key("a")));
            q.finish(&key("a"), Some(outcome), ms(0));
            assert!(q.is_idle());
            q.trigger(&key("a"), ms(100));
            assert_eq!(q.next_start(), Some(start), "{outcome:?}");
        }
    }

    #[test]
    fn forgets_what_is_over() {
        let mut q = queue(10);
        for n in 0..1000 {
            let key = key(&n.to_string());
            q.trigger(&key, ms(n));
            assert_eq!(q.next(ms(n)), Some(key.clone()));
            q.finish(&key, Some(Outcome::Done), ms(n));
        }
        assert!(q.items.len() < 100, "{}", q.items.len());
    }

    /// A look with every run would look at ten thousand items ten thousand times.
    #[test]
    fn what_is_over_is_looked_for_now_and_then() {
        let (mut q, mut looks) = (queue(1000), 0);
        let mut run = |name: String, at: Moment, end: Moment| {
            q.trigger(&key(&name), at);
            assert_eq!(q.next(at), Some(key(&name)));
            q.finish(&key(&name), Some(Outcome::Done), end);
            looks += usize::from(q.ended == 0);
            q.items.len()
        };
        let held = (0..10_000).map(|n| run(n.to_string(), ms(1), ms(2))).last();
        assert_eq!(held, Some(10_000), "each may not run again within the interval");
        let left = (0..10_000).map(|n| run(format!("later {n}"), ms(5000), ms(9000))).last();
        assert_eq!(left, Some(0), "the time of all has passed");
        assert!((2..400).contains(&looks), "{looks} looks");
    }
}
