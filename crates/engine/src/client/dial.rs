//! Connections to a server, straight or through a proxy. Owns how proxies are spoken to and what is said when one refuses;
//! must not know which proxy is chosen, nor what is sent.
//!
//! Source: Go 1.26 `net/http/transport.go` (`dialConn`).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine as _;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tower::{BoxError, Service, ServiceExt as _};

use super::causes::chain_of;
use super::proxy::{Login, Protocol, Proxy};
use super::socks::{self, SocksError};

/// Why a proxy brings no connection: sentences for an operator.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("the proxy {proxy} does not answer ({reason}): {}", proxy.advice())]
    Unreachable { proxy: Proxy, reason: String },
    #[error("the certificate of the proxy {proxy} is not accepted ({reason}): {}", proxy.advice())]
    Untrusted { proxy: Proxy, reason: String },
    #[error("the proxy {proxy} wants a user and a password, which stand in its address as USER:PASSWORD@HOST: {}", proxy.advice())]
    WantsLogin { proxy: Proxy },
    #[error("the proxy {proxy} does not accept the user and the password of its address: {}", proxy.advice())]
    RefusesLogin { proxy: Proxy },
    #[error("the proxy {proxy} does not connect to {target} ({reason}): {}", proxy.advice())]
    Refuses { proxy: Proxy, target: String, reason: String },
}

trait Stream: Read + Write + Unpin + Send {}

impl<S: Read + Write + Unpin + Send> Stream for S {}

/// A connection that can be written to.
pub struct Dialed {
    stream: Box<dyn Stream>,
    /// The other end is a proxy that reads requests and passes them on.
    reads_requests: bool,
}

impl Dialed {
    fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), reads_requests: false }
    }
}

impl Connection for Dialed {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.reads_requests)
    }
}

impl Read for Dialed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl Write for Dialed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}

/// Makes connections.
#[derive(Clone, Debug)]
pub struct Dialer {
    proxy: Option<Proxy>,
    tcp: HttpConnector,
    /// For proxies that speak TLS: kubectl trusts them as it trusts the server.
    tls: Arc<ClientConfig>,
}

impl Dialer {
    pub fn new(proxy: Option<Proxy>, tls: Arc<ClientConfig>) -> Self {
        let mut tcp = HttpConnector::new();
        // The connector refuses `https` otherwise; TLS is put above it by others.
        tcp.enforce_http(false);
        Self { proxy, tcp, tls }
    }

    async fn dial(self, server: Uri) -> Result<Dialed, BoxError> {
        let Some(proxy) = self.proxy.clone() else {
            return Ok(Dialed::over(self.tcp.oneshot(server).await?));
        };
        let dialed = self.reach(&proxy).await?;
        let target = Target::of(&server);
        Ok(match proxy.protocol {
            Protocol::Socks5 => through_socks(dialed, proxy, target).await?,
            // What is not encrypted is read by the proxy itself: it takes no tunnel, as in Go.
            Protocol::Http | Protocol::Https if !target.is_encrypted => {
                Dialed { reads_requests: true, ..dialed }
            }
            Protocol::Http | Protocol::Https => tunnel(dialed, proxy, target).await?,
        })
    }

    /// A connection to the proxy itself.
    async fn reach(self, proxy: &Proxy) -> Result<Dialed, ProxyError> {
        let unreachable = |reason: String| ProxyError::Unreachable { proxy: proxy.clone(), reason };
        let address: Uri = format!("http://{}", proxy.authority())
            .parse()
            .map_err(|_| unreachable("it is not an address".into()))?;
        let tcp = self.tcp.oneshot(address).await.map_err(|error| unreachable(chain_of(&error)))?;
        if proxy.protocol != Protocol::Https {
            return Ok(Dialed::over(tcp));
        }
        let untrusted = |reason: String| ProxyError::Untrusted { proxy: proxy.clone(), reason };
        let name = ServerName::try_from(proxy.host.clone()).map_err(|error| untrusted(error.to_string()))?;
        let stream = TlsConnector::from(self.tls).connect(name, tcp.into_inner()).await;
        Ok(Dialed::over(TokioIo::new(stream.map_err(|error| untrusted(chain_of(&error)))?)))
    }
}

impl Service<Uri> for Dialer {
    type Response = Dialed;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Dialed, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        Box::pin(self.clone().dial(server))
    }
}

/// The server, as a proxy is told of it.
struct Target {
    host: String,
    port: u16,
    /// `HOST:PORT`.
    authority: String,
    is_encrypted: bool,
}

impl Target {
    fn of(server: &Uri) -> Self {
        let is_encrypted = server.scheme_str() == Some("https");
        let port = server.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let host = server.host().unwrap_or_default().to_owned();
        Self { authority: format!("{host}:{port}"), host, port, is_encrypted }
    }
}

fn refuses(proxy: &Proxy, target: &Target, reason: String) -> ProxyError {
    ProxyError::Refuses { proxy: proxy.clone(), target: target.authority.clone(), reason }
}

/// A tunnel by `CONNECT`.
async fn tunnel(dialed: Dialed, proxy: Proxy, target: Target) -> Result<Dialed, ProxyError> {
    let failed = |error: &hyper::Error| refuses(&proxy, &target, chain_of(error));
    let request = connect_request(&proxy, &target)?;
    let (mut sender, connection) = http1::handshake(dialed).await.map_err(|error| failed(&error))?;
    // hyper hands the stream over only while something drives the connection.
    tokio::spawn(connection.with_upgrades());
    let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
    match answer.status() {
        status if status.is_success() => {
            let upgraded = hyper::upgrade::on(answer).await.map_err(|error| failed(&error))?;
            Ok(Dialed::over(upgraded))
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => Err(login_problem(&proxy)),
        status => Err(refuses(&proxy, &target, format!("it answers {status}"))),
    }
}

fn connect_request(proxy: &Proxy, target: &Target) -> Result<Request<Empty<Bytes>>, ProxyError> {
    let mut request = Request::connect(&target.authority).header(HOST, &target.authority);
    if let Some(login) = proxy.login.as_ref().and_then(basic) {
        request = request.header(PROXY_AUTHORIZATION, login);
    }
    request.body(Empty::new()).map_err(|error| refuses(proxy, target, error.to_string()))
}

fn login_problem(proxy: &Proxy) -> ProxyError {
    let proxy = proxy.clone();
    if proxy.login.is_some() { ProxyError::RefusesLogin { proxy } } else { ProxyError::WantsLogin { proxy } }
}

/// The value of `Proxy-Authorization`.
pub fn basic(login: &Login) -> Option<HeaderValue> {
    let pair = format!("{}:{}", login.user, login.password);
    let text = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
    let mut value = HeaderValue::try_from(text).ok()?;
    // Headers that are printed must not show it.
    value.set_sensitive(true);
    Some(value)
}

async fn through_socks(dialed: Dialed, proxy: Proxy, target: Target) -> Result<Dialed, ProxyError> {
    let mut stream = TokioIo::new(dialed);
    match socks::handshake(&mut stream, &target.host, target.port, proxy.login.as_ref()).await {
        Ok(()) => Ok(stream.into_inner()),
        Err(SocksError::WantsLogin | SocksError::RefusesLogin) => Err(login_problem(&proxy)),
        Err(error) => Err(refuses(&proxy, &target, error.to_string())),
    }
}
