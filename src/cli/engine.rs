//! `capstan engine`: controllers, and when asked simulated infrastructure, against the API server of a kubeconfig. Owns the
//! wiring and its messages, and what every process that runs controllers has: its name, its share of them, and how it is stopped.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::args::{Cli, EngineArgs, SharingArgs};
use super::{held_up, sharing};
use capi_types::names::lease;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_commands::exit_code::WrongUsage;
use capstan_commands::{engine_status, output};
use capstan_dashboard::tui::Exit;
use capstan_engine::client::connect;
use capstan_engine::controllers::{self, SyncedKeys};
use capstan_engine::engine::lease::{LeaseNotes, LeaseOptions, identity_of};
use capstan_engine::engine::sharing::Sharing;
use capstan_engine::engine::upstream::UpstreamLeases;
use capstan_engine::engine::{Engine, EngineOptions};
use capstan_engine::runtime_sdk::{Https, Runtime};
use capstan_engine::workload::kube::KubeWorkloads;
#[cfg(feature = "worlds")]
use capstan_engine::workload::router::Router;
use capstan_engine::workload::{JudgedAfter, Workload};
#[cfg(feature = "worlds")]
use capstan_worlds::{
    provider::{self, ProviderOptions},
    workload_api,
};
use k8s_machinery::lease::HELD_UP_BY;

/// The controllers of simulated infrastructure.
#[cfg(feature = "worlds")]
const SIMULATED: &[&str] = &provider::NAMES;
#[cfg(not(feature = "worlds"))]
const SIMULATED: &[&str] = &[];

/// Waits for SIGINT, SIGTERM or SIGHUP.
pub(super) async fn stopped() -> anyhow::Result<Exit> {
    let mut signals = [
        (2, signal(SignalKind::interrupt())?),
        (15, signal(SignalKind::terminate())?),
        (1, signal(SignalKind::hangup())?),
    ];
    let [(_, int), (_, term), (_, hup)] = &mut signals;
    let number = tokio::select! {
        biased;
        _ = int.recv() => 2,
        _ = term.recv() => 15,
        _ = hup.recv() => 1,
    };
    tracing::info!("stopping after signal {number}");
    // A service that ends because it was asked to has not failed.
    Ok(Exit::Quit)
}

/// Runs until a signal comes.
///
/// # Errors
/// No connection, or options that do not go together.
pub async fn run(cli: &Cli, args: &EngineArgs) -> anyhow::Result<Exit> {
    check_engine(cli, args)?;
    let connection = connect(&super::options(&cli.connect)?).await?;
    if connection.read_only {
        bail!("an engine writes; {} is read-only by contexts.toml", connection.context);
    }
    let namespace = cli.connect.namespace.clone().unwrap_or_default();
    let of_lease = args.lease_namespace.as_deref().or(cli.connect.namespace.as_deref()).unwrap_or("default");
    let component = args.sharing.component.as_deref().unwrap_or("engine");
    let is_simulated = args.simulated_time_scale().is_some();
    let shared = shared(&args.sharing, component, is_simulated)?;
    // An engine with a file and one without have Leases of different names, and both would lead.
    engine_status::refuse_other_kind(&connection.client, of_lease, shared.is_some()).await?;
    let notes = LeaseNotes::default();
    notes.set(HELD_UP_BY, "");
    let options = EngineOptions {
        lease: Some(LeaseOptions {
            notes: notes.clone(),
            annotations: args.gates.published(args.gates.runtime_sdk()),
            ..sharing::primary(of_lease, component, shared.is_some(), &holder())
        }),
        sharing: shared,
        upstream: Some(upstream_leases(args)),
        namespace: namespace.clone(),
        time_scale: args.simulated_time_scale().unwrap_or(1.0),
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(connection.client, Clock::system(), Rng::from_entropy(), options);
    let graces = args.graces.graces()?;
    let judged_after = JudgedAfter([graces.connection, graces.conditions]);
    let workload = workloads(&mut engine, args, judged_after);
    let synced_keys = SyncedKeys {
        labels: args.additional_sync_machine_labels.clone(),
        annotations: args.additional_sync_machine_annotations.clone(),
    };
    let mut in_place = args.gates.in_place();
    if args.gates.runtime_sdk() {
        let (client, clock) = (engine.client().clone(), engine.clock().clone());
        let runtime = Arc::new(Runtime::new(client, clock, Arc::new(Https::default())));
        in_place.extensions = Some(runtime.clone());
        controllers::extension_config::register(&mut engine, runtime);
    }
    let (machines, settings) = args.hosts.reached(&Clock::system(), false);
    capstan_host_provider::register(&mut engine, machines, Arc::clone(&workload), &settings);
    controllers::register(&mut engine, workload, controllers::Settings { synced_keys, in_place, graces });
    let stop = CancellationToken::new();
    let telling = AbortOnDropHandle::new(tokio::spawn(held_up::print_changes(engine.handle(), notes)));
    let running = tokio::spawn(engine.run(stop.clone()));
    let only = if namespace.is_empty() { String::new() } else { format!(", only in namespace {namespace}") };
    output::print(&format!("capstan engine runs against {}{only}\n", connection.server))?;
    let exit = stopped().await?;
    drop(telling);
    stop.cancel();
    // The engine ends after it has given back the Leases that it took over.
    running.await.context("the engine ended with a panic")?;
    Ok(exit)
}

/// Options that do not go together, before anything is connected to.
fn check_engine(cli: &Cli, args: &EngineArgs) -> Result<(), WrongUsage> {
    if cli.connect.read_only {
        return Err(WrongUsage("an engine writes; it cannot run with --read-only".to_owned()));
    }
    if args.gates.in_place().on && !args.gates.runtime_sdk() {
        let why = "--feature-gates: InPlaceUpdates asks extensions, which needs RuntimeSDK=true as well";
        return Err(WrongUsage(why.to_owned()));
    }
    args.graces.graces().map(drop)
}

/// The share that a file gives this process, checked. `None` without a file.
pub(super) fn shared(
    args: &SharingArgs,
    component: &str,
    is_simulated: bool,
) -> anyhow::Result<Option<Sharing>> {
    let Some(file) = &args.leader_migration_config else { return Ok(None) };
    let shared = sharing::from_file(file, component)?;
    let everywhere = controllers::extension_config::NAME;
    if shared.locks.iter().any(|lock| lock.component_of(everywhere).is_some()) {
        bail!(
            "{}: {everywhere} cannot be under a migration lock: each process keeps in its own memory which extensions it \
             may call, so that it runs in every one that leads, under its primary lock; take it out of the file",
            file.display()
        );
    }
    let simulated: &[&str] = if is_simulated { SIMULATED } else { &[] };
    // Simulated machines live in the memory of one process, so what asks them has to run there.
    let reaching: &[&str] = if is_simulated { &controllers::REACH_WORKLOADS } else { &[] };
    let known = [&controllers::NAMES[..], &capstan_host_provider::NAMES, simulated].concat();
    let together = [reaching, simulated].concat();
    // Only its name is compared.
    let primary = sharing::primary("default", component, true, "");
    shared.check(&primary, &known, &together).map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))?;
    Ok(Some(shared))
}

/// Whose work this engine does.
fn upstream_leases(args: &EngineArgs) -> UpstreamLeases {
    let mut leases = lease::UPSTREAM.to_vec();
    leases.extend(args.simulated_time_scale().map(|_| lease::DEV));
    UpstreamLeases { leases, take_over: args.take_over }
}

/// Workload clusters are reached through their kubeconfig Secrets; when asked, the simulated world answers for
/// in-memory ones.
#[cfg(feature = "worlds")]
fn workloads(engine: &mut Engine, args: &EngineArgs, judged_after: JudgedAfter) -> Arc<dyn Workload> {
    let Some(time_scale) = args.simulated_time_scale() else { return real_workloads(engine, judged_after) };
    let real = kubeconfigs(engine, judged_after);
    let simulated = provider::register(engine, ProviderOptions { time_scale, judged_after });
    // It goes on in the background; only processes that are simulated in this one would need the handle.
    drop(workload_api::register(engine, Arc::clone(&simulated)));
    let is_simulated = real.attach_real(&engine.cache(), &engine.cache());
    Arc::new(Router::new(simulated, Arc::new(real), is_simulated))
}

#[cfg(not(feature = "worlds"))]
fn workloads(engine: &mut Engine, _: &EngineArgs, judged_after: JudgedAfter) -> Arc<dyn Workload> {
    real_workloads(engine, judged_after)
}

fn real_workloads(engine: &mut Engine, judged_after: JudgedAfter) -> Arc<dyn Workload> {
    let real = kubeconfigs(engine, judged_after);
    real.attach(&engine.cache(), Arc::new(|_| false));
    Arc::new(real)
}

/// Workload clusters by their kubeconfig Secrets, once they are attached to what the engine has read.
fn kubeconfigs(engine: &Engine, judged_after: JudgedAfter) -> KubeWorkloads {
    let rng = engine.rng().stream("workload");
    KubeWorkloads::new(engine.writer().clone(), engine.clock().clone(), rng, false, judged_after)
}

/// Who holds the lease. Entropy, not `--seed`: see [`identity_of`].
pub(super) fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    identity_of(&host, &Rng::from_entropy())
}
