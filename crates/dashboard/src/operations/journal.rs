//! The append-only record of actions, one JSON line each, in a file that only its owner can read. An action leaves
//! a line before its request is sent (`asked`) and one after the answer (`done`, `failed`), unless people still have to finish it.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use capstan_base::private_file;
use capstan_base::time::{self, Timestamp};

/// So much of the end of the journal is looked through.
const READ_BACK_BYTES: u64 = 256 * 1024;

/// Where lines go. Cloning shares the path, not a handle: each line opens, appends, closes.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
}

#[derive(Debug, Serialize)]
pub struct Entry<'a> {
    /// RFC 3339, UTC, whole seconds.
    pub at: String,
    /// `asked`, `done`, or `failed`.
    pub outcome: &'a str,
    pub user: &'a str,
    #[serde(flatten)]
    pub about: About<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

/// What a line is about.
#[derive(Debug, Default, Serialize)]
pub struct About<'a> {
    pub server: &'a str,
    pub action: &'a str,
    /// Group and version in which it is written.
    pub api_version: String,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// The resourceVersion that the person saw, or the change that was shown.
    pub seen: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<&'a Value>,
    /// The merge patch that puts back what `patch` changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<&'a Value>,
    /// What is made first, `KIND/NAME`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<String>,
}

/// What an earlier line says that was done to an object.
#[derive(Clone, Debug, Deserialize)]
pub struct Done {
    pub at: String,
    pub user: String,
    pub action: String,
    outcome: String,
    server: String,
    uid: String,
    /// `None` in lines of earlier releases.
    #[serde(default)]
    pub api_version: Option<String>,
    #[serde(default)]
    pub patch: Option<Value>,
    #[serde(default)]
    pub back: Option<Value>,
}

/// RFC 3339 for [`Entry::at`].
pub fn stamp(now: Timestamp) -> String {
    time::rfc3339(now)
}

impl Journal {
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one line and waits until it is on disk.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn append(&self, entry: &Entry<'_>) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut file = self.open()?;
        // One write with the end of the line in it, so that lines of two processes do not mix.
        file.write_all(&line)?;
        file.sync_data()
    }

    /// The last thing that was done from here to the object with this uid, as far as the end of the journal goes back. Lines
    /// that cannot be read are passed over.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn last_done(&self, server: &str, uid: &str) -> std::io::Result<Option<Done>> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        // The first line may be cut, and is left out as one that cannot be read.
        let from = file.metadata()?.len().saturating_sub(READ_BACK_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        file.take(READ_BACK_BYTES).read_to_end(&mut end)?;
        let is_of = |done: &Done| done.outcome == "done" && done.server == server && done.uid == uid;
        Ok(end
            .split(|byte| *byte == b'\n')
            .rev()
            .filter_map(|line| serde_json::from_slice(line).ok())
            .find(is_of))
    }

    fn open(&self) -> std::io::Result<File> {
        if let Some(folder) = self.path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        // Not through a link: what is added may hold what a cluster says.
        private_file::append(&self.path).map_err(std::io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("journal.jsonl"));
        std::fs::write(&target, "").expect("a file");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let error = Journal::at(link).open().expect_err("a link").to_string();
        assert!(error.contains("is a symbolic link, not a regular file"), "{error}");
    }

    #[test]
    fn lines_are_appended_and_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::at(folder.path().join("deep/journal.jsonl"));
        let entry = Entry {
            at: stamp(Timestamp::default()),
            outcome: "done",
            user: "ada",
            about: About {
                server: "s",
                action: "scale",
                api_version: "cluster.x-k8s.io/v1beta2".to_owned(),
                kind: "MachineDeployment",
                namespace: "default",
                name: "md",
                uid: "u",
                seen: "7",
                ..About::default()
            },
            error: None,
        };
        assert!(journal.last_done("s", "u").expect("a missing file is read as empty").is_none());
        journal.append(&entry).expect("a line");
        journal.append(&entry).expect("another");
        let text = std::fs::read_to_string(journal.path()).expect("the file");
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|l| serde_json::from_str::<Value>(l).is_ok_and(|v| v["name"] == "md")));
        let done = journal.last_done("s", "u").expect("it is read").expect("there");
        assert_eq!((done.action.as_str(), done.user.as_str()), ("scale", "ada"));
        assert!(journal.last_done("s", "other").expect("it is read").is_none());
        assert!(journal.last_done("other", "u").expect("it is read").is_none());
        let mode = std::fs::metadata(journal.path()).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
