//! List in pages, then watch, for ever: one collection as a sequence of steps. Owns resuming, relisting
//! and waiting; must not know what the objects are nor who takes the steps.
//!
//! kube's own watcher does the same but tells nothing when a watch that was lost stands again without
//! news; a screen that shows the age of its data has to know.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Api;
use kube::api::{ListParams, Request, WatchEvent, WatchParams};
use kube::core::Resource;
use serde::de::DeserializeOwned;
use tokio::sync::watch as channel;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::Context;
use super::history::Epoch;
use super::page::{self, Body, Page, Piece};
use super::rest::{ListUnderWay, rest};
use capstan_engine::client::pulse::Outage;
use capstan_engine::client::watch::{Backoff, parse_version};

/// Objects of the first page of a list: few, so that a screen has something soon. Each next page has four times as
/// many, because on a slow link the pages take as long as their number.
const PAGE_MIN: u32 = 500;
const PAGE_GROWTH: u32 = 4;
/// A server makes a page at once, so this decides what one costs it. Informers of clients ask for everything at once.
const PAGE_MAX: u32 = 5_000;
/// Changes taken together when they arrive together.
const CHUNK_MAX: usize = 256;
/// How long a watch rests after changes that came alone: those that come meanwhile are taken together, and
/// waking up for each would cost more than reading it. No screen shows news more often.
const REST: Duration = Duration::from_millis(100);
/// After so long without another change none has come; the least that a timer measures.
const PATIENCE: Duration = Duration::from_millis(1);
/// How long a watch lasts before the server ends it.
const WATCH_TIMEOUT_S: u32 = 290;
/// A watch that is silent for longer than its timeout is dead: the server did not end it.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// One that had a bookmark has one about every minute.
const BOOKMARK_MAX: Duration = Duration::from_secs(150);
/// A page of a list, or the beginning of a watch. Longer than the first bookmark takes through a proxy
/// that holds back what is not complete; a server that hangs is noticed sooner, by its pulse.
const REQUEST_MAX: Duration = Duration::from_secs(90);
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
    /// The server does not answer at all, says its pulse.
    Outage(Outage),
    /// Nothing came for [`SILENCE_MAX`] where something should have.
    Silent,
    /// The server ends the watch as soon as it begins.
    Closed,
}

/// Who takes the steps.
pub(super) trait Listener<K>: Send {
    fn step(&mut self, step: Step<K>) -> impl Future<Output = AfterStep> + Send;
}

/// What follows a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterStep {
    /// The next one; after a failure, with the usual wait before it is tried again.
    GoOn,
    /// The same after a failure, with this wait.
    RetryAfter(Duration),
    /// Nothing any more: nobody listens.
    Stop,
}

impl AfterStep {
    fn is_stop(self) -> bool {
        self == Self::Stop
    }
}

/// Runs until the listener ends it.
pub(super) async fn run<K, L>(
    context: &Context,
    api: Api<K>,
    selector: Option<String>,
    backoff: Backoff,
    mut listener: L,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    L: Listener<K>,
{
    let mut reader = Reader::new(context, api, selector, backoff);
    let mut version: Option<String> = None;
    loop {
        let outcome = match version.take() {
            None => reader.list(&mut listener).await,
            Some(from) => reader.watch(from, &mut listener).await,
        };
        match outcome {
            End::Closed => return,
            End::Continue(from) => version = from,
            End::Failed(trouble, from) => {
                let is_outage = matches!(trouble, Trouble::Outage(_));
                match listener.step(Step::Failed(trouble)).await {
                    AfterStep::Stop => return,
                    // A server that is known to be away is not
                    // asked: its pulse shows when it is back.
                    AfterStep::GoOn | AfterStep::RetryAfter(_) if is_outage => reader.outage_is_over().await,
                    AfterStep::RetryAfter(wait) => tokio::time::sleep(wait).await,
                    AfterStep::GoOn => {
                        tokio::time::sleep(reader.backoff.next().unwrap_or(SILENCE_MAX)).await;
                    }
                }
                version = reader.resume(from).await;
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

/// What came of reading a list.
enum Pages {
    /// All of it, with its version where the server states one.
    Listed(Option<String>),
    Stopped,
}

struct Reader<'a, K> {
    context: &'a Context,
    api: Api<K>,
    selector: Option<String>,
    backoff: Backoff,
    outages: channel::Receiver<Option<Outage>>,
    epochs: channel::Receiver<Epoch>,
    /// The history that is being read.
    epoch: Epoch,
    /// The newest version seen in it; 0 when versions are not numbers.
    newest: u64,
}

impl<'a, K> Reader<'a, K>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    fn new(context: &'a Context, api: Api<K>, selector: Option<String>, backoff: Backoff) -> Self {
        let (outages, epochs) = (context.outages.clone(), context.history.subscribe());
        let epoch = context.history.epoch();
        Self { context, api, selector, backoff, outages, epochs, epoch, newest: 0 }
    }

    async fn list<L: Listener<K>>(&mut self, listener: &mut L) -> End {
        let began_in = self.context.history.epoch();
        if began_in != self.epoch {
            // Versions of a history that is known to be gone say nothing about this one.
            self.newest = 0;
        }
        if listener.step(Step::Listing).await.is_stop() {
            return End::Closed;
        }
        // While this lives, the thread that reads does not nap.
        let _under_way = ListUnderWay::begin();
        match self.pages(listener).await {
            Ok(Pages::Listed(version)) => End::Continue(self.listed(version, began_in)),
            Ok(Pages::Stopped) => End::Closed,
            Err(trouble) => End::Failed(trouble, None),
        }
    }

    /// Hands all pages on.
    async fn pages<L: Listener<K>>(&mut self, listener: &mut L) -> Result<Pages, Trouble> {
        let mut limit = PAGE_MIN;
        let mut asked = self.ask(limit, None)?;
        loop {
            let mut page = Page::new(bounded(&mut self.outages, answer(asked)).await?);
            let (mut head, mut next) = (ListMeta::default(), None);
            limit = (limit * PAGE_GROWTH).min(PAGE_MAX);
            loop {
                match bounded(&mut self.outages, page.next()).await? {
                    Piece::Head(found) => {
                        // The next page is on its way while this one arrives.
                        let token = found.continue_.as_ref().filter(|token| !token.is_empty());
                        next = token.map(|token| self.ask(limit, Some(token.clone()))).transpose()?;
                        head = found;
                    }
                    Piece::Objects(objects) => {
                        if listener.step(Step::Page(objects)).await.is_stop() {
                            return Ok(Pages::Stopped);
                        }
                    }
                    Piece::End => break,
                }
            }
            match next {
                Some(next) => asked = next,
                None if listener.step(Step::Listed).await.is_stop() => return Ok(Pages::Stopped),
                None => return Ok(Pages::Listed(head.resource_version)),
            }
        }
    }

    /// Asks for one page of the list.
    fn ask(&self, limit: u32, token: Option<String>) -> Result<Asked, Trouble> {
        let mut params = ListParams::default().limit(limit);
        params.field_selector.clone_from(&self.selector);
        params.continue_token = token;
        let request = Request::new(self.api.resource_url()).list(&params);
        let request = request.map_err(|error| Trouble::Request(kube::Error::BuildRequest(error)))?;
        let client = self.context.client.clone();
        Ok(AbortOnDropHandle::new(tokio::spawn(page::ask(client, request))))
    }

    /// A list is complete: from which version to watch, or `None` when the history changed meanwhile.
    fn listed(&mut self, version: Option<String>, began_in: Epoch) -> Option<String> {
        let revision = version.as_deref().map_or(0, parse_version);
        let went_back = revision != 0 && revision < self.newest;
        if went_back {
            self.context.history.replaced(began_in);
        }
        self.newest = revision;
        self.epoch = self.context.history.epoch();
        version.filter(|_| went_back || self.epoch == began_in)
    }

    /// Where to go on after a failure: at `from`, unless the server came back with another history.
    async fn resume(&mut self, from: Option<String>) -> Option<String> {
        let from = from?;
        let context = self.context;
        // A watch from a version of another history may succeed, and show nothing of what is there.
        let check = async {
            context.history.verify(&context.client).await;
            // One object is enough, since only the version of the list is of interest.
            self.api.list(&ListParams::default().limit(1)).await
        };
        // Not known: the watch itself fails if it cannot go on from there.
        let Ok(page) = bounded(&mut self.outages, check).await else { return Some(from) };
        let revision = page.metadata.resource_version.as_deref().map_or(0, parse_version);
        Some(from).filter(|_| revision >= self.newest && self.context.history.epoch() == self.epoch)
    }

    async fn outage_is_over(&mut self) {
        if self.outages.wait_for(Option::is_none).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn watch<L: Listener<K>>(&mut self, mut version: String, listener: &mut L) -> End {
        let mut params = WatchParams::default().timeout(WATCH_TIMEOUT_S);
        params.field_selector.clone_from(&self.selector);
        let began = Instant::now();
        let stream = match bounded(&mut self.outages, self.api.watch(&params, &version)).await {
            Ok(stream) => stream,
            Err(trouble) => return failed(trouble, version),
        };
        if listener.step(Step::Live).await.is_stop() {
            return End::Closed;
        }
        let mut chunks = Box::pin(stream.ready_chunks(CHUNK_MAX).fuse());
        let (mut heard, mut silence_max) = (false, SILENCE_MAX);
        loop {
            let chunk = tokio::select! {
                // Changes of a history that is gone must not be shown, so that these two are looked
                // at first.
                biased;
                outage = begun(&mut self.outages) => return End::Failed(Trouble::Outage(outage), Some(version)),
                () = another(&mut self.epochs, self.epoch) => return End::Continue(None),
                chunk = timeout(silence_max, chunks.next()) => chunk,
            };
            let chunk = match chunk {
                Err(_) => return End::Failed(Trouble::Silent, Some(version)),
                Ok(None) if !heard && began.elapsed() < WATCH_MIN => {
                    return End::Failed(Trouble::Closed, Some(version));
                }
                Ok(None) => return End::Continue(self.after_end(version, began).await),
                Ok(Some(chunk)) => gathered(chunk, &mut chunks).await,
            };
            heard = true;
            let is_full = chunk.len() >= CHUNK_MAX;
            // Only what a watch brings makes waits short again; that it stands proves little.
            self.backoff.reset();
            if chunk.iter().any(|event| matches!(event, Ok(WatchEvent::Bookmark(_)))) {
                silence_max = BOOKMARK_MAX;
            }
            let (changes, end) = self.sift(chunk, &mut version);
            // A full chunk means that more is waiting already.
            let rests = !changes.is_empty() && !is_full && end.is_none();
            // What came before an error is good, and the watch goes on behind it.
            if !changes.is_empty() && listener.step(Step::Changes(changes)).await.is_stop() {
                return End::Closed;
            }
            match end {
                Some(Sifted::Error(error)) => return failed(Trouble::Request(error), version),
                Some(Sifted::WentBack) => return End::Continue(None),
                None if rests => rest(REST).await,
                None => {}
            }
        }
    }

    /// A watch that ended before its time may have been ended by a restart.
    async fn after_end(&mut self, version: String, began: Instant) -> Option<String> {
        if began.elapsed() + WATCH_MIN < Duration::from_secs(u64::from(WATCH_TIMEOUT_S)) {
            return self.resume(Some(version)).await;
        }
        Some(version)
    }

    /// Changes up to the first error, with the version after them.
    fn sift(
        &mut self,
        chunk: Vec<Result<WatchEvent<K>, kube::Error>>,
        version: &mut String,
    ) -> (Vec<WatchEvent<K>>, Option<Sifted>) {
        let mut changes = Vec::with_capacity(chunk.len());
        for event in chunk {
            let seen = match &event {
                Ok(WatchEvent::Error(status)) => {
                    return (changes, Some(Sifted::Error(kube::Error::Api(status.clone()))));
                }
                Err(_) => None,
                Ok(WatchEvent::Bookmark(bookmark)) => Some(bookmark.metadata.resource_version.clone()),
                Ok(WatchEvent::Added(o) | WatchEvent::Modified(o) | WatchEvent::Deleted(o)) => {
                    o.meta().resource_version.clone()
                }
            };
            if let Some(seen) = seen {
                let revision = parse_version(&seen);
                // Numbers only grow within one history; versions
                // that are not numbers prove nothing.
                if revision != 0 && revision < self.newest {
                    return (changes, Some(Sifted::WentBack));
                }
                self.newest = revision;
                *version = seen;
            }
            match event {
                Ok(WatchEvent::Bookmark(_)) => {}
                Ok(change) => changes.push(change),
                Err(error) => return (changes, Some(Sifted::Error(error))),
            }
        }
        (changes, None)
    }
}

/// A page that was asked for.
type Asked = AbortOnDropHandle<Result<Body, kube::Error>>;

async fn answer(asked: Asked) -> Result<Body, kube::Error> {
    asked.await.unwrap_or_else(|error| Err(kube::Error::Service(error.into())))
}

/// A chunk with what stands behind it: a connection hands on one event after the other, however many have come.
async fn gathered<T>(mut chunk: Vec<T>, chunks: &mut (impl Stream<Item = Vec<T>> + Unpin)) -> Vec<T> {
    while chunk.len() < CHUNK_MAX
        && let Ok(Some(more)) = timeout(PATIENCE, chunks.next()).await
    {
        chunk.extend(more);
    }
    chunk
}

/// Why sifting stopped.
enum Sifted {
    Error(kube::Error),
    /// A version is lower than what was seen before: it is of another history.
    WentBack,
}

/// A request's answer, unless it takes too long or the server does not answer at all.
async fn bounded<T>(
    outages: &mut channel::Receiver<Option<Outage>>,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Trouble> {
    tokio::select! {
        biased;
        outage = begun(outages) => Err(Trouble::Outage(outage)),
        answer = timeout(REQUEST_MAX, request) => answer.map_err(|_| Trouble::Silent)?.map_err(Trouble::Request),
    }
}

/// Resolves while there is an outage.
async fn begun(outages: &mut channel::Receiver<Option<Outage>>) -> Outage {
    let outage = outages.wait_for(Option::is_some).await.ok().and_then(|outage| outage.clone());
    match outage {
        Some(outage) => outage,
        // This connection is not watched, so an outage of it is never reported.
        None => std::future::pending().await,
    }
}

/// Resolves when the server's history is another one than `epoch`.
async fn another(epochs: &mut channel::Receiver<Epoch>, epoch: Epoch) {
    if epochs.wait_for(|now| *now != epoch).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// 410 means that the version is too old to go on from, or of another history: not a fault, the list
/// says what was missed.
fn failed(trouble: Trouble, version: String) -> End {
    match &trouble {
        Trouble::Request(kube::Error::Api(status)) if status.code == 410 => End::Continue(None),
        _ => End::Failed(trouble, Some(version)),
    }
}
