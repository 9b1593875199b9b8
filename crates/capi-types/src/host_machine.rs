//! HostMachine: the use of a Host by a Machine, and its template. Fulfils Cluster API's contract v1beta2 of infrastructure machines.
//! Owns shapes; must not know how a Host is chosen.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::dev::InfrastructureInitialization;
use super::machine::MachineAddress;
use super::reference::{DNS_SUBDOMAIN, TemplateMeta};

/// Condition types of a HostMachine.
pub mod condition {
    /// A Host is its own: on the Host, here, and on the machine itself.
    pub const HOST_CLAIMED: &str = "HostClaimed";
    /// The machine is fit and clean.
    pub const HOST_PREPARED: &str = "HostPrepared";
    /// The bootstrap data ran to its end, once.
    pub const BOOTSTRAP_SUCCEEDED: &str = "BootstrapSucceeded";
    /// While it is deleted: the machine is proved clean and given back.
    pub const HOST_RELEASED: &str = "HostReleased";
}

/// What a HostMachine should be.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "HostMachine",
    plural = "hostmachines",
    namespaced,
    category = "cluster-api",
    status = "HostMachineStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "The use of a Host by a Machine."
)]
#[serde(rename_all = "camelCase")]
pub struct HostMachineSpec {
    /// Only Hosts of this HostPool.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub pool: Option<String>,
    /// Only Hosts with these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_labels: BTreeMap<String, String>,
    /// Only this Host.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub host_name: Option<String>,
    /// `capstan-host://HOST-UID/HOSTMACHINE-UID`. Written by the engine.
    #[serde(rename = "providerID")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
}

/// How a provider ID begins.
const PROVIDER: &str = "capstan-host://";

/// Of the use of a Host by a HostMachine, by their uids.
pub fn provider_id(host_uid: &str, host_machine_uid: &str) -> String {
    format!("{PROVIDER}{host_uid}/{host_machine_uid}")
}

impl HostMachine {
    /// The uids of Host and HostMachine at its claim, from the provider ID: they outlive a move to another server, where both objects
    /// have other uids. `None`: it claimed none yet.
    pub fn claimed_uids(&self) -> Option<(&str, &str)> {
        self.spec.provider_id.as_deref()?.strip_prefix(PROVIDER)?.split_once('/')
    }

    /// By which its claim, its owner file and its runs are named.
    pub fn use_uid(&self) -> &str {
        let own = self.metadata.uid.as_deref().unwrap_or_default();
        self.claimed_uids().map_or(own, |(_, uid)| uid)
    }
}

/// What a HostMachine is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostMachineStatus {
    /// As its Host was looked at last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// See [`condition`]; `Ready` is the sum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// That of the Host.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// The contract's.
    pub initialization: Option<InfrastructureInitialization>,
    /// The Host that it claimed.
    pub host_ref: Option<HostRef>,
    /// How often its Host was reset, each time as a run of its own.
    pub resets: Option<i32>,
}

/// A Host, and which of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostRef {
    /// In the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    /// So that a successor of the same name is not meant.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
    /// Of the owner file on the machine: grows when a person has it taken over.
    pub generation: i64,
}

/// Holder of the template.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "HostMachineTemplate",
    plural = "hostmachinetemplates",
    namespaced,
    category = "cluster-api",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "What HostMachines are made from."
)]
#[serde(rename_all = "camelCase")]
pub struct HostMachineTemplateSpec {
    /// Never changes: another template takes its place.
    pub template: HostMachineTemplateResource,
}

/// The HostMachine to copy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostMachineTemplateResource {
    /// Copied, too.
    pub metadata: Option<TemplateMeta>,
    /// Without what the engine writes.
    pub spec: HostMachineSpec,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_named_by_its_provider_id_once_there_is_one() {
        let mut own = HostMachine::new("m", HostMachineSpec::default());
        own.metadata.uid = Some("u2".to_owned());
        assert_eq!((own.claimed_uids(), own.use_uid()), (None, "u2"));
        own.spec.provider_id = Some(provider_id("h1", "u1"));
        assert_eq!((own.claimed_uids(), own.use_uid()), (Some(("h1", "u1")), "u1"));
        own.spec.provider_id = Some("other://h1/u1".to_owned());
        assert_eq!(own.use_uid(), "u2");
    }
}
