//! `status.controlPlane` and `status.workers` of a Cluster: Machines counted through their owners.
//! Source: `setControlPlaneReplicas`, `setWorkersReplicas` in `cluster_controller_status.go`, v1.14.2.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Census, Observed};
use crate::status::contract::{External, Provided};
use crate::status::machines::{self, Member};
use crate::status::versions;
use capi_types::cluster::{ClusterStatus, ReplicaCounts};
use capi_types::condition::Condition;
use capi_types::machine_set::VersionCount;

/// `census` is `None` when it is not known what belongs to the Cluster.
pub(super) fn fill(status: &mut ClusterStatus, o: &Observed, census: Option<&Census<'_>>) {
    let stored = status.control_plane.take().unwrap_or_default();
    let counted = match (&o.control_plane, census) {
        (External::Found(control_plane), _) => reported(control_plane, &stored),
        (External::NotSet, Some(census)) if !o.has_topology() => stand_alone(&census.control_plane),
        (External::NotSet, None) if !o.has_topology() => stored.clone(),
        // An object that is gone or unreadable: upstream
        // clears the counters instead of keeping old ones.
        _ => ReplicaCounts::default(),
    };
    // The plan of an upgrade belongs to the topology's controller.
    status.control_plane = Some(ReplicaCounts { upgrade_plan: stored.upgrade_plan, ..counted });
    let stored = status.workers.take().unwrap_or_default();
    let counted = census.map_or_else(|| stored.clone(), |census| workers(o, &census.workers));
    status.workers = Some(ReplicaCounts { upgrade_plan: stored.upgrade_plan, ..counted });
}

/// The counters of the control plane object. A field it does not have keeps the stored value; versions are
/// only kept when the list is invalid.
fn reported(control_plane: &Provided, stored: &ReplicaCounts) -> ReplicaCounts {
    let desired = control_plane.count(&["spec", "replicas"]).or(stored.desired_replicas);
    ReplicaCounts {
        desired_replicas: desired,
        replicas: control_plane.count(&["status", "replicas"]).or(stored.replicas),
        ready_replicas: control_plane.count(&["status", "readyReplicas"]).or(stored.ready_replicas),
        available_replicas: control_plane.available_replicas(desired).or(stored.available_replicas),
        up_to_date_replicas: control_plane.up_to_date_replicas().or(stored.up_to_date_replicas),
        versions: match control_plane.versions() {
            Ok(versions) => versions.unwrap_or_default(),
            Err(_) => stored.versions.clone(),
        },
        upgrade_plan: Vec::new(),
    }
}

/// Counters are absent, not 0, until something is counted.
fn stand_alone(machines: &[Member<'_>]) -> ReplicaCounts {
    let mut counts = Sum::default();
    counts.add_machines(machines);
    counts.finish()
}

/// What owners of Machines report of them. Each kind has these fields in a type of its own.
macro_rules! add_reported {
    ($sum:ident, $owners:expr) => {
        for owner in $owners {
            let reported = owner.status.as_ref().map(|s| {
                let counters = [s.replicas, s.ready_replicas, s.available_replicas, s.up_to_date_replicas];
                (counters, s.versions.as_slice())
            });
            let (counters, versions) = reported.unwrap_or_default();
            $sum.add(owner.spec.replicas, counters, versions);
        }
    };
}

fn workers(o: &Observed, machines: &[Member<'_>]) -> ReplicaCounts {
    let mut sum = Sum::default();
    add_reported!(sum, &o.descendants.machine_pools);
    add_reported!(sum, &o.descendants.machine_deployments);
    add_reported!(sum, o.descendants.machine_sets.iter().filter(|set| o.owns(Arc::as_ref(set))));
    // Only Machines that stand alone: all others are in the counters of their owners already.
    let own: Vec<Member<'_>> = machines.iter().copied().filter(|m| o.owns(m.machine)).collect();
    sum.add_machines(&own);
    sum.finish()
}

/// A sum that stays absent until an owner contributes.
#[derive(Default)]
struct Sum<'a> {
    counts: ReplicaCounts,
    versions: Vec<(Cow<'a, str>, i32)>,
}

impl<'a> Sum<'a> {
    /// `counters`: replicas, ready, available, up to date.
    fn add(&mut self, desired: Option<i32>, counters: [Option<i32>; 4], versions: &'a [VersionCount]) {
        let [replicas, ready, available, up_to_date] = counters;
        for (slot, more) in [
            (&mut self.counts.desired_replicas, desired),
            (&mut self.counts.replicas, replicas),
            (&mut self.counts.ready_replicas, ready),
            (&mut self.counts.available_replicas, available),
            (&mut self.counts.up_to_date_replicas, up_to_date),
        ] {
            if let Some(more) = more {
                // Providers report these numbers, so that their sum may be anything.
                *slot = Some(slot.unwrap_or(0).saturating_add(more));
            }
        }
        self.versions.extend(versions.iter().map(|v| (v.version.as_str().into(), v.replicas.unwrap_or(0))));
    }

    fn add_machines(&mut self, all: &[Member<'_>]) {
        let hit = |c: Option<&Condition>| c.is_some_and(|c| c.status == "True").then_some(1);
        for m in all {
            self.add(Some(1), [Some(1), hit(m.ready), hit(m.available), hit(m.up_to_date)], &[]);
        }
        let versions = machines::versions(all.iter().map(|m| m.machine));
        self.versions.extend(versions.into_iter().map(|v| (v.version.into(), v.replicas.unwrap_or(0))));
    }

    fn finish(self) -> ReplicaCounts {
        let seen = self.versions.iter().map(|(version, replicas)| (version.as_ref(), *replicas));
        ReplicaCounts { versions: versions::count(seen), ..self.counts }
    }
}
