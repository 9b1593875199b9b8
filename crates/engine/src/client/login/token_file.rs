//! A bearer token that stands in a file: read again after a while, and once when the server does not accept it any more.
//! Must not know who writes the file.
//!
//! Source: client-go `transport/token_source.go` (`NewCachedFileTokenSource`), v0.32: read again each minute, ends trimmed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::time::Instant;

/// For how long a token is taken as it was read.
const KEPT: Duration = Duration::from_secs(60);

/// Why there is no token to send.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the token file {} cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("the token in {} has a character that no header may have", path.display())]
    NotAHeader { path: PathBuf },
}

/// The token of one file, shared by all requests.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    kept: Mutex<Option<(HeaderValue, Instant)>>,
}

impl TokenFile {
    /// # Errors
    /// [`TokenError`], before anything is sent.
    pub fn open(path: PathBuf) -> Result<Self, TokenError> {
        let file = Self { path, kept: Mutex::new(None) };
        file.header()?;
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The header. A file that is gone leaves the token that was read before.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn header(&self) -> Result<HeaderValue, TokenError> {
        let mut kept = self.kept.lock();
        match &*kept {
            Some((header, read_at)) if read_at.elapsed() < KEPT => return Ok(header.clone()),
            _ => {}
        }
        // Read under the lock: of many requests at once one reads the file.
        match (self.read(), kept.as_ref()) {
            (Ok(header), _) => {
                *kept = Some((header.clone(), Instant::now()));
                Ok(header)
            }
            (Err(_), Some((header, _))) => Ok(header.clone()),
            (Err(error), None) => Err(error),
        }
    }

    /// Another token than the refused one, if the file has one by now.
    pub fn renewed(&self, refused: &HeaderValue) -> Option<HeaderValue> {
        let header = self.read().ok().filter(|header| header != refused)?;
        *self.kept.lock() = Some((header.clone(), Instant::now()));
        Some(header)
    }

    fn read(&self) -> Result<HeaderValue, TokenError> {
        let text = std::fs::read_to_string(&self.path)
            .map_err(|error| TokenError::Unreadable { path: self.path.clone(), reason: error.to_string() })?;
        // A file ends with a line break as a rule, which no header can hold.
        let mut header = HeaderValue::try_from(format!("Bearer {}", text.trim()))
            .map_err(|_| TokenError::NotAHeader { path: self.path.clone() })?;
        header.set_sensitive(true);
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_trimmed_and_read_again_once_when_it_is_refused_and_each_minute() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write(" first\n");
        let file = TokenFile::open(path.clone()).expect("a token");
        let sent = || file.header().expect("a header");
        assert_eq!(sent(), "Bearer first");
        write("second\r\n");
        assert_eq!(sent(), "Bearer first", "kept");
        assert_eq!(file.renewed(&sent()).expect("another"), "Bearer second", "read again when refused");
        assert_eq!(sent(), "Bearer second");
        assert!(file.renewed(&sent()).is_none(), "the file has no other");
        write("fourth");
        tokio::time::advance(KEPT).await;
        assert_eq!(sent(), "Bearer fourth", "read again after a while");
        std::fs::remove_file(&path).expect("removed");
        tokio::time::advance(KEPT).await;
        assert_eq!(sent(), "Bearer fourth", "what was read stays");
        write("a\nb");
        assert!(matches!(TokenFile::open(path.clone()), Err(TokenError::NotAHeader { .. })));
        assert!(matches!(TokenFile::open(folder.path().join("none")), Err(TokenError::Unreadable { .. })));
    }
}
