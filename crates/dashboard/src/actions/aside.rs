//! Where what is computed of a whole Cluster is computed: on a thread of its own, so that requests and the screen go on, and
//! one at a time. Must not know what is computed.

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A computation cannot be ended, so those that nobody waits for any more would otherwise take every core.
static COMPUTATIONS: Mutex<()> = Mutex::new(());

/// Waits for its turn and for the result.
///
/// # Errors
/// The computation panicked, in a sentence.
pub async fn aside<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (answer, computed) = oneshot::channel();
    // The thread waits for its turn, not the task: the clock of a test that is paused would run on while tasks wait for a
    // computation of another runtime.
    let thread = tokio::task::spawn_blocking(move || {
        let _turn = COMPUTATIONS.lock();
        // A caller that gave up meanwhile costs nothing.
        if !answer.is_closed() {
            let _ = answer.send(compute());
        }
    });
    let failed = |error: &dyn std::fmt::Display| format!("it could not be computed: {error}");
    thread.await.map_err(|error| failed(&error))?;
    computed.await.map_err(|error| failed(&error))
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

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_stands_while_another_runtime_computes() {
        let (begin, begun) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = thread::spawn(move || {
            let _turn = COMPUTATIONS.lock();
            begin.send(()).expect("somebody waits");
            ended.recv().expect("it comes");
        });
        begun.recv().expect("it computes");
        let mine = tokio::spawn(tokio::time::timeout(std::time::Duration::from_secs(3_600), aside(|| 7)));
        // Until it waits, and its runtime has nothing to do.
        tokio::task::yield_now().await;
        end.send(()).expect("it waits");
        assert_eq!(mine.await.expect("it ends"), Ok(Ok(7)));
        other.join().expect("it ends");
    }

    #[test]
    fn a_computation_that_nobody_waits_for_is_left_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let turn = COMPUTATIONS.lock();
        let given_up = runtime.block_on(async {
            let unwanted = aside(|| assert_eq!(1, 2, "nobody wants it"));
            tokio::time::timeout(std::time::Duration::ZERO, unwanted).await
        });
        assert!(given_up.is_err());
        drop(turn);
        assert_eq!(runtime.block_on(aside(|| 7)), Ok(7));
    }

    #[tokio::test]
    async fn a_computation_that_panics_is_a_sentence_and_leaves_its_turn() {
        let failed = aside(|| assert_eq!(1, 2, "on purpose")).await.expect_err("it panics");
        assert!(failed.starts_with("it could not be computed: "), "{failed}");
        assert_eq!(aside(|| 7).await, Ok(7));
    }
}
