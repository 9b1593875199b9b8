//! What a store must hold after a list of transactions, found without any of the store's code.

use std::collections::BTreeMap;

use crate::Revision;
use crate::image::Image;
use crate::{Entry, Range};

/// One transaction: keys are small numbers; a size makes the value.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    /// Key, and the size of its new value; `None`: deleted.
    pub(super) writes: Vec<(u8, Option<u16>)>,
    /// Only if the first key is not there.
    pub(super) creates: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    created: Revision,
    modified: Revision,
    size: usize,
}

type Logged = (Revision, String, Option<Value>, Option<Value>);

/// Objects, revision and history.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) revision: Revision,
    objects: BTreeMap<String, Value>,
    log: Vec<Logged>,
    /// History up to here may be gone.
    pub(super) compacted: Revision,
}

pub(super) fn key(number: u8) -> String {
    format!("/k/{number}")
}

/// A value that says where it was written, so that an old or foreign one is noticed. It cannot be packed.
pub(super) fn bytes(key: &str, size: usize) -> Vec<u8> {
    let mut word = key.bytes().fold(size as u64 + 1, |sum, byte| sum * 31 + u64::from(byte));
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        // Xorshift: quick, which matters in a test that writes megabytes unoptimised.
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

impl Model {
    pub(super) fn new() -> Self {
        Self { revision: 1, objects: BTreeMap::new(), log: Vec::new(), compacted: 1 }
    }

    /// Takes a transaction in; the revision to be answered, or `None` for a conflict.
    pub(super) fn add(&mut self, spec: &Spec) -> Option<Revision> {
        if spec.creates && self.objects.contains_key(&key(spec.writes[0].0)) {
            return None;
        }
        let revision = self.revision + 1;
        for (number, size) in &spec.writes {
            let key = key(*number);
            let before = self.objects.get(&key).cloned();
            let after = size.map(|size| Value {
                created: before.as_ref().map_or(revision, |value| value.created),
                modified: revision,
                size: usize::from(size),
            });
            if before.is_none() && after.is_none() {
                continue;
            }
            match &after {
                Some(value) => self.objects.insert(key.clone(), value.clone()),
                None => self.objects.remove(&key),
            };
            self.log.push((revision, key, before, after));
            self.revision = revision;
        }
        Some(self.revision)
    }

    pub(super) fn raise(&mut self, by: Revision) -> Revision {
        self.revision += by;
        self.revision
    }

    pub(super) fn forget(&mut self, upto: Revision) {
        let newest = self.log.last().map_or(0, |(revision, ..)| *revision);
        self.compacted = self.compacted.max(upto.min(newest));
    }

    /// Whether the image holds exactly this, with at least the history that was promised.
    pub(super) fn compare(&self, image: &Image) -> Result<(), String> {
        if image.revision() != self.revision {
            return Err(format!("revision {} instead of {}", image.revision(), self.revision));
        }
        if image.compacted() > self.compacted {
            return Err(format!("history from {} instead of {}", image.compacted(), self.compacted));
        }
        let page = image.range(Range::default()).map_err(|error| error.to_string())?;
        let row = |entry: &Entry| value(entry).map(|value| (entry.key.to_string(), value));
        let found: Result<BTreeMap<_, _>, String> = page.entries.iter().map(row).collect();
        if found.as_ref() != Ok(&self.objects) {
            return Err(format!("objects {found:?} instead of {:?}", self.objects));
        }
        let mut log = Vec::new();
        for change in image.read(|state| state.copy().3) {
            let before = change.previous.as_ref().map(value).transpose()?;
            let after = change.current.as_ref().map(value).transpose()?;
            log.push((change.revision, change.key.to_string(), before, after));
        }
        let expected: Vec<_> = self.log.iter().filter(|row| row.0 > image.compacted()).cloned().collect();
        if log != expected {
            return Err(format!("history {log:?} instead of {expected:?}"));
        }
        Ok(())
    }
}

fn value(entry: &Entry) -> Result<Value, String> {
    let found = entry.value.unpack().map_err(|error| error.to_string())?;
    if found != bytes(&entry.key, found.len()) {
        return Err(format!("{} holds what was never written there", entry.key));
    }
    Ok(Value { created: entry.created, modified: entry.modified, size: found.len() })
}
