//! What is true of a MachinePool: initialization, Nodes, counters, versions, phase, and whether its
//! Machines are up to date. Must not know how the infrastructure counts.
//! Source: cluster-api `core/reconcilers/machinepool/machinepool_controller_{status,phases,noderef}.go`, v1.14.2.
//!
//! Upstream writes only the condition `Paused`, and so does this module; the phase follows counters of
//! the deprecated status, which are kept for it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::{Node, NodeCondition, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status::conditions::setter::{Draft, condition, not_paused};
use crate::status::contract::{External, Provided};
use crate::status::{machines, versions};
use capi_types::cluster::Cluster;
use capi_types::condition::Status;
use capi_types::key::annotation as annotation_of;
use capi_types::machine::{Machine, MachineInitialization};
use capi_types::machine_pool::{MachinePool, MachinePoolStatus};
use capi_types::names::annotation::REPLICAS_MANAGED_BY;
use capstan_base::time::{Timestamp, from_k8s};

/// The one condition type that the controller owns.
pub const OWNED: [&str; 1] = ["Paused"];
/// And on the pool's Machines.
pub const OWNED_ON_MACHINES: [&str; 1] = ["UpToDate"];

/// Everything a MachinePool is judged by.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// As it is now, this run's own writes included.
    pub pool: MachinePool,
    /// Its connection and its pause count.
    pub cluster: Arc<Cluster>,
    /// What the template's `configRef` leads to.
    pub bootstrap: External,
    /// What the template's `infrastructureRef` leads to.
    pub infrastructure: External,
    /// Machines of the pool, where its infrastructure makes Machines.
    pub machines: Vec<Machine>,
    /// What those Machines are made for: objects of the kind that the infrastructure names, ordered by name.
    pub hosts: Vec<Provided>,
    /// Nodes of the workload cluster; `None` when it was not reached.
    pub nodes: Option<Vec<Node>>,
}

/// The status of a MachinePool that is not paused. `observedGeneration` is the caller's to set.
pub fn status(o: &Observed, now: Timestamp) -> MachinePoolStatus {
    let mut status = o.pool.status.clone().unwrap_or_default();
    if !is_deleting(o) {
        initialize(&mut status, o);
        if let (Some(infrastructure), Some(nodes)) = (usable(o), &o.nodes) {
            let ids = follow(&mut status, o, infrastructure);
            see_nodes(&mut status, o, &ids, nodes, now);
        }
        // Also of one on its way out: its counters are the last that are known.
        if let Some(infrastructure) = o.infrastructure.found() {
            count(&mut status, o, infrastructure);
        }
    }
    status.phase = Some(phase(o, &status).to_owned());
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), o.pool.metadata.generation, now);
    draft.set(not_paused());
    status.conditions = draft.finish();
    status
}

/// Did the pass get through? What upstream ends with an error does not count the generation as observed.
/// The Nodes of a pool that goes are asked for when nothing else is left of it.
pub fn is_complete(o: &Observed) -> bool {
    let is_read = |external: &External| !matches!(external, External::Unreadable { .. });
    if is_deleting(o) {
        let is_left = o.bootstrap.found().is_some() || o.infrastructure.found().is_some();
        let has_nodes = o.pool.status.as_ref().is_some_and(|s| !s.node_refs.is_empty());
        return is_read(&o.bootstrap)
            && is_read(&o.infrastructure)
            && (is_left || !has_nodes || o.nodes.is_some());
    }
    let bootstrap = match &o.bootstrap {
        External::NotSet => o.pool.spec.template.spec.bootstrap.data_secret_name.is_some(),
        External::NotFound { .. } | External::Unreadable { .. } => false,
        External::Found(config) => {
            config.is_deleting() || !config.data_secret_created() || names_data_secret(config)
        }
    };
    // Upstream ends the pass with an error only where it goes on to Nodes.
    let awaits_ids = o.pool.spec.provider_id_list.is_empty() && o.pool.spec.replicas != Some(0);
    let infrastructure = o.infrastructure.found().is_some_and(|i| !i.is_deleting() || awaits_ids);
    bootstrap && infrastructure && o.nodes.is_some()
}

/// An empty name is one.
pub fn names_data_secret(config: &Provided) -> bool {
    config.content()["status"]["dataSecretName"].is_string()
}

/// The provider IDs of the pool after this pass; `None` when its infrastructure or its Nodes were not read.
pub fn provider_ids(o: &Observed) -> Option<Vec<String>> {
    let infrastructure = usable(o).filter(|_| o.nodes.is_some())?;
    let mut status = o.pool.status.clone().unwrap_or_default();
    initialize(&mut status, o);
    Some(follow(&mut status, o, infrastructure))
}

/// All that the infrastructure counts is ready and has a Node.
pub fn has_all_nodes(status: &MachinePoolStatus) -> bool {
    let ready = legacy_ready(status);
    status.replicas.unwrap_or(0) == ready && int(status.node_refs.len()) == ready
}

/// `UpToDate` of a Machine of a pool.
pub fn machine_up_to_date(machine: &Machine) -> Condition {
    const TYPE: &str = "UpToDate";
    if machine.metadata.deletion_timestamp.is_some() {
        condition(TYPE, Status::False, "NotUpToDate", "Machine is being deleted")
    } else {
        condition(TYPE, Status::True, TYPE, "")
    }
}

/// Is it on its way out?
pub fn is_deleting(o: &Observed) -> bool {
    o.pool.metadata.deletion_timestamp.is_some()
}

fn is_provisioned(status: &MachinePoolStatus) -> bool {
    status.initialization.as_ref().and_then(|i| i.infrastructure_provisioned) == Some(true)
}

/// The infrastructure object, unless it is on its way out.
fn usable(o: &Observed) -> Option<&Provided> {
    o.infrastructure.found().filter(|i| !i.is_deleting())
}

/// Unlike a Machine's, both flags may turn back. The infrastructure is judged by `status.ready`,
/// whatever contract it follows.
fn initialize(status: &mut MachinePoolStatus, o: &Observed) {
    let mut flags = status.initialization.clone().unwrap_or_default();
    let bootstrap = &o.pool.spec.template.spec.bootstrap;
    match o.bootstrap.found().filter(|config| !config.is_deleting()) {
        Some(config) if !config.data_secret_created() => flags.bootstrap_data_secret_created = Some(false),
        Some(config) if names_data_secret(config) => flags.bootstrap_data_secret_created = Some(true),
        // People may bring the data themselves.
        None if bootstrap.config_ref.is_none() && bootstrap.data_secret_name.is_some() => {
            flags.bootstrap_data_secret_created = Some(true);
        }
        _ => {}
    }
    if let Some(infrastructure) = usable(o) {
        flags.infrastructure_provisioned = Some(infrastructure.flag(&["status", "ready"]));
    }
    if flags != MachineInitialization::default() {
        status.initialization = Some(flags);
    }
}

/// The provider IDs of the pool after this pass. Those of a ready infrastructure replace the pool's own,
/// and start the older counters anew; without any while there are replicas, they are not used.
fn follow(status: &mut MachinePoolStatus, o: &Observed, infrastructure: &Provided) -> Vec<String> {
    let own = &o.pool.spec.provider_id_list;
    if !is_provisioned(status) {
        return own.clone();
    }
    status.replicas = infrastructure.count(&["status", "replicas"]).or(status.replicas);
    let stated = infrastructure.content()["spec"]["providerIDList"].clone();
    let listed: Option<Vec<String>> = serde_json::from_value(stated).ok();
    // An empty list is, to upstream, not the same as none.
    let differs = listed.as_ref().map_or(!own.is_empty(), |list| list != own || list.is_empty());
    let ids = listed.unwrap_or_default();
    let replicas = status.replicas.unwrap_or(0);
    if ids.is_empty() && replicas != 0 {
        return own.clone();
    }
    if differs {
        let legacy = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
        // A changed list of hosts makes the old counts worthless; the phase follows them.
        legacy.ready_replicas = Some(0);
        legacy.available_replicas = Some(0);
        legacy.unavailable_replicas = Some(replicas);
    }
    ids
}

/// Takes over the Nodes with the pool's provider IDs, and counts them the older way. References that are
/// complete and right are not looked at again; when no Node is found they stay.
fn see_nodes(status: &mut MachinePoolStatus, o: &Observed, ids: &[String], nodes: &[Node], now: Timestamp) {
    if is_settled(status, nodes) || ids.is_empty() && o.pool.spec.replicas != Some(0) {
        return;
    }
    // Upstream fills a map by ID, where the last Node wins.
    let with_id = |id: &String| nodes.iter().rfind(|node| id_of(node) == Some(id));
    let mine: Vec<&Node> = ids.iter().filter(|id| !id.is_empty()).filter_map(with_id).collect();
    // An error upstream, which keeps what is stored: the Nodes may only not be listed yet.
    if mine.is_empty() && !ids.is_empty() {
        return;
    }
    let wait = TimeDelta::seconds(i64::from(o.pool.spec.template.spec.min_ready_seconds.unwrap_or(0)));
    let available = int(mine.iter().filter(|node| is_available(node, wait, now)).count());
    let legacy = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    legacy.ready_replicas = Some(int(mine.iter().filter(|node| ready(node).is_some()).count()));
    legacy.available_replicas = Some(available);
    legacy.unavailable_replicas = Some(status.replicas.unwrap_or(0).saturating_sub(available));
    status.node_refs = mine.iter().map(|node| reference(node)).collect();
}

/// All replicas are ready and have a reference to a Node that is still the same.
fn is_settled(status: &MachinePoolStatus, nodes: &[Node]) -> bool {
    let ready = legacy_ready(status);
    let is_there = |r: &ObjectReference| {
        let mut with_id = nodes.iter().filter(|node| id_of(node).is_some());
        with_id.any(|node| node.metadata.name == r.name && node.metadata.uid == r.uid)
    };
    status.replicas.unwrap_or(0) == ready
        && int(status.node_refs.len()) == ready
        && status.node_refs.iter().all(is_there)
}

fn legacy_ready(status: &MachinePoolStatus) -> i32 {
    let legacy = status.deprecated.as_ref().and_then(|d| d.v1beta1.as_ref());
    legacy.and_then(|l| l.ready_replicas).unwrap_or(0)
}

/// The provider ID of a Node that has one.
pub fn id_of(node: &Node) -> Option<&String> {
    node.spec.as_ref()?.provider_id.as_ref().filter(|id| !id.is_empty())
}

fn reference(node: &Node) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: node.metadata.name.clone(),
        uid: node.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The `Ready` condition, when it is true.
fn ready(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == "Ready").filter(|c| c.status == "True")
}

/// Ready for longer than `wait`.
fn is_available(node: &Node, wait: TimeDelta, now: Timestamp) -> bool {
    let since = |c: &NodeCondition| c.last_transition_time.as_ref().map(from_k8s);
    ready(node).is_some_and(|c| wait.is_zero() || since(c).is_some_and(|since| since + wait < now))
}

/// Where the infrastructure makes Machines they are counted; where it does not, its own counters are used.
fn count(status: &mut MachinePoolStatus, o: &Observed, infrastructure: &Provided) {
    if infrastructure.text(&["status", "infrastructureMachineKind"]).is_some() {
        let all = machines::members(&o.machines);
        status.ready_replicas = Some(machines::count_true(all.iter().map(|m| m.ready)));
        status.available_replicas = Some(machines::count_true(all.iter().map(|m| m.available)));
        // They are marked before they are counted.
        let up_to_date = |machine: &&Machine| machine_up_to_date(machine).status == "True";
        status.up_to_date_replicas = Some(int(o.machines.iter().filter(up_to_date).count()));
        status.versions = machines::versions(&o.machines);
        return;
    }
    // Without Machines of its own a pool has no better numbers than those of the infrastructure.
    status.ready_replicas = status.replicas;
    status.available_replicas = status.replicas;
    status.up_to_date_replicas = o.pool.spec.replicas;
    let nodes = usable(o).and(o.nodes.as_ref()).into_iter().flatten();
    let nodes: Vec<&Node> = nodes.filter(|node| id_of(node).is_some()).collect();
    let kubelet = |r: &ObjectReference| {
        let node = nodes.iter().find(|node| node.metadata.name == r.name)?;
        Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.as_str())
    };
    status.versions =
        versions::count(status.node_refs.iter().filter_map(kubelet).map(|version| (version, 1)));
}

fn int(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Each later line that applies overrules the earlier ones.
fn phase(o: &Observed, status: &MachinePoolStatus) -> &'static str {
    let stored = PHASES.into_iter().find(|p| status.phase.as_deref() == Some(*p)).unwrap_or("Pending");
    let created = status.initialization.as_ref().and_then(|i| i.bootstrap_data_secret_created) == Some(true);
    let provisioned = is_provisioned(status);
    let ready = legacy_ready(status);
    let managed = annotation_of(&o.pool, REPLICAS_MANAGED_BY).is_some_and(|value| value != "false");
    let wanted = o.pool.spec.replicas.filter(|_| provisioned);
    let rules = [
        (created && !provisioned, "Provisioning"),
        (!status.node_refs.is_empty(), "Provisioned"),
        (wanted.is_some_and(|n| n == ready), "Running"),
        (wanted.is_some_and(|n| n > ready), if managed { "Scaling" } else { "ScalingUp" }),
        (wanted.is_some_and(|n| n < ready), if managed { "Scaling" } else { "ScalingDown" }),
        (is_deleting(o), "Deleting"),
    ];
    rules.into_iter().filter(|(applies, _)| *applies).map(|(_, phase)| phase).next_back().unwrap_or(stored)
}

const PHASES: [&str; 10] = [
    "Pending",
    "Provisioning",
    "Provisioned",
    "Running",
    "ScalingUp",
    "ScalingDown",
    "Scaling",
    "Deleting",
    "Failed",
    "Unknown",
];
