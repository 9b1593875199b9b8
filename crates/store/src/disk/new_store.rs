//! Puts a whole new store into a data directory, in one step: at any moment there is none, or all of
//! it. Must not know where the objects come from.

use std::path::Path;

use super::file::{DataFile, Loaded, io_error};
use super::folder::RealFolder;
use super::{FILE, overlay};
use crate::data_dir::{DataDir, OpenError};
use crate::ordered::Ordered;
use crate::{KeyId, MemoryStore, Page, Revision};
use capstan_base::time::Timestamp;

/// The right to put a new store into a data directory, which is held meanwhile.
pub struct NewStore {
    dir: DataDir,
    floor: Revision,
}

impl NewStore {
    /// Takes a directory that has no store, or had one, or has an empty one. Nothing is made yet but
    /// the folder.
    ///
    /// # Errors
    /// [`OpenError`]: held, not ours, or [`OpenError::Occupied`].
    pub fn begin(dir: &Path, now: Timestamp) -> Result<Self, OpenError> {
        let dir = DataDir::acquire(dir, now)?;
        let mut floor = dir.start();
        if dir.has(FILE)? {
            let loaded = overlay::read(&dir.file(FILE))?;
            if loaded.objects.iter().next().is_some() {
                return Err(OpenError::Occupied { dir: dir.path().display().to_string() });
            }
            // An empty store counts as none, but its revisions were given out.
            floor = floor.max(loaded.revision);
        }
        Ok(Self { dir, floor })
    }

    /// Makes an empty store where one is gone, above every revision that it may have given out.
    ///
    /// # Errors
    /// [`OpenError`], [`OpenError::Present`] for one.
    pub fn empty(dir: &Path, now: Timestamp) -> Result<(), OpenError> {
        let dir = DataDir::acquire(dir, now)?;
        if dir.has(FILE)? {
            return Err(OpenError::Present { dir: dir.path().display().to_string() });
        }
        let floor = dir.start();
        Self { dir, floor }.finish(&MemoryStore::new(), None)
    }

    /// Every revision of the new store has to be above this one.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// Makes the data file with everything that `content` holds, and no history. `sealed_with` names the key that sealed all of
    /// it that has to be.
    ///
    /// # Errors
    /// [`OpenError::Io`]; there is no store then.
    pub fn finish(mut self, content: &MemoryStore, sealed_with: Option<KeyId>) -> Result<(), OpenError> {
        let Page { entries, revision, .. } = content.all();
        let mut objects = Ordered::default();
        entries.into_iter().for_each(|entry| objects.insert(entry));
        let revision = revision.max(self.floor);
        let content = Loaded { objects, revision, compacted: revision, changes: Vec::new(), sealed_with };
        let folder = RealFolder::of(&self.dir.file(FILE));
        let file = DataFile::create(&folder, &content).map_err(|failed| failed.error)?;
        if let Some(source) = file.close() {
            return Err(io_error("make", &folder, source));
        }
        // The mark follows the file: a mark without a file means a store that vanished.
        self.dir.reserve(revision);
        Ok(())
    }
}
