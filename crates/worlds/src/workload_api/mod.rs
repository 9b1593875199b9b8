//! The Kubernetes API of simulated workload clusters that ask for one: an API server of our own for each, over a store
//! in memory, served with a certificate of the cluster's own authority, and kept in step with the simulation.
//! Owns the joining of the two; must not know what a simulated machine does, nor what an API request means.
//!
//! What the simulation makes (Nodes, pods, add-ons, kubeadm's ConfigMaps) is written as a kubelet or kubeadm would;
//! what clients change of it goes back into the simulation (`mirror`). DaemonSets of clients have pods (`daemon_sets`).
//! Everything else that clients write (Leases, ConfigMaps of their own, ...) stays in the store, and ends with the process.

mod access;
mod authorities;
pub mod commands;
mod daemon_fit;
mod daemon_sets;
mod door;
mod gate;
mod kubelets;
mod mirror;
mod ports;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

pub use self::access::ApiAccess;
use self::authorities::Authorities;
use self::daemon_sets::DaemonSets;
use self::gate::{Front, Gate};
use self::kubelets::SimKubelets;
use self::mirror::Mirror;
use crate::provider::World;
use capi_types::key::ObjectKey;
use capstan_apiserver::{ApiServer, Identity, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::{Client, in_process};
use capstan_engine::engine::Engine;
use capstan_engine::workload::Announcement;
use capstan_store::MemoryStore;
use k8s_machinery::admission::AdmitAll;

/// How often the authority of a new cluster is looked for.
const AUTHORITY_RETRY: Duration = Duration::from_millis(500);

/// The APIs of all simulated clusters that ask for one.
pub struct WorkloadApis {
    world: Arc<World>,
    management: Client,
    clock: Clock,
    rng: Rng,
    open: watch::Sender<BTreeMap<ObjectKey, ApiAccess>>,
}

/// Serves the APIs while the engine runs.
pub fn register(engine: &mut Engine, world: Arc<World>) -> Arc<WorkloadApis> {
    let apis = Arc::new(WorkloadApis {
        world,
        management: engine.client().clone(),
        clock: engine.clock().clone(),
        rng: engine.rng().stream("workload-apis"),
        open: watch::Sender::default(),
    });
    engine.add_background(Arc::clone(&apis).run());
    apis
}

impl WorkloadApis {
    /// The clusters whose API is there, each with a way in for processes that are simulated in this process.
    pub fn open(&self) -> watch::Receiver<BTreeMap<ObjectKey, ApiAccess>> {
        self.open.subscribe()
    }

    async fn run(self: Arc<Self>) {
        let mut served = self.world.served();
        let mut running: BTreeMap<ObjectKey, AbortOnDropHandle<()>> = BTreeMap::new();
        loop {
            let wanted = served.borrow_and_update().clone();
            // Dropped handles abort: a cluster that is gone is not served any more.
            running.retain(|cluster, _| wanted.contains(cluster));
            self.open.send_if_modified(|open| {
                let before = open.len();
                open.retain(|cluster, _| wanted.contains(cluster));
                open.len() != before
            });
            for cluster in wanted {
                // A task for each, since one that waits for
                // its authority must not hold up the others.
                running.entry(cluster.clone()).or_insert_with(|| {
                    let apis = Arc::clone(&self);
                    AbortOnDropHandle::new(tokio::spawn(async move { apis.serve(cluster).await }))
                });
            }
            if served.changed().await.is_err() {
                return;
            }
        }
    }

    /// Serves one cluster until it is dropped.
    async fn serve(&self, cluster: ObjectKey) {
        let (management, clock) = (self.management.clone(), self.clock.clone());
        let authorities = Authorities { management, cluster: cluster.clone(), clock };
        let kubelets = SimKubelets {
            world: Arc::clone(&self.world),
            cluster: cluster.clone(),
            authorities: authorities.clone(),
        };
        let options = Options {
            clock: self.clock.clone(),
            rng: self.rng.stream(&cluster.to_string()),
            definitions: Vec::new(),
            // There are no tokens: clients come with certificates of the cluster's authority.
            tokens: Tokens::random(),
            admission: Arc::new(AdmitAll),
        };
        let opened =
            ApiServer::open_with_nodes(Arc::new(MemoryStore::new()), options, Arc::new(kubelets)).await;
        let server = match opened {
            Ok(server) => server,
            Err(error) => return tracing::error!(%cluster, "the API of the cluster is not served: {error}"),
        };
        let front = watch::Sender::<Front>::default();
        let gate = Gate { server: server.clone(), front: front.subscribe() };
        let access = ApiAccess::new(gate, &cluster.name);
        // Before the door is open: processes of this process need no certificate.
        self.open.send_modify(|open| drop(open.insert(cluster.clone(), access)));
        // Past the gate: the mirror waits for the front by itself.
        let kubelet = in_process(server.acting_as(Identity::ADMIN), &cluster.name, "default", false);
        let mirror = Mirror::new(Arc::clone(&self.world), cluster.clone(), kubelet.client.clone());
        let rng = self.rng.stream("daemon sets");
        let (world, clock) = (Arc::clone(&self.world), self.clock.clone());
        let daemon_sets = DaemonSets::new(world, cluster.clone(), kubelet.client, clock, rng);
        tokio::join!(
            self.follow(&cluster, &front),
            mirror.run(front.subscribe(), self.rng.stream("mirror")),
            daemon_sets.run(),
            self.open_door(&cluster, &server, &authorities, front.subscribe()),
        );
    }

    /// Keeps what the cluster shows at its endpoint up to date.
    async fn follow(&self, cluster: &ObjectKey, front: &watch::Sender<Front>) {
        let mut news = self.world.subscribe();
        loop {
            let look = self.world.read(cluster, |sim, _| (sim.serves(), sim.endpoint_names()));
            let (up, names) = look.unwrap_or_default();
            let is = Front { up, names };
            front.send_if_modified(|was| {
                let is_other = *was != is;
                *was = is;
                is_other
            });
            loop {
                match news.recv().await {
                    Ok(Announcement::Cluster(changed)) if changed == *cluster => break,
                    Ok(Announcement::Missed) | Err(RecvError::Lagged(_)) => break,
                    Ok(_) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        }
    }

    /// Serves the cluster's endpoint once its authority is there.
    async fn open_door(
        &self,
        cluster: &ObjectKey,
        server: &ApiServer,
        authorities: &Authorities,
        front: watch::Receiver<Front>,
    ) {
        let reserved = self
            .world
            .change(cluster, |sim| sim.served.as_mut().and_then(|endpoint| endpoint.take_listener()));
        let Some(listener) = reserved else { return };
        let authority = loop {
            match authorities.named("ca").await {
                Ok(authority) => break authority,
                // The Secret is made by a controller that may not have run yet.
                Err(why) => tracing::debug!(%cluster, "the API is not served yet: {why}"),
            }
            tokio::time::sleep(AUTHORITY_RETRY).await;
        };
        if let Err(error) = door::keep(listener, server.guarded(), &authority, front).await {
            tracing::error!(%cluster, "the API of the cluster is not served: {error}");
        }
    }
}
