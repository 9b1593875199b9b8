//! `capstan demo` and `capstan standalone`: which store, which listener, which fleet to start with, dashboard or none. Owns
//! the wiring and its messages.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio_util::task::AbortOnDropHandle;

use super::args::{Cli, DemoArgs, StandaloneArgs};
use super::engine::{holder, shared, stopped};
use super::store::StoreLocation;
use super::store_args::StoreArgs;
use super::{audit, backup, dashboard, descriptors, encryption, listen, sharing, simulated_ssh, upkeep};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_commands::exit_code::WrongUsage;
use capstan_dashboard::tui::Exit;
use capstan_engine::client::{Connection, in_process};
use capstan_engine::controllers::in_place::Settings;
use capstan_engine::engine::lease::LeaseOptions;
use capstan_engine::engine::sharing::Sharing;
use capstan_store::{DiskStore, MemoryStore, Range, Sealing, Store};
use capstan_worlds::extension::{Behaviour, Serving};
use capstan_worlds::samples::{IN_PLACE_CLUSTER, Living, Sample, aged};
use capstan_worlds::standalone::options::RealHosts;
use capstan_worlds::standalone::past;
use capstan_worlds::standalone::pending::Pending;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use capstan_worlds::standalone::{extension, load};

/// The name of the demo's connection.
const DEMO: &str = "demo";
/// Where objects of the Cluster kind are, to see whether a store is new.
const CLUSTERS_PREFIX: &str = "/registry/cluster.x-k8s.io/clusters/";
/// And those of the Host kind.
const HOSTS_PREFIX: &str = "/registry/infrastructure.cluster.x-k8s.io/hosts/";

fn rng(seed: Option<u64>) -> Rng {
    seed.map_or_else(Rng::from_entropy, Rng::seeded)
}

/// `capstan demo`: everything in memory, gone afterwards. The dashboard opens at once; its first requests wait until
/// the server is there and the fleet's past is lived through.
///
/// # Errors
/// No usable terminal, or a theme or keymap that cannot be used.
pub async fn demo(cli: &Cli, args: &DemoArgs) -> anyhow::Result<Exit> {
    listen::check(&args.listening)?;
    let (clock, rng) = (Clock::system(), rng(args.seed));
    let identity = listen::ServerIdentity::of(&StoreLocation::Memory, &StoreArgs::default(), &clock)?;
    let options = StackOptions {
        time_scale: args.time_scale,
        tokens: identity.tokens.clone(),
        in_place: args.gates.in_place_unless_closed(),
        ..StackOptions::new(clock.clone(), rng.clone())
    };
    let (ready, server) = Pending::new();
    let (time_scale, clock_of_stack, args) = (args.time_scale, clock.clone(), args.clone());
    let mut starting = AbortOnDropHandle::new(tokio::spawn(async move {
        let store = Arc::new(MemoryStore::new());
        let in_place = options.in_place.on;
        // No extension serves yet while the past is lived through.
        let before = StackOptions { in_place: Settings::default(), ..options.clone() };
        past::replay(store.clone(), aged::chapters(), before).await?;
        let stack = Stack::start(store, options).await?;
        let connection = stack.connection("sample", false);
        let later =
            AbortOnDropHandle::new(tokio::spawn(load::edit_later(connection, aged::edits(), time_scale)));
        ready.send_replace(Some(stack.server().clone()));
        let extended =
            if in_place { updated_in_place(&stack, &clock_of_stack, time_scale).await } else { None };
        let hosts = simulated_ssh::offer(args.simulated_ssh.as_deref(), &stack).await?;
        let served = listen::listen(&args.listening, stack.server(), &identity, false).await?;
        anyhow::Ok((stack, (later, extended, hosts, served)))
    }));
    let connection = in_process(server, DEMO, "default", cli.connect.read_only);
    let machines = dashboard::own_machines(&clock);
    let shown = dashboard::show(&connection, cli, clock, &rng, dashboard::Behind::Memory, machines);
    tokio::pin!(shown);
    let (stack, later) = tokio::select! {
        // The user may quit before the past is over.
        exit = &mut shown => return exit,
        // What was asked for and cannot be had ends the dashboard with the reason.
        started = &mut starting => started.context("the demo's server ended with a panic")??,
    };
    let exit = shown.await;
    drop(later);
    stack.stop().await;
    exit
}

/// What the gate for updates in place adds to the demo: an extension, and a cluster that it updates.
async fn updated_in_place(
    stack: &Stack,
    clock: &Clock,
    time_scale: f64,
) -> Option<(Serving, AbortOnDropHandle<()>)> {
    let only_clusters = vec![IN_PLACE_CLUSTER.to_owned()];
    let behaviour = Behaviour { only_clusters, ..Behaviour::default() };
    let connection = stack.connection("extension", false);
    let started = extension::start(&connection, clock.clone(), time_scale, behaviour).await;
    let serving = started.inspect_err(|error| tracing::error!("{error}")).ok()?;
    let connection = stack.connection("sample", false);
    Some((serving, run_sample(Sample::Living(Living::InPlace), connection, clock, time_scale)))
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
    listen::check(&args.listening)?;
    if args.listening.listen.is_some() {
        descriptors::raise_limit();
    }
    let audit = audit::of(args)?;
    let (clock, rng) = (Clock::system(), rng(args.seed));
    let place = StoreLocation::of(&args.store)?;
    // A key that cannot be used is said before an empty store takes the place of one that is gone.
    let sealing = encryption::sealing(&args.encryption)?;
    if args.new_store {
        upkeep::make_new(&place, &clock)?;
    }
    encryption::log_if_together(&args.encryption, &place);
    let store = opened(args, &place, &sealing, (&clock, &rng)).await?;
    let reminder = reminder_of_keys(store.as_ref(), &place, &sealing).await?;
    reminder.iter().for_each(|reminder| tracing::warn!("{place} {reminder}"));
    let identity = listen::ServerIdentity::of(&place, &args.store, &clock)?;
    let is_static = matches!(args.sample, Some(Sample::Synthetic(_)));
    let (machines, settings) = args.hosts.reached(&clock, cli.connect.read_only);
    let (lease, sharing) = among_servers(args, &place)?;
    let options = StackOptions {
        clock: clock.clone(),
        rng: rng.clone(),
        time_scale: args.time_scale,
        tokens: identity.tokens.clone(),
        // Its objects have the status they should keep.
        engine: !args.no_engine && !is_static,
        serves_workloads: true,
        // Others may run an engine on the same objects.
        lease,
        sharing,
        in_place: args.gates.in_place(),
        hosts: Some(RealHosts { machines: machines.clone(), settings }),
    };
    let is_new = has_no_clusters(store.as_ref()).await?;
    let stack = Stack::start(store, options).await?;
    let _scrub = match &place {
        StoreLocation::Disk(dir) => Some(AbortOnDropHandle::new(tokio::spawn(DiskStore::scrub(dir.clone())))),
        _ => None,
    };
    audit.iter().for_each(|log| stack.server().audit_to(log.clone()));
    let _sample = match args.sample.filter(|_| is_new) {
        Some(sample) if is_static => {
            let count = load::import(stack.server(), sample, clock.now()).await?;
            tracing::info!("stored {count} sample objects");
            None
        }
        Some(sample) => Some(run_sample(sample, stack.connection("sample", false), &clock, args.time_scale)),
        None => None,
    };
    let _extension = served_extension(args, &stack, &clock).await?;
    let _hosts = simulated_ssh::offer(args.simulated_ssh.as_deref(), &stack).await?;
    let _served = listen::listen(&args.listening, stack.server(), &identity, args.headless).await?;
    let exit = if args.headless {
        stopped().await?
    } else {
        let connection = stack.connection("standalone", cli.connect.read_only);
        let behind = behind(&place, reminder);
        dashboard::show(&connection, cli, clock, &rng, behind, machines).await?
    };
    stack.stop().await;
    if let Some(log) = audit {
        // Last, so that what the engine writes while it ends is in it, too.
        log.finish();
    }
    Ok(exit)
}

/// The store, filled from a backup where one is named.
async fn opened(
    args: &StandaloneArgs,
    place: &StoreLocation,
    sealing: &Sealing,
    (clock, rng): (&Clock, &Rng),
) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match &args.restore {
        None => place.open(clock, sealing).await?,
        Some(file) => {
            let restored = backup::restore_into(place, file, sealing, (clock, rng)).await?;
            tracing::info!("{}", restored.summary.trim_end());
            match restored.in_memory {
                Some(store) => Arc::new(store),
                None => place.open(clock, sealing).await?,
            }
        }
    })
}

/// What to say of a store that has the keys of clusters on real machines and is not encrypted: a copy of it is all that it takes to
/// own them, and without a copy they are lost with the disk.
async fn reminder_of_keys(
    store: &dyn Store,
    place: &StoreLocation,
    sealing: &Sealing,
) -> anyhow::Result<Option<&'static str>> {
    let range = Range { prefix: HOSTS_PREFIX, limit: 1, ..Range::default() };
    let keeps = !matches!(place, StoreLocation::Memory) && sealing.ring().is_none();
    if !keeps || store.range(range).await?.entries.is_empty() {
        return Ok(None);
    }
    Ok(Some(
        "has Hosts, so it holds the keys of real clusters, and it is not encrypted: make a key file (capstan encryption-key \
         new FILE), start with --encryption-key FILE, and back it up (capstan backup FILE --encryption-key FILE)",
    ))
}

/// A store in memory ends with the process, and so does what is learnt of it.
fn behind(place: &StoreLocation, reminder: Option<&'static str>) -> dashboard::Behind {
    match place {
        StoreLocation::Memory => dashboard::Behind::Memory,
        place => dashboard::Behind::Store {
            place: format!("{place:?}"),
            // The log is not on the terminal of a dashboard.
            notice: reminder
                .map(|reminder| ("The store is not encrypted".to_owned(), format!("{place} {reminder}."))),
        },
    }
}

async fn has_no_clusters(store: &dyn Store) -> anyhow::Result<bool> {
    let range = Range { prefix: CLUSTERS_PREFIX, limit: 1, ..Range::default() };
    Ok(store.range(range).await?.entries.is_empty())
}

/// The lock and the share of an engine whose store other servers may have open, too.
fn among_servers(
    args: &StandaloneArgs,
    place: &StoreLocation,
) -> anyhow::Result<(Option<LeaseOptions>, Option<Sharing>)> {
    let component = args.sharing.component.as_deref().unwrap_or("standalone");
    let shared = shared(&args.sharing, component, true)?;
    if !place.is_shared() {
        if shared.is_some() {
            bail!(WrongUsage(
                "--leader-migration-config: only servers on one etcd share work: --store etcd://HOST:PORT"
                    .to_owned()
            ));
        }
        return Ok((None, None));
    }
    let lease = LeaseOptions {
        annotations: args.gates.published(true),
        ..sharing::primary("default", component, shared.is_some(), &holder())
    };
    Ok((Some(lease), shared))
}

/// The reference extension, when it is asked for.
async fn served_extension(
    args: &StandaloneArgs,
    stack: &Stack,
    clock: &Clock,
) -> anyhow::Result<Option<Serving>> {
    if !args.extension {
        return Ok(None);
    }
    let connection = stack.connection("extension", false);
    let serving = extension::start(&connection, clock.clone(), args.time_scale, Behaviour::default()).await?;
    Ok(Some(serving))
}
