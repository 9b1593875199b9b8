//! What a key costs on lists over a large fleet, from the key to the picture as cells: opening a list, each letter of a filter,
//! moving, other orders, the matrix of conditions; and what a batch of changes costs while a list is open. No server and no
//! terminal take part.
//!
//!   cargo bench --bench lists               100,000 Machines in 1,000 clusters, one in a hundred not well
//!   cargo bench --bench lists -- 10000      another size
//!
//! Without `--bench` (as `cargo test` runs it) the fleet is tiny: it then proves that the script works and measures nothing.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a script for people")]

#[path = "../tests/support/fleet_fixture/mod.rs"]
#[allow(dead_code, unused_imports, clippy::too_many_arguments, reason = "tests use the rest")]
mod fleet_fixture;

use std::time::{Duration, Instant};

use capi_types::condition::Status;
use capstan_dashboard::fleet::Delta;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::script::{draw, press};
use capstan_dashboard::tui::{Tier, update::update};
use ratatui::layout::Rect;

/// What the program itself allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FULL: u32 = 100_000;
const TINY: u32 = 200;
/// Of so many Machines one is not well.
const FAULT_EVERY: usize = 100;
const MACHINES_OF_CLUSTER: u32 = 100;
const ROUNDS: usize = 9;

/// What is done first, untimed, and then the keys that are timed, each for itself.
const SCENES: [(&str, &str, &[&str]); 12] = [
    ("open :machines", "0 : \"machines\"", &["enter"]),
    ("move", "0 \":machines\" enter", &["j", "j", "pagedown", "k", "G", "g"]),
    ("filter, a name", "0 \":machines\" enter /", &["\"0\"", "\"4\"", "\"2\"", "\"-\"", "\"m\"", "\"d\""]),
    ("filter, a word of WHY", "0 \":machines\" enter /", &["\"k\"", "\"u\"", "\"b\"", "\"e\"", "\"l\""]),
    ("filter, a field", "0 \":machines\" enter / \"version:\"", &["\"1\"", "\".\"", "\"3\"", "\"5\""]),
    (
        "filter, an expression",
        "0 \":machines\" enter / \"~\"",
        &["\"4\"", "\"[\"", "\"2\"", "\"-\"", "\"5\"", "\"]\""],
    ),
    ("filter, a condition", "0 \":machines\" enter /", &["\"NodeHealthy=\"", "\"F\"", "\"a\""]),
    ("clear a filter", "0 \":machines\" enter / \"42\" enter", &["esc"]),
    ("order by name, by since", "0 \":machines\" enter", &["S", "S", "S"]),
    ("order by version", "0 \":machines\" enter : \"sort version\"", &["enter"]),
    ("matrix", "0 : \"conditions\"", &["enter", "j", "G"]),
    ("one condition", "0 : \"condition NodeHealthy\"", &["enter", "j", "G"]),
];

fn fleet(machines: u32) -> Vec<Delta> {
    let clusters = (machines / MACHINES_OF_CLUSTER).max(2);
    let mut deltas = fleet_fixture::large(clusters, machines / clusters);
    let mut seen = 0;
    for delta in &mut deltas {
        let Delta::Upsert(row) = delta else { continue };
        if row.machine().is_none() {
            continue;
        }
        seen += 1;
        if seen % FAULT_EVERY == 0 {
            break_node(delta);
        }
    }
    deltas
}

/// Its kubelet is silent.
fn break_node(delta: &mut Delta) {
    let Delta::Upsert(row) = delta else { return };
    let mut broken = row.as_ref().clone();
    for condition in &mut broken.conditions {
        if condition.type_.as_ref() == "NodeHealthy" {
            let mut text = condition.text.as_ref().clone();
            (text.status, text.reason) = (Status::False, "NodeNotHealthy".into());
            text.message = "* Node.Ready: Kubelet stopped posting node status.".into();
            condition.text = text.into();
        }
    }
    broken.resource_version += 1;
    *delta = Delta::Upsert(broken.into());
}

fn model(deltas: Vec<Delta>) -> Model {
    let look = Look::load("default", "default", Tier::Ansi16, false, None, command::check).expect("shipped");
    let mut model = Model::new(Session::default(), look, Rect::new(0, 0, 200, 50), fleet_fixture::now());
    update(&mut model, Msg::Fleet(deltas));
    model.now += chrono::Duration::minutes(1);
    update(&mut model, Msg::Tick);
    draw(&mut model);
    model
}

fn timed(model: &mut Model, keys: &str) -> Duration {
    let start = Instant::now();
    press(model, keys).expect("keys that exist");
    draw(model);
    start.elapsed()
}

fn print(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("{name:<28} {:>8.2} {:>8.2} {:>8.2}", at(50), at(99), at(100));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let asked = arguments.iter().find_map(|argument| argument.parse().ok());
    let machines = asked.unwrap_or(if is_bench { FULL } else { TINY });
    let deltas = fleet(machines);
    let batch: Vec<Delta> = deltas
        .iter()
        .filter(|delta| matches!(delta, Delta::Upsert(row) if row.machine().is_some()))
        .step_by(FAULT_EVERY + 1)
        .take(100)
        .cloned()
        .collect();
    let mut model = model(deltas);
    println!("{machines} Machines, ms           p50      p99      max");
    let mut all = Vec::new();
    for (name, before, keys) in SCENES {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            press(&mut model, "esc esc").expect("keys that exist");
            press(&mut model, before).expect("keys that exist");
            draw(&mut model);
            times.extend(keys.iter().map(|key| timed(&mut model, key)));
            press(&mut model, "esc esc").expect("keys that exist");
        }
        all.extend(times.iter().copied());
        print(name, &mut times);
    }
    print("all keys", &mut all);
    press(&mut model, "0 \":machines\" enter / \"kub\" enter").expect("keys that exist");
    draw(&mut model);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let mut changed = batch.clone();
        changed.iter_mut().for_each(break_node);
        for batch in [changed, batch.clone()] {
            update(&mut model, Msg::Fleet(batch));
            let start = Instant::now();
            draw(&mut model);
            times.push(start.elapsed());
        }
    }
    print("picture after 100 changes", &mut times);
}
