//! Where what is computed of a whole Cluster is computed: on a thread of its own, so that requests and the screen go on, and
//! one at a time. Must not know what is computed.

use tokio::sync::Semaphore;

/// A computation cannot be ended, so those that nobody waits for any more would otherwise take every core.
static COMPUTATIONS: Semaphore = Semaphore::const_new(1);

/// Waits for its turn and for the result.
///
/// # Errors
/// The computation panicked, in a sentence.
pub async fn aside<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let turn = COMPUTATIONS.acquire().await.map_err(|error| error.to_string())?;
    // The turn ends with the computation, not with the wait for it: a caller that gives up must not
    // let the next one begin beside it.
    let computed = tokio::task::spawn_blocking(move || {
        let result = compute();
        drop(turn);
        result
    });
    computed.await.map_err(|error| format!("it could not be computed: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn computations_are_aside_and_one_at_a_time() {
        static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
        let here = thread::current().id();
        let one = || {
            aside(move || {
                let others = UNDER_WAY.fetch_add(1, Ordering::SeqCst);
                thread::yield_now();
                UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
                (others, thread::current().id() != here)
            })
        };
        for result in futures::future::join_all((0..20).map(|_| one())).await {
            assert_eq!(result, Ok((0, true)));
        }
    }

    #[tokio::test]
    async fn a_computation_that_panics_is_a_sentence_and_leaves_its_turn() {
        let failed = aside(|| assert_eq!(1, 2, "on purpose")).await.expect_err("it panics");
        assert!(failed.starts_with("it could not be computed: "), "{failed}");
        assert_eq!(aside(|| 7).await, Ok(7));
    }
}
