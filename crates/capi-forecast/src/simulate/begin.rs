//! From a dump to worlds, one for each Cluster: which objects are in which, how far each host is, what had to be assumed.
//! Must not judge anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::drain::Tenancy;
use super::hosts::{HostState, Hosts};
use super::timing::{Span, Timing};
use super::under_way::agreed;
use super::workload;
use super::world::{Kept, Keys, World, name_of};
use capi_rules::observe::dump::{Dump, last_seen, made_just_now};
use capi_rules::observe::{Source as _, key_of, namespace};
use capi_rules::status::conditions::wording::NO_MEMBER;
use capi_rules::status::contract::External;
use capi_rules::status::control_plane::Kubeconfig;
use capi_rules::status::control_plane::certificates::Certificates;
use capi_rules::status::machines::is_control_plane;
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, find, is_true};
use capi_types::key::{ObjectKey, cluster_label, label as label_of};
use capi_types::machine::Machine;
use capi_types::names::{CORE_GROUP, label};
use capi_types::reference::ContractRef;
use capstan_base::time::{Timestamp, from_k8s};
use capstan_physics::boot::BootStage;

/// A host that waits so much longer than what is long for its step does not come by itself.
const STUCK_AFTER: i32 = 3;

/// Machines of one Cluster: ten times what any is known to have.
const MACHINES_MAX: i64 = 100_000;

/// Clocks differ by less.
const CLOCK_AHEAD_MAX: TimeDelta = TimeDelta::hours(1);

/// A world as it begins.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    pub world: World,
    pub hosts: Hosts,
    /// What was not in the dump, and what it was taken for.
    pub assumptions: Vec<String>,
}

/// Why a Cluster is not simulated: each of its Machines is one in the simulation. `None`: nothing speaks against it.
pub fn too_large(dump: &Dump, key: &ObjectKey) -> Option<String> {
    let here = |ns: &str, cluster: Option<&str>| ns == key.namespace && cluster == Some(key.name.as_str());
    let wanted = |replicas: Option<i32>| i64::from(replicas.unwrap_or(1).max(0));
    let planes = dump.control_planes.iter().filter(|(k, o)| here(&k.namespace, cluster_label(o.as_ref())));
    let planes: i64 = planes.map(|(_, plane)| wanted(plane.spec.replicas)).sum();
    let deployments =
        dump.machine_deployments.iter().filter(|(k, o)| here(&k.namespace, Some(&o.spec.cluster_name)));
    let deployments: i64 = deployments.map(|(_, deployment)| wanted(deployment.spec.replicas)).sum();
    let sets = dump.machine_sets.iter().filter(|(k, o)| here(&k.namespace, Some(&o.spec.cluster_name)));
    let sets: i64 = sets.map(|(_, set)| wanted(set.spec.replicas)).sum();
    // MachineSets are mostly those of MachineDeployments: the larger number covers both.
    let all = planes + deployments.max(sets);
    (all > MACHINES_MAX).then(|| {
        format!("Cluster {key} is not simulated: it wants {all} Machines, and {MACHINES_MAX} are the most")
    })
}

/// Everything of one Cluster; `None` when it is not in the dump, or too large.
pub(super) fn world_of(dump: &Dump, key: &ObjectKey, now: Timestamp) -> Option<Beginning> {
    let cluster = dump.clusters.get(key)?;
    if too_large(dump, key).is_some() {
        return None;
    }
    let at = begins_at(dump, key, now);
    let mut assumptions = Vec::new();
    if at > now {
        let seconds = (at - now).num_seconds();
        assumptions.push(format!(
            "times of Cluster {} are up to {seconds} seconds ahead of this clock: it begins at the newest",
            key.name
        ));
    }
    let now = at;
    let mut begun = Beginning { world: World::new(cluster.clone(), now), hosts: Hosts::new(), assumptions };
    take_workers(dump, &mut begun);
    take_control_planes(dump, cluster, &mut begun);
    take_provider_objects(dump, cluster, &mut begun);
    take_machines(dump, &mut begun, now);
    take_workload(dump, cluster, &mut begun, now);
    if agreed(&begun.world).is_some() {
        let what = "extensions say the same to those that are left of their control plane or MachineSet";
        begun.assumptions.push(format!("Machines of Cluster {} are updated in place: {what}", key.name));
    }
    // After everything is there: lows and highs count from the state as it was found.
    begun.world.census.begin();
    // Everybody runs at first, so nobody has to hear of it.
    let _ = begun.world.take_changes();
    Some(begun)
}

/// Where the clock that wrote the times is ahead of this one, what turned just now would not have turned yet: a Machine that
/// is available would not be. Times that are further ahead are not those of a clock.
fn begins_at(dump: &Dump, key: &ObjectKey, now: Timestamp) -> Timestamp {
    let times = machines_of(dump, key).flat_map(|machine| {
        let turned = machine.conditions().iter().map(|c| from_k8s(&c.last_transition_time));
        turned.chain(machine.metadata.creation_timestamp.as_ref().map(from_k8s))
    });
    times.filter(|at| *at <= now + CLOCK_AHEAD_MAX).fold(now, Timestamp::max)
}

fn take_workers(dump: &Dump, begun: &mut Beginning) {
    let key = begun.world.key.clone();
    let world = &mut begun.world;
    let here = |ns: &str, cluster: &str| ns == key.namespace && cluster == key.name;
    for (_, o) in dump.machine_deployments.iter().filter(|(k, o)| here(&k.namespace, &o.spec.cluster_name)) {
        world.put(without_owners(o));
    }
    for (_, o) in dump.machine_sets.iter().filter(|(k, o)| here(&k.namespace, &o.spec.cluster_name)) {
        world.put(without_owners(o));
    }
    for (_, o) in dump.checks.iter().filter(|(k, o)| here(&k.namespace, &o.spec.cluster_name)) {
        world.put(without_owners(o));
    }
    let pools = dump.machine_pools.iter().filter(|(k, o)| here(&k.namespace, &o.spec.cluster_name));
    world.machine_pools = pools.map(|(key, pool)| (key.clone(), pool.clone())).collect();
    if !world.machine_pools.is_empty() {
        let count = world.machine_pools.len();
        begun
            .assumptions
            .push(format!("{count} MachinePools stay as they are: there are no rules for the kind"));
    }
    if world.cluster().is_some_and(|cluster| cluster.spec.topology.is_some()) {
        let what = "its topology is not planned: what belongs to the Cluster is taken as it is";
        begun.assumptions.push(format!("Cluster {}: {what}", key.name));
    }
    world.drain_rules =
        decoded(dump, CORE_GROUP, "MachineDrainRule", &key.namespace).into_iter().map(Arc::new).collect();
}

/// Who owns which field is recorded by a server, and there is none here: objects are compared by their values.
fn without_owners<K: Kept>(object: &Arc<K>) -> K {
    let mut taken = object.as_ref().clone();
    taken.meta_mut().managed_fields = None;
    taken
}

fn take_control_planes(dump: &Dump, cluster: &Cluster, begun: &mut Beginning) {
    let key = begun.world.key.clone();
    let named = cluster.spec.control_plane_ref.as_ref().map(|r| r.name.as_str());
    for (at, object) in dump.control_planes.iter().filter(|(at, _)| at.namespace == key.namespace) {
        let is_mine =
            named == Some(at.name.as_str()) || cluster_label(object.as_ref()) == Some(key.name.as_str());
        if !is_mine {
            continue;
        }
        let read = dump.control_plane(at, object);
        let keys = read.map_or_else(
            || Keys { certificates: Certificates::Found(Vec::new()), kubeconfig: Kubeconfig::Missing },
            |read| Keys { certificates: read.certificates, kubeconfig: read.kubeconfig },
        );
        begun.world.keys.insert(at.name.clone(), keys);
        begun.world.put(without_owners(object));
    }
}

/// What references lead to, and every template: another one may be referred to later.
fn take_provider_objects(dump: &Dump, cluster: &Cluster, begun: &mut Beginning) {
    let ns = begun.world.key.namespace.clone();
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    let mut take = |world: &mut World, reference: Option<&ContractRef>, found| {
        let Some(reference) = reference.filter(|r| !r.name.is_empty() && r.kind != "KubeadmControlPlane")
        else {
            return;
        };
        let is_left_out = dump.left_out(Some(reference));
        if is_left_out {
            *left_out.entry(reference.kind.clone()).or_default() += 1;
        }
        // Of an owner that reports nothing of it yet, it was made just now.
        let found = match found {
            External::Unreadable { .. } if is_left_out => made_just_now(reference),
            found => found,
        };
        let stated = dump.definition(&reference.api_group, &reference.kind);
        let contract =
            stated.and_then(|s| s.as_ref().ok()).map(|(contract, _)| *contract).unwrap_or_default();
        world.externals.learn(reference, found, contract);
    };
    let world = &mut begun.world;
    take(world, cluster.spec.infrastructure_ref.as_ref(), dump.infrastructure_of_cluster(cluster));
    take(world, cluster.spec.control_plane_ref.as_ref(), dump.control_plane_of_cluster(cluster));
    let of_deployments = world.machine_deployments.values().map(|d| d.spec.template.spec.clone());
    let of_sets = world.machine_sets.values().map(|s| s.spec.template.spec.clone());
    for spec in of_deployments.chain(of_sets).collect::<Vec<_>>() {
        for reference in [spec.bootstrap.config_ref.as_ref(), Some(&spec.infrastructure_ref)] {
            take(world, reference, dump.template(&ns, reference));
        }
    }
    for object in world.control_planes.values().cloned().collect::<Vec<_>>() {
        let reference = Some(&object.spec.machine_template.spec.infrastructure_ref);
        take(world, reference, dump.template(&ns, reference));
        let key = key_of(object.as_ref());
        if dump.is_of_older_release(&key) {
            world.of_older_releases.insert(key);
        }
    }
    for machine in machines_of(dump, &world.key.clone()) {
        take(world, Some(&machine.spec.infrastructure_ref), dump.infrastructure_of_machine(machine));
        take(world, machine.spec.bootstrap.config_ref.as_ref(), dump.bootstrap_of_machine(machine));
    }
    let kinds: Vec<(String, String)> = dump
        .kinds()
        .filter(|(_, kind, _)| kind.ends_with("Template"))
        .map(|(group, kind, _)| (group.to_owned(), kind.to_owned()))
        .collect();
    for (group, kind) in kinds {
        for (at, _) in dump.all(&group, &kind).filter(|(at, _)| at.namespace == ns) {
            let reference =
                ContractRef { api_group: group.clone(), kind: kind.clone(), name: at.name.clone() };
            take(world, Some(&reference), dump.template(&ns, Some(&reference)));
        }
    }
    let said = left_out.iter().map(|(kind, count)| match count {
        1 => format!("1 {kind} was not read: it is as its owner's conditions say, and complete"),
        count => format!(
            "{count} {kind} objects were not read: they are as their owners' conditions say, and complete"
        ),
    });
    begun.assumptions.extend(said);
    world.configs = dump
        .configs
        .iter()
        .filter(|(at, _)| at.namespace == ns)
        .map(|(k, c)| (k.clone(), c.clone()))
        .collect();
}

fn machines_of<'a>(dump: &'a Dump, cluster: &'a ObjectKey) -> impl Iterator<Item = &'a Arc<Machine>> {
    let all = dump.machines.iter();
    all.filter(|(at, m)| at.namespace == cluster.namespace && m.spec.cluster_name == cluster.name)
        .map(|(_, m)| m)
}

fn take_machines(dump: &Dump, begun: &mut Beginning, now: Timestamp) {
    let key = begun.world.key.clone();
    for machine in machines_of(dump, &key) {
        let next = next_of(machine);
        let waits = waited(machine, since(machine, next), now);
        let usual = Timing::usual(&machine.spec.infrastructure_ref.kind);
        let is_late =
            |stage: &BootStage| waits > TimeDelta::seconds(i64::from(usual.of(*stage).long_s)) * STUCK_AFTER;
        // A simulation would otherwise promise what has failed to come for long.
        let late = next.filter(is_late);
        if let Some(stage) = late {
            let what = match stage {
                BootStage::Bootstrap => "bootstrap data",
                BootStage::Host => "host",
                BootStage::Node | BootStage::Etcd | BootStage::ApiServer => "Node",
            };
            let minutes = waits.num_minutes();
            let name = name_of(machine.as_ref());
            begun.assumptions.push(format!(
                "Machine {name} has waited for its {what} for {minutes} minutes: it does not come"
            ));
        }
        take_drain(machine, usual.drain, begun, now);
        let host = HostState { next, is_stuck: late.is_some() };
        begun.hosts.insert(name_of(machine.as_ref()).to_owned(), host);
        begun.world.put(without_owners(machine));
    }
}

/// A drain that takes much longer than what is long for it does not end by itself.
fn take_drain(machine: &Machine, usual: Span, begun: &mut Beginning, now: Timestamp) {
    let stored = machine.status.as_ref();
    let began = stored.and_then(|s| s.deletion.as_ref()?.node_drain_start_time.as_ref()).map(from_k8s);
    let is_draining = find(machine.conditions(), "Deleting").is_some_and(|c| c.reason == "DrainingNode");
    let (Some(began), Some(node)) = (began.filter(|_| is_draining), stored.and_then(|s| s.node_ref.as_ref()))
    else {
        return;
    };
    let waits = waited(machine, began, now);
    if waits > TimeDelta::seconds(i64::from(usual.long_s)) * STUCK_AFTER {
        let (name, minutes) = (name_of(machine), waits.num_minutes());
        let what = format!("Machine {name} has been drained for {minutes} minutes: it does not end");
        begun.assumptions.push(what);
        begun.world.workload.tenancy.held.insert(node.name.clone());
    }
}

/// How long something is waited for, a pause left out: nobody looks then, so that what came meanwhile is not reported yet.
fn waited(machine: &Machine, since: Timestamp, now: Timestamp) -> TimeDelta {
    let Some(paused) = find(machine.conditions(), "Paused") else { return now - since };
    let turned = from_k8s(&paused.last_transition_time);
    if paused.status == "True" { turned.max(since) - since } else { now - since.max(turned) }
}

/// What of a host comes up next, by what its Machine reports.
fn next_of(machine: &Machine) -> Option<BootStage> {
    let flags = machine.status.as_ref().and_then(|s| s.initialization.clone()).unwrap_or_default();
    if machine.status.as_ref().is_some_and(|s| s.node_ref.is_some()) {
        None
    } else if flags.infrastructure_provisioned == Some(true) {
        Some(BootStage::Node)
    } else if flags.bootstrap_data_secret_created == Some(true) {
        Some(BootStage::Host)
    } else {
        Some(BootStage::Bootstrap)
    }
}

/// Since when a host waits for what comes up next.
pub(super) fn since(machine: &Machine, next: Option<BootStage>) -> Timestamp {
    let created = machine.metadata.creation_timestamp.as_ref().map(from_k8s).unwrap_or_default();
    let turned = |type_: &str| {
        find(machine.conditions(), type_)
            .filter(|c| c.status == "True")
            .map(|c| from_k8s(&c.last_transition_time))
    };
    let begun = match next {
        Some(BootStage::Bootstrap) => None,
        Some(BootStage::Host) => turned("BootstrapConfigReady"),
        _ => turned("InfrastructureReady"),
    };
    begun.unwrap_or(created)
}

fn take_workload(dump: &Dump, cluster: &Cluster, begun: &mut Beginning, now: Timestamp) {
    let key = begun.world.key.clone();
    let remote = dump.workload(&key);
    let with_pods = remote.filter(|remote| !remote.pods.is_empty());
    // No Node is invented: a Cluster that is out of reach stays so, and its plans wait.
    if remote.is_none() && last_seen(cluster).is_some() {
        let what = "nothing is known of its Nodes, and it stays out of reach";
        begun.assumptions.push(format!("Cluster {} cannot be reached: {what}", key.name));
        return;
    }
    if let Some(remote) = with_pods {
        let budgets: Vec<PodDisruptionBudget> = dump
            .all("policy", "PodDisruptionBudget")
            .filter_map(|(_, value)| serde_json::from_value(value.clone()).ok())
            .collect();
        begun.world.workload.tenancy = Tenancy::of_pods(remote.pods.clone(), budgets);
    } else if !begun.hosts.is_empty() {
        let what = "a Node is drained in the usual time, and no disruption budget holds it";
        begun.assumptions.push(format!("the Pods of Cluster {} were not read: {what}", key.name));
    }
    if remote.is_none() && begun.hosts.values().any(|host| host.next.is_none()) {
        begun.assumptions.push(format!(
            "the Nodes of Cluster {} were not read: they are as their Machines' conditions say",
            key.name
        ));
    }
    let mut has_control_plane = false;
    for machine in begun.world.machines.values().cloned().collect::<Vec<_>>() {
        has_control_plane |= is_control_plane(&machine);
        let Some(name) = machine.status.as_ref().and_then(|s| s.node_ref.as_ref()).map(|r| r.name.clone())
        else {
            continue;
        };
        let read = remote.and_then(|remote| remote.nodes.get(&name)).map(|node| node.as_ref().clone());
        // Where Nodes were read, one that is missing is gone.
        if remote.is_some() && read.is_none() {
            continue;
        }
        begun.world.workload.put_node(read.unwrap_or_else(|| as_reported(&machine, &name, now)));
        if is_control_plane(&machine) {
            take_components(&machine, &name, &mut begun.world);
        }
    }
    let initialized = cluster.status.as_ref().and_then(|s| s.initialization.as_ref());
    let is_initialized = initialized.and_then(|i| i.control_plane_initialized) == Some(true);
    // An initialized Cluster without control plane Machines
    // has its API server elsewhere, and that answers.
    begun.world.workload.is_managed_outside = is_initialized && !has_control_plane;
    if is_initialized && let Some(plane) = begun.world.control_planes.values().next() {
        let version = plane.status.as_ref().and_then(|s| s.version.clone()).unwrap_or_default();
        begun.world.workload.configuration = Some(json!({ "kubernetesVersion": version }));
    }
}

/// The Node of a Machine as its conditions have it.
fn as_reported(machine: &Machine, name: &str, now: Timestamp) -> Node {
    let said = find(machine.conditions(), "NodeReady").or_else(|| find(machine.conditions(), "NodeHealthy"));
    let (ready, since) = said.map_or(("True", now), |c| {
        (if c.status == "True" { "True" } else { "Unknown" }, from_k8s(&c.last_transition_time))
    });
    let version =
        machine.status.as_ref().and_then(|s| s.node_info.as_ref()).map(|i| i.kubelet_version.clone());
    let version = version.filter(|v| !v.is_empty()).or_else(|| machine.spec.version.clone());
    let is_first = label_of(machine, label::CONTROL_PLANE).is_some() || is_control_plane(machine);
    workload::node(name, machine.spec.provider_id.as_deref(), version.as_deref(), is_first, (ready, since))
}

/// Static pods and the member of etcd, as the conditions of the Machine have them.
fn take_components(machine: &Machine, node: &str, world: &mut World) {
    const PODS: [(&str, &str); 4] = [
        ("APIServerPodHealthy", "kube-apiserver"),
        ("ControllerManagerPodHealthy", "kube-controller-manager"),
        ("SchedulerPodHealthy", "kube-scheduler"),
        ("EtcdPodHealthy", "etcd"),
    ];
    let is_bad = |type_: &str| find(machine.conditions(), type_).is_some_and(|c| c.status == "False");
    let broken: Vec<&str> = PODS.iter().filter(|(type_, _)| is_bad(type_)).map(|(_, pod)| *pod).collect();
    world.workload.run_components(node, &broken);
    let member = find(machine.conditions(), "EtcdMemberHealthy");
    let is_missing = member.is_some_and(|c| c.message.starts_with(NO_MEMBER));
    let is_left = machine.metadata.deletion_timestamp.is_some();
    if !is_missing {
        // A Machine on its way out reports `Deleting` instead
        // of its member's health, and has its vote still.
        let is_healthy = member.is_none() || is_left || is_true(machine.conditions(), "EtcdMemberHealthy");
        world.workload.join_etcd(node, is_healthy);
    }
}

fn decoded<K: DeserializeOwned>(dump: &Dump, group: &str, kind: &str, namespace: &str) -> Vec<K> {
    let here = dump.all(group, kind).filter(|(key, _)| key.namespace == namespace);
    here.filter_map(|(_, value)| serde_json::from_value(value.clone()).ok()).collect()
}

/// The Clusters of a dump, and what of it belongs to none of them.
pub(super) fn clusters_of(dump: &Dump) -> (Vec<ObjectKey>, Vec<String>) {
    let here = |ns: &str, name: &str| dump.clusters.contains_key(&ObjectKey::new(ns, name));
    let mut lost: BTreeMap<(&str, String), usize> = BTreeMap::new();
    let mut miss = |kind: &'static str, ns: &str, cluster: &str| {
        if !here(ns, cluster) {
            *lost.entry((kind, format!("{ns}/{cluster}"))).or_default() += 1;
        }
    };
    dump.machine_deployments
        .values()
        .for_each(|o| miss("MachineDeployment", namespace(o.as_ref()), &o.spec.cluster_name));
    dump.machine_sets.values().for_each(|o| miss("MachineSet", namespace(o.as_ref()), &o.spec.cluster_name));
    dump.machines.values().for_each(|o| miss("Machine", namespace(o.as_ref()), &o.spec.cluster_name));
    let said = lost.iter().map(|((kind, cluster), count)| {
        format!(
            "{count} {kind} objects of Cluster {cluster} are left out: the Cluster is not among the objects"
        )
    });
    let large = dump.clusters.keys().filter_map(|key| too_large(dump, key));
    (dump.clusters.keys().cloned().collect(), said.chain(large).collect())
}
