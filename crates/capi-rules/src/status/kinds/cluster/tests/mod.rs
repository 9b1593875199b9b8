//! Tables for the Cluster's conditions, counters and phase.

mod rest;
mod tables;

use serde_json::{Value, json};

use chrono::TimeDelta;

use super::*;
use crate::status::contract::Provided;
use capi_types::condition::find;
use capi_types::names::label;
use capstan_base::time::{parse_rfc3339, to_k8s};

fn now() -> Timestamp {
    parse_rfc3339("2026-01-01T12:00:00Z").expect("a moment")
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn provider(kind: &str, spec: Value, status: Value) -> External {
    External::Found(Provided::new(
        json!({"kind": kind, "metadata": {"name": "cp"}, "spec": spec, "status": status}),
    ))
}

fn yes(type_: &str, reason: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T11:00:00Z"})
}

fn no(type_: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": "False", "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T11:00:00Z"})
}

fn machine(name: &str, control_plane: bool) -> Machine {
    let mut machine: Machine = object(json!({
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T11:00:00Z"},
        "spec": {"clusterName": "c", "version": "v1.34.1", "bootstrap": {},
                 "infrastructureRef": {"apiGroup": "i", "kind": "DevMachine", "name": name}},
        "status": {"conditions": [yes("Available", "Available"), yes("Ready", "Ready"), yes("UpToDate", "UpToDate")]}}));
    if control_plane {
        machine
            .metadata
            .labels
            .get_or_insert_default()
            .insert(label::CONTROL_PLANE.to_owned(), String::new());
    }
    machine
}

/// Appendix A of the status reference: everything is fine.
fn healthy() -> Observed {
    let idle = [
        no("RollingOut", "NotRollingOut", ""),
        no("ScalingUp", "NotScalingUp", ""),
        no("ScalingDown", "NotScalingDown", ""),
    ];
    let with_available = |more: Value| {
        let mut list = idle.to_vec();
        list.push(yes("Available", "Available"));
        let mut status = json!({"conditions": list, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2,
            "upToDateReplicas": 2, "versions": [{"version": "v1.34.1", "replicas": 2}]});
        k8s_machinery::merge::apply(&mut status, &more);
        status
    };
    let template = json!({"spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}});
    Observed {
        cluster: object(json!({"metadata": {"name": "c", "namespace": "ns", "generation": 3}, "spec": {
            "controlPlaneEndpoint": {"host": "h", "port": 6443},
            "infrastructureRef": {"apiGroup": "i", "kind": "DevCluster", "name": "c"},
            "controlPlaneRef": {"apiGroup": "p", "kind": "KubeadmControlPlane", "name": "cp"}}})),
        infrastructure: provider("DevCluster", json!({}), json!({"initialization": {"provisioned": true}})),
        control_plane: provider(
            "KubeadmControlPlane",
            json!({"replicas": 2}),
            with_available(json!({"initialization": {"controlPlaneInitialized": true}})),
        ),
        probe: Probe { last_success: Some(now()), ..Probe::default() },
        descendants: Descendants {
            machine_deployments: vec![object(json!({"metadata": {"name": "md"},
                "spec": {"clusterName": "c", "replicas": 2, "selector": {}, "template": template},
                "status": with_available(json!({}))}))],
            machines: vec![machine("cp-1", true).into(), machine("md-1", false).into()],
            ..Descendants::default()
        },
        ..Observed::default()
    }
}

fn said<'a>(status: &'a ClusterStatus, type_: &str) -> (&'a str, &'a str, &'a str) {
    find(&status.conditions, type_)
        .map_or(("", "", ""), |c| (c.status.as_str(), c.reason.as_str(), c.message.as_str()))
}

#[test]
fn a_healthy_cluster_reads_as_in_appendix_a() {
    let status = status(&healthy(), now());
    let expected = [
        ("Available", "True", "Available"),
        ("RemoteConnectionProbe", "True", "ProbeSucceeded"),
        ("InfrastructureReady", "True", "Ready"),
        ("ControlPlaneInitialized", "True", "Initialized"),
        ("ControlPlaneAvailable", "True", "Available"),
        ("WorkersAvailable", "True", "Available"),
        ("RollingOut", "False", "NotRollingOut"),
        ("Remediating", "False", "NotRemediating"),
        ("ScalingDown", "False", "NotScalingDown"),
        ("ScalingUp", "False", "NotScalingUp"),
        ("ControlPlaneMachinesReady", "True", "Ready"),
        ("WorkerMachinesReady", "True", "Ready"),
        ("ControlPlaneMachinesUpToDate", "True", "UpToDate"),
        ("WorkerMachinesUpToDate", "True", "UpToDate"),
        ("Paused", "False", "NotPaused"),
        ("Deleting", "False", "NotDeleting"),
    ];
    let got: Vec<_> =
        status.conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_str())).collect();
    assert_eq!(got, expected);
    assert!(status.conditions.iter().all(|c| c.message.is_empty() && c.observed_generation == Some(3)));
    assert_eq!(status.phase.as_deref(), Some("Provisioned"));
    let workers = status.workers.expect("workers");
    assert_eq!(
        (workers.desired_replicas, workers.replicas, workers.up_to_date_replicas),
        (Some(2), Some(2), Some(2))
    );
    assert_eq!(workers.versions.len(), 1);
    assert_eq!(status.control_plane.expect("control plane").available_replicas, Some(2));
}

#[test]
fn a_cluster_that_is_being_created_says_what_it_waits_for() {
    let mut o = healthy();
    o.cluster.spec.control_plane_endpoint = None;
    o.infrastructure = provider("DevCluster", json!({}), json!({}));
    o.control_plane = provider("KubeadmControlPlane", json!({"replicas": 3}), json!({}));
    o.probe = Probe { last_success: None, not_established_yet: true, failing: false };
    o.descendants = Descendants::default();
    let status = status(&o, now());
    for (type_, expected) in [
        ("RemoteConnectionProbe", ("False", "ProbeFailed", "Remote connection not established yet")),
        (
            "InfrastructureReady",
            ("False", "NotReady", "DevCluster status.initialization.provisioned is false"),
        ),
        ("ControlPlaneInitialized", ("False", "NotInitialized", "Control plane not yet initialized")),
        ("WorkersAvailable", ("True", "NoWorkers", "")),
        ("WorkerMachinesReady", ("True", "NoReplicas", "")),
    ] {
        assert_eq!(said(&status, type_), expected, "{type_}");
    }
    assert_eq!(
        said(&status, "Available").2,
        "* RemoteConnectionProbe: Remote connection not established yet\n\
         * InfrastructureReady: DevCluster status.initialization.provisioned is false\n\
         * ControlPlaneAvailable: KubeadmControlPlane status.initialization.controlPlaneInitialized is false"
    );
    assert_eq!(status.phase.as_deref(), Some("Provisioning"));
    assert_eq!(status.workers.as_ref().and_then(|w| w.replicas), None, "nobody contributes");
    assert_eq!(status.control_plane.as_ref().and_then(|c| c.desired_replicas), Some(3));
}

#[test]
fn scaling_names_the_objects_that_scale() {
    let mut o = healthy();
    o.control_plane = provider(
        "KubeadmControlPlane",
        json!({"replicas": 3}),
        json!({"conditions": [
        json!({"type": "ScalingUp", "status": "True", "reason": "ScalingUp", "message": "Scaling up from 1 to 3 replicas",
               "lastTransitionTime": "2026-01-01T11:00:00Z"})]}),
    );
    assert_eq!(
        said(&status(&o, now()), "ScalingUp"),
        ("True", "ScalingUp", "* KubeadmControlPlane cp: Scaling up from 1 to 3 replicas")
    );
}

#[test]
fn a_probe_fails_after_the_grace_period() {
    let mut o = healthy();
    o.probe.last_success = Some(now() - TimeDelta::seconds(51));
    assert_eq!(
        said(&status(&o, now()), "RemoteConnectionProbe").2,
        "Remote connection probe failed, probe last succeeded at 2026-01-01T11:59:09Z"
    );
    o.probe.last_success = None;
    assert_eq!(said(&status(&o, now()), "RemoteConnectionProbe").2, "Remote connection probe failed");
}

#[test]
fn deletion_waits_in_order() {
    let mut o = healthy();
    o.cluster.metadata.deletion_timestamp = Some(to_k8s(now()));
    let first = status(&o, now());
    assert_eq!(
        said(&first, "Deleting"),
        ("True", "WaitingForWorkersDeletion", "* MachineDeployments: md\n* Worker Machines: md-1")
    );
    assert_eq!(first.phase.as_deref(), Some("Deleting"));
    o.descendants = Descendants { machines: vec![machine("cp-1", true).into()], ..Descendants::default() };
    assert_eq!(said(&status(&o, now()), "Deleting").2, "Waiting for KubeadmControlPlane to be deleted");
    o.descendants = Descendants::default();
    o.control_plane = External::NotFound { kind: "KubeadmControlPlane".to_owned() };
    o.cluster.status = Some(first);
    let second = status(&o, now());
    assert_eq!(said(&second, "Deleting").2, "Waiting for DevCluster to be deleted");
    assert_eq!(
        said(&second, "ControlPlaneAvailable"),
        ("False", "ObjectDeleted", "KubeadmControlPlane has been deleted")
    );
    assert_eq!(said(&second, "Available").2, "* Deleting: Waiting for DevCluster to be deleted");
}

#[test]
fn a_stand_alone_control_plane_is_counted_by_its_machines() {
    let mut o = healthy();
    o.cluster.spec.control_plane_ref = None;
    o.control_plane = External::NotSet;
    let mut status = status(&o, now());
    let counts = status.control_plane.take().expect("counted");
    assert_eq!((counts.desired_replicas, counts.ready_replicas), (Some(1), Some(1)));
    assert_eq!(said(&status, "ControlPlaneAvailable").1, "InternalError", "as upstream, for ever");
    assert_eq!(
        said(&status, "ControlPlaneInitialized").2,
        "Waiting for the first control plane machine to have status.nodeRef set"
    );
}
