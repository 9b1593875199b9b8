//! The store's words and etcd's: keys, values, revisions, errors. Must not know when anything is
//! asked or written.

use bytes::Bytes;
use etcd_client::KeyValue;

use super::EtcdOptions;
use crate::store::{Blob, Entry, Error, Key, Revision};

/// What others can read of a value, and back. Neither may fail: a value that is not understood is
/// handed on as it is.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    pub write: fn(&Bytes) -> Bytes,
    pub read: fn(&[u8]) -> Bytes,
}

impl Plain {
    /// Values as they are.
    #[must_use]
    pub fn same() -> Self {
        Self { write: Bytes::clone, read: Bytes::copy_from_slice }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Layout {
    prefix: String,
    within: String,
    plain: Plain,
    /// For sentences.
    store: String,
}

impl Layout {
    pub(super) fn new(options: &EtcdOptions) -> Self {
        Self {
            prefix: options.prefix.clone(),
            within: options.within.clone(),
            plain: options.plain,
            store: format!("etcd at {}", options.endpoints.join(",")),
        }
    }

    pub(super) fn etcd_key(&self, key: &str) -> String {
        format!("{}{}", self.prefix, key.strip_prefix(self.within.as_str()).unwrap_or(key))
    }

    /// `None`: not below the prefix.
    pub(super) fn key(&self, etcd_key: &[u8]) -> Option<Key> {
        let rest = std::str::from_utf8(etcd_key).ok()?.strip_prefix(self.prefix.as_str())?;
        rest.starts_with('/').then(|| format!("{}{rest}", self.within).into())
    }

    /// The first key below the prefix, and the first behind all of them (`0` follows `/`).
    pub(super) fn bounds(&self) -> (String, String) {
        (format!("{}/", self.prefix), format!("{}0", self.prefix))
    }

    pub(super) fn value(&self, value: &Bytes) -> Bytes {
        (self.plain.write)(value)
    }

    /// `None`: not below the prefix.
    pub(super) fn entry(&self, kv: &KeyValue) -> Option<Entry> {
        Some(Entry {
            key: self.key(kv.key())?,
            created: from_etcd(kv.create_revision()),
            modified: from_etcd(kv.mod_revision()),
            value: Blob::pack(&(self.plain.read)(kv.value())),
        })
    }

    pub(super) fn unavailable(&self, reason: String) -> Error {
        Error::Unavailable { store: self.store.clone(), reason }
    }

    pub(super) fn failed(&self, error: &etcd_client::Error) -> Error {
        let reason = innermost(error);
        if reason.contains("request is too large") || reason.contains("larger than max") {
            return Error::TooLarge { store: self.store.clone(), limit: "1.5 MiB", reason };
        }
        if reason.contains("database space exceeded") {
            let reason =
                format!("{reason}; make room with etcdctl compact and defrag, then etcdctl alarm disarm");
            return Error::Write { path: self.store.clone(), reason };
        }
        self.unavailable(reason)
    }
}

/// True when what was asked for lies before what etcd keeps.
pub(super) fn is_compacted(error: &etcd_client::Error) -> bool {
    innermost(error).contains("required revision has been compacted")
}

/// What went wrong in the end: the words of the last cause, or etcd's own.
fn innermost(error: &etcd_client::Error) -> String {
    let mut cause: &dyn std::error::Error = match error {
        etcd_client::Error::GRpcStatus(status) if std::error::Error::source(status).is_none() => {
            return status.message().to_owned();
        }
        etcd_client::Error::GRpcStatus(status) => status,
        etcd_client::Error::TransportError(transport) => transport,
        other => other,
    };
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// etcd counts in signed numbers.
pub(super) fn to_etcd(revision: Revision) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

pub(super) fn from_etcd(revision: i64) -> Revision {
    Revision::try_from(revision).unwrap_or(0)
}
