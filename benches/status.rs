//! How long it takes to compute every status of one cluster: each Machine, MachineSet, MachineDeployment,
//! its control plane and the Cluster itself, from observed values that are there already.
//!
//!   cargo bench --bench status               10,000 Machines, median of 9
//!   cargo bench --bench status -- 2000       another size
//!
//! Without `--bench` (as `cargo test` runs it) the cluster is tiny: it then proves that the script works
//! and measures nothing.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a script for people")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan::api::machine::Machine;
use capstan::api::machine_deployment::MachineDeployment;
use capstan::api::machine_set::MachineSet;
use capstan::sim::scenario::Scenario;
use capstan::status::contract::{External, Provided};
use capstan::status::machine::{NodeReading, Probe};
use capstan::status::{cluster, machine, machine_deployment, machine_set};
use capstan::time::{Timestamp, parse_rfc3339};
use serde_json::{Value, json};

const FULL: usize = 10_000;
const TINY: usize = 40;
const RUNS: usize = 9;
/// Machines of one MachineSet, and sets of one deployment, at most.
const SET_MAX: usize = 250;

/// One cluster as every kind observes it.
struct World {
    machines: Vec<machine::Observed>,
    sets: Vec<machine_set::Observed>,
    deployments: Vec<machine_deployment::Observed>,
    cluster: cluster::Observed,
}

fn object<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("an object of its kind")
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|o| o["kind"] == kind).collect()
}

impl World {
    fn new(machines: usize, now: Timestamp) -> Self {
        let text = format!("synthetic:clusters=1,machines={machines}");
        let objects: Vec<Value> = Scenario::parse(&text).expect("a scenario").objects(now).collect();
        let cluster = object(of_kind(&objects, "Cluster")[0]);
        let all: Vec<Machine> = of_kind(&objects, "Machine").into_iter().map(object).collect();
        let shared: Vec<Arc<Machine>> = all.iter().cloned().map(Arc::new).collect();
        let sets: Vec<MachineSet> = of_kind(&objects, "MachineSet").into_iter().map(object).collect();
        let deployments: Vec<MachineDeployment> =
            of_kind(&objects, "MachineDeployment").into_iter().map(object).collect();
        let control_plane =
            of_kind(&objects, "KubeadmControlPlane").first().map_or(External::NotSet, |v| found(v));
        let probe = Probe { last_success: Some(now), ..Probe::default() };
        let chunks: Vec<Vec<Arc<Machine>>> = shared.chunks(SET_MAX).map(<[_]>::to_vec).collect();
        let observe = |m: &Machine| machine::Observed {
            machine: m.clone(),
            cluster: object(of_kind(&objects, "Cluster")[0]),
            bootstrap: provider("KubeadmConfig", &json!({"initialization": {"dataSecretCreated": true}})),
            infrastructure: provider("DevMachine", &json!({"initialization": {"provisioned": true}})),
            control_plane: control_plane.clone(),
            control_plane_machines_left: 3,
            probe,
            node: NodeReading::NotFound,
            ..machine::Observed::default()
        };
        Self {
            machines: all.iter().map(observe).collect(),
            sets: sets
                .iter()
                .zip(chunks.iter().cycle())
                .map(|(set, machines)| machine_set::Observed {
                    set: set.clone(),
                    machines: Some(machines.clone()),
                    missing_templates: Vec::new(),
                    preflight: Vec::new(),
                })
                .collect(),
            deployments: deployments
                .iter()
                .zip(chunks.iter().cycle())
                .map(|(deployment, machines)| machine_deployment::Observed {
                    deployment: deployment.clone(),
                    sets: Some(sets.iter().take(2).cloned().map(Arc::new).collect()),
                    machines: machines.clone(),
                    missing_templates: Vec::new(),
                })
                .collect(),
            cluster: cluster::Observed {
                cluster,
                infrastructure: provider("DevCluster", &json!({"initialization": {"provisioned": true}})),
                control_plane: control_plane.clone(),
                probe,
                descendants: cluster::Descendants {
                    machine_deployments: deployments,
                    machine_sets: sets,
                    machine_pools: Vec::new(),
                    machines: all,
                },
                ..cluster::Observed::default()
            },
        }
    }

    /// Every level once; the time of each.
    fn compute(&self, now: Timestamp) -> [Duration; 4] {
        [
            timed(|| self.machines.iter().for_each(|o| drop(black_box(machine::status(o, now))))),
            timed(|| self.sets.iter().for_each(|o| drop(black_box(machine_set::status(o, now))))),
            timed(|| {
                self.deployments.iter().for_each(|o| drop(black_box(machine_deployment::status(o, now))));
            }),
            timed(|| drop(black_box(cluster::status(&self.cluster, now)))),
        ]
    }
}

fn found(content: &Value) -> External {
    External::Found(Provided::new(content.clone()))
}

fn provider(kind: &str, status: &Value) -> External {
    let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-11-20T09:00:00Z"});
    let mut content = json!({"kind": kind, "metadata": {"name": "p"}, "status": status});
    content["status"]["conditions"] = json!([ready]);
    found(&content)
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn main() {
    let now = parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let full = arguments.iter().any(|a| a == "--bench");
    let asked = arguments.iter().find_map(|a| a.parse::<usize>().ok());
    let size = if full { asked.unwrap_or(FULL) } else { TINY };
    let world = World::new(size, now);
    let mut runs: Vec<[Duration; 4]> = (0..if full { RUNS } else { 1 }).map(|_| world.compute(now)).collect();
    runs.sort_by_key(|run| run.iter().sum::<Duration>());
    let median = runs[runs.len() / 2];
    println!(
        "{} Machines, {} MachineSets, {} MachineDeployments",
        world.machines.len(),
        world.sets.len(),
        world.deployments.len()
    );
    for (level, time) in ["Machines", "MachineSets", "MachineDeployments", "Cluster"].iter().zip(median) {
        println!("{level:<20} {:>9.3} ms", time.as_secs_f64() * 1000.0);
    }
    println!("{:<20} {:>9.3} ms", "all", median.iter().sum::<Duration>().as_secs_f64() * 1000.0);
}
