//! The parts of a computed status that were only repeated from the stored one, because no dump, or not this one, has
//! the facts. Owns the reasons and their words; must not judge anything.

use std::collections::BTreeMap;

use serde_json::Value;

use super::class::{VARIABLES, VERSIONS, asks_extensions, knows_versions};
use super::topology::topology_is_kept;
use crate::observe::dump::{Dump, Kind, last_seen, reported_update};
use crate::status::conditions::wording::plural;
use crate::status::control_plane::machine::{COMPONENTS, LABELS_AND_TAINTS};
use crate::status::machine::{cluster_provisioned, control_plane_initialized_since};
use capi_types::cluster::Cluster;
use capi_types::condition::{Condition, Conditioned as _, find, is_true};
use capi_types::key::{ObjectKey, cluster_label, controller_of};
use capi_types::machine::Machine;
use capi_types::names::annotation::PAUSED;
use capi_types::reference::ContractRef;
use capstan_base::time::Timestamp;

const ETCD: &str = "what etcd answers is not in a dump";
const EXTENSIONS: &str = "what extensions answer is not in a dump";
const DRAIN: &str = "what evictions answer is not in a dump";
const REMEDIATION: &str = "what a remediation did is not in a dump";
const PARTS: &str = "whether a simulated machine's parts are up is not in a dump";
const DEFINITIONS: &str = "CustomResourceDefinitions of its templates are not in the dump";

/// Conditions or fields of one object that stay as stored, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What a dump does not show.
    pub why: String,
    /// The fields or conditions that are therefore as they were.
    pub what: String,
}

fn keep(why: impl Into<String>, what: impl Into<String>) -> Kept {
    Kept { why: why.into(), what: what.into() }
}

/// Everything that was repeated for one object.
pub fn kept(dump: &Dump, kind: Kind, key: &ObjectKey, now: Timestamp) -> Vec<Kept> {
    let kept = match kind {
        Kind::ClusterClass => {
            dump.raw(kind.group(), kind.name(), key).map(|class| kept_of_class(dump, class))
        }
        Kind::Cluster => dump.clusters.get(key).map(|cluster| kept_of_cluster(dump, key, cluster)),
        Kind::KubeadmControlPlane => dump.control_planes.get(key).map(|plane| {
            let mut kept = Vec::new();
            if dump.secrets(&key.namespace).is_empty() {
                let why = format!("Secrets of namespace {} are not in the dump", key.namespace);
                kept.push(keep(why, "CertificatesAvailable"));
            }
            // Asked in the ConfigMap only while it is not true: what was initialized stays so.
            let cluster = cluster_label(plane.as_ref()).map(|name| ObjectKey::new(&key.namespace, name));
            if !is_true(plane.conditions(), "Initialized")
                && cluster.is_some_and(|c| dump.workload(&c).is_some())
            {
                kept.push(keep("the ConfigMap kubeadm-config is not in a dump", "Initialized"));
            }
            kept
        }),
        Kind::MachinePool => dump.machine_pools.get(key).map(|pool| {
            let cluster = ObjectKey::new(&key.namespace, &pool.spec.cluster_name);
            without_nodes(dump, &cluster).map(|why| keep(why, "nodeRefs")).into_iter().collect()
        }),
        Kind::Machine => dump.machines.get(key).map(|machine| kept_of_machine(dump, key, machine, now)),
        Kind::DevMachine => dump.dev_machines.get(key).map(|_| vec![keep(PARTS, "its parts")]),
        Kind::MachineDeployment
        | Kind::MachineSet
        | Kind::MachineHealthCheck
        | Kind::KubeadmConfig
        | Kind::DevCluster => None,
    };
    kept.unwrap_or_default()
}

/// Why nothing is known of the Nodes of a cluster, when that is so.
pub fn without_nodes(dump: &Dump, cluster: &ObjectKey) -> Option<String> {
    dump.workload(cluster).is_none().then(|| format!("Nodes of Cluster {cluster} are not in the dump"))
}

fn kept_of_class(dump: &Dump, class: &Value) -> Vec<Kept> {
    if class["metadata"]["annotations"].get(PAUSED).is_some() {
        return Vec::new();
    }
    let versions = (!knows_versions(dump, class)).then(|| keep(DEFINITIONS, VERSIONS));
    let variables = asks_extensions(class).then(|| keep(EXTENSIONS, format!("{VARIABLES} and variables")));
    versions.into_iter().chain(variables).collect()
}

fn kept_of_cluster(dump: &Dump, key: &ObjectKey, cluster: &Cluster) -> Vec<Kept> {
    let mut kept = Vec::new();
    // A probe that is known to have failed is judged by its time, not repeated.
    if last_seen(cluster).is_none() {
        kept.extend(without_nodes(dump, key).map(|why| keep(why, "RemoteConnectionProbe")));
    }
    let stored = cluster.conditions();
    for (reference, type_, more) in [
        (cluster.spec.infrastructure_ref.as_ref(), "InfrastructureReady", " and failure domains"),
        (
            cluster.spec.control_plane_ref.as_ref(),
            "ControlPlaneAvailable",
            " and the control plane's counters",
        ),
    ] {
        kept.extend(kept_of_provider(dump, reference, stored, type_, more));
    }
    if cluster.spec.topology.is_some() {
        kept.extend(topology_is_kept(dump, key, cluster).map(|why| keep(why, "TopologyReconciled")));
    }
    kept
}

/// What is stored of a provider's object whose kind was left out.
fn kept_of_provider(
    dump: &Dump,
    reference: Option<&ContractRef>,
    stored: &[Condition],
    type_: &str,
    more: &str,
) -> Option<Kept> {
    let named = reference.filter(|_| dump.left_out(reference))?;
    find(stored, type_).map(|_| keep(left_out(&named.kind), format!("{type_}{more}")))
}

fn kept_of_machine(dump: &Dump, key: &ObjectKey, machine: &Machine, now: Timestamp) -> Vec<Kept> {
    let cluster_key = ObjectKey::new(&key.namespace, &machine.spec.cluster_name);
    let Some(cluster) = dump.clusters.get(&cluster_key) else { return Vec::new() };
    let mut kept = Vec::new();
    for (reference, type_) in [
        (machine.spec.bootstrap.config_ref.as_ref(), "BootstrapConfigReady"),
        (Some(&machine.spec.infrastructure_ref), "InfrastructureReady"),
    ] {
        kept.extend(kept_of_provider(dump, reference, machine.conditions(), type_, ""));
    }
    let leaves = machine.metadata.deletion_timestamp.is_some();
    // Only where the stored message was used: stages that need no Node are judged anew.
    if leaves && dump.machine(key, machine, now).is_some_and(|o| o.told_deletion.is_some()) {
        kept.push(keep(DRAIN, "Deleting"));
    }
    if reported_update(machine).is_some() {
        kept.push(keep(EXTENSIONS, "Updating"));
    }
    kept.extend(kept_by_owners(dump, key, machine));
    // Before that, and once the connection is known to be lost, nothing needs a Node.
    let asked = cluster_provisioned(cluster) && control_plane_initialized_since(cluster).is_some();
    if asked && last_seen(cluster).is_none() {
        kept.extend(without_nodes(dump, &cluster_key).map(|why| keep(why, "NodeReady and NodeHealthy")));
        kept.extend(kept_by_control_plane(dump, &cluster_key, machine));
    }
    kept
}

/// Conditions on the object by other controllers, whose own objects are not here or whose work cannot be seen.
fn kept_by_owners(dump: &Dump, key: &ObjectKey, machine: &Machine) -> Vec<Kept> {
    let stored = |type_: &str| find(machine.conditions(), type_);
    let owner = controller_of(machine)
        .map(|owner| (owner.kind.as_str(), ObjectKey::new(&key.namespace, &owner.name)));
    let missing = match &owner {
        Some(("MachineSet", set)) => !dump.machine_sets.contains_key(set),
        Some(("KubeadmControlPlane", plane)) => !dump.control_planes.contains_key(plane),
        _ => false,
    };
    let mut kept = Vec::new();
    if let (Some((kind, owner)), true, Some(_)) = (&owner, missing, stored("UpToDate")) {
        kept.push(keep(format!("{kind} {owner} is not in the dump"), "UpToDate"));
    }
    // With some checks here, the lack of another one is taken for its absence.
    if stored("HealthCheckSucceeded").is_some() && dump.checks.is_empty() {
        kept.push(keep(left_out(Kind::MachineHealthCheck.name()), "HealthCheckSucceeded"));
    }
    // The first mark follows from the check; what the owner made of it afterwards is its own work.
    let stored_mark = stored("OwnerRemediated").filter(|c| c.reason != "WaitingForRemediation");
    kept.extend(stored_mark.map(|c| keep(REMEDIATION, c.type_.clone())));
    kept
}

/// The conditions that a KubeadmControlPlane writes on a Machine from the state of its Node, Pods and etcd.
fn kept_by_control_plane(dump: &Dump, cluster: &ObjectKey, machine: &Machine) -> Vec<Kept> {
    if controller_of(machine).is_none_or(|owner| owner.kind != Kind::KubeadmControlPlane.name()) {
        return Vec::new();
    }
    let member = find(machine.conditions(), "EtcdMemberHealthy").map(|c| keep(ETCD, c.type_.clone()));
    let why = match dump.workload(cluster) {
        // etcd is never in a dump, whatever else is.
        Some(workload) if workload.has_system_pods() => return member.into_iter().collect(),
        Some(_) => format!("kube-system Pods of Cluster {cluster} are not in the dump"),
        None => format!("Nodes of Cluster {cluster} are not in the dump"),
    };
    let components = format!("{LABELS_AND_TAINTS} and {} pod conditions", COMPONENTS.len());
    member.into_iter().chain([keep(why, components)]).collect()
}

fn left_out(kind: &str) -> String {
    format!("{kind} objects are not in the dump")
}

/// One sentence for each reason, with everything that it concerns.
pub fn sentences<'a>(kept: impl Iterator<Item = (Kind, &'a ObjectKey, &'a Kept)>) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, BTreeMap<(Kind, &str), Vec<&ObjectKey>>> = BTreeMap::new();
    for (kind, key, Kept { why, what }) in kept {
        // By reason first: one that is missing mostly concerns many objects.
        by_reason.entry(why).or_default().entry((kind, what)).or_default().push(key);
    }
    let concerned = |((kind, what), keys): (&(Kind, &str), &Vec<&ObjectKey>)| match keys.as_slice() {
        [only] => format!("{what} of {} {only}", kind.name()),
        several => format!("{what} of {} {}", several.len(), plural(kind.name())),
    };
    let sentence = |(why, all): (&&str, &BTreeMap<(Kind, &str), Vec<&ObjectKey>>)| {
        let all: Vec<String> = all.iter().map(concerned).collect();
        format!("as stored: {} ({why})", all.join("; "))
    };
    by_reason.iter().map(sentence).collect()
}
