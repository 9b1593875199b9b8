//! The dashboard: first frame, a full list, keys, and what it costs when nothing happens and when something seen changes.

use kube::Client;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::Sizes;
use crate::process::{Server, Terminal, cpu_ticks, resident_mb};
use crate::table::{Table, median, percentile};

/// What is looked for: letters that many names have, and in the end few.
const WANTED: &[u8] = b"md0-42";

/// Keys pressed on a screen.
const KEYS: usize = 100;

/// The dashboard under measurement, and the server behind it.
struct Measured<'a> {
    runtime: &'a Runtime,
    client: Client,
    terminal: Terminal,
    sizes: &'a Sizes,
    table: &'a mut Table,
}

pub fn measure(runtime: &Runtime, machines: usize, sizes: &Sizes, table: &mut Table) {
    let clusters = (machines / 100).max(2);
    let sample = format!("synthetic:clusters={clusters},machines={machines}");
    let server = Server::start("memory", &["--no-engine", "--sample", &sample]);
    let home = tempfile::tempdir().expect("a folder");
    let kubeconfig = server.kubeconfig().display().to_string();
    let (mut first, mut full) = (Vec::new(), Vec::new());
    let mut terminal = None;
    for _ in 0..sizes.repeats {
        drop(terminal.take());
        let running = Terminal::start(&["--kubeconfig", &kubeconfig, "-A"], home.path());
        first.push(running.first_frame_ms());
        full.push(running.settled_ms());
        terminal = Some(running);
    }
    let name = format!("{machines} Machines");
    table.add(format!("{name}: first frame"), format!("{:.0} ms", median(first)));
    table.add(format!("{name}: everything listed"), format!("{:.0} ms", median(full)));
    let terminal = terminal.expect("at least one run");
    let client = runtime.block_on(server.client());
    let mut measured = Measured { runtime, client, terminal, sizes, table };
    // So wide a terminal has the pane that follows the cursor.
    measured.screen(&format!("{name}, fleet and pane"), "Cluster", "workers");
    measured.find(&name);
    // The first of the clusters that roll.
    measured.terminal.key_ms(b"R");
    measured.terminal.key_ms(b"2");
    measured.screen(&format!("{name}, rollout"), "MachineDeployment", "");
    table.add(format!("{name}: server resident"), format!("{} MB", server.resident_mb()));
}

impl Measured<'_> {
    /// What the open screen costs: when somebody is at the keys, when nobody is, and when an object on it changes. `counters`
    /// says where the counters of a `kind` are in its status.
    fn screen(&mut self, name: &str, kind: &str, counters: &str) {
        let pid = self.terminal.child.process_id().expect("a process");
        self.terminal.settled_ms();
        self.table.add(format!("{name}: resident"), format!("{} MB", resident_mb(pid)));
        let count = if self.sizes.repeats > 1 { KEYS } else { 4 };
        let times: Vec<f64> = (0..count).map(|i| self.terminal.key_ms(&b"jk"[i % 2..=i % 2])).collect();
        let (half, slowest) = (percentile(&times, 50), percentile(&times, 99));
        self.table.add(format!("{name}: key to bytes p50, p99"), format!("{half:.1}, {slowest:.1} ms"));
        self.idle(name, pid);
        self.updates(name, kind, counters);
    }

    fn idle(&mut self, name: &str, pid: u32) {
        self.terminal.settled_ms();
        let asked = self.requests();
        let (bytes, ticks) = (self.terminal.bytes(), cpu_ticks(pid));
        std::thread::sleep(self.sizes.idle);
        let seconds = self.sizes.idle.as_secs_f64();
        let used = (cpu_ticks(pid) - ticks) as f64 / seconds;
        let written = self.terminal.bytes() - bytes;
        // One of them was our own question.
        let asked = (self.requests() - asked).saturating_sub(1);
        self.table.add(format!("{name}: idle CPU"), format!("{used:.2} % of a core"));
        let what = format!("{name}: idle bytes, requests in {seconds:.0} s");
        self.table.add(what, format!("{written}, {asked}"));
    }

    /// Requests that the server has answered.
    fn requests(&self) -> usize {
        let request = http::Request::get("/metrics").body(Vec::new()).expect("a request");
        let text = self.runtime.block_on(self.client.request_text(request)).expect("metrics");
        let counts = text.lines().filter(|line| line.starts_with("apiserver_request_total{"));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as usize
    }

    /// One counter of an object on the screen changes, again and again.
    fn updates(&mut self, name: &str, kind: &str, counters: &str) {
        let Some(cluster) = self.cluster_on_screen() else { return };
        let api = self.api(kind);
        let of_cluster = format!("cluster.x-k8s.io/cluster-name={}", cluster.name_any());
        let changed: Vec<DynamicObject> = if kind == "Cluster" {
            vec![cluster]
        } else {
            let params = ListParams::default().labels(&of_cluster);
            self.runtime.block_on(api.list(&params)).expect("a list").items.into_iter().take(1).collect()
        };
        let mut bytes = Vec::new();
        for turn in 0..2 * self.sizes.repeats {
            self.terminal.settled_ms();
            let before = self.terminal.bytes();
            for object in &changed {
                let api: Api<DynamicObject> = Api::namespaced_with(
                    self.client.clone(),
                    &object.namespace().unwrap_or_default(),
                    &resource(kind),
                );
                let counts = json!({ "availableReplicas": turn % 2, "upToDateReplicas": turn % 2 });
                let status = if counters.is_empty() { counts } else { json!({ counters: counts }) };
                let patch = Patch::Merge(json!({ "status": status }));
                let (name, params) = (object.name_any(), PatchParams::default());
                self.runtime.block_on(api.patch_status(&name, &params, &patch)).expect("a patch");
            }
            self.terminal.settled_ms();
            bytes.push((self.terminal.bytes() - before) as f64);
        }
        self.table.add(format!("{name}: bytes of an update"), format!("{:.0}", median(bytes)));
    }

    fn cluster_on_screen(&self) -> Option<DynamicObject> {
        let clusters =
            self.runtime.block_on(self.api("Cluster").list(&ListParams::default())).expect("a list");
        let text = self.terminal.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        clusters.items.into_iter().find(|cluster| words.contains(&cluster.name_any().as_str()))
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(kind))
    }

    /// Any object by some letters of its name: what each letter costs.
    fn find(&mut self, name: &str) {
        let mut letters: Vec<Vec<f64>> = vec![Vec::new(); WANTED.len()];
        for _ in 0..self.sizes.repeats {
            self.terminal.key_ms(b"\x10");
            for (times, letter) in letters.iter_mut().zip(WANTED.chunks(1)) {
                times.push(self.terminal.key_ms(letter));
            }
            self.terminal.key_ms(b"\x1b");
            self.terminal.settled_ms();
        }
        let times: Vec<String> = letters.into_iter().map(|times| format!("{:.1}", median(times))).collect();
        self.table.add(format!("{name}: find, letter by letter"), format!("{} ms", times.join(", ")));
    }
}

fn resource(kind: &str) -> ApiResource {
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind);
    ApiResource::from_gvk_with_plural(&gvk, &format!("{}s", kind.to_lowercase()))
}

pub fn measure_demo(sizes: &Sizes, table: &mut Table) {
    let home = tempfile::tempdir().expect("a folder");
    let first =
        (0..sizes.repeats).map(|_| Terminal::start(&["demo"], home.path()).first_frame_ms()).collect();
    table.add("capstan demo: first frame", format!("{:.0} ms", median(first)));
}
