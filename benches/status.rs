//! How long it takes to compute every status of one cluster: each Machine, MachineSet, MachineDeployment
//! and the Cluster itself, from observed values that are there already. The cluster is as controllers
//! see it: every Machine has its infrastructure, its bootstrap configuration and, once it runs, its
//! Node; every worker its MachineSet and MachineDeployment, which own just the Machines that are theirs.
//! A Machine is observed right before it is judged, as its controller does it; only judging is timed, and
//! neither observing before nor freeing the status afterwards.
//!
//! Beside it: the plan of a change of a kubeadm cluster's configuration, from documents, Nodes and mirror pods that were read.
//!
//!   cargo bench --bench status               10,000 Machines, median of 9; 500 nodes
//!   cargo bench --bench status -- 2000       another size
//!
//! "all" is what one pass over a cluster costs whose statuses are known and mostly stay; Machines whose
//! conditions are not known yet are measured apart. Without `--bench` (as `cargo test` runs it) the
//! cluster is tiny: it then proves that the script works and measures nothing.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a script for people")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capi_rules::observe::dump::Dump;
use capi_rules::observe::dump::document::Document;
use capi_rules::observe::{self, Member, Templates};
use capi_rules::status::machine::{NodeReading, Probe};
use capi_rules::status::machines::name;
use capi_rules::status::{cluster, machine, machine_deployment, machine_set};
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, is_true};
use capi_types::machine::Machine;
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_worlds::samples::Sample;
use kubeadm_change::document::{DocumentKind, Inputs, read_inputs};
use kubeadm_change::plan::{PlanOptions, plan};
use kubeadm_change::render::{ClusterSettings, HostFacts, node as node_artefacts};
use kubeadm_change::request::{PatchKind, RequestPart, apply};
use serde_json::{Value, json};

/// What the program itself allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FULL: usize = 10_000;
const TINY: usize = 40;
const RUNS: usize = 9;

/// The objects of one cluster, of which its controllers gather what they judge.
struct Objects {
    dump: Dump,
    cluster: Arc<Cluster>,
    machines: Vec<Arc<Machine>>,
    probe: Probe,
}

impl Objects {
    fn new(machines: usize, now: Timestamp) -> Self {
        let text = format!("synthetic:clusters=1,machines={machines}");
        let mut all: Vec<Value> = Sample::parse(&text).expect("a sample").objects(now).collect();
        let configs: Vec<Value> = all.iter_mut().filter_map(configured).collect();
        all.extend(configs);
        let dump = Dump::new(all.into_iter().map(Document::from).collect());
        let cluster = dump.clusters.values().next().expect("a Cluster").clone();
        let machines = dump.machines.values().cloned().collect();
        Self { dump, cluster, machines, probe: Probe { last_success: Some(now), ..Probe::default() } }
    }

    fn observe_machine(&self, machine: &Machine) -> machine::Observed {
        let node = node(machine);
        machine::Observed { node, ..observe::machine(&self.dump, machine, &self.cluster, self.probe) }
    }
}

/// Synthetic workers boot from a Secret that somebody made; here each gets a KubeadmConfig, and says so.
fn configured(machine: &mut Value) -> Option<Value> {
    if machine["kind"] != "Machine" || !machine["spec"]["bootstrap"]["configRef"].is_null() {
        return None;
    }
    let name = machine["metadata"]["name"].as_str()?.to_owned();
    let namespace = machine["metadata"]["namespace"].as_str()?.to_owned();
    let mut stored = machine["status"]["conditions"].as_array_mut().into_iter().flatten();
    if let Some(stored) = stored.find(|c| c["type"] == "BootstrapConfigReady") {
        stored["reason"] = "Ready".into();
    }
    machine["spec"]["bootstrap"] = json!({
        "dataSecretName": name,
        "configRef": { "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name },
    });
    Some(kubeadm_config(&namespace, &name))
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
        let dump = &objects.dump;
        let sets = dump.machine_sets.values().map(|set| machine_set::Observed {
            set: (**set).clone(),
            machines: Some(members(observe::machines_of_set(dump, set))),
            missing_templates: Vec::new(),
            preflight: Vec::new(),
        });
        let deployments = dump.machine_deployments.values().map(|deployment| {
            let sets = members(observe::machine_sets_of(dump, deployment));
            observe::machine_deployment(dump, deployment, sets, &Templates::default())
        });
        Self {
            sets: sets.collect(),
            deployments: deployments.collect(),
            cluster: observe::cluster(dump, &objects.cluster, objects.probe),
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
            let observed = self.objects.observe_machine(&seen(machine));
            timed(|| machine::status(&observed, now))
        };
        self.objects.machines.iter().map(judge).sum()
    }
}

fn members<K>(members: Vec<Member<K>>) -> Vec<Arc<K>> {
    members.into_iter().map(Member::into_object).collect()
}

fn kubeadm_config(namespace: &str, name: &str) -> Value {
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-11-20T09:00:00Z",
        })
    };
    json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmConfig",
        "metadata": { "name": name, "namespace": namespace },
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
    NodeReading::Found(Arc::new(serde_json::from_value(node).expect("a Node")))
}

fn without_conditions(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine.conditions_mut().clear();
    machine
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
    for sets in CHANGES {
        let inputs = kubeadm_cluster(if full { NODES } else { 5 });
        let mut plans: Vec<Duration> = (0..runs).map(|_| plan_change(&inputs, sets)).collect();
        plans.sort();
        print(&format!("plan of a change of {NODES} nodes: {}", sets.join(" ")), plans[runs / 2]);
    }
}

const NODES: usize = 500;
const CHANGES: [&[&str]; 2] = [
    &["maxPods=60"],
    &["apiServer.extraArgs[v]=4", "etcd.local.extraArgs[snapshot-count]=5000", "maxPods=60", "mode=nftables"],
];

/// A cluster as kubeadm leaves it: three control plane nodes with their mirror pods, the rest workers.
fn kubeadm_cluster(nodes: usize) -> Inputs {
    let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.1\nnetworking: {podSubnet: 10.244.0.0/16}\n---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\n---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\n";
    let mut inputs = read_inputs(&[("stored".to_owned(), text.to_owned())]).expect("documents");
    let value = inputs.document(DocumentKind::Cluster).expect("there").value.clone();
    let settings = ClusterSettings::new(&value, None).expect("a version");
    for at in 0..nodes {
        let name = format!("node-{at}");
        inputs.objects.push(json!({"kind": "Node", "metadata": {"name": name}}));
        if at >= 3 {
            continue;
        }
        let host = HostFacts::new(&name, &format!("10.0.0.{}", at + 1));
        for (component, pod) in &node_artefacts(&settings, &host).expect("an address").static_pods {
            inputs.objects.push(json!({
                "kind": "Pod",
                "metadata": {"namespace": "kube-system", "labels": {"component": component}, "annotations": {
                    "kubernetes.io/config.mirror": "x",
                    "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": format!("{}:6443", host.address),
                }},
                "spec": {"nodeName": name, "containers": [{"command": pod.command, "image": pod.image}]},
            }));
        }
    }
    inputs
}

fn plan_change(inputs: &Inputs, sets: &[&str]) -> Duration {
    let begun = Instant::now();
    let parts: Vec<RequestPart> = sets.iter().map(|set| RequestPart::Set((*set).to_owned())).collect();
    let mut target = apply(inputs, &parts, PatchKind::Strategic).expect("a request");
    let plan = plan(inputs, &mut target, &PlanOptions::default()).expect("a plan");
    assert!(!black_box(plan).steps.is_empty());
    begun.elapsed()
}
