//! The conformance list, statement by statement (docs/conformance.md): requests as bytes, answers as
//! bytes, through the in-process server. Owns the harness; the statements are in the modules, one per
//! section of the list. A test names the statements it asserts: `s042_what_it_says`.

#![allow(dead_code, reason = "what the harness offers is for all sections")]

mod apply;
mod auth;
mod clients;
mod columns;
mod crowds;
mod definitions;
mod deletion;
mod discovery;
mod document;
mod errors;
mod history;
mod lifecycle;
mod lists;
mod negotiation;
mod patches;
mod protobuf;
mod scale;
mod storage;
mod values;
mod watches;
pub mod wire;
mod writing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use capstan_apiserver::{ApiServer, Body, Identity, Options};
use capstan_base::time::{Clock, TimeSource, Timestamp};
use capstan_store::{MemoryStore, Store as _};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower::ServiceExt as _;

use crate::things::{definition, options};

/// The custom resource of most tests: namespaced, status and scale; see [`definition`].
pub const THINGS: &str = "/apis/example.io/v1/namespaces/default/things";
pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub const SECRETS: &str = "/api/v1/namespaces/default/secrets";
pub const NAMESPACES: &str = "/api/v1/namespaces";
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub const MERGE: &str = "application/merge-patch+json";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// A wait that is longer than this is a failure; under a paused clock nobody waits.
const SOON: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(24 * 3600);

/// `things.example.io` with a spec, status and scale.
pub fn thing(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "example.io/v1", "kind": "Thing", "metadata": { "name": name }, "spec": spec })
}

pub fn config_map(name: &str, data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
}

pub fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// A server over an empty store, and who asks it.
#[derive(Clone)]
pub struct Site {
    pub server: ApiServer,
    pub store: Arc<MemoryStore>,
    limit: Duration,
}

/// Wall-clock time that follows tokio's: it stands still or jumps when the runtime's clock does.
struct RuntimeTime(Timestamp, Instant);

impl TimeSource for RuntimeTime {
    fn now(&self) -> Timestamp {
        self.0 + self.1.elapsed()
    }
}

impl Site {
    /// Serves [`definition`]; asks as the administrator.
    pub async fn open() -> Self {
        Self::serving(vec![definition()]).await
    }

    pub async fn serving(definitions: Vec<CustomResourceDefinition>) -> Self {
        Self::with(options(definitions), SOON).await
    }

    /// For tests that begin with `#[tokio::test(start_paused = true)]`: the server's clock follows
    /// `tokio::time::advance`.
    pub async fn paused() -> Self {
        let start = capstan_base::time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
        let clock = Clock::new(RuntimeTime(start, Instant::now()));
        Self::with(Options { clock, ..options(vec![definition()]) }, LONG).await
    }

    async fn with(options: Options, limit: Duration) -> Self {
        let store = Arc::new(MemoryStore::new());
        let server = ApiServer::open(store.clone(), options).await.expect("a server");
        Self { server, store, limit }
    }

    /// The same server, asked by somebody else.
    pub fn acting_as(&self, identity: Identity) -> Self {
        Self { server: self.server.acting_as(identity), ..self.clone() }
    }

    /// The same server, asked with a token or without one: `Authorization` decides.
    pub fn guarded(&self) -> Self {
        Self { server: self.server.guarded(), ..self.clone() }
    }

    pub async fn revision(&self) -> String {
        self.store.revision().await.expect("a revision").to_string()
    }

    /// Sends the request and reads the whole answer.
    pub async fn send(&self, ask: Ask) -> Answer {
        let what = ask.to_string();
        let answer = async {
            let (parts, body) = self.respond(ask).await.into_parts();
            let body = body.collect().await.expect("a body that cannot fail").to_bytes();
            Answer { code: parts.status.as_u16(), headers: parts.headers, body, what: what.clone() }
        };
        timeout(self.limit, answer).await.unwrap_or_else(|_| panic!("{what}: no answer in time"))
    }

    async fn respond(&self, ask: Ask) -> Response<Body> {
        let mut request = Request::builder().method(ask.method).uri(ask.path);
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(ask.body)).expect("a request");
        self.server.clone().oneshot(request).await.expect("an answer")
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Ask::get(path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Ask::post(path, body)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Ask::put(path, body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Ask::delete(path)).await
    }

    /// A patch of the given media type.
    pub async fn patch(&self, path: &str, kind: &'static str, patch: &Value) -> Answer {
        self.send(Ask::patch(path, kind, patch)).await
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.patch(path, MERGE, patch).await
    }

    /// The object a POST made; anything but 201 is a failure of the test.
    pub async fn made(&self, path: &str, body: &Value) -> Value {
        self.post(path, body).await.expect(201).json()
    }

    /// Asks until `wanted` likes the answer: for what the server does in the background.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        let liked = async {
            loop {
                let answer = self.get(path).await;
                if wanted(&answer) {
                    return answer;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(self.limit, liked).await.unwrap_or_else(|_| panic!("{path}: never as wanted"))
    }

    pub async fn until_gone(&self, path: &str) {
        self.until(path, |answer| answer.code == 404).await;
    }

    pub async fn watch(&self, path: &str) -> Watching {
        self.follow(Ask::get(path)).await
    }

    /// Sends a request whose answer is a stream of events.
    pub async fn follow(&self, ask: Ask) -> Watching {
        let what = ask.to_string();
        let opened = timeout(self.limit, self.respond(ask)).await;
        let (parts, body) =
            opened.unwrap_or_else(|_| panic!("{what}: no headers before the first event")).into_parts();
        Watching {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body,
            rest: Vec::new(),
            lines: VecDeque::new(),
            limit: self.limit,
            what,
        }
    }
}

/// A request to be sent.
pub struct Ask {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl Ask {
    pub fn new(method: Method, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: Vec::new(), body: Bytes::new() }
    }

    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    pub fn post(path: &str, body: &Value) -> Self {
        Self::new(Method::POST, path).json(JSON, body)
    }

    pub fn put(path: &str, body: &Value) -> Self {
        Self::new(Method::PUT, path).json(JSON, body)
    }

    pub fn patch(path: &str, kind: &str, patch: &Value) -> Self {
        Self::new(Method::PATCH, path).json(kind, patch)
    }

    pub fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path)
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub fn accept(self, value: &str) -> Self {
        self.header("accept", value)
    }

    /// A body of the given `Content-Type`.
    pub fn body(mut self, kind: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", kind)
    }

    pub fn json(self, kind: &str, body: &Value) -> Self {
        self.body(kind, body.to_string())
    }
}

impl std::fmt::Display for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// An answer that was read to its end.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    what: String,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).expect("text")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, self.text()))
    }

    /// The header's value; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// The texts of all `Warning` headers.
    pub fn warnings(&self) -> Vec<String> {
        self.headers.get_all("warning").iter().map(|v| v.to_str().expect("text").to_owned()).collect()
    }

    /// Itself, if the code is as expected.
    #[track_caller]
    pub fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}: {}", self.what, String::from_utf8_lossy(&self.body));
        self
    }

    /// The Status of a refusal with this code (on the wire and in the body) and reason.
    #[track_caller]
    pub fn refused(self, code: u16, reason: &str) -> Refusal {
        let answer = self.expect(code);
        let status = answer.json();
        assert_eq!(
            (&status["kind"], &status["apiVersion"], &status["status"], &status["code"]),
            (&json!("Status"), &json!("v1"), &json!("Failure"), &json!(code)),
            "{status}"
        );
        assert_eq!(status["reason"].as_str().unwrap_or_default(), reason, "{status}");
        assert_eq!(answer.header("content-type"), JSON);
        Refusal(status)
    }
}

/// The Status object of a refusal.
#[derive(Debug)]
pub struct Refusal(pub Value);

impl Refusal {
    pub fn message(&self) -> &str {
        self.0["message"].as_str().unwrap_or_default()
    }

    pub fn details(&self) -> &Value {
        &self.0["details"]
    }

    /// Reason and field of each cause, in order.
    pub fn causes(&self) -> Vec<(&str, &str)> {
        let causes = self.0["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
        causes
            .iter()
            .map(|c| (c["reason"].as_str().unwrap_or_default(), c["field"].as_str().unwrap_or_default()))
            .collect()
    }

    /// The message of each cause, in order.
    pub fn cause_messages(&self) -> Vec<&str> {
        let causes = self.0["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
        causes.iter().map(|c| c["message"].as_str().unwrap_or_default()).collect()
    }
}

/// An open watch.
pub struct Watching {
    pub code: u16,
    pub headers: HeaderMap,
    body: Body,
    rest: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
    limit: Duration,
    what: String,
}

impl Watching {
    /// The next line as it was sent, without its line end; `None` at the end of the stream.
    pub async fn line(&mut self) -> Option<Vec<u8>> {
        while self.lines.is_empty() {
            let frame = timeout(self.limit, self.body.frame()).await;
            let frame = frame.unwrap_or_else(|_| panic!("{}: no event in time", self.what))?;
            let Ok(data) = frame.expect("a body that cannot fail").into_data() else { continue };
            self.rest.extend_from_slice(&data);
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=end).collect();
                line.pop();
                self.lines.push_back(line);
            }
        }
        self.lines.pop_front()
    }

    /// The next event, `{ "type": …, "object": … }`; `None` at the end of the stream.
    pub async fn event(&mut self) -> Option<Value> {
        let line = self.line().await?;
        Some(serde_json::from_slice(&line).expect("one JSON value per line"))
    }

    pub async fn events(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.event().await.unwrap_or_else(|| panic!("{}: ended early", self.what)));
        }
        events
    }

    /// Type and name of the next events.
    pub async fn names(&mut self, count: usize) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.events(count).await;
        events.iter().map(|e| (text(&e["type"]), text(&e["object"]["metadata"]["name"]))).collect()
    }

    /// Everything until the server ends the stream.
    pub async fn until_the_end(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }
}

/// `metadata.resourceVersion`.
#[track_caller]
pub fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_else(|| panic!("no version: {object}"))
}
