//! What waits on the streams of HTTP/2 connections for peers that do not take it. A connection whose streams stand still is often
//! read all the same (pings, other streams), so that nothing is seen at its socket. Owns what is counted and when a connection
//! is let go for it; must not know what is being sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::response::Body;

/// What may wait on all connections of a listener together.
const ALL_BYTES_MAX: usize = 64 << 20;
/// A connection that holds less than this may do so for as long as it likes, while all of them hold less than they may.
const OWN_BYTES_MIN: usize = 1 << 20;
/// How long nothing of it may be taken.
const STILL_MAX: Duration = Duration::from_secs(60);
/// The same while all connections hold too much.
const STILL_MAX_WHEN_FULL: Duration = Duration::from_secs(1);
/// How often is looked while something waits.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A body is handed on in pieces of this size, so that it is seen how much of it was taken.
const PIECE_BYTES: usize = 64 * 1024;

/// What waits on all connections of one listener.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<AtomicUsize>);

/// What waits on the streams of one connection.
#[derive(Debug)]
pub struct Streams {
    all: Waiting,
    state: Mutex<State>,
    begun: Notify,
}

#[derive(Debug)]
struct State {
    bytes: usize,
    /// When something of it was taken last, or it began to wait.
    moved: Instant,
}

impl Streams {
    pub fn of(all: &Waiting) -> Arc<Self> {
        let state = Mutex::new(State { bytes: 0, moved: Instant::now() });
        Arc::new(Self { all: all.clone(), state, begun: Notify::new() })
    }

    /// The response, with its body counted until it was taken.
    pub fn count(self: &Arc<Self>, response: Response<Body>) -> Response<Body> {
        response.map(|body| Counted { body, rest: None, streams: self.clone() }.boxed_unsync())
    }

    /// Waits until the connection has to be let go.
    pub async fn ended(&self) {
        loop {
            let State { bytes, moved } = *self.state.lock();
            if bytes == 0 {
                // A wait that begins between the look and here leaves a permit, so it is not
                // missed.
                self.begun.notified().await;
                continue;
            }
            // The sum guards no other memory, so it needs no order.
            let is_full = self.all.0.load(Ordering::Relaxed) > ALL_BYTES_MAX;
            let still = moved.elapsed();
            if is_full && still >= STILL_MAX_WHEN_FULL || bytes >= OWN_BYTES_MIN && still >= STILL_MAX {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn wait(&self, bytes: usize) {
        self.all.0.fetch_add(bytes, Ordering::Relaxed);
        let mut state = self.state.lock();
        if state.bytes == 0 {
            state.moved = Instant::now();
            self.begun.notify_one();
        }
        state.bytes += bytes;
    }

    fn taken(&self, bytes: usize) {
        self.all.0.fetch_sub(bytes, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.bytes -= bytes;
        state.moved = Instant::now();
    }
}

/// Bytes that count for as long as they are there.
struct Held {
    bytes: Bytes,
    streams: Arc<Streams>,
}

impl Held {
    fn new(bytes: Bytes, streams: &Arc<Streams>) -> Self {
        streams.wait(bytes.len());
        Self { bytes, streams: streams.clone() }
    }

    /// The first piece, and what is left.
    fn split(mut self) -> (Bytes, Option<Self>) {
        if self.bytes.len() <= PIECE_BYTES {
            // The bytes count until their last user drops them, which is when they are sent.
            return (Bytes::from_owner(self), None);
        }
        // Pieces share the memory of their frame, so counting them apart copies nothing.
        let piece = Self { bytes: self.bytes.split_to(PIECE_BYTES), streams: self.streams.clone() };
        (Bytes::from_owner(piece), Some(self))
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.streams.taken(self.bytes.len());
    }
}

struct Counted {
    body: Body,
    /// Of the last frame of the body.
    rest: Option<Held>,
    streams: Arc<Streams>,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let held = match self.rest.take() {
            Some(rest) => rest,
            None => match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => Held::new(bytes, &self.streams),
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                None => return Poll::Ready(None),
                Some(Err(never)) => match never {},
            },
        };
        let (piece, rest) = held.split();
        self.rest = rest;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.body.is_end_stream()
    }

    /// Of both together: without it an answer would have no length.
    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) =
            (self.body.size_hint(), self.rest.as_ref().map_or(0, |rest| rest.bytes.len() as u64));
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::Full;

    use super::*;

    const SIZE: usize = 3 * PIECE_BYTES + 1;

    fn body(streams: &Arc<Streams>, bytes: usize) -> Body {
        let whole = Full::new(Bytes::from(vec![7; bytes])).boxed_unsync();
        streams.count(Response::new(whole)).into_body()
    }

    async fn piece(body: &mut Body) -> Option<Bytes> {
        let frame = body.frame().await?.expect("a frame");
        frame.into_data().ok()
    }

    #[tokio::test]
    async fn a_body_counts_until_its_last_piece_was_taken() {
        let all = Waiting::default();
        let streams = Streams::of(&all);
        let count = || all.0.load(Ordering::Relaxed);
        let mut body = body(&streams, SIZE);
        assert_eq!(
            (count(), body.size_hint().exact()),
            (0, Some(SIZE as u64)),
            "nothing of it was made ready"
        );
        let first = piece(&mut body).await.expect("a piece");
        assert_eq!((first.len(), count()), (PIECE_BYTES, SIZE));
        drop(first);
        assert_eq!(
            (count(), body.size_hint().exact()),
            (SIZE - PIECE_BYTES, Some((SIZE - PIECE_BYTES) as u64))
        );
        let mut pieces = Vec::new();
        while let Some(next) = piece(&mut body).await {
            assert!(next.iter().all(|byte| *byte == 7));
            pieces.push(next);
        }
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE_BYTES, PIECE_BYTES, 1]);
        assert_eq!(count(), SIZE - PIECE_BYTES);
        drop((pieces, body));
        assert_eq!(count(), 0);
    }

    /// Takes a piece of a body of this size, and keeps it for a time.
    async fn keep(streams: &Arc<Streams>, bytes: usize) -> (Body, Bytes) {
        let mut body = body(streams, bytes);
        let piece = piece(&mut body).await.expect("a piece");
        (body, piece)
    }

    #[tokio::test(start_paused = true)]
    async fn s099_a_connection_whose_streams_stand_still_is_let_go() {
        let all = Waiting::default();
        let (streams, small) = (Streams::of(&all), Streams::of(&all));
        let _little = keep(&small, PIECE_BYTES).await;
        let start = Instant::now();
        let (mut body, mut taken) = keep(&streams, 2 * OWN_BYTES_MIN).await;
        for _ in 0..5 {
            let ended = tokio::time::timeout(Duration::from_secs(50), streams.ended()).await;
            assert!(ended.is_err(), "a slow peer is waited for");
            // The one before it is dropped by that: it is taken.
            taken = piece(&mut body).await.expect("a piece");
        }
        let (moved, last) = (Instant::now(), taken.len());
        streams.ended().await;
        assert!(
            (STILL_MAX..STILL_MAX + 2 * LOOK_EVERY).contains(&moved.elapsed()),
            "{last}: {:?}",
            start.elapsed()
        );
        let ended = tokio::time::timeout(STILL_MAX * 10, small.ended()).await;
        assert!(ended.is_err(), "what holds little may wait");
    }

    #[tokio::test(start_paused = true)]
    async fn s099_streams_that_hold_too_much_together_are_let_go_at_once() {
        let all = Waiting::default();
        let connections: Vec<Arc<Streams>> = (0..9).map(|_| Streams::of(&all)).collect();
        let mut kept = Vec::new();
        for streams in &connections {
            kept.push(keep(streams, ALL_BYTES_MAX / 8).await);
        }
        let start = Instant::now();
        connections[0].ended().await;
        assert!(start.elapsed() <= 2 * STILL_MAX_WHEN_FULL);
        kept.remove(0);
        let ended = tokio::time::timeout(STILL_MAX / 2, connections[1].ended()).await;
        assert!(ended.is_err(), "there is room again");
    }
}
