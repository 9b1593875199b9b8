//! How many replicas a control plane may have. Must not know how the number was asked for.

/// Why a control plane may not have a number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaRefusal {
    /// Zero or less.
    NotPositive,
    /// An even number of members survives no more failures than one member less.
    EvenWithStackedEtcd,
}

/// Every reason against this number of replicas.
/// Source: `controlplane/kubeadm/webhooks/admission/kubeadmcontrolplane.go` (`validateKubeadmControlPlaneSpec`), v1.14.2.
pub fn replica_refusals(replicas: i64, stacked_etcd: bool) -> impl Iterator<Item = ReplicaRefusal> {
    let not_positive = (replicas <= 0).then_some(ReplicaRefusal::NotPositive);
    let even = (replicas % 2 == 0 && stacked_etcd).then_some(ReplicaRefusal::EvenWithStackedEtcd);
    not_positive.into_iter().chain(even)
}
