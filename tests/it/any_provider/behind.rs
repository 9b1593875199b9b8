//! Engines whose copy of a workload cluster's Nodes is behind: what the copy lacks is not gone, and no Machine is replaced
//! for it. `CAPSTAN_STALE_STANDBYS=N` asks for more takeovers than the suite has time for.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_health_check::MachineHealthCheck;
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_engine::client::write::{Mode, Part, Writer};
use capstan_engine::client::{Client, get, in_process};
use capstan_engine::controllers;
use capstan_engine::engine::lease::LeaseOptions;
use capstan_engine::engine::{Engine, EngineOptions};
use capstan_engine::workload::kube::KubeWorkloads;
use capstan_engine::workload::{Dial, JudgedAfter, Workload};
use capstan_store::MemoryStore;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Empty, StreamBody};
use k8s_openapi::api::core::v1::Node;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt as _;

use super::provider::{self, Hosts, Provider};
use super::{Site, create_fleet, is_settled, own};

/// What happens to the watches of one engine. Everything else is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Fair,
    /// They stay open, and nothing comes.
    Silent,
    /// They end, and new ones are refused.
    Failing,
}

type Answer = Response<UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

/// The workload cluster's API as one engine sees it.
fn seen_through(server: ApiServer, weather: watch::Receiver<Weather>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (server, weather) = (server.clone(), weather.clone());
        async move {
            let now = *weather.borrow();
            match now {
                Weather::Silent if is_watch => {
                    let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, _>>());
                    return Ok::<Answer, Infallible>(Response::new(body.boxed_unsync()));
                }
                Weather::Failing if is_watch => {
                    let body = Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync();
                    let refusal = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
                    return Ok(refusal.body(body).expect("an answer"));
                }
                _ => {}
            }
            let (head, body) = server.oneshot(request).await?.into_parts();
            let body = body.map_err(Into::into);
            let body = if is_watch { until_it_turns(body, weather) } else { body.boxed_unsync() };
            Ok(Response::from_parts(head, body))
        }
    });
    in_process(service, "workload", "default", false).client
}

fn until_it_turns<B>(
    body: B,
    mut weather: watch::Receiver<Weather>,
) -> UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>
where
    B: http_body::Body<Data = Bytes, Error = Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
{
    let now = weather.clone();
    let turned = async move { drop(weather.wait_for(|now| *now != Weather::Fair).await) }.boxed();
    let silence = stream::once(async move {
        if *now.borrow() == Weather::Silent {
            std::future::pending::<()>().await;
        }
    });
    let frames = BodyStream::new(body).take_until(turned);
    StreamBody::new(frames.chain(silence.filter_map(|()| async { None }).boxed())).boxed_unsync()
}

/// The Nodes of a workload cluster, on an API server of its own. Each host registers once.
struct Quay {
    server: ApiServer,
    writer: Writer,
    registered: Mutex<BTreeSet<String>>,
}

impl Quay {
    async fn open(site: &Site) -> Arc<Self> {
        let options = Options {
            clock: site.clock.clone(),
            rng: Rng::seeded(9),
            definitions: Vec::new(),
            admission: Arc::new(capi_rules::admission::Webhooks),
            tokens: Tokens { admin: "w".to_owned(), read_only: "r".to_owned() },
        };
        let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let client = in_process(server.clone(), "quay", "default", false).client;
        Arc::new(Self { server, writer: Writer::new(client, "kubelet"), registered: Mutex::default() })
    }

    async fn names(&self) -> BTreeSet<String> {
        let nodes: kube::Api<Node> = kube::Api::all(self.writer.client().clone());
        let listed = nodes.list(&kube::api::ListParams::default()).await.expect("Nodes");
        listed.items.into_iter().filter_map(|node| node.metadata.name).collect()
    }

    async fn delete(&self, name: &str) {
        let (key, any) = (ObjectKey::new("", name), capstan_engine::client::Precondition::default());
        self.writer.delete::<Node>(&key, &any, Mode::Real).await.expect("deleted");
    }
}

#[async_trait]
impl Hosts for Quay {
    async fn join(&self, _: &ObjectKey, name: &str, provider_id: &str, version: &str) {
        if !self.registered.lock().insert(name.to_owned()) {
            return;
        }
        let node = super::workload::ready_node(name, provider_id, version);
        let status = serde_json::to_value(&node.status).expect("JSON");
        self.writer.create(&node, Mode::Real).await.expect("a Node");
        let (key, body) = (ObjectKey::new("", name), json!({ "status": status }));
        self.writer.patch_part::<Node>(&key, Part::Status, &body, Mode::Real).await.expect("its status");
    }

    async fn leave(&self, _: &ObjectKey, name: &str) {
        let (key, any) = (ObjectKey::new("", name), capstan_engine::client::Precondition::default());
        // It may have gone before.
        let _ = self.writer.delete::<Node>(&key, &any, Mode::Real).await;
    }
}

/// An engine over the site and the quay.
struct Watchman {
    workloads: Arc<KubeWorkloads>,
    weather: watch::Sender<Weather>,
    stop: CancellationToken,
    /// Its requests to the management cluster have no answers any more.
    is_cut_off: Arc<AtomicBool>,
}

impl Watchman {
    /// With a name it competes for the Lease.
    fn start(site: &Site, quay: &Quay, seed: u64, name: Option<&str>) -> Self {
        let lease = name.map(|name| LeaseOptions::new("default", "capstan-engine", name));
        let options = EngineOptions { lease, ..EngineOptions::default() };
        let rng = Rng::seeded(seed);
        let is_cut_off = Arc::new(AtomicBool::new(false));
        let management = unless_cut_off(site.guarded.client.clone(), Arc::clone(&is_cut_off));
        let mut engine = Engine::new(management, site.clock.clone(), rng.clone(), options);
        let (weather, seen) = watch::channel(Weather::Fair);
        let client = seen_through(quay.server.clone(), seen);
        let dial: Dial =
            Arc::new(move |_: ObjectKey| futures::future::ready(Ok::<_, String>(client.clone())).boxed());
        let writer = engine.writer().clone();
        let workloads = KubeWorkloads::dialing(
            writer,
            site.clock.clone(),
            rng.stream("workload"),
            dial,
            JudgedAfter::default(),
        );
        workloads.attach(&engine.cache(), Arc::new(|_| false));
        let workloads = Arc::new(workloads);
        controllers::register(&mut engine, workloads.clone(), controllers::Settings::default());
        let stop = CancellationToken::new();
        tokio::spawn(engine.run(stop.clone()));
        Self { workloads, weather, stop, is_cut_off }
    }

    fn is_connected(&self) -> bool {
        self.workloads.connection(&harbor()).connected
    }
}

impl Drop for Watchman {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn unless_cut_off(client: Client, is_cut_off: Arc<AtomicBool>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, is_cut_off) = (client.clone(), is_cut_off.load(Ordering::Relaxed));
        async move {
            if is_cut_off {
                std::future::pending::<()>().await;
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

fn harbor() -> ObjectKey {
    ObjectKey::new("default", "harbor")
}

fn check() -> Value {
    let conditions: Vec<Value> = ["Unknown", "False"]
        .map(|status| json!({"type": "Ready", "status": status, "timeoutSeconds": 60}))
        .to_vec();
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers", "namespace": "default"},
        "spec": {"clusterName": "harbor",
            "selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": "harbor-md"}},
            "checks": {"nodeStartupTimeoutSeconds": 60, "unhealthyNodeConditions": conditions}}})
}

struct Scene {
    site: Site,
    quay: Arc<Quay>,
    _provider: AbortOnDropHandle<()>,
}

impl Scene {
    async fn open() -> Self {
        let site = Site::with(provider::definitions()).await;
        let quay = Quay::open(&site).await;
        let client = site.connection.client.clone();
        let writer = Writer::new(client.clone(), "forge");
        let provider = Provider { client, writer, hosts: quay.clone() };
        Self { site, quay, _provider: AbortOnDropHandle::new(tokio::spawn(provider.run())) }
    }

    /// Three workers and their check.
    async fn populate(&self) {
        create_fleet(&self.site, 3).await;
        let target = own::<MachineHealthCheck>("workers");
        self.site.writer.create_value(&target, &check(), Mode::Real).await.expect("created");
        self.until("3 workers", 180, async || is_settled(&self.site, "v1.34.1", 3).await).await;
    }

    async fn scale(&self, replicas: u32) {
        let body = json!({"spec": {"replicas": replicas}});
        self.site.patch(&own::<MachineDeployment>("harbor-md"), &body).await;
    }

    async fn machines(&self) -> Vec<Machine> {
        let listed = self.site.list(&capi_types::key::Gvk::of::<Machine>()).await;
        listed.into_iter().map(|value| serde_json::from_value(value).expect("a Machine")).collect()
    }

    async fn until(&self, what: &str, limit_s: u64, done: impl AsyncFn() -> bool) {
        for _ in 0..limit_s {
            if done().await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("{what} did not happen:\n{:#?}", self.machines().await);
    }

    /// For so many seconds no Machine goes, and none whose Node exists is said to have lost it.
    async fn stays_whole(&self, seconds: u64, about: &str) {
        for second in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let nodes = self.quay.names().await;
            for machine in self.machines().await {
                let name = machine.metadata.name.as_deref().unwrap_or_default();
                let found = find(machine.conditions(), "NodeHealthy").map_or("", |c| c.reason.as_str());
                assert!(
                    found != "NodeDeleted" || !nodes.contains(name),
                    "{about}: {name} counts as deleted after {second} s"
                );
                let goes = machine.metadata.deletion_timestamp.is_some();
                assert!(!goes, "{about}: {name} is deleted after {second} s: {:#?}", machine.status);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_join_behind_a_dead_watch_are_neither_deleted_nor_late() {
    for weather in [Weather::Silent, Weather::Failing] {
        let scene = Scene::open().await;
        let engine = Watchman::start(&scene.site, &scene.quay, 1, None);
        scene.populate().await;
        engine.weather.send_replace(weather);
        scene.scale(6).await;
        // Longer than a Machine may take to start up.
        scene.stays_whole(200, &format!("{weather:?}")).await;
        engine.weather.send_replace(Weather::Fair);
        scene.stays_whole(400, &format!("{weather:?}, then fair")).await;
        assert!(is_settled(&scene.site, "v1.34.1", 6).await, "{weather:?}");
        assert_eq!(scene.machines().await.len(), 6, "{weather:?}");
    }
}

/// Three of three healthy Machines were deleted within six seconds.
#[tokio::test(start_paused = true)]
async fn a_standby_whose_nodes_are_old_deletes_nothing_when_it_leads() {
    let takeovers = std::env::var("CAPSTAN_STALE_STANDBYS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    for seed in 0..takeovers {
        let rng = Rng::seeded(seed);
        let weather = [Weather::Silent, Weather::Failing][usize::try_from(seed % 2).unwrap_or(0)];
        let pause = |most_s: u64| tokio::time::sleep(Duration::from_millis(rng.below(most_s * 1000)));
        let scene = Scene::open().await;
        let first = Watchman::start(&scene.site, &scene.quay, seed, Some("first"));
        scene.populate().await;
        let second = Watchman::start(&scene.site, &scene.quay, seed + 1000, Some("second"));
        scene.until("a connection", 60, async || second.is_connected()).await;
        pause(15).await;
        second.weather.send_replace(weather);
        scene.scale(6).await;
        pause(60).await;
        // Given back, or left to run out: two takeovers have both weathers and both ends, four have all pairs.
        match (seed + seed / 2) % 2 {
            0 => first.stop.cancel(),
            _ => first.is_cut_off.store(true, Ordering::Relaxed),
        }
        scene.stays_whole(150, &format!("seed {seed}, {weather:?}")).await;
        second.weather.send_replace(Weather::Fair);
        scene.stays_whole(400, &format!("seed {seed}, {weather:?}, then fair")).await;
        assert!(is_settled(&scene.site, "v1.34.1", 6).await, "seed {seed}");
        assert_eq!(scene.machines().await.len(), 6, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_found_gone_behind_any_watch() {
    for weather in [Weather::Fair, Weather::Failing, Weather::Silent] {
        let scene = Scene::open().await;
        let engine = Watchman::start(&scene.site, &scene.quay, 1, None);
        scene.populate().await;
        engine.weather.send_replace(weather);
        let lost = scene.machines().await[0].metadata.name.clone().expect("a name");
        scene.quay.delete(&lost).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        engine.weather.send_replace(Weather::Fair);
        // A watch that says nothing is given up after five minutes.
        let client = scene.site.connection.client.clone();
        let is_replaced = async || {
            let key = ObjectKey::new("default", &lost);
            let old = get::<Machine>(&client, &key).await.expect("an answer");
            old.is_none() && is_settled(&scene.site, "v1.34.1", 3).await
        };
        scene.until("the Machine without a Node is replaced", 700, is_replaced).await;
    }
}
