//! What is true of a Cluster: phase, counters and conditions over its control plane, its workers and
//! its infrastructure. Owns judgement; must not know how the facts were read or what happens next.
//! Source: cluster-api `core/reconcilers/cluster/cluster_controller_status.go`, v1.14.2.

mod complete;
mod control_plane;
mod counters;
pub mod deletion;
mod descendants;
mod summary;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub use complete::is_complete;

use super::machine::{Graces, Probe};
use super::topology;
use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::{Draft, not_paused};
use crate::status::conditions::wording::{LAST_SUCCESS, PROBE_FAILED};
use crate::status::contract::External;
use crate::status::contract::mirror::Mirrored;
use crate::status::machines::{Member, is_control_plane, is_pool_machine};
use capi_types::cluster::{Cluster, ClusterInitialization, ClusterStatus, Endpoint};
use capi_types::condition::Status;
use capi_types::key::group_of;
use capi_types::machine::{Machine, ReadinessGate};
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_pool::MachinePool;
use capi_types::machine_set::MachineSet;
use capi_types::names::CORE_GROUP;
use capstan_base::time::{Timestamp, rfc3339};

/// Condition types that the Cluster controller owns: all but `TopologyReconciled`.
pub const OWNED: [&str; 16] = [
    "Paused",
    "Available",
    "RemoteConnectionProbe",
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "RollingOut",
    "Remediating",
    "ScalingDown",
    "ScalingUp",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
    "Deleting",
];

/// Everything a Cluster is judged by.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// As it is now, this run's own writes included.
    pub cluster: Cluster,
    /// What `spec.infrastructureRef` leads to.
    pub infrastructure: External,
    /// What `spec.controlPlaneRef` leads to.
    pub control_plane: External,
    /// Means nothing before the control plane is initialized.
    pub probe: Probe,
    /// How long what was known is kept without a connection.
    pub graces: Graces,
    /// Means nothing when `descendants_failed`.
    pub descendants: Descendants,
    /// They could not be listed.
    pub descendants_failed: bool,
    /// Gates of the Cluster's class; the Cluster's own come instead of them.
    pub class_gates: Vec<ReadinessGate>,
    /// No controller computes topologies where this runs.
    pub lacks_topology_controller: bool,
    /// Runtime extensions are asked before a topology Cluster goes (feature gates `RuntimeSDK` and
    /// `ClusterTopology`).
    pub asks_hooks: bool,
    /// What of a deletion failed in this run.
    pub failed: bool,
    /// Only of a Cluster without a control plane object.
    pub kubeconfig: Kubeconfig,
}

/// The Secret with the administrator's kubeconfig of a Cluster that has no control plane object to make it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kubeconfig {
    /// Somebody else makes it.
    #[default]
    NotAsked,
    /// It is there, whoever made it.
    Found,
    /// It is to be made.
    Missing {
        /// The Secret of the authority that signs it exists.
        has_authority: bool,
    },
    /// A sentence of the reader.
    Unreadable(String),
}

/// Everything in the namespace that carries the cluster's label, each list ordered by name.
#[derive(Clone, Debug, Default)]
pub struct Descendants {
    /// Workers that roll.
    pub machine_deployments: Vec<Arc<MachineDeployment>>,
    /// Those without a MachineDeployment, too.
    pub machine_sets: Vec<Arc<MachineSet>>,
    /// Workers that a provider counts.
    pub machine_pools: Vec<Arc<MachinePool>>,
    /// Control plane and workers.
    pub machines: Vec<Arc<Machine>>,
}

impl Descendants {
    /// By their label, whatever owns them.
    pub fn control_plane_machines(&self) -> Vec<&Machine> {
        self.machines.iter().map(Arc::as_ref).filter(|m| is_control_plane(m)).collect()
    }

    /// Those of a MachinePool, too.
    pub fn all_worker_machines(&self) -> Vec<&Machine> {
        self.machines.iter().map(Arc::as_ref).filter(|m| !is_control_plane(m)).collect()
    }
}

/// The Machines of a cluster by their part in it, each read once for all that is judged by them.
struct Census<'a> {
    control_plane: Vec<Member<'a>>,
    /// Without Machines of a MachinePool.
    workers: Vec<Member<'a>>,
}

impl<'a> Census<'a> {
    fn of(machines: &'a [Arc<Machine>]) -> Self {
        let mut census = Self { control_plane: Vec::new(), workers: Vec::with_capacity(machines.len()) };
        for machine in machines {
            if is_control_plane(machine) {
                census.control_plane.push(Member::of(machine));
            // Machines of a pool are left out: the pool reports for them, and it alone scales them.
            } else if !is_pool_machine(machine) {
                census.workers.push(Member::of(machine));
            }
        }
        census
    }

    /// All Machines but those of a MachinePool.
    fn without_pools(&self) -> impl Iterator<Item = &Member<'a>> {
        self.control_plane.iter().filter(|m| !is_pool_machine(m.machine)).chain(&self.workers)
    }
}

impl Observed {
    /// Is it on its way out?
    pub fn is_deleting(&self) -> bool {
        self.cluster.metadata.deletion_timestamp.is_some()
    }

    /// Is the kubeconfig made by the Cluster's own controller? Not before there is an endpoint.
    pub fn makes_kubeconfig(&self) -> bool {
        let stands_alone = self.cluster.spec.control_plane_ref.is_none();
        stands_alone && !self.is_deleting() && self.looks() && has_endpoint(&self.cluster)
    }

    /// Is it described by a class?
    pub fn has_topology(&self) -> bool {
        self.cluster.spec.topology.is_some()
    }

    /// What belongs to the Cluster; `None` when that is not known.
    pub fn known_descendants(&self) -> Option<&Descendants> {
        (self.looks() && !self.descendants_failed).then_some(&self.descendants)
    }

    /// Before a topology has made both references, descendants are not looked for, nor is the one object
    /// that is referred to already.
    pub fn looks(&self) -> bool {
        let spec = &self.cluster.spec;
        let generated = spec.infrastructure_ref.is_some() && spec.control_plane_ref.is_some();
        !self.has_topology() || generated || self.is_deleting()
    }

    /// The same without what is not looked at.
    fn as_looked_at(&self) -> Cow<'_, Self> {
        if self.looks() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            infrastructure: self.infrastructure.clone().unread(),
            control_plane: self.control_plane.clone().unread(),
            ..self.clone()
        })
    }

    /// Is `object` owned by this Cluster (not through another object)? By group, kind and name.
    pub fn owns<K: kube::Resource>(&self, object: &K) -> bool {
        let name = self.cluster.metadata.name.as_deref().unwrap_or_default();
        let mine = |r: &OwnerReference| {
            group_of(&r.api_version) == CORE_GROUP && r.kind == "Cluster" && r.name == name
        };
        object.meta().owner_references.iter().flatten().any(mine)
    }
}

/// `status.initialization`, empty when there is none.
pub fn initialization(cluster: &Cluster) -> ClusterInitialization {
    cluster.status.as_ref().and_then(|s| s.initialization.clone()).unwrap_or_default()
}

/// Host and port are both set.
pub fn has_endpoint(cluster: &Cluster) -> bool {
    let valid =
        |e: &Endpoint| e.host.as_ref().is_some_and(|h| !h.is_empty()) && e.port.is_some_and(|p| p != 0);
    cluster.spec.control_plane_endpoint.as_ref().is_some_and(valid)
}

/// The status of a Cluster that is not paused.
pub fn status(o: &Observed, now: Timestamp) -> ClusterStatus {
    let (waits, o) = (!o.looks(), o.as_looked_at());
    let o = o.as_ref();
    let mut status = o.cluster.status.clone().unwrap_or_default();
    learn(&mut status, o);
    let flags = status.initialization.clone().unwrap_or_default();
    status.phase = Some(phase(o, &flags, status.phase.as_deref()).to_owned());
    let census = o.known_descendants().map(|descendants| Census::of(&descendants.machines));
    counters::fill(&mut status, o, census.as_ref());

    let mut draft = Draft::new(std::mem::take(&mut status.conditions), o.cluster.metadata.generation, now);
    draft.set(not_paused());
    if let Some(probe) = remote_connection_probe(o, &draft, now) {
        draft.set(probe);
    }
    draft.set(infrastructure_ready(o, &flags));
    draft.set(control_plane::available(o, &flags));
    if let Some(initialized) = control_plane::initialized(o, census.as_ref(), &draft) {
        draft.set(initialized);
    }
    descendants::judge(&mut draft, o, census.as_ref(), now);
    if o.lacks_topology_controller {
        topology_without_controller(&mut draft, waits);
    }
    draft.set(deletion::condition(o));
    draft.set(summary::available(o, draft.list()));
    status.conditions = draft.finish();
    status
}

/// Says it while the Cluster waits, and takes it back once its references are there: whoever set them.
fn topology_without_controller(draft: &mut Draft, waits: bool) {
    let is_said = draft.find("TopologyReconciled").is_some_and(|c| c.reason == topology::NO_CONTROLLER);
    if waits {
        draft.set(topology::not_computed());
    } else if is_said {
        draft.remove("TopologyReconciled");
    }
}

/// What infrastructure and control plane report, copied. Flags only ever turn true.
fn learn(status: &mut ClusterStatus, o: &Observed) {
    let mut flags = initialization(&o.cluster);
    match &o.infrastructure {
        // Nothing has to be provisioned; with a topology the reference is only late.
        External::NotSet if !o.is_deleting() && !o.has_topology() => {
            flags.infrastructure_provisioned = Some(true);
        }
        External::Found(infrastructure) if !infrastructure.is_deleting() => {
            let was = flags.infrastructure_provisioned == Some(true);
            // Provisioned once is provisioned, unless the field is not even readable.
            let is = infrastructure.provisioned() || (was && !infrastructure.provisioned_is_malformed());
            // Nothing is copied from an object that is not as its contract demands.
            if let (true, Ok(domains)) = (is, infrastructure.failure_domains()) {
                flags.infrastructure_provisioned = Some(true);
                status.failure_domains = domains;
            }
        }
        _ => {}
    }
    let control_plane = o.control_plane.found().filter(|c| !c.is_deleting());
    if control_plane.is_some_and(crate::status::contract::Provided::control_plane_initialized) {
        flags.control_plane_initialized = Some(true);
    }
    if flags != ClusterInitialization::default() {
        status.initialization = Some(flags);
    }
}

/// Each later line that applies overrules the earlier ones; without any, what is stored stays.
fn phase<'a>(o: &Observed, flags: &ClusterInitialization, stored: Option<&'a str>) -> &'a str {
    let spec = &o.cluster.spec;
    let stored = stored.filter(|phase| !phase.is_empty()).unwrap_or("Pending");
    let rules = [
        (spec.infrastructure_ref.is_some() || spec.control_plane_ref.is_some(), "Provisioning"),
        (flags.infrastructure_provisioned == Some(true) && has_endpoint(&o.cluster), "Provisioned"),
        (o.is_deleting(), "Deleting"),
    ];
    rules.into_iter().filter(|(applies, _)| *applies).map(|(_, phase)| phase).next_back().unwrap_or(stored)
}

/// `None`: what is there stays.
fn remote_connection_probe(o: &Observed, draft: &Draft, now: Timestamp) -> Option<NewCondition<'static>> {
    const TYPE: &str = "RemoteConnectionProbe";
    if o.probe.not_established_yet {
        // A process that starts anew has no connection yet; what is stored is the better knowledge.
        let first = draft.find(TYPE).is_none();
        return first.then(|| {
            NewCondition::new(TYPE, Status::False, "ProbeFailed", "Remote connection not established yet")
        });
    }
    let failed = |message: String| NewCondition::new(TYPE, Status::False, "ProbeFailed", message);
    Some(match o.probe.last_success {
        None => failed(PROBE_FAILED.to_owned()),
        Some(at) if now - at > o.graces.connection => {
            failed(format!("{PROBE_FAILED}{LAST_SUCCESS}{}", rfc3339(at)))
        }
        Some(_) => NewCondition::new(TYPE, Status::True, "ProbeSucceeded", ""),
    })
}

fn infrastructure_ready<'a>(o: &'a Observed, flags: &ClusterInitialization) -> NewCondition<'a> {
    const TYPE: &str = "InfrastructureReady";
    if o.infrastructure == External::NotSet && o.has_topology() {
        return waiting_for_topology(TYPE, Status::False, o.is_deleting());
    }
    Mirrored {
        target: TYPE,
        source_type: "Ready",
        initialized: flags.infrastructure_provisioned == Some(true),
        not_yet: "NotReady",
        field: "status.initialization.provisioned",
        owner_deleting: o.is_deleting(),
        gone: " while the cluster still exists",
    }
    .of(&o.infrastructure)
}

fn waiting_for_topology(type_: &str, status: Status, deleting: bool) -> NewCondition<'_> {
    let message = if deleting { "" } else { "Waiting for cluster topology to be reconciled" };
    NewCondition::new(type_, status, "ObjectDoesNotExist", message)
}
