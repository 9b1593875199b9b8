//! The plain rows: a Cluster's conditions about its providers, Machines and MachineDeployments when nothing
//! is odd, and when one of them is.

use std::sync::Arc;

use super::tables::{check, goes, not_found, unreadable};
use super::*;
use crate::status::conditions::setter::CHECK_LOGS;
use capi_types::condition::Conditioned;
use capi_types::machine::ReadinessGate;

const AVAILABLE: &str = "ControlPlaneAvailable";
const WORKERS: &str = "WorkersAvailable";

/// Replaces a condition; an empty status takes it away.
fn put(on: &mut impl Conditioned, type_: &str, status: &str, message: &str) {
    let list = on.conditions_mut();
    list.retain(|c| c.type_ != type_);
    if !status.is_empty() {
        let mut condition = no(type_, "Why", message);
        condition["status"] = status.into();
        list.push(object(condition));
    }
}

#[test]
fn providers_are_mirrored() {
    let broken = |kind: &str| {
        format!(
            "failed to convert status.conditions from {kind} to []metav1.Condition: type must be set for all conditions"
        )
    };
    let odd = || json!({"conditions": [{"type": "", "status": "True"}]});
    let mute = |type_: &str| json!({"conditions": [{"type": type_, "status": "False", "message": "m"}]});
    let infrastructure =
        |status: Value| move |o: &mut Observed| o.infrastructure = provider("DevCluster", json!({}), status);
    let waiting = "DevCluster status.initialization.provisioned is false";
    check(|_| {}, "InfrastructureReady", ("True", "Ready", ""));
    check(infrastructure(json!({})), "InfrastructureReady", ("False", "NotReady", waiting));
    check(infrastructure(mute("Ready")), "InfrastructureReady", ("False", "NoReasonReported", "m"));
    let message = broken("DevCluster");
    check(infrastructure(odd()), "InfrastructureReady", ("Unknown", "InvalidConditionReported", &message));

    let plane =
        |status: Value| move |o: &mut Observed| o.control_plane = provider("XPlane", json!({}), status);
    let waiting = "XPlane status.initialization.controlPlaneInitialized is false";
    check(plane(json!({})), AVAILABLE, ("False", "NotAvailable", waiting));
    check(plane(mute("Available")), AVAILABLE, ("False", "NoReasonReported", "m"));
    check(|o| o.control_plane = unreadable("XPlane"), AVAILABLE, ("Unknown", "InternalError", CHECK_LOGS));
    check(
        |o| {
            o.cluster.status = Some(status(o, now()));
            o.control_plane = not_found("XPlane");
        },
        AVAILABLE,
        ("False", "ObjectDeleted", "XPlane has been deleted while the cluster still exists"),
    );
    let not_yet = ("False", "NotInitialized", "Control plane not yet initialized");
    check(plane(json!({})), "ControlPlaneInitialized", not_yet);
}

#[test]
fn machines_are_summed_up_apart() {
    for (at, prefix, name) in [(0, "ControlPlane", "cp-1"), (1, "Worker", "md-1")] {
        for (source, no_reason, unknown) in
            [("Ready", "NotReady", "ReadyUnknown"), ("UpToDate", "NotUpToDate", "UpToDateUnknown")]
        {
            let type_ = format!("{prefix}Machines{source}");
            let with = |status: &'static str| {
                move |o: &mut Observed| {
                    put(Arc::make_mut(&mut o.descendants.machines[at]), source, status, "m");
                }
            };
            check(|_| {}, &type_, ("True", source, ""));
            check(with("False"), &type_, ("False", no_reason, &format!("* Machine {name}: m")));
            let missing = format!("* Machine {name}: Condition {source} not yet reported");
            check(with(""), &type_, ("Unknown", unknown, &missing));
            check(
                |o| {
                    o.descendants.machines.remove(at);
                },
                &type_,
                ("True", "NoReplicas", ""),
            );
        }
    }
}

#[test]
fn movements_come_from_the_control_plane_and_the_deployments() {
    for type_ in ["RollingOut", "ScalingUp", "ScalingDown"] {
        let moving = json!({"conditions": [yes(type_, type_)]});
        check(
            |o| o.control_plane = provider("XPlane", json!({}), moving),
            type_,
            ("True", type_, "* XPlane cp: "),
        );
        check(
            |o| put(Arc::make_mut(&mut o.descendants.machine_deployments[0]), type_, "True", "m"),
            type_,
            ("True", type_, "* MachineDeployment md: m"),
        );
        check(|_| {}, type_, ("False", &format!("Not{type_}"), ""));
    }
    check(|_| {}, WORKERS, ("True", "Available", ""));
    check(|o| o.descendants.machine_deployments.clear(), WORKERS, ("True", "NoWorkers", ""));
    check(
        |o| put(Arc::make_mut(&mut o.descendants.machine_deployments[0]), "Available", "False", "few"),
        WORKERS,
        ("False", "NotAvailable", "* MachineDeployment md: few"),
    );
}

#[test]
fn the_rest_of_a_cluster() {
    check(|_| {}, "Remediating", ("False", "NotRemediating", ""));
    check(
        |o| {
            put(Arc::make_mut(&mut o.descendants.machines[1]), "HealthCheckSucceeded", "False", "");
            put(Arc::make_mut(&mut o.descendants.machines[1]), "OwnerRemediated", "False", "waits");
        },
        "Remediating",
        ("True", "Remediating", "* Machine md-1: waits"),
    );
    check(|_| {}, "Deleting", ("False", "NotDeleting", ""));
    let left = "* MachineDeployments: md\n* Worker Machines: md-1";
    check(goes, "Deleting", ("True", "WaitingForWorkersDeletion", left));
    let own = ReadinessGate { condition_type: "Available".to_owned(), polarity: None };
    check(
        |o| o.cluster.spec.availability_gates = vec![own],
        "Available",
        ("Unknown", "InternalError", CHECK_LOGS),
    );
}
