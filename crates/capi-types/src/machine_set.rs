//! The MachineSet kind, and what it shares with its owner: the template, naming, observed versions.
//! Source: cluster-api `api/core/v1beta2/machineset_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::legacy::{Deprecated, LegacyMachineSet};
use super::machine::MachineSpec;
use super::reference::TemplateMeta;

/// What a MachineSet should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineSet",
    plural = "machinesets",
    namespaced,
    shortname = "ms",
    category = "cluster-api",
    status = "MachineSetStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A number of machines of one template. Usually owned by a MachineDeployment.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetSpec {
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    pub deletion: Option<DeletionOrder>,
    pub machine_naming: Option<MachineNaming>,
    pub replicas: Option<i32>,
    pub selector: LabelSelector,
    pub template: MachineTemplate,
}

/// What a MachineSet is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineSetStatus {
    pub available_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub deprecated: Option<Deprecated<LegacyMachineSet>>,
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
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

/// What new machines look like.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineTemplate {
    pub metadata: Option<TemplateMeta>,
    pub spec: MachineSpec,
}

/// Which machines go first when there are too many.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct DeletionOrder {
    /// `Random` when absent.
    #[schemars(extend("enum" = ["Random", "Newest", "Oldest"]))]
    pub order: Option<String>,
}

/// Names of new machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineNaming {
    /// Must contain `{{ .random }}`.
    #[schemars(length(min = 1, max = 256))]
    pub template: Option<String>,
}

/// How many machines run one Kubernetes version.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionCount {
    #[schemars(range(min = 1))]
    pub replicas: Option<i32>,
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
}
