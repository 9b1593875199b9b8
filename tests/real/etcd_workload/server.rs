//! A workload cluster's API as far as the engine asks for it: our own API server over HTTP, with port-forward to
//! real etcd members by WebSocket, as kube-apiserver and kubelet do it.
//! Source: kubernetes `pkg/kubelet/cri/streaming/portforward/websocket.go` (channels of `v4.channel.k8s.io`).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use capstan_apiserver::ApiServer;
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Message, handshake::derive_accept_key, protocol::Role};
use tokio_util::task::AbortOnDropHandle;
use tower::ServiceExt as _;

/// Local ports of what listens in static pods, by pod; `None`: nothing listens in the pod.
pub type Ports = Arc<Mutex<BTreeMap<String, Option<u16>>>>;

type Answer = Response<UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

pub struct WorkloadApi {
    pub url: String,
    pub ports: Ports,
    /// Port-forwards that were opened.
    pub opened: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl WorkloadApi {
    pub async fn serve(server: ApiServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (ports, opened) = (Ports::default(), Arc::new(AtomicUsize::new(0)));
        let (known, count) = (Arc::clone(&ports), Arc::clone(&opened));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, ports, opened) = (server.clone(), Arc::clone(&known), Arc::clone(&count));
                let service = hyper::service::service_fn(move |request| {
                    answer(server.clone(), Arc::clone(&ports), Arc::clone(&opened), request)
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades(),
                );
            }
        });
        Self { url, ports, opened, _task: AbortOnDropHandle::new(task) }
    }

    /// As the control plane provider stores it.
    pub fn kubeconfig(&self, token: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: a\n  cluster:\n    server: {}\n\
             contexts:\n- name: a\n  context:\n    cluster: a\n    user: a\nusers:\n- name: a\n  user:\n    token: {token}\n",
            self.url
        )
    }
}

fn empty(status: StatusCode) -> Response<()> {
    Response::builder().status(status).body(()).expect("an answer")
}

fn bodiless(response: Response<()>) -> Answer {
    response.map(|()| Full::new(Bytes::new()).map_err(|never: Infallible| match never {}).boxed_unsync())
}

async fn answer(
    server: ApiServer,
    ports: Ports,
    opened: Arc<AtomicUsize>,
    mut request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let path = request.uri().path().to_owned();
    let pod = path
        .strip_prefix("/api/v1/namespaces/kube-system/pods/")
        .and_then(|rest| rest.strip_suffix("/portforward"));
    let Some(pod) = pod.map(str::to_owned) else {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|all| all.to_bytes()).unwrap_or_default();
        let response = server.oneshot(Request::from_parts(parts, Body::from(body.to_vec()))).await;
        let response = response.expect("the server answers");
        return Ok(response.map(|body| body.map_err(|e| format!("{e:?}").into()).boxed_unsync()));
    };
    let Some(port) = ports.lock().get(&pod).copied() else {
        return Ok(bodiless(empty(StatusCode::NOT_FOUND)));
    };
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY).cloned();
    let Some(key) = key else { return Ok(bodiless(empty(StatusCode::BAD_REQUEST))) };
    let asked =
        request.uri().query().unwrap_or_default().split('&').find_map(|part| part.strip_prefix("ports="));
    let asked: u16 = asked.and_then(|port| port.parse().ok()).expect("one port");
    opened.fetch_add(1, Ordering::Relaxed);
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let upgraded = upgrade.await.expect("an upgrade");
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        forward(socket, asked, port).await;
    });
    let mut response = empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONNECTION, "Upgrade".to_owned()),
        (header::UPGRADE, "websocket".to_owned()),
        (header::SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes())),
        (header::SEC_WEBSOCKET_PROTOCOL, "v4.channel.k8s.io".to_owned()),
    ] {
        headers.insert(name, value.parse().expect("a header"));
    }
    Ok(bodiless(response))
}

/// Channel 0 has the bytes, channel 1 errors; each begins with the port that was asked for.
async fn forward(
    mut socket: WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>,
    asked: u16,
    port: Option<u16>,
) {
    for channel in [0, 1] {
        let message = [&[channel], &asked.to_le_bytes()[..]].concat();
        if socket.send(Message::binary(message)).await.is_err() {
            return;
        }
    }
    let stream = match port {
        Some(port) => TcpStream::connect(("127.0.0.1", port)).await.ok(),
        None => None,
    };
    let Some(mut stream) = stream else {
        let words = format!("error forwarding port {asked} to pod: connection refused");
        let _ = socket.send(Message::binary([&[1], words.as_bytes()].concat())).await;
        // What the client has sent is read to its end: a socket that is closed over unread bytes is reset, and the
        // report is lost with it.
        let _ = socket.close(None).await;
        while let Some(Ok(_)) = socket.next().await {}
        return;
    };
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => match read {
                Ok(count) if count > 0 => {
                    let message = [&[0], &buffer[..count]].concat();
                    if socket.send(Message::binary(message)).await.is_err() {
                        return;
                    }
                }
                _ => return drop(socket.close(None).await),
            },
            message = socket.next() => match message {
                Some(Ok(Message::Binary(bytes))) if bytes.first() == Some(&0) => {
                    if stream.write_all(&bytes[1..]).await.is_err() {
                        return;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}
