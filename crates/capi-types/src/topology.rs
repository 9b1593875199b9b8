//! `spec.topology` of a Cluster: a cluster described by its class.
//! Source: cluster-api `api/core/v1beta2/cluster_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::machine::{MachineDeletion, MachineTaint, ReadinessGate};
use super::machine_deployment::DeploymentRollout;
use super::machine_health_check::{HealthCheckRemediation, HealthChecks, RemediationTrigger};
use super::reference::{DNS_LABEL, DNS_SUBDOMAIN, TemplateMeta, TemplateRef};

/// A cluster by class: version, variables, and sizes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    pub class_ref: ClassRef,
    pub control_plane: Option<TopologyControlPlane>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub variables: Vec<Variable>,
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    pub workers: Option<TopologyWorkers>,
}

/// The ClusterClass; its namespace is the cluster's own when absent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassRef {
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,
}

/// Control plane settings of a classy cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct TopologyControlPlane {
    pub deletion: Option<MachineDeletion>,
    pub health_check: Option<TopologyControlPlaneHealthCheck>,
    pub metadata: Option<TemplateMeta>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-map-keys" = ["conditionType"]))]
    pub readiness_gates: Vec<ReadinessGate>,
    pub replicas: Option<i32>,
    pub rollout: Option<TopologyControlPlaneRollout>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-map-keys" = ["key", "effect"]))]
    pub taints: Vec<MachineTaint>,
    pub variables: Option<VariableOverrides>,
}

/// Worker groups of a classy cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct TopologyWorkers {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 2000), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub machine_deployments: Vec<TopologyDeployment>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 2000), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub machine_pools: Vec<TopologyPool>,
}

/// One MachineDeployment of a classy cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyDeployment {
    #[schemars(length(min = 1, max = 256))]
    pub class: String,
    pub deletion: Option<TopologyDeploymentDeletion>,
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    pub health_check: Option<TopologyDeploymentHealthCheck>,
    pub metadata: Option<TemplateMeta>,
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-map-keys" = ["conditionType"]))]
    pub readiness_gates: Vec<ReadinessGate>,
    pub replicas: Option<i32>,
    pub rollout: Option<DeploymentRollout>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-map-keys" = ["key", "effect"]))]
    pub taints: Vec<MachineTaint>,
    pub variables: Option<VariableOverrides>,
}

/// One MachinePool of a classy cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyPool {
    #[schemars(length(min = 1, max = 256))]
    pub class: String,
    pub deletion: Option<MachineDeletion>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)))]
    pub failure_domains: Vec<String>,
    pub metadata: Option<TemplateMeta>,
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    pub replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-map-keys" = ["key", "effect"]))]
    pub taints: Vec<MachineTaint>,
    pub variables: Option<VariableOverrides>,
}

/// Health checking of control plane machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TopologyControlPlaneHealthCheck {
    pub checks: Option<HealthChecks>,
    pub enabled: Option<bool>,
    pub remediation: Option<HealthCheckRemediation>,
}

/// When control plane machines must be replaced.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TopologyControlPlaneRollout {
    pub after: Option<Time>,
}

/// Variables that differ for one group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct VariableOverrides {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub overrides: Vec<Variable>,
}

/// A value for a variable that the class declares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    pub value: Value,
}

/// Deletion settings of a MachineDeployment and its machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TopologyDeploymentDeletion {
    #[schemars(range(min = 0))]
    pub node_deletion_timeout_seconds: Option<i32>,
    #[schemars(range(min = 0))]
    pub node_drain_timeout_seconds: Option<i32>,
    #[schemars(range(min = 0))]
    pub node_volume_detach_timeout_seconds: Option<i32>,
    #[schemars(extend("enum" = ["Random", "Newest", "Oldest"]))]
    pub order: Option<String>,
}

/// Health checking of worker machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TopologyDeploymentHealthCheck {
    pub checks: Option<HealthChecks>,
    pub enabled: Option<bool>,
    pub remediation: Option<TopologyDeploymentRemediation>,
}

/// Limits of replacing unhealthy worker machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TopologyDeploymentRemediation {
    pub max_in_flight: Option<IntOrString>,
    pub template_ref: Option<TemplateRef>,
    pub trigger_if: Option<RemediationTrigger>,
}
