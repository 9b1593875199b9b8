//! May a cluster be in use already? Owns what counts as a sign of it. Must not know how a Cluster and its Machines are read.

use std::sync::Arc;

use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned, find};
use capi_types::machine::Machine;

/// What the Cluster's condition says. After its status was lost, as by a move to another server, the condition is False until the
/// control plane was asked again: then one of the `others`, its other Machines, that has a provider ID shows that it is in use.
/// `None`: not known.
pub fn is_initialized(cluster: &Cluster, others: &[Arc<Machine>]) -> Option<bool> {
    match find(cluster.conditions(), "ControlPlaneInitialized")?.status.as_str() {
        "True" => Some(true),
        "False" => Some(others.iter().any(|machine| machine.spec.provider_id.is_some())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::cluster::ClusterSpec;
    use capi_types::machine::MachineSpec;
    use serde_json::json;

    fn cluster(status: Option<&str>) -> Cluster {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        let condition = |status: &str| {
            json!({"type": "ControlPlaneInitialized", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let conditions: Vec<_> = status.into_iter().map(condition).collect();
        cluster.status = serde_json::from_value(json!({ "conditions": conditions })).expect("a status");
        cluster
    }

    fn machine(provider_id: Option<&str>) -> Arc<Machine> {
        let spec = MachineSpec { provider_id: provider_id.map(str::to_owned), ..MachineSpec::default() };
        Arc::new(Machine::new("m", spec))
    }

    /// A cluster that is taken for a new one is reset with the machine that began it.
    #[test]
    fn only_a_cluster_that_says_so_and_has_no_other_machine_is_a_new_one() {
        let (waiting, joined) = (machine(None), machine(Some("capstan-host://h/m")));
        for (status, others, expected) in [
            (Some("True"), vec![], Some(true)),
            (Some("False"), vec![], Some(false)),
            (Some("False"), vec![Arc::clone(&waiting)], Some(false)),
            (Some("False"), vec![waiting, Arc::clone(&joined)], Some(true)),
            (Some("Unknown"), vec![joined], None),
            (None, vec![], None),
        ] {
            assert_eq!(is_initialized(&cluster(status), &others), expected, "{status:?} {}", others.len());
        }
        assert_eq!(is_initialized(&Cluster::new("c", ClusterSpec::default()), &[]), None);
    }
}
