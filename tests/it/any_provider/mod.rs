//! The engine with providers that it has no types for: found through their definitions, read through the
//! contract. Nothing of kubeadm and of the simulated infrastructure is installed.

mod behind;
mod provider;
mod reading;
mod workload;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use capi_rules::admission::Webhooks;
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned, find, is_true};
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan_apiserver::{ApiServer, Identity, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, TimeSource, Timestamp};
use capstan_engine::client::write::{Mode, Part, Precondition, Writer};
use capstan_engine::client::{Connection, Object, get, in_process, read};
use capstan_engine::controllers;
use capstan_engine::engine::{Engine, EngineOptions, Handle};
use capstan_store::MemoryStore;
use capstan_worlds::provider::ProviderOptions;
use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt as _;

use provider::{FORGE, Provider, SMITH, SPARK, object, target};
use workload::Yard;

/// 2026-11-20T10:00:00Z plus the runtime's paused time.
struct Paused(tokio::time::Instant);

impl TimeSource for Paused {
    fn now(&self) -> Timestamp {
        let passed = chrono::TimeDelta::from_std(self.0.elapsed()).unwrap_or_default();
        Timestamp::from_timestamp(1_795_168_800, 0).unwrap_or_default() + passed
    }
}

/// Plurals that the engine is forbidden to read.
type Forbidden = Arc<Mutex<BTreeSet<&'static str>>>;

struct Site {
    /// An administrator's.
    connection: Connection,
    writer: Writer,
    clock: Clock,
    /// As the engine sees the server.
    guarded: Connection,
    forbidden: Forbidden,
}

impl Site {
    /// A server with Cluster API's own kinds and `definitions`.
    async fn with(definitions: Vec<CustomResourceDefinition>) -> Self {
        let clock = Clock::new(Paused(tokio::time::Instant::now()));
        let tokens = Tokens { admin: "a".to_owned(), read_only: "r".to_owned() };
        let mut all = capi_types::crds::all();
        all.retain(|definition| definition.spec.group == "cluster.x-k8s.io");
        all.extend(definitions);
        let options = Options {
            clock: clock.clone(),
            rng: Rng::seeded(7),
            definitions: all,
            admission: Arc::new(Webhooks),
            tokens,
        };
        let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let forbidden = Forbidden::default();
        let guarded = guarded(server.clone(), forbidden.clone());
        let connection = in_process(server, "test", "default", false);
        let writer = Writer::new(connection.client.clone(), "test");
        Self { connection, writer, clock, guarded, forbidden }
    }

    fn engine(&self) -> Engine {
        let client = self.guarded.client.clone();
        Engine::new(client, self.clock.clone(), Rng::seeded(1), EngineOptions::default())
    }

    async fn create(&self, object: &Value) {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = text("/kind");
        let target = match kind {
            "CustomResourceDefinition" => definition(text("/metadata/name")),
            "Cluster" => own::<Cluster>(text("/metadata/name")),
            "MachineDeployment" => own::<MachineDeployment>(text("/metadata/name")),
            kind => target(kind, text("/metadata/name")),
        };
        self.writer.create_value(&target, object, Mode::Real).await.expect("created");
    }

    async fn patch(&self, target: &ObjectRef, body: &Value) {
        let any = Precondition::default();
        self.writer.patch_value(target, Part::Main, body, &any, Mode::Real).await.expect("patched");
    }

    async fn delete(&self, target: &ObjectRef) {
        self.writer.delete_value(target, &Precondition::default(), Mode::Real).await.expect("deleted");
    }

    async fn get<K: Object>(&self, name: &str) -> Option<K> {
        get(&self.connection.client, &ObjectKey::new("default", name)).await.expect("an answer")
    }

    async fn list(&self, gvk: &Gvk) -> Vec<Value> {
        read::list_values(&self.connection.client, gvk, "default", "").await.expect("a list")
    }

    /// Reason of the Cluster's condition; empty when there is none.
    async fn reason(&self, type_: &str) -> String {
        let cluster: Option<Cluster> = self.get("harbor").await;
        let found = cluster.and_then(|c| find(c.conditions(), type_).map(|c| c.reason.clone()));
        found.unwrap_or_default()
    }
}

fn own<K: Object>(name: &str) -> ObjectRef {
    ObjectRef { gvk: Gvk::of::<K>(), key: ObjectKey::new("default", name), uid: String::new() }
}

fn definition(name: &str) -> ObjectRef {
    let gvk = Gvk { namespaced: false, ..Gvk::of::<CustomResourceDefinition>() };
    ObjectRef { gvk, key: ObjectKey::new("", name), uid: String::new() }
}

/// The server as somebody sees it who may not read everything.
fn guarded(server: ApiServer, forbidden: Forbidden) -> Connection {
    let service = tower::service_fn(move |request: Request<Body>| {
        let held = forbidden.lock().iter().any(|plural| request.uri().path().contains(plural));
        let nobody = || Identity::of("somebody".to_owned(), Vec::new());
        let server = if held { server.acting_as(nobody()) } else { server.clone() };
        server.oneshot(request)
    });
    in_process(service, "engine", "default", false)
}

/// A running engine, with its provider.
struct Running {
    handle: Handle,
    yard: Arc<Yard>,
    _provider: AbortOnDropHandle<()>,
    _stop: tokio_util::sync::DropGuard,
}

fn start(site: &Site) -> Running {
    let mut engine = site.engine();
    let yard = Arc::new(Yard::new(site.clock.clone()));
    // As `capstan engine --simulate-infrastructure` does: its kinds are not served, and it starts without them.
    capstan_worlds::provider::register(&mut engine, ProviderOptions::default());
    controllers::register(&mut engine, yard.clone(), controllers::Settings::default());
    let (handle, stop) = (engine.handle(), CancellationToken::new());
    tokio::spawn(engine.run(stop.clone()));
    let client = site.connection.client.clone();
    let writer = Writer::new(client.clone(), "forge");
    let provider = Provider { client, writer, hosts: yard.clone() };
    let provider = AbortOnDropHandle::new(tokio::spawn(provider.run()));
    Running { handle, yard, _provider: provider, _stop: stop.drop_guard() }
}

/// Waits for `done`, one simulated second at a time.
async fn until(what: &str, site: &Site, running: &Running, limit_s: u64, done: impl AsyncFn() -> bool) {
    for _ in 0..limit_s {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut text = String::new();
    for gvk in [Gvk::of::<Cluster>(), Gvk::of::<MachineDeployment>(), Gvk::of::<Machine>()] {
        for object in site.list(&gvk).await {
            writeln!(text, "{} {} {}", gvk.kind, object["metadata"]["name"], object["status"])
                .expect("a String");
        }
    }
    for run in running.handle.trace().entries().iter().rev().take(20) {
        writeln!(text, "{} {} {} {:?}", run.at, run.controller, run.key, run.ending).expect("a String");
    }
    panic!("{what} did not happen:\n{text}");
}

fn reference(group: &str, kind: &str, name: &str) -> Value {
    json!({"apiGroup": group, "kind": kind, "name": name})
}

fn cluster() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
           "metadata": {"name": "harbor", "namespace": "default"},
           "spec": {"infrastructureRef": reference(FORGE, "ForgeCluster", "harbor"),
                    "controlPlaneRef": reference(SMITH, "SmithControlPlane", "harbor-cp")}})
}

fn boxes(name: &str, size: &str) -> Value {
    let labels = json!({"example.com/made-by": "forge"});
    let metadata = json!({"labels": labels, "annotations": {"example.com/note": "hot"}});
    object("ForgeBoxTemplate", name, json!({"template": {"metadata": metadata, "spec": {"size": size}}}))
}

fn deployment(replicas: u32) -> Value {
    let mine =
        json!({"cluster.x-k8s.io/cluster-name": "harbor", "cluster.x-k8s.io/deployment-name": "harbor-md"});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
           "metadata": {"name": "harbor-md", "namespace": "default",
                        "labels": {"cluster.x-k8s.io/cluster-name": "harbor"}},
           "spec": {"clusterName": "harbor", "replicas": replicas, "selector": {"matchLabels": mine},
                    "template": {"metadata": {"labels": mine}, "spec": {
                        "clusterName": "harbor", "version": "v1.34.1",
                        "bootstrap": {"configRef": reference(SPARK, "SparkConfigTemplate", "sparks")},
                        "infrastructureRef": reference(FORGE, "ForgeBoxTemplate", "small")}}}})
}

async fn create_fleet(site: &Site, replicas: u32) {
    for object in [
        cluster(),
        object("ForgeCluster", "harbor", json!({})),
        object("SmithControlPlane", "harbor-cp", json!({"replicas": 3, "version": "v1.34.1"})),
        boxes("small", "s"),
        object("SparkConfigTemplate", "sparks", json!({"template": {"spec": {"flint": true}}})),
        deployment(replicas),
    ] {
        site.create(&object).await;
    }
}

/// Every worker is up to date and available, and none is left over.
async fn is_settled(site: &Site, version: &str, workers: i32) -> bool {
    let Some(found) = site.get::<MachineDeployment>("harbor-md").await else { return false };
    let status = found.status.clone().unwrap_or_default();
    let counts =
        [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
    let cluster: Option<Cluster> = site.get("harbor").await;
    let machines = site.list(&Gvk::of::<Machine>()).await;
    status.observed_generation == found.metadata.generation
        && counts.iter().all(|count| *count == Some(workers))
        && machines.iter().all(|m| m["spec"]["version"] == version)
        && cluster.is_some_and(|c| is_true(c.conditions(), "Available"))
}

#[tokio::test(start_paused = true)]
async fn a_rollout_converges_with_kinds_that_have_no_types() {
    let site = Site::with(provider::definitions()).await;
    let running = start(&site);
    create_fleet(&site, 3).await;
    until("3 workers", &site, &running, 120, async || is_settled(&site, "v1.34.1", 3).await).await;
    assert_copied(&site).await;
    assert_cloned(&site, "small", "s").await;

    site.create(&boxes("large", "l")).await;
    let control_plane = target("SmithControlPlane", "harbor-cp");
    site.patch(&control_plane, &json!({"spec": {"version": "v1.35.0"}})).await;
    let template =
        json!({"version": "v1.35.0", "infrastructureRef": reference(FORGE, "ForgeBoxTemplate", "large")});
    let body = json!({"spec": {"template": {"spec": template}}});
    site.patch(&own::<MachineDeployment>("harbor-md"), &body).await;
    until("3 workers of v1.35.0", &site, &running, 300, async || is_settled(&site, "v1.35.0", 3).await).await;
    assert_cloned(&site, "large", "l").await;
    assert_eq!(running.yard.names().len(), 3, "Nodes of old Machines are gone");

    // The last reports are still under way.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (writes, runs) = (running.handle.writes(), running.handle.trace().entries().len());
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(running.handle.writes(), writes, "a settled fleet is not written to");
    assert_eq!(running.handle.trace().entries().len(), runs, "and nothing looks at it");

    site.delete(&own::<Cluster>("harbor")).await;
    until("the Cluster gone", &site, &running, 300, async || site.get::<Cluster>("harbor").await.is_none())
        .await;
    for kind in ["ForgeCluster", "ForgeBox", "SparkConfig", "SmithControlPlane"] {
        assert_eq!(site.list(&provider::gvk(kind)).await, Vec::<Value>::new(), "{kind}");
    }
}

/// What the contract says is copied from the provider's objects.
async fn assert_copied(site: &Site) {
    let cluster = site.get::<Cluster>("harbor").await.expect("a Cluster");
    let endpoint = serde_json::to_value(&cluster.spec.control_plane_endpoint).expect("JSON");
    assert_eq!(endpoint, json!({"host": "forge.example.com", "port": 7443}));
    let status = serde_json::to_value(cluster.status).expect("JSON");
    assert_eq!(
        status["initialization"],
        json!({"controlPlaneInitialized": true, "infrastructureProvisioned": true})
    );
    let domains: Vec<_> =
        status["failureDomains"].as_array().expect("a list").iter().map(|d| &d["name"]).collect();
    assert_eq!(domains, ["hearth-1", "hearth-2"]);
    assert_eq!(status["controlPlane"]["availableReplicas"], 3);
    assert_eq!(status["controlPlane"]["versions"], json!([{"version": "v1.34.1", "replicas": 3}]));
    for machine in site.list(&Gvk::of::<Machine>()).await {
        let name = machine["metadata"]["name"].as_str().unwrap_or_default();
        assert_eq!(machine["spec"]["providerID"], format!("forge://{name}"));
        assert_eq!(machine["spec"]["bootstrap"]["dataSecretName"], name);
        assert_eq!(machine["status"]["failureDomain"], "hearth-2");
        assert_eq!(machine["status"]["addresses"], json!([{"type": "InternalIP", "address": "10.1.1.1"}]));
        assert_eq!(machine["status"]["nodeRef"]["name"], name);
    }
}

/// Every clone says where it came from, belongs to its Machine and has what its template has; the template
/// belongs to the Cluster.
async fn assert_cloned(site: &Site, template: &str, size: &str) {
    let boxes = site.list(&provider::gvk("ForgeBox")).await;
    assert_eq!(boxes.len(), 3);
    for made in boxes {
        let meta = &made["metadata"];
        assert_eq!(made["apiVersion"], "forge.example.com/v1");
        assert_eq!(made["spec"]["size"], size);
        assert_eq!(meta["labels"]["example.com/made-by"], "forge");
        assert_eq!(meta["labels"]["cluster.x-k8s.io/cluster-name"], "harbor");
        assert_eq!(meta["annotations"]["example.com/note"], "hot");
        assert_eq!(meta["annotations"]["cluster.x-k8s.io/cloned-from-name"], template);
        let kind = &meta["annotations"]["cluster.x-k8s.io/cloned-from-groupkind"];
        assert_eq!(kind, "ForgeBoxTemplate.forge.example.com");
        let owners = meta["ownerReferences"].as_array().expect("owners");
        assert_eq!(owners.len(), 1, "{owners:?}");
        assert_eq!((&owners[0]["kind"], &owners[0]["name"]), (&json!("Machine"), &meta["name"]));
        assert_eq!(owners[0]["controller"], true);
    }
    for config in site.list(&provider::gvk("SparkConfig")).await {
        assert_eq!(config["apiVersion"], "spark.example.com/v1alpha4");
        assert_eq!(config["spec"]["flint"], true);
        let kind = &config["metadata"]["annotations"]["cluster.x-k8s.io/cloned-from-groupkind"];
        assert_eq!(kind, "SparkConfigTemplate.spark.example.com");
    }
    for (kind, name) in [("ForgeBoxTemplate", template), ("SparkConfigTemplate", "sparks")] {
        let found = read::get_value(&site.connection.client, &target(kind, name)).await.expect("an answer");
        assert_eq!(provider::owner(&found.expect("a template"), "Cluster"), Some("harbor"), "{kind}");
    }
}
