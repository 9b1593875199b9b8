//! What the engine does for one more Machine, and for one change: counted in runs and requests, so that a machine under
//! load measures the same. (CPU and time: `cargo bench --bench load -- growth`.)

use std::collections::BTreeMap;
use std::time::Duration;

use capi_types::key::ObjectKey;
use capi_types::machine_deployment::MachineDeployment;
use capstan_engine::workload::Workload as _;
use serde_json::json;

use super::simulation::{Sim, manifest};

const OLD: &str = "v1.34.1";
const NEW: &str = "v1.34.2";

/// What the engine did so far.
#[derive(Debug)]
struct Work {
    requests: u64,
    /// By controller.
    runs: BTreeMap<String, u64>,
}

impl Work {
    fn of(sim: &Sim) -> Self {
        let metrics = sim.handle.trace().metrics();
        let runs = metrics.lines().filter_map(|line| {
            let (controller, count) =
                line.strip_prefix("capstan_reconcile_runs_total{controller=\"")?.split_once("\"} ")?;
            Some((controller.to_owned(), count.parse().ok()?))
        });
        Self { requests: sim.requests(), runs: runs.collect() }
    }

    fn runs_of(&self, controller: &str) -> u64 {
        self.runs.get(controller).copied().unwrap_or(0)
    }

    /// What it did since `before`.
    fn since(&self, before: &Self) -> Self {
        let runs = self.runs.iter().map(|(name, runs)| (name.clone(), runs - before.runs_of(name)));
        let runs = runs.filter(|(_, runs)| *runs > 0).collect();
        Self { requests: self.requests - before.requests, runs }
    }
}

/// The control plane is ahead of the workers: newer ones than it has would wait for it.
async fn up(workers: i32) -> Sim {
    let mut sim = Sim::start(71).await;
    let count = workers.unsigned_abs();
    sim.machines_max = (1, 2 * count as usize);
    let mut objects = manifest(1, count);
    for object in objects.iter_mut().filter(|object| object["kind"] == "KubeadmControlPlane") {
        object["spec"]["version"] = json!(NEW);
    }
    sim.create(objects).await;
    sim.until("all machines up", 600, async |s| has_all(s, workers, OLD).await).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    sim
}

async fn has_all(sim: &Sim, workers: i32, version: &str) -> bool {
    let Some(pool) = sim.get::<MachineDeployment>("harbor-md-0").await else { return false };
    let status = pool.status.clone().unwrap_or_default();
    let counters =
        [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
    counters.iter().all(|count| *count == Some(workers))
        && status.versions.iter().all(|count| count.version == version)
        && status.observed_generation == pool.metadata.generation
}

/// Bringing all up, and rolling half of them at a time.
async fn work_for(workers: i32) -> [Work; 2] {
    let sim = up(workers).await;
    let before = Work::of(&sim);
    let limits = json!({"maxSurge": "50%", "maxUnavailable": 0});
    let rollout = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}});
    let body = json!({"spec": {"rollout": rollout, "template": {"spec": {"version": NEW}}}});
    sim.patch::<MachineDeployment>("harbor-md-0", body).await;
    sim.until("all on the new version", 1200, async |s| has_all(s, workers, NEW).await).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let rolled = Work::of(&sim).since(&before);
    [before, rolled]
}

/// Twice as many Machines more cost twice as much more: what a controller does for each Machine does not depend on
/// how many there are.
#[tokio::test(start_paused = true)]
async fn one_more_worker_costs_the_same_in_a_larger_cluster() {
    let [small, medium, large] = [work_for(4).await, work_for(8).await, work_for(16).await];
    for (stage, at) in [("up", 0), ("rolled", 1)] {
        let [small, medium, large] = [&small[at], &medium[at], &large[at]];
        let check = |what: &str, of: &dyn Fn(&Work) -> u64| {
            let (first, second) = (of(medium).saturating_sub(of(small)), of(large) - of(medium));
            // Per worker: of the four between 4 and 8, and of the eight between 8 and 16.
            let (first, second) = (first as f64 / 4.0, second as f64 / 8.0);
            println!("{stage}, {what} for one more worker: {first:.1}, then {second:.1}");
            assert!(second <= first * 1.25 + 1.0, "{stage}, {what}: {first:.1}, then {second:.1}");
        };
        check("requests", &|work| work.requests);
        for controller in ["machine", "kubeadm-config", "dev-machine"] {
            check(&format!("runs of {controller}"), &|work| work.runs_of(controller));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_one_node_wakes_what_reads_it() {
    let sim = up(4).await;
    let cluster = ObjectKey::new("default", "harbor");
    let nodes = sim.world.nodes(&cluster).await.expect("nodes");
    let is_worker = |name: &str| {
        !nodes.iter().any(|n| {
            n.metadata.name.as_deref() == Some(name)
                && n.metadata.labels.iter().flatten().any(|(label, _)| label.ends_with("control-plane"))
        })
    };
    let names = nodes.iter().filter_map(|node| node.metadata.name.as_deref());
    let worker = names.clone().find(|name| is_worker(name)).expect("a worker");
    let before = Work::of(&sim);
    let patch = json!({"metadata": {"labels": {"example.com/rack": "7"}}});
    sim.world.patch_node(&cluster, worker, &patch).await.expect("patched");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let work = Work::of(&sim).since(&before);
    let expected = BTreeMap::from([("machine".to_owned(), 1)]);
    assert_eq!((work.requests, work.runs), (0, expected), "of 5 Machines one has this Node");
}

#[tokio::test(start_paused = true)]
async fn a_settled_fleet_runs_and_asks_for_nothing() {
    let sim = up(2).await;
    // Join tokens are no longer looked at, and everything that waits for its time has had it.
    tokio::time::sleep(Duration::from_secs(1200)).await;
    let before = Work::of(&sim);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let work = Work::of(&sim).since(&before);
    assert_eq!((work.requests, work.runs), (0, BTreeMap::new()), "in an hour without events");
}

/// Rolling workers changes the status of their Cluster with every step; its control plane reads nothing of that.
#[tokio::test(start_paused = true)]
async fn a_rollout_of_workers_leaves_the_control_plane_alone() {
    let [_, rolled] = work_for(6).await;
    assert!(rolled.runs_of("cluster") > 5, "{rolled:?}");
    assert_eq!(rolled.runs_of("kubeadm-control-plane"), 0, "{rolled:?}");
}
