//! Why a list over the fleet has no rows: what was typed, what the server refused, or that there is nothing. Must not know how it
//! is drawn.

use crate::fleet::{Feed, FeedKey, FeedState, Fleet, HEALTH_CHECK, Listed, Query};
use crate::tui::theme::Scope;

/// A sentence. `total`: the rows that there are without a filter.
pub fn why_empty(fleet: &Fleet, of: Listed, query: &Query, total: usize) -> (Scope, String) {
    let feeds: Vec<&Feed> =
        fleet.feeds().filter(|(key, _)| is_feed_of(key, of)).map(|(_, feed)| feed).collect();
    let refusal = feeds.iter().find_map(|feed| match &feed.state {
        FeedState::NoAccess { error }
        | FeedState::NotServed { error }
        | FeedState::Silent { error }
        | FeedState::Lost { error } => Some(error.to_string()),
        FeedState::Connecting | FeedState::Listing | FeedState::Live | FeedState::Recorded => None,
    });
    let (one, all) = (of.singular(), of.word());
    match (query.trouble(), refusal, &query.namespace) {
        (Some(trouble), ..) => (Scope::Text, trouble.why),
        _ if total > 0 => (Scope::Muted, format!("no {one} matches; esc clears the filter")),
        (_, Some(why), _) => (Scope::Text, why),
        _ if feeds.is_empty() || feeds.iter().any(|feed| !feed.listed) => {
            (Scope::Muted, format!("waiting for the first list of {all}"))
        }
        (.., Some(name)) => {
            (Scope::Muted, format!("there are no {all} in the namespace {name}; `:ns all` shows all"))
        }
        (.., None) => (Scope::Muted, format!("there are no {all} here")),
    }
}

/// Does what a list shows come from this feed? Control planes have a kind for each provider.
fn is_feed_of(key: &FeedKey, of: Listed) -> bool {
    let kind = key.kind.as_ref();
    match of {
        Listed::Clusters => kind == "Cluster",
        Listed::ControlPlanes => kind.ends_with("ControlPlane"),
        Listed::MachineDeployments => kind == "MachineDeployment",
        Listed::MachineSets => kind == "MachineSet",
        Listed::MachinePools => kind == "MachinePool",
        Listed::Machines => kind == "Machine",
        Listed::MachineHealthChecks => kind == HEALTH_CHECK,
    }
}
