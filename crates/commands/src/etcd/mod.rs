//! `capstan etcd status`: one look at an etcd, of a Cluster or at given addresses. Owns what is read for it and the exit code; must not know how
//! members are asked.

mod text;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::exit_code::ExitCode;
use super::output::{self, Style};
use crate::arguments::PlanOutputArg;
use capi_rules::etcd::facts::Facts;
use capi_rules::etcd::report::{EtcdState, Report};
use capi_types::key::ObjectKey;
use capstan_dashboard::operations::{ClusterEtcd, EtcdReader as _};
use capstan_engine::workload::etcd::{Tls, look};

#[derive(Clone, Debug, Args)]
pub struct EtcdStatusArgs {
    /// The etcd of this Cluster, by way of its Secrets and its API
    #[arg(required_unless_present = "endpoints", conflicts_with = "endpoints")]
    pub cluster: Option<String>,
    /// Any etcd: addresses of members, such as https://10.0.0.1:2379,https://10.0.0.2:2379; members that these
    /// list are asked, too
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = endpoint)]
    pub endpoints: Vec<String>,
    /// Who signs the members' certificates (PEM); with it connections use TLS
    #[arg(long, value_name = "FILE", requires = "endpoints")]
    pub cacert: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["cacert", "key"])]
    pub cert: Option<PathBuf>,
    /// Key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
    /// Exit 0 healthy, 11 degraded, 12 critical, 13 no member answered
    #[arg(long)]
    pub exit_status: bool,
}

fn endpoint(text: &str) -> Result<String, &'static str> {
    let address = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    let address = address.trim_end_matches('/');
    // The text becomes part of a URL: a slash or a question mark would lead elsewhere.
    let is_of_address = |c: char| c.is_ascii_alphanumeric() || ".:-_[]%".contains(c);
    if address.is_empty() || !address.chars().all(is_of_address) {
        return Err("expected an address such as https://10.0.0.1:2379");
    }
    Ok(text.to_owned())
}

/// How long an election, or news of a change, may take before it counts.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(1);

/// What the command prints, and how it ends with `--exit-status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub document: String,
    pub exit_code: ExitCode,
}

/// Asks the members at the addresses given.
///
/// # Errors
/// A certificate file that cannot be read, in a sentence. A member that does not answer is not an error.
pub async fn of_addresses(args: &EtcdStatusArgs, style: Style) -> anyhow::Result<Printed> {
    let tls = tls(args)?;
    let report = judged(async || Ok(look(&args.endpoints, tls.as_ref()).await)).await?;
    printed(&report, args, style)
}

/// Asks the members of a Cluster's etcd.
///
/// # Errors
/// Why no member could be asked, in a sentence.
pub async fn of_cluster(
    etcd: &ClusterEtcd,
    cluster: &ObjectKey,
    args: &EtcdStatusArgs,
    style: Style,
) -> anyhow::Result<Printed> {
    let report = judged(async || etcd.look(cluster).await).await?;
    printed(&report, args, style)
}

/// One look, or two where the first shows what may pass by itself.
async fn judged(look: impl AsyncFn() -> Result<Facts, String>) -> anyhow::Result<Report> {
    let look = async || look().await.map_err(anyhow::Error::msg);
    let first = look().await?;
    let report = Report::of(&first, None);
    if !report.may_pass() {
        return Ok(report);
    }
    tokio::time::sleep(SECOND_LOOK_AFTER).await;
    Ok(Report::of(&look().await?, Some(&first)))
}

fn printed(report: &Report, args: &EtcdStatusArgs, style: Style) -> anyhow::Result<Printed> {
    let document = match args.output {
        PlanOutputArg::Json => output::json(report)?,
        PlanOutputArg::Text => text::text(report),
    };
    Ok(Printed { document: style.block(document), exit_code: exit_code(report.state) })
}

fn exit_code(state: EtcdState) -> ExitCode {
    match state {
        EtcdState::Healthy => ExitCode::Success,
        EtcdState::Degraded => ExitCode::Degraded,
        EtcdState::Critical => ExitCode::Blocked,
        EtcdState::Unknown => ExitCode::Unknown,
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
