//! How a document travels to an extension and back: over HTTPS, with bounds. Owns connections and certificates; must not
//! know what is in the document.
//! Source: cluster-api `internal/runtime/client/client.go` (`httpCall`, `createHTTPClient`), v1.14.2. Difference: upstream
//! bounds only answers that are errors.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use rustls_native_certs::load_native_certs;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// More than any answer about one update needs; an extension must not fill the memory.
pub const ANSWER_BYTES_MAX: usize = 20 << 20;
/// Of an answer that is quoted in an error.
const QUOTED_CHARS_MAX: usize = 512;
/// Kept apart by host and certificates; more than any management cluster has.
const CLIENTS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub struct Question {
    pub address: Uri,
    /// PEM in base64; the system's certificates when empty.
    pub ca_bundle: String,
    pub body: Vec<u8>,
    pub timeout: Duration,
}

/// Takes a question to an extension.
#[async_trait]
pub trait Transport: Send + Sync {
    /// The body of the answer with status 200.
    ///
    /// # Errors
    /// Why there is none, in words.
    async fn post(&self, call: Question) -> Result<Bytes, String>;
}

type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Over HTTPS. Connections are kept for as long as the extension keeps them.
#[derive(Default)]
pub struct Https {
    clients: Mutex<HashMap<(String, String), HttpsClient>>,
}

impl Https {
    fn client(&self, call: &Question) -> Result<HttpsClient, String> {
        let host = call.address.authority().map(ToString::to_string).unwrap_or_default();
        // A connection that is kept is trusted by the certificates that it was opened with.
        let key = (host, call.ca_bundle.clone());
        if let Some(client) = self.clients.lock().get(&key) {
            return Ok(client.clone());
        }
        let tls = tls_config(&call.ca_bundle)?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .enable_http1()
            .enable_http2()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let mut clients = self.clients.lock();
        // All of them go: those that are needed connect again.
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}

#[async_trait]
impl Transport for Https {
    async fn post(&self, call: Question) -> Result<Bytes, String> {
        let client = self.client(&call)?;
        let (address, timeout) = (call.address.clone(), call.timeout);
        match tokio::time::timeout(timeout, ask(client, call)).await {
            Ok(answer) => answer.map_err(|why| format!("http call failed: {why}")),
            Err(_) => {
                let host = address.authority().map(ToString::to_string).unwrap_or_default();
                Err(format!("http call failed: {host} did not answer within {} s", timeout.as_secs()))
            }
        }
    }
}

async fn ask(client: HttpsClient, call: Question) -> Result<Bytes, String> {
    let body = Full::new(Bytes::from(call.body));
    let request = Request::builder().method(Method::POST).uri(call.address).body(body);
    let request = request.map_err(|error| format!("failed to create http request: {error}"))?;
    let answer = client.request(request).await.map_err(|error| chain(&error))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body =
        body.map(|body| body.to_bytes()).map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => format!("the answer is larger than {ANSWER_BYTES_MAX} bytes"),
            None => format!("failed to read response body: {}", chain(error.as_ref())),
        });
    if status == StatusCode::OK {
        return body;
    }
    let redirect = if status.is_redirection() { " (redirects are not followed)" } else { "" };
    let what = format!("got response with status code {} != 200{redirect}", status.as_u16());
    Err(match body {
        Ok(body) => format!("{what}: response : {:?}", quoted(&body)),
        Err(why) => format!("{what}: {why}"),
    })
}

fn quoted(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(QUOTED_CHARS_MAX).collect();
    if chars.next().is_some() { format!("{start}...") } else { start }
}

/// An error with what caused it, each once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

fn tls_config(ca_bundle: &str) -> Result<ClientConfig, String> {
    let roots = if ca_bundle.is_empty() { system_roots() } else { bundled_roots(ca_bundle)? };
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("failed to create tls config: {error}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Stores of systems hold old certificates that rustls cannot read; they must not void the
    // others.
    roots.add_parsable_certificates(load_native_certs().certs);
    roots
}

fn bundled_roots(ca_bundle: &str) -> Result<RootCertStore, String> {
    let unusable =
        |why: String| format!("failed to create tls config: unable to load root certificates: {why}");
    let pem =
        STANDARD.decode(ca_bundle).map_err(|error| unusable(format!("caBundle is not base64: {error}")))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unusable(format!("caBundle is not PEM: {error}")))?;
        roots.add(certificate).map_err(|error| unusable(format!("a certificate of caBundle: {error}")))?;
    }
    if roots.is_empty() {
        return Err(unusable("caBundle holds no PEM certificate".to_owned()));
    }
    Ok(roots)
}
