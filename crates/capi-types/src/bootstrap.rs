//! KubeadmConfig and its template: what a machine runs at first boot.
//! Source: cluster-api `api/bootstrap/kubeadm/v1beta2`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use std::fmt;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::kubeadm::{ClusterConfiguration, InitConfiguration, JoinConfiguration};
use super::legacy::{Deprecated, LegacyFailure};
use super::reference::TemplateMeta;

/// Everything that happens at first boot. The same type is in KubeadmConfig, its template, and control planes.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "bootstrap.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "KubeadmConfig",
    plural = "kubeadmconfigs",
    namespaced,
    category = "cluster-api",
    status = "KubeadmConfigStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Bootstrap data of one machine."
)]
#[serde(rename_all = "camelCase", remote = "Self", default)]
#[schemars(rename = "KubeadmConfigSpec")]
#[schemars(extend("minProperties" = 1))]
pub struct KubeadmConfigSpec {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)))]
    pub boot_commands: Vec<String>,
    pub cluster_configuration: Option<ClusterConfiguration>,
    pub disk_setup: Option<DiskSetup>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 200))]
    pub files: Vec<File>,
    /// `cloud-config` when absent.
    #[schemars(extend("enum" = ["cloud-config", "ignition"]))]
    pub format: Option<String>,
    pub ignition: Option<Ignition>,
    pub init_configuration: Option<InitConfiguration>,
    pub join_configuration: Option<JoinConfiguration>,
    /// Rows as in fstab.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 100), inner(length(min = 1, max = 512)))
    )]
    pub mounts: Vec<Vec<String>>,
    pub ntp: Option<Ntp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)))]
    pub post_kubeadm_commands: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)))]
    pub pre_kubeadm_commands: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub users: Vec<User>,
    /// Log level of kubeadm.
    pub verbosity: Option<i32>,
}

impl Serialize for KubeadmConfigSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The derived function of the same name.
        Self::serialize(self, serializer)
    }
}

/// An absent spec counts as empty: upstream's clients leave an empty one out.
impl<'de> Deserialize<'de> for KubeadmConfigSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Absent;

        impl<'de> Visitor<'de> for Absent {
            type Value = KubeadmConfigSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a kubeadm configuration")
            }

            fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(KubeadmConfigSpec::default())
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(KubeadmConfigSpec::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                KubeadmConfigSpec::deserialize(deserializer)
            }
        }

        // An option and no struct: formats say only this way that the field is null.
        deserializer.deserialize_option(Absent)
    }
}

/// What became of the bootstrap data.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct KubeadmConfigStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    #[schemars(length(min = 1, max = 253))]
    pub data_secret_name: Option<String>,
    pub deprecated: Option<Deprecated<LegacyFailure>>,
    pub initialization: Option<BootstrapInitialization>,
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
}

/// A fact that stays true once reached.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct BootstrapInitialization {
    pub data_secret_created: Option<bool>,
}

/// Holder of the template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "bootstrap.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "KubeadmConfigTemplate",
    plural = "kubeadmconfigtemplates",
    namespaced,
    category = "cluster-api",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A KubeadmConfig for machine sets to copy."
)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmConfigTemplateSpec {
    pub template: KubeadmConfigTemplateResource,
}

/// The configuration to copy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct KubeadmConfigTemplateResource {
    pub metadata: Option<TemplateMeta>,
    pub spec: Option<KubeadmConfigSpec>,
}

/// Partitions and file systems to make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct DiskSetup {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub filesystems: Vec<Filesystem>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub partitions: Vec<Partition>,
}

/// One file system to make.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filesystem {
    #[schemars(length(min = 1, max = 256))]
    pub device: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub extra_opts: Vec<String>,
    #[schemars(length(min = 1, max = 128))]
    pub filesystem: String,
    #[schemars(length(min = 1, max = 512))]
    pub label: Option<String>,
    pub overwrite: Option<bool>,
    #[schemars(length(min = 1, max = 128))]
    pub partition: Option<String>,
    #[serde(rename = "replaceFS")]
    #[schemars(length(min = 1, max = 128))]
    pub replace_fs: Option<String>,
}

/// One disk to partition: whole, or by layout.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Partition {
    #[schemars(length(min = 1, max = 256))]
    pub device: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub disk_layout: Vec<PartitionSpec>,
    pub layout: Option<bool>,
    pub overwrite: Option<bool>,
    #[schemars(extend("enum" = ["mbr", "gpt"]))]
    pub table_type: Option<String>,
}

/// One slice of a disk.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionSpec {
    #[schemars(length(min = 1, max = 36))]
    pub partition_type: Option<String>,
    /// Share of the disk.
    #[schemars(range(min = 1, max = 100))]
    pub percentage: i32,
}

/// One file to write: its text here, or in a Secret.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct File {
    pub append: Option<bool>,
    #[schemars(length(min = 1, max = 10240))]
    pub content: Option<String>,
    #[schemars(extend("enum" = ["Raw", "Template"]))]
    pub content_format: Option<String>,
    pub content_from: Option<SecretSource>,
    #[schemars(extend("enum" = ["base64", "gzip", "gzip+base64"]))]
    pub encoding: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub owner: Option<String>,
    #[schemars(length(min = 1, max = 512))]
    pub path: String,
    #[schemars(length(min = 1, max = 16))]
    pub permissions: Option<String>,
}

/// A value kept in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretSource {
    pub secret: SecretKey,
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    #[schemars(length(min = 1, max = 256))]
    pub key: String,
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Settings for the ignition format.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Ignition {
    pub container_linux_config: Option<ContainerLinuxConfig>,
}

/// Extra Container Linux configuration.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ContainerLinuxConfig {
    #[schemars(length(min = 1, max = 32768))]
    pub additional_config: Option<String>,
    pub strict: Option<bool>,
}

/// Time servers.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Ntp {
    pub enabled: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 512)))]
    pub servers: Vec<String>,
}

/// One user to create.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct User {
    #[schemars(length(min = 1, max = 256))]
    pub gecos: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub groups: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub home_dir: Option<String>,
    pub inactive: Option<bool>,
    pub lock_password: Option<bool>,
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    #[schemars(length(min = 1, max = 256))]
    pub passwd: Option<String>,
    pub passwd_from: Option<SecretSource>,
    #[schemars(length(min = 1, max = 256))]
    pub primary_group: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub shell: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048)))]
    pub ssh_authorized_keys: Vec<String>,
    #[schemars(length(min = 1, max = 256))]
    pub sudo: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_configuration_may_come_without_spec() {
        let mut object = json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmConfig",
            "metadata": { "name": "c" },
        });
        let config: KubeadmConfig = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(config.spec, KubeadmConfigSpec::default());
        object["spec"] = json!({ "verbosity": 5 });
        let config: KubeadmConfig = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(config.spec.verbosity, Some(5));
        assert_eq!(serde_json::to_value(config).unwrap(), object);
    }
}
