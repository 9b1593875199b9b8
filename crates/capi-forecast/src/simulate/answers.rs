//! What extensions say to updates in place, and about whom. Owns that form; must not ask anybody.

use std::collections::BTreeMap;

use capi_rules::status::in_place::Verdict;
use capi_types::key::ObjectKey;

/// What an extension says to a change, or why that is not known.
pub type InPlaceAnswer = Result<Verdict, String>;

/// Whom an answer is about: a Machine of a control plane, or an old MachineSet with all its Machines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whom {
    /// `Machine` or `MachineSet`.
    pub kind: &'static str,
    pub key: ObjectKey,
}

/// The answers to all questions that were asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InPlaceAnswers {
    pub answers: BTreeMap<Whom, InPlaceAnswer>,
    /// The objects in the questions are not completed by the server.
    pub without_dry_runs: bool,
    /// Does the engine of the server ask extensions at all, as it says itself? `None`: that is not known.
    pub gate_is_open: Option<bool>,
}

impl InPlaceAnswers {
    /// A sentence for each answer, not sanitised.
    pub fn in_words(&self) -> Vec<String> {
        let sentence = |(whom, answer): (&Whom, &InPlaceAnswer)| {
            let name = &whom.key.name;
            match (whom.kind, answer) {
                (kind, Err(why)) => {
                    format!("whether {kind} {name} can be updated in place is not known: {why}")
                }
                ("MachineSet", Ok(verdict)) => format!("Machines of MachineSet {name} are updated {verdict}"),
                (kind, Ok(verdict)) => format!("{kind} {name} is updated {verdict}"),
            }
        };
        self.answers.iter().map(sentence).collect()
    }
}
