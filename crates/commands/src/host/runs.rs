//! `capstan host plan` and `capstan host log`: what a run is, and what it said. Owns how they are read; secrets leave neither.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use super::args::{HostLogArgs, HostNamedArgs};
use super::objects::HostsOfServer;
use crate::arguments::PlanOutputArg;
use crate::output;
use capstan_base::time::Clock;
use capstan_host_provider::access::Machines;
use capstan_host_provider::ssh::SshMachines;

/// # Errors
/// There is no run, or it cannot be known.
pub async fn plan(hosts: &HostsOfServer<'_>, args: &HostNamedArgs) -> anyhow::Result<String> {
    let run = hosts.run(&hosts.host(&args.name).await?).await?;
    match args.output {
        PlanOutputArg::Json => Ok(output::json(&run)?),
        PlanOutputArg::Text => Ok(run.to_string()),
    }
}

/// The whole log: what it may show is known only with the bootstrap data, whose secrets are left out.
///
/// # Errors
/// There is no run, or the machine does not answer.
pub async fn log(hosts: &HostsOfServer<'_>, args: &HostLogArgs, clock: &Clock) -> anyhow::Result<String> {
    let host = hosts.host(&args.name).await?;
    let (run, reach) = (hosts.run(&host).await?, hosts.reach(&host).await?);
    let own = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix("capstan-ssh-").permissions(own).tempdir()?;
    let machines = SshMachines::new(&args.ssh_program, folder.path().to_owned(), clock.clone(), true)?;
    let machines: Arc<dyn Machines> = Arc::new(machines);
    let (mut text, mut from) = (String::new(), 0);
    loop {
        let watched = machines.watch(&reach, &run.id, from, &run.redactor()).await?;
        text.push_str(&watched.log);
        if watched.log_next <= from || watched.log_next >= watched.log_bytes {
            break;
        }
        from = watched.log_next;
    }
    Ok(if text.is_empty() { "The run has said nothing yet.\n".to_owned() } else { text })
}
