//! Objects from files or lists, by kind and key, as a source for `observe`. Must not judge them.
//!
//! An object that others refer to and that is not here counts as not existing, unless nothing of its
//! kind is here: then it was left out of the dump, and nothing is known of it.

mod assumed;
mod bootstrap;
mod control_plane;
mod deletion;
mod dev;
pub mod document;
mod health_check;
mod machine;
mod pool;
mod selector;
pub mod text;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::observe::{Objects, Source, older_version};
use crate::status::contract::definition::contract_of;
use crate::status::contract::{Contract, External, Provided};
use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::{DevCluster, DevMachine};
use capi_types::key::{Gvk, ObjectKey, group_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_health_check::MachineHealthCheck;
use capi_types::machine_pool::MachinePool;
use capi_types::machine_set::MachineSet;
use capi_types::names::{self, VERSION};
use capi_types::reference::ContractRef;
use capstan_base::text::counted;
use document::{Document, Origin, key_of};
use workload::Workload;

pub use assumed::made_just_now;
pub use machine::{last_seen, reported_update};

/// A kind whose status is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Only its conditions are judged: topologies are not reconciled here.
    ClusterClass,
    /// A cluster as a whole.
    Cluster,
    /// Control plane Machines, made with kubeadm.
    KubeadmControlPlane,
    /// Workers that roll from one MachineSet to the next.
    MachineDeployment,
    /// Workers from one template.
    MachineSet,
    /// Workers that a provider counts.
    MachinePool,
    /// One of the cluster's machines.
    Machine,
    /// What it says about Machines is judged with it.
    MachineHealthCheck,
    /// Bootstrap data of a Machine.
    KubeadmConfig,
    /// Infrastructure of the provider for tests.
    DevCluster,
    /// Infrastructure of the provider for tests.
    DevMachine,
}

impl Kind {
    /// From the whole to its parts, the order of every output.
    pub const ALL: [Self; 11] = [
        Self::ClusterClass,
        Self::Cluster,
        Self::KubeadmControlPlane,
        Self::MachineDeployment,
        Self::MachineSet,
        Self::MachinePool,
        Self::Machine,
        Self::MachineHealthCheck,
        Self::KubeadmConfig,
        Self::DevCluster,
        Self::DevMachine,
    ];

    /// As in `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterClass => "ClusterClass",
            Self::Cluster => "Cluster",
            Self::KubeadmControlPlane => "KubeadmControlPlane",
            Self::MachineDeployment => "MachineDeployment",
            Self::MachineSet => "MachineSet",
            Self::MachinePool => "MachinePool",
            Self::Machine => "Machine",
            Self::MachineHealthCheck => "MachineHealthCheck",
            Self::KubeadmConfig => "KubeadmConfig",
            Self::DevCluster => "DevCluster",
            Self::DevMachine => "DevMachine",
        }
    }

    /// The group of its `apiVersion`.
    pub fn group(self) -> &'static str {
        match self {
            Self::KubeadmControlPlane => names::CONTROL_PLANE_GROUP,
            Self::KubeadmConfig => names::BOOTSTRAP_GROUP,
            Self::DevCluster | Self::DevMachine => names::INFRASTRUCTURE_GROUP,
            _ => names::CORE_GROUP,
        }
    }

    fn of(value: &Value) -> Option<Self> {
        let kind = value["kind"].as_str()?;
        let group = group_of(value["apiVersion"].as_str()?);
        Self::ALL.into_iter().find(|k| k.name() == kind && k.group() == group)
    }
}

/// Kinds of different groups may share a name, `Cluster` above all.
type GroupKind = (String, String);

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    /// As it was read, where that is v1beta1.
    older: Option<Value>,
    origin: Origin,
}

/// All objects of one dump.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// Kinds with types are read into them; what does not fit is a remark.
    pub clusters: BTreeMap<ObjectKey, Arc<Cluster>>,
    /// Those that fit their type.
    pub control_planes: BTreeMap<ObjectKey, Arc<KubeadmControlPlane>>,
    /// Those that fit their type.
    pub machine_deployments: BTreeMap<ObjectKey, Arc<MachineDeployment>>,
    /// Those that fit their type.
    pub machine_sets: BTreeMap<ObjectKey, Arc<MachineSet>>,
    /// Those that fit their type.
    pub machine_pools: BTreeMap<ObjectKey, Arc<MachinePool>>,
    /// Those that fit their type.
    pub machines: BTreeMap<ObjectKey, Arc<Machine>>,
    /// Those that fit their type.
    pub checks: BTreeMap<ObjectKey, Arc<MachineHealthCheck>>,
    /// Those that fit their type.
    pub configs: BTreeMap<ObjectKey, Arc<KubeadmConfig>>,
    /// Those that fit their type.
    pub dev_clusters: BTreeMap<ObjectKey, Arc<DevCluster>>,
    /// Those that fit their type.
    pub dev_machines: BTreeMap<ObjectKey, Arc<DevMachine>>,
    /// What could not be taken in.
    pub remarks: Vec<String>,
    /// Every object, in the newest form.
    raw: BTreeMap<GroupKind, BTreeMap<ObjectKey, Entry>>,
    /// The contract of a kind and the version it is read in, or why there is none.
    definitions: BTreeMap<GroupKind, Result<(Contract, String), String>>,
    workloads: BTreeMap<ObjectKey, Workload>,
    /// A server listed it.
    is_listed: bool,
    /// Objects of v1beta1 that were put into the newer form.
    converted: usize,
    /// Control planes that a release looks after which has only v1beta1.
    of_older_releases: BTreeSet<ObjectKey>,
}

impl Dump {
    /// Sorts the documents. What is not an object, or not as its kind should be, becomes a remark; of
    /// two objects with the same name the later one counts.
    pub fn new(documents: Vec<Document>) -> Self {
        let mut dump = Self::default();
        let mut remote = Vec::new();
        for document in documents {
            match document.value["kind"].as_str() {
                // Put aside, since a Pod's cluster is found only when every Node is known.
                Some("Node" | "Pod") => remote.push(document),
                Some("CustomResourceDefinition") => dump.define(&document.value),
                _ => match document.lacks() {
                    None => dump.take(document.value, document.origin),
                    Some(what) => dump.remarks.push(format!("{}: {what}: left out", document.origin)),
                },
            }
        }
        if dump.converted > 0 {
            let objects = counted(dump.converted, "object");
            dump.remarks
                .push(format!("{objects} of v1beta1 read as {VERSION}, by Cluster API's own conversion"));
        }
        dump.put_recorded_configurations();
        let (workloads, remarks) = workload::sorted(remote);
        dump.workloads = workloads;
        dump.remarks.extend(remarks);
        dump
    }

    /// Objects as a server listed them, by kind. What is not in the list of its kind does not exist.
    pub fn of_lists(lists: Vec<(Gvk, Vec<Value>)>) -> Self {
        let mut documents = Vec::new();
        let mut kinds = Vec::new();
        for (gvk, objects) in lists {
            let origin = |item| Origin { file: gvk.plural.clone(), line: 0, item: Some(item) };
            documents.extend(objects.into_iter().zip(1..).map(|(value, item)| Document {
                value,
                workload: None,
                // A list has no lines; the number of the item is what a remark can name.
                origin: origin(item),
            }));
            kinds.push((gvk.group, gvk.kind));
        }
        let mut dump = Self::new(documents);
        for kind in kinds {
            // An empty list is knowledge, too: what is referred to and of this kind does not exist.
            dump.raw.entry(kind).or_default();
        }
        // After `new`, which begins with what files can promise.
        dump.is_listed = true;
        dump
    }

    /// A server listed it, kind by kind: no object of a kind that is here was left out.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Puts an object in the place of the one with its kind and key, or adds it.
    pub fn replace(&mut self, value: Value) {
        let (key, kind) = (key_of(&value), value["kind"].as_str().unwrap_or_default().to_owned());
        let group = value["apiVersion"].as_str().map(group_of).unwrap_or_default().to_owned();
        // Taken out first, or `take` would remark that the object is there twice.
        let before = self.raw.get_mut(&(group, kind)).and_then(|objects| objects.remove(&key));
        let origin = before.map(|entry| entry.origin).unwrap_or_default();
        self.take(value, origin);
    }

    /// A Machine that does not exist any more.
    pub fn remove_machine(&mut self, key: &ObjectKey) {
        self.machines.remove(key);
        if let Some(objects) = self.raw.get_mut(&(names::CORE_GROUP.to_owned(), "Machine".to_owned())) {
            objects.remove(key);
        }
    }

    fn define(&mut self, definition: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &definition["spec"];
        let key = (text(&spec["group"]), text(&spec["names"]["kind"]));
        let meta = &definition["metadata"];
        // Kept even when it fails: a definition without contract makes its objects unreadable.
        let contract = contract_of(&text(&meta["name"]), |label| meta["labels"][label].as_str());
        self.definitions.insert(key, contract);
    }

    fn take(&mut self, mut value: Value, origin: Origin) {
        let key = key_of(&value);
        let is_of_older_release = older_version::is_of_older_release(&value);
        let older = older_version::is_older(&value).then(|| value.clone());
        if older_version::convert(&mut value) {
            older_version::take_over(&mut value);
            self.converted += 1;
            if is_of_older_release && value["kind"] == "KubeadmControlPlane" {
                self.of_older_releases.insert(key.clone());
            }
        }
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        let (group, version) = match value["apiVersion"].as_str().unwrap_or_default().split_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), String::new()),
        };
        if let Some(judged) = Kind::of(&value) {
            let taken = if version == VERSION {
                selector::complete(judged, &mut value);
                self.decode(judged, &key, &value)
            } else {
                // Other versions have fields of the same name with other meanings.
                let known = match judged {
                    Kind::DevCluster | Kind::DevMachine | Kind::ClusterClass => format!("only {VERSION} is"),
                    _ => format!("only {VERSION} and v1beta1 are"),
                };
                Err(format!("it is in version {version}; {known} computed"))
            };
            if let Err(why) = taken {
                self.remarks.push(format!("{origin}: {kind} {key} is left out: {why}"));
            }
        }
        let name = format!("{kind} {key}");
        // Before `origin` moves into the entry.
        let again = origin.to_string();
        // Stored raw even when it cannot be judged: others may refer to it.
        let of_kind = self.raw.entry((group, kind)).or_default();
        if let Some(former) = of_kind.insert(key, Entry { value, older, origin }) {
            self.remarks.push(format!("{again}: {name} is also at {}: this one counts", former.origin));
        }
    }

    fn decode(&mut self, kind: Kind, key: &ObjectKey, value: &Value) -> Result<(), String> {
        fn put<T: DeserializeOwned>(
            map: &mut BTreeMap<ObjectKey, Arc<T>>,
            key: &ObjectKey,
            value: &Value,
        ) -> Result<(), String> {
            let object = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
            map.insert(key.clone(), Arc::new(object));
            Ok(())
        }
        match kind {
            // The untyped object is judged.
            Kind::ClusterClass => Ok(()),
            Kind::Cluster => put(&mut self.clusters, key, value),
            Kind::KubeadmControlPlane => put(&mut self.control_planes, key, value),
            Kind::MachineDeployment => put(&mut self.machine_deployments, key, value),
            Kind::MachineSet => put(&mut self.machine_sets, key, value),
            Kind::MachinePool => put(&mut self.machine_pools, key, value),
            Kind::Machine => put(&mut self.machines, key, value),
            Kind::MachineHealthCheck => put(&mut self.checks, key, value),
            Kind::KubeadmConfig => put(&mut self.configs, key, value),
            Kind::DevCluster => put(&mut self.dev_clusters, key, value),
            Kind::DevMachine => put(&mut self.dev_machines, key, value),
        }
    }

    /// The object, unchanged.
    pub fn raw(&self, group: &str, kind: &str, key: &ObjectKey) -> Option<&Value> {
        Some(&self.raw.get(&(group.to_owned(), kind.to_owned()))?.get(key)?.value)
    }

    /// The object in v1beta1, where it was read in it and was not changed in another form since.
    pub fn older(&self, group: &str, kind: &str, key: &ObjectKey) -> Option<&Value> {
        self.raw.get(&(group.to_owned(), kind.to_owned()))?.get(key)?.older.as_ref()
    }

    /// Says what an object that is here looks like in v1beta1.
    pub fn keep_older(&mut self, older: Value) {
        let kind = older["kind"].as_str().unwrap_or_default().to_owned();
        let group = older["apiVersion"].as_str().map(group_of).unwrap_or_default().to_owned();
        let entry = self.raw.get_mut(&(group, kind)).and_then(|objects| objects.get_mut(&key_of(&older)));
        if let Some(entry) = entry {
            entry.older = Some(older);
        }
    }

    /// All objects of a kind, unchanged.
    pub fn all(&self, group: &str, kind: &str) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        let of_kind = self.raw.get(&(group.to_owned(), kind.to_owned()));
        of_kind.into_iter().flatten().map(|(key, entry)| (key, &entry.value))
    }

    /// Something of this kind is here, so that what is not here does not exist.
    pub fn has_kind(&self, group: &str, kind: &str) -> bool {
        self.raw.contains_key(&(group.to_owned(), kind.to_owned()))
    }

    /// How many objects of Cluster API's groups have a status without rules here, by kind.
    pub fn unjudged(&self) -> BTreeMap<&str, usize> {
        let ours = |group: &str| group.ends_with("cluster.x-k8s.io");
        let judged =
            |group: &str, kind: &str| Kind::ALL.iter().any(|k| k.group() == group && k.name() == kind);
        let others = self.raw.iter().filter(|((group, kind), _)| ours(group) && !judged(group, kind));
        let counted = others.map(|((_, kind), objects)| {
            (kind.as_str(), objects.values().filter(|entry| !entry.value["status"].is_null()).count())
        });
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// Group, kind and number of objects of every kind that is here.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.raw.iter().map(|((group, kind), objects)| (group.as_str(), kind.as_str(), objects.len()))
    }

    /// Is it a kind of control planes? One of another group is one that a Cluster names.
    pub fn is_control_plane(&self, group: &str, kind: &str) -> bool {
        let mut named = self.clusters.values().filter_map(|cluster| cluster.spec.control_plane_ref.as_ref());
        group == names::CONTROL_PLANE_GROUP
            || named.any(|reference| reference.api_group == group && reference.kind == kind)
    }

    /// What is said once of all Clusters with a class: nothing here computes topologies.
    pub fn not_computed(&self) -> Option<String> {
        let count = self.clusters.values().filter(|cluster| cluster.spec.topology.is_some()).count();
        let what = match count {
            0 => return None,
            1 => "the topology of 1 Cluster is not computed here: what belongs to it".to_owned(),
            _ => format!("the topologies of {count} Clusters are not computed here: what belongs to them"),
        };
        Some(format!("{what} is taken as it is"))
    }

    /// The contract of a kind and the version in which it is read; `None` when its definition is not
    /// here.
    pub fn definition(&self, group: &str, kind: &str) -> Option<&Result<(Contract, String), String>> {
        self.definitions.get(&(group.to_owned(), kind.to_owned()))
    }

    fn referred(&self, namespace: &str, reference: Option<&ContractRef>) -> External {
        let Some(reference) = reference.filter(|r| !r.name.is_empty()) else { return External::NotSet };
        let kind = reference.kind.clone();
        let group = reference.api_group.as_str();
        let stated = self.definition(group, &kind);
        // Before the object is looked for: so upstream's reader fails, whether it is there or not.
        if let Some(Err(error)) = stated {
            return External::Unreadable { kind, error: error.clone() };
        }
        let key = ObjectKey::new(namespace, &reference.name);
        match self.raw(group, &kind, &key) {
            Some(value) => {
                let stated = stated.and_then(|s| s.as_ref().ok());
                // Without a definition the object itself shows which contract it follows.
                let contract = stated.map(|(contract, _)| *contract).unwrap_or_default();
                External::Found(Provided::new(value.clone()).under(contract))
            }
            None if self.has_kind(group, &kind) => External::NotFound { kind },
            // Nothing of the kind is here, so nothing is known of this one.
            None => External::Unreadable { error: format!("there is no {kind} among the objects"), kind },
        }
    }

    /// The definition of its kind is here and has no contract, so the object cannot be read.
    pub fn is_misdefined(&self, reference: &ContractRef) -> bool {
        self.definition(&reference.api_group, &reference.kind).is_some_and(Result::is_err)
    }

    /// Nodes and Pods of a workload cluster; `None` when there are none of it here.
    pub fn workload(&self, cluster: &ObjectKey) -> Option<&Workload> {
        self.workloads.get(cluster)
    }

    /// Names of the Secrets in a namespace.
    pub fn secrets(&self, namespace: &str) -> BTreeSet<&str> {
        let here = self.all("", "Secret").filter(|(key, _)| key.namespace == namespace);
        here.map(|(key, _)| key.name.as_str()).collect()
    }
}

impl Source for Dump {
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

    fn external(&self, namespace: &str, reference: Option<&ContractRef>) -> External {
        self.referred(namespace, reference)
    }

    fn template(&self, namespace: &str, reference: Option<&ContractRef>) -> External {
        self.template_or_assumed(namespace, reference)
    }

    fn infrastructure_of_machine(&self, machine: &Machine) -> External {
        self.machine_infrastructure_or_assumed(machine)
    }

    fn bootstrap_of_machine(&self, machine: &Machine) -> External {
        self.machine_bootstrap_or_assumed(machine)
    }

    fn infrastructure_of_cluster(&self, cluster: &Cluster) -> External {
        self.cluster_infrastructure_or_assumed(cluster)
    }

    fn control_plane_of_cluster(&self, cluster: &Cluster) -> External {
        self.cluster_control_plane_or_assumed(cluster)
    }
}
