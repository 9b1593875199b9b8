//! The controller managers of simulated clusters whose API is served: each cluster's processes run as its pods say. Owns what
//! such a process has around it; must not know what it does.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::controller_managers::{HostFiles, Ledger, Site, follow};
use crate::provider::World;
use crate::workload_api::{ApiAccess, WorkloadApis};
use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::Client;
use leader_migration::rights::Grantee;

/// Who ran which controller of the cloud, by cluster.
#[derive(Clone, Default)]
pub struct Ledgers(Arc<Mutex<BTreeMap<ObjectKey, Ledger>>>);

impl Ledgers {
    /// Of a cluster; empty while nothing ran there.
    pub fn of(&self, cluster: &ObjectKey) -> Ledger {
        self.0.lock().entry(cluster.clone()).or_default().clone()
    }
}

/// Runs them for as long as each API is there.
pub async fn run(apis: Arc<WorkloadApis>, world: Arc<World>, ledgers: Ledgers, clock: Clock, rng: Rng) {
    let mut open = apis.open();
    let mut running: BTreeMap<ObjectKey, AbortOnDropHandle<()>> = BTreeMap::new();
    loop {
        let there = open.borrow_and_update().clone();
        // Dropped handles abort, which kills the processes of the cluster.
        running.retain(|cluster, _| there.contains_key(cluster));
        for (cluster, access) in there {
            // By the cluster's name, so that identities do not depend on which comes first.
            let (clock, rng) = (clock.clone(), rng.stream(&cluster.to_string()));
            running.entry(cluster.clone()).or_insert_with(|| {
                let ledger = ledgers.of(&cluster);
                let site = Arc::new(SimulatedSite { world: Arc::clone(&world), cluster, access });
                AbortOnDropHandle::new(tokio::spawn(follow(site, ledger, clock, rng)))
            });
        }
        if open.changed().await.is_err() {
            return;
        }
    }
}

struct SimulatedSite {
    world: Arc<World>,
    cluster: ObjectKey,
    access: ApiAccess,
}

impl Site for SimulatedSite {
    fn administrator(&self) -> Client {
        self.access.administrator().client
    }

    fn client(&self, who: &Grantee) -> Client {
        self.access.process(who.user(), who.groups())
    }

    fn host_files(&self, node: &str, path: &str) -> HostFiles {
        self.world.read(&self.cluster, |sim, _| sim.host_files(node, path)).unwrap_or_default()
    }

    fn show(&self, namespace: &str, pod: &str, failure: Option<&str>) {
        let pod = ObjectKey::new(namespace, pod);
        self.world.change(&self.cluster, |sim| sim.show_process(&pod, failure));
    }
}
