//! How long a forecast takes: the upgrade of the workers of large Clusters, and what many runs by chance cost.
//!
//!   cargo bench --bench simulate             1,000 Machines in 1 Cluster; 3,000, 10,000 and 30,000 in Clusters of 1,000
//!   cargo bench --bench simulate -- 500      Clusters of another size
//!
//! Each Cluster is upgraded with a surge of a tenth and forecast as the command does it: as usual, short and long. Without
//! `--bench` (as `cargo test` runs it) sizes are tiny: it then proves that the script works and measures nothing.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a script for people")]

use std::hint::black_box;
use std::time::Instant;

use capi_forecast::simulate::{End, Scenario, hunt, learn, simulate};
use capi_rules::observe::dump::Dump;
use capi_rules::observe::dump::document::Document;
use capi_types::key::ObjectKey;
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_worlds::samples::Sample;
use serde_json::{Value, json};

/// What the program itself allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FULL: usize = 1_000;
const TINY: usize = 20;
const RUNS: usize = 5;
/// Clusters of the fleets.
const FLEETS: [usize; 4] = [1, 3, 10, 30];
const SEEDS: u64 = 200;
/// Machines of the Cluster that is run many times.
const SMALL: usize = 10;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = args.iter().any(|arg| arg == "--bench");
    let asked = args.iter().find_map(|arg| arg.parse().ok());
    let size = asked.unwrap_or(if is_bench { FULL } else { TINY });
    let fleets = if is_bench { &FLEETS[..] } else { &FLEETS[..1] };
    let runs = if is_bench { RUNS } else { 1 };
    let now = parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
    let mut first = None;
    for clusters in fleets {
        let machines = clusters * size;
        let dump = upgraded(*clusters, machines, now);
        let took_ms =
            median((0..if machines > 5_000 { 1 } else { runs }).map(|_| run_ms(&dump, now)).collect());
        let exponent = first.map_or(String::new(), |(small, small_ms): (usize, f64)| {
            let exponent = (took_ms / small_ms).ln() / (machines as f64 / small as f64).ln();
            format!(", exponent {exponent:.2}")
        });
        first = first.or(Some((machines, took_ms)));
        println!(
            "{machines} Machines in {clusters} Clusters: {took_ms:.0} ms{exponent}, resident {:.0} MB",
            resident_mb()
        );
    }
    let dump = upgraded(1, SMALL, now);
    let key = dump.clusters.keys().next().expect("a Cluster").clone();
    let seeds = if is_bench { SEEDS } else { 3 };
    let start = Instant::now();
    let hunted = hunt(&dump, &key, &scenario(&dump), (seeds, 1), now).expect("runs");
    let rate = seeds as f64 / start.elapsed().as_secs_f64();
    println!("runs with faults of {SMALL} Machines: {rate:.0} a second, {} broken", hunted.broken.len());
}

/// Settled Clusters whose MachineDeployments are asked for another version.
fn upgraded(clusters: usize, machines: usize, now: Timestamp) -> Dump {
    let text = format!("synthetic:clusters={clusters},machines={machines}");
    let mut all: Vec<Value> = Sample::parse(&text).expect("a sample").objects(now).collect();
    for object in all.iter_mut().filter(|object| object["kind"] == "MachineDeployment") {
        let rolling = json!({"maxSurge": "10%", "maxUnavailable": 0});
        object["spec"]["rollout"] = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
        let version = object["spec"]["template"]["spec"]["version"].as_str().expect("a version").to_owned();
        // Another patch release, which no skew forbids.
        let (minor, _) = version.rsplit_once('.').expect("three parts");
        object["spec"]["template"]["spec"]["version"] = format!("{minor}.99").into();
        object["metadata"]["generation"] = 2.into();
    }
    Dump::new(all.into_iter().map(Document::from).collect())
}

fn scenario(dump: &Dump) -> Scenario {
    Scenario { timings: learn(dump).timings, ..Scenario::default() }
}

fn run_ms(dump: &Dump, now: Timestamp) -> f64 {
    let start = Instant::now();
    let simulation = black_box(simulate(dump, None::<&ObjectKey>, &scenario(dump), now));
    let took_ms = start.elapsed().as_secs_f64() * 1000.0;
    let settled = simulation.clusters.iter().filter(|one| one.ending == End::Settled).count();
    let rolled: usize = simulation.clusters.iter().map(|one| one.events.len()).sum();
    println!("  {settled} of {} settled, {rolled} events, {took_ms:.0} ms", simulation.clusters.len());
    took_ms
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}
