//! `capstan demo`, `capstan standalone` and `capstan engine`: which store, which listener, which fleet
//! to start with, dashboard or none. Owns the wiring and its messages.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::args::{Cli, DemoArgs, EngineArgs, StandaloneArgs};
use super::store::StoreLocation;
use super::{audit, backup, dashboard, descriptors, listen, output, store};
use crate::api::names::lease;
use crate::client::{Connection, in_process};
use crate::controllers::{self, SyncedKeys};
use crate::engine::lease::{LeaseOptions, identity_of};
use crate::engine::upstream::UpstreamLeases;
use crate::engine::{Engine, EngineOptions};
use crate::provider::{self, ProviderOptions};
use crate::rng::Rng;
use crate::samples::{Sample, aged};
use crate::standalone::load;
use crate::standalone::past::{self, PastError};
use crate::standalone::pending::Pending;
use crate::standalone::stack::{Stack, StackOptions};
use crate::store::{DiskStore, MemoryStore, Range};
use crate::time::Clock;
use crate::tui::Exit;
use crate::workload::Workload;
use crate::workload::kube::KubeWorkloads;
use crate::workload::router::{Router, by_infrastructure};

/// The name of the demo's connection.
const DEMO: &str = "demo";
/// Where objects of the Cluster kind are, to see whether a store is new.
const CLUSTERS_PREFIX: &str = "/registry/cluster.x-k8s.io/clusters/";

fn rng(seed: Option<u64>) -> Rng {
    seed.map_or_else(Rng::from_entropy, Rng::seeded)
}

/// `capstan demo`: everything in memory, gone afterwards. The dashboard opens at once; its first requests wait until
/// the server is there and the fleet's past is lived through.
///
/// # Errors
/// No usable terminal, or a theme or keymap that cannot be used.
pub async fn demo(cli: &Cli, args: &DemoArgs) -> anyhow::Result<Exit> {
    let (clock, rng) = (Clock::system(), rng(args.seed));
    let options =
        StackOptions { time_scale: args.time_scale, ..StackOptions::new(clock.clone(), rng.clone()) };
    let (ready, server) = Pending::new();
    let time_scale = args.time_scale;
    let starting = tokio::spawn(async move {
        let store = Arc::new(MemoryStore::new());
        past::replay(store.clone(), aged::chapters(), options.clone()).await?;
        let stack = Stack::start(store, options).await?;
        let connection = stack.connection("sample", false);
        let later =
            AbortOnDropHandle::new(tokio::spawn(load::edit_later(connection, aged::edits(), time_scale)));
        ready.send_replace(Some(stack.server().clone()));
        Ok::<_, PastError>((stack, later))
    });
    let connection = in_process(server, DEMO, "default", cli.connect.read_only);
    let exit = dashboard::show(&connection, &cli.connect, &cli.screen, clock, &rng).await;
    // The user may quit before the past is over.
    if !starting.is_finished() {
        starting.abort();
        return exit;
    }
    let (stack, later) = starting.await.context("the demo's server ended with a panic")??;
    drop(later);
    stack.stop().await;
    exit
}

/// Creates a living sample and makes its later edits, beside the dashboard.
fn run_sample(
    sample: Sample,
    connection: Connection,
    clock: &Clock,
    time_scale: f64,
) -> AbortOnDropHandle<()> {
    let now = clock.now();
    AbortOnDropHandle::new(tokio::spawn(async move {
        match load::create(&connection, sample.objects(now)).await {
            Ok(()) => load::edit_later(connection, sample.edits(), time_scale).await,
            Err(error) => tracing::error!("{error}"),
        }
    }))
}

/// `capstan standalone`: state is kept, others may connect.
///
/// # Errors
/// A store that is held, damaged or not writable; an address that cannot be listened on.
pub async fn standalone(cli: &Cli, args: &StandaloneArgs) -> anyhow::Result<Exit> {
    listen::check(args)?;
    if args.listen.is_some() {
        descriptors::raise_limit();
    }
    let audit = args.audit_log.as_deref().map(audit::start).transpose()?;
    let sample = args.sample.as_deref().map(Sample::parse).transpose()?;
    let (clock, rng) = (Clock::system(), rng(args.seed));
    let place = StoreLocation::of(&args.store)?;
    if args.new_store {
        store::make_new(&place, &clock)?;
    }
    let store = match &args.restore {
        None => place.open(&clock).await?,
        Some(file) => {
            let restored = backup::restore_into(&place, file, &clock, &rng).await?;
            tracing::info!("{}", restored.summary.trim_end());
            match restored.in_memory {
                Some(store) => Arc::new(store),
                None => place.open(&clock).await?,
            }
        }
    };
    let identity = listen::ServerIdentity::of(&place, &args.store, &clock)?;
    let is_new = store
        .range(Range { prefix: CLUSTERS_PREFIX, limit: 1, ..Range::default() })
        .await?
        .entries
        .is_empty();
    let is_static = matches!(sample, Some(Sample::Synthetic(_)));
    let options = StackOptions {
        clock: clock.clone(),
        rng: rng.clone(),
        time_scale: args.time_scale,
        tokens: identity.tokens.clone(),
        // Its objects have the status they should keep.
        engine: !args.no_engine && !is_static,
        // Others may run an engine on the same objects.
        lease: place.is_shared().then(|| LeaseOptions::new("default", "capstan-engine", &holder())),
    };
    let stack = Stack::start(store, options).await?;
    let _scrub = match &place {
        StoreLocation::Disk(dir) => Some(AbortOnDropHandle::new(tokio::spawn(DiskStore::scrub(dir.clone())))),
        _ => None,
    };
    if let Some(log) = &audit {
        stack.server().audit_to(log.clone());
    }
    let _sample = match sample.filter(|_| is_new) {
        Some(sample) if is_static => {
            let count = load::import(stack.server(), sample, clock.now()).await?;
            tracing::info!("stored {count} sample objects");
            None
        }
        Some(sample) => Some(run_sample(sample, stack.connection("sample", false), &clock, args.time_scale)),
        None => None,
    };
    let _served = listen::listen(args, stack.server(), &identity).await?;
    let exit = if args.headless {
        stopped().await?
    } else {
        let connection = stack.connection("standalone", cli.connect.read_only);
        dashboard::show(&connection, &cli.connect, &cli.screen, clock, &rng).await?
    };
    stack.stop().await;
    if let Some(log) = audit {
        log.finish();
    }
    Ok(exit)
}

/// Waits for SIGINT, SIGTERM or SIGHUP.
async fn stopped() -> anyhow::Result<Exit> {
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
    Ok(Exit::Quit)
}

/// `capstan engine`: controllers, and when asked simulated infrastructure, against the API server of a kubeconfig.
///
/// # Errors
/// No connection, or a read-only one.
pub async fn engine(cli: &Cli, args: &EngineArgs, connection: Connection) -> anyhow::Result<Exit> {
    if cli.connect.read_only {
        bail!("an engine writes; it cannot run with --read-only");
    }
    let namespace = cli.connect.namespace.clone().unwrap_or_default();
    let of_lease = args.lease_namespace.as_deref().or(cli.connect.namespace.as_deref()).unwrap_or("default");
    let options = EngineOptions {
        lease: Some(LeaseOptions::new(of_lease, "capstan-engine", &holder())),
        upstream: Some(upstream_leases(args)),
        namespace: namespace.clone(),
        time_scale: args.time_scale,
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(connection.client, Clock::system(), Rng::from_entropy(), options);
    let workload = workloads(&mut engine, args);
    let synced_keys = SyncedKeys {
        labels: args.additional_sync_machine_labels.clone(),
        annotations: args.additional_sync_machine_annotations.clone(),
    };
    controllers::register(&mut engine, workload, synced_keys);
    let stop = CancellationToken::new();
    let running = tokio::spawn(engine.run(stop.clone()));
    let only = if namespace.is_empty() { String::new() } else { format!(", only in namespace {namespace}") };
    output::print(&format!("capstan engine runs against {}{only}\n", connection.server))?;
    let exit = stopped().await?;
    stop.cancel();
    running.await.context("the engine ended with a panic")?;
    Ok(exit)
}

/// Whose work this engine does.
fn upstream_leases(args: &EngineArgs) -> UpstreamLeases {
    let mut leases = lease::UPSTREAM.to_vec();
    leases.extend(args.simulate_infrastructure.then_some(lease::DEV));
    UpstreamLeases { leases, take_over: args.take_over }
}

/// Workload clusters are reached through their kubeconfig Secrets; when asked, the simulated world answers for
/// in-memory ones.
fn workloads(engine: &mut Engine, args: &EngineArgs) -> Arc<dyn Workload> {
    let rng = engine.rng().stream("workload");
    let real = KubeWorkloads::new(engine.writer().clone(), engine.clock().clone(), rng, false);
    if !args.simulate_infrastructure {
        real.attach(&engine.cache(), Arc::new(|_| false));
        return Arc::new(real);
    }
    let simulated = provider::register(engine, ProviderOptions { time_scale: args.time_scale });
    let is_simulated = by_infrastructure(engine.cache(), engine.cache());
    real.attach(&engine.cache(), is_simulated.clone());
    Arc::new(Router::new(simulated, Arc::new(real), is_simulated))
}

/// Who holds the lease. Entropy, not `--seed`: see [`identity_of`].
fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    identity_of(&host, &Rng::from_entropy())
}
