//! Before any request over TCP is looked at: is it meant for this server, and not sent by a web page?
//! A page can make a browser send requests to a loopback address under a name of its own (DNS
//! rebinding), and any page can send some requests without asking. Must not know tokens or resources.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, Request, Response, header};
use hyper::body::Incoming;

use super::pace::Open;
use super::patience::Stalls;
use super::streams::Waiting;
use crate::ApiServer;
use crate::failure::Failure;
use crate::newcomers::Newcomers;
use crate::response::Body;
use crate::response::held::hold;

/// Names that lead to this machine, or to an API server by its name inside a cluster.
pub(super) const NAMES: [&str; 4] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// Where a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp(SocketAddr),
    /// A socket file: no browser reaches it, and it has no name to check.
    Unix,
}

impl Transport {
    /// # Errors
    /// 403 for a name that is not this server's, or a request of a web page.
    fn admit(self, headers: &HeaderMap, authority: Option<&str>) -> Result<(), Failure> {
        // Browsers send this header with what a page asks for; clients of the API do not.
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("?");
            let why = format!("requests of web pages (Origin {origin}) are not answered");
            return Err(Failure::forbidden("", "", "", &why));
        }
        let Self::Tcp(listened) = self else { return Ok(()) };
        // HTTP/2 has the name in `:authority`; where both are given both must be right.
        let host = headers.get(header::HOST).map(|value| value.to_str().unwrap_or("?"));
        if host.is_none() && authority.is_none() {
            return Err(Failure::bad_request("the request names no Host"));
        }
        match host.into_iter().chain(authority).find(|name| !is_ours(name, listened)) {
            None => Ok(()),
            Some(name) => {
                let why = format!("this server is not called \"{name}\" (Host)");
                Err(Failure::forbidden("", "", "", &why))
            }
        }
    }
}

/// A loopback name, or the address that is listened on; with any port, for tunnels change it.
fn is_ours(name: &str, listened: SocketAddr) -> bool {
    let Ok(authority) = name.parse::<http::uri::Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        // An address cannot be rebound, so that of any interface will do.
        Ok(address) => {
            // One of IPv4 may be written as one of IPv6.
            let (address, listened) = (address.to_canonical(), listened.ip().to_canonical());
            address.is_loopback() || address == listened || listened.is_unspecified()
        }
        Err(_) => NAMES.iter().any(|known| known.eq_ignore_ascii_case(host.trim_end_matches('.'))),
    }
}

/// The server as one listener offers it.
#[derive(Clone)]
pub struct Frontend {
    pub server: ApiServer,
    pub transport: Transport,
    pub newcomers: Newcomers,
    pub stalls: Stalls,
    pub waiting: Waiting,
}

impl Frontend {
    pub fn new(server: ApiServer, transport: Transport) -> Self {
        let (newcomers, stalls, waiting) = (Newcomers::default(), Stalls::default(), Waiting::default());
        Self { server, transport, newcomers, stalls, waiting }
    }

    /// What a request that came in here gets; it is open until that is sent.
    pub(super) async fn answer(
        self,
        request: Request<Incoming>,
        open: Open,
    ) -> Result<Response<Body>, Infallible> {
        let authority = request.uri().authority().map(http::uri::Authority::as_str);
        let response = match self.transport.admit(request.headers(), authority) {
            Ok(()) => self.server.answer(request).await,
            Err(failure) => self.server.refuse(failure, &request.into_parts().0).await,
        };
        Ok(hold(response, open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_servers_names_are_let_in() {
        let (here, all) = ("127.0.0.1:6443", "0.0.0.0:6443");
        for (listened, host, expected) in [
            (here, "127.0.0.1:6443", true),
            (here, "127.0.0.1:9999", true),
            (here, "localhost:6443", true),
            (here, "LocalHost", true),
            (here, "[::1]:6443", true),
            (here, "kubernetes.default.svc", true),
            (here, "[::ffff:127.0.0.1]:6443", true),
            (here, "[::ffff:192.0.2.7]:6443", false),
            (here, "evil.example:6443", false),
            (here, "127.0.0.1.evil.example", false),
            (here, "localhost.evil.example", false),
            (here, "192.0.2.7:6443", false),
            (here, "", false),
            (here, "a b", false),
            (all, "192.0.2.7:6443", true),
            (all, "evil.example", false),
            ("192.0.2.7:6443", "192.0.2.7", true),
            ("192.0.2.7:6443", "[::ffff:192.0.2.7]", true),
            ("[::ffff:192.0.2.7]:6443", "192.0.2.7", true),
            ("[::]:6443", "192.0.2.7", true),
        ] {
            let listened = listened.parse().expect("an address");
            assert_eq!(is_ours(host, listened), expected, "{host} at {listened}");
        }
    }

    #[test]
    fn web_pages_are_turned_away_everywhere() {
        let mut headers = HeaderMap::new();
        headers.insert("host", http::HeaderValue::from_static("localhost"));
        let tcp = Transport::Tcp("127.0.0.1:1".parse().expect("an address"));
        assert!(tcp.admit(&headers, None).is_ok() && Transport::Unix.admit(&headers, None).is_ok());
        let code = |headers: &HeaderMap, authority| tcp.admit(headers, authority).map_err(|f| f.code());
        assert_eq!(code(&headers, Some("evil.example")), Err(403));
        assert_eq!(code(&HeaderMap::new(), None), Err(400));
        headers.insert("origin", http::HeaderValue::from_static("null"));
        assert_eq!(code(&headers, None), Err(403));
        assert!(Transport::Unix.admit(&headers, None).is_err());
    }
}
