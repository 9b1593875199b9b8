//! Whether the other end of a connection still answers. Owns the marks of every request (when the last byte of
//! an answer came, whether a request failed since), and the probe that is sent when nothing came. Must not know
//! where the result is shown.
//!
//! A watch on a server that hangs looks like a watch without news, and HTTP/1.1, which kube speaks,
//! has no pings. So: one small `GET /livez` after [`QUIET_MAX`] without a byte, or at once after a
//! request that failed. While answers come no probe is sent.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use http_body_util::combinators::MapFrame;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tower::{BoxError, Layer, Service};

use super::errors::explain;
use capstan_base::time::{Clock, Timestamp};

/// How long a server may be quiet before a probe is sent.
pub const QUIET_MAX: Duration = Duration::from_secs(15);
/// How long the answer may take.
pub const PROBE_MAX: Duration = Duration::from_secs(5);
/// Time between probes that the server does not answer.
const PROBE_AGAIN: Duration = Duration::from_secs(3);
/// A request that its caller dropped after this time counts as one that failed.
const GIVEN_UP_MIN: Duration = Duration::from_secs(2);

/// The marks of the requests of one connection. Clones share them.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<Marks>);

#[derive(Debug)]
struct Marks {
    heard: Mutex<Instant>,
    doubt: Notify,
}

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(Marks { heard: Mutex::new(Instant::now()), doubt: Notify::new() }))
    }
}

/// A time without answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When the last byte of an answer came.
    pub since: Timestamp,
    /// True: it does not answer at all. False: it is not reached, or answers that it is not well.
    pub is_silent: bool,
    /// A sentence for an operator.
    pub error: Arc<str>,
}

impl Pulse {
    /// When a byte of an answer last came; the start of the connection before the first.
    pub fn heard_at(&self) -> Instant {
        *self.0.heard.lock()
    }

    /// A request failed or was dropped: a probe is due at once.
    pub fn doubt(&self) {
        self.0.doubt.notify_one();
    }

    fn note_answer(&self) {
        *self.0.heard.lock() = Instant::now();
    }

    async fn is_doubtful(&self) {
        loop {
            let at = self.heard_at() + QUIET_MAX;
            if at <= Instant::now() {
                return;
            }
            tokio::select! {
                biased;
                () = self.0.doubt.notified() => return,
                () = sleep_until(at) => {}
            }
        }
    }
}

/// Watches a connection for ever: sends an outage when it begins, and `None` when it is over.
pub async fn guard(
    pulse: Pulse,
    client: kube::Client,
    server: String,
    clock: Clock,
    outages: watch::Sender<Option<Outage>>,
) {
    loop {
        pulse.is_doubtful().await;
        let asked_at = Instant::now();
        let Err(failure) = probe(&client, &server).await else { continue };
        let heard_at = pulse.heard_at();
        // A watch brought bytes meanwhile: the probe alone is late, and the server is there.
        if failure.is_silent && heard_at > asked_at {
            continue;
        }
        let quiet = chrono::TimeDelta::from_std(heard_at.elapsed()).unwrap_or_default();
        let Failure { is_silent, error } = failure;
        tracing::warn!("{error}");
        outages.send_replace(Some(Outage { since: clock.now() - quiet, is_silent, error: error.into() }));
        recovery(&pulse, &client, &server, heard_at, is_silent).await;
        tracing::info!("{server} answers again");
        outages.send_replace(None);
    }
}

/// Until a probe is answered; for a silent server any answer will do.
async fn recovery(pulse: &Pulse, client: &kube::Client, server: &str, heard_at: Instant, is_silent: bool) {
    loop {
        sleep(PROBE_AGAIN).await;
        // A server that answers 5xx is heard all the time, so for it only a good probe counts.
        let is_heard = is_silent && pulse.heard_at() > heard_at;
        if is_heard || probe(client, server).await.is_ok() {
            return;
        }
    }
}

struct Failure {
    is_silent: bool,
    error: String,
}

/// Any answer but a 5xx counts: a server that forbids the path is there.
async fn probe(client: &kube::Client, server: &str) -> Result<(), Failure> {
    let silent = || Failure {
        is_silent: true,
        error: format!("{server} did not answer in time: check the network, proxies and firewalls between"),
    };
    let request = Request::get("/livez").body(Vec::new());
    let request = request.map_err(|error| Failure { is_silent: false, error: error.to_string() })?;
    match timeout(PROBE_MAX, client.request_text(request)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.code < 500 => Ok(()),
        Ok(Err(error)) => Err(Failure {
            is_silent: false,
            error: capstan_base::text::sanitize_line(&explain(&error, server)),
        }),
        Err(_) => Err(silent()),
    }
}

/// Puts the marks around a service.
#[derive(Clone, Debug)]
pub struct PulseLayer(pub Pulse);

impl<S> Layer<S> for PulseLayer {
    type Service = Marked<S>;

    fn layer(&self, inner: S) -> Marked<S> {
        Marked { inner, pulse: self.0.clone() }
    }
}

/// A service whose answers and failures are marked.
#[derive(Clone, Debug)]
pub struct Marked<S> {
    inner: S,
    pulse: Pulse,
}

type Hearing = Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>;

impl<S, B> Service<Request<Body>> for Marked<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<MapFrame<B, Hearing>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(marked(self.inner.call(request), self.pulse.clone()))
    }
}

async fn marked<B, E>(
    answer: impl Future<Output = Result<Response<B>, E>>,
    pulse: Pulse,
) -> Result<Response<MapFrame<B, Hearing>>, BoxError>
where
    B: http_body::Body<Data = Bytes>,
    E: Into<BoxError>,
{
    let mut asked = Asked { pulse: &pulse, at: Instant::now(), is_answered: false };
    let answer = answer.await.map_err(Into::into);
    asked.is_answered = true;
    match answer {
        Ok(answer) => {
            // An answer of a proxy in front of a dead server is a 5xx, too.
            if answer.status().is_server_error() {
                pulse.doubt();
            } else {
                pulse.note_answer();
            }
            // Each chunk counts, since a watch is one answer that goes on for minutes.
            let heard = pulse.clone();
            let hearing: Hearing = Box::new(move |frame| {
                heard.note_answer();
                frame
            });
            Ok(answer.map(|body| body.map_frame(hearing)))
        }
        Err(error) => {
            pulse.doubt();
            Err(error)
        }
    }
}

/// A request without an answer so far.
struct Asked<'a> {
    pulse: &'a Pulse,
    at: Instant,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        // Screens drop requests when a person moves on; only one that had waited casts doubt.
        if !self.is_answered && self.at.elapsed() >= GIVEN_UP_MIN {
            self.pulse.doubt();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

    use super::*;
    use crate::client::in_process;

    /// A server that hangs (0) or answers with this status, and counts what reaches it.
    #[derive(Clone, Default)]
    struct Server {
        status: Arc<AtomicU16>,
        reached: Arc<AtomicUsize>,
    }

    impl Server {
        async fn answer(self) -> Result<Response<Body>, Infallible> {
            self.reached.fetch_add(1, Ordering::SeqCst);
            while self.status.load(Ordering::SeqCst) == 0 {
                sleep(Duration::from_millis(100)).await;
            }
            let mut answer = Response::new(Body::from(b"said".to_vec()));
            *answer.status_mut() = http::StatusCode::from_u16(self.status.load(Ordering::SeqCst)).unwrap();
            Ok(answer)
        }

        fn guarded(&self) -> (kube::Client, watch::Receiver<Option<Outage>>) {
            let server = self.clone();
            let service = tower::service_fn(move |_: Request<Body>| server.clone().answer());
            let connection = in_process(service, "test", "default", true);
            let (sender, outages) = watch::channel(None);
            let (pulse, client) = (connection.pulse, connection.client.clone());
            let clock = Clock::fixed(chrono::DateTime::UNIX_EPOCH);
            tokio::spawn(guard(pulse, client, "https://one:6443".to_owned(), clock, sender));
            (connection.client, outages)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hung_server_is_noticed_within_20_s_and_its_return_within_5() {
        let server = Server::default();
        server.status.store(200, Ordering::SeqCst);
        let (_client, mut outages) = server.guarded();
        sleep(Duration::from_secs(3600)).await;
        assert!(!outages.has_changed().unwrap());
        let asked = server.reached.load(Ordering::SeqCst);
        assert!((200..=240).contains(&asked), "one small request per 15 s of silence, not {asked}");

        server.status.store(0, Ordering::SeqCst);
        let hung_at = Instant::now();
        let outage = outages.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        assert!(hung_at.elapsed() <= QUIET_MAX + PROBE_MAX, "{:?}", hung_at.elapsed());
        assert!(outage.is_silent && outage.error.contains("did not answer in time"), "{outage:?}");
        let quiet_s = -outage.since.timestamp();
        assert!((5..=20).contains(&quiet_s), "{quiet_s}");

        server.status.store(200, Ordering::SeqCst);
        let back_at = Instant::now();
        outages.wait_for(Option::is_none).await.unwrap();
        assert!(back_at.elapsed() <= Duration::from_secs(5), "{:?}", back_at.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_given_up_has_the_server_asked_at_once() {
        let server = Server::default();
        server.status.store(200, Ordering::SeqCst);
        let (client, mut outages) = server.guarded();
        client.request_text(Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
        server.status.store(0, Ordering::SeqCst);
        let request = Request::get("/apis").body(Vec::new()).unwrap();
        let began = Instant::now();
        assert!(timeout(Duration::from_secs(3), client.request_text(request)).await.is_err());
        outages.wait_for(Option::is_some).await.unwrap();
        assert!(began.elapsed() <= Duration::from_secs(3) + PROBE_MAX, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_refused_here_casts_no_doubt_on_the_server() {
        let server = Server::default();
        server.status.store(200, Ordering::SeqCst);
        let (client, _outages) = server.guarded();
        client.request_text(Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
        let write = Request::post("/api/v1/namespaces").body(Vec::new()).unwrap();
        client.request_text(write).await.unwrap_err();
        sleep(QUIET_MAX / 2).await;
        assert_eq!(server.reached.load(Ordering::SeqCst), 1, "no probe was sent");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_it_is_not_well_is_not_live() {
        let server = Server::default();
        server.status.store(200, Ordering::SeqCst);
        let (client, mut outages) = server.guarded();
        server.status.store(500, Ordering::SeqCst);
        let _ = client.request_text(Request::get("/apis").body(Vec::new()).unwrap()).await;
        let outage = outages.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        assert!(!outage.is_silent && outage.error.contains("is in trouble"), "{outage:?}");
        // A refusal is an answer, too.
        server.status.store(403, Ordering::SeqCst);
        outages.wait_for(Option::is_none).await.unwrap();
        sleep(Duration::from_secs(60)).await;
        assert!(!outages.has_changed().unwrap());
    }
}
