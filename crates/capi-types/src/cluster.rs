//! The Cluster kind: references, network, replica counters.
//! Source: cluster-api `api/core/v1beta2/cluster_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::legacy::{Deprecated, LegacyFailure};
use super::machine::ReadinessGate;
use super::machine_set::VersionCount;
use super::reference::ContractRef;
use super::topology::Topology;

/// What a Cluster should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Cluster",
    plural = "clusters",
    namespaced,
    shortname = "cl",
    category = "cluster-api",
    status = "ClusterStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "One workload cluster: where its control plane and infrastructure are, and how its machines are doing."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterSpec {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-map-keys" = ["conditionType"]))]
    pub availability_gates: Vec<ReadinessGate>,
    pub cluster_network: Option<ClusterNetwork>,
    /// Filled by the infrastructure or the control plane when the manifest leaves it out.
    pub control_plane_endpoint: Option<Endpoint>,
    pub control_plane_ref: Option<ContractRef>,
    pub infrastructure_ref: Option<ContractRef>,
    /// Stops every controller on this cluster and everything in it.
    pub paused: Option<bool>,
    /// Set for clusters made from a class.
    pub topology: Option<Topology>,
}

/// What a Cluster is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub control_plane: Option<ReplicaCounts>,
    pub deprecated: Option<Deprecated<LegacyFailure>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<FailureDomain>,
    pub initialization: Option<ClusterInitialization>,
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
    /// A summary for people; conditions are what to judge by.
    #[schemars(extend("enum" = ["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"]))]
    pub phase: Option<String>,
    pub workers: Option<ReplicaCounts>,
}

/// Addresses that the workload cluster uses inside.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterNetwork {
    /// 6443 when absent.
    #[schemars(range(min = 1, max = 65535))]
    pub api_server_port: Option<i32>,
    pub pods: Option<NetworkRanges>,
    #[schemars(length(min = 1, max = 253))]
    pub service_domain: Option<String>,
    pub services: Option<NetworkRanges>,
}

/// Address ranges in CIDR form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRanges {
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 43)))]
    pub cidr_blocks: Vec<String>,
}

/// Host and port of the API server of a workload cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Endpoint {
    #[schemars(length(min = 1, max = 512))]
    pub host: Option<String>,
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// A place that can fail on its own, for machines to be spread over.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Whether control plane machines may be placed here.
    pub control_plane: Option<bool>,
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
}

/// Two facts that stay true once reached.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterInitialization {
    pub control_plane_initialized: Option<bool>,
    pub infrastructure_provisioned: Option<bool>,
}

/// Counters over the machines of a cluster, control plane and workers apart. Absent means unknown.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaCounts {
    pub available_replicas: Option<i32>,
    pub desired_replicas: Option<i32>,
    pub ready_replicas: Option<i32>,
    pub replicas: Option<i32>,
    pub up_to_date_replicas: Option<i32>,
    /// Versions still to go through, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32))]
    pub upgrade_plan: Vec<UpgradeVersion>,
    /// Observed versions, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32))]
    pub versions: Vec<VersionCount>,
}

/// One stop of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeVersion {
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
}
