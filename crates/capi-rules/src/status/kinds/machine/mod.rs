//! What is true of a Machine: conditions, phase, and what its status learned from its providers and
//! its Node. Owns judgement; must not know how the facts were read or what happens next.
//! Source: cluster-api `core/reconcilers/machine/machine_controller_{status,phases,noderef}.go`, v1.14.2.

mod complete;
pub mod deletion;
mod node;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use regex::Regex;
use serde_json::Value;

use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{Draft, not_paused};
use crate::status::contract::mirror::Mirrored;
use crate::status::contract::{External, Provided};
use crate::status::drain::volumes::Storage;
use crate::status::drain::{Evictions, Tenants};
use capi_types::cluster::Cluster;
use capi_types::condition::Status;
use capi_types::condition::{Conditioned as _, find};
use capi_types::machine::{
    Machine, MachineAddress, MachineInitialization, MachineStatus, NodeInfo, NodeSwap,
};
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capi_types::names::annotation;
use capi_types::reference::NodeRef;
use capstan_base::time::{Timestamp, from_k8s, parse_rfc3339, to_k8s};

/// Condition types that the Machine controller owns.
pub const OWNED: [&str; 9] = [
    "Paused",
    "Available",
    "Ready",
    "BootstrapConfigReady",
    "InfrastructureReady",
    "NodeReady",
    "NodeHealthy",
    "Deleting",
    "Updating",
];

/// How long what was known of a workload cluster is kept after the last successful probe.
/// Source: cluster-api `core/main.go` (`--remote-connection-grace-period`, `--remote-conditions-grace-period`), v1.14.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    /// Until the Cluster says that the probe fails.
    pub connection: TimeDelta,
    /// Until conditions that rest on the workload cluster are unknown.
    pub conditions: TimeDelta,
}

impl Graces {
    /// `None`: one of them is longer than time is.
    pub fn of(connection: Duration, conditions: Duration) -> Option<Self> {
        let [connection, conditions] = [connection, conditions].map(TimeDelta::from_std);
        Some(Self { connection: connection.ok()?, conditions: conditions.ok()? })
    }
}

impl Default for Graces {
    fn default() -> Self {
        Self { connection: TimeDelta::seconds(50), conditions: TimeDelta::minutes(5) }
    }
}

/// Everything a Machine is judged by.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// As it is now, this run's own writes included.
    pub machine: Machine,
    /// Its connection and its pause count.
    pub cluster: Arc<Cluster>,
    /// What `spec.bootstrap.configRef` leads to.
    pub bootstrap: External,
    /// What `spec.infrastructureRef` leads to.
    pub infrastructure: External,
    /// What the Cluster's `controlPlaneRef` names; read only when a deletion asks.
    pub control_plane: External,
    /// Control plane Machines of the cluster that are not being deleted; counted only when a deletion asks.
    pub control_plane_machines_left: usize,
    /// A Node's conditions are kept for a while without one.
    pub probe: Probe,
    /// How long what was known is kept without a connection.
    pub graces: Graces,
    /// The Node with its provider ID.
    pub node: NodeReading,
    /// The Node that a deletion has to do with, when it is not [`Self::node`]: the one that
    /// `status.nodeRef` names, or the one with [`deletion::borrowed_id`].
    pub named_node: NodeReading,
    /// What runs on the Node that goes with the Machine; read only when a deletion asks.
    pub tenants: TenantsReading,
    /// What is attached to Nodes; read only when a deletion asks.
    pub storage: StorageReading,
    /// What came of the evictions that this run asked for.
    pub evictions: Evictions,
    /// For workers of a MachineDeployment: the set it belongs to and that set's deployment.
    pub deployment: Option<(Arc<MachineSet>, Arc<MachineDeployment>)>,
    /// The write of a deletion that failed in this run.
    pub failed: Option<Failed>,
    /// The `Deleting` condition to repeat, for a reader who cannot see what the deletion waits for.
    pub told_deletion: Option<Condition>,
    /// The answer of an in-place update in this run; `None` when it was not asked.
    pub update: Option<Update>,
    /// When the extension wants to be asked again, while the update runs.
    pub update_again: Option<std::time::Duration>,
    /// Why the update failed, in an operator's sentence; the condition does not have it.
    pub update_error: Option<String>,
    /// The gate `InPlaceUpdates` is open.
    pub updates_in_place: bool,
    /// Which labels and annotations its Node gets from it.
    pub synced_keys: Arc<SyncedKeys>,
}

/// Which labels and annotations of a Machine its Node gets, beyond those that every Node gets: what one of the
/// patterns matches.
#[derive(Clone, Debug, Default)]
pub struct SyncedKeys {
    /// Patterns of keys.
    pub labels: Vec<Regex>,
    /// Patterns of keys.
    pub annotations: Vec<Regex>,
}

/// The answer to an in-place update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Still running, in the extension's words (may be empty).
    Running(String),
    /// There is nothing to be updated.
    InfrastructureMissing,
    /// The extension says so, or cannot be asked.
    Failed,
    /// The extension has nothing left to do.
    Done,
}

/// How the connection to the workload cluster is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// `None`: it never succeeded.
    pub last_success: Option<Timestamp>,
    /// Never reached, and not tried often enough to call it down.
    pub not_established_yet: bool,
    /// The last probe did not succeed.
    pub failing: bool,
}

/// The Node with the Machine's provider ID, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeReading {
    /// Nothing was asked: the Machine has no provider ID, or the cluster has no control plane yet.
    #[default]
    NotAsked,
    /// The only one with this provider ID.
    Found(Arc<Node>),
    /// It was looked for, and no Node has this provider ID.
    NotFound,
    /// There is no connection: what was known before should be kept.
    NotConnected,
    /// It answered, but not usefully.
    Failed(String),
}

impl NodeReading {
    /// The Node, if it was found.
    pub fn found(&self) -> Option<&Node> {
        match self {
            Self::Found(node) => Some(node),
            _ => None,
        }
    }
}

/// What runs on a Node, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TenantsReading {
    /// No deletion needs it.
    #[default]
    NotAsked,
    /// As it was read.
    Known(Box<Tenants>),
    /// The pods could not be read.
    Failed(String),
}

/// The storage of a workload cluster, if it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StorageReading {
    /// No deletion needs it.
    #[default]
    NotAsked,
    /// As it was read.
    Known(Box<Storage>),
}

/// A write of a deletion that did not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// `status.deletion.nodeDrainStartTime`.
    RecordDrainStart,
    /// The Node is not marked unschedulable.
    Cordon,
    /// The infrastructure machine stays.
    DeleteInfrastructure,
    /// The bootstrap configuration stays.
    DeleteBootstrap,
    /// The Node stays.
    DeleteNode,
}

/// Condition types that the Machine controller owns on this Machine. Of a MachineDeployment's workers, nobody else
/// writes `UpToDate`.
pub fn owned(observed: &Observed) -> Vec<&'static str> {
    let up_to_date = observed.deployment.is_some().then_some("UpToDate");
    OWNED.into_iter().chain(up_to_date).collect()
}

impl Observed {
    /// Is it on its way out?
    pub fn is_deleting(&self) -> bool {
        self.machine.metadata.deletion_timestamp.is_some()
    }

    /// Does it have an annotation of this name, whatever its value?
    pub fn has_annotation(&self, name: &str) -> bool {
        self.machine.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(name))
    }

    /// An update in place runs, or is being prepared.
    pub fn is_updating_in_place(&self) -> bool {
        crate::status::machines::is_updating_in_place(&self.machine)
    }

    /// Name of the Node: recorded before, or found now.
    pub fn node_name(&self) -> Option<&str> {
        let recorded =
            self.machine.status.as_ref().and_then(|s| s.node_ref.as_ref()).map(|r| r.name.as_str());
        let found = || self.node.found().or(self.named_node.found());
        recorded.or_else(|| found().and_then(|n| n.metadata.name.as_deref()))
    }
}

/// `Cluster.status.initialization.infrastructureProvisioned`.
pub fn cluster_provisioned(cluster: &Cluster) -> bool {
    cluster.status.as_ref().and_then(|s| s.initialization.as_ref()).and_then(|i| i.infrastructure_provisioned)
        == Some(true)
}

/// Since when the Cluster's control plane is initialized; `None` when it is not.
pub fn control_plane_initialized_since(cluster: &Cluster) -> Option<Timestamp> {
    find(cluster.conditions(), "ControlPlaneInitialized")
        .filter(|c| c.status == "True")
        .map(|c| from_k8s(&c.last_transition_time))
}

/// The name of the data secret that the bootstrap object offers, when it is complete.
pub fn offered_data_secret(bootstrap: &Provided) -> Option<&str> {
    (!bootstrap.is_deleting() && bootstrap.data_secret_created())
        .then(|| bootstrap.text(&["status", "dataSecretName"]))
        .flatten()
}

/// The provider ID that the infrastructure object offers, when it is provisioned.
pub fn offered_provider_id(o: &Observed) -> Option<&str> {
    let infrastructure = o.infrastructure.found().filter(|i| !i.is_deleting())?;
    // Provisioned once is provisioned: a provider that takes it back is not followed.
    let was = || initialization(&o.machine).infrastructure_provisioned == Some(true);
    if !infrastructure.provisioned() && (infrastructure.provisioned_is_malformed() || !was()) {
        return None;
    }
    infrastructure.text(&["spec", "providerID"])
}

/// The status of a Machine that is not paused. Its generation counts as observed when everything that the
/// pass needed was there.
pub fn status(o: &Observed, now: Timestamp) -> MachineStatus {
    let mut status = o.machine.status.clone().unwrap_or_default();
    learn(&mut status, o);
    let course = deletion::course(o, now);
    // Before the draft takes the conditions: the stage and its start times read the stored status.
    let deleting = match &o.told_deletion {
        Some(told) => told.into(),
        None => {
            deletion::record_starts(&mut status, &course, now);
            deletion::condition(o, &course.stage, now)
        }
    };

    let mut draft = Draft::new(std::mem::take(&mut status.conditions), o.machine.metadata.generation, now);
    draft.set(not_paused());
    draft.set(bootstrap_config_ready(o, &status));
    draft.set(infrastructure_ready(o, &status));
    node::judge(&mut draft, o, &status, now);
    draft.set(deleting);
    // Before `UpToDate`, which repeats its message.
    draft.set(summary::updating(o));
    if let Some(up_to_date) = summary::up_to_date(o, &status, &draft, now) {
        draft.set(up_to_date);
    }
    // After all parts: the summary reads the conditions of this pass.
    draft.set(summary::ready(o, &status, draft.list(), now));
    // After `Updating`, which is one of the phases.
    let phase = phase(o, &status, draft.list());
    if status.phase.as_deref() != Some(phase) {
        status.phase = Some(phase.to_owned());
        status.last_updated = Some(to_k8s(now));
    }
    // By the transition that `Ready` has just made.
    draft.set(summary::available(o, draft.list(), now));
    status.conditions = draft.finish();
    if complete::is_complete(o, &course.stage, now) {
        status.observed_generation = o.machine.metadata.generation;
    }
    status
}

/// How long until a ready Machine counts as available; `None` when time alone changes nothing.
pub fn available_in(o: &Observed, now: Timestamp) -> Option<TimeDelta> {
    let ready = find(o.machine.conditions(), "Ready").filter(|c| c.status == "True")?;
    let wait = TimeDelta::seconds(i64::from(o.machine.spec.min_ready_seconds.unwrap_or(0)));
    let left = from_k8s(&ready.last_transition_time) + wait - now;
    (left > TimeDelta::zero()).then_some(left)
}

/// `status.initialization`, empty when there is none.
pub fn initialization(machine: &Machine) -> MachineInitialization {
    machine.status.as_ref().and_then(|s| s.initialization.clone()).unwrap_or_default()
}

/// What providers and the Node report, copied. Flags only ever turn true.
fn learn(status: &mut MachineStatus, o: &Observed) {
    let mut flags = initialization(&o.machine);
    if let Some(bootstrap) = o.bootstrap.found() {
        // An empty name is one.
        if o.machine.spec.bootstrap.data_secret_name.is_some() || offered_data_secret(bootstrap).is_some() {
            flags.bootstrap_data_secret_created = Some(true);
        }
    }
    if offered_provider_id(o).is_some() {
        flags.infrastructure_provisioned = Some(true);
        learn_infrastructure(status, o.infrastructure.found());
    }
    if flags != MachineInitialization::default() {
        status.initialization = Some(flags);
    }
    status.node_ref = o.node_name().map(|name| NodeRef { name: name.to_owned() });
    if let Some(node) = o.node.found() {
        let known = status.node_info.get_or_insert_default();
        match node.status.as_ref().and_then(|s| s.node_info.as_ref()) {
            Some(reported) => learn_node_info(known, reported),
            // A Node without info reports nothing, and upstream copies that as well.
            None => *known = NodeInfo::default(),
        }
    }
    learn_expiry(status, o);
}

fn learn_infrastructure(status: &mut MachineStatus, infrastructure: Option<&Provided>) {
    let Some(infrastructure) = infrastructure else { return };
    let reported = &infrastructure.content()["status"]["addresses"];
    if !are_listed(&status.addresses, reported)
        && let Some(addresses) = addresses(reported)
    {
        status.addresses = addresses;
    }
    if let Some(domain) = infrastructure.content()["status"]["failureDomain"].as_str() {
        status.failure_domain = Some(domain.to_owned()).filter(|domain| !domain.is_empty());
    }
}

/// Nothing to learn: just these addresses are listed, in this order.
fn are_listed(known: &[MachineAddress], list: &Value) -> bool {
    let is = |known: &MachineAddress, entry: &Value| {
        entry["address"] == known.address.as_str() && entry["type"] == known.type_.as_str()
    };
    // Compared before anything is made of them: in a settled fleet every pass comes by here.
    let list = list.as_array();
    list.is_some_and(|list| known.len() == list.len() && known.iter().zip(list).all(|(a, b)| is(a, b)))
}

/// `None` when one of them is malformed.
fn addresses(list: &Value) -> Option<Vec<MachineAddress>> {
    let address = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().map(str::to_owned);
        Some(MachineAddress { address: text("address")?, type_: text("type")? })
    };
    // A single malformed entry spoils the list, as decoding it does upstream; what is stored stays.
    list.as_array()?.iter().map(address).collect()
}

fn learn_node_info(known: &mut NodeInfo, info: &NodeSystemInfo) {
    for (known, reported) in [
        (&mut known.architecture, &info.architecture),
        (&mut known.boot_id, &info.boot_id),
        (&mut known.container_runtime_version, &info.container_runtime_version),
        (&mut known.kernel_version, &info.kernel_version),
        (&mut known.kube_proxy_version, &info.kube_proxy_version),
        (&mut known.kubelet_version, &info.kubelet_version),
        (&mut known.machine_id, &info.machine_id),
        (&mut known.operating_system, &info.operating_system),
        (&mut known.os_image, &info.os_image),
        (&mut known.system_uuid, &info.system_uuid),
    ] {
        known.clone_from(reported);
    }
    known.swap = info.swap.as_ref().map(|swap| NodeSwap { capacity: swap.capacity });
}

/// Of control plane Machines: the annotation on the Machine, else on its bootstrap object.
fn certificates_expiry(o: &Observed) -> Option<&str> {
    if !crate::status::machines::is_control_plane(&o.machine) {
        return None;
    }
    let own =
        o.machine.metadata.annotations.as_ref().and_then(|all| all.get(annotation::CERTIFICATES_EXPIRY));
    let theirs = || o.bootstrap.found().and_then(|b| b.annotation(annotation::CERTIFICATES_EXPIRY));
    own.map(String::as_str).or_else(theirs)
}

/// Workers keep what is stored, as does everybody whose annotation is not a time.
fn learn_expiry(status: &mut MachineStatus, o: &Observed) {
    if !crate::status::machines::is_control_plane(&o.machine) {
        return;
    }
    match certificates_expiry(o).map(parse_rfc3339) {
        None => status.certificates_expiry_date = None,
        Some(Some(at)) => status.certificates_expiry_date = Some(to_k8s(at)),
        Some(None) => {}
    }
}

fn bootstrap_config_ready<'a>(o: &'a Observed, status: &MachineStatus) -> NewCondition<'a> {
    const TYPE: &str = "BootstrapConfigReady";
    if o.machine.spec.bootstrap.config_ref.is_none() {
        return NewCondition::new(TYPE, Status::True, "DataSecretProvided", "");
    }
    let created = status.initialization.as_ref().and_then(|i| i.bootstrap_data_secret_created) == Some(true);
    let rule = Mirrored {
        target: TYPE,
        source_type: "Ready",
        initialized: created,
        not_yet: "NotReady",
        field: "status.initialization.dataSecretCreated",
        owner_deleting: o.is_deleting(),
        gone: "",
    };
    match &o.bootstrap {
        // Unlike infrastructure, a bootstrap object that vanished early was not needed any more.
        External::NotFound { kind } if !o.is_deleting() => {
            NewCondition::new(TYPE, Status::False, "ObjectDoesNotExist", format!("{kind} does not exist"))
        }
        external => rule.of(external),
    }
}

fn infrastructure_ready<'a>(o: &'a Observed, status: &MachineStatus) -> NewCondition<'a> {
    Mirrored {
        target: "InfrastructureReady",
        source_type: "Ready",
        initialized: status.initialization.as_ref().and_then(|i| i.infrastructure_provisioned) == Some(true),
        not_yet: "NotReady",
        field: "status.initialization.provisioned",
        owner_deleting: o.is_deleting(),
        gone: " while the Machine still exists",
    }
    .of(&o.infrastructure)
}

/// Each later line that applies overrules the earlier ones.
fn phase(o: &Observed, status: &MachineStatus, conditions: &[Condition]) -> &'static str {
    let flags = status.initialization.clone().unwrap_or_default();
    let provisioned = flags.infrastructure_provisioned == Some(true);
    let stored = || PHASES.into_iter().find(|p| status.phase.as_deref() == Some(*p)).unwrap_or("Pending");
    let rules = [
        (flags.bootstrap_data_secret_created == Some(true) && !provisioned, "Provisioning"),
        (o.machine.spec.provider_id.as_ref().is_some_and(|id| !id.is_empty()), "Provisioned"),
        (status.node_ref.is_some() && provisioned, "Running"),
        (capi_types::condition::is_true(conditions, "Updating"), "Updating"),
        (o.is_deleting(), "Deleting"),
    ];
    rules
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, phase)| phase)
        .next_back()
        .unwrap_or_else(stored)
}

const PHASES: [&str; 9] = [
    "Pending",
    "Provisioning",
    "Provisioned",
    "Running",
    "Updating",
    "Deleting",
    "Deleted",
    "Failed",
    "Unknown",
];
