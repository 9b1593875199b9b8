//! What a machine's KubeadmConfig gives its host: files, and how `kubeadm init` is to make the cluster. Must not know a host.
//!
//! A simulated host reads the object itself in place of the user data that is made of it: of a Machine that joined, only
//! the object still says how its control plane was meant.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use capi_types::bootstrap::{File, KubeadmConfigSpec};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct BootData {
    /// Text by path.
    pub files: BTreeMap<String, String>,
    /// As Cluster API writes it: arguments are lists.
    pub cluster_configuration: Option<Value>,
}

impl BootData {
    pub fn of(spec: &KubeadmConfigSpec) -> Self {
        let configuration = spec.cluster_configuration.as_ref();
        let mut files = BTreeMap::new();
        for file in &spec.files {
            // A file out of a Secret is not read here: the host goes without it.
            let Some(text) = text_of(file) else { continue };
            match file.append {
                Some(true) => files.entry(file.path.clone()).or_insert_with(String::new).push_str(&text),
                _ => drop(files.insert(file.path.clone(), text)),
            }
        }
        Self { files, cluster_configuration: configuration.and_then(|c| serde_json::to_value(c).ok()) }
    }
}

/// Of a file whose content stands in the object, plain or as base64; others are left out.
fn text_of(file: &File) -> Option<String> {
    let content = file.content.as_ref()?;
    match file.encoding.as_deref() {
        None => Some(content.clone()),
        // Binary files are left out as well: the simulated shell knows only text.
        Some("base64") => String::from_utf8(BASE64.decode(content.trim()).ok()?).ok(),
        Some(_) => None,
    }
}
