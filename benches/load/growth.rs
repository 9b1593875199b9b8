//! The engine as a process of its own, beside the server: what it costs to bring Machines up and to roll them, without any
//! delay of provisioning, how that grows with their number, and what a settled fleet costs.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Sizes;
use crate::process::{Engine, Server, cpu_ticks};
use crate::table::Table;

const PATIENCE: Duration = Duration::from_secs(3600);
/// Requests that are made at once to create a fleet.
const CREATORS: usize = 32;
const OLD: &str = "v1.34.1";
const NEW: &str = "v1.34.2";

/// So many clusters with so many workers each, and one control plane Machine.
#[derive(Clone, Copy)]
pub struct Fleet {
    pub clusters: u64,
    pub workers: u64,
}

impl Fleet {
    fn machines(self) -> u64 {
        self.clusters * (self.workers + 1)
    }
}

/// What one stage took.
struct Stage {
    wall_s: f64,
    engine_s: f64,
    server_s: f64,
    requests: u64,
}

/// What one fleet took.
struct Measured {
    fleet: Fleet,
    up: Stage,
    roll: Stage,
    resident_mb: u64,
}

pub async fn measure(sizes: &Sizes, table: &mut Table) {
    for (what, fleets) in [("workers of one cluster", &sizes.pools), ("clusters", &sizes.clusters)] {
        let mut all = Vec::new();
        for fleet in fleets {
            all.push(measure_fleet(*fleet, sizes, table).await);
        }
        if let [small, .., large] = all.as_slice() {
            compare(what, small, large, table);
        }
    }
}

async fn measure_fleet(fleet: Fleet, sizes: &Sizes, table: &mut Table) -> Measured {
    let bench = Bench::start(sizes.time_scale).await;
    let up = bench.stage(bench.create(fleet), fleet, OLD).await;
    let resident_mb = bench.engine.resident_mb();
    let roll = bench.stage(bench.roll(), fleet, NEW).await;
    bench.settled(sizes.idle).await;
    let name = format!("engine, {} × {} Machines", fleet.clusters, fleet.workers + 1);
    for (stage, of) in [("up", &up), ("rolled", &roll)] {
        let per_machine = of.requests / fleet.machines();
        table.add(
            format!("{name}: {stage}, engine + server, requests"),
            format!(
                "{:.0} s, {:.1} + {:.1} CPU-s, {per_machine} per Machine",
                of.wall_s, of.engine_s, of.server_s
            ),
        );
    }
    table.add(format!("{name}: engine resident, up"), format!("{resident_mb} MB"));
    let (before, ticks) = (bench.requests(), cpu_ticks(bench.engine.pid()));
    tokio::time::sleep(sizes.idle).await;
    let used = (cpu_ticks(bench.engine.pid()) - ticks) as f64 / sizes.idle.as_secs_f64();
    let requests = bench.requests() - before;
    table.add(
        format!("{name}: settled, requests but for its Lease, CPU"),
        format!("{requests} in {:.0} s, {used:.2} % of a core", sizes.idle.as_secs_f64()),
    );
    Measured { fleet, up, roll, resident_mb }
}

/// By which power of the number of Machines the engine's time grows, and its memory per Machine.
fn compare(what: &str, small: &Measured, large: &Measured, table: &mut Table) {
    let times = large.fleet.machines() as f64 / small.fleet.machines() as f64;
    let exponent = |of: fn(&Measured) -> &Stage| (of(large).engine_s / of(small).engine_s).ln() / times.ln();
    let (up, roll) = (exponent(|m| &m.up), exponent(|m| &m.roll));
    table.add(format!("engine, more {what}: exponent of CPU, up and rolled"), format!("{up:.2}, {roll:.2}"));
    let more = large.resident_mb.saturating_sub(small.resident_mb) * 1024;
    let per_machine = more / (large.fleet.machines() - small.fleet.machines());
    table.add(format!("engine, more {what}: resident per Machine"), format!("{per_machine} KiB"));
}

struct Bench {
    server: Server,
    engine: Engine,
    client: Client,
    audit: PathBuf,
    _folder: TempDir,
}

impl Bench {
    async fn start(time_scale: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let audit = folder.path().join("audit.log");
        let path = audit.to_str().expect("a path");
        let server = Server::start("memory", &["--no-engine", "--audit-log", path]);
        let engine = Engine::start(&server.kubeconfig(), time_scale);
        let client = server.client().await;
        Self { server, engine, client, audit, _folder: folder }
    }

    fn cpu_s(&self) -> (f64, f64) {
        let seconds = |pid| cpu_ticks(pid) as f64 / 100.0;
        (seconds(self.engine.pid()), seconds(self.server.pid()))
    }

    /// From the action until every MachineDeployment has all its Machines, available and of this version.
    async fn stage(&self, action: impl Future<Output = ()>, fleet: Fleet, version: &str) -> Stage {
        let (start, requests, (engine, server)) = (Instant::now(), self.requests(), self.cpu_s());
        action.await;
        let pools = self.api("", "MachineDeployment", "machinedeployments");
        loop {
            let all = pools.list(&ListParams::default()).await.expect("a list").items;
            let done = all.iter().filter(|pool| is_done(pool, fleet.workers, version)).count();
            if done as u64 == fleet.clusters {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{done} of {} were done", fleet.clusters);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let (engine_after, server_after) = self.cpu_s();
        Stage {
            wall_s: start.elapsed().as_secs_f64(),
            engine_s: engine_after - engine,
            server_s: server_after - server,
            requests: self.requests() - requests,
        }
    }

    async fn create(&self, fleet: Fleet) {
        let clusters = (0..fleet.clusters).map(|number| async move {
            for object in manifest(&format!("c{number}"), fleet.workers) {
                self.post(object).await;
            }
        });
        futures::stream::iter(clusters).buffer_unordered(CREATORS).collect::<()>().await;
    }

    async fn post(&self, content: Value) {
        let object: DynamicObject = serde_json::from_value(content).expect("an object");
        let types = object.types.as_ref().expect("a type");
        let group = types.api_version.split('/').next().expect("a group").to_owned();
        let plural = format!("{}s", types.kind.to_lowercase());
        let api = self.api(group.trim_end_matches("cluster.x-k8s.io"), &types.kind, &plural);
        api.create(&PostParams::default(), &object).await.expect("a creation");
    }

    async fn roll(&self) {
        let pools = &self.api("", "MachineDeployment", "machinedeployments");
        let all = pools.list_metadata(&ListParams::default()).await.expect("a list").items;
        let patch = &json!({ "spec": { "template": { "spec": { "version": NEW } } } });
        let patches = all.iter().map(|pool| async move {
            pools
                .patch(&pool.name_any(), &PatchParams::default(), &Patch::Merge(patch))
                .await
                .expect("a new version");
        });
        futures::stream::iter(patches).buffer_unordered(CREATORS).collect::<()>().await;
    }

    fn api(&self, group: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(&format!("{group}cluster.x-k8s.io"), "v1beta2", kind);
        Api::default_namespaced_with(self.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, plural))
    }

    /// Until the server was asked for nothing for so long.
    async fn settled(&self, quiet: Duration) {
        let (start, mut last) = (Instant::now(), self.requests());
        loop {
            tokio::time::sleep(quiet).await;
            let now = self.requests();
            if now == last {
                return;
            }
            last = now;
            assert!(start.elapsed() < PATIENCE, "the fleet did not settle");
        }
    }

    /// Requests that the server's audit log has, but for those about Leases.
    fn requests(&self) -> u64 {
        requests(&self.audit)
    }
}

fn requests(audit: &Path) -> u64 {
    let Ok(file) = std::fs::File::open(audit) else { return 0 };
    let (mut reader, mut line, mut count) = (std::io::BufReader::new(file), Vec::new(), 0);
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        count += u64::from(!line.windows(7).any(|part| part == b"/leases"));
        line.clear();
    }
    count
}

fn is_done(pool: &DynamicObject, workers: u64, version: &str) -> bool {
    let (spec, status) = (&pool.data["spec"], &pool.data["status"]);
    let counters = ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"];
    spec["template"]["spec"]["version"] == version
        && counters.iter().all(|counter| status[*counter] == workers)
        && status["versions"].as_array().is_some_and(|all| all.len() == 1 && all[0]["version"] == version)
        && status["observedGeneration"] == json!(pool.metadata.generation)
}

/// One cluster whose machines are up as soon as they are asked for.
fn manifest(name: &str, workers: u64) -> Vec<Value> {
    let reference = |group: &str, kind: &str, name: &str| json!({ "apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": kind, "name": name });
    let object = |group: &str, kind: &str, name: &str, spec: Value| {
        json!({ "apiVersion": format!("{group}cluster.x-k8s.io/v1beta2"), "kind": kind,
            "metadata": { "name": name, "namespace": "default" }, "spec": spec })
    };
    let at_once = json!({ "provisioning": { "startupDuration": "0s" } });
    let parts = json!({ "vm": at_once, "node": at_once, "apiServer": at_once, "etcd": at_once });
    let host = json!({ "template": { "spec": { "backend": { "inMemory": parts } } } });
    let config = json!({ "template": { "spec": { "joinConfiguration": { "nodeRegistration": { "criSocket": "unix:///x" } } } } });
    let infrastructure = reference("infrastructure", "DevMachineTemplate", name);
    let mine = json!({ "cluster.x-k8s.io/cluster-name": name, "cluster.x-k8s.io/deployment-name": name });
    let pool = json!({ "clusterName": name, "replicas": workers, "selector": { "matchLabels": mine },
        "rollout": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "20%", "maxUnavailable": 0 } } },
        "template": { "metadata": { "labels": mine }, "spec": { "clusterName": name, "version": OLD,
            "bootstrap": { "configRef": reference("bootstrap", "KubeadmConfigTemplate", name) },
            "infrastructureRef": infrastructure } } });
    let control_plane = json!({ "replicas": 1, "version": NEW,
        "machineTemplate": { "spec": { "infrastructureRef": infrastructure } }, "kubeadmConfigSpec": { "clusterConfiguration": { "apiServer": { "certSANs": ["localhost"] } } } });
    let cluster = json!({ "controlPlaneRef": reference("controlplane", "KubeadmControlPlane", name),
        "infrastructureRef": reference("infrastructure", "DevCluster", name) });
    vec![
        object("infrastructure.", "DevMachineTemplate", name, host),
        object("bootstrap.", "KubeadmConfigTemplate", name, config),
        object("infrastructure.", "DevCluster", name, json!({ "backend": { "inMemory": {} } })),
        object("controlplane.", "KubeadmControlPlane", name, control_plane),
        object("", "Cluster", name, cluster),
        object("", "MachineDeployment", name, pool),
    ]
}
