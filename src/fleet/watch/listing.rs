//! List in pages, then watch, for ever: one collection as a sequence of steps. Owns resuming, relisting
//! and waiting; must not know what the objects are nor who takes the steps.
//!
//! kube's own watcher does the same but tells nothing when a watch that was lost stands again without
//! news; a screen that shows the age of its data has to know.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Resource;
use serde::de::DeserializeOwned;

use crate::client::watch::Backoff;

/// Objects per page of a list: a page is held as text and decoded, so it decides the peak of memory.
const PAGE_SIZE: u32 = 250;
/// Changes taken together when they arrive together.
const CHUNK_MAX: usize = 256;
/// The server ends a watch after so long.
const WATCH_TIMEOUT_S: u32 = 290;
/// A watch that is silent for longer than its timeout is dead: nobody ended it.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// A watch that ends sooner, without a word, counts as failed: reconnecting at once would spin.
const WATCH_MIN: Duration = Duration::from_secs(1);

/// What happens to a collection.
pub(super) enum Step<K> {
    /// A list begins.
    Listing,
    /// Some of its objects.
    Page(Vec<K>),
    /// The list is complete.
    Listed,
    /// The watch stands: from here on every change is told.
    Live,
    /// Changes, in order; never bookmarks or errors.
    Changes(Vec<WatchEvent<K>>),
    /// It did not work; it will be tried again.
    Failed(Trouble),
}

/// Why a list or a watch did not work.
pub(super) enum Trouble {
    Request(kube::Error),
    /// Nothing came for [`SILENCE_MAX`].
    Silent,
    /// The server ends the watch as soon as it begins.
    Closed,
}

/// Who takes the steps. `None` ends it all; a duration is how long to wait before trying again after a
/// failure, if not the usual.
pub(super) trait Listener<K>: Send {
    fn step(&mut self, step: Step<K>) -> impl Future<Output = Option<Option<Duration>>> + Send;
}

/// Runs until the listener ends it.
pub(super) async fn run<K, L>(api: Api<K>, selector: Option<String>, mut backoff: Backoff, mut listener: L)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    L: Listener<K>,
{
    let mut version: Option<String> = None;
    loop {
        let outcome = match version.take() {
            None => list(&api, selector.as_deref(), &mut listener).await,
            Some(from) => watch(&api, selector.as_deref(), from, &mut backoff, &mut listener).await,
        };
        match outcome {
            End::Closed => return,
            End::Continue(from) => version = from,
            End::Failed(trouble, from) => {
                version = from;
                let Some(wait) = listener.step(Step::Failed(trouble)).await else { return };
                let wait = wait.or_else(|| backoff.next()).unwrap_or(SILENCE_MAX);
                tokio::time::sleep(wait).await;
            }
        }
    }
}

/// How a list or a watch ended, and from which version to go on (`None`: list again).
enum End {
    Closed,
    Continue(Option<String>),
    Failed(Trouble, Option<String>),
}

async fn list<K, L>(api: &Api<K>, selector: Option<&str>, listener: &mut L) -> End
where
    K: Resource + Clone + DeserializeOwned + Debug,
    L: Listener<K>,
{
    if listener.step(Step::Listing).await.is_none() {
        return End::Closed;
    }
    let mut params = ListParams::default().limit(PAGE_SIZE);
    params.field_selector = selector.map(str::to_owned);
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(error) => return End::Failed(Trouble::Request(error), None),
        };
        if listener.step(Step::Page(page.items)).await.is_none() {
            return End::Closed;
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None if listener.step(Step::Listed).await.is_none() => return End::Closed,
            None => return End::Continue(page.metadata.resource_version),
        }
    }
}

async fn watch<K, L>(
    api: &Api<K>,
    selector: Option<&str>,
    mut version: String,
    backoff: &mut Backoff,
    listener: &mut L,
) -> End
where
    K: Resource + Clone + DeserializeOwned + Debug,
    L: Listener<K>,
{
    let mut params = WatchParams::default().timeout(WATCH_TIMEOUT_S);
    params.field_selector = selector.map(str::to_owned);
    let began = tokio::time::Instant::now();
    let stream = match api.watch(&params, &version).await {
        Ok(stream) => stream,
        Err(error) => return failed(error, version),
    };
    if listener.step(Step::Live).await.is_none() {
        return End::Closed;
    }
    let mut chunks = Box::pin(stream.ready_chunks(CHUNK_MAX));
    let mut heard = false;
    loop {
        let chunk = match tokio::time::timeout(SILENCE_MAX, chunks.next()).await {
            Err(_) => return End::Failed(Trouble::Silent, Some(version)),
            Ok(None) if !heard && began.elapsed() < WATCH_MIN => {
                return End::Failed(Trouble::Closed, Some(version));
            }
            Ok(None) => return End::Continue(Some(version)),
            Ok(Some(chunk)) => chunk,
        };
        heard = true;
        kube::runtime::utils::Backoff::reset(backoff);
        let (changes, trouble) = sift(chunk, &mut version);
        if !changes.is_empty() && listener.step(Step::Changes(changes)).await.is_none() {
            return End::Closed;
        }
        if let Some(error) = trouble {
            return failed(error, version);
        }
    }
}

/// Changes up to the first error, with the version after them.
fn sift<K: Resource>(
    chunk: Vec<Result<WatchEvent<K>, kube::Error>>,
    version: &mut String,
) -> (Vec<WatchEvent<K>>, Option<kube::Error>) {
    let mut changes = Vec::with_capacity(chunk.len());
    for event in chunk {
        match event {
            Ok(WatchEvent::Bookmark(bookmark)) => version.clone_from(&bookmark.metadata.resource_version),
            Ok(WatchEvent::Error(status)) => return (changes, Some(kube::Error::Api(status))),
            Err(error) => return (changes, Some(error)),
            Ok(change) => {
                if let WatchEvent::Added(o) | WatchEvent::Modified(o) | WatchEvent::Deleted(o) = &change
                    && let Some(seen) = &o.meta().resource_version
                {
                    version.clone_from(seen);
                }
                changes.push(change);
            }
        }
    }
    (changes, None)
}

/// 410 means that the version is too old to go on from: not a fault, the list says what was missed.
fn failed(error: kube::Error, version: String) -> End {
    match &error {
        kube::Error::Api(status) if status.code == 410 => End::Continue(None),
        _ => End::Failed(Trouble::Request(error), Some(version)),
    }
}
