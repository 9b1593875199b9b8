//! What a MachineHealthCheck is judged by. Must not judge it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::source::{Objects as _, Source, key_of};
use crate::api::cluster::Cluster;
use crate::api::condition::{Conditioned as _, is_true};
use crate::api::machine::Machine;
use crate::api::machine_health_check::MachineHealthCheck;
use crate::status::machine_health_check::{Observed, Target, TargetNode, is_target};

/// Everything about a MachineHealthCheck but what remediates outside. `node` finds a Node of the workload cluster by
/// name; there is none without a connection.
#[must_use]
pub fn machine_health_check(
    source: &impl Source,
    check: &MachineHealthCheck,
    cluster: &Cluster,
    node: Option<&dyn Fn(&str) -> Option<Arc<Node>>>,
) -> Observed {
    let find = node.filter(|_| follows_nodes(cluster));
    let node_of = |machine: &Machine| {
        let named = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
        let (Some(named), Some(find)) = (named, find) else { return TargetNode::None };
        find(&named.name).map_or(TargetNode::Gone, TargetNode::Found)
    };
    let mut machines = source.machines().of_cluster(&key_of(cluster));
    machines.retain(|machine| is_target(check, machine));
    Observed {
        check: check.clone(),
        cluster: cluster.clone(),
        targets: machines.into_iter().map(|machine| Target { node: node_of(&machine), machine }).collect(),
        connected: node.is_some(),
        external: None,
    }
}

/// Nodes are looked at only when the control plane is initialized.
#[must_use]
pub fn follows_nodes(cluster: &Cluster) -> bool {
    is_true(cluster.conditions(), "ControlPlaneInitialized")
}
