//! A bearer token that stands in a file: read again after a while, and once when the server does not accept it any more.
//! Must not know who writes the file.
//!
//! Source: client-go `transport/token_source.go` (`NewCachedFileTokenSource`), v0.32: read again each minute, ends trimmed.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service, ServiceExt as _};

/// For how long a token is taken as it was read.
const KEPT: Duration = Duration::from_secs(60);

/// Why there is no token to send.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the token file {} cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("the token in {} has a character that no header may have", path.display())]
    NotAHeader { path: PathBuf },
}

/// The token of one file, shared by all requests.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    kept: Mutex<Option<(HeaderValue, Instant)>>,
}

impl TokenFile {
    /// # Errors
    /// [`TokenError`], before anything is sent.
    pub fn open(path: PathBuf) -> Result<Self, TokenError> {
        let file = Self { path, kept: Mutex::new(None) };
        file.header()?;
        Ok(file)
    }

    /// The header. A file that is gone leaves the token that was read before.
    fn header(&self) -> Result<HeaderValue, TokenError> {
        let mut kept = self.kept.lock();
        match &*kept {
            Some((header, read_at)) if read_at.elapsed() < KEPT => return Ok(header.clone()),
            _ => {}
        }
        // Read under the lock: of many requests at once one reads the file.
        match (self.read(), kept.as_ref()) {
            (Ok(header), _) => {
                *kept = Some((header.clone(), Instant::now()));
                Ok(header)
            }
            (Err(_), Some((header, _))) => Ok(header.clone()),
            (Err(error), None) => Err(error),
        }
    }

    /// Another token than the refused one, if the file has one by now.
    fn renewed(&self, refused: &HeaderValue) -> Option<HeaderValue> {
        let header = self.read().ok().filter(|header| header != refused)?;
        *self.kept.lock() = Some((header.clone(), Instant::now()));
        Some(header)
    }

    fn read(&self) -> Result<HeaderValue, TokenError> {
        let text = std::fs::read_to_string(&self.path)
            .map_err(|error| TokenError::Unreadable { path: self.path.clone(), reason: error.to_string() })?;
        let mut header = HeaderValue::try_from(format!("Bearer {}", text.trim()))
            .map_err(|_| TokenError::NotAHeader { path: self.path.clone() })?;
        header.set_sensitive(true);
        Ok(header)
    }
}

/// Puts [`Bearer`] around a service.
#[derive(Clone, Debug)]
pub struct BearerLayer(pub Arc<TokenFile>);

impl<S> Layer<S> for BearerLayer {
    type Service = Bearer<S>;

    fn layer(&self, inner: S) -> Bearer<S> {
        Bearer { file: self.0.clone(), inner }
    }
}

/// A service whose requests have the token of a file.
#[derive(Clone, Debug)]
pub struct Bearer<S> {
    file: Arc<TokenFile>,
    inner: S,
}

impl<S, B> Service<Request<Body>> for Bearer<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Send,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (file, inner) = (self.file.clone(), self.inner.clone());
        Box::pin(async move {
            let header = file.header()?;
            request.headers_mut().insert(AUTHORIZATION, header.clone());
            // Copied before it leaves: nothing of it is left afterwards.
            let again = copy(&request);
            let response = inner.clone().oneshot(request).await.map_err(Into::into)?;
            let refused = response.status() == StatusCode::UNAUTHORIZED;
            let Some(mut request) = again.filter(|_| refused) else { return Ok(response) };
            // The same token once more would be refused again.
            let Some(header) = file.renewed(&header) else { return Ok(response) };
            request.headers_mut().insert(AUTHORIZATION, header);
            inner.oneshot(request).await.map_err(Into::into)
        })
    }
}

/// The same request once more; `None` when its body is a stream.
pub(super) fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut again = Request::new(request.body().try_clone()?);
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    *again.extensions_mut() = request.extensions().clone();
    Some(again)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// What a server that accepts `accepted` answers, and how often it was asked.
    async fn asked(file: &Arc<TokenFile>, accepted: &str) -> (StatusCode, usize) {
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (count, accepted) = (asked.clone(), format!("Bearer {accepted}"));
        let server = tower::service_fn(move |request: Request<Body>| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let fine = request.headers()[AUTHORIZATION] == accepted;
            let mut response = Response::new(Body::empty());
            *response.status_mut() = if fine { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let mut service = BearerLayer(file.clone()).layer(server);
        let response = service.call(Request::new(Body::empty())).await.expect("an answer");
        (response.status(), asked.load(std::sync::atomic::Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_trimmed_and_read_again_once_when_it_is_refused_and_each_minute() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write(" first\n");
        let file = Arc::new(TokenFile::open(path.clone()).expect("a token"));
        assert_eq!(asked(&file, "first").await, (StatusCode::OK, 1));
        write("second\r\n");
        assert_eq!(asked(&file, "second").await, (StatusCode::OK, 2), "read again when refused");
        assert_eq!(asked(&file, "second").await, (StatusCode::OK, 1));
        assert_eq!(asked(&file, "third").await, (StatusCode::UNAUTHORIZED, 1), "the file has no other");
        write("fourth");
        tokio::time::advance(KEPT).await;
        assert_eq!(asked(&file, "fourth").await, (StatusCode::OK, 1), "read again after a while");
        std::fs::remove_file(&path).expect("removed");
        tokio::time::advance(KEPT).await;
        assert_eq!(asked(&file, "fourth").await, (StatusCode::OK, 1), "what was read stays");
        write("a\nb");
        assert!(matches!(TokenFile::open(path.clone()), Err(TokenError::NotAHeader { .. })));
        assert!(matches!(TokenFile::open(folder.path().join("none")), Err(TokenError::Unreadable { .. })));
    }
}
