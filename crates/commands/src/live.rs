//! The fleet of a server as it changes, for commands that last. Owns when its clock is moved and when everything has been listed; must not
//! know what is read of it.

use std::time::Duration;

use tokio::sync::mpsc;

use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_dashboard::fleet::watch::{self, Scope, Source};
use capstan_dashboard::fleet::{Delta, FeedState, Fleet, HEALTH_CHECK, SourceId};
use capstan_engine::client::Connection;

/// A fleet that is watched until this is dropped.
pub struct LiveFleet {
    pub fleet: Fleet,
    batches: mpsc::Receiver<Vec<Delta>>,
    source: Source,
    clock: Clock,
}

impl LiveFleet {
    /// Begins to watch. Must be called in a tokio runtime.
    pub fn open(connection: &Connection, scope: Scope, clock: Clock, rng: Rng) -> Self {
        let (batches, source) = watch::spawn(connection, SourceId(0), scope, clock.clone(), rng);
        Self { fleet: Fleet::new(), batches, source, clock }
    }

    /// Waits until something came in or a verdict may turn by time alone, and takes that in. False: the watch ended.
    pub async fn turn(&mut self) -> bool {
        tokio::select! {
            batch = self.batches.recv() => match batch {
                Some(batch) => drop(self.fleet.apply(batch)),
                None => return false,
            },
            () = tokio::time::sleep(until_due(&self.fleet, &self.clock)) => {}
        }
        self.advance();
        true
    }

    /// Moves the clock to now: a verdict of this moment must not be that of the last event.
    pub fn advance(&mut self) {
        self.fleet.advance(self.clock.now());
    }

    /// Has everything been listed that could change a verdict?
    pub fn is_complete(&self) -> bool {
        let mut feeds = self.fleet.feeds().filter(|(key, _)| key.source == self.source.id()).peekable();
        feeds.peek().is_some()
            && feeds.all(|(key, feed)| match feed.state {
                FeedState::Live | FeedState::NotServed { .. } => true,
                // Without it verdicts are only more patient.
                FeedState::NoAccess { .. } => key.kind.as_ref() == HEALTH_CHECK,
                _ => false,
            })
    }
}

/// How long until a verdict may turn although nothing changes; at least a second, an hour when none may.
fn until_due(fleet: &Fleet, clock: &Clock) -> Duration {
    let now_s = clock.now().timestamp();
    let due_s = fleet.next_due_s().map_or(3_600, |due_s| i64::from(due_s) - now_s);
    // What is due already must not make the loop spin.
    Duration::from_secs(u64::try_from(due_s).unwrap_or(0).clamp(1, 3_600))
}
