//! Rules for a Machine: coming up, it has the usual time of each step; once it was up, what is missing is a
//! fault.

use super::{
    APPLY_S, Basis, DELETION_S, Ending, HARD_S, Judgement, PROGRESS_MAX_S, RETRIED_S, Rank, Rules, SOFT_S,
    Slow,
};
use crate::fleet::Verdict;
use crate::fleet::row::{Condition, Row};
use crate::fleet::usual::{Limits, Step};
use capi_types::condition::Status;
use capi_types::condition_types::{CONTROL_PLANE_GATES, MACHINE_READY_PARTS};

/// Reasons that mean: a part is gone or broken, not late.
const BROKEN: [&str; 4] = ["ObjectDoesNotExist", "ObjectDeleted", "NodeDeleted", "InvalidConditionReported"];
/// That the kubelet does not report is a known fact.
const KUBELET_SILENT: [&str; 2] = ["NodeHealthUnknown", "NodeHealthyUnknown"];
/// A Pod that failed may be started again with success.
pub(super) const FAILED_POD_S: u32 = 2 * 60;
/// Two moments that are so close belong to the same write.
const SAME_WRITE_S: u32 = 10;

/// When the steps of a Machine that is coming up began, seconds since the epoch; 0: not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starts([u32; 4]);

impl Starts {
    /// From the Machine's own conditions and the moments when its cluster let it begin.
    pub fn of(row: &Row, infrastructure_s: u32, initialized_s: u32) -> Self {
        let true_since = |type_| row.condition(type_).filter(|c| c.status == Status::True).map(|c| c.since_s);
        let total = row.created_s.max(infrastructure_s).max(initialized_s);
        // The second is what v1beta1 calls it.
        let bootstrap = true_since("BootstrapConfigReady").or_else(|| true_since("BootstrapReady"));
        // A part may be ready before the Machine could begin: no step begins before the one ahead
        // of it.
        let bootstrap = bootstrap.map_or(0, |at| at.max(total));
        let node = if bootstrap == 0 {
            0
        } else {
            true_since("InfrastructureReady").map_or(0, |at| at.max(bootstrap))
        };
        Self([total, bootstrap, node, total])
    }

    pub fn start_s(self, step: Step) -> u32 {
        self.0[step as usize]
    }

    /// The step that is under way.
    pub fn current(self) -> Step {
        match self.0 {
            [_, _, node, _] if node != 0 => Step::Node,
            [_, bootstrap, ..] if bootstrap != 0 => Step::Infrastructure,
            _ => Step::Bootstrap,
        }
    }

    /// How long the steps of a Machine took that is ready; `None` for what did not happen in order.
    pub fn durations(self, ready_s: u32) -> Option<[u32; 4]> {
        let [total, bootstrap, node, _] = self.0;
        let is_ordered = total != 0 && bootstrap != 0 && node != 0 && ready_s >= node;
        is_ordered.then(|| [bootstrap - total, node - bootstrap, ready_s - node, ready_s - total])
    }
}

impl Rules<'_> {
    pub(super) fn machine(&mut self) {
        if self.is_being_replaced() {
            return;
        }
        self.remediation();
        self.updating();
        let starts = self.starts();
        let is_established = self.is_established();
        for type_ in MACHINE_READY_PARTS.iter().chain(&CONTROL_PLANE_GATES) {
            let Some((at, c)) = self.missing(type_) else { continue };
            if is_established {
                self.lost(at, c);
            } else {
                self.late(at, c, starts);
            }
        }
        if !is_established {
            // Once it was up, the check's own condition says it.
            self.borne();
        }
        if self.found.verdict == Verdict::Ok
            && let Some((at, c)) = self.missing("Ready")
        {
            // Gates that are not in the table above.
            if is_established { self.lost(at, c) } else { self.late(at, c, starts) }
        }
        if let Some((at, c)) = self.missing("Available") {
            if self.status("Ready") == Some(Status::True) {
                // It counts its minReadySeconds.
                self.until(c.since_s, PROGRESS_MAX_S, Basis::Condition(at), Rank::Acting, Verdict::Degraded);
            } else {
                self.progress(Basis::Condition(at), Rank::Queued);
            }
        }
        // Where a person holds the rollout back, old Machines wait for nothing.
        if !self.context.is_held
            && let Some((at, _)) = self.missing("UpToDate").filter(|(_, c)| c.status == Status::False)
        {
            self.progress(Basis::Condition(at), Rank::Queued);
        }
    }

    /// A Machine of the control plane is the first one until the control plane was reached; all others wait
    /// for that. `None`: it waits.
    pub(super) fn starts(&self) -> Option<Starts> {
        let context = self.context;
        let is_control_plane = self.row.machine().is_some_and(|m| m.control_plane);
        if !context.is_initialized && !is_control_plane {
            return None;
        }
        let initialized_s = context.initialized_s;
        // The first one was there before.
        let is_first = !context.is_initialized || (is_control_plane && self.row.created_s <= initialized_s);
        Some(Starts::of(self.row, context.infrastructure_s, if is_first { 0 } else { initialized_s }))
    }

    /// Was it available once? By its own account: `Available` turned false long after the first report.
    fn is_established(&self) -> bool {
        // Where `Available` is not reported, a Node is the only sign that the Machine was up.
        let Some((_, available)) = self.find("Available") else {
            return self.row.machine().is_some_and(|m| m.node.is_some());
        };
        if available.status == Status::True {
            return true;
        }
        // `Deleting` is false from the first report on, so its date is that of the first report.
        let Some((_, first)) = self.find("Deleting") else { return false };
        let first_s = first.since_s.max(self.row.created_s);
        available.since_s > first_s.saturating_add(SAME_WRITE_S)
    }

    /// Something that an established Machine no longer has.
    fn lost(&mut self, at: usize, c: &Condition) {
        let is_updating = self.status("Updating") == Some(Status::True);
        let reason = c.reason.as_ref();
        if BROKEN.contains(&reason) {
            self.fault(Verdict::Degraded, at, HARD_S);
        } else if c.type_.as_ref() == "HealthCheckSucceeded" && c.status == Status::False {
            self.unhealthy(at);
        } else if is_updating && c.type_.as_ref() == "NodeHealthy" {
            // A kubelet may restart during an update in place.
            self.progress(Basis::Condition(at), Rank::Acting);
        } else if c.status == Status::False || KUBELET_SILENT.contains(&reason) {
            self.fault(Verdict::Degraded, at, SOFT_S);
        } else {
            self.out_of_sight(at);
        }
    }

    /// Something that a Machine that is coming up does not have yet.
    fn late(&mut self, at: usize, c: &Condition, starts: Option<Starts>) {
        let reason = c.reason.as_ref();
        if reason == "ObjectDoesNotExist" {
            // What makes Machines makes this object before the Machine. No controller brings it
            // later, so that a person has to.
            let since_s = c.since_s.max(self.row.created_s);
            let (verdict, why, rank) = (Verdict::Blocked, Basis::Condition(at), Rank::Hold);
            let claim = Judgement { verdict, why, rank, since_s, delay_s: APPLY_S, ..Judgement::WELL };
            return self.claim(claim);
        }
        if BROKEN.contains(&reason) {
            return self.fault(Verdict::Degraded, at, HARD_S);
        }
        if c.type_.as_ref() == "HealthCheckSucceeded" && c.status == Status::False {
            return self.unhealthy(at);
        }
        if reason == "Failed" && self.has_passed(c.since_s, FAILED_POD_S) {
            return self.fault(Verdict::Degraded, at, 0);
        }
        match starts {
            Some(starts) => self.by_the_clock(at, starts),
            // It waits for the control plane, which has its own clock.
            None => self.progress(Basis::Condition(at), Rank::Queued),
        }
    }

    /// A check found it unhealthy. Where too many are, nobody is replaced until a person acts.
    fn unhealthy(&mut self, at: usize) {
        if self.context.cover.is_short_circuited {
            let since_s = self.row.conditions[at].since_s;
            // The check that allows nothing is what holds; this is what is broken.
            let (verdict, why, rank) = (Verdict::Blocked, Basis::Condition(at), Rank::Broken);
            let claim = Judgement { verdict, why, rank, since_s, delay_s: RETRIED_S, ..Judgement::WELL };
            return self.claim(claim);
        }
        self.fault(Verdict::Degraded, at, SOFT_S);
    }

    /// A condition that a MachineHealthCheck bears for a while only, on a Machine that is coming up.
    fn borne(&mut self) {
        let Some(Ending { at, since_s, timeout_s }) = self.context.cover.ending else { return };
        if at < self.row.conditions.len() && self.has_passed(since_s, timeout_s) && !self.is_paused() {
            self.fault(Verdict::Degraded, at, 0);
        }
    }

    pub(super) fn by_the_clock(&mut self, at: usize, starts: Starts) {
        let why = Basis::Condition(at);
        let mut slow = None;
        // Two clocks: a Machine may be in time with its step and late as a whole.
        for step in [starts.current(), Step::Total] {
            let (start_s, limits) = (starts.start_s(step), self.context.limits[step as usize]);
            let Some(limits) = limits else { continue };
            self.until(start_s, limits.stuck_s, why, Rank::Acting, Verdict::Degraded);
            slow = slow.or(self.slow(start_s, limits));
        }
        self.progress(why, Rank::Acting);
        // A fault already says that the step took too long.
        if self.found.verdict == Verdict::Progressing {
            self.found.slow = slow;
        }
    }

    fn slow(&mut self, start_s: u32, limits: Limits) -> Option<Slow> {
        let is_slow = !self.is_paused() && self.has_passed(start_s, limits.slow_s);
        is_slow.then_some(Slow { since_s: start_s, low_s: limits.low_s, high_s: limits.high_s })
    }

    /// Its owner deletes it at this moment: what is wrong with it goes with it.
    fn is_being_replaced(&mut self) -> bool {
        let replaced =
            self.missing("OwnerRemediated").filter(|(_, c)| c.reason.as_ref() == "MachineDeleting");
        if let Some((at, c)) = replaced {
            self.until(c.since_s, DELETION_S, Basis::Condition(at), Rank::Acting, Verdict::Degraded);
        }
        replaced.is_some()
    }

    fn remediation(&mut self) {
        let Some((at, c)) = self.missing("OwnerRemediated").filter(|(_, c)| c.status == Status::False) else {
            return;
        };
        let goes_anyway = self.status("UpToDate") == Some(Status::False) && !self.context.is_held;
        match c.reason.as_ref() {
            // It goes with the rollout.
            "CannotBeRemediated" if goes_anyway => self.progress(Basis::Condition(at), Rank::Queued),
            "CannotBeRemediated" => self.fault(Verdict::Blocked, at, HARD_S),
            "InternalError" => self.fault(Verdict::Degraded, at, RETRIED_S),
            _ => self.fault(Verdict::Degraded, at, SOFT_S),
        }
    }

    fn updating(&mut self) {
        let Some((at, c)) = self.find("Updating").filter(|(_, c)| c.status == Status::True) else { return };
        if c.reason.as_ref() == "InPlaceUpdateFailed" {
            return self.fault(Verdict::Blocked, at, HARD_S);
        }
        self.until(c.since_s, PROGRESS_MAX_S, Basis::Condition(at), Rank::Acting, Verdict::Degraded);
    }
}
