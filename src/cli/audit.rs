//! The file of the audit log: private, a regular file of its own, and begun anew after it was moved away. Must not
//! know what is written.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::args::StandaloneArgs;
use capstan_apiserver::audit::AuditLog;
use capstan_base::private_file;

/// Time between two checks that the file is still in its place.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The log that the arguments ask for.
///
/// # Errors
/// It cannot be opened, is not a regular file, or others may read it.
pub fn of(args: &StandaloneArgs) -> anyhow::Result<Option<Arc<AuditLog>>> {
    let bytes_max = args.audit_log_maxsize.map(|megabytes| megabytes << 20);
    args.audit_log.as_deref().map(|path| start(path, bytes_max)).transpose()
}

/// Opens `path` for a log, which goes on where an earlier one ended. A file that would get longer than `bytes_max` is kept as
/// PATH.1, in the place of the one before it.
///
/// # Errors
/// It cannot be opened, is not a regular file, or others may read it.
fn start(path: &Path, bytes_max: Option<u64>) -> anyhow::Result<Arc<AuditLog>> {
    let file = AuditFile::open(path, bytes_max).context("--audit-log")?;
    Ok(Arc::new(AuditLog::start(file).context("--audit-log")?))
}

struct AuditFile {
    path: PathBuf,
    file: File,
    looked: Instant,
    bytes: u64,
    bytes_max: Option<u64>,
}

impl AuditFile {
    fn open(path: &Path, bytes_max: Option<u64>) -> io::Result<Self> {
        let file = open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, looked: Instant::now(), bytes, bytes_max })
    }

    fn begin(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.bytes = self.file.metadata()?.len();
        Ok(())
    }

    /// Makes room for so many bytes more.
    fn rotate(&mut self, more: usize) -> io::Result<()> {
        let is_full = self.bytes_max.is_some_and(|max| self.bytes.saturating_add(more as u64) > max);
        // An event that is longer than the bound gets a file of its own.
        if !is_full || self.bytes == 0 {
            return Ok(());
        }
        let mut kept = self.path.clone().into_os_string();
        kept.push(".1");
        std::fs::rename(&self.path, kept)?;
        self.begin()
    }

    /// After the file was renamed or removed, as rotation of logs does, the next event begins another.
    fn follow(&mut self) -> io::Result<()> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        // A rotated file keeps its inode under another name, and what is written would go there.
        let place = |found: &Metadata| (found.dev(), found.ino());
        let ours = place(&self.file.metadata()?);
        if !std::fs::symlink_metadata(&self.path).is_ok_and(|found| place(&found) == ours) {
            self.begin()?;
        }
        Ok(())
    }
}

impl Write for AuditFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // First, so that the length that is judged next is that of the file in its place.
        self.follow()?;
        self.rotate(bytes.len())?;
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file that others may read is refused, because it was made for another purpose.
fn open(path: &Path) -> io::Result<File> {
    let file = private_file::append(path).map_err(io::Error::other)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        let path = path.display();
        return Err(io::Error::other(format!("others may use {path}; close it with: chmod 0600 {path}")));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_a_private_file_of_its_own_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("others"), "kept").expect("a file");
        fs::set_permissions(at("others"), fs::Permissions::from_mode(0o644)).expect("a mode");
        fs::write(at("target"), "kept").expect("a file");
        std::os::unix::fs::symlink(at("target"), at("link")).expect("a link");
        fs::create_dir(at("folder")).expect("a folder");
        for name in ["others", "link", "folder", "missing/audit"] {
            assert!(AuditFile::open(&at(name), None).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(at("others")).expect("text"), "kept");
        assert_eq!(fs::read_to_string(at("target")).expect("text"), "kept");
        let mut file = AuditFile::open(&at("audit"), None).expect("a new file");
        file.write_all(b"1\n").expect("written");
        AuditFile::open(&at("audit"), None).expect("the same").write_all(b"2\n").expect("written");
        assert_eq!(fs::read_to_string(at("audit")).expect("text"), "1\n2\n");
        assert_eq!(fs::metadata(at("audit")).expect("there").mode() & 0o777, 0o600);
    }

    #[test]
    fn a_log_that_was_moved_away_is_begun_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, old) = (folder.path().join("audit"), folder.path().join("audit.1"));
        let mut file = AuditFile::open(&path, None).expect("a new file");
        file.write_all(b"1\n").expect("written");
        fs::rename(&path, &old).expect("moved");
        file.looked -= LOOK_EVERY;
        file.write_all(b"2\n").expect("written");
        assert_eq!(fs::read_to_string(&old).expect("text"), "1\n");
        assert_eq!(fs::read_to_string(&path).expect("text"), "2\n");
    }

    #[test]
    fn a_full_log_is_kept_once_and_no_line_is_split() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, old) = (folder.path().join("audit"), folder.path().join("audit.1"));
        for line in ["1111\n", "2222\n", "3333\n", "a line that is longer than a file may be\n", "4444\n"] {
            // Also one that was begun by an earlier process is counted.
            let mut file = AuditFile::open(&path, Some(12)).expect("a file");
            file.write_all(line.as_bytes()).expect("written");
        }
        let read = |path: &Path| fs::read_to_string(path).expect("text");
        assert_eq!(read(&old), "a line that is longer than a file may be\n");
        assert_eq!(read(&path), "4444\n");
        let names = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(names, 2, "the one before it is gone");
    }
}
