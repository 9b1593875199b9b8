//! The load script: measures the real binary as separate processes and prints one table of medians.
//!
//!   cargo bench --bench load                 everything (minutes)
//!   cargo bench --bench load -- server       only the API server
//!   cargo bench --bench load -- dashboard    only the dashboard
//!   cargo bench --bench load -- events       the dashboard while a fleet changes
//!   cargo bench --bench load -- link         the dashboard over a slow link
//!   cargo bench --bench load -- engine       only the engine over simulated machines
//!   cargo bench --bench load -- growth       the engine as a process: 200 and 1,000 Machines, 200 and 1,000 clusters
//!   cargo bench --bench load -- growth 200 1000      so many workers, in one cluster and nine to a cluster
//!   cargo bench --bench load -- scale 1000   so many clusters with 3 + 10 Machines, a dashboard beside them
//!   cargo bench --bench load -- in-place     a rollout in place beside one by replacement
//!   cargo bench --bench load -- plan         only `capstan plan`
//!
//! Without `--bench` (as `cargo test` runs it) sizes are tiny: it then proves that the script works and
//! measures nothing. All traffic stays on loopback, bounded in count and time.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a script for people"
)]

mod dashboard;
mod engine;
mod events;
mod growth;
mod in_place;
mod link;
mod plan;
mod process;
mod server;
mod table;

use std::time::Duration;

use growth::Fleet;

/// How much of everything.
struct Sizes {
    /// Machines of the small fleet.
    machines: usize,
    clients: usize,
    gets: usize,
    list: usize,
    watchers: usize,
    patches: usize,
    applies: usize,
    definitions: usize,
    /// Machines of the large fleet.
    many: usize,
    fleets: &'static [usize],
    /// Workers that the engine brings up.
    workers: u64,
    /// Workers of one cluster that an engine process brings up and rolls.
    pools: Vec<Fleet>,
    /// The same of many clusters.
    clusters: Vec<Fleet>,
    /// Clusters as people have them.
    scale: Fleet,
    /// Workers that are rolled in place, and by replacement.
    updated: u64,
    /// How much faster than real ones that engine's waits are.
    time_scale: &'static str,
    /// Machines of the fleet that is planned.
    planned: usize,
    idle: Duration,
    repeats: usize,
}

const PARTS: [&str; 9] =
    ["server", "dashboard", "events", "link", "engine", "growth", "scale", "in-place", "plan"];

/// Clusters with one control plane Machine.
fn growing(clusters: u64, workers: u64) -> Fleet {
    Fleet { clusters, control_planes: 1, workers }
}

fn full() -> Sizes {
    Sizes {
        machines: 10_000,
        clients: 32,
        gets: 20_000,
        list: 5_000,
        watchers: 100,
        patches: 1_000,
        applies: 5_000,
        definitions: 20,
        many: 100_000,
        fleets: &[10_000, 100_000],
        workers: 2_000,
        pools: vec![growing(1, 200), growing(1, 1_000)],
        clusters: vec![growing(200, 9), growing(1_000, 9)],
        scale: Fleet { clusters: 1_000, control_planes: 3, workers: 10 },
        updated: 1_000,
        time_scale: "1",
        planned: 50_000,
        idle: Duration::from_secs(10),
        repeats: 5,
    }
}

fn tiny() -> Sizes {
    Sizes {
        machines: 50,
        clients: 4,
        gets: 50,
        list: 20,
        watchers: 3,
        patches: 5,
        applies: 10,
        definitions: 1,
        many: 60,
        fleets: &[20],
        workers: 4,
        pools: vec![growing(1, 2), growing(1, 4)],
        clusters: vec![growing(2, 1)],
        scale: Fleet { clusters: 2, control_planes: 3, workers: 1 },
        updated: 4,
        time_scale: "100",
        planned: 20,
        idle: Duration::from_millis(200),
        repeats: 1,
    }
}

impl Sizes {
    /// So many workers for the part `growth`, in one cluster and nine to a cluster; so many clusters for the part `scale`.
    fn grow_by(&mut self, numbers: &[u64]) {
        self.pools = numbers.iter().map(|workers| growing(1, *workers)).collect();
        self.clusters = numbers.iter().map(|workers| growing((workers / 9).max(1), 9)).collect();
        self.scale.clusters = numbers.first().copied().unwrap_or(self.scale.clusters);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let named = |part: &str| words.iter().any(|w| w == part);
    let mut sizes = if named("--bench") { full() } else { tiny() };
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if !numbers.is_empty() {
        sizes.grow_by(&numbers);
    }
    let wanted = |part: &str| named(part) || !PARTS.iter().any(|part| named(part));
    let mut table = table::Table::default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if wanted("server") {
        runtime.block_on(server::measure(&sizes, &mut table));
    }
    if wanted("engine") {
        runtime.block_on(engine::measure(&sizes, &mut table));
    }
    if wanted("growth") {
        runtime.block_on(growth::measure(&sizes, &mut table));
    }
    if wanted("scale") {
        runtime.block_on(growth::measure_scale(sizes.scale, &sizes, &mut table));
    }
    if wanted("in-place") {
        runtime.block_on(in_place::measure(&sizes, &mut table));
    }
    if wanted("plan") {
        plan::measure(&sizes, &mut table);
    }
    if wanted("dashboard") {
        for machines in sizes.fleets {
            dashboard::measure(&runtime, *machines, &sizes, &mut table);
        }
        dashboard::measure_demo(&sizes, &mut table);
    }
    if wanted("events") {
        events::measure(&runtime, &sizes, &mut table);
    }
    if wanted("link") {
        link::measure(&runtime, &sizes, &mut table);
    }
    table.print();
}
