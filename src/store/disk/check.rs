//! Looking at a data file at rest, and saving what can be saved of a damaged one. Must not know
//! objects: what a whole value is, is asked.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::file::{DataFile, Loaded, salvage};
use super::folder::RealFolder;
use super::{DiskStore, FILE};
use crate::store::Revision;
use crate::store::data_dir::{DataDir, OpenError};
use crate::time::Timestamp;

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
}

/// What became of a damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// What was wrong.
    pub damage: String,
    /// The damaged file, under its new name.
    pub original: PathBuf,
    pub kept: usize,
    /// Keys that were found with values that cannot be used. Objects whose keys are gone too are not
    /// known.
    pub lost: Vec<String>,
    pub revision: Revision,
}

impl DiskStore {
    /// Reads the data file in `dir` and compares every checksum, on a copy: the file itself is not
    /// touched.
    ///
    /// # Errors
    /// [`OpenError`]: in use, damaged, not there, or no room for the copy.
    pub fn check(dir: &Path, now: Timestamp) -> Result<Checked, OpenError> {
        let dir = DataDir::acquire(dir, now)?;
        check(&dir.file(FILE))
    }

    /// Replaces a damaged file by one with everything that can still be read and is `whole`; the
    /// damaged one is kept under another name. A file in order is left alone.
    ///
    /// # Errors
    /// [`OpenError`], also when nothing can be read at all; nothing is changed then.
    pub fn repair(
        dir: &Path,
        now: Timestamp,
        whole: fn(&Bytes) -> bool,
    ) -> Result<Result<Checked, Repaired>, OpenError> {
        let dir = DataDir::acquire(dir, now)?;
        let path = dir.file(FILE);
        let damage = match check(&path) {
            Err(OpenError::Corrupt { reason, .. }) => reason,
            other => return other.map(Ok),
        };
        let found = on_copy(&path, |copy| salvage(&RealFolder::of(copy), whole))?;
        let newest = found.objects.iter().map(|entry| entry.modified).max().unwrap_or(0);
        let revision = found.revision.max(newest) + LEAP;
        let kept = found.objects.iter().count();
        let content = Loaded { objects: found.objects, revision, compacted: revision, changes: Vec::new() };
        let original = path.with_extension(format!("redb.damaged-{}", now.format("%Y%m%dT%H%M%SZ")));
        let io = |source| OpenError::Io { what: "move away", path: path.display().to_string(), source };
        fs::rename(&path, &original).map_err(io)?;
        if let Err(failed) = DataFile::create(&RealFolder::of(&path), &content) {
            fs::rename(&original, &path).map_err(io)?;
            return Err(failed.error);
        }
        Ok(Err(Repaired { damage, original, kept, lost: found.unreadable, revision }))
    }
}

fn check(path: &Path) -> Result<Checked, OpenError> {
    let (bytes, loaded) = on_copy(path, |copy| {
        let (file, loaded) = DataFile::open(&RealFolder::of(copy))?;
        drop(file);
        for entry in loaded.objects.iter() {
            if let Err(error) = entry.value.unpack() {
                let reason = format!("{}: {error}", entry.key);
                return Err(OpenError::Corrupt { path: String::new(), reason });
            }
        }
        Ok((fs::metadata(copy).map_or(0, |found| found.len()), loaded))
    })?;
    Ok(Checked {
        path: path.to_owned(),
        objects: loaded.objects.iter().count(),
        bytes,
        revision: loaded.revision,
        compacted: loaded.compacted,
    })
}

/// Works on a copy beside the file, which is removed afterwards.
fn on_copy<T>(path: &Path, work: impl FnOnce(&Path) -> Result<T, OpenError>) -> Result<T, OpenError> {
    let shown = path.display().to_string();
    let copy = path.with_extension("redb.checking");
    let result = match fs::copy(path, &copy) {
        Ok(_) => work(&copy),
        Err(source) => Err(OpenError::Io { what: "copy", path: shown.clone(), source }),
    };
    let _ = fs::remove_file(&copy);
    result.map_err(|error| match error {
        OpenError::Corrupt { reason, .. } => OpenError::Corrupt { path: shown, reason },
        OpenError::Format { found, known, .. } => OpenError::Format { path: shown, found, known },
        other => other,
    })
}
