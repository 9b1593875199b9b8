//! Whole-engine simulations: server, engine, controllers and provider on one paused clock, from a
//! manifest to a living cluster, through scaling and rollouts, to nothing. Checkers look after every
//! simulated second; they share no rule with the planners.

use std::sync::Arc;
use std::time::Duration;

use capstan::api::bootstrap::KubeadmConfig;
use capstan::api::cluster::Cluster;
use capstan::api::condition::{Conditioned, find, is_true};
use capstan::api::control_plane::KubeadmControlPlane;
use capstan::api::dev::{DevCluster, DevMachine};
use capstan::api::key::{Gvk, ObjectKey, ObjectRef};
use capstan::api::machine::Machine;
use capstan::api::machine_deployment::MachineDeployment;
use capstan::api::machine_set::MachineSet;
use capstan::apiserver::{ApiServer, Options, Tokens};
use capstan::client::write::{Mode, Part, Precondition, Writer};
use capstan::client::{Connection, Object, get, in_process, read};
use capstan::controllers;
use capstan::engine::{Engine, EngineOptions, Handle};
use capstan::provider::{self, ProviderOptions, World};
use capstan::rng::Rng;
use capstan::store::MemoryStore;
use capstan::time::{Clock, TimeSource, Timestamp};
use capstan::workload::Workload as _;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// 2026-11-20T10:00:00Z plus the runtime's paused time.
struct Paused(tokio::time::Instant);

impl TimeSource for Paused {
    fn now(&self) -> Timestamp {
        let passed = chrono::TimeDelta::from_std(self.0.elapsed()).unwrap_or_default();
        Timestamp::from_timestamp(1_795_168_800, 0).unwrap_or_default() + passed
    }
}

struct Sim {
    connection: Connection,
    writer: Writer,
    world: Arc<World>,
    handle: Handle,
    began: tokio::time::Instant,
    _stop: tokio_util::sync::DropGuard,
    /// Highest counts that the checkers allow, control plane and workers.
    machines_max: (usize, usize),
    /// Fewest available workers that the checkers allow.
    workers_available_min: usize,
}

impl Sim {
    async fn start(seed: u64) -> Self {
        let began = tokio::time::Instant::now();
        let clock = Clock::new(Paused(began));
        let rng = Rng::seeded(seed);
        let tokens = Tokens { admin: "a".to_owned(), read_only: "r".to_owned() };
        let definitions = capstan::api::crds::all();
        let options = Options { clock: clock.clone(), rng: rng.stream("apiserver"), definitions, tokens };
        let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let connection = in_process(server, "test", "default", false);
        let mut engine =
            Engine::new(connection.client.clone(), clock, rng.stream("engine"), EngineOptions::default());
        let world = provider::register(&mut engine, ProviderOptions::default());
        controllers::register(&mut engine, world.clone());
        let (handle, stop) = (engine.handle(), CancellationToken::new());
        tokio::spawn(engine.run(stop.clone()));
        let writer = Writer::new(connection.client.clone(), "test");
        Self {
            connection,
            writer,
            world,
            handle,
            began,
            _stop: stop.drop_guard(),
            machines_max: (4, 3),
            workers_available_min: 0,
        }
    }

    async fn create(&self, objects: Vec<Value>) {
        for object in objects {
            let target = target_of(&object);
            self.writer.create_value(&target, &object, Mode::Real).await.expect("created");
        }
    }

    async fn get<K: Object>(&self, name: &str) -> Option<K> {
        get(&self.connection.client, &ObjectKey::new("default", name)).await.expect("an answer")
    }

    async fn list<K: Object>(&self) -> Vec<K> {
        let values = read::list_values(&self.connection.client, &Gvk::of::<K>(), "default", "").await;
        values
            .expect("a list")
            .into_iter()
            .map(|v| serde_json::from_value(v).expect("of this kind"))
            .collect()
    }

    async fn patch<K: Object>(&self, name: &str, body: Value) {
        let key = ObjectKey::new("default", name);
        self.writer.patch_part::<K>(&key, Part::Main, &body, Mode::Real).await.expect("patched");
    }

    async fn delete<K: Object>(&self, name: &str) {
        let key = ObjectKey::new("default", name);
        self.writer.delete::<K>(&key, &Precondition::default(), Mode::Real).await.expect("deleted");
    }

    fn elapsed_s(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// Waits for `done`, one simulated second at a time, with the checkers looking on.
    async fn until(&self, what: &str, limit_s: u64, done: impl AsyncFn(&Self) -> bool) {
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
    async fn check(&self) {
        let machines: Vec<Machine> = self.list().await;
        let (mut control_plane, mut workers, mut available) = (0, 0, 0);
        for machine in machines.iter().filter(|m| m.metadata.deletion_timestamp.is_none()) {
            let is_control_plane = labels(machine).any(|l| l == "cluster.x-k8s.io/control-plane");
            *(if is_control_plane { &mut control_plane } else { &mut workers }) += 1;
            available += usize::from(!is_control_plane && is_true(machine.conditions(), "Available"));
            let owned =
                machine.metadata.owner_references.iter().flatten().any(|r| r.controller == Some(true));
            assert!(owned, "Machine {:?} has no controller", machine.metadata.name);
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

fn labels<K: Object>(object: &K) -> impl Iterator<Item = &str> {
    object.meta().labels.iter().flat_map(|all| all.keys()).map(String::as_str)
}

fn target_of(object: &Value) -> ObjectRef {
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
fn manifest(control_plane: u32, workers: u32) -> Vec<Value> {
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
async fn settled(sim: &Sim, control_plane: i32, workers: i32, version: &str) -> bool {
    let Some(cluster) = sim.get::<Cluster>("harbor").await else { return false };
    let status = cluster.status.clone().unwrap_or_default();
    let all = |counts: Option<capstan::api::cluster::ReplicaCounts>, n: i32| {
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

/// Appendix A of the status reference: everything true that should be, with no message.
async fn assert_steady_state(sim: &Sim) {
    quiet::<Cluster>(sim).await;
    quiet::<KubeadmControlPlane>(sim).await;
    quiet::<MachineDeployment>(sim).await;
    quiet::<MachineSet>(sim).await;
    quiet::<Machine>(sim).await;
    quiet::<KubeadmConfig>(sim).await;
    for machine in sim.list::<Machine>().await {
        let status = machine.status.unwrap_or_default();
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert_eq!(status.observed_generation, machine.metadata.generation, "{:?}", machine.metadata.name);
        let name = machine.metadata.name.unwrap_or_default();
        assert_eq!(machine.spec.provider_id, Some(format!("in-memory://{name}")));
        assert_eq!(status.node_ref.map(|r| r.name), Some(name));
    }
    for secret in ["harbor-ca", "harbor-etcd", "harbor-proxy", "harbor-sa", "harbor-kubeconfig"] {
        assert!(sim.get::<Secret>(secret).await.is_some(), "Secret {secret}");
    }
}

async fn quiet<K: Object + Conditioned>(sim: &Sim) {
    let negative =
        ["Deleting", "Updating", "RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Paused"];
    for object in sim.list::<K>().await {
        for c in object.conditions() {
            let expected = if negative.contains(&c.type_.as_str()) { "False" } else { "True" };
            assert_eq!(
                (c.status.as_str(), c.message.as_str()),
                (expected, ""),
                "{} {}: {} {}",
                K::kind(&()),
                ObjectKey::of(&object),
                c.type_,
                c.reason
            );
        }
    }
}

async fn gone(sim: &Sim) -> bool {
    sim.list::<Cluster>().await.is_empty()
}

#[tokio::test(start_paused = true)]
async fn a_manifest_comes_up_scales_and_goes() {
    let mut sim = Sim::start(1).await;
    sim.create(manifest(1, 2)).await;
    sim.until("1 + 2 machines up", 180, async |s| settled(s, 1, 2, "v1.34.1").await).await;
    assert_steady_state(&sim).await;

    sim.machines_max = (3, 5);
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"replicas": 3}})).await;
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": 5}})).await;
    sim.until("3 + 5 machines up", 300, async |s| settled(s, 3, 5, "v1.34.1").await).await;
    assert_steady_state(&sim).await;

    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": 1}})).await;
    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"replicas": 1}})).await;
    sim.until("1 + 1 machines left", 300, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    assert_steady_state(&sim).await;

    sim.delete::<Cluster>("harbor").await;
    sim.until("the Cluster gone", 180, async |s| gone(s).await).await;
    assert!(sim.list::<Machine>().await.is_empty());
    assert!(sim.list::<DevMachine>().await.is_empty());
    assert!(sim.list::<KubeadmControlPlane>().await.is_empty());
    assert!(sim.list::<MachineDeployment>().await.is_empty());
    assert!(sim.list::<DevCluster>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_version_rolls_control_plane_then_workers() {
    let mut sim = Sim::start(2).await;
    sim.create(manifest(3, 3)).await;
    sim.machines_max = (4, 4);
    sim.until("3 + 3 machines up", 300, async |s| settled(s, 3, 3, "v1.34.1").await).await;

    sim.patch::<KubeadmControlPlane>("harbor-cp", json!({"spec": {"version": "v1.35.0"}})).await;
    let rolled = async |s: &Sim| {
        let kcp = s.get::<KubeadmControlPlane>("harbor-cp").await.and_then(|k| k.status).unwrap_or_default();
        kcp.versions.len() == 1 && kcp.versions[0].version == "v1.35.0" && kcp.replicas == Some(3)
    };
    sim.until("the control plane on v1.35.0", 600, rolled).await;
    let body = json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}});
    sim.patch::<MachineDeployment>("harbor-md-0", body).await;
    sim.until("everything on v1.35.0", 600, async |s| settled(s, 3, 3, "v1.35.0").await).await;
    assert_steady_state(&sim).await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_rolls_without_surge_and_on_time() {
    let mut sim = Sim::start(3).await;
    sim.create(manifest(3, 0)).await;
    sim.until("3 machines up", 300, async |s| settled(s, 3, 0, "v1.34.1").await).await;
    sim.machines_max = (3, 0);
    let before: Vec<Machine> = sim.list().await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}});
    let body = json!({"spec": {"rollout": {"after": "2026-11-20T10:10:00Z", "strategy": strategy}}});
    sim.patch::<KubeadmControlPlane>("harbor-cp", body).await;
    while sim.elapsed_s() < 595 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        sim.check().await;
    }
    let names =
        |machines: &[Machine]| machines.iter().filter_map(|m| m.metadata.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&sim.list().await), names(&before), "nothing moves before its time");
    let replaced = async |s: &Sim| {
        let now: Vec<Machine> = s.list().await;
        now.len() == 3 && names(&now).iter().all(|name| !names(&before).contains(name))
    };
    sim.until("all machines replaced", 900, replaced).await;
    sim.until("a steady control plane", 120, async |s| settled(s, 3, 0, "v1.34.1").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_stands_still() {
    let sim = Sim::start(4).await;
    sim.create(manifest(1, 1)).await;
    sim.until("1 + 1 machines up", 180, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": true}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"replicas": 3}})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(sim.list::<Machine>().await.len(), 2, "nothing is made while paused");
    let cluster: Cluster = sim.get("harbor").await.expect("the Cluster");
    assert!(is_true(cluster.conditions(), "Paused"));
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": null}})).await;
    sim.until("3 workers after the pause", 180, async |s| settled(s, 1, 3, "v1.34.1").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_settled_fleet_writes_nothing() {
    let sim = Sim::start(5).await;
    sim.create(manifest(3, 2)).await;
    sim.until("3 + 2 machines up", 300, async |s| settled(s, 3, 2, "v1.34.1").await).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let writes = sim.handle.writes();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(sim.handle.writes(), writes, "writes in an hour without events");
}

#[tokio::test(start_paused = true)]
async fn workers_roll_within_surge_and_availability() {
    let mut sim = Sim::start(6).await;
    sim.create(manifest(1, 4)).await;
    sim.machines_max = (1, 4);
    sim.until("1 + 4 machines up", 300, async |s| settled(s, 1, 4, "v1.34.1").await).await;
    sim.workers_available_min = 3;
    let limits = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let after = json!({"after": "2026-11-20T10:01:00Z", "strategy": limits});
    let before: Vec<String> = worker_names(&sim).await;
    sim.patch::<MachineDeployment>("harbor-md-0", json!({"spec": {"rollout": after}})).await;
    let replaced = async |s: &Sim| {
        let now = worker_names(s).await;
        now.len() == 4 && now.iter().all(|name| !before.contains(name))
    };
    sim.until("every worker replaced", 600, replaced).await;
    sim.until("a steady deployment", 120, async |s| settled(s, 1, 4, "v1.34.1").await).await;
    let sets: Vec<MachineSet> = sim.list().await;
    assert_eq!(sets.iter().filter(|set| set.spec.replicas != Some(0)).count(), 1);
}

async fn worker_names(sim: &Sim) -> Vec<String> {
    let machines: Vec<Machine> = sim.list().await;
    let workers = machines.iter().filter(|m| labels(*m).any(|l| l == "cluster.x-k8s.io/set-name"));
    workers.filter_map(|m| m.metadata.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hook_holds_a_machine_until_it_is_taken_away() {
    let sim = Sim::start(7).await;
    sim.create(manifest(1, 2)).await;
    sim.until("1 + 2 machines up", 180, async |s| settled(s, 1, 2, "v1.34.1").await).await;
    let name = worker_names(&sim).await.remove(0);
    const HOOK: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/backup";
    sim.patch::<Machine>(&name, json!({"metadata": {"annotations": {HOOK: "ops"}}})).await;
    sim.delete::<Machine>(&name).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let held: Machine = sim.get(&name).await.expect("still there");
    let deleting = find(held.conditions(), "Deleting").expect("Deleting");
    let text = format!("Waiting for pre-drain hooks to succeed (hooks: {HOOK})");
    assert_eq!(
        (deleting.reason.as_str(), deleting.message.as_str()),
        ("WaitingForPreDrainHook", text.as_str())
    );
    assert_eq!(held.status.and_then(|s| s.phase).as_deref(), Some("Deleting"));
    assert!(sim.get::<DevMachine>(&name).await.is_some(), "its host is untouched");
    sim.patch::<Machine>(&name, json!({"metadata": {"annotations": {HOOK: null}}})).await;
    sim.until("the Machine gone", 120, async |s| s.get::<Machine>(&name).await.is_none()).await;
    let cluster = ObjectKey::new("default", "harbor");
    assert_eq!(sim.world.node(&cluster, &name).await, Ok(None), "and its Node");
    sim.until("a replacement", 180, async |s| settled(s, 1, 2, "v1.34.1").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_can_go_at_any_time() {
    for (seed, after_s) in [(8, 1), (9, 4), (10, 13), (11, 20), (12, 31)] {
        let sim = Sim::start(seed).await;
        sim.create(manifest(3, 2)).await;
        tokio::time::sleep(Duration::from_secs(after_s)).await;
        sim.delete::<Cluster>("harbor").await;
        sim.until("the Cluster gone", 300, async |s| gone(s).await).await;
        assert!(sim.list::<Machine>().await.is_empty(), "seed {seed}");
        assert!(sim.list::<DevMachine>().await.is_empty(), "seed {seed}");
    }
}

/// `clusterctl move` pauses a fleet and deletes its objects; the machines go on for their new manager.
#[tokio::test(start_paused = true)]
async fn deleted_infrastructure_stays_while_its_cluster_is_paused() {
    let sim = Sim::start(13).await;
    sim.create(manifest(1, 1)).await;
    sim.until("1 + 1 machines up", 180, async |s| settled(s, 1, 1, "v1.34.1").await).await;
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": true}})).await;
    let name = worker_names(&sim).await.remove(0);
    sim.delete::<DevMachine>(&name).await;
    sim.delete::<DevCluster>("harbor").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let machine: DevMachine = sim.get(&name).await.expect("still there");
    let cluster: DevCluster = sim.get("harbor").await.expect("still there");
    for meta in [machine.metadata, cluster.metadata] {
        assert!(meta.deletion_timestamp.is_some() && meta.finalizers.is_some_and(|f| !f.is_empty()));
    }
    sim.patch::<Cluster>("harbor", json!({"spec": {"paused": null}})).await;
    sim.until("the DevMachine gone", 60, async |s| s.get::<DevMachine>(&name).await.is_none()).await;
}
