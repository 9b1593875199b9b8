//! The load script: measures the real binary as separate processes and prints one table of medians.
//!
//!   cargo bench --bench load                 everything (minutes)
//!   cargo bench --bench load -- server       only the API server
//!   cargo bench --bench load -- dashboard    only the dashboard
//!
//! Without `--bench` (as `cargo test` runs it) sizes are tiny: it then proves that the script works and
//! measures nothing. All traffic stays on loopback, bounded in count and time.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a script for people")]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_capstan");
const PATIENCE: Duration = Duration::from_secs(180);
/// A screen that did not change for this long has everything.
const QUIET: Duration = Duration::from_millis(1500);

/// How much of everything.
struct Sizes {
    creates: usize,
    clients: usize,
    gets: usize,
    list: usize,
    watchers: usize,
    events: usize,
    fleets: &'static [usize],
    idle: Duration,
    repeats: usize,
}

const FULL: Sizes = Sizes {
    creates: 10_000,
    clients: 32,
    gets: 20_000,
    list: 5_000,
    watchers: 100,
    events: 500,
    fleets: &[5_000, 100_000],
    idle: Duration::from_secs(10),
    repeats: 5,
};
const TINY: Sizes = Sizes {
    creates: 50,
    clients: 4,
    gets: 50,
    list: 20,
    watchers: 3,
    events: 5,
    fleets: &[20],
    idle: Duration::from_millis(200),
    repeats: 1,
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let named = |part: &str| words.iter().any(|w| w == part);
    let sizes = if named("--bench") { FULL } else { TINY };
    let wanted = |part: &str| named(part) || !(named("server") || named("dashboard"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut table = Table::default();
    if wanted("server") {
        runtime.block_on(server(&sizes, &mut table));
    }
    if wanted("dashboard") {
        for machines in sizes.fleets {
            dashboard(*machines, &sizes, &mut table);
        }
        demo(&sizes, &mut table);
    }
    table.print();
}

#[derive(Default)]
struct Table(Vec<(String, String)>);

impl Table {
    fn add(&mut self, what: impl Into<String>, figure: impl Into<String>) {
        self.0.push((what.into(), figure.into()));
    }

    fn print(&self) {
        let width = self.0.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
        for (what, figure) in &self.0 {
            println!("{what:width$}  {figure}");
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A `capstan standalone --headless` of its own, killed when dropped.
struct Server {
    child: Child,
    kubeconfig: PathBuf,
    _folder: TempDir,
}

impl Server {
    fn start(store: &str, extra: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = folder.path().join("kubeconfig");
        let child = Command::new(BINARY)
            .args(["standalone", "--headless", "--listen", "127.0.0.1:0", "--store", store, "--data-dir"])
            .arg(folder.path().join("data"))
            .arg("--kubeconfig-out")
            .arg(&kubeconfig)
            .args(extra)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        wait_for("the server's kubeconfig", || kubeconfig.exists());
        Self { child, kubeconfig, _folder: folder }
    }

    async fn client(&self) -> Client {
        let config = Kubeconfig::read_from(&self.kubeconfig).expect("a kubeconfig");
        let config =
            Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.expect("a config");
        Client::try_from(config).expect("a client")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("payload".to_owned(), "x".repeat(1024))].into());
    map
}

/// Runs `count` calls on one task per client; calls per second.
async fn rate<F, R>(clients: &[Client], count: usize, call: F) -> f64
where
    F: Fn(Api<ConfigMap>, usize) -> R + Clone + Send + 'static,
    R: Future<Output = ()> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut tasks = Vec::new();
    for client in clients {
        let (api, next, call) = (Api::default_namespaced(client.clone()), next.clone(), call.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return;
                }
                call(api.clone(), index).await;
            }
        }));
    }
    for task in tasks {
        task.await.expect("the calls succeed");
    }
    count as f64 / start.elapsed().as_secs_f64()
}

async fn server(sizes: &Sizes, table: &mut Table) {
    let server = Server::start("disk", &["--no-engine"]);
    let mut clients = Vec::new();
    for _ in 0..sizes.clients {
        clients.push(server.client().await);
    }
    let creates = rate(&clients, sizes.creates, |api, index| async move {
        api.create(&PostParams::default(), &config_map(&format!("c-{index}"))).await.expect("a creation");
    });
    table.add(format!("durable creates/s, {} clients", sizes.clients), format!("{:.0}", creates.await));
    let modulo = sizes.creates;
    let gets = rate(&clients, sizes.gets, move |api, index| async move {
        api.get(&format!("c-{}", index % modulo)).await.expect("a read");
    });
    table.add(format!("gets/s, {} clients", sizes.clients), format!("{:.0}", gets.await));
    // What changes, then the same again.
    for (what, divisor) in
        [("applies that change something/s", 1), ("applies that change nothing/s", sizes.gets)]
    {
        let applies = rate(&clients, sizes.creates, move |api, index| async move {
            let turn = (index / modulo.min(500) / divisor).to_string();
            let mut map = config_map(&format!("c-{}", index % modulo.min(500)));
            map.data = Some([("turn".to_owned(), turn)].into());
            let name = map.metadata.name.clone().unwrap_or_default();
            api.patch(&name, &PatchParams::apply("load").force(), &Patch::Apply(&map))
                .await
                .expect("an apply");
        });
        table.add(format!("{what}, {} clients", sizes.clients), format!("{:.0}", applies.await));
    }
    let api: Api<ConfigMap> = Api::default_namespaced(clients[0].clone());
    let mut times = Vec::new();
    for _ in 0..sizes.repeats {
        let start = Instant::now();
        let params = ListParams::default().limit(u32::try_from(sizes.list).expect("a page"));
        let page = api.list(&params).await.expect("a list");
        assert_eq!(page.items.len(), sizes.list.min(sizes.creates));
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    table.add(format!("list of {} (1 kB each)", sizes.list), format!("{:.0} ms", median(times)));
    fan_out(&server, sizes, table).await;
    table.add("server resident memory after that", format!("{} MB", resident_mb(server.child.id())));
}

/// One writer, many watchers, until every watcher has seen every change.
async fn fan_out(server: &Server, sizes: &Sizes, table: &mut Table) {
    let writer: Api<ConfigMap> = Api::default_namespaced(server.client().await);
    let first = writer.create(&PostParams::default(), &config_map("watched")).await.expect("a creation");
    let version = first.metadata.resource_version.expect("a version");
    let mut tasks = Vec::new();
    for _ in 0..sizes.watchers {
        let api: Api<ConfigMap> = Api::default_namespaced(server.client().await);
        tasks.push(tokio::spawn(count_events(api, version.clone(), sizes.events)));
    }
    let start = Instant::now();
    for index in 0..sizes.events {
        let patch = serde_json::json!({"data": {"turn": index.to_string()}});
        writer.patch("watched", &PatchParams::default(), &Patch::Merge(patch)).await.expect("a patch");
    }
    for task in tasks {
        task.await.expect("every watcher sees every change");
    }
    let seconds = start.elapsed().as_secs_f64();
    table.add(
        format!("patches/s with {} watchers", sizes.watchers),
        format!("{:.0}", sizes.events as f64 / seconds),
    );
    let delivered = (sizes.events * sizes.watchers) as f64;
    table.add("watch events delivered/s", format!("{:.0}", delivered / seconds));
}

async fn count_events(api: Api<ConfigMap>, version: String, expected: usize) {
    let params = WatchParams::default().fields("metadata.name=watched");
    let mut events = api.watch(&params, &version).await.expect("a watch").boxed();
    let mut seen = 0;
    while seen < expected {
        match events.next().await.expect("the watch goes on").expect("an event") {
            WatchEvent::Modified(_) => seen += 1,
            WatchEvent::Bookmark(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// A program in a pseudo-terminal: what it shows and how many bytes it wrote.
struct Terminal {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    writer: Box<dyn std::io::Write + Send>,
    screen: Arc<parking_lot::Mutex<vt100::Parser>>,
    bytes: Arc<AtomicUsize>,
    started: Instant,
}

impl Terminal {
    fn start(args: &[&str], home: &Path) -> Self {
        let size = PtySize { rows: 50, cols: 200, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(BINARY);
        command.args(args);
        command.env("TERM", "xterm-256color");
        command.env("HOME", home);
        let started = Instant::now();
        let child = pair.slave.spawn_command(command).expect("the program starts");
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let writer = pair.master.take_writer().expect("a writer");
        let screen = Arc::new(parking_lot::Mutex::new(vt100::Parser::new(50, 200, 0)));
        let bytes = Arc::new(AtomicUsize::new(0));
        let (shown, counted) = (screen.clone(), bytes.clone());
        std::thread::spawn(move || {
            let _master = pair.master;
            let mut buffer = [0; 65_536];
            while let Ok(n) = reader.read(&mut buffer) {
                if n == 0 {
                    return;
                }
                counted.fetch_add(n, Ordering::Relaxed);
                shown.lock().process(&buffer[..n]);
            }
        });
        Self { child, writer, screen, bytes, started }
    }

    /// Milliseconds from the start until the screen shows anything.
    fn first_frame_ms(&self) -> f64 {
        wait_for("the first frame", || !self.screen.lock().screen().contents().trim().is_empty());
        self.started.elapsed().as_secs_f64() * 1000.0
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Milliseconds from writing a key until the next bytes come back. Keys of a person are further
    /// apart than frames.
    fn key_ms(&mut self, key: &[u8]) -> f64 {
        std::thread::sleep(Duration::from_millis(50));
        let before = self.bytes();
        let start = Instant::now();
        self.writer.write_all(key).expect("the key is written");
        self.writer.flush().expect("the key is sent");
        while self.bytes() == before && start.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        start.elapsed().as_secs_f64() * 1000.0
    }

    /// Waits until the screen is quiet; milliseconds from the start until its last change.
    fn settled_ms(&self) -> f64 {
        let (mut last, mut since) = (self.bytes(), Instant::now());
        wait_for("a quiet screen", || {
            if self.bytes() != last {
                (last, since) = (self.bytes(), Instant::now());
            }
            since.elapsed() > QUIET
        });
        since.duration_since(self.started).as_secs_f64() * 1000.0
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dashboard(machines: usize, sizes: &Sizes, table: &mut Table) {
    let clusters = (machines / 100).max(2);
    let sample = format!("synthetic:clusters={clusters},machines={machines}");
    let server = Server::start("memory", &["--sample", &sample]);
    let home = tempfile::tempdir().expect("a folder");
    let kubeconfig = server.kubeconfig.display().to_string();
    let (mut first, mut full) = (Vec::new(), Vec::new());
    let mut terminal = None;
    for _ in 0..sizes.repeats {
        drop(terminal.take());
        let running = Terminal::start(&["--kubeconfig", &kubeconfig, "-A"], home.path());
        first.push(running.first_frame_ms());
        full.push(running.settled_ms());
        terminal = Some(running);
    }
    let mut terminal = terminal.expect("at least one run");
    let name = format!("{machines} Machines");
    table.add(format!("{name}: first frame"), format!("{:.0} ms", median(first)));
    table.add(format!("{name}: everything listed"), format!("{:.0} ms", median(full)));
    let pid = terminal.child.process_id().expect("a process");
    table.add(format!("{name}: dashboard resident"), format!("{} MB", resident_mb(pid)));
    let keys: Vec<f64> = (0..20).map(|i| terminal.key_ms(if i % 2 == 0 { b"j" } else { b"k" })).collect();
    table.add(format!("{name}: key to bytes"), format!("{:.1} ms", median(keys)));
    terminal.settled_ms();
    let (bytes, ticks) = (terminal.bytes(), cpu_ticks(pid));
    std::thread::sleep(sizes.idle);
    let seconds = sizes.idle.as_secs_f64();
    let used = (cpu_ticks(pid) - ticks) as f64 / seconds;
    table.add(format!("{name}: idle CPU"), format!("{used:.2} % of a core"));
    table.add(format!("{name}: idle bytes in {seconds:.0} s"), (terminal.bytes() - bytes).to_string());
    table.add(format!("{name}: server resident"), format!("{} MB", resident_mb(server.child.id())));
}

fn demo(sizes: &Sizes, table: &mut Table) {
    let home = tempfile::tempdir().expect("a folder");
    let first =
        (0..sizes.repeats).map(|_| Terminal::start(&["demo"], home.path()).first_frame_ms()).collect();
    table.add("capstan demo: first frame", format!("{:.0} ms", median(first)));
}

fn resident_mb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// User and system time in hundredths of a second.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}
