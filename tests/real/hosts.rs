//! `capstan host check` over a real sshd of this machine: what it answers, what it trusts, and what a real kubeadm says of the same
//! machine. Owns the sshd; without one the tests say so and skip.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::kubeadm_program::Kubeadm;
use crate::running::Running;

const SSHD: &str = "/usr/sbin/sshd";
/// Its newest release whose preflight the rules are of.
const KUBEADM: &str = "1.36.3";

/// An sshd at a free port, for the user that runs the test, with keys of its own and a client that knows them.
pub struct Sshd {
    running: Option<Running>,
    folder: tempfile::TempDir,
    port: u16,
    /// Where its sessions find programs.
    path: String,
}

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

fn written(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

pub fn key(path: &Path) -> String {
    let _ = std::fs::remove_file(path);
    let made =
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &path.display().to_string()]);
    assert!(made.status.success(), "{made:?}");
    std::fs::read_to_string(path.with_extension("pub")).expect("a public key").trim().to_owned()
}

/// Which user runs the test.
fn user() -> String {
    String::from_utf8_lossy(&run("id", &["-un"]).stdout).trim().to_owned()
}

fn is_root() -> bool {
    user() == "root"
}

impl Sshd {
    /// `None`: sshd is not installed.
    pub async fn start() -> Option<Self> {
        if !Path::new(SSHD).exists() {
            println!("skipped: {SSHD} is not installed");
            return None;
        }
        if is_root() {
            // Its own start script makes it otherwise.
            std::fs::create_dir_all("/run/sshd").expect("the folder of sshd");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let host_key = key(&at("host_key"));
        let client_key = key(&at("id"));
        written(&at("authorized_keys"), &client_key, 0o600);
        std::fs::create_dir(at("programs")).expect("a folder");
        let path = format!(
            "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            at("programs").display()
        );
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host_key\nAuthorizedKeysFile {0}/authorized_keys\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 200\nSetEnv PATH={path}\n",
            folder.path().display()
        );
        written(&at("sshd_config"), &config, 0o600);
        written(&at("known_hosts"), &format!("[127.0.0.1]:{port} {host_key}\n"), 0o600);
        let mut sshd = Self { running: None, folder, port, path };
        sshd.serve().await;
        sshd.client("known_hosts", "id");
        Some(sshd)
    }

    async fn serve(&mut self) {
        let mut command = Command::new("sh");
        let line = format!("exec {SSHD} -D -e -f '{}' 2>&1", self.at("sshd_config").display());
        command.args(["-c", &line]);
        let mut running = Running::start(command);
        running.until(&format!("Server listening on 127.0.0.1 port {}.", self.port)).await;
        self.running = Some(running);
    }

    /// Another machine with a host key of its own takes its place. This file knows the key before the machine answers, for each name.
    pub async fn replace(&mut self, known_hosts: &str) {
        if let Some(running) = self.running.take() {
            running.kill_children();
        }
        let host_key = key(&self.at("host_key"));
        written(&self.at(known_hosts), &format!("* {host_key}\n"), 0o600);
        self.serve().await;
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Of its host key.
    pub fn fingerprint(&self) -> String {
        let listed = run("ssh-keygen", &["-lf", &self.at("host_key.pub").display().to_string()]);
        String::from_utf8_lossy(&listed.stdout).split(' ').nth(1).expect("a fingerprint").to_owned()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the program that capstan calls as ssh: with a configuration of its own, nothing of the person who runs the test.
    pub fn client(&self, known_hosts: &str, identity: &str) {
        let folder = self.folder.path().display();
        let config = format!(
            "Host *\n  User {}\n  UserKnownHostsFile {folder}/{known_hosts}\n  GlobalKnownHostsFile none\n  IdentityFile {folder}/{identity}\n  \
             IdentitiesOnly yes\n  IdentityAgent none\nHost alias\n  HostName 127.0.0.1\n  Port {}\n",
            user(),
            self.port
        );
        written(&self.at("config"), &config, 0o600);
        written(&self.at("ssh"), &format!("#!/bin/sh\nexec ssh -F '{folder}/config' \"$@\"\n"), 0o700);
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn check(&self, args: &[&str]) -> (Option<i32>, Value) {
        let program = self.at("ssh").display().to_string();
        let all = [&["host", "check", "--ssh-program", &program, "-o", "json"][..], args].concat();
        let output = run(env!("CARGO_BIN_EXE_capstan"), &all);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        (output.status.code(), value)
    }

    fn program(&self, name: &str, text: &str) {
        written(&self.at("programs").join(name), &format!("#!/bin/sh\n{text}\n"), 0o755);
    }
}

fn findings<'a>(answer: &'a Value, outcome: &str) -> impl Iterator<Item = &'a Value> {
    let all = answer["hosts"][0]["findings"].as_array().expect("findings");
    all.iter().filter(move |finding| finding["outcome"] == outcome)
}

/// What kubeadm calls them.
fn names(answer: &Value, outcome: &str) -> BTreeSet<String> {
    findings(answer, outcome)
        .filter_map(|finding| finding["kubeadmCheck"].as_str())
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_says_what_it_is() {
    let Some(sshd) = Sshd::start().await else { return };
    let (code, answer) = sshd.check(&[&sshd.host(), "alias"]);
    assert!(matches!(code, Some(0 | 11 | 13)), "{code:?}: {answer}");
    let facts = &answer["hosts"][0]["facts"];
    let kernel = String::from_utf8_lossy(&run("uname", &["-r"]).stdout).trim().to_owned();
    assert_eq!(facts["kernel"], kernel.as_str());
    let cpus: u64 = String::from_utf8_lossy(&run("nproc", &[]).stdout).trim().parse().expect("a number");
    assert_eq!(facts["cpus"], cpus);
    assert_eq!(facts["privilege"], if is_root() { "root" } else { "none" });
    assert!(facts["clockAheadS"].as_i64().is_some_and(|ahead| ahead.abs() <= 1), "{facts}");
    let listens = facts["listens"].as_array().expect("ports");
    assert!(listens.iter().any(|port| *port == sshd.port), "{listens:?}");
    // One machine under two names is noticed.
    let shared = findings(&answer, "unfit").find(|finding| finding["rule"] == "machine-id");
    if facts["machineId"].is_string() {
        let evidence = shared.and_then(|finding| finding["evidence"].as_str()).unwrap_or_default();
        assert!(evidence.ends_with("is that of alias as well"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shell_gives_the_same_answer() {
    let Some(sshd) = Sshd::start().await else { return };
    let program = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/hosts/src/probe.sh"))
        .expect("the probe");
    let file = sshd.at("probe.sh");
    std::fs::write(&file, program).expect("written");
    // Time and memory of two moments differ, and connections come and go.
    let moves = ["now=", "disk_free_kib=", "listens="];
    let said = |shell: &[&str]| -> Option<Vec<String>> {
        let output = Command::new(shell[0]).args(&shell[1..]).arg(&file).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.ends_with("end=yes\n"), "{shell:?}: {output:?}");
        let lines = text.lines().filter(|line| !moves.iter().any(|name| line.starts_with(name)));
        Some(lines.map(str::to_owned).collect())
    };
    let expected = said(&["sh"]).expect("a shell");
    for shell in [&["bash", "--posix"][..], &["dash"], &["busybox", "sh"], &["ksh"], &["mksh"]] {
        match said(shell) {
            Some(lines) => assert_eq!(lines, expected, "{shell:?}"),
            None => println!("skipped: {shell:?} is not installed"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_trusted_who_is_not_known() {
    let Some(sshd) = Sshd::start().await else { return };
    let trouble = |args: &[&str]| {
        let (code, answer) = sshd.check(args);
        assert_eq!(code, Some(13), "{answer}");
        (answer["hosts"][0]["trouble"].as_str().unwrap_or_default().to_owned(), answer)
    };
    written(&sshd.at("nothing"), "", 0o600);
    sshd.client("nothing", "id");
    let (what, answer) = trouble(&[&sshd.host()]);
    assert_eq!(what, "unknownHostKey", "{answer}");
    let fingerprint = sshd.fingerprint();
    assert_eq!(answer["hosts"][0]["offeredKeys"][0]["fingerprint"], fingerprint.as_str());
    assert_eq!(std::fs::read_to_string(sshd.at("nothing")).expect("the file"), "", "nothing is learnt");

    let other = key(&sshd.at("other"));
    written(&sshd.at("changed"), &format!("[127.0.0.1]:{} {other}\n", sshd.port), 0o600);
    sshd.client("changed", "id");
    assert_eq!(trouble(&[&sshd.host()]).0, "changedHostKey");

    sshd.client("known_hosts", "other");
    assert_eq!(trouble(&[&sshd.host()]).0, "denied");

    sshd.client("known_hosts", "id");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    assert_eq!(trouble(&[&free.to_string()]).0, "unreachable");

    // It accepts connections and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = silent.local_addr().expect("an address").to_string();
    let (_, answer) = trouble(&[&place, "--timeout", "1s"]);
    assert_eq!(answer["hosts"][0]["reason"], "no end within 1 second", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_behind_another_is_reached() {
    let Some(sshd) = Sshd::start().await else { return };
    let (_, answer) = sshd.check(&["-J", "alias", &sshd.host()]);
    assert!(answer["hosts"][0]["facts"]["kernel"].is_string(), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeadm_refuses_the_same() {
    let Some(sshd) = Sshd::start().await else { return };
    if !is_root() {
        println!("skipped: kubeadm's preflight is for root");
        return;
    }
    let kubeadm = match Kubeadm::of(KUBEADM) {
        Ok(kubeadm) => kubeadm,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    sshd.program("kubeadm", "echo v1.36.3");
    // What listens there is found by both, whether it is this or something else.
    let _taken = TcpListener::bind("127.0.0.1:10259");
    for kubelet in ["v1.36.3", "v1.32.0", "v1.37.0"] {
        sshd.program("kubelet", &format!("echo Kubernetes {kubelet}"));
        let (errors, warnings) = kubeadm.preflight(&sshd.path);
        let (_, answer) = sshd.check(&[&sshd.host(), "--kubernetes-version", "v1.36.3"]);
        let (unfit, warned) = (names(&answer, "unfit"), names(&answer, "warned"));
        assert!(errors.contains("Port-10259"), "{errors:?}");
        assert_eq!(errors.contains("KubeletVersion"), kubelet != "v1.36.3", "{errors:?}");
        // Of the verification of the system, kernel modules are not looked at here; a runtime that is not there has no version.
        let beyond: BTreeSet<&str> = errors
            .iter()
            .map(String::as_str)
            .filter(|name| !["SystemVerification", "ContainerRuntimeVersion"].contains(name))
            .collect();
        let ours: BTreeSet<&str> =
            unfit.iter().map(String::as_str).filter(|name| *name != "SystemVerification").collect();
        assert_eq!(ours, beyond, "{kubelet}: {answer}");
        assert!(!unfit.contains("SystemVerification") || errors.contains("SystemVerification"), "{answer}");
        let missed: Vec<&String> =
            warned.difference(&warnings).filter(|name| *name != "SystemVerification").collect();
        assert!(missed.is_empty(), "warned of here alone: {missed:?}, kubeadm: {warnings:?}");
        let unseen: Vec<&String> = ["Swap", "Hostname", "Firewalld", "Service-kubelet"]
            .iter()
            .filter_map(|name| warnings.get(*name))
            .filter(|name| !warned.contains(*name))
            .collect();
        assert!(unseen.is_empty(), "not seen here: {unseen:?}: {answer}");
    }
}
