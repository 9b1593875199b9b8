//! The truth about simulated clusters: machines, nodes, pods, etcd, the connection. Owns the values
//! and how they advance with time; must not know API objects' conditions, nor who asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Taint};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

use super::boot::{Boot, Phase};
use super::etcd::Etcd;
use super::faults::{Fault, Faults};
use super::kubeadm::{self, NodeFacts};
use super::tenants::{TenantSpec, Tenants};
use crate::api::key::ObjectKey;
use crate::rng::Rng;
use crate::time::{Clock, Timestamp};
use crate::workload::{Addon, Connection, FAILURES_MAX, WorkloadError};

/// Between probes of a connected cluster, and between attempts to connect.
/// Source: `controllers/clustercache`, v1.14.0.
const PROBE_INTERVAL: TimeDelta = TimeDelta::seconds(10);
const CONNECT_INTERVAL: TimeDelta = TimeDelta::seconds(30);
/// After so long without a successful probe somebody's judgement changes (grace periods of 50 s and
/// 5 min), so they are told; a little later, because they compare with "longer than".
const GRACE_ENDS: [TimeDelta; 2] = [TimeDelta::seconds(51), TimeDelta::seconds(301)];
/// Announcements that a slow listener may be behind.
const ANNOUNCEMENTS: usize = 1024;

/// A handle to all simulated clusters. Implements [`crate::workload::Workload`].
pub struct World {
    clusters: Mutex<BTreeMap<ObjectKey, SimCluster>>,
    changes: broadcast::Sender<ObjectKey>,
    /// Wakes the clockwork when what it waits for may have changed.
    rewind: Notify,
    clock: Clock,
    rng: Rng,
    time_scale: f64,
}

/// One workload cluster as it really is.
#[derive(Clone, Debug, PartialEq)]
pub struct SimCluster {
    pub machines: BTreeMap<String, SimMachine>,
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// By namespace and name.
    pub pods: BTreeMap<ObjectKey, Pod>,
    /// What is known of pods that the annotation asked for.
    pub tenants: Tenants,
    pub etcd: Etcd,
    pub kubeadm_config: Option<ConfigMap>,
    pub addons: BTreeMap<Addon, String>,
    /// Ends of join tokens, by their public half.
    pub join_tokens: BTreeMap<String, Timestamp>,
    pub faults: Faults,
    /// No machine gets further before: looking at all of them for every question would cost too much.
    next_boot: Option<Timestamp>,
    link: Link,
}

/// One machine, by the name of its DevMachine, which is also its node's.
#[derive(Clone, Debug, PartialEq)]
pub struct SimMachine {
    pub boot: Boot,
    pub provider_id: String,
    /// The Machine's version; what the kubelet reports is fixed when the node appears.
    pub version: String,
    pub control_plane: bool,
    /// Type and address.
    pub addresses: Vec<(&'static str, String)>,
    pub member_id: u64,
    /// Pods that start with its node.
    pub tenants: Vec<TenantSpec>,
}

/// The connection from the engine to the cluster's API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// Never up; first tried at.
    Never(Timestamp),
    /// Since.
    Up(Timestamp),
    /// Last seen at.
    Down(Timestamp),
}

impl SimCluster {
    fn new(now: Timestamp, time_scale: f64) -> Self {
        Self {
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            tenants: Tenants::new(time_scale),
            etcd: Etcd::default(),
            kubeadm_config: None,
            addons: BTreeMap::new(),
            join_tokens: BTreeMap::new(),
            faults: Faults::new(),
            next_boot: None,
            link: Link::Never(now),
        }
    }

    /// Does anything answer at the endpoint?
    fn serves(&self) -> bool {
        !self.faults.contains_key(&Fault::Unreachable)
            && self.machines.values().any(|m| m.control_plane && m.boot.since(Phase::ApiServer).is_some())
    }

    /// Lets everything happen that is due. True when something did.
    fn advance(&mut self, now: Timestamp) -> bool {
        let happened = self.next_boot.is_some_and(|at| at <= now) && self.boot(now);
        let silent = |node: &str| self.faults.contains_key(&Fault::NodeSilent(node.to_owned()));
        let (gone, ended) = self.tenants.advance(now, &self.nodes, |node| !silent(node));
        gone.iter().for_each(|key| drop(self.pods.remove(key)));
        self.update_link(now) || happened || ended
    }

    /// Lets machines boot as far as they are. True when one got further.
    fn boot(&mut self, now: Timestamp) -> bool {
        let due = |machine: &SimMachine| machine.boot.next_due().map(|(at, _)| at);
        let is_due = |machine: &SimMachine| due(machine).is_some_and(|at| at <= now);
        let booting = self.machines.iter().filter(|(_, machine)| is_due(machine));
        let names: Vec<String> = booting.map(|(name, _)| name.clone()).collect();
        for name in &names {
            while let Some(phase) = self.machines.get_mut(name).and_then(|m| m.boot.advance(now)) {
                self.came_up(name, phase);
            }
        }
        self.next_boot = self.machines.values().filter_map(due).min();
        !names.is_empty()
    }

    /// What a finished phase leaves behind.
    fn came_up(&mut self, name: &str, phase: Phase) {
        let Some(machine) = self.machines.get(name) else { return };
        let Some(at) = machine.boot.since(phase) else { return };
        match phase {
            Phase::Vm => {}
            Phase::Node => {
                let node = kubeadm::node(&NodeFacts {
                    name,
                    provider_id: &machine.provider_id,
                    version: &machine.version,
                    addresses: &machine.addresses,
                    control_plane: machine.control_plane,
                    at,
                });
                self.nodes.insert(name.to_owned(), Arc::new(node));
                let pods = self.tenants.settle(name, &machine.tenants, at);
                self.pods.extend(pods.into_iter().map(|pod| (ObjectKey::of(&pod), pod)));
            }
            Phase::Etcd => {
                self.etcd.start(name, machine.member_id);
                self.add_pod("etcd", name, at);
            }
            Phase::ApiServer => {
                let version = machine.version.clone();
                for component in ["kube-apiserver", "kube-scheduler", "kube-controller-manager"] {
                    self.add_pod(component, name, at);
                }
                self.kubeadm_config.get_or_insert_with(|| kubeadm::config_map(at));
                self.addons.entry(Addon::KubeProxy).or_insert_with(|| kubeadm::kube_proxy_image(&version));
                self.addons.entry(Addon::CoreDns).or_insert_with(|| kubeadm::CORE_DNS_IMAGE.to_owned());
            }
        }
    }

    fn add_pod(&mut self, component: &str, node: &str, at: Timestamp) {
        let pod = kubeadm::static_pod(component, node, at);
        self.pods.insert(ObjectKey::of(&pod), pod);
    }

    /// Takes a machine and all that runs on it away, in upstream's order: node, etcd, API server,
    /// scheduler, controller manager, machine.
    fn remove_machine(&mut self, name: &str, now: Timestamp) -> bool {
        self.nodes.remove(name);
        self.etcd.stop(name);
        self.tenants.leave(name);
        self.pods.retain(|_, pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) != Some(name));
        let removed = self.machines.remove(name).is_some();
        self.update_link(now);
        removed
    }

    fn update_link(&mut self, now: Timestamp) -> bool {
        let next = match (self.link, self.serves()) {
            (Link::Never(_) | Link::Down(_), true) => Link::Up(now),
            (Link::Up(_), false) => Link::Down(now),
            (same, _) => same,
        };
        std::mem::replace(&mut self.link, next) != next
    }

    /// As a prober would report it at `now`.
    fn connection(&self, now: Timestamp) -> Connection {
        match self.link {
            Link::Never(since) => {
                let attempts = whole_intervals(now - since, CONNECT_INTERVAL) + 1;
                Connection {
                    last_probe: Some(since + CONNECT_INTERVAL * (attempts - 1)),
                    last_probe_success: None,
                    consecutive_failures: u32::try_from(attempts).unwrap_or(0),
                    connected: false,
                }
            }
            Link::Up(since) => {
                let last = since + PROBE_INTERVAL * whole_intervals(now - since, PROBE_INTERVAL);
                Connection {
                    last_probe: Some(last),
                    last_probe_success: Some(last),
                    consecutive_failures: 0,
                    connected: true,
                }
            }
            Link::Down(since) => {
                let failures = whole_intervals(now - since, PROBE_INTERVAL);
                Connection {
                    last_probe: Some(since + PROBE_INTERVAL * failures),
                    last_probe_success: Some(since),
                    consecutive_failures: u32::try_from(failures).unwrap_or(0),
                    connected: u32::try_from(failures).is_ok_and(|f| f < FAILURES_MAX),
                }
            }
        }
    }

    /// Can its API server be asked at `now`?
    fn reachable(&self, now: Timestamp) -> Result<(), WorkloadError> {
        match self.connection(now) {
            connection if !connection.connected => Err(WorkloadError::NotConnected),
            _ if !self.serves() => {
                Err(WorkloadError::Unreachable("the API server does not answer".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The next moment after `now` at which a controller should look again although nothing happened.
    fn next_moment(&self, now: Timestamp) -> Option<Timestamp> {
        [self.next_judgement(now), self.tenants.next_moment(now)].into_iter().flatten().min()
    }

    /// Of those who judge a lost connection.
    fn next_judgement(&self, now: Timestamp) -> Option<Timestamp> {
        let since = match self.link {
            Link::Never(since) => {
                since + CONNECT_INTERVAL * (i32::try_from(FAILURES_MAX).unwrap_or(5) - 1) - GRACE_ENDS[0]
            }
            Link::Down(since) => since,
            Link::Up(_) => return None,
        };
        GRACE_ENDS.iter().map(|grace| since + *grace).filter(|at| *at > now).min()
    }

    /// A node as faults let it be seen.
    #[must_use]
    pub fn seen_node(&self, name: &str) -> Option<Arc<Node>> {
        let mut seen = Arc::clone(self.nodes.get(name)?);
        let attached = self.tenants.attached_to(name);
        if !attached.is_empty() {
            let node = Arc::make_mut(&mut seen);
            node.status.get_or_insert_default().volumes_attached = Some(attached);
        }
        if let Some(since) = self.faults.get(&Fault::NodeNotReady(name.to_owned())) {
            turn_ready(Arc::make_mut(&mut seen), "False", *since);
        }
        if let Some(since) = self.faults.get(&Fault::NodeSilent(name.to_owned())) {
            let node = Arc::make_mut(&mut seen);
            turn_ready(node, "Unknown", *since);
            let (key, effect) = ("node.kubernetes.io/unreachable".to_owned(), "NoExecute".to_owned());
            let taint = Taint { key, effect, ..Taint::default() };
            node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
        }
        Some(seen)
    }

    /// A machine as an earlier process left it: what was up is up, at once.
    pub fn restore_machine(&mut self, name: &str, machine: SimMachine, up: &[(Phase, Timestamp)]) {
        self.machines.insert(name.to_owned(), machine);
        for (phase, at) in up {
            if let Some(machine) = self.machines.get_mut(name) {
                machine.boot.restore(*phase, *at);
            }
            self.came_up(name, *phase);
        }
    }
}

fn turn_ready(node: &mut Node, status: &str, at: Timestamp) {
    let conditions = node.status.as_mut().and_then(|s| s.conditions.as_mut());
    if let Some(ready) = conditions.and_then(|c| c.iter_mut().find(|c| c.type_ == "Ready")) {
        *ready = kubeadm::node_condition("Ready", status, at);
    }
}

/// Whole intervals in a span, at least 0.
fn whole_intervals(span: TimeDelta, interval: TimeDelta) -> i32 {
    i32::try_from((span.num_milliseconds() / interval.num_milliseconds()).max(0)).unwrap_or(i32::MAX)
}

impl World {
    #[must_use]
    pub fn new(clock: Clock, rng: Rng, time_scale: f64) -> Self {
        Self {
            clusters: Mutex::new(BTreeMap::new()),
            changes: broadcast::Sender::new(ANNOUNCEMENTS),
            rewind: Notify::new(),
            clock,
            rng,
            time_scale,
        }
    }

    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[must_use]
    pub fn rng(&self) -> &Rng {
        &self.rng
    }

    #[must_use]
    pub fn time_scale(&self) -> f64 {
        self.time_scale
    }

    /// Switches a fault of a cluster on or off.
    pub fn set_fault(&self, cluster: &ObjectKey, fault: Fault, on: bool) {
        let now = self.clock.now();
        self.change(cluster, |sim| {
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
        let (answer, changed) = {
            let mut clusters = self.clusters.lock();
            let sim =
                clusters.entry(cluster.clone()).or_insert_with(|| SimCluster::new(now, self.time_scale));
            let before = sim.clone();
            let answer = edit(sim);
            sim.next_boot = Some(now);
            sim.advance(now);
            (answer, *sim != before)
        };
        if changed {
            self.announce(cluster);
        }
        answer
    }

    /// Reads one cluster as it is now. `None` when there is no such cluster.
    pub fn read<T>(&self, cluster: &ObjectKey, look: impl FnOnce(&SimCluster, Timestamp) -> T) -> Option<T> {
        let now = self.clock.now();
        let (answer, advanced) = {
            let mut clusters = self.clusters.lock();
            let sim = clusters.get_mut(cluster)?;
            let advanced = sim.advance(now);
            (look(sim, now), advanced)
        };
        if advanced {
            self.announce(cluster);
        }
        Some(answer)
    }

    /// Takes a machine away wherever it is: for objects that are gone without a trace.
    pub fn forget_machine(&self, machine: &ObjectKey) {
        let clusters: Vec<ObjectKey> =
            self.clusters.lock().keys().filter(|c| c.namespace == machine.namespace).cloned().collect();
        for cluster in clusters {
            self.remove_machine(&cluster, &machine.name);
        }
    }

    /// Takes a machine away with all that runs on it.
    pub fn remove_machine(&self, cluster: &ObjectKey, name: &str) {
        let now = self.clock.now();
        let removed = self.clusters.lock().get_mut(cluster).is_some_and(|sim| sim.remove_machine(name, now));
        if removed {
            self.announce(cluster);
        }
    }

    /// Takes a cluster away.
    pub fn remove_cluster(&self, cluster: &ObjectKey) {
        if self.clusters.lock().remove(cluster).is_some() {
            self.announce(cluster);
        }
    }

    /// The connection as probes would see it. A cluster that does not exist yet was never probed.
    #[must_use]
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
            sim.reachable(now)?;
            question(sim)
        })
        .unwrap_or(Err(WorkloadError::NotConnected))
    }

    /// Changes something through the cluster's API server or etcd.
    ///
    /// # Errors
    /// As [`World::ask`].
    pub fn tell<T>(
        &self,
        cluster: &ObjectKey,
        order: impl FnOnce(&mut SimCluster) -> Result<T, WorkloadError>,
    ) -> Result<T, WorkloadError> {
        self.ask(cluster, |_| Ok(()))?;
        self.change(cluster, order)
    }

    /// Tells who listens, and the clockwork.
    fn announce(&self, cluster: &ObjectKey) {
        // Nobody listening is fine.
        let _ = self.changes.send(cluster.clone());
        self.rewind.notify_one();
    }

    pub fn subscribe(&self) -> broadcast::Receiver<ObjectKey> {
        self.changes.subscribe()
    }

    /// Announces what the passing of time alone changes: the judgement of lost connections, pods and
    /// volumes on their way out. (Machines that boot are looked at by their controller when they are due.)
    pub async fn clockwork(self: Arc<Self>) {
        loop {
            let (now, next) = (self.clock.now(), self.next_moments());
            let wait = next.first().map(|(at, _)| (*at - now).to_std().unwrap_or(Duration::ZERO));
            tokio::select! {
                biased;
                () = self.rewind.notified() => {}
                () = pause(wait), if wait.is_some() => {
                    let now = self.clock.now();
                    next.iter().filter(|(at, _)| *at <= now).for_each(|(_, cluster)| self.announce(cluster));
                }
            }
        }
    }

    /// The next moment of each cluster, soonest first.
    fn next_moments(&self) -> Vec<(Timestamp, ObjectKey)> {
        let now = self.clock.now();
        let clusters = self.clusters.lock();
        let mut moments: Vec<_> =
            clusters.iter().filter_map(|(key, sim)| Some((sim.next_moment(now)?, key.clone()))).collect();
        moments.sort_unstable();
        moments
    }
}

/// At least a millisecond, so that a clock with a coarser tick than the runtime's cannot make us spin.
async fn pause(wait: Option<Duration>) {
    tokio::time::sleep(wait.unwrap_or_default().max(Duration::from_millis(1))).await;
}
