//! Connections that have shown no credentials yet: so many at once, and the oldest goes when there are more. A
//! client that means it is known within a moment; one that only holds connections is what goes. Must not know how
//! somebody becomes known.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Connections without credentials at once.
const NEWCOMERS_MAX: usize = 256;

/// All newcomers of one entrance, oldest first.
#[derive(Clone, Default)]
pub struct Newcomers(Arc<Mutex<VecDeque<Newcomer>>>);

/// One connection until it is known. Clones are the same connection.
#[derive(Clone)]
pub struct Newcomer {
    /// Known, or gone.
    done: Arc<AtomicBool>,
    turned_away: CancellationToken,
}

impl Newcomers {
    /// A new connection. The oldest is turned away when there are too many.
    pub fn enter(&self) -> Newcomer {
        let newcomer = Newcomer { done: Arc::default(), turned_away: CancellationToken::new() };
        let mut all = self.0.lock();
        // Those that are known or gone are cleared only when their places are needed.
        if all.len() >= NEWCOMERS_MAX {
            all.retain(|other| !other.is_done());
        }
        if all.len() >= NEWCOMERS_MAX
            && let Some(oldest) = all.pop_front()
        {
            oldest.turned_away.cancel();
        }
        all.push_back(newcomer.clone());
        newcomer
    }
}

impl Newcomer {
    /// It is authenticated, and no longer turned away for newer connections.
    pub fn is_known(&self) {
        self.done.store(true, Ordering::Relaxed);
    }

    /// The connection has ended.
    pub fn is_gone(&self) {
        self.done.store(true, Ordering::Relaxed);
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until there is no place for it any more.
    pub fn turned_away(&self) -> WaitForCancellationFuture<'_> {
        self.turned_away.cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_those_who_are_not_known_goes() {
        let newcomers = Newcomers::default();
        let known = newcomers.enter();
        known.is_known();
        let gone = newcomers.enter();
        gone.is_gone();
        let mut strangers: Vec<Newcomer> = (0..NEWCOMERS_MAX).map(|_| newcomers.enter()).collect();
        assert!(strangers.iter().all(|stranger| !stranger.turned_away.is_cancelled()));
        strangers.push(newcomers.enter());
        let turned_away: Vec<usize> =
            (0..strangers.len()).filter(|at| strangers[*at].turned_away.is_cancelled()).collect();
        assert_eq!(turned_away, [0]);
        assert!(!known.turned_away.is_cancelled());
        assert_eq!(newcomers.0.lock().len(), NEWCOMERS_MAX);
    }
}
