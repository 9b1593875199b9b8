//! What a Machine is judged by. Must not judge it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use super::source::{Objects as _, Source, key_of, namespace};
use crate::status::machine::deletion::borrowed_id;
use crate::status::machine::{NodeReading, Observed, Probe};
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, controller_of, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capi_types::names::label;

/// Everything about a Machine that is at hand. Its Node, its pods and its volumes are still unknown.
pub fn machine(source: &impl Source, machine: &Machine, cluster: &Arc<Cluster>, probe: Probe) -> Observed {
    let mut observed = Observed {
        machine: machine.clone(),
        cluster: Arc::clone(cluster),
        bootstrap: source.bootstrap_of_machine(machine),
        infrastructure: source.infrastructure_of_machine(machine),
        probe,
        deployment: deployment_of(source, machine),
        ..Observed::default()
    };
    if observed.is_deleting() {
        // Only a deletion needs them.
        observed.control_plane = source.control_plane_of_cluster(cluster);
        observed.control_plane_machines_left = control_plane_machines_left(source, &key_of(cluster.as_ref()));
    }
    observed
}

fn control_plane_machines_left(source: &impl Source, cluster: &ObjectKey) -> usize {
    let machines = source.control_plane_machines(cluster);
    machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()).count()
}

fn deployment_of(
    source: &impl Source,
    machine: &Machine,
) -> Option<(Arc<MachineSet>, Arc<MachineDeployment>)> {
    let namespace = namespace(machine);
    let owner = controller_of(machine).filter(|owner| owner.kind == "MachineSet")?;
    let set = source.machine_sets().get(&ObjectKey::new(namespace, &owner.name))?;
    // By label, as upstream: the owner reference of an orphan is not set yet.
    let deployment = label_of(set.as_ref(), label::DEPLOYMENT_NAME)?;
    let deployment = source.machine_deployments().get(&ObjectKey::new(namespace, deployment))?;
    Some((set, deployment))
}

/// The Node with a provider ID, among those that have it.
pub fn node_with(id: &str, mut nodes: Vec<Arc<Node>>) -> NodeReading {
    // Two Nodes with one provider ID: upstream refuses
    // to choose, for the wrong one could be drained.
    match (nodes.pop(), nodes.len()) {
        (None, _) => NodeReading::NotFound,
        (Some(node), 0) => NodeReading::Found(node),
        (Some(_), more) => NodeReading::Failed(format!("{} Nodes have provider ID {id}", more + 1)),
    }
}

/// The Node that a deletion needs, where that is another than the one with the Machine's own provider ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedNode {
    /// No other Node is needed.
    Same,
    /// The Node with the provider ID of the infrastructure: the Machine goes also when it cannot be found.
    Borrowed {
        /// As infrastructure and Node have it.
        provider_id: String,
    },
    /// The Node that the status recorded.
    Recorded {
        /// Of `status.nodeRef`.
        name: String,
    },
}

/// Which other Node must be read for a Machine, whose own Node was read before.
pub fn named_node(observed: &Observed) -> NamedNode {
    if let Some(id) = borrowed_id(observed) {
        return NamedNode::Borrowed { provider_id: id.to_owned() };
    }
    let found = observed.node.found().and_then(|node| node.metadata.name.as_deref());
    match observed.node_name().filter(|name| observed.is_deleting() && found != Some(*name)) {
        Some(name) => NamedNode::Recorded { name: name.to_owned() },
        None => NamedNode::Same,
    }
}
