//! Many who ask for one path at once, and one who lists beside them: nobody takes the server from everybody else by a GET, over
//! HTTP/1.1 or HTTP/2, nor by streams that stand still.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::wire::{ADMIN, Port, VIEWER};
use super::{DEFINITIONS, MAPS, SOON, config_map};

/// Streams of one connection, and connections of their own: as many as a person can start by a slip of the hand.
const CROWD: usize = 200;
const CONNECTIONS: usize = 40;
/// The goal is a second; the tests share their processors.
const LIST_MAX: Duration = Duration::from_secs(10);
/// Large definitions, of which one document is made.
const DEFINITIONS_OF_CROWD: usize = 30;
const DESCRIPTION_BYTES: usize = 60_000;
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn large_definition(number: usize) -> Value {
    let plural = format!("crowd{number}s");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.crowd.example")},
        "spec": {
            "group": "crowd.example", "scope": "Namespaced",
            "names": {"plural": plural, "singular": format!("crowd{number}"), "kind": format!("Crowd{number}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "description": "x".repeat(DESCRIPTION_BYTES)}}}}}],
        },
    })
}

/// Paths that are documented, with what they are accepted as.
const PATHS: [(&str, &str); 14] = [
    ("/", "*/*"),
    ("/version", "*/*"),
    ("/readyz", "*/*"),
    ("/metrics", "*/*"),
    ("/api", "application/json"),
    ("/api", AGGREGATED),
    ("/apis", AGGREGATED),
    ("/api/v1", "application/json"),
    ("/apis/crowd.example/v1", "application/json"),
    ("/openapi/v3", "application/json"),
    ("/openapi/v3/api/v1", "application/json"),
    ("/openapi/v3/apis/crowd.example/v1", "application/json"),
    ("/openapi/v3/apis/crowd.example/v1", "application/yaml"),
    (DEFINITIONS, "application/json"),
];

fn request(path: &str, token: &str, accept: &str) -> Request<Full<Bytes>> {
    let request = Request::get(path).header("host", "localhost").header("accept", accept);
    let request =
        request.header("accept-encoding", "gzip").header("authorization", format!("Bearer {token}"));
    request.body(Full::new(Bytes::new())).expect("a request")
}

/// A connection of HTTP/1.1 that was used once: a silent newcomer is let go after ten seconds.
async fn http1(port: &Port) -> http1::SendRequest<Full<Bytes>> {
    let stream = port.connect("http/1.1", None).await.expect("connected");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::spawn(connection);
    got(sender.send_request(request("/version", VIEWER, "*/*")).await).await;
    sender
}

/// How long a list takes on a connection that is there, while the others run.
async fn listed(list: &mut http1::SendRequest<Full<Bytes>>) -> Duration {
    let began = Instant::now();
    let answer = list.send_request(request(MAPS, ADMIN, "application/json")).await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 200);
    answer.into_body().collect().await.expect("a list");
    began.elapsed()
}

/// What the crowd got: 429 where one user asks for too much at once.
fn assert_answers(codes: &[u16], path: &str) {
    let known = codes.iter().all(|code| matches!(code, 200 | 429));
    assert!(known && codes.contains(&200), "{path}: {codes:?}");
}

async fn got(answer: Result<http::Response<hyper::body::Incoming>, hyper::Error>) -> u16 {
    let answer = answer.expect("an answer");
    let code = answer.status().as_u16();
    answer.into_body().collect().await.expect("all of it");
    code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s099_a_list_does_not_wait_for_a_crowd_at_any_path() {
    let port = Port::open().await;
    for number in 0..DEFINITIONS_OF_CROWD {
        port.site.made(DEFINITIONS, &large_definition(number)).await;
    }
    port.site.made(MAPS, &config_map("a", json!({}))).await;
    let mut list = http1(&port).await;
    let mut crowd = join_all((0..CONNECTIONS).map(|_| http1(&port))).await;
    let many = port.http2().await;
    let mut longest = (Duration::ZERO, "");
    for (path, accept) in PATHS {
        let url = format!("https://localhost{path}");
        let first = crowd
            .iter_mut()
            .map(|sender| async { got(sender.send_request(request(path, VIEWER, accept)).await).await });
        let second = (0..CROWD).map(|_| {
            let mut sender = many.clone();
            let request = request(&url, VIEWER, accept);
            async move { got(sender.send_request(request).await).await }
        });
        let (first, second, took) = tokio::join!(join_all(first), join_all(second), listed(&mut list));
        assert_answers(&first, path);
        assert_answers(&second, path);
        longest = longest.max((took, path));
    }
    println!(
        "the longest list took {:?}, beside {CROWD} streams and {CONNECTIONS} connections at {}",
        longest.0, longest.1
    );
    assert!(longest.0 <= LIST_MAX, "{longest:?}");
}

/// Watches and lists whose client opens no window hold little, and too much of it ends their connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s099_streams_that_stand_still_hold_little() {
    let port = Port::open().await;
    let large = "x".repeat(400_000);
    for number in 0..3 {
        port.site.made(MAPS, &config_map(&format!("large-{number}"), json!({"a": large}))).await;
    }
    let stream = port.connect("h2", None).await.expect("connected");
    let mut still = http2::Builder::new(TokioExecutor::new());
    // The first window is all that is ever given: nobody reads.
    still.initial_stream_window_size(1).initial_connection_window_size(1 << 20);
    let (sender, connection) = still.handshake(TokioIo::new(stream)).await.expect("HTTP/2");
    let ended = tokio::spawn(connection);
    let url = format!("https://localhost{MAPS}");
    let sender = Arc::new(sender);
    let asked = (0..CROWD).map(|_| {
        let mut sender = http2::SendRequest::clone(&sender);
        let mut request = request(&url, ADMIN, "application/json");
        // Packed, it would be small.
        request.headers_mut().remove("accept-encoding");
        async move { sender.send_request(request).await }
    });
    // Answers whose bodies are kept and not read.
    let bodies: Vec<_> = join_all(asked).await;
    assert!(bodies.iter().any(Result::is_ok), "some are answered");
    let closed = tokio::time::timeout(SOON, ended).await;
    assert!(closed.is_ok(), "more than 64 MiB wait, and nothing of it is taken");
    assert_eq!(super::wire::code(&port.get("/readyz", None, &[]).await), 200);
}
