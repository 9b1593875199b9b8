//! The upgrade of many Clusters in waves: in each Cluster the control plane first and then its pools in order, a wave when
//! the one before is through at the latest, and only within a window of the day. Owns that calendar; what a stage comes to is
//! a simulation's.

use chrono::{NaiveTime, TimeDelta, Timelike as _};
use serde::Serialize;
use serde_json::json;

use super::change::ActorKind;
use super::scenario::Scenario;
use super::stages::{Begin, PlannedStage, StageForecast, staged};
use capi_rules::observe::dump::Dump;
use capi_types::key::{ObjectKey, cluster_label};
use capstan_base::text::sanitize_line;
use capstan_base::time::{Timestamp, rfc3339};

/// What is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct UpgradePlan {
    /// Of Kubernetes, such as `v1.35.0`.
    pub version: String,
    /// Names of MachineDeployments in the order in which they follow; the others after them, by name.
    pub pools: Vec<String>,
    /// One wave after another.
    pub waves: Vec<Vec<ObjectKey>>,
    /// Between the end of a wave and the begin of the next.
    pub rest: TimeDelta,
    /// A wave begins within it only.
    pub window: Option<Window>,
}

/// A part of each day, UTC; it may go over midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: NaiveTime,
    pub to: NaiveTime,
}

/// The calendar.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    pub version: String,
    pub waves: Vec<Wave>,
    /// What is left out, in sentences.
    pub remarks: Vec<String>,
}

/// Clusters that are upgraded at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// From 1.
    pub number: usize,
    /// RFC 3339; `None`: it does not begin, because one before it stands still.
    pub begins: Option<String>,
    /// When the last Cluster is through at the latest, as far as the ranges say.
    pub ends_by: Option<String>,
    pub clusters: Vec<ClusterUpgrade>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpgrade {
    pub namespace: String,
    pub cluster: String,
    pub stages: Vec<StageForecast>,
}

impl ClusterUpgrade {
    pub fn is_stopped(&self) -> bool {
        self.stages.last().is_some_and(StageForecast::is_stopped)
    }
}

impl Window {
    /// The first moment from `at` on that is within it.
    pub fn next(&self, at: Timestamp) -> Timestamp {
        let time = at.time();
        let is_inside = if self.from <= self.to {
            (self.from..self.to).contains(&time)
        } else {
            // Over midnight the window has two parts.
            time >= self.from || time < self.to
        };
        if is_inside {
            return at;
        }
        let second = |time: NaiveTime| i64::from(time.num_seconds_from_midnight());
        // Modulo the seconds of a day: a window that was open earlier today opens again tomorrow.
        let wait_s = (second(self.from) - second(time)).rem_euclid(86_400);
        at + TimeDelta::seconds(wait_s)
    }
}

/// Every wave at its time. A wave in which a Cluster stands still is the last that begins.
pub fn upgrade(dump: &Dump, plan: &UpgradePlan, scenario: &Scenario, now: Timestamp) -> Upgrade {
    let mut upgrade = Upgrade { version: plan.version.clone(), waves: Vec::new(), remarks: Vec::new() };
    let mut next = Some(now);
    for (wanted, number) in plan.waves.iter().zip(1..) {
        let begins = next.map(|at| plan.window.map_or(at, |window| window.next(at)));
        let mut wave = Wave { number, begins: begins.map(rfc3339), ends_by: None, clusters: Vec::new() };
        let mut ends_by = begins;
        for key in wanted {
            let stages = stages_of(dump, key, plan, begins.unwrap_or(now), &mut upgrade.remarks);
            let told = begins.and_then(|_| staged(dump, key, scenario, &stages, now)).unwrap_or_default();
            ends_by = ends_by.max(told.iter().map(StageForecast::ends_by).max());
            let (namespace, cluster) = (sanitize_line(&key.namespace), sanitize_line(&key.name));
            wave.clusters.push(ClusterUpgrade { namespace, cluster, stages: told });
        }
        let is_stopped = wave.clusters.iter().any(ClusterUpgrade::is_stopped);
        // A wave that stands still has no end, and the waves after it no beginning.
        wave.ends_by = ends_by.filter(|_| !is_stopped).map(rfc3339);
        next = ends_by.filter(|_| !is_stopped).map(|at| at + plan.rest);
        upgrade.waves.push(wave);
    }
    upgrade
}

/// The KubeadmControlPlanes of a Cluster: what it names, and what is labelled with it.
pub fn control_planes_of<'d>(dump: &'d Dump, cluster: &'d ObjectKey) -> impl Iterator<Item = &'d ObjectKey> {
    let object = dump.clusters.get(cluster);
    let named = object.and_then(|object| object.spec.control_plane_ref.as_ref()).map(|r| r.name.as_str());
    let in_namespace = dump.control_planes.iter().filter(|(at, _)| at.namespace == cluster.namespace);
    let its = in_namespace.filter(move |(at, plane)| {
        named == Some(at.name.as_str()) || cluster_label(plane.as_ref()) == Some(cluster.name.as_str())
    });
    its.map(|(at, _)| at)
}

/// The control plane, then the pools, those that have another version.
fn stages_of(
    dump: &Dump,
    key: &ObjectKey,
    plan: &UpgradePlan,
    begins: Timestamp,
    remarks: &mut Vec<String>,
) -> Vec<PlannedStage> {
    let Some(cluster) = dump.clusters.get(key) else { return Vec::new() };
    if cluster.spec.topology.is_some() {
        let what = "its topology carries a version out, in an order of its own";
        remarks.push(format!("Cluster {key} is left out: {what}"));
        return Vec::new();
    }
    let mut stages = Vec::new();
    let mut push = |name: String, kind: ActorKind, object: &str, spec: serde_json::Value| {
        // Pools after the control plane: kubelets must not be newer than their API server.
        let begin = if stages.is_empty() { Begin::At(begins) } else { Begin::Then };
        stages.push(PlannedStage {
            name,
            begin,
            patches: vec![(kind, object.to_owned(), json!({"spec": spec}))],
        });
    };
    let mut has_plane = false;
    for at in control_planes_of(dump, key) {
        has_plane = true;
        if dump.control_planes.get(at).is_some_and(|plane| plane.spec.version != plan.version) {
            let name = format!("KubeadmControlPlane/{}", at.name);
            push(name, ActorKind::KubeadmControlPlane, &at.name, json!({"version": plan.version}));
        }
    }
    if !has_plane {
        remarks.push(format!("Cluster {key} has no KubeadmControlPlane here: only its pools are upgraded"));
    }
    let mut pools: Vec<_> = dump.machine_deployments.iter().collect();
    pools.retain(|(at, pool)| at.namespace == key.namespace && pool.spec.cluster_name == key.name);
    pools.sort_by_key(|(at, _)| {
        // Pools that the plan does not name come last.
        let place = plan.pools.iter().position(|name| *name == at.name).unwrap_or(usize::MAX);
        (place, at.name.clone())
    });
    for (at, pool) in pools {
        if pool.spec.template.spec.version.as_deref() != Some(plan.version.as_str()) {
            let spec = json!({"template": {"spec": {"version": plan.version}}});
            push(format!("MachineDeployment/{}", at.name), ActorKind::MachineDeployment, &at.name, spec);
        }
    }
    stages
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_base::time::parse_rfc3339;

    #[test]
    fn a_window_opens_today_tomorrow_or_is_open() {
        let time = |hour| NaiveTime::from_hms_opt(hour, 0, 0).expect("a time");
        let night = Window { from: time(22), to: time(4) };
        let day = Window { from: time(9), to: time(17) };
        for (window, at, expected) in [
            (night, "2026-11-20T10:00:00Z", "2026-11-20T22:00:00Z"),
            (night, "2026-11-20T23:30:00Z", "2026-11-20T23:30:00Z"),
            (night, "2026-11-21T03:59:59Z", "2026-11-21T03:59:59Z"),
            (night, "2026-11-21T04:00:00Z", "2026-11-21T22:00:00Z"),
            (day, "2026-11-20T08:59:00Z", "2026-11-20T09:00:00Z"),
            (day, "2026-11-20T17:00:00Z", "2026-11-21T09:00:00Z"),
        ] {
            let at = parse_rfc3339(at).expect("a moment");
            assert_eq!(rfc3339(window.next(at)), expected, "{at}");
        }
    }
}
