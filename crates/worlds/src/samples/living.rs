//! The fleets that are alive: manifests that an engine makes true, and edits that keep it busy.
//! Must not know how objects are written or applied.

use std::time::Duration;

use serde_json::{Value, json};

use super::manifest::{
    BRISK, ClusterManifest, Infrastructure, NAMESPACE, NEW_VERSION, OLD_VERSION, Pace, Pool, STEADY,
    drain_rule, normal,
};
use super::{Edit, lagoon, reef};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey};
use capi_types::machine_deployment::MachineDeployment;

/// Minutes.
const SLOW: Pace = Pace { vm_s: 90, node_s: 20, component_s: 10, jitter: "0.5" };

/// Long enough for `STEADY` machines to be up.
const CONTROL_PLANE_EDIT_S: u64 = 60;
/// Long enough for the control plane to have been replaced: workers follow it.
const WORKERS_EDIT_S: u64 = 150;

/// Long enough for `BRISK` machines to be up.
const SCALE_EDIT_S: u64 = 45;

/// What runs on the nodes of the pool that shrinks: something for every line of a drain.
const BUSY_PODS: &str = r#"[
    {"namespace": "web", "name": "shop", "budgetSeconds": 45, "terminationSeconds": 20, "claim": "cart", "detachSeconds": 50},
    {"namespace": "web", "name": "front", "terminationSeconds": 5},
    {"namespace": "batch", "name": "import", "labels": {"cluster.x-k8s.io/drain": "wait-completed"}, "completionSeconds": 80},
    {"namespace": "data", "name": "db", "labels": {"tier": "database"}, "terminationSeconds": 30},
    {"namespace": "data", "name": "cache", "labels": {"tier": "cache"}},
    {"namespace": "logs", "name": "agent", "daemonSet": "agent"}
]"#;
/// A web server on each node, quick to leave.
const LIGHT_PODS: &str = r#"[{"namespace": "web", "name": "site", "terminationSeconds": 8}]"#;

/// The cluster of [`Living::InPlace`].
pub const IN_PLACE_CLUSTER: &str = "glacier";

/// One of the fleets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Living {
    Demo,
    HealthyHa,
    Rolling,
    Broken,
    Creating,
    Draining,
    InPlace,
    Kubeadm,
    LeaderMigration,
}

impl Living {
    pub(super) fn objects(self) -> Vec<Value> {
        let clusters = match self {
            Self::Demo => vec![healthy(), rolling(), broken(), creating(), draining()],
            Self::HealthyHa => vec![healthy()],
            Self::Rolling => vec![rolling()],
            Self::Broken => vec![broken()],
            Self::Creating => vec![creating()],
            Self::Draining => vec![draining()],
            Self::InPlace => vec![in_place()],
            Self::Kubeadm => return reef::objects(),
            Self::LeaderMigration => return lagoon::objects(),
        };
        let mut objects: Vec<Value> = clusters.iter().flat_map(ClusterManifest::objects).collect();
        if matches!(self, Self::Demo | Self::Draining) {
            objects.push(drain_rule(
                "databases-last",
                "database",
                &json!({ "behavior": "Drain", "order": 10 }),
            ));
            objects.push(drain_rule("keep-caches", "cache", &json!({ "behavior": "Skip" })));
        }
        objects
    }

    pub(super) fn edits(self) -> Vec<Edit> {
        match self {
            Self::Demo => [shrink(&draining()), upgrade(&rolling())].concat(),
            Self::Rolling => upgrade(&rolling()),
            Self::Draining => shrink(&draining()),
            Self::InPlace => upgrade(&in_place()),
            Self::HealthyHa | Self::Broken | Self::Creating | Self::Kubeadm | Self::LeaderMigration => {
                Vec::new()
            }
        }
    }
}

pub(super) fn healthy() -> ClusterManifest {
    ClusterManifest {
        name: "aurora",
        version: NEW_VERSION,
        control_plane_replicas: 3,
        pace: BRISK,
        pools: vec![normal("web", 3), normal("batch", 2)],
    }
}

pub(super) fn rolling() -> ClusterManifest {
    ClusterManifest {
        name: "borealis",
        version: OLD_VERSION,
        control_plane_replicas: 3,
        pace: STEADY,
        pools: vec![Pool { pods: Some(LIGHT_PODS), ..normal("workers", 4) }],
    }
}

fn broken() -> ClusterManifest {
    ClusterManifest {
        name: "cascade",
        version: NEW_VERSION,
        control_plane_replicas: 1,
        pace: BRISK,
        pools: vec![
            normal("web", 2),
            Pool { infrastructure: Infrastructure::MissingTemplate, ..normal("gpu", 2) },
            Pool { infrastructure: Infrastructure::HeldAt("Node"), ..normal("edge", 2) },
        ],
    }
}

fn creating() -> ClusterManifest {
    ClusterManifest {
        name: "drift",
        version: NEW_VERSION,
        control_plane_replicas: 3,
        pace: SLOW,
        pools: vec![normal("workers", 3)],
    }
}

fn draining() -> ClusterManifest {
    ClusterManifest {
        name: "estuary",
        version: NEW_VERSION,
        control_plane_replicas: 1,
        pace: BRISK,
        pools: vec![Pool { pods: Some(BUSY_PODS), ..normal("busy", 3) }],
    }
}

/// The same machines before and after its upgrade, where an extension updates them.
fn in_place() -> ClusterManifest {
    ClusterManifest {
        name: IN_PLACE_CLUSTER,
        version: OLD_VERSION,
        control_plane_replicas: 3,
        pace: BRISK,
        pools: vec![normal("workers", 3)],
    }
}

pub(super) fn edit(after_s: u64, gvk: Gvk, name: String, patch: Value) -> Edit {
    Edit { after: Duration::from_secs(after_s), gvk, key: ObjectKey::new(NAMESPACE, name), patch }
}

/// Every pool loses a Machine.
fn shrink(cluster: &ClusterManifest) -> Vec<Edit> {
    let smaller = |pool: &Pool| {
        let patch = json!({ "spec": { "replicas": pool.replicas - 1 } });
        edit(SCALE_EDIT_S, Gvk::of::<MachineDeployment>(), cluster.pool_name(pool), patch)
    };
    cluster.pools.iter().map(smaller).collect()
}

/// First the control plane, later its workers, as version skew demands.
fn upgrade(cluster: &ClusterManifest) -> Vec<Edit> {
    let control_plane = edit(
        CONTROL_PLANE_EDIT_S,
        Gvk::of::<KubeadmControlPlane>(),
        cluster.control_plane_name(),
        json!({ "spec": { "version": NEW_VERSION } }),
    );
    let pools = cluster.pools.iter().map(|pool| {
        edit(
            WORKERS_EDIT_S,
            Gvk::of::<MachineDeployment>(),
            cluster.pool_name(pool),
            json!({ "spec": { "template": { "spec": { "version": NEW_VERSION } } } }),
        )
    });
    std::iter::once(control_plane).chain(pools).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{Sample, names};
    use capstan_base::time::Clock;

    fn objects(name: &str) -> Vec<Value> {
        Sample::parse(name).unwrap().objects(Clock::system().now()).collect()
    }

    #[test]
    fn every_name_has_objects_and_edits_of_those_objects() {
        for entry in names() {
            let objects = objects(entry.name);
            assert!(!objects.is_empty(), "{}", entry.name);
            for edit in Sample::parse(entry.name).unwrap().edits() {
                let target = |object: &&Value| {
                    object["kind"] == edit.gvk.kind.as_str()
                        && object["metadata"]["name"] == edit.key.name.as_str()
                };
                assert!(objects.iter().any(|object| target(&object)), "{}: {:?}", entry.name, edit.key);
            }
        }
    }

    #[test]
    fn names_are_unique_per_kind() {
        let objects = objects("demo");
        let keys: std::collections::BTreeSet<_> =
            objects.iter().map(|o| format!("{}/{}", o["kind"], o["metadata"]["name"])).collect();
        assert_eq!(keys.len(), objects.len());
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = Sample::parse("nope").unwrap_err().to_string();
        assert!(error.contains("`nope`") && error.contains("healthy-ha"), "{error}");
    }
}
