//! The folder a store keeps its file in: private to its owner, held by one process at a time, and
//! with a mark that says that a store was here and which revisions it may have given out. Owns these
//! checks; must not know what a store's file holds.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{CipherError, KeyError, Revision};
use capstan_base::private_file::{self, FileError};
use capstan_base::time::{Timestamp, rfc3339};

/// Held by the process that uses the folder.
const LOCK: &str = "lock";
/// Says that a store was here.
const MARK: &str = "store.mark";
/// The kernel's error number for a sector that cannot be read or written.
pub(super) const EIO: i32 = 5;
/// Files that show that a folder is one of ours. Folders of earlier versions have no mark.
const SIGNS: [&str; 4] = [MARK, "store.redb", "ca.key", "admin.token"];
/// Our files. Those under way or put aside have one of these names, a dot, and more.
const OURS: [&str; 7] = [LOCK, MARK, "store.redb", "ca.key", "ca.crt", "admin.token", "read-only.token"];
/// Permission bits with which others could enter a folder or put something into it.
const OTHERS: u32 = 0o033;
/// The mark is raised in steps, so that hardly any write has to wait for it.
const STEP: Revision = 100_000;
/// After the mark could not be written, revisions until the next attempt.
const RETRY_AFTER: Revision = 1_000;

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
    #[error(
        "the folder {dir} {why}; it stays as it is: name a folder that is for capstan alone, such as \
         --data-dir {dir}/capstan"
    )]
    Unfit { dir: String, why: String },
    #[error(
        "others can enter the folder {dir} (mode {mode:04o}); if it is for capstan alone, close it with: chmod 0700 \
         {dir}; else name another, such as --data-dir {dir}/capstan"
    )]
    NotPrivate { dir: String, mode: u32 },
    #[error(
        "a store was in {dir}, and {file} is gone. Nothing was changed. If its disk is not mounted, mount it; else \
         restore a backup (capstan restore FILE --data-dir {dir}), or start with an empty store (capstan standalone \
         --new-store --data-dir {dir})"
    )]
    Vanished { dir: String, file: &'static str },
    #[error(
        "{path} is a link to {target}, which is not there. Nothing was changed: mount its disk, or remove the link"
    )]
    Dangling { path: String, target: String },
    #[error(
        "the store in {dir} is not empty; a backup is only restored into an empty store, so choose another one"
    )]
    Occupied { dir: String },
    #[error("there is no store in {dir}")]
    NoStore { dir: String },
    #[error("there is a store in {dir}; a new one is only made where it is gone")]
    Present { dir: String },
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the values in it cannot be sealed: {0}. Nothing was changed")]
    Cipher(#[from] CipherError),
    #[error(transparent)]
    File(FileError),
    #[error("cannot {what} {path}: {source}{}", advice(source))]
    Io { what: &'static str, path: String, source: io::Error },
}

impl From<FileError> for OpenError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { what, path, source } => Self::Io { what, path, source },
            other => Self::File(other),
        }
    }
}

/// What to check after a failure.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => "; check that you may go there, and that it belongs to you",
        ErrorKind::ReadOnlyFilesystem => {
            "; the disk is mounted read-only: capstan standalone --check and capstan backup work there all the same"
        }
        ErrorKind::NotFound => "; check the path",
        ErrorKind::NotADirectory => "; check the path: a part of it is not a folder",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room on the disk",
        _ if error.raw_os_error() == Some(EIO) => {
            "; the disk fails: look into the log of the kernel, and copy what can still be read to another one"
        }
        _ => "",
    }
}

/// The content of the mark file, for people and for the next start.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    about: String,
    /// No revision from here on was ever given out; 0: no store was here.
    revisions_below: Revision,
}

/// The right to use a data directory, until dropped. The kernel lets go of it when the process
/// ends, however it ends; the text in the file only says who it was.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    /// `None`: there is no lock file, and the folder is only read.
    _lock: Option<File>,
    /// The revision in the mark file; 0: there is no such file, or no store was here.
    revisions_below: Revision,
    /// The mark could not be written: not tried again below this revision.
    retry_at: Revision,
}

impl DataDir {
    /// Makes the folder if needed (0700) and takes its lock. `now` is written into the lock file.
    pub(super) fn acquire(path: &Path, now: Timestamp) -> Result<Self, OpenError> {
        // The checks come before the lock file: a folder that is refused stays as it is.
        make_ours(path)?;
        let mut lock = private_file::open_kept(&path.join(LOCK))?;
        held(path, &mut lock, File::try_lock)?;
        let text = format!("process {} since {}\n", std::process::id(), rfc3339(now));
        // The text changes only under the lock: until then it names the process that holds the
        // folder.
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(text.as_bytes()))
            .map_err(io_error("write the lock file in", path))?;
        // A mark that cannot be read stops a writer: revisions that clients know could be given out
        // anew.
        let revisions_below = read_mark(path)?.map_or(0, |mark| mark.revisions_below);
        Ok(Self { path: path.to_owned(), _lock: Some(lock), revisions_below, retry_at: 0 })
    }

    /// The folder as it is, to be read while no server has it: on a disk that cannot be written, or by
    /// somebody who may only read.
    pub(super) fn share(path: &Path) -> Result<Self, OpenError> {
        let lock = match private_file::open_regular(&path.join(LOCK))? {
            Some((mut lock, _)) => {
                held(path, &mut lock, File::try_lock_shared)?;
                Some(lock)
            }
            // A lock file is not made here: the disk may be read-only.
            None => None,
        };
        // A mark that cannot be read proves nothing; the data file may still be readable.
        let mark = read_mark(path).ok().flatten();
        let revisions_below = mark.map_or(0, |mark| mark.revisions_below);
        Ok(Self { path: path.to_owned(), _lock: lock, revisions_below, retry_at: 0 })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether the data file is there.
    ///
    /// # Errors
    /// [`OpenError::Dangling`]; what is there is not a regular file, which whoever opens it might wait for.
    pub(super) fn has(&self, file: &str) -> Result<bool, OpenError> {
        let path = self.file(file);
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => Err(OpenError::File(FileError::NotRegular {
                path: path.display().to_string(),
                found: private_file::kind(found.file_type()),
            })),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => dangling(&path).map_or(Ok(false), Err),
            Err(source) => Err(io_error("open", &path)(source)),
        }
    }

    /// Refuses a folder without the data file.
    ///
    /// # Errors
    /// [`OpenError::NoStore`], [`OpenError::Vanished`], [`OpenError::Dangling`].
    pub(super) fn require(&self, file: &'static str) -> Result<(), OpenError> {
        if self.has(file)? {
            return Ok(());
        }
        self.check_never_used(file)?;
        Err(OpenError::NoStore { dir: self.path.display().to_string() })
    }

    /// Refuses a folder that had a store whose data file is gone.
    ///
    /// # Errors
    /// [`OpenError::Vanished`].
    pub(super) fn check_never_used(&self, file: &'static str) -> Result<(), OpenError> {
        // Folders of earlier versions have no mark. There a key or a token is the sign of a store.
        let is_marked = self.file(MARK).exists();
        let was_here = if is_marked { self.revisions_below > 0 } else { has_sign(&self.path) };
        if was_here {
            return Err(OpenError::Vanished { dir: self.path.display().to_string(), file });
        }
        Ok(())
    }

    /// Where a new store starts: behind every revision that one before it may have given out.
    pub(super) fn start(&self) -> Revision {
        self.revisions_below.max(1)
    }

    /// Sees to it that the mark is above `revision` before anybody is shown it. A mark that cannot be
    /// written stops nothing: it is tried long before it is needed, and again.
    pub(super) fn reserve(&mut self, revision: Revision) {
        // Half a step early, so that a mark that could not be written is tried again before it is
        // due.
        let due = revision.saturating_add(STEP / 2) > self.revisions_below;
        if !due || revision < self.retry_at {
            return;
        }
        // Two steps, as the division rounds down: at least one whole step lies above `revision`.
        let below = (revision / STEP).saturating_add(2).saturating_mul(STEP);
        match write_mark(&self.path, below) {
            Ok(()) => self.revisions_below = below,
            Err(error) => {
                self.retry_at = revision.saturating_add(RETRY_AFTER);
                tracing::warn!("the highest revision cannot be noted: {error}");
            }
        }
    }
}

/// Makes a folder (0700), or checks that it is ours, for the certificates and tokens of a server whose
/// store is elsewhere.
///
/// # Errors
/// [`OpenError`].
pub fn claim(path: &Path) -> Result<(), OpenError> {
    make_ours(path)?;
    // A folder with a sign may have the mark of a disk store, and 0 would forget its revisions.
    if has_sign(path) { Ok(()) } else { Ok(write_mark(path, 0)?) }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Io { what, path: path.display().to_string(), source }
}

fn has_sign(path: &Path) -> bool {
    SIGNS.iter().any(|name| fs::symlink_metadata(path.join(name)).is_ok())
}

/// Makes a folder that only we can enter. One that is there stays as it is, and has to be like that.
fn make_ours(path: &Path) -> Result<(), OpenError> {
    make(path)?;
    let found = fs::metadata(path).map_err(io_error("look at", path))?;
    let unfit = |why: String| OpenError::Unfit { dir: path.display().to_string(), why };
    if found.uid() != private_file::user() {
        return Err(unfit(format!("belongs to user {}", found.uid())));
    }
    if !has_sign(path) {
        for entry in fs::read_dir(path).map_err(io_error("read", path))? {
            let name = entry.map_err(io_error("read", path))?.file_name().to_string_lossy().into_owned();
            if !is_ours(&name) {
                return Err(unfit(format!("holds other things, such as {name}")));
            }
        }
    }
    // The mode comes last: a folder of other things, such as a home, needs another name, not a
    // chmod.
    let mode = found.permissions().mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(OpenError::NotPrivate { dir: path.display().to_string(), mode });
    }
    Ok(())
}

fn is_ours(name: &str) -> bool {
    OURS.iter()
        .any(|ours| name.strip_prefix(ours).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Makes the folders that are missing (0700), and makes their names durable.
fn make(path: &Path) -> Result<(), OpenError> {
    // `mkdir` would only report that a dangling link exists.
    if let Some(dangling) = path.ancestors().find_map(dangling) {
        return Err(dangling);
    }
    // The last ancestor of a relative path is empty and stands for the working folder.
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error("create", path))?;
    for made in missing {
        private_file::sync_folder_of(made).map_err(io_error("make", made))?;
    }
    Ok(())
}

/// A link to what is not there.
fn dangling(path: &Path) -> Option<OpenError> {
    let target = fs::read_link(path).ok().filter(|_| !path.exists())?;
    Some(OpenError::Dangling { path: path.display().to_string(), target: target.display().to_string() })
}

/// Takes the lock of a folder, or answers with its holder.
fn held(dir: &Path, lock: &mut File, take: fn(&File) -> Result<(), TryLockError>) -> Result<(), OpenError> {
    match take(lock) {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(OpenError::Held { dir: dir.display().to_string(), holder: holder(lock) })
        }
        Err(TryLockError::Error(source)) => Err(io_error("lock", dir)(source)),
    }
}

fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    // The text only names the holder, and the file may be of any length.
    match lock.take(200).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}

fn read_mark(dir: &Path) -> Result<Option<Mark>, OpenError> {
    let path = dir.join(MARK);
    let Some(text) = private_file::read(&path)? else { return Ok(None) };
    let mark = serde_json::from_str(&text)
        .map_err(|error| io_error("understand", &path)(io::Error::other(error)))?;
    Ok(Some(mark))
}

fn write_mark(dir: &Path, revisions_below: Revision) -> Result<(), FileError> {
    let path = dir.join(MARK);
    let about =
        "made by capstan: keep it with store.redb; resource versions of a new store start here".to_owned();
    let text = serde_json::to_string(&Mark { about, revisions_below }).map_err(|error| FileError::Io {
        what: "write",
        path: path.display().to_string(),
        source: error.into(),
    })?;
    private_file::write(&path, &(text + "\n"))
}

/// A folder that a store may use.
#[cfg(test)]
pub(super) fn private_tempdir() -> tempfile::TempDir {
    let mode = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().unwrap_or_else(|error| unreachable!("{error}"))
}
