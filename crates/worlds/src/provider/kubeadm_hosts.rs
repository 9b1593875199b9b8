//! The hosts of a simulated cluster whose API is served: when kubeadm has made them, what they report, and how commands
//! reach them. Must not know what a command does.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::faults::Fault;
use super::host::{self, HostFaults, KubeadmHost, Output, Surroundings};
use super::kubeadm::KUBEADM_CONFIG;
use super::sim_cluster::SimCluster;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;
use capstan_physics::boot::BootStage;
use kubeadm_change::render::{API_SERVER, HostFacts};

/// As ssh answers when it does not get in.
const NO_CONNECTION: i32 = 255;
/// The words of the annotation for faults of hosts.
const REFUSES_COMMANDS: &str = "refuses-commands";
const API_SERVER_STAYS_DOWN: &str = "api-server-stays-down";
const KUBELET_STAYS_DOWN: &str = "kubelet-stays-down";
const NOT_READY: &str = "not-ready";
const SILENT: &str = "silent";

impl SimCluster {
    /// Lets kubeadm have been on every machine that is up and has no host yet.
    pub fn settle_hosts(&mut self, now: Timestamp) {
        let Some(facts) = self.served.as_ref().map(|served| served.facts.clone()) else { return };
        // The newest: of a cluster that another process left, it says what was meant last.
        let serving = self.serving.iter().filter_map(|name| self.machines.get(name));
        let Some(first) = serving.max_by_key(|machine| machine.boot.since(BootStage::ApiServer)) else {
            return;
        };
        if !self.config_maps.contains_key("kubelet-config") {
            // What stands in its place in other clusters is empty.
            let (version, own) = (first.host().kubelet_version, &first.boot_data.cluster_configuration);
            self.config_maps.extend(host::config_maps(&facts, own.as_ref(), &version, now));
        }
        // Not before all of it is up: what comes up later (etcd may, after the API server) would take the place of the
        // pod that the host shows.
        let new = self
            .machines
            .iter()
            .filter(|(name, machine)| machine.boot.complete() && !self.hosts.contains_key(*name));
        let new: Vec<(String, KubeadmHost)> = new
            .map(|(name, machine)| {
                let address = machine.addresses.iter().find(|(type_, _)| *type_ == "InternalIP");
                let facts =
                    HostFacts::new(name, address.map_or("127.0.0.1", |(_, address)| address.as_str()));
                let around = Surroundings { config_maps: &self.config_maps, serves: true, now };
                let mut host = KubeadmHost::new(facts, machine.control_plane, self.time_scale, &around)
                    .with_files(&machine.boot_data.files, now);
                // Annotated before the host was made: `set_host_faults`
                // had only the machine to note it on.
                host.faults = faults_of(&machine.faults);
                (name.clone(), host)
            })
            .collect();
        if !new.is_empty() {
            // The earliest moment there is, which means at the next look.
            self.hosts.extend(new);
            self.hosts_due = Some(Timestamp::MIN_UTC);
        }
    }

    /// Shows what hosts report, when something of them has changed.
    pub fn advance_hosts(&mut self, now: Timestamp) {
        // Every read of the cluster comes by here, and
        // comparing pods costs more than the read itself.
        if self.hosts_due.is_none_or(|at| at > now) {
            return;
        }
        let mut changed = Vec::new();
        for (name, host) in &self.hosts {
            let pods = host.static_pods(now);
            let is_static = |key: &ObjectKey, pod: &k8s_openapi::api::core::v1::Pod| {
                let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name);
                // Pods of clients may be in kube-system too; only kubeadm's own are replaced.
                let tier = pod.metadata.labels.as_ref().and_then(|labels| labels.get("tier"));
                on && key.namespace == "kube-system" && tier.is_some_and(|tier| tier == "control-plane")
            };
            let before: Vec<_> = self.pods.iter().filter(|(key, pod)| is_static(key, pod)).collect();
            // A Node is noted only when its pods differ: each note wakes a controller.
            let same = before.len() == pods.len()
                && pods.iter().all(|pod| self.pods.get(&ObjectKey::of(pod)) == Some(pod));
            if !same {
                self.pods.retain(|key, pod| !is_static(key, pod));
                self.pods.extend(pods.into_iter().map(|pod| (ObjectKey::of(&pod), pod)));
                changed.push(name.clone());
            }
            let is_control_plane = self.machines.get(name).is_some_and(|machine| machine.control_plane);
            let serves = is_control_plane && host.is_up(API_SERVER, now);
            // A worker of the same files never serves, whatever lies in its manifests.
            let turned = if serves { self.serving.insert(name.clone()) } else { self.serving.remove(name) };
            self.changes.shared |= turned;
            let down = Fault::KubeletDown(name.clone());
            if host.kubelet_works() {
                self.changes.shared |= self.faults.remove(&down).is_some();
            } else {
                self.changes.shared |= !self.faults.contains_key(&down);
                // The first time is kept: it is when Ready turned.
                self.faults.entry(down).or_insert(now);
            }
        }
        changed.iter().for_each(|name| self.note_node(name));
        // Only after a command or at these moments can a host look different.
        self.hosts_due = self.hosts.values().filter_map(|host| host.next_moment(now)).min();
    }

    /// The machine that a command means, by the name of its Node or an address.
    pub fn host_named(&self, named: &str) -> Option<String> {
        let is = |name: &String| {
            let machine = self.machines.get(name);
            name == named || machine.is_some_and(|m| m.addresses.iter().any(|(_, address)| address == named))
        };
        self.hosts.keys().find(|name| is(name)).cloned()
    }

    /// Runs a line on a host, as ssh would. `None`: there is no such host.
    pub fn run(&mut self, name: &str, line: &str, input: &str, now: Timestamp) -> Option<Output> {
        // Asked before the host is borrowed; whether
        // kubeadm finds an API is up to the whole cluster.
        let serves = self.serves();
        let host = self.hosts.get_mut(name)?;
        self.hosts_due = Some(Timestamp::MIN_UTC);
        // The words and the status of ssh itself: callers treat its failure apart from a command's.
        if host.faults.refuses_commands {
            let stderr = format!("ssh: connect to host {name} port 22: Connection refused\n");
            return Some(Output { status: NO_CONNECTION, stderr, ..Output::default() });
        }
        let around = Surroundings { config_maps: &self.config_maps, serves, now };
        Some(host.run(line, input, &around))
    }

    /// Text of the file at a path of a host, or of those below it, by path.
    pub fn host_files(&self, node: &str, path: &str) -> BTreeMap<String, String> {
        self.hosts.get(node).map(|host| host.files_at(path)).unwrap_or_default()
    }

    /// Notes whether the process of a pod runs, or why it ends at its start.
    pub fn show_process(&mut self, pod: &ObjectKey, failure: Option<&str>) {
        let component = |name: &str| Some(pod.name.strip_suffix(name)?.strip_suffix('-')?.to_owned());
        for (name, host) in &mut self.hosts {
            if component(name).is_some_and(|component| host.set_failure(&component, failure)) {
                self.hosts_due = Some(Timestamp::MIN_UTC);
            }
        }
        // An equal failure again is not announced, or each
        // restart of the process would wake everyone.
        self.changes.shared |= match failure {
            Some(why) => self.failing.insert(pod.clone(), why.to_owned()).as_deref() != Some(why),
            None => self.failing.remove(pod).is_some(),
        };
    }

    /// Why the process of a pod ends at its start.
    pub fn failure(&self, pod: &ObjectKey) -> Option<&str> {
        self.failing.get(pod).map(String::as_str)
    }

    /// What kubeadm would read of a ConfigMap through the API.
    pub fn set_config_map(&mut self, map: ConfigMap) {
        let Some(name) = map.metadata.name.clone() else { return };
        // Others than those made here are none that kubeadm reads.
        if let Some(known) = self.config_maps.get_mut(&name) {
            known.data = map.data;
        }
    }

    /// The names in the certificate of the API server that answers at the endpoint.
    pub fn endpoint_names(&self) -> Vec<String> {
        let first = self.serving.iter().find_map(|name| self.hosts.get(name));
        first.map(|host| host.api_server_names().to_vec()).unwrap_or_default()
    }

    /// What a host does wrong from now on, in the words of the annotation.
    pub fn set_host_faults(&mut self, name: &str, words: &str, now: Timestamp) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        words.clone_into(&mut machine.faults);
        if let Some(host) = self.hosts.get_mut(name) {
            host.faults = faults_of(words);
        }
        let said = |word: &str| words.split(',').any(|said| said.trim() == word);
        for (on, fault) in [
            (said(NOT_READY), Fault::NodeNotReady(name.to_owned())),
            (said(SILENT), Fault::NodeSilent(name.to_owned())),
        ] {
            if on {
                // A fault that goes on keeps its beginning.
                self.faults.entry(fault).or_insert(now);
            } else {
                self.faults.remove(&fault);
            }
        }
    }

    /// What the kubelet of a node answers at a path, through the API server.
    ///
    /// # Errors
    /// A sentence: there is no such node or path, or it does not answer.
    pub fn ask_kubelet(&self, node: &str, path: &str, now: Timestamp) -> Result<String, String> {
        if self.seen_node(node).is_none() {
            return Err(format!("there is no Node {node}"));
        }
        // Before the path: a kubelet that is down has none at all.
        if self.is_silent(node) {
            return Err(format!("the kubelet of Node {node} does not answer"));
        }
        match (path, self.hosts.get(node)) {
            ("healthz", _) => Ok("ok".to_owned()),
            ("configz", Some(host)) => host.configz(now).map(|shown| shown.to_string()),
            _ => Err(format!("the kubelet of Node {node} has nothing at /{path}")),
        }
    }
}

fn faults_of(words: &str) -> HostFaults {
    let said = |word: &str| words.split(',').any(|said| said.trim() == word);
    HostFaults {
        refuses_commands: said(REFUSES_COMMANDS),
        api_server_stays_down: said(API_SERVER_STAYS_DOWN),
        kubelet_stays_down: said(KUBELET_STAYS_DOWN),
    }
}

/// The ConfigMaps that hosts read.
pub const READ_BY_HOSTS: [&str; 2] = [KUBEADM_CONFIG, "kubelet-config"];
