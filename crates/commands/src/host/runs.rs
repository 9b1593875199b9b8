//! `capstan host plan` and `capstan host log`: what a run is, and what it said. Owns how they are read; secrets leave neither.

use std::sync::Arc;

use super::args::{HostLogArgs, HostNamedArgs};
use super::objects::HostsOfServer;
use super::run_log::RunLog;
use crate::arguments::PlanOutputArg;
use crate::output;
use capstan_base::time::Clock;
use capstan_host_provider::ssh::SshMachines;

/// # Errors
/// The Host has no run, or its run cannot be read.
pub async fn plan(hosts: &HostsOfServer<'_>, args: &HostNamedArgs) -> anyhow::Result<String> {
    let run = hosts.run(&hosts.host(&args.name).await?).await?;
    match args.output {
        PlanOutputArg::Json => Ok(output::json(&run)?),
        PlanOutputArg::Text => Ok(run.to_string()),
    }
}

/// The whole log.
///
/// # Errors
/// The Host has no run, or ssh to its machine fails.
pub async fn log(hosts: &HostsOfServer<'_>, args: &HostLogArgs, clock: &Clock) -> anyhow::Result<String> {
    let machines = Arc::new(SshMachines::new(&args.ssh_program, clock.clone(), true));
    let mut log = RunLog::open(machines, hosts, &args.name).await?;
    let mut text = String::new();
    while !log.is_at_end {
        text.push_str(&log.more().await?);
    }
    Ok(if text.is_empty() { "The run has said nothing yet.\n".to_owned() } else { text })
}
