//! What became of a Cluster since a moment, by the times in its own conditions: to compare with what was forecast then.
//! Must not know the forecast.

use capi_rules::observe::dump::Dump;
use capi_types::condition::{Condition, Conditioned as _, find};
use capi_types::key::{ObjectKey, cluster_label};
use capstan_base::time::{Timestamp, from_k8s};

/// What controllers report while Machines come and go.
const ACTIVITIES: [&str; 3] = ["RollingOut", "ScalingUp", "ScalingDown"];

/// What happened since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Nothing came or went.
    Nothing,
    /// Through after so many seconds.
    Done { took_s: i64 },
    /// Still under way, so many seconds after the beginning.
    UnderWay { for_s: i64 },
}

/// Of one Cluster from `began` to `now`; `None` when it is not in the dump.
///
/// The end is the last moment at which a pool stopped to roll or scale, or a Machine that was made since became available. A
/// change that somebody made in between counts as well.
pub fn score(dump: &Dump, key: &ObjectKey, began: Timestamp, now: Timestamp) -> Option<Score> {
    let cluster = dump.clusters.get(key)?;
    let here = |at: &ObjectKey| at.namespace == key.namespace;
    let mut seen = Seen { began, is_under_way: false, ended: None };
    for (_, object) in dump.machine_deployments.iter().filter(|(at, _)| here(at)) {
        if object.spec.cluster_name == key.name {
            seen.pool(object.conditions());
        }
    }
    let named = cluster.spec.control_plane_ref.as_ref().map(|reference| reference.name.as_str());
    for (at, object) in dump.control_planes.iter().filter(|(at, _)| here(at)) {
        if named == Some(at.name.as_str()) || cluster_label(object.as_ref()) == Some(key.name.as_str()) {
            seen.pool(object.conditions());
        }
    }
    for (_, machine) in dump.machines.iter().filter(|(at, m)| here(at) && m.spec.cluster_name == key.name) {
        let created = machine.metadata.creation_timestamp.as_ref().map(from_k8s);
        // A Machine that is gone leaves no time behind, so that ends are those of new ones.
        if machine.metadata.deletion_timestamp.is_some() {
            seen.is_under_way = true;
        } else if created.is_some_and(|at| at >= began) {
            seen.machine(find(machine.conditions(), "Available"));
        }
    }
    Some(match (seen.is_under_way, seen.ended) {
        (true, _) => Score::UnderWay { for_s: (now - began).num_seconds() },
        (false, Some(ended)) => Score::Done { took_s: (ended - began).num_seconds() },
        (false, None) => Score::Nothing,
    })
}

struct Seen {
    began: Timestamp,
    is_under_way: bool,
    ended: Option<Timestamp>,
}

impl Seen {
    fn pool(&mut self, conditions: &[Condition]) {
        for activity in ACTIVITIES.iter().filter_map(|type_| find(conditions, type_)) {
            match activity.status.as_str() {
                "True" => self.is_under_way = true,
                // Turned before the beginning it says nothing; `end_at` leaves that out.
                _ => self.end_at(from_k8s(&activity.last_transition_time)),
            }
        }
    }

    fn machine(&mut self, available: Option<&Condition>) {
        match available.filter(|condition| condition.status == "True") {
            Some(condition) => self.end_at(from_k8s(&condition.last_transition_time)),
            // A new Machine that never became available keeps the score open.
            None => self.is_under_way = true,
        }
    }

    fn end_at(&mut self, at: Timestamp) {
        if at > self.began {
            self.ended = self.ended.max(Some(at));
        }
    }
}
