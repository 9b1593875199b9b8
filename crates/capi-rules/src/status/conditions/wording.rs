//! How lists and plurals are written in messages, and the fragments of messages that other code
//! looks for. Owns spelling; must not know conditions.
//! Source: cluster-api `util/log/log.go`, v1.14.2.

/// Between a move and the list of what it waits for.
pub const BLOCKED_BECAUSE: &str = "is blocked because";
/// At the end of a line about an object that is referred to, and about several.
pub const DOES_NOT_EXIST: &str = "does not exist";
/// The same about several.
pub const DO_NOT_EXIST: &str = "do not exist";
/// In a sentence about a deletion that takes longer than [`crate::status::machines::STALE_DELETION`].
pub const OVERDUE: &str = "since more than 15m";
/// Before the likely causes of a slow drain.
pub const DELAY_CAUSE: &str = "delay likely due to";
/// In what an eviction says that a disruption budget refuses.
pub const BUDGET: &str = "would violate the pod's disruption budget";

/// How the message of `EtcdMemberHealthy` begins when the members could not be read.
pub const NOT_READ: &str = "Failed to";
/// How it begins for a Node without a member.
pub const NO_MEMBER: &str = "Etcd doesn't have an etcd member";
/// How it begins for a member that does not vote yet.
pub const LEARNER: &str = "Waiting for learner etcd member";
/// In the message of `TopologyReconciled` while runtime hooks hold it.
pub const HOOKS_BLOCK: &str = "Following hooks are blocking";
/// How the message of `Updating` begins while an extension updates a Machine, before the extension's words.
/// Source: `reconcileInPlaceUpdate`, v1.14.2.
pub const IN_PLACE: &str = "In-place update in progress";
/// At its end where there is nothing to update.
pub const NO_INFRASTRUCTURE: &str = "InfraMachine not found";
/// How the message of `RemoteConnectionProbe` begins after a failure.
pub const PROBE_FAILED: &str = "Remote connection probe failed";
/// Stands in that message before the moment of the last success.
pub const LAST_SUCCESS: &str = ", probe last succeeded at ";
/// Behind the name of each preflight check that failed.
pub const PREFLIGHT_FAILED: &str = "preflight check failed)";

/// Items joined with `, `; when there are more than `limit`, the first ones and `... (N more)`.
pub fn join_limited<S: AsRef<str>>(items: &[S], limit: usize) -> String {
    let mut shown: Vec<String> = items.iter().take(limit).map(|s| s.as_ref().to_owned()).collect();
    if items.len() > limit {
        shown.push(format!("... ({} more)", items.len() - limit));
    }
    shown.join(", ")
}

/// The plural of a kind. Every Cluster API kind takes an `s`; kinds of others that end in a sibilant
/// or in a consonant and `y` follow English.
pub fn plural(kind: &str) -> String {
    let consonant_y = kind.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match consonant_y {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with(['s', 'x', 'z']) || kind.ends_with("ch") || kind.ends_with("sh") => {
            format!("{kind}es")
        }
        None => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_stop_at_the_limit() {
        assert_eq!(join_limited(&["a", "b", "c"], 3), "a, b, c");
        assert_eq!(join_limited(&["a", "b", "c", "d", "e"], 3), "a, b, c, ... (2 more)");
    }

    #[test]
    fn kinds_have_plurals() {
        for (kind, expected) in
            [("Machine", "Machines"), ("Policy", "Policies"), ("Box", "Boxes"), ("Relay", "Relays")]
        {
            assert_eq!(plural(kind), expected);
        }
    }
}
