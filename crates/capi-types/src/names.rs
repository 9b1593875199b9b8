//! The words of the API: groups, labels, annotations, finalizers. One spelling of each.
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
    pub use k8s_machinery::names::NODE_ROLE_CONTROL_PLANE;
    pub const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
    pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
    pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";
    pub const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
    pub const MACHINE_TEMPLATE_HASH: &str = "machine-template-hash";
    /// Ours, on a Cluster: every action on it and what belongs to it asks for a name.
    pub const PROTECTED: &str = "capstan.dev/protected";
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
    /// Somebody else's controller looks after an infrastructure object.
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
    /// On an ExtensionConfig: `<namespace>/<name>` of the Secret whose `ca.crt` becomes its CA bundle.
    pub const INJECT_CA_FROM_SECRET: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
    pub const UPDATE_IN_PROGRESS: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
    pub const PENDING_ACKNOWLEDGE_MOVE: &str =
        "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move";
    /// On an old MachineSet: its surplus goes to the MachineSet of this name.
    pub const MOVE_MACHINES_TO: &str =
        "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset";
    /// On the current MachineSet: from these it takes Machines.
    pub const RECEIVE_MACHINES_FROM: &str =
        "in-place-updates.internal.cluster.x-k8s.io/receive-machines-from-machinesets";
    /// On the current MachineSet: these Machines are counted.
    pub const ACKNOWLEDGED_MOVE: &str = "in-place-updates.internal.cluster.x-k8s.io/acknowledged-move";
    pub const REVISION_HISTORY: &str = "machinedeployment.clusters.x-k8s.io/revision-history";
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    pub const SKIP_COREDNS: &str = "controlplane.cluster.x-k8s.io/skip-coredns";
    /// On templates in dry runs of the topology controller: they may differ from what is stored.
    pub const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";
    pub const TOPOLOGY_UPGRADE_CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";
    pub const UNSAFE_CLASS_NAME: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";
    pub const UNSAFE_VERSION: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
    /// Upstream keeps these on the etcd pod of its fake server; here the DevMachine keeps them, so that members and
    /// leader survive a restart.
    pub const SIMULATED_MEMBER_ID: &str = "etcd.inmemory.infrastructure.cluster.x-k8s.io/member-id";
    pub const SIMULATED_LEADER_FROM: &str = "etcd.inmemory.infrastructure.cluster.x-k8s.io/leader-from";
    pub const SIMULATED_MEMBER_REMOVED: &str = "etcd.inmemory.infrastructure.cluster.x-k8s.io/member-removed";
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
}

/// Finalizers.
pub mod finalizer {
    pub const CLUSTER: &str = "cluster.cluster.x-k8s.io";
    pub const MACHINE: &str = "machine.cluster.x-k8s.io";
    pub const MACHINE_DEPLOYMENT: &str = "cluster.x-k8s.io/machinedeployment";
    pub const MACHINE_SET: &str = "cluster.x-k8s.io/machineset";
    pub const MACHINE_POOL: &str = "machinepool.cluster.x-k8s.io";
    pub const KUBEADM_CONTROL_PLANE: &str = "kubeadm.controlplane.cluster.x-k8s.io";
    /// Upstream's provider uses the names of its older kinds for the Dev kinds too.
    pub const DEV_CLUSTER: &str = "dockercluster.infrastructure.cluster.x-k8s.io";
    pub const DEV_MACHINE: &str = "dockermachine.infrastructure.cluster.x-k8s.io";
    pub const DEV_MACHINE_POOL: &str = "dockermachinepool.infrastructure.cluster.x-k8s.io";
    /// What capstan wrote before it used upstream's names: replaced where they are met.
    pub const FORMER_DEV_CLUSTER: &str = "devcluster.infrastructure.cluster.x-k8s.io";
    pub const FORMER_DEV_MACHINE: &str = "devmachine.infrastructure.cluster.x-k8s.io";
}

/// Condition types that the simulated provider sets or reads. Those of the core controllers stand in the rules of
/// `status`, each where it is decided.
pub mod condition {
    pub const READY: &str = "Ready";
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
    pub const PAUSED: &str = "Paused";

    /// DevMachine, in-memory backend.
    pub const VM_PROVISIONED: &str = "VMProvisioned";
    pub const NODE_PROVISIONED: &str = "NodeProvisioned";
    pub const ETCD_PROVISIONED: &str = "EtcdProvisioned";
    pub const API_SERVER_PROVISIONED: &str = "APIServerProvisioned";
    /// DevMachinePool.
    pub const REPLICAS_READY: &str = "ReplicasReady";
    /// DevCluster, docker backend.
    pub const LOAD_BALANCER_AVAILABLE: &str = "LoadBalancerAvailable";
}

/// Leases of upstream's managers: the namespace that an installation has unless asked otherwise, and the name.
/// Source: `LeaderElectionID` in `main.go` of each manager, v1.14.0.
pub mod lease {
    pub const CORE: (&str, &str) = ("capi-system", "controller-leader-election-capi");
    pub const KUBEADM_BOOTSTRAP: (&str, &str) =
        ("capi-kubeadm-bootstrap-system", "kubeadm-bootstrap-manager-leader-election-capi");
    pub const KUBEADM_CONTROL_PLANE: (&str, &str) =
        ("capi-kubeadm-control-plane-system", "kubeadm-control-plane-manager-leader-election-capi");
    /// The provider of the Dev kinds.
    pub const DEV: (&str, &str) = ("capd-system", "controller-leader-election-capd");

    /// Of those whose objects the engine reconciles.
    pub const UPSTREAM: [(&str, &str); 3] = [CORE, KUBEADM_BOOTSTRAP, KUBEADM_CONTROL_PLANE];
}

/// Field managers of what the engine writes. Source: the `ssa` managers of each controller, v1.14.0.
pub mod manager {
    /// Of the engine's patches, and of everything that earlier versions of capstan wrote.
    pub const PATCHES: &str = "capstan";
    /// Of the same writes by upstream's controllers.
    pub const UPSTREAM_PATCHES: &str = "manager";
    /// Machines of a control plane, and the objects that are made with them.
    pub const KUBEADM_CONTROL_PLANE: &str = "capi-kubeadmcontrolplane";
    /// Labels and annotations of infrastructure machines and bootstrap configurations of a control plane.
    pub const KUBEADM_CONTROL_PLANE_METADATA: &str = "capi-kubeadmcontrolplane-metadata";
    /// MachineSets.
    pub const MACHINE_DEPLOYMENT: &str = "capi-machinedeployment";
    /// Machines of a MachineSet, and the objects that are made with them.
    pub const MACHINE_SET: &str = "capi-machineset";
    /// Labels and annotations of infrastructure machines and bootstrap configurations of a MachineSet.
    pub const MACHINE_SET_METADATA: &str = "capi-machineset-metadata";

    /// Machines of a MachinePool.
    pub const MACHINE_POOL: &str = "machinepool-controller";

    /// Those who apply whole objects.
    pub const OF_SPEC: [&str; 4] = [KUBEADM_CONTROL_PLANE, MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE_POOL];
    /// Those who apply labels and annotations only.
    pub const OF_METADATA: [&str; 2] = [KUBEADM_CONTROL_PLANE_METADATA, MACHINE_SET_METADATA];
    pub const APPLYING: [&str; 6] = [
        KUBEADM_CONTROL_PLANE,
        MACHINE_DEPLOYMENT,
        MACHINE_SET,
        MACHINE_POOL,
        KUBEADM_CONTROL_PLANE_METADATA,
        MACHINE_SET_METADATA,
    ];
}
