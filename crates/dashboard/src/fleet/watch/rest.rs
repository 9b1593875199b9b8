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
    let nap = nap(RESTS_UNTIL.get(), Instant::now(), LISTS.load(Ordering::Relaxed));
    if !nap.is_zero() {
        std::thread::sleep(nap);
    }
}

/// How long a thread may nap that has nothing to do. `lists`: how many are being read.
fn nap(rests_until: Option<Instant>, now: Instant, lists: usize) -> Duration {
    let left = rests_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
    if lists == 0 { left.min(NAP) } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_naps_only_while_a_watch_rests_and_no_list_is_read() {
        let now = Instant::now();
        let after = |ms| Some(now + Duration::from_millis(ms));
        for (rests_until, lists, expected_ms) in
            [(None, 0, 0), (after(0), 0, 0), (after(3), 0, 3), (after(100), 0, 10), (after(100), 1, 0)]
        {
            let expected = Duration::from_millis(expected_ms);
            assert_eq!(nap(rests_until, now, lists), expected, "{rests_until:?}, {lists} lists");
        }
        assert_eq!(nap(Some(now), now + Duration::from_secs(1), 0), Duration::ZERO, "it rests no more");
    }
}
