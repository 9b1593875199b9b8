//! What wakes the controller of Machines: providers, Clusters, MachineDeployments, and changes in workload clusters.
//! Must not know what is done then.

use std::sync::Arc;

use super::{MachinesByNode, references};
use crate::client::Cache;
use crate::controllers::external::{Reader, owners, referring};
use crate::controllers::{Context, cluster_turned, keys_of};
use crate::engine::Trigger;
use crate::workload::Announcement;
use capi_types::key::{ObjectKey, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::names::{CORE_GROUP, label};

pub(super) fn triggers(context: &Context) -> Vec<Trigger> {
    let caches = &context.caches;
    let [on_cluster, on_deployment, referrers] = std::array::from_fn(|_| caches.machines.clone());
    let (announced, by_node) = (caches.machines.clone(), caches.machines_by_node.clone());
    vec![
        Trigger::own(&caches.machines),
        caches.externals.trigger(Reader::Machine, move |turned| match turned.object() {
            Some(_) => owners(turned, CORE_GROUP, "Machine"),
            None => referring(&referrers, turned, references),
        }),
        Trigger::on(&caches.clusters, move |old, new| {
            cluster_turned(old, new).map(|key| keys_of(&on_cluster.of_cluster(&key))).unwrap_or_default()
        }),
        // A MachineSet follows its MachineDeployment, and Machines are compared with both.
        Trigger::on(&caches.machine_deployments, move |old, new| {
            // The status of a MachineDeployment follows its Machines, and must not wake them.
            let turned = new.filter(|n| old.is_none_or(|o| o.metadata.generation != n.metadata.generation));
            turned.map(|deployment| keys_of(&of_deployment(&on_deployment, deployment))).unwrap_or_default()
        }),
        Trigger::announced(context.workload.changes(), Announcement::Missed, move |announcement| {
            keys_of(&concerned(&announced, &by_node, announcement))
        }),
    ]
}

fn of_deployment(machines: &Cache<Machine>, deployment: &MachineDeployment) -> Vec<Arc<Machine>> {
    let key = ObjectKey::of(deployment);
    let mut found = machines.of_cluster(&ObjectKey::new(&key.namespace, &deployment.spec.cluster_name));
    found.retain(|machine| label_of(machine.as_ref(), label::DEPLOYMENT_NAME) == Some(key.name.as_str()));
    found
}

/// The Machines that look different after a change in a workload cluster.
fn concerned(
    machines: &Cache<Machine>,
    by_node: &MachinesByNode,
    announcement: &Announcement,
) -> Vec<Arc<Machine>> {
    match announcement {
        Announcement::Cluster(cluster) => machines.of_cluster(cluster),
        Announcement::Node { cluster, node } => by_node.concerned(cluster, node),
        Announcement::Missed => machines.list(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workload::NodeIdentity;

    fn machine(cluster: &str, name: &str, provider_id: Option<&str>, node: Option<&str>) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": "ns", "labels": {label::CLUSTER_NAME: cluster}},
            "spec": {"clusterName": cluster, "providerID": provider_id, "bootstrap": {},
                     "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": name}},
            "status": {"nodeRef": node.map(|name| json!({"name": name}))},
        }))
        .expect("a Machine")
    }

    #[test]
    fn a_node_concerns_its_own_machine_and_no_other() {
        let machines = Cache::new();
        let by_node = MachinesByNode::of(&machines);
        for (cluster, name, provider_id, node) in [
            ("c", "by-id", Some("p://1"), None),
            ("c", "by-name", Some("p://2"), Some("n1")),
            ("c", "without", None, None),
            ("other", "elsewhere", Some("p://1"), Some("n1")),
        ] {
            machines.upsert(machine(cluster, name, provider_id, node));
        }
        let names = |announcement: &Announcement| -> Vec<String> {
            let found = concerned(&machines, &by_node, announcement);
            found.iter().filter_map(|machine| machine.metadata.name.clone()).collect()
        };
        let cluster = ObjectKey::new("ns", "c");
        let node = |name: &str, id: Option<&str>| Announcement::Node {
            cluster: cluster.clone(),
            node: NodeIdentity {
                name: name.to_owned(),
                provider_id: id.map(str::to_owned),
                is_control_plane: false,
            },
        };
        assert_eq!(names(&node("n1", Some("p://1"))), ["by-id", "by-name"]);
        assert_eq!(names(&node("n9", None)), Vec::<String>::new(), "two that have no ID are not the same");
        assert_eq!(names(&Announcement::Cluster(cluster.clone())).len(), 3);
        assert_eq!(names(&Announcement::Missed).len(), 4);
    }
}
