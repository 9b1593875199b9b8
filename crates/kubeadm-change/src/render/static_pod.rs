//! The parts of a static pod that the configuration reaches: command, image, environment, volumes. Must not know
//! any component.
//!
//! Source: kubeadm `util/staticpod/utils.go`, `phases/controlplane/volumes.go`, `util/env.go`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ClusterSettings, HostFacts};

/// One static pod with its one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticPod {
    /// Program and flags, in kubeadm's order.
    pub command: Vec<String>,
    /// With its tag.
    pub image: String,
    /// As in a container, sorted by name.
    pub env: Vec<Value>,
    /// Sorted by name.
    pub volumes: Vec<Volume>,
    /// Sorted by name.
    pub volume_mounts: Vec<Mount>,
}

/// A folder or file of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// As the mount names it.
    pub name: String,
    /// A file or folder of the host's.
    pub host_path: String,
    /// `DirectoryOrCreate` and the like; empty when nothing is checked.
    #[serde(rename = "type", default)]
    pub type_: String,
}

/// Where it is in the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// Of the [`Volume`].
    pub name: String,
    /// In the container.
    pub mount_path: String,
    /// The container cannot write there.
    #[serde(default)]
    pub read_only: bool,
}

/// Volumes by name: the last one of a name counts.
#[derive(Default)]
pub(super) struct Volumes(BTreeMap<String, (Volume, Mount)>);

pub(super) const DIRECTORY_OR_CREATE: &str = "DirectoryOrCreate";
pub(super) const FILE_OR_CREATE: &str = "FileOrCreate";

impl Volumes {
    pub(super) fn add(
        &mut self,
        name: &str,
        host_path: &str,
        mount_path: &str,
        read_only: bool,
        type_: &str,
    ) {
        let volume =
            Volume { name: name.to_owned(), host_path: host_path.to_owned(), type_: type_.to_owned() };
        let mount = Mount { name: name.to_owned(), mount_path: mount_path.to_owned(), read_only };
        // The user's volumes come last: one with the name of kubeadm's own takes its place.
        self.0.insert(name.to_owned(), (volume, mount));
    }

    /// The same path on the host and in the container.
    pub(super) fn add_same(&mut self, name: &str, path: &str, read_only: bool, type_: &str) {
        self.add(name, path, path, read_only, type_);
    }

    pub(super) fn add_user(&mut self, list: Option<&Value>) {
        for volume in list.and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| volume[field].as_str().unwrap_or_default();
            let read_only = volume["readOnly"].as_bool().unwrap_or_default();
            self.add(text("name"), text("hostPath"), text("mountPath"), read_only, text("pathType"));
        }
    }

    pub(super) fn into_lists(self) -> (Vec<Volume>, Vec<Mount>) {
        self.0.into_values().unzip()
    }
}

/// Proxy variables of the shell under the user's variables, sorted by name.
pub(super) fn environment(
    settings: &ClusterSettings<'_>,
    host: &HostFacts,
    list: Option<&Value>,
    proxies: bool,
) -> Vec<Value> {
    let mut variables: BTreeMap<String, Value> = BTreeMap::new();
    if proxies {
        for (name, value) in &host.proxy_variables {
            variables.insert(name.clone(), json!({"name": name, "value": value}));
        }
    }
    // Older kubeadms read no version of the API that has variables.
    let user = list.filter(|_| settings.release.reads_extra_envs()).and_then(Value::as_array);
    for variable in user.into_iter().flatten() {
        let name = variable["name"].as_str().unwrap_or_default();
        // After those of the shell, which the configuration overrules.
        variables.insert(name.to_owned(), as_written(variable));
    }
    variables.into_values().collect()
}

/// A manifest leaves an empty value out, and a reference to a field has a version.
fn as_written(variable: &Value) -> Value {
    let mut variable = variable.clone();
    if let Value::Object(map) = &mut variable {
        map.retain(|_, value| !value.is_null() && value.as_str() != Some(""));
        if let Some(Value::Object(field)) = map.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef"))
        {
            field.entry("apiVersion").or_insert_with(|| "v1".into());
        }
    }
    variable
}
