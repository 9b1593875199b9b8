//! What is written of a change: the record, then the ConfigMaps, each only if nobody changed it since it was read; all of them or
//! none. Owns the order of these writes and how they are put back; must not know what is in the documents.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{config_map, read::ClusterReading};
use crate::client::write::Part;
use crate::client::{Mode, Precondition, WriteError, Writer};
use kubeadm_change::record::{ChangeRecord, RECORD, RecordState, key_of};

/// A write that did not happen; what was written before it is put back.
#[derive(Debug, thiserror::Error)]
pub enum ChangeWriteError {
    #[error(
        "{what} was changed by somebody else since it was read: nothing of this plan is written; plan again"
    )]
    Conflict { what: String },
    #[error(
        "{what} was changed by somebody else meanwhile, and {left} could not be put back: {reason}; look at `capstan change status`"
    )]
    HalfWritten { what: String, left: String, reason: String },
    #[error(transparent)]
    Refused(#[from] WriteError),
}

/// Writes the record, and the ConfigMaps whose text it changes. What was read last is the precondition.
///
/// # Errors
/// [`ChangeWriteError`].
pub async fn begin(
    writer: &Writer,
    reading: &ClusterReading,
    record: &ChangeRecord,
) -> Result<(), ChangeWriteError> {
    let changed: Vec<(&str, &str)> = record
        .after
        .iter()
        .filter(|(map, text)| reading.texts.get(*map) != Some(*text))
        .map(|(map, text)| (map.as_str(), text.as_str()))
        .collect();
    for (map, text) in &changed {
        let version = reading.inputs.versions.get(*map).cloned();
        // All are tried before anything is kept: what a webhook or a right refuses shows here.
        patch_map(writer, map, text, version, Mode::DryRun).await?;
    }
    // The record goes first: whatever ends this process, the next one finds what was begun.
    keep(writer, record, reading.record.as_ref()).await?;
    let mut written: BTreeMap<&str, String> = BTreeMap::new();
    for (map, text) in changed {
        let version = reading.inputs.versions.get(map).cloned();
        match patch_map(writer, map, text, version, Mode::Real).await {
            Ok(version) => drop(written.insert(map, version)),
            Err(error) => {
                put_back(writer, reading, record, &written, &error).await?;
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Writes one ConfigMap whose text is not yet that of the record.
///
/// # Errors
/// [`ChangeWriteError`].
pub async fn go_on(
    writer: &Writer,
    reading: &ClusterReading,
    record: &ChangeRecord,
    map: &str,
) -> Result<(), ChangeWriteError> {
    let Some(text) = record.after.get(map) else { return Ok(()) };
    let version = reading.inputs.versions.get(map).cloned();
    patch_map(writer, map, text, version, Mode::Real).await.map(drop)
}

/// Marks the record as complete, or otherwise replaces it.
///
/// # Errors
/// [`ChangeWriteError`].
pub async fn keep(
    writer: &Writer,
    record: &ChangeRecord,
    replaced: Option<&ChangeRecord>,
) -> Result<(), ChangeWriteError> {
    let (target, data) = (config_map(RECORD), record.data(replaced));
    let what = format!("ConfigMap kube-system/{RECORD}");
    let Some(replaced) = replaced else {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
        object["metadata"] = json!({"name": RECORD, "namespace": "kube-system", "labels": {"app.kubernetes.io/managed-by": "capstan"}});
        return match writer.create_value(&target, &object, Mode::Real).await {
            // Another change was begun since the record was looked for.
            Err(error) if error.already_exists() => Err(ChangeWriteError::Conflict { what }),
            other => other.map(drop).map_err(ChangeWriteError::from),
        };
    };
    let unchanged = precondition(Some(replaced.resource_version.clone()));
    let written =
        writer.patch_value(&target, Part::Main, &json!({"data": data}), &unchanged, Mode::Real).await;
    written.map(drop).map_err(|error| conflict(error, what))
}

/// Closes the record of a change of which nothing is stored.
///
/// # Errors
/// [`ChangeWriteError`].
pub async fn close(writer: &Writer, open: &ChangeRecord, at: String) -> Result<(), ChangeWriteError> {
    let closed = ChangeRecord { state: RecordState::Complete, completed: Some(at), ..open.clone() };
    keep(writer, &closed, Some(open)).await
}

fn precondition(version: Option<String>) -> Precondition {
    Precondition { uid: None, resource_version: version.filter(|version| !version.is_empty()) }
}

fn conflict(error: WriteError, what: String) -> ChangeWriteError {
    if error.is_conflict() { ChangeWriteError::Conflict { what } } else { error.into() }
}

/// Writes a text, and gives the new resourceVersion.
pub(super) async fn patch_map(
    writer: &Writer,
    map: &str,
    text: &str,
    version: Option<String>,
    mode: Mode,
) -> Result<String, ChangeWriteError> {
    let patch = json!({"data": {key_of(map).unwrap_or_default(): text}});
    let written =
        writer.patch_value(&config_map(map), Part::Main, &patch, &precondition(version), mode).await;
    let written: Value = written.map_err(|error| conflict(error, format!("ConfigMap kube-system/{map}")))?;
    Ok(written["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
}

/// Gives the ConfigMaps that were written their old text, and the record its old state.
async fn put_back(
    writer: &Writer,
    reading: &ClusterReading,
    record: &ChangeRecord,
    written: &BTreeMap<&str, String>,
    cause: &ChangeWriteError,
) -> Result<(), ChangeWriteError> {
    for (map, version) in written {
        let Some(text) = reading.texts.get(*map) else { continue };
        let back = patch_map(writer, map, text, Some(version.clone()), Mode::Real).await;
        // The rest is left as well: a person has to look at what both writers want.
        back.map_err(|error| ChangeWriteError::HalfWritten {
            what: cause.to_string(),
            left: format!("ConfigMap kube-system/{map}"),
            reason: error.to_string(),
        })?;
    }
    match &reading.record {
        Some(before) => {
            let patch = json!({"data": before.data(Some(record))});
            let none = Precondition::default();
            writer.patch_value(&config_map(RECORD), Part::Main, &patch, &none, Mode::Real).await?;
        }
        None => writer.delete_value(&config_map(RECORD), &Precondition::default(), Mode::Real).await?,
    }
    Ok(())
}
