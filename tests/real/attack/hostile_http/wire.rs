//! Bytes to a server over TLS, without a client that would correct them. Must not know what they mean.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::standalone::Standalone;

/// As much of an answer as is looked at.
const ANSWER_BYTES_MAX: usize = 4096;

pub struct Wire {
    connector: TlsConnector,
    address: String,
    token: String,
}

impl Wire {
    /// To a server whose files are in `folder`.
    pub fn to(server: &Standalone, folder: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_file(folder.join("data/ca.crt")).expect("a certificate");
        roots.add(trusted).expect("trusted");
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let token = std::fs::read_to_string(folder.join("data/admin.token")).expect("a token");
        Self {
            connector: TlsConnector::from(Arc::new(config)),
            address: server.address.clone(),
            token: token.trim().to_owned(),
        }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(&self.address).await.expect("a connection");
        let name = ServerName::try_from("localhost").expect("a name");
        self.connector.connect(name, stream).await.expect("TLS")
    }

    /// Sends `bytes`; the status of the answer, `None` when the server ends the connection without one. Whoever does
    /// not answer in `time` is told that nothing more comes.
    pub async fn send(&self, bytes: &[u8], time: Duration) -> Option<u16> {
        let (mut from, mut to) = tokio::io::split(self.connect().await);
        let write = async {
            // The server may answer and end before it has read everything.
            let _ = to.write_all(bytes).await;
            let _ = to.flush().await;
            tokio::time::sleep(time).await;
            let _ = to.shutdown().await;
            std::future::pending::<()>().await;
        };
        let read = async {
            let mut answer = Vec::new();
            let mut buffer = [0; ANSWER_BYTES_MAX];
            while answer.len() < ANSWER_BYTES_MAX && !answer.contains(&b'\n') {
                match from.read(&mut buffer).await {
                    Ok(count @ 1..) => answer.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            status_of(&answer)
        };
        tokio::select! {
            status = read => status,
            () = write => None,
        }
    }

    /// Sends `bytes` and leaves the connection open.
    pub async fn begin(&self, bytes: &[u8]) -> TlsStream<TcpStream> {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.expect("written");
        stream.flush().await.expect("written");
        stream
    }
}

/// Reads until the server ends the connection.
pub async fn to_the_end(mut stream: TlsStream<TcpStream>) {
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

fn status_of(answer: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(answer);
    text.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
}
