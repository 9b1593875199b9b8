//! The store's words and etcd's: keys, values, errors. Must not know when anything is asked or
//! written.

use bytes::Bytes;

use super::EtcdOptions;
use super::wire::{Failure, Item};
use crate::{Blob, Entry, Error, Key, is_sealed};

/// Of a value that is not an object, this much is kept: enough to say what it is.
const GARBAGE_BYTES_MAX: usize = 1024;

/// What others can read of a value, and back. `write` may not fail; `read` returns `None` for what
/// is not an object.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    pub write: fn(&Bytes) -> Bytes,
    pub read: fn(&[u8]) -> Option<Bytes>,
}

impl Plain {
    /// Values as they are.
    pub fn same() -> Self {
        Self { write: Bytes::clone, read: |value| Some(Bytes::copy_from_slice(value)) }
    }
}

/// What lies at a key below the prefix.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Object(Entry),
    /// The beginning of something else.
    Garbage(Entry),
}

#[derive(Clone, Debug)]
pub(super) struct Layout {
    prefix: String,
    within: String,
    plain: Plain,
    sealed: &'static [&'static str],
    /// For sentences.
    store: String,
}

impl Layout {
    pub(super) fn new(options: &EtcdOptions) -> Self {
        Self {
            prefix: options.prefix.clone(),
            within: options.within.clone(),
            plain: options.plain,
            sealed: options.sealed,
            store: format!("etcd at {}", options.endpoints.join(",")),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What the store is called in sentences.
    pub(super) fn store(&self) -> String {
        self.store.clone()
    }

    pub(super) fn etcd_key(&self, key: &str) -> String {
        format!("{}{}", self.prefix, key.strip_prefix(self.within.as_str()).unwrap_or(key))
    }

    /// `None`: not below the prefix.
    pub(super) fn key(&self, etcd_key: &[u8]) -> Option<Key> {
        let rest = std::str::from_utf8(etcd_key).ok()?.strip_prefix(self.prefix.as_str())?;
        // A prefix `/registry` must not take in the keys of `/registry2`.
        rest.starts_with('/').then(|| format!("{}{rest}", self.within).into())
    }

    /// The first key below the prefix, and the first behind all of them (`0` follows `/`).
    pub(super) fn bounds(&self) -> (String, String) {
        (format!("{}/", self.prefix), format!("{}0", self.prefix))
    }

    pub(super) fn value(&self, key: &str, value: &Bytes) -> Bytes {
        if self.is_sealed(key, value) { value.clone() } else { (self.plain.write)(value) }
    }

    /// A sealed value is not an object to anybody but who opens it. Elsewhere it is garbage as anything else that is none.
    fn is_sealed(&self, key: &str, value: &[u8]) -> bool {
        is_sealed(value) && self.sealed.iter().any(|prefix| key.starts_with(prefix))
    }

    /// `None`: not below the prefix.
    pub(super) fn content(&self, item: &Item) -> Option<Content> {
        let key = self.key(&item.key)?;
        let is_sealed = self.is_sealed(&key, &item.value);
        let entry = |value: &[u8]| Entry {
            key,
            created: item.created,
            modified: item.modified,
            value: Blob::pack(value),
        };
        if is_sealed {
            return Some(Content::Object(entry(&item.value)));
        }
        Some(match (self.plain.read)(&item.value) {
            Some(value) => Content::Object(entry(&value)),
            None => Content::Garbage(entry(item.value.get(..GARBAGE_BYTES_MAX).unwrap_or(&item.value))),
        })
    }

    /// What is there, whatever it is.
    pub(super) fn entry(&self, item: &Item) -> Option<Entry> {
        self.content(item).map(|content| match content {
            Content::Object(entry) | Content::Garbage(entry) => entry,
        })
    }

    pub(super) fn unavailable(&self, reason: String) -> Error {
        Error::Unavailable { store: self.store.clone(), reason }
    }

    /// For a write of which it is not known whether it was made.
    pub(super) fn unknown(&self, failure: &Failure) -> Error {
        self.unavailable(format!("{}; the write may have been made", failure.reason()))
    }

    pub(super) fn failed(&self, failure: &Failure) -> Error {
        let (store, reason) = (self.store.clone(), failure.reason().to_owned());
        match failure {
            // etcd's default; a server that was started with another limit does not say so.
            Failure::TooLarge(_) => Error::TooLarge { store, limit: "1.5 MiB", reason },
            Failure::Full(_) => {
                let reason =
                    format!("{reason}; make room with etcdctl compact and defrag, then etcdctl alarm disarm");
                Error::Write { path: store, reason }
            }
            Failure::Untrusted(_) => Error::Untrusted { store, reason },
            _ => Error::Unavailable { store, reason },
        }
    }
}
