//! The stage of a rehearsal: server, processes, what a cluster would show of them, and the log. Must not know what is played.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use k8s_openapi::api::coordination::v1::Lease;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::controller_managers::{FileSource, HostFiles, SimulatedHosts, Site};
use crate::standalone::past::Replayed;
use crate::standalone::stack::{Stack, StackOptions};
use capi_types::key::{ObjectKey, ObjectRef};
use capstan_apiserver::{ApiServer, OpenError};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp, rfc3339};
use capstan_engine::client::errors::chain;
use capstan_engine::client::read::list_values;
use capstan_engine::client::write::gvk_of;
use capstan_engine::client::{Client, Mode, Precondition, Writer, in_process};
use capstan_store::MemoryStore;
use leader_migration::configuration::DEFAULT_LEADER_NAME;
use leader_migration::controller_names::Function;
use leader_migration::inventory::Inventory;
use leader_migration::lock_watch::LockWatch;
use leader_migration::look::{LockLook, MigrationScope};
use leader_migration::manager_kind::ManagerKind;
use leader_migration::process::ConfigFile;
use leader_migration::reading::read;
use leader_migration::release::Release;
use leader_migration::rights::{Grantee, questions};
use leader_migration::stages::{StageReport, StageState, Walkthrough};
use leader_migration::validate::{RightFact, validate};
use leader_migration::writing;

pub(super) const KCM: ManagerKind = ManagerKind::KubeControllerManager;
pub(super) const CCM: ManagerKind = ManagerKind::CloudControllerManager;
const PATH: &str = "/etc/kubernetes/leader-migration.yaml";
pub(super) const ON: &str =
    "--enable-leader-migration --leader-migration-config=/etc/kubernetes/leader-migration.yaml";
const MOVED: [Function; 3] = [Function::Routes, Function::LoadBalancers, Function::NodeLifecycle];

/// Why a play broke off.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the Leases of the rehearsal: {}", chain(.0))]
    Leases(#[from] capstan_engine::client::Error),
    #[error("{release} has no leader migration: it began with 1.21")]
    Release { release: Release },
    #[error("{what}: expected one of {known}")]
    Unknown { what: String, known: String },
    #[error("the thread for the rehearsal could not be started: {0}; check the limit of threads")]
    Thread(#[from] std::io::Error),
    #[error("the rehearsal ended with a panic")]
    Panicked,
}

/// Who plays.
#[derive(Clone, Debug)]
pub struct Cast {
    pub nodes: Vec<String>,
    /// Of kube-controller-manager, with the cloud provider in it.
    pub old: Release,
    /// Of the new kube-controller-manager and of the library in cloud-controller-manager.
    pub new: Release,
    pub start: Timestamp,
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Played {
    /// Each line has the second, and what was done, said or run then.
    pub log: String,
    /// Two ran one controller at once.
    pub has_overlap: bool,
    /// For so long nobody ran one of the moved controllers, at most.
    pub longest_gap: Duration,
    /// The moved controllers that nobody runs at the end.
    pub idle: Vec<&'static str>,
    /// Codes of the findings at the end.
    pub codes: Vec<&'static str>,
}

/// The stage: server, processes, and what the cluster shows of them.
pub(super) struct Rehearsal {
    _stack: Stack,
    client: Client,
    clock: Clock,
    began: Instant,
    pub(super) host: SimulatedHosts,
    /// By name: the pod, and the file that it mounts.
    pub(super) pods: BTreeMap<String, (Value, String)>,
    is_granted: Arc<AtomicBool>,
    watch: LockWatch,
    scope: MigrationScope,
    /// Who ran the moved controllers, as it was noted last.
    actors: String,
    log: String,
}

impl Rehearsal {
    pub(super) async fn start(cast: &Cast) -> Result<Self, RehearsalError> {
        let began = Instant::now();
        let clock = Clock::new(Replayed { start: cast.start, began });
        let options =
            StackOptions { engine: false, ..StackOptions::new(clock.clone(), Rng::seeded(cast.seed)) };
        let stack = Stack::start(Arc::new(MemoryStore::new()), options).await?;
        // Shared with the server's guard: the right comes and goes while processes run.
        let is_granted = Arc::new(AtomicBool::new(true));
        let processes = guarded(stack.server().clone(), Arc::clone(&is_granted));
        let site = Arc::new(EveryHost(processes));
        Ok(Self {
            client: stack.connection("rehearsal", false).client,
            _stack: stack,
            began,
            host: SimulatedHosts::new(site, clock.clone(), Rng::seeded(cast.seed).stream("processes")),
            clock,
            pods: BTreeMap::new(),
            is_granted,
            watch: LockWatch::default(),
            scope: MigrationScope::default(),
            actors: String::new(),
            log: String::new(),
        })
    }

    pub(super) fn note(&mut self, text: &str) {
        let _ = writeln!(self.log, "{:>5} s  {text}", self.began.elapsed().as_secs());
    }

    pub(super) fn grant(&self, is_granted: bool) {
        self.is_granted.store(is_granted, Ordering::Relaxed);
    }

    /// Puts a pod on a node, or another one in its place. `args`: one line; `file` is mounted from the host.
    pub(super) fn put(&mut self, manager: ManagerKind, release: Release, node: &str, args: &str, file: &str) {
        self.put_as(&format!("{manager}-{node}"), manager, release, node, args, file);
    }

    pub(super) fn put_as(
        &mut self,
        name: &str,
        manager: ManagerKind,
        release: Release,
        node: &str,
        args: &str,
        file: &str,
    ) {
        let command: Vec<&str> = [manager.name()].into_iter().chain(args.split_whitespace()).collect();
        let mounts = if file.is_empty() { json!([]) } else { json!([{"mountPath": PATH}]) };
        let pod = json!({
            "kind": "Pod", "metadata": {"name": name, "namespace": self.scope.namespace},
            "spec": {"nodeName": node, "containers": [{"name": manager.name(),
                "image": format!("registry.k8s.io/{manager}:v{release}.3"), "command": command,
                "volumeMounts": mounts}]},
            "status": {"startTime": rfc3339(self.clock.now())},
        });
        let files = match file {
            "" => HostFiles::new(),
            text => HostFiles::from([(PATH.to_owned(), text.to_owned())]),
        };
        // Another file is another process, as when its pod is made anew.
        if self.pods.get(name).is_some_and(|(_, before)| before != file) {
            self.host.kill(name);
        }
        let source: FileSource = Arc::new(move || files.clone());
        self.host.run(&pod, &source);
        self.pods.insert(name.to_owned(), (pod, file.to_owned()));
    }

    pub(super) fn take(&mut self, manager: ManagerKind, node: &str) {
        self.note(&format!("{manager} on {node} is stopped"));
        let name = format!("{manager}-{node}");
        self.host.kill(&name);
        self.pods.remove(&name);
    }

    /// Lets time pass, and notes who runs the moved controllers whenever that changes.
    pub(super) async fn pass(&mut self, seconds: u64) -> Result<(), RehearsalError> {
        for _ in 0..seconds {
            // Second by second: the log says when something changed.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let leases = list_values(&self.client, &gvk_of::<Lease>(), "", "").await?;
            let leases: Vec<Lease> =
                leases.into_iter().filter_map(|l| serde_json::from_value(l).ok()).collect();
            self.watch.look(&leases, self.began.elapsed(), self.clock.now());
            let actors = self.who_acts();
            if actors != self.actors {
                self.note(&format!("  {actors}"));
                self.actors = actors;
            }
        }
        Ok(())
    }

    fn who_acts(&self) -> String {
        let by = |function: Function| {
            let running = self.host.ledger().running(function);
            if running.is_empty() { "nobody".to_owned() } else { running.join(" and ") }
        };
        // A single line where all move together, which is nearly always.
        let first = by(MOVED[0]);
        if MOVED.iter().all(|function| by(*function) == first) {
            return format!("all three: {first}");
        }
        MOVED.map(|function| format!("{}: {}", function.title(), by(function))).join("; ")
    }

    /// What a look at the cluster would show.
    fn look(&self) -> LockLook {
        let mut inventory = Inventory::default();
        let pods: Vec<Value> = self.pods.values().map(|(pod, _)| pod.clone()).collect();
        inventory.objects("the cluster", &pods);
        let (mut processes, _) = inventory.processes();
        for process in &mut processes {
            let file = self.pods.get(&process.name).map_or("", |(_, file)| file.as_str());
            let path = process.flags.migration_config.clone();
            if !file.is_empty() && !path.is_empty() {
                // As the person would hand it in: from a pod alone the file is not seen.
                process.file = ConfigFile::Read { name: path, reading: read(file) };
            }
        }
        let allowed = Some(self.is_granted.load(Ordering::Relaxed));
        let asked = questions(&self.scope.subjects, &self.scope.namespace, &self.scope.leader_name);
        LockLook {
            at: self.clock.now(),
            leases: self.watch.leases(self.began.elapsed()),
            changes: self.watch.changes(),
            processes,
            rights: asked.into_iter().map(|question| RightFact { question, allowed }).collect(),
            ..LockLook::default()
        }
    }

    /// The first stage that is not done.
    fn stage(&self) -> Option<StageReport> {
        match self.look().situation(&self.scope, self.clock.now()).judge() {
            Walkthrough::NothingToMigrate { .. } => None,
            Walkthrough::Stages(reports) => reports.into_iter().find(|r| r.state != StageState::Done),
        }
    }

    /// Notes where the walkthrough is.
    pub(super) fn judge(&mut self) {
        let Some(report) = self.stage() else { return self.note("nothing to migrate") };
        let wait = report.wait.as_ref().map_or(String::new(), |wait| format!(" (wait {} s)", wait.left_s));
        let (number, word) = (report.stage as usize, report.state.word());
        self.note(&format!("stage {number} {word}: {}{wait}", report.state.reason()));
    }

    /// Waits as long as the walkthrough says before the next node.
    pub(super) async fn wait(&mut self) -> Result<(), RehearsalError> {
        self.pass(2).await?;
        self.judge();
        // The walkthrough itself says how long, so that its advice is what is played.
        let wait = self.stage().and_then(|report| report.wait);
        self.pass(wait.map_or(0, |wait| u64::try_from(wait.left_s).unwrap_or(0))).await
    }

    /// The host that holds a Lease; empty when nobody does.
    pub(super) fn holder(&self, lease: &str) -> String {
        let leases = self.look().leases;
        let held = leases.iter().find(|l| l.name == lease).map(|l| l.identity().0.to_owned());
        held.unwrap_or_default()
    }

    pub(super) fn runs(&self, function: Function) -> bool {
        !self.host.ledger().running(function).is_empty()
    }

    pub(super) async fn delete_lease(&mut self) {
        let writer = Writer::new(self.client.clone(), "rehearsal");
        let key = ObjectKey::new(&self.scope.namespace, &self.scope.leader_name);
        let target = ObjectRef { gvk: gvk_of::<Lease>(), key, uid: String::new() };
        let gone = writer.delete_value(&target, &Precondition::default(), Mode::Real).await;
        if let Err(error) = gone {
            self.note(&format!("the Lease could not be deleted: {error}"));
        }
    }

    pub(super) fn end(self) -> Played {
        let look = self.look();
        let facts = look.situation(&self.scope, self.clock.now()).facts;
        let findings = validate(&look.processes, &facts);
        let gaps = MOVED.iter().map(|function| self.host.ledger().longest_gap(*function));
        Played {
            has_overlap: !self.host.ledger().overlaps().is_empty(),
            longest_gap: gaps.max().unwrap_or_default(),
            idle: MOVED.into_iter().filter(|function| !self.runs(*function)).map(Function::title).collect(),
            codes: findings.into_iter().map(|finding| finding.code).collect(),
            log: self.log,
        }
    }
}

/// Hosts whose processes all ask in one name, and have what files they are given.
struct EveryHost(Client);

impl Site for EveryHost {
    fn administrator(&self) -> Client {
        self.0.clone()
    }

    fn client(&self, _: &Grantee) -> Client {
        self.0.clone()
    }

    fn host_files(&self, _: &str, _: &str) -> HostFiles {
        HostFiles::new()
    }

    fn show(&self, _: &str, _: &str, _: Option<&str>) {}
}

/// The file that `generate` writes for readers of a release.
pub(super) fn file(release: Release) -> Result<String, RehearsalError> {
    let made = writing::generate(DEFAULT_LEADER_NAME, &MOVED, "*", release);
    let (configuration, version) = made.ok_or(RehearsalError::Release { release })?;
    Ok(writing::write(&configuration, version))
}

/// The server as the processes see it: without the right, requests about the migration Lease are refused.
fn guarded(server: ApiServer, is_granted: Arc<AtomicBool>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, is_granted) = (server.clone(), is_granted.load(Ordering::Relaxed));
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
            // A creation has the name in its body only.
            let is_about_it = parts.uri.path().ends_with(DEFAULT_LEADER_NAME)
                || String::from_utf8_lossy(&bytes).contains(DEFAULT_LEADER_NAME);
            if is_about_it && !is_granted {
                return Ok(refusal().map(Either::Left));
            }
            let answer = server.oneshot(Request::from_parts(parts, Body::from(bytes.to_vec()))).await;
            let answer = answer.map_err(|error| std::io::Error::other(format!("{error:?}")))?;
            Ok::<_, std::io::Error>(answer.map(Either::Right))
        }
    });
    in_process(service, "processes", "kube-system", false).client
}

fn refusal() -> Response<Full<Bytes>> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": "leases.coordination.k8s.io is forbidden"});
    let mut response = Response::new(Full::from(status.to_string()));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

/// Plays on a thread of its own, whose time jumps from one event to the next.
///
/// # Errors
/// See [`RehearsalError`].
pub async fn in_virtual_time<F, P>(play: F) -> Result<Played, RehearsalError>
where
    F: FnOnce() -> P + Send + 'static,
    P: Future<Output = Result<Played, RehearsalError>>,
{
    let (send, done) = tokio::sync::oneshot::channel();
    // As in `past`: paused time holds for a whole runtime, and the caller's must go on.
    std::thread::Builder::new().name("rehearsal".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        // A receiver that is gone has no use for the result.
        let _ = send.send(match runtime {
            Ok(runtime) => runtime.block_on(play()),
            Err(error) => Err(error.into()),
        });
    })?;
    done.await.unwrap_or(Err(RehearsalError::Panicked))
}
