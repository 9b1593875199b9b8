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
    /// Workers that are rolled in place, and by replacement.
    updated: u64,
    /// How much faster than real ones that engine's waits are.
    time_scale: &'static str,
    /// Machines of the fleet that is planned.
    planned: usize,
    idle: Duration,
    repeats: usize,
}

const PARTS: [&str; 8] = ["server", "dashboard", "events", "link", "engine", "growth", "in-place", "plan"];

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
        pools: vec![Fleet { clusters: 1, workers: 200 }, Fleet { clusters: 1, workers: 1_000 }],
        clusters: vec![Fleet { clusters: 200, workers: 9 }, Fleet { clusters: 1_000, workers: 9 }],
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
        pools: vec![Fleet { clusters: 1, workers: 2 }, Fleet { clusters: 1, workers: 4 }],
        clusters: vec![Fleet { clusters: 2, workers: 1 }],
        updated: 4,
        time_scale: "100",
        planned: 20,
        idle: Duration::from_millis(200),
        repeats: 1,
    }
}

impl Sizes {
    /// So many workers for the part `growth`, in one cluster and nine to a cluster.
    fn grow_by(&mut self, workers: &[u64]) {
        let (one, many) = (
            |n: &u64| Fleet { clusters: 1, workers: *n },
            |n: &u64| Fleet { clusters: (n / 9).max(1), workers: 9 },
        );
        self.pools = workers.iter().map(one).collect();
        self.clusters = workers.iter().map(many).collect();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let named = |part: &str| words.iter().any(|w| w == part);
    let mut sizes = if named("--bench") { full() } else { tiny() };
    let workers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if !workers.is_empty() {
        sizes.grow_by(&workers);
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
