//! HostCluster: where the API server of a cluster on Hosts is reached, and its template. Fulfils Cluster API's contract v1beta2 of
//! infrastructure clusters. Owns shapes; must not know who makes the endpoint.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::cluster::{Endpoint, FailureDomain};
use super::condition::Condition;
use super::dev::InfrastructureInitialization;
use super::reference::{DNS_SUBDOMAIN, TemplateMeta};

/// On a HostCluster: its endpoint is known.
pub const ENDPOINT_READY: &str = "EndpointReady";

/// Who answers at the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointMode {
    /// A load balancer or a name that leads to the control plane; it is somebody else's business.
    #[default]
    External,
    /// One Host, whose control plane is the only one.
    SingleHost,
    /// An address that the Hosts of the control plane hold in turn. Not there yet: refused with a sentence.
    Vip,
}

/// How the endpoint is made.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostEndpoint {
    /// `External` or `SingleHost`.
    #[schemars(extend("enum" = ["External", "SingleHost", "VIP"]))]
    pub mode: String,
    /// With `SingleHost`: the Host.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub host_name: Option<String>,
}

impl HostEndpoint {
    /// External where nothing else is said.
    pub fn mode(&self) -> EndpointMode {
        match self.mode.as_str() {
            "SingleHost" => EndpointMode::SingleHost,
            "VIP" => EndpointMode::Vip,
            _ => EndpointMode::External,
        }
    }
}

/// What a HostCluster should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "HostCluster",
    plural = "hostclusters",
    namespaced,
    category = "cluster-api",
    status = "HostClusterStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Infrastructure of a cluster on Hosts."
)]
#[serde(rename_all = "camelCase")]
pub struct HostClusterSpec {
    /// With `External` given; with `SingleHost` written by the engine.
    pub control_plane_endpoint: Option<Endpoint>,
    /// Who answers there.
    pub endpoint: Option<HostEndpoint>,
}

/// What a HostCluster is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostClusterStatus {
    /// `EndpointReady`, and `Ready` as the sum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Those of the Hosts in its namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<FailureDomain>,
    /// The contract's.
    pub initialization: Option<InfrastructureInitialization>,
}

/// Holder of the template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "HostClusterTemplate",
    plural = "hostclustertemplates",
    namespaced,
    category = "cluster-api",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "What HostClusters are made from."
)]
#[serde(rename_all = "camelCase")]
pub struct HostClusterTemplateSpec {
    /// Never changes: another template takes its place.
    pub template: HostClusterTemplateResource,
}

/// The HostCluster to copy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostClusterTemplateResource {
    /// Copied, too.
    pub metadata: Option<TemplateMeta>,
    /// Without what the engine writes.
    pub spec: HostClusterSpec,
}
