//! The API server under load, over TLS, with a durable store: writes, reads, watches, apply, definitions,
//! deletion, memory, and a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures::io::AsyncBufReadExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::Sizes;
use crate::process::Server;
use crate::table::{Table, median};

type Machines = Api<DynamicObject>;

pub async fn measure(sizes: &Sizes, table: &mut Table) {
    let mut server = Server::start("disk", &["--no-engine"]);
    let mut clients = Vec::new();
    for _ in 0..sizes.clients {
        clients.push(server.client().await);
    }
    reads_and_writes(&clients, sizes, table).await;
    fan_out(&server, &clients, sizes, table).await;
    server_side_apply(&clients, sizes, table).await;
    definitions(&clients[0], sizes, table).await;
    let served: Api<CustomResourceDefinition> = Api::all(clients[0].clone());
    let kinds = served.list(&ListParams::default()).await.expect("the definitions").items.len();
    let loaded = format!("server resident, {} Machines, {kinds} definitions", sizes.machines);
    table.compare(loaded, format!("{} MB", server.resident_mb()), "1.5-2.4 GB");
    delete_all(&clients[0], sizes, table).await;
    large_fleet(&mut server, &clients, sizes, table).await;
}

fn machine_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Machine"),
        "machines",
    )
}

fn machines(client: &Client) -> Machines {
    Api::default_namespaced_with(client.clone(), &machine_resource())
}

/// About 1.5 kB as it is stored.
fn machine(name: &str) -> DynamicObject {
    let labels = [
        ("cluster.x-k8s.io/cluster-name", "load"),
        ("cluster.x-k8s.io/deployment-name", "load-workers"),
        ("cluster.x-k8s.io/set-name", "load-workers-abcde"),
        ("machine-template-hash", "1234567890-abcde"),
    ];
    let mut object = DynamicObject::new(name, &machine_resource()).data(json!({ "spec": {
        "clusterName": "load", "version": "v1.34.0", "failureDomain": "zone-a",
        "bootstrap": { "dataSecretName": format!("{name}-bootstrap") },
        "infrastructureRef": { "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name },
        "deletion": { "nodeDrainTimeoutSeconds": 600, "nodeVolumeDetachTimeoutSeconds": 600 },
        "readinessGates": [{ "conditionType": "example.io/Registered" }, { "conditionType": "example.io/Tested" }],
    } }));
    for (key, value) in labels {
        object.labels_mut().insert(key.to_owned(), value.to_owned());
    }
    object.annotations_mut().insert("example.io/payload".to_owned(), "x".repeat(400));
    object
}

/// Runs `count` calls, one at a time on each client; calls per second.
async fn rate<F, R>(clients: &[Client], count: usize, call: F) -> f64
where
    F: Fn(Machines, usize) -> R + Clone + Send + 'static,
    R: Future<Output = ()> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let mut tasks = Vec::new();
    for client in clients {
        let (api, next, call) = (machines(client), next.clone(), call.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return;
                }
                call(api.clone(), index).await;
            }
        }));
    }
    for task in tasks {
        task.await.expect("the calls succeed");
    }
    count as f64 / start.elapsed().as_secs_f64()
}

async fn create_many(clients: &[Client], prefix: &'static str, count: usize) -> f64 {
    rate(clients, count, move |api, index| async move {
        api.create(&PostParams::default(), &machine(&format!("{prefix}-{index}"))).await.expect("a creation");
    })
    .await
}

async fn reads_and_writes(clients: &[Client], sizes: &Sizes, table: &mut Table) {
    let creates = create_many(clients, "m", sizes.machines).await;
    table.compare(format!("durable creates/s, {} clients", sizes.clients), format!("{creates:.0}"), "432");
    let modulo = sizes.machines;
    let gets = rate(clients, sizes.gets, move |api, index| async move {
        api.get(&format!("m-{}", index % modulo)).await.expect("a read");
    });
    table.compare(format!("gets/s, {} clients", sizes.clients), format!("{:.0}", gets.await), "1,099");
    let mut times = Vec::new();
    for _ in 0..sizes.repeats {
        times.push(list_ms(&clients[0], sizes.list, sizes.list.min(sizes.machines)).await);
    }
    table.compare(format!("list of {}", sizes.list), format!("{:.0} ms", median(times)), "800-1,200 ms");
}

/// Milliseconds until the last byte of one list, undecoded. `limit` 0: everything.
async fn list_ms(client: &Client, limit: usize, expected: usize) -> f64 {
    let start = Instant::now();
    let uri = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines?limit={limit}");
    let request = http::Request::get(uri).body(Vec::new()).expect("a request");
    let text = client.request_text(request).await.expect("a list");
    let elapsed_ms = start.elapsed().as_secs_f64() * 1000.0;
    assert_eq!(text.matches("\"kind\":\"Machine\"").count(), expected);
    elapsed_ms
}

/// Many writers of status, many watchers of everything, until each has seen every change.
async fn fan_out(server: &Server, clients: &[Client], sizes: &Sizes, table: &mut Table) {
    let list = machines(&clients[0]).list_metadata(&ListParams::default().limit(1)).await.expect("a list");
    let version = list.metadata.resource_version.expect("a version");
    let mut watchers = Vec::new();
    for _ in 0..sizes.watchers {
        let client = server.client().await;
        watchers.push(tokio::spawn(count_changes(client, version.clone(), sizes.patches)));
    }
    let start = Instant::now();
    let modulo = sizes.machines;
    let patches = rate(clients, sizes.patches, move |api, index| async move {
        let status = json!({ "status": { "phase": "Running", "conditions": [condition(index)] } });
        let name = format!("m-{}", index % modulo);
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.expect("a patch");
    })
    .await;
    for watcher in watchers {
        watcher.await.expect("every watcher sees every change");
    }
    let delivered = (sizes.patches * sizes.watchers) as f64 / start.elapsed().as_secs_f64();
    let watched = format!("status patches/s with {} watchers", sizes.watchers);
    table.compare(watched, format!("{patches:.0}"), "121");
    table.compare("watch events delivered/s", format!("{delivered:.0}"), "7,400");
}

fn condition(turn: usize) -> Value {
    json!({ "type": "Ready", "status": "True", "reason": "Ready", "message": format!("turn {turn}"),
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
}

/// Counts the lines of a watch without decoding them: the load should not be the watcher's.
async fn count_changes(client: Client, version: String, expected: usize) {
    let uri = format!(
        "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines?watch=true&resourceVersion={version}"
    );
    let request = http::Request::get(uri).body(Vec::new()).expect("a request");
    let mut lines = std::pin::pin!(client.request_stream(request).await.expect("a watch"));
    let (mut line, mut seen) = (Vec::new(), 0);
    while seen < expected {
        line.clear();
        assert!(lines.read_until(b'\n', &mut line).await.expect("a line") > 0, "the watch goes on");
        assert!(line.starts_with(b"{\"type\":\"MODIFIED\""), "{}", String::from_utf8_lossy(&line));
        seen += 1;
    }
}

async fn server_side_apply(clients: &[Client], sizes: &Sizes, table: &mut Table) {
    apply_round(clients, sizes.applies, "first").await;
    let changes = apply_round(clients, sizes.applies, "second").await;
    table.compare("server-side applies/s, one annotation changes", format!("{changes:.0}"), "234");
    let unchanged = apply_round(clients, sizes.applies, "second").await;
    table.compare("server-side applies/s, nothing changes", format!("{unchanged:.0}"), "258");
}

/// Every Machine at most once: a second round with the same value changes nothing.
async fn apply_round(clients: &[Client], count: usize, value: &'static str) -> f64 {
    rate(clients, count, move |api, index| async move {
        let name = format!("m-{index}");
        let patch = json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": { "name": name, "annotations": { "example.io/turn": value } } });
        let params = PatchParams::apply("load").force();
        api.patch(&name, &params, &Patch::Apply(patch)).await.expect("an apply");
    })
    .await
}

/// From the creation of a definition until a list of its kind is answered.
async fn definitions(client: &Client, sizes: &Sizes, table: &mut Table) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut times = Vec::new();
    for index in 0..sizes.definitions {
        let definition = definition(&format!("load{index}s"), &format!("Load{index}"));
        let start = Instant::now();
        api.create(&PostParams::default(), &definition).await.expect("a definition");
        let uri = format!("/apis/load.example.io/v1/load{index}s");
        loop {
            let request = http::Request::get(&uri).body(Vec::new()).expect("a request");
            if client.request_text(request).await.is_ok() {
                break;
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    table.compare("definition created until served", format!("{:.1} ms", median(times)), "190 ms");
}

fn definition(plural: &str, kind: &str) -> CustomResourceDefinition {
    let text = json!({ "type": "string" });
    let properties: serde_json::Map<String, Value> =
        (0..200).map(|field| (format!("field{field}"), text.clone())).collect();
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.load.example.io") },
        "spec": {
            "group": "load.example.io", "scope": "Namespaced", "names": { "kind": kind, "plural": plural },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } } } }],
        },
    }))
    .expect("a definition")
}

async fn delete_all(client: &Client, sizes: &Sizes, table: &mut Table) {
    let start = Instant::now();
    machines(client)
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .expect("everything is deleted");
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(list_count(client).await, 0);
    table.compare(format!("deletecollection of {}", sizes.machines), format!("{seconds:.1} s"), "35 s");
}

async fn list_count(client: &Client) -> usize {
    machines(client).list_metadata(&ListParams::default()).await.expect("a list").items.len()
}

async fn large_fleet(server: &mut Server, clients: &[Client], sizes: &Sizes, table: &mut Table) {
    create_many(clients, "big", sizes.many).await;
    table.add(format!("server resident, {} Machines", sizes.many), format!("{} MB", server.resident_mb()));
    let mut times = Vec::new();
    for _ in 0..sizes.repeats.min(3) {
        times.push(list_ms(&clients[0], 0, sizes.many).await);
    }
    table.add(format!("list of {}", sizes.many), format!("{:.0} ms", median(times)));
    let pages = pages_ms(&clients[0], sizes.many).await;
    table.add(format!("list of {} in pages of 500", sizes.many), format!("{pages:.0} ms"));
    let seconds = server.restart_after_kill();
    assert_eq!(list_count(&server.client().await).await, sizes.many);
    table.add(format!("kill -9 and restart with {} Machines", sizes.many), format!("{seconds:.2} s"));
}

async fn pages_ms(client: &Client, expected: usize) -> f64 {
    let (api, start) = (machines(client), Instant::now());
    let (mut params, mut seen) = (ListParams::default().limit(500), 0);
    loop {
        let page = api.list_metadata(&params).await.expect("a page");
        seen += page.items.len();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(seen, expected);
    start.elapsed().as_secs_f64() * 1000.0
}
