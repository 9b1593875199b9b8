//! What our own columns say of an object of a list over the fleet, as text and numbers. Must not know which columns there are, nor
//! how they are drawn.

use crate::fleet::{Counters, Fleet, Row, RowId};

/// The replicas of an object, or of a part of a Cluster.
pub fn replicas(row: &Row, prefix: &str) -> Option<Counters> {
    match row.cluster_facts() {
        Some(facts) if prefix == "CP" => Some(facts.control_plane),
        Some(facts) => Some(facts.workers),
        None => row.shown_counters(),
    }
}

/// `context/namespace/`, as far as it tells rows apart.
pub fn place_of(fleet: &Fleet, row: &Row) -> String {
    let several = fleet.sources().count() > 1;
    let source = fleet.sources().find(|(id, _)| several && *id == row.source).map(|(_, info)| &info.name);
    match source {
        Some(name) => format!("{name}/{}/", row.namespace),
        None => format!("{}/", row.namespace),
    }
}

/// One version, or the lowest and the highest while several run.
pub fn versions(fleet: &Fleet, id: RowId, room: usize) -> String {
    let all = fleet.versions(id);
    match (all.first(), all.last()) {
        (Some(low), Some(high)) if low.version != high.version => {
            let bare = |v: &str| v.trim_start_matches('v').to_owned();
            let both = format!("{}-{}", bare(&low.version), bare(&high.version));
            if both.len() <= room { both } else { high.version.to_string() }
        }
        (Some(one), _) => one.version.to_string(),
        _ => String::new(),
    }
}
