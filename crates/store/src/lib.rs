//! Bytes under keys, one global revision, transactions and watches.
//! Owns durability and history; must not know an object type.
//!
//! The contract every backend keeps, held by `conformance.rs`:
//! - one committed transaction takes exactly one new revision, larger than all before it;
//! - an acknowledged transaction is durable (memory: as long as the process), and is seen by every
//!   later read;
//! - a watch reports every change under its prefix once, in revision order, with the value before it;
//! - what a watch or a read at a revision needs is either complete or refused as [`Error::Compacted`].

mod blob;
#[cfg(test)]
mod conformance;
mod data_dir;
mod disk;
#[cfg(feature = "etcd")]
mod etcd;
mod history;
mod image;
mod memory;
mod ordered;
mod sealed;
mod stage;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

pub use blob::Blob;
pub use data_dir::{OpenError, claim};
pub use disk::{Checked, DiskStore, NewStore, Repaired};
#[cfg(feature = "etcd")]
pub use etcd::{EtcdOptions, EtcdRestore, EtcdStore, Plain, RestoreError, TlsFiles};
pub use memory::MemoryStore;
pub use sealed::{
    Census, CipherError, Coverage, KeyError, KeyFile, KeyFileError, KeyId, Keyring, NotOpened, Passphrase,
    RenewError, Sealed, Sealing, create_key_file, is_sealed, named, replace_key_file, survey,
};

/// Position in the one order of all changes. 0 is before the first.
pub type Revision = u64;

/// A key. Path-like text: the watch prefixes are the parts of it that end in `/`.
pub type Key = Arc<str>;

/// One stored value with the revisions of its first and last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    pub created: Revision,
    pub modified: Revision,
    pub value: Blob,
}

/// Which entries to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range<'a> {
    pub prefix: &'a str,
    /// Start behind this key; empty: at the start of the prefix.
    pub after: &'a str,
    /// At most this many; 0: all.
    pub limit: usize,
    /// As the store was at this revision; `None`: now.
    pub at: Option<Revision>,
}

/// Entries in key order, from one moment.
#[derive(Clone, Debug)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// How many more the prefix holds behind the last entry.
    pub remaining: usize,
    /// The moment: [`Range::at`], or the revision the store was at.
    pub revision: Revision,
}

/// One write of a transaction. Deleting what is not there changes nothing.
#[derive(Clone, Debug)]
pub enum Write {
    Put(Key, Bytes),
    Delete(Key),
}

/// Writes that happen together, if every expectation holds.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// Key and the revision of its last write; 0: the key is not there.
    pub expect: Vec<(Key, Revision)>,
    /// At most one write per key.
    pub writes: Vec<Write>,
}

impl Txn {
    /// Puts `key` if it is not there.
    pub fn create(key: Key, value: Bytes) -> Self {
        Self { expect: vec![(key.clone(), 0)], writes: vec![Write::Put(key, value)] }
    }

    /// Puts `key` if its last write was `expected`.
    pub fn update(key: Key, expected: Revision, value: Bytes) -> Self {
        Self { expect: vec![(key.clone(), expected)], writes: vec![Write::Put(key, value)] }
    }

    /// Deletes `key` if its last write was `expected`.
    pub fn delete(key: Key, expected: Revision) -> Self {
        Self { expect: vec![(key.clone(), expected)], writes: vec![Write::Delete(key)] }
    }
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Durable. The revision it took, or the current one when it changed nothing.
    Committed(Revision),
    /// An expectation did not hold; nothing was written. The first such key as it is now.
    Conflict { key: Key, current: Option<Entry> },
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub revision: Revision,
    pub key: Key,
    /// `None`: deleted.
    pub current: Option<Entry>,
    /// `None`: created.
    pub previous: Option<Entry>,
}

/// Why a store could not answer. Cloneable, because one failed commit answers many writers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("revision {asked} is no longer kept; the oldest is {oldest}")]
    Compacted { asked: Revision, oldest: Revision },
    #[error("revision {asked} has not happened yet; the store is at {current}")]
    Future { asked: Revision, current: Revision },
    #[error(
        "the store could not write to {path}: {reason}. Nothing was lost; check free space and permissions"
    )]
    Write { path: String, reason: String },
    #[error(
        "the store could not make a write durable in {path}: {reason}. It is not acknowledged: it may be found \
         there after a restart, and is gone once the store was written into a new file. Check the disk and its \
         free space"
    )]
    Unsynced { path: String, reason: String },
    #[error(
        "the store takes no writes, and this one was not made: an earlier one could not be made durable in {path} \
         ({reason}), so what the disk holds is not known. Reads go on. Everything is written into a new file as \
         soon as the disk takes it (next try in {retry_s} s); check the disk and its free space, or restart"
    )]
    Suspended { path: String, reason: String, retry_s: u64 },
    #[error("a stored value cannot be unpacked; the data file is damaged: {0}")]
    Damaged(String),
    #[error("{store} does not answer: {reason}; check that it runs and can be reached")]
    Unavailable { store: String, reason: String },
    #[error(
        "{store} and this program do not accept each other's certificates: {reason}; check --etcd-ca, \
         --etcd-cert and --etcd-key"
    )]
    Untrusted { store: String, reason: String },
    #[error("{store} takes at most {limit} in one request: {reason}")]
    TooLarge { store: String, limit: &'static str, reason: String },
    #[error(
        "a backup was being restored into {store} below {prefix}, and did not come to its end. Nothing was changed: \
         restore the same backup again, or make room with: etcdctl del --prefix {prefix}/ && etcdctl del {mark}"
    )]
    HalfRestored { store: String, prefix: String, mark: String },
    #[error("a value cannot be sealed: {0}. Nothing was written")]
    NotSealed(String),
    #[error("the store is closed")]
    Closed,
}

/// Changes under one prefix from one revision on.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next changes and returns at least one, in revision order; the changes of one
    /// revision are never split. Safe to cancel.
    ///
    /// # Errors
    /// [`Error::Compacted`] when the reader was so slow that a change it needs is gone.
    async fn next(&mut self) -> Result<Vec<Arc<Change>>, Error>;

    /// A revision up to which `next` has returned everything; never goes back.
    async fn progress(&mut self) -> Result<Revision, Error>;
}

/// Most that one transaction may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnLimit {
    pub writes: usize,
    pub bytes: usize,
}

/// Where an API server keeps its objects.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The last committed revision.
    async fn revision(&self) -> Result<Revision, Error>;

    /// The entry at `key`, now.
    async fn get(&self, key: &str) -> Result<Option<Entry>, Error>;

    /// Entries under a prefix.
    ///
    /// # Errors
    /// [`Error::Compacted`] and [`Error::Future`] when [`Range::at`] cannot be served.
    async fn range(&self, range: Range<'_>) -> Result<Page, Error>;

    /// Commits, or reports the first expectation that does not hold.
    async fn txn(&self, txn: Txn) -> Result<Outcome, Error>;

    /// Changes with a revision above `after`, under `prefix` (which ends in `/`, or is empty).
    ///
    /// # Errors
    /// [`Error::Compacted`] when changes above `after` are no longer kept; [`Error::Future`] when `after`
    /// has not happened, or has not come here yet.
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error>;

    /// Forgets the history up to and including `upto`.
    async fn compact(&self, upto: Revision) -> Result<(), Error>;

    /// Makes every later revision larger than `floor`, so that restored objects get none that a
    /// client has seen before.
    async fn raise(&self, floor: Revision) -> Result<(), Error>;

    /// Size in bytes of the value at `key`, as far as it is known without waiting; 0 when there is none. It
    /// says how much work the value is, not what is stored.
    fn weight(&self, _key: &str) -> usize {
        0
    }

    /// Keys under a prefix whose values are not objects: ranges leave them out, `get` does not.
    fn unreadable(&self, _prefix: &str) -> Vec<Key> {
        Vec::new()
    }

    /// How large a transaction may be.
    fn limit(&self) -> TxnLimit {
        TxnLimit { writes: 1_000, bytes: 64 << 20 }
    }
}

/// Commits `writes`, which do not depend on each other, in as few transactions as `store` allows.
///
/// # Errors
/// Of [`Store::txn`]; transactions before the one that failed are committed.
pub async fn write_all(store: &dyn Store, writes: Vec<Write>) -> Result<(), Error> {
    let limit = store.limit();
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for write in writes {
        let size = match &write {
            Write::Put(key, value) => key.len() + value.len(),
            Write::Delete(key) => key.len(),
        };
        // A write above the limit goes alone, for the store to refuse.
        if !batch.is_empty() && (batch.len() == limit.writes || bytes + size > limit.bytes) {
            store.txn(Txn { expect: Vec::new(), writes: std::mem::take(&mut batch) }).await?;
            bytes = 0;
        }
        bytes += size;
        batch.push(write);
    }
    if !batch.is_empty() {
        store.txn(Txn { expect: Vec::new(), writes: batch }).await?;
    }
    Ok(())
}
