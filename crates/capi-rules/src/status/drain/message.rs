//! The message of the `Deleting` condition during a drain. Owns its wording.
//! Source: `drain.go` (`ConditionMessage`), v1.14.2.

use super::{Drain, Evicted, Evictions};
use crate::status::conditions::wording::join_limited;
use capi_types::key::ObjectKey;

/// Refusals that are shown; those after them are counted.
const REFUSALS_SHOWN: usize = 5;
const TERMINATING: &str = "deletionTimestamp set, but still not removed from the Node";
const COMPLETING: &str = "waiting for completion";
const FAILED: &str = "failed to evict Pod, ";
/// The server's sentence about a disruption budget, and how the message has it.
const BUDGET: [&str; 2] = [
    "Cannot evict pod as it would violate the pod's disruption budget.",
    "cannot evict pod as it would violate the pod's disruption budget.",
];

/// The first line; `since` is when the drain began.
pub fn head(since: &str) -> String {
    format!("Drain not completed yet (started at {since}):")
}

impl Drain {
    /// The whole message; `since` is when the drain began.
    pub fn message(&self, since: &str) -> String {
        let mut lines = vec![head(since)];
        if !self.terminating.is_empty() {
            let pods = pods(&self.terminating);
            lines.push(format!("* {pods}: {TERMINATING}"));
        }
        lines.extend(self.refusals());
        if !self.completing.is_empty() {
            lines.push(format!("* {}: {COMPLETING}", pods(&self.completing)));
        }
        for (later, what) in [
            (&self.evict_later, "the following Pods will be evicted"),
            (&self.complete_later, "waiting for the following Pods to complete without eviction"),
        ] {
            if !later.is_empty() {
                let names = names(later);
                lines.push(format!("After above Pods have been removed from the Node, {what}: {names}"));
            }
        }
        lines.join("\n")
    }

    fn refusals(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .refused
            .iter()
            .take(REFUSALS_SHOWN)
            .map(|(words, refused)| format!("* {}: {}", pods(refused), refusal(words)))
            .collect();
        match self.refused.values().skip(REFUSALS_SHOWN).map(Vec::len).sum() {
            0_usize => {}
            1 => lines.push("* 1 Pod with other issues".to_owned()),
            rest => lines.push(format!("* {rest} Pods with other issues")),
        }
        lines
    }
}

/// The refusals that a message names, for a reader who did not ask for the evictions. Pods behind
/// `... (N more)` are not among them.
pub fn refusals(message: &str) -> Evictions {
    let mut found = Evictions::new();
    for line in message.lines() {
        let Some((pods, words)) = line
            .strip_prefix("* Pod ")
            .or_else(|| line.strip_prefix("* Pods "))
            .and_then(|line| line.split_once(": "))
            .filter(|(_, words)| *words != TERMINATING && *words != COMPLETING)
        else {
            continue;
        };
        // Refusals are put in order by the server's own words.
        let words = words.strip_prefix(FAILED).unwrap_or(words).replacen(BUDGET[1], BUDGET[0], 1);
        // The "... (N more)" at the end has no slash, and so drops out.
        let keys = pods.split(", ").filter_map(|name| name.split_once('/'));
        found.extend(
            keys.map(|(namespace, name)| (ObjectKey::new(namespace, name), Evicted::Refused(words.clone()))),
        );
    }
    found
}

fn refusal(words: &str) -> String {
    let text = words.replace(BUDGET[0], BUDGET[1]);
    if text.starts_with(BUDGET[1]) { text } else { format!("{FAILED}{text}") }
}

fn names(keys: &[ObjectKey]) -> String {
    let names: Vec<String> = keys.iter().map(ObjectKey::to_string).collect();
    join_limited(&names, 3)
}

fn pods(keys: &[ObjectKey]) -> String {
    format!("{} {}", if keys.len() == 1 { "Pod" } else { "Pods" }, names(keys))
}
