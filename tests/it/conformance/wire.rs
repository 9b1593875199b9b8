//! What only a socket shows: the server behind TLS on a port of its own, and clients that speak
//! HTTP/1.1 or HTTP/2 to it byte by byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use capstan_apiserver::serve::tls::{Authority, ClientCertificate};
use capstan_apiserver::serve::{self, Listening};
use capstan_base::time::Clock;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::Site;

pub const ADMIN: &str = "admin-token";
pub const VIEWER: &str = "viewer-token";

/// A site that is listened on.
pub struct Port {
    pub site: Site,
    pub authority: Authority,
    pub listening: Listening,
}

impl Port {
    pub async fn open() -> Self {
        let site = Site::open().await;
        let authority = Authority::generate(Clock::system().now()).expect("an authority");
        let address = "127.0.0.1:0".parse().expect("an address");
        let listening = serve::listen(site.server.guarded(), address, &authority).await.expect("a port");
        Self { site, authority, listening }
    }

    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// A TLS connection that offers `protocol`, and may show a certificate.
    pub async fn connect(
        &self,
        protocol: &str,
        shown: Option<&ClientCertificate>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(self.authority.certificate_pem().as_bytes());
        roots.add(trusted.expect("a certificate")).expect("trusted");
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match shown {
            None => config.with_no_client_auth(),
            Some(client) => {
                let chain = CertificateDer::from_pem_slice(client.certificate_pem.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(client.key_pem.as_bytes());
                config
                    .with_client_auth_cert(vec![chain.expect("a certificate")], key.expect("a key"))
                    .expect("a pair")
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address()).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Sends `request` over HTTP/1.1 and reads until the server hangs up.
    pub async fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect("http/1.1", None).await.expect("connected");
        exchange(&mut stream, request).await
    }

    /// A GET over HTTP/1.1 as `Authorization` says, with more headers.
    pub async fn get(&self, path: &str, token: Option<&str>, headers: &[(&str, &str)]) -> String {
        let mut request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request.push_str("Host: localhost\r\n");
        }
        if let Some(token) = token {
            request.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(format!("{request}\r\n").as_bytes()).await
    }

    /// An HTTP/2 connection agreed by ALPN.
    pub async fn http2(&self) -> http2::SendRequest<Full<Bytes>> {
        let stream = self.connect("h2", None).await.expect("connected");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
        tokio::spawn(connection);
        sender
    }
}

/// Writes `request` and reads to the end; whatever was answered before an error counts.
pub async fn exchange(
    stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
    request: &[u8],
) -> String {
    // The server may answer and hang up before it has read everything.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let _ = tokio::time::timeout(Duration::from_secs(20), read).await.expect("the server hangs up");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The code in the first line of an answer; 0 when there is none.
pub fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}
