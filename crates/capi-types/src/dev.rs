//! Upstream's development infrastructure: DevCluster, DevMachine and their templates, whose in-memory
//! backend the simulator plays.
//! Source: cluster-api `test/infrastructure/docker/api/v1beta2`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::cluster::{Endpoint, FailureDomain};
use super::condition::Condition;
use super::legacy::{Deprecated, LegacyConditions};
use super::machine::MachineAddress;
use super::reference::TemplateMeta;

/// A DevMachine with this annotation never gets past the named phase (`VM`, `Node`, `Etcd` or
/// `APIServer`); taking the annotation away lets it go on. For demonstrations and tests; not upstream.
pub const HOLD_ANNOTATION: &str = "provider.capstan.dev/hold-at";

/// Pods that run on the Node of a DevMachine, as a JSON list of
/// `{"namespace", "name", "labels", "daemonSet", "terminationSeconds", "budgetSeconds", "completionSeconds", "claim",
/// "detachSeconds"}`, all but the name optional: how long the pod takes to stop, how long a disruption budget holds it,
/// how long after the cordon it ends by itself, the claim of its volume, and how long that stays attached. For
/// demonstrations and tests; not upstream.
pub const PODS_ANNOTATION: &str = "provider.capstan.dev/pods";

/// On a DevMachine, usually from its template: memory of the simulated VM, as a quantity. Upstream's in-memory machines
/// have no such field; their spec is left as it is.
pub const MEMORY_ANNOTATION: &str = "provider.capstan.dev/memory";

/// On a DevMachine: what its simulated host is, as JSON of [`Host`]. Noted when an update in place begins, since from then
/// on the objects say what the host should become; written by whoever updates the host.
pub const HOST_ANNOTATION: &str = "provider.capstan.dev/host";

/// On a DevMachine, a comma list of what its simulated host does wrong from now on: `not-ready` and `silent` (its
/// kubelet), and in a cluster whose API is served `refuses-commands` (ssh does not get in), `api-server-stays-down` and
/// `kubelet-stays-down` (when they are started again). For demonstrations and tests; not upstream.
pub const FAULTS_ANNOTATION: &str = "provider.capstan.dev/faults";

/// On a DevCluster, with any value: the Kubernetes API of the simulated cluster is served at its endpoint. Without it
/// nothing listens there, so that a thousand clusters cost nothing. For demonstrations and tests; not upstream.
pub const SERVED_ANNOTATION: &str = "provider.capstan.dev/serve-api";

/// What can be changed of a simulated host without replacing it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Host {
    /// What the kubelet reports, and the API server of a control plane.
    pub kubelet_version: String,
    pub memory: Option<String>,
}

/// What a DevCluster should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "DevCluster",
    plural = "devclusters",
    namespaced,
    category = "cluster-api",
    status = "DevClusterStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Infrastructure of a development cluster."
)]
#[serde(rename_all = "camelCase")]
pub struct DevClusterSpec {
    pub backend: DevClusterBackend,
    pub control_plane_endpoint: Option<Endpoint>,
}

/// What a DevCluster is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DevClusterStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub deprecated: Option<Deprecated<LegacyConditions>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<FailureDomain>,
    pub initialization: Option<InfrastructureInitialization>,
}

/// Exactly one backend.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevClusterBackend {
    pub docker: Option<DockerCluster>,
    pub in_memory: Option<InMemoryCluster>,
}

/// A cluster that exists only in memory. Nothing to set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InMemoryCluster {}

/// What a DevMachine should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "DevMachine",
    plural = "devmachines",
    namespaced,
    category = "cluster-api",
    status = "DevMachineStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A development machine: a container, or a machine that exists only in memory."
)]
#[serde(rename_all = "camelCase")]
pub struct DevMachineSpec {
    pub backend: DevMachineBackend,
    #[serde(rename = "providerID")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
}

/// What a DevMachine is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DevMachineStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub deprecated: Option<Deprecated<LegacyConditions>>,
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    pub initialization: Option<InfrastructureInitialization>,
}

/// Exactly one backend.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevMachineBackend {
    pub docker: Option<DockerMachine>,
    pub in_memory: Option<InMemoryMachine>,
}

/// How long each part of a pretended machine takes to come up.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InMemoryMachine {
    pub api_server: Option<InMemoryComponent>,
    pub etcd: Option<InMemoryComponent>,
    pub node: Option<InMemoryComponent>,
    pub vm: Option<InMemoryComponent>,
}

/// One part of a pretended machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InMemoryComponent {
    pub provisioning: Option<Provisioning>,
}

/// How long a part takes to come up.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provisioning {
    /// A Go duration such as `10s`.
    pub startup_duration: String,
    /// A fraction such as `0.2`: up to this share is added by chance.
    pub startup_jitter: Option<String>,
}

/// A fact that stays true once reached.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct InfrastructureInitialization {
    pub provisioned: Option<bool>,
}

/// Holder of the template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "DevClusterTemplate",
    plural = "devclustertemplates",
    namespaced,
    category = "cluster-api",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A DevCluster for cluster classes to copy."
)]
#[serde(rename_all = "camelCase")]
pub struct DevClusterTemplateSpec {
    pub template: DevClusterTemplateResource,
}

/// The cluster to copy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevClusterTemplateResource {
    pub metadata: Option<TemplateMeta>,
    pub spec: DevClusterSpec,
}

/// Holder of the template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "DevMachineTemplate",
    plural = "devmachinetemplates",
    namespaced,
    category = "cluster-api",
    status = "DevMachineTemplateStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A DevMachine for machine sets and control planes to copy."
)]
#[serde(rename_all = "camelCase")]
pub struct DevMachineTemplateSpec {
    pub template: DevMachineTemplateResource,
}

/// The machine to copy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevMachineTemplateResource {
    pub metadata: Option<TemplateMeta>,
    pub spec: DevMachineSpec,
}

/// What the autoscaler needs to scale from zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevMachineTemplateStatus {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
}

/// Containers on one host.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DockerCluster {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<FailureDomain>,
    pub load_balancer: Option<DockerLoadBalancer>,
}

/// The load balancer container.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DockerLoadBalancer {
    #[serde(rename = "customHAProxyConfigTemplateRef")]
    pub custom_haproxy_config_template_ref: Option<LocalObjectReference>,
    pub image_repository: Option<String>,
    pub image_tag: Option<String>,
}

/// A container as machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DockerMachine {
    /// A Go duration.
    pub bootstrap_timeout: Option<String>,
    pub custom_image: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_mounts: Vec<DockerMount>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_load_images: Vec<String>,
}

/// A host folder in the container.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DockerMount {
    pub container_path: Option<String>,
    pub host_path: Option<String>,
    pub read_only: Option<bool>,
}
