//! The two programs that leader migration is about, and their names.

use std::fmt;

/// Which of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagerKind {
    /// Of the control plane; releases up to 1.30 have cloud providers in it.
    KubeControllerManager,
    /// Of a cloud provider, made with the library `k8s.io/cloud-provider`.
    CloudControllerManager,
}

impl ManagerKind {
    /// In the order of a migration: who gives comes first.
    pub const ALL: [Self; 2] = [Self::KubeControllerManager, Self::CloudControllerManager];

    /// The program, its usual main Lease, and its value of `component`.
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeControllerManager => "kube-controller-manager",
            Self::CloudControllerManager => "cloud-controller-manager",
        }
    }

    /// For columns.
    pub fn short(self) -> &'static str {
        match self {
            Self::KubeControllerManager => "KCM",
            Self::CloudControllerManager => "CCM",
        }
    }
}

impl fmt::Display for ManagerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
