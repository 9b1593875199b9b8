//! The words of the API: groups, labels, annotations, finalizers. Condition types and reasons live
//! here too, so that one spelling exists.
//! Source: cluster-api `api/core/v1beta2`, `api/controlplane/kubeadm/v1beta2`, v1.14.0.

pub const CORE_GROUP: &str = "cluster.x-k8s.io";
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
pub const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";
pub const ADDONS_GROUP: &str = "addons.cluster.x-k8s.io";
pub const RUNTIME_GROUP: &str = "runtime.cluster.x-k8s.io";
pub const IPAM_GROUP: &str = "ipam.cluster.x-k8s.io";
pub const VERSION: &str = "v1beta2";

/// Type of secrets that Cluster API makes.
pub const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Labels.
pub mod label {
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    pub const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
    pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
    pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";
    pub const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
    pub const MACHINE_TEMPLATE_HASH: &str = "machine-template-hash";
    pub const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";
    /// On a CustomResourceDefinition: the versions that fulfil the v1beta2 contract, joined by `_`.
    pub const CONTRACT: &str = "cluster.x-k8s.io/v1beta2";
    pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
    /// On a CustomResourceDefinition: `clusterctl move` takes its objects along.
    pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
}

/// Annotations.
pub mod annotation {
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
    pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
    pub const DISABLE_MACHINE_CREATE: &str = "cluster.x-k8s.io/disable-machine-create";
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
    pub const CLONED_FROM_GROUP_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";
    pub const PRE_DRAIN_HOOK_PREFIX: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
    pub const PRE_TERMINATE_HOOK_PREFIX: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
    pub const KCP_CLEANUP_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
    pub const EXCLUDE_NODE_DRAINING: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
    pub const EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH: &str =
        "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
    pub const CERTIFICATES_EXPIRY: &str = "machine.cluster.x-k8s.io/certificates-expiry";
    pub const SKIP_PREFLIGHT_CHECKS: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";
    /// Note the plural `clusters` in the prefix of these three.
    pub const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
    pub const DESIRED_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/desired-replicas";
    pub const MAX_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/max-replicas";
    pub const REMEDIATION_IN_PROGRESS: &str = "controlplane.cluster.x-k8s.io/remediation-in-progress";
    pub const REMEDIATION_FOR: &str = "controlplane.cluster.x-k8s.io/remediation-for";
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
    pub const UPDATE_IN_PROGRESS: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
    pub const PENDING_ACKNOWLEDGE_MOVE: &str =
        "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move";
    pub const REVISION_HISTORY: &str = "machinedeployment.clusters.x-k8s.io/revision-history";
    /// Written by `kubectl rollout restart` style actions on templates' metadata.
    pub const RESTARTED_AT: &str = "cluster.x-k8s.io/restartedAt";
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    pub const SKIP_COREDNS: &str = "controlplane.cluster.x-k8s.io/skip-coredns";
    /// On templates in dry runs of the topology controller: they may differ from what is stored.
    pub const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";
    pub const TOPOLOGY_UPGRADE_CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";
    pub const UNSAFE_CLASS_NAME: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";
    pub const UNSAFE_VERSION: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
}

/// Finalizers.
pub mod finalizer {
    pub const CLUSTER: &str = "cluster.cluster.x-k8s.io";
    pub const MACHINE: &str = "machine.cluster.x-k8s.io";
    pub const MACHINE_DEPLOYMENT: &str = "cluster.x-k8s.io/machinedeployment";
    pub const MACHINE_SET: &str = "cluster.x-k8s.io/machineset";
    pub const KUBEADM_CONTROL_PLANE: &str = "kubeadm.controlplane.cluster.x-k8s.io";
    pub const MACHINE_POOL: &str = "machinepool.cluster.x-k8s.io";
}

/// Condition types, in the order in which upstream writes them to an object.
pub mod condition {
    pub const AVAILABLE: &str = "Available";
    pub const READY: &str = "Ready";
    pub const UP_TO_DATE: &str = "UpToDate";
    pub const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";
    pub const BOOTSTRAP_CONFIG_READY: &str = "BootstrapConfigReady";
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
    pub const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
    pub const WORKERS_AVAILABLE: &str = "WorkersAvailable";
    pub const CERTIFICATES_AVAILABLE: &str = "CertificatesAvailable";
    pub const INITIALIZED: &str = "Initialized";
    pub const ETCD_CLUSTER_HEALTHY: &str = "EtcdClusterHealthy";
    pub const CONTROL_PLANE_COMPONENTS_HEALTHY: &str = "ControlPlaneComponentsHealthy";
    pub const NODE_HEALTHY: &str = "NodeHealthy";
    pub const NODE_READY: &str = "NodeReady";
    pub const NODE_KUBEADM_LABELS_AND_TAINTS_SET: &str = "NodeKubeadmLabelsAndTaintsSet";
    pub const ETCD_POD_HEALTHY: &str = "EtcdPodHealthy";
    pub const ETCD_MEMBER_HEALTHY: &str = "EtcdMemberHealthy";
    pub const API_SERVER_POD_HEALTHY: &str = "APIServerPodHealthy";
    pub const CONTROLLER_MANAGER_POD_HEALTHY: &str = "ControllerManagerPodHealthy";
    pub const SCHEDULER_POD_HEALTHY: &str = "SchedulerPodHealthy";
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
    pub const EXTERNALLY_REMEDIATED: &str = "ExternallyRemediated";
    pub const TOPOLOGY_RECONCILED: &str = "TopologyReconciled";
    pub const UPDATING: &str = "Updating";
    pub const ROLLING_OUT: &str = "RollingOut";
    pub const REMEDIATING: &str = "Remediating";
    pub const SCALING_DOWN: &str = "ScalingDown";
    pub const SCALING_UP: &str = "ScalingUp";
    pub const MACHINES_READY: &str = "MachinesReady";
    pub const CONTROL_PLANE_MACHINES_READY: &str = "ControlPlaneMachinesReady";
    pub const WORKER_MACHINES_READY: &str = "WorkerMachinesReady";
    pub const MACHINES_UP_TO_DATE: &str = "MachinesUpToDate";
    pub const CONTROL_PLANE_MACHINES_UP_TO_DATE: &str = "ControlPlaneMachinesUpToDate";
    pub const WORKER_MACHINES_UP_TO_DATE: &str = "WorkerMachinesUpToDate";
    pub const PAUSED: &str = "Paused";
    pub const DELETING: &str = "Deleting";

    /// KubeadmConfig.
    pub const DATA_SECRET_AVAILABLE: &str = "DataSecretAvailable";
    /// MachineHealthCheck.
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";

    /// DevMachine, in-memory backend.
    pub const VM_PROVISIONED: &str = "VMProvisioned";
    pub const NODE_PROVISIONED: &str = "NodeProvisioned";
    pub const ETCD_PROVISIONED: &str = "EtcdProvisioned";
    pub const API_SERVER_PROVISIONED: &str = "APIServerProvisioned";
    /// DevCluster, docker backend.
    pub const LOAD_BALANCER_AVAILABLE: &str = "LoadBalancerAvailable";
}

/// Reasons of conditions. What each means depends on the condition type; see `status`.
pub mod reason {
    // Availability.
    pub const AVAILABLE: &str = "Available";
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    pub const AVAILABLE_UNKNOWN: &str = "AvailableUnknown";
    pub const WAITING_FOR_MIN_READY_SECONDS: &str = "WaitingForMinReadySeconds";
    pub const WAITING_FOR_AVAILABLE_REPLICAS_SET: &str = "WaitingForAvailableReplicasSet";
    pub const NO_WORKERS: &str = "NoWorkers";

    // Readiness.
    pub const READY: &str = "Ready";
    pub const NOT_READY: &str = "NotReady";
    pub const READY_UNKNOWN: &str = "ReadyUnknown";

    // Up to date.
    pub const UP_TO_DATE: &str = "UpToDate";
    pub const NOT_UP_TO_DATE: &str = "NotUpToDate";
    pub const UP_TO_DATE_UNKNOWN: &str = "UpToDateUnknown";
    pub const UPDATING: &str = "Updating";
    pub const NOT_UPDATING: &str = "NotUpdating";
    pub const IN_PLACE_UPDATING: &str = "InPlaceUpdating";
    pub const IN_PLACE_UPDATE_FAILED: &str = "InPlaceUpdateFailed";

    // Rollout and scale. Each word has its `Not` and its `Unknown`.
    pub const ROLLING_OUT: &str = "RollingOut";
    pub const NOT_ROLLING_OUT: &str = "NotRollingOut";
    pub const ROLLING_OUT_UNKNOWN: &str = "RollingOutUnknown";
    pub const SCALING_UP: &str = "ScalingUp";
    pub const NOT_SCALING_UP: &str = "NotScalingUp";
    pub const SCALING_UP_UNKNOWN: &str = "ScalingUpUnknown";
    pub const SCALING_DOWN: &str = "ScalingDown";
    pub const NOT_SCALING_DOWN: &str = "NotScalingDown";
    pub const SCALING_DOWN_UNKNOWN: &str = "ScalingDownUnknown";

    // Remediation.
    pub const REMEDIATING: &str = "Remediating";
    pub const NOT_REMEDIATING: &str = "NotRemediating";
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    pub const TOO_MANY_UNHEALTHY: &str = "TooManyUnhealthy";
    pub const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";
    pub const CANNOT_BE_REMEDIATED: &str = "CannotBeRemediated";
    pub const REMEDIATION_DEFERRED: &str = "RemediationDeferred";
    pub const MACHINE_DELETING: &str = "MachineDeleting";

    // Health checks.
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    pub const UNHEALTHY_NODE: &str = "UnhealthyNode";
    pub const UNHEALTHY_MACHINE: &str = "UnhealthyMachine";
    pub const NODE_STARTUP_TIMEOUT: &str = "NodeStartupTimeout";
    pub const HAS_REMEDIATE_ANNOTATION: &str = "HasRemediateAnnotation";

    // Empty sets.
    pub const NO_REPLICAS: &str = "NoReplicas";
    pub const WAITING_FOR_REPLICAS_SET: &str = "WaitingForReplicasSet";

    // Errors, and objects that are not there.
    pub const INVALID_CONDITION_REPORTED: &str = "InvalidConditionReported";
    pub const INTERNAL_ERROR: &str = "InternalError";
    pub const OBJECT_DOES_NOT_EXIST: &str = "ObjectDoesNotExist";
    pub const OBJECT_DELETED: &str = "ObjectDeleted";
    pub const CONNECTION_DOWN: &str = "ConnectionDown";
    pub const INSPECTION_FAILED: &str = "InspectionFailed";
    pub const NOT_YET_REPORTED: &str = "NotYetReported";
    pub const NO_REASON_REPORTED: &str = "NoReasonReported";
    pub const ISSUES_REPORTED: &str = "IssuesReported";
    pub const UNKNOWN_REPORTED: &str = "UnknownReported";
    pub const INFO_REPORTED: &str = "InfoReported";

    // Pause.
    pub const PAUSED: &str = "Paused";
    pub const NOT_PAUSED: &str = "NotPaused";

    // Initialization.
    pub const INITIALIZED: &str = "Initialized";
    pub const NOT_INITIALIZED: &str = "NotInitialized";
    pub const PROBE_SUCCEEDED: &str = "ProbeSucceeded";
    pub const PROBE_FAILED: &str = "ProbeFailed";
    pub const DATA_SECRET_PROVIDED: &str = "DataSecretProvided";

    // Nodes.
    pub const NODE_READY: &str = "NodeReady";
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    pub const NODE_READY_UNKNOWN: &str = "NodeReadyUnknown";
    pub const NODE_HEALTHY: &str = "NodeHealthy";
    pub const NODE_NOT_HEALTHY: &str = "NodeNotHealthy";
    pub const NODE_HEALTHY_UNKNOWN: &str = "NodeHealthyUnknown";
    pub const NODE_DOES_NOT_EXIST: &str = "NodeDoesNotExist";
    pub const NODE_DELETED: &str = "NodeDeleted";

    // Control plane health.
    pub const HEALTHY: &str = "Healthy";
    pub const NOT_HEALTHY: &str = "NotHealthy";
    pub const HEALTH_UNKNOWN: &str = "HealthUnknown";
    pub const RUNNING: &str = "Running";
    pub const PROVISIONING: &str = "Provisioning";
    pub const DOES_NOT_EXIST: &str = "DoesNotExist";
    pub const FAILED: &str = "Failed";
    pub const SET: &str = "Set";
    pub const NOT_SET: &str = "NotSet";

    // Provisioning by a provider.
    pub const PROVISIONED: &str = "Provisioned";
    pub const NOT_PROVISIONED: &str = "NotProvisioned";
    pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY: &str = "WaitingForClusterInfrastructureReady";
    pub const WAITING_FOR_CONTROL_PLANE_INITIALIZED: &str = "WaitingForControlPlaneInitialized";
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";

    // Deletion.
    pub const DELETING: &str = "Deleting";
    pub const NOT_DELETING: &str = "NotDeleting";
    pub const DELETION_COMPLETED: &str = "DeletionCompleted";
    pub const WAITING_FOR_PRE_DRAIN_HOOK: &str = "WaitingForPreDrainHook";
    pub const DRAINING_NODE: &str = "DrainingNode";
    pub const WAITING_FOR_VOLUME_DETACH: &str = "WaitingForVolumeDetach";
    pub const WAITING_FOR_PRE_TERMINATE_HOOK: &str = "WaitingForPreTerminateHook";
    pub const WAITING_FOR_INFRASTRUCTURE_DELETION: &str = "WaitingForInfrastructureDeletion";
    pub const WAITING_FOR_BOOTSTRAP_DELETION: &str = "WaitingForBootstrapDeletion";
    pub const DELETING_NODE: &str = "DeletingNode";
    pub const WAITING_FOR_BEFORE_DELETE_HOOK: &str = "WaitingForBeforeDeleteHook";
    pub const WAITING_FOR_WORKERS_DELETION: &str = "WaitingForWorkersDeletion";
    pub const WAITING_FOR_CONTROL_PLANE_DELETION: &str = "WaitingForControlPlaneDeletion";
    pub const WAITING_FOR_MACHINE_DELETION: &str = "WaitingForMachineDeletion";
}
