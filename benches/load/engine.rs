//! The engine over simulated machines: how long a scale-up takes, what the fleet costs in memory, and what a
//! settled fleet costs: writes and time.

use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::Sizes;
use crate::process::{Server, cpu_ticks};
use crate::table::Table;

/// How much faster than real machines the simulated ones start.
const TIME_SCALE: &str = "100";
const PATIENCE: Duration = Duration::from_secs(900);

pub async fn measure(sizes: &Sizes, table: &mut Table) {
    let server = Server::start("disk", &["--sample", "healthy-ha", "--time-scale", TIME_SCALE]);
    let client = server.client().await;
    let deployments = api(&client, "MachineDeployment", "machinedeployments");
    let machines = api(&client, "Machine", "machines");
    let pool = settled_pool(&deployments).await;
    let name = format!("engine, {} workers", sizes.workers);
    let start = Instant::now();
    let spec = json!({ "spec": { "replicas": sizes.workers } });
    deployments.patch(&pool, &PatchParams::default(), &Patch::Merge(spec)).await.expect("a scale-up");
    wait_for_available(&deployments, &pool, sizes.workers).await;
    table.add(format!("{name}: available"), format!("{:.1} s", start.elapsed().as_secs_f64()));
    let before = settled(&machines, sizes.idle).await;
    table.add(format!("{name}: server and engine resident"), format!("{} MB", server.resident_mb()));
    let ticks = cpu_ticks(server.pid());
    tokio::time::sleep(sizes.idle).await;
    let seconds = sizes.idle.as_secs_f64();
    let writes = revision(&machines).await - before;
    let used = (cpu_ticks(server.pid()) - ticks) as f64 / seconds;
    table.add(format!("{name}: idle writes in {seconds:.0} s"), writes.to_string());
    table.add(format!("{name}: idle CPU"), format!("{used:.2} % of a core"));
}

fn api(client: &Client, kind: &str, plural: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind);
    Api::default_namespaced_with(client.clone(), &ApiResource::from_gvk_with_plural(&gvk, plural))
}

/// The first MachineDeployment whose Machines are all available.
async fn settled_pool(deployments: &Api<DynamicObject>) -> String {
    wait(|| async {
        let list = deployments.list(&ListParams::default()).await.expect("a list").items;
        list.into_iter()
            .find(|pool| available(pool) == pool.data["spec"]["replicas"].as_u64())
            .map(|p| p.name_any())
    })
    .await
}

async fn wait_for_available(deployments: &Api<DynamicObject>, pool: &str, count: u64) {
    wait(|| async {
        let pool = deployments.get(pool).await.expect("the pool");
        (available(&pool) == Some(count)).then_some(())
    })
    .await;
}

fn available(pool: &DynamicObject) -> Option<u64> {
    pool.data["status"]["availableReplicas"].as_u64()
}

/// The store's revision once it has stood still for `quiet`.
async fn settled(machines: &Api<DynamicObject>, quiet: Duration) -> u64 {
    let start = Instant::now();
    let mut last = revision(machines).await;
    loop {
        assert!(start.elapsed() < PATIENCE, "the fleet did not settle");
        tokio::time::sleep(quiet).await;
        let now = revision(machines).await;
        if now == last {
            return now;
        }
        last = now;
    }
}

/// Every write of any object raises it by one.
async fn revision(machines: &Api<DynamicObject>) -> u64 {
    let list = machines.list_metadata(&ListParams::default().limit(1)).await.expect("a list");
    list.metadata.resource_version.and_then(|text| text.parse().ok()).expect("a revision")
}

async fn wait<T, F: Future<Output = Option<T>>>(mut look: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "what was waited for did not come");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
