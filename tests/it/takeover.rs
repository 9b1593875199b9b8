//! `capstan engine` beside upstream's managers: it waits for their Leases or takes them, gives them back, and goes on
//! where they stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::{DevCluster, DevMachine};
use capi_types::key::Gvk;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capi_types::names::lease;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp};
use capstan_engine::client::write::Writer;
use capstan_engine::client::{Connection, Object, read};
use capstan_engine::engine::lease::{Elector, Leadership, LeaseOptions};
use capstan_engine::engine::upstream::UpstreamLeases;
use capstan_engine::engine::{Engine, EngineOptions, Handle};
use capstan_store::MemoryStore;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::simulation::{Sim, manifest, settled};

/// A server with the namespaces of upstream's managers.
async fn server() -> (Stack, Connection) {
    let clock = Clock::fixed(Timestamp::from_timestamp(1_795_168_800, 0).unwrap_or_default());
    let options = StackOptions { engine: false, ..StackOptions::new(clock, Rng::seeded(7)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
    let connection = stack.connection("test", false);
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(connection.client.clone());
    for (name, _) in lease::UPSTREAM {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
        namespaces.create(&Default::default(), &namespace).await.expect("created");
    }
    (stack, connection)
}

/// One of upstream's managers, by the rules of client-go; it ends when dropped, without giving anything back.
struct Manager {
    leadership: Leadership,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Manager {
    fn start(connection: &Connection, (namespace, name): (&str, &str), duration_s: u64) -> Self {
        let options = LeaseOptions {
            duration: Duration::from_secs(duration_s),
            renew_deadline: Duration::from_secs(duration_s * 2 / 3),
            ..LeaseOptions::new(namespace, name, &format!("{namespace}-manager_1"))
        };
        let writer = Writer::new(connection.client.clone(), "manager");
        let (elector, leadership) = Elector::new(options, writer, Clock::system());
        let stop = CancellationToken::new();
        let task = tokio::spawn(elector.run(stop.clone()));
        Self { leadership, stop, task }
    }

    fn kill(self) {
        self.task.abort();
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.expect("an end");
    }
}

/// An engine without controllers: only its right to write matters.
struct Beside {
    handle: Handle,
    stop: DropGuard,
    task: tokio::task::JoinHandle<()>,
}

impl Beside {
    fn start(connection: &Connection, take_over: bool) -> Self {
        let options = EngineOptions {
            lease: Some(LeaseOptions::new("default", "capstan-engine", "capstan_1")),
            upstream: Some(UpstreamLeases { leases: lease::UPSTREAM.to_vec(), take_over }),
            ..EngineOptions::default()
        };
        let engine = Engine::new(connection.client.clone(), Clock::system(), Rng::seeded(1), options);
        let (handle, stop) = (engine.handle(), CancellationToken::new());
        let task = tokio::spawn(engine.run(stop.clone()));
        Self { handle, stop: stop.drop_guard(), task }
    }

    async fn end(self) {
        drop(self.stop);
        self.task.await.expect("an end");
    }
}

async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

/// For how many seconds from now both lead: never more than none.
async fn watch_both(beside: &Beside, managers: &[&Manager], for_s: u64) -> Option<u64> {
    let mut first = None;
    for second in 0..for_s {
        let managers_lead = managers.iter().any(|manager| manager.leadership.leads());
        assert!(!(beside.handle.leads() && managers_lead), "both lead after {second} s");
        first = first.or_else(|| beside.handle.leads().then_some(second));
        seconds(1).await;
    }
    first
}

async fn holders(connection: &Connection) -> Vec<String> {
    let leases: Api<Lease> = Api::all(connection.client.clone());
    let found = leases.list(&ListParams::default()).await.expect("a list").items;
    let holder = |lease: Lease| lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    found.into_iter().map(holder).collect()
}

#[tokio::test(start_paused = true)]
async fn an_engine_leads_where_no_manager_of_upstream_does() {
    let (_stack, connection) = server().await;
    let beside = Beside::start(&connection, false);
    assert!(watch_both(&beside, &[], 20).await.is_some_and(|s| s < 5));
    // A manager that comes later is given way to.
    let late = Manager::start(&connection, lease::CORE, 15);
    seconds(3).await;
    assert!(!beside.handle.leads() && late.leadership.leads());
}

#[tokio::test(start_paused = true)]
async fn an_engine_waits_until_upstreams_managers_gave_up() {
    let (_stack, connection) = server().await;
    let core = Manager::start(&connection, lease::CORE, 15);
    let control_plane = Manager::start(&connection, lease::KUBEADM_CONTROL_PLANE, 60);
    seconds(3).await;
    let beside = Beside::start(&connection, false);
    assert_eq!(watch_both(&beside, &[&core, &control_plane], 120).await, None);
    core.end().await;
    assert_eq!(watch_both(&beside, &[&control_plane], 30).await, None, "one of them still leads");
    control_plane.kill();
    let first = watch_both(&beside, &[], 90).await.expect("it leads");
    assert!((55..70).contains(&first), "{first} s after a kill, its record is good for 60 s");
}

#[tokio::test(start_paused = true)]
async fn a_takeover_waits_until_the_managers_have_stopped_and_gives_back() {
    let (_stack, connection) = server().await;
    let managers: Vec<Manager> = lease::UPSTREAM.map(|one| Manager::start(&connection, one, 60)).into();
    seconds(3).await;
    let beside = Beside::start(&connection, true);
    let all: Vec<&Manager> = managers.iter().collect();
    let first = watch_both(&beside, &all, 300).await.expect("it leads");
    assert!((60..75).contains(&first), "after {first} s: a holder may go on for 60 s");
    assert_eq!(holders(&connection).await, ["capstan_1"; 4]);
    beside.end().await;
    seconds(5).await;
    assert!(managers.iter().all(|manager| manager.leadership.leads()), "they are back");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_taken_back_is_not_taken_again() {
    let (_stack, connection) = server().await;
    let beside = Beside::start(&connection, true);
    let manager = Manager::start(&connection, lease::CORE, 15);
    seconds(40).await;
    assert!(beside.handle.leads() && !manager.leadership.leads());
    let leases: Api<Lease> = Api::namespaced(connection.client.clone(), lease::CORE.0);
    let held = json!({"spec": {"holderIdentity": "somebody", "renewTime": "2027-01-01T00:00:00.000000Z"}});
    let patch = kube::api::Patch::Merge(held);
    leases.patch(lease::CORE.1, &Default::default(), &patch).await.expect("patched");
    seconds(4).await;
    assert!(!beside.handle.leads());
    let lease = leases.get(lease::CORE.1).await.expect("the lease");
    assert_eq!(lease.spec.and_then(|spec| spec.holder_identity).as_deref(), Some("somebody"));
}

#[tokio::test(start_paused = true)]
async fn a_second_engine_leaves_the_leases_to_the_first() {
    let (_stack, connection) = server().await;
    let manager = Manager::start(&connection, lease::CORE, 15);
    seconds(3).await;
    let first = Beside::start(&connection, true);
    seconds(60).await;
    let second = Beside::start(&connection, true);
    seconds(60).await;
    assert!(first.handle.leads() && !second.handle.leads() && !manager.leadership.leads());
}

fn of_core(kind: &str) -> Gvk {
    Gvk {
        group: String::new(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: true,
    }
}

async fn everything(sim: &Sim) -> Vec<Value> {
    let kinds = [
        Gvk::of::<Cluster>(),
        Gvk::of::<DevCluster>(),
        Gvk::of::<KubeadmControlPlane>(),
        Gvk::of::<MachineDeployment>(),
        Gvk::of::<MachineSet>(),
        Gvk::of::<Machine>(),
        Gvk::of::<KubeadmConfig>(),
        Gvk::of::<DevMachine>(),
        of_core("Secret"),
        of_core("ConfigMap"),
    ];
    let mut all = Vec::new();
    for gvk in kinds {
        let of_kind = read::list_values(&sim.connection.client, &gvk, "default", "").await.expect("a list");
        all.extend(of_kind.into_iter().map(|mut object| {
            let api_version = if gvk.group.is_empty() {
                gvk.version.clone()
            } else {
                format!("{}/{}", gvk.group, gvk.version)
            };
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(gvk.kind);
            object
        }));
    }
    all
}

/// The same objects as upstream's managers leave them: their patches belong to `manager`, and the numbers in
/// `machine-template-hash` of these many MachineSets are others.
fn as_upstream_left(objects: &[Value], sets: usize) -> Vec<Value> {
    let hashes: Vec<&str> = objects
        .iter()
        .filter(|object| object["kind"] == "MachineSet")
        .filter_map(|set| set["metadata"]["labels"]["machine-template-hash"].as_str())
        .filter_map(|label| label.split('-').next())
        .collect();
    assert_eq!(hashes.len(), sets, "MachineSets");
    let mut text = serde_json::to_string(objects).expect("JSON");
    for (hash, upstream) in hashes.iter().zip(["2214876532", "3371904410"]) {
        text = text.replace(hash, upstream);
    }
    let text = text.replace(r#""manager":"capstan""#, r#""manager":"manager""#);
    serde_json::from_str(&text).expect("JSON")
}

async fn names<K: Object>(sim: &Sim) -> Vec<String> {
    sim.list::<K>().await.iter().filter_map(|object| object.meta().name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_upstream_left_in_the_middle_of_a_rollout_is_finished() {
    let mut sim = Sim::start(83).await;
    sim.machines_max = (2, 4);
    sim.create(manifest(1, 3)).await;
    sim.until("1 + 3 machines up", 240, async |s| settled(s, 1, 3, "v1.34.1").await).await;
    let version = json!({"spec": {"version": "v1.35.0"}});
    sim.patch::<KubeadmControlPlane>("harbor-cp", version.clone()).await;
    sim.until("a new control plane", 300, async |s| {
        let old: Vec<Machine> = s.list().await;
        old.iter().filter(|m| m.spec.version.as_deref() == Some("v1.35.0")).count() == 1 && old.len() == 4
    })
    .await;
    let body = json!({"spec": {"template": version}});
    sim.patch::<MachineDeployment>("harbor-md-0", body).await;
    sim.until("one new worker is there, and an old one goes", 300, async |s| {
        let machines: Vec<Machine> = s.list().await;
        machines.iter().any(|m| m.metadata.deletion_timestamp.is_some())
    })
    .await;
    sim.kill_after(0);
    let left = as_upstream_left(&everything(&sim).await, 2);
    sim.import(left).await;
    let sets = names::<MachineSet>(&sim).await;
    let new: Vec<Machine> = sim.list::<Machine>().await;
    let new: Vec<String> = new
        .into_iter()
        .filter(|machine| machine.spec.version.as_deref() == Some("v1.35.0"))
        .filter_map(|machine| machine.metadata.uid)
        .collect();
    assert!(new.len() >= 2, "a control plane Machine and a worker: {new:?}");

    sim.restart(84);
    sim.until("the rollout's end", 600, async |s| settled(s, 1, 3, "v1.35.0").await).await;
    // The old one goes once it is empty, at this moment or the next.
    let after = names::<MachineSet>(&sim).await;
    assert!(!after.is_empty() && after.iter().all(|set| sets.contains(set)), "made again: {after:?}");
    let machines: Vec<Machine> = sim.list().await;
    for uid in new {
        let kept = machines.iter().any(|machine| machine.metadata.uid.as_deref() == Some(&uid));
        assert!(kept, "nothing that was new is replaced");
    }
}

/// The uids of Machines of a version.
async fn of_version(sim: &Sim, version: &str) -> Vec<String> {
    let machines: Vec<Machine> = sim.list().await;
    let wanted = machines.into_iter().filter(|machine| machine.spec.version.as_deref() == Some(version));
    wanted.filter_map(|machine| machine.metadata.uid).collect()
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_upstream_left_while_a_machine_goes_is_finished() {
    let mut sim = Sim::start(85).await;
    sim.machines_max = (4, 1);
    sim.create(manifest(3, 1)).await;
    sim.until("3 + 1 machines up", 400, async |s| settled(s, 3, 1, "v1.34.1").await).await;
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"version": "v1.35.0"}})).await;
    sim.until("an old one goes, with its etcd member still there", 400, async |s| {
        let machines: Vec<Machine> = s.list().await;
        machines.iter().any(|m| m.metadata.deletion_timestamp.is_some())
    })
    .await;
    sim.kill_after(0);
    let left = as_upstream_left(&everything(&sim).await, 1);
    // What upstream's managers write and no engine of ours: the older status, and their own field managers.
    let text = serde_json::to_string(&left).expect("JSON");
    assert!(text.contains(r#""manager":"manager""#) && !text.contains(r#""manager":"capstan""#));
    let with_older_status = left.into_iter().map(|mut object| {
        if object["kind"] == "KubeadmControlPlane" || object["kind"] == "Machine" {
            object["status"]["deprecated"] = json!({"v1beta1": {"conditions": [{"type": "Ready", "status": "False",
                "severity": "Info", "reason": "RollingUpdateInProgress", "message": "Rolling 3 replicas",
                "lastTransitionTime": "2026-11-20T10:00:00Z"}]}});
        }
        object
    });
    sim.import(with_older_status.collect()).await;
    let new = of_version(&sim, "v1.35.0").await;
    assert_eq!(new.len(), 1, "the first of three");

    sim.restart(86);
    sim.until("the rollout's end", 900, async |s| at_rest(s).await).await;
    let end = of_version(&sim, "v1.35.0").await;
    assert_eq!(end.len(), 3);
    assert!(new.iter().all(|uid| end.contains(uid)), "what was new is not replaced");
    let kept: KubeadmControlPlane = sim.get("harbor-cp").await.expect("a control plane");
    let older = kept.status.and_then(|status| status.deprecated);
    assert!(older.is_some(), "the older status is left as it was");
}

/// Three Machines of the new version and none of the old, all counted.
async fn at_rest(sim: &Sim) -> bool {
    let Some(control_plane) = sim.get::<KubeadmControlPlane>("harbor-cp").await else { return false };
    let status = control_plane.status.unwrap_or_default();
    let counts =
        [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
    counts.iter().all(|count| *count == Some(3)) && of_version(sim, "v1.35.0").await.len() == 3
}

/// What upstream's managers (Cluster API v1.14.0 over kube-apiserver 1.36.3) left in the middle of a rollout, as it was
/// stored: `tests/recorded/takeover`. Times are moved to where the simulation begins. Of Secrets the data is left out.
fn recorded(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/recorded/takeover/{name}.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(file)).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// The data of the Secrets of a cluster of the same name, which our engine made.
async fn secrets_of_another() -> Vec<Value> {
    let sim = Sim::start(90).await;
    sim.create(manifest(1, 0)).await;
    sim.until("a control plane", 120, async |s| settled(s, 1, 0, "v1.34.1").await).await;
    read::list_values(&sim.connection.client, &of_core("Secret"), "default", "").await.expect("a list")
}

/// Secrets with data again: authorities and kubeconfig by their names, bootstrap data that is never read.
async fn with_secrets(mut objects: Vec<Value>) -> Vec<Value> {
    let made = secrets_of_another().await;
    for object in objects.iter_mut().filter(|object| object["kind"] == "Secret") {
        let of_name = made.iter().find(|secret| secret["metadata"]["name"] == object["metadata"]["name"]);
        // `#cloud-config` and `cloud-config`.
        let bootstrap = json!({"value": "I2Nsb3VkLWNvbmZpZwo=", "format": "Y2xvdWQtY29uZmln"});
        object["data"] = of_name.map_or(bootstrap, |secret| secret["data"].clone());
    }
    objects
}

/// Our engine over what was recorded, nothing done yet.
async fn taken_over(name: &str, seed: u64) -> Sim {
    let objects = with_secrets(recorded(name)).await;
    let mut sim = Sim::start(seed).await;
    sim.kill_after(0);
    sim.machines_max = (4, 4);
    sim.import(objects).await;
    sim.restart(seed + 1);
    sim
}

/// Every Machine that was there at some moment, by uid, until `done`.
async fn machines_until(sim: &Sim, done: impl AsyncFn(&Sim) -> bool) -> BTreeMap<String, Machine> {
    let seen = std::cell::RefCell::new(BTreeMap::new());
    sim.until("the rollout's end", 900, async |s| {
        let uid = |machine: &Machine| machine.metadata.uid.clone().unwrap_or_default();
        let there: Vec<Machine> = s.list().await;
        seen.borrow_mut().extend(there.into_iter().map(|machine| (uid(&machine), machine)));
        done(s).await
    })
    .await;
    seen.into_inner()
}

/// Where a clone came from: of the infrastructure machine of every Machine.
async fn templates(sim: &Sim) -> Vec<String> {
    let from = |host: DevMachine| {
        let annotations = host.metadata.annotations.unwrap_or_default();
        annotations.get("cluster.x-k8s.io/cloned-from-name").cloned().unwrap_or_default()
    };
    let mut all: Vec<String> = sim.list::<DevMachine>().await.into_iter().map(from).collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_upstream_left_in_the_middle_is_rolled_to_its_end() {
    let sim = taken_over("deployment", 87).await;
    let before: Vec<Machine> = sim.list().await;
    let is_going = |machine: &&Machine| machine.metadata.deletion_timestamp.is_some();
    assert_eq!(
        (before.len(), before.iter().filter(is_going).count()),
        (5, 1),
        "four workers, one of them goes"
    );
    let sets = names::<MachineSet>(&sim).await;
    assert_eq!(sets.len(), 2);

    let done = async |s: &Sim| {
        settled(s, 1, 3, "v1.34.1").await
            && templates(s).await == ["harbor-cp", "harbor-md-t1", "harbor-md-t1", "harbor-md-t1"]
    };
    let seen = machines_until(&sim, done).await;
    // One new worker was there; two were missing.
    assert_eq!(
        seen.len(),
        before.len() + 2,
        "{:?}",
        seen.values().map(|m| &m.metadata.name).collect::<Vec<_>>()
    );
    let after = names::<MachineSet>(&sim).await;
    assert!(after.iter().all(|set| sets.contains(set)), "made again: {after:?}");
    let new = sim.list::<Machine>().await;
    let kept = |machine: &Machine| new.iter().any(|other| other.metadata.uid == machine.metadata.uid);
    assert_eq!(
        before.iter().filter(|machine| kept(machine)).count(),
        2,
        "the control plane and the new worker"
    );
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_upstream_left_in_the_middle_is_rolled_to_its_end() {
    let sim = taken_over("control-plane", 89).await;
    let before: Vec<Machine> = sim.list().await;
    let is_new = |machine: &Machine| machine.spec.version.as_deref() == Some("v1.35.0");
    let is_going = |machine: &Machine| machine.metadata.deletion_timestamp.is_some();
    assert_eq!(before.len(), 5, "a worker, two new ones, an old one, and one that goes with its etcd member");
    assert_eq!(before.iter().filter(|machine| is_new(machine)).count(), 2);
    assert_eq!(before.iter().filter(|machine| is_going(machine)).count(), 1);
    let new: Vec<String> = of_version(&sim, "v1.35.0").await;

    let seen = machines_until(&sim, async |s| at_rest(s).await).await;
    assert_eq!(
        seen.len(),
        before.len() + 1,
        "one is made, none twice: {:?}",
        seen.values().map(|m| &m.metadata.name).collect::<Vec<_>>()
    );
    let end = of_version(&sim, "v1.35.0").await;
    assert!(new.iter().all(|uid| end.contains(uid)), "what was new is not replaced");
    let expected = ["harbor-cp", "harbor-cp", "harbor-cp", "harbor-md-0"];
    sim.until("the hosts of replaced Machines go", 900, async |s| templates(s).await == expected).await;
}
