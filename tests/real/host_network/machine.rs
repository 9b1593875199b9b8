//! A machine for tests of the network: a real sshd with a configuration of its own, in namespaces of its own where a test wants
//! them. Owns the sshd and its sessions, which end with it.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::hosts::key;
use crate::running::Running;

const SSHD: &str = "/usr/sbin/sshd";
const PROGRAMS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An exchange of keys that takes a tenth of the processor that the usual one takes.
const KEX: &str = "curve25519-sha256";

pub fn run(program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

pub fn written(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Which user runs the test.
pub fn user() -> String {
    String::from_utf8_lossy(&run("id", &["-un"]).stdout).trim().to_owned()
}

pub fn is_root() -> bool {
    user() == "root"
}

/// Whether a test may make namespaces; says why not.
pub fn has_namespaces() -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    let is_able = is_root() && tried.is_ok_and(|status| status.success());
    if !is_able {
        println!("skipped: namespaces need root and unshare");
    }
    is_able
}

/// What a machine is to be.
#[derive(Clone)]
pub struct Wishes {
    pub address: &'static str,
    /// More than one for a machine that answers at several.
    pub ports: usize,
    /// Lines for its sshd, before all others: of two that are alike, the first counts. `FOLDER` is that of the machine.
    pub config: String,
    /// A command that becomes the sshd: `unshare --mount …`. What follows it is one line for a shell.
    pub inside: Vec<String>,
    /// Lines for the shell inside, before sshd, with the folder of the machine in `$MACHINE`.
    pub before: String,
}

impl Default for Wishes {
    fn default() -> Self {
        let inside = ["sh", "-c"].map(str::to_owned).to_vec();
        let (config, before) = (String::new(), String::new());
        Self { address: "127.0.0.1", ports: 1, config, inside, before }
    }
}

impl Wishes {
    pub fn at(address: &'static str) -> Self {
        Self { address, ..Self::default() }
    }

    pub fn with(config: &str) -> Self {
        Self { config: format!("{config}\n"), ..Self::default() }
    }

    /// With mounts of its own, which the lines make.
    pub fn mounted(before: &str) -> Self {
        let inside = ["unshare", "--mount", "sh", "-c"].map(str::to_owned).to_vec();
        Self { inside, before: before.to_owned(), ..Self::default() }
    }
}

/// An sshd at free ports, with a host key and an authorized key of its own.
pub struct Machine {
    running: Option<Running>,
    folder: tempfile::TempDir,
    pub address: &'static str,
    pub ports: Vec<u16>,
    wishes: Wishes,
    log: String,
}

/// Ports that nothing listens at; all are different. In a network namespace of its own each is free.
fn free_ports(address: &str, count: usize) -> Vec<u16> {
    let address = if address.starts_with("127.") { address } else { "127.0.0.1" };
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((address, 0)).expect("a free port")).collect();
    held.iter().map(|port| port.local_addr().expect("an address").port()).collect()
}

impl Machine {
    /// `None`: sshd is not installed.
    pub async fn start(wishes: Wishes) -> Option<Self> {
        if !Path::new(SSHD).exists() {
            println!("skipped: {SSHD} is not installed");
            return None;
        }
        if is_root() {
            // Its own start script makes it otherwise.
            std::fs::create_dir_all("/run/sshd").expect("the folder of sshd");
        }
        let folder = tempfile::tempdir().expect("a folder");
        // A user who is not root reads the keys that let him in.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("a mode");
        let ports = free_ports(wishes.address, wishes.ports);
        let (address, log) = (wishes.address, String::new());
        let mut machine = Self { running: None, folder, address, ports, wishes, log };
        for name in ["programs", "files/var/lib/capstan/runs", "files/etc", "files/run"] {
            std::fs::create_dir_all(machine.at(name)).expect("a folder");
        }
        key(&machine.at("host_key"));
        let client_key = key(&machine.at("id"));
        written(&machine.at("authorized_keys"), &client_key, 0o644);
        written(&machine.at("sshd_config"), &machine.config(), 0o600);
        // A proof reads which ports are open: none.
        std::fs::create_dir_all(machine.at("files/proc/net")).expect("a folder");
        written(&machine.at("files/proc/net/tcp"), "", 0o644);
        machine.serve().await;
        Some(machine)
    }

    /// Its folder stands in the place of the root of a machine, and its programs come before those of this one.
    fn config(&self) -> String {
        let folder = self.folder.path().display();
        let ports: String = self.ports.iter().map(|port| format!("Port {port}\n")).collect();
        format!(
            "{}{ports}ListenAddress {}\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             MaxStartups 200\nLogLevel VERBOSE\n\
             SetEnv PATH={folder}/programs:{PROGRAMS} CAPSTAN_PATH={folder}/programs:{PROGRAMS} CAPSTAN_ROOT={folder}/files \
             MACHINE={folder} MACHINE_SHELL=sh\n",
            self.wishes.config.replace("FOLDER", &folder.to_string()),
            self.address
        )
    }

    async fn serve(&mut self) {
        let config = self.at("sshd_config").display().to_string();
        let line = format!("{}\nexec {SSHD} -D -e -f '{config}' 2>&1", self.wishes.before);
        let mut command = Command::new(&self.wishes.inside[0]);
        command.args(&self.wishes.inside[1..]).arg(line).env("MACHINE", self.folder.path());
        let mut running = Running::start(command);
        let mut missing: BTreeSet<String> = self
            .ports
            .iter()
            .map(|port| format!("Server listening on {} port {port}.", self.address))
            .collect();
        while !missing.is_empty() {
            missing.remove(&running.line().await);
        }
        self.running = Some(running);
    }

    /// Ends its sshd and everything that runs over it, as a machine that loses its power.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            // Its own first, so that it starts no others. A session of a user who is not root goes on without what began it.
            let all = below(&running.id().to_string());
            drop(running);
            if !all.is_empty() {
                let words: Vec<&str> = ["-KILL"].into_iter().chain(all.iter().map(String::as_str)).collect();
                run("kill", &words);
            }
        }
    }

    /// Another one with a host key of its own takes its place.
    pub async fn replace_key(&mut self) {
        self.stop();
        key(&self.at("host_key"));
        self.serve().await;
    }

    /// What its sshd wrote down since it began.
    pub fn log(&mut self) -> &str {
        while let Some(line) = self.running.as_mut().and_then(Running::said) {
            self.log.push_str(&line);
            self.log.push('\n');
        }
        &self.log
    }

    /// Waits for a line of its sshd with this text.
    pub async fn until_log(&mut self, text: &str) {
        while !self.log().contains(text) {
            let line = self.running.as_mut().expect("it runs").line().await;
            self.log.push_str(&line);
            self.log.push('\n');
        }
    }

    /// So many came, whoever they were, since its log was so long.
    pub fn visits(&mut self, begun: usize) -> usize {
        self.log()[begun..].matches("Connection from ").count()
    }

    pub async fn until_visits(&mut self, begun: usize, count: usize) {
        while self.visits(begun) < count {
            let line = self.running.as_mut().expect("it runs").line().await;
            self.log.push_str(&line);
            self.log.push('\n');
        }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    pub fn place(&self) -> String {
        format!("{}:{}", self.address, self.port())
    }

    /// Type and base64, as `spec.hostKeys` takes it.
    pub fn host_key(&self) -> String {
        let text = std::fs::read_to_string(self.at("host_key.pub")).expect("a public key");
        text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    }

    /// A line of a known-hosts file for what is reached at this port of its address.
    pub fn known_at(&self, port: impl std::fmt::Display) -> String {
        format!("[{}]:{port} {}\n", self.address, self.host_key())
    }

    pub fn program(&self, name: &str, text: &str) {
        written(&self.at("programs").join(name), &format!("#!/bin/sh\n{text}\n"), 0o755);
    }

    /// systemd and kubeadm, as far as a run needs them.
    pub fn with_stand_ins(self) -> Self {
        for (name, text) in [
            ("systemctl", include_str!("../../../crates/hosts/src/shell_machine/systemctl.sh")),
            ("systemd-run", include_str!("../../../crates/hosts/src/shell_machine/systemd-run.sh")),
            ("kubeadm", include_str!("../../../crates/hosts/src/shell_machine/kubeadm.sh")),
        ] {
            self.program(name, text);
        }
        self
    }

    /// A file of what stands for its root.
    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.at("files").join(name)).ok()
    }
}

/// Every process that it has started, and those that they have.
fn below(process: &str) -> Vec<String> {
    let found = run("pgrep", &["-P", process]);
    let own: Vec<String> = String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect();
    own.iter().flat_map(|child| below(child)).chain(own.iter().cloned()).collect()
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The program that capstan calls as ssh, with a configuration of its own and nothing of the person who runs the test.
pub struct Client {
    folder: tempfile::TempDir,
}

impl Client {
    /// The configuration counts before the common lines; keys are those that are known.
    pub fn new(config: &str, known_hosts: &str) -> Self {
        let client = Self { folder: tempfile::tempdir().expect("a folder") };
        let folder = client.folder.path().display().to_string();
        client.knows(known_hosts);
        let text = format!(
            "{config}\nHost *\n  User {}\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  \
             IdentitiesOnly yes\n  IdentityAgent none\n  KexAlgorithms {KEX}\n",
            user()
        );
        written(&client.at("config"), &text, 0o600);
        client.called("exec ssh -F \"$folder/config\" \"$@\"");
        client
    }

    /// For a machine whose own key lets in.
    pub fn of(machine: &Machine, known_hosts: &str) -> Self {
        let identity = machine.at("id").display().to_string();
        Self::new(&format!("Host *\n  IdentityFile {identity}\n"), known_hosts)
    }

    pub fn knows(&self, known_hosts: &str) {
        written(&self.at("known_hosts"), known_hosts, 0o600);
    }

    /// Lines of the program, with the folder in `$folder`.
    pub fn called(&self, lines: &str) {
        let folder = self.folder.path().display();
        written(&self.at("ssh"), &format!("#!/bin/sh\nfolder='{folder}'\n{lines}\n"), 0o700);
    }

    /// Each line makes a connection, as where no folder is fit for a control socket.
    pub fn shares_no_connections(&self) {
        self.called("exec ssh -F \"$folder/config\" -o ControlMaster=no -o ControlPath=none \"$@\"");
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn program(&self) -> String {
        self.at("ssh").display().to_string()
    }

    /// `capstan host check …` as text, and its exit code.
    pub fn check(&self, args: &[&str]) -> (Option<i32>, String) {
        let program = self.program();
        let all = [&["host", "check", "--ssh-program", &program][..], args].concat();
        let output = run(crate::standalone::BINARY, &all);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }
}
