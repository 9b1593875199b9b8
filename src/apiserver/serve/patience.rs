//! A connection whose peer has to go on reading: one that takes nothing for a minute while there is
//! something for it is let go. Owns that limit; must not know what is being sent.
//!
//! A watcher that stalls costs nothing but its connection: it reads the history at its own pace. This ends
//! the connection too; the client comes back with the last version it saw.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a peer may take nothing of what waits for it.
const STALL_MAX: Duration = Duration::from_secs(60);

/// A stream that gives up on a stalled peer.
pub struct Patient<S> {
    stream: S,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, stalled: None }
    }

    /// Passes on what a write answered, unless it has waited for too long.
    fn judge<T>(&mut self, context: &mut Context<'_>, answer: Poll<Result<T>>) -> Poll<Result<T>> {
        if answer.is_ready() {
            self.stalled = None;
            return answer;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_MAX)));
        match stalled.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the peer does not read"))),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, answer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(context, answer)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let answer = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, answer)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let answer = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, answer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn s099_a_peer_that_reads_nothing_is_let_go() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut stream = Patient::new(ours);
        let start = Instant::now();
        stream.write_all(&[0; 16]).await.unwrap();
        let error = stream.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (ErrorKind::TimedOut, STALL_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn s099_a_slow_peer_is_waited_for() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut stream = Patient::new(ours);
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
}
