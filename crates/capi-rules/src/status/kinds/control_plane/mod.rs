//! What is true of a KubeadmControlPlane and its Machines: components, etcd, certificates, counters.
//! Owns [`Observed`], everything that may be looked at, and judges it in two steps: [`inspect`](fn@inspect) for
//! the Machines, [`status`] for the control plane. Must not decide what happens next.
//! Source: cluster-api `controlplane/kubeadm/reconcilers/kubeadmcontrolplane/{status,
//! kubeadmcontrolplane_controller}.go` and `controlplane/kubeadm/pkg`, v1.14.2.

pub mod available;
pub mod certificates;
pub mod components;
pub mod inspect;
pub mod machine;
pub mod pods;
pub mod scaling;
mod summary;
pub mod up_to_date;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

pub use inspect::{Inspection, inspect};
pub use machine::OwnedMachine;
pub use summary::{Pass, status};

use self::certificates::{Certificates, Purpose};
use crate::etcd::Membership;
use crate::status::in_place::InPlace;
use crate::status::machine::Graces;
use capi_types::cluster::{Cluster, FailureDomain};
use capi_types::condition;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::machine::Machine;
use capstan_base::time::Timestamp;

/// Conditions of Machines that the control plane writes.
pub const OWNED_ON_MACHINES: [&str; 7] = [
    "UpToDate",
    "NodeKubeadmLabelsAndTaintsSet",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
];

/// The Machine with the conditions that an inspection found. The inspection saw an older Machine: what others have
/// said since is theirs.
pub fn inspected_machine(machine: &Machine, conditions: &[Condition]) -> Machine {
    let is_owned = |condition: &Condition| OWNED_ON_MACHINES.contains(&condition.type_.as_str());
    let mut after = machine.clone();
    let list = &mut after.status.get_or_insert_default().conditions;
    list.retain(|condition| !is_owned(condition));
    list.extend(conditions.iter().filter(|condition| is_owned(condition)).cloned());
    after
}

/// Conditions of the control plane that its controller writes.
pub const OWNED: [&str; 13] = [
    "Paused",
    "Available",
    "Initialized",
    "CertificatesAvailable",
    "EtcdClusterHealthy",
    "ControlPlaneComponentsHealthy",
    "MachinesReady",
    "MachinesUpToDate",
    "RollingOut",
    "ScalingUp",
    "ScalingDown",
    "Remediating",
    "Deleting",
];

/// Everything that status and plan of one control plane may look at. Built by the controller from its
/// caches and the workload cluster, and by the fleet from its index (then the workload is unknown).
#[derive(Clone, Debug)]
pub struct Observed {
    /// Its infrastructure has to be there first.
    pub cluster: Cluster,
    /// As it is now, this run's own writes included.
    pub control_plane: KubeadmControlPlane,
    /// Machines this control plane controls, oldest first, then by name.
    pub machines: Vec<OwnedMachine>,
    /// Control plane Machines of the cluster without any controller: to be adopted.
    pub orphans: Vec<OwnedMachine>,
    /// Metadata of the cluster's Secrets; read while there are orphans, whose configurations may own some.
    pub secrets: Vec<ObjectMeta>,
    /// Names of control plane Machines that another object controls.
    pub foreign: Vec<String>,
    /// Names of the cluster's other Machines and MachinePools, which go before the control plane does: gathered only while
    /// it is being deleted.
    pub worker_machines: Vec<String>,
    /// See [`worker_machines`](Self::worker_machines).
    pub machine_pools: Vec<String>,
    /// What new Machines are made from.
    pub template: Template,
    /// Secrets with the authorities.
    pub certificates: Certificates,
    /// Those of them that Cluster API's own components made, and that this control plane does not control.
    pub unowned_certificates: Vec<Purpose>,
    /// Secret with the administrator's access.
    pub kubeconfig: Kubeconfig,
    /// Nodes, pods and etcd members.
    pub workload: Workload,
    /// Random characters for the name of a Machine created now (5, and 5 more for shortening).
    pub name_suffix: String,
    /// Answers by the name of the Machine.
    pub in_place: InPlace,
    /// Its release has nothing newer than v1beta1: which fields of a Machine that one keeps in step is not known here.
    pub is_of_older_release: bool,
}

/// The infrastructure template of new Machines.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// The whole object.
    Found(serde_json::Value),
    /// The reference leads nowhere.
    Missing,
    /// An operator's sentence.
    Unreadable(String),
}

/// The kubeconfig secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kubeconfig {
    /// It is to be made.
    Missing,
    /// It is there, whoever made it.
    Found {
        /// It has Cluster API's secret type.
        ours: bool,
        /// This control plane is its controller.
        controlled: bool,
        /// End of the client certificate; `None` when it cannot be read.
        expires: Option<Timestamp>,
    },
    /// A sentence of the reader.
    Unreadable(String),
}

/// The workload cluster as it was read in this pass.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Not asked: there is nothing to reach yet.
    NotAsked,
    /// Out of reach for this reader (a forecast, a dump): the Machines' stored conditions are taken as they are,
    /// and this is the member list that follows from them.
    Assumed(Membership),
    /// No connection.
    Down(Connection),
    /// It answered, at least in part.
    Reached(Box<Reached>),
}

/// The state of a connection that is not usable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Last time the probe succeeded.
    pub last_success: Option<Timestamp>,
    /// Since the last success.
    pub consecutive_failures: u32,
    /// Why a client could not be made, when it is more than "not connected".
    pub error: Option<String>,
    /// How long what was known is kept without a connection.
    pub graces: Graces,
}

/// Facts read from a workload cluster. Every part can fail by itself.
#[derive(Clone, Debug)]
pub struct Reached {
    /// Nodes with the control plane label, and those that Machines refer to.
    pub nodes: Result<Vec<Node>, String>,
    /// Static pods of `kube-system` by name; `Err` when one could not be read.
    pub pods: Result<Vec<Pod>, String>,
    /// As the members see themselves.
    pub etcd: Membership,
    /// `ClusterConfiguration` in ConfigMap `kube-system/kubeadm-config`; `None`: there is no such map.
    pub kubeadm_config: Result<Option<serde_json::Value>, String>,
    /// Image of the kube-proxy DaemonSet; `None`: there is none, or it could not be read.
    pub kube_proxy_image: Option<String>,
    /// Image of the CoreDNS Deployment, likewise.
    pub core_dns_image: Option<String>,
    /// Those of [`KUBEADM_BINDINGS`] that are missing; looked for when a rollout to another version begins.
    pub bindings_missing: Vec<&'static str>,
}

/// ClusterRoleBindings that kubeadm relies on, where it does not make them itself: before 1.38.
pub const KUBEADM_BINDINGS: [&str; 2] = ["kubeadm:cluster-admins", "kubeadm:apiserver-kubelet-client"];

impl Reached {
    fn hosts_one_of(&self, machines: &[OwnedMachine]) -> bool {
        let mut nodes = self.nodes.iter().flatten().filter_map(|n| n.metadata.name.as_deref());
        nodes.any(|node| machines.iter().any(|m| !m.is_deleting() && m.node_name() == Some(node)))
    }
}

impl Observed {
    /// Etcd runs on the control plane Machines.
    pub fn etcd_is_managed(&self) -> bool {
        self.control_plane
            .spec
            .kubeadm_config_spec
            .as_ref()
            .and_then(|s| s.cluster_configuration.as_ref())
            .and_then(|c| c.etcd.as_ref())
            .is_none_or(|etcd| etcd.external.is_none())
    }

    /// Is it on its way out?
    pub fn is_deleting(&self) -> bool {
        self.control_plane.metadata.deletion_timestamp.is_some()
    }

    /// As stored, in their order.
    pub fn conditions(&self) -> &[Condition] {
        self.control_plane.status.as_ref().map_or(&[], |s| &s.conditions)
    }

    /// `status.initialization.controlPlaneInitialized` as stored, or as this pass has just found out.
    pub fn is_initialized(&self) -> bool {
        let stored = self.control_plane.status.as_ref().and_then(|s| s.initialization.as_ref());
        stored.and_then(|i| i.control_plane_initialized).unwrap_or(false)
    }

    /// The stored `Initialized` condition is true: the state at the end of an earlier pass.
    pub fn was_initialized(&self) -> bool {
        condition::is_true(self.conditions(), "Initialized")
    }

    /// `status.initialization.infrastructureProvisioned` of the Cluster.
    pub fn infrastructure_is_provisioned(&self) -> bool {
        let status = self.cluster.status.as_ref().and_then(|s| s.initialization.as_ref());
        status.and_then(|i| i.infrastructure_provisioned).unwrap_or(false)
    }

    /// Without Machines as long as none can exist, and without etcd before initialization, as upstream
    /// reads neither then.
    /// Source: `initControlPlaneScope`, `reconcileControlPlaneAndMachinesConditions`.
    pub fn in_scope(mut self) -> Self {
        let initialized = self.is_initialized() && self.was_initialized();
        if let (false, Workload::Reached(facts)) = (initialized, &mut self.workload) {
            facts.etcd = Membership::NotAsked;
        }
        if !self.infrastructure_is_provisioned() || self.endpoint().is_none() {
            // Machines of others are left out as well, or
            // they would block a control plane that has none.
            self.machines.clear();
            self.orphans.clear();
            self.foreign.clear();
        }
        self
    }

    /// Host and port, once both are known.
    pub fn endpoint(&self) -> Option<(String, i32)> {
        let endpoint = self.cluster.spec.control_plane_endpoint.as_ref()?;
        let host = endpoint.host.clone().filter(|h| !h.is_empty())?;
        Some((host, endpoint.port.filter(|p| *p > 0)?))
    }

    /// `spec.replicas`, 1 when unset, 0 while deleting.
    pub fn desired(&self) -> usize {
        if self.is_deleting() {
            return 0;
        }
        usize::try_from(self.control_plane.spec.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// Failure domains that may hold control plane Machines.
    pub fn failure_domains(&self) -> Vec<&FailureDomain> {
        let status = self.cluster.status.iter();
        status.flat_map(|s| &s.failure_domains).filter(|d| d.control_plane == Some(true)).collect()
    }

    /// Among those that this control plane owns.
    pub fn machine(&self, name: &str) -> Option<&OwnedMachine> {
        self.machines.iter().find(|m| m.name() == name)
    }

    /// Etcd members; unknown when the workload cluster was not reached. Only the Node of a Machine that
    /// stays is asked for its member.
    pub fn membership(&self) -> &Membership {
        match &self.workload {
            Workload::Reached(facts) if facts.hosts_one_of(&self.machines) => &facts.etcd,
            Workload::Reached(_) => &Membership::NoNodes,
            Workload::Assumed(membership) => membership,
            Workload::NotAsked | Workload::Down(_) => &Membership::NotAsked,
        }
    }

    /// The condition types that make a Machine's components healthy.
    pub fn component_conditions(&self) -> &'static [&'static str] {
        if self.etcd_is_managed() { &machine::COMPONENTS } else { &machine::COMPONENTS[..3] }
    }
}
