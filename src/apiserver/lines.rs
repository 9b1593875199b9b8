//! Watch events as text, written once for everybody who watches. Owns the shared lines and their
//! bounded cache; must not know who is waiting.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::answer;
use super::failure::Failure;
use super::list::Selection;
use super::negotiate::Form;
use super::object::Record;
use super::resource::Resource;
use crate::store::{Change, Key, Revision};

/// Changes whose lines are kept. Watchers that keep up all read the newest few.
const KEPT: usize = 256;

/// What happened to an object, as one watcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change with its objects unpacked and its lines so far.
pub struct Shown {
    current: Option<Record>,
    /// At the revision of the change: the last state of something deleted.
    previous: Option<Record>,
    /// By event type, whole objects and metadata only.
    lines: [OnceLock<Bytes>; 6],
}

impl Shown {
    fn read(change: &Change) -> Result<Self, Failure> {
        let current = change.current.as_ref().map(Record::read).transpose()?;
        let previous = change.previous.as_ref().map(Record::read).transpose()?;
        let previous = previous.map(|record| record.at(change.revision));
        Ok(Self { current, previous, lines: Default::default() })
    }

    /// What this change is to a watcher with this selection; `None`: nothing.
    pub fn event(
        &self,
        resource: &Resource,
        selection: &Selection,
    ) -> Result<Option<(EventType, &Record)>, Failure> {
        let matches = |record: &Option<Record>| match record {
            Some(record) => selection.matches(resource, record),
            None => Ok(false),
        };
        let (was, is) = (matches(&self.previous)?, matches(&self.current)?);
        Ok(match (was, is, &self.previous, &self.current) {
            (false, true, _, Some(record)) => Some((EventType::Added, record)),
            (true, true, _, Some(record)) => Some((EventType::Modified, record)),
            (true, false, Some(record), _) => Some((EventType::Deleted, record)),
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
    let mut line = Vec::with_capacity(record.len() + 64);
    line.extend_from_slice(format!("{{\"type\":\"{}\",\"object\":", type_.word()).as_bytes());
    answer::write_object(&mut line, resource, record, form)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// A line whose object is already a value: bookmarks, errors, tables.
#[must_use]
pub fn value_line(type_: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{type_}\",\"object\":{object}}}\n").into()
}

/// A change and the schema its lines are shown by.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Id {
    revision: Revision,
    key: Key,
    api_version: String,
}

#[derive(Default)]
struct Cache {
    shown: FxHashMap<Id, Arc<Shown>>,
    order: VecDeque<Id>,
}

/// The recent changes, unpacked and written at most once.
#[derive(Default)]
pub struct Lines(Mutex<Cache>);

impl Lines {
    /// # Errors
    /// 500 when the stored objects cannot be read.
    pub fn of(&self, resource: &Resource, change: &Change) -> Result<Arc<Shown>, Failure> {
        let id =
            Id { revision: change.revision, key: change.key.clone(), api_version: resource.api_version() };
        if let Some(shown) = self.0.lock().shown.get(&id) {
            return Ok(shown.clone());
        }
        let shown = Arc::new(Shown::read(change)?);
        let mut cache = self.0.lock();
        if let Some(first) = cache.shown.get(&id) {
            return Ok(first.clone());
        }
        cache.shown.insert(id.clone(), shown.clone());
        cache.order.push_back(id);
        if cache.order.len() > KEPT
            && let Some(oldest) = cache.order.pop_front()
        {
            cache.shown.remove(&oldest);
        }
        Ok(shown)
    }
}
