//! What carries requests to a server: connections that are kept, TLS, compression and headers. Owns how these are put together;
//! must not know where the configuration is from.
//!
//! kube's own builder (`kube::client::ClientBuilder::try_from`) is not used: it takes no connections but its own, and compares
//! `NO_PROXY` with the proxy's address.

use std::sync::Arc;
use std::time::Duration;

use http::header::PROXY_AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt as _, DynBody};
use tokio_rustls::rustls::pki_types::ServerName;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};
use tower_http::decompression::DecompressionLayer;

use super::dial::{Dialer, basic};
use super::proxy::Proxy;
use super::trust;

/// How long one attempt to open a connection may take, with everything between.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes requests with paths of the server. Clones share connections.
pub type Transport = BoxCloneSyncService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// # Errors
/// Certificates, keys, names or headers that cannot be used.
pub fn open(config: &Config, proxy: Option<&Proxy>) -> Result<Transport, kube::Error> {
    let client: Client<_, Body> =
        Client::builder(TokioExecutor::new()).build(timed(config, connector(config, proxy)?));
    // A proxy that reads requests is told with each of them who we are, and a tunnel once.
    let is_read = config.cluster_url.scheme_str() == Some("http");
    let login = proxy.and_then(|proxy| proxy.login.as_ref()).filter(|_| is_read).and_then(basic);
    let decompression =
        // gzip is all that API servers offer.
        DecompressionLayer::new().no_br().no_deflate().no_zstd().gzip(!config.disable_compression);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(decompression)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(move |request: Request<Body>| with_login(request, login.as_ref()))
        .map_err(BoxError::from)
        .service(client)
        .map_response(|response: Response<_>| {
            response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
        });
    Ok(BoxCloneSyncService::new(service))
}

fn with_login(mut request: Request<Body>, login: Option<&HeaderValue>) -> Request<Body> {
    if let Some(login) = login {
        request.headers_mut().insert(PROXY_AUTHORIZATION, login.clone());
    }
    request
}

fn connector(config: &Config, proxy: Option<&Proxy>) -> Result<HttpsConnector<Dialer>, kube::Error> {
    let tls = trust::client_config(config)?;
    let dialer = Dialer::new(proxy.cloned(), Arc::new(tls.clone()));
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = ServerName::try_from(name).map_err(|error| kube::Error::Service(error.into()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_http1().wrap_connector(dialer))
}

fn timed(config: &Config, connector: HttpsConnector<Dialer>) -> TimeoutConnector<HttpsConnector<Dialer>> {
    let mut timed = TimeoutConnector::new(connector);
    timed.set_connect_timeout(Some(CONNECT_TIMEOUT));
    timed.set_read_timeout(config.read_timeout);
    timed.set_write_timeout(config.write_timeout);
    timed
}
