//! Where long work runs: beside the threads that serve everybody, and only so much of it at once. Small work
//! stays where it is, which is quicker. Must not know what is worked on.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Text up to this size is read, checked or written on the spot.
pub const LIGHT_BYTES_MAX: usize = 64 * 1024;
/// So are lists of so many objects.
pub const LIGHT_OBJECTS_MAX: usize = 1_000;

/// Work that waits for its turn together. Requests of the server's own process do not wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    InProcess,
    Reading,
    Writing,
}

/// Places for long work, by lane. A lane waits for none but itself, so work that is driven may offload a list.
#[derive(Debug)]
pub struct Offload {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
}

impl Default for Offload {
    /// Half of the processors for each lane, and two at least.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let lane = || Arc::new(Semaphore::new((processors / 2).max(2)));
        Self { reading: lane(), writing: lane() }
    }
}

impl Offload {
    async fn place(&self, lane: Lane) -> Option<OwnedSemaphorePermit> {
        let places = match lane {
            Lane::InProcess => return None,
            Lane::Reading => &self.reading,
            Lane::Writing => &self.writing,
        };
        // The semaphore is never closed, so this is not an error.
        places.clone().acquire_owned().await.ok()
    }

    /// Runs `job` on a thread of its own.
    ///
    /// # Errors
    /// 500 when it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let place = self.place(lane).await;
        let done = tokio::task::spawn_blocking(move || {
            // The place goes with the job, which runs on when its caller is gone.
            let _place = place;
            job()
        });
        done.await.map_err(Failure::internal)
    }

    /// Runs `work`, which waits now and then, on a thread of its own. It is given up with the caller.
    ///
    /// # Errors
    /// 500 when it panicked.
    pub async fn drive<F>(&self, lane: Lane, work: F) -> Result<F::Output, Failure>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // A blocking thread cannot be stopped from outside, so the work ends at its next wait.
        let given_up = CancellationToken::new();
        let _guard = given_up.clone().drop_guard();
        let runtime = Handle::current();
        let done = self.run(lane, move || runtime.block_on(given_up.run_until_cancelled_owned(work)));
        done.await?.ok_or_else(|| Failure::internal("the request was given up"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lane_has_so_many_places_and_the_others_have_their_own() {
        let offload = Arc::new(Offload::default());
        let places = offload.writing.available_permits();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(parking_lot::Mutex::new(wait));
        let started = Arc::new(Semaphore::new(0));
        let busy: Vec<_> = (0..places + 1)
            .map(|_| {
                let (offload, wait, started) = (offload.clone(), wait.clone(), started.clone());
                tokio::spawn(async move {
                    let job = move || {
                        started.add_permits(1);
                        wait.lock().recv()
                    };
                    offload.run(Lane::Writing, job).await
                })
            })
            .collect();
        let _running = started.acquire_many(u32::try_from(places).unwrap()).await.unwrap();
        assert_eq!(offload.run(Lane::Reading, || 1).await, Ok(1));
        assert_eq!(offload.drive(Lane::InProcess, async { 2 }).await, Ok(2));
        assert_eq!(started.available_permits(), 0, "one more waits for its turn");
        (0..=places).for_each(|_| release.send(()).unwrap());
        for job in busy {
            job.await.unwrap().unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let offload = Offload::default();
        let failure = offload.run(Lane::Reading, || assert_eq!(1, 2, "on purpose")).await.unwrap_err();
        assert_eq!(failure.code(), 500);
    }
}
