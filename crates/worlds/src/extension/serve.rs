//! The listener: HTTPS on an address, with a certificate that is made once and kept, or handed in. Owns files and
//! sockets; must not know what is answered.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::task::AbortOnDropHandle;

use super::answer::{Extension, Reply};
use capstan_base::private_file::{self, FileError};

/// Of a request: objects of Kubernetes are smaller than 3 MiB, and there are six of them.
const REQUEST_BYTES_MAX: usize = 20 << 20;
/// For a handshake, and for the headers of a request.
const PATIENCE: Duration = Duration::from_secs(10);
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "cannot listen on {address}: {source}; another process may have the port (port 0 picks a free one)"
    )]
    Bind { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error(
        "{certificate} and {key} cannot be used for TLS: {why}; expected PEM files of a certificate and its key"
    )]
    Pair { certificate: String, key: String, why: String },
    #[error(
        "{0} is missing beside the other one of the pair; give both, or remove the other to have new ones made"
    )]
    Half(String),
}

/// A certificate with its key, PEM.
#[derive(Clone)]
pub struct Identity {
    certificate_pem: String,
    key_pem: String,
}

impl Identity {
    /// A new one that vouches for itself, for these names and addresses.
    ///
    /// # Errors
    /// A name that is none.
    pub fn generate(names: &[String]) -> Result<Self, ServeError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "capstan-extension");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate_pem = params.self_signed(&key)?.pem();
        Ok(Self { certificate_pem, key_pem: key.serialize_pem() })
    }

    /// The pair `tls.crt` and `tls.key` of a folder; made, with the key for its owner only, when neither is there.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn kept_in(folder: &Path, names: &[String]) -> Result<Self, ServeError> {
        let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
        match (private_file::read(&certificate)?, private_file::read_secret(&key)?) {
            (Some(certificate_pem), Some(key_pem)) => Ok(Self { certificate_pem, key_pem }),
            (None, None) => {
                let made = Self::generate(names)?;
                // The key first: a certificate without key would be found as a half.
                private_file::write(&key, &made.key_pem)?;
                private_file::write(&certificate, &made.certificate_pem)?;
                Ok(made)
            }
            (found, _) => {
                // Not replaced: the other half may be in use, and its CA registered.
                let missing = if found.is_some() { key } else { certificate };
                Err(ServeError::Half(missing.display().to_string()))
            }
        }
    }

    /// What an ExtensionConfig has to trust, PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    fn server_config(&self) -> Result<ServerConfig, ServeError> {
        let unusable = |why: String| {
            let [certificate, key] = [CERTIFICATE, KEY].map(str::to_owned);
            ServeError::Pair { certificate, key, why }
        };
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(self.certificate_pem.as_bytes()).collect();
        let chain = chain.map_err(|error| unusable(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes())
            .map_err(|error| unusable(error.to_string()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| unusable(error.to_string()))?;
        // Clients in Go prefer HTTP/2; ours and curl may speak either.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// An extension that is served, until dropped.
pub struct Serving {
    address: SocketAddr,
    _accepting: AbortOnDropHandle<()>,
}

impl Serving {
    /// With the port that was picked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves an extension on an address.
///
/// # Errors
/// [`ServeError`].
pub async fn serve(
    extension: Arc<Extension>,
    address: SocketAddr,
    identity: &Identity,
) -> Result<Serving, ServeError> {
    let acceptor = TlsAcceptor::from(Arc::new(identity.server_config()?));
    let bind = |source| ServeError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    let accepting = tokio::spawn(accept(listener, acceptor, extension));
    Ok(Serving { address, _accepting: AbortOnDropHandle::new(accepting) })
}

/// Accepts for ever; connections end with this task.
async fn accept(listener: TcpListener, acceptor: TlsAcceptor, extension: Arc<Extension>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Ended ones are taken out, or the set would grow with each connection.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, acceptor.clone(), extension.clone()));
                }
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    // Out of file descriptors, mostly: without a pause this would spin.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, extension: Arc<Extension>) {
    // A client that says nothing must not hold a task for ever.
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!("no handshake: {error}"),
        Err(_) => return,
    };
    let service = service_fn(move |request| respond(extension.clone(), request));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder.http2().timer(TokioTimer::new());
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("a connection ended: {error}");
    }
}

/// An error ends the connection.
async fn respond(
    extension: Arc<Extension>,
    request: http::Request<Incoming>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let (parts, body) = request.into_parts();
    // Every hook is called by POST, discovery too.
    if parts.method != Method::POST {
        return Ok(response(StatusCode::METHOD_NOT_ALLOWED, Bytes::from_static(b"only POST is answered\n")));
    }
    let Ok(body) = Limited::new(body, REQUEST_BYTES_MAX).collect().await else {
        return Ok(response(
            StatusCode::PAYLOAD_TOO_LARGE,
            Bytes::from_static(b"the request is too large\n"),
        ));
    };
    let path = parts.uri.path();
    match extension.answer(path, &body.to_bytes()).await {
        Reply::Document { status, body } => {
            tracing::info!(status, "{path}");
            Ok(response(
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                body.into(),
            ))
        }
        Reply::Redirect(place) => {
            let mut answer = response(StatusCode::FOUND, Bytes::new());
            if let Ok(place) = HeaderValue::from_str(&place) {
                answer.headers_mut().insert(header::LOCATION, place);
            }
            Ok(answer)
        }
        // An error of the service is what makes hyper drop the connection.
        Reply::Crash => Err(io::Error::other("asked to end the connection")),
        Reply::Hang => match std::future::pending::<Infallible>().await {},
    }
}

fn response(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
