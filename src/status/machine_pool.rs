//! What is true of a MachinePool: initialization, Nodes, counters, versions, phase, and whether its
//! Machines are up to date. Must not know how the infrastructure counts.
//! Source: cluster-api `core/reconcilers/machinepool/machinepool_controller_{status,phases,noderef}.go`, v1.14.0.
//!
//! As upstream writes no condition but `Paused`, there is no other here; the phase follows counters of
//! the deprecated status, which are kept for it.

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::condition_ops::{Draft, Status, condition, paused};
use super::contract::{External, Provided};
use super::{machines, versions};
use crate::api::key::annotation as annotation_of;
use crate::api::machine::{Machine, MachineInitialization};
use crate::api::machine_pool::{MachinePool, MachinePoolStatus};
use crate::time::Timestamp;

/// The one condition type that the controller owns.
pub const OWNED: [&str; 1] = ["Paused"];
/// And on the pool's Machines.
pub const OWNED_ON_MACHINES: [&str; 1] = ["UpToDate"];

/// Somebody else sets `spec.replicas`, such as a cloud's own scaler.
const REPLICAS_MANAGED_BY: &str = "cluster.x-k8s.io/replicas-managed-by";

/// Everything a MachinePool is judged by.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub pool: MachinePool,
    pub bootstrap: External,
    pub infrastructure: External,
    /// Machines of the pool, where its infrastructure makes Machines.
    pub machines: Vec<Machine>,
    /// Nodes of the workload cluster; `None` when it was not reached.
    pub nodes: Option<Vec<Node>>,
}

/// The status of a MachinePool that is not paused. `observedGeneration` is the caller's to set.
#[must_use]
pub fn status(o: &Observed, now: Timestamp) -> MachinePoolStatus {
    let mut status = o.pool.status.clone().unwrap_or_default();
    initialize(&mut status, o);
    let provisioned = is_provisioned(&status);
    if let (Some(nodes), false) = (&o.nodes, is_deleting(o)) {
        see_nodes(&mut status, o, nodes);
        let reported =
            o.infrastructure.found().filter(|_| provisioned).and_then(|i| i.count("/status/replicas"));
        status.replicas = reported.or(status.replicas);
    }
    if let Some(infrastructure) = o.infrastructure.found().filter(|_| !is_deleting(o)) {
        count(&mut status, o, infrastructure);
    }
    status.phase = Some(phase(o, &status).to_owned());
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), o.pool.metadata.generation, now);
    draft.set(paused("MachinePool", false, false));
    status.conditions = draft.finish();
    status
}

/// `UpToDate` of a Machine of a pool.
#[must_use]
pub fn machine_up_to_date(machine: &Machine) -> Condition {
    const TYPE: &str = "UpToDate";
    if machine.metadata.deletion_timestamp.is_some() {
        condition(TYPE, Status::False, "NotUpToDate", "Machine is being deleted")
    } else {
        condition(TYPE, Status::True, TYPE, "")
    }
}

fn is_deleting(o: &Observed) -> bool {
    o.pool.metadata.deletion_timestamp.is_some()
}

fn is_provisioned(status: &MachinePoolStatus) -> bool {
    status.initialization.as_ref().and_then(|i| i.infrastructure_provisioned) == Some(true)
}

/// Unlike a Machine's, both flags may turn back. The infrastructure is judged by `status.ready`,
/// whatever contract it follows.
fn initialize(status: &mut MachinePoolStatus, o: &Observed) {
    let mut flags = status.initialization.clone().unwrap_or_default();
    let bootstrap = &o.pool.spec.template.spec.bootstrap;
    if let Some(config) = o.bootstrap.found() {
        flags.bootstrap_data_secret_created = Some(config.data_secret_created());
    } else if bootstrap.config_ref.is_none() && bootstrap.data_secret_name.is_some() {
        flags.bootstrap_data_secret_created = Some(true);
    }
    if let Some(infrastructure) = o.infrastructure.found().filter(|i| !i.is_deleting()) {
        flags.infrastructure_provisioned = Some(infrastructure.flag("/status/ready"));
    }
    if flags != MachineInitialization::default() {
        status.initialization = Some(flags);
    }
}

fn see_nodes(status: &mut MachinePoolStatus, o: &Observed, nodes: &[Node]) {
    let ids = &o.pool.spec.provider_id_list;
    let id_of = |node: &Node| node.spec.as_ref().and_then(|s| s.provider_id.clone());
    let mine: Vec<&Node> =
        ids.iter().filter_map(|id| nodes.iter().find(|node| id_of(node).as_ref() == Some(id))).collect();
    status.node_refs = mine.iter().map(|node| reference(node)).collect();
    let ready = int(mine.iter().filter(|node| is_ready(node)).count());
    let legacy = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    legacy.ready_replicas = Some(ready);
    legacy.available_replicas = Some(ready);
    legacy.unavailable_replicas = Some(o.pool.spec.replicas.unwrap_or(1).saturating_sub(ready).max(0));
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

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Where the infrastructure makes Machines they are counted; where it does not, it is believed.
fn count(status: &mut MachinePoolStatus, o: &Observed, infrastructure: &Provided) {
    if infrastructure.text("/status/infrastructureMachineKind").is_some() {
        let all: Vec<&Machine> = o.machines.iter().collect();
        status.ready_replicas = Some(machines::count_true(&all, "Ready"));
        status.available_replicas = Some(machines::count_true(&all, "Available"));
        status.up_to_date_replicas = Some(machines::count_true(&all, "UpToDate"));
        status.versions = machines::versions(&all);
        return;
    }
    status.ready_replicas = status.replicas;
    status.available_replicas = status.replicas;
    status.up_to_date_replicas = o.pool.spec.replicas;
    if let Some(nodes) = &o.nodes {
        let referred = |node: &&Node| status.node_refs.iter().any(|r| r.name == node.metadata.name);
        let kubelet = |node: &Node| Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.clone());
        let seen: Vec<String> = nodes.iter().filter(referred).filter_map(kubelet).collect();
        status.versions = versions::count(seen.iter().map(|version| (version.as_str(), 1)));
    }
}

fn int(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Each later line that applies overrules the earlier ones.
fn phase(o: &Observed, status: &MachinePoolStatus) -> &'static str {
    let stored = PHASES.into_iter().find(|p| status.phase.as_deref() == Some(*p)).unwrap_or("Pending");
    let created = status.initialization.as_ref().and_then(|i| i.bootstrap_data_secret_created) == Some(true);
    let provisioned = is_provisioned(status);
    let legacy = status.deprecated.as_ref().and_then(|d| d.v1beta1.as_ref());
    let ready = legacy.and_then(|l| l.ready_replicas).unwrap_or(0);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    fn found(kind: &str, status: Value) -> External {
        External::Found(Provided::new(json!({"kind": kind, "metadata": {"name": "p"}, "status": status})))
    }

    fn pool(spec: Value, status: Value) -> MachinePool {
        let mut all = json!({"metadata": {"name": "p", "namespace": "ns", "generation": 2},
            "spec": {"clusterName": "c", "replicas": 2, "providerIDList": ["x://1", "x://2"], "template": {"spec": {
                "clusterName": "c", "bootstrap": {"configRef": {"apiGroup": "b", "kind": "KubeadmConfig", "name": "p"}},
                "infrastructureRef": {"apiGroup": "i", "kind": "AnyMachinePool", "name": "p"}}}}, "status": status});
        crate::api::merge::apply(&mut all["spec"], &spec);
        object(all)
    }

    fn node(name: &str, id: &str, ready: &str) -> Node {
        object(json!({"metadata": {"name": name, "uid": name}, "spec": {"providerID": id}, "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "nodeInfo": {"architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "v1.34.1", "machineID": "", "operatingSystem": "",
                "osImage": "", "systemUUID": ""}}}))
    }

    fn running() -> Observed {
        Observed {
            pool: pool(json!({}), json!({})),
            bootstrap: found("KubeadmConfig", json!({"initialization": {"dataSecretCreated": true}})),
            infrastructure: found("AnyMachinePool", json!({"ready": true, "replicas": 2})),
            machines: Vec::new(),
            nodes: Some(vec![
                node("n1", "x://1", "True"),
                node("n2", "x://2", "True"),
                node("other", "x://3", "True"),
            ]),
        }
    }

    fn phase_of(o: &Observed) -> String {
        status(o, Timestamp::default()).phase.unwrap_or_default()
    }

    #[test]
    fn a_running_pool_believes_its_infrastructure() {
        let status = status(&running(), Timestamp::default());
        assert_eq!(
            [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas],
            [Some(2); 4]
        );
        assert_eq!((status.versions[0].version.as_str(), status.versions[0].replicas), ("v1.34.1", Some(2)));
        let names: Vec<_> = status.node_refs.iter().filter_map(|r| r.name.as_deref()).collect();
        assert_eq!(names, ["n1", "n2"]);
        assert_eq!(status.phase.as_deref(), Some("Running"));
        let types: Vec<_> = status.conditions.iter().map(|c| (c.type_.as_str(), c.reason.as_str())).collect();
        assert_eq!(types, [("Paused", "NotPaused")]);
    }

    #[test]
    fn machines_of_the_pool_are_counted_where_there_are_any() {
        let mut o = running();
        o.infrastructure =
            found("AnyMachinePool", json!({"ready": true, "infrastructureMachineKind": "AnyMachine"}));
        let machine = |name: &str, ready: &str| -> Machine {
            let said = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            object(
                json!({"metadata": {"name": name}, "spec": {"clusterName": "c", "version": "v1.35.0", "bootstrap": {},
                    "infrastructureRef": {"apiGroup": "i", "kind": "AnyMachine", "name": name}},
                "status": {"conditions": [said("Ready", ready), said("Available", "False"), said("UpToDate", "True")]}}),
            )
        };
        o.machines = vec![machine("a", "True"), machine("b", "False")];
        let status = status(&o, Timestamp::default());
        assert_eq!(
            [status.ready_replicas, status.available_replicas, status.up_to_date_replicas],
            [Some(1), Some(0), Some(2)]
        );
        assert_eq!((status.versions[0].version.as_str(), status.versions[0].replicas), ("v1.35.0", Some(2)));
    }

    #[test]
    fn phases() {
        let with = |change: fn(&mut Observed)| {
            let mut o = running();
            change(&mut o);
            phase_of(&o)
        };
        assert_eq!(with(|_| {}), "Running");
        for (expected, change) in [
            (
                "Pending",
                (|o| *o = Observed { pool: pool(json!({}), json!({})), ..Observed::default() })
                    as fn(&mut Observed),
            ),
            ("Provisioning", |o| {
                o.infrastructure = found("AnyMachinePool", json!({"ready": false}));
                o.nodes = None;
            }),
            ("Provisioned", |o| o.infrastructure = found("AnyMachinePool", json!({"ready": false}))),
            ("ScalingUp", |o| o.pool.spec.replicas = Some(3)),
            ("ScalingDown", |o| o.pool.spec.replicas = Some(1)),
            ("Provisioned", |o| o.pool.spec.replicas = None),
            ("Scaling", |o| {
                o.pool.spec.replicas = Some(3);
                o.pool.metadata.annotations = Some([(REPLICAS_MANAGED_BY.to_owned(), "x".to_owned())].into());
            }),
            ("ScalingUp", |o| {
                o.pool.spec.replicas = Some(3);
                o.pool.metadata.annotations =
                    Some([(REPLICAS_MANAGED_BY.to_owned(), "false".to_owned())].into());
            }),
            ("ScalingUp", |o| {
                if let Some(nodes) = &mut o.nodes {
                    nodes[0] = node("n1", "x://1", "False");
                }
            }),
            ("Deleting", |o| {
                o.pool.metadata.deletion_timestamp = Some(crate::time::to_k8s(Timestamp::default()));
            }),
        ] {
            assert_eq!(with(change), expected);
        }
    }

    #[test]
    fn flags_turn_back_and_counters_of_what_was_not_read_stay() {
        let stored = json!({"readyReplicas": 7, "replicas": 7,
            "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true}});
        let mut o = running();
        o.pool = pool(json!({}), stored);
        o.bootstrap = found("KubeadmConfig", json!({}));
        o.infrastructure = found("AnyMachinePool", json!({"initialization": {"provisioned": true}}));
        let after = status(&o, Timestamp::default());
        let flags = after.initialization.expect("flags");
        assert_eq!(
            (flags.infrastructure_provisioned, flags.bootstrap_data_secret_created),
            (Some(false), Some(false)),
            "a pool's infrastructure must say status.ready"
        );
        assert_eq!(after.replicas, Some(7), "not read before it is provisioned");
        o.infrastructure = External::NotFound { kind: "AnyMachinePool".to_owned() };
        let after = status(&o, Timestamp::default());
        assert_eq!(after.ready_replicas, Some(7));
        assert_eq!(after.initialization.and_then(|i| i.infrastructure_provisioned), Some(true));
        o.bootstrap = External::NotSet;
        o.pool = pool(
            json!({"template": {"spec": {"bootstrap": {"configRef": null, "dataSecretName": "s"}}}}),
            json!({}),
        );
        let after = status(&o, Timestamp::default());
        assert_eq!(after.initialization.and_then(|i| i.bootstrap_data_secret_created), Some(true));
    }

    #[test]
    fn a_machine_of_a_pool_is_up_to_date_until_it_goes() {
        let mut machine = Machine::default();
        assert_eq!(machine_up_to_date(&machine).status, "True");
        machine.metadata.deletion_timestamp = Some(crate::time::to_k8s(Timestamp::default()));
        let leaving = machine_up_to_date(&machine);
        assert_eq!(
            (leaving.status.as_str(), leaving.reason.as_str(), leaving.message.as_str()),
            ("False", "NotUpToDate", "Machine is being deleted")
        );
    }
}
