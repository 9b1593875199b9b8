//! Which answers of a server are asked for again: those with `Retry-After`, as client-go does it. Owns that rule; must not know
//! what was asked.
//! Source: client-go `rest/with_retry.go` (`checkWait`, `maxRetries`). kube itself repeats every 503 fifteen times, over five
//! minutes: also one that comes from behind the API server, where a kubelet is dead that nobody starts meanwhile.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use tower::buffer::BufferLayer;
use tower::layer::util::{Identity, Stack};
use tower::retry::{Policy, RetryLayer};
use tower::{BoxError, ServiceBuilder};

const RETRIES_MAX: u32 = 10;
/// A server that wants more has no use for the answer to this request any more; client-go would wait.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Requests that wait for one that is sent.
const WAITING_MAX: usize = 1024;

/// How often one request is still repeated.
#[derive(Clone)]
pub struct WhenAsked {
    left: u32,
}

/// The layer with that policy.
pub type RetryWhenAsked =
    ServiceBuilder<Stack<BufferLayer<Request<Body>>, Stack<RetryLayer<WhenAsked>, Identity>>>;

pub fn when_asked() -> RetryWhenAsked {
    let policy = WhenAsked { left: RETRIES_MAX };
    ServiceBuilder::new().layer(RetryLayer::new(policy)).layer(BufferLayer::new(WAITING_MAX))
}

/// How long the server wants to be left alone: whole seconds of an answer that may be another one then. A date is none.
fn asked_pause<B>(answer: &Response<B>) -> Option<Duration> {
    let status = answer.status();
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds: i64 = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for WhenAsked {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        _: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        // Without an answer nothing is repeated: a write may have been taken.
        let pause = result.as_ref().ok().and_then(asked_pause).filter(|pause| *pause <= PAUSE_MAX)?;
        self.left = self.left.checked_sub(1)?;
        Some(tokio::time::sleep(pause))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        copy(request)
    }
}

/// The same request once more; `None` when its body is a stream.
pub fn copy(request: &Request<Body>) -> Option<Request<Body>> {
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use kube::Client;
    use kube::client::ClientBuilder;
    use tokio::time::Instant;

    use super::*;

    /// A server that answers `status` to the first requests, and counts them.
    fn busy(status: u16, first: u32, pause: Option<&'static str>) -> (Client, Arc<AtomicU32>) {
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let service = tower::service_fn(move |_: Request<Body>| {
            let is_busy = counted.fetch_add(1, Ordering::Relaxed) < first;
            let mut answer = Response::new(Body::from(b"{}".to_vec()));
            if is_busy {
                *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
                pause.map(|pause| answer.headers_mut().insert(RETRY_AFTER, pause.parse().expect("text")));
            }
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        let client = ClientBuilder::new(service, "default").with_layer(&when_asked()).build();
        (client, count)
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_answer_that_asks_for_it_is_asked_for_again() {
        for (status, pause, first, requests, is_answer) in [
            (503, None, 1, 1, false),
            (503, Some("2"), 1, 2, true),
            (429, Some("2"), 1, 2, true),
            (500, Some("2"), 1, 2, true),
            (502, Some("2"), 1, 2, true),
            (504, Some("2"), 1, 2, true),
            (404, Some("2"), 1, 1, false),
            (503, Some("Sat, 28 Nov 2026 20:00:00 GMT"), 1, 1, false),
            (503, Some("1.5"), 1, 1, false),
            (503, Some("61"), 1, 1, false),
            (503, Some("2"), 99, 1 + RETRIES_MAX, false),
        ] {
            let (client, count) = busy(status, first, pause);
            let begun = Instant::now();
            let answer = client.request_text(Request::new(Vec::new())).await;
            let seen = (answer.is_ok(), count.load(Ordering::Relaxed));
            assert_eq!(seen, (is_answer, requests), "{status} {pause:?} {first}");
            // Not more, either: waits in a paused clock are exact.
            assert_eq!(begun.elapsed().as_secs(), 2 * u64::from(requests - 1), "{status} {pause:?} {first}");
        }
    }
}
