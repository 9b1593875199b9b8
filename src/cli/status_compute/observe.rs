//! From a dump to what each kind is judged by. Owns who belongs to whom; must not judge anything.
//!
//! A workload cluster without Nodes in the dump is out of reach: what is stored of it stays, or is
//! unknown since the moment that the Cluster's `RemoteConnectionProbe` names.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use super::dump::{Dump, select};
use crate::api::cluster::Cluster;
use crate::api::condition::{Conditioned as _, find, is_true};
use crate::api::dev::{DevCluster, DevMachine};
use crate::api::key::{ObjectKey, annotation, cluster_label, controller_of, label as label_of};
use crate::api::machine::{Machine, MachineSpec};
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_health_check::MachineHealthCheck;
use crate::api::machine_pool::MachinePool;
use crate::api::machine_set::MachineSet;
use crate::api::names;
use crate::api::names::label;
use crate::api::reference::ContractRef;
use crate::plan::machine_set::preflight::{Preflight, check};
use crate::status::contract::External;
use crate::status::machine::{NodeReading, Probe, Update};
use crate::status::machines::is_control_plane;
use crate::status::selector::matches;
use crate::status::{
    bootstrap, cluster, dev, machine, machine_deployment, machine_health_check, machine_pool, machine_set,
};
use crate::time::{Timestamp, parse_rfc3339};

/// The namespace of an object; `default` when it says none.
pub fn namespace<K: Resource>(object: &K) -> &str {
    object.meta().namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or("default")
}

/// By uid, or by kind and name where a dump has no uids.
pub fn is_controlled<K: Resource<DynamicType = ()>>(owner: Option<&OwnerReference>, by: &K) -> bool {
    let Some(owner) = owner else { return false };
    match by.meta().uid.as_ref() {
        Some(uid) => *uid == owner.uid,
        None => owner.kind == K::kind(&()) && Some(&owner.name) == by.meta().name.as_ref(),
    }
}

/// When the connection last worked, as the Cluster's stored condition says; `None` when it says nothing
/// of a failure.
pub fn last_seen(cluster: &Cluster) -> Option<Option<Timestamp>> {
    let probe = find(cluster.conditions(), "RemoteConnectionProbe").filter(|c| c.status == "False")?;
    let failed = probe.message.strip_prefix("Remote connection probe failed")?;
    Some(failed.strip_prefix(", probe last succeeded at ").and_then(parse_rfc3339))
}

impl Dump {
    fn probe(&self, key: &ObjectKey, cluster: &Cluster, now: Timestamp) -> Probe {
        match (self.workload(key), last_seen(cluster)) {
            (Some(_), _) => Probe { last_success: Some(now), ..Probe::default() },
            (None, Some(last_success)) => Probe { last_success, failing: true, ..Probe::default() },
            (None, None) => Probe { not_established_yet: true, ..Probe::default() },
        }
    }

    /// Everything a Cluster is judged by.
    pub fn cluster(&self, key: &ObjectKey, cluster: &Cluster, now: Timestamp) -> cluster::Observed {
        let mine = |label: Option<&str>| label == Some(key.name.as_str());
        let ns = key.namespace.as_str();
        cluster::Observed {
            cluster: cluster.clone(),
            infrastructure: self.infrastructure_of_cluster(ns, cluster),
            control_plane: self.control_plane_of_cluster(ns, cluster),
            probe: self.probe(key, cluster, now),
            descendants: cluster::Descendants {
                machine_deployments: shared(select(&self.machine_deployments, ns, |o| {
                    mine(cluster_label(o))
                })),
                machine_sets: shared(select(&self.machine_sets, ns, |o| mine(cluster_label(o)))),
                machine_pools: shared(select(&self.machine_pools, ns, |o| mine(cluster_label(o)))),
                machines: shared(select(&self.machines, ns, |o| mine(cluster_label(o)))),
            },
            class_gates: self.class_gates(key, cluster),
            ..cluster::Observed::default()
        }
    }

    fn class_gates(&self, key: &ObjectKey, cluster: &Cluster) -> Vec<crate::api::machine::ReadinessGate> {
        let gates = self.class(key, cluster).map(|class| class["spec"]["availabilityGates"].clone());
        gates.and_then(|gates| serde_json::from_value(gates).ok()).unwrap_or_default()
    }

    /// The class that a Cluster is made from.
    pub fn class(&self, key: &ObjectKey, cluster: &Cluster) -> Option<&serde_json::Value> {
        let class = &cluster.spec.topology.as_ref()?.class_ref;
        let namespace = class.namespace.as_deref().unwrap_or(&key.namespace);
        self.raw(names::CORE_GROUP, "ClusterClass", &ObjectKey::new(namespace, &class.name))
    }

    /// Everything a Machine is judged by; `None` without its Cluster.
    pub fn machine(&self, key: &ObjectKey, object: &Machine, now: Timestamp) -> Option<machine::Observed> {
        let ns = key.namespace.as_str();
        let cluster_key = ObjectKey::new(ns, &object.spec.cluster_name);
        let cluster = self.clusters.get(&cluster_key)?;
        // Only a deletion asks for it.
        let left = object.metadata.deletion_timestamp.as_ref();
        let left = left.map(|_| self.control_plane_machines_left(&cluster_key));
        let mut observed = machine::Observed {
            machine: object.clone(),
            cluster: Arc::new(cluster.clone()),
            bootstrap: self.bootstrap_of_machine(ns, object),
            infrastructure: self.infrastructure_of_machine(ns, object),
            control_plane: self.control_plane_of_cluster(ns, cluster),
            control_plane_machines_left: left.unwrap_or_default(),
            probe: self.probe(&cluster_key, cluster, now),
            deployment: self.deployment_of(ns, object),
            update: told_update(object),
            ..machine::Observed::default()
        };
        // Its controller writes the ID before it looks for the Node.
        if let Some(id) = machine::offered_provider_id(&observed).map(str::to_owned) {
            observed.machine.spec.provider_id = Some(id);
        }
        observed.node = self.node(&cluster_key, &observed.machine);
        self.observe_deletion(&mut observed, now);
        Some(observed)
    }

    fn control_plane_machines_left(&self, cluster: &ObjectKey) -> usize {
        let stays = |m: &Machine| {
            is_control_plane(m)
                && cluster_label(m) == Some(cluster.name.as_str())
                && m.metadata.deletion_timestamp.is_none()
        };
        select(&self.machines, &cluster.namespace, stays).len()
    }

    fn node(&self, cluster: &ObjectKey, machine: &Machine) -> NodeReading {
        let Some(workload) = self.workload(cluster) else { return NodeReading::NotConnected };
        let id = machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
        let Some(id) = id else { return NodeReading::NotAsked };
        let mut found = workload.nodes_with(id);
        match (found.next(), found.next()) {
            (None, _) => NodeReading::NotFound,
            (Some(node), None) => NodeReading::Found(Box::new(node.clone())),
            (Some(_), Some(_)) => NodeReading::Failed(format!("several Nodes have provider ID {id}")),
        }
    }

    fn deployment_of(
        &self,
        ns: &str,
        machine: &Machine,
    ) -> Option<(Arc<MachineSet>, Arc<MachineDeployment>)> {
        let owner = controller_of(machine).filter(|owner| owner.kind == "MachineSet")?;
        let set = self.machine_sets.get(&ObjectKey::new(ns, &owner.name))?;
        let deployment = label_of(set, label::DEPLOYMENT_NAME)?;
        let deployment = self.machine_deployments.get(&ObjectKey::new(ns, deployment))?;
        Some((Arc::new(set.clone()), Arc::new(deployment.clone())))
    }

    /// Everything a MachineSet is judged by, and whether the pass gets through; `None` without its Cluster.
    pub fn machine_set(&self, key: &ObjectKey, set: &MachineSet) -> Option<(machine_set::Observed, bool)> {
        let ns = key.namespace.as_str();
        let cluster = self.clusters.get(&ObjectKey::new(ns, &set.spec.cluster_name))?;
        // Its controller adds the label before it selects.
        let mut set = set.clone();
        let labels = set.spec.selector.match_labels.get_or_insert_default();
        labels.insert(label::CLUSTER_NAME.to_owned(), set.spec.cluster_name.clone());
        let mine = select(&self.machines, ns, |m| {
            let owner = controller_of(m);
            matches(&set.spec.selector, m.metadata.labels.as_ref())
                && (owner.is_none() || is_controlled(owner, &set))
        });
        let wanted = usize::try_from(set.spec.replicas.unwrap_or(0)).unwrap_or(0);
        let makes = mine.len() < wanted
            && set.metadata.deletion_timestamp.is_none()
            && annotation(&set, names::annotation::DISABLE_MACHINE_CREATE) != Some("true");
        let preflight = match makes {
            true if self.left_out(cluster.spec.control_plane_ref.as_ref()) => Ok(told_preflight(&set)),
            true => check(&self.preflight(ns, &set, cluster)),
            false => Ok(Vec::new()),
        };
        let missing_templates = self.missing_templates(ns, &set.spec.template.spec);
        let deployment = label_of(&set, label::DEPLOYMENT_NAME);
        let deployment = deployment.and_then(|name| self.machine_deployments.get(&ObjectKey::new(ns, name)));
        let complete = preflight.is_ok()
            && !self.templates_are_misdefined(&set.spec.template.spec)
            && (missing_templates.is_empty() || !machine_set::needs_templates(&set, deployment));
        let machines = Some(shared(mine));
        let preflight = preflight.unwrap_or_else(|why| vec![why]);
        Some((machine_set::Observed { set, machines, missing_templates, preflight }, complete))
    }

    fn preflight(&self, ns: &str, set: &MachineSet, cluster: &Cluster) -> Preflight {
        let control_plane = self.external(ns, cluster.spec.control_plane_ref.as_ref());
        let template = self.external(ns, set.spec.template.spec.bootstrap.config_ref.as_ref());
        Preflight::gather(set, cluster, &control_plane, &template)
    }

    fn templates_are_misdefined(&self, spec: &MachineSpec) -> bool {
        templates(spec).any(|r| self.is_misdefined(r))
    }

    /// Kinds of templates that are referred to and do not exist, bootstrap first.
    fn missing_templates(&self, ns: &str, spec: &MachineSpec) -> Vec<String> {
        templates(spec)
            .filter(|r| self.external(ns, Some(r)).is_not_found())
            .map(|r| r.kind.clone())
            .collect()
    }

    /// Everything a MachineDeployment is judged by.
    pub fn machine_deployment(
        &self,
        key: &ObjectKey,
        deployment: &MachineDeployment,
    ) -> machine_deployment::Observed {
        let ns = key.namespace.as_str();
        let selector = &deployment.spec.selector;
        let sets = select(&self.machine_sets, ns, |set| match controller_of(set) {
            None => matches(selector, set.metadata.labels.as_ref()),
            owner => is_controlled(owner, deployment),
        });
        let machines = select(&self.machines, ns, |m| matches(selector, m.metadata.labels.as_ref()));
        let deleting = deployment.metadata.deletion_timestamp.is_some();
        // What ends the pass before it looks for MachineSets.
        let misdefined = !deleting && self.templates_are_misdefined(&deployment.spec.template.spec);
        machine_deployment::Observed {
            deployment: deployment.clone(),
            sets: (!misdefined).then(|| shared(sets)),
            machines: shared(machines),
            missing_templates: if deleting {
                Vec::new()
            } else {
                self.missing_templates(ns, &deployment.spec.template.spec)
            },
        }
    }

    /// Everything a MachinePool is judged by.
    pub fn machine_pool(&self, key: &ObjectKey, pool: &MachinePool) -> machine_pool::Observed {
        let ns = key.namespace.as_str();
        let spec = &pool.spec.template.spec;
        let mine = |m: &Machine| is_of_pool(m, key, pool);
        machine_pool::Observed {
            pool: pool.clone(),
            bootstrap: self.external(ns, spec.bootstrap.config_ref.as_ref()),
            infrastructure: self.external(ns, Some(&spec.infrastructure_ref)),
            machines: owned(select(&self.machines, ns, mine)),
            nodes: self
                .workload(&ObjectKey::new(ns, &pool.spec.cluster_name))
                .map(|w| w.nodes.values().cloned().collect()),
        }
    }

    /// The MachinePool that says whether the Machine is up to date; none that is on its way out.
    pub fn pool_of(&self, key: &ObjectKey, machine: &Machine) -> Option<(&ObjectKey, &MachinePool)> {
        let pool = ObjectKey::new(&key.namespace, label_of(machine, label::POOL_NAME)?);
        let (key, pool) = self.machine_pools.get_key_value(&pool)?;
        (pool.metadata.deletion_timestamp.is_none() && is_of_pool(machine, key, pool)).then_some((key, pool))
    }

    /// Everything a MachineHealthCheck is judged by; `None` without its Cluster.
    pub fn check(
        &self,
        key: &ObjectKey,
        check: &MachineHealthCheck,
    ) -> Option<machine_health_check::Observed> {
        use machine_health_check::{Target, TargetNode, is_target};
        let ns = key.namespace.as_str();
        let cluster_key = ObjectKey::new(ns, &check.spec.cluster_name);
        let cluster = self.clusters.get(&cluster_key)?;
        let workload = self.workload(&cluster_key);
        let follows = is_true(cluster.conditions(), "ControlPlaneInitialized");
        let node = |machine: &Machine| {
            let name = machine.status.as_ref().and_then(|s| s.node_ref.as_ref()).map(|r| r.name.as_str());
            let (Some(name), Some(workload), true) = (name, workload, follows) else {
                return TargetNode::None;
            };
            workload
                .nodes
                .get(name)
                .map_or(TargetNode::Gone, |node| TargetNode::Found(Box::new(node.clone())))
        };
        let targets = select(&self.machines, ns, |m| is_target(check, m));
        Some(machine_health_check::Observed {
            check: check.clone(),
            cluster: cluster.clone(),
            targets: targets.into_iter().map(|m| Target { node: node(m), machine: m.clone() }).collect(),
            connected: workload.is_some(),
            external: self.remediation(ns, check),
        })
    }

    /// Everything a KubeadmConfig is judged by; `None` without owner or Cluster.
    pub fn config(
        &self,
        key: &ObjectKey,
        config: &crate::api::bootstrap::KubeadmConfig,
    ) -> Option<bootstrap::Observed> {
        let ns = key.namespace.as_str();
        let owners = config.metadata.owner_references.iter().flatten();
        let machine = owners.into_iter().find_map(|owner| {
            let key = ObjectKey::new(ns, &owner.name);
            match owner.kind.as_str() {
                "Machine" => self.machines.get(&key).cloned(),
                // A pool's config is judged as that of a worker.
                "MachinePool" => self.machine_pools.get(&key).map(|pool| {
                    let mut machine = Machine::new(&owner.name, pool.spec.template.spec.clone());
                    machine.metadata.namespace = Some(ns.to_owned());
                    machine
                }),
                _ => None,
            }
        })?;
        let cluster = self.clusters.get(&ObjectKey::new(ns, &machine.spec.cluster_name))?;
        Some(bootstrap::Observed {
            config: config.clone(),
            cluster: cluster.clone(),
            machine,
            ..bootstrap::Observed::default()
        })
    }

    /// The Cluster of a DevCluster.
    pub fn cluster_of_infrastructure(&self, key: &ObjectKey, object: &DevCluster) -> Option<&Cluster> {
        let owners = object.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|o| o.kind == "Cluster")?;
        self.clusters.get(&ObjectKey::new(&key.namespace, &owner.name))
    }

    /// Everything a DevMachine is judged by; `None` without its Machine or Cluster, or with another
    /// backend. Whether a part is up says its stored condition: only the simulator knows.
    pub fn dev_machine(&self, key: &ObjectKey, object: &DevMachine) -> Option<dev::Observed> {
        object.spec.backend.in_memory.as_ref()?;
        let ns = key.namespace.as_str();
        let owner = controller_of(object).filter(|o| o.kind == "Machine")?;
        let machine = self.machines.get(&ObjectKey::new(ns, &owner.name))?;
        let cluster = self.clusters.get(&ObjectKey::new(ns, &machine.spec.cluster_name))?;
        let part = |type_: &str| match find(object.conditions(), type_) {
            Some(c) if c.status == "True" => dev::Part::Up,
            Some(c) if c.reason == "InternalError" => dev::Part::Failed,
            _ => dev::Part::Starting,
        };
        Some(dev::Observed {
            machine: object.clone(),
            control_plane: is_control_plane(machine),
            cluster_provisioned: machine::cluster_provisioned(cluster),
            control_plane_initialized: machine::control_plane_initialized_since(cluster).is_some(),
            has_bootstrap_data: machine.spec.bootstrap.data_secret_name.is_some(),
            vm: part("VMProvisioned"),
            node: part("NodeProvisioned"),
            etcd: part("EtcdProvisioned"),
            api_server: part("APIServerProvisioned"),
        })
    }
}

fn templates(spec: &MachineSpec) -> impl Iterator<Item = &ContractRef> {
    let references = spec.bootstrap.config_ref.iter().chain([&spec.infrastructure_ref]);
    references.filter(|r| r.kind.ends_with("Template"))
}

fn is_of_pool(machine: &Machine, key: &ObjectKey, pool: &MachinePool) -> bool {
    let owner = controller_of(machine);
    label_of(machine, label::POOL_NAME) == Some(key.name.as_str())
        && cluster_label(machine) == Some(pool.spec.cluster_name.as_str())
        && (owner.is_none() || is_controlled(owner, pool))
}

fn shared<T: Clone>(objects: Vec<&T>) -> Vec<Arc<T>> {
    objects.into_iter().cloned().map(Arc::new).collect()
}

fn owned<T: Clone>(objects: Vec<&T>) -> Vec<T> {
    objects.into_iter().cloned().collect()
}

/// The checks that failed when the set was last looked at, from its stored condition.
fn told_preflight(set: &MachineSet) -> Vec<String> {
    let told = find(set.conditions(), "ScalingUp").map(|c| c.message.as_str()).unwrap_or_default();
    let lines = told.lines().filter_map(|line| line.strip_prefix("* "));
    lines.filter(|line| line.ends_with(" preflight check failed)")).map(str::to_owned).collect()
}

/// What an extension said of an update in place, from the stored condition.
pub fn told_update(machine: &Machine) -> Option<Update> {
    const RUNNING: &str = "In-place update in progress: ";
    let told = find(machine.conditions(), "Updating").filter(|c| c.status == "True")?;
    match told.reason.as_str() {
        "InPlaceUpdateFailed" if told.message.ends_with("InfraMachine not found") => {
            Some(Update::InfrastructureMissing)
        }
        "InPlaceUpdateFailed" => Some(Update::Failed),
        _ => told.message.strip_prefix(RUNNING).map(|words| Update::Running(words.to_owned())),
    }
}

/// The content of what was found.
pub fn content(external: External) -> Option<serde_json::Value> {
    match external {
        External::Found(provided) => Some(provided.into_content()),
        _ => None,
    }
}
