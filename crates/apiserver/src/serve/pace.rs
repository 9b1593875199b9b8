//! How long a connection may be silent: between requests for as long as clients keep connections, within the
//! head of a request only for a moment. Must not know what is asked.
//!
//! Source: apiserver `pkg/server/secure_serving.go` (`IdleTimeout`), v0.35.

use std::sync::Arc;
use std::time::Duration;

use http::Version;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Between two requests: what Go's clients reckon with.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// From the first byte of a request, or of the connection, to the end of its head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// A head does not come to its end.
    Head,
    /// Nothing was asked for a long time.
    Idle,
}

/// The pace of one connection.
#[derive(Debug)]
pub struct Pace {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// Requests that are not answered to the end.
    open: usize,
    /// Of what is waited for.
    since: Instant,
    waits_for: Silence,
    /// HTTP/2: bytes are not a sign of a request, clients send pings.
    multiplexed: bool,
}

impl Pace {
    pub fn start() -> Arc<Self> {
        let state = State { open: 0, since: Instant::now(), waits_for: Silence::Head, multiplexed: false };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new() })
    }

    /// Bytes came in.
    pub fn note_bytes(&self) {
        let mut state = self.state.lock();
        if state.open == 0 && state.waits_for == Silence::Idle && !state.multiplexed {
            state.waits_for = Silence::Head;
            state.since = Instant::now();
            // `notify_one` leaves a permit, so that a change between two waits is not missed.
            self.changed.notify_one();
        }
    }

    /// A request has begun, with all of its head; it is open until the guard is dropped.
    pub fn open(self: &Arc<Self>, version: Version) -> Open {
        let mut state = self.state.lock();
        state.open += 1;
        state.multiplexed = version == Version::HTTP_2;
        drop(state);
        Open(self.clone())
    }

    /// Waits until there was silence for too long.
    pub async fn ended(&self) -> Silence {
        loop {
            let wait = self.wait();
            let until = async {
                match wait {
                    Some((at, _)) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                // A request may have begun just now, so the limit is looked up again.
                () = until => match self.wait() {
                    Some((at, silence)) if at <= Instant::now() => return silence,
                    _ => {}
                },
            }
        }
    }

    fn wait(&self) -> Option<(Instant, Silence)> {
        let state = self.state.lock();
        let timeout = if state.waits_for == Silence::Head { HEAD_TIMEOUT } else { IDLE_TIMEOUT };
        (state.open == 0).then_some((state.since + timeout, state.waits_for))
    }
}

/// An open request.
#[derive(Debug)]
pub struct Open(Arc<Pace>);

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.open -= 1;
        if state.open == 0 {
            state.waits_for = Silence::Idle;
            state.since = Instant::now();
            self.0.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn silence(pace: &Pace) -> (Silence, Duration) {
        let start = Instant::now();
        (pace.ended().await, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_were_cut_like_slow_heads() {
        let pace = Pace::start();
        assert_eq!(silence(&pace).await, (Silence::Head, HEAD_TIMEOUT), "nothing was ever asked");
        let pace = Pace::start();
        drop(pace.open(Version::HTTP_11));
        assert_eq!(silence(&pace).await, (Silence::Idle, IDLE_TIMEOUT));
        pace.note_bytes();
        assert_eq!(silence(&pace).await, (Silence::Head, HEAD_TIMEOUT), "another head has begun");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_begins_while_the_connection_is_watched() {
        let pace = Pace::start();
        drop(pace.open(Version::HTTP_11));
        let start = Instant::now();
        let later = async {
            tokio::time::sleep(IDLE_TIMEOUT / 2).await;
            pace.note_bytes();
            tokio::time::sleep(HEAD_TIMEOUT / 2).await;
            pace.note_bytes();
        };
        let (end, ()) = tokio::join!(pace.ended(), later);
        assert_eq!((end, start.elapsed()), (Silence::Head, IDLE_TIMEOUT / 2 + HEAD_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_request_is_no_silence_and_pings_are_no_head() {
        let pace = Pace::start();
        let watch = pace.open(Version::HTTP_2);
        let long = Duration::from_secs(3_600);
        assert!(tokio::time::timeout(long, pace.ended()).await.is_err());
        drop(watch);
        pace.note_bytes();
        assert_eq!(silence(&pace).await, (Silence::Idle, IDLE_TIMEOUT));
    }
}
