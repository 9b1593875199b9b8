//! Lives through what happened to a fleet before it is shown: server and engine as ever, on a thread of their own
//! whose time jumps from one event to the next. Must not know what happened.

use std::sync::Arc;

use tokio::time::Instant;

use super::load::{self, LoadError};
use super::stack::{Stack, StackOptions};
use crate::samples::Chapter;
use capstan_apiserver::OpenError;
use capstan_base::time::{Clock, TimeSource, Timestamp};
use capstan_store::Store;

/// Why a fleet has no past.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    #[error("the thread for the fleet's past could not be started: {0}; check the limit of threads")]
    Thread(#[from] std::io::Error),
    #[error("the fleet's past ended with a panic")]
    Panicked,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// A clock that starts at a moment of the past and goes with the runtime's time.
pub(super) struct Replayed {
    pub start: Timestamp,
    pub began: Instant,
}

impl TimeSource for Replayed {
    fn now(&self) -> Timestamp {
        self.start + chrono::TimeDelta::from_std(self.began.elapsed()).unwrap_or_default()
    }
}

/// Has `chapters` happen in `store`, earliest first. Each runs for its virtual length, which costs only the work
/// that the engine does in it. `options` gives the seed and the tokens; its clock says when now is.
///
/// # Errors
/// See [`PastError`]; the store then holds what happened until there.
pub async fn replay(
    store: Arc<dyn Store>,
    chapters: Vec<Chapter>,
    options: StackOptions,
) -> Result<(), PastError> {
    if chapters.is_empty() {
        return Ok(());
    }
    // A thread of its own: paused time holds for a whole runtime, and the caller's must go on.
    let (send, done) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("past".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        // A receiver that is gone has no use for the result.
        let _ = send.send(match runtime {
            Ok(runtime) => runtime.block_on(all(store, chapters, &options)),
            Err(error) => Err(error.into()),
        });
    })?;
    done.await.unwrap_or(Err(PastError::Panicked))
}

async fn all(store: Arc<dyn Store>, chapters: Vec<Chapter>, options: &StackOptions) -> Result<(), PastError> {
    // Once for all: chapters count from the same now, however long they take to play.
    let now = options.clock.now();
    for (index, chapter) in chapters.into_iter().enumerate() {
        let start = now - chrono::TimeDelta::from_std(chapter.ago).unwrap_or_default();
        let clock = Clock::new(Replayed { start, began: Instant::now() });
        // A stream for each, or names of one chapter would come again in the next.
        let rng = options.rng.stream(&format!("chapter/{index}"));
        live(
            store.clone(),
            chapter,
            StackOptions { clock, rng, time_scale: 1.0, serves_workloads: false, ..options.clone() },
        )
        .await?;
    }
    Ok(())
}

/// One chapter from its beginning to its end.
async fn live(store: Arc<dyn Store>, chapter: Chapter, options: StackOptions) -> Result<(), PastError> {
    let began = Instant::now();
    let stack = Stack::start(store, options).await?;
    load::create(&stack.connection("past", false), chapter.objects).await?;
    load::edit_later(stack.connection("past", false), chapter.edits, 1.0).await;
    // Counted from the beginning, so that edits take nothing of the chapter's length.
    tokio::time::sleep_until(began + chapter.lasts).await;
    stack.stop().await;
    Ok(())
}
