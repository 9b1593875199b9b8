//! Steps as people follow them: what is done, how often in a row, and why. Owns that form; the words are `plan`'s, and
//! decisions too.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use capi_rules::plan::{self, Reason, StepAction};

/// One thing that is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    /// Its text, such as `delete Machine md-0-7xk2p`, is `action` in JSON.
    pub does: StepAction,
    /// How many equal steps.
    pub count: usize,
    /// The rule behind it.
    pub rule: String,
    /// The sentence of the rule.
    pub reason: String,
    /// It only keeps metadata (owners, finalizers, annotations): no Machine comes, goes or changes by it.
    pub is_bookkeeping: bool,
}

impl NextStep {
    pub(crate) fn new(does: StepAction, reason: &Reason) -> Self {
        let (rule, reason) = (reason.rule.to_owned(), reason.sentence.clone());
        Self { does, count: 1, rule, reason, is_bookkeeping: false }
    }

    /// The Machine that goes, or is updated where it stands.
    pub(super) fn changed_machine(&self) -> Option<&str> {
        match &self.does {
            StepAction::UpdateInPlace { machine } => Some(machine),
            does => does.deleted_machine(),
        }
    }

    /// Whether extensions can update the Machine is not known.
    pub(crate) fn either(machine: &str, reason: &str) -> Self {
        let does = StepAction::UpdateOrReplace { machine: machine.to_owned() };
        let (rule, reason) = ("in-place-or-replaced".to_owned(), reason.to_owned());
        Self { does, count: 1, rule, reason, is_bookkeeping: false }
    }
}

impl Serialize for NextStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut step = serializer.serialize_struct("NextStep", 6)?;
        step.serialize_field("action", &self.does.to_string())?;
        step.serialize_field("does", &self.does)?;
        step.serialize_field("count", &self.count)?;
        step.serialize_field("rule", &self.rule)?;
        step.serialize_field("reason", &self.reason)?;
        step.serialize_field("isBookkeeping", &self.is_bookkeeping)?;
        step.end()
    }
}

/// The steps of a plan. Events are left out, and what is made for a new Machine goes with it.
/// `replicas`: how many a MachineSet has now, by name.
pub fn next_steps(steps: &[plan::Step], replicas: &dyn Fn(&str) -> Option<i32>) -> Vec<NextStep> {
    // Clones are told only where no Machine is made with them.
    let makes_machine = steps.iter().any(plan::Step::makes_machine);
    let mut all: Vec<NextStep> = Vec::new();
    for step in steps {
        for does in step.actions(replicas) {
            let is_part = matches!(does, StepAction::Create { .. }) && does.created_machine().is_none();
            if !(makes_machine && is_part) {
                let is_bookkeeping = step.is_bookkeeping;
                push(&mut all, NextStep { is_bookkeeping, ..NextStep::new(does, &step.reason) });
            }
        }
    }
    all
}

/// A step like the one before only raises its count.
fn push(all: &mut Vec<NextStep>, step: NextStep) {
    match all.last_mut() {
        // Only neighbours, since the order of steps is what a plan says.
        Some(last) if last.does == step.does && last.reason == step.reason => last.count += 1,
        _ => all.push(step),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_has_a_step_as_text_and_as_data() {
        let (kind, name) = ("MachineSet".to_owned(), "md-0-x".to_owned());
        let reason = Reason { rule: "rolling", sentence: "3 of 5".to_owned() };
        let scale = NextStep::new(StepAction::Scale { kind, name, from: Some(3), to: 5 }, &reason);
        let expected = json!({"action": "scale MachineSet md-0-x 3 → 5", "count": 1, "rule": "rolling", "reason": "3 of 5",
            "isBookkeeping": false, "does": {"verb": "scale", "kind": "MachineSet", "name": "md-0-x", "from": 3, "to": 5}});
        assert_eq!(json!(scale), expected);
        let either = json!(NextStep::either("m", ""));
        assert_eq!(either["does"], json!({"verb": "updateOrReplace", "machine": "m"}));
    }
}
