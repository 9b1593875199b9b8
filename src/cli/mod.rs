//! The composition root: arguments, modes, wiring, one-shot commands, exit codes.

pub mod action_args;
pub mod args;
#[cfg(feature = "worlds")]
pub mod audit;
pub mod backup;
pub mod crds;
pub mod dashboard;
#[cfg(feature = "worlds")]
pub mod descriptors;
pub mod encryption;
pub mod encryption_args;
pub mod engine;
pub mod engine_args;
pub mod exit_code;
#[cfg(feature = "worlds")]
pub mod extension;
mod gates;
mod held_up;
mod host_commands;
mod hosts;
#[cfg(feature = "worlds")]
pub mod listen;
#[cfg(feature = "worlds")]
mod listen_args;
mod log;
pub mod memory;
mod passphrase;
pub mod paths;
mod person;
mod record;
#[cfg(feature = "worlds")]
pub mod rehearse;
mod screen_args;
pub mod sealed_lines;
pub mod secrets;
#[cfg(feature = "worlds")]
pub mod server;
pub mod sharing;
#[cfg(feature = "worlds")]
mod simulated_ssh;
pub mod store;
pub mod store_args;
mod unknown_words;
#[cfg(feature = "worlds")]
pub mod upkeep;

use std::ffi::OsString;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};

use action_args::ActionArgs;
use args::{BackupArgs, Cli, Command, ConnectArgs, EngineArgs, EngineCommand, StatusCommand};
#[cfg(feature = "etcd")]
use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_base::toml_file::FileError;
use capstan_commands::describe::DescribeArgs;
use capstan_commands::engine_status::EngineStatusArgs;
#[cfg(feature = "etcd")]
use capstan_commands::etcd;
use capstan_commands::exit_code::{ExitCode, WrongUsage};
use capstan_commands::get::GetArgs;
use capstan_commands::leader_migration::Printed;
use capstan_commands::leader_migration::args::{LeaderMigrationCommand, NextArgs, WalkthroughArgs};
use capstan_commands::leader_migration::back::back;
use capstan_commands::leader_migration::next::Next;
use capstan_commands::leader_migration::walkthrough::{Extent, reach, walk};
use capstan_commands::metrics::{self, MetricsArgs};
use capstan_commands::output::Style;
use capstan_commands::plan::PlanArgs;
use capstan_commands::simulate::args::SimulateArgs;
use capstan_commands::status_compute::StatusComputeArgs;
use capstan_commands::wait::{WaitArgs, Waited};
use capstan_commands::watch::{self, WatchArgs};
use capstan_commands::{
    act, change, describe, engine_status, get, leader_migration, leases, output, plan, simulate,
    status_compute, wait,
};
use capstan_dashboard::actions::{Executor, Request};
use capstan_dashboard::fleet::Verdict;
use capstan_dashboard::fleet::watch::nap_while_watches_rest;
#[cfg(feature = "etcd")]
use capstan_dashboard::operations;
use capstan_dashboard::operations::change::ClusterConfigurations;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use capstan_dashboard::operations::{ServerBudgets, ServerLocks};
use capstan_dashboard::tui::{Exit, Tier};
use capstan_engine::client::{
    ConnectOptions, Connection, ContextSettings, PluginTerminal, connect, connect_within,
};
use log::Terminal;

/// Parses, runs, prints the error chain once.
pub fn main() -> std::process::ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = matches(&words).unwrap_or_else(|error| error.exit());
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // Whoever passes a wallboard must not be able to do anything from there.
    cli.connect.read_only |= cli.screen.wallboard;
    let code = end(&cli).unwrap_or_else(|error| output::fail(&error, ExitCode::Failure));
    // In debug builds alone: a row that is missing must not turn an answer into a panic.
    if cfg!(debug_assertions) {
        let command = exit_code::command_of(&matches);
        assert!(exit_code::is_listed(&command, code), "`{command}` may not end with {code:?}");
    }
    code.into()
}

/// Reads a command line, whose first word is the program.
///
/// # Errors
/// What is not understood, and all that clap prints, such as help.
pub fn matches(words: &[OsString]) -> Result<clap::ArgMatches, clap::Error> {
    Cli::command().try_get_matches_from(words).map_err(|error| unknown_words::with_answer(error, words))
}

/// Runs a command to its end.
fn end(cli: &Cli) -> anyhow::Result<ExitCode> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all();
    if is_only_a_reader(cli.command.as_ref()) {
        builder.worker_threads(READERS).on_thread_park(|| {
            memory::give_back_when_idle();
            nap_while_watches_rest();
        });
    } else {
        builder.on_thread_park(memory::give_back_when_idle);
    }
    let runtime = builder.build().context("cannot start the async runtime")?;
    let result = runtime.block_on(run(cli));
    // Blocking work that is left (a slow name lookup) must not hold the exit up.
    runtime.shutdown_background();
    result
}

/// Threads of a dashboard over somebody else's server, besides the one that draws. A connection hands every change that it
/// reads to the task that decodes it: on one thread that costs nothing, on two each wakes the other, several times for each
/// change.
const READERS: usize = 1;

/// Does it only show what a server sends?
fn is_only_a_reader(command: Option<&Command>) -> bool {
    matches!(command, None | Some(Command::Dashboard(_)))
}

async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let _log = log::start(&cli.log, terminal(cli.command.as_ref()))?;
    let Some(command) = &cli.command else { return show(cli).await };
    match command {
        Command::Dashboard(args) if args.files.is_empty() && args.replay.is_none() => return show(cli).await,
        Command::Dashboard(args) => return Ok(after(dashboard::browse(args, &cli.screen).await?)),
        #[cfg(feature = "worlds")]
        Command::Demo(args) => return Ok(after(server::demo(cli, args).await?)),
        #[cfg(feature = "worlds")]
        Command::Standalone(args) => return standalone(cli, args).await,
        Command::Record(args) => return record::record(&cli.connect, args).await,
        Command::Engine(EngineArgs { command: Some(EngineCommand::Status(args)), .. }) => {
            engine_status(&OneShot::open(cli).await?, cli, args).await?;
        }
        Command::Engine(args) => {
            return Ok(after(engine::run(cli, args).await?));
        }
        Command::Get(args) => get(&OneShot::open(cli).await?, args).await?,
        Command::Describe(args) => return describe(cli, args).await,
        Command::Plan(args) => plan(cli, args).await?,
        Command::Simulate(args) => simulate(cli, args).await?,
        Command::Wait(args) => return wait(cli, args).await,
        Command::Watch(args) => return Ok(after(watch_fleet(cli, args).await?)),
        Command::Metrics(args) => return Ok(after(serve_metrics(cli, args).await?)),
        Command::Act(args) => return act_on(cli, args).await,
        Command::Backup(args) => backup(cli, args).await?,
        Command::Restore(args) => backup::restore(args, &Clock::system()).await?,
        Command::EncryptionKey(command) => output::print(&encryption::run(command).await?)?,
        Command::Status(StatusCommand::Compute(args)) => return status_compute(cli, args),
        #[cfg(feature = "etcd")]
        Command::Etcd(args::EtcdCommand::Status(args)) => return etcd_status(cli, args).await,
        Command::Change(command @ change::args::ChangeCommand::Diff(_)) => {
            return Ok(comparison(change_configuration(cli, command).await));
        }
        Command::Change(command) => return change_configuration(cli, command).await,
        Command::Host(command) => return host_commands::on_host(cli, command).await,
        Command::Cluster(command) => host_commands::on_cluster(cli, command).await?,
        Command::Leases(args) => {
            let namespace = match (&cli.connect.namespace, cli.connect.all_namespaces) {
                (Some(namespace), _) => namespace.as_str(),
                (None, true) => "",
                // Where the components of control planes have their Leases.
                (None, false) => "kube-system",
            };
            let on = OneShot::open(cli).await?;
            output::print(
                &leases::leases(&on.connection.client, args, namespace, &on.clock, on.style).await?,
            )?;
        }
        Command::LeaderMigration(command) => return migrate_leaders(cli, command).await,
        #[cfg(feature = "worlds")]
        Command::Extension(args::ExtensionCommand::Serve(args)) => {
            return Ok(after(extension::serve(cli, args).await?));
        }
        #[cfg(feature = "worlds")]
        Command::SimulatedSsh(args) => return Ok(ExitCode::OfHost(simulated_ssh::run(args).await?)),
        Command::Crds => output::print(&crds::render()?)?,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "capstan", &mut script);
            output::print(&String::from_utf8_lossy(&script))?;
        }
    }
    Ok(ExitCode::Success)
}

/// The dashboard over the server of the kubeconfig.
async fn show(cli: &Cli) -> anyhow::Result<ExitCode> {
    memory::give_back_soon();
    Ok(after(dashboard::show_kubeconfig(&cli.connect, &cli.screen).await?))
}

/// Who has the terminal: a dashboard and the output of a one-shot command leave none of it to the log.
fn terminal(command: Option<&Command>) -> Terminal {
    match command {
        None | Some(Command::Dashboard(_)) => Terminal::Taken,
        #[cfg(feature = "worlds")]
        Some(Command::Demo(_) | Command::SimulatedSsh(_)) => Terminal::Taken,
        #[cfg(feature = "worlds")]
        Some(Command::Standalone(args)) if !(args.headless || args.check || args.repair) => Terminal::Taken,
        #[cfg(feature = "worlds")]
        Some(Command::Standalone(_) | Command::Extension(_)) => Terminal::Free,
        Some(Command::Engine(args)) if args.command.is_some() => Terminal::Taken,
        Some(Command::Engine(_) | Command::Metrics(_) | Command::Record(_)) => Terminal::Free,
        Some(
            Command::Get(_)
            | Command::Describe(_)
            | Command::Plan(_)
            | Command::Simulate(_)
            | Command::Wait(_)
            | Command::Watch(_)
            | Command::Act(_)
            | Command::Backup(_)
            | Command::Restore(_)
            | Command::EncryptionKey(_)
            | Command::Status(_)
            | Command::Change(_)
            | Command::Host(_)
            | Command::Cluster(_)
            | Command::Leases(_)
            | Command::LeaderMigration(_)
            | Command::Crds
            | Command::Completions { .. },
        ) => Terminal::Taken,
        #[cfg(feature = "etcd")]
        Some(Command::Etcd(_)) => Terminal::Taken,
    }
}

#[cfg(feature = "worlds")]
async fn standalone(cli: &Cli, args: &args::StandaloneArgs) -> anyhow::Result<ExitCode> {
    if args.check || args.repair {
        output::print(&upkeep::run(args, &Clock::system())?)?;
        return Ok(ExitCode::Success);
    }
    Ok(after(server::standalone(cli, args).await?))
}

async fn backup(cli: &Cli, args: &BackupArgs) -> anyhow::Result<()> {
    let clock = Clock::system();
    if args.is_at_rest() {
        return backup::backup_at_rest(args, &clock).await;
    }
    backup::backup(args, &connect(&options(&cli.connect)?).await?, &clock).await
}

/// A failure of a command that says by 1 that something differs.
fn comparison(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| output::fail(&error, ExitCode::ComparisonFailed))
}

fn status_compute(cli: &Cli, args: &StatusComputeArgs) -> anyhow::Result<ExitCode> {
    let differs = computed(args, style(cli));
    if !args.diff {
        return differs.map(|_| ExitCode::Success);
    }
    Ok(comparison(differs.map(|differs| if differs { ExitCode::Differs } else { ExitCode::Success })))
}

fn change_session(cli: &Cli) -> anyhow::Result<change::Session> {
    let reach = change::source::Reach::Options(options(&cli.connect)?);
    Ok(change::Session { reach, style: style(cli), guard: guard(Clock::system())?, executor: None })
}

async fn change_configuration(cli: &Cli, command: &change::args::ChangeCommand) -> anyhow::Result<ExitCode> {
    let session = change_session(cli)?;
    let (mut out, mut answers) = (std::io::stdout(), std::io::BufReader::new(std::io::stdin()));
    let answer = change::run(command, &session, &mut out, &mut answers).await?;
    output::print(&answer.document)?;
    answer.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(answer.exit_code)
}

/// Prints the answer; does anything differ?
fn computed(args: &StatusComputeArgs, style: Style) -> anyhow::Result<bool> {
    let clock = Clock::system();
    let now = args.now.map_or(clock.now(), |moment| moment.seen_from(clock.now()));
    let answer = status_compute::run(args, now, style)?;
    output::print(&answer.document)?;
    answer.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(answer.differs)
}

/// What commands that read a server have in common.
struct OneShot {
    connection: Connection,
    /// Empty for all namespaces.
    namespace: String,
    style: Style,
    clock: Clock,
}

impl OneShot {
    async fn open(cli: &Cli) -> anyhow::Result<Self> {
        Ok(Self::of(cli, connect(&options(&cli.connect)?).await?))
    }

    fn of(cli: &Cli, connection: Connection) -> Self {
        let namespace = if cli.connect.all_namespaces { String::new() } else { connection.namespace.clone() };
        Self { connection, namespace, style: style(cli), clock: Clock::system() }
    }
}

fn style(cli: &Cli) -> Style {
    Style::detect(dashboard::tier(cli.screen.color) == Tier::None)
}

async fn get(on: &OneShot, args: &GetArgs) -> anyhow::Result<()> {
    let answer = get::get(&on.connection, args, &on.namespace, on.clock.now(), on.style).await?;
    output::print(&answer.document)?;
    answer.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(())
}

async fn describe(cli: &Cli, args: &DescribeArgs) -> anyhow::Result<ExitCode> {
    let described = if args.files.is_empty() {
        let on = OneShot::open(cli).await?;
        describe::describe(&on.connection, args, &on.namespace, on.clock.now(), on.style).await?
    } else {
        let namespace = cli.connect.namespace.as_deref();
        describe::files::from_files(args, namespace, Clock::system().now(), style(cli))?
    };
    output::print(&described.document)?;
    described.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(if args.exit_status { ExitCode::of_verdict(described.verdict) } else { ExitCode::Success })
}

async fn plan(cli: &Cli, args: &PlanArgs) -> anyhow::Result<()> {
    let answer = if args.files.is_empty() {
        let on = OneShot::open(cli).await?;
        plan::from_server(&on.connection, args, &on.namespace, on.clock.now(), on.style).await?
    } else {
        plan::from_files(args, cli.connect.namespace.as_deref(), Clock::system().now(), style(cli))?
    };
    output::print(&answer.document)?;
    answer.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(())
}

async fn simulate(cli: &Cli, args: &SimulateArgs) -> anyhow::Result<()> {
    let answer = if args.files.is_empty() {
        let on = OneShot::open(cli).await?;
        // Without what was kept the simulation is less exact, but not wrong.
        let folder = paths::state_dir().ok();
        let kept =
            folder.map(|folder| simulate::remembered(&folder, &on.connection.context)).unwrap_or_default();
        simulate::from_server(&on.connection, args, &on.namespace, (on.clock.now(), &kept), on.style).await?
    } else {
        simulate::from_files(args, cli.connect.namespace.as_deref(), Clock::system().now(), style(cli))?
    };
    output::print(&answer.document)?;
    answer.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(())
}

#[cfg(feature = "etcd")]
async fn etcd_status(cli: &Cli, args: &etcd::EtcdStatusArgs) -> anyhow::Result<ExitCode> {
    let answer = match &args.cluster {
        Some(name) => {
            let OneShot { connection, namespace, style, clock } = OneShot::open(cli).await?;
            let etcd = operations::ClusterEtcd { connection, clock };
            etcd::of_cluster(&etcd, &ObjectKey::new(namespace, name), args, style).await?
        }
        None => etcd::of_addresses(args, style(cli)).await?,
    };
    output::print(&answer.document)?;
    Ok(if args.exit_status { answer.exit_code } else { ExitCode::Success })
}

async fn walkthrough(cli: &Cli, args: &WalkthroughArgs, extent: Extent) -> anyhow::Result<Printed> {
    let live = reach(connect(&options(&cli.connect)?).await?, args).await?;
    walk(&live, args, extent, Clock::system().now()).await
}

async fn engine_status(on: &OneShot, cli: &Cli, args: &EngineStatusArgs) -> anyhow::Result<()> {
    let namespace = args.lease_namespace.as_deref().or(cli.connect.namespace.as_deref()).unwrap_or("default");
    let leases = engine_status::look(&on.connection.client, namespace).await?;
    output::print(&engine_status::print(&leases, on.clock.now(), args.output, on.style)?)?;
    if leases.is_empty() {
        output::remark(&format!("no engine has worked with Leases in {namespace}"));
    }
    Ok(())
}

async fn migrate_leaders(cli: &Cli, command: &LeaderMigrationCommand) -> anyhow::Result<ExitCode> {
    let printed = match command {
        LeaderMigrationCommand::Validate(args) => leader_migration::validate(args, style(cli))?,
        LeaderMigrationCommand::Generate(args) => leader_migration::generate(args)?,
        LeaderMigrationCommand::Defaults { version } => leader_migration::defaults(*version)?,
        LeaderMigrationCommand::Status(args) => walkthrough(cli, args, Extent::Status).await?,
        LeaderMigrationCommand::Next(args) if args.apply => return next_of_migration(cli, args).await,
        LeaderMigrationCommand::Next(args) => walkthrough(cli, &args.walk, Extent::Next).await?,
        LeaderMigrationCommand::Plan(args) => walkthrough(cli, args, Extent::Plan).await?,
        LeaderMigrationCommand::Back(args) => {
            let live = reach(connect(&options(&cli.connect)?).await?, &args.walk).await?;
            back(&live, args, Clock::system().now()).await?
        }
        #[cfg(feature = "worlds")]
        LeaderMigrationCommand::Rehearse(args) => rehearse::rehearse(args, Clock::system().now()).await?,
        #[cfg(not(feature = "worlds"))]
        LeaderMigrationCommand::Rehearse(_) => {
            return Err(WrongUsage(
                "this capstan was built without worlds, where migrations are played".to_owned(),
            )
            .into());
        }
        LeaderMigrationCommand::Rights(args) if args.check => {
            let connection = connect(&options(&cli.connect)?).await?;
            leader_migration::check_rights(&connection.client, args).await?
        }
        LeaderMigrationCommand::Rights(args) => leader_migration::rights(args),
    };
    output::print(&printed.document)?;
    printed.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(if printed.is_fine { ExitCode::Success } else { not_fine(command) })
}

async fn next_of_migration(cli: &Cli, args: &NextArgs) -> anyhow::Result<ExitCode> {
    let session = change_session(cli)?;
    let live = reach(connect(&options(&cli.connect)?).await?, &args.walk).await?;
    let (mut out, mut answers) = (std::io::stdout(), std::io::BufReader::new(std::io::stdin()));
    let mut next = Next { session: &session, args, out: &mut out, answers: &mut answers };
    let answer = next.apply(live).await?;
    output::print(&answer.document)?;
    answer.remarks.iter().for_each(|remark| output::remark(remark));
    Ok(answer.exit_code)
}

/// How a command about a migration ends that found something to put right.
fn not_fine(command: &LeaderMigrationCommand) -> ExitCode {
    match command {
        LeaderMigrationCommand::Status(_)
        | LeaderMigrationCommand::Next(_)
        | LeaderMigrationCommand::Back(_)
        | LeaderMigrationCommand::Plan(_) => ExitCode::Blocked,
        _ => ExitCode::FailedCheck,
    }
}

async fn wait(cli: &Cli, args: &WaitArgs) -> anyhow::Result<ExitCode> {
    let began = tokio::time::Instant::now();
    let on = OneShot::of(cli, connect_within(args.timeout, &options(&cli.connect)?).await?);
    // What connecting took is part of the time that was allowed.
    let args = &WaitArgs { timeout: args.timeout.saturating_sub(began.elapsed()), ..args.clone() };
    match wait::wait(&on.connection, args, &on.namespace, on.clock, Rng::from_entropy()).await? {
        Waited::Reached { remark } => {
            remark.iter().for_each(|remark| output::remark(remark));
            Ok(ExitCode::Success)
        }
        Waited::TimedOut { last, verdict } => {
            output::remark(&last);
            // An object that is ok and still not what was waited for has failed, too.
            let is_of_verdict = args.exit_status && verdict != Verdict::Ok;
            Ok(if is_of_verdict { ExitCode::of_verdict(verdict) } else { ExitCode::Failure })
        }
    }
}

/// Until a signal comes, or nobody reads any more.
async fn watch_fleet(cli: &Cli, args: &WatchArgs) -> anyhow::Result<Exit> {
    let on = OneShot::open(cli).await?;
    // All clusters unless one namespace is named, as for metrics.
    let namespace = cli.connect.namespace.as_deref().unwrap_or_default();
    let (clock, mut out) = ((on.clock, Rng::from_entropy()), std::io::stdout());
    tokio::select! {
        ended = watch::watch(&on.connection, args, namespace, clock, &mut out) => ended.map(|()| Exit::Quit),
        exit = engine::stopped() => exit,
    }
}

/// Until a signal comes.
async fn serve_metrics(cli: &Cli, args: &MetricsArgs) -> anyhow::Result<Exit> {
    let on = OneShot::open(cli).await?;
    // All clusters unless one namespace is named: who watches a fleet seldom means that of the context.
    let namespace = cli.connect.namespace.as_deref().unwrap_or_default();
    let page =
        metrics::Page::open(&on.connection, args.listen, namespace, (on.clock, Rng::from_entropy())).await?;
    tracing::info!("serving http://{}/metrics", page.address()?);
    tokio::select! {
        () = page.serve() => anyhow::bail!("the watch of the management cluster ended; run it again"),
        exit = engine::stopped() => exit,
    }
}

async fn act_on(cli: &Cli, args: &ActionArgs) -> anyhow::Result<ExitCode> {
    let clock = Clock::system();
    let action = args.action(clock.now()).map_err(|error| WrongUsage(error.to_string()))?;
    let later = args.at.map(|moment| act::Later { at: moment.seen_from(clock.now()), clock: clock.clone() });
    let connection = connect(&options(&cli.connect)?).await?;
    let target = args.target.on(&connection, &connection.namespace).await?;
    let request = Request { target, action, asks_extensions: args.confirm.ask_extensions };
    let executor = executor(connection, clock)?;
    let (mut out, mut answers) = (std::io::stdout(), std::io::stdin().lock());
    act::act(&executor, request, &args.confirm, later.as_ref(), &mut out, &mut answers).await?;
    Ok(ExitCode::Success)
}

/// Hosts of a server.
/// Who writes, and where that is written down.
fn guard(clock: Clock) -> anyhow::Result<Guard> {
    Ok(Guard::new(Journal::at(paths::journal()?), clock, person::user()))
}

/// What previews and performs actions on the server of `connection`.
fn executor(connection: Connection, clock: Clock) -> anyhow::Result<Executor> {
    let guard = guard(clock.clone())?;
    let executor = Executor::new(connection.clone(), &guard);
    let executor = executor.with_configuration(ClusterConfigurations::new(connection.clone(), &guard));
    #[cfg(feature = "etcd")]
    let executor =
        executor.with_etcd(operations::ClusterEtcd { connection: connection.clone(), clock: clock.clone() });
    let executor = executor.with_budgets(ServerBudgets { connection: connection.clone() });
    Ok(executor.with_locks(ServerLocks { connection, clock, rng: Rng::from_entropy() }))
}

fn options(args: &ConnectArgs) -> Result<ConnectOptions, FileError> {
    // Without a home there is no file of settings either.
    let settings = paths::config_dir()
        .map_or_else(|_| Ok(ContextSettings::default()), |dir| ContextSettings::read(&dir))?;
    Ok(ConnectOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        namespace: args.namespace.clone(),
        read_only: args.read_only,
        all_namespaces: args.all_namespaces,
        settings,
        impersonated: args.impersonated(),
        terminal: PluginTerminal::of_process(),
    })
}

/// Leaving is success; a signal exits as shells expect, 128 and its number.
fn after(exit: Exit) -> ExitCode {
    match exit {
        Exit::Quit => ExitCode::Success,
        Exit::Signal(number) => ExitCode::Signal(u8::try_from(number).unwrap_or(u8::MAX)),
        Exit::Hangup => ExitCode::Signal(1),
    }
}
