//! The socket file: for programs of the same user that can speak HTTP over one (curl, kube-rs).
//! Owns who may connect; must not know what a request means.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use super::ListenError;
use capstan_base::private_file;

/// A socket file that is being listened on; removed when dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    listener: UnixListener,
    /// Whose file it is: the only one who may connect.
    owner: u32,
    /// Device and inode of the file: another server may have put its own in this place since.
    file: (u64, u64),
}

impl SocketFile {
    /// Listens on `path`, mode 0600, in a folder that only its owner can enter; makes the folder.
    ///
    /// # Errors
    /// [`ListenError::Socket`]: a folder others can enter, a file that is something else, a socket that
    /// another process serves.
    pub async fn bind(path: &Path) -> Result<Self, ListenError> {
        let failed = |why: String| ListenError::Socket { path: path.display().to_string(), why };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        private_folder(folder).map_err(&failed)?;
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                let kind = private_file::kind(found.file_type());
                return Err(failed(format!(
                    "it is {kind}, not a socket; it stays as it is: choose another path"
                )));
            }
            if found.uid() != private_file::user() {
                let owner = found.uid();
                return Err(failed(format!(
                    "it belongs to user {owner}; it stays as it is: choose another path"
                )));
            }
            // A server that was killed left its file: no process listens there, and the file may go.
            if UnixStream::connect(path).await.is_ok() {
                return Err(failed("another process serves it".to_owned()));
            }
            fs::remove_file(path).map_err(|error| failed(error.to_string()))?;
        }
        let listener = UnixListener::bind(path).map_err(|error| failed(error.to_string()))?;
        // Until then the folder keeps others out.
        let made = fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::metadata(path))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { path: path.to_owned(), listener, owner: made.uid(), file: (made.dev(), made.ino()) })
    }

    /// The next connection of the owner. Others are hung up on.
    ///
    /// # Errors
    /// What accepting fails with: out of file descriptors.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == self.owner => return Ok(stream),
                Ok(peer) => tracing::warn!("user {} may not use {}", peer.uid(), self.path.display()),
                Err(error) => tracing::warn!("a connection without credentials was closed: {error}"),
            }
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours =
            fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if ours {
            // A file that is gone already needs no removal.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn private_folder(folder: &Path) -> Result<(), String> {
    if !folder.exists() {
        return fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| format!("the folder {} cannot be made: {error}", folder.display()));
    }
    let found = fs::metadata(folder).map_err(|error| error.to_string())?;
    if found.uid() != private_file::user() {
        return Err(format!(
            "the folder {} belongs to user {}; use one of your own",
            folder.display(),
            found.uid()
        ));
    }
    if found.mode() & 0o077 != 0 {
        return Err(format!(
            "others can enter the folder {0}; close it with: chmod 0700 {0}",
            folder.display()
        ));
    }
    Ok(())
}
