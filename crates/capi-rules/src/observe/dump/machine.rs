//! What a dump holds of a Machine and of the connection to its cluster. Must not judge it.
//!
//! A workload cluster without Nodes in the dump is out of reach: its stored facts stay, or are
//! unknown since the moment in the Cluster's `RemoteConnectionProbe`.

use super::Dump;
use crate::observe;
use crate::status::conditions::wording::{IN_PLACE, LAST_SUCCESS, NO_INFRASTRUCTURE, PROBE_FAILED};
use crate::status::machine::{NodeReading, Observed, Probe, Update, offered_provider_id};
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_base::time::{Timestamp, parse_rfc3339};

/// When the connection last worked, from the Cluster's stored condition; `None` when it does not report
/// a failure.
pub fn last_seen(cluster: &Cluster) -> Option<Option<Timestamp>> {
    let probe = find(cluster.conditions(), "RemoteConnectionProbe").filter(|c| c.status == "False")?;
    // Another message means that no connection was ever established.
    let failed = probe.message.strip_prefix(PROBE_FAILED)?;
    Some(failed.strip_prefix(LAST_SUCCESS).and_then(parse_rfc3339))
}

impl Dump {
    /// How the connection to a workload cluster is at `now`.
    pub fn probe(&self, key: &ObjectKey, cluster: &Cluster, now: Timestamp) -> Probe {
        match (self.workload(key), last_seen(cluster)) {
            // Nodes in the dump were read from the cluster, so the connection worked.
            (Some(_), _) => Probe { last_success: Some(now), ..Probe::default() },
            (None, Some(last_success)) => Probe { last_success, failing: true, ..Probe::default() },
            (None, None) => Probe { not_established_yet: true, ..Probe::default() },
        }
    }

    /// Everything a Machine is judged by; `None` without its Cluster.
    pub fn machine(&self, key: &ObjectKey, object: &Machine, now: Timestamp) -> Option<Observed> {
        let cluster_key = ObjectKey::new(&key.namespace, &object.spec.cluster_name);
        let cluster = self.clusters.get(&cluster_key)?;
        let mut observed = observe::machine(self, object, cluster, self.probe(&cluster_key, cluster, now));
        observed.update = reported_update(object);
        // Its controller writes the ID before it looks for the Node.
        if let Some(id) = offered_provider_id(&observed).map(str::to_owned) {
            observed.machine.spec.provider_id = Some(id);
        }
        observed.node = self.node(&cluster_key, &observed.machine);
        self.observe_deletion(&mut observed, now);
        Some(observed)
    }

    fn node(&self, cluster: &ObjectKey, machine: &Machine) -> NodeReading {
        let Some(workload) = self.workload(cluster) else { return NodeReading::NotConnected };
        let id = machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
        id.map_or(NodeReading::NotAsked, |id| observe::node_with(id, workload.nodes_with(id)))
    }
}

/// The answer of an extension about an update in place, from the stored condition.
pub fn reported_update(machine: &Machine) -> Option<Update> {
    let updating = find(machine.conditions(), "Updating").filter(|c| c.status == "True")?;
    match updating.reason.as_str() {
        "InPlaceUpdateFailed" if updating.message.ends_with(NO_INFRASTRUCTURE) => {
            Some(Update::InfrastructureMissing)
        }
        "InPlaceUpdateFailed" => Some(Update::Failed),
        _ => {
            let words = updating.message.strip_prefix(IN_PLACE)?.strip_prefix(": ")?;
            Some(Update::Running(words.to_owned()))
        }
    }
}
