//! Keeps a copy of etcd's content in memory: reads it once, then follows one watch, over losses of
//! the connection, compactions that overtook it, and an etcd that was set back. Must not know who
//! reads the copy.
//!
//! At the start it reads the oldest revision that is still kept and replays what came since, so the
//! history of the last minutes is there after a restart as it was before.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, Event, EventType, GetOptions, KvClient, WatchOptions, WatchResponse};
use tokio::sync::watch;

use super::layout::{Layout, from_etcd, is_compacted, to_etcd};
use super::{COMPACT_KEY, MESSAGE_BYTES_MAX, head};
use crate::store::history::Bounds;
use crate::store::image::Image;
use crate::store::ordered::Ordered;
use crate::store::{Change, Entry, Error, Revision};

/// Entries read at once.
const PAGE: i64 = 1_000;
/// Between attempts to reach etcd again: first and longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Any key, for a watch from here on over all of them.
const FIRST_KEY: &[u8] = b"\0";

pub(super) struct Mirror {
    client: Client,
    kv: KvClient,
    layout: Layout,
    image: Image,
    mirrored: watch::Sender<Revision>,
}

/// Why following ended.
enum Lost {
    /// The connection; what was seen still holds.
    Touch(Error),
    /// The place: changes are gone, or etcd was set back.
    Place(String),
}

impl Mirror {
    pub(super) async fn open(
        client: Client,
        kv: KvClient,
        layout: Layout,
        bounds: Bounds,
    ) -> Result<(Image, watch::Receiver<Revision>, Self), Error> {
        let (objects, revision) = oldest(&kv, &layout, bounds).await?;
        let image = Image::new(objects, revision, revision, Vec::new(), bounds);
        let (mirrored, progress) = watch::channel(revision);
        Ok((image.clone(), progress, Self { client, kv, layout, image, mirrored }))
    }

    /// Runs until dropped.
    pub(super) async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let before = self.image.revision();
            let error = match self.follow().await {
                Lost::Touch(error) => error,
                Lost::Place(why) => {
                    tracing::warn!("{why}; reading everything again");
                    match self.reload().await {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
            };
            if self.image.revision() > before {
                pause = PAUSE_MIN;
            }
            if pause == PAUSE_MIN {
                tracing::warn!("{error}; trying again until it does");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn reload(&self) -> Result<(), Error> {
        let revision = head(&self.kv, &self.layout).await?;
        let objects =
            read(&self.kv, &self.layout, revision).await.map_err(|error| self.layout.failed(&error))?;
        self.image.reset(objects, revision);
        self.mirrored.send_replace(revision);
        Ok(())
    }

    /// Takes every change in until something stands in the way.
    async fn follow(&mut self) -> Lost {
        let next = self.image.revision() + 1;
        let options = WatchOptions::new().with_from_key().with_start_revision(to_etcd(next));
        let mut watches = self.client.watch_client().max_decoding_message_size(MESSAGE_BYTES_MAX);
        let mut stream = match watches.watch(FIRST_KEY, Some(options)).await {
            Ok(stream) => stream,
            Err(error) => return Lost::Touch(self.layout.failed(&error)),
        };
        loop {
            let response = match stream.message().await {
                Ok(Some(response)) => response,
                Ok(None) => return Lost::Touch(self.layout.unavailable("it ended the watch".to_owned())),
                Err(error) => return Lost::Touch(self.layout.failed(&error)),
            };
            if let Some(lost) = self.lost(&response) {
                return lost;
            }
            self.take(response.events());
        }
    }

    fn lost(&self, response: &WatchResponse) -> Option<Lost> {
        let at = self.image.revision();
        if response.compact_revision() > 0 {
            let oldest = response.compact_revision();
            return Some(Lost::Place(format!(
                "etcd has forgotten the changes between revision {at} and {oldest}"
            )));
        }
        if response.canceled() {
            return Some(Lost::Touch(self.layout.unavailable(response.cancel_reason().to_owned())));
        }
        let theirs = response.header().map_or(0, |header| from_etcd(header.revision()));
        let back = response.created() && theirs < at;
        back.then(|| Lost::Place(format!("etcd was set back from revision {at} to {theirs}")))
    }

    fn take(&self, events: &[Event]) {
        let Some(newest) = events.iter().filter_map(Event::kv).map(|kv| from_etcd(kv.mod_revision())).max()
        else {
            return;
        };
        let decoded: Vec<_> = events.iter().filter_map(|event| self.decode(event)).collect();
        self.image.write(|state| {
            for (revision, key, current) in decoded {
                let previous = state.get(&key).cloned();
                if current.is_some() || previous.is_some() {
                    state.publish(vec![Arc::new(Change { revision, key, current, previous })]);
                }
            }
            state.revision = state.revision.max(newest);
        });
        self.mirrored.send_replace(newest);
    }

    /// `None`: a key that is not ours.
    fn decode(&self, event: &Event) -> Option<(Revision, crate::store::Key, Option<Entry>)> {
        let kv = event.kv()?;
        let revision = from_etcd(kv.mod_revision());
        match event.event_type() {
            EventType::Put => self.layout.entry(kv).map(|entry| (revision, entry.key.clone(), Some(entry))),
            EventType::Delete => Some((revision, self.layout.key(kv.key())?, None)),
        }
    }
}

/// Everything as it was at the oldest revision that is kept and worth replaying from.
async fn oldest(kv: &KvClient, layout: &Layout, bounds: Bounds) -> Result<(Ordered, Revision), Error> {
    let noted = kv.clone().get(COMPACT_KEY, None).await.map_err(|error| layout.failed(&error))?;
    let now = noted.header().map_or(0, |header| from_etcd(header.revision()));
    let noted = noted.kvs().first().and_then(|kv| kv.value_str().ok()?.parse::<Revision>().ok()).unwrap_or(1);
    let replayed = Revision::try_from(bounds.changes_max).unwrap_or(Revision::MAX);
    let start = noted.max(now.saturating_sub(replayed)).min(now).max(1);
    match read(kv, layout, start).await {
        Ok(objects) => Ok((objects, start)),
        // Somebody else compacts, without the key.
        Err(error) if is_compacted(&error) => {
            let now = head(kv, layout).await?;
            let objects = read(kv, layout, now).await.map_err(|error| layout.failed(&error))?;
            Ok((objects, now))
        }
        Err(error) => Err(layout.failed(&error)),
    }
}

/// Everything below the prefix as it was at `revision`.
async fn read(kv: &KvClient, layout: &Layout, revision: Revision) -> Result<Ordered, etcd_client::Error> {
    let mut kv = kv.clone();
    let (mut from, end) = layout.bounds();
    let mut objects = Ordered::default();
    loop {
        let options =
            GetOptions::new().with_range(end.as_str()).with_limit(PAGE).with_revision(to_etcd(revision));
        let page = kv.get(from.as_str(), Some(options)).await?;
        for entry in page.kvs().iter().filter_map(|kv| layout.entry(kv)) {
            objects.insert(entry);
        }
        match page.kvs().last() {
            Some(last) if page.more() => from = format!("{}\0", last.key_str()?),
            _ => return Ok(objects),
        }
    }
}
