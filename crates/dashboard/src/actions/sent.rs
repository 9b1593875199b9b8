//! What is read of an object for an action, before and while it is written. Must not judge.

use serde_json::{Value, json};

use super::{ActionError, Executor, Request};
use capstan_engine::client::explain;
use capstan_engine::client::read::get_value;

/// The object as it is now.
///
/// # Errors
/// It is gone, another one took its name, or the server did not answer.
pub(super) async fn read(executor: &Executor, request: &Request) -> Result<Value, ActionError> {
    let target = &request.target;
    let gone = || match target.uid.as_str() {
        // Without a uid the name was typed, and the object may never have been there.
        "" => ActionError::NotFound { target: target.to_string() },
        _ => ActionError::Gone { target: target.to_string() },
    };
    let object = get_value(&executor.connection.client, target)
        .await
        .map_err(|error| server(request, explain(&error, &executor.connection.server)))?
        .ok_or_else(gone)?;
    if !target.uid.is_empty() && object["metadata"]["uid"] != target.uid.as_str() {
        return Err(gone());
    }
    Ok(object)
}

/// The server did not do it.
pub(super) fn server(request: &Request, reason: String) -> ActionError {
    ActionError::Server { action: request.action.info().name, target: request.target.to_string(), reason }
}

/// What a person decides about: everything but the status and what every write changes.
pub(super) fn shown(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "uid": metadata["uid"],
        "generation": metadata["generation"],
        "labels": metadata["labels"],
        "annotations": metadata["annotations"],
        "deletionTimestamp": metadata["deletionTimestamp"],
        "spec": object["spec"],
    })
}

pub(super) fn text_at(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
