//! Which kinds are read, and how old what is shown of each is. Owns the words; must not know how a kind is watched.

use capstan_base::time::{Timestamp, age};

use crate::fleet::{Feed, FeedState, Fleet};

/// A line for each kind; what is not heard of comes first.
pub fn sources(fleet: &Fleet, now: Timestamp) -> String {
    let mut lines: Vec<(bool, String)> = fleet
        .feeds()
        .map(|(key, feed)| (feed.lost_s().is_none(), format!("{key}: {}", standing(feed, now))))
        .collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

fn standing(feed: &Feed, now: Timestamp) -> String {
    let since = age(feed.since, now);
    let as_of =
        || feed.last_good.map_or("never read".to_owned(), |at| format!("as it was {} ago", age(at, now)));
    match &feed.state {
        FeedState::Connecting => format!("asked for since {since}"),
        FeedState::Listing => format!("being listed since {since}"),
        FeedState::Live => format!("current, every change has arrived since {since}"),
        FeedState::Recorded => format!("as it was written down {since} ago"),
        FeedState::NoAccess { error } => format!("may not be read: {error}"),
        FeedState::NotServed { error } => format!("not served: {error}"),
        FeedState::Silent { error } | FeedState::Lost { error } => {
            format!("{}, not heard since {since}: {error}", as_of())
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::fleet::{Delta, FeedKey, SourceId};

    fn feed(kind: &str) -> FeedKey {
        FeedKey { source: SourceId(0), group: "cluster.x-k8s.io".into(), kind: kind.into() }
    }

    #[test]
    fn each_kind_has_its_age_and_what_is_lost_comes_first() {
        let began = Timestamp::default();
        let mut fleet = Fleet::new();
        let turn = |fleet: &mut Fleet, kind: &str, state, at| {
            fleet.apply(vec![Delta::Feed { feed: feed(kind), state, at }]);
        };
        turn(&mut fleet, "Cluster", FeedState::Live, began);
        turn(&mut fleet, "Machine", FeedState::Live, began);
        turn(
            &mut fleet,
            "Machine",
            FeedState::Lost { error: "refused".into() },
            began + TimeDelta::minutes(2),
        );
        turn(&mut fleet, "MachinePool", FeedState::NotServed { error: "no such kind".into() }, began);
        let text = sources(&fleet, began + TimeDelta::minutes(5));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "Machine.cluster.x-k8s.io: as it was 3m ago, not heard since 3m: refused",
                "Cluster.cluster.x-k8s.io: current, every change has arrived since 5m",
                "MachinePool.cluster.x-k8s.io: not served: no such kind",
            ]
        );
    }
}
