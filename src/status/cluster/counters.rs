//! `status.controlPlane` and `status.workers` of a Cluster: machines counted through whoever owns them.
//! Source: `setControlPlaneReplicas`, `setWorkersReplicas` in `cluster_controller_status.go`, v1.14.0.

use super::Observed;
use crate::api::cluster::{ClusterStatus, ReplicaCounts};
use crate::api::condition::{Conditioned as _, is_true};
use crate::api::machine::Machine;
use crate::api::machine_set::VersionCount;
use crate::status::contract::{External, Provided};
use crate::status::versions;

pub(super) fn fill(status: &mut ClusterStatus, o: &Observed) {
    let stored = status.control_plane.take().unwrap_or_default();
    let counted = match &o.control_plane {
        External::Found(control_plane) => reported(control_plane, &stored),
        External::NotSet if !o.has_topology() => stand_alone(&o.descendants.control_plane_machines()),
        _ => ReplicaCounts::default(),
    };
    status.control_plane = Some(ReplicaCounts { upgrade_plan: stored.upgrade_plan, ..counted });
    let stored = status.workers.take().unwrap_or_default();
    status.workers = Some(ReplicaCounts { upgrade_plan: stored.upgrade_plan, ..workers(o) });
}

/// What the control plane object says. A field it does not have keeps the stored value.
fn reported(control_plane: &Provided, stored: &ReplicaCounts) -> ReplicaCounts {
    let available = || {
        // Contract v1beta1 counts what is missing instead.
        let desired = control_plane.count("/spec/replicas")?;
        Some((desired - control_plane.count("/status/unavailableReplicas")?).max(0))
    };
    let up_to_date = || control_plane.count("/status/updatedReplicas");
    ReplicaCounts {
        desired_replicas: control_plane.count("/spec/replicas").or(stored.desired_replicas),
        replicas: control_plane.count("/status/replicas").or(stored.replicas),
        ready_replicas: control_plane.count("/status/readyReplicas").or(stored.ready_replicas),
        available_replicas: control_plane
            .count("/status/availableReplicas")
            .or_else(available)
            .or(stored.available_replicas),
        up_to_date_replicas: control_plane
            .count("/status/upToDateReplicas")
            .or_else(up_to_date)
            .or(stored.up_to_date_replicas),
        versions: control_plane_versions(control_plane),
        upgrade_plan: Vec::new(),
    }
}

fn control_plane_versions(control_plane: &Provided) -> Vec<VersionCount> {
    let list = control_plane.content.pointer("/status/versions").cloned();
    list.and_then(|list| serde_json::from_value(list).ok()).unwrap_or_default()
}

/// Counters are absent, not 0, until something is counted.
fn stand_alone(machines: &[&Machine]) -> ReplicaCounts {
    let mut counts = Sum::default();
    machines.iter().for_each(|machine| counts.add_machine(machine));
    counts.finish()
}

fn workers(o: &Observed) -> ReplicaCounts {
    let mut sum = Sum::default();
    for pool in &o.descendants.machine_pools {
        let s = pool.status.clone().unwrap_or_default();
        sum.add(
            pool.spec.replicas,
            [s.replicas, s.ready_replicas, s.available_replicas, s.up_to_date_replicas],
            &s.versions,
        );
    }
    for deployment in &o.descendants.machine_deployments {
        let s = deployment.status.clone().unwrap_or_default();
        sum.add(
            deployment.spec.replicas,
            [s.replicas, s.ready_replicas, s.available_replicas, s.up_to_date_replicas],
            &s.versions,
        );
    }
    for set in o.descendants.machine_sets.iter().filter(|set| o.owns(*set)) {
        let s = set.status.clone().unwrap_or_default();
        sum.add(
            set.spec.replicas,
            [s.replicas, s.ready_replicas, s.available_replicas, s.up_to_date_replicas],
            &s.versions,
        );
    }
    o.descendants.worker_machines().into_iter().filter(|m| o.owns(*m)).for_each(|m| sum.add_machine(m));
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
                *slot = Some(slot.unwrap_or(0) + more);
            }
        }
        self.versions.extend(versions.iter().map(|v| (v.version.clone(), v.replicas.unwrap_or(0))));
    }

    fn add_machine(&mut self, machine: &Machine) {
        let hit = |type_: &str| is_true(machine.conditions(), type_).then_some(1);
        let version = VersionCount { version: version_of(machine).to_owned(), replicas: Some(1) };
        self.add(Some(1), [Some(1), hit("Ready"), hit("Available"), hit("UpToDate")], &[version]);
    }

    fn finish(self) -> ReplicaCounts {
        let seen = self.versions.iter().map(|(version, replicas)| (version.as_str(), *replicas));
        let versions = versions::count(seen)
            .into_iter()
            .map(|(version, replicas)| VersionCount {
                version,
                replicas: (replicas != 0).then_some(replicas),
            })
            .collect();
        ReplicaCounts { versions, ..self.counts }
    }
}

/// The kubelet's version when it is known, else the wanted one.
fn version_of(machine: &Machine) -> &str {
    let kubelet =
        machine.status.as_ref().and_then(|s| s.node_info.as_ref()).map(|i| i.kubelet_version.as_str());
    kubelet.filter(|v| !v.is_empty()).or(machine.spec.version.as_deref()).unwrap_or_default()
}
