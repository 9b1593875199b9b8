//! The Machine kind and the machine parts that templates share.
//! Source: cluster-api `api/core/v1beta2/machine_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::legacy::{Deprecated, LegacyFailure};
use super::reference::{CONDITION_TYPE, ContractRef, NodeRef};

/// What a Machine should be. Templates of every owner hold the same type.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Machine",
    plural = "machines",
    namespaced,
    shortname = "ma",
    category = "cluster-api",
    status = "MachineStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "One host of a cluster and the node it becomes. Its spec does not change; it is replaced."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    pub bootstrap: Bootstrap,
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    pub deletion: Option<MachineDeletion>,
    /// Where the owner wants it; where it is, is in the status.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    pub infrastructure_ref: ContractRef,
    /// How long a machine must be ready to count as available.
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    /// Written by the infrastructure once the host exists; the Node carries the same.
    #[serde(rename = "providerID")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-map-keys" = ["conditionType"]))]
    pub readiness_gates: Vec<ReadinessGate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-map-keys" = ["key", "effect"]))]
    pub taints: Vec<MachineTaint>,
    #[schemars(length(min = 1, max = 256))]
    pub version: Option<String>,
}

/// Where the first boot data comes from: an object to wait for, or a Secret that exists.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    pub config_ref: Option<ContractRef>,
    #[schemars(length(min = 0, max = 253))]
    pub data_secret_name: Option<String>,
}

/// What a Machine is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub addresses: Vec<MachineAddress>,
    /// Of the API server certificate; control plane machines only.
    pub certificates_expiry_date: Option<Time>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub deletion: Option<DeletionProgress>,
    pub deprecated: Option<Deprecated<LegacyFailure>>,
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    pub initialization: Option<MachineInitialization>,
    pub last_updated: Option<Time>,
    pub node_info: Option<NodeInfo>,
    pub node_ref: Option<NodeRef>,
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
    #[schemars(extend("enum" = ["Pending", "Provisioning", "Provisioned", "Running", "Updating", "Deleting", "Deleted", "Failed", "Unknown"]))]
    pub phase: Option<String>,
}

/// One address of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddress {
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"]))]
    pub type_: String,
}

/// Patience with a machine that goes. 0 means no limit.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeletion {
    /// 10 when absent.
    #[schemars(range(min = 0))]
    pub node_deletion_timeout_seconds: Option<i32>,
    #[schemars(range(min = 0))]
    pub node_drain_timeout_seconds: Option<i32>,
    #[schemars(range(min = 0))]
    pub node_volume_detach_timeout_seconds: Option<i32>,
}

/// A condition that takes part in a summary.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessGate {
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_TYPE))]
    pub condition_type: String,
    /// `Negative` means that True is the problem. Absent means `Positive`.
    #[schemars(extend("enum" = ["Positive", "Negative"]))]
    pub polarity: Option<String>,
}

/// A taint that the Node gets.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineTaint {
    #[schemars(extend("enum" = ["NoSchedule", "PreferNoSchedule", "NoExecute"]))]
    pub effect: String,
    #[schemars(
        length(min = 1, max = 317),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
        )
    )]
    pub key: String,
    /// `Always` keeps it in step, `OnInitialization` sets it once.
    #[schemars(extend("enum" = ["Always", "OnInitialization"]))]
    pub propagation: String,
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"))]
    pub value: Option<String>,
}

/// When each stage of a deletion began; timeouts count from here.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionProgress {
    pub node_drain_start_time: Option<Time>,
    pub wait_for_node_volume_detach_start_time: Option<Time>,
    pub wait_for_pre_drain_hook_start_time: Option<Time>,
    pub wait_for_pre_terminate_hook_start_time: Option<Time>,
}

/// Two facts that stay true once reached.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineInitialization {
    pub bootstrap_data_secret_created: Option<bool>,
    pub infrastructure_provisioned: Option<bool>,
}

/// The Node's report about its system.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    pub architecture: String,
    #[serde(rename = "bootID")]
    pub boot_id: String,
    pub container_runtime_version: String,
    pub kernel_version: String,
    pub kube_proxy_version: String,
    pub kubelet_version: String,
    #[serde(rename = "machineID")]
    pub machine_id: String,
    pub operating_system: String,
    pub os_image: String,
    pub swap: Option<NodeSwap>,
    #[serde(rename = "systemUUID")]
    pub system_uuid: String,
}

/// Swap space of the Node.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSwap {
    /// Bytes.
    pub capacity: Option<i64>,
}
