//! What wakes the controller of control planes: their Machines, their Cluster, the template, and changes in the
//! workload cluster. Must not know what is done then.

use std::collections::BTreeMap;

use super::references;
use crate::client::Cache;
use crate::controllers::external::{Reader, Referrers};
use crate::controllers::{Context, cluster_key_of, keys_of};
use crate::engine::Trigger;
use crate::workload::Announcement;
use capi_rules::status::machine::cluster_provisioned;
use capi_rules::status::machines::is_control_plane;
use capi_types::cluster::{Cluster, FailureDomain};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::ObjectKey;
use capi_types::names::CONTROL_PLANE_GROUP;

const KIND: &str = "KubeadmControlPlane";

pub(super) fn triggers(context: &Context) -> Vec<Trigger> {
    let caches = &context.caches;
    let (by_cluster, by_label) = (caches.clusters.clone(), caches.clusters.clone());
    let [all, every, leaving] = std::array::from_fn(|_| caches.control_planes.clone());
    let referrers = Referrers::new(&caches.control_planes, references);
    vec![
        Trigger::own(&caches.control_planes),
        Trigger::owned_by(&caches.machines, CONTROL_PLANE_GROUP, KIND),
        Trigger::owned_by(&caches.kubeadm_configs, CONTROL_PLANE_GROUP, KIND),
        // Orphans to adopt, and workers whose end a deletion waits for.
        Trigger::on(&caches.machines, move |old, new| {
            let Some(machine) = new.or(old) else { return Vec::new() };
            let is_mine = is_control_plane(machine);
            // A worker matters only by its end.
            if new.is_some() && !is_mine {
                return Vec::new();
            }
            let cluster = cluster_key_of(machine).and_then(|key| by_label.get(&key));
            let key = cluster.and_then(|cluster| key_of(&cluster));
            key.filter(|key| is_mine || is_leaving(&leaving, key)).into_iter().collect()
        }),
        Trigger::on(&caches.clusters, |old, new| {
            let turned = old.map(facts) != new.map(facts);
            new.or(old).filter(|_| turned).and_then(key_of).into_iter().collect()
        }),
        caches.externals.trigger(Reader::KubeadmControlPlane, move |turned| referrers.keys(turned)),
        caches.externals.trigger(Reader::KubeadmControlPlaneHosts, move |turned| match turned.object() {
            // What changes on one host reaches the control plane through its Machine.
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

/// What a control plane reads of its Cluster: its spec and metadata, and of its status what comes from the infrastructure.
/// The rest follows the Machines, workers among them: each of their changes would be a look at Secrets and members.
#[derive(PartialEq)]
struct Facts<'a> {
    uid: Option<&'a String>,
    generation: Option<i64>,
    annotations: Option<&'a BTreeMap<String, String>>,
    is_leaving: bool,
    is_provisioned: bool,
    failure_domains: &'a [FailureDomain],
}

fn facts(cluster: &Cluster) -> Facts<'_> {
    let status = cluster.status.as_ref();
    Facts {
        uid: cluster.metadata.uid.as_ref(),
        generation: cluster.metadata.generation,
        annotations: cluster.metadata.annotations.as_ref(),
        is_leaving: cluster.metadata.deletion_timestamp.is_some(),
        is_provisioned: cluster_provisioned(cluster),
        failure_domains: status.map(|status| status.failure_domains.as_slice()).unwrap_or_default(),
    }
}

fn is_leaving(control_planes: &Cache<KubeadmControlPlane>, key: &ObjectKey) -> bool {
    control_planes.get(key).is_some_and(|found| found.metadata.deletion_timestamp.is_some())
}

/// The control plane that a Cluster refers to.
fn key_of(cluster: &Cluster) -> Option<ObjectKey> {
    let reference = cluster.spec.control_plane_ref.as_ref().filter(|r| r.kind == KIND)?;
    Some(ObjectKey::new(cluster.metadata.namespace.clone().unwrap_or_default(), &reference.name))
}
