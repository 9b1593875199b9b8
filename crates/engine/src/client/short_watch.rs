//! Makes an error of the end of a watch that ended as soon as it began: kube's watcher begins a watch that ends anew at
//! once, so that a proxy that closes every watch would be asked without a pause, and the copy would count as current. Must
//! not know what is watched, nor when the next attempt is due.
//! Source: client-go `tools/cache/reflector.go` (`handleWatch`, "very short watch"), v0.35.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

use super::deadline::is_watch;

/// A watch that lasts less long and reports nothing did not work.
const WATCH_MIN: Duration = Duration::from_secs(1);

/// The same client, but for watches that end at once.
pub(super) fn refusing_short_watches(client: kube::Client) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let is_watch = is_watch(&request);
            let answer = client.send(request).await?;
            // A refused watch ends at once, too, but with an error of its own.
            let is_long_enough = !(is_watch && answer.status().is_success());
            Ok::<_, BoxError>(answer.map(|body| Watched { body, began: Instant::now(), is_long_enough }))
        }
    });
    kube::Client::new(service, namespace)
}

/// The events of a watch, or the answer to anything else.
struct Watched {
    body: Body,
    began: Instant,
    is_long_enough: bool,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let is_short = !self.is_long_enough && self.began.elapsed() < WATCH_MIN;
        // After the first frame any end is a usual one.
        self.is_long_enough = true;
        Poll::Ready(match frame {
            None if is_short => {
                Some(Err("the server ends every watch at once: check proxies in between".into()))
            }
            frame => frame.map(|frame| frame.map_err(Into::into)),
        })
    }
}
