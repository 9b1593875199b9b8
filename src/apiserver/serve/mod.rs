//! The listener: TLS on an address, or a socket file, around the same service that is used in
//! process. Owns accepting, limits and the end; must not know what a request means.

mod door;
mod patience;
pub mod rotation;
mod socket;
pub mod tls;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use self::door::{Door, Entrance};
use self::patience::Patient;
use self::socket::SocketFile;
use self::tls::{Authority, ClientCertificate, IdentityError};
use crate::apiserver::{ApiServer, Identity};

/// How long a client may take to say hello.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// All headers of a request together.
const HEADER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: u32 = 64 * 1024;
/// Requests at once on one HTTP/2 connection, as kube-apiserver's default.
const STREAMS_MAX: u32 = 250;
/// After a failed accept (out of file descriptors), before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Before the path of a socket file on the command line.
const UNIX: &str = "unix:";

/// Where to listen: `127.0.0.1:6443`, or `unix:/path/of/socket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(UNIX) {
            Some("") => Err("a path is missing after unix:".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| "expected an address with a port (127.0.0.1:0) or unix:PATH".to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Why an address is not served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "cannot listen on {address}: {source}; another process may have the port (port 0 picks a free one)"
    )]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error("cannot listen on the socket {path}: {why}")]
    Socket { path: String, why: String },
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
    let door = Door { server, entrance: Entrance::Tcp(address) };
    let accepting = accept(Listener::Tcp(listener, acceptor), door);
    Ok(Listening { address, _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)) })
}

/// Serves `server` on a socket file; who may open it is the administrator, and needs no token. Ends,
/// and removes the file, when the handle is dropped.
///
/// # Errors
/// [`ListenError::Socket`].
pub async fn listen_on_socket(server: ApiServer, path: &Path) -> Result<AbortOnDropHandle<()>, ListenError> {
    let file = SocketFile::bind(path).await?;
    let door = Door { server: server.known_as(Identity::ADMIN), entrance: Entrance::Unix };
    Ok(AbortOnDropHandle::new(tokio::spawn(accept(Listener::Unix(file), door))))
}

enum Listener {
    Tcp(TcpListener, TlsAcceptor),
    Unix(SocketFile),
}

enum Stream {
    Tcp(TcpStream, TlsAcceptor),
    Unix(UnixStream),
}

impl Listener {
    async fn next(&self) -> std::io::Result<Stream> {
        match self {
            Self::Tcp(listener, acceptor) => {
                listener.accept().await.map(|(stream, _)| Stream::Tcp(stream, acceptor.clone()))
            }
            Self::Unix(file) => file.accept().await.map(Stream::Unix),
        }
    }
}

impl Stream {
    async fn serve(self, door: Door) {
        match self {
            Self::Tcp(stream, acceptor) => secured(stream, acceptor, door).await,
            Self::Unix(stream) => converse(stream, door).await,
        }
    }
}

/// Accepts for ever; connections end with this task.
async fn accept(listener: Listener, door: Door) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.next() => match accepted {
                Ok(stream) => {
                    connections.spawn(stream.serve(door.clone()));
                }
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// A connection behind TLS, known by the certificate that its client showed.
async fn secured(stream: TcpStream, acceptor: TlsAcceptor, mut door: Door) {
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!("TLS handshake failed: {error}"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    if let Some(identity) = shown.and_then(|certificate| tls::identity_of(certificate)) {
        door.server = door.server.known_as(identity);
    }
    converse(stream, door).await;
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, door: Door) {
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
    let stream = TokioIo::new(Patient::new(stream));
    let answer = service_fn(move |request| door.clone().answer(request));
    if let Err(error) = builder.serve_connection(stream, answer).await {
        tracing::debug!("a connection ended: {error}");
    }
}

/// A kubeconfig with everything in it: trust, token, address. JSON, which is YAML.
#[must_use]
pub fn kubeconfig(address: SocketAddr, authority: &Authority, token: &str) -> String {
    kubeconfig_of(address, authority, &json!({ "token": token }))
}

/// A kubeconfig whose user is known by a certificate.
#[must_use]
pub fn certificate_kubeconfig(
    address: SocketAddr,
    authority: &Authority,
    client: &ClientCertificate,
) -> String {
    let user = json!({
        "client-certificate-data": BASE64.encode(&client.certificate_pem),
        "client-key-data": BASE64.encode(&client.key_pem),
    });
    kubeconfig_of(address, authority, &user)
}

fn kubeconfig_of(address: SocketAddr, authority: &Authority, user: &Value) -> String {
    let host = if address.ip().is_unspecified() { "localhost".to_owned() } else { bracketed(address) };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "capstan", "cluster": {
            "server": format!("https://{host}:{}", address.port()),
            "certificate-authority-data": BASE64.encode(authority.certificate_pem()),
        }}],
        "users": [{"name": "capstan", "user": user}],
        "contexts": [{"name": "capstan", "context": {"cluster": "capstan", "user": "capstan"}}],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        assert_eq!("127.0.0.1:0".parse(), Ok(Address::Tcp("127.0.0.1:0".parse().expect("an address"))));
        assert_eq!("unix:/run/c/api".parse(), Ok(Address::Unix("/run/c/api".into())));
        for wrong in ["unix:", "localhost", "127.0.0.1", ""] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
