//! The MachineDrainRule kind: which pods leave a Node how, and in which order.
//! Source: cluster-api `api/core/v1beta2/machinedrainrules_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What happens to some pods when some Machines are drained.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineDrainRule",
    plural = "machinedrainrules",
    namespaced,
    category = "cluster-api",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "How pods leave the Nodes of a namespace's Machines."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineDrainRuleSpec {
    pub drain: DrainConfig,
    /// Any of them selects a Machine; none: all Machines of the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32))]
    pub machines: Vec<MachineSelector>,
    /// Any of them selects a pod; none: all pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32))]
    pub pods: Vec<PodSelector>,
}

/// What a drain does with a pod.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainConfig {
    #[schemars(extend("enum" = ["Drain", "Skip", "WaitCompleted"]))]
    pub behavior: String,
    /// Lower ones first; 0 when absent. Only with `Drain`.
    pub order: Option<i32>,
}

/// Machines by their own labels and those of their Cluster; what is absent or empty selects all.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineSelector {
    pub cluster_selector: Option<LabelSelector>,
    pub selector: Option<LabelSelector>,
}

/// Pods by their own labels and those of their namespace; what is absent or empty selects all.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct PodSelector {
    pub namespace_selector: Option<LabelSelector>,
    pub selector: Option<LabelSelector>,
}
