//! The objects of one Cluster at one virtual moment, and who belongs to whom. Owns objects; must not know what acts on
//! them, nor how long anything takes.
//!
//! Everything that planners and statuses of one Cluster look at is in one world, so that a pass costs as much as the
//! Cluster is large, not the fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::census::Census;
use super::change::{ActorKind, ObjectChange};
use super::externals::Externals;
use super::updates::Updates;
use super::workload::WorkloadState;
use capi_rules::observe::{Objects, Source, namespace};
use capi_rules::status::contract::External;
use capi_rules::status::control_plane::Kubeconfig;
use capi_rules::status::control_plane::certificates::Certificates;
use capi_rules::status::machines::is_control_plane;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::condition::Conditioned;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_drain_rule::MachineDrainRule;
use capi_types::machine_health_check::MachineHealthCheck;
use capi_types::machine_pool::MachinePool;
use capi_types::machine_set::MachineSet;
use capi_types::reference::ContractRef;
use capstan_base::time::Timestamp;

/// The objects of one kind.
pub(super) type Table<K> = BTreeMap<ObjectKey, Arc<K>>;

/// Certificates and kubeconfig of a control plane.
#[derive(Clone, Debug)]
pub struct Keys {
    pub certificates: Certificates,
    pub kubeconfig: Kubeconfig,
}

/// One Cluster and everything that belongs to it.
#[derive(Clone, Debug)]
pub struct World {
    pub now: Timestamp,
    /// Of the Cluster; everything else is in the same namespace.
    pub key: ObjectKey,
    pub(super) clusters: Table<Cluster>,
    pub(super) control_planes: Table<KubeadmControlPlane>,
    pub(super) machine_deployments: Table<MachineDeployment>,
    pub(super) machine_sets: Table<MachineSet>,
    pub(super) machine_pools: Table<MachinePool>,
    pub(super) machines: Table<Machine>,
    pub(super) checks: Table<MachineHealthCheck>,
    pub(super) configs: Table<KubeadmConfig>,
    pub(super) drain_rules: Vec<Arc<MachineDrainRule>>,
    /// Objects of providers, templates and control planes as others see them.
    pub(super) externals: Externals,
    pub(super) workload: WorkloadState,
    /// Of each control plane, by name.
    pub(super) keys: BTreeMap<String, Keys>,
    /// The Machines that an owner controls, by kind and name of the owner.
    members: BTreeMap<String, Table<Machine>>,
    /// Machines of the control plane.
    control_plane: BTreeSet<ObjectKey>,
    /// Machines that nothing controls.
    orphans: usize,
    pub(super) census: Census,
    /// What changed since it was last asked.
    changes: Vec<ObjectChange>,
    /// Objects made so far: uids and resource versions.
    pub(super) made: u64,
    /// How many an owner made, by its name.
    made_by: BTreeMap<String, usize>,
    /// The generation at which what belongs to a MachineDeployment was last compared with it, by its name.
    pub(super) in_step: BTreeMap<String, Option<i64>>,
    /// The [`intent_mark`](capi_rules::plan::machine_set::intent_mark) with which the Machines of a MachineSet were last
    /// compared, by its name.
    pub(super) sets_in_step: BTreeMap<String, u64>,
    pub(super) updates: Updates,
    /// Control planes that a release looks after which has nothing newer than v1beta1.
    pub(super) of_older_releases: BTreeSet<ObjectKey>,
}

impl World {
    /// A Cluster with nothing.
    pub fn new(cluster: Arc<Cluster>, now: Timestamp) -> Self {
        let key =
            ObjectKey::new(namespace(cluster.as_ref()), cluster.metadata.name.clone().unwrap_or_default());
        Self {
            now,
            clusters: BTreeMap::from([(key.clone(), cluster)]),
            key,
            control_planes: Table::new(),
            machine_deployments: Table::new(),
            machine_sets: Table::new(),
            machine_pools: Table::new(),
            machines: Table::new(),
            checks: Table::new(),
            configs: Table::new(),
            drain_rules: Vec::new(),
            externals: Externals::default(),
            workload: WorkloadState::default(),
            keys: BTreeMap::new(),
            members: BTreeMap::new(),
            control_plane: BTreeSet::new(),
            orphans: 0,
            census: Census::default(),
            changes: Vec::new(),
            made: 0,
            made_by: BTreeMap::new(),
            in_step: BTreeMap::new(),
            sets_in_step: BTreeMap::new(),
            updates: Updates::default(),
            of_older_releases: BTreeSet::new(),
        }
    }

    /// An object of this kind in the namespace.
    pub fn get<K: Kept>(&self, name: &str) -> Option<Arc<K>> {
        K::table(self).get(&self.named(name)).cloned()
    }

    /// All objects of a kind, by name.
    pub fn all<K: Kept>(&self) -> impl Iterator<Item = &Arc<K>> {
        K::table(self).values()
    }

    /// The Cluster; `None` when it is gone.
    pub fn cluster(&self) -> Option<Arc<Cluster>> {
        self.clusters.get(&self.key).cloned()
    }

    pub(super) fn named(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.key.namespace.clone(), name)
    }

    /// Stores an object; one that is as it was changes nothing. Answers whether it differs.
    pub fn put<K: Kept>(&mut self, object: K) -> bool {
        let key = ObjectKey::new(self.key.namespace.clone(), object.meta().name.clone().unwrap_or_default());
        let before = K::table(self).get(&key).cloned();
        // A write that changes nothing wakes no actor: a server does not raise the version for it either.
        if before.as_deref() == Some(&object) {
            return false;
        }
        let after = Arc::new(object);
        self.changes.push(between(&key.name, before.as_deref(), Some(after.as_ref())));
        K::note(self, before.as_ref(), Some(&after));
        K::table_mut(self).insert(key, after);
        true
    }

    /// Takes an object out of the world.
    pub fn remove<K: Kept>(&mut self, name: &str) {
        let key = self.named(name);
        let Some(before) = K::table_mut(self).remove(&key) else { return };
        self.changes.push(between(name, Some(before.as_ref()), None));
        K::note(self, Some(&before), None);
    }

    /// What changed since the last call, in order.
    pub(super) fn take_changes(&mut self) -> Vec<ObjectChange> {
        std::mem::take(&mut self.changes)
    }

    /// A change of something that is not one of the kept kinds.
    pub(super) fn note_change(&mut self, change: ObjectChange) {
        self.changes.push(change);
    }

    fn note_machine(&mut self, before: Option<&Arc<Machine>>, after: Option<&Arc<Machine>>) {
        self.census.note(before.map(AsRef::as_ref), after.map(AsRef::as_ref));
        if let (Some(gone), None) = (before, after)
            // The Node cannot be deleted then, and it must not count as forgotten later.
            && !self.workload.is_reachable()
        {
            let node = gone.status.as_ref().and_then(|s| s.node_ref.as_ref()).map(|r| r.name.clone());
            self.workload.abandoned.extend(node.or_else(|| gone.metadata.name.clone()));
        }
        let Some(key) = before.or(after).map(|machine| self.named(name_of(machine.as_ref()))) else { return };
        self.note_control_plane_machine(&key, after.is_some_and(|machine| is_control_plane(machine)));
        self.note_member(key, before, after);
    }

    fn note_control_plane_machine(&mut self, key: &ObjectKey, is_one: bool) {
        if !is_one {
            self.control_plane.remove(key);
        // Asked before, as `insert` needs a copy of the key with each write.
        } else if !self.control_plane.contains(key) {
            self.control_plane.insert(key.clone());
        }
    }

    /// Who controls a Machine, and as it is now.
    fn note_member(&mut self, key: ObjectKey, before: Option<&Arc<Machine>>, after: Option<&Arc<Machine>>) {
        let owner = |m: &Arc<Machine>| controller_of(m.as_ref()).map(|o| owner_id(&o.kind, &o.name));
        let (old, new) = (before.map(owner), after.map(owner));
        // Most writes change no owner, and none of the sets below.
        if old != new {
            if let Some(left) = before.filter(|_| after.is_some()).and_then(|m| controller_of(m.as_ref()))
                && left.kind == ActorKind::MachineSet.name()
            {
                // It counts one Machine less.
                self.changes.push(ObjectChange::beside(ActorKind::MachineSet, &left.name));
            }
            match old {
                Some(Some(owner)) => {
                    if let Some(mine) = self.members.get_mut(&owner) {
                        mine.remove(&key);
                    }
                }
                Some(None) => self.orphans = self.orphans.saturating_sub(1),
                None => {}
            }
            self.orphans += usize::from(new == Some(None));
        }
        if let (Some(Some(owner)), Some(machine)) = (new, after) {
            // Also when the owner is the same: the member is kept as it is now.
            self.members.entry(owner).or_default().insert(key, Arc::clone(machine));
        }
    }

    /// What stands in the names of the next `count` objects that an owner makes for what is drawn by chance.
    pub(super) fn names_of(&self, owner: &str, count: usize) -> Vec<String> {
        // Counted by owner and not drawn, so that runs of one Cluster are alike.
        let made = self.made_by.get(owner).copied().unwrap_or(0);
        (made + 1..=made + count).map(|number| format!("new{number}")).collect()
    }

    /// An owner made one object more.
    pub(super) fn count_made(&mut self, owner: &str) {
        *self.made_by.entry(owner.to_owned()).or_default() += 1;
    }

    /// No Machine is without a controller, so that owners are found without looking at every Machine.
    pub(super) fn has_orphans(&self) -> bool {
        self.orphans > 0
    }

    /// The Machines that an owner controls, by name.
    pub(super) fn controlled(&self, kind: &str, name: &str) -> Vec<Arc<Machine>> {
        self.members.get(&owner_id(kind, name)).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }
}

fn owner_id(kind: &str, name: &str) -> String {
    format!("{kind}/{name}")
}

/// A Kubernetes object of the world, whatever its kind.
pub(super) fn name_of<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

impl Source for World {
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
        &self.configs
    }

    fn is_of_older_release(&self, control_plane: &ObjectKey) -> bool {
        self.of_older_releases.contains(control_plane)
    }

    /// There is one Cluster in a world.
    fn control_plane_machines(&self, _: &ObjectKey) -> Vec<Arc<Machine>> {
        self.control_plane.iter().filter_map(|key| self.machines.get(key)).cloned().collect()
    }

    fn external(&self, _: &str, reference: Option<&ContractRef>) -> External {
        self.externals.referred(reference)
    }
}

/// What differs between an object before and after; `None`: it is not there.
fn between<K: Kept>(name: &str, before: Option<&K>, after: Option<&K>) -> ObjectChange {
    let kind = K::ACTOR;
    // The owner of what is gone is woken as well.
    let owner = after.or(before).and_then(controller_of).map(|o| (o.kind.clone(), o.name.clone()));
    let (is_meta, is_spec) = match (before, after) {
        (Some(before), Some(after)) => (before.meta() != after.meta(), !K::has_same_spec(before, after)),
        // Made or gone: that concerns everyone who looks at intents.
        _ => (true, true),
    };
    let is_intent = is_meta || is_spec;
    ObjectChange { kind, name: name.to_owned(), owner, is_intent, is_spec, is_gone: after.is_none() }
}

/// A kind with a controller.
pub trait Kept:
    Resource<DynamicType = ()> + Conditioned + Clone + PartialEq + Serialize + DeserializeOwned + 'static
{
    const ACTOR: ActorKind;
    #[doc(hidden)]
    fn table(world: &World) -> &Table<Self>;
    #[doc(hidden)]
    fn table_mut(world: &mut World) -> &mut Table<Self>;
    fn has_same_spec(before: &Self, after: &Self) -> bool;
    /// Keeps what the world knows besides the objects.
    #[doc(hidden)]
    fn note(_: &mut World, _: Option<&Arc<Self>>, _: Option<&Arc<Self>>) {}
}

macro_rules! kept {
    ($kind:ident, $table:ident, $note:expr) => {
        impl Kept for $kind {
            const ACTOR: ActorKind = ActorKind::$kind;

            fn table(world: &World) -> &Table<Self> {
                &world.$table
            }

            fn table_mut(world: &mut World) -> &mut Table<Self> {
                &mut world.$table
            }

            fn has_same_spec(before: &Self, after: &Self) -> bool {
                before.spec == after.spec
            }

            fn note(world: &mut World, before: Option<&Arc<Self>>, after: Option<&Arc<Self>>) {
                let note: fn(&mut World, Option<&Arc<Self>>, Option<&Arc<Self>>) = $note;
                note(world, before, after);
            }
        }
    };
}

kept!(Cluster, clusters, |_, _, _| {});
kept!(KubeadmControlPlane, control_planes, World::note_control_plane);
kept!(MachineDeployment, machine_deployments, |_, _, _| {});
kept!(MachineSet, machine_sets, World::note_set);
kept!(Machine, machines, World::note_machine);
kept!(MachineHealthCheck, checks, |_, _, _| {});

impl World {
    /// Others see a control plane through its contract.
    fn note_control_plane(
        &mut self,
        before: Option<&Arc<KubeadmControlPlane>>,
        after: Option<&Arc<KubeadmControlPlane>>,
    ) {
        let group = KubeadmControlPlane::group(&());
        match after.map(|after| serde_json::to_value(after.as_ref())) {
            // A copy as JSON with each change: those who follow the contract know no types.
            Some(Ok(content)) => self.externals.put(&group, content),
            _ => {
                let name = before.map(|before| name_of(before.as_ref())).unwrap_or_default();
                self.externals.remove(&group, ActorKind::KubeadmControlPlane.name(), name);
            }
        }
    }

    /// A MachineSet's Machines count for its MachineDeployment.
    fn note_set(&mut self, before: Option<&Arc<MachineSet>>, after: Option<&Arc<MachineSet>>) {
        if let Some(set) = after.or(before) {
            self.census.note_set(set);
        }
    }
}
