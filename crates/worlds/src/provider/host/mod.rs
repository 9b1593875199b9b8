//! A simulated host that kubeadm made: its files, the containers that its kubelet runs from manifests, the kubelet
//! itself, and a shell that obeys the lines of a runbook. Owns the state of one host; must not know its cluster's other
//! hosts, nor who sends commands.
//!
//! What kubeadm writes is rendered by `change::render`, as the planner's expectation is: a mistake there is not found
//! here. That renderer is held against kubeadm itself (docs/changing-clusters.md).

mod command;
mod documents;
mod kubeadm;
mod pods;
mod sed;
mod shell;

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::Value;

pub use self::command::Output;
pub use self::documents::{InitFacts, config_maps};
use capstan_base::time::Timestamp;
use kubeadm_change::render::{API_SERVER, ETCD, HostFacts};

/// Where the kubelet looks for static pods.
const MANIFESTS: &str = "/etc/kubernetes/manifests";
const PKI: &str = "/etc/kubernetes/pki";
const KUBELET_FILE: &str = "/var/lib/kubelet/config.yaml";
/// How long after a change of a manifest its pod is ready again: the kubelet looks, the container ends, starts, and
/// passes its probe.
const POD_RESTART: TimeDelta = TimeDelta::milliseconds(4000);
/// How long a restarted kubelet does not answer.
const KUBELET_RESTART: TimeDelta = TimeDelta::milliseconds(1500);
/// Flags whose file the component reads when it starts; without the file it does not come up.
const FILE_FLAGS: [&str; 7] = [
    "audit-policy-file",
    "encryption-provider-config",
    "authorization-config",
    "authentication-config",
    "admission-control-config-file",
    "egress-selector-config-file",
    "leader-migration-config",
];

/// What a host does wrong on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFaults {
    /// The host refuses ssh connections.
    pub refuses_commands: bool,
    /// An API server that starts again does not become ready.
    pub api_server_stays_down: bool,
    /// A kubelet that is stopped does not start again.
    pub kubelet_stays_down: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KubeadmHost {
    facts: HostFacts,
    is_control_plane: bool,
    files: BTreeMap<String, String>,
    folders: BTreeSet<String>,
    /// By component.
    containers: BTreeMap<String, Container>,
    kubelet: Kubelet,
    pub faults: HostFaults,
    time_scale: f64,
    /// Until when a command holds the lock of the host.
    locked_until: Option<Timestamp>,
}

/// What runs from one manifest.
#[derive(Clone, Debug, PartialEq)]
struct Container {
    manifest: String,
    started: Timestamp,
    /// `None`: it does not come up.
    ready_at: Option<Timestamp>,
    restarts: u32,
    /// Names in the serving certificate that it read last.
    names: Vec<String>,
    /// Why its program ended at its last start.
    failure: Option<String>,
}

/// The kubelet: what it read when it started.
#[derive(Clone, Debug, PartialEq)]
struct Kubelet {
    configuration: Value,
    /// When it answers again. `None`: it did not come up.
    up_at: Option<Timestamp>,
}

/// What of its cluster a host reads through the API.
pub struct Surroundings<'c> {
    pub config_maps: &'c BTreeMap<String, ConfigMap>,
    /// Does any API server of the cluster answer?
    pub serves: bool,
    pub now: Timestamp,
}

impl KubeadmHost {
    /// A host as `kubeadm init` or `join` left it, up and running.
    pub fn new(facts: HostFacts, is_control_plane: bool, time_scale: f64, around: &Surroundings<'_>) -> Self {
        let mut host = Self {
            facts,
            is_control_plane,
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
            containers: BTreeMap::new(),
            kubelet: Kubelet { configuration: Value::Null, up_at: Some(around.now) },
            faults: HostFaults::default(),
            time_scale,
            locked_until: None,
        };
        // Files first: kubelet and containers are made of them.
        host.install(around);
        host.kubelet.configuration = host.kubelet_file();
        host.sync_pods(around.now);
        for container in host.containers.values_mut().filter(|container| container.ready_at.is_some()) {
            // kubeadm had waited for them; only those that cannot come up stay down.
            container.ready_at = Some(around.now);
        }
        host
    }

    /// The same with files that were put there before kubeadm ran.
    pub fn with_files(mut self, files: &BTreeMap<String, String>, now: Timestamp) -> Self {
        // Over those of `install`: manifests may name files that are only here.
        self.files.extend(files.clone());
        self.sync_pods(now);
        self.read_certificates();
        for container in self.containers.values_mut().filter(|container| container.ready_at.is_some()) {
            container.ready_at = Some(now);
        }
        self
    }

    /// Text of the file at a path, or of those below it, by path.
    pub fn files_at(&self, path: &str) -> BTreeMap<String, String> {
        // With a slash at the end, so that `/a/b` is below `/a` and `/ab` is not.
        let below = format!("{}/", path.trim_end_matches('/'));
        let found = self.files.iter().filter(|(file, _)| *file == path || file.starts_with(&below));
        found.map(|(file, text)| (file.clone(), text.clone())).collect()
    }

    /// Has the program in a container end at its start, or run. Answers whether that is new.
    pub fn set_failure(&mut self, component: &str, failure: Option<&str>) -> bool {
        let Some(container) = self.containers.get_mut(component) else { return false };
        let is_new = container.failure.as_deref() != failure;
        container.failure = failure.map(str::to_owned);
        is_new
    }

    fn scaled(&self, span: TimeDelta) -> TimeDelta {
        let millis = span.num_milliseconds() as f64 / self.time_scale;
        TimeDelta::milliseconds(millis.clamp(1.0, 1e9) as i64)
    }

    fn kubelet_file(&self) -> Value {
        documents::parsed(self.files.get(KUBELET_FILE).map_or("", String::as_str))
    }

    pub fn kubelet_works(&self) -> bool {
        self.kubelet.up_at.is_some()
    }

    /// The kubelet looks at the manifests: new ones start, changed ones start again, others end.
    fn sync_pods(&mut self, now: Timestamp) {
        // A kubelet that is down starts and ends nothing; what ran goes on.
        if !self.kubelet_works() {
            return;
        }
        let manifests: BTreeMap<String, String> = self
            .files
            .iter()
            .filter_map(|(path, text)| {
                let component = path.strip_prefix(MANIFESTS)?.strip_prefix('/')?.strip_suffix(".yaml")?;
                Some((component.to_owned(), text.clone()))
            })
            .collect();
        // Ended before anything starts: a manifest under a new name is another pod.
        self.containers.retain(|component, _| manifests.contains_key(component));
        for (component, manifest) in manifests {
            // One that waits for a file is looked at again.
            let is_same = |running: &Container| {
                let waited = running.ready_at.is_none() && self.comes_up(&component, &manifest);
                running.manifest == manifest && !waited
            };
            if !self.containers.get(&component).is_some_and(is_same) {
                self.start(&component, manifest, now);
            }
        }
    }

    fn start(&mut self, component: &str, manifest: String, now: Timestamp) {
        // Counted on through a new manifest, though a real kubelet counts from 0 for a new pod.
        let restarts = self.containers.get(component).map_or(0, |running| running.restarts);
        let comes_up = self.comes_up(component, &manifest);
        let ready_at = comes_up.then(|| now + self.scaled(POD_RESTART));
        let names = self.certificate_names(component);
        let container = Container { manifest, started: now, ready_at, restarts, names, failure: None };
        self.containers.insert(component.to_owned(), container);
    }

    /// A container that was stopped starts again from the same manifest.
    fn restart(&mut self, component: &str, now: Timestamp) -> bool {
        let Some(running) = self.containers.get_mut(component) else { return false };
        running.restarts += 1;
        let manifest = running.manifest.clone();
        self.start(component, manifest, now);
        true
    }

    fn comes_up(&self, component: &str, manifest: &str) -> bool {
        if component == API_SERVER && self.faults.api_server_stays_down {
            return false;
        }
        let files = pods::flags(manifest);
        let mut named = files.iter().filter(|(flag, _)| FILE_FLAGS.contains(&flag.as_str()));
        named.all(|(_, path)| self.files.contains_key(path.as_str()))
    }

    /// kube-apiserver and etcd read their certificate anew when its file changes. Without one the former goes on with the
    /// last; the handshakes that etcd refuses meanwhile are not simulated.
    /// Source: apiserver `pkg/server/dynamiccertificates/dynamic_serving_content.go`, v0.36; etcd
    /// `client/pkg/transport/listener.go` (`baseConfig`), v3.6.
    fn read_certificates(&mut self) {
        for component in [API_SERVER, ETCD] {
            let names = self.certificate_names(component);
            if let Some(running) = self.containers.get_mut(component).filter(|_| !names.is_empty()) {
                running.names = names;
            }
        }
    }

    /// The names in the serving certificate of a component.
    fn certificate_names(&self, component: &str) -> Vec<String> {
        let file = match component {
            API_SERVER => "apiserver",
            ETCD => "etcd/server",
            _ => return Vec::new(),
        };
        let text = self.files.get(&format!("{PKI}/{file}.crt")).map_or("", String::as_str);
        // The first line says that it is simulated.
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// The names that the API server of this host shows in its certificate.
    pub fn api_server_names(&self) -> &[String] {
        self.containers.get(API_SERVER).map_or(&[], |running| running.names.as_slice())
    }

    pub fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// Has a component of this host passed its probe?
    pub fn is_up(&self, component: &str, now: Timestamp) -> bool {
        self.containers.get(component).is_some_and(|running| running.is_ready(now))
    }

    /// The names in the certificate that a component serves now.
    pub fn served_names(&self, component: &str, now: Timestamp) -> Option<&[String]> {
        let running = self.containers.get(component)?;
        running.is_ready(now).then_some(running.names.as_slice())
    }

    /// What its kubelet reports of the static pods.
    pub fn static_pods(&self, now: Timestamp) -> Vec<Pod> {
        let mirrored = |(component, running): (&String, &Container)| {
            pods::mirror(&self.facts, component, running, running.is_ready(now))
        };
        self.containers.iter().filter_map(mirrored).collect()
    }

    /// What the kubelet answers at `configz`.
    ///
    /// # Errors
    /// It does not answer.
    pub fn configz(&self, now: Timestamp) -> Result<Value, String> {
        match self.kubelet.up_at {
            Some(up) if up <= now => Ok(documents::configz(&self.kubelet.configuration)),
            _ => Err(format!("the kubelet of Node {} does not answer", self.facts.name)),
        }
    }

    /// When something of the host changes by itself, after `now`.
    pub fn next_moment(&self, now: Timestamp) -> Option<Timestamp> {
        let ready = self.containers.values().filter_map(|running| running.ready_at);
        ready.chain(self.kubelet.up_at).filter(|at| *at > now).min()
    }
}

impl Container {
    fn is_ready(&self, now: Timestamp) -> bool {
        self.failure.is_none() && self.ready_at.is_some_and(|at| at <= now)
    }
}
