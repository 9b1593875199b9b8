//! Updates in place in a world: what extensions said before it began, and how far the update of each Machine is. Owns that
//! knowledge; must not ask anybody, nor decide which Machines are updated: the planners do.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::key::ObjectKey;
use crate::forecast::in_place::{InPlaceAnswers, Whom};
use crate::status::in_place::{InPlace, Replace, Verdict};

/// How far an extension is with a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It was not asked to update this Machine before.
    Begins,
    Runs,
    /// The host is what the Machine asks for.
    Done,
}

/// Answers, and Machines that are being updated.
#[derive(Clone, Debug, Default)]
pub(super) struct Updates {
    /// `None`: Machines are only replaced.
    answers: Option<Arc<InPlaceAnswers>>,
    /// By the name of the Machine.
    turns: BTreeMap<String, Turn>,
}

impl Updates {
    pub(super) fn new(answers: Option<Arc<InPlaceAnswers>>) -> Self {
        Self { answers, turns: BTreeMap::new() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.answers.is_some()
    }

    /// Before any question.
    pub(super) fn nothing_asked(&self) -> InPlace {
        if self.is_on() { InPlace::On(BTreeMap::new()) } else { InPlace::Off }
    }

    /// What is known of these. Of one that nobody asked about, such as a MachineSet that was made since, nothing is
    /// promised: its Machines are replaced.
    pub(super) fn answers(&self, kind: &'static str, keys: impl IntoIterator<Item = ObjectKey>) -> InPlace {
        let Some(asked) = &self.answers else { return InPlace::Off };
        let answer = |key: ObjectKey| {
            let name = key.name.clone();
            let known = asked.answers.get(&Whom { kind, key }).cloned();
            (name, known.unwrap_or(Ok(Verdict::Replace(Replace::NoExtension))))
        };
        InPlace::On(keys.into_iter().map(answer).collect())
    }

    /// The extension is asked to go on with a Machine.
    pub(super) fn ask(&mut self, machine: &str) -> Turn {
        match self.turns.get(machine) {
            Some(turn) => *turn,
            None => {
                self.turns.insert(machine.to_owned(), Turn::Runs);
                Turn::Begins
            }
        }
    }

    /// The host of a Machine is updated.
    pub(super) fn end(&mut self, machine: &str) {
        self.turns.insert(machine.to_owned(), Turn::Done);
    }

    /// Its owner knows of the end; the next update begins anew.
    pub(super) fn forget(&mut self, machine: &str) {
        self.turns.remove(machine);
    }
}
