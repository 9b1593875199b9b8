//! The layout of the data file and the only code that knows redb.
//!
//! `objects`: key → record. `log`: revision → the changed keys with what they held before (an undo
//! log: what they held after is in `objects` or in a later row). See `record.rs` for both.
//! `meta`: format, revision, compacted; of an encrypted store also the name of the key that sealed all of it.

use std::collections::BTreeMap;
use std::io;
use std::io::ErrorKind::{self, InvalidData, UnexpectedEof};
use std::path::Path;
use std::sync::Arc;

use redb::{
    Database, Durability, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition,
    WriteTransaction,
};

use super::contain::contain;
use super::folder::{Folder, Trouble, Watched, is_room};
use super::record::{decode_entry, decode_row, encode_entry, encode_row};
use crate::ordered::Ordered;
use crate::{Change, Entry, Key, KeyId, OpenError, Revision};

pub(super) const OBJECTS_NAME: &str = "objects";
pub(super) const LOG_NAME: &str = "log";
pub(super) const META_NAME: &str = "meta";

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new(OBJECTS_NAME);
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new(LOG_NAME);
const META: TableDefinition<'_, &str, u64> = TableDefinition::new(META_NAME);

/// What is written. Format 1 had no checksums in its records; it is read as well.
const FORMAT: u64 = 2;
const FORMAT_OLDEST: u64 = 1;
/// Of an encrypted store, so that a capstan from before does not take sealed values for damaged ones, and writes none in clear.
const FORMAT_SEALED: u64 = 3;
/// The name of the key, as a number, in `meta`.
pub(super) const SEALED_WITH: &str = "sealed_with";
/// Reads come from the image, so redb only needs room for the pages of a commit.
const CACHE_BYTES: usize = 16 << 20;

pub(super) struct DataFile {
    database: Database,
    trouble: Trouble,
    sealed_with: Option<KeyId>,
}

/// Everything in the file.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) objects: Ordered,
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    /// In revision order; the changes of one revision side by side.
    pub(super) changes: Vec<Arc<Change>>,
    /// The key with which everything was sealed that was ever in the file and has to be. `None`: it is not encrypted.
    pub(super) sealed_with: Option<KeyId>,
}

/// A commit that did not get through.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) reason: String,
    /// There was no room for a write, and nothing else was wrong: the file can be opened again.
    /// Otherwise what the kernel shows of it may not be what is on the disk.
    pub(super) only_room: bool,
}

/// Why a file could not be written anew.
#[derive(Debug)]
pub(super) struct NotReplaced {
    pub(super) error: OpenError,
    /// The name may stand for the new file or for the old one by now; both are whole.
    pub(super) renamed: bool,
}

/// What opening again after a failure is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Every page is read and its checksum compared: the file may have been altered by anything.
    Verify,
    /// It was open a moment ago.
    AsWritten,
}

impl DataFile {
    /// Opens the file and reads everything. A file that is not there is made, whole or not at all, so
    /// one that is empty was truncated by another program.
    pub(super) fn open(folder: &dyn Folder) -> Result<(Self, Loaded), OpenError> {
        match folder.bytes().map_err(|source| io_error("open", folder, source))? {
            Some(0) => return Err(corrupt(folder, "it is empty".to_owned())),
            Some(_) => {}
            None => {
                let empty = Loaded { revision: 1, compacted: 1, ..Loaded::default() };
                let file = Self::create(folder, &empty).map_err(|failed| failed.error)?;
                if let Some(source) = file.close() {
                    return Err(io_error("make", folder, source));
                }
            }
        }
        // A process that was killed while it wrote a new file has left that behind.
        folder.discard();
        // Whoever gave the file its name may have ended before the name was durable.
        folder.sync().map_err(|source| io_error("open", folder, source))?;
        let (mut file, loaded) = read(folder, Trust::Verify, load)?;
        check(folder, &loaded)?;
        file.sealed_with = loaded.sealed_with;
        Ok((file, loaded))
    }

    /// Opens the file again after there was no room for a write; the revision tells what it holds.
    pub(super) fn reopen(folder: &dyn Folder) -> Result<(Self, Revision), OpenError> {
        let numbers = |database: &Database| {
            let meta = database.begin_read()?.open_table(META)?;
            Ok((number(&meta, "revision")?, number(&meta, SEALED_WITH)?))
        };
        let (mut file, (revision, sealed_with)) = read(folder, Trust::AsWritten, numbers)?;
        file.sealed_with = KeyId::of_number(sealed_with);
        Ok((file, revision))
    }

    /// A new file with `content`, in the place of the one that may be there. It is whole and durable
    /// under its own name before it takes the other, and when this returns the name is durable too.
    pub(super) fn create(folder: &dyn Folder, content: &Loaded) -> Result<Self, NotReplaced> {
        let file = match fill(folder, content) {
            Ok(file) => file,
            Err(error) => {
                folder.discard();
                return Err(NotReplaced { error, renamed: false });
            }
        };
        match folder.replace().and_then(|()| folder.sync()) {
            Ok(()) => Ok(file),
            Err(source) => Err(NotReplaced { error: io_error("replace", folder, source), renamed: true }),
        }
    }

    /// One durable commit; log rows up to `log_end` are dropped along the way.
    pub(super) fn commit(
        &self,
        changes: &[Arc<Change>],
        revision: Revision,
        log_end: Revision,
    ) -> Result<(), Failed> {
        // A disk that fails must not take the process down, whatever the database makes of it.
        let committed = contain(|| self.try_commit(changes, revision, log_end));
        let trouble = self.trouble.error();
        let only_room = trouble.as_ref().is_some_and(|error| is_room(error.kind()));
        let reason = trouble.map(|error| error.to_string());
        match committed {
            // A lack of room that the database got over harmed nothing: the sync of this commit
            // succeeded.
            Some(Ok(())) if only_room || reason.is_none() => Ok(()),
            // Success after another error is not trusted: a later sync does not cover pages that an
            // earlier one lost.
            Some(Ok(())) => Err(Failed { reason: reason.unwrap_or_default(), only_room: false }),
            Some(Err(error)) => {
                // An error of another kind is about the content of the file, which opening it again
                // does not mend.
                let only_room = only_room && matches!(error, redb::Error::Io(_) | redb::Error::PreviousIo);
                Err(Failed { reason: reason.unwrap_or_else(|| error.to_string()), only_room })
            }
            None => Err(Failed { reason: "the database gave up".to_owned(), only_room: false }),
        }
    }

    fn try_commit(
        &self,
        changes: &[Arc<Change>],
        revision: Revision,
        log_end: Revision,
    ) -> Result<(), redb::Error> {
        let txn = begin(&self.database)?;
        put_objects(&txn, changes.iter().map(|change| (&*change.key, change.current.as_ref())))?;
        put_log(&txn, changes, log_end)?;
        put_meta(&txn, revision, log_end, self.sealed_with)?;
        txn.commit()?;
        Ok(())
    }

    /// Lets go of the file. Answers what makes it one that cannot be trusted, if anything did: the
    /// database writes and syncs once more.
    pub(super) fn close(self) -> Option<io::Error> {
        // A panic here adds nothing: what failed below the database stands in `trouble`.
        let _ = contain(|| drop(self.database));
        self.trouble.error().filter(|error| !is_room(error.kind()))
    }
}

/// A transaction that is durable once committed, and after which a crash costs no search for free pages.
fn begin(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut txn = database.begin_write()?;
    txn.set_durability(Durability::Immediate)?;
    txn.set_quick_repair(true);
    Ok(txn)
}

/// The new file, durable under its own name.
fn fill(folder: &dyn Folder, content: &Loaded) -> Result<DataFile, OpenError> {
    let backend = folder.create().map_err(|source| io_error("make a new file beside", folder, source))?;
    let write = |database: &Database| {
        let txn = begin(database)?;
        put_objects(&txn, content.objects.iter().map(|entry| (&*entry.key, Some(entry))))?;
        put_log(&txn, &content.changes, content.compacted)?;
        put_meta(&txn, content.revision, content.compacted, content.sealed_with)?;
        txn.commit()?;
        Ok(())
    };
    let (file, ()) = database(folder, backend, Trust::AsWritten, write)?;
    Ok(DataFile { sealed_with: content.sealed_with, ..file })
}

fn corrupt(folder: &dyn Folder, reason: String) -> OpenError {
    OpenError::Corrupt { path: folder.path().display().to_string(), reason }
}

pub(super) fn io_error(what: &'static str, folder: &dyn Folder, source: io::Error) -> OpenError {
    OpenError::Io { what, path: folder.path().display().to_string(), source }
}

/// Opens the data file and reads from it.
fn read<T>(
    folder: &dyn Folder,
    trust: Trust,
    reader: impl FnOnce(&Database) -> Result<T, redb::Error>,
) -> Result<(DataFile, T), OpenError> {
    let backend = folder.open().map_err(|source| io_error("open", folder, source))?;
    database(folder, backend, trust, reader)
}

/// The database in `backend`, made if that is empty, and what `work` made of it.
fn database<T>(
    folder: &dyn Folder,
    backend: Box<dyn StorageBackend>,
    trust: Trust,
    work: impl FnOnce(&Database) -> Result<T, redb::Error>,
) -> Result<(DataFile, T), OpenError> {
    let trouble = Trouble::default();
    let watched = Watched { backend, trouble: trouble.clone() };
    // redb checks what it reads but not everywhere without panicking.
    let opened = contain(|| -> Result<(Database, T), redb::Error> {
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(trust == Trust::Verify)
            .create_with_backend(watched)?;
        let content = work(&database)?;
        Ok((database, content))
    });
    if trouble.error().is_some() {
        // Letting go of it may fail as well, and worse.
        let _ = contain(|| drop(opened));
        let error = trouble.error().unwrap_or_else(|| ErrorKind::Other.into());
        return Err(io_error("use", folder, error));
    }
    match opened {
        Some(Ok((database, content))) => Ok((DataFile { database, trouble, sealed_with: None }, content)),
        // Its lock file was removed, or the file has a second name.
        Some(Err(redb::Error::DatabaseAlreadyOpen)) => Err(in_use(folder.path())),
        Some(Err(redb::Error::UpgradeRequired(found))) => Err(OpenError::Format {
            path: folder.path().display().to_string(),
            found: u64::from(found),
            known: FORMAT_SEALED,
        }),
        // redb reports a head that makes no sense as an I/O error of these two kinds: damage, not
        // the disk.
        Some(Err(redb::Error::Io(source))) if !matches!(source.kind(), InvalidData | UnexpectedEof) => {
            Err(io_error("open", folder, source))
        }
        Some(Err(error)) => Err(corrupt(folder, error.to_string())),
        None => Err(corrupt(folder, "its structure contradicts itself".to_owned())),
    }
}

/// The error when another process has the data file open.
pub(super) fn in_use(path: &Path) -> OpenError {
    OpenError::Held { dir: path.display().to_string(), holder: "another process".to_owned() }
}

fn put_meta(
    txn: &WriteTransaction,
    revision: Revision,
    compacted: Revision,
    sealed_with: Option<KeyId>,
) -> Result<(), redb::Error> {
    let mut meta = txn.open_table(META)?;
    let format = if sealed_with.is_some() { FORMAT_SEALED } else { FORMAT };
    for (name, number) in [("format", format), ("revision", revision), ("compacted", compacted)] {
        meta.insert(name, number)?;
    }
    if let Some(id) = sealed_with {
        meta.insert(SEALED_WITH, id.number())?;
    }
    Ok(())
}

fn number(meta: &redb::ReadOnlyTable<&str, u64>, name: &str) -> Result<u64, redb::Error> {
    // 0 stands for a missing number: formats and revisions begin with 1.
    Ok(meta.get(name)?.map_or(0, |guard| guard.value()))
}

/// Puts each object under its key, or takes it away.
fn put_objects<'a>(
    txn: &WriteTransaction,
    rows: impl Iterator<Item = (&'a str, Option<&'a Entry>)>,
) -> Result<(), redb::Error> {
    let mut objects = txn.open_table(OBJECTS)?;
    for (key, entry) in rows {
        match entry {
            Some(entry) => objects.insert(key, encode_entry(entry).as_slice())?,
            None => objects.remove(key)?,
        };
    }
    Ok(())
}

fn put_log(txn: &WriteTransaction, changes: &[Arc<Change>], log_end: Revision) -> Result<(), redb::Error> {
    let mut log = txn.open_table(LOG)?;
    // One row per revision, so that a transaction is kept or dropped as a whole.
    for group in changes.chunk_by(|a, b| a.revision == b.revision) {
        if let Some(change) = group.first() {
            log.insert(change.revision, encode_row(group).as_slice())?;
        }
    }
    // Trimmed in the transaction that writes `compacted`, so that the two never disagree.
    while log.first()?.is_some_and(|(revision, _)| revision.value() <= log_end) {
        log.pop_first()?;
    }
    Ok(())
}

fn load(database: &Database) -> Result<Loaded, redb::Error> {
    let txn = database.begin_read()?;
    let meta = txn.open_table(META)?;
    let format = number(&meta, "format")?;
    if !(FORMAT_OLDEST..=FORMAT_SEALED).contains(&format) {
        // The error is borrowed from redb and has room for one byte.
        return Err(redb::Error::UpgradeRequired(u8::try_from(format).unwrap_or(u8::MAX)));
    }
    let mut loaded = Loaded {
        revision: number(&meta, "revision")?,
        compacted: number(&meta, "compacted")?,
        sealed_with: KeyId::of_number(number(&meta, SEALED_WITH)?),
        ..Loaded::default()
    };
    for row in txn.open_table(OBJECTS)?.iter()? {
        let (key, value) = row?;
        let key: Key = key.value().into();
        let entry = decode_entry(&key, value.value()).ok_or_else(|| damaged(&key))?;
        loaded.objects.insert(entry);
    }
    loaded.changes = load_log(&txn, &loaded.objects)?;
    Ok(loaded)
}

/// Newest first, so that what a change left behind is known: the object, or what a later change found.
fn load_log(txn: &redb::ReadTransaction, objects: &Ordered) -> Result<Vec<Arc<Change>>, redb::Error> {
    let mut changes = Vec::new();
    let mut later: BTreeMap<Key, Option<Entry>> = BTreeMap::new();
    for row in txn.open_table(LOG)?.iter()?.rev() {
        let (revision, row) = row?;
        let revision = revision.value();
        let mut group = decode_row(row.value()).ok_or_else(|| damaged(&format!("log {revision}")))?;
        // The list is turned round as a whole at the end, so each group is turned here.
        group.reverse();
        for (key, previous) in group {
            let current = later.get(&key).cloned().unwrap_or_else(|| objects.get(&key).cloned());
            later.insert(key.clone(), previous.clone());
            changes.push(Arc::new(Change { revision, key, current, previous }));
        }
    }
    changes.reverse();
    Ok(changes)
}

fn damaged(what: &str) -> redb::Error {
    redb::Error::Corrupted(format!("the record of {what} cannot be read"))
}

/// The tables are written together, so they must agree.
fn check(folder: &dyn Folder, loaded: &Loaded) -> Result<(), OpenError> {
    let newest = loaded.objects.iter().map(|entry| entry.modified).max().unwrap_or(0);
    if newest > loaded.revision {
        let reason = format!("an object has revision {newest}, later than the store's {}", loaded.revision);
        return Err(corrupt(folder, reason));
    }
    Ok(())
}
