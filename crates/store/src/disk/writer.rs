//! The one who writes: takes transactions in order, makes them durable together, then visible. Owns
//! what happens when that fails, and when the file is written anew. Must not know threads or clients.
//!
//! The image is what was acknowledged, so it decides. After a failed sync the kernel counts pages as
//! written that are not on the disk, and later syncs succeed without them: the file is not used again
//! by this process. The image goes into a new file instead, and no write is acknowledged before that
//! file and its name are durable. A write that found no room has harmed nothing; the file is opened
//! again and must then hold exactly what was acknowledged.

use std::time::Duration;

use tokio::sync::oneshot;

use super::file::{DataFile, Failed, Loaded, NotReplaced};
use super::folder::{Folder, is_room};
use super::renewal;
use crate::data_dir::OpenError;
use crate::history::Bounds;
use crate::image::Image;
use crate::stage::{Packed, Stage};
use crate::{Census, Error, KeyId, Outcome, Revision, Sealing};

/// Longest time between two attempts to write everything into a new file.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Who waits for what.
pub(super) struct Request {
    pub(super) what: Asked,
    pub(super) answer: oneshot::Sender<Result<Outcome, Error>>,
}

/// What the writer may be asked.
pub(super) enum Asked {
    Txn(Packed),
    /// That every later revision is above this one.
    Raise(Revision),
}

/// When a file is too large for what is in it. Writers wait while it is written anew, so a running
/// store does it only when that is quick.
pub(super) struct Slack {
    pub(super) file_bytes_min: u64,
    pub(super) used_bytes_max: u64,
}

impl Slack {
    pub(super) const AT_START: Self = Self { file_bytes_min: 16 << 20, used_bytes_max: u64::MAX };
    pub(super) const WHILE_RUNNING: Self = Self { file_bytes_min: 16 << 20, used_bytes_max: 16 << 20 };
    /// How much larger than its content a file may be.
    const FACTOR: u64 = 4;
}

pub(super) struct Writer {
    folder: Box<dyn Folder>,
    data: Data,
    image: Image,
    /// Time since some moment.
    elapsed: Box<dyn Fn() -> Duration + Send>,
    /// Size of the file when it was last written anew by this process.
    anew_bytes: u64,
    /// The key that sealed what is in the file.
    sealed_with: Option<KeyId>,
}

enum Data {
    Open(DataFile),
    /// There was no room. To be opened again.
    Closed,
    /// Not to be used again. A new one is needed.
    Distrusted(Distrust),
}

struct Distrust {
    reason: String,
    retry_at: Duration,
    pause: Duration,
}

impl Writer {
    /// Opens or creates the file in `folder` and reads everything. What is not sealed with the first key is, before anything
    /// is written or shown; the census says what there was.
    pub(super) fn open(
        folder: Box<dyn Folder>,
        bounds: Bounds,
        elapsed: Box<dyn Fn() -> Duration + Send>,
        sealing: &Sealing,
    ) -> Result<(Self, Census), OpenError> {
        let (mut file, mut loaded) = DataFile::open(&*folder)?;
        sealing
            .check(&format!("the data file {}", folder.path().display()), loaded.sealed_with.as_slice())?;
        let (census, differs) = renewal::renew(&mut loaded, sealing)?;
        if differs {
            // A file of its own, since the old one may hold values in clear in pages that are free by now. At any moment the
            // name stands for one of both, whole.
            file.close();
            file = DataFile::create(&*folder, &loaded).map_err(|failed| failed.error)?;
        }
        let sealed_with = loaded.sealed_with;
        let image = Image::new(loaded.objects, loaded.revision, loaded.compacted, loaded.changes, bounds);
        Ok((Self { folder, data: Data::Open(file), image, elapsed, anew_bytes: 0, sealed_with }, census))
    }

    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// Evaluates the group in order, makes it durable with one commit, then visible, then answers.
    pub(super) fn commit(&mut self, group: Vec<Request>) {
        let mut answers = Vec::with_capacity(group.len());
        let stage = self.image.read(|state| {
            let mut stage = Stage::new(state.revision);
            for request in group {
                let outcome = match request.what {
                    Asked::Txn(txn) => stage.add(state, txn),
                    Asked::Raise(floor) => stage.raise(floor),
                };
                answers.push((request.answer, outcome));
            }
            stage
        });
        // A group of conflicts and deletions of nothing takes no revision, and costs no sync.
        let nothing = stage.revision() == self.image.revision();
        let result = if nothing { Ok(()) } else { self.write(&stage) };
        // Visible before the answers: a client that has its answer reads its own write.
        if result.is_ok() {
            let revision = stage.revision();
            self.image.write(|state| state.publish(stage.into_changes()));
            // A raise is not a change, so publishing alone would leave the revision behind.
            self.image.advance(revision);
        }
        for (answer, outcome) in answers {
            // Whoever asked may have gone; the write stands all the same.
            let _ = answer.send(result.clone().map(|()| outcome));
        }
    }

    /// Makes the stage durable, in a new file if the last one cannot be used.
    fn write(&mut self, stage: &Stage) -> Result<(), Error> {
        match &self.data {
            Data::Open(_) => {}
            Data::Closed => self.reopen()?,
            Data::Distrusted(_) => self.recover()?,
        }
        // Either call above has left it open.
        let Data::Open(file) = &self.data else { return Err(Error::Closed) };
        let committed = file.commit(stage.changes(), stage.revision(), self.image.compacted());
        committed.map_err(|failed| self.after(failed))
    }

    /// The error of a failed commit, and what becomes of the file.
    fn after(&mut self, failed: Failed) -> Error {
        let path = self.folder.path().display().to_string();
        tracing::error!("{path}: {}", failed.reason);
        let trouble = match std::mem::replace(&mut self.data, Data::Closed) {
            Data::Open(file) => file.close(),
            Data::Closed | Data::Distrusted(_) => None,
        };
        if failed.only_room && trouble.is_none() {
            return match self.reopen() {
                Ok(()) => Error::Write { path, reason: failed.reason },
                // What the file holds is not known now: the write may be in it.
                Err(_) => Error::Unsynced { path, reason: failed.reason },
            };
        }
        let reason = trouble.map_or(failed.reason, |error| error.to_string());
        // There is no pause before the first attempt, which writes to other sectors of the disk.
        self.distrust(reason.clone(), Duration::ZERO);
        Error::Unsynced { path, reason }
    }

    /// Opens the file again after there was no room. It must hold what was acknowledged and no more.
    fn reopen(&mut self) -> Result<(), Error> {
        let reason = match DataFile::reopen(&*self.folder) {
            Ok((file, revision)) if revision == self.image.revision() => {
                self.data = Data::Open(file);
                return Ok(());
            }
            Ok((file, _)) => {
                file.close();
                "it holds a write that failed".to_owned()
            }
            Err(OpenError::Io { source, .. }) if is_room(source.kind()) => {
                // The data stays closed, so the next write opens the file again.
                let path = self.folder.path().display().to_string();
                return Err(Error::Write { path, reason: source.to_string() });
            }
            Err(error) => error.to_string(),
        };
        self.distrust(reason, Duration::ZERO);
        Err(self.suspended())
    }

    fn distrust(&mut self, reason: String, pause: Duration) {
        let distrust = Distrust { reason, retry_at: (self.elapsed)() + pause, pause };
        if let Data::Open(file) = std::mem::replace(&mut self.data, Data::Distrusted(distrust)) {
            // It is not used again, so what closing reports adds nothing.
            file.close();
        }
    }

    fn suspended(&self) -> Error {
        let (reason, left) = match &self.data {
            Data::Distrusted(distrust) => {
                (distrust.reason.clone(), distrust.retry_at.saturating_sub((self.elapsed)()))
            }
            _ => (String::new(), Duration::ZERO),
        };
        let path = self.folder.path().display().to_string();
        Error::Suspended { path, reason, retry_s: left.as_secs_f64().ceil() as u64 }
    }

    /// Writes everything into a new file, if it is time to try.
    fn recover(&mut self) -> Result<(), Error> {
        let Data::Distrusted(distrust) = &self.data else { return Ok(()) };
        if (self.elapsed)() < distrust.retry_at {
            return Err(self.suspended());
        }
        let pause = (distrust.pause * 2).clamp(Duration::from_secs(1), RETRY_MAX);
        let path = self.folder.path().display().to_string();
        match self.write_anew() {
            Ok(()) => {
                tracing::info!("{path}: everything was written into a new file; writes go on");
                Ok(())
            }
            Err(failed) => {
                tracing::error!("{path}: no new file could be written: {}", failed.error);
                self.distrust(failed.error.to_string(), pause);
                Err(self.suspended())
            }
        }
    }

    /// Puts a new file with what was acknowledged in the place of the old one.
    fn write_anew(&mut self) -> Result<(), NotReplaced> {
        // Values are shared: the copy is cheap, and readers are not locked out while the disk
        // works.
        let (objects, revision, compacted, changes) = self.image.read(|state| state.copy());
        let content = Loaded { objects, revision, compacted, changes, sealed_with: self.sealed_with };
        let file = DataFile::create(&*self.folder, &content)?;
        if let Data::Open(old) = std::mem::replace(&mut self.data, Data::Open(file)) {
            old.close();
        }
        self.anew_bytes = self.bytes();
        Ok(())
    }

    /// Size of the file; 0: not known.
    fn bytes(&self) -> u64 {
        self.folder.bytes().ok().flatten().unwrap_or(0)
    }

    /// Writes the file anew if it is much larger than what is in it.
    pub(super) fn shrink(&mut self, slack: &Slack) {
        let before = self.bytes();
        // One that was written anew and has hardly grown is not going to be smaller.
        if before < slack.file_bytes_min.max(self.anew_bytes * 2) || !matches!(self.data, Data::Open(_)) {
            return;
        }
        let used = self.image.read(|state| state.bytes());
        if used <= slack.used_bytes_max && used * Slack::FACTOR <= before {
            self.compact();
        }
    }

    /// Writes the file anew although nothing is wrong with it. It stays in use when that fails, unless
    /// it may have lost its name.
    pub(super) fn compact(&mut self) {
        let before = self.bytes();
        let written = self.write_anew();
        let path = self.folder.path().display();
        match written {
            Ok(()) => tracing::info!("{path}: written anew, {before} bytes became {}", self.anew_bytes),
            Err(failed) => {
                tracing::warn!("{path}: it stays at {before} bytes: {}", failed.error);
                if failed.renamed {
                    self.distrust(failed.error.to_string(), Duration::ZERO);
                }
            }
        }
    }
}
