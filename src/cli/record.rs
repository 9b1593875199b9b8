//! `capstan record FILE`: what the watches of a server bring, into a new file that only its owner can read. Owns the file and
//! its bounds; must not know what is recorded.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use tokio::sync::mpsc;

use super::args::{ConnectArgs, RecordArgs};
use capstan_base::rng::Rng;
use capstan_base::text::counted;
use capstan_base::time::{Clock, human_duration};
use capstan_commands::exit_code::ExitCode;
use capstan_dashboard::fleet::watch::{TapeLine, tape};
use capstan_engine::client::connect::prepare;

/// Why a recording ended.
enum Ended {
    Stopped,
    Full,
    Over,
    /// The watches ended by themselves.
    Lost,
}

impl Ended {
    /// As the last line of the file has it.
    fn word(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Full => "full",
            Self::Over => "over",
            Self::Lost => "lost",
        }
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Stopped | Self::Full | Self::Over => ExitCode::Success,
            Self::Lost => ExitCode::Failure,
        }
    }

    /// What a person has to know of it.
    fn remark(&self) -> &'static str {
        match self {
            Self::Stopped | Self::Over => "",
            Self::Full => ", as much as --max-size allows",
            Self::Lost => ", until the watches of the server ended",
        }
    }
}

/// Records until a signal, the time or the size ends it.
///
/// # Errors
/// No connection, or a file that is there already or cannot be written.
pub async fn record(connect: &ConnectArgs, args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let options = super::options(connect)?;
    let connection = prepare(&options).await?;
    let clock = Clock::system();
    let scope = super::dashboard::looked_at(connect, &connection);
    let mut file = create(&args.file)?;
    let (lines, _taping) = tape(&connection, scope, clock.clone(), Rng::from_entropy());
    tracing::info!("recording {} into {}; ctrl-c ends it", connection.context, args.file.display());
    let began = clock.now();
    let (ended, written) = write(lines, &mut file, args)
        .await
        .with_context(|| format!("cannot write {}; what is in it can be replayed", args.file.display()))?;
    file.write_all(last_line(&ended, clock.now().timestamp_millis()).as_bytes())?;
    let passed = human_duration((clock.now() - began).num_seconds());
    tracing::info!(
        "recorded {passed}, {} in {} KiB{}; `capstan dashboard --replay {}` shows it",
        counted(written.lines, "line"),
        written.bytes / 1024,
        ended.remark(),
        args.file.display()
    );
    Ok(ended.exit_code())
}

fn last_line(ended: &Ended, at: i64) -> String {
    TapeLine::End { at, why: ended.word().to_owned() }.text()
}

fn create(path: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path);
    opened.with_context(|| format!("cannot make {}", path.display()))
}

#[derive(Default)]
struct Recorded {
    lines: usize,
    bytes: u64,
}

/// Each batch is in the file before the next one is looked at: whoever kills this loses nothing that was there.
async fn write(
    mut lines: mpsc::Receiver<Vec<TapeLine>>,
    file: &mut File,
    args: &RecordArgs,
) -> anyhow::Result<(Ended, Recorded)> {
    let mut written = Recorded::default();
    let mut stop = std::pin::pin!(super::engine::stopped());
    let mut over = std::pin::pin!(async {
        match args.duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    });
    loop {
        let batch = tokio::select! {
            biased;
            stopped = &mut stop => {
                stopped?;
                return Ok((Ended::Stopped, written));
            }
            () = &mut over => return Ok((Ended::Over, written)),
            batch = lines.recv() => {
                let Some(batch) = batch else { return Ok((Ended::Lost, written)) };
                batch
            }
        };
        let text: String = batch.iter().map(TapeLine::text).collect();
        if written.bytes + text.len() as u64 > args.max_size << 20 {
            return Ok((Ended::Full, written));
        }
        file.write_all(text.as_bytes())?;
        written.lines += batch.len();
        written.bytes += text.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line(at: i64) -> TapeLine {
        TapeLine::ClusterApi { at, version: "v1.14.2".to_owned() }
    }

    /// Records what comes until `is_open` says that the watches end, and what the file has then.
    async fn recorded(is_open: bool, args: RecordArgs) -> (Ended, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let args = RecordArgs { file: folder.path().join("tape"), ..args };
        let mut file = create(&args.file).expect("a new file");
        let (watches, lines) = mpsc::channel(4);
        for at in 1..=2 {
            watches.send(vec![line(at)]).await.expect("there is room");
        }
        let watches = Some(watches).filter(|_| is_open);
        let (ended, written) = write(lines, &mut file, &args).await.expect("it is written");
        drop(watches);
        file.write_all(last_line(&ended, 3).as_bytes()).expect("it is written");
        let text = std::fs::read_to_string(&args.file).expect("a file");
        assert_eq!(written.lines, text.lines().count() - 1, "{text}");
        (ended, text)
    }

    /// A script that took what was there for all that happened would be wrong.
    #[tokio::test]
    async fn a_recording_whose_watches_end_keeps_what_came_and_fails() {
        let args = RecordArgs { file: "tape".into(), max_size: 1, duration: None };
        let (ended, text) = recorded(false, args).await;
        assert_eq!(text, line(1).text() + &line(2).text() + &last_line(&Ended::Lost, 3));
        assert!(text.ends_with("{\"end\":{\"at\":3,\"why\":\"lost\"}}\n"), "{text}");
        assert_eq!(ended.remark(), ", until the watches of the server ended");
        assert_eq!(ended.exit_code(), ExitCode::Failure);
    }

    #[tokio::test(start_paused = true)]
    async fn a_recording_that_ends_as_it_was_asked_to_succeeds() {
        let over = RecordArgs { file: "tape".into(), max_size: 1, duration: Some(Duration::from_secs(60)) };
        let full = RecordArgs { max_size: 0, ..over.clone() };
        for (args, why, lines) in [(over, "over", 2), (full, "full", 0)] {
            let (ended, text) = recorded(true, args).await;
            assert_eq!((ended.word(), text.lines().count() - 1), (why, lines), "{text}");
            assert_eq!(ended.exit_code(), ExitCode::Success, "{why}");
        }
    }
}
