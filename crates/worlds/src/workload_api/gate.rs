//! A server that answers only while an API server of its simulated cluster is up. Must not know what is asked.

use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::sync::watch;
use tower::ServiceExt as _;

use capstan_apiserver::{ApiServer, Body};

/// No API server of the cluster is up.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connection refused: no API server of the simulated cluster is up")]
pub struct Down;

/// What a cluster shows at its endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Front {
    /// An API server of it is up.
    pub up: bool,
    /// Names in the certificate of the one that answers.
    pub names: Vec<String>,
}

#[derive(Clone)]
pub struct Gate {
    pub server: ApiServer,
    pub front: watch::Receiver<Front>,
}

impl<B> tower::Service<Request<B>> for Gate
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Down;
    type Future = BoxFuture<'static, Result<Response<Body>, Down>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Down>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !self.front.borrow().up {
            return futures::future::ready(Err(Down)).boxed();
        }
        let (server, mut front) = (self.server.clone(), self.front.clone());
        async move {
            tokio::select! {
                // The fall first: an answer that is ready at the
                // same moment came from a server that is gone.
                biased;
                _ = front.wait_for(|front| !front.up) => Err(Down),
                answered = server.oneshot(request) => match answered {
                    Ok(response) => Ok(response),
                    Err(never) => match never {},
                },
            }
        }
        .boxed()
    }
}
