//! A data file that is only read: what the database writes while it opens one that was not closed
//! stays in memory. Owns those pages; must not know what is in them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use redb::StorageBackend;

use super::file::{DataFile, Loaded, in_use};
use super::folder::Folder;
use crate::OpenError;

/// Reads everything, and compares every checksum, of a data file that is not being written. The file stays
/// as it is, so it may be on a disk that cannot be written.
pub(super) fn read(path: &Path) -> Result<Loaded, OpenError> {
    let io = |source| OpenError::Io { what: "read", path: path.display().to_string(), source };
    let file = File::open(path).map_err(io)?;
    // A server has the file itself locked, also when somebody removed its lock file.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => return Err(in_use(path)),
        Err(TryLockError::Error(source)) => return Err(io(source)),
        Ok(()) => {}
    }
    // The lock goes with the file, so no server opens it while it is read.
    let (opened, loaded) = DataFile::open(&ReadOnly { path: path.to_owned(), file })?;
    opened.close();
    Ok(loaded)
}

/// The folder of a data file that stays as it is.
struct ReadOnly {
    path: PathBuf,
    file: File,
}

impl Folder for ReadOnly {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        // A clone shares the lock, and stays with this file when another one takes its name.
        Ok(Box::new(Overlay::new(self.file.try_clone()?)?))
    }

    fn create(&self) -> io::Result<Box<dyn StorageBackend>> {
        // Never reached by `DataFile::open`: `bytes` has found the file.
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }

    fn replace(&self) -> io::Result<()> {
        Err(ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self) {}

    fn bytes(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.file.metadata()?.len()))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

const PAGE_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) struct Overlay {
    file: File,
    file_bytes: u64,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    bytes: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let file_bytes = file.metadata()?.len();
        Ok(Self {
            file,
            file_bytes,
            written: Mutex::new(Written { bytes: file_bytes, pages: BTreeMap::new() }),
        })
    }

    /// A page as it is in the file; zeros behind its end.
    fn page(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut page = vec![0; PAGE_BYTES as usize];
        let start = number * PAGE_BYTES;
        // A page at most, so the cast cuts nothing.
        let there = self.file_bytes.saturating_sub(start).min(PAGE_BYTES) as usize;
        self.file.read_exact_at(&mut page[..there], start)?;
        Ok(page)
    }

    /// Changes `length` bytes from `start` on. `each` gets where a part is in the whole, and the part.
    fn change(
        &self,
        written: &mut Written,
        start: u64,
        length: usize,
        mut each: impl FnMut(Range<usize>, &mut [u8]),
    ) -> io::Result<()> {
        Self::parts(start, length, |number, within, part| {
            let page = match written.pages.entry(number) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(free) => free.insert(self.page(number)?),
            };
            let end = within + part.len();
            each(part, &mut page[within..end]);
            Ok(())
        })
    }

    /// Calls `each` with the parts of `start..start + length` that lie in one page: its number, where in
    /// the page, and where in the whole.
    fn parts(
        start: u64,
        length: usize,
        mut each: impl FnMut(u64, usize, Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            let at = start + done as u64;
            let within = (at % PAGE_BYTES) as usize;
            let size = (PAGE_BYTES as usize - within).min(length - done);
            each(at / PAGE_BYTES, within, done..done + size)?;
            done += size;
        }
        Ok(())
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.lock().bytes)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written.lock();
        // As for a real file: the caller takes this kind of error for damage, not for a failing
        // disk.
        if offset.saturating_add(out.len() as u64) > written.bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        // Opening a file that was closed in order writes nothing, and reads then need no copies of
        // pages.
        if written.pages.is_empty() && offset + out.len() as u64 <= self.file_bytes {
            return self.file.read_exact_at(out, offset);
        }
        Self::parts(offset, out.len(), |number, within, part| {
            let size = part.len();
            match written.pages.get(&number) {
                Some(page) => out[part].copy_from_slice(&page[within..within + size]),
                None => out[part].copy_from_slice(&self.page(number)?[within..within + size]),
            }
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written.lock();
        // What is behind a shorter end reads as zeros when the file grows again.
        let behind = usize::try_from(written.bytes.saturating_sub(len)).map_err(io::Error::other)?;
        self.change(&mut written, len, behind, |_, page| page.fill(0))?;
        written.bytes = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        // Opening a file that was not closed writes and syncs. That must succeed and leave the disk
        // alone.
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock();
        self.change(&mut written, offset, data.len(), |part, page| page.copy_from_slice(&data[part]))?;
        written.bytes = written.bytes.max(offset + data.len() as u64);
        Ok(())
    }
}
