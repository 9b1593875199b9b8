//! Runs a program to its end, within bounds of time and output, and answers its question before sending input. Must not know which
//! program it is.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// A banner, and whatever a login says.
const OPENING_BYTES_MAX: usize = 64 * 1024;

/// What a program asks on its error stream before it takes its input.
#[derive(Clone, Copy)]
pub(crate) struct Opening<'o> {
    pub question: &'o [u8],
    /// One line, written when the question was read, and once.
    pub answer: &'o [u8],
    /// After this comes the input. What stood before it is dropped.
    pub ready: &'o [u8],
}

/// What was read of an opening.
#[derive(Debug, PartialEq, Eq)]
enum Noticed {
    Question,
    Ready,
}

/// What a program left behind.
pub(crate) struct Ended {
    /// `None`: it was stopped, as time ran out.
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// There was no opening, or it came to its end.
    pub is_open: bool,
}

/// Runs it with `input`, for `limit` at most; of each stream `bytes_max` are kept, and the rest is read and dropped.
///
/// # Errors
/// It cannot be started.
pub(crate) async fn run_to_end(
    mut command: Command,
    input: &[u8],
    opening: Option<Opening<'_>>,
    limit: Option<Duration>,
    bytes_max: u64,
) -> io::Result<Ended> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err, mut is_open) = (Vec::new(), Vec::new(), true);
    let work = async {
        let (to_writer, noticed) = channel(4);
        // Written beside the reading: a program that prints more than a pipe holds before it reads would wait for ever.
        let write = async {
            if let Some(stdin) = stdin {
                is_open = write_all(stdin, input, opening, noticed).await;
            }
        };
        let complaints = async {
            if let Some(mut stderr) = stderr {
                opened(&mut stderr, opening, to_writer, &mut err).await;
                kept(Some(stderr), bytes_max, &mut err).await;
            }
        };
        tokio::join!(write, kept(stdout, bytes_max, &mut out), complaints);
        child.wait().await
    };
    let status = match limit {
        Some(limit) => match tokio::time::timeout(limit, work).await {
            Ok(status) => Some(status?),
            Err(_) => None,
        },
        None => Some(work.await?),
    };
    Ok(Ended { status, stdout: out, stderr: err, is_open })
}

/// Whether the input was asked for: a question that comes a second time means that the answer was wrong, and ends it.
async fn write_all(
    mut stdin: ChildStdin,
    input: &[u8],
    opening: Option<Opening<'_>>,
    mut noticed: Receiver<Noticed>,
) -> bool {
    // A program that does not read its input ends the pipe: its own status says more.
    if let Some(opening) = opening {
        let mut is_answered = false;
        loop {
            match noticed.recv().await {
                Some(Noticed::Ready) => break,
                Some(Noticed::Question) if !is_answered => {
                    is_answered = true;
                    let _ = stdin.write_all(opening.answer).await;
                    let _ = stdin.write_all(b"\n").await;
                    let _ = stdin.flush().await;
                }
                Some(Noticed::Question) | None => return false,
            }
        }
    }
    let _ = stdin.write_all(input).await;
    true
}

/// Reads up to the end of an opening; what comes behind it, or all of it where it has no end, is left in `rest`.
async fn opened(
    stream: &mut (impl AsyncRead + Unpin),
    opening: Option<Opening<'_>>,
    to_writer: Sender<Noticed>,
    rest: &mut Vec<u8>,
) {
    let Some(opening) = opening else { return };
    let mut looked = 0;
    let mut chunk = [0_u8; 1024];
    while rest.len() < OPENING_BYTES_MAX {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(bytes) => rest.extend_from_slice(&chunk[..bytes]),
        }
        if let Some(at) = found(rest, opening.ready) {
            rest.drain(..at);
            // Whoever listens no more has ended.
            let _ = to_writer.send(Noticed::Ready).await;
            return;
        }
        while let Some(at) = found(&rest[looked..], opening.question) {
            looked += at;
            let _ = to_writer.send(Noticed::Question).await;
        }
    }
}

/// Where it ends.
fn found(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|part| part == what).map(|at| at + what.len())
}

async fn kept(stream: Option<impl AsyncRead + Unpin>, bytes_max: u64, into: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    // What cannot be read any more has ended.
    let _ = (&mut stream).take(bytes_max).read_to_end(into).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}
