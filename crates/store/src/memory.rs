//! A store that is gone with its process: for demo, tests and rehearsal.

use async_trait::async_trait;

use super::history::Bounds;
use super::image::Image;
use super::ordered::Ordered;
use super::stage::{Packed, Stage};
use super::{Entry, Error, Outcome, Page, Range, Revision, Store, Txn, Watch};

/// The in-memory store. Clones share it.
#[derive(Clone)]
pub struct MemoryStore(Image);

impl MemoryStore {
    /// An empty store at revision 1, so that "0" never names a state.
    pub fn new() -> Self {
        Self::bounded(Bounds::default())
    }

    pub(super) fn bounded(bounds: Bounds) -> Self {
        Self(Image::new(Ordered::default(), 1, 1, Vec::new(), bounds))
    }

    /// What was read from elsewhere, without its history.
    pub(super) fn of(objects: Ordered, revision: Revision) -> Self {
        Self(Image::new(objects, revision, revision, Vec::new(), Bounds::default()))
    }

    pub(super) fn all(&self) -> Page {
        self.0.all()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn revision(&self) -> Result<Revision, Error> {
        Ok(self.0.revision())
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        Ok(self.0.get(key))
    }

    async fn range(&self, range: Range<'_>) -> Result<Page, Error> {
        self.0.range(range)
    }

    fn weight(&self, key: &str) -> usize {
        self.0.weight(key)
    }

    async fn txn(&self, txn: Txn) -> Result<Outcome, Error> {
        let packed = Packed::from(txn);
        // One lock from evaluation to publication: an expectation that held must still hold.
        Ok(self.0.write(|state| {
            let mut stage = Stage::new(state.revision);
            let outcome = stage.add(state, packed);
            state.publish(stage.into_changes());
            outcome
        }))
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        self.0.watch(prefix, after)
    }

    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.0.compact(upto);
        Ok(())
    }

    async fn raise(&self, floor: Revision) -> Result<(), Error> {
        self.0.advance(floor);
        Ok(())
    }
}
