//! A store over another one: what is written under the covered prefixes is sealed, what is read is opened. A value that does not
//! open is what an unreadable one is in any store: lists and watches leave it out, and its name can be asked for and deleted.
//! Must not know which store is below.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::renewal::{RenewError, renew, survey};
use super::sealing::{Census, Sealing, ValueState};
use super::value::SEALED_OVERHEAD;
use crate::{
    Blob, Change, Entry, Error, Key, Outcome, Page, Range, Revision, Store, Txn, TxnLimit, Watch, Write,
};

/// A range of more is opened beside the async threads.
const OPENED_AT_ONCE_BYTES_MAX: usize = 256 << 10;

/// Keys whose values do not open.
type Closed = Arc<Mutex<BTreeSet<Key>>>;

/// A store whose covered values are sealed in the one below.
#[derive(Clone)]
pub struct Sealed {
    inner: Arc<dyn Store>,
    sealing: Sealing,
    closed: Closed,
}

impl Sealed {
    pub fn new(inner: Arc<dyn Store>, sealing: Sealing) -> Self {
        Self { inner, sealing, closed: Closed::default() }
    }

    /// The same, after it was found that the keys are there with which the values of the store below are sealed. `place` names it
    /// in sentences.
    ///
    /// # Errors
    /// [`RenewError`]: a key is missing, or the store does not answer.
    pub async fn checked(
        inner: Arc<dyn Store>,
        sealing: Sealing,
        place: &str,
    ) -> Result<(Self, Census), RenewError> {
        let census = survey(&*inner, &sealing).await?;
        sealing.check_census(place, &census)?;
        let store = Self::new(inner, sealing);
        store.closed.lock().extend(census.closed.iter().map(|(key, _)| key.clone()));
        Ok((store, census))
    }

    /// The same, and what is in clear or has an older key is sealed with the first one.
    ///
    /// # Errors
    /// As [`Sealed::checked`]; some values may be sealed anew by then.
    pub async fn open(
        inner: Arc<dyn Store>,
        sealing: Sealing,
        place: &str,
    ) -> Result<(Self, Census), RenewError> {
        let (store, census) = Self::checked(inner, sealing, place).await?;
        if store.sealing.ring().is_some() && census.clear + census.older > 0 {
            renew(&*store.inner, &store.sealing).await?;
        }
        Ok((store, census))
    }

    fn seal(&self, txn: Txn) -> Result<Txn, Error> {
        if self.sealing.ring().is_none() {
            return Ok(txn);
        }
        let seal = |write| match write {
            Write::Put(key, value) => {
                let value = self.sealing.seal(&key, value);
                value.map(|value| Write::Put(key, value)).map_err(|error| Error::NotSealed(error.to_string()))
            }
            Write::Delete(key) => Ok(Write::Delete(key)),
        };
        Ok(Txn { expect: txn.expect, writes: txn.writes.into_iter().map(seal).collect::<Result<_, _>>()? })
    }

    /// The entries that open, and the keys of the others.
    async fn opened(&self, entries: Vec<Entry>) -> Result<(Vec<Entry>, Vec<Key>), Error> {
        let bytes: usize = entries.iter().map(|entry| entry.value.bytes()).sum();
        // Without keys nothing is opened.
        if bytes <= OPENED_AT_ONCE_BYTES_MAX || self.sealing.ring().is_none() {
            return Ok(open_all(&self.sealing, entries));
        }
        let sealing = self.sealing.clone();
        // Only a panic or the end of the process keeps it from an answer.
        tokio::task::spawn_blocking(move || open_all(&sealing, entries)).await.map_err(|_| Error::Closed)
    }

    /// Keeps the list of what does not open as a page of the present shows it: between `after` and the end of the page.
    async fn note(&self, range: Range<'_>, end: Option<&Key>, closed: Vec<Key>) -> Result<(), Error> {
        let closed = BTreeSet::from_iter(closed);
        let unknown: Vec<Key> = closed.difference(&self.closed.lock()).cloned().collect();
        let mut found = Vec::new();
        for key in unknown {
            // What did not open when the page was read, or in the past, may be another value by now.
            if self.get(&key).await?.is_some_and(|entry| entry.value.bytes() == 0) {
                found.push(key);
            }
        }
        let mut known = self.closed.lock();
        if range.at.is_none() {
            let is_seen = |key: &Key| {
                key.starts_with(range.prefix) && &**key > range.after && end.is_none_or(|end| key <= end)
            };
            known.retain(|key| !is_seen(key) || closed.contains(key));
        }
        // A key that was known is not added again: somebody may have written its value meanwhile.
        for key in found {
            if known.insert(key.clone()) {
                say_closed(&key);
            }
        }
        Ok(())
    }

    /// An entry that is asked for by name: one that does not open has no value.
    fn by_name(&self, entry: Entry) -> Entry {
        let (key, created, modified) = (entry.key.clone(), entry.created, entry.modified);
        let closed = || Entry { key, created, modified, value: Blob::raw(b"") };
        opened(&self.sealing, entry).unwrap_or_else(closed)
    }
}

fn say_closed(key: &str) {
    tracing::warn!(
        "the value of {key} does not open: it is left out of lists and watches, and can be deleted by name"
    );
}

/// `None`: it does not open.
fn opened(sealing: &Sealing, entry: Entry) -> Option<Entry> {
    if sealing.leaves(&entry.key, &entry.value) {
        return Some(entry);
    }
    match sealing.state(&entry.key, &entry.value) {
        ValueState::Newest(value) | ValueState::Older(value) | ValueState::Clear(value) => {
            Some(Entry { value: Blob::raw(&value), ..entry })
        }
        ValueState::Closed(_) => None,
    }
}

fn open_all(sealing: &Sealing, entries: Vec<Entry>) -> (Vec<Entry>, Vec<Key>) {
    let (mut open, mut closed) = (Vec::with_capacity(entries.len()), Vec::new());
    for entry in entries {
        let key = entry.key.clone();
        match opened(sealing, entry) {
            Some(entry) => open.push(entry),
            None => closed.push(key),
        }
    }
    (open, closed)
}

/// A change as a reader sees it: one that does not open counts as not there. `None`: nothing changed for a reader.
fn change(sealing: &Sealing, change: &Arc<Change>) -> Option<Arc<Change>> {
    let mut held = change.current.iter().chain(&change.previous);
    if held.all(|entry| sealing.leaves(&entry.key, &entry.value)) {
        return Some(change.clone());
    }
    let open = |entry: &Option<Entry>| entry.clone().and_then(|entry| opened(sealing, entry));
    let (current, previous) = (open(&change.current), open(&change.previous));
    if change.current.is_some() && current.is_none() {
        say_closed(&change.key);
    }
    let is_seen = current.is_some() || previous.is_some();
    is_seen
        .then(|| Arc::new(Change { revision: change.revision, key: change.key.clone(), current, previous }))
}

#[async_trait]
impl Store for Sealed {
    async fn revision(&self) -> Result<Revision, Error> {
        self.inner.revision().await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        Ok(self.inner.get(key).await?.map(|entry| self.by_name(entry)))
    }

    async fn range(&self, range: Range<'_>) -> Result<Page, Error> {
        let mut page = self.inner.range(range).await?;
        if !self.sealing.touches(range.prefix) {
            return Ok(page);
        }
        let mut last = page.entries.last().map(|entry| entry.key.clone());
        let (mut entries, mut closed) = self.opened(page.entries).await?;
        // A page that is short of what did not open is filled: one without an entry would have no end to go on from.
        while entries.len() < range.limit && page.remaining > 0 {
            let Some(after) = last.clone() else { break };
            let limit = range.limit - entries.len();
            page = self.inner.range(Range { after: &after, limit, at: Some(page.revision), ..range }).await?;
            last = page.entries.last().map(|entry| entry.key.clone());
            let (more, more_closed) = self.opened(page.entries).await?;
            entries.extend(more);
            closed.extend(more_closed);
        }
        let end = last.filter(|_| page.remaining > 0);
        self.note(range, end.as_ref(), closed).await?;
        Ok(Page { entries, remaining: page.remaining, revision: page.revision })
    }

    async fn txn(&self, txn: Txn) -> Result<Outcome, Error> {
        let txn = self.seal(txn)?;
        let keys = (txn.writes.iter()).map(|write| match write {
            Write::Put(key, _) | Write::Delete(key) => key,
        });
        let keys: Vec<Key> = keys.filter(|key| self.sealing.covers(key)).cloned().collect();
        Ok(match self.inner.txn(txn).await? {
            Outcome::Committed(revision) => {
                if !keys.is_empty() {
                    let mut closed = self.closed.lock();
                    for key in &keys {
                        closed.remove(key);
                    }
                }
                Outcome::Committed(revision)
            }
            Outcome::Conflict { key, current } => {
                Outcome::Conflict { key, current: current.map(|entry| self.by_name(entry)) }
            }
        })
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        let inner = self.inner.watch(prefix, after).await?;
        if !self.sealing.touches(prefix) {
            return Ok(inner);
        }
        Ok(Box::new(SealedWatch { inner, sealing: self.sealing.clone() }))
    }

    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.inner.compact(upto).await
    }

    async fn raise(&self, floor: Revision) -> Result<(), Error> {
        self.inner.raise(floor).await
    }

    fn weight(&self, key: &str) -> usize {
        let bytes = self.inner.weight(key);
        let is_sealed = self.sealing.ring().is_some() && self.sealing.covers(key);
        if is_sealed { bytes.saturating_sub(SEALED_OVERHEAD) } else { bytes }
    }

    fn unreadable(&self, prefix: &str) -> Vec<Key> {
        let mut keys = self.inner.unreadable(prefix);
        let closed = self.closed.lock();
        keys.extend(closed.iter().filter(|key| key.starts_with(prefix)).cloned());
        keys.sort();
        keys.dedup();
        keys
    }

    fn limit(&self) -> TxnLimit {
        let TxnLimit { writes, bytes } = self.inner.limit();
        if self.sealing.ring().is_none() {
            return TxnLimit { writes, bytes };
        }
        TxnLimit { writes, bytes: bytes.saturating_sub(writes * SEALED_OVERHEAD) }
    }
}

struct SealedWatch {
    inner: Box<dyn Watch>,
    sealing: Sealing,
}

#[async_trait]
impl Watch for SealedWatch {
    async fn next(&mut self) -> Result<Vec<Arc<Change>>, Error> {
        loop {
            // Nothing waits between taking changes and handing them on, so none is lost when this is cancelled.
            let changes = self.inner.next().await?;
            let seen: Vec<_> = changes.iter().filter_map(|one| change(&self.sealing, one)).collect();
            if !seen.is_empty() {
                return Ok(seen);
            }
        }
    }

    async fn progress(&mut self) -> Result<Revision, Error> {
        self.inner.progress().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coverage, Keyring, MemoryStore};

    /// A page may be older than what somebody writes while it is opened.
    #[tokio::test]
    async fn only_what_still_does_not_open_is_noted() {
        let inner = Arc::new(MemoryStore::new());
        let coverage = Coverage { prefixes: &["/registry/secrets/"], is_value: |value| value == "{}" };
        let store = Sealed::new(inner.clone(), Sealing::new(coverage, Some(Keyring::generate().unwrap())));
        let key = |name: &str| Key::from(format!("/registry/secrets/default/{name}"));
        inner.txn(Txn::create(key("closed"), "junk".into())).await.unwrap();
        store.txn(Txn::create(key("mended"), "{}".into())).await.unwrap();
        let range = Range { prefix: "/registry/secrets/", ..Range::default() };
        let read_before = || ["closed", "deleted", "mended"].map(key).to_vec();
        for at in [None, Some(1)] {
            store.note(Range { at, ..range }, None, read_before()).await.unwrap();
            assert_eq!(store.unreadable("/registry/"), [key("closed")]);
        }
    }
}
