//! KubeadmControlPlane and its template, and which numbers of replicas it may have.
//! Source: cluster-api `api/controlplane/kubeadm/v1beta2`, v1.14.2: the shapes.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::bootstrap::KubeadmConfigSpec;
use super::condition::Condition;
use super::legacy::{Deprecated, LegacyControlPlane};
use super::machine::{MachineDeletion, MachineTaint, ReadinessGate};
use super::machine_set::{MachineNaming, VersionCount};
use super::reference::{ContractRef, TemplateMeta};

/// What a control plane should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "KubeadmControlPlane",
    plural = "kubeadmcontrolplanes",
    namespaced,
    shortname = "kcp",
    category = "cluster-api",
    status = "KubeadmControlPlaneStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "Control plane machines made with kubeadm.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmControlPlaneSpec {
    pub kubeadm_config_spec: Option<KubeadmConfigSpec>,
    pub machine_naming: Option<MachineNaming>,
    pub machine_template: ControlPlaneMachineTemplate,
    pub remediation: Option<ControlPlaneRemediation>,
    pub replicas: Option<i32>,
    pub rollout: Option<ControlPlaneRollout>,
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
}

/// What a control plane is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("minProperties" = 1))]
pub struct KubeadmControlPlaneStatus {
    pub available_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    pub deprecated: Option<Deprecated<LegacyControlPlane>>,
    pub initialization: Option<ControlPlaneInitialization>,
    /// Kept until that remediation is complete.
    pub last_remediation: Option<LastRemediation>,
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
    pub ready_replicas: Option<i32>,
    pub replicas: Option<i32>,
    /// The selector as a string, for the scale subresource.
    #[schemars(length(min = 1, max = 4096))]
    pub selector: Option<String>,
    pub up_to_date_replicas: Option<i32>,
    /// The lowest version among its machines.
    #[schemars(length(min = 1, max = 256))]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-map-keys" = ["version"]))]
    pub versions: Vec<VersionCount>,
}

/// What new control plane machines look like; version and bootstrap come from the control plane itself.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineTemplate {
    pub metadata: Option<TemplateMeta>,
    pub spec: ControlPlaneMachineSpec,
}

/// Settings of control plane machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneMachineSpec {
    pub deletion: Option<MachineDeletion>,
    pub infrastructure_ref: ContractRef,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-map-keys" = ["conditionType"]))]
    pub readiness_gates: Vec<ReadinessGate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-map-keys" = ["key", "effect"]))]
    pub taints: Vec<MachineTaint>,
}

/// When and how control plane machines are replaced.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneRollout {
    /// Machines made before this time are replaced once it has passed.
    pub after: Option<Time>,
    pub before: Option<RolloutBefore>,
    pub strategy: Option<ControlPlaneStrategy>,
}

/// Replace machines ahead of an event.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct RolloutBefore {
    /// Days before a machine's certificates expire.
    #[schemars(range(min = 7))]
    pub certificates_expiry_days: Option<i32>,
}

/// How old machines give way to new ones.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneStrategy {
    pub rolling_update: Option<ControlPlaneRollingUpdate>,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["RollingUpdate"]))]
    pub type_: String,
}

/// Whether a rollout first adds or first removes a machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneRollingUpdate {
    /// 0 or 1; 1 when absent, and 0 needs three replicas.
    pub max_surge: Option<IntOrString>,
}

/// How stubbornly unhealthy machines are replaced.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneRemediation {
    /// No limit when absent.
    pub max_retry: Option<i32>,
    /// After this time of health a failure starts a new count. 3600 when absent.
    #[schemars(range(min = 0))]
    pub min_healthy_period_seconds: Option<i32>,
    #[schemars(range(min = 0))]
    pub retry_period_seconds: Option<i32>,
}

/// A fact that stays true once reached.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneInitialization {
    pub control_plane_initialized: Option<bool>,
}

/// The latest replacement of an unhealthy machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastRemediation {
    #[schemars(length(min = 1, max = 253))]
    pub machine: String,
    /// 0 for the first attempt.
    #[schemars(range(min = 0))]
    pub retry_count: i32,
    pub time: Time,
}

/// Holder of the template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "KubeadmControlPlaneTemplate",
    plural = "kubeadmcontrolplanetemplates",
    namespaced,
    category = "cluster-api",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A KubeadmControlPlane for cluster classes to copy."
)]
#[serde(rename_all = "camelCase")]
pub struct KubeadmControlPlaneTemplateSpec {
    pub template: KubeadmControlPlaneTemplateResource,
}

/// The control plane to copy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct KubeadmControlPlaneTemplateResource {
    pub metadata: Option<TemplateMeta>,
    pub spec: Option<KubeadmControlPlaneTemplateResourceSpec>,
}

/// A control plane without version, size and infrastructure.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct KubeadmControlPlaneTemplateResourceSpec {
    pub kubeadm_config_spec: Option<KubeadmConfigSpec>,
    pub machine_naming: Option<MachineNaming>,
    pub machine_template: Option<ControlPlaneTemplateMachine>,
    pub remediation: Option<ControlPlaneRemediation>,
    pub rollout: Option<ControlPlaneRollout>,
}

/// What new control plane machines look like.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneTemplateMachine {
    pub metadata: Option<TemplateMeta>,
    pub spec: Option<ControlPlaneTemplateMachineSpec>,
}

/// Settings of control plane machines.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ControlPlaneTemplateMachineSpec {
    pub deletion: Option<MachineDeletion>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-map-keys" = ["key", "effect"]))]
    pub taints: Vec<MachineTaint>,
}
