//! The listener: TLS on an address, or a socket file, around the same service that is used in
//! process. Owns accepting, limits and the end; must not know what a request means.

mod accepting;
mod forward;
mod frontend;
mod pace;
mod patience;
pub mod rotation;
pub mod socket;
mod streams;
pub mod tls;

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use self::accepting::Accepting;
use self::forward::{Forwarding, Upgrade};
use self::frontend::{Frontend, Transport};
use self::pace::{Pace, Silence};
use self::patience::Patient;
use self::socket::SocketFile;
use self::streams::Streams;
use self::tls::{Authority, IdentityError};
use crate::audit::Source;
use crate::newcomers::Newcomer;
use crate::{ApiServer, Identity};

/// How long a client may take for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// All headers of a request together.
const HEADER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: u32 = 64 * 1024;
/// Requests at once on one HTTP/2 connection, as kube-apiserver's default.
const STREAMS_MAX: u32 = 250;
/// Encrypted text that may wait for a peer.
const TLS_BYTES_MAX: usize = 32 * 1024;
/// Text that may wait for a peer on one HTTP/2 stream.
const STREAM_BYTES_MAX: usize = 64 * 1024;
/// How long requests may go on when a connection ends that nothing is asked on.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(10);
/// Before the path of a socket file on the command line.
const UNIX: &str = "unix:";

/// Where to listen: `127.0.0.1:6443`, or `unix:/path/of/socket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TLS on this address; port 0 picks a free one.
    Tcp(SocketAddr),
    /// A socket file, without TLS: who may open it is the administrator.
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
    /// The port is taken, or the address is not one of this machine.
    #[error(
        "cannot listen on {address}: {source}; another process may have the port (port 0 picks a free one)"
    )]
    Bind {
        /// As asked for; `0.0.0.0:0` when a given listener has none.
        address: SocketAddr,
        /// Of the operating system.
        source: std::io::Error,
    },
    /// The socket file cannot be made or would take another's place.
    #[error("cannot listen on the socket {path}: {why}")]
    Socket {
        /// The file.
        path: String,
        /// A sentence for a person: what is there, who may enter the folder, or what the system said.
        why: String,
    },
    /// The certificate for the address cannot be made.
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
    serve(server, Arc::new(listener), authority, &[])
}

/// The same on a listener that is there already, and stays when the serving ends; `names` are in the certificate, too.
///
/// # Errors
/// [`ListenError`].
pub fn serve(
    server: ApiServer,
    listener: Arc<TcpListener>,
    authority: &Authority,
    names: &[String],
) -> Result<Listening, ListenError> {
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let address = listener.local_addr().map_err(|source| ListenError::Bind { address: unknown, source })?;
    let acceptor = TlsAcceptor::from(authority.server_config_for(address, names)?);
    let frontend = Frontend::new(server, Transport::Tcp(address));
    let accepting = accept(Listener::Tcp(listener, acceptor), frontend);
    Ok(Listening { address, _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)) })
}

/// Serves `server` on a socket file; who may open it is the administrator, and needs no token. Ends,
/// and removes the file, when the handle is dropped.
///
/// # Errors
/// [`ListenError::Socket`].
pub async fn listen_on_socket(server: ApiServer, path: &Path) -> Result<AbortOnDropHandle<()>, ListenError> {
    let file = SocketFile::bind(path).await?;
    let frontend =
        Frontend::new(server.known_as(Identity::ADMIN).reached_from(Source::Socket), Transport::Unix);
    Ok(AbortOnDropHandle::new(tokio::spawn(accept(Listener::Unix(file), frontend))))
}

enum Listener {
    Tcp(Arc<TcpListener>, TlsAcceptor),
    Unix(SocketFile),
}

enum Stream {
    Tcp(TcpStream, IpAddr, TlsAcceptor),
    Unix(UnixStream),
}

impl Listener {
    async fn next(&self) -> std::io::Result<Stream> {
        match self {
            Self::Tcp(listener, acceptor) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Stream::Tcp(stream, peer.ip(), acceptor.clone()))
            }
            Self::Unix(file) => file.accept().await.map(Stream::Unix),
        }
    }
}

impl Stream {
    async fn serve(self, frontend: Frontend) {
        match self {
            Self::Tcp(stream, peer, acceptor) => {
                let newcomer = frontend.newcomers.enter();
                tokio::select! {
                    () = secured(stream, peer, acceptor, frontend, newcomer.clone()) => {}
                    () = newcomer.turned_away() => tracing::debug!("too many connections without credentials"),
                }
                newcomer.is_gone();
            }
            Self::Unix(stream) => converse(stream, frontend, None).await,
        }
    }
}

/// Accepts for ever; connections end with this task.
async fn accept(listener: Listener, frontend: Frontend) {
    let mut connections = JoinSet::new();
    let mut accepting = Accepting::default();
    loop {
        tokio::select! {
            biased;
            // Connections that ended are taken out, or the set would only grow.
            Some(_) = connections.join_next() => {}
            accepted = listener.next() => match accepted {
                Ok(stream) => {
                    accepting.worked();
                    connections.spawn(stream.serve(frontend.clone()));
                }
                Err(error) => {
                    let pause = accepting.failed(&error);
                    // A connection that ends frees what was missing.
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        Some(_) = connections.join_next() => {}
                    }
                }
            }
        }
    }
}

/// A connection behind TLS, known by the certificate that its client showed.
async fn secured(
    stream: TcpStream,
    peer: IpAddr,
    acceptor: TlsAcceptor,
    mut frontend: Frontend,
    newcomer: Newcomer,
) {
    // Without this small answers are slower, and nothing else.
    let _ = stream.set_nodelay(true);
    let mut stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!("TLS handshake failed: {error}"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    stream.get_mut().1.set_buffer_limit(Some(TLS_BYTES_MAX));
    frontend.server = frontend.server.reached_from(Source::Address(peer));
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    if let Some(identity) = shown.and_then(|certificate| tls::identity_of(certificate)) {
        frontend.server = frontend.server.known_as(identity);
        newcomer.is_known();
    }
    converse(stream, frontend, Some(newcomer)).await;
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    frontend: Frontend,
    newcomer: Option<Newcomer>,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    // The head of a request has its time limit in `pace`: the one here counts from the end of the last answer.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEADER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADERS_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .max_send_buf_size(STREAM_BYTES_MAX)
        .adaptive_window(true);
    let pace = Pace::start();
    let stream = TokioIo::new(Patient::new(stream, pace.clone(), frontend.stalls.clone()));
    let (opened, streams) = (pace.clone(), Streams::of(&frontend.waiting));
    let counted = streams.clone();
    // What the connection becomes once it is not HTTP any more.
    let forwarding = Arc::new(Mutex::new(None));
    let accepted = forwarding.clone();
    let answer = service_fn(move |mut request: http::Request<Incoming>| {
        if let Some(newcomer) = &newcomer {
            request.extensions_mut().insert(newcomer.clone());
        }
        let open = opened.open(request.version());
        // On HTTP/1 an answer waits at the socket, where `patience` sees it.
        let counted = (request.version() == http::Version::HTTP_2).then(|| counted.clone());
        let (upgrade, answered) = (Upgrade::of(&mut request), frontend.clone().answer(request, open));
        let accepted = accepted.clone();
        async move {
            let mut response = answered.await?;
            if let Some(forwarding) = upgrade.and_then(|upgrade| upgrade.accepted(&mut response)) {
                *accepted.lock() = Some(forwarding);
            }
            Ok::<_, Infallible>(match counted {
                Some(streams) => streams.count(response),
                None => response,
            })
        }
    });
    let mut connection = pin!(builder.serve_connection_with_upgrades(stream, answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = streams.ended() => return tracing::debug!("the peer does not take what its streams hold"),
        silence = pace.ended() => {
            if silence == Silence::Head {
                return tracing::debug!("the head of a request took too long");
            }
            // A client that is about to ask is told to do so on a new connection.
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(GOODBYE_TIMEOUT, connection).await {
                Ok(ended) => ended,
                Err(_) => return tracing::debug!("an idle connection did not end in time"),
            }
        }
    };
    if let Err(error) = ended {
        return tracing::debug!("a connection ended: {error}");
    }
    // Taken out first, so that no lock is held over the await.
    let forwarding: Option<Forwarding> = forwarding.lock().take();
    if let Some(forwarding) = forwarding {
        forwarding.run().await;
    }
}

/// A kubeconfig with everything in it: trust, token, address. JSON, which is YAML.
pub fn kubeconfig(address: SocketAddr, authority: &Authority, token: &str) -> String {
    let host = if address.ip().is_unspecified() { "localhost".to_owned() } else { bracketed(address) };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "capstan", "cluster": {
            "server": format!("https://{host}:{}", address.port()),
            "certificate-authority-data": BASE64.encode(authority.certificate_pem()),
        }}],
        "users": [{"name": "capstan", "user": {"token": token}}],
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::time::Instant;

    use super::*;
    use crate::{Options, Tokens};
    use capstan_base::rng::Rng;
    use capstan_base::time::Clock;
    use capstan_store::MemoryStore;
    use k8s_machinery::admission::AdmitAll;

    const REQUEST: &[u8] = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// A client's end of a connection to a new server.
    async fn connection() -> DuplexStream {
        let clock = Clock::fixed(capstan_base::time::parse_rfc3339("2026-11-20T10:00:00Z").unwrap());
        let tokens = Tokens { admin: "a".to_owned(), read_only: "r".to_owned() };
        let options = Options {
            clock,
            rng: Rng::seeded(7),
            definitions: Vec::new(),
            tokens,
            admission: Arc::new(AdmitAll),
        };
        let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.unwrap();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(converse(ours, Frontend::new(server.known_as(Identity::ADMIN), Transport::Unix), None));
        theirs
    }

    /// Asks once on a connection that stays open.
    async fn ask(stream: &mut DuplexStream) -> String {
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            assert_ne!(
                stream.read_buf(&mut answer).await.unwrap(),
                0,
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
        String::from_utf8(answer).unwrap()
    }

    /// How long the server keeps the connection from now on.
    async fn kept(stream: &mut DuplexStream) -> Duration {
        let start = Instant::now();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_were_cut_after_ten_seconds() {
        let mut stream = connection().await;
        for _ in 0..3 {
            assert!(ask(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
            tokio::time::sleep(Duration::from_secs(89)).await;
        }
        assert_eq!(kept(&mut stream).await, Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_heads_are_cut_after_ten_seconds_as_before() {
        let mut stream = connection().await;
        stream.write_all(&REQUEST[..20]).await.unwrap();
        assert_eq!(kept(&mut stream).await, HANDSHAKE_TIMEOUT);
        let mut stream = connection().await;
        ask(&mut stream).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        stream.write_all(&REQUEST[..20]).await.unwrap();
        assert_eq!(kept(&mut stream).await, HANDSHAKE_TIMEOUT);
    }

    #[test]
    fn addresses_are_read() {
        assert_eq!("127.0.0.1:0".parse(), Ok(Address::Tcp("127.0.0.1:0".parse().expect("an address"))));
        assert_eq!("unix:/run/c/api".parse(), Ok(Address::Unix("/run/c/api".into())));
        for wrong in ["unix:", "localhost", "127.0.0.1", ""] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
