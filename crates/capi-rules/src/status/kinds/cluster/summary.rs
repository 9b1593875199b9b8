//! `Available` of a Cluster: what its other conditions add up to.
//! Source: `setAvailableCondition`, `cluster_controller_status.go`, v1.14.2.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::super::topology::NO_CONTROLLER;
use super::Observed;
use crate::status::conditions::merge::{Priority, Reasons, Summary};
use crate::status::conditions::new_condition::NewCondition;

const TYPES: [&str; 6] = [
    "Deleting",
    "RemoteConnectionProbe",
    "InfrastructureReady",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "TopologyReconciled",
];

pub(super) fn available(o: &Observed, conditions: &[Condition]) -> NewCondition<'static> {
    let deleting = o.is_deleting();
    let exceptions = |c: &Condition| excused(c, deleting);
    let own = &o.cluster.spec.availability_gates;
    let mut summary = Summary::new("Available", &TYPES[..], Reasons::AVAILABLE);
    summary.negative = Cow::Borrowed(&["Deleting"]);
    summary.add_gates(if own.is_empty() { &o.class_gates } else { own });
    summary.exceptions = Some(&exceptions);
    if !o.has_topology() {
        summary.ignored_if_missing = &["TopologyReconciled"];
    }
    summary.of(conditions)
}

fn excused(c: &Condition, deleting: bool) -> Option<Priority> {
    match c.type_.as_str() {
        "InfrastructureReady" | "ControlPlaneAvailable" => {
            // In a deletion these objects go before the Cluster: that one is gone is not a fault
            // then.
            let gone = matches!(c.reason.as_str(), "ObjectDeleted" | "ObjectDoesNotExist");
            (deleting && gone).then_some(Priority::Info)
        }
        "TopologyReconciled" if c.status == "False" => match c.reason.as_str() {
            "ReconcileFailed" | "ClusterClassNotReconciled" | NO_CONTROLLER => Some(Priority::Issue),
            // A topology that upgrades or waits is not a Cluster in trouble.
            _ => Some(Priority::Info),
        },
        _ => None,
    }
}
