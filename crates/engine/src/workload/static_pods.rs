//! What a static pod of a control plane Node shows through a port-forward: the certificate that it serves, and pages over plain
//! HTTP. Owns the handshake and the request; must not know what they are good for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::{WorkloadError, forward};

const PATIENCE: Duration = Duration::from_secs(15);
/// A page that is longer is not read to its end.
const PAGE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The names in the certificate that `pod` of `kube-system` serves at `port`: DNS names, and addresses in their shortest form.
///
/// # Errors
/// Nothing answers with a certificate in time, or the server refuses the port-forward.
pub async fn served_names(workload: Client, pod: &str, port: u16) -> Result<BTreeSet<String>, WorkloadError> {
    let served = served_certificates(workload, pod, port).await?;
    let leaf = served.first().ok_or_else(|| silent("no certificate came"))?;
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|error| silent(&error.to_string()))?;
    let extension = certificate.subject_alternative_name().map_err(|error| silent(&error.to_string()))?;
    let names = extension.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    Ok(names.iter().filter_map(name_text).collect())
}

fn name_text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address: Option<IpAddr> = match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok().map(IpAddr::from),
                _ => <[u8; 16]>::try_from(*bytes).ok().map(IpAddr::from),
            };
            address.map(|address| address.to_string())
        }
        _ => None,
    }
}

/// The certificates that are served, the leaf first.
///
/// # Errors
/// As [`served_names`].
pub(super) async fn served_certificates(
    workload: Client,
    pod: &str,
    port: u16,
) -> Result<Vec<CertificateDer<'static>>, WorkloadError> {
    let shown = async {
        certificates_of(forward::open(workload, pod.to_owned(), port).await.map_err(of_forward)?).await
    };
    let late = || silent(&format!("no certificate came within {} s", PATIENCE.as_secs()));
    timeout(PATIENCE, shown).await.unwrap_or_else(|_| Err(late()))
}

/// What is served over a stream.
///
/// # Errors
/// The handshake fails before a certificate came.
pub(super) async fn certificates_of(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Vec<CertificateDer<'static>>, WorkloadError> {
    let connection = shaken_hands(stream).await?;
    Ok(connection.get_ref().1.peer_certificates().unwrap_or_default().to_vec())
}

/// A stream after the handshake, with whoever it is: nothing that is secret may be sent.
async fn shaken_hands<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> Result<TlsStream<S>, WorkloadError> {
    let broken = |error: &dyn std::fmt::Display| silent(&format!("TLS handshake: {error}"));
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| broken(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Onlooker))
        .with_no_client_auth();
    // Sent as the name that is asked for; kubeadm puts it into every certificate of an API server.
    let name = ServerName::try_from("kubernetes").map_err(|error| broken(&error))?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| broken(&error))
}

/// The body of a page that `pod` of `kube-system` serves without TLS at `port`, such as etcd's metrics.
///
/// # Errors
/// Nothing answers in time, or not with 200.
pub async fn page(workload: Client, pod: &str, port: u16, path: &str) -> Result<String, WorkloadError> {
    let read = async {
        page_of(forward::open(workload, pod.to_owned(), port).await.map_err(of_forward)?, path).await
    };
    in_time(read).await
}

/// The same over TLS, such as `/readyz` of an API server, asked without saying who asks.
///
/// # Errors
/// As [`page`]; [`WorkloadError::Refused`] when it wants to know who asks.
pub async fn secure_page(
    workload: Client,
    pod: &str,
    port: u16,
    path: &str,
) -> Result<String, WorkloadError> {
    let read = async {
        let stream = forward::open(workload, pod.to_owned(), port).await.map_err(of_forward)?;
        page_of(shaken_hands(stream).await?, path).await
    };
    in_time(read).await
}

async fn in_time(read: impl Future<Output = Result<String, WorkloadError>>) -> Result<String, WorkloadError> {
    let late = || silent(&format!("no page came within {} s", PATIENCE.as_secs()));
    timeout(PATIENCE, read).await.unwrap_or_else(|_| Err(late()))
}

/// HTTP/1.0: the body ends with the connection.
async fn page_of(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
) -> Result<String, WorkloadError> {
    let broken = |error: std::io::Error| silent(&error.to_string());
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut answer = Vec::new();
    // Bounded: what runs in the workload cluster decides how much comes.
    match stream.take(PAGE_BYTES_MAX).read_to_end(&mut answer).await {
        // A connection that ends without a goodbye of TLS has still said what it had to say.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof && !answer.is_empty() => {}
        other => drop(other.map_err(broken)?),
    }
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| silent("the answer is not HTTP"))?;
    let answered = |code: &str| format!("GET {path} is answered with {code}");
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        Some(code @ ("401" | "403")) => Err(WorkloadError::Refused(answered(code))),
        other => Err(silent(&answered(other.unwrap_or("nothing")))),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
fn of_forward(error: forward::ForwardError) -> WorkloadError {
    let words = error.to_string();
    if error.is_refused { WorkloadError::Refused(words) } else { WorkloadError::Unreachable(words) }
}

fn silent(words: &str) -> WorkloadError {
    WorkloadError::Unreachable(words.to_owned())
}

/// Believes every certificate: it is looked at, and nothing is sent to whoever shows it.
#[derive(Debug)]
struct Onlooker;

impl ServerCertVerifier for Onlooker {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_page_is_read_to_its_end() {
        for (answer, expected) in [
            ("HTTP/1.0 200 OK\r\nA: b\r\n\r\netcd_server_is_leader 1\n", Ok("etcd_server_is_leader 1\n")),
            (
                "HTTP/1.1 401 Unauthorized\r\n\r\n",
                Err("workload cluster refused: GET /metrics is answered with 401"),
            ),
            (
                "HTTP/1.1 403 Forbidden\r\n\r\n",
                Err("workload cluster refused: GET /metrics is answered with 403"),
            ),
            ("HTTP/1.1 404 Not Found\r\n\r\n", Err("GET /metrics is answered with 404")),
            ("\u{1}\u{2}", Err("the answer is not HTTP")),
        ] {
            let (ours, mut theirs) = tokio::io::duplex(1024);
            let serve = async {
                let mut asked = [0; 64];
                let count = theirs.read(&mut asked).await.expect("a request");
                assert!(asked[..count].starts_with(b"GET /metrics HTTP/1.0\r\n"));
                theirs.write_all(answer.as_bytes()).await.expect("answered");
                drop(theirs);
            };
            let (page, ()) = tokio::join!(page_of(ours, "/metrics"), serve);
            match expected {
                Ok(body) => assert_eq!(page.expect("a page"), body),
                Err(words) => assert!(page.expect_err(words).to_string().contains(words)),
            }
        }
    }

    #[test]
    fn names_are_texts() {
        assert_eq!(name_text(&GeneralName::DNSName("a.example")).as_deref(), Some("a.example"));
        assert_eq!(name_text(&GeneralName::IPAddress(&[10, 0, 0, 1])).as_deref(), Some("10.0.0.1"));
        let mut one = [0; 16];
        one[15] = 1;
        assert_eq!(name_text(&GeneralName::IPAddress(&one)).as_deref(), Some("::1"));
        assert_eq!(name_text(&GeneralName::IPAddress(&[1])), None);
    }
}
