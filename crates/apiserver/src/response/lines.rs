//! Watch events as text, written once for everybody who watches. Owns the shared lines and their
//! bounded cache; must not know who is waiting.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::answer;
use crate::failure::Failure;
use crate::object::{Metadata, Record};
use crate::registry::list::Selection;
use crate::request::negotiate::Form;
use crate::resource::Resource;
use capstan_store::{Change, Entry, Key, Revision};

/// Changes whose lines are kept, and what they may weigh. Watchers that keep up all read the newest few.
const KEPT: usize = 256;
const KEPT_BYTES: usize = 16 << 20;

/// What happened to an object, as one watcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One state of an object, unpacked, and its metadata once a selector needed it.
struct State {
    record: Record,
    metadata: OnceLock<Metadata>,
}

impl State {
    fn read(entry: &Entry) -> Result<Self, Failure> {
        Ok(Self { record: Record::read(entry)?, metadata: OnceLock::new() })
    }

    fn matches(&self, resource: &Resource, selection: &Selection) -> Result<bool, Failure> {
        if selection.is_empty() {
            return Ok(true);
        }
        let metadata = match self.metadata.get() {
            Some(metadata) => metadata,
            None => {
                let metadata = self.record.metadata()?;
                // `get_or_init` takes nothing that can fail, so the metadata is read before.
                self.metadata.get_or_init(|| metadata)
            }
        };
        selection.matches_known(resource, &self.record, metadata)
    }
}

/// One change with its objects unpacked and its lines so far.
pub struct Shown {
    current: Option<State>,
    /// At the revision of the change: the last state of something deleted.
    previous: Option<State>,
    /// By event type, whole objects and metadata only.
    lines: [OnceLock<Bytes>; 6],
    /// Keeps its address, which names it in the cache, from being used again.
    _resource: Arc<Resource>,
}

impl Shown {
    fn read(resource: &Arc<Resource>, change: &Change) -> Result<Self, Failure> {
        let current = change.current.as_ref().map(State::read).transpose()?;
        let mut previous = change.previous.as_ref().map(State::read).transpose()?;
        if let Some(state) = &mut previous {
            state.record.revision = change.revision;
        }
        Ok(Self { current, previous, lines: Default::default(), _resource: resource.clone() })
    }

    /// What keeping it may cost: both states and one line.
    fn weight(&self) -> usize {
        let bytes = |state: &Option<State>| state.as_ref().map_or(0, |state| state.record.bytes_max());
        2 * bytes(&self.current) + bytes(&self.previous)
    }

    /// What this change is to a watcher with this selection; `None`: nothing.
    ///
    /// # Errors
    /// 500 when the stored objects cannot be read.
    pub fn event(
        &self,
        resource: &Resource,
        selection: &Selection,
    ) -> Result<Option<(EventType, &Record)>, Failure> {
        let matches =
            |state: &Option<State>| state.as_ref().map_or(Ok(false), |s| s.matches(resource, selection));
        let (was, is) = (matches(&self.previous)?, matches(&self.current)?);
        Ok(match (was, is, &self.previous, &self.current) {
            (false, true, _, Some(state)) => Some((EventType::Added, &state.record)),
            (true, true, _, Some(state)) => Some((EventType::Modified, &state.record)),
            (true, false, Some(state), _) => Some((EventType::Deleted, &state.record)),
            _ => None,
        })
    }

    /// The line of an event in a form that is the same for everybody.
    pub fn line(
        &self,
        resource: &Resource,
        form: Form,
        type_: EventType,
        record: &Record,
    ) -> Result<Bytes, Failure> {
        let slot = &self.lines[type_ as usize + if form == Form::Metadata { 3 } else { 0 }];
        if let Some(line) = slot.get() {
            return Ok(line.clone());
        }
        let line = Bytes::from(event_line(resource, form, type_, record)?);
        Ok(slot.get_or_init(|| line).clone())
    }
}

/// `{"type":…,"object":…}` and a newline.
pub fn event_line(
    resource: &Resource,
    form: Form,
    type_: EventType,
    record: &Record,
) -> Result<Vec<u8>, Failure> {
    let mut line = Vec::with_capacity(record.bytes_max() + 64);
    line.extend_from_slice(format!("{{\"type\":\"{}\",\"object\":", type_.word()).as_bytes());
    answer::write_object(&mut line, resource, record, form)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// A line whose object is already a value: bookmarks, errors, tables.
pub fn value_line(type_: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n").into()
}

/// A change, and whom its lines are shown by: the address of the resource.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Id {
    revision: Revision,
    resource: usize,
    key: Key,
}

#[derive(Default)]
struct Cache {
    shown: FxHashMap<Id, Arc<Shown>>,
    order: VecDeque<Id>,
    bytes: usize,
}

impl Cache {
    fn insert(&mut self, id: Id, shown: Arc<Shown>) {
        self.bytes += shown.weight();
        self.shown.insert(id.clone(), shown);
        self.order.push_back(id);
        // The newest stays even when it alone is too heavy: every watcher is about to ask for it.
        while self.order.len() > 1 && (self.order.len() > KEPT || self.bytes > KEPT_BYTES) {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.shown.remove(&oldest).map_or(0, |shown| shown.weight());
        }
    }
}

/// The recent changes, unpacked and written at most once.
#[derive(Default)]
pub struct Lines(Mutex<Cache>);

impl Lines {
    /// # Errors
    /// 500 when the stored objects cannot be read.
    pub fn of(&self, resource: &Arc<Resource>, change: &Change) -> Result<Arc<Shown>, Failure> {
        let id =
            Id { revision: change.revision, resource: Arc::as_ptr(resource).addr(), key: change.key.clone() };
        if let Some(shown) = self.0.lock().shown.get(&id) {
            return Ok(shown.clone());
        }
        // Unpacking needs no lock; where another watcher was faster, its lines are the shared ones.
        let shown = Arc::new(Shown::read(resource, change)?);
        let mut cache = self.0.lock();
        if let Some(first) = cache.shown.get(&id) {
            return Ok(first.clone());
        }
        cache.insert(id, shown.clone());
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object;
    use crate::resource::Catalog;
    use capstan_store::Blob;

    fn change(revision: Revision, bytes: usize) -> Change {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" },
            "data": { "k": "x".repeat(bytes) } });
        let value = Blob::pack(&object::encode(&map, b"", 0).unwrap());
        let key: Key = "/registry/configmaps/ns/a".into();
        let entry = Entry { key: key.clone(), created: 1, modified: revision, value };
        Change { revision, key, current: Some(entry), previous: None }
    }

    #[test]
    fn s105_an_event_is_written_once_and_few_are_kept() {
        let catalog = Catalog::built_in();
        let resource = catalog.find("", "v1", "configmaps").unwrap();
        let lines = Lines::default();
        let line = |revision, bytes| {
            let shown = lines.of(resource, &change(revision, bytes)).unwrap();
            let State { record, .. } = shown.current.as_ref().unwrap();
            shown.line(resource, Form::Object, EventType::Added, record).unwrap()
        };
        let (first, second) = (line(1, 10), line(1, 10));
        assert_eq!(first.as_ptr(), second.as_ptr(), "two watchers share one buffer");
        for revision in 2..1_000 {
            line(revision, 10);
        }
        assert_eq!(lines.0.lock().shown.len(), KEPT);
        for revision in 1_000..1_060 {
            line(revision, 1 << 20);
        }
        let cache = lines.0.lock();
        assert!(cache.bytes <= KEPT_BYTES && cache.shown.len() == cache.order.len(), "{}", cache.bytes);
        assert!(cache.shown.len() < 10, "{}", cache.shown.len());
    }
}
