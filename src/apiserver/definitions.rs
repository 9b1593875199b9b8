//! Keeps what is served in step with the definitions in the store: those another server on the same
//! store wrote, and those whose watchers have to be sent home. Must not know requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::crds;
use super::failure::Failure;
use super::object::{self, Record};
use super::registry::{Registry, Subject};
use super::resource::{CRD_GROUP, CRD_PLURAL};
use super::routes::WriteOptions;
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
                (Some(entry), before) => serve(registry, entry, before.as_ref()).await,
                (None, Some(entry)) => withdraw(registry, entry).await,
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

async fn serve(registry: &Registry, entry: &Entry, before: Option<&Entry>) {
    let definition = match read(entry) {
        Ok(definition) => definition,
        Err(failure) => return tracing::warn!(%failure, "a definition cannot be read"),
    };
    registry.serve_definition(&definition);
    let before = before.and_then(|before| read(before).ok());
    if before.is_some_and(|before| crds::held_names(&before) != crds::held_names(&definition)) {
        reconsider_group(registry, &definition).await;
    }
}

async fn withdraw(registry: &Registry, entry: &Entry) {
    match read(entry) {
        Ok(definition) => {
            registry.withdraw_definition(&definition);
            reconsider_group(registry, &definition).await;
        }
        Err(failure) => tracing::warn!(%failure, "a definition cannot be read"),
    }
}

/// A definition gave names back: others in its group may have waited for them.
async fn reconsider_group(registry: &Registry, freed: &Value) {
    let page = registry.store.range(store::Range { prefix: &prefix(), ..store::Range::default() }).await;
    for entry in page.map(|page| page.entries).unwrap_or_default() {
        let Ok(definition) = read(&entry) else { continue };
        if definition["spec"]["group"] == freed["spec"]["group"]
            && crds::waits_for_names(&definition)
            && let Err(failure) = reconsider(registry, &entry, definition).await
        {
            tracing::warn!(%failure, "the names of a definition cannot be judged again");
        }
    }
}

/// Judges the names of one definition again. Somebody else's write in between is seen by `follow`.
async fn reconsider(registry: &Registry, entry: &Entry, mut definition: Value) -> Result<(), Failure> {
    let catalog = registry.catalog.load_full();
    let Some(resource) = catalog.find(CRD_GROUP, "v1", CRD_PLURAL) else { return Ok(()) };
    crds::establish(&mut definition, &catalog, &registry.now());
    let name = object::name(&definition).to_owned();
    let subject = Subject { resource, namespace: "", name: &name };
    let record = Record::read(entry)?;
    registry.commit(subject, entry, &record, &mut definition, WriteOptions::default()).await?;
    Ok(())
}
