//! Connections to ports of simulated hosts, as a port-forward opens them: a TLS handshake with a certificate for the names that
//! the host has, or a page. Owns the far end of such a connection; must not know what listens where.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::authorities::Authorities;
use crate::provider::ports::{HostPort, SignedBy};
use capstan_apiserver::serve::tls::Authority;

const BUFFER_BYTES: usize = 64 * 1024;
/// A request for a page that is longer is not answered.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// A connection to what is behind a port; its far end is at work until the near one is dropped.
///
/// # Errors
/// The authority that signed the certificate is not there.
pub(super) async fn connect(port: HostPort, authorities: &Authorities) -> Result<DuplexStream, String> {
    // No socket: a port-forward carries the bytes through the API server.
    let (near, far) = tokio::io::duplex(BUFFER_BYTES);
    match port {
        HostPort::Pages(pages) => drop(tokio::spawn(show(far, pages))),
        HostPort::Tls { names, signed_by, pages } => {
            // Before the task: a missing authority is told as a failed connection.
            let config = certificate(&names, signed_by, authorities).await?;
            tokio::spawn(shake_hands(far, config, pages));
        }
    }
    Ok(near)
}

async fn certificate(
    names: &[String],
    signed_by: SignedBy,
    authorities: &Authorities,
) -> Result<Arc<ServerConfig>, String> {
    let authority = match signed_by {
        SignedBy::Cluster => authorities.named("ca").await?,
        SignedBy::Etcd => authorities.named("etcd").await?,
        // A kubelet's own certificate differs at each start, and clients do not compare it.
        SignedBy::Itself => Authority::generate(authorities.now()).map_err(|error| error.to_string())?,
    };
    let common_name = names.first().map_or("localhost", String::as_str);
    authority.server_config_of(common_name, names).map_err(|error| error.to_string())
}

async fn shake_hands(far: DuplexStream, config: Arc<ServerConfig>, pages: Vec<(&'static str, String)>) {
    if let Ok(stream) = TlsAcceptor::from(config).accept(far).await {
        show(stream, pages).await;
    }
}

async fn show(mut far: impl AsyncRead + AsyncWrite + Unpin, pages: Vec<(&'static str, String)>) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match far.read_buf(&mut request).await {
            // 0 is the end of the stream: the rest of the request will never come.
            Ok(count) if count > 0 && request.len() < REQUEST_BYTES_MAX => {}
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let page = pages.iter().find(|(at, _)| Some(*at) == path).map(|(_, page)| page);
    let answer = match page {
        Some(page) => format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len()),
        None => "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
    };
    // The near end may be gone, which ends the connection as well.
    let _ = far.write_all(answer.as_bytes()).await;
    let _ = far.shutdown().await;
}
