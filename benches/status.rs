//! How long it takes to compute every status of one cluster: each Machine, MachineSet, MachineDeployment
//! and the Cluster itself, from observed values that are there already. The cluster is as controllers
//! see it: every Machine has its infrastructure, its bootstrap configuration and, once it runs, its
//! Node; every worker its MachineSet and MachineDeployment, which own just the Machines that are theirs.
//! A Machine is observed right before it is judged, as its controller does it; only judging is timed, and
//! neither observing before nor freeing the status afterwards.
//!
//!   cargo bench --bench status               10,000 Machines, median of 9
//!   cargo bench --bench status -- 2000       another size
//!
//! "all" is what one pass over a cluster costs whose statuses are known and mostly stay; Machines whose
//! conditions are not known yet are measured apart. Without `--bench` (as `cargo test` runs it) the
//! cluster is tiny: it then proves that the script works and measures nothing.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a script for people")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan::api::cluster::Cluster;
use capstan::api::condition::{Conditioned as _, is_true};
use capstan::api::key::{controller_of, label as label_of};
use capstan::api::machine::Machine;
use capstan::api::machine_deployment::MachineDeployment;
use capstan::api::machine_set::MachineSet;
use capstan::api::names::label;
use capstan::api::reference::ContractRef;
use capstan::sim::scenario::Scenario;
use capstan::status::contract::{External, Provided};
use capstan::status::machine::{NodeReading, Probe};
use capstan::status::machines::{is_control_plane, name};
use capstan::status::{cluster, machine, machine_deployment, machine_set};
use capstan::time::{Timestamp, parse_rfc3339};
use serde_json::{Value, json};

/// What the program itself allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FULL: usize = 10_000;
const TINY: usize = 40;
const RUNS: usize = 9;

/// The objects of one cluster.
struct Objects {
    cluster: Arc<Cluster>,
    deployments: Vec<Arc<MachineDeployment>>,
    sets: Vec<Arc<MachineSet>>,
    machines: Vec<Arc<Machine>>,
    /// By kind and name.
    external: BTreeMap<(String, String), External>,
    probe: Probe,
}

impl Objects {
    fn new(machines: usize, now: Timestamp) -> Self {
        let text = format!("synthetic:clusters=1,machines={machines}");
        let all: Vec<Value> = Scenario::parse(&text).expect("a scenario").objects(now).collect();
        let mut objects = Self {
            cluster: of_kind(&all, "Cluster").remove(0),
            deployments: of_kind(&all, "MachineDeployment"),
            sets: of_kind(&all, "MachineSet"),
            machines: of_kind(&all, "Machine"),
            external: all.into_iter().map(found).collect(),
            probe: Probe { last_success: Some(now), ..Probe::default() },
        };
        objects.configure_workers();
        objects
    }

    /// Synthetic workers boot from a Secret that somebody made; here each has a KubeadmConfig, and says so.
    fn configure_workers(&mut self) {
        for machine in self.machines.iter_mut().filter(|m| m.spec.bootstrap.config_ref.is_none()) {
            let machine = Arc::make_mut(machine);
            let mut told = machine.conditions_mut().iter_mut();
            if let Some(told) = told.find(|c| c.type_ == "BootstrapConfigReady") {
                told.reason = "Ready".to_owned();
            }
            let name = name(machine).to_owned();
            self.external.extend([found(kubeadm_config(&name))]);
            machine.spec.bootstrap.data_secret_name = Some(name.clone());
            machine.spec.bootstrap.config_ref = Some(ContractRef {
                api_group: "bootstrap.cluster.x-k8s.io".into(),
                kind: "KubeadmConfig".into(),
                name,
            });
        }
    }

    fn external(&self, reference: Option<&ContractRef>) -> External {
        let Some(reference) = reference else { return External::NotSet };
        let found = self.external.get(&(reference.kind.clone(), reference.name.clone()));
        found.cloned().unwrap_or_else(|| External::NotFound { kind: reference.kind.clone() })
    }

    fn observe_machine(&self, machine: Machine) -> machine::Observed {
        machine::Observed {
            cluster: Arc::clone(&self.cluster),
            bootstrap: self.external(machine.spec.bootstrap.config_ref.as_ref()),
            infrastructure: self.external(Some(&machine.spec.infrastructure_ref)),
            control_plane: self.external(self.cluster.spec.control_plane_ref.as_ref()),
            control_plane_machines_left: self.machines.iter().take(3).filter(|m| is_control_plane(m)).count(),
            probe: self.probe,
            node: node(&machine),
            deployment: self.deployment_of(&machine),
            machine,
            ..machine::Observed::default()
        }
    }

    fn deployment_of(&self, machine: &Machine) -> Option<(Arc<MachineSet>, Arc<MachineDeployment>)> {
        let owner = controller_of(machine)?;
        let set = self.sets.iter().find(|s| s.metadata.name.as_ref() == Some(&owner.name))?;
        let name = label_of(set.as_ref(), label::DEPLOYMENT_NAME);
        let deployment = self.deployments.iter().find(|d| d.metadata.name.as_deref() == name)?;
        Some((set.clone(), deployment.clone()))
    }

    fn observe_cluster(&self) -> cluster::Observed {
        cluster::Observed {
            cluster: (*self.cluster).clone(),
            infrastructure: self.external(self.cluster.spec.infrastructure_ref.as_ref()),
            control_plane: self.external(self.cluster.spec.control_plane_ref.as_ref()),
            probe: self.probe,
            descendants: cluster::Descendants {
                machine_deployments: self.deployments.clone(),
                machine_sets: self.sets.clone(),
                machine_pools: Vec::new(),
                machines: self.machines.clone(),
            },
            ..cluster::Observed::default()
        }
    }
}

/// One cluster as its owners observe it.
struct World {
    objects: Objects,
    sets: Vec<machine_set::Observed>,
    deployments: Vec<machine_deployment::Observed>,
    cluster: cluster::Observed,
}

impl World {
    fn new(objects: Objects) -> Self {
        let by_set = grouped(&objects.machines, label::SET_NAME);
        let by_deployment = grouped(&objects.machines, label::DEPLOYMENT_NAME);
        let sets_of = grouped(&objects.sets, label::DEPLOYMENT_NAME);
        let sets = objects.sets.iter().map(|set| machine_set::Observed {
            set: (**set).clone(),
            machines: Some(of(&by_set, set.metadata.name.as_ref())),
            missing_templates: Vec::new(),
            preflight: Vec::new(),
        });
        let deployments = objects.deployments.iter().map(|deployment| machine_deployment::Observed {
            deployment: (**deployment).clone(),
            sets: Some(of(&sets_of, deployment.metadata.name.as_ref())),
            machines: of(&by_deployment, deployment.metadata.name.as_ref()),
            missing_templates: Vec::new(),
        });
        Self {
            sets: sets.collect(),
            deployments: deployments.collect(),
            cluster: objects.observe_cluster(),
            objects,
        }
    }

    /// Every level once; the time of each.
    fn compute(&self, now: Timestamp) -> [Duration; 4] {
        [
            self.judge_machines(now, Machine::clone),
            timed(|| self.sets.iter().map(|o| machine_set::status(o, now)).collect::<Vec<_>>()),
            timed(|| self.deployments.iter().map(|o| machine_deployment::status(o, now)).collect::<Vec<_>>()),
            timed(|| cluster::status(&self.cluster, now)),
        ]
    }

    fn judge_machines(&self, now: Timestamp, seen: fn(&Machine) -> Machine) -> Duration {
        let judge = |machine: &Arc<Machine>| {
            let observed = self.objects.observe_machine(seen(machine));
            timed(|| machine::status(&observed, now))
        };
        self.objects.machines.iter().map(judge).sum()
    }
}

fn of_kind<T: serde::de::DeserializeOwned>(objects: &[Value], kind: &str) -> Vec<T> {
    let object = |value: &Value| serde_json::from_value(value.clone()).expect("an object of its kind");
    objects.iter().filter(|o| o["kind"] == kind).map(object).collect()
}

fn found(content: Value) -> ((String, String), External) {
    let provided = Provided::new(content);
    ((provided.kind.clone(), provided.name.clone()), External::Found(provided))
}

fn kubeadm_config(name: &str) -> Value {
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-11-20T09:00:00Z",
        })
    };
    json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmConfig",
        "metadata": { "name": name },
        "spec": { "joinConfiguration": {} },
        "status": {
            "dataSecretName": name,
            "initialization": { "dataSecretCreated": true },
            "conditions": [
                condition("Ready", "True", "Ready"),
                condition("CertificatesAvailable", "True", "Available"),
                condition("DataSecretAvailable", "True", "Available"),
                condition("Paused", "False", "NotPaused"),
            ],
        },
    })
}

/// The Node of a Machine that runs, saying what the Machine says of it.
fn node(machine: &Machine) -> NodeReading {
    let Some(status) = machine.status.as_ref().filter(|s| s.node_ref.is_some()) else {
        return NodeReading::NotAsked;
    };
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": "2026-11-20T09:59:00Z", "lastTransitionTime": "2026-11-20T09:00:00Z",
        })
    };
    let ready = if is_true(machine.conditions(), "NodeReady") {
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
    } else {
        condition("Ready", "False", "KubeletNotReady", "container runtime is down")
    };
    let quiet = |type_| condition(type_, "False", "KubeletHasSufficient", "kubelet has enough of it");
    let node = json!({
        "metadata": { "name": name(machine), "labels": { "kubernetes.io/os": "linux" } },
        "spec": { "providerID": machine.spec.provider_id },
        "status": {
            "addresses": status.addresses,
            "nodeInfo": status.node_info,
            "conditions": [quiet("MemoryPressure"), quiet("DiskPressure"), quiet("PIDPressure"), ready],
        },
    });
    NodeReading::Found(Box::new(serde_json::from_value(node).expect("a Node")))
}

fn without_conditions(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine.conditions_mut().clear();
    machine
}

/// Objects by the value of a label.
fn grouped<K: kube::Resource>(all: &[Arc<K>], name: &str) -> BTreeMap<String, Vec<Arc<K>>> {
    let mut groups: BTreeMap<String, Vec<Arc<K>>> = BTreeMap::new();
    for object in all {
        let value = label_of(object.as_ref(), name).unwrap_or_default().to_owned();
        groups.entry(value).or_default().push(Arc::clone(object));
    }
    groups
}

fn of<K>(groups: &BTreeMap<String, Vec<Arc<K>>>, owner: Option<&String>) -> Vec<Arc<K>> {
    owner.and_then(|name| groups.get(name)).cloned().unwrap_or_default()
}

/// Until the result is there; what becomes of it is not counted.
fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = black_box(work());
    let time = start.elapsed();
    drop(result);
    time
}

fn print(what: &str, time: Duration) {
    println!("{what:<32} {:>9.3} ms", time.as_secs_f64() * 1000.0);
}

fn main() {
    let now = parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let full = arguments.iter().any(|a| a == "--bench");
    let asked = arguments.iter().find_map(|a| a.parse::<usize>().ok());
    let size = if full { asked.unwrap_or(FULL) } else { TINY };
    let world = World::new(Objects::new(size, now));
    let runs = if full { RUNS } else { 1 };
    let mut known: Vec<[Duration; 4]> = (0..runs).map(|_| world.compute(now)).collect();
    known.sort_by_key(|run| run.iter().sum::<Duration>());
    let [machines, sets, deployments, cluster] = known[runs / 2];
    let mut unknown: Vec<Duration> =
        (0..runs).map(|_| world.judge_machines(now, without_conditions)).collect();
    unknown.sort();
    print(&format!("{} Machines", world.objects.machines.len()), machines);
    print(&format!("{} MachineSets", world.sets.len()), sets);
    print(&format!("{} MachineDeployments", world.deployments.len()), deployments);
    print("Cluster", cluster);
    print("all", machines + sets + deployments + cluster);
    print("Machines without conditions", unknown[runs / 2]);
}
