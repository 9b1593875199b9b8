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
use crate::process::{Engine, Server, Terminal, cpu_ticks, peak_resident_mb, resident_mb};
use crate::table::Table;

const PATIENCE: Duration = Duration::from_secs(3 * 3600);
/// Requests that are made at once to create a fleet.
const CREATORS: usize = 32;
const OLD: &str = "v1.34.1";
const NEW: &str = "v1.34.2";
const NEWEST: &str = "v1.34.3";

/// So many clusters with so many control plane Machines and workers each.
#[derive(Clone, Copy)]
pub struct Fleet {
    pub clusters: u64,
    pub control_planes: u64,
    pub workers: u64,
}

impl Fleet {
    fn machines(self) -> u64 {
        self.clusters * self.machines_of_cluster()
    }

    fn machines_of_cluster(self) -> u64 {
        self.control_planes + self.workers
    }
}

/// What one stage took.
struct Stage {
    wall_s: f64,
    engine_s: f64,
    server_s: f64,
    requests: u64,
}

/// Versions that a fleet has once a stage is done.
#[derive(Clone, Copy)]
struct Versions {
    pools: &'static str,
    control_planes: &'static str,
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
    let name = format!("engine, {} × {} Machines", fleet.clusters, fleet.machines_of_cluster());
    let up = bench.up(fleet).await;
    up.add_to(table, &format!("{name}: up"), fleet.machines());
    let resident_mb = bench.engine.resident_mb();
    table.add(format!("{name}: engine resident, up"), format!("{resident_mb} MB"));
    let roll = bench.roll_pools(fleet).await;
    roll.add_to(table, &format!("{name}: rolled"), fleet.machines());
    bench.rest(&name, sizes.idle, table).await;
    Measured { fleet, up, roll, resident_mb }
}

/// Many clusters as people have them, a dashboard beside them: all Machines up, all workers rolled, all control planes rolled.
pub async fn measure_scale(fleet: Fleet, sizes: &Sizes, table: &mut Table) {
    let bench = Bench::start(sizes.time_scale).await;
    let name = format!("scale, {} × ({} + {}) Machines", fleet.clusters, fleet.control_planes, fleet.workers);
    let home = tempfile::tempdir().expect("a folder");
    let kubeconfig = bench.server.kubeconfig().display().to_string();
    let dashboard = Terminal::start(&["--kubeconfig", &kubeconfig, "-A", "--read-only"], home.path());
    bench.up(fleet).await.add_to(table, &format!("{name}: up"), fleet.machines());
    bench.memory(&name, &dashboard, table);
    let workers = fleet.clusters * fleet.workers;
    bench.roll_pools(fleet).await.add_to(table, &format!("{name}: workers rolled"), workers);
    let control_planes = fleet.clusters * fleet.control_planes;
    let rolled = bench.roll_control_planes(fleet).await;
    rolled.add_to(table, &format!("{name}: control planes rolled"), control_planes);
    bench.memory(&format!("{name}, after rollouts"), &dashboard, table);
    drop(dashboard);
    bench.rest(&name, sizes.idle, table).await;
}

impl Stage {
    fn add_to(&self, table: &mut Table, name: &str, machines: u64) {
        let per_machine = self.requests / machines;
        let Self { wall_s, engine_s, server_s, .. } = self;
        table.add(
            format!("{name}, engine + server, requests"),
            format!("{wall_s:.0} s, {engine_s:.1} + {server_s:.1} CPU-s, {per_machine} per Machine"),
        );
    }
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

    async fn up(&self, fleet: Fleet) -> Stage {
        self.stage(self.create(fleet), fleet, Versions { pools: OLD, control_planes: NEW }).await
    }

    async fn roll_pools(&self, fleet: Fleet) -> Stage {
        let patch = json!({ "spec": { "template": { "spec": { "version": NEW } } } });
        let action = self.roll(self.pools(), patch);
        self.stage(action, fleet, Versions { pools: NEW, control_planes: NEW }).await
    }

    async fn roll_control_planes(&self, fleet: Fleet) -> Stage {
        let action = self.roll(self.control_planes(), json!({ "spec": { "version": NEWEST } }));
        self.stage(action, fleet, Versions { pools: NEW, control_planes: NEWEST }).await
    }

    /// What each process holds in memory, now and at most.
    fn memory(&self, name: &str, dashboard: &Terminal, table: &mut Table) {
        let dashboard = dashboard.child.process_id().expect("a process");
        for (what, pid) in
            [("engine", self.engine.pid()), ("server", self.server.pid()), ("dashboard", dashboard)]
        {
            let text = format!("{} MB, {} MB at most", resident_mb(pid), peak_resident_mb(pid));
            table.add(format!("{name}: {what} resident"), text);
        }
    }

    /// Requests and CPU of a fleet at rest.
    async fn rest(&self, name: &str, idle: Duration, table: &mut Table) {
        self.settled(idle).await;
        let (before, ticks) = (self.requests(), cpu_ticks(self.engine.pid()));
        tokio::time::sleep(idle).await;
        let used = (cpu_ticks(self.engine.pid()) - ticks) as f64 / idle.as_secs_f64();
        let requests = self.requests() - before;
        table.add(
            format!("{name}: settled, requests but for its Lease, CPU"),
            format!("{requests} in {:.0} s, {used:.2} % of a core", idle.as_secs_f64()),
        );
    }

    /// From the action until every cluster has all its Machines, available and of these versions.
    async fn stage(&self, action: impl Future<Output = ()>, fleet: Fleet, versions: Versions) -> Stage {
        let (start, requests, (engine, server)) = (Instant::now(), self.requests(), self.cpu_s());
        action.await;
        loop {
            let done = self.done(fleet, versions).await;
            if done == 2 * fleet.clusters {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{done} of {} were done", 2 * fleet.clusters);
            // Long lists that are read too often would be measured as well.
            tokio::time::sleep(Duration::from_millis((10 * fleet.clusters).clamp(500, 10_000))).await;
        }
        let (engine_after, server_after) = self.cpu_s();
        Stage {
            wall_s: start.elapsed().as_secs_f64(),
            engine_s: engine_after - engine,
            server_s: server_after - server,
            requests: self.requests() - requests,
        }
    }

    /// Pools and control planes that have what they should have.
    async fn done(&self, fleet: Fleet, versions: Versions) -> u64 {
        let pools = count_done(self.pools(), |pool| is_pool_done(pool, fleet.workers, versions.pools));
        let control_planes = count_done(self.control_planes(), |control_plane| {
            is_control_plane_done(control_plane, fleet.control_planes, versions.control_planes)
        });
        pools.await + control_planes.await
    }

    async fn create(&self, fleet: Fleet) {
        let clusters = (0..fleet.clusters).map(|number| async move {
            for object in manifest(&format!("c{number}"), fleet) {
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

    async fn roll(&self, api: Api<DynamicObject>, patch: Value) {
        let (api, patch) = (&api, &patch);
        let all = api.list_metadata(&ListParams::default()).await.expect("a list").items;
        let patches = all.iter().map(|one| async move {
            api.patch(&one.name_any(), &PatchParams::default(), &Patch::Merge(patch))
                .await
                .expect("a new version");
        });
        futures::stream::iter(patches).buffer_unordered(CREATORS).collect::<()>().await;
    }

    fn pools(&self) -> Api<DynamicObject> {
        self.api("", "MachineDeployment", "machinedeployments")
    }

    fn control_planes(&self) -> Api<DynamicObject> {
        self.api("controlplane.", "KubeadmControlPlane", "kubeadmcontrolplanes")
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

async fn count_done(api: Api<DynamicObject>, is_done: impl Fn(&DynamicObject) -> bool) -> u64 {
    let all = api.list(&ListParams::default()).await.expect("a list").items;
    all.iter().filter(|one| is_done(one)).count() as u64
}

fn is_pool_done(pool: &DynamicObject, workers: u64, version: &str) -> bool {
    let versions = &pool.data["status"]["versions"];
    pool.data["spec"]["template"]["spec"]["version"] == version
        && has_all(pool, workers)
        && versions.as_array().is_some_and(|all| all.len() == 1 && all[0]["version"] == version)
}

fn is_control_plane_done(control_plane: &DynamicObject, replicas: u64, version: &str) -> bool {
    let version_of_oldest = &control_plane.data["status"]["version"];
    control_plane.data["spec"]["version"] == version
        && has_all(control_plane, replicas)
        && version_of_oldest == version
}

fn has_all(owner: &DynamicObject, replicas: u64) -> bool {
    let status = &owner.data["status"];
    let counters = ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"];
    counters.iter().all(|counter| status[*counter] == replicas)
        && status["observedGeneration"] == json!(owner.metadata.generation)
}

/// One cluster whose machines are up as soon as they are asked for.
fn manifest(name: &str, fleet: Fleet) -> Vec<Value> {
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
    let pool = json!({ "clusterName": name, "replicas": fleet.workers, "selector": { "matchLabels": mine },
        "rollout": { "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "20%", "maxUnavailable": 0 } } },
        "template": { "metadata": { "labels": mine }, "spec": { "clusterName": name, "version": OLD,
            "bootstrap": { "configRef": reference("bootstrap", "KubeadmConfigTemplate", name) },
            "infrastructureRef": infrastructure } } });
    let control_plane = json!({ "replicas": fleet.control_planes, "version": NEW,
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
