//! One controller manager process as it was described: kind, release, flags, file, mounts. Owns what such a process
//! can run; must not know the other processes.

use super::configuration::Configuration;
use super::controller_names::{Function, WITHOUT_CLOUD_PROVIDER};
use super::flags::Flags;
use super::known_flags::{FlagFault, fault};
use super::manager_kind::ManagerKind;
use super::reading::Reading;
use super::release::Release;
use capstan_base::time::Timestamp;

/// The first kube-controller-manager that no longer waits for its token controller before it competes for the
/// migration lock.
const WITHOUT_TOKEN_SIGNAL: Release = Release(34);

/// Where a process has its migration configuration from.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigFile {
    /// No path was given: what is built into the release.
    BuiltIn,
    /// The file's content.
    Read {
        /// A path, or the key in its ConfigMap.
        name: String,
        /// What its text says, and what is wrong with it.
        reading: Reading,
    },
    /// A path whose content is not known here.
    NotKnown {
        /// As the flag has it, in the container.
        path: String,
    },
}

/// A controller manager: what it is, what it was told, and the file that it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// For people: the pod, or the program and its node.
    pub name: String,
    /// Which program.
    pub manager: ManagerKind,
    /// Where it runs, if that is known.
    pub node: Option<String>,
    /// Of a cloud-controller-manager: that of its `k8s.io/cloud-provider` library.
    pub release: Release,
    /// The release was concluded from an image tag, which need not follow the library.
    pub is_release_assumed: bool,
    /// Its command line, with the defaults of the program.
    pub flags: Flags,
    /// What `--leader-migration-config` leads to.
    pub file: ConfigFile,
    /// Paths mounted into the container. `None`: not known.
    pub mounts: Option<Vec<String>>,
    /// When it was started last, by its node's clock. `None`: not known.
    pub started_at: Option<Timestamp>,
    /// Why its container does not run, in its node's words.
    pub trouble: Option<String>,
    /// Its program has taken its flags: the container is ready.
    pub is_ready: bool,
    /// A shell starts it: its flags are not known.
    pub is_in_shell: bool,
}

impl Process {
    /// Flags that its program does not have. One that is ready has taken what it was given.
    pub fn flag_faults(&self) -> Vec<FlagFault> {
        let names = self.flags.given.iter();
        let mut faults: Vec<FlagFault> =
            names.filter_map(|name| fault(self.manager, self.release, name)).collect();
        let whatever = self.flags.defects.iter();
        // A word that is not a flag ends every build of both programs.
        faults.extend(whatever.map(|defect| FlagFault { is_certain: true, problem: defect.clone() }));
        for fault in &mut faults {
            // A program ends over a flag that it does not have: one that runs was built otherwise.
            fault.is_certain &= !self.is_ready;
        }
        faults
    }

    /// Cloud controllers were in it, and are not: its release has providers, and its flags name none.
    pub fn names_no_provider(&self) -> bool {
        self.manager == ManagerKind::KubeControllerManager
            && self.release < WITHOUT_CLOUD_PROVIDER
            && self.flags.cloud_provider.is_empty()
            && !self.is_in_shell
    }

    /// The configuration it runs with when migration is on. `None`: not known, or unusable.
    pub fn configuration(&self) -> Option<Configuration> {
        match &self.file {
            ConfigFile::BuiltIn => Some(Configuration::built_in(self.release)),
            ConfigFile::Read { reading, .. } => reading.configuration.clone(),
            ConfigFile::NotKnown { .. } => None,
        }
    }

    /// Leader migration needs both flags; without an election the other one is ignored.
    pub fn migrates(&self) -> bool {
        self.flags.enable_migration && self.flags.leader_elect
    }

    /// Does it have this controller, and would start it? Routes may be off by a flag in both kinds alike, which
    /// moves nothing: it is not looked at.
    pub fn has(&self, function: Function) -> bool {
        if !self.flags.enables([function.name_in(self.release), function.alias()]) {
            return false;
        }
        match (self.manager, function) {
            (_, Function::NodeIpam) => self.flags.allocate_node_cidrs && self.has_node_ipam(),
            // Node initialisation was never part of kube-controller-manager: there is nothing to move.
            (ManagerKind::KubeControllerManager, Function::NodeInitialization) => false,
            (ManagerKind::KubeControllerManager, _) => self.has_cloud_provider(),
            (ManagerKind::CloudControllerManager, _) => true,
        }
    }

    /// A cloud-controller-manager has it only when its provider registered it, which a file that names it shows.
    fn has_node_ipam(&self) -> bool {
        self.manager == ManagerKind::KubeControllerManager
            || self
                .configuration()
                .is_some_and(|c| c.component_of(Function::NodeIpam.name_in(self.release)).is_some())
    }

    /// Cloud code in the process itself.
    pub fn has_cloud_provider(&self) -> bool {
        self.manager == ManagerKind::CloudControllerManager
            || self.release < WITHOUT_CLOUD_PROVIDER
                && !matches!(self.flags.cloud_provider.as_str(), "" | "external")
    }

    /// Does it ever begin to compete for the migration lock? Up to 1.33 the signal hangs on the token controller.
    pub fn signals_readiness(&self) -> bool {
        self.manager == ManagerKind::CloudControllerManager
            // From then on that controller is made whatever --controllers says.
            || self.release >= WITHOUT_TOKEN_SIGNAL
            || self.flags.enables(["serviceaccount-token-controller", "serviceaccount-token"])
    }

    /// Coordinated election is applied to both locks, and only the main one has candidates.
    pub fn is_coordinated(&self) -> bool {
        self.manager == ManagerKind::KubeControllerManager && self.flags.gate("CoordinatedLeaderElection")
    }

    /// `NAMESPACE/NAME` of the main Lease.
    pub fn main_lock(&self) -> String {
        format!("{}/{}", self.flags.resource_namespace, self.flags.resource_name)
    }

    /// `NAMESPACE/NAME` of the migration Lease. `None`: migration is off, or its configuration is not known.
    pub fn migration_lock(&self) -> Option<String> {
        // Both Leases are in one namespace: the file has no field for another one.
        let configuration = self.configuration().filter(|_| self.migrates())?;
        Some(format!("{}/{}", self.flags.resource_namespace, configuration.leader_name))
    }
}
