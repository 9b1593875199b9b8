//! Objects stored as they are, with uid, creation time and status: large made-up fleets, and objects
//! brought from elsewhere. Skips admission and validation on purpose, so what is
//! imported must fit its schema; a person's request never comes here.

use serde_json::Value;

use super::ApiServer;
use super::object::encode;
use super::registry::schema_tag;
use super::resource::Catalog;
use crate::store::{self, Write, write_all};

/// Objects written at once.
const BATCH: usize = 1000;

/// Objects that could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{api_version} {kind} is not served here; is its definition installed?")]
    NotServed { api_version: String, kind: String },
    #[error("{what} cannot be stored: {reason}")]
    Shape { what: String, reason: String },
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

fn put(catalog: &Catalog, object: &Value) -> Result<Write, ImportError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let resource =
        catalog.all().find(|r| r.kind == kind && r.api_version() == api_version).ok_or_else(|| {
            ImportError::NotServed { api_version: api_version.to_owned(), kind: kind.to_owned() }
        })?;
    let encoded = encode(object, schema_tag(resource)).map_err(|failure| ImportError::Shape {
        what: format!("{kind} {}", text("/metadata/name")),
        reason: failure.to_string(),
    })?;
    Ok(Write::Put(resource.key(text("/metadata/namespace"), text("/metadata/name")), encoded))
}
