//! Keeps what is served in step with the definitions in the store: those another server on the same
//! store wrote, and those whose watchers have to be sent home. Must not know requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Registry, Revised, Subject};
use crate::failure::Failure;
use crate::object::{self, Record};
use crate::request::options::WriteOptions;
use crate::resource::strategy::Strategy;
use crate::resource::{CRD_GROUP, CRD_PLURAL, Catalog, Resource};
use crate::resource::{crds, custom};
use capstan_store::{self as store, Entry, Key, Revision};

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Runs until dropped, from the changes after `revision` on.
pub async fn follow(registry: Arc<Registry>, revision: Revision) {
    let mut after = revision;
    loop {
        if let Err(error) = follow_from(&registry, &mut after).await {
            tracing::warn!(%error, "definitions will be read again");
        }
        tokio::time::sleep(RETRY_AFTER).await;
        // The revision is read before the definitions, so that no change between the two is missed.
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
                (Some(entry), before) => serve(registry, entry, before.as_ref(), change.revision).await,
                (None, Some(entry)) => withdraw(registry, entry, change.revision).await,
                (None, None) => {}
            }
        }
    }
}

impl Registry {
    /// A definition that was written changes what is served, before its writer hears of it.
    pub(super) fn after_write(&self, resource: &Resource, object: &Value, at: Revision) {
        if matches!(resource.strategy, Strategy::Definition) {
            self.serve_definition(object, at);
        }
    }

    pub(super) fn after_delete(&self, resource: &Resource, object: &Value, at: Revision) {
        if matches!(resource.strategy, Strategy::Definition) {
            self.withdraw_definition(object, at);
        }
    }

    /// Serves what a definition describes, in place of what it described before. Nothing happens when that is the same (its
    /// watchers stay), or when a later revision of the definition than `at` is known already.
    pub fn serve_definition(&self, definition: &Value, at: Revision) {
        // The lock is held over the change, so that an earlier revision cannot come in after a
        // later one.
        let mut known = self.definitions_at.lock();
        if is_news(&mut known, definition, at) {
            self.serve_resources(definition);
        }
    }

    fn serve_resources(&self, definition: &Value) {
        self.hold_names(definition);
        let versions = custom::resources(definition);
        if versions.is_empty() {
            return self.withdraw_resources(definition);
        }
        let same = |catalog: &Catalog| {
            let served = versions.first().map_or(0, |r| catalog.versions(&r.group, &r.plural));
            served == versions.len()
                && versions.iter().all(|new| {
                    catalog
                        .find(&new.group, &new.version, &new.plural)
                        .is_some_and(|old| custom::same(old, new))
                })
        };
        // The same resource stays in place: its watches compare it by pointer and would end.
        if same(&self.catalog.load()) {
            return;
        }
        self.catalog.rcu(|catalog| {
            let mut catalog = Catalog::clone(catalog);
            catalog.insert(versions.clone());
            catalog
        });
        // `send` returns an error when no watch is open.
        self.catalog_changed.send_replace(());
    }

    /// Its names are its own from now on, served or not.
    fn hold_names(&self, definition: &Value) {
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        self.catalog.rcu(|catalog| {
            let mut catalog = Catalog::clone(catalog);
            catalog.hold(object::name(definition), group, crds::held_names(definition));
            catalog
        });
    }

    fn withdraw_definition(&self, definition: &Value, at: Revision) {
        // As in `serve_definition`, the lock is held over the change.
        let mut known = self.definitions_at.lock();
        if !is_news(&mut known, definition, at) {
            return;
        }
        self.catalog.rcu(|catalog| {
            let mut catalog = Catalog::clone(catalog);
            catalog.free(object::name(definition));
            catalog
        });
        self.withdraw_resources(definition);
    }

    fn withdraw_resources(&self, definition: &Value) {
        let text = |pointer| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
        self.catalog.rcu(|catalog| {
            let mut catalog = Catalog::clone(catalog);
            catalog.remove(group, plural, object::name(definition));
            catalog
        });
        self.catalog_changed.send_replace(());
    }

    /// Names of definitions that are or were served.
    fn known_definitions(&self) -> Vec<String> {
        self.definitions_at.lock().keys().cloned().collect()
    }

    /// Is this very resource still served as it was?
    pub fn still_serves(&self, resource: &Arc<Resource>) -> bool {
        let catalog = self.catalog.load();
        catalog
            .find(&resource.group, &resource.version, &resource.plural)
            .is_some_and(|now| Arc::ptr_eq(now, resource))
    }
}

/// A writer applies its own change at once, and the same change comes again with the watch, which may be behind: a
/// definition that was deleted and made anew was served as terminating, and then not at all, after its writer had
/// been answered.
fn is_news(known: &mut BTreeMap<String, Revision>, definition: &Value, at: Revision) -> bool {
    let known = known.entry(object::name(definition).to_owned()).or_default();
    let is_news = *known <= at;
    *known = at.max(*known);
    is_news
}

/// Serves every definition in the store but those with the given keys, and no other: one that was deleted while
/// no watch was open is withdrawn.
///
/// # Errors
/// 500 when one cannot be read.
pub async fn load(registry: &Registry, served: &BTreeSet<Key>) -> Result<(), Failure> {
    let page = registry.store.range(store::Range { prefix: &prefix(), ..store::Range::default() }).await?;
    for entry in page.entries.iter().filter(|entry| !served.contains(&entry.key)) {
        registry.serve_definition(&read(entry)?, entry.modified);
    }
    let there: BTreeSet<&str> =
        page.entries.iter().filter_map(|entry| entry.key.strip_prefix(&prefix())).collect();
    for name in registry.known_definitions().into_iter().filter(|name| !there.contains(name.as_str())) {
        registry.withdraw_definition(&gone(&name), page.revision);
    }
    Ok(())
}

/// As much of a definition as its name says: it is always `PLURAL.GROUP`.
fn gone(name: &str) -> Value {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    json!({ "metadata": { "name": name }, "spec": { "group": group, "names": { "plural": plural } } })
}

fn prefix() -> String {
    format!("/registry/{CRD_GROUP}/{CRD_PLURAL}/")
}

fn read(entry: &Entry) -> Result<Value, Failure> {
    Record::read(entry)?.value()
}

async fn serve(registry: &Registry, entry: &Entry, before: Option<&Entry>, at: Revision) {
    let definition = match read(entry) {
        Ok(definition) => definition,
        // One definition that cannot be read must not end the watch for all others.
        Err(failure) => return tracing::warn!(%failure, "a definition cannot be read"),
    };
    registry.serve_definition(&definition, at);
    let before = before.and_then(|before| read(before).ok());
    // Only names that are given back can help others.
    if before.is_some_and(|before| crds::held_names(&before) != crds::held_names(&definition)) {
        reconsider_group(registry, &definition).await;
    }
}

async fn withdraw(registry: &Registry, entry: &Entry, at: Revision) {
    match read(entry) {
        Ok(definition) => {
            registry.withdraw_definition(&definition, at);
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
    let revised = Revised { object: definition, managed: record.managed.clone() };
    registry.commit(subject, entry, &record, revised, WriteOptions::default()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::encoded;
    use capstan_base::rng::Rng;
    use capstan_base::time::Clock;
    use capstan_store::{MemoryStore, Write, write_all};

    fn definition() -> Value {
        let version = json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}});
        let names =
            json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
        let conditions =
            ["NamesAccepted", "Established"].map(|type_| json!({"type": type_, "status": "True"}));
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.io"},
            "spec": {"group": "example.io", "scope": "Namespaced", "names": names, "versions": [version]},
            "status": {"conditions": conditions, "acceptedNames": names, "storedVersions": ["v1"]}})
    }

    #[tokio::test]
    async fn a_definition_that_went_while_no_watch_was_open_is_withdrawn() {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::new(store.clone(), Clock::system(), Rng::seeded(1));
        let (key, value) = encoded(&registry.catalog.load(), &definition()).expect("a definition");
        write_all(&*store, vec![Write::Put(key.clone(), value)]).await.expect("written");
        let is_served = || registry.catalog.load().find("example.io", "v1", "things").is_some();
        load(&registry, &BTreeSet::new()).await.expect("read");
        assert!(is_served());
        let changed = registry.catalog_changed.subscribe();
        write_all(&*store, vec![Write::Delete(key)]).await.expect("deleted");
        load(&registry, &BTreeSet::new()).await.expect("read");
        assert!(!is_served() && changed.has_changed().expect("a sender"), "its watches end");
    }
}
