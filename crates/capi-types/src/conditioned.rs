//! The kinds whose status has conditions. Owns the list; what a condition is says `condition`.

use super::bootstrap::KubeadmConfig;
use super::cluster::Cluster;
use super::condition::{Condition, Conditioned};
use super::control_plane::KubeadmControlPlane;
use super::dev::{DevCluster, DevMachine};
use super::dev_pool::DevMachinePool;
use super::extension_config::ExtensionConfig;
use super::host::Host;
use super::host_cluster::HostCluster;
use super::host_machine::HostMachine;
use super::machine::Machine;
use super::machine_deployment::MachineDeployment;
use super::machine_health_check::MachineHealthCheck;
use super::machine_pool::MachinePool;
use super::machine_set::MachineSet;

macro_rules! conditioned {
    ($($kind:ty),+ $(,)?) => {$(
        impl Conditioned for $kind {
            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().map_or(&[], |status| &status.conditions)
            }

            fn conditions_mut(&mut self) -> &mut Vec<Condition> {
                &mut self.status.get_or_insert_default().conditions
            }
        }
    )+};
}

conditioned!(
    Cluster,
    Machine,
    MachineSet,
    MachineDeployment,
    MachinePool,
    MachineHealthCheck,
    ExtensionConfig,
    KubeadmControlPlane,
    KubeadmConfig,
    DevCluster,
    DevMachine,
    DevMachinePool,
    Host,
    HostMachine,
    HostCluster,
);
