//! Finalizers: put on before anything else is made, taken off when nothing is left. Owns the two
//! writes; must not know what they guard.
//! Source: cluster-api `util/finalizers/finalizers.go`, v1.14.0.

use serde_json::json;

use super::Context;
use crate::api::key::ObjectRef;
use crate::client::write::Part;
use crate::client::{Mode, Object, Precondition, WriteError};

/// Adds `finalizer` when the object lacks it and is not being deleted. True when it was added: the run
/// then ends, and its own echo starts the next one.
///
/// # Errors
/// When the server refuses, also because the object changed meanwhile.
pub async fn ensure<K: Object>(context: &Context, object: &K, finalizer: &str) -> Result<bool, WriteError> {
    let mut list = object.meta().finalizers.clone().unwrap_or_default();
    if object.meta().deletion_timestamp.is_some() || list.iter().any(|f| f == finalizer) {
        return Ok(false);
    }
    list.push(finalizer.to_owned());
    write(context, object, &list).await?;
    Ok(true)
}

/// Takes `finalizer` off, which lets the server remove an object that is being deleted.
///
/// # Errors
/// When the server refuses, also because the object changed meanwhile. Gone already is fine.
pub async fn remove<K: Object>(context: &Context, object: &K, finalizer: &str) -> Result<(), WriteError> {
    let mut list = object.meta().finalizers.clone().unwrap_or_default();
    list.retain(|f| f != finalizer);
    match write(context, object, &list).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

/// The list is replaced whole, so it is guarded by the resourceVersion.
async fn write<K: Object>(context: &Context, object: &K, finalizers: &[String]) -> Result<(), WriteError> {
    let body = json!({"metadata": {"finalizers": finalizers}});
    let guard = Precondition::unchanged(object);
    context.writer.patch_value(&ObjectRef::of(object), Part::Main, &body, &guard, Mode::Real).await?;
    Ok(())
}
