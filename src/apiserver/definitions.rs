//! Keeps what is served in step with the definitions in the store: those another server on the same
//! store wrote, and those whose watchers have to be sent home. Must not know requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::failure::Failure;
use super::object::Record;
use super::registry::Registry;
use super::resource::{CRD_GROUP, CRD_PLURAL};
use crate::store::{self, Entry, Key, Revision};

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Runs until dropped, from the changes after `revision` on.
pub async fn follow(registry: Arc<Registry>, revision: Revision) {
    let mut after = revision;
    loop {
        if let Err(error) = follow_from(&registry, &mut after).await {
            tracing::warn!(%error, "definitions will be read again");
        }
        tokio::time::sleep(RETRY_AFTER).await;
        after = registry.store.revision().await.unwrap_or(after);
        if let Err(failure) = load(&registry, &BTreeSet::new()).await {
            tracing::warn!(%failure, "definitions cannot be read");
        }
    }
}

async fn follow_from(registry: &Registry, after: &mut Revision) -> Result<(), store::Error> {
    let mut changes = registry.store.watch(&prefix(), *after).await?;
    loop {
        for change in changes.next().await? {
            *after = change.revision;
            match (&change.current, &change.previous) {
                (Some(entry), _) => serve(registry, entry),
                (None, Some(entry)) => withdraw(registry, entry),
                (None, None) => {}
            }
        }
    }
}

/// Serves every definition in the store but those with the given keys.
///
/// # Errors
/// 500 when one cannot be read.
pub async fn load(registry: &Registry, served: &BTreeSet<Key>) -> Result<(), Failure> {
    let page = registry.store.range(store::Range { prefix: &prefix(), ..store::Range::default() }).await?;
    for entry in page.entries.iter().filter(|entry| !served.contains(&entry.key)) {
        registry.serve_definition(&read(entry)?);
    }
    Ok(())
}

fn prefix() -> String {
    format!("/registry/{CRD_GROUP}/{CRD_PLURAL}/")
}

fn read(entry: &Entry) -> Result<Value, Failure> {
    Record::read(entry)?.value()
}

fn serve(registry: &Registry, entry: &Entry) {
    match read(entry) {
        Ok(definition) => registry.serve_definition(&definition),
        Err(failure) => tracing::warn!(%failure, "a definition cannot be read"),
    }
}

fn withdraw(registry: &Registry, entry: &Entry) {
    match read(entry) {
        Ok(definition) => registry.withdraw_definition(&definition),
        Err(failure) => tracing::warn!(%failure, "a definition cannot be read"),
    }
}
