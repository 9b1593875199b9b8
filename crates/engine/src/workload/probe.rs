//! Keeps one connection to one workload cluster: connects, probes, drops, connects again. Owns the
//! rhythm and the counters; must not know what is asked over it.
//! Source: cluster-api `controllers/clustercache`, v1.14.2.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, Secret};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use super::nodes::{NodeIdentity, Nodes};
use super::{Announcement, Connection, FAILURES_MAX, JudgedAfter};
use crate::client::errors::{Cause, classify};
use crate::client::{Change, Client, Writer, connect, deadline, explain, get};
use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;

const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// For any other request. Source: cluster-api `controllers/clustercache`, v1.14.2.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_RETRY: Duration = Duration::from_secs(30);

/// What a connected cluster is asked through.
#[derive(Clone)]
pub struct Live {
    pub writer: Writer,
    /// Kept by watch, so that changes are noticed and reads cost nothing.
    pub nodes: Nodes,
}

/// One cluster: the counters, and the connection while there is one.
#[derive(Default)]
pub struct Slot {
    pub connection: Connection,
    pub live: Option<Live>,
}

/// The task that keeps one connection.
pub struct Prober {
    pub cluster: ObjectKey,
    pub management: Writer,
    pub slot: Arc<Mutex<Slot>>,
    pub changes: broadcast::Sender<Announcement>,
    pub clock: Clock,
    pub rng: Rng,
    pub dial: Dial,
    pub judged_after: JudgedAfter,
}

/// Opens a connection to the workload cluster of the Cluster with this key.
///
/// # Errors
/// Why that is not possible, in a sentence.
pub type Dial = Arc<dyn Fn(ObjectKey) -> BoxFuture<'static, Result<Client, String>> + Send + Sync>;

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    Failures,
    Unauthorized,
}

impl Prober {
    /// Runs until it is dropped.
    pub async fn run(self) {
        loop {
            match self.open().await {
                Ok(client) => {
                    if self.keep(client).await == Lost::Unauthorized {
                        // The Secret may hold a fresh certificate already.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        continue;
                    }
                }
                Err(reason) => {
                    // One line for each outage at the usual level: nothing else says why.
                    if self.failed() == 1 {
                        tracing::info!(cluster = %self.cluster, "no connection to the workload cluster: {reason}");
                    } else {
                        tracing::debug!(cluster = %self.cluster, "connecting failed: {reason}");
                    }
                }
            }
            tokio::time::sleep(CONNECT_RETRY).await;
        }
    }

    async fn open(&self) -> Result<Client, String> {
        let client = (self.dial)(self.cluster.clone()).await?;
        probe(&client).await.map_err(|(_, reason)| reason)?;
        Ok(client)
    }

    /// Probes until the connection counts as lost.
    async fn keep(&self, client: Client) -> Lost {
        let nodes = Nodes::listed_in(self.management.term());
        let (changes, cluster) = (self.changes.clone(), self.cluster.clone());
        nodes.cache.on_change(move |change: &Change<'_, Node>| {
            let Some(node) = turned(change) else { return };
            // It is fine when there is no listener.
            let _ = changes.send(Announcement::Node { cluster: cluster.clone(), node });
        });
        let mut feed = JoinSet::new();
        // Dropped with this function, and so stopped: a lost connection must not go on listing.
        feed.spawn(nodes.cache.clone().follow(client.clone(), self.rng.clone()));
        // In place before the announcement: those that it wakes read at once.
        self.slot.lock().live = Some(Live { writer: self.management.on(client.clone()), nodes });
        self.succeeded();
        self.announce();
        let lost = loop {
            tokio::time::sleep(PROBE_INTERVAL).await;
            match probe(&client).await {
                Ok(()) => self.succeeded(),
                Err((Cause::Unauthenticated | Cause::ClientCertificate, _)) => break Lost::Unauthorized,
                Err(_) => {
                    if self.failed() >= FAILURES_MAX {
                        break Lost::Failures;
                    }
                }
            }
        };
        {
            let mut slot = self.slot.lock();
            slot.live = None;
            slot.connection.connected = false;
        }
        self.announce();
        lost
    }

    fn succeeded(&self) {
        let now = self.clock.now();
        let mut slot = self.slot.lock();
        slot.connection = Connection {
            last_probe: Some(now),
            last_probe_success: Some(now),
            consecutive_failures: 0,
            connected: true,
        };
    }

    /// The number of failures in a row. Listeners are woken when a grace period has just ended.
    fn failed(&self) -> u32 {
        let now = self.clock.now();
        let (failures, graced) = {
            let mut slot = self.slot.lock();
            let before = slot.connection.last_probe;
            slot.connection.last_probe = Some(now);
            slot.connection.consecutive_failures += 1;
            // Only the probe that passes the end of a grace period
            // wakes: each later one would wake everything.
            let crossed = |grace: TimeDelta| {
                let since = slot.connection.last_probe_success?;
                Some(before? - since < grace && now - since >= grace)
            };
            let graced = self.judged_after.wakes().into_iter().any(|grace| crossed(grace).unwrap_or(false));
            (slot.connection.consecutive_failures, graced)
        };
        // With so many failures a cluster that was never reached stops counting as "not yet".
        if graced || failures == FAILURES_MAX {
            self.announce();
        }
        failures
    }

    fn announce(&self) {
        // It is fine when there is no listener.
        let _ = self.changes.send(Announcement::Cluster(self.cluster.clone()));
    }
}

/// A client of a workload cluster, from the kubeconfig Secret of its Cluster. Nothing is sent to it yet.
///
/// # Errors
/// A Secret that is missing or cannot be read, or a kubeconfig that cannot be used, in a sentence.
pub async fn connect_to(management: &Client, cluster: &ObjectKey, read_only: bool) -> Result<Client, String> {
    let text = kubeconfig_of(management, cluster).await?;
    let connection = connect::from_secret(&text, &format!("Secret {}", secret_of(cluster)), read_only).await;
    let client = connection.map_err(|error| error.to_string())?.client;
    // A server behind a dead load balancer takes requests and never answers them.
    Ok(deadline::within(client, REQUEST_TIMEOUT))
}

/// The kubeconfig of a workload cluster, from the Secret of its Cluster.
///
/// # Errors
/// A Secret that is missing or cannot be read, in a sentence.
pub async fn kubeconfig_of(management: &Client, cluster: &ObjectKey) -> Result<String, String> {
    let key = secret_of(cluster);
    let secret: Option<Secret> =
        get(management, &key).await.map_err(|e| explain(&e, "the management cluster"))?;
    let data = secret.and_then(|s| s.data).and_then(|mut d| d.remove("value"));
    let text = data.and_then(|bytes| String::from_utf8(bytes.0).ok());
    text.ok_or_else(|| format!("Secret {key} holds no kubeconfig under `value`"))
}

fn secret_of(cluster: &ObjectKey) -> ObjectKey {
    ObjectKey::new(&cluster.namespace, format!("{}-kubeconfig", cluster.name))
}

/// Dials by [`connect_to`].
pub fn by_secret(management: Client, read_only: bool) -> Dial {
    Arc::new(move |cluster| {
        let management = management.clone();
        Box::pin(async move { connect_to(&management, &cluster, read_only).await })
    })
}

/// The Node that changed. One that loses the label of control planes still counts as one of them.
fn turned(change: &Change<'_, Node>) -> Option<NodeIdentity> {
    let mut node = NodeIdentity::of(change.new.or(change.old)?);
    node.is_control_plane |= change.old.is_some_and(|old| NodeIdentity::of(old).is_control_plane);
    Some(node)
}

/// One cheap request with a limit in time: the root, which every API server has, as upstream asks for it. It lists
/// paths; that of Cluster API's in-memory provider is empty, and it has no `/version`.
async fn probe(client: &Client) -> Result<(), (Cause, String)> {
    let root = http::Request::new(Vec::new());
    match tokio::time::timeout(PROBE_TIMEOUT, client.request_text(root)).await {
        Ok(Ok(text)) if is_of_api_server(&text) => Ok(()),
        Ok(Ok(_)) => {
            Err((Cause::NotKubernetes, "what answers is not an API server: check the address".to_owned()))
        }
        Ok(Err(error)) => Err((classify(&error), explain(&error, "the workload cluster"))),
        Err(_) => Err((Cause::TimedOut, "the workload cluster did not answer in time".to_owned())),
    }
}

/// An answer of the root that is neither is somebody else's, such as a page of a proxy.
fn is_of_api_server(text: &str) -> bool {
    text.is_empty() || serde_json::from_str::<Value>(text).is_ok_and(|answer| answer.is_object())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::*;
    use crate::client::in_process;

    /// What a port does with each connection.
    #[derive(Clone, Copy, Debug)]
    enum Manner {
        Silent,
        Closes,
        Says(&'static str),
    }

    async fn listen(manner: Manner) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(behave(stream, manner));
            }
        });
        port
    }

    async fn behave(mut stream: TcpStream, manner: Manner) {
        let mut asked = [0; 4096];
        let _ = stream.read(&mut asked).await;
        match manner {
            Manner::Silent => std::future::pending().await,
            Manner::Closes => {}
            Manner::Says(text) => drop(stream.write_all(text.as_bytes()).await),
        }
    }

    /// A server that speaks TLS with a certificate for `name`, and answers nothing.
    async fn listen_tls(name: &str) -> (u16, String) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("an identity");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(acceptor.accept(stream));
            }
        });
        (port, made.cert.pem())
    }

    fn prober(server: &str) -> Prober {
        prober_of(&json!({"server": server}))
    }

    /// A management cluster whose one Secret is the kubeconfig of a cluster.
    fn prober_of(cluster: &Value) -> Prober {
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}],
            "clusters": [{"name": "c", "cluster": cluster}]});
        let value = base64::engine::general_purpose::STANDARD.encode(kubeconfig.to_string());
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"value": value},
            "metadata": {"name": "harbor-kubeconfig", "namespace": "default"}});
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let body = kube::client::Body::from(secret.to_string().into_bytes());
            async move { Ok::<_, std::convert::Infallible>(http::Response::new(body)) }
        });
        let management = in_process(service, "management", "default", false).client;
        Prober {
            cluster: ObjectKey::new("default", "harbor"),
            management: Writer::new(management.clone(), "test"),
            slot: Arc::default(),
            changes: broadcast::Sender::new(8),
            clock: Clock::system(),
            rng: Rng::seeded(1),
            dial: by_secret(management, false),
            judged_after: JudgedAfter::default(),
        }
    }

    #[tokio::test]
    async fn a_cluster_without_versions_is_connected_to_by_its_root() {
        for (asked, answer) in [("/", ""), ("/", r#"{"paths": ["/api"]}"#)] {
            let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
                let is_asked = request.uri().path() == asked;
                let status = if is_asked { http::StatusCode::OK } else { http::StatusCode::NOT_FOUND };
                let body = kube::client::Body::from(answer.as_bytes().to_vec());
                let response = http::Response::builder().status(status).body(body).expect("an answer");
                async move { Ok::<_, std::convert::Infallible>(response) }
            });
            let client = in_process(service, "workload", "default", false).client;
            assert_eq!(probe(&client).await, Ok(()), "{answer}");
        }
    }

    /// With a paused clock the time of one that says nothing is over at once.
    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_answers_nonsense_or_nothing_is_a_reason() {
        let page = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n<html></html>";
        for (manner, scheme) in [
            (Manner::Silent, "http"),
            (Manner::Silent, "https"),
            (Manner::Closes, "http"),
            (Manner::Says("SSH-2.0-OpenSSH\r\n"), "http"),
            (Manner::Says("SSH-2.0-OpenSSH\r\n"), "https"),
            (Manner::Says(page), "http"),
            (Manner::Says("HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n"), "http"),
        ] {
            let prober = prober(&format!("{scheme}://127.0.0.1:{}", listen(manner).await));
            let opened = prober.open().await;
            let reason = opened.err().unwrap_or_default();
            assert!(!reason.is_empty(), "{manner:?} by {scheme} passes for a cluster");
            prober.failed();
            let connection = prober.slot.lock().connection.clone();
            assert_eq!((connection.connected, connection.consecutive_failures), (false, 1), "{reason}");
        }
    }

    #[tokio::test]
    async fn a_cluster_with_another_certificate_is_a_reason() {
        let (port, own) = listen_tls("127.0.0.1").await;
        let (elsewhere, other) = listen_tls("elsewhere.test").await;
        for (port, authority, words) in [
            (port, &other, "is not signed by the authority the kubeconfig expects"),
            (elsewhere, &other, "is for elsewhere.test and not for 127.0.0.1"),
        ] {
            let authority = base64::engine::general_purpose::STANDARD.encode(authority);
            let server = format!("https://127.0.0.1:{port}");
            let prober = prober_of(&json!({"server": server, "certificate-authority-data": authority}));
            let reason = prober.open().await.err().unwrap_or_default();
            assert!(reason.contains(words), "{reason}");
        }
        let authority = base64::engine::general_purpose::STANDARD.encode(&own);
        let server = format!("https://127.0.0.1:{port}");
        let prober = prober_of(&json!({"server": server, "certificate-authority-data": authority}));
        let reason = prober.open().await.err().unwrap_or_default();
        assert!(!reason.contains("certificate"), "the right one, and then silence: {reason}");
    }
}
