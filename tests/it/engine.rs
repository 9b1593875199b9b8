//! The engine and the simulated provider over the API server in this process, under paused time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capi_rules::admission::Webhooks;
use capi_types::cluster::Cluster;
use capi_types::condition::find;
use capi_types::dev::{DevCluster, DevMachine, HOLD_ANNOTATION};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, TimeSource, Timestamp};
use capstan_engine::client::write::{Mode, Part, Precondition, Writer};
use capstan_engine::client::{Cache, Connection, get, in_process};
use capstan_engine::engine::lease::{Elector, LeaseOptions};
use capstan_engine::engine::{Controller, Engine, EngineOptions, Handle, Outcome, ReconcileError, Trigger};
use capstan_engine::workload::Workload as _;
use capstan_store::MemoryStore;
use capstan_worlds::provider::{self, ProviderOptions, World};
use k8s_openapi::api::core::v1::ConfigMap;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// 2026-11-20T10:00:00Z plus the runtime's paused time.
#[derive(Clone)]
struct Paused(tokio::time::Instant);

impl TimeSource for Paused {
    fn now(&self) -> Timestamp {
        let passed = chrono::TimeDelta::from_std(self.0.elapsed()).unwrap_or_default();
        Timestamp::from_timestamp(1_795_168_800, 0).unwrap_or_default() + passed
    }
}

fn paused_clock() -> Clock {
    Clock::new(Paused(tokio::time::Instant::now()))
}

async fn server(clock: &Clock) -> Connection {
    let tokens = Tokens { admin: "a".to_owned(), read_only: "r".to_owned() };
    let definitions = capi_types::crds::all();
    let options = Options {
        clock: clock.clone(),
        rng: Rng::seeded(7),
        definitions,
        tokens,
        admission: Arc::new(Webhooks),
    };
    let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server");
    in_process(server, "test", "default", false)
}

struct Running {
    world: Arc<World>,
    handle: Handle,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn start(connection: &Connection, clock: &Clock) -> Running {
    let mut engine =
        Engine::new(connection.client.clone(), clock.clone(), Rng::seeded(1), EngineOptions::default());
    let world = provider::register(&mut engine, ProviderOptions::default());
    let (handle, stop) = (engine.handle(), CancellationToken::new());
    let task = tokio::spawn(engine.run(stop.clone()));
    Running { world, handle, stop, task }
}

impl Running {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the engine ends");
    }
}

fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object of this kind")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// A Cluster with its DevCluster, as the Cluster controller would have left them.
pub async fn make_cluster(writer: &Writer) {
    let reference =
        |kind: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "c"});
    let cluster: Cluster = typed(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"infrastructureRef": reference("DevCluster")},
    }));
    let cluster = writer.create(&cluster, Mode::Real).await.expect("a Cluster");
    let dev: DevCluster = typed(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevCluster",
        "metadata": {"name": "c", "namespace": "default", "ownerReferences": [owner("Cluster", "c", cluster.metadata.uid)]},
        "spec": {"backend": {"inMemory": {}}},
    }));
    writer.create(&dev, Mode::Real).await.expect("a DevCluster");
}

fn owner(kind: &str, name: &str, uid: Option<String>) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": name, "uid": uid, "controller": true})
}

async fn make_machine(writer: &Writer, name: &str, jitter: &str) {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane": ""});
    let machine: Machine = typed(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "clusterName": "c", "version": "v1.34.0", "failureDomain": "fd1",
            "bootstrap": {"dataSecretName": "given"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name},
        },
    }));
    let machine = writer.create(&machine, Mode::Real).await.expect("a Machine");
    let part = |seconds: u64| json!({"provisioning": {"startupDuration": format!("{seconds}s"), "startupJitter": jitter}});
    let dev: DevMachine = typed(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachine",
        "metadata": {
            "name": name, "namespace": "default", "labels": labels,
            "ownerReferences": [owner("Machine", name, machine.metadata.uid)],
        },
        "spec": {"backend": {"inMemory": {"vm": part(10), "node": part(2), "etcd": part(4), "apiServer": part(3)}}},
    }));
    writer.create(&dev, Mode::Real).await.expect("a DevMachine");
}

async fn read<K: capstan_engine::client::Object>(connection: &Connection, name: &str) -> K {
    get(&connection.client, &key(name)).await.expect("an answer").expect("an object")
}

/// `Ready=False VMProvisioned=True ...`, in stored order, with reasons of what does not hold.
async fn conditions(connection: &Connection, name: &str) -> String {
    let dev: DevMachine = read(connection, name).await;
    let status = dev.status.unwrap_or_default();
    let word = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| match c.status.as_str() {
        "True" => c.type_.clone(),
        _ => format!("{}:{}", c.type_, c.reason),
    };
    status.conditions.iter().map(word).collect::<Vec<_>>().join(" ")
}

async fn provisioned(writer: &Writer) {
    let patch = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
    writer.patch_part::<Cluster>(&key("c"), Part::Status, &patch, Mode::Real).await.expect("patched");
}

const STEP: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_dev_machine_boots_phase_by_phase_and_survives_a_restart() {
    let clock = paused_clock();
    let connection = server(&clock).await;
    let writer = Writer::new(connection.client.clone(), "test");
    make_cluster(&writer).await;
    make_machine(&writer, "m", "0").await;
    let running = start(&connection, &clock);
    running.handle.wait_until_idle(STEP).await;

    let dev: DevCluster = read(&connection, "c").await;
    let endpoint = dev.spec.control_plane_endpoint.expect("an endpoint");
    assert_eq!((endpoint.host.as_deref(), endpoint.port), (Some("127.0.0.1"), Some(20_000)));
    assert_eq!(dev.status.and_then(|s| s.initialization).and_then(|i| i.provisioned), Some(true));
    let waiting = "Ready:NotReady APIServerProvisioned:WaitingForVMProvisioned \
                   EtcdProvisioned:WaitingForVMProvisioned NodeProvisioned:WaitingForVMProvisioned";
    let expected = format!("{waiting} VMProvisioned:WaitingForClusterInfrastructureReady Paused:NotPaused");
    assert_eq!(conditions(&connection, "m").await, expected);

    provisioned(&writer).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let expected = format!("{waiting} VMProvisioned:WaitingForStartupTimeout Paused:NotPaused");
    assert_eq!(conditions(&connection, "m").await, expected);
    assert!(running.world.nodes(&key("c")).await.is_err());

    tokio::time::sleep(Duration::from_secs(6)).await;
    let machine: DevMachine = read(&connection, "m").await;
    assert_eq!(machine.spec.provider_id.as_deref(), Some("in-memory://m"));
    let status = machine.status.expect("a status");
    assert_eq!(status.initialization.and_then(|i| i.provisioned), Some(true));
    assert_eq!(status.failure_domain.as_deref(), Some("fd1"));
    let node = find(&status.conditions, "NodeProvisioned").expect("a condition");
    assert_eq!(node.reason, "WaitingForStartupTimeout");

    tokio::time::sleep(Duration::from_secs(10)).await;
    let up = "Ready APIServerProvisioned EtcdProvisioned NodeProvisioned VMProvisioned Paused:NotPaused";
    assert_eq!(conditions(&connection, "m").await, up);
    let etcd = running.world.etcd(&key("c")).await.expect("etcd answers");
    assert_eq!(etcd.leader, Some(etcd.members[0].id));
    let writes = running.handle.writes();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(running.handle.writes(), writes, "nothing is written when nothing changes");
    running.stop().await;

    let again = start(&connection, &clock);
    again.handle.wait_until_idle(STEP).await;
    assert_eq!(again.world.etcd(&key("c")).await.expect("etcd answers"), etcd);
    assert_eq!(again.world.nodes(&key("c")).await.expect("nodes").len(), 1);
    assert_eq!(again.handle.writes(), 0, "a restart changes nothing");

    writer.delete::<DevMachine>(&key("m"), &Precondition::default(), Mode::Real).await.expect("deleted");
    again.handle.wait_until_idle(STEP).await;
    assert!(get::<DevMachine>(&connection.client, &key("m")).await.expect("an answer").is_none());
    assert!(again.world.nodes(&key("c")).await.is_err(), "the API server went with its machine");
    again.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_moved_waited_for_its_host_again() {
    let clock = paused_clock();
    let connection = server(&clock).await;
    let writer = Writer::new(connection.client.clone(), "test");
    make_cluster(&writer).await;
    provisioned(&writer).await;
    make_machine(&writer, "m", "0").await;
    let running = start(&connection, &clock);
    tokio::time::sleep(Duration::from_secs(30)).await;
    running.stop().await;
    let machine: Machine = read(&connection, "m").await;
    let bootstrapped = "machine.inmemory.infrastructure.cluster.x-k8s.io/bootstrapped";
    assert!(
        machine.metadata.annotations.expect("annotations").contains_key(bootstrapped),
        "not on the Machine"
    );
    let dev: DevMachine = read(&connection, "m").await;
    assert!(!dev.metadata.annotations.clone().unwrap_or_default().contains_key(bootstrapped));
    assert_eq!(
        dev.metadata.finalizers,
        Some(vec!["dockermachine.infrastructure.cluster.x-k8s.io".to_owned()]),
        "upstream's provider removes no other"
    );

    // As `clusterctl move` leaves it on the other server: everything but the status, and upstream's provider
    // keeps none of our annotations on the DevMachine.
    let other = server(&clock).await;
    let there = Writer::new(other.client.clone(), "test");
    make_cluster(&there).await;
    provisioned(&there).await;
    make_machine(&there, "m", "0").await;
    let mark = json!({"metadata": {"annotations": {bootstrapped: ""}}});
    there.patch_part::<Machine>(&key("m"), Part::Main, &mark, Mode::Real).await.expect("annotated");
    let running = start(&other, &clock);
    running.handle.wait_until_idle(STEP).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let up = "Ready APIServerProvisioned EtcdProvisioned NodeProvisioned VMProvisioned Paused:NotPaused";
    assert_eq!(conditions(&other, "m").await, up);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_of_earlier_versions_was_never_removed() {
    let clock = paused_clock();
    let connection = server(&clock).await;
    let writer = Writer::new(connection.client.clone(), "test");
    make_cluster(&writer).await;
    provisioned(&writer).await;
    make_machine(&writer, "m", "0").await;
    let body = json!({"metadata": {"finalizers": ["devmachine.infrastructure.cluster.x-k8s.io"]}});
    writer.patch_part::<DevMachine>(&key("m"), Part::Main, &body, Mode::Real).await.expect("patched");
    let running = start(&connection, &clock);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let dev: DevMachine = read(&connection, "m").await;
    let finalizers = dev.metadata.finalizers.unwrap_or_default();
    assert_eq!(finalizers, ["dockermachine.infrastructure.cluster.x-k8s.io"]);
    writer.delete::<DevMachine>(&key("m"), &Precondition::default(), Mode::Real).await.expect("deleted");
    running.handle.wait_until_idle(STEP).await;
    assert!(get::<DevMachine>(&connection.client, &key("m")).await.expect("an answer").is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_moved_leader_is_remembered() {
    let clock = paused_clock();
    let connection = server(&clock).await;
    let writer = Writer::new(connection.client.clone(), "test");
    make_cluster(&writer).await;
    provisioned(&writer).await;
    for name in ["m1", "m2", "m3"] {
        make_machine(&writer, name, "0.3").await;
    }
    let running = start(&connection, &clock);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let etcd = running.world.etcd(&key("c")).await.expect("etcd answers");
    let other =
        etcd.members.iter().map(|m| m.id).find(|id| Some(*id) != etcd.leader).expect("another member");
    running.world.move_leader(&key("c"), other).await.expect("moved");
    let gone = etcd.leader.expect("a leader");
    running.world.remove_member(&key("c"), gone).await.expect("removed");
    tokio::time::sleep(Duration::from_secs(5)).await;
    running.stop().await;

    let again = start(&connection, &clock);
    again.handle.wait_until_idle(STEP).await;
    let etcd = again.world.etcd(&key("c")).await.expect("etcd answers");
    assert_eq!((etcd.leader, etcd.members.len()), (Some(other), 2));
    again.stop().await;
}

#[tokio::test(start_paused = true)]
async fn held_and_unsupported_machines_say_so() {
    let clock = paused_clock();
    let connection = server(&clock).await;
    let writer = Writer::new(connection.client.clone(), "test");
    make_cluster(&writer).await;
    provisioned(&writer).await;
    make_machine(&writer, "held", "0").await;
    let hold = json!({"metadata": {"annotations": {HOLD_ANNOTATION: "Node"}}});
    writer.patch_part::<DevMachine>(&key("held"), Part::Main, &hold, Mode::Real).await.expect("annotated");
    make_machine(&writer, "docker", "0").await;
    let docker = json!({"spec": {"backend": {"inMemory": null, "docker": {}}}});
    writer.patch_part::<DevMachine>(&key("docker"), Part::Main, &docker, Mode::Real).await.expect("changed");
    let running = start(&connection, &clock);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let held = conditions(&connection, "held").await;
    assert!(held.contains("NodeProvisioned:WaitingForStartupTimeout VMProvisioned "), "{held}");
    let docker: DevMachine = read(&connection, "docker").await;
    let ready = find(&docker.status.unwrap_or_default().conditions, "Ready").expect("a condition").clone();
    assert!(ready.message.contains("only spec.backend.inMemory is supported"), "{}", ready.message);

    let release = json!({"metadata": {"annotations": {HOLD_ANNOTATION: null}}});
    writer.patch_part::<DevMachine>(&key("held"), Part::Main, &release, Mode::Real).await.expect("released");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(conditions(&connection, "held").await.starts_with("Ready APIServerProvisioned"));
    running.stop().await;
}

/// Makes one ConfigMap per run until it sees three.
struct ThreeMaps {
    maps: Cache<ConfigMap>,
    writer: Writer,
}

#[async_trait]
impl Controller for ThreeMaps {
    fn name(&self) -> &'static str {
        "three-maps"
    }

    fn triggers(&self) -> Vec<Trigger> {
        vec![Trigger::on(&self.maps, |_, _| vec![key("all")])]
    }

    async fn reconcile(&self, _: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let have = self.maps.in_namespace("default").len();
        if have < 3 {
            let map: ConfigMap = typed(json!({"metadata": {"generateName": "map-", "namespace": "default"}}));
            self.writer.create(&map, Mode::Real).await?;
            return Ok(Outcome::RequeueAfter(Duration::ZERO));
        }
        Ok(Outcome::Done)
    }

    fn rate_interval(&self) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_sees_what_the_last_one_wrote() {
    let clock = paused_clock();
    let connection = server(&clock).await;
    let mut engine = Engine::new(connection.client.clone(), clock, Rng::seeded(1), EngineOptions::default());
    let controller = ThreeMaps { maps: engine.cache(), writer: engine.writer().clone() };
    let maps = controller.maps.clone();
    engine.add(controller);
    let (handle, stop) = (engine.handle(), CancellationToken::new());
    let task = tokio::spawn(engine.run(stop.clone()));
    handle.wait_until_idle(STEP).await;
    assert!(handle.trigger("three-maps", &key("all")));
    handle.wait_until_idle(STEP).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(maps.in_namespace("default").len(), 3, "{:?}", handle.trace().entries());
    stop.cancel();
    task.await.expect("the engine ends");
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_another_takes_over() {
    let clock = paused_clock();
    let connection = server(&clock).await;
    let elect = |identity: &str| {
        let options = LeaseOptions::new("kube-system", "capstan", identity);
        let writer = Writer::new(connection.client.clone(), "capstan");
        let (elector, leadership) = Elector::new(options, writer, clock.clone());
        let stop = CancellationToken::new();
        let task = tokio::spawn(elector.run(stop.clone()));
        (leadership, stop, task)
    };
    let (first, _first_stop, first_task) = elect("one");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (second, second_stop, second_task) = elect("two");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(first.leads() && !second.leads());

    // The first one dies without a word.
    first_task.abort();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!first.leads(), "its own right has run out");
    assert!(!second.leads(), "and nobody else has one yet");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(second.leads());

    // The second one leaves politely, so a third need not wait.
    let (third, _stop, _task) = elect("three");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!third.leads());
    second_stop.cancel();
    second_task.await.expect("it ends");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(third.leads() && !second.leads());
}
