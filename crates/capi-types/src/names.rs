//! The words of the API: groups, labels, annotations, finalizers. One spelling of each.
//! Source: cluster-api `api/core/v1beta2`, `api/controlplane/kubeadm/v1beta2`, v1.14.2.

/// Of Clusters, Machines and what makes Machines.
pub const CORE_GROUP: &str = "cluster.x-k8s.io";
/// Of KubeadmControlPlanes, and of other providers' control planes.
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
/// Of KubeadmConfigs, and of other providers' bootstrap configurations.
pub const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";
/// Of infrastructure objects; a provider may have a group of its own.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// Of ClusterResourceSets.
pub const ADDONS_GROUP: &str = "addons.cluster.x-k8s.io";
/// Of ExtensionConfigs.
pub const RUNTIME_GROUP: &str = "runtime.cluster.x-k8s.io";
/// Of addresses out of pools.
pub const IPAM_GROUP: &str = "ipam.cluster.x-k8s.io";
/// The version of the API that is written; providers are read by their contract.
pub const VERSION: &str = "v1beta2";
/// Served beside it, or alone by releases before 1.11.
pub const OLDER_VERSION: &str = "v1beta1";

/// Type of secrets that Cluster API makes.
pub const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Labels that Cluster API's controllers write or select by.
pub mod label {
    /// On everything that belongs to a Cluster: its name.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// On what belongs to the control plane; an empty value.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    pub use k8s_machinery::names::NODE_ROLE_CONTROL_PLANE;
    /// On a Machine: its KubeadmControlPlane, hashed when the name is longer than a label holds.
    pub const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
    /// On MachineSets and Machines: their MachineDeployment.
    pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
    /// On Machines: their MachineSet, hashed when the name is longer than a label holds.
    pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";
    /// On Machines: their MachinePool, hashed when the name is longer than a label holds.
    pub const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
    /// Tells the MachineSets of a MachineDeployment apart.
    pub const MACHINE_TEMPLATE_HASH: &str = "machine-template-hash";
    /// Ours, on a Cluster: every action on it and what belongs to it asks for a name.
    pub const PROTECTED: &str = "capstan.dev/protected";
    /// On what a Cluster's topology keeps; an empty value.
    pub const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";
    /// On a MachineDeployment that a topology keeps: its name there.
    pub const TOPOLOGY_DEPLOYMENT: &str = "topology.cluster.x-k8s.io/deployment-name";
    /// On a MachinePool that a topology keeps: its name there.
    pub const TOPOLOGY_POOL: &str = "topology.cluster.x-k8s.io/pool-name";
    /// On a CustomResourceDefinition: the versions that fulfil the v1beta2 contract, joined by `_`.
    pub const CONTRACT: &str = "cluster.x-k8s.io/v1beta2";
    /// On definitions: the provider whose component they are.
    pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
    /// On a CustomResourceDefinition: `clusterctl move` takes its objects along.
    pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
    /// On a CustomResourceDefinition: the same for objects that no Cluster owns.
    pub const CLUSTERCTL_MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
}

/// Annotations that Cluster API's controllers read or write.
pub mod annotation {
    /// On any object: its controller leaves it alone, whatever the value.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// On a Machine: it goes first when its MachineSet shrinks, whatever the value.
    pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
    /// On a Machine: it counts as unhealthy, without a health check.
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
    /// On a Machine: no health check looks at it.
    pub const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
    /// On a MachineSet: it makes no Machine, whatever it wants.
    pub const DISABLE_MACHINE_CREATE: &str = "cluster.x-k8s.io/disable-machine-create";
    /// Somebody else's controller looks after an infrastructure object.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// On a clone: the template that it was made from.
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
    /// On a clone: kind and group of that template.
    pub const CLONED_FROM_GROUP_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";
    /// Begins an annotation on a Machine that holds its drain.
    pub const PRE_DRAIN_HOOK_PREFIX: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
    /// Begins an annotation on a Cluster that holds an upgrade of its topology.
    /// Source: upstream `api/core/v1beta2/common_types.go`, `BeforeClusterUpgradeHookAnnotationPrefix`, v1.14.2.
    pub const BEFORE_UPGRADE_HOOK_PREFIX: &str = "before-upgrade.hook.cluster.cluster.x-k8s.io";
    /// Begins an annotation on a Machine that holds the deletion of its infrastructure.
    pub const PRE_TERMINATE_HOOK_PREFIX: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
    /// Holds a control plane Machine until its etcd member is removed.
    pub const KCP_CLEANUP_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
    /// On a Machine: its Node is not drained.
    pub const EXCLUDE_NODE_DRAINING: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
    /// On a Machine: nobody waits for its volumes to be detached.
    pub const EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH: &str =
        "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";
    /// On a Machine or its bootstrap configuration: when the API server's certificate ends, RFC 3339.
    pub const CERTIFICATES_EXPIRY: &str = "machine.cluster.x-k8s.io/certificates-expiry";
    /// On a MachineSet: names of checks that are passed over, or `All`.
    pub const SKIP_PREFLIGHT_CHECKS: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";
    /// Note the plural `clusters` in the prefix of these three.
    pub const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
    /// On a MachineSet: how many Machines its MachineDeployment wants over all MachineSets.
    pub const DESIRED_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/desired-replicas";
    /// On a MachineSet: that number and the surge.
    pub const MAX_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/max-replicas";
    /// On a KubeadmControlPlane: which Machine is being replaced, and how often that was tried, as JSON.
    pub const REMEDIATION_IN_PROGRESS: &str = "controlplane.cluster.x-k8s.io/remediation-in-progress";
    /// On the Machine that replaces an unhealthy one: the same, as JSON.
    pub const REMEDIATION_FOR: &str = "controlplane.cluster.x-k8s.io/remediation-for";
    /// On a control plane Machine: the ClusterConfiguration that it was made with, as JSON; written by releases before 1.12.
    pub const CLUSTER_CONFIGURATION: &str = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration";
    /// On an ExtensionConfig: `<namespace>/<name>` of the Secret whose `ca.crt` becomes its CA bundle.
    pub const INJECT_CA_FROM_SECRET: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";
    /// On any object: hooks that have to be called, joined by commas.
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
    /// On a Machine and the objects behind it: an update in place is under way.
    pub const UPDATE_IN_PROGRESS: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
    /// On a Machine that moves: its new MachineSet has not taken it yet.
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
    /// On a MachineSet: earlier revisions that it had, joined by commas.
    pub const REVISION_HISTORY: &str = "machinedeployment.clusters.x-k8s.io/revision-history";
    /// On what can be scaled: the autoscaler's lower bound.
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// On what can be scaled: the autoscaler's upper bound.
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    /// On what can be scaled: somebody else sets `spec.replicas`, such as a cloud's own scaler.
    pub const REPLICAS_MANAGED_BY: &str = "cluster.x-k8s.io/replicas-managed-by";
    /// On a KubeadmControlPlane: CoreDNS stays as it is.
    pub const SKIP_COREDNS: &str = "controlplane.cluster.x-k8s.io/skip-coredns";
    /// On templates in dry runs of the topology controller: they may differ from what is stored.
    pub const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";
    /// On a Cluster: how many MachineDeployments are upgraded at once.
    pub const TOPOLOGY_UPGRADE_CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";
    /// On a Cluster: its class may be replaced by any other.
    pub const UNSAFE_CLASS_NAME: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";
    /// On a Cluster: its version may be set to any other.
    pub const UNSAFE_VERSION: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
    /// Upstream keeps these on the etcd pod of its fake server; here the DevMachine keeps them, so that members and
    /// leader survive a restart.
    pub const SIMULATED_MEMBER_ID: &str = "etcd.inmemory.infrastructure.cluster.x-k8s.io/member-id";
    /// On the DevMachine whose simulated member leads: since when, RFC 3339.
    pub const SIMULATED_LEADER_FROM: &str = "etcd.inmemory.infrastructure.cluster.x-k8s.io/leader-from";
    /// On a DevMachine: its simulated member was removed.
    pub const SIMULATED_MEMBER_REMOVED: &str = "etcd.inmemory.infrastructure.cluster.x-k8s.io/member-removed";
    /// What `kubectl apply` applied last, as JSON.
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
}

/// Finalizers of Cluster API's controllers: what each of them waits for.
pub mod finalizer {
    /// Held until what belongs to the Cluster is gone.
    pub const CLUSTER: &str = "cluster.cluster.x-k8s.io";
    /// Held until Node, bootstrap configuration and infrastructure are gone.
    pub const MACHINE: &str = "machine.cluster.x-k8s.io";
    /// Held until its MachineSets are gone.
    pub const MACHINE_DEPLOYMENT: &str = "cluster.x-k8s.io/machinedeployment";
    /// Held until its Machines are gone.
    pub const MACHINE_SET: &str = "cluster.x-k8s.io/machineset";
    /// Held until its infrastructure and its Machines are gone.
    pub const MACHINE_POOL: &str = "machinepool.cluster.x-k8s.io";
    /// Held until its Machines are gone, and with them the etcd members.
    pub const KUBEADM_CONTROL_PLANE: &str = "kubeadm.controlplane.cluster.x-k8s.io";
    /// Upstream's provider uses the names of its older kinds for the Dev kinds too.
    pub const DEV_CLUSTER: &str = "dockercluster.infrastructure.cluster.x-k8s.io";
    /// Of the older `DockerMachine`.
    pub const DEV_MACHINE: &str = "dockermachine.infrastructure.cluster.x-k8s.io";
    /// Of the older `DockerMachinePool`.
    pub const DEV_MACHINE_POOL: &str = "dockermachinepool.infrastructure.cluster.x-k8s.io";
    /// What capstan wrote before it used upstream's names: replaced where they are met.
    pub const FORMER_DEV_CLUSTER: &str = "devcluster.infrastructure.cluster.x-k8s.io";
    /// The same for DevMachines.
    pub const FORMER_DEV_MACHINE: &str = "devmachine.infrastructure.cluster.x-k8s.io";
}

/// Condition types that the simulated provider sets or reads. Those of the core controllers stand in the rules of
/// `status`, each where it is decided.
pub mod condition {
    /// Every kind of the provider has it.
    pub const READY: &str = "Ready";
    /// Of the Cluster: read to know whether members and Nodes may be made.
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
    /// Every kind of the provider has it.
    pub const PAUSED: &str = "Paused";

    /// DevMachine, in-memory backend.
    pub const VM_PROVISIONED: &str = "VMProvisioned";
    /// DevMachine, in-memory backend: a Node is registered.
    pub const NODE_PROVISIONED: &str = "NodeProvisioned";
    /// DevMachine, in-memory backend: a member runs.
    pub const ETCD_PROVISIONED: &str = "EtcdProvisioned";
    /// DevMachine, in-memory backend: an API server runs.
    pub const API_SERVER_PROVISIONED: &str = "APIServerProvisioned";
    /// DevMachinePool.
    pub const REPLICAS_READY: &str = "ReplicasReady";
    /// DevCluster, docker backend.
    pub const LOAD_BALANCER_AVAILABLE: &str = "LoadBalancerAvailable";
}

/// Leases of upstream's managers: the namespace that an installation has unless asked otherwise, and the name.
/// Source: `LeaderElectionID` in `main.go` of each manager, v1.14.2.
pub mod lease {
    /// Of the core manager.
    pub const CORE: (&str, &str) = ("capi-system", "controller-leader-election-capi");
    /// Of the kubeadm bootstrap provider.
    pub const KUBEADM_BOOTSTRAP: (&str, &str) =
        ("capi-kubeadm-bootstrap-system", "kubeadm-bootstrap-manager-leader-election-capi");
    /// Of the kubeadm control plane provider.
    pub const KUBEADM_CONTROL_PLANE: (&str, &str) =
        ("capi-kubeadm-control-plane-system", "kubeadm-control-plane-manager-leader-election-capi");
    /// The provider of the Dev kinds.
    pub const DEV: (&str, &str) = ("capd-system", "controller-leader-election-capd");

    /// Of those whose objects the engine reconciles.
    pub const UPSTREAM: [(&str, &str); 3] = [CORE, KUBEADM_BOOTSTRAP, KUBEADM_CONTROL_PLANE];
}

/// Field managers of what the engine writes. Source: the `ssa` managers of each controller, v1.14.2.
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

    /// Machines that stand for the instances of a MachinePool.
    pub const MACHINE_POOL: &str = "machinepool-controller";

    /// Those who apply whole objects.
    pub const OF_SPEC: [&str; 4] = [KUBEADM_CONTROL_PLANE, MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE_POOL];
    /// Those who apply labels and annotations only.
    pub const OF_METADATA: [&str; 2] = [KUBEADM_CONTROL_PLANE_METADATA, MACHINE_SET_METADATA];
    /// All who apply: live copies keep what they own.
    pub const APPLYING: [&str; 6] = [
        KUBEADM_CONTROL_PLANE,
        MACHINE_DEPLOYMENT,
        MACHINE_SET,
        MACHINE_POOL,
        KUBEADM_CONTROL_PLANE_METADATA,
        MACHINE_SET_METADATA,
    ];
}
