//! A rollout in place beside one by replacement: calls of an extension that is done at once, writes per Machine, CPU and
//! time. Server and engine are one process; the extension is in this one, so that its calls can be counted.

use std::io::BufRead as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use capi_types::hook::MachineObjects;
use capstan_base::time::Clock;
use capstan_engine::client::{ConnectOptions, connect};
use capstan_worlds::extension::{
    Behaviour, DevHosts, Extension, HostUpdate, Hosts, Identity, Serving, extension_config, serve,
};
use capstan_worlds::standalone::extension::register;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Sizes;
use crate::process::{Server, cpu_ticks};
use crate::table::Table;

const PATIENCE: Duration = Duration::from_secs(3600);
/// How much faster than real machines the simulated ones start.
const TIME_SCALE: &str = "100";
/// Older than the sample's, which a pool may be.
const TO: &str = "v1.35.0";

pub async fn measure(sizes: &Sizes, table: &mut Table) {
    for is_open in [true, false] {
        let bench = Bench::start(is_open).await;
        bench.scale(sizes.updated).await;
        let rolled = bench.roll(sizes.updated).await;
        let how = if is_open { "in place" } else { "by replacement" };
        let each = |count: u64| count as f64 / sizes.updated as f64;
        table.add(
            format!("{} Machines rolled {how}: time, server and engine", sizes.updated),
            format!("{:.0} s, {:.1} CPU-s", rolled.wall_s, rolled.cpu_s),
        );
        table.add(
            format!("{} Machines rolled {how}: writes of a Machine, of them the extension's", sizes.updated),
            format!("{:.1}, {:.1}", each(rolled.writes), each(rolled.by_extension)),
        );
        table.add(
            format!("{} Machines rolled {how}: calls of UpdateMachine", sizes.updated),
            bench.calls.load(Ordering::Relaxed).to_string(),
        );
    }
}

struct Rolled {
    wall_s: f64,
    cpu_s: f64,
    writes: u64,
    by_extension: u64,
}

/// Hosts that count who asks.
struct Counted {
    hosts: DevHosts,
    calls: Arc<AtomicU64>,
}

#[async_trait]
impl Hosts for Counted {
    async fn update(&self, desired: &MachineObjects, takes_s: u32) -> Result<HostUpdate, String> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.hosts.update(desired, takes_s).await
    }
}

struct Bench {
    server: Server,
    pools: Api<DynamicObject>,
    pool: String,
    calls: Arc<AtomicU64>,
    audit: PathBuf,
    _extension: Serving,
    _folder: TempDir,
}

impl Bench {
    async fn start(is_open: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let audit = folder.path().join("audit.log");
        let gates = format!("InPlaceUpdates={is_open}");
        let path = audit.to_str().expect("a path");
        let server = Server::start(
            "memory",
            &[
                "--sample",
                "healthy-ha",
                "--time-scale",
                TIME_SCALE,
                "--audit-log",
                path,
                "--feature-gates",
                &gates,
            ],
        );
        let calls = Arc::new(AtomicU64::new(0));
        let extension = extend(&server, calls.clone()).await;
        let pools = pools(&server.client().await);
        let pool = first_pool(&pools).await;
        Self { server, pools, pool, calls, audit, _extension: extension, _folder: folder }
    }

    async fn scale(&self, count: u64) {
        self.patch(json!({ "spec": { "replicas": count } })).await;
        self.until(|status| counters(status, count)).await;
    }

    async fn roll(&self, count: u64) -> Rolled {
        let rolling =
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": "20%" } });
        let (start, ticks) = (Instant::now(), cpu_ticks(self.server.pid()));
        let (writes, by_extension) = written(&self.audit);
        let template = json!({ "spec": { "version": TO } });
        self.patch(json!({ "spec": { "rollout": { "strategy": rolling }, "template": template } })).await;
        let is_new = |status: &Value| {
            status["versions"].as_array().is_some_and(|all| all.len() == 1 && all[0]["version"] == TO)
        };
        self.until(|status| is_new(status) && counters(status, count)).await;
        let (writes_after, by_extension_after) = written(&self.audit);
        Rolled {
            wall_s: start.elapsed().as_secs_f64(),
            cpu_s: (cpu_ticks(self.server.pid()) - ticks) as f64 / 100.0,
            writes: writes_after - writes,
            by_extension: by_extension_after - by_extension,
        }
    }

    async fn patch(&self, body: Value) {
        let patch = Patch::Merge(body);
        self.pools.patch(&self.pool, &PatchParams::default(), &patch).await.expect("a change");
    }

    async fn until(&self, is_done: impl Fn(&Value) -> bool) {
        let start = Instant::now();
        loop {
            let pool = self.pools.get(&self.pool).await.expect("the pool");
            if is_done(&pool.data["status"])
                && pool.data["status"]["observedGeneration"] == json!(pool.metadata.generation)
            {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "what was waited for did not come");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// The reference extension, done at once, registered at the server.
async fn extend(server: &Server, calls: Arc<AtomicU64>) -> Serving {
    let options = ConnectOptions { kubeconfig: Some(server.kubeconfig()), ..ConnectOptions::default() };
    let connection = connect(&options).await.expect("a connection");
    let identity = Identity::generate(&[Ipv4Addr::LOCALHOST.to_string()]).expect("a certificate");
    let hosts = DevHosts::new(connection.client.clone(), Clock::system(), 1.0);
    let behaviour = Behaviour { update_seconds: 0, ..Behaviour::default() };
    let extension = Arc::new(Extension::new(behaviour, Arc::new(Counted { hosts, calls })));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let serving = serve(extension, address, &identity).await.expect("an extension");
    let url = format!("https://{}", serving.address());
    let config = extension_config("load", &url, identity.certificate_pem());
    register(&connection, "load", &config).await.expect("a registration");
    serving
}

fn pools(client: &Client) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachineDeployment");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "machinedeployments");
    Api::default_namespaced_with(client.clone(), &resource)
}

/// The first whose Machines are all there.
async fn first_pool(pools: &Api<DynamicObject>) -> String {
    let start = Instant::now();
    loop {
        let all = pools.list(&ListParams::default()).await.expect("a list").items;
        let is_up = |pool: &&DynamicObject| {
            let wanted = pool.data["spec"]["replicas"].as_u64();
            wanted.is_some_and(|wanted| counters(&pool.data["status"], wanted))
        };
        if let Some(pool) = all.iter().find(is_up) {
            return pool.name_any();
        }
        assert!(start.elapsed() < PATIENCE, "the sample did not come up");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn counters(status: &Value, count: u64) -> bool {
    ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"]
        .iter()
        .all(|name| status[*name] == count)
}

/// Writes that the audit log has, but for those about Leases and events; and those of the extension.
fn written(audit: &Path) -> (u64, u64) {
    let Ok(file) = std::fs::File::open(audit) else { return (0, 0) };
    let (mut writes, mut by_extension) = (0, 0);
    for line in std::io::BufReader::new(file).lines().map_while(Result::ok) {
        let Ok(entry) = serde_json::from_str::<Value>(&line) else { continue };
        let is_write = ["create", "update", "patch", "delete"].iter().any(|verb| entry["verb"] == *verb);
        let uri = entry["requestURI"].as_str().unwrap_or_default();
        if is_write && !uri.contains("/leases") && !uri.contains("/events") {
            writes += 1;
            by_extension += u64::from(uri.contains("fieldManager=capstan-extension"));
        }
    }
    (writes, by_extension)
}
