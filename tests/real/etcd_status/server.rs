//! Three members of one real etcd that speak TLS, with certificates as kubeadm issues them: own folder, free
//! ports, stopped when dropped.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};

pub type Authority = rcgen::CertifiedIssuer<'static, KeyPair>;

pub fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "etcd-ca");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    Authority::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// PEM files of a certificate and its key.
#[derive(Clone)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

pub fn issue(authority: &Authority, folder: &Path, name: &str, is_server: bool) -> Pair {
    let names = if is_server {
        vec!["localhost".to_owned(), name.to_owned(), "127.0.0.1".to_owned()]
    } else {
        Vec::new()
    };
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if is_server {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let file = |end: &str, text: String| {
        let path = folder.join(format!("{name}-{end}.pem"));
        std::fs::write(&path, text).unwrap();
        path
    };
    Pair { certificate: file("cert", certificate.pem()), key: file("key", key.serialize_pem()) }
}

struct Running {
    name: String,
    client: u16,
    peer: u16,
    child: Option<Child>,
    stderr: Option<std::thread::JoinHandle<()>>,
}

/// The members, `cp-1` and so on.
pub struct TlsCluster {
    folder: tempfile::TempDir,
    pub authority: Authority,
    pub client: Pair,
    members: Vec<Running>,
    extra: Vec<String>,
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl TlsCluster {
    /// Three that serve. `extra` are more options for each.
    pub fn start(extra: &[&str]) -> Self {
        (0..5).find_map(|_| Self::try_start(extra)).expect("three members did not start five times")
    }

    fn try_start(extra: &[&str]) -> Option<Self> {
        let (folder, authority) = (tempfile::tempdir().unwrap(), authority());
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        let client = issue(&authority, folder.path(), "client", false);
        let extra = extra.iter().map(|option| (*option).to_owned()).collect();
        let mut cluster = Self { folder, authority, client, members: Vec::new(), extra };
        for number in 1..=3 {
            cluster.prepare(&format!("cp-{number}"));
        }
        (0..3).for_each(|at| cluster.spawn(at, "new"));
        let ready = (0..3).all(|at| cluster.is_ready(at));
        ready.then_some(cluster)
    }

    fn prepare(&mut self, name: &str) {
        let (client, peer) = (free_port(), free_port());
        self.members.push(Running { name: name.to_owned(), client, peer, child: None, stderr: None });
    }

    fn spawn(&mut self, at: usize, state: &str) {
        let member = &self.members[at];
        let pair = issue(&self.authority, self.folder.path(), &member.name, true);
        let (client, peer) = (self.endpoint(at), self.peer(at));
        let all: Vec<String> =
            (0..self.members.len()).map(|n| format!("{}={}", self.members[n].name, self.peer(n))).collect();
        let ca = self.ca();
        let child = Command::new("etcd")
            .args(["--name", &member.name, "--initial-cluster", &all.join(",")])
            .args([
                "--initial-cluster-state",
                state,
                "--heartbeat-interval",
                "50",
                "--election-timeout",
                "500",
            ])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--client-cert-auth", "--peer-client-cert-auth"])
            .args(["--logger", "zap", "--log-outputs", "stderr"])
            .arg("--data-dir")
            .arg(self.folder.path().join(&member.name))
            .args([Path::new("--trusted-ca-file"), &ca, Path::new("--peer-trusted-ca-file"), &ca])
            .args([Path::new("--cert-file"), &pair.certificate, Path::new("--key-file"), &pair.key])
            .args([Path::new("--peer-cert-file"), &pair.certificate, Path::new("--peer-key-file"), &pair.key])
            .args(&self.extra)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        self.members[at].child = Some(child.unwrap());
    }

    /// Waits until it serves clients; false when it ended instead.
    fn is_ready(&mut self, at: usize) -> bool {
        let member = &mut self.members[at];
        let Some(stderr) = member.child.as_mut().and_then(|child| child.stderr.take()) else { return true };
        let mut lines = BufReader::new(stderr).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("serving client traffic"));
        member.stderr = Some(std::thread::spawn(move || lines.for_each(drop)));
        ready
    }

    /// Starts one more, which was added to the list before, under the next name.
    pub fn start_added(&mut self) -> usize {
        let at = self.members.len() - 1;
        self.spawn(at, "existing");
        assert!(self.is_ready(at), "the added member did not start");
        at
    }

    /// The address at which one more will find the others.
    pub fn prepare_next(&mut self) -> String {
        self.prepare(&format!("cp-{}", self.members.len() + 1));
        self.peer(self.members.len() - 1)
    }

    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn endpoint(&self, at: usize) -> String {
        format!("https://127.0.0.1:{}", self.members[at].client)
    }

    pub fn port(&self, at: usize) -> u16 {
        self.members[at].client
    }

    fn peer(&self, at: usize) -> String {
        format!("https://127.0.0.1:{}", self.members[at].peer)
    }

    /// Where in the list the member of this name is.
    pub fn at(&self, name: &str) -> usize {
        self.members.iter().position(|member| member.name == name).expect("a member of that name")
    }

    pub fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.members[at].child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// It keeps its connections and answers nothing.
    pub fn pause(&self, at: usize) {
        self.signal(at, "-STOP");
    }

    pub fn resume(&self, at: usize) {
        self.signal(at, "-CONT");
    }

    fn signal(&self, at: usize, signal: &str) {
        let id = self.members[at].child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for TlsCluster {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|at| self.kill(at));
    }
}
