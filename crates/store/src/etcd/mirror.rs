//! Keeps a copy of etcd's content in memory: reads it once, then follows one watch, over losses of
//! the connection and of members, compactions that overtook it, and an etcd that was set back. Must
//! not know who reads the copy.
//!
//! At the start it reads the oldest revision that is still kept and replays what came since, so the
//! history of the last minutes is there after a restart as it was before.
//!
//! A value that is not an object is kept apart: whoever asks for its key finds it, lists and watches
//! do not. An object that becomes one is reported as deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::COMPACT_KEY;
use super::layout::{Content, Layout};
use super::members::{Members, Patience};
use super::wire::{Event, Failure, Feed, Item, News, Query};
use crate::history::Bounds;
use crate::image::Image;
use crate::ordered::Ordered;
use crate::{Change, Entry, Error, Key, Revision};

/// Entries read at once.
const PAGE: i64 = 1_000;
/// Between attempts to reach etcd again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a watch may be behind what is known to have happened, and how long it may be silent
/// before it is asked for a sign of life. After either, another member is watched.
const BEHIND_MAX: Duration = Duration::from_secs(1);
const SILENT_MAX: Duration = Duration::from_secs(5);
const SIGN_MAX: Duration = Duration::from_secs(2);
/// Values that are not objects are named in the log one by one up to here when all is read.
const GARBAGE_NAMED_MAX: usize = 20;

/// What lies below the prefix and is not an object.
pub(super) type Garbage = Arc<RwLock<BTreeMap<Key, Entry>>>;

/// How far the copy has come, and how far it should have.
#[derive(Clone)]
pub(super) struct Progress {
    reached: watch::Sender<Revision>,
    wanted: watch::Sender<Revision>,
}

impl Progress {
    fn new(reached: Revision) -> Self {
        Self { reached: watch::Sender::new(reached), wanted: watch::Sender::new(0) }
    }

    pub(super) fn reached(&self) -> Revision {
        *self.reached.borrow()
    }

    /// Waits until `revision` is in the copy.
    pub(super) async fn until(&self, revision: Revision) {
        self.wanted.send_if_modified(|wanted| {
            let more = *wanted < revision;
            *wanted = revision.max(*wanted);
            more
        });
        // The sender is ours, so it is there.
        let _ = self.reached.subscribe().wait_for(|reached| *reached >= revision).await;
    }

    /// Waits until a reader waits for a revision that has not come yet.
    async fn until_behind(&self) {
        let reached = self.reached();
        // The sender is ours, so it is there.
        let _ = self.wanted.subscribe().wait_for(|wanted| *wanted > reached).await;
    }
}

pub(super) struct Mirror {
    members: Arc<Members>,
    layout: Layout,
    pub(super) image: Image,
    pub(super) garbage: Garbage,
    pub(super) progress: Progress,
}

/// Why following ended.
enum Lost {
    /// The watch; what was seen still holds.
    Touch,
    /// The place: changes are gone, or etcd was set back.
    Place(String),
}

impl Mirror {
    pub(super) async fn open(members: Arc<Members>, layout: Layout, bounds: Bounds) -> Result<Self, Error> {
        let read = oldest(&members, &layout, bounds).await.map_err(|failure| layout.failed(&failure))?;
        let image = Image::new(read.objects, read.revision, read.revision, Vec::new(), bounds);
        let garbage = Arc::new(RwLock::new(read.garbage));
        Ok(Self { members, layout, image, garbage, progress: Progress::new(read.revision) })
    }

    /// Runs until dropped.
    pub(super) async fn run(self) {
        loop {
            if let Lost::Place(why) = self.follow().await {
                tracing::warn!("{why}; reading everything again");
                if self.reload().await.is_ok() {
                    continue;
                }
            }
            sleep(PAUSE).await;
        }
    }

    async fn reload(&self) -> Result<(), Failure> {
        let now = head(&self.members).await?;
        let read = read(&self.members, &self.layout, now).await?;
        self.image.reset(read.objects, read.revision);
        *self.garbage.write() = read.garbage;
        // The copy comes before the number: whoever waits for that reads at once.
        self.progress.reached.send_replace(read.revision);
        Ok(())
    }

    /// Takes every change in until something stands in the way.
    async fn follow(&self) -> Lost {
        // etcd includes the revision at which a watch starts.
        let next = self.image.revision() + 1;
        let Ok((place, mut feed)) = self.members.watch(next).await else { return Lost::Touch };
        loop {
            let news = tokio::select! {
                // What has arrived is taken in before the member is given up.
                biased;
                news = self.news(&mut *feed) => news,
                // A request may notice a dead member long before the watch does.
                () = self.members.until_aside(place) => return Lost::Touch,
            };
            match news {
                Ok(News::Begun(at)) => {
                    if let Some(lost) = self.is_set_back(at).await {
                        return lost;
                    }
                }
                Ok(News::Changes(events)) => self.take(&events),
                Ok(News::Compacted(oldest)) => {
                    let at = self.image.revision();
                    let why = format!("etcd has forgotten the changes between revision {at} and {oldest}");
                    return Lost::Place(why);
                }
                Ok(News::Alive) => {}
                Err(failure) => {
                    self.members.put_aside(place, &failure);
                    return Lost::Touch;
                }
            }
        }
    }

    /// The next news, or why this member is not worth waiting for.
    async fn news(&self, feed: &mut dyn Feed) -> Result<News, Failure> {
        let late = async {
            self.progress.until_behind().await;
            sleep(BEHIND_MAX).await;
        };
        tokio::pin!(late);
        let silent = Instant::now() + SILENT_MAX;
        let mut asked = false;
        loop {
            let until = if asked { silent + SIGN_MAX } else { silent };
            tokio::select! {
                biased;
                news = feed.next() => return news,
                () = &mut late => {
                    // Once per question: the revision that was asked for may be one of a lost history.
                    self.progress.wanted.send_replace(0);
                    return Err(Failure::Lost("its changes arrive too late".to_owned()));
                }
                () = sleep_until(until) => {}
            }
            if asked {
                return Err(Failure::Lost("its watch gives no sign of life".to_owned()));
            }
            feed.ask().await?;
            asked = true;
        }
    }

    /// A member that begins below what is in the copy may only be behind; the leader knows.
    async fn is_set_back(&self, begun: Revision) -> Option<Lost> {
        let at = self.image.revision();
        if begun >= at {
            return None;
        }
        match head(&self.members).await {
            Ok(now) if now >= at => None,
            Ok(now) => Some(Lost::Place(format!("etcd was set back from revision {at} to {now}"))),
            Err(_) => Some(Lost::Touch),
        }
    }

    fn take(&self, events: &[Event]) {
        let reached = self.image.revision();
        let Some(newest) = events.iter().map(|event| event.revision).max() else { return };
        let fresh = events.iter().filter(|event| event.revision > reached);
        let sorted: Vec<_> = fresh.filter_map(|event| self.sort(event)).collect();
        self.image.write(|state| {
            for (revision, key, current) in sorted {
                let previous = state.get(&key).cloned();
                // Garbage that comes or goes where no object was is not a change for a reader.
                if current.is_some() || previous.is_some() {
                    // One by one, so that a key that changes twice has the right value before each
                    // change.
                    state.publish(vec![Arc::new(Change { revision, key, current, previous })]);
                }
            }
            // A revision may have changed nothing below the prefix, and the copy is up to date all
            // the same.
            state.revision = state.revision.max(newest);
        });
        self.progress.reached.send_replace(newest.max(reached));
    }

    /// The object that a key holds from now on, if it is one; garbage goes to its place. `None`: the
    /// key is not ours.
    fn sort(&self, event: &Event) -> Option<(Revision, Key, Option<Entry>)> {
        let key = self.layout.key(&event.key)?;
        let object = match event.put.as_ref().and_then(|item| self.layout.content(item)) {
            Some(Content::Garbage(entry)) => {
                say_garbage(&entry);
                self.garbage.write().insert(key.clone(), entry);
                None
            }
            Some(Content::Object(entry)) => {
                self.garbage.write().remove(&key);
                Some(entry)
            }
            None => {
                self.garbage.write().remove(&key);
                None
            }
        };
        Some((event.revision, key, object))
    }
}

fn say_garbage(entry: &Entry) {
    tracing::warn!(
        "the value of {} in etcd is not an object: it is left out of lists and watches, and can be deleted by name",
        entry.key
    );
}

/// The revision etcd is at, by a read that goes through its leader.
pub(super) async fn head(members: &Members) -> Result<Revision, Failure> {
    Ok(members.repeat(&Query::key(COMPACT_KEY), Patience::REQUEST).await?.revision)
}

/// Everything below the prefix at one revision.
struct Read {
    objects: Ordered,
    garbage: BTreeMap<Key, Entry>,
    revision: Revision,
}

/// Everything as it was at the oldest revision that is kept and worth replaying from.
async fn oldest(members: &Members, layout: &Layout, bounds: Bounds) -> Result<Read, Failure> {
    let noted = members.repeat(&Query::key(COMPACT_KEY), Patience::REQUEST).await?;
    let now = noted.revision;
    let noted = noted.items.first().and_then(compacted_at).unwrap_or(1);
    let replayed = Revision::try_from(bounds.changes_max).unwrap_or(Revision::MAX);
    // More than the history holds is not replayed; revision 0 would mean "now" to etcd.
    let start = noted.max(now.saturating_sub(replayed)).min(now).max(1);
    match read(members, layout, start).await {
        // Somebody else compacts, without the key.
        Err(Failure::Compacted(_)) => read(members, layout, head(members).await?).await,
        result => result,
    }
}

/// The value of the key by which servers agree on which of them compacts.
pub(super) fn compacted_at(item: &Item) -> Option<Revision> {
    std::str::from_utf8(&item.value).ok()?.parse().ok()
}

/// Everything below the prefix as it was at `revision`.
async fn read(members: &Members, layout: &Layout, revision: Revision) -> Result<Read, Failure> {
    let (from, end) = layout.bounds();
    let mut from = from.into_bytes();
    let mut read = Read { objects: Ordered::default(), garbage: BTreeMap::new(), revision };
    loop {
        // Every page is read at the same revision, so that together they are one moment.
        let query = Query { from, end: Some(end.clone()), limit: PAGE, at: Some(revision) };
        let page = members.repeat(&query, Patience::PAGE).await?;
        for content in page.items.iter().filter_map(|item| layout.content(item)) {
            match content {
                Content::Object(entry) => read.objects.insert(entry),
                Content::Garbage(entry) => {
                    if read.garbage.len() < GARBAGE_NAMED_MAX {
                        say_garbage(&entry);
                    }
                    read.garbage.insert(entry.key.clone(), entry);
                }
            }
        }
        match page.items.last() {
            // The next key there can be, whatever bytes the last one has.
            Some(last) if page.more => from = [last.key.as_ref(), b"\0"].concat(),
            _ => break,
        }
    }
    if read.garbage.len() > GARBAGE_NAMED_MAX {
        tracing::warn!("{} values in etcd are not objects", read.garbage.len());
    }
    Ok(read)
}
