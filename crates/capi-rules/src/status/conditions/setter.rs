//! Setting and ordering conditions. Owns the rules every kind shares; must not know any kind, nor where
//! the time comes from. Merging many into one is `merge`.
//! Source: cluster-api `util/conditions/{setter,sort}.go`, v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status::conditions::new_condition::{NewCondition, UNSTAMPED};
use capi_types::condition::{self, Status};
use capi_types::condition_types::rank;
use capstan_base::time::{Timestamp, from_k8s, to_k8s};

/// Upstream's message when the details are only in its log.
pub const CHECK_LOGS: &str = "Please check controller logs for errors";

/// A condition without a transition time: [`set`] stamps it when the status turns.
pub fn condition(type_: &str, status: Status, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        last_transition_time: UNSTAMPED,
        observed_generation: None,
    }
}

/// `Unknown` because something broke on our side: reason `InternalError`, the message points to the log.
pub fn internal_error(type_: &str) -> NewCondition<'_> {
    NewCondition::new(type_, Status::Unknown, "InternalError", CHECK_LOGS)
}

/// A condition list being rewritten for one object at one moment.
///
/// Every write goes through [`Draft::set`], so transition times, generations and order are right
/// however often a type is set.
#[derive(Clone, Debug)]
pub struct Draft {
    list: Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
    changed: bool,
}

impl Draft {
    /// Starts from the stored list. `generation` is the object's `metadata.generation`.
    pub fn new(stored: impl Into<Vec<Condition>>, generation: Option<i64>, now: Timestamp) -> Self {
        Self { list: stored.into(), generation, now, changed: false }
    }

    /// Puts the condition in; its transition time stays when the status does.
    pub fn set<'a>(&mut self, new: impl Into<NewCondition<'a>>) {
        self.changed |= put(&mut self.list, new.into(), self.generation, self.now);
    }

    /// Takes the condition away.
    pub fn remove(&mut self, type_: &str) {
        remove(&mut self.list, type_);
    }

    /// The condition as it is now, set or stored.
    pub fn find(&self, type_: &str) -> Option<&Condition> {
        condition::find(&self.list, type_)
    }

    /// The messages so far, in no particular order.
    pub fn list(&self) -> &[Condition] {
        &self.list
    }

    /// The list to store. One that did not change is not re-sorted.
    pub fn finish(mut self) -> Vec<Condition> {
        if self.changed {
            sort(&mut self.list);
        }
        self.list
    }
}

/// Puts `new` into the list. The stored transition time stays unless the status turns; then it is
/// that of `new`, or `now` when `new` has none. A list that did not change is not re-sorted.
/// Source: `Set` in `setter.go`.
pub fn set<'a>(
    list: &mut Vec<Condition>,
    new: impl Into<NewCondition<'a>>,
    generation: Option<i64>,
    now: Timestamp,
) {
    if put(list, new.into(), generation, now) {
        sort(list);
    }
}

/// [`set`] without the order. Says whether anything changed.
fn put(list: &mut Vec<Condition>, new: NewCondition<'_>, generation: Option<i64>, now: Timestamp) -> bool {
    let old = list.iter_mut().find(|c| c.type_ == new.type_);
    let kept = old.as_ref().filter(|old| old.status == new.status);
    // The generation counts as well: upstream moves it even when nothing else changes.
    if kept.is_some_and(|old| {
        old.reason == new.reason && old.message == new.message && old.observed_generation == generation
    }) {
        return false;
    }
    let last_transition_time = match kept {
        Some(old) => old.last_transition_time.clone(),
        None if new.since == UNSTAMPED => to_k8s(now),
        // Whole seconds only, as servers store them; a fraction would look like a change later.
        None => to_k8s(from_k8s(&new.since)),
    };
    let written = Condition { last_transition_time, observed_generation: generation, ..Condition::from(new) };
    match old {
        Some(old) => *old = written,
        None => list.push(written),
    }
    true
}

/// Drops the type; the rest keeps its order.
pub fn remove(list: &mut Vec<Condition>, type_: &str) {
    list.retain(|c| c.type_ != type_);
}

/// The order of a stored list: the well-known types, then everybody else's by name, then `Paused`
/// and `Deleting`. Source: `defaultSortLessFunc` in `sort.go`.
pub fn sort(list: &mut [Condition]) {
    // Nearly always sorted already, and this look costs one comparison each.
    if !list.is_sorted_by_key(place) {
        list.sort_by(|a, b| place(a).cmp(&place(b)));
    }
}

fn place(condition: &Condition) -> (usize, &str) {
    (rank(&condition.type_), &condition.type_)
}

/// The `Paused` condition of an object of `kind`.
/// Source: `util/paused/paused.go`.
pub fn paused(kind: &str, cluster_paused: bool, annotated: bool) -> Condition {
    let mut causes = Vec::new();
    if cluster_paused {
        causes.push("Cluster spec.paused is set to true".to_owned());
    }
    if annotated {
        causes.push(format!("{kind} has the cluster.x-k8s.io/paused annotation"));
    }
    if causes.is_empty() {
        not_paused().into()
    } else {
        condition("Paused", Status::True, "Paused", causes.join(", "))
    }
}

/// The `Paused` condition of an object that is not paused, of whatever kind.
pub fn not_paused() -> NewCondition<'static> {
    NewCondition::new("Paused", Status::False, "NotPaused", "")
}

/// The `Deleting` condition of an object that is not being deleted.
pub fn not_deleting() -> NewCondition<'static> {
    NewCondition::new("Deleting", Status::False, "NotDeleting", "")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use capstan_base::time::{parse_rfc3339, rfc3339};

    fn at(text: &str) -> Timestamp {
        parse_rfc3339(text).expect("a moment")
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let (t0, t1) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T01:00:00Z"));
        let mut list = Vec::new();
        set(&mut list, condition("Ready", Status::False, "NotReady", ""), Some(1), t0);
        set(&mut list, condition("Ready", Status::False, "NotReady", "why"), Some(2), t1);
        assert_eq!(list[0].last_transition_time, to_k8s(t0));
        assert_eq!((list[0].message.as_str(), list[0].observed_generation), ("why", Some(2)));
        set(&mut list, condition("Ready", Status::True, "Ready", ""), Some(2), t1);
        assert_eq!(list[0].last_transition_time, to_k8s(t1));
    }

    #[test]
    fn the_stored_order_is_upstreams() {
        let mut draft = Draft::new(&[], Some(1), at("2026-01-01T00:00:00Z"));
        for type_ in ["Deleting", "Paused", "ZGate", "AGate", "ScalingUp", "Ready", "Available"] {
            draft.set(condition(type_, Status::True, "X", ""));
        }
        let stored = draft.finish();
        let order: Vec<_> = stored.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(order, ["Available", "Ready", "ScalingUp", "AGate", "ZGate", "Paused", "Deleting"]);
    }

    #[test]
    fn pausing_names_every_cause() {
        let both = paused("Machine", true, true);
        assert_eq!(
            both.message,
            "Cluster spec.paused is set to true, Machine has the cluster.x-k8s.io/paused annotation"
        );
        assert_eq!(paused("Machine", false, false).reason, "NotPaused");
    }

    #[test]
    fn a_list_out_of_order_stays_so_until_something_changes() {
        let t0 = at("2026-01-01T00:00:00Z");
        let mut list = vec![
            condition("Deleting", Status::False, "NotDeleting", ""),
            condition("Ready", Status::True, "Ready", ""),
        ];
        set(&mut list, condition("Ready", Status::True, "Ready", ""), None, t0);
        assert_eq!(list[0].type_, "Deleting");
        set(&mut list, condition("Ready", Status::True, "Ready", "by the way"), None, t0);
        assert_eq!(list[0].type_, "Ready");
    }

    #[test]
    fn a_mirrored_transition_time_counts_only_when_the_status_turns() {
        let (t0, t1, t2) =
            (at("2026-01-01T00:00:00Z"), at("2026-01-01T01:00:00.9Z"), at("2026-01-01T02:00:00Z"));
        let mirrored = |status, time| Condition {
            last_transition_time: Time(jiff::Timestamp::from_second(time).expect("in range")),
            ..condition("InfrastructureReady", status, "R", "")
        };
        let mut list = Vec::new();
        set(&mut list, mirrored(Status::False, t0.timestamp()), None, t2);
        set(&mut list, mirrored(Status::False, t1.timestamp()), None, t2);
        assert_eq!(from_k8s(&list[0].last_transition_time), t0);
        set(&mut list, mirrored(Status::True, t1.timestamp()), None, t2);
        assert_eq!(rfc3339(from_k8s(&list[0].last_transition_time)), "2026-01-01T01:00:00Z");
    }
}
