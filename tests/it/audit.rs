//! The audit log: who asked for what and what came of it, in upstream's shape, and nothing secret.

use std::io::{self, Write};
use std::sync::Arc;

use capstan_apiserver::audit::AuditLog;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::conformance::wire::{ADMIN, Port, VIEWER};
use crate::conformance::{Ask, MAPS, MERGE, NAMESPACES, SECRETS, Site};

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Audited {
    paper: Paper,
    log: Arc<AuditLog>,
}

impl Audited {
    fn of(site: &Site) -> Self {
        let paper = Paper::default();
        let log = Arc::new(AuditLog::start(paper.clone()).expect("a thread"));
        site.server.audit_to(log.clone());
        Self { paper, log }
    }

    fn text(&self) -> String {
        self.log.finish();
        String::from_utf8(self.paper.0.lock().clone()).expect("text")
    }

    /// In order of their ends.
    fn events(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn bearer(ask: Ask, token: &str) -> Ask {
    ask.header("authorization", &format!("Bearer {token}"))
}

/// What tells events apart here.
fn said(event: &Value) -> String {
    let word = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
    format!(
        "{} {} {} {}/{} {} {}",
        word("/stage"),
        word("/user/username"),
        word("/verb"),
        word("/objectRef/resource"),
        word("/objectRef/name"),
        event["responseStatus"]["code"],
        word("/responseStatus/reason"),
    )
}

#[tokio::test]
async fn every_request_is_written_down_with_its_outcome() {
    let site = Site::open().await.guarded();
    let audited = Audited::of(&site);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "hush-hush"}});
    site.send(bearer(Ask::post(SECRETS, &secret), ADMIN)).await.expect(201);
    let path = format!("{SECRETS}/s?dryRun=All");
    site.send(bearer(Ask::patch(&path, MERGE, &json!({"type": "hush-too"})), ADMIN)).await.expect(422);
    site.send(bearer(Ask::get(&format!("{SECRETS}/s")), VIEWER)).await.expect(403);
    site.send(bearer(Ask::get(NAMESPACES), "wrong-token")).await.expect(401);
    site.send(bearer(Ask::get(NAMESPACES), ADMIN).header("impersonate-user", "somebody")).await.expect(403);
    site.send(Ask::get("/healthz").header("user-agent", "probe\t/1")).await.expect(200);
    let mut watch = site.follow(bearer(Ask::get(&format!("{MAPS}?watch=1&timeoutSeconds=1")), ADMIN)).await;
    while watch.line().await.is_some() {}
    drop(watch);
    let events = audited.events();
    let lines: Vec<String> = events.iter().map(said).collect();
    assert_eq!(
        lines,
        [
            "ResponseComplete kubernetes-admin create secrets/s 201 -",
            "ResponseComplete kubernetes-admin patch secrets/s 422 Invalid",
            "ResponseComplete capstan-viewer get secrets/s 403 Forbidden",
            "ResponseComplete - list namespaces/- 401 Unauthorized",
            "ResponseComplete kubernetes-admin list namespaces/- 403 Forbidden",
            "ResponseComplete system:anonymous get -/- 200 -",
            "ResponseStarted kubernetes-admin watch configmaps/- 200 -",
            "ResponseComplete kubernetes-admin watch configmaps/- 200 -",
        ]
    );
    assert_eq!(events[4]["impersonatedUser"]["username"], "somebody");
    assert_eq!((&events[1]["requestURI"], &events[5]["userAgent"]), (&json!(path), &json!("probe/1")));
    let created = &events[0];
    assert_eq!(created["level"], "Metadata");
    assert_eq!((&created["kind"], &created["apiVersion"]), (&json!("Event"), &json!("audit.k8s.io/v1")));
    assert_eq!(created["user"]["groups"], json!(["system:masters", "system:authenticated"]));
    let version =
        created["objectRef"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
    assert!(version.is_some_and(|version| version > 1), "{created}");
    let text = audited.text();
    assert!(["hush", ADMIN, VIEWER, "wrong-token"].iter().all(|word| !text.contains(word)), "{text}");
}

#[tokio::test]
async fn where_a_request_came_from_is_told() {
    let port = Port::open().await;
    let audited = Audited::of(&port.site);
    port.site.get(NAMESPACES).await.expect(200);
    let mut stream = port.connect("http/1.1", None).await.expect("connected");
    let request = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    crate::conformance::wire::exchange(&mut stream, request).await;
    let events = audited.events();
    assert_eq!(events[0]["annotations"], json!({"audit.capstan.dev/source": "in process"}));
    assert_eq!(events[1]["sourceIPs"], json!(["127.0.0.1"]));
}
