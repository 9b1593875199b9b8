//! Rules for conditions of the older kind (v1beta1). Must not know those of the newer one.

use super::machine::FAILED_POD_S;
use super::{Basis, HARD_S, IDLE_S, Judgement, PROGRESS_MAX_S, RETRIED_S, Rank, Rules, SOFT_S};
use crate::fleet::Verdict;
use crate::fleet::row::{Kind, Severity};
use capi_types::condition::Status;
use capi_types::condition_types::CONTROL_PLANE_GATES;

/// Reasons of older conditions that warn of what only takes its time.
/// Source: `api/core/v1beta1/condition_consts.go`, `controlplane/kubeadm/api/v1beta1/condition_consts.go`, v1.14.2.
const LEGACY_MOVES: [&str; 4] =
    ["RollingUpdateInProgress", "ScalingUp", "ScalingDown", "WaitingForAvailableMachines"];

impl Rules<'_> {
    pub(super) fn legacy(&mut self) {
        let row = self.row;
        if row.conditions.is_empty() {
            return self.not_reported();
        }
        // By contract `Ready` sums the others up: what is only information beside it explains, and asks for nothing.
        let is_ready = row.condition("Ready").is_some_and(|c| c.status == Status::True);
        // In other phases the object is on its way, and a warning is about what is not there yet.
        let settled = matches!(row.phase.as_ref(), "" | "Provisioned" | "Running" | "Failed");
        let has_parts =
            row.conditions.iter().any(|c| c.type_.as_ref() != "Ready" && c.status != Status::True);
        for (at, c) in row.conditions.iter().enumerate() {
            let moving = LEGACY_MOVES.contains(&c.reason.as_ref());
            let verdict = match (c.status, c.severity) {
                (Status::True, _) => continue,
                (Status::False, Severity::Info) if is_ready => continue,
                (Status::Unknown, _) => Verdict::Unknown,
                (Status::False, Severity::Error) => Verdict::Degraded,
                (Status::False, Severity::Info) => Verdict::Progressing,
                (Status::False, Severity::Warning | Severity::None) if settled && !moving => {
                    Verdict::Degraded
                }
                (Status::False, Severity::Warning | Severity::None) => Verdict::Progressing,
            };
            // The summary has the worst of its parts, which say why.
            let is_summary = has_parts && c.type_.as_ref() == "Ready";
            if row.kind == Kind::Machine && self.of_machine(at, verdict, is_summary) {
                continue;
            }
            self.claim_older(at, verdict, is_summary);
        }
        if row.kind == Kind::MachinePool && !row.phase.is_empty() {
            self.pool();
        }
        self.counters();
        self.behind();
    }

    /// What a Machine has clocks for, as in the newer kind. False: it is judged as any other condition.
    fn of_machine(&mut self, at: usize, verdict: Verdict, is_summary: bool) -> bool {
        let c = &self.row.conditions[at];
        let has_node = self.row.machine().is_some_and(|machine| machine.node.is_some());
        match verdict {
            Verdict::Progressing if has_node => return false,
            // Its parts have the clock.
            Verdict::Progressing if is_summary => {}
            Verdict::Progressing => match self.starts() {
                Some(starts) => self.by_the_clock(at, starts),
                None => self.progress(Basis::Condition(at), Rank::Queued),
            },
            // The Pods of a Node that just came are not there yet, which those releases call an error.
            Verdict::Degraded if has_node && CONTROL_PLANE_GATES.contains(&c.type_.as_ref()) => {
                let came_s = self.find("NodeHealthy").map_or(0, |(_, node)| node.since_s);
                if came_s == 0 || self.has_passed(came_s, FAILED_POD_S) {
                    return false;
                }
                self.progress(Basis::Condition(at), Rank::Acting);
            }
            // Conditions of the Node that are not reported: the kubelet is silent, which is a known fact.
            Verdict::Unknown if has_node && c.reason.as_ref() == "NodeConditionsFailed" => {
                self.fault(Verdict::Degraded, at, SOFT_S);
            }
            Verdict::Unknown if has_node && !self.is_paused() && self.has_passed(c.since_s, IDLE_S) => {
                self.fault(Verdict::Degraded, at, 0);
            }
            _ => return false,
        }
        true
    }

    fn claim_older(&mut self, at: usize, verdict: Verdict, is_summary: bool) {
        let (why, since_s) = (Basis::Condition(at), self.row.conditions[at].since_s);
        // While something below moves, that has the clock.
        if verdict == Verdict::Progressing && since_s != 0 && self.context.below == Verdict::Ok {
            let start_s = self.idle_since_s(at);
            return self.until(start_s, PROGRESS_MAX_S, why, Rank::Acting, Verdict::Degraded);
        }
        let rank = match verdict {
            Verdict::Progressing => Rank::Acting,
            _ if is_summary => Rank::Overdue,
            _ => Rank::Broken,
        };
        let delay_s = self.older_delay_s(at, verdict);
        self.claim(Judgement { verdict, why, rank, since_s, delay_s, ..Judgement::WELL });
    }

    /// As for newer ones: what cannot be looked at is tried again, and what warns may pass.
    fn older_delay_s(&self, at: usize, verdict: Verdict) -> u32 {
        match (verdict, self.row.conditions[at].severity) {
            (Verdict::Unknown, _) => RETRIED_S,
            (Verdict::Degraded, Severity::Error) => HARD_S,
            (Verdict::Degraded, _) => SOFT_S,
            _ => 0,
        }
    }
}
