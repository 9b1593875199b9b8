//! The read-only guard: a layer under the client that lets only reads leave the process.
//! Owns the rule; must not know the callers.

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
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned() }
    }
}

/// May this request leave a read-only process? Reads and reviews of one's own rights may.
/// Connecting subresources (`exec`, `portforward`, `proxy`, ...) act although they may be a GET.
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
    // Behind a resource and a name: an object itself may be named `exec` or `proxy`.
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Response;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::client::write::Part;
    use crate::client::{Connection, Mode, Precondition, WriteError, Writer, in_process};
    use capi_types::key::ObjectKey;

    #[test]
    fn only_reads_and_self_reviews_pass() {
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        for (method, path, expected) in [
            ("GET", "/api/v1/namespaces/default/configmaps", true),
            ("HEAD", "/api", true),
            ("OPTIONS", "/api", true),
            ("POST", review, true),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", true),
            ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", true),
            ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", false),
            ("POST", "/apis/evil.example.com/v1/selfsubjectaccessreviews", false),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x", false),
            ("PUT", review, false),
            ("POST", "/api/v1/namespaces/default/configmaps", false),
            ("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", false),
            ("PUT", "/api/v1/namespaces/default/configmaps/x", false),
            ("PATCH", "/api/v1/namespaces/default/configmaps/x", false),
            ("DELETE", "/api/v1/namespaces/default/configmaps/x", false),
            ("DELETE", "/api/v1/namespaces/default/configmaps", false),
            ("CONNECT", "/api/v1", false),
            ("TRACE", "/api/v1", false),
            ("FROBNICATE", "/api/v1", false),
            ("GET", "/api/v1/namespaces/default/pods/x/exec", false),
            ("GET", "/api/v1/namespaces/default/pods/x/portforward", false),
            ("GET", "/api/v1/namespaces/default/services/x/proxy/admin", false),
            ("GET", "/api/v1/nodes/x/proxy/run", false),
            ("GET", "/api/v1/namespaces/default/pods/exec", true),
            ("GET", "/api/v1/namespaces/default/configmaps/proxy", true),
            ("GET", "/api/v1/namespaces/proxy/configmaps/x", true),
        ] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            assert_eq!(allows(&method, path), expected, "{method} {path}");
        }
    }

    /// A server that counts what reaches it.
    fn counted(read_only: bool) -> (Connection, Arc<AtomicUsize>) {
        let reached = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reached);
        let service = tower::service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            let text =
                r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"default"}}"#;
            async move { Ok::<_, Infallible>(Response::new(Body::from(text.as_bytes().to_vec()))) }
        });
        (in_process(service, "test", "default", read_only), reached)
    }

    #[tokio::test]
    async fn no_write_leaves_a_read_only_process() {
        let (connection, reached) = counted(true);
        let writer = Writer::new(connection.client.clone(), "test");
        let key = ObjectKey::new("default", "x");
        let map = ConfigMap {
            metadata: kube::core::ObjectMeta { name: Some("x".into()), ..Default::default() },
            ..Default::default()
        };
        let changed = ConfigMap { immutable: Some(true), ..map.clone() };
        let none = Precondition::default();
        let mut answers: Vec<Result<(), WriteError>> = Vec::new();
        for mode in [Mode::Real, Mode::DryRun] {
            answers.push(writer.create(&map, mode).await.map(|_| ()));
            answers.push(writer.patch(&map, &changed, &none, mode).await.map(|_| ()));
            for part in [Part::Main, Part::Status, Part::Scale] {
                answers.push(
                    writer.patch_part::<ConfigMap>(&key, part, &json!({"a": 1}), mode).await.map(|_| ()),
                );
            }
            answers.push(writer.delete::<ConfigMap>(&key, &none, mode).await);
        }
        for answer in answers {
            let Err(WriteError::Refused { source, .. }) = answer else { panic!("{answer:?}") };
            assert_eq!(crate::client::errors::classify(&source), crate::client::errors::Cause::ReadOnly);
        }
        assert_eq!(reached.load(Ordering::SeqCst), 0);
        let found: Option<ConfigMap> = crate::client::get(&connection.client, &key).await.expect("a read");
        assert!(found.is_some());
        assert_eq!(reached.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn without_the_guard_writes_pass() {
        let (connection, reached) = counted(false);
        let key = ObjectKey::new("default", "x");
        let writer = Writer::new(connection.client, "test");
        writer.patch_part::<ConfigMap>(&key, Part::Main, &json!({"a": 1}), Mode::Real).await.expect("sent");
        assert_eq!((reached.load(Ordering::SeqCst), writer.counts().total()), (1, 1));
    }
}
