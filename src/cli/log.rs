//! The program's own log: a file, or nothing while the dashboard is up, or stderr for services.
//! Owns set-up only.

use anyhow::Context as _;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;

use super::args::LogArgs;
use capstan_base::private_file;

/// Whether lines may go to stderr when no file is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// The dashboard, or the output of a command, is on it.
    Taken,
    /// A service, which prints nothing else.
    Free,
}

/// Starts logging. Lines are written by a thread of their own; keep the guard until the end.
///
/// # Errors
/// A file that cannot be opened.
pub fn start(args: &LogArgs, terminal: Terminal) -> anyhow::Result<Option<WorkerGuard>> {
    let filter = EnvFilter::try_new(&args.log_level).context("--log-level")?;
    let filter = filter.add_directive(once_per_request()?);
    let (writer, guard) = match (&args.log_file, terminal) {
        (Some(path), _) => tracing_appender::non_blocking(private_file::append(path).context("--log-file")?),
        (None, Terminal::Free) => tracing_appender::non_blocking(std::io::stderr()),
        (None, Terminal::Taken) => return Ok(None),
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false).init();
    Ok(Some(guard))
}

/// Silences a warning that kube's TLS code repeats for every request to a server whose certificate
/// is not verified because of the kubeconfig (`insecure-skip-tls-verify`).
fn once_per_request() -> anyhow::Result<Directive> {
    Ok("kube_client::client::tls=error".parse()?)
}
