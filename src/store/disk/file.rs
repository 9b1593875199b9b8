//! The layout of the data file and the only code that knows redb.
//!
//! `objects`: key → record. `log`: revision → the changed keys with what they held before (an undo
//! log: what they held after is in `objects` or in a later row). See `record.rs` for both.
//! `meta`: format, revision, compacted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::ErrorKind::{InvalidData, UnexpectedEof};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{
    Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction,
};

use super::contain::contain;
use super::record::{decode_entry, decode_row, encode_entry, encode_row};
use crate::store::ordered::Ordered;
use crate::store::{Change, Entry, Key, OpenError, Revision};

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// What is written. Format 1 had no checksums in its records; it is read as well.
const FORMAT: u64 = 2;
const FORMAT_OLDEST: u64 = 1;
/// Reads come from the image, so redb only needs room for the pages of a commit.
const CACHE_BYTES: usize = 16 << 20;

pub(super) struct DataFile(Database);

/// Everything in the file.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) objects: Ordered,
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    pub(super) changes: Vec<Arc<Change>>,
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
    /// one that is empty was cut off by somebody.
    pub(super) fn open(path: &Path) -> Result<(Self, Loaded), OpenError> {
        let io = |source| OpenError::Io { what: "open", path: path.display().to_string(), source };
        match fs::metadata(path) {
            Ok(found) if found.len() == 0 => {
                let reason = "it is empty".to_owned();
                return Err(OpenError::Corrupt { path: path.display().to_string(), reason });
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Self::create(path, &Loaded { revision: 1, compacted: 1, ..Loaded::default() })?;
            }
            Err(error) => return Err(io(error)),
        }
        let opened = read(path, Trust::Verify, load).and_then(|(database, loaded)| {
            check(path, &loaded)?;
            Ok((Self(database), loaded))
        })?;
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(io)?;
        Ok(opened)
    }

    /// Opens the file again after a failed write; the revision tells whether it got through.
    pub(super) fn reopen(path: &Path) -> Result<(Self, Revision), OpenError> {
        let revision = |database: &Database| number(&database.begin_read()?.open_table(META)?, "revision");
        read(path, Trust::AsWritten, revision).map(|(database, revision)| (Self(database), revision))
    }

    /// A new file with the objects, revision and bounds of `content`, and no history.
    pub(super) fn create(path: &Path, content: &Loaded) -> Result<(), OpenError> {
        let io = |what| move |source| OpenError::Io { what, path: path.display().to_string(), source };
        let fresh = path.with_extension("redb.new");
        if let Err(error) = fs::remove_file(&fresh)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(io("replace")(error));
        }
        let made = read(&fresh, Trust::AsWritten, |database| {
            let entries = content.objects.iter().cloned().map(Some);
            let change = |current: Option<Entry>| {
                let entry = current.as_ref()?;
                let (revision, key) = (entry.modified, entry.key.clone());
                Some(Arc::new(Change { revision, key, current, previous: None }))
            };
            let changes: Vec<_> = entries.filter_map(change).collect();
            let txn = database.begin_write()?;
            put_objects(&txn, &changes)?;
            txn.open_table(LOG)?;
            put_meta(&txn, content.revision, content.compacted)?;
            txn.commit()?;
            Ok(())
        })?;
        drop(made);
        fs::rename(&fresh, path).map_err(io("make"))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("make"))
    }

    /// One durable commit; log rows up to `log_end` are dropped along the way.
    pub(super) fn commit(
        &self,
        changes: &[Arc<Change>],
        revision: Revision,
        log_end: Revision,
    ) -> Result<(), String> {
        // A disk that fails must not take the process down, whatever the database makes of it.
        match contain(|| self.try_commit(changes, revision, log_end)) {
            Some(committed) => committed.map_err(|error| error.to_string()),
            None => Err("the database gave up".to_owned()),
        }
    }

    fn try_commit(
        &self,
        changes: &[Arc<Change>],
        revision: Revision,
        log_end: Revision,
    ) -> Result<(), redb::Error> {
        let mut txn = self.0.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        txn.set_quick_repair(true);
        put_objects(&txn, changes)?;
        put_log(&txn, changes, log_end)?;
        put_meta(&txn, revision, log_end)?;
        txn.commit()?;
        Ok(())
    }
}

/// Opens the database in a file, made if it is not there, and reads from it.
fn read<T>(
    path: &Path,
    trust: Trust,
    reader: impl FnOnce(&Database) -> Result<T, redb::Error>,
) -> Result<(Database, T), OpenError> {
    let corrupt = |reason: String| OpenError::Corrupt { path: path.display().to_string(), reason };
    let io = |source| OpenError::Io { what: "open", path: path.display().to_string(), source };
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(io)?;
    // redb checks what it reads but not everywhere without panicking.
    let opened = contain(|| -> Result<(Database, T), redb::Error> {
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(trust == Trust::Verify)
            .create_with_backend(FileBackend::new(file)?)?;
        let content = reader(&database)?;
        Ok((database, content))
    });
    match opened {
        Some(Ok(opened)) => Ok(opened),
        Some(Err(redb::Error::UpgradeRequired(found))) => Err(OpenError::Format {
            path: path.display().to_string(),
            found: u64::from(found),
            known: FORMAT,
        }),
        Some(Err(redb::Error::Io(source))) if !matches!(source.kind(), InvalidData | UnexpectedEof) => {
            Err(io(source))
        }
        Some(Err(error)) => Err(corrupt(error.to_string())),
        None => Err(corrupt("its structure contradicts itself".to_owned())),
    }
}

fn put_meta(txn: &WriteTransaction, revision: Revision, compacted: Revision) -> Result<(), redb::Error> {
    let mut meta = txn.open_table(META)?;
    for (name, number) in [("format", FORMAT), ("revision", revision), ("compacted", compacted)] {
        meta.insert(name, number)?;
    }
    Ok(())
}

fn number(meta: &redb::ReadOnlyTable<&str, u64>, name: &str) -> Result<u64, redb::Error> {
    Ok(meta.get(name)?.map_or(0, |guard| guard.value()))
}

fn put_objects(txn: &WriteTransaction, changes: &[Arc<Change>]) -> Result<(), redb::Error> {
    let mut objects = txn.open_table(OBJECTS)?;
    for change in changes {
        match &change.current {
            Some(entry) => objects.insert(&*change.key, encode_entry(entry).as_slice())?,
            None => objects.remove(&*change.key)?,
        };
    }
    Ok(())
}

fn put_log(txn: &WriteTransaction, changes: &[Arc<Change>], log_end: Revision) -> Result<(), redb::Error> {
    let mut log = txn.open_table(LOG)?;
    for group in changes.chunk_by(|a, b| a.revision == b.revision) {
        if let Some(change) = group.first() {
            log.insert(change.revision, encode_row(group).as_slice())?;
        }
    }
    while log.first()?.is_some_and(|(revision, _)| revision.value() <= log_end) {
        log.pop_first()?;
    }
    Ok(())
}

fn load(database: &Database) -> Result<Loaded, redb::Error> {
    let txn = database.begin_read()?;
    let meta = txn.open_table(META)?;
    let format = number(&meta, "format")?;
    if !(FORMAT_OLDEST..=FORMAT).contains(&format) {
        return Err(redb::Error::UpgradeRequired(u8::try_from(format).unwrap_or(u8::MAX)));
    }
    let mut loaded = Loaded {
        revision: number(&meta, "revision")?,
        compacted: number(&meta, "compacted")?,
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
fn check(path: &Path, loaded: &Loaded) -> Result<(), OpenError> {
    let newest = loaded.objects.iter().map(|entry| entry.modified).max().unwrap_or(0);
    if newest > loaded.revision {
        let reason = format!("an object has revision {newest}, later than the store's {}", loaded.revision);
        return Err(OpenError::Corrupt { path: path.display().to_string(), reason });
    }
    Ok(())
}

/// What of a damaged file can still be read, from both ends of the objects, without its history.
/// `whole` says whether a value is one.
pub(super) fn salvage(path: &Path, whole: fn(&bytes::Bytes) -> bool) -> Result<Salvage, OpenError> {
    let readable = |database: &Database| {
        let txn = database.begin_read()?;
        let mut found = Salvage::default();
        if let Ok(meta) = txn.open_table(META) {
            found.revision = number(&meta, "revision").unwrap_or(0);
        }
        let objects = txn.open_table(OBJECTS)?;
        let (mut forward, mut backward) = (objects.iter()?, objects.iter()?.rev());
        let mut seen = BTreeSet::new();
        read_rows(|| forward.next(), &mut seen, &mut found, whole);
        read_rows(|| backward.next(), &mut seen, &mut found, whole);
        Ok(found)
    };
    read(path, Trust::AsWritten, readable).map(|(_, found)| found)
}

type Row<'a> = (redb::AccessGuard<'a, &'static str>, redb::AccessGuard<'a, &'static [u8]>);

/// Reads rows until the damage.
fn read_rows<'a>(
    mut next: impl FnMut() -> Option<Result<Row<'a>, redb::StorageError>>,
    seen: &mut BTreeSet<String>,
    found: &mut Salvage,
    whole: fn(&bytes::Bytes) -> bool,
) {
    while let Some(Some(Ok((key, value)))) = contain(&mut next) {
        let Some(key) = contain(|| key.value().to_owned()) else {
            found.unreadable.push("an object whose key is no text".to_owned());
            continue;
        };
        if !seen.insert(key.clone()) {
            continue;
        }
        let entry = decode_entry(&key.as_str().into(), value.value());
        match entry.filter(|entry| entry.value.unpack().is_ok_and(|value| whole(&value))) {
            Some(entry) => found.objects.insert(entry),
            None => found.unreadable.push(key),
        }
    }
}

/// What was read from a damaged file.
#[derive(Default)]
pub(super) struct Salvage {
    pub(super) objects: Ordered,
    /// Keys whose values cannot be used.
    pub(super) unreadable: Vec<String>,
    /// 0: not known.
    pub(super) revision: Revision,
}
