//! The fleet that `capstan demo` opens on: alive for weeks, with one cluster that is well, one that rolls, one that
//! is broken, one that is paused, one that is held up, one that kubeadm made, and one of an old release. Must not know
//! how a past is lived through.

use std::time::Duration;

use serde_json::{Value, json};

use super::living::{edit, healthy, rolling};
use super::manifest::{
    BRISK, ClusterManifest, Infrastructure, NEW_VERSION, OLD_VERSION, Pool, STEADY, normal,
};
use super::{Chapter, Edit, lagoon, reef};
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::Gvk;
use capi_types::machine_deployment::MachineDeployment;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;

/// When the workers of a cluster follow its control plane, seconds after it.
const WORKERS_AFTER_S: u64 = 60;
/// A shop whose disruption budget allows no eviction.
const STUBBORN_PODS: &str = r#"[{"namespace": "web", "name": "shop", "budgetSeconds": 31536000}]"#;
/// How long ago the upgrade began that is seen under way.
const ROLLING_FOR_S: u64 = 25;

/// What happened until now, earliest first.
pub fn chapters() -> Vec<Chapter> {
    let well = ClusterManifest { version: OLD_VERSION, ..healthy() };
    let (broken, edge) = (broken(), edge());
    let clusters = [&well, &rolling(), &broken, &held_up(), &paused()];
    let created = clusters.into_iter().flat_map(ClusterManifest::objects);
    let created = created.chain(reef::objects()).chain(lagoon::objects()).collect();
    let smaller = json!({ "spec": { "replicas": 2 } });
    let shrink = edit(0, Gvk::of::<MachineDeployment>(), "estuary-busy".to_owned(), smaller);
    // Only the control plane's edit is of the past: the workers' comes while the fleet is looked
    // at.
    let rolls = upgrade(&rolling()).into_iter().take(1).collect();
    vec![
        chapter(23 * DAY_S, 180, created, Vec::new()),
        chapter(16 * DAY_S, 170, Vec::new(), upgrade(&well)),
        chapter(12 * DAY_S, 12, Vec::new(), vec![pause("fjord")]),
        chapter(3 * HOUR_S, 60, broken.pool_objects(&edge), Vec::new()),
        chapter(41 * MINUTE_S, 40, Vec::new(), vec![shrink]),
        chapter(ROLLING_FOR_S, ROLLING_FOR_S, Vec::new(), rolls),
    ]
}

/// What happens while the fleet is looked at: the workers follow the control plane.
pub fn edits() -> Vec<Edit> {
    // The upgrade began before now: only what is left of the wait counts.
    let since_now = |edit: Edit| Edit { after: edit.after.saturating_sub(secs(ROLLING_FOR_S)), ..edit };
    upgrade(&rolling()).into_iter().skip(1).map(since_now).collect()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn chapter(ago_s: u64, lasts_s: u64, objects: Vec<Value>, edits: Vec<Edit>) -> Chapter {
    Chapter { ago: secs(ago_s), lasts: secs(lasts_s), objects, edits }
}

fn broken() -> ClusterManifest {
    ClusterManifest {
        name: "cascade",
        version: NEW_VERSION,
        control_plane_replicas: 1,
        pace: BRISK,
        pools: vec![normal("web", 2)],
    }
}

/// The pool that was added later, and whose machines never became Nodes.
fn edge() -> Pool {
    Pool { infrastructure: Infrastructure::HeldAt("Node"), ..normal("edge", 2) }
}

/// Its pool lost a Machine whose pods a disruption budget keeps for ever.
fn held_up() -> ClusterManifest {
    ClusterManifest {
        name: "estuary",
        version: NEW_VERSION,
        control_plane_replicas: 1,
        pace: BRISK,
        pools: vec![Pool { pods: Some(STUBBORN_PODS), ..normal("busy", 3) }],
    }
}

fn paused() -> ClusterManifest {
    ClusterManifest {
        name: "fjord",
        version: OLD_VERSION,
        control_plane_replicas: 1,
        pace: STEADY,
        pools: vec![normal("workers", 2)],
    }
}

fn pause(cluster: &str) -> Edit {
    edit(0, Gvk::of::<Cluster>(), cluster.to_owned(), json!({ "spec": { "paused": true } }))
}

/// First the control plane, then the workers.
fn upgrade(cluster: &ClusterManifest) -> Vec<Edit> {
    let control_plane = edit(
        0,
        Gvk::of::<KubeadmControlPlane>(),
        cluster.control_plane_name(),
        json!({ "spec": { "version": NEW_VERSION } }),
    );
    let workers = json!({ "spec": { "template": { "spec": { "version": NEW_VERSION } } } });
    let pools = cluster.pools.iter().map(|pool| {
        edit(WORKERS_AFTER_S, Gvk::of::<MachineDeployment>(), cluster.pool_name(pool), workers.clone())
    });
    std::iter::once(control_plane).chain(pools).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_in_order_and_does_not_overlap() {
        let chapters = chapters();
        for pair in chapters.windows(2) {
            assert!(pair[0].ago - pair[0].lasts >= pair[1].ago, "{:?} {:?}", pair[0].ago, pair[1].ago);
        }
        let last = chapters.last().expect("a chapter");
        assert_eq!(last.ago, last.lasts, "it ends now");
    }

    #[test]
    fn every_edit_is_about_an_object_that_was_created() {
        let chapters = chapters();
        let names: Vec<String> = chapters
            .iter()
            .flat_map(|chapter| &chapter.objects)
            .map(|o| format!("{} {}", o["kind"].as_str().unwrap(), o["metadata"]["name"].as_str().unwrap()))
            .collect();
        for edit in chapters.iter().flat_map(|chapter| &chapter.edits).chain(&edits()) {
            assert!(names.contains(&format!("{} {}", edit.gvk.kind, edit.key.name)), "{:?}", edit.key);
        }
    }
}
