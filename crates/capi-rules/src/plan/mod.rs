//! What should happen next, why, and why not yet: pure functions from `Observed` and `now` to a plan.
//! Owns decisions; must not know a client, a runtime, a clock, or chance.

mod action;
pub mod adoption;
pub mod begin;
pub mod bootstrap;
pub mod cluster;
pub mod control_plane;
pub mod drain;
pub mod evidence;
pub mod external;
pub mod field_owners;
pub mod in_place;
pub mod keys;
pub mod machine;
pub mod machine_deployment;
pub mod machine_health_check;
pub mod machine_pool;
pub mod machine_set;
pub mod naming;
pub mod opening;
pub mod ownership;
mod step;
pub mod sweep;
pub mod template;
pub mod version;
mod words;
mod write;

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use evidence::Evidence;

pub use action::StepAction;
pub use step::{Complaint, OnFailure, Shown, Step};
pub use write::{WorkloadCall, Write};

/// The next writes for one object, what holds it back, and when to look again if nothing changes.
///
/// Planners do not fail, they block: what could not be read is a blocker with its reason. Steps run in
/// order and stop at the first failure, unless [`OnFailure`] says otherwise. `S` is [`Step`] but for
/// [`sweep`], which deletes only what is unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<S = Step> {
    /// In the order in which they are taken.
    pub steps: Vec<S>,
    /// What holds back more. Empty for an object that is as it should be.
    pub blockers: Vec<Blocker>,
    /// The soonest moment at which time alone could change the plan.
    pub recheck: Option<Duration>,
    /// Until this time is over, no change is looked at; the next look is due after it.
    pub hold: Option<Duration>,
    /// The last step lets the object go. It is taken after the last status is written, so that watchers see the end.
    pub is_last: bool,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self { steps: Vec::new(), blockers: Vec::new(), recheck: None, hold: None, is_last: false }
    }
}

impl<S> Plan<S> {
    /// Nothing to do, and nothing in the way.
    pub fn is_idle(&self) -> bool {
        self.steps.is_empty() && self.blockers.is_empty()
    }

    /// Adds what holds the object back.
    pub fn block(&mut self, rule: impl Rule) {
        self.blockers.push(Blocker { evidence: rule.evidence(), wait: rule.wait(), reason: rule.into() });
    }

    /// Looks again after `delay` at the latest.
    pub fn recheck_within(&mut self, delay: Duration) {
        // The shortest counts: the other rules' looks are then earlier than they need.
        self.recheck = Some(self.recheck.map_or(delay, |old| old.min(delay)));
    }

    /// Looks again after `delay`, not earlier.
    pub fn hold_for(&mut self, delay: Duration) {
        // The longest counts: a shorter hold of another rule must not end it.
        self.hold = Some(self.hold.map_or(delay, |old| old.max(delay)));
    }

    /// Another rule's part of the plan, after what is there.
    pub fn extend(&mut self, other: Self) {
        self.steps.extend(other.steps);
        self.blockers.extend(other.blockers);
        // Whichever part says that the release is due: its step comes last.
        self.is_last |= other.is_last;
        if let Some(delay) = other.recheck {
            self.recheck_within(delay);
        }
        if let Some(delay) = other.hold {
            self.hold_for(delay);
        }
    }
}

impl Plan<Step> {
    /// The step that lets the object go, taken out of the plan; `None` when the object stays.
    pub fn take_release(&mut self) -> Option<Step> {
        // The release is always pushed last, so that nothing is left to be done without the object.
        if self.is_last { self.steps.pop() } else { None }
    }

    /// Adds one write as a step of its own.
    pub fn step(&mut self, write: Write, why: impl Rule) {
        self.steps.push(Step::new(write, why));
    }
}

/// Why: the name of the rule that spoke, and one sentence.
///
/// Rules are closed enums per kind that implement [`Rule`]; this is their erased form, so that plans of
/// different kinds can stand in one list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// In kebab case; stable.
    pub rule: &'static str,
    /// For a person, in upstream's words where it has some.
    pub sentence: String,
}

/// A typed reason: `Display` is the sentence.
pub trait Rule: fmt::Display {
    /// A stable name in kebab case, such as `waiting-for-infrastructure`.
    fn name(&self) -> &'static str;

    /// Where the reason can be seen, for one that holds something back.
    fn evidence(&self) -> Vec<Evidence> {
        Vec::new()
    }

    /// What ends the wait of one that holds something back.
    fn wait(&self) -> Wait {
        Wait::Stuck
    }

    /// What the failure of a step means that is taken for this reason.
    fn on_failure(&self) -> OnFailure {
        OnFailure::default()
    }
}

impl<R: Rule> From<R> for Reason {
    fn from(rule: R) -> Self {
        Self { rule: rule.name(), sentence: rule.to_string() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not under way: a person or another controller has to act, or it ends by itself.
    Stuck,
    /// Something that is under way already.
    UnderWay,
    /// A Machine that is not well; one that was made a short while ago is coming up.
    Machine,
    /// Reading the Machine's Node.
    Node,
}

/// One reason for waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// Which rule holds it back, and its sentence.
    pub reason: Reason,
    /// Whether it ends by what is under way already.
    pub wait: Wait,
    /// Where people can see it.
    pub evidence: Vec<Evidence>,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}
