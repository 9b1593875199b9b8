//! Where connections are kept open, so that the next line to a host needs no new one. Owns the folder of control sockets and its
//! bounds; must not know which hosts there are.
//! Source: `ssh_config(5)`, ControlMaster, ControlPath, ControlPersist.

use std::fs::{DirBuilder, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// A path of a socket has at most 104 bytes (macOS; Linux 108): ssh adds a name of 40 digits, and 17 while it makes one.
const FOLDER_BYTES_MAX: usize = 104 - 1 - 1 - 40 - 17;
/// A connection that nobody uses ends by itself.
const KEPT_S: u32 = 60;

/// A folder of this user alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSockets {
    folder: PathBuf,
}

/// A folder in which nobody should keep connections.
#[derive(Debug, thiserror::Error)]
pub enum SocketsError {
    #[error("{path} is too long for control sockets of ssh: at most {max} bytes")]
    TooLong { path: String, max: usize },
    #[error(
        "{path} cannot be the folder for control sockets of ssh: expected a path without `%`, quotes and blanks"
    )]
    Words { path: String },
    #[error("cannot make {path} for control sockets of ssh: {reason}")]
    Make { path: String, reason: io::Error },
    #[error("{path} is not a folder of this user alone (0700): whoever can enter it could use connections")]
    Shared { path: String },
}

impl ControlSockets {
    /// The folder is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made, others can enter it, or its path is too long or has signs that ssh reads otherwise.
    pub fn at(folder: &Path) -> Result<Self, SocketsError> {
        let path = folder.display().to_string();
        if path.contains(['%', '"', ' ']) {
            return Err(SocketsError::Words { path });
        }
        if folder.as_os_str().len() > FOLDER_BYTES_MAX {
            return Err(SocketsError::TooLong { path, max: FOLDER_BYTES_MAX });
        }
        match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
            Err(reason) if reason.kind() != io::ErrorKind::AlreadyExists => {
                return Err(SocketsError::Make { path, reason });
            }
            _ => {}
        }
        let meta =
            symlink_metadata(folder).map_err(|reason| SocketsError::Make { path: path.clone(), reason })?;
        let is_own =
            meta.is_dir() && meta.mode() & 0o077 == 0 && meta.uid() == capstan_base::private_file::user();
        if is_own { Ok(Self { folder: folder.to_owned() }) } else { Err(SocketsError::Shared { path }) }
    }

    /// As options of ssh. Its own name of a connection leaves jump hosts out (before OpenSSH 9.6): an address that two of them lead to
    /// would be one machine. So a way through them has a name of its own, as long as ssh's.
    pub(super) fn options(&self, way: &str) -> [String; 3] {
        let digest = || Sha256::digest(way).iter().take(20).map(|byte| format!("{byte:02x}")).collect();
        let name: String = if way.is_empty() { "%C".to_owned() } else { digest() };
        [
            "ControlMaster=auto".to_owned(),
            format!("ControlPath={}/{name}", self.folder.display()),
            format!("ControlPersist={KEPT_S}"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("s");
        let sockets = ControlSockets::at(&folder).expect("made");
        assert_eq!(fs::metadata(&folder).expect("there").permissions().mode() & 0o777, 0o700);
        assert_eq!(sockets.options("")[1], format!("ControlPath={}/%C", folder.display()));
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("a mode");
        let error = ControlSockets::at(&folder).expect_err("shared").to_string();
        assert!(error.contains("is not a folder of this user alone"), "{error}");
        std::os::unix::fs::symlink(root.path(), root.path().join("link")).expect("a link");
        assert!(ControlSockets::at(&root.path().join("link")).is_err());
        let error = ControlSockets::at(&root.path().join("a b")).expect_err("a blank").to_string();
        assert!(error.ends_with("expected a path without `%`, quotes and blanks"), "{error}");
        let long = root.path().join("x".repeat(60));
        assert!(matches!(ControlSockets::at(&long), Err(SocketsError::TooLong { .. })));
    }
}
