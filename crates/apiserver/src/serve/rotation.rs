//! Tokens that change while the server runs: their files are looked at every second, and what is in
//! them then listens. Must not know requests.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::tls::{self, TOKEN_FILES};
use crate::{ApiServer, Tokens};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What shows that a file was written or replaced: inode, length, seconds and nanoseconds.
type Stamp = (u64, u64, i64, i64);

/// The token files of a folder, as they were when last read.
struct TokenFiles {
    folder: PathBuf,
    /// `None` for a file that is not there.
    seen: [Option<Stamp>; 2],
}

impl TokenFiles {
    fn stamps(&self) -> [Option<Stamp>; 2] {
        TOKEN_FILES.map(|name| {
            let found = fs::metadata(self.folder.join(name)).ok()?;
            Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
        })
    }

    /// The tokens, if their files changed since the last look. A file that is gone gets a new token, so
    /// that deleting it is a way to revoke one.
    fn changed(&mut self) -> Option<Tokens> {
        let stamps = self.stamps();
        if stamps == self.seen {
            return None;
        }
        match tls::tokens_in(&self.folder) {
            Ok(tokens) => {
                // A file that was made just now has its first stamp.
                self.seen = if stamps.contains(&None) { self.stamps() } else { stamps };
                Some(tokens)
            }
            Err(error) => {
                // It is read again at its next change: another process may be writing it now.
                self.seen = stamps;
                tracing::warn!("the tokens stay as they were: {error}");
                None
            }
        }
    }
}

/// Follows the token files in `folder` (see [`tls::kept_in`]) until dropped.
pub fn follow_tokens(folder: PathBuf, server: ApiServer) -> AbortOnDropHandle<()> {
    let mut files = TokenFiles { folder, seen: [None; 2] };
    files.seen = files.stamps();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            if let Some(tokens) = files.changed() {
                server.replace_tokens(tokens);
                tracing::info!("the tokens were read again");
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again_when_they_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = tls::tokens_in(folder.path()).expect("tokens");
        let mut files = TokenFiles { folder: folder.path().to_owned(), seen: [None; 2] };
        files.seen = files.stamps();
        assert!(files.changed().is_none());
        let fresh = "f".repeat(40);
        capstan_base::private_file::write(&folder.path().join("admin.token"), &fresh).expect("written");
        let second = files.changed().expect("changed");
        assert_eq!((second.admin.as_str(), &second.read_only), (fresh.as_str(), &first.read_only));
        // Half a token is none.
        fs::write(folder.path().join("admin.token"), "short").expect("written");
        assert!(files.changed().is_none());
        fs::remove_file(folder.path().join("admin.token")).expect("removed");
        let third = files.changed().expect("changed");
        assert!(third.admin != fresh && third.admin.len() >= 32);
        assert!(files.changed().is_none());
    }
}
