//! The socket: TLS on an address around the same service that is used in process. Owns accepting,
//! limits and the end; must not know what a request means.

use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::ApiServer;
use super::tls::{Authority, IdentityError};

/// How long a client may take to say hello.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// All headers of a request together.
const HEADER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: u32 = 64 * 1024;
/// Requests at once on one HTTP/2 connection, as kube-apiserver's default.
const STREAMS_MAX: u32 = 250;
/// After a failed accept (out of file descriptors), before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why an address is not served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "cannot listen on {address}: {source}; another process may have the port (port 0 picks a free one)"
    )]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// An address being served, until dropped.
pub struct Listening {
    address: SocketAddr,
    _accepting: AbortOnDropHandle<()>,
}

impl Listening {
    /// With the port that was picked.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves `server` (give it a guarded handle) on `address` with a certificate of `authority`.
///
/// # Errors
/// [`ListenError`].
pub async fn listen(
    server: ApiServer,
    address: SocketAddr,
    authority: &Authority,
) -> Result<Listening, ListenError> {
    let listener =
        TcpListener::bind(address).await.map_err(|source| ListenError::Bind { address, source })?;
    let address = listener.local_addr().map_err(|source| ListenError::Bind { address, source })?;
    let acceptor = TlsAcceptor::from(authority.server_config(address)?);
    let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, acceptor, server)));
    Ok(Listening { address, _accepting: accepting })
}

/// Accepts for ever; connections end with this task.
async fn accept(listener: TcpListener, acceptor: TlsAcceptor, server: ApiServer) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, acceptor.clone(), server.clone()));
                }
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, server: ApiServer) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!("TLS handshake failed: {error}"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADERS_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .adaptive_window(true);
    let service = TowerToHyperService::new(server);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("a connection ended: {error}");
    }
}

/// A kubeconfig with everything in it: trust, token, address. JSON, which is YAML.
#[must_use]
pub fn kubeconfig(address: SocketAddr, authority: &Authority, token: &str) -> String {
    use base64::Engine as _;
    let ca = base64::engine::general_purpose::STANDARD.encode(authority.certificate_pem());
    let host = if address.ip().is_unspecified() { "localhost".to_owned() } else { bracketed(address) };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "capstan", "cluster": {
            "server": format!("https://{host}:{}", address.port()),
            "certificate-authority-data": ca,
        }}],
        "users": [{"name": "capstan-admin", "user": {"token": token}}],
        "contexts": [{"name": "capstan", "context": {"cluster": "capstan", "user": "capstan-admin"}}],
        "current-context": "capstan",
    });
    format!("{config:#}\n")
}

fn bracketed(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    }
}
