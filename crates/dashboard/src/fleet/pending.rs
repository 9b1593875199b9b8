//! How much of what a spec asks for is not there, by the object's own counters and versions. Pure; must not know why.

use super::row::{Counters, Facts, ReplicaFacts, Row};
use capi_types::condition::Status;

/// Replicas that have to come, go or change; 0 when everything is as the spec asks for.
pub(super) fn pending(row: &Row) -> u32 {
    match &row.facts {
        Facts::Cluster(facts) => of_counters(facts.control_plane).saturating_add(of_counters(facts.workers)),
        // A replica of another version may be counted as out of date as well: the sum would have it
        // twice.
        Facts::Replicas(facts) => of_counters(facts.counters).max(of_versions(facts, &row.version)),
        Facts::Machine(_) => u32::from(row.condition("UpToDate").is_some_and(|c| c.status == Status::False)),
        Facts::HealthCheck(_) | Facts::Host(_) | Facts::Other => 0,
    }
}

fn of_counters(c: Counters) -> u32 {
    let Some(desired) = c.desired else { return 0 };
    [c.current, c.up_to_date].into_iter().flatten().map(|n| n.abs_diff(desired)).max().unwrap_or(0)
}

/// Replicas of another version: a controller that is paused does not count them as out of date.
fn of_versions(facts: &ReplicaFacts, wanted: &str) -> u32 {
    let others = facts.versions.iter().filter(|v| !wanted.is_empty() && v.version.as_ref() != wanted);
    others.map(|v| v.replicas).sum()
}
