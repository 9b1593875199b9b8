//! A program run to its end, within bounds of time and of what it prints. Must not know which.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// What a program left behind.
pub(crate) struct Ended {
    /// `None`: it was stopped, as time ran out.
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Runs it with `input`, for `limit` at most; of each stream `bytes_max` are kept, and the rest is read and dropped.
///
/// # Errors
/// It cannot be started.
pub(crate) async fn run_to_end(
    mut command: Command,
    input: &[u8],
    limit: Option<Duration>,
    bytes_max: u64,
) -> io::Result<Ended> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let work = async {
        // Written beside the reading: a program that prints more than a pipe holds before it reads would wait for ever.
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input ends the pipe: its own status says more.
                let _ = stdin.write_all(input).await;
            }
        };
        tokio::join!(write, kept(stdout, bytes_max, &mut out), kept(stderr, bytes_max, &mut err));
        child.wait().await
    };
    let status = match limit {
        Some(limit) => match tokio::time::timeout(limit, work).await {
            Ok(status) => Some(status?),
            Err(_) => None,
        },
        None => Some(work.await?),
    };
    Ok(Ended { status, stdout: out, stderr: err })
}

async fn kept(stream: Option<impl AsyncRead + Unpin>, bytes_max: u64, into: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    // What cannot be read any more has ended.
    let _ = (&mut stream).take(bytes_max).read_to_end(into).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}
