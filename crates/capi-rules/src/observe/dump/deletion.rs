//! What the deletion of a Machine is judged by, from a dump: pods, MachineDrainRules, storage. Must not
//! judge it.
//!
//! Evictions are not in a dump. The refusals in the stored message count for the pods that are due; when the message
//! does not name all of them, the stored condition is repeated. The same is done when Nodes, Pods or
//! PersistentVolumes were left out and the message names some. Namespaces and DaemonSets that pods name count as
//! existing.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::de::DeserializeOwned;

use super::Dump;
use super::document::key_of;
use super::machine::last_seen;
use super::workload::Workload;
use crate::observe::{NamedNode, named_node, namespace, node_with};
use crate::status::drain::volumes::Storage;
use crate::status::drain::{Tenants, refusals};
use crate::status::machine::deletion::{Stage, drain_applies, leaving_node, stage};
use crate::status::machine::{NodeReading, Observed, StorageReading, TenantsReading};
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine_drain_rule::MachineDrainRule;
use capi_types::names::CORE_GROUP;
use capstan_base::time::Timestamp;

impl Dump {
    /// Adds what the deletion of a Machine needs.
    pub(super) fn observe_deletion(&self, observed: &mut Observed, now: Timestamp) {
        if !observed.is_deleting() {
            return;
        }
        if let Some(workload) = self.workload(&ObjectKey::of(observed.cluster.as_ref())) {
            self.observe_node(observed, workload, now);
        }
        observed.told_deletion = deleting_condition(observed)
            .filter(|deleting_condition| self.is_believed(observed, deleting_condition, now))
            .cloned();
    }

    fn observe_node(&self, observed: &mut Observed, workload: &Workload, now: Timestamp) {
        observed.named_node = named_node_of(observed, workload);
        let Some(node) = observed.node_name() else { return };
        // Without Pods it is not known whether the drain is over.
        let drains = deleting_condition(observed).is_some_and(|c| is_of(c, &["Deleting", "DrainingNode"]));
        if !(drains && workload.pods.is_empty() && drain_applies(observed, now)) {
            observed.tenants = self.tenants(namespace(observed.cluster.as_ref()), workload, node);
        }
        observed.evictions = deleting_condition(observed).map(|c| refusals(&c.message)).unwrap_or_default();
        observed.storage = self.storage();
    }

    /// The stored condition knows more of the present stage than the dump does.
    fn is_believed(&self, observed: &Observed, deleting_condition: &Condition, now: Timestamp) -> bool {
        // Out of reach, although no condition reports that the connection is down.
        let left_out =
            *leaving_node(observed) == NodeReading::NotConnected && last_seen(&observed.cluster).is_none();
        let reasons: &[&str] = match stage(observed, now) {
            Stage::DrainFailed(_) | Stage::VolumesUnknown(_) if left_out => {
                &["Deleting", "DrainingNode", "WaitingForVolumeDetach"]
            }
            Stage::Drain(None) => &["Deleting", "DrainingNode"],
            Stage::Drain(Some(drain)) if !drain.evict.is_empty() => &["DrainingNode"],
            Stage::VolumeDetach(_) if !self.has_kind("", "PersistentVolume") => &["WaitingForVolumeDetach"],
            Stage::Node if left_out => &["DeletingNode"],
            _ => &[],
        };
        is_of(deleting_condition, reasons)
    }

    fn tenants(&self, namespace: &str, workload: &Workload, node: &str) -> TenantsReading {
        let pods = workload.pods_on(node);
        let named = |name: &String| {
            // The API server sets this label on every Namespace,
            // so rules by name work without the objects.
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

    fn storage(&self) -> StorageReading {
        let volumes = self.decoded("", "PersistentVolume", None);
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

/// The stored condition of a deletion that has begun.
fn deleting_condition(observed: &Observed) -> Option<&Condition> {
    find(observed.machine.conditions(), "Deleting").filter(|c| c.status == "True")
}

fn named_node_of(observed: &Observed, workload: &Workload) -> NodeReading {
    match named_node(observed) {
        NamedNode::Same => NodeReading::NotAsked,
        NamedNode::Borrowed { provider_id } => {
            match node_with(&provider_id, workload.nodes_with(&provider_id)) {
                found @ NodeReading::Found(_) => found,
                _ => NodeReading::NotAsked,
            }
        }
        NamedNode::Recorded { name } => match workload.nodes.get(&name) {
            Some(node) => NodeReading::Found(Arc::clone(node)),
            None => NodeReading::NotFound,
        },
    }
}

fn is_of(condition: &Condition, reasons: &[&str]) -> bool {
    reasons.contains(&condition.reason.as_str())
}
