//! What wakes the controller of control planes: their Machines, their Cluster, the template, and changes in the
//! workload cluster. Must not know what is done then.

use super::references;
use crate::api::cluster::Cluster;
use crate::api::key::ObjectKey;
use crate::api::names::{CONTROL_PLANE_GROUP, label};
use crate::controllers::external::{Reader, Referrers};
use crate::controllers::{Context, cluster_key_of, keys_of};
use crate::engine::Trigger;
use crate::workload::Announcement;

const KIND: &str = "KubeadmControlPlane";

pub(super) fn triggers(context: &Context) -> Vec<Trigger> {
    let caches = &context.caches;
    let (by_cluster, by_label) = (caches.clusters.clone(), caches.clusters.clone());
    let [all, every] = std::array::from_fn(|_| caches.control_planes.clone());
    let referrers = Referrers::new(&caches.control_planes, references);
    vec![
        Trigger::own(&caches.control_planes),
        Trigger::owned_by(&caches.machines, CONTROL_PLANE_GROUP, KIND),
        Trigger::owned_by(&caches.kubeadm_configs, CONTROL_PLANE_GROUP, KIND),
        // Orphans to adopt, and workers whose end a deletion waits for.
        Trigger::on(&caches.machines, move |old, new| {
            let Some(machine) = new.or(old) else { return Vec::new() };
            let labels = machine.metadata.labels.as_ref();
            let of_control_plane = labels.is_some_and(|l| l.contains_key(label::CONTROL_PLANE));
            if new.is_some() && !of_control_plane {
                return Vec::new();
            }
            let cluster = cluster_key_of(machine).and_then(|key| by_label.get(&key));
            cluster.and_then(|c| key_of(&c)).into_iter().collect()
        }),
        Trigger::on(&caches.clusters, |old, new| new.or(old).and_then(key_of).into_iter().collect()),
        caches.externals.trigger(Reader::KubeadmControlPlane, move |turned| referrers.keys(turned)),
        caches.externals.trigger(Reader::KubeadmControlPlaneHosts, move |turned| match turned.object() {
            Some(_) => Vec::new(),
            None => keys_of(&all.list()),
        }),
        Trigger::announced(context.workload.changes(), Announcement::Missed, move |announcement| {
            match announcement {
                Announcement::Node { node, .. } if !node.is_control_plane => Vec::new(),
                Announcement::Cluster(cluster) | Announcement::Node { cluster, .. } => {
                    by_cluster.get(cluster).and_then(|c| key_of(&c)).into_iter().collect()
                }
                Announcement::Missed => keys_of(&every.list()),
            }
        }),
    ]
}

/// The control plane that a Cluster refers to.
fn key_of(cluster: &Cluster) -> Option<ObjectKey> {
    let reference = cluster.spec.control_plane_ref.as_ref().filter(|r| r.kind == KIND)?;
    Some(ObjectKey::new(cluster.metadata.namespace.clone().unwrap_or_default(), &reference.name))
}
