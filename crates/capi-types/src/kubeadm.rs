//! The kubeadm documents (cluster, init and join configuration) as a KubeadmConfig embeds them:
//! without apiVersion, kind, and the fields that Cluster API fills in.
//! Source: cluster-api `api/bootstrap/kubeadm/v1beta2/kubeadm_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Cluster-wide kubeadm settings.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterConfiguration {
    pub api_server: Option<ApiServer>,
    /// 3650 when absent.
    #[schemars(range(min = 1, max = 36500))]
    pub ca_certificate_validity_period_days: Option<i32>,
    /// 365 when absent.
    #[schemars(range(min = 1, max = 1095))]
    pub certificate_validity_period_days: Option<i32>,
    #[schemars(length(min = 1, max = 512))]
    pub certificates_dir: Option<String>,
    #[schemars(length(min = 1, max = 512))]
    pub control_plane_endpoint: Option<String>,
    pub controller_manager: Option<ControlPlaneComponent>,
    pub dns: Option<Dns>,
    /// `RSA-2048` when absent.
    #[schemars(extend("enum" = ["ECDSA-P256", "ECDSA-P384", "RSA-2048", "RSA-3072", "RSA-4096"]))]
    pub encryption_algorithm: Option<String>,
    pub etcd: Option<Etcd>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    #[schemars(length(min = 1, max = 512))]
    pub image_repository: Option<String>,
    pub scheduler: Option<ControlPlaneComponent>,
}

/// The API server's static pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ApiServer {
    #[serde(rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 253)))]
    pub cert_sans: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["name", "value"]))]
    pub extra_args: Vec<Arg>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub extra_envs: Vec<EnvVar>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub extra_volumes: Vec<HostPathMount>,
}

/// One command line flag; a name appears once in a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Arg {
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    #[schemars(length(min = 0, max = 1024))]
    pub value: String,
}

/// A host path mounted into a static pod.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostPathMount {
    #[schemars(length(min = 1, max = 512))]
    pub host_path: String,
    #[schemars(length(min = 1, max = 512))]
    pub mount_path: String,
    #[schemars(length(min = 1, max = 512))]
    pub name: String,
    pub path_type: Option<String>,
    pub read_only: Option<bool>,
}

/// The static pod of a control plane component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneComponent {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["name", "value"]))]
    pub extra_args: Vec<Arg>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub extra_envs: Vec<EnvVar>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub extra_volumes: Vec<HostPathMount>,
}

/// Where the DNS add-on comes from.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Dns {
    #[schemars(length(min = 1, max = 512))]
    pub image_repository: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub image_tag: Option<String>,
}

/// Stacked or external etcd.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Etcd {
    pub external: Option<ExternalEtcd>,
    pub local: Option<LocalEtcd>,
}

/// Etcd that runs outside of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalEtcd {
    #[schemars(length(min = 1, max = 512))]
    pub ca_file: String,
    #[schemars(length(min = 1, max = 512))]
    pub cert_file: String,
    #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 512)))]
    pub endpoints: Vec<String>,
    #[schemars(length(min = 1, max = 512))]
    pub key_file: String,
}

/// Etcd as static pods beside the API server.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct LocalEtcd {
    #[schemars(length(min = 1, max = 512))]
    pub data_dir: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["name", "value"]))]
    pub extra_args: Vec<Arg>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub extra_envs: Vec<EnvVar>,
    #[schemars(length(min = 1, max = 512))]
    pub image_repository: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    pub image_tag: Option<String>,
    #[serde(rename = "peerCertSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 253)))]
    pub peer_cert_sans: Vec<String>,
    #[serde(rename = "serverCertSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 253)))]
    pub server_cert_sans: Vec<String>,
}

/// Settings of the first control plane machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct InitConfiguration {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub bootstrap_tokens: Vec<BootstrapToken>,
    #[serde(rename = "localAPIEndpoint")]
    pub local_api_endpoint: Option<ApiEndpoint>,
    pub node_registration: Option<NodeRegistration>,
    pub patches: Option<Patches>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 256)))]
    pub skip_phases: Vec<String>,
    pub timeouts: Option<Timeouts>,
}

/// A token that machines join with.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapToken {
    #[schemars(length(min = 1, max = 512))]
    pub description: Option<String>,
    pub expires: Option<Time>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)))]
    pub groups: Vec<String>,
    #[schemars(length(min = 1, max = 23))]
    pub token: String,
    #[schemars(range(min = 0))]
    pub ttl_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)))]
    pub usages: Vec<String>,
}

/// Where an API server listens.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ApiEndpoint {
    #[schemars(length(min = 1, max = 39))]
    pub advertise_address: Option<String>,
    /// 6443 when absent.
    #[schemars(range(min = 1))]
    pub bind_port: Option<i32>,
}

/// How a machine becomes a Node.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct NodeRegistration {
    #[schemars(length(min = 1, max = 512))]
    pub cri_socket: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 512)))]
    pub ignore_preflight_errors: Vec<String>,
    #[schemars(extend("enum" = ["Always", "IfNotPresent", "Never"]))]
    pub image_pull_policy: Option<String>,
    pub image_pull_serial: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["name", "value"]))]
    pub kubelet_extra_args: Vec<Arg>,
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Absent leaves kubeadm's default taint on control planes; an empty list means none.
    #[schemars(length(min = 0, max = 100))]
    pub taints: Option<Vec<Taint>>,
}

/// A folder with patches for static pods.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Patches {
    #[schemars(length(min = 1, max = 512))]
    pub directory: Option<String>,
}

/// Patience of kubeadm, in seconds.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Timeouts {
    #[schemars(range(min = 0))]
    pub control_plane_component_health_check_seconds: Option<i32>,
    #[schemars(range(min = 0))]
    pub discovery_seconds: Option<i32>,
    #[serde(rename = "etcdAPICallSeconds")]
    #[schemars(range(min = 0))]
    pub etcd_api_call_seconds: Option<i32>,
    #[schemars(range(min = 0))]
    pub kubelet_health_check_seconds: Option<i32>,
    #[serde(rename = "kubernetesAPICallSeconds")]
    #[schemars(range(min = 0))]
    pub kubernetes_api_call_seconds: Option<i32>,
    #[schemars(range(min = 0))]
    pub tls_bootstrap_seconds: Option<i32>,
}

/// Settings of machines that join.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct JoinConfiguration {
    #[schemars(length(min = 1, max = 512))]
    pub ca_cert_path: Option<String>,
    pub control_plane: Option<JoinControlPlane>,
    pub discovery: Option<Discovery>,
    pub node_registration: Option<NodeRegistration>,
    pub patches: Option<Patches>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 256)))]
    pub skip_phases: Vec<String>,
    pub timeouts: Option<Timeouts>,
}

/// Present on machines that join as control plane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinControlPlane {
    #[serde(rename = "localAPIEndpoint")]
    pub local_api_endpoint: Option<ApiEndpoint>,
}

/// How a joining machine finds and trusts the cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Discovery {
    pub bootstrap_token: Option<BootstrapTokenDiscovery>,
    pub file: Option<FileDiscovery>,
    #[schemars(length(min = 1, max = 512))]
    pub tls_bootstrap_token: Option<String>,
}

/// By token and certificate hashes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct BootstrapTokenDiscovery {
    #[schemars(length(min = 1, max = 512))]
    pub api_server_endpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 512)))]
    pub ca_cert_hashes: Vec<String>,
    #[schemars(length(min = 1, max = 512))]
    pub token: Option<String>,
    #[serde(rename = "unsafeSkipCAVerification")]
    pub unsafe_skip_ca_verification: Option<bool>,
}

/// By a kubeconfig file.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDiscovery {
    pub kube_config: Option<FileDiscoveryKubeconfig>,
    #[schemars(length(min = 1, max = 512))]
    pub kube_config_path: String,
}

/// The kubeconfig to write.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDiscoveryKubeconfig {
    pub cluster: Option<KubeconfigCluster>,
    pub user: KubeconfigUser,
}

/// The cluster entry.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct KubeconfigCluster {
    #[schemars(length(min = 1, max = 51200), extend("format" = "byte"))]
    pub certificate_authority_data: Option<String>,
    #[serde(rename = "insecureSkipTLSVerify")]
    pub insecure_skip_tls_verify: Option<bool>,
    #[serde(rename = "proxyURL")]
    #[schemars(length(min = 1, max = 512))]
    pub proxy_url: Option<String>,
    #[schemars(length(min = 1, max = 512))]
    pub server: Option<String>,
    #[schemars(length(min = 1, max = 512))]
    pub tls_server_name: Option<String>,
}

/// The user entry: one way to authenticate.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct KubeconfigUser {
    pub auth_provider: Option<AuthProvider>,
    pub exec: Option<ExecCredential>,
}

/// A named authentication plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthProvider {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
}

/// A command that prints credentials.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecCredential {
    #[schemars(length(min = 1, max = 512))]
    pub api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 512)))]
    pub args: Vec<String>,
    #[schemars(length(min = 1, max = 1024))]
    pub command: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    pub env: Vec<ExecEnv>,
    pub provide_cluster_info: Option<bool>,
}

/// One environment variable of that command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecEnv {
    #[schemars(length(min = 1, max = 512))]
    pub name: String,
    #[schemars(length(min = 1, max = 512))]
    pub value: String,
}
