//! What a MachineHealthCheck is judged by. Must not judge it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::source::{Objects as _, Source, key_of};
use crate::status::machine_health_check::{Observed, Target, TargetNode, is_target};
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, is_true};
use capi_types::machine::Machine;
use capi_types::machine_health_check::MachineHealthCheck;

/// How Nodes of a workload cluster are found.
#[derive(Clone, Copy)]
pub struct NodeFinder<'a> {
    /// `None`: it is gone, or was never there.
    pub by_name: &'a dyn Fn(&str) -> Option<Arc<Node>>,
    /// Is there one with this provider ID?
    pub has_id: &'a dyn Fn(&str) -> bool,
}

/// Everything about a MachineHealthCheck but what remediates outside. There are no Nodes without a connection.
pub fn machine_health_check(
    source: &impl Source,
    check: &MachineHealthCheck,
    cluster: &Cluster,
    nodes: Option<NodeFinder<'_>>,
) -> Observed {
    let followed = nodes.filter(|_| follows_nodes(cluster));
    let node_of = |machine: &Machine| {
        let Some(nodes) = followed else { return TargetNode::None };
        let id = machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
        match machine.status.as_ref().and_then(|status| status.node_ref.as_ref()) {
            Some(named) => (nodes.by_name)(&named.name).map_or(TargetNode::Gone, TargetNode::Found),
            // The Node is there and only its reference is late: such a Machine did start up.
            None if id.is_some_and(nodes.has_id) => TargetNode::Unrecorded,
            None => TargetNode::None,
        }
    };
    let mut machines = source.machines().of_cluster(&key_of(cluster));
    machines.retain(|machine| is_target(check, machine));
    Observed {
        check: check.clone(),
        cluster: cluster.clone(),
        targets: machines.into_iter().map(|machine| Target { node: node_of(&machine), machine }).collect(),
        connected: nodes.is_some(),
        external: None,
    }
}

/// Nodes are looked at only when the control plane is initialized.
pub fn follows_nodes(cluster: &Cluster) -> bool {
    is_true(cluster.conditions(), "ControlPlaneInitialized")
}
