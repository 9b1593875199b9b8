//! A cluster whose control plane a KubeadmControlPlane looks after: the patch of that object, and how far its rollout is. Owns
//! these requests to the management cluster; what may be changed is `change::plan`'s.

use std::fmt::Write as _;

use serde_json::Value;

use super::MANAGER;
use super::source::ManagedCluster;
use capi_rules::observe::older_version;
use capi_types::key::ObjectRef;
use capstan_engine::client::access::{Attempt, may};
use capstan_engine::client::write::{Part, WriteError};
use capstan_engine::client::{Mode, Precondition, Writer};

/// May this user patch the KubeadmControlPlane? A server that does not answer such questions counts as allowing.
pub(super) async fn missing_right(managed: &ManagedCluster) -> Option<String> {
    let ObjectRef { gvk, key, .. } = &managed.control_plane;
    let attempt = Attempt {
        verb: "patch".to_owned(),
        group: gvk.group.clone(),
        resource: gvk.plural.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        ..Attempt::default()
    };
    let access = may(&managed.management.client, &attempt).await;
    let is_missing = access.is_ok_and(|access| !access.allowed);
    is_missing.then(|| format!("patch {} in {} at {}", gvk.plural, key.namespace, managed.management.server))
}

/// What the patch would make of the KubeadmControlPlane, by the server's dry run.
///
/// # Errors
/// What the server has against it, in a sentence.
pub(super) async fn tried(managed: &ManagedCluster, patch: &Value) -> Result<Value, String> {
    // Its status may change at any moment: only the write asks for what was read.
    send(managed, patch, &Precondition::default(), Mode::DryRun).await.map_err(|error| error.to_string())
}

/// Patches the KubeadmControlPlane, if nobody changed it since it was read.
///
/// # Errors
/// Why not, in a sentence.
pub(super) async fn patch(managed: &ManagedCluster, patch: &Value) -> Result<String, String> {
    let version = managed.object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    // An object that was made anew under the name has another version, so that the uid is not
    // needed.
    let unchanged = Precondition { uid: None, resource_version: version };
    match send(managed, patch, &unchanged, Mode::Real).await {
        Ok(_) => Ok(format!(
            "{} is patched; `capstan change status --cluster` and `capstan wait` show how far it is\n",
            managed.control_plane
        )),
        Err(error) if error.is_conflict() => Err(format!(
            "{} was changed by somebody else since it was read: nothing is written; plan again",
            managed.control_plane
        )),
        Err(error) => Err(error.to_string()),
    }
}

async fn send(
    managed: &ManagedCluster,
    patch: &Value,
    precondition: &Precondition,
    mode: Mode,
) -> Result<Value, WriteError> {
    // Strict: releases before 1.8 have no field for a component's environment, and would drop it without a word.
    let writer = Writer::new(managed.management.client.clone(), MANAGER).strict();
    writer.patch_value(&managed.control_plane, Part::Main, patch, precondition, mode).await
}

/// How far its rollout is, in its own words.
pub fn state_words(managed: &ManagedCluster) -> String {
    let mut object = managed.object.clone();
    older_version::convert(&mut object);
    let status = &object["status"];
    // Releases before 1.9 write the older counters alone, and leave zeros out.
    let older = &status["deprecated"]["v1beta1"];
    let is_older = !older.is_null() && status["upToDateReplicas"].is_null();
    let count = |field: &str, older_field: &str| match &status[field] {
        Value::Null if is_older => older[older_field].as_u64().unwrap_or_default().to_string(),
        count => count.as_u64().map_or_else(|| "?".to_owned(), |count| count.to_string()),
    };
    let mut text = format!(
        "{}: {} of {} Machines are up to date, {} {}\n",
        managed.control_plane,
        count("upToDateReplicas", "updatedReplicas"),
        count("replicas", "replicas"),
        count("availableReplicas", "readyReplicas"),
        if is_older { "ready" } else { "available" }
    );
    let (conditions, type_) = match &status["conditions"] {
        Value::Null => (&older["conditions"], "MachinesSpecUpToDate"),
        conditions => (conditions, "RollingOut"),
    };
    let conditions = conditions.as_array().into_iter().flatten();
    for condition in conditions.filter(|condition| condition["type"] == type_) {
        let message = condition["message"].as_str().unwrap_or_default();
        let _ =
            writeln!(text, "  {type_} is {}: {message}", condition["status"].as_str().unwrap_or("unknown"));
    }
    text
}
