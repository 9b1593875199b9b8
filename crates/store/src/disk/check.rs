//! Looking at a data file at rest, and saving what can be saved of a damaged one. Must not know
//! objects: what a whole value is, is asked.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use super::file::{DataFile, Loaded};
use super::folder::RealFolder;
use super::salvage::{Scrub, salvage};
use super::{DiskStore, FILE, overlay, renewal};
use crate::data_dir::{DataDir, EIO, OpenError};
use crate::{Census, Key, KeyId, MemoryStore, Revision, Sealing};
use capstan_base::time::Timestamp;

/// A repaired store goes on this far above the last revision that could be read, because later ones
/// may have been seen by clients and then lost.
const LEAP: Revision = 1_000_000;

/// A file in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub path: PathBuf,
    pub objects: usize,
    /// Of the file.
    pub bytes: u64,
    pub revision: Revision,
    /// Changes behind this revision are kept.
    pub compacted: Revision,
    /// The key that sealed what is in it; `None`: it is not encrypted.
    pub sealed_with: Option<KeyId>,
    /// What the values are that are sealed, or would be.
    pub census: Census,
}

/// What became of a damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// What was wrong.
    pub damage: String,
    /// The damaged file, under its new name.
    pub original: PathBuf,
    pub kept: usize,
    /// Keys of objects that were kept as they were at some time: they may have changed, or have been
    /// deleted, later.
    pub uncertain: Vec<Key>,
    /// Keys of objects that were there and cannot be read.
    pub lost: Vec<Key>,
    /// Keys that changed last, to what is not known.
    pub lost_or_deleted: Vec<Key>,
    /// Objects that are gone together with their keys. `None`: how many there were is not known.
    pub unknown: Option<u64>,
    /// The last commit is gone; what is here is from before it.
    pub is_newest_commit_lost: bool,
    pub revision: Revision,
}

impl DiskStore {
    /// Reads the data file in `dir` and compares every checksum. Nothing is written. Of an encrypted one the keys need not be
    /// there; the census then has its values as closed.
    ///
    /// # Errors
    /// [`OpenError`]: in use, damaged, or not there.
    pub fn check(dir: &Path, sealing: &Sealing) -> Result<Checked, OpenError> {
        let dir = DataDir::share(dir)?;
        dir.require(FILE)?;
        check(&dir.file(FILE), sealing)
    }

    /// Everything in the data file in `dir`, in memory, as it is kept. Nothing is written.
    ///
    /// # Errors
    /// [`OpenError`]: in use, damaged, encrypted with another key, or not there.
    pub fn read(dir: &Path, sealing: &Sealing) -> Result<MemoryStore, OpenError> {
        let dir = DataDir::share(dir)?;
        dir.require(FILE)?;
        let path = dir.file(FILE);
        let loaded = overlay::read(&path)?;
        sealing.check(&format!("the data file {}", path.display()), loaded.sealed_with.as_slice())?;
        Ok(MemoryStore::of(loaded.objects, loaded.revision))
    }

    /// Replaces a damaged file by one with everything that can still be read; the damaged one is kept
    /// under another name. A file in order is left alone. `whole` is asked of values that have no
    /// checksum of their own (format 1) and are on damaged pages.
    ///
    /// # Errors
    /// [`OpenError`], also when no object can be read at all; nothing is changed then.
    pub fn repair(
        dir: &Path,
        now: Timestamp,
        whole: fn(&Bytes) -> bool,
        sealing: &Sealing,
    ) -> Result<Result<Checked, Repaired>, OpenError> {
        // Looking comes first: `acquire` would make a folder that is not there.
        DataDir::share(dir)?.require(FILE)?;
        let dir = DataDir::acquire(dir, now)?;
        let path = dir.file(FILE);
        let damage = match check(&path, sealing) {
            Err(OpenError::Corrupt { reason, .. }) => reason,
            // A sector that cannot be read is damage too: salvage reads around it, sector by
            // sector.
            Err(OpenError::Io { source, .. }) if source.raw_os_error() == Some(EIO) => source.to_string(),
            other => return other.map(Ok),
        };
        let reading = |source| OpenError::Io { what: "read", path: path.display().to_string(), source };
        let found = salvage(&path, whole).map_err(reading)?;
        let kept = found.objects.iter().count();
        // An empty file would take the place of one in which another tool may still find something.
        if kept == 0 {
            return Err(OpenError::BeyondRepair { path: path.display().to_string(), reason: damage });
        }
        let revision = found.revision.saturating_add(LEAP);
        // Where the file does not name the key any more, a value may.
        let sealed_with = found.sealed_with.or_else(|| renewal::key_of_newest(found.objects.iter()));
        let objects = found.objects;
        // The history is empty, so watches are refused and clients list again: what they know may be
        // lost.
        let content = Loaded { objects, revision, compacted: revision, changes: Vec::new(), sealed_with };
        let original = keep(&path, now)?;
        if let Err(failed) = DataFile::create(&RealFolder::of(&path), &content) {
            if !failed.renamed {
                // It still has its own name.
                let _ = fs::remove_file(&original);
            }
            return Err(failed.error);
        }
        Ok(Err(Repaired {
            damage,
            original,
            kept,
            uncertain: found.uncertain,
            lost: found.lost,
            lost_or_deleted: found.lost_or_deleted,
            unknown: found.unknown,
            is_newest_commit_lost: found.is_newest_commit_lost,
            revision,
        }))
    }
}

/// Damaged files that repairs of one second may leave.
const KEPT_MAX: usize = 100;

/// Gives a damaged file a second name beside it, which is returned. It keeps the first one until the new
/// file takes that: a repair that is killed never leaves a folder whose store seems to be gone.
fn keep(path: &Path, now: Timestamp) -> Result<PathBuf, OpenError> {
    let io = |source| OpenError::Io { what: "keep", path: path.display().to_string(), source };
    // Where it is a link, the file itself: the new one replaces that.
    let target = fs::canonicalize(path).map_err(io)?;
    let moment = now.format("%Y%m%dT%H%M%SZ");
    for number in 1..=KEPT_MAX {
        let another = if number == 1 { String::new() } else { format!("-{number}") };
        let kept = target.with_extension(format!("redb.damaged-{moment}{another}"));
        match second_name(&target, &kept) {
            // Another repair within this second.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| kept).map_err(io),
        }
    }
    Err(io(ErrorKind::AlreadyExists.into()))
}

fn second_name(file: &Path, name: &Path) -> io::Result<()> {
    match fs::hard_link(file, name) {
        // Not every file system has second names.
        Err(error) if is_without_links(&error) => copy(file, name),
        linked => linked,
    }
}

fn is_without_links(error: &io::Error) -> bool {
    // For a file system without hard links, such as FAT, Linux answers EPERM.
    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied | ErrorKind::TooManyLinks)
}

/// A copy that is whole or not there. Never over a file that is there.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let copied = io::copy(&mut source, &mut target).and_then(|_| target.sync_all());
    if copied.is_err() {
        let _ = fs::remove_file(to);
    }
    copied
}

/// Between two bites of a scrub.
const SCRUB_PAUSE: Duration = Duration::from_secs(10);

impl DiskStore {
    /// Compares the checksums of the data file in `dir` in the background, over and over, and ends
    /// with one line in the log when a page is damaged. The store may be in use: it is only read, some
    /// pages every `SCRUB_PAUSE`.
    pub async fn scrub(dir: PathBuf) {
        let path = dir.join(FILE);
        let mut scrub = Scrub::new(&path);
        loop {
            tokio::time::sleep(SCRUB_PAUSE).await;
            // A read from a failing disk may take long, and no async thread may wait for it.
            let bite = tokio::task::spawn_blocking(move || (scrub.bite(), scrub));
            // A panic in a bite ends the scrub and not the server.
            let Ok((found, back)) = bite.await else { return };
            scrub = back;
            // A file that cannot be opened, such as one that is being replaced, waits for the next
            // bite.
            if let Ok(Some(rotten)) = found {
                tracing::error!(
                    "{} is damaged: the {} bytes at {} are not what was written there. Everything is still in \
                     memory: make a backup now (capstan backup FILE), then stop the server and run capstan \
                     standalone --repair, or restore the backup",
                    path.display(),
                    rotten.bytes,
                    rotten.offset
                );
                return;
            }
        }
    }
}

fn check(path: &Path, sealing: &Sealing) -> Result<Checked, OpenError> {
    let loaded = overlay::read(path)?;
    let mut census = Census::default();
    for entry in loaded.objects.iter() {
        if let Err(error) = entry.value.unpack() {
            let reason = format!("{}: {error}", entry.key);
            return Err(OpenError::Corrupt { path: path.display().to_string(), reason });
        }
        if sealing.covers(&entry.key) {
            census.count(&entry.key, &sealing.state(&entry.key, &entry.value));
        }
    }
    let bytes = fs::metadata(path).map_or(0, |found| found.len());
    Ok(Checked {
        path: path.to_owned(),
        objects: loaded.objects.iter().count(),
        bytes,
        revision: loaded.revision,
        compacted: loaded.compacted,
        sealed_with: loaded.sealed_with,
        census,
    })
}
