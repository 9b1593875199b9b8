//! Objects as data: typed Cluster API v1beta2 kinds, names, keys and conditions. Owns shapes and
//! accessors, and the few rules about single values that several layers ask; must not know how objects are
//! fetched, judged or shown.

#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod columns;
pub mod condition;
pub mod condition_types;
mod conditioned;
pub mod coredns;
pub mod crds;
pub mod hook;
pub mod key;
pub mod managed_fields;
pub mod name_template;
pub mod names;
pub mod preflight;

// The kinds. Their fields have the names, shapes and bounds of upstream's Go types, whose file stands in each module's
// head. A comment stands where the name does not say enough; one for each field would only say the name again.
pub mod legacy;
pub mod reference;

pub mod cluster;
pub mod topology;

pub mod machine;
pub mod machine_deployment;
pub mod machine_drain_rule;
pub mod machine_health_check;
pub mod machine_pool;
pub mod machine_set;

pub mod control_plane;

pub mod extension_config;

pub mod bootstrap;
pub mod kubeadm;

pub mod dev;
pub mod dev_pool;

// Kinds of this project, on the same contract.
pub mod host;
pub mod host_cluster;
pub mod host_machine;

use kube::CustomResourceExt;

use key::Gvk;

/// A kind with typed structs here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Group, version, kind and plural.
    pub gvk: Gvk,
    /// What kubectl takes instead of the plural.
    pub short_names: &'static [&'static str],
}

impl Served {
    fn of<K: kube::Resource<DynamicType = ()> + CustomResourceExt>() -> Self {
        let namespaced = K::crd().spec.scope == "Namespaced";
        Self { gvk: Gvk { namespaced, ..Gvk::of::<K>() }, short_names: K::shortnames() }
    }
}

/// Every typed kind: core first, then control plane, bootstrap, infrastructure. All but ExtensionConfigs are namespaced.
pub fn served() -> Vec<Served> {
    vec![
        Served::of::<cluster::Cluster>(),
        Served::of::<machine_deployment::MachineDeployment>(),
        Served::of::<machine_set::MachineSet>(),
        Served::of::<machine::Machine>(),
        Served::of::<machine_pool::MachinePool>(),
        Served::of::<machine_health_check::MachineHealthCheck>(),
        Served::of::<machine_drain_rule::MachineDrainRule>(),
        Served::of::<extension_config::ExtensionConfig>(),
        Served::of::<control_plane::KubeadmControlPlane>(),
        Served::of::<control_plane::KubeadmControlPlaneTemplate>(),
        Served::of::<bootstrap::KubeadmConfig>(),
        Served::of::<bootstrap::KubeadmConfigTemplate>(),
        Served::of::<dev::DevCluster>(),
        Served::of::<dev::DevClusterTemplate>(),
        Served::of::<dev::DevMachine>(),
        Served::of::<dev::DevMachineTemplate>(),
        Served::of::<dev_pool::DevMachinePool>(),
        Served::of::<host::HostPool>(),
        Served::of::<host::Host>(),
        Served::of::<host_machine::HostMachine>(),
        Served::of::<host_machine::HostMachineTemplate>(),
        Served::of::<host_cluster::HostCluster>(),
        Served::of::<host_cluster::HostClusterTemplate>(),
    ]
}
