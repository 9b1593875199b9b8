//! What one request costs whose input is long, for n entries and for 2n: twice as much is linear, four times as
//! much is a place where a hostile client can stop a thread. Requests are dry runs in process.
//!
//!   cargo bench --bench cost               4,000 entries, best of 3
//!   cargo bench --bench cost -- 8000       another length
//!
//! Without `--bench` (as `cargo test` runs it) the lists are tiny: it then proves that the requests are
//! what they are meant to be.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a script for people")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use capi_rules::admission::Webhooks;
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_store::MemoryStore;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// What the program itself allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FULL: usize = 4_000;
const TINY: usize = 20;
const RUNS: usize = 3;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

struct Ask {
    method: Method,
    path: String,
    kind: &'static str,
    body: String,
}

fn ask(method: Method, path: &str, kind: &'static str, body: impl ToString) -> Ask {
    Ask { method, path: path.to_owned(), kind, body: body.to_string() }
}

/// An owner of a kind that the server does not serve: the garbage collector leaves its dependents alone.
/// (Of a kind that it serves it would see that the owner is absent, and delete the object before it is measured.)
fn owner(n: usize) -> Value {
    json!({"apiVersion": "unserved.example.io/v1", "kind": "Owner", "name": "n", "uid": format!("u{n}")})
}

fn list(n: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..n).map(item).collect()
}

fn map(name: &str, metadata: &Value) -> Value {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    map["metadata"]["name"] = name.into();
    map
}

fn definition() -> Value {
    let item = json!({"type": "object", "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
    let items = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"]});
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"items": items, "any": any}}}});
    let column = |n: usize| json!({"name": format!("C{n}"), "type": "string", "jsonPath": "..a".repeat(50)});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "costs.example.io"},
        "spec": {"group": "example.io", "scope": "Cluster", "names": {"kind": "Cost", "plural": "costs"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "additionalPrinterColumns": list(3, column)}]}})
}

fn cost(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Cost", "metadata": {"name": name}, "spec": spec})
}

/// What is there before: the objects that the requests with lists of `n` are about.
fn there(n: usize) -> Vec<Ask> {
    let owned = map("owned", &json!({"ownerReferences": list(n, owner)}));
    let finalizers = list(n, |n| format!("example.io/f{n}").into());
    let finalized = map("finalized", &json!({"finalizers": finalizers}));
    let items = json!({"items": list(n, |n| json!({"k": format!("k{n}"), "v": 1}))});
    let nested = (0..60).fold(json!(1), |below, _| json!({"a": below}));
    let costs = "/apis/example.io/v1/costs";
    vec![
        ask(Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, definition()),
        ask(Method::POST, MAPS, JSON, owned),
        ask(Method::POST, MAPS, JSON, finalized),
        ask(Method::POST, MAPS, JSON, map("plain", &json!({}))),
        ask(Method::POST, costs, JSON, cost("keyed", &items)),
        ask(Method::POST, costs, JSON, cost("nested", &json!({"any": nested}))),
    ]
}

/// The requests, each with what is long in it.
fn requests(n: usize) -> Vec<(&'static str, Ask)> {
    let path = |name: &str| format!("{MAPS}/{name}?dryRun=All&fieldManager=m");
    let patch = |name: &str, kind, body: Value| ask(Method::PATCH, &path(name), kind, body);
    let uid = |n: usize| json!({"uid": format!("u{n}")});
    let ordered = json!({"metadata": {
        "$setElementOrder/ownerReferences": list(n, |at| uid(n - 1 - at)),
        "ownerReferences": list(n, |n| json!({"uid": format!("u{n}"), "name": "m"})),
    }});
    let deleted = list(n, |n| json!({"uid": format!("u{n}"), "$patch": "delete"}));
    let gone = list(n, |n| format!("example.io/f{n}").into());
    let front = json!({"op": "add", "path": "/metadata/finalizers/0", "value": "example.io/f"});
    let mut inserted = vec![front; n];
    inserted.insert(0, json!({"op": "add", "path": "/metadata/finalizers", "value": []}));
    let twice = (0..n).map(|n| format!("\"k{n}\":\"v\",\"k{n}\":\"v\"")).collect::<Vec<_>>().join(",");
    let twice = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"new\"}},\"data\":{{{twice}}}}}"
    );
    let updater = |n: usize| {
        json!({"manager": format!("m{n}"), "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:k{n}"): {}}}})
    };
    let data: Value =
        (0..n).map(|n| (format!("k{n}"), Value::from("v"))).collect::<serde_json::Map<_, _>>().into();
    let mut applied = map("owned", &json!({"ownerReferences": list(n, owner)}));
    applied["data"] = data;
    let values = (0..n.min(4_000)).map(|n| format!("v{n}")).collect::<Vec<_>>().join(",");
    let keyed = json!({"spec": {"items": list(n, |n| json!({"k": format!("k{n}"), "v": 2}))}});
    let costs = "/apis/example.io/v1/costs";
    vec![
        ("strategic merge, ordered owners", patch("owned", STRATEGIC, ordered)),
        (
            "strategic merge, deleted owners",
            patch("owned", STRATEGIC, json!({"metadata": {"ownerReferences": deleted}})),
        ),
        (
            "strategic merge, deleted finalizers",
            patch("finalized", STRATEGIC, json!({"metadata": {"$deleteFromPrimitiveList/finalizers": gone}})),
        ),
        (
            "merge patch, finalizers",
            patch(
                "plain",
                MERGE,
                json!({"metadata": {"finalizers": list(n, |n| format!("example.io/g{n}").into())}}),
            ),
        ),
        ("JSON patch, insertions in front", patch("plain", JSON_PATCH, inserted.into())),
        ("body, repeated fields", ask(Method::POST, &format!("{MAPS}?dryRun=All"), JSON, twice)),
        (
            "managed fields of many",
            patch("plain", MERGE, json!({"metadata": {"managedFields": list(n, updater)}})),
        ),
        ("server-side apply, owners and data", patch("owned", APPLY, applied)),
        (
            "keyed list of a custom resource",
            ask(Method::PATCH, &format!("{costs}/keyed?dryRun=All"), MERGE, keyed),
        ),
        (
            "list, label in many",
            ask(Method::GET, &format!("{MAPS}?labelSelector=l%20in%20({values})"), JSON, ""),
        ),
        ("table, paths that descend", ask(Method::GET, costs, "table", "")),
    ]
}

async fn send(server: &ApiServer, ask: &Ask) -> (u16, Duration) {
    let accept = if ask.kind == "table" { "application/json;as=Table;g=meta.k8s.io;v=v1" } else { JSON };
    let request = Request::builder()
        .method(ask.method.clone())
        .uri(&ask.path)
        .header("content-type", ask.kind)
        .header("accept", accept)
        .body(Full::new(Bytes::from(ask.body.clone())))
        .expect("a request");
    let start = Instant::now();
    let response = server.clone().oneshot(request).await.expect("an answer");
    let code = response.status().as_u16();
    response.into_body().collect().await.expect("a body");
    (code, start.elapsed())
}

/// The best of some runs of each request, with its code and its size.
async fn measure(n: usize) -> Vec<(&'static str, u16, usize, Duration)> {
    let tokens = Tokens { admin: "a".to_owned(), read_only: "r".to_owned() };
    let options = Options {
        clock: Clock::system(),
        rng: Rng::seeded(7),
        definitions: Vec::new(),
        tokens,
        admission: Arc::new(Webhooks),
    };
    let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server");
    for object in there(n) {
        let (code, _) = send(&server, &object).await;
        assert_eq!(code, 201, "{} {}", object.method, object.path);
    }
    let mut rows = Vec::new();
    for (name, ask) in requests(n) {
        let mut best = send(&server, &ask).await;
        for _ in 1..RUNS {
            best.1 = best.1.min(send(&server, &ask).await.1);
        }
        assert!(matches!(best.0, 200 | 201), "{name}: {}", best.0);
        rows.push((name, best.0, ask.body.len() + ask.path.len(), best.1));
    }
    rows
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let asked = arguments.iter().find_map(|argument| argument.parse().ok());
    let n = asked.unwrap_or(if is_bench { FULL } else { TINY });
    let (once, twice) = (measure(n).await, measure(2 * n).await);
    println!(
        "{:<36} {:>9} {:>10} {:>10} {:>6}",
        "request",
        "bytes",
        format!("n={n}"),
        format!("n={}", 2 * n),
        "times"
    );
    for ((name, _, _, short), (_, _, bytes, long)) in once.iter().zip(&twice) {
        let ms = |time: &Duration| time.as_secs_f64() * 1_000.0;
        println!(
            "{name:<36} {bytes:>9} {:>7.1} ms {:>7.1} ms {:>6.1}",
            ms(short),
            ms(long),
            ms(long) / ms(short)
        );
    }
}
