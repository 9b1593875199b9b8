//! The fields that the model keeps, of all kinds at once. Everything else, `managedFields` first of
//! all, is skipped by the parser. Must not know what the fields mean.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::de::{Deserialize, Deserializer, MapAccess};

use super::lax::{Lax, OptionalMap, Shape, Text, Texts, fields};
use crate::fleet::row::Misshapen;
use capi_rules::status::outside_owners::Marks;

/// One object as it is decoded; turned into a row and dropped. Its parts are boxed: they are large, and move several
/// times on their way.
#[derive(Clone, Debug, Default)]
pub struct Slim {
    /// Name, namespace, uid and resourceVersion only: what a watch needs.
    pub(super) meta: ObjectMeta,
    pub(super) metadata: Box<Metadata>,
    pub(super) spec: Box<Spec>,
    pub(super) status: Box<Status>,
    pub(super) misshapen: Misshapen,
}

/// Declares lenient structs: each field is `Lax`, and the struct itself may be missing or misshapen.
macro_rules! lenient {
    ($($(#[$meta:meta])* $name:ident { $($(#[$how:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub(super) struct $name { $($(#[$how])* pub(super) $field: Lax<$type>),* }

        impl Shape for $name {
            fn of_map<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
                fields(map)
            }
        }
    )*};
}

lenient! {
    Metadata {
        name: Text, namespace: Text, uid: Text, resource_version: Text, generation: Option<u32>,
        creation_timestamp: Text, deletion_timestamp: Text, labels: Texts, annotations: Texts,
        owner_references: Vec<OwnerReference>,
    }
    OwnerReference { api_version: Text, kind: Text, name: Text, uid: Text, controller: bool }
    Spec {
        cluster_name: Text, paused: bool, replicas: Option<u32>, version: Text, failure_domain: Text,
        control_plane_ref: Ref, infrastructure_ref: Ref, bootstrap: Bootstrap, topology: Topology,
        template: Template, machine_template: Template, rollout: Rollout, rollout_after: Text, rollout_before: Before,
        strategy: Strategy, deletion: Deletion, selector: Selector, checks: Checks, kubeadm_config_spec: KubeadmConfig,
        #[serde(rename = "providerID")] provider_id: Text, address: Text, consumer_ref: Consumer,
    }
    /// Of a Host.
    Consumer { name: Text, cluster_name: Text }
    /// Both forms: `apiGroup` of v1beta2, `apiVersion` of v1beta1.
    Ref { api_group: Text, api_version: Text, kind: Text, name: Text }
    Bootstrap { config_ref: Ref }
    Topology { class_ref: Ref, class: Text, version: Text }
    /// `infrastructureRef` stands beside `spec` in control planes read through v1beta1.
    Template { spec: TemplateSpec, infrastructure_ref: Ref }
    TemplateSpec { version: Text, infrastructure_ref: Ref, bootstrap: Bootstrap }
    Rollout { after: Text, before: Before, strategy: Strategy }
    /// Beside `after` of a KubeadmControlPlane, `rolloutBefore` in v1beta1.
    Before { certificates_expiry_days: Option<u32> }
    Strategy { r#type: Text }
    Deletion { node_drain_timeout_seconds: Option<u32>, node_volume_detach_timeout_seconds: Option<u32> }
    /// Of a KubeadmControlPlane.
    KubeadmConfig { cluster_configuration: ClusterConfiguration }
    ClusterConfiguration { etcd: Etcd }
    Etcd { external: ExternalEtcd }
    ExternalEtcd { endpoints: Vec<Text> }
    Selector { match_labels: Texts, match_expressions: Vec<Requirement> }
    Requirement { key: Text, operator: Text, values: Vec<Text> }
    /// Of a MachineHealthCheck.
    Checks {
        node_startup_timeout_seconds: Option<u32>, unhealthy_machine_conditions: Vec<Unhealthy>,
        unhealthy_node_conditions: Vec<Unhealthy>,
    }
    Unhealthy { r#type: Text, status: Text, timeout_seconds: Option<u32> }
    /// `status.deletion` of a Machine.
    Stages {
        node_drain_start_time: Text, wait_for_node_volume_detach_start_time: Text,
        wait_for_pre_drain_hook_start_time: Text, wait_for_pre_terminate_hook_start_time: Text,
    }
    Status {
        expected_machines: Option<u32>, current_healthy: Option<u32>, remediations_allowed: Option<u32>,
        observed_generation: Option<u32>, phase: Text, version: Text, failure_domain: Text, node_ref: Ref,
        certificates_expiry_date: Text, addresses: Vec<Address>, node_info: NodeInfo,
        replicas: Option<u32>, ready_replicas: Option<u32>, available_replicas: Option<u32>,
        up_to_date_replicas: Option<u32>, updated_replicas: Option<u32>, unavailable_replicas: Option<u32>,
        failure_reason: Text, failure_message: Text,
        control_plane: Counts, workers: Counts, versions: Vec<VersionCount>,
        initialization: Initialization, initialized: bool, infrastructure_ready: bool, control_plane_ready: bool,
        conditions: Vec<Condition>, v1beta2: Newer, deprecated: Deprecated, deletion: Stages, state: Text,
    }
    Address { r#type: Text, address: Text }
    NodeInfo { os_image: Text }
    Counts {
        desired_replicas: Option<u32>, replicas: Option<u32>, ready_replicas: Option<u32>,
        available_replicas: Option<u32>, up_to_date_replicas: Option<u32>, versions: Vec<VersionCount>,
        upgrade_plan: Vec<VersionCount>,
    }
    VersionCount { version: Text, replicas: Option<u32> }
    Initialization { infrastructure_provisioned: bool, control_plane_initialized: Option<bool>, provisioned: bool }
    /// Only conditions of the older kind have a severity.
    Condition {
        r#type: Text, status: Text, reason: Text, message: Text, severity: Text,
        last_transition_time: Text,
    }
    Deprecated { v1beta1: Older }
    Older { conditions: Vec<Condition>, failure_reason: Text, failure_message: Text }
    /// `status.v1beta2` of objects read through v1beta1.
    Newer {
        conditions: Vec<Condition>, ready_replicas: Option<u32>, available_replicas: Option<u32>,
        up_to_date_replicas: Option<u32>, control_plane: Counts, workers: Counts,
    }
}

impl Marks for Metadata {
    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name)
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name)
    }
}

#[derive(serde::Deserialize)]
struct Whole {
    #[serde(default)]
    metadata: Lax<Box<Metadata>>,
    #[serde(default)]
    spec: OptionalMap<Box<Spec>>,
    #[serde(default)]
    status: OptionalMap<Box<Status>>,
}

impl<'de> Deserialize<'de> for Slim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let whole = Whole::deserialize(deserializer)?;
        let metadata = whole.metadata.0;
        let text = |value: &str| Some(value.to_owned()).filter(|v| !v.is_empty());
        let meta = ObjectMeta {
            name: text(&metadata.name),
            namespace: text(&metadata.namespace),
            uid: text(&metadata.uid),
            resource_version: text(&metadata.resource_version),
            ..ObjectMeta::default()
        };
        let misshapen = match (whole.spec.is_misshapen, whole.status.is_misshapen) {
            (true, _) => Misshapen::Spec,
            (_, true) => Misshapen::Status,
            _ => Misshapen::Nothing,
        };
        Ok(Self { meta, metadata, spec: whole.spec.value, status: whole.status.value, misshapen })
    }
}

impl kube::Resource for Slim {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(dt: &ApiResource) -> Cow<'_, str> {
        dt.kind.as_str().into()
    }

    fn group(dt: &ApiResource) -> Cow<'_, str> {
        dt.group.as_str().into()
    }

    fn version(dt: &ApiResource) -> Cow<'_, str> {
        dt.version.as_str().into()
    }

    fn plural(dt: &ApiResource) -> Cow<'_, str> {
        dt.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}
