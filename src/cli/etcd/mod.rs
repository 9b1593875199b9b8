//! `capstan etcd status`: one look at an etcd. Owns what is read for it and the exit code; must not know how
//! members are asked.

mod text;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::args::{EtcdStatusArgs, PlanOutputArg};
use super::output::{self, Style};
use crate::status::etcd::report::{EtcdState, Report};
use crate::workload::etcd::{Tls, look};

/// How long an election, or news of a change, may take before it counts.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(1);

/// What the command prints, and how it ends with `--exit-status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub document: String,
    pub exit_code: u8,
}

/// Asks the members at the addresses given.
///
/// # Errors
/// A certificate file that cannot be read, in a sentence. Members that do not answer are no error.
pub async fn status(args: &EtcdStatusArgs, style: Style) -> anyhow::Result<Printed> {
    let tls = tls(args)?;
    let first = look(&args.endpoints, tls.as_ref()).await;
    let mut report = Report::of(&first, None);
    if report.may_pass() {
        tokio::time::sleep(SECOND_LOOK_AFTER).await;
        report = Report::of(&look(&args.endpoints, tls.as_ref()).await, Some(&first));
    }
    let document = match args.output {
        PlanOutputArg::Json => output::json(&report)?,
        PlanOutputArg::Text => text::text(&report),
    };
    Ok(Printed { document: style.block(document), exit_code: exit_code(report.state) })
}

/// As `describe --exit-status`: degraded 11, blocked 12, unknown 13.
fn exit_code(state: EtcdState) -> u8 {
    match state {
        EtcdState::Healthy => 0,
        EtcdState::Degraded => 11,
        EtcdState::Critical => 12,
        EtcdState::Unknown => 13,
    }
}

fn tls(args: &EtcdStatusArgs) -> anyhow::Result<Option<Tls>> {
    let read = |option: &str, path: &Path| {
        std::fs::read(path).with_context(|| format!("{option}: cannot read {}", path.display()))
    };
    let Some(authority) = &args.cacert else { return Ok(None) };
    let identity = match (&args.cert, &args.key) {
        (Some(certificate), Some(key)) => Some((read("--cert", certificate)?, read("--key", key)?)),
        _ => None,
    };
    Ok(Some(Tls { authority: read("--cacert", authority)?, identity }))
}
