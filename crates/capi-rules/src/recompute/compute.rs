//! Every object of a dump with its computed status. Owns what a pause keeps and how the parts that
//! several controllers write on one object come together.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde_json::{Value, json};

use super::class::class_status;
use super::gather;
use super::kept::{Kept, kept, without_nodes};
use super::outcome::Outcome;
use super::topology::topology_reconciled;
use crate::observe::dump::{Dump, Kind};
use crate::plan::control_plane::Decision;
use crate::status::conditions::patch::ConditionPatch;
use crate::status::conditions::setter::{self, Draft};
use crate::status::machine_health_check::PassFailure;
use crate::status::{
    bootstrap, cluster, control_plane, dev, machine, machine_deployment, machine_health_check, machine_pool,
    machine_set,
};
use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::condition::Conditioned;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::{DevCluster, DevMachine};
use capi_types::key::{ObjectKey, annotation, controller_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_health_check::MachineHealthCheck;
use capi_types::machine_pool::MachinePool;
use capi_types::machine_set::MachineSet;
use capi_types::names;
use capstan_base::time::Timestamp;
use k8s_machinery::merge;

/// One object before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// One of the kinds whose status is computed.
    pub kind: Kind,
    /// Which object of the kind.
    pub key: ObjectKey,
    /// The whole object as it is stored.
    pub before: Value,
    /// The same with the status that the rules give.
    pub after: Value,
    /// Why its status is as it was.
    pub left: Option<String>,
    /// What of its status was only repeated, and why.
    pub kept: Vec<Kept>,
}

impl Computed {
    /// Would the status be another one?
    pub fn differs(&self) -> bool {
        self.before["status"] != self.after["status"]
    }

    /// What to tell people when it could not be judged.
    pub fn remark(&self) -> Option<String> {
        let why = self.left.as_ref()?;
        Some(format!("{} {} is not judged: {why}", self.kind.name(), self.key))
    }
}

/// All objects whose status can be computed, by kind and name.
pub fn all(dump: &Dump, now: Timestamp) -> Vec<Computed> {
    let passes = Passes::over(dump, now);
    let mut computed = Vec::new();
    for kind in Kind::ALL {
        match kind {
            Kind::ClusterClass => classes(dump, now, &mut computed),
            Kind::Cluster => {
                each(dump, kind, &dump.clusters, now, &mut computed, |k, o| cluster_of(dump, k, o, now));
            }
            Kind::KubeadmControlPlane => {
                each(dump, kind, &dump.control_planes, now, &mut computed, |k, o| {
                    passes.control_plane(k, o, now)
                });
            }
            Kind::MachineDeployment => {
                each(dump, kind, &dump.machine_deployments, now, &mut computed, |_, o| {
                    let observed = gather::machine_deployment(dump, o);
                    let mut status = machine_deployment::status(&observed, now);
                    // Upstream sets the generation only when a pass ends without an error.
                    if observed.sets.is_some() {
                        status.observed_generation = o.metadata.generation;
                    }
                    Outcome::New(MachineDeployment { status: Some(status), ..o.clone() })
                });
            }
            Kind::MachineSet => {
                each(dump, kind, &dump.machine_sets, now, &mut computed, |_, o| set_of(dump, o, now));
            }
            Kind::MachinePool => each(dump, kind, &dump.machine_pools, now, &mut computed, |k, o| {
                let observed = dump.machine_pool(k, o);
                let mut status = machine_pool::status(&observed, now);
                // As for the others: what could not be read is an error of the pass.
                if machine_pool::is_complete(&observed) {
                    status.observed_generation = o.metadata.generation;
                }
                Outcome::New(MachinePool { status: Some(status), ..o.clone() })
            }),
            Kind::Machine => {
                each(dump, kind, &dump.machines, now, &mut computed, |k, o| passes.machine(dump, k, o, now));
            }
            Kind::MachineHealthCheck => {
                each(dump, kind, &dump.checks, now, &mut computed, |k, o| passes.check(dump, k, o));
            }
            Kind::KubeadmConfig => {
                each(dump, kind, &dump.configs, now, &mut computed, |k, o| config_of(dump, k, o, now));
            }
            Kind::DevCluster => {
                each(dump, kind, &dump.dev_clusters, now, &mut computed, |k, o| {
                    dev_cluster_of(dump, k, o, now)
                });
            }
            Kind::DevMachine => {
                each(dump, kind, &dump.dev_machines, now, &mut computed, |k, o| {
                    dev_machine_of(dump, k, o, now)
                });
            }
        }
    }
    computed
}

fn each<K>(
    dump: &Dump,
    kind: Kind,
    objects: &BTreeMap<ObjectKey, Arc<K>>,
    now: Timestamp,
    computed: &mut Vec<Computed>,
    judge: impl Fn(&ObjectKey, &K) -> Outcome<K>,
) where
    K: Clone + Serialize + Conditioned + kube::Resource,
{
    for (key, object) in objects {
        let object = object.as_ref();
        // The raw object has fields that the types here do not know.
        let Some(raw) = dump.raw(kind.group(), kind.name(), key) else { continue };
        let held = held(dump, kind, key, object, now);
        // A paused object keeps everything, so that parts need not be told apart.
        let kept = if held.is_none() { kept(dump, kind, key, now) } else { Vec::new() };
        let outcome = held.map_or_else(|| judge(key, object), Outcome::New);
        let outcome = match outcome {
            Outcome::New(after) => Outcome::New(rewritten(raw, object, &after)),
            Outcome::Broken(after, why) => Outcome::Broken(rewritten(raw, object, &after), why),
            Outcome::Left(why) => Outcome::Left(why),
        };
        computed.push(Computed::new(kind, key, raw, outcome, kept));
    }
}

impl Computed {
    fn new(kind: Kind, key: &ObjectKey, before: &Value, outcome: Outcome<Value>, kept: Vec<Kept>) -> Self {
        let (key, before) = (key.clone(), before.clone());
        match outcome {
            Outcome::New(after) => Self { kind, key, before, after, left: None, kept },
            Outcome::Broken(after, why) => Self { kind, key, before, after, left: Some(why), kept },
            Outcome::Left(why) => {
                Self { kind, key, after: before.clone(), before, left: Some(why), kept: Vec::new() }
            }
        }
    }
}

/// Classes have no type here: they are judged as they came.
fn classes(dump: &Dump, now: Timestamp, computed: &mut Vec<Computed>) {
    let kind = Kind::ClusterClass;
    for (key, class) in dump.all(kind.group(), kind.name()) {
        let kept = kept(dump, kind, key, now);
        computed.push(Computed::new(kind, key, class, class_status(dump, key, class, now), kept));
    }
}

/// A paused object keeps its conditions; only `Paused` is new.
fn held<K: Clone + Conditioned + kube::Resource>(
    dump: &Dump,
    kind: Kind,
    key: &ObjectKey,
    object: &K,
    now: Timestamp,
) -> Option<K> {
    let raw = dump.raw(kind.group(), kind.name(), key)?;
    let name = match kind {
        Kind::Cluster => Some(key.name.as_str()),
        // Kinds without the field have the label, which their owner's controller sets.
        _ => raw["spec"]["clusterName"].as_str().or_else(|| capi_types::key::cluster_label(object)),
    };
    let cluster = name.and_then(|name| dump.clusters.get(&ObjectKey::new(&key.namespace, name)));
    let by_cluster = cluster.is_some_and(|c| c.spec.paused == Some(true));
    let annotated = annotation(object, names::annotation::PAUSED).is_some();
    if !by_cluster && !annotated {
        return None;
    }
    let mut after = object.clone();
    let paused = setter::paused(kind.name(), by_cluster, annotated);
    let generation = object.meta().generation;
    setter::set(after.conditions_mut(), paused, generation, now);
    Some(after)
}

/// The raw object with what differs between two typed statuses; fields without a type here stay.
fn rewritten<K: Serialize>(raw: &Value, before: &K, after: &K) -> Value {
    let status = |object: &K| serde_json::to_value(object).map_or(Value::Null, |mut v| v["status"].take());
    // A status that is not there yet compares as empty: a patch against null would replace all.
    let empty = |value: Value| if value.is_null() { json!({}) } else { value };
    let mut object = raw.clone();
    if let Some(patch) = merge::merge_diff(&empty(status(before)), &empty(status(after))) {
        if object["status"].is_null() {
            object["status"] = json!({});
        }
        merge::apply(&mut object["status"], &patch);
    }
    object
}

fn no_cluster<K>() -> Outcome<K> {
    Outcome::Left("its Cluster is not among the objects".to_owned())
}

fn cluster_of(dump: &Dump, key: &ObjectKey, object: &Cluster, now: Timestamp) -> Outcome<Cluster> {
    let observed = gather::cluster(dump, key, object, now);
    let mut status = cluster::status(&observed, now);
    if cluster::is_complete(&observed) {
        status.observed_generation = object.metadata.generation;
    }
    // Of another controller, so after the status; only Clusters with a class have it.
    if let Some(topology) = topology_reconciled(dump, key, object) {
        setter::set(&mut status.conditions, topology, object.metadata.generation, now);
    }
    Outcome::New(Cluster { status: Some(status), ..object.clone() })
}

fn set_of(dump: &Dump, object: &MachineSet, now: Timestamp) -> Outcome<MachineSet> {
    let Some((observed, complete)) = gather::machine_set(dump, object) else { return no_cluster() };
    let mut status = machine_set::status(&observed, now);
    if complete {
        status.observed_generation = object.metadata.generation;
    }
    Outcome::New(MachineSet { status: Some(status), ..object.clone() })
}

fn config_of(dump: &Dump, key: &ObjectKey, object: &KubeadmConfig, now: Timestamp) -> Outcome<KubeadmConfig> {
    let Some(observed) = dump.config(key, object) else {
        return Outcome::Left("its owner or its Cluster is not among the objects".to_owned());
    };
    let mut status = bootstrap::status(&observed, now);
    status.observed_generation = object.metadata.generation;
    Outcome::New(KubeadmConfig { status: Some(status), ..object.clone() })
}

fn dev_cluster_of(dump: &Dump, key: &ObjectKey, object: &DevCluster, now: Timestamp) -> Outcome<DevCluster> {
    if object.spec.backend.in_memory.is_none() {
        return Outcome::Left("its backend is not in memory".to_owned());
    }
    if annotation(object, names::annotation::MANAGED_BY).is_some() {
        return Outcome::Left("it is managed from outside".to_owned());
    }
    if dump.cluster_of_infrastructure(key, object).is_none() {
        return Outcome::Left("no Cluster among the objects owns it".to_owned());
    }
    Outcome::New(DevCluster { status: Some(dev::cluster_status(object, now)), ..object.clone() })
}

fn dev_machine_of(dump: &Dump, key: &ObjectKey, object: &DevMachine, now: Timestamp) -> Outcome<DevMachine> {
    let Some(observed) = dump.dev_machine(key, object) else {
        let why = "its Machine or Cluster is not among the objects, or its backend is not in memory";
        return Outcome::Left(why.to_owned());
    };
    Outcome::New(DevMachine { status: Some(dev::status(&observed, now)), ..object.clone() })
}

fn marks(checks: &BTreeMap<ObjectKey, machine_health_check::Outcome>) -> BTreeMap<ObjectKey, Vec<Condition>> {
    let mut marks: BTreeMap<ObjectKey, Vec<Condition>> = BTreeMap::new();
    for (check, outcome) in checks {
        // Marks that no controller would write stay out of the Machine's status.
        for mark in outcome.marks.iter().filter(|mark| mark.persisted) {
            let machine = ObjectKey::new(&check.namespace, &mark.machine);
            marks.entry(machine).or_default().extend(mark.conditions.iter().cloned());
        }
    }
    marks
}

/// Passes of controllers that also write on Machines.
struct Passes {
    control_planes: BTreeMap<ObjectKey, Decision>,
    checks: BTreeMap<ObjectKey, machine_health_check::Outcome>,
    /// What checks write on Machines.
    marks: BTreeMap<ObjectKey, Vec<Condition>>,
}

impl Passes {
    fn over(dump: &Dump, now: Timestamp) -> Self {
        let control_planes = dump
            .control_planes
            .iter()
            // A paused control plane inspects nothing, so its Machines keep what they have.
            .filter(|(key, object)| {
                held(dump, Kind::KubeadmControlPlane, key, object.as_ref(), now).is_none()
            })
            .filter_map(|(key, object)| {
                Some((key.clone(), gather::control_plane_pass(dump, key, object, now)?))
            })
            .collect();
        let checks = dump
            .checks
            .iter()
            .filter(|(key, check)| held(dump, Kind::MachineHealthCheck, key, check.as_ref(), now).is_none())
            .filter_map(|(key, check)| {
                Some((key.clone(), machine_health_check::judge(&dump.check(key, check)?, now)))
            })
            .collect();
        let marks = marks(&checks);
        Self { control_planes, checks, marks }
    }

    fn control_plane(
        &self,
        key: &ObjectKey,
        object: &KubeadmControlPlane,
        now: Timestamp,
    ) -> Outcome<KubeadmControlPlane> {
        let Some(decision) = self.control_planes.get(key) else { return no_cluster() };
        let status = control_plane::status(&decision.observed, &decision.pass, now);
        Outcome::New(KubeadmControlPlane { status: Some(status), ..object.clone() })
    }

    fn check(
        &self,
        dump: &Dump,
        key: &ObjectKey,
        object: &MachineHealthCheck,
    ) -> Outcome<MachineHealthCheck> {
        let cluster = ObjectKey::new(&key.namespace, &object.spec.cluster_name);
        match self.checks.get(key) {
            None => no_cluster(),
            Some(outcome) => {
                let mut status = outcome.status.clone();
                if outcome.complete {
                    status.observed_generation = object.metadata.generation;
                }
                let after = MachineHealthCheck { status: Some(status), ..object.clone() };
                match outcome.failure.clone() {
                    None => Outcome::New(after),
                    // Without a connection its controller gives up, too.
                    Some(why @ PassFailure::NotConnected) => {
                        Outcome::Broken(after, without_nodes(dump, &cluster).unwrap_or(why.to_string()))
                    }
                    Some(why @ PassFailure::BadLimit(_)) => Outcome::Broken(after, why.to_string()),
                }
            }
        }
    }

    fn machine(&self, dump: &Dump, key: &ObjectKey, object: &Machine, now: Timestamp) -> Outcome<Machine> {
        let Some(observed) = dump.machine(key, object, now) else { return no_cluster() };
        let mut status = machine::status(&observed, now);
        // Conditions of several controllers meet here; each sets only its own.
        let mut draft = Draft::new(std::mem::take(&mut status.conditions), object.metadata.generation, now);
        for condition in self.marks.get(key).into_iter().flatten() {
            draft.set(condition.clone());
        }
        let pool = dump.pool_of(key, object);
        if pool.is_some_and(|(key, pool)| held(dump, Kind::MachinePool, key, pool, now).is_none()) {
            draft.set(machine_pool::machine_up_to_date(object));
        }
        status.conditions = self.inspected(key, object, draft.finish());
        Outcome::New(Machine { status: Some(status), ..object.clone() })
    }

    /// With what its control plane found out about it.
    fn inspected(&self, key: &ObjectKey, object: &Machine, conditions: Vec<Condition>) -> Vec<Condition> {
        let owner = controller_of(object).filter(|o| o.kind == Kind::KubeadmControlPlane.name());
        let decision = owner.and_then(|o| self.control_planes.get(&ObjectKey::new(&key.namespace, &o.name)));
        let found = decision.and_then(|d| d.pass.inspection.as_ref()?.machines.get(&key.name));
        let Some(found) = found else { return conditions };
        let patch = ConditionPatch::between(object.conditions(), found);
        // A patch has conditions of the control plane's own only, so a conflict cannot come.
        patch.apply(&conditions, &control_plane::OWNED_ON_MACHINES).unwrap_or(conditions)
    }
}
