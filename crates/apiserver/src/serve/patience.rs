//! A connection whose peer has to go on reading: one that takes nothing for a minute while there is
//! something for it is let go, and the longest stalled one sooner when all of them hold too much memory.
//! Owns those limits; must not know what is being sent.
//!
//! A watcher that stalls holds what was written for it and not taken: it reads the history at its own pace.
//! This ends the connection; the client comes back with the last version it saw.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::pace::Pace;

/// How long a peer may take nothing of what waits for it.
const STALL_MAX: Duration = Duration::from_secs(60);
/// What may wait for all stalled peers together.
const STALLED_BYTES_MAX: usize = 64 << 20;
/// What a stalled connection holds beside what is seen here: encrypted text, and the next piece.
const HIDDEN_BYTES: usize = 64 * 1024;

/// All stalled connections of one listener.
#[derive(Clone, Default)]
pub struct Stalls(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    next: u64,
    bytes: usize,
    /// Oldest first.
    stalls: BTreeMap<u64, Stall>,
}

struct Stall {
    bytes: usize,
    let_go: Arc<AtomicBool>,
    waker: Waker,
}

impl Stalls {
    /// Another connection waits with so many bytes. The oldest are let go while all hold too much.
    fn enter(&self, bytes: usize, waker: &Waker) -> (u64, Arc<AtomicBool>) {
        let mut waiting = self.0.lock();
        let let_go = Arc::new(AtomicBool::new(false));
        let (id, bytes) = (waiting.next, bytes + HIDDEN_BYTES);
        waiting.next += 1;
        waiting.bytes += bytes;
        waiting.stalls.insert(id, Stall { bytes, let_go: let_go.clone(), waker: waker.clone() });
        // The last one stays: alone it holds no more than any connection may.
        while waiting.bytes > STALLED_BYTES_MAX && waiting.stalls.len() > 1 {
            let Some((_, oldest)) = waiting.stalls.pop_first() else { break };
            waiting.bytes -= oldest.bytes;
            oldest.let_go.store(true, Ordering::Relaxed);
            oldest.waker.wake();
        }
        (id, let_go)
    }

    /// Whoever polls the connection now is woken when it is let go.
    fn stay(&self, id: u64, waker: &Waker) {
        if let Some(stall) = self.0.lock().stalls.get_mut(&id) {
            stall.waker.clone_from(waker);
        }
    }

    fn leave(&self, id: u64) {
        let mut waiting = self.0.lock();
        // One that was let go is out of the count already.
        if let Some(stall) = waiting.stalls.remove(&id) {
            waiting.bytes -= stall.bytes;
        }
    }
}

/// A stream that gives up on a stalled peer, and records when bytes last moved.
pub struct Patient<S> {
    stream: S,
    pace: Arc<Pace>,
    stalls: Stalls,
    /// While a write waits.
    stalled: Option<Stalled>,
}

struct Stalled {
    id: u64,
    let_go: Arc<AtomicBool>,
    deadline: Pin<Box<Sleep>>,
}

impl<S> Patient<S> {
    pub fn new(stream: S, pace: Arc<Pace>, stalls: Stalls) -> Self {
        Self { stream, pace, stalls, stalled: None }
    }

    /// Passes on what a write of so many bytes answered, unless it has waited for too long.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        bytes: usize,
        answer: Poll<Result<T>>,
    ) -> Poll<Result<T>> {
        if answer.is_ready() {
            self.moves();
            return answer;
        }
        let stalls = &self.stalls;
        let stalled = self.stalled.get_or_insert_with(|| {
            let (id, let_go) = stalls.enter(bytes, context.waker());
            Stalled { id, let_go, deadline: Box::pin(tokio::time::sleep(STALL_MAX)) }
        });
        // Before `let_go` is looked at: one that is let go from here on wakes this task.
        stalls.stay(stalled.id, context.waker());
        let why = match stalled.deadline.as_mut().poll(context) {
            Poll::Ready(()) => "the peer does not read",
            // Relaxed: no other memory is read because of the flag.
            Poll::Pending if stalled.let_go.load(Ordering::Relaxed) => {
                "the peer does not read, and others wait"
            }
            Poll::Pending => return Poll::Pending,
        };
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, why)))
    }

    fn moves(&mut self) {
        if let Some(stalled) = self.stalled.take() {
            self.stalls.leave(stalled.id);
        }
    }
}

impl<S> Drop for Patient<S> {
    fn drop(&mut self) {
        self.moves();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let answer = Pin::new(&mut self.stream).poll_read(context, buffer);
        if answer.is_ready() && buffer.filled().len() > before {
            self.pace.note_bytes();
        }
        answer
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, bytes.len(), answer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(context, parts.iter().map(|part| part.len()).sum(), answer)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let answer = Pin::new(&mut self.stream).poll_flush(context);
        // What a flush holds back is not known here; `HIDDEN_BYTES` stands for it.
        self.judge(context, 0, answer)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let answer = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, 0, answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::time::Instant;

    use super::*;

    fn patient(stream: DuplexStream, stalls: &Stalls) -> Patient<DuplexStream> {
        Patient::new(stream, Pace::start(), stalls.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn s099_a_peer_that_reads_nothing_is_let_go() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut stream = patient(ours, &Stalls::default());
        let start = Instant::now();
        stream.write_all(&[0; 16]).await.unwrap();
        let error = stream.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (ErrorKind::TimedOut, STALL_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn s099_a_slow_peer_is_waited_for() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut stream = patient(ours, &Stalls::default());
        let reader = tokio::spawn(async move {
            for _ in 0..8 {
                tokio::time::sleep(STALL_MAX / 2).await;
                let mut some = [0; 16];
                theirs.read_exact(&mut some).await.unwrap();
            }
        });
        stream.write_all(&[0; 128]).await.unwrap();
        reader.await.unwrap();
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_polls_last_is_woken_when_a_connection_is_let_go() {
        let (stalls, wakes) = (Stalls::default(), [Arc::<Wakes>::default(), Arc::default()]);
        let (ours, _theirs) = tokio::io::duplex(1);
        let mut stream = patient(ours, &stalls);
        stream.write_all(&[0]).await.unwrap();
        for wakes in &wakes {
            let waker = Waker::from(Arc::clone(wakes));
            let write = Pin::new(&mut stream).poll_write(&mut Context::from_waker(&waker), &[0]);
            assert!(write.is_pending());
        }
        let other = stalls.enter(STALLED_BYTES_MAX, Waker::noop());
        assert_eq!(wakes.each_ref().map(|wakes| wakes.0.load(Ordering::Relaxed)), [0, 1]);
        stalls.leave(other.0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_stalled_peers_had_no_bound() {
        const EACH: usize = 8 << 20;
        let stalls = Stalls::default();
        let start = Instant::now();
        let count = STALLED_BYTES_MAX / EACH + 2;
        let mut theirs = Vec::new();
        let mut writes = Vec::new();
        for _ in 0..count {
            let (ours, their) = tokio::io::duplex(16);
            let mut stream = patient(ours, &stalls);
            theirs.push(their);
            writes.push(tokio::spawn(async move {
                stream.write_all(&[0; 16]).await.unwrap();
                stream.write_all(&vec![0; EACH]).await.unwrap_err();
                start.elapsed()
            }));
        }
        let mut ended = Vec::new();
        for write in writes {
            ended.push(write.await.unwrap());
        }
        let early = ended.iter().take_while(|at| at.is_zero()).count();
        // Seven of eight megabytes fit beside what is hidden; the oldest are let go for the others.
        assert_eq!((early, ended.len()), (count - 7, count));
        assert!(ended[early..].iter().all(|at| *at == STALL_MAX), "{ended:?}");
        let waiting = stalls.0.lock();
        assert_eq!((waiting.bytes, waiting.stalls.len()), (0, 0));
    }
}
