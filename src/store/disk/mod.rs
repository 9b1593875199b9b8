//! The store in one file: durable before acknowledged, many writers per commit.
//!
//! One thread writes. It takes whatever waits, evaluates it in order, commits once with immediate
//! durability (objects, revision and the undo log in the same transaction), makes the result
//! visible, and only then answers. Reads and watches come from the image in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use super::data_dir::{DataDir, OpenError};
use super::history::Bounds;
use super::image::Image;
use super::stage::{Packed, Stage};
use super::{Entry, Error, Outcome, Page, Range, Revision, Store, Txn, Watch};

mod check;
mod contain;
mod file;
mod record;

pub use check::{Checked, Repaired};
use file::DataFile;

/// The data file's name in its directory.
const FILE: &str = "store.redb";

/// Writers waiting before new ones have to wait to be heard.
const QUEUE_MAX: usize = 4096;
/// Most transactions in one commit.
const GROUP_MAX: usize = 1024;

/// The on-disk store. Clones share it; the file is released when the last one is dropped.
#[derive(Clone)]
pub struct DiskStore {
    image: Image,
    writer: Arc<WriterThread>,
}

/// Ends the writer when the last store is dropped, and waits for it: afterwards the directory is free.
struct WriterThread {
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.requests.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Request {
    what: Asked,
    answer: oneshot::Sender<Result<Outcome, Error>>,
}

/// What the writer may be asked.
enum Asked {
    Txn(Packed),
    /// That every later revision is above this one.
    Raise(Revision),
}

impl DiskStore {
    /// Opens or creates the store in `dir`. Reads everything once, so call it off the async threads
    /// when the store may be large. `now` is only written into the lock file.
    ///
    /// # Errors
    /// [`OpenError`]: held by another process, damaged, of another format, or not accessible.
    pub fn open(dir: &Path, now: crate::time::Timestamp) -> Result<Self, OpenError> {
        Self::open_bounded(dir, now, Bounds::default())
    }

    pub(super) fn open_bounded(
        dir: &Path,
        now: crate::time::Timestamp,
        bounds: Bounds,
    ) -> Result<Self, OpenError> {
        let dir = DataDir::acquire(dir, now)?;
        let path = dir.file(FILE);
        let (file, loaded) = DataFile::open(&path)?;
        let image = Image::new(loaded.objects, loaded.revision, loaded.compacted, loaded.changes, bounds);
        let (requests, inbox) = mpsc::channel(QUEUE_MAX);
        let writer = Writer { file: Some(file), path: path.clone(), image: image.clone(), _dir: dir };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(inbox))
            .map_err(|source| OpenError::Io {
                what: "start a thread for",
                path: path.display().to_string(),
                source,
            })?;
        Ok(Self { image, writer: Arc::new(WriterThread { requests: Some(requests), thread: Some(thread) }) })
    }
}

impl DiskStore {
    async fn ask(&self, what: Asked) -> Result<Outcome, Error> {
        let (answer, answered) = oneshot::channel();
        let requests = self.writer.requests.as_ref().ok_or(Error::Closed)?;
        requests.send(Request { what, answer }).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }
}

struct Writer {
    /// `None` after a failed write until it could be opened again.
    file: Option<DataFile>,
    path: PathBuf,
    image: Image,
    _dir: DataDir,
}

impl Writer {
    fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        while let Some(first) = inbox.blocking_recv() {
            let mut group = vec![first];
            while group.len() < GROUP_MAX {
                let Ok(next) = inbox.try_recv() else { break };
                group.push(next);
            }
            self.commit(group);
        }
    }

    fn commit(&mut self, group: Vec<Request>) {
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
        let nothing = stage.revision() == self.image.revision();
        let result = if nothing { Ok(()) } else { self.write(&stage) };
        if result.is_ok() {
            let revision = stage.revision();
            self.image.write(|state| state.publish(stage.into_changes()));
            self.image.advance(revision);
        }
        for (answer, outcome) in answers {
            // Whoever asked may have gone; the write stands all the same.
            let _ = answer.send(result.clone().map(|()| outcome));
        }
    }

    /// Makes the stage durable. After a failure the file is opened again, and its revision tells
    /// whether the commit got through.
    fn write(&mut self, stage: &Stage) -> Result<(), Error> {
        let failed = |reason: String| Error::Write { path: self.path.display().to_string(), reason };
        let file = match self.file.take() {
            Some(file) => file,
            None => DataFile::reopen(&self.path).map_err(|e| failed(e.to_string()))?.0,
        };
        let log_end = self.image.compacted();
        match file.commit(stage.changes(), stage.revision(), log_end) {
            Ok(()) => {
                self.file = Some(file);
                Ok(())
            }
            Err(reason) => {
                tracing::error!("{}: {reason}", self.path.display());
                drop(file);
                let (file, revision) = DataFile::reopen(&self.path).map_err(|_| failed(reason.clone()))?;
                self.file = Some(file);
                if revision == stage.revision() { Ok(()) } else { Err(failed(reason)) }
            }
        }
    }
}

#[async_trait]
impl Store for DiskStore {
    async fn revision(&self) -> Result<Revision, Error> {
        Ok(self.image.revision())
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        Ok(self.image.get(key))
    }

    async fn range(&self, range: Range<'_>) -> Result<Page, Error> {
        self.image.range(range)
    }

    async fn txn(&self, txn: Txn) -> Result<Outcome, Error> {
        self.ask(Asked::Txn(Packed::from(txn))).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        self.image.watch(prefix, after)
    }

    /// The file follows with the next write.
    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.image.compact(upto);
        Ok(())
    }

    async fn raise(&self, floor: Revision) -> Result<(), Error> {
        self.ask(Asked::Raise(floor)).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
