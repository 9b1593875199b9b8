//! The hosts of a cluster: which processes run, by the pods that say so; a changed pod is another process, one that ended
//! is started again. Owns starting and killing; must not know locks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::ledger::Ledger;
use super::process::Process;
use super::program::{Program, StartError};
use super::site::{HostFiles, Site};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::engine::lease::identity_of;
use leader_migration::manifest::{FoundManager, managers_in};
use leader_migration::release::Release;
use leader_migration::rights::Grantee;

/// Before a process that ended is started again: the kubelet's first wait.
const RESTART: Duration = Duration::from_secs(10);
/// On the pods that a kubelet shows of its host's manifests.
const STATIC: &str = "kubernetes.io/config.mirror";
const SEEN: &str = "kubernetes.io/config.seen";

/// The files that a pod's containers have, as they are when a process starts.
pub type FileSource = Arc<dyn Fn() -> HostFiles + Send + Sync>;

/// A pod whose process runs, or tries to.
struct Running {
    start: Value,
    /// Why it exited at its last start.
    failure: Arc<Mutex<Option<StartError>>>,
    task: JoinHandle<()>,
}

/// All simulated processes of a cluster.
pub struct SimulatedHosts {
    site: Arc<dyn Site>,
    clock: Clock,
    rng: Rng,
    ledger: Ledger,
    running: BTreeMap<String, Running>,
}

impl SimulatedHosts {
    pub fn new(site: Arc<dyn Site>, clock: Clock, rng: Rng) -> Self {
        Self { site, clock, rng, ledger: Ledger::default(), running: BTreeMap::new() }
    }

    /// The same, with what runs written into a record of the caller's.
    pub fn with_ledger(mut self, ledger: Ledger) -> Self {
        self.ledger = ledger;
        self
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Runs a pod: one that is as it was goes on, one that changed or was started again ends and begins anew. A file
    /// that changes is read at the next start.
    pub fn run(&mut self, pod: &Value, files: &FileSource) {
        // More than one may run in a pod, each as a process of its own.
        for found in managers_in(pod) {
            let start = start_of(pod);
            if self.running.get(&found.name).is_some_and(|running| running.start == start) {
                continue;
            }
            // First: two of one name would both write into the record.
            self.kill(&found.name);
            let name = found.name.clone();
            let running = Launch::of(self, found, pod, files).begin(start);
            self.running.insert(name, running);
        }
    }

    /// As `kill -9`: nothing is given back, and nothing starts it again.
    pub fn kill(&mut self, name: &str) {
        if let Some(running) = self.running.remove(name) {
            // Nothing is awaited: a killed process does no last thing either.
            running.task.abort();
        }
    }

    /// Kills the processes of pods that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.running.keys().filter(|name| !is_there(name)).cloned().collect();
        gone.iter().for_each(|name| self.kill(name));
    }

    /// Why a process exits at its start. `None`: it runs, or is not there.
    pub fn failure(&self, name: &str) -> Option<StartError> {
        self.running.get(name)?.failure.lock().clone()
    }
}

impl Drop for SimulatedHosts {
    fn drop(&mut self) {
        // A task whose handle is only dropped goes on by itself.
        self.running.values().for_each(|running| running.task.abort());
    }
}

/// What makes another process of a pod: what it is made from, and when the kubelet began with it.
fn start_of(pod: &Value) -> Value {
    let metadata = &pod["metadata"];
    json!([metadata["uid"], pod["spec"], metadata["annotations"][SEEN]])
}

/// Whom the API server takes the process for: a static pod has no service account, and brings a kubeconfig.
fn account(found: &FoundManager, pod: &Value) -> Grantee {
    if pod["metadata"]["annotations"][STATIC].is_string() {
        return Grantee::User(format!("system:{}", found.manager.name()));
    }
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("kube-system").to_owned();
    // As the API server's admission names the account of a pod that names none.
    let name = found.service_account.clone().unwrap_or_else(|| "default".to_owned());
    Grantee::ServiceAccount { namespace, name }
}

/// A process that is started again and again.
struct Launch {
    found: FoundManager,
    namespace: String,
    account: Grantee,
    files: FileSource,
    site: Arc<dyn Site>,
    clock: Clock,
    rng: Rng,
    ledger: Ledger,
}

impl Launch {
    fn of(hosts: &SimulatedHosts, found: FoundManager, pod: &Value, files: &FileSource) -> Self {
        Self {
            account: account(&found, pod),
            namespace: pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
            found,
            files: Arc::clone(files),
            site: Arc::clone(&hosts.site),
            clock: hosts.clock.clone(),
            rng: hosts.rng.clone(),
            ledger: hosts.ledger.clone(),
        }
    }

    /// The first start happens at once.
    fn begin(self, start: Value) -> Running {
        // Here and not in the task, so that a failure is known when this returns.
        let mut next = self.program();
        let failure = Arc::new(Mutex::new(next.clone().err()));
        let seen = Arc::clone(&failure);
        let task = tokio::spawn(async move {
            loop {
                match next {
                    Ok(program) => {
                        let why = self.process(program).run().await;
                        tracing::info!("{} exits: {why}", self.found.name);
                    }
                    Err(error) => tracing::warn!("{} exits at its start: {error}", self.found.name),
                }
                // Always the first wait; a kubelet's grows, which a rehearsal need not wait for.
                tokio::time::sleep(RESTART).await;
                next = self.program();
                *seen.lock() = next.clone().err();
            }
        });
        Running { start, failure, task }
    }

    /// What it makes of its flags and files now. The kubelet shows whether it could.
    fn program(&self) -> Result<Program, StartError> {
        let is_mounted = |path: &str| {
            let below = |mount: &String| {
                path == mount || path.starts_with(&format!("{}/", mount.trim_end_matches('/')))
            };
            self.found.mounts.iter().any(below)
        };
        // Read anew at each start, as a file that changed is.
        let files = (self.files)().into_iter().filter(|(path, _)| is_mounted(path)).collect();
        let release = self.found.release.unwrap_or(Release(0));
        let program = Program::start(self.found.manager, release, &self.found.args, &files);
        let failure = program.as_ref().err().map(ToString::to_string);
        self.site.show(&self.namespace, &self.found.name, failure.as_deref());
        program
    }

    fn process(&self, program: Program) -> Process {
        // A pod that no node was written for counts as a host of its own.
        let host = self.found.node.as_ref().unwrap_or(&self.found.name);
        Process {
            program,
            name: self.found.name.clone(),
            identity: identity_of(host, &self.rng),
            client: self.site.client(&self.account),
            clock: self.clock.clone(),
            ledger: self.ledger.clone(),
        }
    }
}
