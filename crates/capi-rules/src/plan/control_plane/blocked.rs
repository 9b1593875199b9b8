//! What keeps a control plane from going on, by name and in a sentence. Data only; must not know how
//! any of it is cured.

use crate::plan::evidence::{Evidence, Subject};
use crate::plan::{Rule, Wait};

/// Why nothing (more) is done now. Sentences in upstream's words where it has some.
#[allow(missing_docs, reason = "each says itself in a sentence")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    #[error("{message}")]
    Paused { message: String },
    #[error(
        "not all control plane machines are owned by this KubeadmControlPlane, refusing to operate in mixed management mode ({})",
        .foreign.join(", ")
    )]
    MixedManagement { foreign: Vec<String> },
    #[error("Machine {machine} cannot be adopted: {detail}")]
    AdoptionRefused { machine: String, detail: String },
    #[error("{kind} {name} does not exist")]
    TemplateMissing { kind: String, name: String },
    #[error("{detail}")]
    TemplateUnreadable { detail: String },
    #[error("Waiting for Cluster status.infrastructureReady to be true")]
    InfrastructureNotProvisioned,
    #[error("Waiting for Cluster spec.controlPlaneEndpoint to be set")]
    EndpointMissing,
    #[error("{detail}")]
    CertificatesUnreadable { detail: String },
    #[error("external certificate not found: {}", .names.join(", "))]
    ExternalCertificatesMissing { names: Vec<&'static str> },
    #[error("{detail}")]
    KubeconfigUnreadable { detail: String },
    #[error("the cluster CA is missing, so no kubeconfig can be signed")]
    AuthorityMissing,
    #[error("{detail}")]
    NotInspected { detail: String },
    #[error("failed to list control plane Nodes: {detail}")]
    NodesUnknown { detail: String },
    #[error("the annotation {key} cannot be read; remove it, or write what it should be")]
    RemediationMarkMalformed { key: &'static str },
    #[error("the list of etcd members is not known")]
    MembersUnknown,
    /// A member without Machine that cannot be removed safely.
    #[error(
        "etcd member {member} does not have a corresponding Machine, it must be removed from the cluster but this operation can lead to quorum loss. Please check the etcd status"
    )]
    StrayMemberKeepsQuorum { member: String },
    #[error("etcd member {member} has no Machine, but a Machine without Node may be its own")]
    StrayMemberMayBelongToProvisioning { member: String },
    #[error(
        "etcd member {member} has no name and no Machine, but it may be starting on Node {node}, which was registered less than 20 s ago"
    )]
    StrayMemberMayBeStarting { member: String, node: String },
    #[error("Machine {machine} is being deleted")]
    MachineDeleting { machine: String },
    #[error("Machine {machine} has pre-terminate hooks of others, which go first")]
    OtherHooks { machine: String },
    #[error("Machine {machine} is not drained yet")]
    Draining { machine: String },
    #[error("without Machine {machine} no Machine with healthy control plane components would be left")]
    WouldBreakComponents { machine: String },
    #[error("without Machine {machine} etcd would lose quorum")]
    WouldLoseQuorum { machine: String },
    #[error("unable to move etcd leadership, failed to detect etcd leader")]
    LeaderUnknown,
    #[error("unable to move etcd leadership, no candidate machines for etcd leadership found")]
    NoLeaderCandidate,
    #[error("in-place update in progress: {}", .machines.join(", "))]
    UpdatingInPlace { machines: Vec<String> },
    #[error("whether Machine {machine} can be updated in place was not asked")]
    NotAsked { machine: String },
    #[error("failed to determine if Machine {machine} can be updated in-place: {detail}")]
    NoAnswer { machine: String, detail: String },
    #[error(
        "failed to complete triggering in-place update for Machine {machine}, could not compute desired {what}"
    )]
    CannotBegin { machine: String, what: String },
    #[error("waiting for a version upgrade to {version} to be propagated")]
    TopologyVersion { version: String },
    #[error("cluster certificates are missing or unknown")]
    CertificatesMissing,
    /// A condition of a Machine that preflight insists on.
    #[error("{detail}")]
    MachineUnhealthy { detail: String, at: Evidence },
    #[error("{detail}")]
    AddWouldBreak { detail: &'static str },
    #[error("{detail}")]
    NamingTemplate { detail: String },
    #[error("{machines} other Machine(s) and {pools} MachinePool(s) of the cluster still exist")]
    WaitingForWorkers { machines: usize, pools: usize },
    #[error("waiting for {} to go", .machines.join(", "))]
    WaitingForDeletion { machines: Vec<String> },
    #[error("{message}")]
    RemediationHeld { message: String },
    #[error("{detail}")]
    CoreDnsStays { detail: String },
}

impl Rule for Blocked {
    fn name(&self) -> &'static str {
        match self {
            Self::Paused { .. } => "paused",
            Self::MixedManagement { .. } => "mixed-management",
            Self::AdoptionRefused { .. } => "adoption-refused",
            Self::TemplateMissing { .. } => "template-missing",
            Self::TemplateUnreadable { .. } => "template-unreadable",
            Self::InfrastructureNotProvisioned => "infrastructure-not-provisioned",
            Self::EndpointMissing => "endpoint-missing",
            Self::CertificatesUnreadable { .. } => "certificates-unreadable",
            Self::ExternalCertificatesMissing { .. } => "external-certificates-missing",
            Self::KubeconfigUnreadable { .. } => "kubeconfig-unreadable",
            Self::AuthorityMissing => "authority-missing",
            Self::NotInspected { .. } => "not-inspected",
            Self::NodesUnknown { .. } => "nodes-unknown",
            Self::RemediationMarkMalformed { .. } => "remediation-mark-malformed",
            Self::MembersUnknown => "etcd-members-unknown",
            Self::StrayMemberKeepsQuorum { .. } => "stray-member-quorum",
            Self::StrayMemberMayBelongToProvisioning { .. } => "stray-member-provisioning",
            Self::StrayMemberMayBeStarting { .. } => "stray-member-starting",
            Self::MachineDeleting { .. } => "machine-deleting",
            Self::OtherHooks { .. } => "other-pre-terminate-hooks",
            Self::Draining { .. } => "machine-draining",
            Self::WouldBreakComponents { .. } => "components-would-break",
            Self::WouldLoseQuorum { .. } => "quorum-would-break",
            Self::LeaderUnknown => "etcd-leader-unknown",
            Self::NoLeaderCandidate => "no-etcd-leader-candidate",
            Self::UpdatingInPlace { .. } => "updating-in-place",
            Self::NotAsked { .. } => "extensions-not-asked",
            Self::NoAnswer { .. } => "extensions-do-not-answer",
            Self::CannotBegin { .. } => "update-cannot-begin",
            Self::TopologyVersion { .. } => "topology-version",
            Self::CertificatesMissing => "certificates-missing",
            Self::MachineUnhealthy { .. } => "machine-unhealthy",
            Self::AddWouldBreak { .. } => "add-would-break",
            Self::NamingTemplate { .. } => "naming-template",
            Self::WaitingForWorkers { .. } => "waiting-for-workers",
            Self::WaitingForDeletion { .. } => "waiting-for-deletion",
            Self::RemediationHeld { .. } => "remediation-held",
            Self::CoreDnsStays { .. } => "core-dns-stays",
        }
    }

    fn wait(&self) -> Wait {
        match self {
            Self::InfrastructureNotProvisioned
            | Self::EndpointMissing
            | Self::StrayMemberMayBeStarting { .. }
            | Self::MachineDeleting { .. }
            | Self::Draining { .. }
            | Self::UpdatingInPlace { .. }
            | Self::TopologyVersion { .. }
            | Self::WaitingForWorkers { .. }
            | Self::WaitingForDeletion { .. } => Wait::UnderWay,
            Self::MachineUnhealthy { .. } => Wait::Machine,
            _ => Wait::Stuck,
        }
    }

    fn evidence(&self) -> Vec<Evidence> {
        let machine = |name: &String| Subject::Machine(name.clone());
        match self {
            Self::Paused { .. } => Evidence::own("Paused"),
            Self::MixedManagement { foreign } => foreign
                .iter()
                .map(|name| Evidence::field(machine(name), "metadata.ownerReferences"))
                .collect(),
            Self::AdoptionRefused { machine: name, .. } => {
                vec![
                    Evidence::field(machine(name), "spec.bootstrap.configRef"),
                    Evidence::field(machine(name), "spec.version"),
                ]
            }
            Self::TemplateMissing { .. } | Self::TemplateUnreadable { .. } => {
                Evidence::own_field("spec.machineTemplate.spec.infrastructureRef")
            }
            Self::InfrastructureNotProvisioned => {
                vec![Evidence::condition(Subject::Cluster, "InfrastructureReady")]
            }
            Self::EndpointMissing => vec![Evidence::field(Subject::Cluster, "spec.controlPlaneEndpoint")],
            Self::CertificatesUnreadable { .. }
            | Self::ExternalCertificatesMissing { .. }
            | Self::AuthorityMissing
            | Self::CertificatesMissing => Evidence::own("CertificatesAvailable"),
            Self::KubeconfigUnreadable { .. } => Vec::new(),
            Self::NotInspected { .. } | Self::NodesUnknown { .. } => {
                vec![Evidence::condition(Subject::Cluster, "RemoteConnectionProbe")]
            }
            Self::RemediationMarkMalformed { .. } => Evidence::own_field("metadata.annotations"),
            Self::MembersUnknown
            | Self::StrayMemberKeepsQuorum { .. }
            | Self::StrayMemberMayBelongToProvisioning { .. }
            | Self::StrayMemberMayBeStarting { .. }
            | Self::WouldLoseQuorum { .. }
            | Self::LeaderUnknown
            | Self::NoLeaderCandidate => Evidence::own("EtcdClusterHealthy"),
            Self::WouldBreakComponents { .. } => Evidence::own("ControlPlaneComponentsHealthy"),
            Self::MachineDeleting { machine: name }
            | Self::OtherHooks { machine: name }
            | Self::Draining { machine: name } => vec![Evidence::condition(machine(name), "Deleting")],
            Self::UpdatingInPlace { machines } => Evidence::machines(machines, "Updating"),
            Self::NotAsked { machine: name }
            | Self::NoAnswer { machine: name, .. }
            | Self::CannotBegin { machine: name, .. } => vec![Evidence::condition(machine(name), "UpToDate")],
            Self::TopologyVersion { .. } => vec![Evidence::field(Subject::Cluster, "spec.topology.version")],
            Self::MachineUnhealthy { at, .. } => vec![at.clone()],
            Self::AddWouldBreak { .. } => {
                [Evidence::own("ControlPlaneComponentsHealthy"), Evidence::own("EtcdClusterHealthy")].concat()
            }
            Self::NamingTemplate { .. } => Evidence::own_field("spec.machineNaming.template"),
            Self::WaitingForWorkers { .. } => Evidence::own("Deleting"),
            Self::WaitingForDeletion { machines } => Evidence::machines(machines, "Deleting"),
            Self::RemediationHeld { .. } => Evidence::own("Remediating"),
            Self::CoreDnsStays { .. } => {
                Evidence::own_field("spec.kubeadmConfigSpec.clusterConfiguration.dns")
            }
        }
    }
}
