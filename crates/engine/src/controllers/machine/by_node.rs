//! Which Machines a Node is of. Owns the index; must not know what becomes of it.

use std::sync::Arc;

use crate::client::{Cache, Index};
use crate::workload::nodes::NodeIdentity;
use capi_types::key::{ObjectKey, cluster_label};
use capi_types::machine::Machine;

/// Machines by provider ID and by recorded Node. Cheap to clone.
#[derive(Clone)]
pub struct MachinesByNode(Index<Machine>);

impl MachinesByNode {
    /// Kept from now on.
    pub fn of(machines: &Cache<Machine>) -> Self {
        Self(Index::new(machines, |machine| {
            let by_id = machine.spec.provider_id.as_deref().map(provider_id_term);
            by_id.into_iter().chain(recorded_node(machine).map(node_term)).collect()
        }))
    }

    /// The Machines of a cluster whose Node it is: those with its provider ID, and those that have recorded its name.
    /// Source: `nodeToMachine`, `machine_controller.go`, v1.14.2.
    pub fn concerned(&self, cluster: &ObjectKey, node: &NodeIdentity) -> Vec<Arc<Machine>> {
        let mut found = self.recorded(cluster, &node.name);
        let with_id = node.provider_id.as_deref().map(|id| self.0.get(&provider_id_term(id)));
        found.extend(with_id.into_iter().flatten().filter(|machine| is_of(machine, cluster)));
        // A Machine may be found both ways, and `dedup` compares neighbours only.
        found.sort_unstable_by_key(|machine| ObjectKey::of(machine.as_ref()));
        found.dedup_by(|a, b| Arc::ptr_eq(a, b));
        found
    }

    pub fn recorded(&self, cluster: &ObjectKey, node: &str) -> Vec<Arc<Machine>> {
        let mut found = self.0.get(&node_term(node));
        found.retain(|machine| is_of(machine, cluster));
        found
    }
}

fn provider_id_term(id: &str) -> String {
    format!("id {id}")
}

fn node_term(name: &str) -> String {
    format!("node {name}")
}

fn recorded_node(machine: &Machine) -> Option<&str> {
    Some(machine.status.as_ref()?.node_ref.as_ref()?.name.as_str())
}

fn is_of(machine: &Machine, cluster: &ObjectKey) -> bool {
    machine.metadata.namespace.as_deref() == Some(cluster.namespace.as_str())
        && cluster_label(machine) == Some(cluster.name.as_str())
}
