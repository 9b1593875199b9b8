//! Rules for what is being deleted. What belongs to a deletion (an unhealthy Node, a member that leaves) is
//! never counted; how long it takes is.

use super::{Basis, DELETION_S, Judgement, RETRIED_S, Rank, Rules, Slow};
use crate::fleet::Verdict;
use crate::fleet::row::Kind;
use capi_rules::status::conditions::wording::{BUDGET, DELAY_CAUSE, OVERDUE};
use capi_types::condition::Status;

/// A Machine that has not finished a step of its deletion by then takes longer than usual.
const SLOW_S: u32 = 5 * 60;
/// So much longer than its timeout a forced step may take.
const FORCED_S: u32 = 60;

/// Older conditions that are false while a stage of a Machine's deletion lasts, in the order of the stages.
/// Source: `api/core/v1beta1/condition_consts.go`, v1.14.2.
const OLDER_STAGES: [(&str, &str); 4] = [
    ("PreDrainDeleteHookSucceeded", "WaitingForPreDrainHook"),
    ("DrainingSucceeded", "DrainingNode"),
    ("VolumeDetachSucceeded", "WaitingForVolumeDetach"),
    ("PreTerminateDeleteHookSucceeded", "WaitingForPreTerminateHook"),
];

impl<'a> Rules<'a> {
    pub(super) fn deleting(&mut self) {
        let condition = self.stage();
        let why = condition.map_or(Basis::Deleting, |(at, _)| Basis::Condition(at));
        let start_s = self.row.deleting_since_s;
        let reason = condition.map_or("", |(_, reason)| reason);
        if self.is_paused() {
            // Controllers leave a paused object alone, so that its deletion ends only after
            // somebody ends the pause.
            let rank = Rank::Hold;
            // A Machine that a rollout replaces waits while the rollout is paused, which is not a fault.
            let is_of_rollout = self.status("UpToDate") == Some(Status::False);
            return self.claim(Judgement {
                verdict: if is_of_rollout { Verdict::Progressing } else { Verdict::Blocked },
                why,
                rank,
                since_s: start_s,
                delay_s: RETRIED_S,
                ..Judgement::WELL
            });
        }
        if reason == "InternalError"
            && let Some((at, _)) = condition
        {
            return self.fault(Verdict::Degraded, at, RETRIED_S);
        }
        // It waits for other objects, whose own deletions explain more. What a Machine waits for
        // has no row here.
        let rank = if reason.ends_with("Deletion") && self.row.kind != Kind::Machine {
            Rank::Echo
        } else {
            Rank::Acting
        };
        let stage_s = self.stage_s(reason).unwrap_or(start_s);
        let (limit_s, after) = self.patience(reason);
        self.until(stage_s, limit_s, why, rank, after);
        // A stage with a time-out ends by itself, however long that is.
        if !self.is_forced(reason) {
            // Whatever the stage: a deletion as a whole is never calm for longer.
            self.until(start_s, DELETION_S, why, rank, Verdict::Degraded);
        }
        if self.found.verdict == Verdict::Progressing && self.has_passed(stage_s, SLOW_S) {
            self.found.slow = Some(Slow { since_s: stage_s, low_s: 0, high_s: SLOW_S });
        }
        self.overdue();
    }

    /// The condition that has the stage of the deletion, and the stage in the words of the newer kind.
    fn stage(&self) -> Option<(usize, &'a str)> {
        let newer = self.find("Deleting").filter(|(_, c)| c.status == Status::True);
        let older = || {
            let mut stages = OLDER_STAGES.into_iter().filter(|_| self.row.legacy);
            stages.find_map(|(type_, stage)| {
                let (at, _) = self.find(type_).filter(|(_, c)| c.status == Status::False)?;
                Some((at, stage))
            })
        };
        newer.map(|(at, c)| (at, c.reason.as_ref())).or_else(older)
    }

    /// When the stage of a Machine's deletion began, where the Machine keeps it.
    fn stage_s(&self, reason: &str) -> Option<u32> {
        let deletion = self.row.machine()?.deletion.as_ref()?;
        let at_s = match reason {
            "WaitingForPreDrainHook" => deletion.pre_drain_s,
            "DrainingNode" => deletion.drain_s,
            "WaitingForVolumeDetach" => deletion.detach_s,
            "WaitingForPreTerminateHook" => deletion.pre_terminate_s,
            _ => 0,
        };
        Some(at_s).filter(|at_s| *at_s != 0)
    }

    /// The time after which the stage ends whatever happens; 0: it has none.
    fn timeout_s(&self, reason: &str) -> u32 {
        let Some(deletion) = self.row.machine().and_then(|machine| machine.deletion.as_ref()) else {
            return 0;
        };
        match reason {
            "DrainingNode" => deletion.drain_timeout_s,
            "WaitingForVolumeDetach" => deletion.detach_timeout_s,
            _ => 0,
        }
    }

    fn is_forced(&self, reason: &str) -> bool {
        self.timeout_s(reason) > 0
    }

    /// How long the stage may take, and what it is then.
    fn patience(&self, reason: &str) -> (u32, Verdict) {
        match reason {
            _ if self.is_forced(reason) => {
                (self.timeout_s(reason).saturating_add(FORCED_S), Verdict::Degraded)
            }
            // No controller of Cluster API makes room in a disruption budget: whoever runs the Pods
            // has to.
            "DrainingNode" if self.is_held_by_budget() => (SLOW_S, Verdict::Blocked),
            // Only whoever set a hook takes it away.
            "WaitingForPreDrainHook" | "WaitingForPreTerminateHook" | "WaitingForBeforeDeleteHook" => {
                (DELETION_S, Verdict::Blocked)
            }
            _ => (DELETION_S, Verdict::Degraded),
        }
    }

    fn is_held_by_budget(&self) -> bool {
        self.stage().is_some_and(|(at, _)| self.row.conditions[at].message.contains(BUDGET))
    }

    /// Upstream names the likely cause once a deletion takes longer than it should.
    fn overdue(&mut self) {
        if let Some((at, ready)) = self.find("Ready")
            && [DELAY_CAUSE, OVERDUE].iter().any(|text| ready.message.contains(text))
        {
            self.fault(Verdict::Blocked, at, 0);
        }
    }
}
