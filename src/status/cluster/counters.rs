//! `status.controlPlane` and `status.workers` of a Cluster: machines counted through whoever owns them.
//! Source: `setControlPlaneReplicas`, `setWorkersReplicas` in `cluster_controller_status.go`, v1.14.0.

use super::{Descendants, Observed};
use crate::api::cluster::{ClusterStatus, ReplicaCounts};
use crate::api::condition::{Conditioned as _, is_true};
use crate::api::machine::Machine;
use crate::api::machine_set::VersionCount;
use crate::status::contract::{External, Provided};
use crate::status::{machines, versions};

pub(super) fn fill(status: &mut ClusterStatus, o: &Observed) {
    let stored = status.control_plane.take().unwrap_or_default();
    let counted = match (&o.control_plane, o.known_descendants()) {
        (External::Found(control_plane), _) => reported(control_plane, &stored),
        (External::NotSet, Some(descendants)) if !o.has_topology() => {
            stand_alone(&descendants.control_plane_machines())
        }
        (External::NotSet, None) if !o.has_topology() => stored.clone(),
        _ => ReplicaCounts::default(),
    };
    status.control_plane = Some(ReplicaCounts { upgrade_plan: stored.upgrade_plan, ..counted });
    let stored = status.workers.take().unwrap_or_default();
    let counted = o.known_descendants().map_or_else(|| stored.clone(), |descendants| workers(o, descendants));
    status.workers = Some(ReplicaCounts { upgrade_plan: stored.upgrade_plan, ..counted });
}

/// What the control plane object says. A field it does not have keeps the stored value; versions are
/// only kept when the list is invalid.
fn reported(control_plane: &Provided, stored: &ReplicaCounts) -> ReplicaCounts {
    ReplicaCounts {
        desired_replicas: control_plane.count("/spec/replicas").or(stored.desired_replicas),
        replicas: control_plane.count("/status/replicas").or(stored.replicas),
        ready_replicas: control_plane.count("/status/readyReplicas").or(stored.ready_replicas),
        available_replicas: control_plane.available_replicas().or(stored.available_replicas),
        up_to_date_replicas: control_plane.up_to_date_replicas().or(stored.up_to_date_replicas),
        versions: match control_plane.versions() {
            Ok(versions) => versions.unwrap_or_default(),
            Err(_) => stored.versions.clone(),
        },
        upgrade_plan: Vec::new(),
    }
}

/// Counters are absent, not 0, until something is counted.
fn stand_alone(machines: &[&Machine]) -> ReplicaCounts {
    let mut counts = Sum::default();
    counts.add_machines(machines);
    counts.finish()
}

fn workers(o: &Observed, descendants: &Descendants) -> ReplicaCounts {
    let mut sum = Sum::default();
    for pool in &descendants.machine_pools {
        let s = pool.status.clone().unwrap_or_default();
        sum.add(
            pool.spec.replicas,
            [s.replicas, s.ready_replicas, s.available_replicas, s.up_to_date_replicas],
            &s.versions,
        );
    }
    for deployment in &descendants.machine_deployments {
        let s = deployment.status.clone().unwrap_or_default();
        sum.add(
            deployment.spec.replicas,
            [s.replicas, s.ready_replicas, s.available_replicas, s.up_to_date_replicas],
            &s.versions,
        );
    }
    for set in descendants.machine_sets.iter().filter(|set| o.owns(*set)) {
        let s = set.status.clone().unwrap_or_default();
        sum.add(
            set.spec.replicas,
            [s.replicas, s.ready_replicas, s.available_replicas, s.up_to_date_replicas],
            &s.versions,
        );
    }
    let own: Vec<&Machine> = descendants.worker_machines().into_iter().filter(|m| o.owns(*m)).collect();
    sum.add_machines(&own);
    sum.finish()
}

/// A sum that stays absent until somebody contributes.
#[derive(Default)]
struct Sum {
    counts: ReplicaCounts,
    versions: Vec<(String, i32)>,
}

impl Sum {
    /// `counters`: replicas, ready, available, up to date.
    fn add(&mut self, desired: Option<i32>, counters: [Option<i32>; 4], versions: &[VersionCount]) {
        let [replicas, ready, available, up_to_date] = counters;
        for (slot, more) in [
            (&mut self.counts.desired_replicas, desired),
            (&mut self.counts.replicas, replicas),
            (&mut self.counts.ready_replicas, ready),
            (&mut self.counts.available_replicas, available),
            (&mut self.counts.up_to_date_replicas, up_to_date),
        ] {
            if let Some(more) = more {
                *slot = Some(slot.unwrap_or(0).saturating_add(more));
            }
        }
        self.versions.extend(versions.iter().map(|v| (v.version.clone(), v.replicas.unwrap_or(0))));
    }

    fn add_machines(&mut self, all: &[&Machine]) {
        for machine in all {
            let hit = |type_: &str| is_true(machine.conditions(), type_).then_some(1);
            self.add(Some(1), [Some(1), hit("Ready"), hit("Available"), hit("UpToDate")], &[]);
        }
        let versions = machines::versions(all).into_iter().map(|v| (v.version, v.replicas.unwrap_or(0)));
        self.versions.extend(versions);
    }

    fn finish(self) -> ReplicaCounts {
        let seen = self.versions.iter().map(|(version, replicas)| (version.as_str(), *replicas));
        ReplicaCounts { versions: versions::count(seen), ..self.counts }
    }
}
