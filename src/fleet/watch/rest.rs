//! How the thread that reads watches sleeps while they rest. Owns when it may; must not know what is read.
//!
//! A watch rests after changes, so that those which come meanwhile are taken together. The thread would be woken for each
//! of them all the same, since a socket says that it has something to read whenever something arrives: at a thousand
//! changes a second that was a sixth of the work. So a thread that has nothing to do naps for a moment before it waits.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The longest nap: what else the thread does, such as the request of an action, waits no longer for it.
const NAP: Duration = Duration::from_millis(10);

/// Lists that are being read: they are waited for, and each part of them has to be read as it arrives.
static LISTS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Until when a watch that this thread reads rests.
    static RESTS_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A list that is being read.
pub(super) struct ListUnderWay(());

impl ListUnderWay {
    pub(super) fn begin() -> Self {
        LISTS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for ListUnderWay {
    fn drop(&mut self) {
        LISTS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A watch rests.
pub(super) async fn rest(time: Duration) {
    RESTS_UNTIL.set(Some(Instant::now() + time));
    tokio::time::sleep(time).await;
}

/// For a thread that only reads watches, whenever it has nothing to do: naps while one of them rests.
pub fn nap_while_watches_rest() {
    let left = RESTS_UNTIL.get().map(|until| until.saturating_duration_since(Instant::now()));
    if let Some(left) = left.filter(|left| !left.is_zero() && LISTS.load(Ordering::Relaxed) == 0) {
        std::thread::sleep(left.min(NAP));
    }
}
