//! DevMachinePool: machines that upstream's development infrastructure counts for itself. The in-memory backend is ours;
//! upstream's has only containers.
//! Source: cluster-api `test/infrastructure/docker/api/v1beta2/devmachinepool_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::dev::{DockerMount, InMemoryMachine};
use super::machine::MachineAddress;

/// The Kubernetes version that a pool made a DevMachine for. A Machine of a pool learns its version from its Node; a
/// simulated Node has it from here.
pub const VERSION_ANNOTATION: &str = "provider.capstan.dev/pool-version";

/// What a DevMachinePool should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "DevMachinePool",
    plural = "devmachinepools",
    namespaced,
    category = "cluster-api",
    status = "DevMachinePoolStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Development machines that come and go as one group."
)]
#[serde(rename_all = "camelCase")]
pub struct DevMachinePoolSpec {
    pub backend: Option<DevMachinePoolBackend>,
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    #[serde(rename = "providerIDList", default, skip_serializing_if = "Vec::is_empty")]
    pub provider_id_list: Vec<String>,
}

/// Exactly one backend.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevMachinePoolBackend {
    pub docker: Option<DockerMachinePool>,
    pub in_memory: Option<InMemoryMachine>,
}

/// Containers as machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DockerMachinePool {
    pub custom_image: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_mounts: Vec<DockerMount>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_load_images: Vec<String>,
}

/// What a DevMachinePool is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DevMachinePoolStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub infrastructure_machine_kind: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<DevMachinePoolInstance>,
    pub observed_generation: Option<i64>,
    pub ready: Option<bool>,
    pub replicas: Option<i32>,
}

/// One machine of the group.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevMachinePoolInstance {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    pub instance_name: Option<String>,
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    pub ready: Option<bool>,
    pub version: Option<String>,
}
