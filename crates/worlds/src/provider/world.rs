//! All simulated clusters behind one lock: who reads them, who changes them, what is announced. Must not know
//! what happens inside a cluster, nor API objects' conditions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, watch};

use super::clusters::Clusters;
use super::endpoint::ReservedEndpoint;
use super::faults::Fault;
use super::host::Output;
use super::sim_cluster::{Changes, SimCluster};
use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp};
use capstan_engine::workload::{Announcement, Connection, JudgedAfter, WorkloadError};

/// Announcements that a slow listener may be behind.
const ANNOUNCEMENTS: usize = 1024;

/// A handle to all simulated clusters. Implements [`capstan_engine::workload::Workload`].
pub struct World {
    clusters: Mutex<Clusters>,
    changes: broadcast::Sender<Announcement>,
    /// Clusters whose API is to be served.
    served: watch::Sender<BTreeSet<ObjectKey>>,
    /// Wakes the clockwork when what it waits for may have changed.
    rewind: Notify,
    clock: Clock,
    rng: Rng,
    time_scale: f64,
    judged_after: JudgedAfter,
}

impl World {
    pub fn new(clock: Clock, rng: Rng, time_scale: f64) -> Self {
        Self {
            clusters: Mutex::default(),
            changes: broadcast::Sender::new(ANNOUNCEMENTS),
            served: watch::Sender::default(),
            rewind: Notify::new(),
            clock,
            rng,
            time_scale,
            judged_after: JudgedAfter::default(),
        }
    }

    /// The same where those who listen judge lost connections at other moments.
    pub fn judged_after(self, judged_after: JudgedAfter) -> Self {
        Self { judged_after, ..self }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn rng(&self) -> &Rng {
        &self.rng
    }

    pub fn time_scale(&self) -> f64 {
        self.time_scale
    }

    /// Switches a fault of a cluster on or off.
    pub fn set_fault(&self, cluster: &ObjectKey, fault: Fault, on: bool) {
        let now = self.clock.now();
        self.change(cluster, |sim| {
            // An alarm is etcd's own, so it is set on the member and not read from the faults.
            let alarms = if on { vec!["NOSPACE".to_owned()] } else { Vec::new() };
            if let Fault::EtcdNoSpace(node) = &fault
                && let Some(member) = sim.etcd.member_mut(node)
            {
                member.alarms = alarms;
            }
            if on {
                sim.faults.insert(fault, now)
            } else {
                sim.faults.remove(&fault)
            };
        });
    }

    /// Changes one cluster (made when it is new), lets what is due happen, and announces it.
    pub fn change<T>(&self, cluster: &ObjectKey, edit: impl FnOnce(&mut SimCluster) -> T) -> T {
        let now = self.clock.now();
        let (answer, changes) = self.clusters.lock().edit_or_make(
            cluster,
            now,
            || {
                let mut sim = SimCluster::new(now, self.time_scale);
                sim.judged_after = self.judged_after;
                sim
            },
            |sim| {
                // Compared, since an edit may change anything and need not say so.
                let before = sim.shared();
                let answer = edit(sim);
                sim.note_shared(&before);
                sim.advance(now);
                (answer, sim.take_changes())
            },
        );
        self.announce(cluster, changes);
        answer
    }

    /// Notes that the API of a cluster is to be served.
    pub fn serve(&self, cluster: &ObjectKey, endpoint: ReservedEndpoint) {
        let now = self.clock.now();
        self.change(cluster, |sim| {
            sim.served = Some(endpoint);
            sim.settle_hosts(now);
        });
        // After the endpoint is there: who hears of it asks for it.
        self.served.send_if_modified(|served| served.insert(cluster.clone()));
    }

    /// Runs a line on a simulated host of a cluster whose API is served, found by the name of its Node or by address.
    /// `None`: there is no such host.
    pub fn run(&self, host: &str, line: &str, input: &str) -> Option<Output> {
        let (cluster, name) = self.host_named(host)?;
        let now = self.clock.now();
        self.change(&cluster, |sim| sim.run(&name, line, input, now))
    }

    /// The cluster and Node of a host.
    pub fn host_named(&self, host: &str) -> Option<(ObjectKey, String)> {
        // Only clusters whose API is served have hosts.
        // A copy, since the borrow would hold off those who change the set.
        let served = self.served.borrow().clone();
        served.into_iter().find_map(|cluster| {
            let name = self.read(&cluster, |sim, _| sim.host_named(host)).flatten()?;
            Some((cluster, name))
        })
    }

    /// Clusters whose API is to be served, from now on.
    pub fn served(&self) -> watch::Receiver<BTreeSet<ObjectKey>> {
        self.served.subscribe()
    }

    /// Is the API of a cluster noted to be served?
    pub fn is_served(&self, cluster: &ObjectKey) -> bool {
        self.served.borrow().contains(cluster)
    }

    /// Reads one cluster as it is now. `None` when there is no such cluster.
    pub fn read<T>(&self, cluster: &ObjectKey, look: impl FnOnce(&SimCluster, Timestamp) -> T) -> Option<T> {
        let now = self.clock.now();
        let (answer, changes) = self.clusters.lock().edit(cluster, now, |sim| {
            sim.advance(now);
            (look(sim, now), sim.take_changes())
        })?;
        self.announce(cluster, changes);
        Some(answer)
    }

    /// Takes a machine away wherever it is: for objects that are gone without a trace.
    pub fn forget_machine(&self, machine: &ObjectKey) {
        // The lock ends with this block, since removing takes it again.
        let clusters: Vec<ObjectKey> = {
            let all = self.clusters.lock();
            let with_it =
                all.in_namespace(&machine.namespace).filter(|(_, sim)| sim.machine(&machine.name).is_some());
            with_it.map(|(cluster, _)| cluster.clone()).collect()
        };
        for cluster in clusters {
            self.remove_machine(&cluster, &machine.name);
        }
    }

    /// Takes a machine away with all that runs on it.
    pub fn remove_machine(&self, cluster: &ObjectKey, name: &str) {
        let now = self.clock.now();
        let changes = self.clusters.lock().edit(cluster, now, |sim| {
            sim.remove_machine(name, now);
            sim.take_changes()
        });
        self.announce(cluster, changes.unwrap_or_default());
    }

    /// Forgets every cluster. Whoever held the right to simulate them meanwhile noted in their objects what became of them.
    pub fn begin_anew(&self) {
        // First, so that a cluster that is forgotten is not served.
        self.served.send_if_modified(|served| !std::mem::take(served).is_empty());
        let gone = self.clusters.lock().take_all();
        self.send(gone.into_iter().map(Announcement::Cluster).collect());
    }

    pub fn remove_cluster(&self, cluster: &ObjectKey) {
        self.served.send_if_modified(|served| served.remove(cluster));
        if self.clusters.lock().remove(cluster) {
            self.send(vec![Announcement::Cluster(cluster.clone())]);
        }
    }

    /// The connection as probes would see it. A cluster that does not exist yet was never probed.
    pub fn link(&self, cluster: &ObjectKey) -> Connection {
        self.read(cluster, SimCluster::connection).unwrap_or_default()
    }

    /// Asks the cluster's API server.
    ///
    /// # Errors
    /// [`WorkloadError::NotConnected`] before the first connect and after too many failures,
    /// [`WorkloadError::Unreachable`] in between.
    pub fn ask<T>(
        &self,
        cluster: &ObjectKey,
        question: impl FnOnce(&SimCluster) -> Result<T, WorkloadError>,
    ) -> Result<T, WorkloadError> {
        self.read(cluster, |sim, now| {
            // After `advance`, so that what is due has happened before anyone is answered.
            sim.reachable(now)?;
            question(sim)
        })
        .unwrap_or(Err(WorkloadError::NotConnected))
    }

    /// Changes something through the cluster's API server or etcd.
    ///
    /// # Errors
    /// As [`World::ask`].
    pub fn write<T>(
        &self,
        cluster: &ObjectKey,
        edit: impl FnOnce(&mut SimCluster) -> Result<T, WorkloadError>,
    ) -> Result<T, WorkloadError> {
        // Asked first, since `change` would make a cluster that is not there.
        self.ask(cluster, |_| Ok(()))?;
        self.change(cluster, edit)
    }

    fn announce(&self, cluster: &ObjectKey, changes: Changes) {
        self.send(changes.announcements(cluster));
    }

    /// Wakes the listeners, and the clockwork.
    fn send(&self, announcements: Vec<Announcement>) {
        if announcements.is_empty() {
            return;
        }
        for announcement in announcements {
            // It is fine when there is no listener.
            let _ = self.changes.send(announcement);
        }
        // The next moment may be sooner now; a permit is kept while the clockwork is elsewhere.
        self.rewind.notify_one();
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Announcement> {
        self.changes.subscribe()
    }

    /// Announces what the passing of time alone changes: the judgement of lost connections, pods and
    /// volumes on their way out. (Machines that boot are looked at by their controller when they are due.)
    pub async fn clockwork(self: Arc<Self>) {
        loop {
            // The lock is free again before the wait begins.
            let (now, next) = (self.clock.now(), self.clusters.lock().next_moment());
            let wait = next.map(|at| (at - now).to_std().unwrap_or(Duration::ZERO));
            tokio::select! {
                // A change first: its next moment replaces the one that is being waited for.
                biased;
                () = self.rewind.notified() => {}
                () = pause(wait), if wait.is_some() => {
                    let due = self.clusters.lock().take_due(self.clock.now());
                    self.send(due.into_iter().map(Announcement::Cluster).collect());
                }
            }
        }
    }
}

/// At least a millisecond, so that a clock with a coarser tick than the runtime's cannot make us spin.
async fn pause(wait: Option<Duration>) {
    tokio::time::sleep(wait.unwrap_or_default().max(Duration::from_millis(1))).await;
}
