//! `capstan engine -n NAMESPACE`: reads and writes one namespace, with rights in that alone.

use std::sync::Arc;
use std::time::Duration;

use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned, is_true};
use capi_types::key::ObjectKey;
use capi_types::names::lease;
use capstan_apiserver::{ApiServer, Identity};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::{Connection, get, in_process};
use capstan_engine::controllers;
use capstan_engine::engine::lease::LeaseOptions;
use capstan_engine::engine::upstream::UpstreamLeases;
use capstan_engine::engine::{Engine, EngineOptions};
use capstan_store::MemoryStore;
use capstan_worlds::provider::ProviderOptions;
use capstan_worlds::standalone::load;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use http::Request;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::simulation::{Paused, manifest};

const OWN: &str = "team-a";

/// As somebody with the rights of docs/providers.md: everything in one namespace, definitions, and the Leases of
/// upstream's managers by name. Notes what was refused.
fn limited(server: ApiServer, refused: Arc<Mutex<Vec<String>>>) -> Connection {
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let allowed = path.contains(&format!("/namespaces/{OWN}/"))
            || path.contains("customresourcedefinitions")
            || path.contains("/leases/");
        let server = if allowed {
            server.clone()
        } else {
            refused.lock().push(path);
            server.acting_as(Identity::of("somebody".to_owned(), Vec::new()))
        };
        server.oneshot(request)
    });
    in_process(service, "engine", "default", false)
}

fn fleet(namespace: &str) -> impl Iterator<Item = Value> {
    manifest(1, 1).into_iter().map(move |mut object| {
        object["metadata"]["namespace"] = json!(namespace);
        object
    })
}

#[tokio::test(start_paused = true)]
async fn an_engine_of_one_namespace_leaves_the_others_alone() {
    let clock = Clock::new(Paused(tokio::time::Instant::now()));
    let options = StackOptions { engine: false, ..StackOptions::new(clock.clone(), Rng::seeded(5)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
    let connection = stack.connection("test", false);
    let namespaces = [OWN, "team-b"]
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    let fleets = fleet(OWN).chain(fleet("team-b"));
    load::create(&connection, namespaces.into_iter().chain(fleets)).await.expect("created");

    let refused = Arc::default();
    let guarded = limited(stack.server().clone(), Arc::clone(&refused));
    let options = EngineOptions {
        lease: Some(LeaseOptions::new(OWN, "capstan-engine", "one")),
        upstream: Some(UpstreamLeases { leases: lease::UPSTREAM.to_vec(), take_over: false }),
        namespace: OWN.to_owned(),
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(guarded.client, clock, Rng::seeded(1), options);
    let world = capstan_worlds::provider::register(&mut engine, ProviderOptions::default());
    controllers::register(&mut engine, world, controllers::Settings::default());
    let stop = CancellationToken::new();
    let running = tokio::spawn(engine.run(stop.clone()));

    let cluster = async |namespace: &str| {
        let key = ObjectKey::new(namespace, "harbor");
        get::<Cluster>(&connection.client, &key).await.expect("an answer").expect("a Cluster")
    };
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if is_true(cluster(OWN).await.conditions(), "Available") {
            break;
        }
    }
    assert!(is_true(cluster(OWN).await.conditions(), "Available"), "{:?}", cluster(OWN).await.status);
    let other = cluster("team-b").await;
    assert!(other.status.is_none() && other.metadata.finalizers.is_none(), "{other:?}");
    let asked: Vec<String> =
        refused.lock().iter().filter(|path| !path.ends_with("/leases")).cloned().collect();
    assert_eq!(asked, Vec::<String>::new(), "nothing else is asked for");
    stop.cancel();
    running.await.expect("an end");
}
