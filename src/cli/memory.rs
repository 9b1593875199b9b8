//! How freed memory goes back to the operating system. Owns the options of the allocator.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time between two times that a thread gives memory back.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(5);

/// `mi_option_purge_delay` of mimalloc v3: milliseconds before freed pages are given back.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Gives freed pages back soon after they are free. For a dashboard, which allocates most in its first
/// second and then hardly at all: it would otherwise keep several times what it needs for as long as
/// it is idle. News come ten times a second at most: what one batch frees the next one takes, and is kept for it. A server
/// frees all the time and keeps the default.
#[allow(unsafe_code, reason = "sets one number inside the allocator; it reads it with atomics")]
pub fn give_back_soon() {
    // SAFETY: the option is valid for the linked version, and setting it at any time is allowed.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 1_000) }
}

/// Called when a thread of the runtime has nothing to do: gives back, now and then, what
/// other threads have freed of its memory. Otherwise that memory stays with the thread until it allocates as much
/// again, which after a burst does not happen.
#[allow(unsafe_code, reason = "asks the allocator to tidy up the calling thread's memory")]
pub fn give_back_when_idle() {
    thread_local! {
        static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    if LAST.get().is_some_and(|last| now.duration_since(last) < GIVE_BACK_EVERY) {
        return;
    }
    LAST.set(Some(now));
    // SAFETY: it may be called at any time, on any thread.
    unsafe { libmimalloc_sys::mi_collect(false) }
}
