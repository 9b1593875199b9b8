//! The words of the API: groups, labels, annotations, finalizers. Condition types and reasons live
//! here too, so that one spelling exists.
//! Source: cluster-api `api/core/v1beta2`, `api/controlplane/kubeadm/v1beta2`, v1.14.0.

pub const CORE_GROUP: &str = "cluster.x-k8s.io";
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
pub const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";
pub const VERSION: &str = "v1beta2";

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
    /// Written by `kubectl rollout restart` style actions on templates' metadata.
    pub const RESTARTED_AT: &str = "cluster.x-k8s.io/restartedAt";
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
