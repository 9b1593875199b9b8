//! What keeps a control plane from going on, by name and in a sentence. Data only; must not know how
//! any of it is cured.

use crate::plan::Rule;

/// Why nothing (more) is done now. Sentences in upstream's words where it has some.
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
    #[error("waiting for a version upgrade to {version} to be propagated")]
    TopologyVersion { version: String },
    #[error("cluster certificates are missing or unknown")]
    CertificatesMissing,
    /// A condition of a Machine that preflight insists on.
    #[error("{detail}")]
    MachineUnhealthy { detail: String },
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
            Self::MachineDeleting { .. } => "machine-deleting",
            Self::OtherHooks { .. } => "other-pre-terminate-hooks",
            Self::Draining { .. } => "machine-draining",
            Self::WouldBreakComponents { .. } => "components-would-break",
            Self::WouldLoseQuorum { .. } => "quorum-would-break",
            Self::LeaderUnknown => "etcd-leader-unknown",
            Self::NoLeaderCandidate => "no-etcd-leader-candidate",
            Self::UpdatingInPlace { .. } => "updating-in-place",
            Self::TopologyVersion { .. } => "topology-version",
            Self::CertificatesMissing => "certificates-missing",
            Self::MachineUnhealthy { .. } => "machine-unhealthy",
            Self::AddWouldBreak { .. } => "add-would-break",
            Self::NamingTemplate { .. } => "naming-template",
            Self::WaitingForWorkers { .. } => "waiting-for-workers",
            Self::WaitingForDeletion { .. } => "waiting-for-deletion",
            Self::RemediationHeld { .. } => "remediation-held",
        }
    }
}
