//! Rows that the stories of `tests` do not meet: every reason a Cluster's conditions can have, and each
//! side of the probe's grace period.

use std::sync::Arc;

use chrono::TimeDelta;

use super::*;
use crate::status::conditions::setter::CHECK_LOGS;
use crate::status::contract::Contract;
use crate::status::tests::witness;
use capi_types::machine::ReadinessGate;
use capi_types::names::label;

#[track_caller]
pub(super) fn check(change: impl FnOnce(&mut Observed), type_: &str, expected: (&str, &str, &str)) {
    let mut o = healthy();
    change(&mut o);
    witness::expect("Cluster", &status(&o, now()).conditions, type_, expected);
}

fn topology(o: &mut Observed) {
    o.cluster.spec.topology = Some(object(json!({"classRef": {"name": "k"}, "version": "v1.34.1"})));
    o.cluster.spec.infrastructure_ref = None;
    o.cluster.spec.control_plane_ref = None;
    o.infrastructure = External::NotSet;
    o.control_plane = External::NotSet;
}

pub(super) fn goes(o: &mut Observed) {
    o.cluster.metadata.deletion_timestamp = Some(to_k8s(now()));
}

pub(super) fn not_found(kind: &str) -> External {
    External::NotFound { kind: kind.to_owned() }
}

pub(super) fn unreadable(kind: &str) -> External {
    External::Unreadable { kind: kind.to_owned(), error: "refused".to_owned() }
}

const OF_DESCENDANTS: [&str; 9] = [
    "WorkersAvailable",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
    "RollingOut",
    "ScalingUp",
    "ScalingDown",
    "Remediating",
];

#[test]
fn descendants_that_could_not_be_listed_are_unknown() {
    for type_ in OF_DESCENDANTS {
        check(|o| o.descendants_failed = true, type_, ("Unknown", "InternalError", CHECK_LOGS));
        check(topology, type_, ("Unknown", "InternalError", CHECK_LOGS));
    }
    let mut o = healthy();
    o.cluster.status = Some(status(&o, now()));
    o.descendants_failed = true;
    let after = status(&o, now());
    assert_eq!(after.workers, o.cluster.status.and_then(|s| s.workers), "counters are kept");
}

#[test]
fn infrastructure_ready() {
    const TYPE: &str = "InfrastructureReady";
    let waiting = "Waiting for cluster topology to be reconciled";
    check(topology, TYPE, ("False", "ObjectDoesNotExist", waiting));
    check(
        |o| {
            topology(o);
            goes(o);
        },
        TYPE,
        ("False", "ObjectDoesNotExist", ""),
    );
    check(|o| o.infrastructure = External::NotSet, TYPE, ("Unknown", "InternalError", CHECK_LOGS));
    check(|o| o.infrastructure = unreadable("DevCluster"), TYPE, ("Unknown", "InternalError", CHECK_LOGS));
    let once = |o: &mut Observed| {
        o.cluster.status = Some(status(o, now()));
        o.infrastructure = not_found("DevCluster");
    };
    check(
        once,
        TYPE,
        ("False", "ObjectDeleted", "DevCluster has been deleted while the cluster still exists"),
    );
    check(
        |o| {
            once(o);
            goes(o);
        },
        TYPE,
        ("False", "ObjectDeleted", "DevCluster has been deleted"),
    );
    check(
        |o| o.infrastructure = not_found("DevCluster"),
        TYPE,
        ("False", "ObjectDoesNotExist", "DevCluster does not exist"),
    );
}

#[test]
fn half_a_topology_is_not_looked_at() {
    let half = |o: &mut Observed| {
        let infrastructure = (o.cluster.spec.infrastructure_ref.clone(), o.infrastructure.clone());
        topology(o);
        (o.cluster.spec.infrastructure_ref, o.infrastructure) = infrastructure;
    };
    check(half, "InfrastructureReady", ("Unknown", "InternalError", CHECK_LOGS));
    let mut o = healthy();
    half(&mut o);
    assert_eq!(status(&o, now()).initialization, None);
    goes(&mut o);
    assert_eq!(said(&status(&o, now()), "InfrastructureReady").0, "True", "a deletion looks at everything");
}

#[test]
fn failure_domains_are_copied_while_the_contract_is_kept() {
    let copied = |provisioned_before: bool, infrastructure: Value| {
        let mut o = healthy();
        let flag = json!({"initialization": {"infrastructureProvisioned": provisioned_before}});
        o.cluster.status = Some(object(flag));
        o.infrastructure = provider("DevCluster", json!({}), infrastructure);
        let status = status(&o, now());
        let flag = status.initialization.and_then(|i| i.infrastructure_provisioned);
        (flag == Some(true), status.failure_domains.len())
    };
    let domains = json!([{"name": "a"}]);
    let with = |provisioned: Value| json!({"initialization": {"provisioned": provisioned}, "failureDomains": domains});
    for (before, infrastructure, expected) in [
        (false, with(json!(true)), (true, 1)),
        (false, with(json!(false)), (false, 0)),
        (true, with(json!(false)), (true, 1)),
        (true, with(json!("yes")), (true, 0)),
        (false, json!({"initialization": {"provisioned": true}, "failureDomains": "a"}), (false, 0)),
    ] {
        assert_eq!(copied(before, infrastructure.clone()), expected, "{before} {infrastructure}");
    }
}

#[test]
fn control_plane_available_and_initialized() {
    let waiting = "Waiting for cluster topology to be reconciled";
    check(topology, "ControlPlaneAvailable", ("False", "ObjectDoesNotExist", waiting));
    check(topology, "ControlPlaneInitialized", ("Unknown", "ObjectDoesNotExist", waiting));
    check(
        |o| o.control_plane = provider("AnyControlPlane", json!({}), json!({"initialized": true})),
        "ControlPlaneAvailable",
        ("True", "Available", ""),
    );
    check(
        |o| {
            o.control_plane = provider(
                "AnyControlPlane",
                json!({}),
                json!({"conditions": [{"type": "Available", "status": "Maybe"}]}),
            );
        },
        "ControlPlaneAvailable",
        (
            "Unknown",
            "InvalidConditionReported",
            "failed to convert status.conditions from AnyControlPlane to []metav1.Condition: status for the Available \
             condition must be one of True, False, Unknown",
        ),
    );
    // Upstream looks whether the infrastructure is gone, not the control plane.
    check(
        |o| o.control_plane = not_found("KubeadmControlPlane"),
        "ControlPlaneInitialized",
        ("Unknown", "InternalError", CHECK_LOGS),
    );
    check(
        |o| {
            o.control_plane = not_found("KubeadmControlPlane");
            o.infrastructure = not_found("DevCluster");
        },
        "ControlPlaneInitialized",
        ("Unknown", "ObjectDoesNotExist", "KubeadmControlPlane does not exist"),
    );
    check(
        |o| {
            o.control_plane = provider(
                "AnyControlPlane",
                json!({}),
                json!({"initialization": {"controlPlaneInitialized": "yes"}}),
            );
        },
        "ControlPlaneInitialized",
        ("Unknown", "InternalError", CHECK_LOGS),
    );
    let stand_alone = |o: &mut Observed| {
        o.cluster.spec.control_plane_ref = None;
        o.control_plane = External::NotSet;
    };
    check(
        |o| {
            stand_alone(o);
            o.descendants_failed = true;
        },
        "ControlPlaneInitialized",
        ("Unknown", "InternalError", CHECK_LOGS),
    );
    check(
        |o| {
            stand_alone(o);
            let machine = Arc::make_mut(&mut o.descendants.machines[0]);
            machine.status.get_or_insert_default().node_ref = Some(object(json!({"name": "n"})));
        },
        "ControlPlaneInitialized",
        ("True", "Initialized", ""),
    );
}

#[test]
fn once_initialized_is_never_touched_again() {
    let mut o = healthy();
    o.cluster.status = Some(status(&o, now()));
    o.cluster.metadata.generation = Some(9);
    o.control_plane = not_found("KubeadmControlPlane");
    let after = status(&o, now());
    let c = find(&after.conditions, "ControlPlaneInitialized").expect("kept");
    assert_eq!((c.status.as_str(), c.observed_generation), ("True", Some(3)));
}

#[test]
fn the_probe_has_fifty_seconds() {
    let after = |seconds: i64| {
        move |o: &mut Observed| o.probe.last_success = Some(now() - TimeDelta::seconds(seconds))
    };
    check(after(50), "RemoteConnectionProbe", ("True", "ProbeSucceeded", ""));
    check(
        after(51),
        "RemoteConnectionProbe",
        (
            "False",
            "ProbeFailed",
            "Remote connection probe failed, probe last succeeded at 2026-01-01T11:59:09Z",
        ),
    );
    check(after(-60), "RemoteConnectionProbe", ("True", "ProbeSucceeded", ""));
    let mut o = healthy();
    o.cluster.status = Some(status(&o, now()));
    o.probe = Probe { not_established_yet: true, ..Probe::default() };
    assert_eq!(said(&status(&o, now()), "RemoteConnectionProbe").1, "ProbeSucceeded", "what is there stays");
}

#[test]
fn movements_and_workers_that_nobody_reported_are_unknown() {
    let silent = |o: &mut Observed| Arc::make_mut(&mut o.descendants.machine_deployments[0]).status = None;
    for (type_, reason) in [
        ("WorkersAvailable", "AvailableUnknown"),
        ("RollingOut", "RollingOutUnknown"),
        ("ScalingUp", "ScalingUpUnknown"),
        ("ScalingDown", "ScalingDownUnknown"),
    ] {
        let source = if type_ == "WorkersAvailable" { "Available" } else { type_ };
        let message = format!("* MachineDeployment md: Condition {source} not yet reported");
        check(silent, type_, ("Unknown", reason, &message));
    }
    check(
        |o| o.control_plane = unreadable("KubeadmControlPlane"),
        "ScalingUp",
        ("Unknown", "InternalError", CHECK_LOGS),
    );
    check(
        |o| {
            o.control_plane = not_found("KubeadmControlPlane");
            o.descendants.machine_deployments.clear();
        },
        "RollingOut",
        ("False", "NotRollingOut", ""),
    );
}

#[test]
fn machines_without_the_conditions_are_unknown() {
    let mute = |o: &mut Observed| Arc::make_mut(&mut o.descendants.machines[1]).status = None;
    check(
        mute,
        "WorkerMachinesReady",
        ("Unknown", "ReadyUnknown", "* Machine md-1: Condition Ready not yet reported"),
    );
    check(
        mute,
        "WorkerMachinesUpToDate",
        ("Unknown", "UpToDateUnknown", "* Machine md-1: Condition UpToDate not yet reported"),
    );
    let born = |seconds: i64| {
        move |o: &mut Observed| {
            mute(o);
            let machine = Arc::make_mut(&mut o.descendants.machines[1]);
            machine.metadata.creation_timestamp = Some(to_k8s(now() - TimeDelta::seconds(seconds)));
        }
    };
    check(born(10), "WorkerMachinesUpToDate", ("True", "NoReplicas", ""));
    check(
        born(11),
        "WorkerMachinesUpToDate",
        ("Unknown", "UpToDateUnknown", "* Machine md-1: Condition UpToDate not yet reported"),
    );
}

#[test]
fn pool_machines_and_pools_stay_out_of_conditions_but_not_out_of_counters() {
    let mut o = healthy();
    let mut pooled = machine("pool-1", false);
    pooled.metadata.labels.get_or_insert_default().insert(label::POOL_NAME.to_owned(), "p".to_owned());
    pooled.status = None;
    o.descendants.machines.push(Arc::new(pooled));
    o.descendants.machine_pools = vec![object(
        json!({"metadata": {"name": "p"}, "spec": {"clusterName": "c", "replicas": 4,
        "template": {"spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}}},
        "status": {"replicas": 3, "readyReplicas": 1, "versions": [{"version": "v1.33.0", "replicas": 3}]}}),
    )];
    let status = status(&o, now());
    assert_eq!(said(&status, "WorkerMachinesReady"), ("True", "Ready", ""));
    let workers = status.workers.expect("counted");
    assert_eq!(
        (workers.desired_replicas, workers.replicas, workers.ready_replicas, workers.available_replicas),
        (Some(6), Some(5), Some(3), Some(2))
    );
    assert_eq!(
        workers.versions.iter().map(|v| v.version.as_str()).collect::<Vec<_>>(),
        ["v1.33.0", "v1.34.1"]
    );
}

#[test]
fn stand_alone_sets_scale_with_the_cluster() {
    let owner =
        json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "u"}]);
    let template = json!({"spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}});
    let set = |name: &str, owners: Value| -> MachineSet {
        object(json!({"metadata": {"name": name, "ownerReferences": owners},
            "spec": {"clusterName": "c", "replicas": 2, "selector": {}, "template": template},
            "status": {"replicas": 1, "conditions": [{"type": "ScalingUp", "status": "True", "reason": "ScalingUp",
                "message": "Scaling up from 1 to 2 replicas", "lastTransitionTime": "2026-01-01T11:00:00Z"}]}}))
    };
    let namesake = json!([{"apiVersion": "other.io/v1", "kind": "Cluster", "name": "c", "uid": "u"}]);
    let mut o = healthy();
    o.descendants.machine_sets =
        [set("mine", owner), set("of-a-deployment", json!([])), set("of-a-namesake", namesake)]
            .map(Arc::new)
            .into();
    let status = status(&o, now());
    assert_eq!(
        said(&status, "ScalingUp"),
        ("True", "ScalingUp", "* MachineSet mine: Scaling up from 1 to 2 replicas")
    );
    let workers = status.workers.expect("counted");
    assert_eq!((workers.desired_replicas, workers.replicas), (Some(4), Some(3)));
}

#[test]
fn deleting_at_every_step() {
    const TYPE: &str = "Deleting";
    let empty = |o: &mut Observed| o.descendants = Descendants::default();
    let step = |change: &dyn Fn(&mut Observed), reason: &str, message: &str| {
        check(
            |o| {
                goes(o);
                change(o);
            },
            TYPE,
            ("True", reason, message),
        );
    };
    let classy = |o: &mut Observed| {
        o.cluster.spec.topology = Some(object(json!({"classRef": {"name": "k"}, "version": "v1.34.1"})));
        o.asks_hooks = true;
    };
    step(&classy, "WaitingForBeforeDeleteHook", "Waiting for BeforeClusterDelete hook");
    step(
        &|o| {
            classy(o);
            empty(o);
            let key = "runtime.cluster.x-k8s.io/ok-to-delete".to_owned();
            o.cluster.metadata.annotations = Some([(key, String::new())].into());
        },
        "WaitingForControlPlaneDeletion",
        "Waiting for KubeadmControlPlane to be deleted",
    );
    step(&|o| o.descendants_failed = true, "InternalError", CHECK_LOGS);
    step(&|o| o.failed = true, "InternalError", CHECK_LOGS);
    step(
        &|o| {
            empty(o);
            o.control_plane = unreadable("X");
        },
        "InternalError",
        CHECK_LOGS,
    );
    step(
        &|o| {
            empty(o);
            o.control_plane = not_found("X");
        },
        "WaitingForInfrastructureDeletion",
        "Waiting for DevCluster to be deleted",
    );
    step(
        &|o| {
            empty(o);
            o.control_plane = not_found("X");
            o.infrastructure = not_found("Y");
        },
        "DeletionCompleted",
        "Deletion completed",
    );
}

#[test]
fn availability_gates_come_from_the_cluster_or_else_from_its_class() {
    let gate = |name: &str| ReadinessGate { condition_type: name.to_owned(), polarity: None };
    let by_class = |o: &mut Observed| o.class_gates = vec![gate("OfTheClass")];
    check(by_class, "Available", ("Unknown", "AvailableUnknown", "* OfTheClass: Condition not yet reported"));
    check(
        |o| {
            by_class(o);
            o.cluster.spec.availability_gates = vec![gate("Own")];
        },
        "Available",
        ("Unknown", "AvailableUnknown", "* Own: Condition not yet reported"),
    );
}

#[test]
fn an_upgrade_is_information_and_a_failure_is_not() {
    let reconciled = |reason: &'static str, message: &'static str| {
        move |o: &mut Observed| {
            o.cluster.spec.topology = Some(object(json!({"classRef": {"name": "k"}, "version": "v1.35.0"})));
            o.cluster.status =
                Some(object(json!({"conditions": [no("TopologyReconciled", reason, message)]})));
        }
    };
    check(
        reconciled(
            "ClusterUpgrading",
            "Cluster is upgrading to v1.35.0\n  * KubeadmControlPlane upgrading to version v1.35.0",
        ),
        "Available",
        (
            "True",
            "Available",
            "* TopologyReconciled:\n  * Cluster is upgrading to v1.35.0\n      * KubeadmControlPlane upgrading to version v1.35.0",
        ),
    );
    for reason in ["ReconcileFailed", "ClusterClassNotReconciled"] {
        check(
            reconciled(reason, "boom"),
            "Available",
            ("False", "NotAvailable", "* TopologyReconciled: boom"),
        );
    }
    check(
        |o| {
            reconciled("x", "")(o);
            o.cluster.status = None;
        },
        "Available",
        ("Unknown", "AvailableUnknown", "* TopologyReconciled: Condition not yet reported"),
    );
}

#[test]
fn a_topology_that_nothing_computes_is_said_until_references_are_set() {
    let mut o = Observed { lacks_topology_controller: true, ..healthy() };
    let references = o.cluster.spec.clone();
    topology(&mut o);
    let waiting = status(&o, now());
    let said = |status: &ClusterStatus, type_: &str| {
        let found = status.conditions.iter().find(|c| c.type_ == type_);
        found.map(|c| (c.status.clone(), c.reason.clone()))
    };
    let no = |reason: &str| Some(("False".to_owned(), reason.to_owned()));
    assert_eq!(said(&waiting, "TopologyReconciled"), no("NoTopologyController"));
    assert_eq!(said(&waiting, "Available"), no("NotAvailable"));
    o.cluster.status = Some(waiting);
    o.cluster.spec.infrastructure_ref = references.infrastructure_ref;
    o.cluster.spec.control_plane_ref = references.control_plane_ref;
    assert_eq!(said(&status(&o, now()), "TopologyReconciled"), None);
    // Where a controller may run, a Cluster without the condition is not judged.
    o.lacks_topology_controller = false;
    o.cluster.spec.control_plane_ref = None;
    o.cluster.status = None;
    assert_eq!(said(&status(&o, now()), "TopologyReconciled"), None);
}

#[test]
fn counters_of_a_control_plane_that_cannot_be_read_are_gone_and_missing_fields_are_kept() {
    let mut o = healthy();
    o.cluster.status = Some(status(&o, now()));
    o.control_plane = provider("AnyControlPlane", json!({}), json!({"versions": [{"version": "odd"}]}));
    let kept = status(&o, now()).control_plane.expect("there");
    assert_eq!((kept.desired_replicas, kept.ready_replicas), (Some(2), Some(2)));
    assert_eq!(kept.versions[0].version, "v1.34.1", "an invalid list does not count");
    let old = Provided::new(json!({"kind": "AnyControlPlane", "status": {"unavailableReplicas": 1}}));
    o.control_plane = External::Found(old.under(Contract::V1Beta1));
    let missing = status(&o, now()).control_plane.expect("there");
    assert_eq!(missing.available_replicas, Some(1), "of those desired before");
    o.control_plane = provider("AnyControlPlane", json!({}), json!({}));
    assert!(status(&o, now()).control_plane.is_some_and(|c| c.versions.is_empty() && c.replicas == Some(2)));
    o.control_plane = unreadable("AnyControlPlane");
    let gone = status(&o, now()).control_plane.expect("there");
    assert_eq!(gone, capi_types::cluster::ReplicaCounts::default());
}

#[test]
fn a_pass_gets_through_when_all_it_reads_is_sound() {
    let row = |change: &dyn Fn(&mut Observed), expected: bool, why: &str| {
        let mut o = healthy();
        change(&mut o);
        assert_eq!(is_complete(&o), expected, "{why}");
        topology(&mut o);
        assert!(is_complete(&o), "{why}: nobody looks before a topology has made both references");
    };
    row(&|_| {}, true, "all is well");
    row(&|o| o.descendants_failed = true, false, "descendants");
    row(&|o| o.infrastructure = unreadable("DevCluster"), false, "infrastructure");
    row(&|o| o.control_plane = unreadable("XPlane"), false, "control plane");
    row(&|o| o.infrastructure = External::NotSet, true, "no infrastructure");
    let domains = || {
        provider(
            "DevCluster",
            json!({}),
            json!({"initialization": {"provisioned": true}, "failureDomains": 3}),
        )
    };
    row(&|o| o.infrastructure = domains(), false, "malformed failure domains");
    let odd = json!({"initialization": {"controlPlaneInitialized": "yes"}});
    row(&|o| o.control_plane = provider("XPlane", json!({}), odd.clone()), false, "malformed flag");
    // Not there yet, gone, gone with the Cluster.
    let gone = |o: &mut Observed| o.control_plane = not_found("XPlane");
    let was = |o: &mut Observed| o.cluster.status = Some(status(o, now()));
    row(&gone, true, "not there yet");
    row(&|o| (was(o), gone(o)).0, false, "gone after it was initialized");
    let leaves = |o: &mut Observed| {
        was(o);
        gone(o);
        o.cluster.metadata.deletion_timestamp = Some(to_k8s(now()));
    };
    let mut o = healthy();
    leaves(&mut o);
    assert!(is_complete(&o), "gone before the Cluster, which is to go");
}
