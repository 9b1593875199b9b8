//! Updates in place in a world: what extensions said before it began, and how far the update of each Machine is. Owns that
//! knowledge; must not ask anybody, nor decide which Machines are updated: the planners do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::answers::{InPlaceAnswers, Whom};
use capi_rules::status::in_place::{InPlace, Replace, Verdict};
use capi_types::key::ObjectKey;

/// How far an extension is with a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It was not asked to update this Machine before.
    Begins,
    Runs,
    /// The host is what the Machine asks for.
    Done,
}

/// What extensions must have said before a world began, by what is under way in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    /// MachineSets that hand their Machines over.
    sets: BTreeSet<String>,
    /// Machines of control planes that update others of theirs: the same is expected to be said to them.
    machines: BTreeSet<String>,
}

impl Agreed {
    pub(super) fn new(sets: BTreeSet<String>, machines: BTreeSet<String>) -> Self {
        Self { sets, machines }
    }

    fn has(&self, kind: &str, name: &str) -> bool {
        if kind == "MachineSet" { self.sets.contains(name) } else { self.machines.contains(name) }
    }
}

/// Answers, and Machines that are being updated.
#[derive(Clone, Debug, Default)]
pub(super) struct Updates {
    /// `None`: Machines are only replaced.
    answers: Option<Arc<InPlaceAnswers>>,
    /// What is under way at the beginning; `None`: nothing.
    agreed: Option<Agreed>,
    /// By the name of the Machine.
    turns: BTreeMap<String, Turn>,
}

impl Updates {
    pub(super) fn new(answers: Option<Arc<InPlaceAnswers>>, agreed: Option<Agreed>) -> Self {
        Self { answers, agreed, turns: BTreeMap::new() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.answers.is_some() || self.agreed.is_some()
    }

    /// Before any question.
    pub(super) fn nothing_asked(&self) -> InPlace {
        if self.is_on() { InPlace::On(BTreeMap::new()) } else { InPlace::Off }
    }

    /// What is known of these. Of one that nobody asked about, such as a MachineSet that was made since, nothing is
    /// promised: its Machines are replaced.
    pub(super) fn answers(&self, kind: &'static str, keys: impl IntoIterator<Item = ObjectKey>) -> InPlace {
        if !self.is_on() {
            return InPlace::Off;
        }
        let is_agreed = |name: &str| self.agreed.as_ref().is_some_and(|agreed| agreed.has(kind, name));
        let answer = |key: ObjectKey| {
            let name = key.name.clone();
            let asked =
                self.answers.as_ref().and_then(|asked| asked.answers.get(&Whom { kind, key }).cloned());
            let unasked = match is_agreed(&name) {
                true => Verdict::InPlace { covered: Vec::new() },
                false => Verdict::Replace(Replace::NoExtension),
            };
            // What extensions said before outweighs what the marks of objects let one expect.
            (name, asked.unwrap_or(Ok(unasked)))
        };
        InPlace::On(keys.into_iter().map(answer).collect())
    }

    /// The extension is asked to go on with a Machine.
    pub(super) fn ask(&mut self, machine: &str) -> Turn {
        match self.turns.get(machine) {
            // An extension that is asked again answers how far it is, and begins nothing anew.
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
