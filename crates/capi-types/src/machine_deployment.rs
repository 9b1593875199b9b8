//! The MachineDeployment kind and its rollout settings.
//! Source: cluster-api `api/core/v1beta2/machinedeployment_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::legacy::{Deprecated, LegacyMachineDeployment};
use super::machine_set::{DeletionOrder, MachineNaming, MachineTemplate, VersionCount};

/// What a MachineDeployment should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineDeployment",
    plural = "machinedeployments",
    namespaced,
    shortname = "md",
    category = "cluster-api",
    status = "MachineDeploymentStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Worker machines, replaced step by step when their template changes.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentSpec {
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    pub deletion: Option<DeletionOrder>,
    pub machine_naming: Option<MachineNaming>,
    pub paused: Option<bool>,
    pub remediation: Option<DeploymentRemediation>,
    pub replicas: Option<i32>,
    pub rollout: Option<DeploymentRollout>,
    pub selector: LabelSelector,
    pub template: MachineTemplate,
}

/// Limits of replacing unhealthy machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct DeploymentRemediation {
    /// Of the newest machine set; no limit when absent.
    pub max_in_flight: Option<IntOrString>,
}

/// When and how machines are replaced.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct DeploymentRollout {
    /// Machines made before this time are replaced once it has passed.
    pub after: Option<Time>,
    pub strategy: Option<DeploymentStrategy>,
}

/// How old machines give way to new ones.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct DeploymentStrategy {
    pub rolling_update: Option<DeploymentRollingUpdate>,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["RollingUpdate", "OnDelete"]))]
    pub type_: String,
}

/// How far a rollout may leave the wanted size.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct DeploymentRollingUpdate {
    /// Percentages round up. 1 when absent.
    pub max_surge: Option<IntOrString>,
    /// Percentages round down. 0 when absent.
    pub max_unavailable: Option<IntOrString>,
}

/// What a MachineDeployment is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineDeploymentStatus {
    pub available_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub deprecated: Option<Deprecated<LegacyMachineDeployment>>,
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
    #[schemars(extend("enum" = ["ScalingUp", "ScalingDown", "Running", "Failed", "Unknown"]))]
    pub phase: Option<String>,
    pub ready_replicas: Option<i32>,
    pub replicas: Option<i32>,
    /// The selector as a string, for the scale subresource.
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,
    pub up_to_date_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["version"]))]
    pub versions: Vec<VersionCount>,
}
