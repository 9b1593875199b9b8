//! Why a KubeadmConfig gets a write, or has to wait.

use std::fmt;

use crate::plan::Rule;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    TakeLock,
    NoControlPlaneObject,
    BreakLock { machine: String },
    ReleaseLock,
    StoreData { what: &'static str },
    MakeToken,
    RefreshToken,
    Discovery,
    Endpoint,
    WaitingForInfrastructure,
    WaitingForControlPlane,
    WaitingForEndpoint,
    Locked { machine: String },
    LockUnreadable { error: String },
    Certificates { names: Vec<String> },
    CertificatesUnreadable { error: String },
    Unusable { error: String },
    TokenMissing { id: String },
    TokenUnreadable { error: String },
}

impl Rule for Why {
    fn name(&self) -> &'static str {
        match self {
            Self::TakeLock => "take-init-lock",
            Self::NoControlPlaneObject => "make-certificates",
            Self::BreakLock { .. } => "break-init-lock",
            Self::ReleaseLock => "release-init-lock",
            Self::StoreData { .. } => "store-bootstrap-data",
            Self::MakeToken => "make-join-token",
            Self::RefreshToken => "refresh-join-token",
            Self::Discovery => "set-discovery",
            Self::Endpoint => "keep-endpoint",
            Self::WaitingForInfrastructure => "waiting-for-infrastructure",
            Self::WaitingForControlPlane => "waiting-for-control-plane",
            Self::WaitingForEndpoint => "waiting-for-endpoint",
            Self::Locked { .. } => "init-locked",
            Self::LockUnreadable { .. } => "init-lock-unreadable",
            Self::Certificates { .. } => "certificates-missing",
            Self::CertificatesUnreadable { .. } => "certificates-unreadable",
            Self::Unusable { .. } => "configuration-unusable",
            Self::TokenMissing { .. } => "join-token-missing",
            Self::TokenUnreadable { .. } => "join-token-unreadable",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TakeLock => f.write_str("only one Machine of a cluster may run kubeadm init"),
            Self::NoControlPlaneObject => {
                f.write_str("the Cluster has no control plane object that makes its certificates")
            }
            Self::BreakLock { machine } => {
                write!(f, "Machine {machine} holds the init lock and does not exist")
            }
            Self::ReleaseLock => f.write_str("the control plane is initialized"),
            Self::StoreData { what } => write!(f, "everything for kubeadm {what} is known"),
            Self::MakeToken => f.write_str("a joining machine needs a token"),
            Self::RefreshToken => f.write_str("the machine has not joined yet and its token runs out"),
            Self::Discovery => f.write_str("the machine must find and trust the API server"),
            Self::Endpoint => f.write_str("the configuration keeps the endpoint that its data is made with"),
            Self::WaitingForInfrastructure => {
                f.write_str("the Cluster's infrastructure is not provisioned yet")
            }
            Self::WaitingForControlPlane => f.write_str("the Cluster's control plane is not initialized yet"),
            Self::WaitingForEndpoint => f.write_str("the Cluster has no control plane endpoint yet"),
            Self::Locked { machine } => write!(f, "Machine {machine} is initializing the control plane"),
            Self::LockUnreadable { error } => write!(f, "the init lock cannot be read: {error}"),
            Self::Certificates { names } => {
                write!(f, "certificate secrets are missing: {}", names.join(", "))
            }
            Self::CertificatesUnreadable { error } => {
                write!(f, "certificate secrets cannot be read: {error}")
            }
            Self::Unusable { error } => f.write_str(error),
            Self::TokenMissing { id } => write!(f, "join token {id} is gone from the workload cluster"),
            Self::TokenUnreadable { error } => write!(f, "the join token cannot be read: {error}"),
        }
    }
}
