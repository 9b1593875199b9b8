//! Watches: what they start with, live events, bookmarks, timeouts, and being too late. Owns the
//! stream of one watcher; must not know HTTP.
//!
//! A watcher holds no queue: it reads the store's history at its own pace, so a slow one costs
//! nothing and is told "too old" when history has moved past it.
//!
//! Source: apiserver `pkg/storage/cacher/cacher.go`, `pkg/endpoints/handlers/watch.go`, v0.35.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer;
use super::lines::{EventType, Lines, event_line, value_line};
use crate::failure::Failure;
use crate::object::Record;
use crate::registry::Registry;
use crate::registry::list::Selection;
use crate::request::negotiate::Form;
use crate::request::options::ListOptions;
use crate::resource::Resource;
use capstan_store::{self as store, Change, Entry, Key, Range, Revision, Watch};

/// Between bookmarks of an idle watch.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Shortest life of a watch that did not ask for one, in seconds; the longest is twice that.
const LIFE_MIN_S: u64 = 1_800;
/// Events are written together up to about this size, so that a reader that stops holds little; later ones that are large alone.
const CHUNK_BYTES: usize = 32 * 1024;

/// One watch that was accepted and has not been answered yet.
pub struct Watcher {
    registry: Arc<Registry>,
    lines: Arc<Lines>,
    resource: Arc<Resource>,
    selection: Selection,
    form: Form,
    /// Only this key, when the selection names one.
    only: Option<Key>,
    initial: std::vec::IntoIter<Entry>,
    phase: Phase,
    changes: Box<dyn Watch>,
    /// Taken from `changes` and not written yet. They are shared with the history; lines are made as
    /// the reader takes them, so that one that stops reading holds no text.
    pending: VecDeque<Arc<Change>>,
    bookmarks: Option<Instant>,
    /// Said when a definition changed: this resource may not be served any more.
    catalog: watch::Receiver<()>,
    /// Bookmark revisions never go back.
    bookmarked: Revision,
    end: Instant,
    /// Table columns are sent with the first row only.
    columns_sent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Objects that were there already, then a bookmark if true.
    Initial {
        revision: Revision,
        mark_end: bool,
    },
    Live,
    Over,
}

/// Where a watch starts.
enum Start {
    /// With the objects there are.
    State,
    /// Behind this revision.
    After(Revision),
}

/// What a watch reads: everything under a prefix, or one key of it.
struct Source<'a> {
    prefix: &'a str,
    only: Option<&'a str>,
}

impl Source<'_> {
    /// The objects to begin with, what they are followed by, and the changes. A failure inside is the
    /// first and only event.
    async fn open(
        &self,
        registry: &Registry,
        options: &ListOptions,
    ) -> Result<Result<(Vec<Entry>, Phase, Box<dyn Watch>), Failure>, Failure> {
        let (start, mark_end) = start(options);
        let after = match start {
            // Without a version, such a watch begins with what comes next.
            Start::After(0) => registry.store.revision().await?,
            Start::After(revision) => revision,
            Start::State => {
                if let Err(failure) = registry.wait_for(options.resource_version.unwrap_or(0)).await {
                    return Ok(Err(failure));
                }
                // A key comes before all longer ones that begin with it, so one entry is enough.
                let (prefix, limit) = self.only.map_or((self.prefix, 0), |key| (key, 1));
                let page = registry.store.range(Range { prefix, limit, ..Range::default() }).await?;
                let changes = registry.store.watch(self.prefix, page.revision).await?;
                let phase = Phase::Initial { revision: page.revision, mark_end };
                return Ok(Ok((page.entries, phase, changes)));
            }
        };
        let mut changes = registry.store.watch(self.prefix, after).await;
        // Another server of the store may have written this version, and it is on its way here.
        if matches!(changes, Err(store::Error::Future { .. })) && registry.wait_for(after).await.is_ok() {
            changes = registry.store.watch(self.prefix, after).await;
        }
        Ok(changes.map(|changes| (Vec::new(), Phase::Live, changes)).map_err(out_of_reach))
    }
}

impl Watcher {
    /// Accepts a watch. Being too late or ahead is not an error here: it is the first and only event.
    ///
    /// # Errors
    /// 400 for bad selectors; 504 for a revision that does not come.
    pub async fn open(
        registry: Arc<Registry>,
        lines: Arc<Lines>,
        resource: Arc<Resource>,
        namespace: &str,
        options: &ListOptions,
        form: Form,
    ) -> Result<Result<Self, Failure>, Failure> {
        // From before the store is read on, so that a definition replaced meanwhile ends the watch.
        let mut catalog = registry.catalog_changed.subscribe();
        if !registry.still_serves(&resource) {
            catalog.mark_changed();
        }
        let selection = Selection::parse(&resource, options)?;
        let only = selection
            .name()
            .filter(|_| !resource.namespaced || !namespace.is_empty())
            .map(|name| resource.key(namespace, name));
        let source = Source { prefix: &resource.range_prefix(namespace), only: only.as_deref() };
        let (initial, phase, changes) = match source.open(&registry, options).await? {
            Ok(opened) => opened,
            Err(too_late) => return Ok(Err(too_late)),
        };
        let now = Instant::now();
        // By chance, so that watches that began together do not all come back together.
        let life_s = options.timeout_s.unwrap_or_else(|| LIFE_MIN_S + registry.rng.below(LIFE_MIN_S));
        let end = now + Duration::from_secs(life_s);
        let mut watcher = Self {
            registry,
            lines,
            resource,
            selection,
            form,
            only,
            initial: initial.into_iter(),
            phase,
            changes,
            pending: VecDeque::new(),
            bookmarks: None,
            catalog,
            bookmarked: 0,
            end,
            columns_sent: false,
        };
        if options.allow_bookmarks {
            watcher.bookmarks = Some(watcher.next_bookmark(now));
        }
        Ok(Ok(watcher))
    }

    /// The events as text, until the watch ends.
    pub fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut watcher| async move {
            let chunk = watcher.next().await?;
            Some((chunk, watcher))
        })
    }

    /// The next chunk; `None` when it is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let chunk = match self.phase {
                Phase::Over => return None,
                Phase::Initial { revision, mark_end } => self.next_initial(revision, mark_end),
                Phase::Live => self.next_live().await,
            };
            match chunk {
                Ok(chunk) if chunk.is_empty() => {}
                Ok(chunk) => return Some(chunk),
                Err(failure) => {
                    self.phase = Phase::Over;
                    return Some(value_line("ERROR", &failure.status()));
                }
            }
        }
    }

    fn next_initial(&mut self, revision: Revision, mark_end: bool) -> Result<Bytes, Failure> {
        let mut out = Vec::new();
        while out.len() < CHUNK_BYTES {
            let Some(entry) = self.initial.next() else { break };
            if self.only.as_ref().is_some_and(|only| *only != entry.key) {
                continue;
            }
            let record = Record::read(&entry)?;
            if self.selection.matches(&self.resource, &record)? {
                self.write_event(&mut out, EventType::Added, &record)?;
            }
        }
        if self.initial.as_slice().is_empty() {
            self.phase = Phase::Live;
            // A watch lives for long after its first objects, so their list is freed.
            self.initial = Vec::new().into_iter();
            if mark_end {
                out.extend_from_slice(&self.bookmark(revision, true));
            }
        }
        Ok(out.into())
    }

    async fn next_live(&mut self) -> Result<Bytes, Failure> {
        if !self.pending.is_empty() && Instant::now() < self.end {
            return self.write_pending();
        }
        let wake = self.bookmarks.map_or(self.end, |at| at.min(self.end));
        tokio::select! {
            biased;
            // First, or a busy watch would never end.
            () = tokio::time::sleep_until(wake) => {
                let now = Instant::now();
                if now >= self.end {
                    self.phase = Phase::Over;
                    return Ok(Bytes::new());
                }
                // Nothing is pending here, so all changes up to this revision have been sent.
                let revision = self.changes.progress().await.map_err(out_of_reach)?;
                self.bookmarks = Some(self.next_bookmark(now));
                Ok(self.bookmark(revision, false))
            }
            changes = self.changes.next() => {
                self.pending.extend(changes.map_err(out_of_reach)?);
                Ok(Bytes::new())
            }
            Ok(()) = self.catalog.changed() => {
                if !self.registry.still_serves(&self.resource) {
                    self.phase = Phase::Over;
                }
                Ok(Bytes::new())
            }
        }
    }

    /// Some of what is pending: one line as everybody shares it, or several small ones together.
    fn write_pending(&mut self) -> Result<Bytes, Failure> {
        let mut out = Vec::new();
        while let Some(change) = self.pending.pop_front() {
            let Some(line) = self.write_change(&change)? else { continue };
            // A line alone is handed on as it is, shared with every other watcher.
            if out.is_empty() && (self.pending.is_empty() || line.len() >= CHUNK_BYTES) {
                return Ok(line);
            }
            out.extend_from_slice(&line);
            if out.len() >= CHUNK_BYTES {
                break;
            }
        }
        Ok(out.into())
    }

    /// The line of a change; `None` when it is nothing to this watcher.
    fn write_change(&mut self, change: &Change) -> Result<Option<Bytes>, Failure> {
        if self.only.as_ref().is_some_and(|only| *only != change.key) {
            return Ok(None);
        }
        let shown = self.lines.of(&self.resource, change)?;
        let Some((type_, record)) = shown.event(&self.resource, &self.selection)? else { return Ok(None) };
        // Tables are not shared: ages and the first columns differ from watcher to watcher.
        if !matches!(self.form, Form::Table(_)) {
            return shown.line(&self.resource, self.form, type_, record).map(Some);
        }
        let mut line = Vec::new();
        self.write_event(&mut line, type_, record)?;
        Ok(Some(line.into()))
    }

    fn write_event(&mut self, out: &mut Vec<u8>, type_: EventType, record: &Record) -> Result<(), Failure> {
        let Form::Table(include) = self.form else {
            out.extend_from_slice(&event_line(&self.resource, self.form, type_, record)?);
            return Ok(());
        };
        let now = self.registry.clock.now();
        let table = answer::table_of_one(&self.resource, record, include, !self.columns_sent, now)?;
        self.columns_sent = true;
        out.extend_from_slice(format!("{{\"type\":\"{}\",\"object\":", type_.word()).as_bytes());
        out.extend_from_slice(&table);
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn bookmark(&mut self, revision: Revision, ends_initial: bool) -> Bytes {
        if revision < self.bookmarked {
            return Bytes::new();
        }
        self.bookmarked = revision;
        value_line("BOOKMARK", &answer::bookmark(&self.resource, self.form, revision, ends_initial))
    }

    /// Every minute, and once shortly before the end.
    fn next_bookmark(&self, now: Instant) -> Instant {
        let last = self.end.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(self.end);
        let next = now + BOOKMARK_EVERY;
        if now < last { next.min(last) } else { next }
    }
}

/// Where to start, and whether the initial events end in a bookmark.
fn start(options: &ListOptions) -> (Start, bool) {
    match (options.send_initial_events, options.resource_version) {
        (Some(true), _) | (None, None) => (Start::State, options.allow_bookmarks),
        (None, Some(0)) => (Start::State, false),
        (Some(false), None) => (Start::After(0), false),
        (_, Some(revision)) => (Start::After(revision), false),
    }
}

/// A version that is ahead is one of a history that this store has lost: as with one that is too old,
/// the client has to list again, and clients know that from 410 only.
fn out_of_reach(error: store::Error) -> Failure {
    match error {
        store::Error::Future { asked, current } => Failure::expired(format!(
            "resource version {asked} is not of this history, which is at {current}; list again"
        )),
        store::Error::Compacted { asked, oldest } => {
            Failure::expired(format!("too old resource version: {asked} ({oldest})"))
        }
        other => other.into(),
    }
}
