//! The MachineHealthCheck kind, and the checks that a topology may embed.
//! Source: cluster-api `api/core/v1beta2/machinehealthcheck_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::legacy::{Deprecated, LegacyConditions};
use super::reference::{CONDITION_TYPE, TemplateRef};

/// Which machines to watch, for what, and when to hold back.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineHealthCheck",
    plural = "machinehealthchecks",
    namespaced,
    shortname = "mhc",
    shortname = "mhcs",
    category = "cluster-api",
    status = "MachineHealthCheckStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "When a machine counts as unhealthy, and how many may be at once."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckSpec {
    pub checks: Option<HealthChecks>,
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    pub remediation: Option<HealthCheckRemediation>,
    pub selector: LabelSelector,
}

/// What the check found.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct MachineHealthCheckStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    #[schemars(range(min = 0))]
    pub current_healthy: Option<i32>,
    pub deprecated: Option<Deprecated<LegacyConditions>>,
    #[schemars(range(min = 0))]
    pub expected_machines: Option<i32>,
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
    #[schemars(range(min = 0))]
    pub remediations_allowed: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000), inner(length(min = 1, max = 253)))]
    pub targets: Vec<String>,
}

/// What makes a machine unhealthy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct HealthChecks {
    /// 600 when absent; 0 switches it off.
    #[schemars(range(min = 0))]
    pub node_startup_timeout_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub unhealthy_node_conditions: Vec<UnhealthyNodeCondition>,
}

/// A Machine condition that must not last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyMachineCondition {
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_TYPE))]
    pub type_: String,
}

/// A Node condition that must not last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyNodeCondition {
    #[schemars(length(min = 1))]
    pub status: String,
    #[schemars(range(min = 0))]
    pub timeout_seconds: i32,
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub type_: String,
}

/// Which controller replaces an unhealthy machine, and when none should.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HealthCheckRemediation {
    pub template_ref: Option<TemplateRef>,
    pub trigger_if: Option<RemediationTrigger>,
}

/// How many unhealthy machines still allow remediation. The range wins when both are set.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct RemediationTrigger {
    /// Like `[3-5]`, both ends included.
    #[schemars(length(min = 1, max = 32), regex(pattern = r"^\[[0-9]+-[0-9]+\]$"))]
    pub unhealthy_in_range: Option<String>,
    pub unhealthy_less_than_or_equal_to: Option<IntOrString>,
}
