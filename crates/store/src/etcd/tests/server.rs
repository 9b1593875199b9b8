//! A real etcd for tests: its own folder, free ports, stopped when dropped. Must not know
//! capstan: the integration tests use this file too.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub struct Etcd {
    child: Child,
    dir: tempfile::TempDir,
    port: u16,
}

/// False, with a word, when the machine has no etcd.
pub fn is_installed() -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("etcd").is_file()));
    if !found {
        println!("skipped: there is no etcd on this machine (Debian package etcd-server)");
    }
    found
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// `None`: it ended at once, perhaps because another process took a port meanwhile.
fn spawn(dir: &Path, port: u16, extra: &[&str]) -> Option<Child> {
    let scheme = if extra.contains(&"--cert-file") { "https" } else { "http" };
    let client = format!("{scheme}://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{}", free_port());
    let mut child = Command::new("etcd")
        .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .args(extra)
        .arg("--data-dir")
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if is_ready(&mut child) {
        return Some(child);
    }
    let _ = child.wait();
    None
}

/// Waits until it serves clients; false when it ended instead.
fn is_ready(child: &mut Child) -> bool {
    let Some(stderr) = child.stderr.take() else { return true };
    let mut lines = BufReader::new(stderr).lines();
    let ready = lines
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains("serving") && line.contains("client") && !line.contains("stopped"));
    std::thread::spawn(move || lines.for_each(drop));
    ready
}

/// Three members of one etcd, with etcd's own times for elections.
pub struct Cluster {
    dirs: Vec<tempfile::TempDir>,
    /// For clients and for the other members, of each.
    ports: Vec<(u16, u16)>,
    children: Vec<Option<Child>>,
}

impl Cluster {
    pub fn start() -> Self {
        (0..5).find_map(|_| Self::try_start()).expect("three members did not start five times")
    }

    fn try_start() -> Option<Self> {
        let mut cluster = Self {
            dirs: (0..3).map(|_| tempfile::tempdir().unwrap()).collect(),
            ports: (0..3).map(|_| (free_port(), free_port())).collect(),
            children: vec![None, None, None],
        };
        // None is ready before most of them run.
        (0..3).for_each(|place| cluster.spawn(place));
        let ready = cluster.children.iter_mut().flatten().all(is_ready);
        ready.then_some(cluster)
    }

    fn spawn(&mut self, place: usize) {
        let (client, peer) = self.ports[place];
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peers: Vec<String> =
            (self.ports.iter().enumerate()).map(|(n, (_, peer))| format!("m{n}={}", url(*peer))).collect();
        let child = Command::new("etcd")
            .args(["--name", &format!("m{place}"), "--initial-cluster", &peers.join(",")])
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .arg("--data-dir")
            .arg(self.dirs[place].path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        self.children[place] = Some(child.unwrap());
    }

    pub fn endpoint(&self, place: usize) -> String {
        format!("127.0.0.1:{}", self.ports[place].0)
    }

    /// As `--store` takes it.
    pub fn address(&self) -> String {
        let endpoints: Vec<String> = (0..3).map(|place| self.endpoint(place)).collect();
        format!("etcd://{}", endpoints.join(","))
    }

    pub fn kill(&mut self, place: usize) {
        if let Some(mut child) = self.children[place].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn restart(&mut self, place: usize) {
        self.spawn(place);
        assert!(self.children[place].as_mut().is_some_and(is_ready), "member {place} did not come back");
    }

    pub fn pause(&self, place: usize) {
        self.signal(place, "-STOP");
    }

    pub fn resume(&self, place: usize) {
        self.signal(place, "-CONT");
    }

    fn signal(&self, place: usize, signal: &str) {
        let id = self.children[place].as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..3).for_each(|place| self.kill(place));
    }
}

impl Etcd {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(extra: &[&str]) -> Self {
        for _ in 0..5 {
            let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
            if let Some(child) = spawn(dir.path(), port, extra) {
                return Self { child, dir, port };
            }
        }
        panic!("etcd did not start five times");
    }

    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// As a crash of its machine would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A copy of its files, taken while it does not run.
    pub fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(self.dir.path(), copy.path());
        copy
    }

    /// Has the files of an earlier copy from its next start on.
    pub fn set_back(&mut self, copy: tempfile::TempDir) {
        self.dir = copy;
    }

    /// Starts it again with what it had written.
    pub fn restart(&mut self) {
        self.child = (0..5).find_map(|_| spawn(self.dir.path(), self.port, &[])).unwrap();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
