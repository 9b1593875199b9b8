//! Objects from files, by kind and key, and the questions one asks of them. Must not judge them.
//!
//! An object that others refer to and that is not here counts as not existing, unless nothing of its
//! kind is here: then it was left out of the dump, and nothing is known of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::workload::Workload;
use crate::api::bootstrap::KubeadmConfig;
use crate::api::cluster::Cluster;
use crate::api::control_plane::KubeadmControlPlane;
use crate::api::dev::DevMachine;
use crate::api::key::{ObjectKey, group_of};
use crate::api::machine::Machine;
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_health_check::MachineHealthCheck;
use crate::api::machine_pool::MachinePool;
use crate::api::machine_set::MachineSet;
use crate::api::names::{self, VERSION};
use crate::api::reference::ContractRef;
use crate::status::contract::{Contract, External, Provided};
use crate::status::definition::contract_of;

/// One object from a file, and the workload cluster it was said to come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    pub value: Value,
    pub workload: Option<ObjectKey>,
}

/// A kind whose status is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Cluster,
    KubeadmControlPlane,
    MachineDeployment,
    MachineSet,
    MachinePool,
    Machine,
    MachineHealthCheck,
    KubeadmConfig,
    DevMachine,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::Cluster,
        Self::KubeadmControlPlane,
        Self::MachineDeployment,
        Self::MachineSet,
        Self::MachinePool,
        Self::Machine,
        Self::MachineHealthCheck,
        Self::KubeadmConfig,
        Self::DevMachine,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::KubeadmControlPlane => "KubeadmControlPlane",
            Self::MachineDeployment => "MachineDeployment",
            Self::MachineSet => "MachineSet",
            Self::MachinePool => "MachinePool",
            Self::Machine => "Machine",
            Self::MachineHealthCheck => "MachineHealthCheck",
            Self::KubeadmConfig => "KubeadmConfig",
            Self::DevMachine => "DevMachine",
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::KubeadmControlPlane => names::CONTROL_PLANE_GROUP,
            Self::KubeadmConfig => names::BOOTSTRAP_GROUP,
            Self::DevMachine => names::INFRASTRUCTURE_GROUP,
            _ => names::CORE_GROUP,
        }
    }

    fn of(value: &Value) -> Option<Self> {
        let kind = value["kind"].as_str()?;
        let group = group_of(value["apiVersion"].as_str()?);
        Self::ALL.into_iter().find(|k| k.name() == kind && k.group() == group)
    }
}

/// All objects of one dump.
#[derive(Debug, Default)]
pub struct Dump {
    pub clusters: BTreeMap<ObjectKey, Cluster>,
    pub control_planes: BTreeMap<ObjectKey, KubeadmControlPlane>,
    pub machine_deployments: BTreeMap<ObjectKey, MachineDeployment>,
    pub machine_sets: BTreeMap<ObjectKey, MachineSet>,
    pub machine_pools: BTreeMap<ObjectKey, MachinePool>,
    pub machines: BTreeMap<ObjectKey, Machine>,
    pub checks: BTreeMap<ObjectKey, MachineHealthCheck>,
    pub configs: BTreeMap<ObjectKey, KubeadmConfig>,
    pub dev_machines: BTreeMap<ObjectKey, DevMachine>,
    /// What could not be taken in.
    pub remarks: Vec<String>,
    /// Everything, as it came, by kind.
    raw: BTreeMap<String, BTreeMap<ObjectKey, Value>>,
    /// By group and kind.
    contracts: BTreeMap<(String, String), Result<Contract, String>>,
    workloads: BTreeMap<ObjectKey, Workload>,
}

impl Dump {
    /// Sorts the documents. What is not an object, or not as its kind should be, becomes a remark; of
    /// two objects with the same name the later one counts.
    #[must_use]
    pub fn new(documents: Vec<Document>) -> Self {
        let mut dump = Self::default();
        let mut remote = Vec::new();
        for Document { value, workload } in documents {
            match value["kind"].as_str() {
                Some("Node" | "Pod") => remote.push((value, workload)),
                Some("CustomResourceDefinition") => dump.define(&value),
                Some(_) if value["metadata"]["name"].is_string() => dump.take(value),
                _ => dump.remarks.push("a document is no object: it has no kind or no name".to_owned()),
            }
        }
        let (workloads, remarks) = super::workload::sorted(remote);
        dump.workloads = workloads;
        dump.remarks.extend(remarks);
        dump
    }

    fn define(&mut self, definition: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &definition["spec"];
        let key = (text(&spec["group"]), text(&spec["names"]["kind"]));
        self.contracts.insert(key, contract_of(definition).map(|(contract, _)| contract));
    }

    fn take(&mut self, value: Value) {
        let key = key_of(&value);
        let name = format!("{} {key}", value["kind"].as_str().unwrap_or_default());
        if let Some(kind) = Kind::of(&value) {
            let version = value["apiVersion"].as_str().and_then(|v| v.split_once('/')).map_or("", |(_, v)| v);
            let taken = if version == VERSION {
                self.decode(kind, &key, &value)
            } else {
                Err(format!("it is in version {version}; only {VERSION} is computed"))
            };
            if let Err(why) = taken {
                self.remarks.push(format!("{name} is left out: {why}"));
            }
        }
        let of_kind = self.raw.entry(value["kind"].as_str().unwrap_or_default().to_owned()).or_default();
        if of_kind.insert(key, value).is_some() {
            self.remarks.push(format!("{name} is there more than once: the last one counts"));
        }
    }

    fn decode(&mut self, kind: Kind, key: &ObjectKey, value: &Value) -> Result<(), String> {
        fn put<T: DeserializeOwned>(
            map: &mut BTreeMap<ObjectKey, T>,
            key: &ObjectKey,
            value: &Value,
        ) -> Result<(), String> {
            map.insert(key.clone(), serde_json::from_value(value.clone()).map_err(|e| e.to_string())?);
            Ok(())
        }
        match kind {
            Kind::Cluster => put(&mut self.clusters, key, value),
            Kind::KubeadmControlPlane => put(&mut self.control_planes, key, value),
            Kind::MachineDeployment => put(&mut self.machine_deployments, key, value),
            Kind::MachineSet => put(&mut self.machine_sets, key, value),
            Kind::MachinePool => put(&mut self.machine_pools, key, value),
            Kind::Machine => put(&mut self.machines, key, value),
            Kind::MachineHealthCheck => put(&mut self.checks, key, value),
            Kind::KubeadmConfig => put(&mut self.configs, key, value),
            Kind::DevMachine => put(&mut self.dev_machines, key, value),
        }
    }

    /// The object as it came.
    #[must_use]
    pub fn raw(&self, kind: &str, key: &ObjectKey) -> Option<&Value> {
        self.raw.get(kind)?.get(key)
    }

    /// All objects of a kind, as they came.
    pub fn all(&self, kind: &str) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.raw.get(kind).into_iter().flatten()
    }

    /// Something of this kind is here, so that what is not here does not exist.
    #[must_use]
    pub fn has_kind(&self, kind: &str) -> bool {
        self.raw.contains_key(kind)
    }

    /// What a reference in a spec leads to.
    #[must_use]
    pub fn external(&self, namespace: &str, reference: Option<&ContractRef>) -> External {
        let Some(reference) = reference.filter(|r| !r.name.is_empty()) else { return External::NotSet };
        let kind = reference.kind.clone();
        let stated = self.contracts.get(&(reference.api_group.clone(), kind.clone()));
        if let Some(Err(error)) = stated {
            return External::Unreadable { kind, error: error.clone() };
        }
        let key = ObjectKey::new(namespace, &reference.name);
        match self.raw(&kind, &key) {
            Some(value) => {
                let contract = stated.and_then(|s| s.as_ref().ok()).copied().unwrap_or_default();
                External::Found(Provided::new(value.clone()).under(contract))
            }
            None if self.has_kind(&kind) => External::NotFound { kind },
            None => External::Unreadable { error: format!("there is no {kind} among the objects"), kind },
        }
    }

    /// The definition of its kind is here, and promises no contract: nobody can read it.
    #[must_use]
    pub fn is_misdefined(&self, reference: &ContractRef) -> bool {
        let kind = (reference.api_group.clone(), reference.kind.clone());
        self.contracts.get(&kind).is_some_and(Result::is_err)
    }

    /// Nodes and Pods of a workload cluster; `None` when there are none of it here.
    #[must_use]
    pub fn workload(&self, cluster: &ObjectKey) -> Option<&Workload> {
        self.workloads.get(cluster)
    }

    /// Names of the Secrets in a namespace.
    #[must_use]
    pub fn secrets(&self, namespace: &str) -> BTreeSet<&str> {
        let here = self.all("Secret").filter(|(key, _)| key.namespace == namespace);
        here.map(|(key, _)| key.name.as_str()).collect()
    }
}

/// Objects without a namespace are in `default`, as kubectl would put them.
#[must_use]
pub fn key_of(value: &Value) -> ObjectKey {
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
    let namespace = Some(text("namespace")).filter(|n| !n.is_empty()).unwrap_or("default");
    ObjectKey::new(namespace, text("name"))
}

/// Those of one namespace for which `wanted` holds, by name.
pub fn select<'a, T>(
    objects: &'a BTreeMap<ObjectKey, T>,
    namespace: &str,
    wanted: impl Fn(&T) -> bool,
) -> Vec<&'a T> {
    let here = objects.iter().filter(|(key, _)| key.namespace == namespace);
    here.map(|(_, object)| object).filter(|object| wanted(object)).collect()
}
