//! The read-only guard: a layer under the client that lets only reads leave the process.
//! Owns the rule; must not know who asks or why.

use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{Method, Request};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

/// A request that `--read-only` stopped before it left the process.
#[derive(Clone, Debug, thiserror::Error)]
#[error("read-only: {method} {path} was not sent")]
pub struct Refused {
    pub method: String,
    pub path: String,
}

impl Refused {
    #[must_use]
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned() }
    }
}

/// May this request leave a read-only process? Reads, and questions about one's own rights.
/// Connecting subresources (`exec`, `portforward`, `proxy`, ...) act although they may be a GET.
#[must_use]
pub fn allows(method: &Method, path: &str) -> bool {
    if acts_by_reading(path) {
        return false;
    }
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => true,
        Method::POST => is_self_review(path),
        _ => false,
    }
}

/// `POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews` and its sisters store nothing.
fn is_self_review(path: &str) -> bool {
    let mut parts = path.trim_matches('/').split('/');
    let (apis, group, _version, resource, rest) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next());
    apis == Some("apis")
        && matches!(group, Some("authorization.k8s.io" | "authentication.k8s.io"))
        && matches!(
            resource,
            Some("selfsubjectaccessreviews" | "selfsubjectrulesreviews" | "selfsubjectreviews")
        )
        && rest.is_none()
}

fn acts_by_reading(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    // /api/v1/namespaces/NS/pods/NAME/exec and /api/v1/nodes/NAME/proxy/...
    parts.iter().enumerate().any(|(at, part)| {
        at >= 4 && matches!(*part, "exec" | "attach" | "portforward" | "proxy") && is_connectable(&parts, at)
    })
}

fn is_connectable(parts: &[&str], at: usize) -> bool {
    parts.get(at - 2).is_some_and(|resource| matches!(*resource, "pods" | "services" | "nodes"))
}

/// Puts [`ReadOnly`] around a service.
#[derive(Clone, Copy, Debug)]
pub struct ReadOnlyLayer;

impl<S> Layer<S> for ReadOnlyLayer {
    type Service = ReadOnly<S>;

    fn layer(&self, inner: S) -> ReadOnly<S> {
        ReadOnly { inner }
    }
}

/// A service that answers [`Refused`] to everything that is not a read.
#[derive(Clone, Debug)]
pub struct ReadOnly<S> {
    inner: S,
}

impl<S> Service<Request<Body>> for ReadOnly<S>
where
    S: Service<Request<Body>>,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<Ready<Result<S::Response, BoxError>>, futures::future::ErrInto<S::Future, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        use futures::TryFutureExt as _;
        if allows(request.method(), request.uri().path()) {
            Either::Right(self.inner.call(request).err_into())
        } else {
            let refused = Refused::new(request.method().as_str(), request.uri().path());
            Either::Left(ready(Err(refused.into())))
        }
    }
}
