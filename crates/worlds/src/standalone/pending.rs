//! A server that is still starting, as a service: requests wait for it. Lets a dashboard open before
//! there is anything behind it. Must not know what is asked.

use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::sync::watch;
use tower::ServiceExt as _;

use capstan_apiserver::{ApiServer, Body};

/// The server never started; the caller that started it reports why.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the server did not start")]
pub struct NotStarted;

/// See the module. Clones wait for the same server.
#[derive(Clone)]
pub struct Pending(watch::Receiver<Option<ApiServer>>);

impl Pending {
    /// The service, and where to put the server once it is there.
    pub fn new() -> (watch::Sender<Option<ApiServer>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }
}

impl<B> tower::Service<Request<B>> for Pending
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = NotStarted;
    type Future = BoxFuture<'static, Result<Response<Body>, NotStarted>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NotStarted>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Always ready: waiting happens in the call, so that many requests may wait.
        let mut receiver = self.0.clone();
        async move {
            let server = match receiver.wait_for(Option::is_some).await {
                Ok(server) => server.clone().ok_or(NotStarted)?,
                // The sender is gone without having sent a server.
                Err(_) => return Err(NotStarted),
            };
            match server.oneshot(request).await {
                Ok(response) => Ok(response),
                Err(never) => match never {},
            }
        }
        .boxed()
    }
}
