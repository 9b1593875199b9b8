//! The real binary as separate processes: a headless standalone server over TLS, and everything that
//! connects to it. Waits are for lines and objects, never for a clock.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use capi_types::cluster::Cluster;
use kube::Client;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};

pub const BINARY: &str = env!("CARGO_BIN_EXE_capstan");

/// A server of its own in a folder of its own; killed when dropped.
pub struct Standalone {
    child: Child,
    folder: PathBuf,
    /// Where it listens.
    pub address: String,
}

impl Standalone {
    pub fn start(folder: &std::path::Path, extra: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", folder, extra)
    }

    pub fn start_at(address: &str, folder: &std::path::Path, extra: &[&str]) -> Self {
        Self::start_by(Command::new(BINARY), address, folder, extra)
    }

    /// The command may be something that becomes the binary.
    pub fn start_by(command: Command, address: &str, folder: &std::path::Path, extra: &[&str]) -> Self {
        Self::served(Self::spawn(command, address, folder, extra), folder)
    }

    /// Only begins it.
    pub fn spawn(mut command: Command, address: &str, folder: &std::path::Path, extra: &[&str]) -> Child {
        command
            .args(["standalone", "--headless", "--listen", address, "--time-scale", "1000"])
            .arg("--data-dir")
            .arg(folder.join("data"))
            .arg("--kubeconfig-out")
            .arg(folder.join("kubeconfig"))
            .args(extra)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts")
    }

    /// Waits until the server that was begun serves.
    pub fn served(mut child: Child, folder: &std::path::Path) -> Self {
        let mut said = String::new();
        let stdout = child.stdout.take().expect("its output");
        BufReader::new(stdout).read_line(&mut said).expect("a line");
        let address = said.trim().strip_prefix("capstan serves the Kubernetes API on https://");
        let address = address.unwrap_or_else(|| panic!("it does not serve: {said:?}")).to_owned();
        Self { child, folder: folder.to_owned(), address }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// `capstan …` against this server.
    pub fn capstan(&self, args: &[&str]) -> Output {
        Command::new(BINARY)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args)
            .env("HOME", &self.folder)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .expect("the command runs")
    }

    pub fn says(&self, args: &[&str]) -> String {
        let output = self.capstan(args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    pub async fn clusters(&self) -> Api<Cluster> {
        Api::namespaced(self.client().await, "default")
    }

    pub async fn client(&self) -> Client {
        let config = Kubeconfig::read_from(self.kubeconfig()).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
            .await
            .expect("a config");
        Client::try_from(config).expect("a client")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failure(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_fleet_comes_up_scales_rolls_and_survives_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--sample", "healthy-ha"]);
    server.says(&["wait", "cluster/aurora", "--for=verdict=ok", "--timeout=120s"]);
    server.says(&["scale", "md/aurora-web", "--replicas", "4", "--yes"]);
    server.says(&["wait", "cluster/aurora", "--for=verdict=ok", "--timeout=120s"]);
    assert!(server.says(&["get", "md", "aurora-web", "-o", "yaml"]).contains("availableReplicas: 4"));
    let several = server.says(&["get", "kcp,mhc,md"]);
    let tables: Vec<&str> = several.split("\n\n").collect();
    let [planes, pools] = tables.as_slice() else {
        panic!("two tables, and none of what there is none of: {several}")
    };
    assert!(
        planes.contains("\nkubeadmcontrolplane.controlplane.cluster.x-k8s.io/aurora-control-plane "),
        "{several}"
    );
    assert!(
        pools.starts_with("NAME") && pools.contains("\nmachinedeployment.cluster.x-k8s.io/aurora-web "),
        "{several}"
    );
    let list = server.says(&["get", "kcp,md", "-o", "json"]);
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    let kinds: Vec<&str> =
        list["items"].as_array().expect("items").iter().filter_map(|o| o["kind"].as_str()).collect();
    assert_eq!(kinds, ["KubeadmControlPlane", "MachineDeployment", "MachineDeployment"]);

    // Mid-rollout, without a word.
    server.says(&["set-version", "kcp/aurora-control-plane", "--to", "v1.36.0", "--yes"]);
    server.kill();

    let server = Standalone::start(folder.path(), &[]);
    let condition = "--for=condition=RollingOut=False";
    server.says(&["wait", "kcp/aurora-control-plane", condition, "--timeout=120s"]);
    server.says(&["wait", "cluster/aurora", "--for=verdict=ok", "--timeout=120s"]);
    let machines = server.says(&["get", "machines", "-l", "cluster.x-k8s.io/control-plane"]);
    assert_eq!(machines.matches("v1.36.0").count(), 3, "{machines}");
    let described = server.capstan(&["describe", "cluster", "aurora", "--exit-status"]);
    assert_eq!(described.status.code(), Some(0));
    let tree = String::from_utf8_lossy(&described.stdout).into_owned();
    assert!(tree.contains("MachineDeployment default/aurora-web"), "{tree}");
}

#[tokio::test]
async fn a_store_belongs_to_one_process_and_its_files_to_one_person() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let viewer = folder.path().join("viewer").display().to_string();
    let server =
        Standalone::start(folder.path(), &["--no-engine", "--read-only-kubeconfig-out", viewer.as_str()]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
    assert!(read("viewer").contains(read("data/read-only.token").trim()));
    let second = Command::new(BINARY)
        .args(["standalone", "--headless", "--data-dir"])
        .arg(folder.path().join("data"))
        .output()
        .expect("it runs");
    let said = failure(&second);
    assert!(said.contains(&format!("process {}", server.child.id())), "{said}");
    for file in ["kubeconfig", "viewer", "data/store.redb", "data/ca.key", "data/admin.token"] {
        let mode = std::fs::metadata(folder.path().join(file)).expect(file).permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file}");
    }
    assert!(
        server
            .clusters()
            .await
            .list(&kube::api::ListParams::default())
            .await
            .expect("a list")
            .items
            .is_empty()
    );
}

#[test]
fn bad_input_gets_one_sentence_and_the_documented_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let mut command = Command::new(BINARY);
        command
            .args(args)
            .env("HOME", folder.path())
            .env_remove("KUBECONFIG")
            .env("TERM", "xterm")
            .stdin(Stdio::null());
        command.output().expect("it runs")
    };
    let bad = folder.path().join("bad.yaml");
    std::fs::write(&bad, "clusters: [").expect("a file");
    let dead = folder.path().join("dead.yaml");
    std::fs::write(
        &dead,
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
         users: [{name: u, user: {token: x}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n",
    )
    .expect("a file");
    let corrupt = folder.path().join("corrupt");
    std::fs::create_dir(&corrupt).expect("a folder");
    std::fs::set_permissions(&corrupt, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("a mode");
    std::fs::write(corrupt.join("store.redb"), "this is no database").expect("a file");
    let path = |p: &PathBuf| p.display().to_string();
    for (args, code, expected) in [
        (vec!["--no-such-flag".to_owned()], 2, "--no-such-flag"),
        (
            vec!["get".into(), "clusters".into(), "--kubeconfig".into(), "/does/not/exist".into()],
            1,
            "/does/not/exist",
        ),
        (vec!["get".into(), "clusters".into(), "--kubeconfig".into(), path(&bad)], 1, "bad.yaml"),
        (vec!["get".into(), "clusters".into()], 1, "no kubeconfig"),
        (
            vec![
                "get".into(),
                "clusters".into(),
                "--kubeconfig".into(),
                path(&dead),
                "--context".into(),
                "x".into(),
            ],
            1,
            "it has: c",
        ),
        (vec!["get".into(), "clusters".into(), "--kubeconfig".into(), path(&dead)], 1, "https://127.0.0.1:1"),
        (vec!["demo".into()], 1, "terminal"),
        (
            vec!["standalone".into(), "--headless".into(), "--data-dir".into(), path(&corrupt)],
            1,
            "store.redb",
        ),
        (
            vec!["standalone".into(), "--headless".into(), "--sample".into(), "nothing".into()],
            2,
            "healthy-ha",
        ),
        (
            vec!["standalone".into(), "--store".into(), "floppy".into()],
            2,
            "expected disk, memory or etcd://HOST:PORT",
        ),
        (
            vec![
                "standalone".into(),
                "--listen".into(),
                "0.0.0.0:0".into(),
                "--store".into(),
                "memory".into(),
            ],
            2,
            "loopback",
        ),
        (
            vec![
                "standalone".into(),
                "--listen".into(),
                "unix:socket".into(),
                "--kubeconfig-out".into(),
                "k".into(),
                "--store".into(),
                "memory".into(),
            ],
            2,
            "cannot use a socket file",
        ),
        (vec!["standalone".into(), "--listen".into(), "here".into()], 2, "unix:PATH"),
    ] {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = run(&words);
        let said = failure(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("stack backtrace"), "{words:?}: {said}");
    }
}

#[test]
fn actions_ask_before_they_act() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--sample", "healthy-ha"]);
    server.says(&["wait", "cluster/aurora", "--for=verdict=ok", "--timeout=120s"]);
    let unasked = failure(&server.capstan(&["scale", "kcp/aurora-control-plane", "--replicas", "1"]));
    assert!(unasked.contains("--yes"), "{unasked}");
    let even = failure(&server.capstan(&["scale", "kcp/aurora-control-plane", "--replicas", "2", "--yes"]));
    assert!(even.contains("blocked"), "{even}");
    let looked = server.says(&["rollout", "after", "md/aurora-web", "--at", "+2h", "--dry-run"]);
    assert!(looked.contains("Dry run: nothing was written."), "{looked}");
    let read_only =
        failure(&server.capstan(&["--read-only", "scale", "md/aurora-web", "--replicas", "9", "--yes"]));
    assert!(read_only.contains("read-only"), "{read_only}");
    assert!(server.says(&["get", "md", "aurora-web", "-o", "yaml"]).contains("replicas: 3"));
}

/// Only `true` was accepted, so the usual way to switch a variable on was an error.
#[test]
fn the_read_only_variable_takes_the_usual_words() {
    for (word, code) in [("1", 2), ("true", 2), ("yes", 2), ("0", 1), ("maybe", 2)] {
        let said = Command::new(BINARY)
            .args(["engine", "--kubeconfig", "there-is-not-such-a-file"])
            .env("CAPSTAN_READ_ONLY", word)
            .output()
            .unwrap();
        assert_eq!(said.status.code(), Some(code), "{word}: {}", String::from_utf8_lossy(&said.stderr));
    }
}
