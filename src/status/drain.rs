//! Where the drain of a Node stands: which pods go now, which are going, which must wait. Owns the
//! classification and its message; must not know how pods are read or evicted.
//! Source: cluster-api `core/reconcilers/machine/drain/*.go`, v1.14.0.
//!
//! Intended difference: MachineDrainRules are not read yet; pods follow their `drain` label only.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::wording::join_limited;
use crate::api::key::ObjectKey;
use crate::time::{Timestamp, from_k8s};

/// What came of asking for the eviction of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It is being deleted.
    Started,
    /// It is gone.
    Gone,
    /// It was refused, in the server's words.
    Refused(String),
}

/// The evictions asked for in one round.
pub type Evictions = BTreeMap<ObjectKey, Evicted>;

/// The pods of a Node that a drain cares about, each list ordered by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// To be evicted in this round.
    pub evict: Vec<ObjectKey>,
    /// On their way out: those that were already, then those evicted in this round.
    pub terminating: Vec<ObjectKey>,
    /// Evictions of this round that were refused, by the server's words.
    pub refused: BTreeMap<String, Vec<ObjectKey>>,
    /// Waited for without eviction.
    pub completing: Vec<ObjectKey>,
}

/// Pods that were deleted longer ago than this are not waited for when the Node is unreachable.
const UNREACHABLE_GRACE: TimeDelta = TimeDelta::seconds(1);

/// `Ready` is `Unknown`: its kubelet does not report, so its pods will not terminate.
#[must_use]
pub fn is_unreachable(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "Unknown")
}

enum Fate {
    Skip,
    Evict,
    WaitForCompletion,
}

/// Sorts the pods on `node`. `evictions` is what happened in this round, if it already ran.
#[must_use]
pub fn classify(node: &Node, pods: &[Pod], evictions: &Evictions, now: Timestamp) -> Drain {
    let unreachable = is_unreachable(node);
    let mut drain = Drain::default();
    let mut evicted_now = Vec::new();
    let mut pods: Vec<(ObjectKey, &Pod)> = pods.iter().map(|p| (ObjectKey::of(p), p)).collect();
    pods.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (key, pod) in pods {
        let deleted = pod.metadata.deletion_timestamp.as_ref().map(from_k8s);
        if unreachable && deleted.is_some_and(|at| now - at > UNREACHABLE_GRACE) {
            continue;
        }
        match (fate(pod), evictions.get(&key)) {
            (Fate::Skip, _) | (Fate::Evict, Some(Evicted::Gone)) => {}
            (Fate::Evict, _) if deleted.is_some() => drain.terminating.push(key),
            (Fate::Evict, Some(Evicted::Started)) => evicted_now.push(key),
            (Fate::Evict, Some(Evicted::Refused(words))) => {
                drain.refused.entry(words.clone()).or_default().push(key);
            }
            (Fate::Evict, None) => drain.evict.push(key),
            (Fate::WaitForCompletion, _) => drain.completing.push(key),
        }
    }
    drain.terminating.extend(evicted_now);
    drain
}

fn fate(pod: &Pod) -> Fate {
    let finished =
        matches!(pod.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed"));
    let controller = pod.metadata.owner_references.iter().flatten().find(|r| r.controller == Some(true));
    if controller.is_some_and(|r| r.kind == "DaemonSet") && !finished {
        return Fate::Skip;
    }
    let annotations = pod.metadata.annotations.as_ref();
    if annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")) {
        return Fate::Skip;
    }
    let label = pod.metadata.labels.as_ref().and_then(|all| all.get("cluster.x-k8s.io/drain"));
    match label.map(|value| value.to_lowercase().replace('-', "")).as_deref() {
        Some("skip") => Fate::Skip,
        Some("waitcompleted") => Fate::WaitForCompletion,
        _ => Fate::Evict,
    }
}

impl Drain {
    /// No pod is left that the drain waits for.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        *self == Self::default()
    }

    /// The message of the `Deleting` condition; `since` is when the drain began.
    #[must_use]
    pub fn message(&self, since: &str) -> String {
        let mut lines = vec![format!("Drain not completed yet (started at {since}):")];
        if !self.terminating.is_empty() {
            let pods = pods(&self.terminating);
            lines.push(format!("* {pods}: deletionTimestamp set, but still not removed from the Node"));
        }
        lines.extend(self.failures());
        if !self.completing.is_empty() {
            lines.push(format!("* {}: waiting for completion", pods(&self.completing)));
        }
        lines.join("\n")
    }

    fn failures(&self) -> Vec<String> {
        const SHOWN: usize = 5;
        let mut lines: Vec<String> = self
            .refused
            .iter()
            .take(SHOWN)
            .map(|(words, refused)| format!("* {}: {}", pods(refused), failure_text(words)))
            .collect();
        match self.refused.values().skip(SHOWN).map(Vec::len).sum() {
            0_usize => {}
            1 => lines.push("* 1 Pod with other issues".to_owned()),
            rest => lines.push(format!("* {rest} Pods with other issues")),
        }
        lines
    }
}

fn failure_text(words: &str) -> String {
    const BUDGET: &str = "cannot evict pod as it would violate the pod's disruption budget.";
    let text = words.replace("Cannot evict pod as it would violate the pod's disruption budget.", BUDGET);
    if text.starts_with(BUDGET) { text } else { format!("failed to evict Pod, {text}") }
}

fn names(keys: &[ObjectKey]) -> String {
    let names: Vec<String> = keys.iter().map(ObjectKey::to_string).collect();
    join_limited(&names, 3)
}

fn pods(keys: &[ObjectKey]) -> String {
    format!("{} {}", if keys.len() == 1 { "Pod" } else { "Pods" }, names(keys))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).expect("a pod")
    }

    fn plain(name: &str) -> Pod {
        pod(json!({"metadata": {"namespace": "default", "name": name}}))
    }

    #[test]
    fn daemon_and_mirror_pods_stay_unless_finished() {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
        let pods = [
            plain("b"),
            plain("a"),
            pod(json!({"metadata": {"namespace": "x", "name": "ds", "ownerReferences": owner}})),
            pod(json!({"metadata": {"namespace": "x", "name": "done", "ownerReferences": owner},
                       "status": {"phase": "Succeeded"}})),
            pod(
                json!({"metadata": {"namespace": "x", "name": "m", "annotations": {"kubernetes.io/config.mirror": ""}}}),
            ),
            pod(
                json!({"metadata": {"namespace": "x", "name": "s", "labels": {"cluster.x-k8s.io/drain": "Skip"}}}),
            ),
            pod(
                json!({"metadata": {"namespace": "x", "name": "w", "labels": {"cluster.x-k8s.io/drain": "wait-completed"}}}),
            ),
        ];
        let drain = classify(&Node::default(), &pods, &Evictions::new(), Timestamp::default());
        let evict: Vec<String> = drain.evict.iter().map(ToString::to_string).collect();
        assert_eq!(evict, ["default/a", "default/b", "x/done"]);
        assert_eq!(drain.completing.len(), 1);
    }

    #[test]
    fn the_message_groups_pods_by_what_holds_them() {
        let budget = "Cannot evict pod as it would violate the pod's disruption budget. needs 3";
        let evictions = Evictions::from([
            (ObjectKey::new("default", "a"), Evicted::Refused(budget.to_owned())),
            (ObjectKey::new("default", "b"), Evicted::Started),
            (ObjectKey::new("default", "c"), Evicted::Refused("boom".to_owned())),
        ]);
        let drain = classify(
            &Node::default(),
            &[plain("a"), plain("b"), plain("c")],
            &evictions,
            Timestamp::default(),
        );
        assert_eq!(
            drain.message("T"),
            "Drain not completed yet (started at T):\n\
             * Pod default/b: deletionTimestamp set, but still not removed from the Node\n\
             * Pod default/a: cannot evict pod as it would violate the pod's disruption budget. needs 3\n\
             * Pod default/c: failed to evict Pod, boom"
        );
        let gone = Evictions::from([(ObjectKey::new("default", "a"), Evicted::Gone)]);
        assert!(classify(&Node::default(), &[plain("a")], &gone, Timestamp::default()).is_complete());
    }
}
