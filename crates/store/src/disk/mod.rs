//! The store in one file: durable before acknowledged, many writers per commit.
//!
//! One thread writes. It takes whatever waits, evaluates it in order, commits once with immediate
//! durability (objects, revision and the undo log in the same transaction), makes the result
//! visible, and only then answers. Reads and watches come from the image in memory.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use super::data_dir::{DataDir, OpenError};
use super::history::Bounds;
use super::image::Image;
use super::stage::Packed;
use super::{Census, Entry, Error, Outcome, Page, Range, Revision, Sealing, Store, Txn, Watch};

mod check;
mod contain;
#[cfg(test)]
mod faults;
mod file;
mod folder;
mod new_store;
mod overlay;
mod record;
mod renewal;
mod salvage;
mod writer;

pub use check::{Checked, Repaired};
use file::{DataFile, Loaded};
use folder::{Folder, RealFolder};
pub use new_store::NewStore;
use writer::{Asked, Request, Slack, Writer};

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
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        // The thread ends when the last sender is gone; joined before that, it would never end.
        self.orders.take();
        if let Some(thread) = self.thread.take() {
            // Only a panic of the thread is an error here, and a drop cannot return it.
            let _ = thread.join();
        }
    }
}

/// What the writer's thread is sent.
enum Order {
    Write(Request),
    /// Look whether the file has become too large for what is in it.
    Shrink,
}

impl DiskStore {
    /// Opens or creates the store in `dir`. Reads everything once, so call it off the async threads
    /// when the store may be large. `now` is only written into the lock file.
    ///
    /// # Errors
    /// [`OpenError`]: held by another process, damaged, of another format, encrypted, or not accessible.
    pub fn open(dir: &Path, now: capstan_base::time::Timestamp) -> Result<Self, OpenError> {
        Self::open_bounded(dir, now, Bounds::default(), &Sealing::none()).map(|(store, _)| store)
    }

    /// The same for a store that is encrypted, or becomes so: what `sealing` covers and is not sealed with its first key is sealed
    /// anew, history included, and goes into a new file. The values are read through [`Sealed`](crate::Sealed). The census says
    /// what they were.
    ///
    /// # Errors
    /// As [`DiskStore::open`]; the file is as it was then, or sealed as a whole.
    pub fn open_sealed(
        dir: &Path,
        now: capstan_base::time::Timestamp,
        sealing: &Sealing,
    ) -> Result<(Self, Census), OpenError> {
        Self::open_bounded(dir, now, Bounds::default(), sealing)
    }

    pub(super) fn open_bounded(
        dir: &Path,
        now: capstan_base::time::Timestamp,
        bounds: Bounds,
        sealing: &Sealing,
    ) -> Result<(Self, Census), OpenError> {
        let mut dir = DataDir::acquire(dir, now)?;
        let folder = Box::new(RealFolder::of(&dir.file(FILE)));
        if !dir.has(FILE)? {
            dir.check_never_used(FILE)?;
            let revision = dir.start();
            let sealed_with = sealing.newest();
            let empty = Loaded { revision, compacted: revision, sealed_with, ..Loaded::default() };
            // What closing reports is not needed: opening drops the kernel's pages and verifies the
            // file.
            DataFile::create(&*folder, &empty).map_err(|failed| failed.error)?.close();
        }
        Self::start(folder, bounds, sealing, move |revision| dir.reserve(revision))
    }

    /// Opens the store in `folder` and starts its writer. `reserve` gets every revision before any
    /// reader does, and is kept until the writer has ended.
    fn start(
        folder: Box<dyn Folder>,
        bounds: Bounds,
        sealing: &Sealing,
        mut reserve: impl FnMut(Revision) + Send + 'static,
    ) -> Result<(Self, Census), OpenError> {
        let path = folder.path().display().to_string();
        let started = Instant::now();
        let elapsed = Box::new(move || started.elapsed());
        let (mut writer, census) = Writer::open(folder, bounds, elapsed, sealing)?;
        // No client waits for a write yet, so a large file is written anew here, too.
        writer.shrink(&Slack::AT_START);
        let image = writer.image().clone();
        reserve(image.revision());
        let (orders, inbox) = mpsc::channel(QUEUE_MAX);
        // A commit blocks on the disk, so it must not run on an async thread.
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(writer, inbox, reserve))
            .map_err(|source| OpenError::Io { what: "start a thread for", path, source })?;
        let writer = Arc::new(WriterThread { orders: Some(orders), thread: Some(thread) });
        Ok((Self { image, writer }, census))
    }

    async fn ask(&self, what: Asked) -> Result<Outcome, Error> {
        let (answer, answered) = oneshot::channel();
        let orders = self.writer.orders.as_ref().ok_or(Error::Closed)?;
        orders.send(Order::Write(Request { what, answer })).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }
}

/// The writer's thread: commits whatever waits, until the last store is dropped.
fn run(mut writer: Writer, mut inbox: mpsc::Receiver<Order>, mut reserve: impl FnMut(Revision)) {
    while let Some(first) = inbox.blocking_recv() {
        let (mut group, mut shrink) = (Vec::new(), false);
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Write(request) => group.push(request),
                Order::Shrink => shrink = true,
            }
            // Only what waits already: a commit is not held up for writers that may come.
            next = if group.len() < GROUP_MAX { inbox.try_recv().ok() } else { None };
        }
        let raised =
            group.iter().map(|request| if let Asked::Raise(floor) = request.what { floor } else { 0 });
        let highest = raised.max().unwrap_or(0).max(writer.image().revision());
        // A transaction takes at most one revision, and a raise may come first in the group.
        reserve(highest.saturating_add(group.len() as Revision));
        writer.commit(group);
        // Shrinking comes last, so that the writers of this group do not wait for it.
        if shrink {
            writer.shrink(&Slack::WHILE_RUNNING);
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

    fn weight(&self, key: &str) -> usize {
        self.image.weight(key)
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        self.image.watch(prefix, after)
    }

    /// The file follows with the next write, or when it is written anew because little of it is used.
    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.image.compact(upto);
        // Where the queue is full, the next compaction will do.
        let _ = self.writer.orders.as_ref().map(|orders| orders.try_send(Order::Shrink));
        Ok(())
    }

    async fn raise(&self, floor: Revision) -> Result<(), Error> {
        self.ask(Asked::Raise(floor)).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
