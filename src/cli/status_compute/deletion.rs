//! What the deletion of a Machine is judged by, from a dump: pods, MachineDrainRules, storage. Must not
//! judge it.
//!
//! Evictions are not in a dump: of the pods that are due, the refusals in the stored message are
//! believed, and when it does not name them all, the stored condition is repeated. Namespaces and
//! DaemonSets that pods name exist. Storage that was left out is not known.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::de::DeserializeOwned;

use super::dump::{Dump, key_of};
use super::workload::Workload;
use crate::api::condition::{Conditioned as _, find};
use crate::api::key::{ObjectKey, controller_of};
use crate::api::machine_drain_rule::MachineDrainRule;
use crate::api::names::CORE_GROUP;
use crate::status::drain::volumes::Storage;
use crate::status::drain::{Tenants, refusals};
use crate::status::machine::deletion::{Stage, stage};
use crate::status::machine::{NodeReading, Observed, StorageReading, TenantsReading};
use crate::time::Timestamp;

impl Dump {
    /// Adds what the deletion of a Machine asks for.
    pub fn observe_deletion(&self, observed: &mut Observed, now: Timestamp) {
        if !observed.is_deleting() {
            return;
        }
        let told = find(observed.machine.conditions(), "Deleting").filter(|c| c.status == "True").cloned();
        let cluster = ObjectKey::of(observed.cluster.as_ref());
        let node = observed.node_name().map(str::to_owned);
        let (Some(workload), Some(node)) = (self.workload(&cluster), node) else {
            observed.told_deletion =
                told.filter(|c| is_of(c, &["Deleting", "DrainingNode", "WaitingForVolumeDetach"]));
            return;
        };
        // Without Pods nobody can say whether the drain is over.
        let draining = told.as_ref().filter(|c| is_of(c, &["Deleting", "DrainingNode"]));
        if workload.pods.is_empty() && draining.is_some() {
            observed.told_deletion = told;
            return;
        }
        let found = observed.node.found().and_then(|node| node.metadata.name.as_deref());
        if found != Some(&node) {
            observed.named_node = workload
                .nodes
                .get(&node)
                .map_or(NodeReading::NotFound, |node| NodeReading::Found(Box::new(node.clone())));
        }
        observed.tenants = self.tenants(&cluster.namespace, workload, &node);
        observed.storage = self.storage();
        observed.evictions = told.as_ref().map(|c| refusals(&c.message)).unwrap_or_default();
        observed.told_deletion = told.filter(|told| match stage(observed, now) {
            Stage::Drain(Some(drain)) => !drain.evict.is_empty() && is_of(told, &["DrainingNode"]),
            Stage::VolumesUnknown(_) => is_of(told, &["WaitingForVolumeDetach"]),
            _ => false,
        });
    }

    fn tenants(&self, namespace: &str, workload: &Workload, node: &str) -> TenantsReading {
        let pods = workload.pods_on(node);
        let named = |name: &String| {
            let labels = [("kubernetes.io/metadata.name".to_owned(), name.clone())];
            (name.clone(), BTreeMap::from(labels))
        };
        let namespaces = pods.iter().filter_map(|pod| pod.metadata.namespace.as_ref()).map(named).collect();
        let daemon_sets = pods
            .iter()
            .filter_map(|pod| {
                let owner = controller_of(pod).filter(|owner| owner.kind == "DaemonSet")?;
                Some(ObjectKey::new(ObjectKey::of(pod).namespace, &owner.name))
            })
            .collect();
        let rules = self.decoded::<MachineDrainRule>(CORE_GROUP, "MachineDrainRule", Some(namespace));
        let rules = rules.map(|rules| rules.into_iter().map(Arc::new).collect());
        TenantsReading::Known(Box::new(Tenants { pods, rules, namespaces: Ok(namespaces), daemon_sets }))
    }

    /// Nothing is attached that the dump does not show; but a volume that is attached is not known when
    /// volumes were left out.
    fn storage(&self) -> StorageReading {
        let volumes = if self.has_kind("", "PersistentVolume") {
            self.decoded("", "PersistentVolume", None)
        } else {
            Err("there is no PersistentVolume among the objects".to_owned())
        };
        let attachments = self.decoded("storage.k8s.io", "VolumeAttachment", None);
        StorageReading::Known(Box::new(Storage { attachments, volumes }))
    }

    /// All objects of a kind, or those of one namespace.
    fn decoded<K: DeserializeOwned>(
        &self,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Result<Vec<K>, String> {
        let here = self.all(group, kind).filter(|(key, _)| namespace.is_none_or(|ns| key.namespace == ns));
        here.map(|(_, value)| {
            serde_json::from_value(value.clone())
                .map_err(|error| format!("{kind} {}: {error}", key_of(value)))
        })
        .collect()
    }
}

fn is_of(condition: &Condition, reasons: &[&str]) -> bool {
    reasons.contains(&condition.reason.as_str())
}
