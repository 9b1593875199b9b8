//! The processes under measurement: servers, dashboards in a pseudo-terminal, and what the kernel says
//! about them.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_capstan");
const PATIENCE: Duration = Duration::from_secs(300);
/// A screen that did not change for this long has everything.
const QUIET: Duration = Duration::from_millis(1500);

/// A `capstan standalone --headless` of its own, killed when dropped.
pub struct Server {
    child: Child,
    args: Vec<String>,
    folder: TempDir,
}

impl Server {
    pub fn start(store: &str, extra: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut args = vec!["--store".to_owned(), store.to_owned()];
        args.extend(extra.iter().map(|word| (*word).to_owned()));
        let child = serve(folder.path(), &args);
        Self { child, args, folder }
    }

    /// kill -9 and a new process on the same data; seconds from its start until it is ready.
    pub fn restart_after_kill(&mut self) -> f64 {
        self.child.kill().expect("the server is killed");
        self.child.wait().expect("the server is gone");
        std::fs::remove_file(self.kubeconfig()).expect("the old kubeconfig is removed");
        let start = Instant::now();
        self.child = serve(self.folder.path(), &self.args);
        start.elapsed().as_secs_f64()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn resident_mb(&self) -> u64 {
        resident_mb(self.pid())
    }

    pub async fn client(&self) -> Client {
        let config = Kubeconfig::read_from(self.kubeconfig()).expect("a kubeconfig");
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

/// A `capstan engine` with simulated infrastructure, killed when dropped.
pub struct Engine(Child);

impl Engine {
    pub fn start(kubeconfig: &Path, time_scale: &str) -> Self {
        let child = Command::new(BINARY)
            .args(["engine", "--simulate-infrastructure", "--time-scale", time_scale, "--kubeconfig"])
            .arg(kubeconfig)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the engine starts");
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn resident_mb(&self) -> u64 {
        resident_mb(self.pid())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server and returns once it is ready: the kubeconfig is written after the port is open.
fn serve(folder: &Path, args: &[String]) -> Child {
    let kubeconfig = folder.join("kubeconfig");
    let child = Command::new(BINARY)
        .args(["standalone", "--headless", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.join("data"))
        .arg("--kubeconfig-out")
        .arg(&kubeconfig)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server starts");
    wait_for("the server's kubeconfig", || kubeconfig.exists());
    child
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A program in a pseudo-terminal: what it shows and how many bytes it wrote.
pub struct Terminal {
    pub child: Box<dyn portable_pty::Child + Send + Sync>,
    writer: Box<dyn std::io::Write + Send>,
    screen: Arc<parking_lot::Mutex<vt100::Parser>>,
    bytes: Arc<AtomicUsize>,
    started: Instant,
}

impl Terminal {
    pub fn start(args: &[&str], home: &Path) -> Self {
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
    pub fn first_frame_ms(&self) -> f64 {
        wait_for("the first frame", || !self.screen.lock().screen().contents().trim().is_empty());
        self.started.elapsed().as_secs_f64() * 1000.0
    }

    /// What is on the screen.
    pub fn text(&self) -> String {
        self.screen.lock().screen().contents()
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Milliseconds from writing a key until the next bytes come back. Keys of a person are further
    /// apart than frames.
    pub fn key_ms(&mut self, key: &[u8]) -> f64 {
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
    pub fn settled_ms(&self) -> f64 {
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

pub fn resident_mb(pid: u32) -> u64 {
    memory_mb(pid, "VmRSS:")
}

pub fn peak_resident_mb(pid: u32) -> u64 {
    memory_mb(pid, "VmHWM:")
}

fn memory_mb(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// User and system time in hundredths of a second.
pub fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}
