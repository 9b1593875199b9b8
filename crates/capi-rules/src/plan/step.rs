//! One thing to do: what is written for it, why it is due, and what its failure means. Data only; must not know
//! how it is performed.

use super::{Reason, Rule, StepAction, Write};
use crate::status::machine::Failed;
use capi_types::key::ObjectRef;

/// One thing to do and why. Every planner answers with these; `controllers::apply` performs them.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What it does, where one word says it better than its writes. `None`: what each of its writes does.
    pub action: Option<StepAction>,
    /// In order, up to the first that fails.
    pub writes: Vec<Write>,
    /// Which rule wants it, and its sentence.
    pub reason: Reason,
    /// It only keeps metadata (owners, finalizers, annotations): no Machine comes, goes or changes by it.
    pub is_bookkeeping: bool,
    /// By default the plan ends there.
    pub on_failure: OnFailure,
}

/// What follows when a write of a step fails. By default the plan ends there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnFailure {
    /// The step needs no other and no other needs it: it is tried also after another step failed.
    pub is_independent: bool,
    /// What the step created is deleted again.
    pub is_undone: bool,
    /// Written about the failure; `None`: nothing is written.
    pub event: Option<Complaint>,
    /// Where the status of the planned object shows the failure.
    pub shown: Option<Shown>,
}

/// A warning event about a failure. Its message is what was tried, and the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The object that the event is about.
    pub about: ObjectRef,
    /// One word in CamelCase, as events have it.
    pub reason: &'static str,
    /// Such as `Failed to create MachineSet ns/x`.
    pub tried: String,
}

/// A failure that a status shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// In the `Deleting` condition of a Cluster.
    ClusterDeletion,
    /// In the `Deleting` condition of a Machine.
    MachineDeletion(Failed),
}

impl Step {
    /// One write that needs no other words than its own.
    pub fn new(write: Write, why: impl Rule) -> Self {
        Self {
            action: None,
            is_bookkeeping: write.is_of_metadata(),
            writes: vec![write],
            on_failure: why.on_failure(),
            reason: why.into(),
        }
    }

    /// Several writes for one thing; `None` when there are none.
    pub fn of(writes: Vec<Write>, why: impl Rule) -> Option<Self> {
        let mut writes = writes.into_iter();
        let mut step = Self::new(writes.next()?, why);
        step.writes.extend(writes);
        // A single write that changes more makes the whole step worth a line.
        step.is_bookkeeping = step.writes.iter().all(Write::is_of_metadata);
        Some(step)
    }

    /// The same, with an event when it fails.
    pub fn or_complain(mut self, about: ObjectRef, reason: &'static str, tried: String) -> Self {
        self.on_failure.event = Some(Complaint { about, reason, tried });
        self
    }

    /// Does one of its writes create a Machine?
    pub fn makes_machine(&self) -> bool {
        let is_machine =
            |write: &Write| matches!(write, Write::Create { object, .. } if object.gvk.kind == "Machine");
        self.writes.iter().any(is_machine)
    }

    /// By name; `None` when the step deletes something else, or nothing.
    pub fn deleted_machine(&self) -> Option<&str> {
        self.writes.iter().find_map(|write| match write {
            Write::Delete { object } if object.gvk.kind == "Machine" => Some(object.key.name.as_str()),
            _ => None,
        })
    }
}
