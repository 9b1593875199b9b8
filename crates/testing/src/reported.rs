//! What upstream's controllers report: every condition type of every kind with its statuses and reasons. Owns the list
//! and how it is read. Must not know which rule gives which reason.

use std::collections::BTreeSet;

/// Who (kind, and writer where it is not the kind's own controller), section of the reference, condition
/// types, and what each of them can be. A line that begins with blanks goes on.
const LIST: &str = "\
Machine | 5.4 | BootstrapConfigReady | True/DataSecretProvided Unknown/InvalidConditionReported True/Ready False/NotReady
    Unknown/InternalError False/ObjectDeleted False/ObjectDoesNotExist False/NoReasonReported
Machine | 5.5 | InfrastructureReady | Unknown/InvalidConditionReported True/Ready False/NotReady Unknown/InternalError
    False/ObjectDeleted False/ObjectDoesNotExist False/NoReasonReported
Machine | 5.6 | NodeReady NodeHealthy | Unknown/InspectionFailed Unknown/ConnectionDown Unknown/InternalError False/NodeDeleted
    Unknown/NodeDoesNotExist
Machine | 5.6.1 | NodeReady | True/NodeReady False/NodeNotReady Unknown/NodeReadyUnknown
Machine | 5.6.1 | NodeHealthy | True/NodeHealthy False/NodeNotHealthy Unknown/NodeHealthyUnknown
Machine | 5.7 | Deleting | False/NotDeleting True/InternalError True/WaitingForPreDrainHook True/DrainingNode
    True/WaitingForVolumeDetach True/WaitingForPreTerminateHook True/WaitingForInfrastructureDeletion
    True/WaitingForBootstrapDeletion True/DeletingNode True/DeletionCompleted
Machine | 5.8 | Updating | True/InPlaceUpdating True/InPlaceUpdateFailed False/NotUpdating
Machine | 5.9 | UpToDate | False/NotUpToDate False/Updating True/UpToDate
Machine | 5.10 | Ready | True/Ready False/NotReady Unknown/ReadyUnknown Unknown/InternalError
Machine | 5.11 | Available | False/NotReady True/Available False/WaitingForMinReadySeconds
Machine by MachineHealthCheck | 6.2 | HealthCheckSucceeded | True/HealthCheckSucceeded False/HasRemediateAnnotation
    False/UnhealthyMachine False/UnhealthyNode False/NodeStartupTimeout False/NodeDeleted
Machine by MachineHealthCheck | 6.4 | OwnerRemediated | False/WaitingForRemediation
Machine by MachineHealthCheck | 6.4 | ExternallyRemediated | False/WaitingForRemediation False/RemediationTemplateNotFound
    False/RemediationRequestCreationFailed
MachineHealthCheck | 6.3 | RemediationAllowed | True/RemediationAllowed False/TooManyUnhealthy
MachineSet | 7.4 | ScalingUp | True/ScalingUp False/NotScalingUp
MachineSet | 7.6 | ScalingDown | True/ScalingDown False/NotScalingDown
MachineSet | 7.3 | ScalingUp ScalingDown | Unknown/InternalError Unknown/WaitingForReplicasSet
MachineSet | 7.3 | MachinesReady MachinesUpToDate Remediating Deleting | Unknown/InternalError
MachineSet | 7.7 | MachinesReady | Unknown/InternalError True/NoReplicas True/Ready False/NotReady Unknown/ReadyUnknown
MachineSet | 7.8 | MachinesUpToDate | True/NoReplicas True/UpToDate False/NotUpToDate Unknown/UpToDateUnknown
MachineSet | 7.9 | Remediating | True/Remediating False/NotRemediating
MachineSet | 7.10 | Deleting | True/Deleting False/NotDeleting
Machine by MachineSet | 7.11 | OwnerRemediated | False/CannotBeRemediated False/RemediationDeferred False/MachineDeleting
MachineDeployment | 8.3 | Available | Unknown/InternalError Unknown/WaitingForReplicasSet Unknown/WaitingForAvailableReplicasSet
    True/Available False/NotAvailable
MachineDeployment | 8.4 | RollingOut | True/RollingOut False/NotRollingOut
MachineDeployment | 8.5 | ScalingUp | True/ScalingUp False/NotScalingUp Unknown/InternalError Unknown/WaitingForReplicasSet
MachineDeployment | 8.6 | ScalingDown | True/ScalingDown False/NotScalingDown Unknown/InternalError Unknown/WaitingForReplicasSet
MachineDeployment | 8.7 | MachinesReady | True/NoReplicas True/Ready False/NotReady Unknown/ReadyUnknown
MachineDeployment | 8.7 | MachinesUpToDate | True/NoReplicas True/UpToDate False/NotUpToDate Unknown/UpToDateUnknown
MachineDeployment | 8.8 | Remediating | True/Remediating False/NotRemediating
MachineDeployment | 8.9 | Deleting | True/Deleting False/NotDeleting Unknown/InternalError
Cluster | 10.5 | RemoteConnectionProbe | False/ProbeFailed True/ProbeSucceeded
Cluster | 10.6 | InfrastructureReady | False/ObjectDoesNotExist Unknown/InvalidConditionReported True/Ready False/NotReady
    Unknown/InternalError False/ObjectDeleted False/NoReasonReported
Cluster | 10.7 | ControlPlaneAvailable | False/ObjectDoesNotExist Unknown/InvalidConditionReported True/Available
    False/NotAvailable Unknown/InternalError False/ObjectDeleted False/NoReasonReported
Cluster | 10.8 | ControlPlaneInitialized | Unknown/ObjectDoesNotExist Unknown/InternalError True/Initialized False/NotInitialized
Cluster | 10.9 | WorkersAvailable | Unknown/InternalError True/NoWorkers True/Available False/NotAvailable
    Unknown/AvailableUnknown
Cluster | 10.10 | ControlPlaneMachinesReady WorkerMachinesReady | Unknown/InternalError True/NoReplicas True/Ready False/NotReady
    Unknown/ReadyUnknown
Cluster | 10.10 | ControlPlaneMachinesUpToDate WorkerMachinesUpToDate | Unknown/InternalError True/NoReplicas True/UpToDate
    False/NotUpToDate Unknown/UpToDateUnknown
Cluster | 10.11 | RollingOut | Unknown/InternalError True/RollingOut False/NotRollingOut Unknown/RollingOutUnknown
Cluster | 10.11 | ScalingUp | Unknown/InternalError True/ScalingUp False/NotScalingUp Unknown/ScalingUpUnknown
Cluster | 10.11 | ScalingDown | Unknown/InternalError True/ScalingDown False/NotScalingDown Unknown/ScalingDownUnknown
Cluster | 10.12 | Remediating | Unknown/InternalError True/Remediating False/NotRemediating
Cluster | 10.13 | Deleting | False/NotDeleting True/WaitingForBeforeDeleteHook True/InternalError True/WaitingForWorkersDeletion
    True/WaitingForControlPlaneDeletion True/WaitingForInfrastructureDeletion True/DeletionCompleted
Cluster | 10.14 | Available | True/Available False/NotAvailable Unknown/AvailableUnknown Unknown/InternalError
Cluster | 10.15 | TopologyReconciled | False/Paused False/ReconcileFailed False/Deleting False/ClusterClassNotReconciled
    False/ClusterCreating True/ReconcileSucceeded False/ClusterUpgrading False/MachineDeploymentsUpgradeDeferred
    False/MachinePoolsUpgradeDeferred
KubeadmControlPlane | 11.3 | Initialized | True/Initialized False/NotInitialized
KubeadmControlPlane | 11.4 | CertificatesAvailable | Unknown/InternalError False/NotAvailable True/Available
KubeadmControlPlane | 11.5 | EtcdClusterHealthy ControlPlaneComponentsHealthy | Unknown/InspectionFailed
KubeadmControlPlane | 11.6 | EtcdClusterHealthy ControlPlaneComponentsHealthy | Unknown/ConnectionDown
Machine by KubeadmControlPlane | 11.6 | NodeKubeadmLabelsAndTaintsSet APIServerPodHealthy ControllerManagerPodHealthy SchedulerPodHealthy EtcdPodHealthy EtcdMemberHealthy |
    Unknown/InspectionFailed Unknown/ConnectionDown
Machine by KubeadmControlPlane | 11.7 | NodeKubeadmLabelsAndTaintsSet | False/Deleting Unknown/InspectionFailed True/Set
    False/NotSet
Machine by KubeadmControlPlane | 11.7 | APIServerPodHealthy ControllerManagerPodHealthy SchedulerPodHealthy EtcdPodHealthy |
    False/Deleting Unknown/InspectionFailed False/DoesNotExist False/Provisioning True/Running False/Failed
Machine by KubeadmControlPlane | 11.8 | EtcdMemberHealthy | Unknown/InspectionFailed False/Deleting False/NotHealthy True/Healthy
KubeadmControlPlane | 11.9 | EtcdClusterHealthy ControlPlaneComponentsHealthy | False/NotHealthy Unknown/HealthUnknown
    True/Healthy
Machine by KubeadmControlPlane | 11.10 | UpToDate | False/NotUpToDate False/Updating True/UpToDate
KubeadmControlPlane | 11.11 | RollingOut | True/RollingOut False/NotRollingOut
KubeadmControlPlane | 11.11 | MachinesReady | True/NoReplicas True/Ready False/NotReady Unknown/ReadyUnknown
KubeadmControlPlane | 11.11 | MachinesUpToDate | True/NoReplicas True/UpToDate False/NotUpToDate Unknown/UpToDateUnknown
KubeadmControlPlane | 11.11 | Remediating | True/Remediating False/NotRemediating
KubeadmControlPlane | 11.12 | ScalingUp | Unknown/WaitingForReplicasSet True/ScalingUp False/NotScalingUp
KubeadmControlPlane | 11.12 | ScalingDown | Unknown/WaitingForReplicasSet True/ScalingDown False/NotScalingDown
KubeadmControlPlane | 11.13 | Deleting | False/NotDeleting True/DeletionCompleted True/InternalError
    True/WaitingForWorkersDeletion True/WaitingForMachineDeletion
KubeadmControlPlane | 11.14 | Available | True/Available False/NotAvailable Unknown/InspectionFailed
Machine by KubeadmControlPlane | 11.15 | OwnerRemediated | False/RemediationDeferred False/CannotBeRemediated
    False/MachineDeleting
Machine by MachinePool | 12.2 | UpToDate | True/UpToDate False/NotUpToDate
ClusterClass | 13 | VariablesReady | True/VariablesReady False/VariableDiscoveryFailed
ClusterClass | 13 | RefVersionsUpToDate | True/RefVersionsUpToDate False/RefVersionsNotUpToDate Unknown/InternalError
KubeadmConfig | 14 | DataSecretAvailable | False/NotAvailable True/Available
KubeadmConfig | 14 | CertificatesAvailable | Unknown/InternalError True/Available
KubeadmConfig | 14 | Ready | True/Ready False/NotReady Unknown/ReadyUnknown
DevMachine | 15.2 | VMProvisioned | False/WaitingForClusterInfrastructureReady False/WaitingForControlPlaneInitialized
    False/WaitingForBootstrapData False/WaitingForStartupTimeout True/Provisioned False/InternalError
DevMachine | 15.2 | NodeProvisioned | False/WaitingForVMProvisioned False/WaitingForStartupTimeout True/Provisioned
DevMachine | 15.2 | EtcdProvisioned APIServerProvisioned | False/WaitingForVMProvisioned False/WaitingForNodeProvisioned
    False/WaitingForStartupTimeout True/Provisioned
DevMachine | 15.2 | Ready | True/Ready False/NotReady
";

/// `Paused` is the same for all of these.
const PAUSED: &str = "True/Paused False/NotPaused";
const PAUSABLE: [&str; 11] = [
    "ClusterClass",
    "Cluster",
    "KubeadmControlPlane",
    "MachineDeployment",
    "MachineSet",
    "MachinePool",
    "Machine",
    "MachineHealthCheck",
    "KubeadmConfig",
    "DevCluster",
    "DevMachine",
];

/// Who, type, status and reason.
pub type Seen = BTreeSet<(String, String, String)>;

pub struct Row {
    pub of: String,
    pub section: String,
    pub types: Vec<String>,
    /// Status and reason.
    pub told: Vec<(String, String)>,
}

impl Row {
    fn parse(line: &str) -> Self {
        let mut parts = line.split('|').map(str::trim);
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (of, section, types, told) = (part(), part(), part(), part());
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let told = words(&told)
            .iter()
            .filter_map(|t| t.split_once('/'))
            .map(|(s, r)| (s.to_owned(), r.to_owned()))
            .collect();
        Self { of, section, types: words(&types), told }
    }
}

/// The list, a row each.
pub fn rows() -> Vec<Row> {
    LIST.replace("\n    ", " ").lines().map(Row::parse).collect()
}

/// Kind, type, status and reason of everything that the controllers report, whoever writes it.
pub fn reported() -> Vec<[String; 4]> {
    // Where another controller writes the condition, its name follows the kind's.
    let of_kind = |of: &str| of.split(' ').next().unwrap_or_default().to_owned();
    let split = |(of, type_, told): &(String, String, String)| {
        let (status, reason) = told.split_once('/')?;
        Some([of_kind(of), type_.clone(), status.to_owned(), reason.to_owned()])
    };
    listed().iter().filter_map(split).collect()
}

/// The list, a reason each.
pub fn listed() -> Seen {
    let paused = PAUSABLE.map(|of| Row::parse(&format!("{of} | 2.10 | Paused | {PAUSED}")));
    // Some sections have a reason in common, as InternalError: a set keeps it once.
    let mut all = Seen::new();
    for Row { of, types, told, .. } in rows().into_iter().chain(paused) {
        for type_ in types {
            all.extend(
                told.iter().map(|(status, reason)| (of.clone(), type_.clone(), format!("{status}/{reason}"))),
            );
        }
    }
    all
}
