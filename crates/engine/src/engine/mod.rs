//! Runs controllers: queue, runner, triggers, lease. Knows keys, not kinds.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub mod controller;
pub mod echo;
pub mod lease;
pub mod preparation;
pub mod queue;
pub mod runner;
pub mod sharing;
pub mod trace;
pub mod upstream;
pub mod watches;

#[cfg(test)]
mod tests;

pub use controller::{Controller, Outcome, ReconcileError, Trigger};

use crate::client::watch::Progress;
use crate::client::write::gvk_of;
use crate::client::{Cache, Client, Definition, Object, Writer};
use capi_types::key::Gvk;
use capi_types::names::{CORE_GROUP, manager};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use echo::{Echoes, Listening};
use lease::{Elector, Leadership, LeaseOptions};
use preparation::Preparation;
use queue::Pace;
use runner::{Runner, WorkQueue};
use sharing::{Locks, Sharing};
use trace::Trace;
use upstream::{Upstream, UpstreamLeases};
use watches::{Awaited, Installed, Watches};

/// Entries kept in the trace.
const TRACE_LENGTH: usize = 2000;

#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Field manager of its writes.
    pub manager: String,
    /// Compete for this lease and write only while holding it. `None`: alone with its server.
    pub lease: Option<LeaseOptions>,
    /// With a lease: other processes run some of the controllers.
    pub sharing: Option<Sharing>,
    /// With a lease: write only while no manager of upstream does.
    pub upstream: Option<UpstreamLeases>,
    /// The only namespace whose objects are read and written; all when it is empty.
    pub namespace: String,
    /// Divides the controllers' minimum distance between runs (1.0: as upstream). Infinity: none.
    pub time_scale: f64,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            manager: manager::PATCHES.to_owned(),
            lease: None,
            sharing: None,
            upstream: None,
            namespace: String::new(),
            time_scale: 1.0,
        }
    }
}

/// Controllers, the caches they read, and the one writer they share. Set up first, then [`Engine::run`].
pub struct Engine {
    client: Client,
    writer: Writer,
    clock: Clock,
    rng: Rng,
    options: EngineOptions,
    leadership: Leadership,
    elector: Option<Elector>,
    upstream: Option<Upstream>,
    locks: Option<Locks>,
    caches: BTreeMap<TypeId, Box<dyn Any + Send + Sync>>,
    feeds: Vec<BoxFuture<'static, ()>>,
    awaited: Vec<Awaited>,
    echoes: Echoes,
    listening: Vec<Listening>,
    controllers: Vec<(Arc<dyn Controller>, WorkQueue)>,
    background: Vec<BoxFuture<'static, ()>>,
    trace: Trace,
}

impl Engine {
    pub fn new(client: Client, clock: Clock, rng: Rng, options: EngineOptions) -> Self {
        let writer = Writer::new(client.clone(), &options.manager);
        let (mut elector, mut upstream, mut leadership) = (None, None, Leadership::alone(clock.clone()));
        if let Some(lease) = &options.lease {
            let (own, right) = Elector::new(lease.clone(), writer.clone(), clock.clone());
            (elector, leadership) = (Some(own), right);
            if let Some(leases) = &options.upstream {
                let (beside, both) = Upstream::new(leases.clone(), lease, &writer, &clock, leadership);
                (upstream, leadership) = (Some(beside), both);
            }
        }
        let sharing = options.lease.as_ref().zip(options.sharing.clone());
        let locks = sharing.map(|(lease, sharing)| Locks::new(sharing, lease, &writer, &clock, &leadership));
        Self {
            // The electors above have the writer without a
            // permit: with one a Lease could never be won.
            writer: writer.with_permit(leadership.permit()).with_fences(leadership.fences()),
            client,
            clock,
            rng,
            options,
            leadership,
            elector,
            upstream,
            locks,
            caches: BTreeMap::new(),
            feeds: Vec::new(),
            awaited: Vec::new(),
            echoes: Echoes::default(),
            listening: Vec::new(),
            controllers: Vec::new(),
            background: Vec::new(),
            trace: Trace::new(TRACE_LENGTH),
        }
    }

    /// The one shared copy of a kind; the first call starts its watch when the engine runs. A kind of a provider
    /// may be missing on the server: its copy is empty then, and is filled when the provider is installed.
    pub fn cache<K>(&mut self) -> Cache<K>
    where
        K: Object + kube::Resource<Scope = NamespaceResourceScope>,
    {
        if let Some(cache) = self.shared() {
            return cache;
        }
        let (cache, gvk) = (Cache::<K>::new(), gvk_of::<K>());
        let (client, rng) = (self.client.clone(), self.rng.stream(&format!("watch/{}", gvk.kind)));
        let installed = is_of_provider(&gvk).then(|| Installed::new(self.definitions(), &gvk));
        let (feed, namespace) = (cache.clone(), self.options.namespace.clone());
        // A watch of a kind without a definition would fail with 404 again and again.
        self.feeds.push(match installed.clone() {
            Some(installed) => Box::pin(installed.follow(feed, client, namespace, rng)),
            None => Box::pin(async move { feed.follow_in(client, &namespace, rng).await }),
        });
        self.share(&gvk, &cache, installed);
        cache
    }

    /// [`Engine::cache`] of a kind without namespaces.
    pub fn cluster_cache<K>(&mut self) -> Cache<K>
    where
        K: Object + kube::Resource<Scope = ClusterResourceScope>,
    {
        if let Some(cache) = self.shared() {
            return cache;
        }
        let (cache, gvk) = (Cache::<K>::new(), gvk_of::<K>());
        let rng = self.rng.stream(&format!("watch/{}", gvk.kind));
        self.feeds.push(Box::pin(cache.clone().follow(self.client.clone(), rng)));
        self.share(&gvk, &cache, None);
        cache
    }

    /// The one shared copy of all CustomResourceDefinitions, of which only metadata is read.
    pub fn definitions(&mut self) -> Cache<Definition> {
        if let Some(cache) = self.shared() {
            return cache;
        }
        let cache = Cache::<Definition>::new();
        let rng = self.rng.stream("watch/CustomResourceDefinition");
        self.feeds.push(Box::pin(cache.clone().follow_metadata(self.client.clone(), rng)));
        self.share(&gvk_of::<Definition>(), &cache, None);
        cache
    }

    fn shared<K: Object>(&self) -> Option<Cache<K>> {
        self.caches.get(&TypeId::of::<K>()).and_then(|any| any.downcast_ref::<Cache<K>>()).cloned()
    }

    fn share<K: Object>(&mut self, gvk: &Gvk, cache: &Cache<K>, installed: Option<Installed>) {
        let kind = gvk.kind.clone();
        self.awaited.push(Awaited { kind, progress: cache.subscribe(), installed });
        self.listening.push(self.echoes.add(&gvk.group, &gvk.kind, cache));
        self.caches.insert(TypeId::of::<K>(), Box::new(cache.clone()));
    }

    /// Starts watches of kinds that are only named while the engine runs.
    pub fn watches(&self) -> Watches {
        Watches {
            client: self.client.clone(),
            namespace: self.options.namespace.clone(),
            rng: self.rng.clone(),
            echoes: self.echoes.clone(),
        }
    }

    /// The write path: writes only while leading, and what is written in a run is waited for.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn rng(&self) -> &Rng {
        &self.rng
    }

    /// Adds a controller; it runs when the engine does.
    pub fn add(&mut self, controller: impl Controller) {
        let interval = scaled(controller.rate_interval(), self.options.time_scale);
        self.controllers.push((Arc::new(controller), WorkQueue::new(Pace::with_interval(interval))));
    }

    /// Adds work that goes on while the engine runs, such as a simulated world's clockwork.
    pub fn add_background(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.push(Box::pin(work));
    }

    /// To look at the engine while it runs.
    pub fn handle(&self) -> Handle {
        Handle {
            queues: self.controllers.iter().map(|(c, queue)| (c.name(), queue.clone())).collect(),
            awaited: self.awaited.clone(),
            leadership: self.leadership.clone(),
            trace: self.trace.clone(),
            writer: self.writer.clone(),
        }
    }

    /// Runs until `stop`: fills the caches, then starts the controllers. Returns when the runs that had
    /// started have ended and the lease is given back.
    pub async fn run(self, stop: CancellationToken) {
        // Dropped, and so stopped, at the very end: runs
        // that end wait for the echoes of their writes.
        let mut feeds = JoinSet::new();
        for feed in self.feeds.into_iter().chain(self.background) {
            feeds.spawn(feed);
        }
        let mut workers = JoinSet::new();
        let (elector_stop, lock_stop) = (CancellationToken::new(), CancellationToken::new());
        // The Lease is competed for while the caches fill: a takeover need not wait for the lists.
        let elector = self.elector.map(|elector| tokio::spawn(elector.run(elector_stop.clone())));
        let upstream = self.upstream.map(|upstream| tokio::spawn(upstream.run(elector_stop.clone())));
        let mut locks = self.locks;
        let mut lock_electors = locks.as_mut().map(|locks| locks.run(&lock_stop)).unwrap_or_default();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = all_settled(self.awaited) => {
                let preparation = Arc::new(Preparation::default());
                let mut runners = Vec::new();
                for (controller, queue) in self.controllers {
                    let primary = || Some(self.leadership.clone());
                    let right = locks.as_ref().map_or_else(primary, |l| l.right_of(controller.name(), &self.leadership));
                    let Some(leadership) = right else { continue };
                    preparation.add(Arc::clone(&controller), leadership.clone());
                    for trigger in controller.triggers() {
                        // A trigger on a cache reports what is there
                        // already: the first run of every object.
                        (trigger.0)(queue.enqueue());
                    }
                    runners.push(Runner {
                        controller,
                        queue,
                        echoes: self.echoes.clone(),
                        leadership,
                        preparation: Arc::clone(&preparation),
                        trace: self.trace.clone(),
                        clock: self.clock.clone(),
                    });
                }
                // Not before all are known to the preparation.
                for runner in runners {
                    workers.spawn(runner.run(stop.clone()));
                }
                stop.cancelled().await;
            }
        }
        // Leases are given back last, the primary one after those below it: a run
        // that has not ended may still write, and others must not begin before.
        while workers.join_next().await.is_some() {}
        lock_stop.cancel();
        while lock_electors.join_next().await.is_some() {}
        elector_stop.cancel();
        for electing in [elector, upstream].into_iter().flatten() {
            // A join error means that it panicked; there is nothing left to give back then.
            let _ = electing.await;
        }
    }
}

fn scaled(interval: Duration, time_scale: f64) -> Duration {
    // An infinite scale gives no interval at all; zero
    // gives no duration, and then upstream's counts.
    Duration::try_from_secs_f64(interval.as_secs_f64() / time_scale).unwrap_or(interval)
}

/// Kinds of a group below Cluster API's own are a provider's, which need not be installed.
fn is_of_provider(gvk: &Gvk) -> bool {
    gvk.group.strip_suffix(CORE_GROUP).is_some_and(|front| front.ends_with('.'))
}

async fn all_settled(awaited: Vec<Awaited>) {
    for cache in awaited {
        cache.settled().await;
    }
}

/// Looks at a running engine. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    queues: Vec<(&'static str, WorkQueue)>,
    awaited: Vec<Awaited>,
    leadership: Leadership,
    trace: Trace,
    writer: Writer,
}

impl Handle {
    /// What the controllers did: their last runs, and sums since the start.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    pub fn leads(&self) -> bool {
        self.leadership.leads()
    }

    /// Writes sent so far.
    pub fn writes(&self) -> u64 {
        self.writer.counts().total()
    }

    /// Progress of each cache, by kind.
    pub fn caches(&self) -> Vec<(String, Progress)> {
        self.awaited.iter().map(|a| (a.kind.clone(), a.progress.borrow().clone())).collect()
    }

    /// Asks one controller for a run of one key. False when there is no such controller.
    pub fn trigger(&self, controller: &str, key: &capi_types::key::ObjectKey) -> bool {
        let found = self.queues.iter().find(|(name, _)| *name == controller);
        found.is_some_and(|(_, queue)| {
            queue.trigger(key);
            true
        })
    }

    /// Every cache is settled, nothing runs, and no trigger is unanswered.
    pub fn is_idle(&self) -> bool {
        self.awaited.iter().all(Awaited::is_settled) && self.queues.iter().all(|(_, queue)| queue.is_idle())
    }

    /// Resolves when the engine was idle at two looks `settle` apart. Under paused time any `settle`
    /// will do, because the clock only moves when every task waits; in real time it must be longer
    /// than the way of a write through the server and back. Timers (requeues, backoff) do not count.
    pub async fn wait_until_idle(&self, settle: Duration) {
        let mut quiet = 0;
        while quiet < 2 {
            tokio::time::sleep(settle).await;
            quiet = if self.is_idle() { quiet + 1 } else { 0 };
        }
    }
}
