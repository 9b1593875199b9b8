//! Going through all values of a store: what they are, and sealing anew those that are in clear or sealed with an older key.
//! Must not know which store.

use std::collections::HashMap;

use bytes::Bytes;

use super::sealing::{Census, KeyError, Sealing, ValueState};
use crate::{Entry, Error, Key, Outcome, Range, Revision, Store, Txn, Write};

/// Values looked at together.
const PAGE: usize = 500;
/// For each value: one that others write all the time is taken on the next start.
const ATTEMPTS: usize = 20;

/// Why values cannot be sealed anew.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Store(#[from] Error),
}

/// What the values of a store are. Nothing is written.
///
/// # Errors
/// Of the store.
pub async fn survey(store: &dyn Store, sealing: &Sealing) -> Result<Census, Error> {
    let mut census = Census::default();
    visit(store, sealing, async |entries: Vec<Entry>| {
        for entry in entries {
            if sealing.leaves(&entry.key, &entry.value) {
                census.clear += 1;
            } else {
                census.count(&entry.key, &sealing.state(&entry.key, &entry.value));
            }
        }
        Ok(())
    })
    .await?;
    Ok(census)
}

/// Seals what is in clear or has an older key, many values in one transaction.
pub(super) async fn renew(store: &dyn Store, sealing: &Sealing) -> Result<(), Error> {
    visit(store, sealing, async |entries: Vec<Entry>| {
        let mut batch = Vec::new();
        for entry in entries {
            let state = sealing.state(&entry.key, &entry.value);
            if let ValueState::Older(value) | ValueState::Clear(value) = state {
                batch.push((entry.key.clone(), entry.modified, sealed(sealing, &entry.key, value)?));
            }
        }
        write(store, sealing, batch).await
    })
    .await
}

fn sealed(sealing: &Sealing, key: &str, value: Bytes) -> Result<Bytes, Error> {
    sealing.seal(key, value).map_err(|error| Error::NotSealed(error.to_string()))
}

/// Hands over all covered entries, page by page, as they are kept.
async fn visit(
    store: &dyn Store,
    sealing: &Sealing,
    mut each: impl AsyncFnMut(Vec<Entry>) -> Result<(), Error>,
) -> Result<(), Error> {
    for prefix in sealing.prefixes() {
        let mut after = String::new();
        loop {
            // Each page is of its own moment: what comes in between was sealed by whoever wrote it.
            let page = store.range(Range { prefix, after: &after, limit: PAGE, at: None }).await?;
            let Some(last) = page.entries.last() else { break };
            after = last.key.to_string();
            each(page.entries).await?;
        }
    }
    Ok(())
}

fn say_left(key: &str) {
    tracing::warn!(
        "{key} is not encrypted with the newest key: others changed it {ATTEMPTS} times meanwhile. The next start tries again"
    );
}

/// Writes values over those of these revisions, in transactions as large as the store takes.
async fn write(
    store: &dyn Store,
    sealing: &Sealing,
    mut batch: Vec<(Key, Revision, Bytes)>,
) -> Result<(), Error> {
    let limit = store.limit();
    let mut conflicts: HashMap<Key, usize> = HashMap::new();
    while !batch.is_empty() {
        let mut bytes = 0;
        let fitting = batch.iter().take(limit.writes).take_while(|(key, _, value)| {
            bytes += key.len() + value.len();
            bytes <= limit.bytes
        });
        // One above the limit goes alone, for the store to refuse.
        let count = fitting.count().max(1);
        let (expect, writes) = batch[..count]
            .iter()
            .map(|(key, at, value)| ((key.clone(), *at), Write::Put(key.clone(), value.clone())))
            .unzip();
        match store.txn(Txn { expect, writes }).await? {
            Outcome::Committed(_) => drop(batch.drain(..count)),
            Outcome::Conflict { key, current } => {
                batch.retain(|(other, ..)| *other != key);
                // Somebody else wrote it meanwhile: what is there now counts.
                let state = current.as_ref().map(|entry| (entry, sealing.state(&key, &entry.value)));
                let Some((entry, ValueState::Older(value) | ValueState::Clear(value))) = state else {
                    continue;
                };
                let attempts = conflicts.entry(key.clone()).or_default();
                *attempts += 1;
                if *attempts < ATTEMPTS {
                    batch.push((key.clone(), entry.modified, sealed(sealing, &key, value)?));
                } else {
                    say_left(&key);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;

    use super::*;
    use crate::{Coverage, Keyring, MemoryStore, Page, Watch};

    /// A store that somebody else writes to, in clear, right before each transaction.
    struct Busy {
        inner: MemoryStore,
        /// How often a value is written so.
        times: Mutex<HashMap<Key, usize>>,
    }

    impl Busy {
        /// A value of the transaction that is still to be written before it.
        fn due(&self, txn: &Txn) -> Option<Key> {
            let mut times = self.times.lock();
            let (key, _) = txn.expect.iter().find(|(key, _)| times.get(key).is_some_and(|left| *left > 0))?;
            *times.get_mut(key)? -= 1;
            Some(key.clone())
        }
    }

    #[async_trait]
    impl Store for Busy {
        async fn revision(&self) -> Result<Revision, Error> {
            self.inner.revision().await
        }

        async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
            self.inner.get(key).await
        }

        async fn range(&self, range: Range<'_>) -> Result<Page, Error> {
            self.inner.range(range).await
        }

        async fn txn(&self, txn: Txn) -> Result<Outcome, Error> {
            if let Some(key) = self.due(&txn) {
                put(&self.inner, &key).await;
            }
            self.inner.txn(txn).await
        }

        async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
            self.inner.watch(prefix, after).await
        }

        async fn compact(&self, upto: Revision) -> Result<(), Error> {
            self.inner.compact(upto).await
        }

        async fn raise(&self, floor: Revision) -> Result<(), Error> {
            self.inner.raise(floor).await
        }
    }

    async fn put(store: &dyn Store, key: &Key) {
        let write = Write::Put(key.clone(), Bytes::from_static(b"{}"));
        store.txn(Txn { expect: Vec::new(), writes: vec![write] }).await.unwrap();
    }

    /// Many values of one page that are each changed once are all sealed, and only the one that is changed without end is not.
    #[tokio::test]
    async fn what_others_change_meanwhile_is_sealed_all_the_same() {
        let key = |n: usize| Key::from(format!("/registry/secrets/default/{n:02}"));
        let busy = Busy { inner: MemoryStore::new(), times: Mutex::default() };
        for n in 0..3 * ATTEMPTS {
            put(&busy.inner, &key(n)).await;
            busy.times.lock().insert(key(n), if n == 0 { usize::MAX } else { 1 });
        }
        let coverage = Coverage { prefixes: &["/registry/secrets/"], is_value: |_| true };
        let sealing = Sealing::new(coverage, Some(Keyring::generate().unwrap()));
        renew(&busy, &sealing).await.unwrap();
        let census = survey(&busy, &sealing).await.unwrap();
        assert_eq!((census.newest, census.clear), (3 * ATTEMPTS - 1, 1));
        assert!(!crate::is_sealed(&busy.get(&key(0)).await.unwrap().unwrap().value.unpack().unwrap()));
    }
}
