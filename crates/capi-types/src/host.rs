//! Machines that exist, reached over ssh: Host, and HostPool with what Hosts have in common. Kinds of this project, in Cluster API's
//! infrastructure group (docs/hosts.md). Owns shapes and the words of their conditions; must not know how a machine is reached.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::condition::Condition;
use super::machine::MachineAddress;
use super::names::INFRASTRUCTURE_GROUP;
use super::reference::{DNS_SUBDOMAIN, KIND};

/// The version of these kinds; it fulfils the contract v1beta2.
pub const VERSION: &str = "v1beta1";

/// The kind of machines that are reached over ssh.
pub const HOST: &str = "Host";

/// Is it a machine that is reached over ssh?
pub fn is_host(group: &str, kind: &str) -> bool {
    group == INFRASTRUCTURE_GROUP && kind == HOST
}

/// Is it an object that has such a machine?
pub fn is_host_machine(group: &str, kind: &str) -> bool {
    group == INFRASTRUCTURE_GROUP && kind == "HostMachine"
}

/// Is it a Host or a HostPool? They belong to no Cluster. Another provider's group may have kinds of these names.
pub fn is_of_no_cluster(group: &str, kind: &str) -> bool {
    group == INFRASTRUCTURE_GROUP && matches!(kind, HOST | "HostPool")
}

/// What ssh takes as a name or an address: nothing that could be an option or a command. Admission is stricter.
pub const SSH_HOST: &str = r"^[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*$";
/// What ssh takes as a user.
pub const SSH_USER: &str = r"^[A-Za-z0-9_.][A-Za-z0-9_.-]*$";

/// Held by a HostMachine until its Host is proved clean, or a person let go of the Host.
pub const HOST_MACHINE_FINALIZER: &str = "hostmachine.infrastructure.cluster.x-k8s.io";

/// Held by a Host while a HostMachine has it: who deletes it would lose what is known of a machine that runs a node.
pub const HOST_FINALIZER: &str = "host.infrastructure.cluster.x-k8s.io";

/// Annotations by which people ask for something; a command writes them, the engine takes them away when it is done.
pub mod annotation {
    /// How all of them begin.
    pub const PREFIX: &str = "hosts.capstan.dev/";
    /// On a Host whose HostMachine is deleted: the machine is gone, so that the HostMachine is let go without a reset. The value is
    /// the HostMachine's uid.
    pub const ABANDON: &str = "hosts.capstan.dev/abandon";
    /// On a Host that is not clean and not claimed: reset it. The value is when that was asked for.
    pub const RESET: &str = "hosts.capstan.dev/reset";
    /// On a Host: take it from the owner that its owner file names. The value is that owner, as the Host reported it.
    pub const TAKE_OVER: &str = "hosts.capstan.dev/take-over";
}

/// Labels of Hosts, by which the clusters of `capstan cluster create` find theirs.
pub mod label {
    /// The Cluster that a Host is meant for.
    pub const CLUSTER: &str = "hosts.capstan.dev/cluster";
    /// `control-plane` or `worker`.
    pub const ROLE: &str = "hosts.capstan.dev/role";
}

/// Condition types of a Host.
pub mod condition {
    /// Ssh gets a shell on it.
    pub const REACHABLE: &str = "Reachable";
    /// It showed a host key that is pinned, or that the operator's ssh knows.
    pub const HOST_KEY_VERIFIED: &str = "HostKeyVerified";
    /// Root, or sudo without a password.
    pub const PRIVILEGED: &str = "Privileged";
    /// kubeadm can make a node of it, and no other Host is the same machine.
    pub const SUITABLE: &str = "Suitable";
    /// Nothing of an earlier cluster is left, as was read from the machine.
    pub const CLEAN: &str = "Clean";
    /// A HostMachine has it.
    pub const CLAIMED: &str = "Claimed";
    /// A HostMachine may claim it: the sum of the others.
    pub const AVAILABLE: &str = "Available";
}

/// How a machine is logged in to. What is not set is as the operator's ssh configuration says.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostConnection {
    /// User on the machine: root, or one that may use sudo without a password.
    #[schemars(length(min = 1, max = 253), regex(pattern = SSH_USER))]
    pub user: Option<String>,
    /// Port of its sshd.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Machines to go through, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub jump: Vec<HostJump>,
}

/// A machine that connections go through.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostJump {
    /// Its name or address.
    #[schemars(length(min = 1, max = 253), regex(pattern = SSH_HOST))]
    pub address: String,
    /// None: as the operator's ssh configuration says.
    #[schemars(length(min = 1, max = 253), regex(pattern = SSH_USER))]
    pub user: Option<String>,
    /// None: 22, or as the operator's ssh configuration says.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// What Hosts of a pool have in common.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "HostPool",
    plural = "hostpools",
    namespaced,
    category = "cluster-api",
    status = "HostPoolStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "What Hosts have in common."
)]
#[serde(rename_all = "camelCase")]
pub struct HostPoolSpec {
    /// For Hosts that do not say it themselves.
    pub connection: Option<HostConnection>,
    /// Rules of `capstan host check` that do not speak against a Host, such as `cgroup`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub ignored_rules: Vec<String>,
}

/// How many Hosts a pool has, by what they are used for.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPoolStatus {
    /// All of them.
    pub hosts: Option<i32>,
    /// Those that a HostMachine may claim.
    pub available: Option<i32>,
    /// Those that a HostMachine has.
    pub claimed: Option<i32>,
    /// Those of which something is left, or is not known to be gone.
    pub unclean: Option<i32>,
    /// The smallest of its Hosts, for an autoscaler that begins with none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
}

/// A machine.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Host",
    plural = "hosts",
    namespaced,
    category = "cluster-api",
    status = "HostStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    doc = "A machine that exists, reached over ssh."
)]
#[serde(rename_all = "camelCase")]
pub struct HostSpec {
    /// Its HostPool, in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub pool: Option<String>,
    /// Where ssh goes to: a name of the operator's ssh configuration, a host name or an IP address.
    #[schemars(length(min = 1, max = 253), regex(pattern = SSH_HOST))]
    pub address: String,
    /// Takes the place of the pool's, field by field.
    pub connection: Option<HostConnection>,
    /// Public host keys as `/etc/ssh/ssh_host_*_key.pub` has them: type and key. With any, only these are trusted; without,
    /// those that the operator's ssh knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub host_keys: Vec<String>,
    /// Rules of `capstan host check` that do not speak against it, beside those of its pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub ignored_rules: Vec<String>,
    /// The failure domain of Machines on it.
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// It is not claimed while this is set.
    pub maintenance: Option<HostMaintenance>,
    /// The HostMachine that has it. Written by the engine.
    pub consumer_ref: Option<HostConsumer>,
}

/// Why a Host is kept out of use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostMaintenance {
    /// For people.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// Who has a Host.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostConsumer {
    /// `HostMachine`.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND))]
    pub kind: String,
    /// In the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    /// So that a successor of the same name does not have it.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
    /// For people, who look for a cluster's machines.
    #[schemars(length(min = 1, max = 253))]
    pub cluster_name: Option<String>,
}

/// What is known of a machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostStatus {
    /// See [`condition`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// One word for what it is now: `Available`, `Claimed`, `Unreachable` and so on; made from the conditions.
    #[schemars(length(min = 1, max = 64))]
    pub state: Option<String>,
    /// Fields that identify the machine.
    pub identity: Option<HostIdentity>,
    /// What it is.
    pub facts: Option<HostFactsStatus>,
    /// Where it is reached by others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// Host keys that it offered when none of them was trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub offered_host_keys: Vec<HostKeyStatus>,
    /// What is left of an earlier node, as it was read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub leftovers: Vec<String>,
    /// Whom its owner file names.
    pub owner: Option<HostOwnerStatus>,
    /// What runs on it, or ran last.
    pub run: Option<HostRunStatus>,
    /// How often it was reset while no HostMachine had it, each time as a run of its own.
    pub resets: Option<i32>,
}

/// Fields that identify the machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostIdentity {
    /// `/etc/machine-id`.
    #[serde(rename = "machineID")]
    pub machine_id: Option<String>,
    /// Of its firmware.
    #[serde(rename = "productUUID")]
    pub product_uuid: Option<String>,
    /// Changes with each boot.
    #[serde(rename = "bootID")]
    pub boot_id: Option<String>,
    /// Its own name.
    pub hostname: Option<String>,
    /// Fingerprints (SHA256) of its public host keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub host_keys: Vec<String>,
}

/// What a machine is. A fact that could not be read is absent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostFactsStatus {
    /// `Debian GNU/Linux 12 (bookworm)`.
    pub os: Option<String>,
    /// Its release.
    pub kernel: Option<String>,
    /// As `uname -m` says it.
    pub arch: Option<String>,
    /// How many.
    pub cpus: Option<i64>,
    /// All of it, in MiB.
    #[serde(rename = "memoryMiB")]
    pub memory_mib: Option<i64>,
    /// Of `/var/lib`, in GiB.
    #[serde(rename = "diskGiB")]
    pub disk_gib: Option<i64>,
    /// Version of its control groups.
    pub cgroup: Option<i64>,
    /// Swap is in use.
    pub swap: Option<bool>,
    /// Name and version of its container runtime.
    pub runtime: Option<String>,
    /// Version, with its `v`.
    pub kubeadm: Option<String>,
    /// Version, with its `v`.
    pub kubelet: Option<String>,
    /// `Root` or `Sudo`.
    pub privilege: Option<String>,
    /// Of the container runtime that is used.
    pub runtime_socket: Option<String>,
}

/// A host key as people compare it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostKeyStatus {
    /// `ssh-ed25519`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `SHA256:…`.
    pub fingerprint: String,
}

/// What the owner file of a machine says.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostOwnerStatus {
    /// Which capstan: see docs/hosts.md.
    pub installation: Option<String>,
    /// For people.
    pub cluster: Option<String>,
    /// Uid of the HostMachine.
    pub host_machine: Option<String>,
    /// Grows with each take-over.
    pub generation: Option<i64>,
}

/// A job on a machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HostRunStatus {
    /// Uid of the HostMachine that it is for.
    pub id: Option<String>,
    /// `Bootstrap` or `Reset`.
    pub kind: Option<String>,
    /// `Running`, `Succeeded`, `Failed`.
    pub phase: Option<String>,
    /// The step that runs, or that was the last.
    pub step: Option<i64>,
    /// How many there are.
    pub steps: Option<i64>,
    /// What the step does, with secrets left out.
    pub what: Option<String>,
    /// What was printed last, with secrets left out.
    pub last_line: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_annotation_has_the_prefix_by_which_its_risk_is_known() {
        for name in [annotation::ABANDON, annotation::RESET, annotation::TAKE_OVER] {
            assert!(name.starts_with(annotation::PREFIX), "{name}");
        }
    }

    #[test]
    fn a_host_of_another_provider_is_none_of_these() {
        assert!(is_of_no_cluster(INFRASTRUCTURE_GROUP, "Host"));
        assert!(is_of_no_cluster(INFRASTRUCTURE_GROUP, "HostPool"));
        assert!(!is_of_no_cluster(INFRASTRUCTURE_GROUP, "HostMachine"));
        assert!(!is_of_no_cluster("example.io", "Host"));
    }
}
