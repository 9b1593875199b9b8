//! `status.deprecated.v1beta1`: what older readers still look at. Kept so that a status survives a
//! round trip; nothing here is judged.
//! Source: cluster-api `api/core/v1beta2/v1beta1_condition_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Wrapper that upstream keeps for statuses of older API versions.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deprecated<T> {
    pub v1beta1: Option<T>,
}

/// The older condition, ranked by severity.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyCondition {
    pub last_transition_time: Time,
    #[schemars(length(min = 1, max = 10240))]
    pub message: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub reason: Option<String>,
    /// `Error`, `Warning`, `Info`, or empty.
    #[schemars(length(max = 32))]
    pub severity: Option<String>,
    pub status: String,
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 256))]
    pub type_: String,
}

/// Only conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyConditions {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,
}

/// Conditions and a terminal failure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyFailure {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    pub failure_reason: Option<String>,
}

/// Conditions, a terminal failure, and counters with the older meaning.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyMachineSet {
    pub available_replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    pub failure_reason: Option<String>,
    pub fully_labeled_replicas: Option<i32>,
    pub ready_replicas: Option<i32>,
}

/// Conditions, and counters with the older meaning.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyMachineDeployment {
    pub available_replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,
    pub ready_replicas: Option<i32>,
    pub unavailable_replicas: Option<i32>,
    pub updated_replicas: Option<i32>,
}

/// Conditions, a terminal failure, and counters with the older meaning.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyMachinePool {
    pub available_replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    pub failure_reason: Option<String>,
    pub ready_replicas: Option<i32>,
    pub unavailable_replicas: Option<i32>,
}

/// Conditions, a terminal failure, and counters with the older meaning.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyControlPlane {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<LegacyCondition>,
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,
    pub failure_reason: Option<String>,
    pub ready_replicas: Option<i32>,
    pub unavailable_replicas: Option<i32>,
    pub updated_replicas: Option<i32>,
}
