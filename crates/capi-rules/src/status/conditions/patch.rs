//! Conditions of one object that several writers share: what one run changed, laid over what the object
//! says by now. Owns who may win; must not know how objects are read or written.
//! Source: cluster-api `util/conditions/patch.go`, v1.14.2.
//!
//! Intended difference: a conflict shows the two versions in one line each, not a Go diff.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status::conditions::setter::{set, sort};
use capi_types::condition::find;
use capstan_base::time::from_k8s;

/// What happened to one type between two lists.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    Add(Condition),
    Modify { before: Condition, after: Condition },
    Remove(Condition),
}

/// The difference between the conditions that a run read and those that it leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConditionPatch {
    changes: Vec<Change>,
}

/// Somebody else changed a condition that this writer does not own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "error patching conditions: The condition {type_:?} was modified by a different process and this caused a \
     merge/{operation}Condition conflict: {difference}"
)]
pub struct Conflict {
    /// Of the condition.
    pub type_: String,
    /// `Add`, `Change` or `Remove`.
    pub operation: &'static str,
    /// What this writer and the other one have.
    pub difference: String,
}

impl ConditionPatch {
    /// Anything that differs counts as a change, the transition time included.
    pub fn between(before: &[Condition], after: &[Condition]) -> Self {
        let written = after.iter().filter_map(|c| match find(before, &c.type_) {
            None => Some(Change::Add(c.clone())),
            Some(old) if old != c => Some(Change::Modify { before: old.clone(), after: c.clone() }),
            Some(_) => None,
        });
        let gone = before.iter().filter(|c| find(after, &c.type_).is_none()).cloned().map(Change::Remove);
        Self { changes: written.chain(gone).collect() }
    }

    /// Is nothing to be written?
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// `latest` with the changes laid over it, sorted when there are any. Of types in `owned` this writer wins; of others
    /// only when no other writer touched them, or when the others came to the same state.
    ///
    /// # Errors
    /// The first type that another writer changed differently.
    pub fn apply(&self, latest: &[Condition], owned: &[&str]) -> Result<Vec<Condition>, Conflict> {
        let mut list = latest.to_vec();
        // Not even sorted: a write for the order alone would wake every reader.
        if self.is_empty() {
            return Ok(list);
        }
        for change in &self.changes {
            let type_ = change.type_();
            if owned.contains(&type_) || change.may_be_laid_over(find(latest, type_))? {
                change.perform(&mut list);
            }
        }
        sort(&mut list);
        Ok(list)
    }
}

impl Change {
    fn type_(&self) -> &str {
        match self {
            Self::Add(c) | Self::Remove(c) | Self::Modify { after: c, .. } => &c.type_,
        }
    }

    /// Of a type that is not owned: `false` when the latest is to be kept.
    fn may_be_laid_over(&self, latest: Option<&Condition>) -> Result<bool, Conflict> {
        match (self, latest) {
            (Self::Add(_), None) => Ok(true),
            // Somebody else took it away already.
            (Self::Remove(_), None) => Ok(false),
            // Equal states: the other writer's time stays, for that one was stored first.
            (Self::Add(after), Some(now)) if same_state(after, now) => Ok(false),
            (Self::Modify { before, .. }, Some(now)) if before == now => Ok(true),
            (Self::Modify { after, .. }, Some(now)) if same_state(after, now) => Ok(false),
            (Self::Remove(before), Some(now)) if same_state(before, now) => Ok(true),
            _ => Err(self.conflict(latest)),
        }
    }

    fn perform(&self, list: &mut Vec<Condition>) {
        match self {
            Self::Add(c) | Self::Modify { after: c, .. } => {
                set(list, c.clone(), c.observed_generation, from_k8s(&c.last_transition_time));
            }
            Self::Remove(c) => list.retain(|other| other.type_ != c.type_),
        }
    }

    fn conflict(&self, latest: Option<&Condition>) -> Conflict {
        let words = |c: &Condition| format!("{}/{} {:?}", c.status, c.reason, c.message);
        let now = latest.map_or_else(|| "deleted".to_owned(), words);
        let (operation, wanted) = match self {
            Self::Add(c) => ("Add", words(c)),
            Self::Modify { after, .. } => ("Change", words(after)),
            Self::Remove(_) => ("Remove", "deleted".to_owned()),
        };
        let difference = format!("is {now}, was to become {wanted}");
        Conflict { type_: self.type_().to_owned(), operation, difference }
    }
}

/// Equal but for the transition time.
fn same_state(a: &Condition, b: &Condition) -> bool {
    let state = |c: &Condition| {
        (c.type_.clone(), c.status.clone(), c.reason.clone(), c.message.clone(), c.observed_generation)
    };
    state(a) == state(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::conditions::setter::condition;
    use capi_types::condition::Status;
    use capstan_base::time::{parse_rfc3339, to_k8s};

    /// `STATUS/REASON`, at an hour of the day.
    fn said(text: &str, hour: u32) -> Condition {
        let (status, reason) = text.split_once('/').expect("STATUS/REASON");
        let status = Status::of(status == "True");
        let at = parse_rfc3339(&format!("2026-01-01T{hour:02}:00:00Z")).expect("a moment");
        Condition { last_transition_time: to_k8s(at), ..condition("Ready", status, reason, "") }
    }

    fn list(text: &str, hour: u32) -> Vec<Condition> {
        if text.is_empty() { Vec::new() } else { vec![said(text, hour)] }
    }

    fn outcome(before: &str, after: &str, latest: &str, owned: bool) -> String {
        let patch = ConditionPatch::between(&list(before, 1), &list(after, 2));
        let owned: &[&str] = if owned { &["Ready"] } else { &[] };
        match patch.apply(&list(latest, if latest == before { 1 } else { 3 }), owned) {
            Ok(list) => list.first().map_or_else(String::new, |c| {
                let hour = from_k8s(&c.last_transition_time).format("%H");
                format!("{}/{} {hour}", c.status, c.reason)
            }),
            Err(conflict) => format!("conflict {}", conflict.operation),
        }
    }

    #[test]
    fn who_wins_is_a_table() {
        for (before, after, latest, not_owned, owned) in [
            ("", "True/A", "", "True/A 02", "True/A 02"),
            ("", "True/A", "True/A", "True/A 03", "True/A 03"),
            ("", "True/A", "False/B", "conflict Add", "True/A 02"),
            ("True/A", "False/B", "True/A", "False/B 02", "False/B 02"),
            ("True/A", "False/B", "False/B", "False/B 03", "False/B 03"),
            ("True/A", "False/B", "True/C", "conflict Change", "False/B 02"),
            ("True/A", "False/B", "", "conflict Change", "False/B 02"),
            ("True/A", "", "True/A", "", ""),
            ("True/A", "", "", "", ""),
            ("True/A", "", "False/B", "conflict Remove", ""),
            // Not changed by this run: whatever it is now stays, owned or not.
            ("", "", "False/B", "False/B 03", "False/B 03"),
        ] {
            let case = format!("{before:?} → {after:?}, by now {latest:?}");
            assert_eq!(outcome(before, after, latest, false), not_owned, "{case}, not owned");
            assert_eq!(outcome(before, after, latest, true), owned, "{case}, owned");
        }
    }

    #[test]
    fn conditions_of_others_survive_and_the_order_is_restored() {
        let other = condition("HealthCheckSucceeded", Status::True, "H", "");
        let latest = [other.clone(), said("False/B", 1)];
        let patch = ConditionPatch::between(&list("False/B", 1), &list("True/A", 2));
        let stored = patch.apply(&latest, &["Ready"]).expect("owned");
        assert_eq!(stored, [said("True/A", 2), other]);
    }

    #[test]
    fn a_conflict_says_which_condition_and_both_versions() {
        let patch = ConditionPatch::between(&[], &list("True/A", 1));
        let conflict = patch.apply(&list("False/B", 1), &[]).expect_err("not owned");
        assert_eq!(
            conflict.to_string(),
            "error patching conditions: The condition \"Ready\" was modified by a different process and this caused \
             a merge/AddCondition conflict: is False/B \"\", was to become True/A \"\""
        );
    }
}
