//! Puts a starting fleet into a server: living fleets through the API as a person would, large static
//! ones straight into the store, and later edits when their moment comes. Must not know what the
//! objects mean.

use std::time::Duration;

use serde_json::Value;

use crate::samples::{Edit, Sample, SampleError};
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_apiserver::ApiServer;
use capstan_apiserver::import::ImportError;
use capstan_base::time::Timestamp;
use capstan_engine::client::write::Part;
use capstan_engine::client::{Connection, Mode, Precondition, WriteError, Writer};

/// Field manager of what a sample does.
const MANAGER: &str = "capstan-scenario";

/// A fleet that could not be put in place.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Sample(#[from] SampleError),
    #[error("the sample object {what} has no apiVersion, kind or name")]
    Shapeless { what: String },
    #[error("the sample fleet could not be created: {0}")]
    Write(#[from] WriteError),
    #[error("the sample fleet could not be stored: {0}")]
    Import(#[from] ImportError),
}

/// Creates objects in order; those that exist already are left alone.
///
/// # Errors
/// The first object that the server refuses.
pub async fn create(
    connection: &Connection,
    objects: impl IntoIterator<Item = Value>,
) -> Result<(), LoadError> {
    let writer = Writer::new(connection.client.clone(), MANAGER);
    for object in objects {
        let target = reference(&object)?;
        match writer.create_value(&target, &object, Mode::Real).await {
            Err(error) if !error.already_exists() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Stores a static sample's objects with their status and uids as they are. Returns how many.
///
/// # Errors
/// When the store refuses.
pub async fn import(server: &ApiServer, sample: Sample, now: Timestamp) -> Result<usize, LoadError> {
    Ok(server.import(sample.objects(now)).await?)
}

/// Makes edits when they are due, counted from the call. Ends after the last. One that is refused is
/// logged: the person may have deleted what it was about.
pub async fn edit_later(connection: Connection, edits: Vec<Edit>, time_scale: f64) {
    let writer = Writer::new(connection.client.clone(), MANAGER);
    let mut waited = Duration::ZERO;
    for edit in edits {
        // From the beginning and not from the edit before, whatever each of them took.
        let due = edit.after.div_f64(time_scale);
        tokio::time::sleep(due.saturating_sub(waited)).await;
        waited = due.max(waited);
        let target = ObjectRef { gvk: edit.gvk, key: edit.key, uid: String::new() };
        let always = Precondition::default();
        if let Err(error) = writer.patch_value(&target, Part::Main, &edit.patch, &always, Mode::Real).await {
            tracing::info!("the sample's edit of {target} was not made: {error}");
        }
    }
}

/// The address of a manifest. The plural is the kind in lower case with an `s`, true of every kind here.
fn reference(object: &Value) -> Result<ObjectRef, LoadError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let shapeless =
        || LoadError::Shapeless { what: text("/metadata/name").unwrap_or("without a name").to_owned() };
    let api_version = text("/apiVersion").ok_or_else(shapeless)?;
    let kind = text("/kind").ok_or_else(shapeless)?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let namespace = text("/metadata/namespace").unwrap_or_default();
    let gvk = Gvk {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: !namespace.is_empty(),
    };
    let key = ObjectKey::new(namespace, text("/metadata/name").ok_or_else(shapeless)?);
    Ok(ObjectRef { gvk, key, uid: String::new() })
}
