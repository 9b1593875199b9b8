//! What goes back: the answer to one request, objects and lists as bodies, the stream of a watch, and the
//! last step onto the wire. Must not know verbs, nor how a request came.

pub mod answer;
pub mod encoding;
pub mod held;
pub mod kept;
pub mod lines;
mod warnings;
pub mod watch;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;
use serde_json::Value;

use self::kept::KeptBody;
use crate::failure::{Failure, Reason};
use crate::object;
use crate::registry::kubelets::PodConnection;

/// The body of an answer: one buffer, or the events of a watch.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// How channels are told apart within a WebSocket.
pub const PORT_FORWARD_PROTOCOL: &str = "v4.channel.k8s.io";

/// A port of a pod that a connection is turned over to.
pub struct ForwardedPort {
    pub port: u16,
    pub connection: PodConnection,
}

/// Where a response keeps it, for the one who sends the response; it is taken once.
#[derive(Clone)]
pub struct Turnover(pub Arc<Mutex<Option<ForwardedPort>>>);

/// An answer on its way out.
pub struct Reply {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub body: Payload,
    /// Of a failure.
    pub reason: Option<Reason>,
    /// What was written.
    pub about: Option<Box<About>>,
}

/// The object that a write left behind, in a few words. Fields that it does not have are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

/// What an answer carries.
pub enum Payload {
    /// All of it; may still be indented or compressed on its way out.
    Whole(Bytes),
    /// The same of a document that many ask for.
    Kept(Arc<KeptBody>),
    /// Events as they happen.
    Events(Body),
    /// None: the connection speaks another protocol from now on.
    Switch(ForwardedPort),
}

impl Reply {
    pub fn new(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        // As upstream: an answer depends on who asks, so no proxy may keep it for others.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        Self { code, headers, body: Payload::Whole(body.into()), reason: None, about: None }
    }

    pub fn json(body: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, "application/json", body)
    }

    /// The connection is turned over to the port of a pod.
    pub fn switching(port: ForwardedPort) -> Self {
        let (mut headers, code) = (HeaderMap::new(), StatusCode::SWITCHING_PROTOCOLS);
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PORT_FORWARD_PROTOCOL));
        Self { code, headers, body: Payload::Switch(port), reason: None, about: None }
    }

    pub fn created(mut self, created: bool) -> Self {
        if created {
            self.code = StatusCode::CREATED;
        }
        self
    }

    pub fn about(mut self, object: &Value) -> Self {
        let text = |field| object::text(object, field).to_owned();
        self.about = Some(Box::new(About {
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
        }));
        self
    }

    /// One `Warning` header per text.
    pub fn with_warnings(mut self, warnings: &[String]) -> Self {
        warnings::add(&mut self.headers, warnings);
        self
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        let code = StatusCode::from_u16(failure.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut reply = Self::new(code, "application/json", failure.status().to_string());
        reply.reason = Some(failure.reason);
        if failure.details.retry_after_s > 0 {
            reply.headers.insert(header::RETRY_AFTER, failure.details.retry_after_s.into());
        }
        // RFC 9110 demands that a 401 says how one authenticates.
        if failure.reason == Reason::Unauthorized {
            reply.headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        reply
    }
}
