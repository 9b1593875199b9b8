//! What one Machine of a rollout does: coming, going, well, or waiting for its turn. Must not know owners.

use crate::fleet::Verdict;
use crate::fleet::judge::Starts;
use crate::fleet::row::{Condition, Row, RowId};
use crate::fleet::usual::{Limits, Step};
use capi_rules::status::conditions::wording::IN_PLACE;
use capi_types::condition::Status;

/// What a Machine does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachinePhase {
    /// Old, and nothing happens to it.
    Waiting,
    /// New and available.
    Ok,
    /// New and not ready yet.
    Starting {
        step: Step,
        /// What that step usually takes; `None` without enough samples.
        usual: Option<Limits>,
    },
    /// Ready, for less than its `minReadySeconds`.
    Settling,
    /// Changed in place; with the last words of its extension.
    Updating { words: std::sync::Arc<str> },
    /// Going: the reason of its condition `Deleting`, and whether a disruption budget holds its drain.
    Deleting { reason: std::sync::Arc<str>, is_held_by_budget: bool },
}

impl MachinePhase {
    /// Something happens to it.
    pub fn is_moving(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Ok)
    }
}

/// One Machine of an owner that may roll.
#[derive(Clone, Debug, PartialEq)]
pub struct RollingMachine {
    pub id: RowId,
    /// It differs from what its owner wants.
    pub is_old: bool,
    pub phase: MachinePhase,
    /// When the phase (of a Machine that starts: its step) began, seconds since the epoch; 0: not known.
    pub since_s: u32,
    pub created_s: u32,
    /// When it was ready for the last time that it turned so; 0: it is not.
    pub ready_s: u32,
    /// A pause ended between its creation and that.
    pub was_paused: bool,
    /// Of the Machine taken alone.
    pub verdict: Verdict,
}

impl RollingMachine {
    /// How long it took from its creation until it was ready, seconds. `None`: it is not ready, or a pause came between.
    pub fn up_s(&self) -> Option<u32> {
        let is_measured = self.created_s != 0 && self.ready_s >= self.created_s && !self.was_paused;
        is_measured.then(|| self.ready_s - self.created_s)
    }
}

/// What is around a Machine.
pub(super) struct Around {
    /// The version that its owner wants; empty: none is named.
    pub version: std::sync::Arc<str>,
    pub infrastructure_s: u32,
    pub initialized_s: u32,
}

impl Around {
    /// Is it to be replaced? By its owner's account, or, before that is given, by its version.
    pub(super) fn is_old(&self, row: &Row) -> bool {
        let is_marked = row.condition("UpToDate").is_some_and(|c| c.status == Status::False);
        let differs = !self.version.is_empty() && !row.version.is_empty() && row.version != self.version;
        is_marked || differs
    }

    pub(super) fn machine(
        &self,
        id: RowId,
        row: &Row,
        limits: [Option<Limits>; 4],
        verdict: Verdict,
    ) -> RollingMachine {
        let is_old = self.is_old(row);
        let ready_s = true_since(row, "Ready");
        let (phase, since_s) = self.phase(row, is_old, limits);
        let (created_s, was_paused) = (row.created_s, row.was_paused_before(ready_s));
        RollingMachine { id, is_old, phase, since_s, created_s, ready_s, was_paused, verdict }
    }

    fn phase(&self, row: &Row, is_old: bool, limits: [Option<Limits>; 4]) -> (MachinePhase, u32) {
        if row.is_deleting() {
            // First: a Machine that goes may still be marked as updating or old.
            return deleting(row);
        }
        if let Some(c) = is_true(row, "Updating") {
            let said = c.message.lines().next().unwrap_or_default();
            let words =
                said.strip_prefix(IN_PLACE).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(said).into();
            return (MachinePhase::Updating { words }, c.since_s);
        }
        if is_old {
            return (MachinePhase::Waiting, 0);
        }
        let ready = is_true(row, "Ready");
        match (ready, is_true(row, "Available")) {
            (_, Some(c)) => (MachinePhase::Ok, c.since_s),
            // Objects of the older kind have no such condition.
            (Some(c), None) if row.condition("Available").is_none() => (MachinePhase::Ok, c.since_s),
            (Some(c), None) => (MachinePhase::Settling, c.since_s),
            (None, None) => {
                let starts = Starts::of(row, self.infrastructure_s, self.initialized_s);
                let step = starts.current();
                (MachinePhase::Starting { step, usual: limits[step as usize] }, starts.start_s(step))
            }
        }
    }
}

fn deleting(row: &Row) -> (MachinePhase, u32) {
    use capi_rules::status::conditions::wording::BUDGET;
    let condition = is_true(row, "Deleting");
    let reason = condition.map_or_else(|| "".into(), |c| c.reason.clone());
    let is_held_by_budget = condition.is_some_and(|c| c.message.contains(BUDGET));
    (MachinePhase::Deleting { reason, is_held_by_budget }, row.deleting_since_s)
}

fn is_true<'a>(row: &'a Row, type_: &str) -> Option<&'a Condition> {
    row.condition(type_).filter(|c| c.status == Status::True)
}

pub(super) fn true_since(row: &Row, type_: &str) -> u32 {
    is_true(row, type_).map_or(0, |c| c.since_s)
}
