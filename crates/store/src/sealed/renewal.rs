//! Going through all values of a store: what they are, and sealing anew those that are in clear or sealed with an older key.
//! Must not know which store.

use bytes::Bytes;

use super::sealing::{Census, KeyError, Sealing, ValueState};
use crate::{Entry, Error, Key, Outcome, Range, Revision, Store, Txn, Write};

/// Values looked at together.
const PAGE: usize = 500;
/// A value that others write all the time is taken on the next start.
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

/// Writes values over those of these revisions, in transactions as large as the store takes.
async fn write(
    store: &dyn Store,
    sealing: &Sealing,
    mut batch: Vec<(Key, Revision, Bytes)>,
) -> Result<(), Error> {
    let limit = store.limit();
    let mut conflicts = 0;
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
                conflicts += 1;
                batch.retain(|(other, ..)| *other != key);
                // Somebody else wrote it meanwhile: what is there now counts.
                if conflicts < ATTEMPTS
                    && let Some(entry) = current
                    && let ValueState::Older(value) | ValueState::Clear(value) =
                        sealing.state(&entry.key, &entry.value)
                {
                    batch.push((key.clone(), entry.modified, sealed(sealing, &key, value)?));
                }
            }
        }
    }
    Ok(())
}
