//! The ExtensionConfig kind: a server that extends Cluster API, where it is, and what it offers. Cluster-scoped.
//! Source: cluster-api `api/runtime/v1beta2/extensionconfig_types.go`, v1.14.2; shapes only, no rule.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::legacy::{Deprecated, LegacyConditions};

/// Which server is called, with what, and for objects of which namespaces.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "runtime.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "ExtensionConfig",
    plural = "extensionconfigs",
    shortname = "ext",
    category = "cluster-api",
    status = "ExtensionConfigStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A server that extends Cluster API through hooks."
)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionConfigSpec {
    pub client_config: ClientConfig,
    /// By the labels of a namespace; absent or empty: every namespace.
    pub namespace_selector: Option<LabelSelector>,
    /// Sent with every request. The same key in a request wins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// How the server is reached: by exactly one of `url` and `service`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClientConfig {
    /// PEM certificates that the server's certificate is checked with, in base64 as in the JSON, so that a wrong one is
    /// an answer about this object and not about the whole list.
    #[schemars(length(min = 1, max = 51200), extend("format" = "byte"))]
    pub ca_bundle: Option<String>,
    pub service: Option<ServiceReference>,
    /// `https://host:port/prefix`.
    #[schemars(length(min = 1, max = 512))]
    pub url: Option<String>,
}

/// A Service of the management cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceReference {
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// In front of the paths of hooks.
    #[schemars(length(min = 1, max = 512))]
    pub path: Option<String>,
    /// 443 when absent.
    pub port: Option<i32>,
}

/// What the server offers.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[serde(default)]
pub struct ExtensionConfigStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub deprecated: Option<Deprecated<LegacyConditions>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub handlers: Vec<ExtensionHandler>,
}

/// One function of the server.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionHandler {
    /// `Ignore` or `Fail`.
    #[schemars(extend("enum" = ["Ignore", "Fail"]))]
    pub failure_policy: Option<String>,
    /// `<handler>.<extension config>`.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,
    pub request_hook: RequestHook,
    /// 10 when absent.
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i32>,
}

/// Which hook, in which version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestHook {
    #[schemars(length(min = 1, max = 512))]
    pub api_version: String,
    #[schemars(length(min = 1, max = 256))]
    pub hook: String,
}
