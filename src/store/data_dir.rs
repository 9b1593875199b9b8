//! The folder a store keeps its file in: made private, and held by one process at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::time::{Timestamp, rfc3339};

/// Why a data directory cannot be used, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the data directory {dir} is in use by {holder}; stop that process, or choose another with --data-dir"
    )]
    Held { dir: String, holder: String },
    #[error(
        "the data file {path} is damaged: {reason}. Nothing was changed; move it away and restore a backup \
         (capstan restore), see what capstan standalone --repair can save, or start empty without it"
    )]
    Corrupt { path: String, reason: String },
    #[error(
        "no object can be read from the data file {path}: {reason}. Nothing was changed; move it away and \
         restore a backup (capstan restore), or start empty without it"
    )]
    BeyondRepair { path: String, reason: String },
    #[error(
        "the data file {path} was written by another version of capstan (format {found}, this one reads {known}); \
         use that version, or choose another directory with --data-dir"
    )]
    Format { path: String, found: u64, known: u64 },
    #[error("cannot {what} {path}: {source}; check that the directory exists and belongs to you")]
    Io { what: &'static str, path: String, source: std::io::Error },
}

/// The right to use a data directory, until dropped. The kernel lets go of it when the process
/// ends, however it ends; the text in the file only says who it was.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the folder if needed (0700) and takes its lock. `now` is written into the lock file.
    pub(super) fn acquire(path: &Path, now: Timestamp) -> Result<Self, OpenError> {
        let io = |what| move |source| OpenError::Io { what, path: path.display().to_string(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io("create"))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(io("protect"))?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(io("open the lock file in"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Held { dir: path.display().to_string(), holder: holder(&mut lock) });
            }
            Err(TryLockError::Error(source)) => return Err(io("lock")(source)),
        }
        let text = format!("process {} since {}\n", std::process::id(), rfc3339(now));
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(text.as_bytes()))
            .map_err(io("write the lock file in"))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.take(200).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}
