//! One simulated cluster: machines, nodes, pods, etcd, the connection. Owns how they advance with time, and the
//! record of what changed meanwhile; must not know API objects' conditions, nor who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Taint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::add_ons::AddOn;
use super::boot_data::BootData;
use super::endpoint::ReservedEndpoint;
use super::faults::{Fault, Faults};
use super::host::KubeadmHost;
use super::kubeadm::{self, KUBE_SYSTEM, NodeFacts};
use super::tenants::{TenantSpec, Tenants};
use capi_types::dev::Host as HostSpec;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;
use capstan_engine::workload::nodes::{NodeIdentity, provider_id};
use capstan_engine::workload::{Addon, Announcement, Connection, FAILURES_MAX, JudgedAfter, WorkloadError};
use capstan_physics::boot::{Boot, BootStage};
use capstan_physics::etcd::Etcd;
use k8s_machinery::merge;

/// Between probes of a connected cluster, and between attempts to connect.
/// Source: `controllers/clustercache`, v1.14.2.
const PROBE_INTERVAL: TimeDelta = TimeDelta::seconds(10);
const CONNECT_INTERVAL: TimeDelta = TimeDelta::seconds(30);

/// Of the certificate of an API server.
/// Source: `util/certs/consts.go`, v1.14.2.
const CERTIFICATE_LIFE: TimeDelta = TimeDelta::days(365);

/// One workload cluster as it really is.
#[derive(Debug)]
pub struct SimCluster {
    pub(super) machines: BTreeMap<String, SimMachine>,
    nodes: BTreeMap<String, Arc<Node>>,
    /// Names of nodes by provider ID: every Machine asks for its own.
    provider_ids: BTreeMap<String, BTreeSet<String>>,
    /// By namespace and name.
    pub pods: BTreeMap<ObjectKey, Pod>,
    /// What is known of pods that the annotation asked for.
    pub tenants: Tenants,
    pub etcd: Etcd,
    /// Of `kube-system`, by name.
    pub config_maps: BTreeMap<String, ConfigMap>,
    pub addons: BTreeMap<Addon, AddOn>,
    /// Names of ClusterRoleBindings beyond those of every API server.
    pub cluster_role_bindings: BTreeSet<String>,
    /// Ends of join tokens, by their public half.
    pub join_tokens: BTreeMap<String, Timestamp>,
    pub faults: Faults,
    /// Machines that get further with time, or may: looking at all of them would cost too much.
    booting: BTreeSet<String>,
    /// None of them gets further before.
    next_boot: Option<Timestamp>,
    /// Machines whose API server is up: asked for before every answer.
    pub(super) serving: BTreeSet<String>,
    /// Where kubeadm was, in a cluster whose API is served.
    pub(super) hosts: BTreeMap<String, KubeadmHost>,
    /// Why processes of pods end at their start.
    pub(super) failing: BTreeMap<ObjectKey, String>,
    /// When something of a host is to be shown.
    pub(super) hosts_due: Option<Timestamp>,
    link: Link,
    pub judged_after: JudgedAfter,
    /// What a client that follows Nodes has of them since the API went away, until the connection counts as lost.
    last_known: Vec<Arc<Node>>,
    /// `None`: nothing listens at the endpoint.
    pub served: Option<ReservedEndpoint>,
    /// Divides every duration.
    pub time_scale: f64,
    pub(super) changes: Changes,
}

/// What changed since it was announced last.
#[derive(Debug, Default)]
pub struct Changes {
    /// The connection, etcd, settings.
    pub(super) shared: bool,
    nodes: BTreeMap<String, NodeIdentity>,
}

impl Changes {
    pub fn announcements(self, cluster: &ObjectKey) -> Vec<Announcement> {
        let shared = self.shared.then(|| Announcement::Cluster(cluster.clone()));
        let nodes = self.nodes.into_values();
        let nodes = nodes.map(|node| Announcement::Node { cluster: cluster.clone(), node });
        shared.into_iter().chain(nodes).collect()
    }
}

/// What all machines of a cluster share, to be compared before and after an edit.
#[derive(PartialEq)]
pub struct Shared {
    etcd: Etcd,
    config_maps: BTreeMap<String, ConfigMap>,
    addons: BTreeMap<Addon, AddOn>,
    faults: Faults,
}

/// One machine, by the name of its DevMachine, which is also its node's.
#[derive(Clone, Debug, PartialEq)]
pub struct SimMachine {
    pub boot: Boot,
    pub provider_id: String,
    /// The Machine's version, which the host becomes when its node appears.
    pub version: String,
    /// What the host is since its node appeared.
    pub host: Option<HostSpec>,
    /// Memory of the VM when it was made, as a quantity.
    pub memory: Option<String>,
    pub control_plane: bool,
    /// Type and address.
    pub addresses: Vec<(&'static str, String)>,
    pub member_id: u64,
    /// What it does wrong, in the words of the annotation.
    pub faults: String,
    /// Pods that start with its node.
    pub tenants: Vec<TenantSpec>,
    pub boot_data: BootData,
}

impl SimMachine {
    /// What the host is, or is going to be.
    pub fn host(&self) -> HostSpec {
        let made = || HostSpec { kubelet_version: self.version.clone(), memory: self.memory.clone() };
        self.host.clone().unwrap_or_else(made)
    }
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
    pub fn new(now: Timestamp, time_scale: f64) -> Self {
        Self {
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            provider_ids: BTreeMap::new(),
            pods: BTreeMap::new(),
            tenants: Tenants::new(time_scale),
            etcd: Etcd::default(),
            config_maps: BTreeMap::new(),
            addons: BTreeMap::new(),
            cluster_role_bindings: BTreeSet::new(),
            join_tokens: BTreeMap::new(),
            faults: Faults::new(),
            booting: BTreeSet::new(),
            next_boot: None,
            serving: BTreeSet::new(),
            hosts: BTreeMap::new(),
            failing: BTreeMap::new(),
            hosts_due: None,
            link: Link::Never(now),
            judged_after: JudgedAfter::default(),
            last_known: Vec::new(),
            served: None,
            time_scale,
            // A new cluster is news by itself.
            changes: Changes { shared: true, ..Changes::default() },
        }
    }

    pub fn machine(&self, name: &str) -> Option<&SimMachine> {
        self.machines.get(name)
    }

    /// Adds a machine; it boots from then on.
    pub fn put_machine(&mut self, name: &str, machine: SimMachine) {
        self.machines.insert(name.to_owned(), machine);
        self.look_at_boot(name);
    }

    /// Makes something else of a host, which its node shows.
    pub fn set_host(&mut self, name: &str, host: HostSpec) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        let patch = kubeadm::host_patch(&host);
        machine.host = Some(host);
        // Without a node there is nothing to show yet.
        let _ = self.patch_node(name, &patch);
    }

    /// What may change of a machine: the stage that it does not get past, and its version.
    pub fn set_machine_facts(&mut self, name: &str, hold: Option<BootStage>, version: String) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        (machine.boot.hold, machine.version) = (hold, version);
        self.look_at_boot(name);
    }

    fn look_at_boot(&mut self, name: &str) {
        self.booting.insert(name.to_owned());
        // In the past, so that the next advance looks at it.
        self.next_boot = Some(Timestamp::MIN_UTC);
    }

    fn put_node(&mut self, name: &str, node: Arc<Node>) {
        if let Some(id) = provider_id(&node) {
            self.provider_ids.entry(id.to_owned()).or_default().insert(name.to_owned());
        }
        self.nodes.insert(name.to_owned(), node);
        self.note_node(name);
    }

    /// Takes a node away. One that is already gone is fine.
    pub fn remove_node(&mut self, name: &str) {
        self.note_node(name);
        let Some(node) = self.nodes.remove(name) else { return };
        if let Some(id) = provider_id(&node)
            && let Some(names) = self.provider_ids.get_mut(id)
        {
            names.remove(name);
            if names.is_empty() {
                self.provider_ids.remove(id);
            }
        }
    }

    /// Merges `patch` into a node; the node as it is then seen.
    ///
    /// # Errors
    /// [`WorkloadError::NotFound`], or the patch does not fit.
    pub fn patch_node(&mut self, name: &str, patch: &Value) -> Result<Node, WorkloadError> {
        let missing = || WorkloadError::NotFound(format!("Node {name}"));
        let before = self.nodes.get(name).ok_or_else(missing)?;
        let after: Node = patched(before.as_ref(), patch)?;
        if after != **before {
            // Taken out and put in again: the patch may change the provider ID by which it is
            // found.
            self.remove_node(name);
            self.put_node(name, Arc::new(after));
        }
        self.seen_node(name).map(Arc::unwrap_or_clone).ok_or_else(missing)
    }

    /// Merges `patch` into a ConfigMap of `kube-system`.
    ///
    /// # Errors
    /// [`WorkloadError::NotFound`], or the patch does not fit.
    pub fn patch_config_map(&mut self, name: &str, patch: &Value) -> Result<(), WorkloadError> {
        let missing = || WorkloadError::NotFound(format!("ConfigMap {KUBE_SYSTEM}/{name}"));
        let map = self.config_maps.get_mut(name).ok_or_else(missing)?;
        *map = patched(map, patch)?;
        Ok(())
    }

    /// When the certificate ends that the API server of a machine got when it came up.
    ///
    /// # Errors
    /// [`WorkloadError::Unreachable`] without one.
    pub fn api_server_expiry(&self, name: &str) -> Result<Timestamp, WorkloadError> {
        let began = self.machines.get(name).and_then(|machine| machine.boot.since(BootStage::ApiServer));
        let expiry = began.map(|began| began + CERTIFICATE_LIFE);
        expiry.ok_or_else(|| WorkloadError::Unreachable(format!("there is no API server on Node {name}")))
    }

    /// Every node as it is seen, by name.
    pub fn seen_nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.keys().filter_map(|name| self.seen_node(name)).collect()
    }

    /// Those with a provider ID, as they are seen.
    pub fn seen_nodes_with(&self, id: &str) -> Vec<Arc<Node>> {
        let names = self.provider_ids.get(id).into_iter().flatten();
        names.filter_map(|name| self.seen_node(name)).collect()
    }

    /// What all machines share, as it is now.
    pub fn shared(&self) -> Shared {
        Shared {
            etcd: self.etcd.clone(),
            config_maps: self.config_maps.clone(),
            addons: self.addons.clone(),
            faults: self.faults.clone(),
        }
    }

    /// Notes that what all machines share is no longer as `before`.
    pub fn note_shared(&mut self, before: &Shared) {
        self.changes.shared |= self.shared() != *before;
    }

    pub(super) fn note_node(&mut self, name: &str) {
        // A node that is gone already was noted as it went.
        if let Some(node) = self.nodes.get(name) {
            let now = NodeIdentity::of(node);
            let noted = self.changes.nodes.entry(name.to_owned()).or_insert_with(|| now.clone());
            // Whichever it was at either end: those who follow control planes must hear of both.
            noted.is_control_plane |= now.is_control_plane;
        }
    }

    /// What changed since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Does anything answer at the endpoint?
    pub fn serves(&self) -> bool {
        !self.faults.contains_key(&Fault::Unreachable) && !self.serving.is_empty()
    }

    /// Lets everything happen that is due.
    pub fn advance(&mut self, now: Timestamp) {
        if self.next_boot.is_some_and(|at| at <= now) {
            self.boot(now);
        }
        self.advance_hosts(now);
        // A borrow of the field alone, since the tenants are changed meanwhile.
        let faults = &self.faults;
        let ended = self.tenants.advance(now, &self.nodes, |node| silent_since(faults, node).is_none());
        ended.pods.iter().for_each(|key| drop(self.pods.remove(key)));
        ended.nodes.iter().for_each(|node| self.note_node(node));
        self.update_link(now);
    }

    /// Lets machines boot as far as they are.
    fn boot(&mut self, now: Timestamp) {
        // Taken out, since what comes up changes the cluster around it.
        let mut booting = std::mem::take(&mut self.booting);
        for name in &booting {
            // More than one stage may be over since the last look.
            while let Some(stage) = self.machines.get_mut(name).and_then(|m| m.boot.advance(now)) {
                self.came_up(name, stage);
            }
        }
        let due = |name: &String| self.machines.get(name)?.boot.next_due().map(|(at, _)| at);
        booting.retain(|name| due(name).is_some());
        self.next_boot = booting.iter().filter_map(due).min();
        self.booting = booting;
    }

    /// What a finished stage leaves behind.
    fn came_up(&mut self, name: &str, stage: BootStage) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        let Some(at) = machine.boot.since(stage) else { return };
        let host = machine.host();
        match stage {
            BootStage::Bootstrap | BootStage::Host => {}
            BootStage::Node => {
                // From here on the kubelet is what it is: a later
                // version of the Machine does not change it.
                machine.host = Some(host.clone());
                let node = kubeadm::node(&NodeFacts {
                    name,
                    provider_id: &machine.provider_id,
                    host: &host,
                    addresses: &machine.addresses,
                    control_plane: machine.control_plane,
                    at,
                });
                let pods = self.tenants.settle(name, &machine.tenants, at);
                self.put_node(name, Arc::new(node));
                self.pods.extend(pods.into_iter().map(|pod| (ObjectKey::of(&pod), pod)));
            }
            BootStage::Etcd => {
                self.changes.shared = true;
                self.etcd.join(name, machine.member_id);
            }
            BootStage::ApiServer => {
                let version = host.kubelet_version;
                self.changes.shared = true;
                self.serving.insert(name.to_owned());
                self.config_maps
                    // `kubeadm init` writes these once; servers
                    // that join later find and leave them.
                    .entry(kubeadm::KUBEADM_CONFIG.to_owned())
                    .or_insert_with(|| kubeadm::config_map(at));
                let proxy = || AddOn::new(kubeadm::kube_proxy_image(&version));
                self.addons.entry(Addon::KubeProxy).or_insert_with(proxy);
                let dns = || AddOn::new(kubeadm::CORE_DNS_IMAGE.to_owned());
                self.addons.entry(Addon::CoreDns).or_insert_with(dns);
            }
        }
        stage.components().iter().for_each(|component| self.add_pod(component, name, at));
        // After the pods, which the host's own then replace.
        self.settle_hosts(at);
    }

    fn add_pod(&mut self, component: &str, node: &str, at: Timestamp) {
        let pod = kubeadm::static_pod(component, node, at);
        self.pods.insert(ObjectKey::of(&pod), pod);
    }

    /// Takes a machine and all that runs on it away, in upstream's order: node, etcd, API server,
    /// scheduler, controller manager, machine.
    pub fn remove_machine(&mut self, name: &str, now: Timestamp) {
        let Some(machine) = self.machines.remove(name) else { return };
        // Of a worker its node says enough.
        self.changes.shared |= machine.control_plane;
        self.remove_node(name);
        self.serving.remove(name);
        self.hosts.remove(name);
        self.etcd.forget(name);
        self.tenants.leave(name);
        self.pods.retain(|_, pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) != Some(name));
        self.update_link(now);
    }

    fn update_link(&mut self, now: Timestamp) {
        let next = match (self.link, self.serves()) {
            // A server that answers is found at once, where upstream waits for the next attempt.
            (Link::Never(_) | Link::Down(_), true) => Link::Up(now),
            (Link::Up(_), false) => Link::Down(now),
            (same, _) => same,
        };
        let before = std::mem::replace(&mut self.link, next);
        self.changes.shared |= before != next;
        match (before, next) {
            // As a client's cache keeps what it read last while it cannot reach the server.
            (Link::Up(_), Link::Down(_)) => self.last_known = self.seen_nodes(),
            (_, Link::Up(_)) => self.last_known.clear(),
            _ => {}
        }
    }

    /// As a prober would report it at `now`.
    pub fn connection(&self, now: Timestamp) -> Connection {
        match self.link {
            Link::Never(since) => {
                // The first attempt is at once, not after an interval.
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
                    // As upstream, a few failed probes do not end the connection.
                    connected: u32::try_from(failures).is_ok_and(|f| f < FAILURES_MAX),
                }
            }
        }
    }

    /// Can its API server be asked at `now`?
    pub fn reachable(&self, now: Timestamp) -> Result<(), WorkloadError> {
        match self.connection(now) {
            // Between the loss and its discovery a request fails in another way than after it.
            connection if !connection.connected => Err(WorkloadError::NotConnected),
            _ if !self.serves() => {
                Err(WorkloadError::Unreachable("the API server does not answer".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Nodes with a provider ID, as a client has them that follows them: an API that is away for a moment takes nothing of
    /// that, and adds nothing.
    ///
    /// # Errors
    /// [`WorkloadError::NotConnected`], also for a Node that was not there before.
    pub fn known_nodes_with(&self, id: &str, now: Timestamp) -> Result<Vec<Arc<Node>>, WorkloadError> {
        match self.reachable(now) {
            Err(WorkloadError::Unreachable(_)) => {
                let known = self.last_known.iter().filter(|node| provider_id(node) == Some(id));
                let known: Vec<Arc<Node>> = known.cloned().collect();
                // A Node never seen says nothing; an empty answer would say that it does not exist.
                if known.is_empty() { Err(WorkloadError::NotConnected) } else { Ok(known) }
            }
            reached => reached.map(|()| self.seen_nodes_with(id)),
        }
    }

    /// The next moment after `now` at which a controller should look again although nothing happened.
    pub fn next_moment(&self, now: Timestamp) -> Option<Timestamp> {
        let nodes = self.nodes.len();
        let rolls = self.addons.iter().filter_map(|(addon, add_on)| {
            add_on.next_moment(AddOn::wanted(*addon, nodes), now, self.time_scale)
        });
        let hosts = self.hosts_due.filter(|at| *at > now);
        let others = [self.next_judgement(now), self.tenants.next_moment(now), hosts];
        others.into_iter().flatten().chain(rolls).min()
    }

    /// Of those who judge a lost connection.
    fn next_judgement(&self, now: Timestamp) -> Option<Timestamp> {
        let wakes = self.judged_after.wakes();
        let since = match self.link {
            Link::Never(since) => {
                since + CONNECT_INTERVAL * (i32::try_from(FAILURES_MAX).unwrap_or(5) - 1) - wakes[0]
            }
            Link::Down(since) => since,
            Link::Up(_) => return None,
        };
        wakes.into_iter().map(|after| since + after).filter(|at| *at > now).min()
    }

    /// Does the kubelet of a node report nothing?
    pub fn is_silent(&self, node: &str) -> bool {
        silent_since(&self.faults, node).is_some()
    }

    /// A node as faults let it be seen.
    pub fn seen_node(&self, name: &str) -> Option<Arc<Node>> {
        // Shared until something has to differ: `make_mut` copies only then.
        let mut seen = Arc::clone(self.nodes.get(name)?);
        let attached = self.tenants.attached_to(name);
        if !attached.is_empty() {
            let node = Arc::make_mut(&mut seen);
            node.status.get_or_insert_default().volumes_attached = Some(attached);
        }
        if let Some(since) = self.faults.get(&Fault::NodeNotReady(name.to_owned())) {
            turn_ready(Arc::make_mut(&mut seen), "False", *since);
        }
        if let Some(since) = silent_since(&self.faults, name) {
            let node = Arc::make_mut(&mut seen);
            turn_ready(node, "Unknown", since);
            // The node lifecycle controller's taint; there is no such controller here.
            let (key, effect) = ("node.kubernetes.io/unreachable".to_owned(), "NoExecute".to_owned());
            let taint = Taint { key, effect, ..Taint::default() };
            node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
        }
        Some(seen)
    }

    /// A machine as an earlier process left it: what was up is up, at once.
    pub fn restore_machine(&mut self, name: &str, machine: SimMachine, up: &[(BootStage, Timestamp)]) {
        self.put_machine(name, machine);
        // Not by `boot`: the stages have their own times, and wait for nothing.
        for (stage, at) in up {
            if let Some(machine) = self.machines.get_mut(name) {
                machine.boot.restore(*stage, *at);
            }
            self.came_up(name, *stage);
        }
    }
}

/// Since when the kubelet of a node reports nothing.
fn silent_since(faults: &Faults, node: &str) -> Option<Timestamp> {
    let silent = faults.get(&Fault::NodeSilent(node.to_owned()));
    silent.or_else(|| faults.get(&Fault::KubeletDown(node.to_owned()))).copied()
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

/// A merge patch on a typed object.
pub(super) fn patched<T: Serialize + DeserializeOwned>(
    object: &T,
    patch: &Value,
) -> Result<T, WorkloadError> {
    let refused =
        |error: serde_json::Error| WorkloadError::Refused(format!("the patch does not fit: {error}"));
    let mut value = serde_json::to_value(object).map_err(refused)?;
    merge::apply(&mut value, patch);
    serde_json::from_value(value).map_err(refused)
}
