//! The MachinePool kind: machines that the infrastructure counts for itself.
//! Source: cluster-api `api/core/v1beta2/machinepool_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use k8s_openapi::api::core::v1::ObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::legacy::{Deprecated, LegacyMachinePool};
use super::machine::MachineInitialization;
use super::machine_set::{MachineTemplate, VersionCount};

/// What a MachinePool should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachinePool",
    plural = "machinepools",
    namespaced,
    shortname = "mp",
    category = "cluster-api",
    status = "MachinePoolStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Worker machines that an infrastructure group creates and removes by itself.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas")
)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolSpec {
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub failure_domains: Vec<String>,
    #[serde(rename = "providerIDList", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000), inner(length(min = 1, max = 512)))]
    pub provider_id_list: Vec<String>,
    pub replicas: Option<i32>,
    pub template: MachineTemplate,
}

/// What a MachinePool is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachinePoolStatus {
    pub available_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub deprecated: Option<Deprecated<LegacyMachinePool>>,
    pub initialization: Option<MachineInitialization>,
    /// Full references, unlike a Machine's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000))]
    pub node_refs: Vec<ObjectReference>,
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
    #[schemars(extend("enum" = ["Pending", "Provisioning", "Provisioned", "Running", "ScalingUp", "ScalingDown", "Scaling", "Deleting", "Failed", "Unknown"]))]
    pub phase: Option<String>,
    pub ready_replicas: Option<i32>,
    pub replicas: Option<i32>,
    pub up_to_date_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["version"]))]
    pub versions: Vec<VersionCount>,
}
