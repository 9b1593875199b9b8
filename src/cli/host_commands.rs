//! `capstan host` and `capstan cluster` on a server. Owns what each of them is given; what it answers is `capstan_commands`'.

use std::io::{StdinLock, Stdout, stdin, stdout};

use capstan_base::time::Clock;
use capstan_commands::cluster::args::ClusterCommand;
use capstan_commands::cluster::create;
use capstan_commands::creation::CreationTalk;
use capstan_commands::exit_code::ExitCode;
use capstan_commands::host::args::{HostAddArgs, HostCommand, HostConfirmArgs};
use capstan_commands::host::change::Conversation;
use capstan_commands::host::objects::HostsOfServer;
use capstan_commands::{host, output};
use capstan_dashboard::operations::guard::Guard;

use super::args::Cli;
use super::{OneShot, executor, guard, style};

/// # Errors
/// As the command says.
pub(super) async fn on_host(cli: &Cli, command: &HostCommand) -> anyhow::Result<ExitCode> {
    match command {
        // It needs no server.
        HostCommand::Check(args) => {
            let answer = host::check(args, &Clock::system(), style(cli)).await?;
            output::print(&answer.document)?;
            Ok(answer.exit_code)
        }
        HostCommand::Add(args) => add(&OneShot::open(cli).await?, args).await.map(|()| ExitCode::Success),
        command => on_host_of_server(&OneShot::open(cli).await?, command).await.map(|()| ExitCode::Success),
    }
}

async fn on_host_of_server(on: &OneShot, command: &HostCommand) -> anyhow::Result<()> {
    let hosts = hosts(on);
    let executor = executor(on.connection.clone(), on.clock.clone())?;
    let (mut out, mut answers) = (stdout(), stdin().lock());
    let talk = Conversation { executor: &executor, out: &mut out, answers: &mut answers };
    match command {
        // Neither is about a Host that is there.
        HostCommand::Check(_) | HostCommand::Add(_) => {}
        HostCommand::List(args) => output::print(&host::list::list(&hosts, args, on.style).await?)?,
        HostCommand::Plan(args) => output::print(&on.style.block(host::runs::plan(&hosts, args).await?))?,
        HostCommand::Log(args) => {
            output::print(&on.style.block(host::runs::log(&hosts, args, &on.clock).await?))?;
        }
        HostCommand::Trust(args) => host::change::trust(&hosts, args, talk).await?,
        HostCommand::Release(args) => host::change::release(&hosts, args, &on.clock, talk).await?,
        HostCommand::Adopt(args) => host::change::adopt(&hosts, args, talk).await?,
    }
    Ok(())
}

/// The terminal and the journal of whoever has objects made.
struct CreationTerminal {
    guard: Guard,
    out: Stdout,
    answers: StdinLock<'static>,
}

impl CreationTerminal {
    fn open(on: &OneShot) -> anyhow::Result<Self> {
        Ok(Self { guard: guard(on.clock.clone())?, out: stdout(), answers: stdin().lock() })
    }

    fn talk<'t>(
        &'t mut self,
        on: &'t OneShot,
        confirm: &'t HostConfirmArgs,
    ) -> CreationTalk<'t, Stdout, StdinLock<'static>> {
        let Self { guard, out, answers } = self;
        CreationTalk { connection: &on.connection, guard, confirm, out, answers }
    }
}

async fn add(on: &OneShot, args: &HostAddArgs) -> anyhow::Result<()> {
    host::add::add(&hosts(on), args, &on.clock, CreationTerminal::open(on)?.talk(on, &args.confirm)).await
}

/// # Errors
/// As the command says.
pub(super) async fn on_cluster(cli: &Cli, command: &ClusterCommand) -> anyhow::Result<()> {
    let ClusterCommand::Create(args) = command;
    let on = OneShot::open(cli).await?;
    create(&hosts(&on), args, CreationTerminal::open(&on)?.talk(&on, &args.confirm)).await
}

fn hosts(on: &OneShot) -> HostsOfServer<'_> {
    HostsOfServer { connection: &on.connection, namespace: &on.namespace }
}
