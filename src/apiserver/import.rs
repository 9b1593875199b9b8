//! Objects stored as they are, with uid, creation time and status: large made-up fleets, and objects
//! brought from elsewhere. Skips admission and validation on purpose, so what is
//! imported must fit its schema; a person's request never comes here.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::ApiServer;
use super::registry::definitions;
use crate::apiserver::object::{encode, managed_text};
use crate::apiserver::registry::{Registry, schema_tag};
use crate::apiserver::resource::Catalog;
use crate::rng::Rng;
use crate::store::{self, Store, Write, write_all};
use crate::time::Clock;

/// Objects written at once.
const BATCH: usize = 1000;

/// Objects that could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{api_version} {kind} is not served here; is its definition installed?")]
    NotServed { api_version: String, kind: String },
    #[error("{what} cannot be stored: {reason}")]
    Shape { what: String, reason: String },
    #[error("the definitions cannot be read back: {0}")]
    Definitions(String),
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
            writes.push(put(&catalog, &object)?);
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
    count: usize,
    /// Definitions were written that are not served yet.
    undefined: bool,
}

impl Restore {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, rng: Rng) -> Self {
        let registry = Registry::new(store, clock, rng);
        Self { registry, writes: Vec::new(), count: 0, undefined: false }
    }

    /// Takes one object as the API showed it. Definitions come before the objects they define.
    ///
    /// # Errors
    /// [`ImportError`].
    pub async fn put(&mut self, object: Value) -> Result<(), ImportError> {
        let is_definition = object["kind"] == "CustomResourceDefinition";
        if self.undefined && !is_definition {
            self.flush().await?;
            let loaded = definitions::load(&self.registry, &BTreeSet::new()).await;
            loaded.map_err(|failure| ImportError::Definitions(failure.to_string()))?;
        }
        self.undefined = is_definition;
        self.writes.push(put(&self.registry.catalog.load(), &object)?);
        self.count += 1;
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
        Ok(self.count)
    }
}

fn put(catalog: &Catalog, object: &Value) -> Result<Write, ImportError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let resource =
        catalog.all().find(|r| r.kind == kind && r.api_version() == api_version).ok_or_else(|| {
            ImportError::NotServed { api_version: api_version.to_owned(), kind: kind.to_owned() }
        })?;
    let mut stored = object.clone();
    resource.to_stored(&mut stored);
    let managed = managed_text(&stored);
    let encoded = encode(&stored, managed.as_bytes(), schema_tag(resource)).map_err(|failure| {
        ImportError::Shape { what: format!("{kind} {}", text("/metadata/name")), reason: failure.to_string() }
    })?;
    Ok(Write::Put(resource.key(text("/metadata/namespace"), text("/metadata/name")), encoded))
}
