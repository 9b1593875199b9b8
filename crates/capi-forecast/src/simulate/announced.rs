//! What time alone will begin in a Cluster: rollouts that are scheduled, those that certificates ask for, and certificates
//! that nothing renews. Must not know how long anything takes.

use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use capi_rules::observe::dump::Dump;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, cluster_label, controller_of};
use capi_types::machine::Machine;
use capstan_base::time::{Timestamp, from_k8s};

/// Why something begins by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncedCause {
    /// `spec.rollout.after`.
    Schedule,
    /// `spec.rollout.before.certificatesExpiryDays`; the first certificate ends then.
    Certificates { expiry: Timestamp },
    /// Certificates end, and no rollout renews them.
    Expiry,
}

/// A rollout, or an end of certificates, that only has to be waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// `Kind/name`.
    pub object: String,
    pub cause: AnnouncedCause,
    pub at: Timestamp,
}

/// What begins in a Cluster after `now`, by time.
pub fn announced(dump: &Dump, key: &ObjectKey, now: Timestamp) -> Vec<Announced> {
    let mut all = Vec::new();
    let here = |at: &ObjectKey| at.namespace == key.namespace;
    for (at, object) in &dump.machine_deployments {
        let after = object.spec.rollout.as_ref().and_then(|rollout| rollout.after.as_ref());
        if here(at) && object.spec.cluster_name == key.name {
            all.extend(scheduled("MachineDeployment", &at.name, after));
        }
    }
    let cluster = dump.clusters.get(key);
    for (at, object) in dump.control_planes.iter().filter(|(at, _)| here(at)) {
        if cluster.is_some_and(|cluster| is_of(object, at, cluster)) {
            let after = object.spec.rollout.as_ref().and_then(|rollout| rollout.after.as_ref());
            all.extend(scheduled("KubeadmControlPlane", &at.name, after));
            all.extend(by_certificates(dump, at, object));
        }
    }
    // A moment that has passed is not announced: the plan itself shows what is due.
    all.retain(|one| one.at > now);
    // By name as well, since objects of one kind may be due at once.
    all.sort_by(|a, b| (a.at, &a.object).cmp(&(b.at, &b.object)));
    all
}

fn is_of(plane: &KubeadmControlPlane, at: &ObjectKey, cluster: &Cluster) -> bool {
    let named = cluster.spec.control_plane_ref.as_ref().is_some_and(|reference| reference.name == at.name);
    named || cluster_label(plane) == cluster.metadata.name.as_deref()
}

fn scheduled(kind: &str, name: &str, after: Option<&Time>) -> Option<Announced> {
    let at = after.map(from_k8s)?;
    Some(Announced { object: format!("{kind}/{name}"), cause: AnnouncedCause::Schedule, at })
}

/// The first certificate of a control plane's Machines counts: all that are due then roll together.
fn by_certificates(dump: &Dump, at: &ObjectKey, plane: &KubeadmControlPlane) -> Option<Announced> {
    let is_its = |machine: &Machine| {
        controller_of(machine).is_some_and(|o| o.kind == "KubeadmControlPlane" && o.name == at.name)
    };
    let machines = dump.machines.iter().filter(|(key, m)| key.namespace == at.namespace && is_its(m));
    let expiry = machines.filter_map(|(_, m)| m.status.as_ref()?.certificates_expiry_date.as_ref());
    let expiry = expiry.map(from_k8s).min()?;
    let before = plane.spec.rollout.as_ref().and_then(|rollout| rollout.before.as_ref());
    let days = before.and_then(|before| before.certificates_expiry_days);
    let object = format!("KubeadmControlPlane/{}", at.name);
    Some(match days.and_then(|days| expiry.checked_sub_signed(TimeDelta::days(i64::from(days)))) {
        Some(due) => Announced { object, cause: AnnouncedCause::Certificates { expiry }, at: due },
        // Without the setting nothing rolls: the certificate then simply ends.
        None => Announced { object, cause: AnnouncedCause::Expiry, at: expiry },
    })
}
