//! An API server in this process, on a port of loopback, that writes down what it is asked. Owns the record; must
//! not know who asks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use capi_rules::admission::Webhooks;
use capstan_apiserver::internals::encode;
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp};
use capstan_store::{MemoryStore, Write, write_all};
use capstan_worlds::samples::Sample;
use http::{Method, Request};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt as _;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub method: Method,
    /// Path and query.
    pub target: String,
}

impl Asked {
    /// Whether it could change something, a dry run included. A question about one's own rights cannot.
    pub fn writes(&self) -> bool {
        let is_read = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&self.method);
        let is_own_review = self.method == Method::POST
            && (self.target.starts_with("/apis/authorization.k8s.io/v1/selfsubject")
                || self.target.starts_with("/apis/authentication.k8s.io/v1/selfsubject"));
        !is_read && !is_own_review
    }
}

#[derive(Default)]
struct Record {
    asked: Mutex<Vec<Asked>>,
    news: Notify,
}

/// A server that records, until dropped.
pub struct Recorder {
    address: std::net::SocketAddr,
    record: Arc<Record>,
    _accepting: AbortOnDropHandle<()>,
}

impl Recorder {
    /// Over a made-up fleet that nothing reconciles, and Clusters that go straight into the store because no
    /// API would take their names; `change` is applied to each object first.
    pub async fn over(
        sample: &str,
        extra: Vec<Value>,
        misnamed: Vec<Value>,
        change: impl Fn(Value) -> Value + Send + Sync,
    ) -> Self {
        let options = Options {
            clock: Clock::system(),
            rng: Rng::seeded(7),
            definitions: capi_types::crds::all(),
            tokens: Tokens::random(),
            admission: Arc::new(Webhooks),
        };
        let store = MemoryStore::new();
        let server = ApiServer::open(Arc::new(store.clone()), options).await.expect("a server");
        let now: Timestamp = Clock::system().now();
        let objects = Sample::parse(sample).expect("a sample").objects(now).chain(extra);
        server.import(objects.map(&change)).await.expect("imported");
        let writes = misnamed.into_iter().map(|cluster| put_cluster(&change(cluster)));
        write_all(&store, writes.collect()).await.expect("written");
        Self::serve(server).await
    }

    async fn serve(server: ApiServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let record = Arc::new(Record::default());
        let accepting = accept(listener, server, record.clone());
        Self { address, record, _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)) }
    }

    /// Writes a kubeconfig whose context has this name.
    pub fn kubeconfig(&self, folder: &Path, context: &str) -> PathBuf {
        let path = folder.join("kubeconfig");
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": context,
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "u", "user": {} }],
            "contexts": [{ "name": context, "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(&path, config.to_string()).expect("a kubeconfig");
        path
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.record.asked.lock().expect("no panic while held").clone()
    }

    pub fn writes(&self) -> Vec<Asked> {
        self.asked().into_iter().filter(Asked::writes).collect()
    }

    /// Waits until there is a request of this kind.
    pub async fn is_asked(&self, what: impl Fn(&Asked) -> bool) {
        loop {
            let news = self.record.news.notified();
            if self.asked().iter().any(&what) {
                return;
            }
            news.await;
        }
    }
}

fn put_cluster(cluster: &Value) -> Write {
    let text = |field: &str| cluster["metadata"][field].as_str().expect(field);
    let key = format!("/registry/cluster.x-k8s.io/clusters/{}/{}", text("namespace"), text("name"));
    Write::Put(key.as_str().into(), encode(cluster, b"", 0).expect("an object"))
}

/// Namespace and name of the first Cluster of a made-up fleet.
pub fn first_cluster(sample: &str) -> (String, String) {
    let mut objects = Sample::parse(sample).expect("a sample").objects(Clock::system().now());
    let cluster = objects.find(|object| object["kind"] == "Cluster").expect("a Cluster");
    let text = |field: &str| cluster["metadata"][field].as_str().expect(field).to_owned();
    (text("namespace"), text("name"))
}

async fn accept(listener: TcpListener, server: ApiServer, record: Arc<Record>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (server, record) = (server.clone(), record.clone());
        connections.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let target = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
                let asked = Asked { method: request.method().clone(), target };
                record.asked.lock().expect("no panic while held").push(asked);
                record.news.notify_waiters();
                server.clone().oneshot(request)
            });
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
