//! How a command reaches hosts, by its arguments. Owns the choice; commands are run by `reconfigure::executor`.

use super::Session;
use super::args::{ExecutorArg, HostArgs, SshHostArg};
use capstan_dashboard::operations::change::source::{LiveCluster, SourceError, machine_hosts};
use capstan_engine::reconfigure::preflight::Hands;
use capstan_engine::reconfigure::way::HostWay;
use capstan_remote::openssh::OpenSsh;
use capstan_remote::sudo::Sudo;

/// The program that the arguments name.
pub(super) fn ssh_of(args: &HostArgs) -> OpenSsh {
    let named = OpenSsh::named(&args.ssh_program);
    let sudo = if args.sudo { Sudo::Passwordless } else { Sudo::No };
    OpenSsh { user: args.ssh_user.clone(), sudo, ..named }
}

/// Who runs commands on nodes; `None`: people do.
///
/// # Errors
/// The Machines of a cluster of a fleet cannot be listed.
pub(super) async fn hands<'h>(
    args: &HostArgs,
    live: &LiveCluster,
    session: &'h Session,
    ssh: &'h OpenSsh,
) -> Result<Option<Hands<'h>>, SourceError> {
    if args.executor != ExecutorArg::Ssh {
        return Ok(None);
    }
    let machines = machine_hosts(live).await?;
    let way = HostWay { by_name: args.ssh_host == SshHostArg::Name, machines };
    Ok(Some(Hands { executor: session.executor.as_deref().unwrap_or(ssh), way }))
}
