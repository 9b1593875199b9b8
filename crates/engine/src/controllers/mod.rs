//! Observe, plan, apply, report, per kind: reads objects, asks `plan` and `status`, performs the steps. The shape of
//! a run is `reconcile`; a kind says what it reads and what it reports. Must not decide anything itself.

use std::sync::Arc;

use crate::client::{Cache, Live, Object, Writer};
use crate::engine::Engine;
use crate::workload::Workload;
use by_cluster::ByCluster;
use capi_rules::observe::{Objects, Source};
use capi_rules::plan::Blocker;
use capi_rules::status::contract::External;
pub use capi_rules::status::machine::{Graces, SyncedKeys};
use capi_rules::status::machine::{cluster_provisioned, control_plane_initialized_since};
use capi_rules::status::machines::is_control_plane;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, ObjectRef, cluster_label};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_drain_rule::MachineDrainRule;
use capi_types::machine_health_check::MachineHealthCheck;
use capi_types::machine_pool::MachinePool;
use capi_types::machine_set::MachineSet;
use capi_types::reference::ContractRef;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use external::Externals;
use machine::MachinesByNode;
use names::Names;
use reconcile::{Reconcile, Run};

mod apply;
mod bootstrap;
mod by_cluster;
pub mod certificates;
mod cluster;
mod control_plane;
pub mod extension_config;
pub mod external;
pub mod in_place;
mod keys;
pub mod kubeconfig;
mod machine;
mod machine_deployment;
mod machine_health_check;
mod machine_pool;
mod machine_set;
pub mod names;
mod reconcile;
pub mod status;
pub mod sweep;
mod workers;

/// Every controller that [`register`] adds.
pub const NAMES: [&str; 8] = [
    <cluster::Clusters as Reconcile>::NAME,
    <control_plane::ControlPlanes as Reconcile>::NAME,
    <machine_deployment::MachineDeployments as Reconcile>::NAME,
    <machine_set::MachineSets as Reconcile>::NAME,
    <machine_pool::MachinePools as Reconcile>::NAME,
    <machine::Machines as Reconcile>::NAME,
    <machine_health_check::MachineHealthChecks as Reconcile>::NAME,
    <bootstrap::KubeadmConfigs as Reconcile>::NAME,
];

/// Those that look into workload clusters.
pub const REACH_WORKLOADS: [&str; 6] = [NAMES[0], NAMES[1], NAMES[4], NAMES[5], NAMES[6], NAMES[7]];

/// What people may choose about the controllers.
#[derive(Clone, Default)]
pub struct Settings {
    pub synced_keys: SyncedKeys,
    pub in_place: in_place::Settings,
    pub graces: Graces,
}

/// Adds every controller to the engine.
pub fn register(engine: &mut Engine, workload: Arc<dyn Workload>, settings: Settings) {
    let context = Context {
        caches: Caches::of(engine),
        writer: engine.writer().clone(),
        workload,
        clock: engine.clock().clone(),
        rng: engine.rng().stream("controllers"),
        names: Names::new(engine.rng().stream("names")),
        unchanged: apply::Unchanged::default(),
        events: apply::Sent::default(),
        synced_keys: Arc::new(settings.synced_keys),
        asking: in_place::Asking::new(settings.in_place),
        graces: settings.graces,
    };
    engine.add(Run(cluster::Clusters { context: context.clone() }));
    engine.add(Run(control_plane::ControlPlanes { context: context.clone() }));
    engine.add(Run(machine_deployment::MachineDeployments { context: context.clone() }));
    engine.add(Run(machine_set::MachineSets { context: context.clone(), compared: Default::default() }));
    engine.add(Run(machine_pool::MachinePools { context: context.clone() }));
    engine.add(Run(machine::Machines { context: context.clone() }));
    engine.add(Run(machine_health_check::MachineHealthChecks { context: context.clone() }));
    engine.add(Run(bootstrap::KubeadmConfigs { context }));
}

/// What every controller is given. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub caches: Caches,
    pub writer: Writer,
    pub workload: Arc<dyn Workload>,
    pub clock: Clock,
    /// For what is drawn once: tokens, names of events.
    pub rng: Rng,
    pub names: Names,
    pub unchanged: apply::Unchanged,
    pub events: apply::Sent,
    pub synced_keys: Arc<SyncedKeys>,
    pub asking: in_place::Asking,
    pub graces: Graces,
}

/// The live copies that controllers read. Secrets and ConfigMaps are read past them, by name.
#[derive(Clone)]
pub struct Caches {
    pub clusters: Cache<Cluster>,
    pub control_planes: Cache<KubeadmControlPlane>,
    pub machine_deployments: Cache<MachineDeployment>,
    pub machine_sets: Cache<MachineSet>,
    pub machine_pools: Cache<MachinePool>,
    pub machines: Cache<Machine>,
    /// The Machines of control planes: each Machine that goes asks how many are left.
    pub control_plane_machines: ByCluster<Machine>,
    /// The Machines by what identifies their Nodes.
    pub machines_by_node: MachinesByNode,
    pub machine_drain_rules: Cache<MachineDrainRule>,
    pub machine_health_checks: Cache<MachineHealthCheck>,
    pub kubeadm_configs: Cache<KubeadmConfig>,
    /// What the objects above refer to, of whichever kind.
    pub externals: Externals,
}

impl Caches {
    /// The engine's copies; asking for them starts their watches when it runs.
    pub fn of(engine: &mut Engine) -> Self {
        let machines = engine.cache();
        Self {
            machines_by_node: MachinesByNode::of(&machines),
            control_plane_machines: ByCluster::new(&machines, |machine| {
                cluster_label(machine).filter(|_| is_control_plane(machine))
            }),
            clusters: engine.cache(),
            control_planes: engine.cache(),
            machine_deployments: engine.cache(),
            machine_sets: engine.cache(),
            machine_pools: engine.cache(),
            machines,
            machine_drain_rules: engine.cache(),
            machine_health_checks: engine.cache(),
            kubeadm_configs: engine.cache(),
            externals: Externals::of(engine),
        }
    }
}

impl<K: Object> Objects<K> for Cache<K> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        Self::get(self, key)
    }

    fn select(&self, namespace: &str, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        Self::select(self, namespace, wanted)
    }

    fn of_cluster(&self, cluster: &ObjectKey) -> Vec<Arc<K>> {
        Self::of_cluster(self, cluster)
    }
}

impl Source for Caches {
    fn clusters(&self) -> &impl Objects<Cluster> {
        &self.clusters
    }

    fn machine_deployments(&self) -> &impl Objects<MachineDeployment> {
        &self.machine_deployments
    }

    fn machine_sets(&self) -> &impl Objects<MachineSet> {
        &self.machine_sets
    }

    fn machine_pools(&self) -> &impl Objects<MachinePool> {
        &self.machine_pools
    }

    fn machines(&self) -> &impl Objects<Machine> {
        &self.machines
    }

    fn kubeadm_configs(&self) -> &impl Objects<KubeadmConfig> {
        &self.kubeadm_configs
    }

    fn control_plane_machines(&self, cluster: &ObjectKey) -> Vec<Arc<Machine>> {
        self.control_plane_machines.get(cluster)
    }

    fn external(&self, namespace: &str, reference: Option<&ContractRef>) -> External {
        self.externals.get(namespace, reference)
    }
}

/// The key of the Cluster that an object's label names.
pub fn cluster_key_of<K: Live>(object: &K) -> Option<ObjectKey> {
    let name = cluster_label(object)?;
    Some(ObjectKey::new(object.meta().namespace.clone().unwrap_or_default(), name))
}

/// Says what holds an object back to those who read the log closely.
fn log_blockers(about: &ObjectRef, blockers: &[Blocker]) {
    for blocker in blockers {
        tracing::debug!(rule = blocker.reason.rule, "{about}: {blocker}");
    }
}

fn keys_of<K: Object>(objects: &[Arc<K>]) -> Vec<ObjectKey> {
    objects.iter().map(|object| ObjectKey::of(object.as_ref())).collect()
}

/// The key of a Cluster that changed in what its Machines depend on: pause, deletion, and the two
/// milestones of its initialization.
fn cluster_turned(old: Option<&Cluster>, new: Option<&Cluster>) -> Option<ObjectKey> {
    let facts = |cluster: &Cluster| {
        (
            cluster.spec.paused == Some(true),
            cluster.metadata.deletion_timestamp.is_some(),
            cluster_provisioned(cluster),
            control_plane_initialized_since(cluster).is_some(),
        )
    };
    (old.map(facts) != new.map(facts)).then(|| new.or(old).map(ObjectKey::of)).flatten()
}
