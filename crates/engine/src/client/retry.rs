//! Which answers of a server are asked for again: those with `Retry-After`, as client-go does it. Owns that rule; must not know
//! what was asked.
//! Source: client-go `rest/with_retry.go` (`checkWait`, `maxRetries`). kube itself repeats every 503 fifteen times, over five
//! minutes: also one that comes from behind the API server, where a kubelet is dead that nobody starts meanwhile.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Request, Response};
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use tower::buffer::BufferLayer;
use tower::layer::util::{Identity, Stack};
use tower::retry::backoff::InvalidBackoff;
use tower::retry::{Policy, RetryLayer};
use tower::{BoxError, ServiceBuilder};

const RETRIES_MAX: u32 = 10;
/// The pauses when the header says none, or a date.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Requests that wait for one that is sent.
const WAITING_MAX: usize = 1024;

/// kube's policy, only for answers that ask for it.
#[derive(Clone)]
pub struct WhenAsked(RetryPolicy);

/// The layer with that policy.
pub type RetryWhenAsked =
    ServiceBuilder<Stack<BufferLayer<Request<Body>>, Stack<RetryLayer<WhenAsked>, Identity>>>;

/// # Errors
/// Never: the pauses are those of this file.
pub fn when_asked() -> Result<RetryWhenAsked, InvalidBackoff> {
    let policy = WhenAsked(RetryPolicy::new(PAUSE_MIN, PAUSE_MAX, RETRIES_MAX, true)?);
    Ok(ServiceBuilder::new().layer(RetryLayer::new(policy)).layer(BufferLayer::new(WAITING_MAX)))
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for WhenAsked {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        // Without an answer nothing is repeated: a write may have been taken.
        let is_asked = result.as_ref().is_ok_and(|answer| answer.headers().contains_key(RETRY_AFTER));
        is_asked.then(|| self.0.retry(request, result)).flatten()
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        Policy::<Request<Body>, Response<B>, BoxError>::clone_request(&mut self.0, request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::StatusCode;
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
        let client =
            ClientBuilder::new(service, "default").with_layer(&when_asked().expect("pauses")).build();
        (client, count)
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_answer_that_asks_for_it_is_asked_for_again() {
        for (status, pause, first, requests, is_answer) in [
            (503, None, 1, 1, false),
            (503, Some("2"), 1, 2, true),
            (429, Some("2"), 1, 2, true),
            (404, Some("2"), 1, 1, false),
            (503, Some("2"), 99, 1 + RETRIES_MAX, false),
        ] {
            let (client, count) = busy(status, first, pause);
            let begun = Instant::now();
            let answer = client.request_text(Request::new(Vec::new())).await;
            let seen = (answer.is_ok(), count.load(Ordering::Relaxed));
            assert_eq!(seen, (is_answer, requests), "{status} {pause:?} {first}");
            let paused = begun.elapsed() >= Duration::from_secs(2 * u64::from(requests - 1));
            assert!(paused, "{pause:?}");
        }
    }
}
