//! How freed memory goes back to the operating system. Owns the allocator's one setting.

/// `mi_option_purge_delay` of mimalloc v3: milliseconds before freed pages are given back.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Gives freed pages back as soon as they are free. For a dashboard, which allocates most in its first
/// second and then hardly at all: it would otherwise keep several times what it needs for as long as
/// it is idle. A server frees all the time and keeps the default.
#[allow(unsafe_code, reason = "sets one number inside the allocator; it reads it with atomics")]
pub fn give_back_at_once() {
    // SAFETY: the option is valid for the linked version, and setting it at any time is allowed.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) }
}
