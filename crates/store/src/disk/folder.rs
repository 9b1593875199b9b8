//! The data file's place on a disk: opening it, making a new one beside it, putting the new one in
//! its place. Owns which failures leave a file that can still be trusted. Must not know what is in it.

use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// Where one data file lives, and the new one that may take its place.
pub(super) trait Folder: Send {
    /// The data file as it is on the disk: what the kernel holds of it is written, then forgotten.
    fn open(&self) -> io::Result<Box<dyn StorageBackend>>;
    /// An empty new file beside it, in the place of one that was left over.
    fn create(&self) -> io::Result<Box<dyn StorageBackend>>;
    /// Gives the new file the name of the data file. Not durable before [`Folder::sync`].
    fn replace(&self) -> io::Result<()>;
    /// Makes names durable.
    fn sync(&self) -> io::Result<()>;
    /// Removes a new file that did not take the data file's place.
    fn discard(&self);
    /// Size of the data file; `None`: it is not there.
    fn bytes(&self) -> io::Result<Option<u64>>;
    /// The data file, for sentences.
    fn path(&self) -> &Path;
}

/// A folder of the operating system.
pub(super) struct RealFolder {
    path: PathBuf,
    /// The file itself, where `path` is a link to it.
    target: PathBuf,
    fresh: PathBuf,
}

impl RealFolder {
    /// The folder of the data file `path`, which need not be there.
    pub(super) fn of(path: &Path) -> Self {
        // The new file goes beside what a link leads to: a rename cannot cross disks, and would
        // replace the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { path: path.to_owned(), fresh: target.with_extension("redb.new"), target }
    }
}

impl Folder for RealFolder {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        let file = OpenOptions::new().read(true).write(true).open(&self.target)?;
        // After a failed sync the kernel shows pages that are not on the disk, to a new process too.
        file.sync_all().map_err(|error| io::Error::other(format!("sync: {error}")))?;
        // Best effort: not every file system takes the advice.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        // A file that was copied here may be readable for others, and values hold secrets.
        file.set_permissions(Permissions::from_mode(0o600))?;
        backend(file)
    }

    fn create(&self) -> io::Result<Box<dyn StorageBackend>> {
        // A leftover is removed, not truncated: it may be a link or have a second name.
        match fs::remove_file(&self.fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        backend(OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&self.fresh)?)
    }

    fn replace(&self) -> io::Result<()> {
        fs::rename(&self.fresh, &self.target)
    }

    fn sync(&self) -> io::Result<()> {
        // A rename survives a loss of power only once its folder is synced.
        File::open(self.target.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    fn discard(&self) {
        // Nothing depends on it: a file that stays is replaced by the next one.
        let _ = fs::remove_file(&self.fresh);
    }

    fn bytes(&self) -> io::Result<Option<u64>> {
        match fs::metadata(&self.target) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

fn backend(file: File) -> io::Result<Box<dyn StorageBackend>> {
    Ok(Box::new(FileBackend::new(file).map_err(io::Error::other)?))
}

/// What went wrong with one open file. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble(Arc<Mutex<Option<Noted>>>);

#[derive(Clone, Debug)]
struct Noted {
    reason: String,
    /// [`ErrorKind::Other`] once something else failed than a write that found no room.
    kind: ErrorKind,
}

impl Trouble {
    /// In the system's words: the first failure after which the file cannot be trusted, or else the
    /// first of all. [`is_room`] of its kind: there was no room for a write and nothing else failed, so
    /// what the kernel shows of the file is what a sync will write.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.0.lock().as_ref().map(|noted| io::Error::new(noted.kind, noted.reason.clone()))
    }

    fn note<T>(&self, verb: &str, result: io::Result<T>, may_lack_room: bool) -> io::Result<T> {
        if let Err(error) = &result {
            let kind = if may_lack_room && is_room(error.kind()) { error.kind() } else { ErrorKind::Other };
            let mut noted = self.0.lock();
            // The first failure stays, except that a lack of room gives way to a worse one.
            if noted.as_ref().is_none_or(|before| before.kind != kind && kind == ErrorKind::Other) {
                *noted = Some(Noted { reason: format!("{verb}: {error}"), kind });
            }
        }
        result
    }
}

/// Whether an error of this kind is over as soon as there is room.
pub(super) fn is_room(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// A backend that notes what fails.
pub(super) struct Watched {
    pub(super) backend: Box<dyn StorageBackend>,
    pub(super) trouble: Trouble,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.backend.fmt(f)
    }
}

impl StorageBackend for Watched {
    fn len(&self) -> io::Result<u64> {
        self.trouble.note("size", self.backend.len(), false)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.backend.read(offset, out) {
            // A file that is too short is damaged; the disk did what was asked.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(error),
            result => self.trouble.note("read", result, false),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.trouble.note("resize", self.backend.set_len(len), true)
    }

    fn sync_data(&self) -> io::Result<()> {
        // Not even a sync that lacked room is forgiven: the kernel may have dropped the pages.
        self.trouble.note("sync", self.backend.sync_data(), false)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.trouble.note("write", self.backend.write(offset, data), true)
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }

    // redb keeps other processes out of the file by these locks, also when the lock file was
    // removed.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.query_lock_range(start, end)
    }
}
