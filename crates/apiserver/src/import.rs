//! Objects stored as they are, with uid, creation time and status: large made-up fleets, and objects
//! brought from elsewhere. Skips admission and validation on purpose, so what is
//! imported must fit its schema; a person's request never comes here.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::ApiServer;
use super::registry::definitions;
use crate::object::{encode, managed_text};
use crate::registry::{Registry, schema_tag};
use crate::resource::{Catalog, Resource};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_store::{self as store, Key, Revision, Store, Write, write_all};
use k8s_machinery::validation::naming;

/// Objects written at once.
const BATCH: usize = 1000;

/// Objects that could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No built-in kind and no definition has this name.
    #[error("{api_version} {kind} is not served here; is its definition installed?")]
    NotServed {
        /// As the object has it: `GROUP/VERSION`, or `v1`.
        api_version: String,
        /// As the object has it.
        kind: String,
    },
    /// A name, namespace or size that no stored object can have, or an object that comes twice.
    #[error("{what} cannot be stored: {reason}")]
    Shape {
        /// `KIND NAMESPACE/NAME`, or the key of the object.
        what: String,
        /// A sentence for a person.
        reason: String,
    },
    /// Definitions that were stored a moment ago; a sentence for a person.
    #[error("the definitions cannot be read back: {0}")]
    Definitions(String),
    /// A batch was not written.
    #[error("the store refused: {0}")]
    Store(#[from] store::Error),
}

impl ApiServer {
    /// Stores `objects`, over those of the same name. Returns how many.
    ///
    /// # Errors
    /// [`ImportError`]; batches before the one that failed are stored.
    pub async fn import(&self, objects: impl Iterator<Item = Value> + Send) -> Result<usize, ImportError> {
        let registry = &self.server.registry;
        let catalog = registry.catalog.load_full();
        let mut count = 0;
        let mut writes = Vec::with_capacity(BATCH);
        for object in objects {
            let (key, value) = encoded(&catalog, &object)?;
            writes.push(Write::Put(key, value));
            count += 1;
            if writes.len() == BATCH {
                write_all(&*registry.store, std::mem::take(&mut writes)).await?;
            }
        }
        write_all(&*registry.store, writes).await?;
        Ok(count)
    }
}

/// Fills an empty store with the objects of a backup. No server may run on it: nothing is collected
/// or reconciled meanwhile.
pub struct Restore {
    registry: Registry,
    writes: Vec<Write>,
    keys: HashSet<Key>,
    /// Definitions were written that are not served yet.
    undefined: bool,
}

impl Restore {
    /// Begins to fill a store that is empty, or holds a part of the same objects. All later revisions
    /// are above `floor`.
    ///
    /// # Errors
    /// Of the store.
    pub async fn begin(
        store: Arc<dyn Store>,
        clock: Clock,
        rng: Rng,
        floor: Revision,
    ) -> Result<Self, store::Error> {
        // The floor comes first, so that no object gets a revision that clients know.
        store.raise(floor).await?;
        let registry = Registry::new(store, clock, rng);
        Ok(Self { registry, writes: Vec::new(), keys: HashSet::new(), undefined: false })
    }

    /// Takes one object as the API showed it. Definitions come before the objects they define.
    ///
    /// # Errors
    /// [`ImportError`].
    pub async fn put(&mut self, object: Value) -> Result<(), ImportError> {
        let is_definition = object["kind"] == "CustomResourceDefinition";
        // One reading serves all the definitions in a row.
        if self.undefined && !is_definition {
            self.flush().await?;
            let loaded = definitions::load(&self.registry, &BTreeSet::new()).await;
            loaded.map_err(|failure| ImportError::Definitions(failure.to_string()))?;
        }
        self.undefined = is_definition;
        let (key, value) = encoded(&self.registry.catalog.load(), &object)?;
        if !self.keys.insert(key.clone()) {
            return Err(ImportError::Shape { what: key.to_string(), reason: "it comes twice".to_owned() });
        }
        self.writes.push(Write::Put(key, value));
        if self.writes.len() == BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), ImportError> {
        Ok(write_all(&*self.registry.store, std::mem::take(&mut self.writes)).await?)
    }

    /// Writes what is left. Returns how many objects there were.
    ///
    /// # Errors
    /// [`ImportError`].
    pub async fn finish(mut self) -> Result<usize, ImportError> {
        self.flush().await?;
        Ok(self.keys.len())
    }
}

/// Key and stored bytes of an object as the API showed it.
pub(crate) fn encoded(catalog: &Catalog, object: &Value) -> Result<(Key, Bytes), ImportError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let resource =
        catalog.all().find(|r| r.kind == kind && r.api_version() == api_version).ok_or_else(|| {
            ImportError::NotServed { api_version: api_version.to_owned(), kind: kind.to_owned() }
        })?;
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let shape = |reason: String| ImportError::Shape { what: format!("{kind} {namespace}/{name}"), reason };
    check_names(resource, namespace, name).map_err(shape)?;
    let mut stored = object.clone();
    resource.to_stored(&mut stored);
    let managed = managed_text(&stored);
    // With the tag of the schema an imported object is shown without being decoded again.
    let value = encode(&stored, managed.as_bytes(), schema_tag(resource))
        .map_err(|failure| shape(failure.to_string()))?;
    Ok((resource.key(namespace, name), value))
}

/// Refuses names that would make the key of something else.
fn check_names(resource: &Resource, namespace: &str, name: &str) -> Result<(), String> {
    let (name_rule, of_namespace): (_, fn(&str) -> Vec<String>) = (resource.name_rule(), naming::dns_label);
    let complaints = match (resource.namespaced, namespace) {
        (true, _) => [name_rule(name), of_namespace(namespace)].concat(),
        (false, "") => name_rule(name),
        (false, _) => vec!["it does not live in a namespace".to_owned()],
    };
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("; ")) }
}
