//! Files that only their owner may read. They are written whole or not at all, and never in the place
//! of something that is not a regular file of ours: no device, pipe, link or folder, and nobody else's
//! file. Owns these checks and the words for them; must not know what is in a file.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write};
use std::ops::Deref;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Why a file is not read or written, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{path} is {found}, not a regular file; it stays as it is: choose another path")]
    NotRegular { path: String, found: &'static str },
    #[error("{path} belongs to user {owner}; it stays as it is: choose another path")]
    NotOurs { path: String, owner: u32 },
    #[error("others can read {path} (mode {mode:04o}); close it with: chmod 0600 {path}")]
    NotPrivate { path: String, mode: u32 },
    #[error("cannot {what} {path}: {source}")]
    Io { what: &'static str, path: String, source: io::Error },
}

/// The user this process acts as.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What a file is, for sentences.
pub fn kind(found: FileType) -> &'static str {
    if found.is_dir() {
        "a folder"
    } else if found.is_symlink() {
        "a symbolic link"
    } else if found.is_fifo() {
        "a named pipe"
    } else if found.is_socket() {
        "a socket"
    } else if found.is_file() {
        "a regular file"
    } else {
        "a device"
    }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError::Io { what, path: path.display().to_string(), source }
}

/// Makes the folder of a file, for its owner alone, where there is none.
///
/// # Errors
/// [`FileError::Io`].
pub fn make_folder_of(path: &Path) -> Result<(), FileError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io_error("make", folder))
}

/// Refuses to write where something stands that is not a regular file of ours. Nothing is fine.
///
/// # Errors
/// [`FileError`].
pub fn check_target(path: &Path) -> Result<(), FileError> {
    match fs::symlink_metadata(path) {
        Ok(found) => check_ours(path, &found),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error("look at", path)(error)),
    }
}

fn check_ours(path: &Path, found: &Metadata) -> Result<(), FileError> {
    check_regular(path, found)?;
    if found.uid() != user() {
        return Err(FileError::NotOurs { path: path.display().to_string(), owner: found.uid() });
    }
    Ok(())
}

fn check_regular(path: &Path, found: &Metadata) -> Result<(), FileError> {
    if found.is_file() {
        return Ok(());
    }
    Err(FileError::NotRegular { path: path.display().to_string(), found: kind(found.file_type()) })
}

/// Opens without following a link and without waiting for the other end of a pipe.
fn careful() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

/// Opens a regular file of ours to read and write it, made (0600) if it is not there. Its content stays.
///
/// # Errors
/// [`FileError`]; also a file with a second name, which may be anybody's.
pub fn open_kept(path: &Path) -> Result<File, FileError> {
    // A look comes before opening, which alone may set off something in a device.
    check_target(path)?;
    let opened = careful().read(true).write(true).create(true).truncate(false).open(path);
    let file = opened.map_err(io_error("open", path))?;
    let found = file.metadata().map_err(io_error("open", path))?;
    // What was opened counts: something else may be at the path since the first look.
    check_ours(path, &found)?;
    if found.nlink() > 1 {
        let found = "a file with several names";
        return Err(FileError::NotRegular { path: path.display().to_string(), found });
    }
    Ok(file)
}

/// Opens a regular file to add to its end, made (0600) if it is not there.
///
/// # Errors
/// [`FileError`].
pub fn append(path: &Path) -> Result<File, FileError> {
    check_target(path)?;
    let file = careful().append(true).create(true).open(path).map_err(io_error("open", path))?;
    check_ours(path, &file.metadata().map_err(io_error("open", path))?)?;
    Ok(file)
}

/// What is in a file that holds a secret; `None`: it is not there. A link to it is followed.
///
/// # Errors
/// [`FileError`]; also when others may read it, or it belongs to somebody who is neither us nor root.
pub fn read_secret(path: &Path) -> Result<Option<String>, FileError> {
    let Some((mut file, found)) = open_regular(path)? else { return Ok(None) };
    let mode = found.permissions().mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(FileError::NotPrivate { path: path.display().to_string(), mode });
    }
    if found.uid() != user() && found.uid() != 0 {
        return Err(FileError::NotOurs { path: path.display().to_string(), owner: found.uid() });
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(io_error("read", path))?;
    Ok(Some(text))
}

/// What is in a text file; `None`: it is not there.
///
/// # Errors
/// [`FileError`].
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    let Some((mut file, _)) = open_regular(path)? else { return Ok(None) };
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(io_error("read", path))?;
    Ok(Some(text))
}

/// Opens a regular file to read it, with what is known of it; `None`: it is not there.
///
/// # Errors
/// [`FileError`].
pub fn open_regular(path: &Path) -> Result<Option<(File, Metadata)>, FileError> {
    // Without this flag opening a pipe waits for its other end.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("read", path)(error)),
    };
    let found = file.metadata().map_err(io_error("read", path))?;
    check_regular(path, &found)?;
    Ok(Some((file, found)))
}

/// Replaces a file by one with this text, durably.
///
/// # Errors
/// [`FileError`].
pub fn write(path: &Path, text: &str) -> Result<(), FileError> {
    let mut file = NewFile::create(path)?;
    file.write_all(text.as_bytes()).map_err(io_error("write", path))?;
    file.publish()
}

/// Makes the name of what is at `path` durable.
///
/// # Errors
/// Of the disk.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()) {
        // Not every kind of disk has it, and a folder of somebody else need not let us.
        Err(error) if [ErrorKind::InvalidInput, ErrorKind::PermissionDenied].contains(&error.kind()) => {
            Ok(())
        }
        synced => synced,
    }
}

/// Names that are being written to.
static IN_USE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A name beside a path that no other thread writes to: of two that write one file at once, one would publish what the other has
/// only begun.
#[derive(Debug)]
struct FreshName(PathBuf);

impl FreshName {
    fn beside(path: &Path) -> Self {
        let process = std::process::id();
        let named = |end: String| {
            let mut name = path.file_name().unwrap_or_default().to_os_string();
            name.push(end);
            path.with_file_name(name)
        };
        let mut in_use = IN_USE.lock();
        let (mut fresh, mut number) = (named(format!(".{process}.new")), 1);
        while !in_use.insert(fresh.clone()) {
            number += 1;
            fresh = named(format!(".{process}.{number}.new"));
        }
        Self(fresh)
    }
}

impl Deref for FreshName {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for FreshName {
    fn drop(&mut self) {
        IN_USE.lock().remove(&self.0);
    }
}

/// A file under a name of its own, which takes its place when it is whole; removed when dropped before.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    fresh: FreshName,
    file: File,
    published: bool,
}

impl NewFile {
    /// # Errors
    /// [`FileError`].
    pub fn create(path: &Path) -> Result<Self, FileError> {
        check_target(path)?;
        let fresh = FreshName::beside(path);
        // One that a process with the same number left behind: in containers the number is always 1.
        check_target(&fresh)?;
        match fs::remove_file(&*fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io_error("replace", &fresh)(error));
            }
            _ => {}
        }
        let file = careful().write(true).create_new(true).open(&*fresh).map_err(io_error("create", path))?;
        Ok(Self { path: path.to_owned(), fresh, file, published: false })
    }

    /// Makes the file durable and gives it its name, over a regular file of ours.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn publish(mut self) -> Result<(), FileError> {
        let path = &self.path;
        self.file.sync_all().map_err(io_error("write", path))?;
        // Something else may be at the path since `create`, and the rename would replace it.
        check_target(path)?;
        fs::rename(&*self.fresh, path).map_err(io_error("replace", path))?;
        // The fresh name is gone from here on, so there is nothing to remove even if the sync
        // fails.
        self.published = true;
        sync_folder_of(path).map_err(io_error("make", path))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.published {
            // Nothing depends on it.
            let _ = fs::remove_file(&*self.fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn fifo(path: &Path) {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    }

    /// `--kubeconfig-out /dev/null`, as root, removed the machine's /dev/null.
    #[test]
    fn what_is_not_a_regular_file_of_ours_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fifo(&at("pipe"));
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("file"), "kept").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (name, found) in [
            ("pipe", "a named pipe"),
            ("folder", "a folder"),
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("socket", "a socket"),
        ] {
            let before = fs::symlink_metadata(at(name)).unwrap();
            let refusals =
                [write(&at(name), "new").err(), append(&at(name)).err(), open_kept(&at(name)).err()];
            for refusal in refusals {
                let said = refusal.expect("refused").to_string();
                assert!(said.contains(&format!("{name} is {found}, not a regular file")), "{said}");
            }
            let after = fs::symlink_metadata(at(name)).unwrap();
            assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()), "{name}");
        }
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "kept");
        assert!(!at("nowhere").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6, "nothing was left behind");
    }

    #[test]
    fn a_device_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("null");
        let null = rustix::fs::makedev(1, 3);
        let kind = rustix::fs::FileType::CharacterDevice;
        if rustix::fs::mknodat(rustix::fs::CWD, &path, kind, 0o666.into(), null).is_err() {
            println!("skipped: only root may make devices");
            return;
        }
        for refusal in [write(&path, "new").err(), append(&path).err()] {
            assert!(refusal.expect("refused").to_string().contains("null is a device, not a regular file"));
        }
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_file_of_somebody_else_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs");
        fs::write(&path, "kept").unwrap();
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            println!("skipped: only root may give files away");
            return;
        }
        for refusal in [write(&path, "new").err(), append(&path).err(), open_kept(&path).err()] {
            assert!(refusal.expect("refused").to_string().contains("theirs belongs to user 65534"));
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    }

    #[test]
    fn a_file_is_replaced_whole_and_private_or_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let leftover = folder.path().join(format!("file.{}.new", std::process::id()));
        fs::write(&leftover, "of a process with the same number").unwrap();
        let mut half = NewFile::create(&path).unwrap();
        half.write_all(b"ne").unwrap();
        drop(half);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        write(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert!(!leftover.exists());
        assert_eq!(read_secret(&path).unwrap().as_deref(), Some("new"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let said = read_secret(&path).unwrap_err().to_string();
        assert!(said.contains("(mode 0644)") && said.contains("chmod 0600 "), "{said}");
    }

    #[test]
    fn a_file_that_several_threads_write_at_once_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::thread::scope(|scope| {
            for text in ["a", "b", "c", "d"].map(|letter| letter.repeat(100_000)) {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..25 {
                        write(path, &text).unwrap();
                    }
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() == 100_000 && text.chars().all(|c| text.starts_with(c)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_with_a_second_name_is_not_opened_for_writing() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "kept").unwrap();
        fs::hard_link(&one, &two).unwrap();
        assert!(open_kept(&two).unwrap_err().to_string().contains("two is a file with several names"));
    }
}
