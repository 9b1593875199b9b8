//! The dashboard while a fleet changes: what it costs, what it writes, and how soon a key is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::Sizes;
use crate::process::{Server, Terminal, cpu_ticks, resident_mb};
use crate::table::{Table, percentile};

/// Changes a second.
const RATES: [u64; 2] = [100, 1_000];
/// Each writer waits for its answer, so many of them keep the rate.
const WRITERS: u64 = 16;

pub fn measure(runtime: &Runtime, sizes: &Sizes, table: &mut Table) {
    for machines in sizes.fleets {
        let sample = format!("synthetic:clusters={},machines={machines}", (machines / 100).max(2));
        let server = Server::start("memory", &["--no-engine", "--sample", &sample]);
        let clients: Vec<Client> = (0..WRITERS).map(|_| runtime.block_on(server.client())).collect();
        let names = Arc::new(runtime.block_on(machines_out_of_sight(&clients[0], *machines)));
        let home = tempfile::tempdir().expect("a folder");
        let kubeconfig = server.kubeconfig().display().to_string();
        let mut terminal = Terminal::start(&["--kubeconfig", &kubeconfig, "-A"], home.path());
        terminal.settled_ms();
        let page = terminal.bytes();
        terminal.key_ms(b"G");
        terminal.settled_ms();
        table.add(
            format!("{machines} Machines: bytes of another page, 200x50"),
            (terminal.bytes() - page).to_string(),
        );
        for rate in RATES {
            measure_rate(runtime, &mut terminal, rate, &clients, &names, sizes, table);
        }
    }
}

fn measure_rate(
    runtime: &Runtime,
    terminal: &mut Terminal,
    rate: u64,
    clients: &[Client],
    names: &Arc<Vec<(String, String)>>,
    sizes: &Sizes,
    table: &mut Table,
) {
    let written = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for client in clients {
        let period = Duration::from_micros(1_000_000 * WRITERS / rate);
        writers.spawn_on(write(client.clone(), names.clone(), written.clone(), period), runtime.handle());
    }
    std::thread::sleep(sizes.idle / 5);
    let pid = terminal.child.process_id().expect("a process");
    let (ticks, bytes, changes) = (cpu_ticks(pid), terminal.bytes(), written.load(Ordering::Relaxed));
    let start = Instant::now();
    std::thread::sleep(sizes.idle);
    let seconds = start.elapsed().as_secs_f64();
    let used = (cpu_ticks(pid) - ticks) as f64 / seconds;
    let real = (written.load(Ordering::Relaxed) - changes) as f64 / seconds;
    let name = format!("{} Machines, {real:.0} changes/s", names.len());
    table.add(format!("{name}: CPU"), format!("{used:.1} % of a core"));
    table.add(format!("{name}: bytes/s"), format!("{:.0}", (terminal.bytes() - bytes) as f64 / seconds));
    let count = sizes.gets.clamp(10, 100);
    let keys: Vec<f64> = (0..count).map(|i| terminal.key_ms(if i % 2 == 0 { b"k" } else { b"j" })).collect();
    let (half, slowest) = (percentile(&keys, 50), percentile(&keys, 99));
    table.add(format!("{name}: key to bytes p50, p99"), format!("{half:.1}, {slowest:.1} ms"));
    table.add(format!("{name}: resident"), format!("{} MB", resident_mb(pid)));
    runtime.block_on(writers.shutdown());
}

fn machines(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource())
}

fn resource() -> ApiResource {
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Machine");
    ApiResource::from_gvk_with_plural(&gvk, "machines")
}

/// Namespace and name of the Machines.
async fn machines_out_of_sight(client: &Client, count: usize) -> Vec<(String, String)> {
    let mut params = ListParams::default().limit(5_000);
    let mut names = Vec::with_capacity(count);
    loop {
        let page = machines(client).list_metadata(&params).await.expect("a page");
        names.extend(page.items.iter().map(|m| (m.namespace().unwrap_or_default(), m.name_any())));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return names,
        }
    }
}

/// Writes to one status after the other, one in each period.
async fn write(
    client: Client,
    names: Arc<Vec<(String, String)>>,
    written: Arc<AtomicUsize>,
    period: Duration,
) {
    let mut ticks = tokio::time::interval(period);
    loop {
        ticks.tick().await;
        let turn = written.fetch_add(1, Ordering::Relaxed);
        // A stride that has no factor in common with a round number visits all of them.
        let (namespace, name) = &names[turn * 7_919 % names.len()];
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource());
        let patch = Patch::Merge(json!({ "status": { "failureDomain": format!("zone-{turn}") } }));
        let answer = api.patch_status(name, &PatchParams::default(), &patch).await;
        answer.expect("a patch");
    }
}
