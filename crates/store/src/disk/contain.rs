//! Work on a file that may be damaged in any way: a panic in it becomes an error, without a word on
//! the terminal. Must not know what the work is.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; `None` when it panicked.
pub(super) fn contain<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    // The hook is one for the whole process, so it passes on the panics of other threads.
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !CONTAINED.get() {
                others(info);
            }
        }));
    });
    // Contained work may contain other work, so the flag is put back and not cleared.
    let outer = CONTAINED.replace(true);
    // After a panic nothing that the work had open is used any more.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    CONTAINED.set(outer);
    result.ok()
}
