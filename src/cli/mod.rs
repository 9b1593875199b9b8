//! The composition root: arguments, modes, wiring, one-shot commands, exit codes.

pub mod act;
pub mod args;
pub mod audit;
pub mod backup;
pub mod crds;
pub mod dashboard;
pub mod describe;
pub mod descriptors;
mod documents;
pub mod get;
pub mod listen;
mod log;
pub mod memory;
pub mod output;
pub mod paths;
pub mod plan;
pub mod server;
pub mod status_compute;
mod status_report;
pub mod store;
pub mod target;
pub mod wait;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{CommandFactory as _, Parser as _};

use crate::actions::journal::Journal;
use crate::actions::{Action, Desk, Request};
use crate::client::connect::prepare;
use crate::client::{ConnectOptions, Connection, connect};
use crate::rng::Rng;
use crate::time::{Clock, parse_moment};
use crate::tui::{Exit, Tier};
use args::{Cli, Command, ConnectArgs, RolloutCommand, StatusCommand, StatusComputeArgs, TargetArgs};
use log::Terminal;
use output::Style;
use wait::Waited;

/// Parses, runs, prints the error chain once. Exit codes are listed in `--help`.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_park(memory::give_back_when_idle)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return output::fail(&format!("cannot start the async runtime: {error}")),
    };
    let result = runtime.block_on(run(&cli));
    // Blocking work that is left (a slow name lookup) must not hold the exit up.
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(error) => output::fail(&output::sentence(&error)),
    }
}

async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let terminal = match &cli.command {
        None | Some(Command::Demo(_)) => Terminal::Taken,
        Some(Command::Standalone(args)) if !(args.headless || args.check || args.repair) => Terminal::Taken,
        Some(Command::Standalone(_) | Command::Engine(_)) => Terminal::Free,
        Some(_) => Terminal::Taken,
    };
    let _log = log::start(&cli.log, terminal)?;
    match &cli.command {
        None => {
            memory::give_back_at_once();
            let connection = prepare(&options(&cli.connect)).await?;
            let (clock, rng) = (Clock::system(), Rng::from_entropy());
            Ok(after(dashboard::show(&connection, &cli.connect, &cli.screen, clock, &rng).await?))
        }
        Some(Command::Demo(args)) => Ok(after(server::demo(cli, args).await?)),
        Some(Command::Standalone(args)) if args.check || args.repair => {
            output::print(&store::upkeep(args, &Clock::system())?)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Standalone(args)) => Ok(after(server::standalone(cli, args).await?)),
        Some(Command::Engine(args)) => {
            let connection = connect(&options(&cli.connect)).await?;
            Ok(after(server::engine(cli, args, connection).await?))
        }
        Some(Command::Backup(args)) => {
            let clock = Clock::system();
            if args.is_at_rest() {
                backup::backup_at_rest(args, &clock).await?;
            } else {
                backup::backup(args, &connect(&options(&cli.connect)).await?, &clock).await?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Restore(args)) => {
            backup::restore(args, &Clock::system()).await?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Status(StatusCommand::Compute(args))) => Ok(status_compute(cli, args)),
        Some(Command::Plan(args)) if !args.files.is_empty() => {
            let style = Style::detect(dashboard::tier(cli.screen.color) == Tier::None);
            let namespace = cli.connect.namespace.as_deref();
            planned(&plan::from_files(args, namespace, Clock::system().now(), style)?)
        }
        Some(Command::Crds) => {
            output::print(&crds::render()?)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "capstan", &mut script);
            output::print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(command) => one_shot(cli, command).await,
    }
}

/// Exit codes as kubectl diff has them: 0 nothing differs, 1 something does, 2 it failed.
fn status_compute(cli: &Cli, args: &StatusComputeArgs) -> ExitCode {
    let style = Style::detect(dashboard::tier(cli.screen.color) == Tier::None);
    match computed(args, style) {
        Ok(differs) => ExitCode::from(u8::from(args.diff && differs)),
        Err(error) => {
            let _ = output::fail(&output::sentence(&error));
            ExitCode::from(2)
        }
    }
}

/// Prints the answer; does anything differ?
fn computed(args: &StatusComputeArgs, style: Style) -> anyhow::Result<bool> {
    let clock = Clock::system();
    let now = match &args.now {
        Some(text) => parse_moment(text, clock.now()).with_context(|| {
            format!(
                "--now {text}: expected a moment such as 2026-11-20T10:00:00Z, or one from now such as +2h"
            )
        })?,
        None => clock.now(),
    };
    let answer = status_compute::run(args, now, style)?;
    output::print(&answer.document)?;
    answer.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(answer.differs)
}

async fn one_shot(cli: &Cli, command: &Command) -> anyhow::Result<ExitCode> {
    let connection = connect(&options(&cli.connect)).await?;
    let namespace = if cli.connect.all_namespaces { "" } else { connection.namespace.as_str() };
    let style = Style::detect(dashboard::tier(cli.screen.color) == Tier::None);
    let clock = Clock::system();
    match command {
        Command::Get(args) => {
            let answer = get::get(&connection, args, namespace, style).await?;
            output::print(&answer.document)?;
            answer.remark.iter().for_each(|remark| output::remark(remark));
            Ok(ExitCode::SUCCESS)
        }
        Command::Describe(args) => {
            let described = describe::describe(&connection, args, namespace, clock.now(), style).await?;
            output::print(&described.document)?;
            described.remarks.iter().for_each(|remark| output::remark(remark));
            Ok(ExitCode::from(if args.exit_status { output::exit_code(described.verdict) } else { 0 }))
        }
        Command::Plan(args) => {
            planned(&plan::from_server(&connection, args, namespace, clock.now(), style).await?)
        }
        Command::Wait(args) => {
            match wait::wait(&connection, args, namespace, clock, Rng::from_entropy()).await? {
                Waited::Reached { remark } => {
                    remark.iter().for_each(|remark| output::remark(remark));
                    Ok(ExitCode::SUCCESS)
                }
                Waited::TimedOut { last, verdict } => {
                    output::remark(&last);
                    // An object that is ok and still not what was waited for has failed, too.
                    let code = output::exit_code(verdict).max(1);
                    Ok(ExitCode::from(if args.exit_status { code } else { 1 }))
                }
            }
        }
        command => {
            let (target, action) = asked(command, &Clock::system())?;
            act_on(connection, target, action).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn planned(answer: &plan::Answer) -> anyhow::Result<ExitCode> {
    output::print(&answer.document)?;
    answer.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(ExitCode::SUCCESS)
}

/// What a command asks for, as an action on a target.
fn asked<'a>(command: &'a Command, clock: &Clock) -> anyhow::Result<(&'a TargetArgs, Action)> {
    Ok(match command {
        Command::Scale(args) => (&args.target, Action::Scale { replicas: args.replicas }),
        Command::Rollout(RolloutCommand::Restart(target)) => (target, Action::Restart),
        Command::Rollout(RolloutCommand::After { target, at }) => {
            let at = parse_moment(at, clock.now()).with_context(|| {
                format!(
                    "--at {at}: expected a moment such as 2026-11-20T22:00:00Z, or one from now such as +2h"
                )
            })?;
            (target, Action::RolloutAfter { at })
        }
        Command::SetVersion(args) => (&args.target, Action::SetVersion { version: args.to.clone() }),
        Command::Pause(target) => (target, Action::Pause),
        Command::Resume(target) => (target, Action::Resume),
        Command::Delete(target) => (target, Action::Delete),
        _ => bail!("that is not an action"),
    })
}

async fn act_on(connection: Connection, target: &TargetArgs, action: Action) -> anyhow::Result<()> {
    let request = Request { target: target::parse(&target.target, &connection.namespace)?, action };
    let desk = Desk::new(connection, Journal::at(paths::journal()?), Clock::system(), dashboard::user());
    act::act(&desk, request, &target.confirm, &mut std::io::stdout(), &mut std::io::stdin().lock()).await
}

fn options(args: &ConnectArgs) -> ConnectOptions {
    ConnectOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        namespace: args.namespace.clone(),
        read_only: args.read_only,
    }
}

/// Leaving is success; a signal exits as shells expect, 128 and its number.
fn after(exit: Exit) -> ExitCode {
    match exit {
        Exit::Quit => ExitCode::SUCCESS,
        Exit::Signal(number) => ExitCode::from(u8::try_from(128 + number).unwrap_or(1)),
        Exit::Hangup => ExitCode::from(129),
    }
}
