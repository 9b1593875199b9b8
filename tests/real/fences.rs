//! An engine that was stopped in the middle of a write goes on when another process has taken its Lease: on every
//! store its write is refused at the commit, and nothing is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use capstan_apiserver::ApiServer;
use capstan_base::time::Timestamp;
use capstan_store::{
    DiskStore, Entry, Error, MemoryStore, Outcome, Page, Range, Revision, Store, Txn, Watch,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::things::{definition, options};

/// A store at whose next commit something else happens first, as if the writer had been stopped there.
struct Stopped {
    store: Arc<dyn Store>,
    meanwhile: Mutex<Option<BoxFuture<'static, ()>>>,
}

#[async_trait]
impl Store for Stopped {
    async fn revision(&self) -> Result<Revision, Error> {
        self.store.revision().await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.store.get(key).await
    }

    async fn range(&self, range: Range<'_>) -> Result<Page, Error> {
        self.store.range(range).await
    }

    async fn txn(&self, txn: Txn) -> Result<Outcome, Error> {
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile.await;
        }
        self.store.txn(txn).await
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        self.store.watch(prefix, after).await
    }

    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.store.compact(upto).await
    }

    async fn raise(&self, floor: Revision) -> Result<(), Error> {
        self.store.raise(floor).await
    }
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/example.io/v1/namespaces/default/things";
const NAMESPACES: &str = "/api/v1/namespaces";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// What becomes of the Lease between the first comparison and the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Renewed,
    Gone,
    Taken,
    /// By another process, and by the first one again.
    TakenBack,
    MadeAnew,
    /// The object that is written changes too, so that the write is tried again.
    TakenAndChanged,
}

impl Meanwhile {
    const ALL: [Self; 6] =
        [Self::Renewed, Self::Gone, Self::Taken, Self::TakenBack, Self::MadeAnew, Self::TakenAndChanged];

    fn allows(self) -> bool {
        matches!(self, Self::Renewed | Self::Gone)
    }
}

/// A way to write: the request, and the object that has to be there before, with its collection.
struct Way {
    name: &'static str,
    before: Option<(&'static str, Value)>,
    method: &'static str,
    content_type: &'static str,
    /// `NAME` stands for the name of the case, in paths and bodies.
    path: String,
    body: Value,
}

fn map(data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": data},
        "metadata": {"name": "NAME", "labels": {"case": "NAME"}}})
}

fn thing() -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"name": "NAME"}, "spec": {"replicas": 1}})
}

fn kept() -> Value {
    let mut kept = map("0");
    kept["metadata"]["finalizers"] = json!(["example.io/keep"]);
    kept
}

fn ways() -> Vec<Way> {
    const JSON: &str = "application/json";
    let way = |name, before, method, content_type, path: String, body| Way {
        name,
        before,
        method,
        content_type,
        path,
        body,
    };
    let maps = |body: Value| Some((MAPS, body));
    let one = format!("{MAPS}/NAME");
    let generated =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "NAME-"}, "data": {}});
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 5},
        "metadata": {"name": "NAME", "namespace": "default"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "NAME"}});
    let mut open = namespace.clone();
    open["spec"] = json!({"finalizers": []});
    let replaced = json!([{"op": "replace", "path": "/data/a", "value": "1"}]);
    let things = || Some((THINGS, thing()));
    let deletes = || json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    vec![
        way("create", None, "POST", JSON, MAPS.to_owned(), map("1")),
        way("generate", None, "POST", JSON, MAPS.to_owned(), generated),
        way("update", maps(map("0")), "PUT", JSON, one.clone(), map("1")),
        way("merge", maps(map("0")), "PATCH", MERGE, one.clone(), json!({"data": {"a": "1"}})),
        way("patch", maps(map("0")), "PATCH", "application/json-patch+json", one.clone(), replaced),
        way("apply", maps(map("0")), "PATCH", APPLY, format!("{one}?fieldManager=x&force=true"), map("1")),
        way("apply-new", None, "PATCH", APPLY, format!("{one}?fieldManager=x"), map("1")),
        way("delete", maps(map("0")), "DELETE", JSON, one.clone(), deletes()),
        way("delete-kept", maps(kept()), "DELETE", JSON, one.clone(), deletes()),
        way("let-go", maps(kept()), "PATCH", MERGE, one, json!({"metadata": {"finalizers": null}})),
        way(
            "delete-all",
            maps(map("0")),
            "DELETE",
            JSON,
            format!("{MAPS}?labelSelector=case=NAME"),
            deletes(),
        ),
        way("status", things(), "PATCH", MERGE, format!("{THINGS}/NAME/status"), json!({"status": {"a": 1}})),
        way("scale", things(), "PUT", JSON, format!("{THINGS}/NAME/scale"), scale),
        way(
            "finalize",
            Some((NAMESPACES, namespace)),
            "PUT",
            JSON,
            format!("{NAMESPACES}/NAME/finalize"),
            open,
        ),
    ]
}

/// One way and one change of the Lease, over one server.
#[derive(Clone)]
struct Case {
    server: ApiServer,
    name: String,
}

impl Case {
    fn fill(&self, text: &str) -> String {
        text.replace("NAME", &self.name)
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        fence: Option<&str>,
        body: &Value,
    ) -> (u16, Value) {
        let request = http::Request::builder().method(method).uri(self.fill(path));
        let request = request.header("content-type", content_type);
        let request = match fence {
            Some(fence) => request.header("capstan-fence", fence),
            None => request,
        };
        let body = http_body_util::Full::new(bytes::Bytes::from(self.fill(&body.to_string())));
        let answer =
            self.server.clone().oneshot(request.body(body).expect("a request")).await.expect("an answer");
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        (code, serde_json::from_slice(&body).expect("JSON"))
    }

    async fn done(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Value {
        let (code, answer) = self.ask(method, path, content_type, None, body).await;
        assert!(code < 300, "{}: {method} {path}: {answer}", self.name);
        answer
    }

    async fn lease(&self, transitions: i32) -> Value {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "NAME"},
            "spec": {"holderIdentity": "a", "leaseTransitions": transitions}});
        self.done("POST", LEASES, "application/json", &lease).await
    }

    async fn hold(&self, holder: &str, transitions: i32) {
        let spec = json!({"spec": {"holderIdentity": holder, "leaseTransitions": transitions}});
        self.done("PATCH", &format!("{LEASES}/NAME"), MERGE, &spec).await;
    }

    async fn meanwhile(&self, what: Meanwhile, way: &Way) {
        match what {
            Meanwhile::Renewed => {
                let renewed = json!({"spec": {"renewTime": "2026-11-27T20:00:00.000000Z"}});
                self.done("PATCH", &format!("{LEASES}/NAME"), MERGE, &renewed).await;
            }
            Meanwhile::Gone => {
                self.done("DELETE", &format!("{LEASES}/NAME"), "application/json", &json!({})).await;
            }
            Meanwhile::Taken => self.hold("b", 4).await,
            Meanwhile::TakenBack => {
                self.hold("b", 4).await;
                self.hold("a", 5).await;
            }
            Meanwhile::MadeAnew => {
                self.done("DELETE", &format!("{LEASES}/NAME"), "application/json", &json!({})).await;
                self.lease(3).await;
            }
            Meanwhile::TakenAndChanged => {
                self.hold("b", 4).await;
                if let Some((collection, _)) = &way.before {
                    let changed = json!({"metadata": {"annotations": {"by": "b"}}});
                    self.done("PATCH", &format!("{collection}/NAME"), MERGE, &changed).await;
                }
            }
        }
    }
}

type Content = BTreeMap<String, (Revision, Vec<u8>)>;

/// Everything but Leases.
async fn content(store: &dyn Store) -> Content {
    let all = store.range(Range { prefix: "/registry/", ..Range::default() }).await.expect("a range");
    let entries = all.entries.into_iter().filter(|entry| !entry.key.contains("/leases/"));
    let value = |entry: &Entry| entry.value.unpack().expect("a value").to_vec();
    entries.map(|entry| (entry.key.to_string(), (entry.modified, value(&entry)))).collect()
}

async fn a_write_is_refused_when_its_lease_is_taken_before_its_commit(store: Arc<dyn Store>) {
    let stopped = Arc::new(Stopped { store: store.clone(), meanwhile: Mutex::default() });
    let server = ApiServer::open(stopped.clone(), options(vec![definition()])).await.expect("a server");
    for (way, what) in ways().into_iter().flat_map(|way| {
        let way = Arc::new(way);
        Meanwhile::ALL.map(move |what| (way.clone(), what))
    }) {
        let case = Case { server: server.clone(), name: format!("{}-{what:?}", way.name).to_lowercase() };
        if let Some((collection, object)) = &way.before {
            case.done("POST", collection, "application/json", object).await;
        }
        if way.name == "let-go" {
            case.done("DELETE", &way.path, "application/json", &json!({})).await;
        }
        let lease = case.lease(3).await;
        let fence = format!("default/{} {} 3", case.name, lease["metadata"]["uid"].as_str().expect("a uid"));
        let left: Arc<Mutex<Content>> = Arc::default();
        let meanwhile = {
            let (case, way, left, store) = (case.clone(), way.clone(), left.clone(), store.clone());
            async move {
                case.meanwhile(what, &way).await;
                let content = content(&*store).await;
                *left.lock() = content;
            }
        };
        *stopped.meanwhile.lock() = Some(meanwhile.boxed());
        let (code, answer) = case.ask(way.method, &way.path, way.content_type, Some(&fence), &way.body).await;
        assert!(stopped.meanwhile.lock().is_none(), "{}: nothing was committed", case.name);
        let left = left.lock().clone();
        let now = content(&*store).await;
        if what.allows() {
            assert!(code < 300 && left != now, "{}: {code} {answer}", case.name);
            continue;
        }
        assert_eq!((code, answer["reason"].as_str()), (409, Some("Conflict")), "{}: {answer}", case.name);
        let said = format!("Lease default/{} has been taken by another process since", case.name);
        assert!(answer["message"].as_str().is_some_and(|message| message.contains(&said)), "{answer}");
        assert_eq!(left, now, "{}: something was stored", case.name);
    }
}

#[tokio::test]
async fn in_memory_a_write_is_refused_when_its_lease_is_taken_before_its_commit() {
    a_write_is_refused_when_its_lease_is_taken_before_its_commit(Arc::new(MemoryStore::new())).await;
}

#[tokio::test]
async fn in_a_file_a_write_is_refused_when_its_lease_is_taken_before_its_commit() {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let folder = tempfile::Builder::new().permissions(private).tempdir().expect("a folder");
    let store = DiskStore::open(folder.path(), Timestamp::default()).expect("a store");
    a_write_is_refused_when_its_lease_is_taken_before_its_commit(Arc::new(store)).await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn in_etcd_a_write_is_refused_when_its_lease_is_taken_before_its_commit() {
    use super::keeping::etcd::{Etcd, is_installed};
    use capstan_store::{EtcdOptions, EtcdStore, Plain};

    if !is_installed() {
        return;
    }
    let etcd = Etcd::start();
    let store = EtcdStore::connect(EtcdOptions {
        endpoints: vec![etcd.endpoint()],
        prefix: "/registry".to_owned(),
        within: "/registry".to_owned(),
        tls: None,
        plain: Plain::same(),
        sealed: &[],
        rng: capstan_base::rng::Rng::from_entropy(),
    });
    a_write_is_refused_when_its_lease_is_taken_before_its_commit(Arc::new(store.await.expect("a store")))
        .await;
}
