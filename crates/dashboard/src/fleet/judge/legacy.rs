//! Rules for conditions of the older kind (v1beta1). Must not know those of the newer one.

use super::{Basis, Judgement, Rank, Rules};
use crate::fleet::Verdict;
use crate::fleet::row::Severity;
use capi_types::condition::Status;

/// Reasons of older conditions that warn of what only takes its time.
/// Source: `api/core/v1beta1/condition_consts.go`, `controlplane/kubeadm/api/v1beta1/condition_consts.go`, v1.14.0.
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
        let settled = matches!(row.phase.as_ref(), "" | "Provisioned" | "Running" | "Failed");
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
            let rank = if verdict == Verdict::Progressing { Rank::Acting } else { Rank::Broken };
            self.claim(Judgement {
                verdict,
                why: Basis::Condition(at),
                rank,
                since_s: c.since_s,
                ..Judgement::WELL
            });
        }
        self.behind();
    }
}
