//! Nobody starves the server: long work beside the threads that serve everybody, a deadline for each request, a
//! share of the places for each user.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use capstan_apiserver::ApiServer;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::conformance::wire::{ADMIN, Port, VIEWER};
use crate::conformance::{Ask, JSON_PATCH, MAPS, NAMESPACES, Site, config_map};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A request whose body never comes.
fn endless(server: &ApiServer, token: &str) -> JoinHandle<Response<capstan_apiserver::Body>> {
    let frames = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let request = Request::post(MAPS)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(StreamBody::new(frames))
        .expect("a request");
    let server = server.clone();
    tokio::spawn(async move { server.oneshot(request).await.expect("an answer") })
}

async fn text(response: Response<capstan_apiserver::Body>) -> String {
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

fn bearer(ask: Ask, token: &str) -> Ask {
    ask.header("authorization", &format!("Bearer {token}"))
}

/// 10,000 insertions, each at the start of a list: tens of millions of values are shifted.
fn hostile_patch() -> Ask {
    let mut operations = vec![json!({"op": "add", "path": "/metadata/finalizers", "value": []})];
    operations.resize(10_000, json!({"op": "add", "path": "/metadata/finalizers/0", "value": "a.io/b"}));
    bearer(Ask::patch(&format!("{MAPS}/a?dryRun=All"), JSON_PATCH, &Value::Array(operations)), ADMIN)
}

/// Four took 29 s from an ordinary list. Here all requests share one thread, so a list is only answered
/// before the patches when those are worked on elsewhere.
#[tokio::test]
async fn an_ordinary_list_waited_for_hostile_patches() {
    let site = Site::open().await.guarded();
    site.send(bearer(Ask::post(MAPS, &config_map("a", json!({}))), ADMIN)).await.expect(201);
    let patches: Vec<JoinHandle<u16>> = (0..4)
        .map(|_| {
            let site = site.clone();
            tokio::spawn(async move { site.send(hostile_patch()).await.code })
        })
        .collect();
    let mut lists = 0;
    while patches.iter().all(|patch| !patch.is_finished()) && lists < 10 {
        site.send(bearer(Ask::get(NAMESPACES), ADMIN)).await.expect(200);
        lists += 1;
    }
    assert_eq!(lists, 10, "lists that were answered before the first patch");
    for patch in patches {
        assert_eq!(patch.await.expect("an answer"), 200);
    }
}

/// The work of a small patch is as long when the object is large.
#[tokio::test]
async fn a_small_patch_of_a_large_object_is_long_work_too() {
    let site = Site::open().await.guarded();
    let map = config_map("a", json!({"k": "x".repeat(200_000)}));
    site.send(bearer(Ask::post(MAPS, &map), ADMIN)).await.expect(201);
    let patch = Ask::patch(
        &format!("{MAPS}/a"),
        JSON_PATCH,
        &json!([{"op": "add", "path": "/data/l", "value": "1"}]),
    );
    let patched = site.send(bearer(patch, ADMIN)).await.expect(200).json();
    assert_eq!(
        (patched["data"]["l"].as_str(), patched["data"]["k"].as_str().map(str::len)),
        (Some("1"), Some(200_000))
    );
}

#[tokio::test(start_paused = true)]
async fn requests_had_no_deadline() {
    let site = Site::paused().await.guarded();
    let start = Instant::now();
    let response = endless(&site.server, ADMIN).await.expect("an answer");
    assert_eq!((response.status().as_u16(), start.elapsed()), (504, Duration::from_secs(60)));
    let status: Value = serde_json::from_str(&text(response).await).expect("a Status");
    assert_eq!(status["reason"], "Timeout");
    assert_eq!(status["message"], "Timeout: request did not complete within the allotted timeout");
}

#[tokio::test(start_paused = true)]
async fn one_user_took_all_places() {
    let site = Site::paused().await.guarded();
    let waiting: Vec<_> = (0..100).map(|_| endless(&site.server, ADMIN)).collect();
    tokio::task::yield_now().await;
    let refused = endless(&site.server, ADMIN).await.expect("an answer");
    assert_eq!(refused.status().as_u16(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(text(refused).await, "Too many requests, please try again later.\n");
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "nodes"}}});
    site.send(bearer(Ask::post(REVIEWS, &review), VIEWER)).await.expect(201);
    site.send(bearer(Ask::get(NAMESPACES), ADMIN)).await.expect(200);
    let inside = site.acting_as(capstan_apiserver::Identity::ADMIN);
    inside.post(MAPS, &config_map("a", json!({}))).await.expect(201);
    waiting.iter().for_each(JoinHandle::abort);
    for place in waiting {
        assert!(place.await.expect_err("given up").is_cancelled());
    }
    site.send(bearer(Ask::post(MAPS, &config_map("b", json!({}))), ADMIN)).await.expect(201);
}

#[tokio::test]
async fn an_answer_that_is_not_read_keeps_its_place() {
    let site = Site::open().await.guarded();
    let ask = || {
        let request = Request::get("/healthz").body(Full::new(Bytes::new())).expect("a request");
        site.server.clone().oneshot(request)
    };
    let mut unread = Vec::new();
    while unread.len() < 20 {
        unread.push(ask().await.expect("an answer"));
    }
    assert_eq!(ask().await.expect("an answer").status().as_u16(), 429);
    site.send(bearer(Ask::get(NAMESPACES), ADMIN)).await.expect(200);
    unread.clear();
    assert_eq!(ask().await.expect("an answer").status().as_u16(), 200);
}

/// 900 of them and nobody else came in.
#[tokio::test]
async fn connections_that_say_nothing_kept_others_out() {
    let port = Port::open().await;
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(port.address()).await.expect("a connection"));
    }
    let mut stream = port.connect("http/1.1", None).await.expect("connected");
    let request = format!(
        "GET {NAMESPACES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\nConnection: close\r\n\r\n"
    );
    let answer = crate::conformance::wire::exchange(&mut stream, request.as_bytes()).await;
    assert_eq!(crate::conformance::wire::code(&answer), 200);
}

#[tokio::test]
async fn a_server_is_ready_when_its_kubeconfigs_are_written() {
    let site = Site::open().await;
    site.server.set_announced(false);
    let probe = site.get("/readyz").await.expect(500);
    assert!(probe.text().contains("[-]kubeconfigs failed: reason withheld\n"), "{}", probe.text());
    site.get("/livez").await.expect(200);
    site.server.set_announced(true);
    site.get("/readyz").await.expect(200);
}
