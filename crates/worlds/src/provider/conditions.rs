//! Conditions of the simulated infrastructure's own objects: setting and summing up, as that provider
//! does it. Shares no code with `status`, so that a mistake there cannot hide here.
//! Source: `util/conditions`, v1.14.2, as far as two kinds with positive conditions need it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use capi_types::names::condition::{PAUSED, READY};
use capstan_base::time::{Timestamp, to_k8s};

/// The content of a condition; the list keeps the time of its last transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevCondition {
    pub type_: &'static str,
    pub holds: bool,
    pub reason: &'static str,
    pub message: String,
}

impl DevCondition {
    pub fn new(type_: &'static str, holds: bool, reason: &'static str) -> Self {
        Self { type_, holds, reason, message: String::new() }
    }

    pub fn with_message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }
}

/// Sets one condition; the list is sorted again when anything changed.
pub fn set(
    conditions: &mut Vec<Condition>,
    condition: &DevCondition,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = if condition.holds { "True" } else { "False" };
    let mut fresh = Condition {
        type_: condition.type_.to_owned(),
        status: status.to_owned(),
        reason: condition.reason.to_owned(),
        message: condition.message.clone(),
        observed_generation: generation,
        last_transition_time: to_k8s(now),
    };
    let known = conditions.iter_mut().find(|c| c.type_ == condition.type_);
    match known {
        Some(known) => {
            if known.status == status {
                // The time is that of the last change of the
                // status; a new message does not move it.
                fresh.last_transition_time.clone_from(&known.last_transition_time);
            }
            // Nothing changed, so the list is not sorted either: that alone would be a write.
            if *known == fresh {
                return;
            }
            *known = fresh;
        }
        None => conditions.push(fresh),
    }
    conditions.sort_by(|a, b| rank(&a.type_).cmp(&rank(&b.type_)));
}

/// Ready first, Paused last, the rest by name.
fn rank(type_: &str) -> (u8, &str) {
    match type_ {
        READY => (0, ""),
        PAUSED => (2, ""),
        other => (1, other),
    }
}

/// `Ready` as the sum of others, in the order given: one line for each that does not hold, with its
/// message or else its reason.
pub fn ready(parts: &[DevCondition]) -> DevCondition {
    let lines: Vec<String> = parts.iter().filter(|part| !part.holds).map(line).collect();
    if lines.is_empty() {
        DevCondition::new(READY, true, "Ready")
    } else {
        DevCondition::new(READY, false, "NotReady").with_message(lines.join("\n"))
    }
}

fn line(part: &DevCondition) -> String {
    let text = if part.message.is_empty() { part.reason } else { part.message.as_str() };
    format!("* {}: {text}", part.type_)
}

/// `Paused`, from the Cluster and the object's own annotation.
pub fn paused(kind: &str, cluster_paused: bool, annotated: bool) -> DevCondition {
    let causes = [
        (cluster_paused, "Cluster spec.paused is set to true".to_owned()),
        (annotated, format!("{kind} has the cluster.x-k8s.io/paused annotation")),
    ];
    let message: Vec<String> =
        causes.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text).collect();
    if message.is_empty() {
        DevCondition::new(PAUSED, false, "NotPaused")
    } else {
        DevCondition::new(PAUSED, true, "Paused").with_message(message.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_prints_reasons_where_there_is_no_message() {
        let parts = [
            DevCondition::new("VMProvisioned", false, "WaitingForBootstrapData"),
            DevCondition::new("NodeProvisioned", false, "WaitingForVMProvisioned"),
        ];
        let summary = ready(&parts);
        assert_eq!(
            summary.message,
            "* VMProvisioned: WaitingForBootstrapData\n* NodeProvisioned: WaitingForVMProvisioned"
        );
        assert_eq!((summary.holds, summary.reason), (false, "NotReady"));
    }

    #[test]
    fn the_turn_is_kept_until_the_status_turns() {
        let at = |s: i64| Timestamp::from_timestamp(s, 0).expect("a moment");
        let mut list = Vec::new();
        set(&mut list, &DevCondition::new("VMProvisioned", false, "A"), Some(1), at(1));
        set(&mut list, &DevCondition::new("VMProvisioned", false, "B"), Some(1), at(2));
        assert_eq!((list[0].last_transition_time.clone(), list[0].reason.as_str()), (to_k8s(at(1)), "B"));
        set(&mut list, &DevCondition::new("VMProvisioned", true, "C"), Some(1), at(3));
        assert_eq!(list[0].last_transition_time, to_k8s(at(3)));
        set(&mut list, &paused("DevMachine", false, false), Some(1), at(3));
        set(&mut list, &ready(&[]), Some(1), at(3));
        set(&mut list, &DevCondition::new("APIServerProvisioned", true, "C"), Some(1), at(3));
        let order: Vec<&str> = list.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(order, ["Ready", "APIServerProvisioned", "VMProvisioned", "Paused"]);
    }
}
