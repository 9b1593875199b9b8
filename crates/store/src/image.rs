//! The store as it is in memory: objects in key order, history, and who waits for what. Every
//! backend reads from it; what happens before a change gets here (durability) is theirs.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tokio::sync::watch;

use super::history::{Bounds, History};
use super::ordered::Ordered;
use super::{Change, Entry, Error, Key, Page, Range, Revision, Watch};

/// Most changes handed to a watcher at once.
const BATCH_MAX: usize = 512;

/// Shared by a backend and its watches.
#[derive(Clone)]
pub(super) struct Image(Arc<RwLock<State>>);

pub(super) struct State {
    objects: Ordered,
    pub(super) revision: Revision,
    history: History,
    topics: FxHashMap<String, Topic>,
    /// How often everything was replaced. A watch from before has lost its place.
    resets: u64,
}

/// One watched prefix.
struct Topic {
    /// Revision of the last change under the prefix. Also how its watchers are woken.
    last: watch::Sender<Revision>,
    /// Last revision under the prefix that history no longer has. Kept per prefix so that a watcher
    /// of something quiet does not become "too old" because something else is busy.
    trimmed: Revision,
}

impl State {
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.objects.get(key)
    }

    /// Everything there is: objects, revision, the revision up to which history is gone, history.
    pub(super) fn copy(&self) -> (Ordered, Revision, Revision, Vec<Arc<Change>>) {
        let changes = self.history.after(0).cloned().collect();
        (self.objects.clone(), self.revision, self.history.compacted(), changes)
    }

    /// About what objects and history take where they are kept.
    pub(super) fn bytes(&self) -> u64 {
        let objects = self.objects.iter().map(|entry| entry.key.len() + entry.value.packed().len());
        u64::try_from(objects.sum::<usize>() + self.history.bytes()).unwrap_or(u64::MAX)
    }

    /// Makes committed changes visible and wakes their watchers.
    pub(super) fn publish(&mut self, changes: Vec<Arc<Change>>) {
        for change in changes {
            self.revision = change.revision;
            match &change.current {
                Some(entry) => self.objects.insert(entry.clone()),
                None => self.objects.remove(&change.key),
            }
            for prefix in prefixes(&change.key) {
                if let Some(topic) = self.topics.get(prefix) {
                    topic.last.send_replace(change.revision);
                    // A watch that was dropped leaves its topic behind, until a change under it
                    // comes by.
                    if topic.last.receiver_count() == 0 {
                        self.topics.remove(prefix);
                    }
                }
            }
            self.history.push(change);
        }
        // With 0 only what is over the bounds goes; compaction bounds the age.
        self.trim(0);
    }

    fn trim(&mut self, upto: Revision) {
        for change in self.history.trim(upto) {
            for prefix in prefixes(&change.key) {
                if let Some(topic) = self.topics.get_mut(prefix) {
                    topic.trimmed = change.revision;
                }
            }
        }
    }

    fn check_kept(&self, at: Revision) -> Result<(), Error> {
        let oldest = self.history.compacted();
        if at < oldest { Err(Error::Compacted { asked: at, oldest }) } else { Ok(()) }
    }
}

/// The watch prefixes a key belongs to: empty, and every part of it that ends in `/`.
fn prefixes(key: &str) -> impl Iterator<Item = &str> {
    std::iter::once("").chain(key.match_indices('/').map(|(at, _)| &key[..=at]))
}

impl Image {
    /// An image of `objects` at `revision`, with the `changes` that history still knows.
    pub(super) fn new(
        objects: Ordered,
        revision: Revision,
        compacted: Revision,
        changes: Vec<Arc<Change>>,
        bounds: Bounds,
    ) -> Self {
        let mut history = History::new(compacted, bounds);
        changes.into_iter().for_each(|change| history.push(change));
        Self(Arc::new(RwLock::new(State {
            objects,
            revision,
            history,
            topics: FxHashMap::default(),
            resets: 0,
        })))
    }

    pub(super) fn read<T>(&self, f: impl FnOnce(&State) -> T) -> T {
        f(&self.0.read())
    }

    pub(super) fn write<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.write())
    }

    pub(super) fn revision(&self) -> Revision {
        self.0.read().revision
    }

    pub(super) fn compacted(&self) -> Revision {
        self.0.read().history.compacted()
    }

    pub(super) fn compact(&self, upto: Revision) {
        self.0.write().trim(upto);
    }

    /// Says that nothing changed up to `revision`.
    pub(super) fn advance(&self, revision: Revision) {
        let mut state = self.0.write();
        state.revision = state.revision.max(revision);
    }

    /// Starts over from `objects` at `revision` without history. Every watch is told that it lost
    /// its place.
    #[cfg(feature = "etcd")]
    pub(super) fn reset(&self, objects: Ordered, revision: Revision) {
        let mut state = self.0.write();
        let bounds = state.history.bounds();
        state.objects = objects;
        state.revision = revision;
        state.history = History::new(revision, bounds);
        state.resets += 1;
        // Wakes the watches that wait; those that begin from now on have not lost anything.
        state.topics.clear();
    }

    pub(super) fn get(&self, key: &str) -> Option<Entry> {
        self.0.read().objects.get(key).cloned()
    }

    /// The first change of `key` above `after`.
    #[cfg(feature = "etcd")]
    pub(super) fn first_change(&self, key: &str, after: Revision) -> Result<Option<Arc<Change>>, Error> {
        let state = self.0.read();
        state.check_kept(after)?;
        Ok(state.history.after(after).find(|change| &*change.key == key).cloned())
    }

    pub(super) fn weight(&self, key: &str) -> usize {
        self.0.read().objects.get(key).map_or(0, |entry| entry.value.bytes())
    }

    pub(super) fn all(&self) -> Page {
        let state = self.0.read();
        Page { entries: state.objects.iter().cloned().collect(), remaining: 0, revision: state.revision }
    }

    pub(super) fn range(&self, range: Range<'_>) -> Result<Page, Error> {
        let state = self.0.read();
        let at = range.at.unwrap_or(state.revision);
        if at > state.revision {
            return Err(Error::Future { asked: at, current: state.revision });
        }
        state.check_kept(at)?;
        let objects = &state.objects;
        let start = objects.seek(|key| key < range.prefix || (!range.after.is_empty() && key <= range.after));
        // Keys with the prefix lie side by side, so this is false only behind all of them.
        let end = objects.seek(|key| key < range.prefix || key.starts_with(range.prefix));
        let limit = if range.limit == 0 { usize::MAX } else { range.limit };
        // `after` may lie behind the prefix.
        let mut total = objects.rank(end).saturating_sub(objects.rank(start));
        let now = objects.behind(start).take(total);
        let entries: Vec<Entry> = if at == state.revision {
            now.take(limit).cloned().collect()
        } else {
            let mut undone = state.history.undo(range.prefix, at);
            undone.retain(|key, _| range.after.is_empty() || &**key > range.after);
            // Keys that changed since count as they were then, so those that are there now are
            // taken off.
            let is = undone.keys().filter(|key| objects.get(key).is_some()).count();
            total = total + undone.values().flatten().count() - is;
            merge(now, &undone).take(limit).cloned().collect()
        };
        let remaining = total - entries.len();
        Ok(Page { entries, remaining, revision: at })
    }

    pub(super) fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        // One lock for check and subscription, so that no change falls between them.
        let mut state = self.0.write();
        state.check_kept(after)?;
        let revision = state.revision;
        if after > revision {
            return Err(Error::Future { asked: after, current: revision });
        }
        let topic = state
            .topics
            .entry(prefix.to_owned())
            // 0 is right for a new topic: `check_kept` has refused what is gone.
            .or_insert_with(|| Topic { last: watch::Sender::new(revision), trimmed: 0 });
        let wake = topic.last.subscribe();
        let resets = state.resets;
        Ok(Box::new(ImageWatch {
            image: self.clone(),
            prefix: prefix.to_owned(),
            cursor: after,
            wake,
            resets,
        }))
    }
}

/// What is there now, with what was there before in its place.
fn merge<'a>(
    now: impl Iterator<Item = &'a Entry>,
    undone: &'a BTreeMap<Key, Option<Entry>>,
) -> impl Iterator<Item = &'a Entry> {
    let mut now = now.filter(|entry| !undone.contains_key(&entry.key)).peekable();
    let mut then = undone.values().flatten().peekable();
    std::iter::from_fn(move || match (now.peek(), then.peek()) {
        (Some(a), Some(b)) if a.key < b.key => now.next(),
        (_, Some(_)) => then.next(),
        _ => now.next(),
    })
}

struct ImageWatch {
    image: Image,
    prefix: String,
    /// Everything up to this revision has been returned.
    cursor: Revision,
    wake: watch::Receiver<Revision>,
    resets: u64,
}

impl ImageWatch {
    /// What is there above the cursor, which moves behind it.
    fn take(&mut self) -> Result<Vec<Arc<Change>>, Error> {
        let state = self.image.0.read();
        if state.resets != self.resets {
            return Err(Error::Compacted { asked: self.cursor, oldest: state.history.compacted() });
        }
        let trimmed = state.topics.get(&self.prefix).map_or(0, |topic| topic.trimmed);
        if trimmed > self.cursor {
            return Err(Error::Compacted { asked: self.cursor, oldest: trimmed });
        }
        let mut batch: Vec<Arc<Change>> = Vec::new();
        for change in state.history.after(self.cursor).filter(|c| c.key.starts_with(&self.prefix)) {
            // A revision is never split over two batches, so a batch may exceed the maximum.
            let full = batch.len() >= BATCH_MAX;
            if full && batch.last().is_some_and(|last| last.revision != change.revision) {
                break;
            }
            batch.push(change.clone());
        }
        // A batch that is not full has passed everything, so a quiet prefix keeps up with the
        // store.
        let seen = if batch.len() < BATCH_MAX {
            state.revision
        } else {
            batch.last().map_or(state.revision, |change| change.revision)
        };
        self.cursor = self.cursor.max(seen);
        Ok(batch)
    }
}

#[async_trait]
impl Watch for ImageWatch {
    async fn next(&mut self) -> Result<Vec<Arc<Change>>, Error> {
        loop {
            // The mark goes first: a change between it and `take` wakes once more.
            self.wake.borrow_and_update();
            let batch = self.take()?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            // An error means that the topic is gone, and `take` will say why.
            let _ = self.wake.changed().await;
        }
    }

    async fn progress(&mut self) -> Result<Revision, Error> {
        let state = self.image.0.read();
        let outstanding = state.history.after(self.cursor).any(|change| change.key.starts_with(&self.prefix));
        let trimmed = state.topics.get(&self.prefix).map_or(0, |topic| topic.trimmed);
        // A change that was trimmed unread is outstanding, too.
        if !outstanding && trimmed <= self.cursor && state.resets == self.resets {
            self.cursor = self.cursor.max(state.revision);
        }
        // After a reset the store may be behind the cursor.
        Ok(self.cursor.min(state.revision))
    }
}
