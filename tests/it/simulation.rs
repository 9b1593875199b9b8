//! A whole engine in one thread on a paused clock: server, engine, controllers, simulated machines, and
//! checkers that look after every simulated second; they share no rule with the planners.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned, find, is_true};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::{DevCluster, DevMachine};
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capstan_apiserver::{ApiServer, Identity};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, TimeSource, Timestamp};
use capstan_engine::client::write::{Mode, Part, Precondition, Writer};
use capstan_engine::client::{Connection, Object, get, in_process, read};
use capstan_engine::controllers::in_place;
use capstan_engine::engine::Handle;
use capstan_engine::workload::Workload as _;
use capstan_store::MemoryStore;
use capstan_worlds::provider::World;
use capstan_worlds::standalone::engine::RunningEngine;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// 2026-11-20T10:00:00Z plus the runtime's paused time.
pub struct Paused(pub tokio::time::Instant);

impl TimeSource for Paused {
    fn now(&self) -> Timestamp {
        let passed = chrono::TimeDelta::from_std(self.0.elapsed()).unwrap_or_default();
        Timestamp::from_timestamp(1_795_168_800, 0).unwrap_or_default() + passed
    }
}

/// The same, and what a test adds to it.
struct Shifted {
    paused: Paused,
    by_s: Arc<AtomicI64>,
}

impl TimeSource for Shifted {
    fn now(&self) -> Timestamp {
        self.paused.now() + chrono::TimeDelta::seconds(self.by_s.load(Ordering::Relaxed))
    }
}

/// What happens to a request of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    None,
    /// Nothing is done, and this is the answer.
    Refuse(StatusCode),
    /// It is done, and the answer is that of a proxy that gave up.
    Lose,
    Delay(Duration),
    /// The answer ends after this time, whole or not.
    CutAfter(Duration),
}

pub type Disturb = Arc<dyn Fn(&Request<Body>) -> Disturbance + Send + Sync>;

/// Who disturbs; nobody at first.
type Disturber = Arc<Mutex<Option<Disturb>>>;

pub type Undeletable = Arc<Mutex<BTreeSet<String>>>;

/// Writes of one creation of a Machine: its clones and the Machine itself.
const CREATIONS: [&str; 3] = ["/kubeadmconfigs/", "/devmachines/", "/machines/"];

/// Labels of Machines that another object makes.
const MADE_BY: [&str; 3] =
    ["cluster.x-k8s.io/set-name", "cluster.x-k8s.io/control-plane-name", "cluster.x-k8s.io/pool-name"];

/// How long an engine lives. What it asked for last is done, and nobody hears of it.
#[derive(Clone, Debug, Default)]
struct Life(Arc<Mutex<Option<u32>>>);

impl Life {
    /// It ends with so many more creations; at once with none.
    fn end_after(&self, creations: u32) {
        *self.0.lock().expect("no panic while held") = Some(creations);
    }

    fn is_over(&self) -> bool {
        *self.0.lock().expect("no panic while held") == Some(0)
    }

    fn count_creation(&self) {
        if let Some(left) = self.0.lock().expect("no panic while held").as_mut() {
            *left = left.saturating_sub(1);
        }
    }
}

/// The server as the engine sees it: some deletions are those of somebody without the right to them, and
/// a dead engine has no answers.
fn guarded(server: ApiServer, around: Around, life: Life) -> Connection {
    let Around { undeletable, disturber, requests } = around;
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        requests.fetch_add(u64::from(!is_watch), Ordering::Relaxed);
        let path = request.uri().path();
        let held = request.method() == Method::DELETE
            && undeletable
                .lock()
                .expect("no panic while held")
                .iter()
                .any(|end| path.ends_with(end.as_str()));
        let names_clone = CREATIONS.iter().any(|kind| path.contains(kind));
        let server = if held { server.acting_as(Identity::READ_ONLY) } else { server.clone() };
        let life = life.clone();
        let disturb = disturber.lock().expect("no panic while held").clone();
        let disturbance = disturb.map_or(Disturbance::None, |disturb| disturb(&request));
        async move {
            if life.is_over() {
                std::future::pending::<()>().await;
            }
            let answer = disturbed(server, request, disturbance).await;
            // By server-side apply: only the answer tells a creation from a change.
            if names_clone && answer.as_ref().is_ok_and(|answer| answer.status() == StatusCode::CREATED) {
                life.count_creation();
            }
            if life.is_over() {
                std::future::pending::<()>().await;
            }
            answer
        }
    });
    in_process(service, "engine", "default", false)
}

/// What stands between every engine and the server.
#[derive(Clone)]
struct Around {
    undeletable: Undeletable,
    disturber: Disturber,
    /// Those of the engines.
    requests: Arc<AtomicU64>,
}

type Answer = http::Response<UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

async fn disturbed(
    server: ApiServer,
    request: Request<Body>,
    disturbance: Disturbance,
) -> Result<Answer, std::convert::Infallible> {
    let mut until = None;
    match disturbance {
        Disturbance::Refuse(code) => return Ok(refusal(code)),
        Disturbance::Delay(delay) => tokio::time::sleep(delay).await,
        Disturbance::CutAfter(after) => until = Some(after),
        Disturbance::None | Disturbance::Lose => {}
    }
    let answer = server.oneshot(request).await?;
    if disturbance == Disturbance::Lose {
        return Ok(refusal(StatusCode::GATEWAY_TIMEOUT));
    }
    let (head, body) = answer.into_parts();
    let body = body.map_err(Into::into);
    let body = match until {
        Some(after) => {
            let frames = http_body_util::BodyStream::new(body);
            let frames = futures::StreamExt::take_until(frames, tokio::time::sleep(after));
            http_body_util::StreamBody::new(frames).boxed_unsync()
        }
        None => body.boxed_unsync(),
    };
    Ok(http::Response::from_parts(head, body))
}

/// As a server words it.
fn refusal(code: StatusCode) -> Answer {
    let reason = match code {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::GONE => "Expired",
        StatusCode::GATEWAY_TIMEOUT => "Timeout",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "code": code.as_u16(), "message": "the weather of a test"});
    let body = http_body_util::Full::new(Bytes::from(status.to_string()));
    let body = body.map_err(|never| match never {});
    let answer = http::Response::builder().status(code).header("content-type", "application/json");
    answer.body(body.boxed_unsync()).expect("an answer")
}

/// One engine over the server, as long as it lives.
fn run_engine(stack: &Stack, options: &StackOptions, around: &Around) -> (RunningEngine, Life) {
    let life = Life::default();
    let connection = guarded(stack.server().clone(), around.clone(), life.clone());
    (RunningEngine::start(connection, options), life)
}

pub struct Sim {
    pub connection: Connection,
    pub writer: Writer,
    pub world: Arc<World>,
    pub handle: Handle,
    /// Ends of paths that the server does not let the engine delete.
    pub undeletable: Undeletable,
    pub clock: Clock,
    /// Between the engine and the server.
    around: Around,
    clock_shift_s: Arc<AtomicI64>,
    options: StackOptions,
    stack: Stack,
    engine: RunningEngine,
    life: Life,
    began: tokio::time::Instant,
    /// Highest counts that the checkers allow, control plane and workers.
    pub machines_max: (usize, usize),
    /// Fewest available workers that the checkers allow.
    pub workers_available_min: usize,
}

impl Sim {
    pub async fn start(seed: u64) -> Self {
        Self::with_updates(seed, in_place::Settings::default()).await
    }

    /// The same with updates in place.
    pub async fn with_updates(seed: u64, in_place: in_place::Settings) -> Self {
        let began = tokio::time::Instant::now();
        let clock_shift_s = Arc::new(AtomicI64::new(0));
        let clock = Clock::new(Shifted { paused: Paused(began), by_s: clock_shift_s.clone() });
        let options =
            StackOptions { engine: false, in_place, ..StackOptions::new(clock.clone(), Rng::seeded(seed)) };
        let stack = Stack::start(Arc::new(MemoryStore::new()), options.clone()).await.expect("a server");
        let (undeletable, requests) = (Undeletable::default(), Arc::default());
        let connection = stack.connection("test", false);
        let around = Around { undeletable: undeletable.clone(), disturber: Disturber::default(), requests };
        let (engine, life) = run_engine(&stack, &options, &around);
        let writer = Writer::new(connection.client.clone(), "test");
        Self {
            connection,
            writer,
            world: engine.world().clone(),
            handle: engine.handle().clone(),
            undeletable,
            clock,
            around,
            clock_shift_s,
            options,
            stack,
            engine,
            life,
            began,
            machines_max: (4, 3),
            workers_available_min: 0,
        }
    }

    /// The engine dies with the answer to so many more writes of creations of Machines; at once with none.
    pub fn kill_after(&self, creations: u32) {
        self.life.end_after(creations);
    }

    pub fn is_killed(&self) -> bool {
        self.life.is_over()
    }

    /// What happens to the engine's requests from now on.
    pub fn disturb_by(&self, disturb: Disturb) {
        *self.around.disturber.lock().expect("no panic while held") = Some(disturb);
    }

    /// Everybody's clock jumps.
    pub fn shift_clock(&self, seconds: i64) {
        self.clock_shift_s.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Another engine, which draws other names, begins where the last one ended.
    pub fn restart(&mut self, seed: u64) {
        self.kill_after(0);
        let options = StackOptions { rng: Rng::seeded(seed), ..self.options.clone() };
        (self.engine, self.life) = run_engine(&self.stack, &options, &self.around);
        (self.world, self.handle) = (self.engine.world().clone(), self.engine.handle().clone());
    }

    pub async fn create(&self, objects: Vec<Value>) {
        for object in objects {
            let target = target_of(&object);
            self.writer.create_value(&target, &object, Mode::Real).await.expect("created");
        }
    }

    /// Stores objects as they are, over those of the same name.
    pub async fn import(&self, objects: Vec<Value>) {
        self.stack.server().import(objects.into_iter()).await.expect("stored");
    }

    pub async fn get<K: Object>(&self, name: &str) -> Option<K> {
        get(&self.connection.client, &ObjectKey::new("default", name)).await.expect("an answer")
    }

    pub async fn list<K: Object>(&self) -> Vec<K> {
        let values = read::list_values(&self.connection.client, &Gvk::of::<K>(), "default", "").await;
        values
            .expect("a list")
            .into_iter()
            .map(|v| serde_json::from_value(v).expect("of this kind"))
            .collect()
    }

    pub async fn patch<K: Object>(&self, name: &str, body: Value) {
        let key = ObjectKey::new("default", name);
        self.writer.patch_part::<K>(&key, Part::Main, &body, Mode::Real).await.expect("patched");
    }

    pub async fn delete<K: Object>(&self, name: &str) {
        let key = ObjectKey::new("default", name);
        self.writer.delete::<K>(&key, &Precondition::default(), Mode::Real).await.expect("deleted");
    }

    /// So many did the engine send: reads and writes, but not the watches, which begin anew now and then.
    pub fn requests(&self) -> u64 {
        self.around.requests.load(Ordering::Relaxed)
    }

    pub fn elapsed_s(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// Waits for `done`, one simulated second at a time, with the checkers looking on.
    pub async fn until(&self, what: &str, limit_s: u64, done: impl AsyncFn(&Self) -> bool) {
        let start = self.elapsed_s();
        while !done(self).await {
            if self.elapsed_s() - start >= limit_s {
                self.report(what).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.check().await;
        }
    }

    /// What must hold at every moment.
    pub async fn check(&self) {
        let machines: Vec<Machine> = self.list().await;
        let (mut control_plane, mut workers, mut available) = (0, 0, 0);
        for machine in machines.iter().filter(|m| m.metadata.deletion_timestamp.is_none()) {
            let is_control_plane = labels(machine).any(|l| l == "cluster.x-k8s.io/control-plane");
            *(if is_control_plane { &mut control_plane } else { &mut workers }) += 1;
            available += usize::from(!is_control_plane && is_true(machine.conditions(), "Available"));
            let owned =
                machine.metadata.owner_references.iter().flatten().any(|r| r.controller == Some(true));
            let stands_alone = !labels(machine).any(|label| MADE_BY.contains(&label));
            assert!(owned || stands_alone, "Machine {:?} has no controller", machine.metadata.name);
        }
        let (control_plane_max, workers_max) = self.machines_max;
        assert!(control_plane <= control_plane_max, "{control_plane} control plane Machines");
        assert!(workers <= workers_max, "{workers} worker Machines");
        assert!(available >= self.workers_available_min, "{available} available workers");
        let cluster = ObjectKey::new("default", "harbor");
        if let Ok(view) = self.world.etcd(&cluster).await
            && !view.members.is_empty()
        {
            assert!(view.leader.is_some(), "etcd lost its leader: {view:?}");
        }
    }

    /// Fails with everything that helps to see why.
    async fn report(&self, what: &str) -> ! {
        let mut text = String::new();
        dump::<Cluster>(self, &mut text).await;
        dump::<DevCluster>(self, &mut text).await;
        dump::<KubeadmControlPlane>(self, &mut text).await;
        dump::<MachineDeployment>(self, &mut text).await;
        dump::<MachineSet>(self, &mut text).await;
        dump::<Machine>(self, &mut text).await;
        dump::<KubeadmConfig>(self, &mut text).await;
        dump::<DevMachine>(self, &mut text).await;
        for entry in self.handle.trace().entries().iter().rev().take(40) {
            text.push_str(&format!(
                "{} {} {} writes={} {:?}\n",
                entry.at, entry.controller, entry.key, entry.writes, entry.ending
            ));
        }
        panic!("after {} s: {what} did not happen\n{text}", self.elapsed_s());
    }
}

async fn dump<K: Object + Conditioned>(sim: &Sim, text: &mut String) {
    for object in sim.list::<K>().await {
        let going = if object.meta().deletion_timestamp.is_some() { " DELETING" } else { "" };
        text.push_str(&format!("{} {}{going}\n", K::kind(&()), ObjectKey::of(&object)));
        for c in object.conditions() {
            text.push_str(&format!("    {}={} {} {:?}\n", c.type_, c.status, c.reason, c.message));
        }
    }
}

pub fn labels<K: Object>(object: &K) -> impl Iterator<Item = &str> {
    object.meta().labels.iter().flat_map(|all| all.keys()).map(String::as_str)
}

pub fn target_of(object: &Value) -> ObjectRef {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = text(&object["kind"]);
    ObjectRef {
        gvk: Gvk {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            kind,
            namespaced: true,
        },
        key: ObjectKey::new("default", text(&object["metadata"]["name"])),
        uid: String::new(),
    }
}

/// Cluster `harbor`: control plane, one MachineDeployment, in-memory infrastructure.
pub fn manifest(control_plane: u32, workers: u32) -> Vec<Value> {
    let reference = |group: &str, kind: &str, name: &str| json!({"apiGroup": format!("{group}cluster.x-k8s.io"), "kind": kind, "name": name});
    let object = |group: &str, kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": format!("{group}cluster.x-k8s.io/v1beta2"), "kind": kind,
               "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    };
    let part = |seconds: u32| json!({"provisioning": {"startupDuration": format!("{seconds}s"), "startupJitter": "0.2"}});
    let host = json!({"template": {"spec": {"backend": {"inMemory":
        {"vm": part(10), "node": part(2), "apiServer": part(2), "etcd": part(2)}}}}});
    let mine =
        json!({"cluster.x-k8s.io/cluster-name": "harbor", "cluster.x-k8s.io/deployment-name": "harbor-md-0"});
    let mut deployment = object(
        "",
        "MachineDeployment",
        "harbor-md-0",
        json!({
        "clusterName": "harbor", "replicas": workers, "selector": {"matchLabels": mine},
        "template": {"metadata": {"labels": mine}, "spec": {
            "clusterName": "harbor", "version": "v1.34.1",
            "bootstrap": {"configRef": reference("bootstrap.", "KubeadmConfigTemplate", "harbor-md-0")},
            "infrastructureRef": reference("infrastructure.", "DevMachineTemplate", "harbor-md-0")}}}),
    );
    deployment["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "harbor"});
    vec![
        object(
            "",
            "Cluster",
            "harbor",
            json!({
            "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}},
            "controlPlaneRef": reference("controlplane.", "KubeadmControlPlane", "harbor-cp"),
            "infrastructureRef": reference("infrastructure.", "DevCluster", "harbor")}),
        ),
        object("infrastructure.", "DevCluster", "harbor", json!({"backend": {"inMemory": {}}})),
        object("infrastructure.", "DevMachineTemplate", "harbor-cp", host.clone()),
        object(
            "controlplane.",
            "KubeadmControlPlane",
            "harbor-cp",
            json!({
            "replicas": control_plane, "version": "v1.34.1",
            "machineTemplate": {"spec": {"infrastructureRef": reference("infrastructure.", "DevMachineTemplate", "harbor-cp")}},
            "kubeadmConfigSpec": {"clusterConfiguration": {"apiServer": {"certSANs": ["localhost"]}}}}),
        ),
        object("infrastructure.", "DevMachineTemplate", "harbor-md-0", host),
        object(
            "bootstrap.",
            "KubeadmConfigTemplate",
            "harbor-md-0",
            json!({"template": {"spec": {
            "joinConfiguration": {"nodeRegistration": {"criSocket": "unix:///x"}}}}}),
        ),
        deployment,
    ]
}

/// Available, nothing in motion, and every counter at these numbers.
pub async fn settled(sim: &Sim, control_plane: i32, workers: i32, version: &str) -> bool {
    let Some(cluster) = sim.get::<Cluster>("harbor").await else { return false };
    let status = cluster.status.clone().unwrap_or_default();
    let all = |counts: Option<capi_types::cluster::ReplicaCounts>, n: i32| {
        counts.is_some_and(|c| {
            [c.desired_replicas, c.replicas, c.ready_replicas, c.available_replicas, c.up_to_date_replicas]
                .iter()
                .all(|count| count.unwrap_or(0) == n)
                && (n == 0 || (c.versions.len() == 1 && c.versions[0].version == version))
        })
    };
    let conditions = cluster.conditions();
    let still = ["RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting", "Paused"]
        .iter()
        .all(|type_| find(conditions, type_).is_some_and(|c| c.status == "False"));
    is_true(conditions, "Available")
        && still
        && all(status.control_plane, control_plane)
        && all(status.workers, workers)
}

/// Names of Machines that a MachineSet made.
pub async fn worker_names(sim: &Sim) -> Vec<String> {
    let machines: Vec<Machine> = sim.list().await;
    let workers = machines.iter().filter(|m| labels(*m).any(|l| l == "cluster.x-k8s.io/set-name"));
    workers.filter_map(|m| m.metadata.name.clone()).collect()
}
