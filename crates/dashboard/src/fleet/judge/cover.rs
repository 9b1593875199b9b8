//! What MachineHealthChecks make of a Machine: how long its Node may take, which of its conditions may not last, and
//! whether anybody replaces it. Must not know which checks there are, nor how they are kept.

use super::{Judgement, RETRIED_S, Rank, Rules};
use crate::fleet::Verdict;
use crate::fleet::judge::Basis;
use crate::fleet::row::Row;
use crate::fleet::usual::Limits;
use capi_types::condition::Status;

/// What all checks that cover one Machine say together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cover {
    /// Its Node is there after so long, counted as the step is; 0: that is not looked at.
    pub startup_s: u32,
    /// The first condition that lasts too long.
    pub ending: Option<Ending>,
    /// Too many Machines are unhealthy: none is replaced.
    pub is_short_circuited: bool,
}

/// A condition that is borne for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Index into the row's conditions.
    pub at: usize,
    pub since_s: u32,
    pub timeout_s: u32,
}

impl Cover {
    /// Takes in what one more check says of this Machine. `is_evaluated`: its cluster is so far that checks look at conditions at all.
    pub fn add(&mut self, machine: &Row, check: &Row, is_evaluated: bool) {
        let Some(facts) = check.health_check() else { return };
        // 0: the check does not look at that time.
        let times = [self.startup_s, facts.startup_timeout_s];
        self.startup_s = times.into_iter().filter(|time_s| *time_s != 0).min().unwrap_or(0);
        self.is_short_circuited |=
            check.condition("RemediationAllowed").is_some_and(|c| c.status == Status::False);
        let has_node = machine.machine().is_some_and(|machine| machine.node.is_some());
        let examined = facts.unhealthy.iter().filter(|u| is_evaluated && (has_node || !u.of_node));
        let lasting = examined.filter_map(|unhealthy| {
            let at = machine.conditions.iter().position(|c| c.type_ == unhealthy.type_)?;
            let c = &machine.conditions[at];
            // Without a date it is not known how long the condition has lasted.
            let is_it = c.since_s != 0 && c.status.as_str() == unhealthy.status.as_ref();
            is_it.then_some(Ending { at, since_s: c.since_s, timeout_s: unhealthy.timeout_s })
        });
        // The check that ends first has the Machine replaced, however long the others bear the
        // condition.
        let end_s = |ending: &Ending| ending.since_s.saturating_add(ending.timeout_s);
        self.ending = lasting.chain(self.ending).min_by_key(end_s);
    }

    /// The limits of the step in which the Node appears; `total` stands in where nothing is known of that step.
    pub fn node_limits(&self, known: Option<Limits>, total: Option<Limits>) -> Option<Limits> {
        let end_s = self.startup_s;
        if end_s == 0 {
            return known;
        }
        let usual = known.or(total)?;
        Some(Limits {
            low_s: usual.low_s.min(end_s),
            high_s: usual.high_s.min(end_s),
            // A warning must come before the check has the Machine replaced.
            slow_s: usual.slow_s.min(end_s / 2),
            stuck_s: usual.stuck_s.min(end_s),
        })
    }
}

impl Rules<'_> {
    /// What it found stands on the Machines. That it lets nobody act on it is its own affair, and explains why they stay as they are.
    pub(super) fn health_check(&mut self) {
        let denied = self.missing("RemediationAllowed").filter(|(_, c)| c.status == Status::False);
        let Some((at, c)) = denied.filter(|_| self.context.is_waited_for) else { return };
        let (verdict, why, rank) = (Verdict::Blocked, Basis::Condition(at), Rank::Hold);
        let claim =
            Judgement { verdict, why, rank, since_s: c.since_s, delay_s: RETRIED_S, ..Judgement::WELL };
        self.claim(claim);
    }
}
