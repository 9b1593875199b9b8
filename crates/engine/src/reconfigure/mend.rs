//! ConfigMaps of a configuration that cannot be read, and the texts that the last change left there. Owns where such a text comes
//! from and how it is written back; must not know who asks for it.

use super::read::{ReadError, document, failed};
use super::write::{ChangeWriteError, patch_map};
use super::{KUBE_SYSTEM, config_map};
use crate::client::read::get_value;
use crate::client::{Client, Mode, Writer};
use kubeadm_change::document::{DocumentKind, read_inputs};
use kubeadm_change::record::{ChangeRecord, RECORD};

/// A ConfigMap that cannot be read, and what the last change left there.
#[derive(Clone, Debug)]
pub struct BrokenMap {
    pub name: &'static str,
    /// Why it cannot be read, with the place.
    pub why: String,
    /// The id of the change that left the text there.
    pub change: String,
    text: String,
    version: Option<String>,
}

/// Every ConfigMap that cannot be read. None of them where one has no text in the record of the last change.
///
/// # Errors
/// [`ReadError`].
pub async fn broken(client: &Client, server: &str) -> Result<Vec<BrokenMap>, ReadError> {
    let record = get_value(client, &config_map(RECORD)).await;
    let record = record.map_err(|error| failed(&error, server, "get", "configmaps"))?;
    let Some(record) = record.as_ref().map(ChangeRecord::read).transpose()? else { return Ok(Vec::new()) };
    let place = format!("{server}, namespace {KUBE_SYSTEM}");
    let mut found = Vec::new();
    for kind in [DocumentKind::Cluster, DocumentKind::Kubelet, DocumentKind::Proxy] {
        let (Some((name, _)), Some(map)) = (kind.stored_in(), document(client, server, kind).await?) else {
            continue;
        };
        let Err(errors) = read_inputs(&[(place.clone(), map.to_string())]) else { continue };
        // Writing only some of them back would leave documents of two states beside each other.
        let Some(text) = record.after.get(name).filter(|text| is_readable(kind, text)) else {
            return Ok(Vec::new());
        };
        found.push(BrokenMap {
            name,
            why: errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            change: record.id.to_string(),
            text: text.clone(),
            version: map["metadata"]["resourceVersion"].as_str().map(str::to_owned),
        });
    }
    Ok(found)
}

/// Writes a text back, if nobody has changed the ConfigMap since it was read.
///
/// # Errors
/// [`ChangeWriteError`].
pub async fn write_back(writer: &Writer, map: &BrokenMap) -> Result<(), ChangeWriteError> {
    patch_map(writer, map.name, &map.text, map.version.clone(), Mode::Real).await.map(drop)
}

fn is_readable(kind: DocumentKind, text: &str) -> bool {
    let read = read_inputs(&[(RECORD.to_owned(), text.to_owned())]);
    read.is_ok_and(|inputs| inputs.document(kind).is_some())
}
