//! What a dump holds of a MachinePool. Must not judge it.

use super::Dump;
use crate::observe::{self, is_of_pool};
use crate::status::machine_pool::Observed;
use capi_types::key::{ObjectKey, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_pool::MachinePool;
use capi_types::names::label;

impl Dump {
    /// Everything a MachinePool is judged by.
    pub fn machine_pool(&self, key: &ObjectKey, pool: &MachinePool) -> Observed {
        let cluster = ObjectKey::new(&key.namespace, &pool.spec.cluster_name);
        let found = self.clusters.get(&cluster).cloned().unwrap_or_default();
        let nodes = self.workload(&cluster);
        let nodes = nodes.map(|w| w.nodes.values().map(|node| (**node).clone()).collect());
        Observed { nodes, ..observe::machine_pool(self, pool, &found) }
    }

    /// The MachinePool that decides whether the Machine is up to date; not one that is being deleted.
    pub fn pool_of(&self, key: &ObjectKey, machine: &Machine) -> Option<(&ObjectKey, &MachinePool)> {
        let named = ObjectKey::new(&key.namespace, label_of(machine, label::POOL_NAME)?);
        // A name that is longer than a label holds stands hashed in it.
        let hashed = || {
            self.machine_pools
                .iter()
                .find(|(at, pool)| at.namespace == key.namespace && is_of_pool(machine, at, pool))
        };
        let (key, pool) = self.machine_pools.get_key_value(&named).or_else(hashed)?;
        (pool.metadata.deletion_timestamp.is_none() && is_of_pool(machine, key, pool)).then_some((key, pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::naming::label_value;
    use serde_json::json;

    #[test]
    fn a_machine_finds_its_pool_also_by_a_hashed_name() {
        for name in ["pool".to_owned(), "p".repeat(64)] {
            let labels =
                json!({label::POOL_NAME: label_value(&name), "cluster.x-k8s.io/cluster-name": "harbor"});
            let object = |kind: &str, name: &str, labels: &serde_json::Value| {
                let infrastructure = json!({"apiGroup": "example.io", "kind": "Host", "name": "h"});
                let machine = json!({"clusterName": "harbor", "bootstrap": {"dataSecretName": "s"},
                    "infrastructureRef": infrastructure});
                let mut spec = machine.clone();
                spec["template"] = json!({ "spec": machine });
                json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "spec": spec,
                    "metadata": {"name": name, "namespace": "default", "labels": labels}})
            };
            let machine = object("Machine", "m", &labels);
            let objects =
                [object("MachinePool", &name, &json!({})), object("MachinePool", "other", &json!({}))];
            let dump = Dump::new(objects.into_iter().map(Into::into).collect());
            let machine: Machine = serde_json::from_value(machine).expect("a Machine");
            let found = dump.pool_of(&ObjectKey::new("default", "m"), &machine);
            assert_eq!(found.map(|(key, _)| key.name.as_str()), Some(name.as_str()));
        }
    }
}
