//! How one object is doing, from its own conditions and counters alone. Owns the rules and their
//! order; must not know what is above or below the object, nor how the answer is shown.
//!
//! Rules read condition types, statuses and reasons. Where upstream distinguishes two situations only by
//! fixed wording (a blocked scale up, a stuck deletion), the rule looks for the fragment that `status`
//! itself writes; a test lets `status` write and this module read.

use super::row::{Condition, Facts, Kind, Row, Severity};
use crate::api::condition::Status;
use crate::api::condition_types::{CONTROL_PLANE_GATES, MACHINE_READY_PARTS, Role, with_role};
use crate::status::conditions::wording::{
    BLOCKED_BECAUSE, DELAY_CAUSE, DO_NOT_EXIST, DOES_NOT_EXIST, KUBEADM_VERSION_SKEW,
    KUBERNETES_VERSION_SKEW, OVERDUE,
};
use crate::status::verdict::Verdict;

/// So long after its creation a Machine or a Cluster counts as coming up, and an availability that
/// is missing counts as on its way. Twice upstream's default `nodeStartupTimeoutSeconds`.
pub const COMING_UP_S: u32 = 20 * 60;

/// A move that says it is blocked is believed to pass by itself for so long.
pub const BLOCKED_AFTER_S: u32 = 30 * 60;

/// An object whose controllers said nothing for so long after its creation is unknown.
const FIRST_REPORT_S: u32 = 2 * 60;

/// Reasons that mean: a part is gone or broken, not late.
const BROKEN: [&str; 4] = ["ObjectDoesNotExist", "ObjectDeleted", "NodeDeleted", "InvalidConditionReported"];

/// Reasons of older conditions that warn of what only takes its time.
/// Source: `api/core/v1beta1/condition_consts.go`, `controlplane/kubeadm/api/v1beta1/condition_consts.go`, v1.14.0.
const LEGACY_MOVES: [&str; 4] =
    ["RollingUpdateInProgress", "ScalingUp", "ScalingDown", "WaitingForAvailableMachines"];

/// Why a judgement is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    Nothing,
    /// Index into the row's conditions.
    Condition(usize),
    /// The controllers have not said anything yet.
    NotReported,
    Deleting,
    /// Paused while there is something to do.
    Paused,
    /// `observedGeneration` is behind.
    Behind,
    /// Counters differ from what is wanted.
    Counters,
    Phase,
}

/// One object's verdict, and the strongest reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    pub why: Basis,
}

/// Judges `row` at `now_s` (seconds since the epoch; 0 when time is unknown, which then excuses nothing
/// and accuses nothing).
#[must_use]
pub fn judge(row: &Row, now_s: u32) -> Judgement {
    let mut rules = Rules { row, now_s, found: Judgement { verdict: Verdict::Ok, why: Basis::Nothing } };
    rules.run();
    rules.found
}

/// A blocked move names something that waiting does not cure: a version that somebody has to set, or a
/// template that is missing. A missing Pod, in parentheses, comes back by itself.
fn needs_somebody(message: &str) -> bool {
    message.lines().any(|line| {
        [KUBERNETES_VERSION_SKEW, KUBEADM_VERSION_SKEW].iter().any(|check| line.contains(check))
            || [DOES_NOT_EXIST, DO_NOT_EXIST].iter().any(|end| line.ends_with(end))
    })
}

struct Rules<'a> {
    row: &'a Row,
    now_s: u32,
    found: Judgement,
}

impl<'a> Rules<'a> {
    fn run(&mut self) {
        if self.row.is_deleting() {
            self.deleting();
        } else if self.row.legacy {
            self.legacy();
        } else {
            self.by_kind();
            self.counters();
        }
        if self.row.status_is_behind() {
            self.claim(Verdict::Progressing, Basis::Behind);
        }
        let paused = self.row.paused || self.status("Paused") == Some(Status::True);
        if paused && self.found.verdict != Verdict::Ok {
            // Whatever is going on, it stands still until somebody resumes it.
            self.claim(Verdict::Blocked, Basis::Paused);
        }
    }

    fn by_kind(&mut self) {
        if !self.row.conditions.iter().any(|c| c.type_.as_ref() != "Paused")
            && self.row.kind != Kind::MachinePool
        {
            return self.not_reported();
        }
        match self.row.kind {
            Kind::Cluster => self.cluster(),
            Kind::ControlPlane => self.control_plane(),
            Kind::MachineDeployment => self.deployment(),
            Kind::MachineSet => self.moves(),
            Kind::MachinePool => self.pool(),
            Kind::Machine => self.machine(),
            Kind::Other => self.when("Ready", Verdict::Degraded),
        }
    }

    /// The worst claim stays; of equal ones the first.
    fn claim(&mut self, verdict: Verdict, why: Basis) {
        if verdict > self.found.verdict {
            self.found = Judgement { verdict, why };
        }
    }

    fn find(&self, type_: &str) -> Option<(usize, &'a Condition)> {
        self.row.conditions.iter().enumerate().find(|(_, c)| c.type_.as_ref() == type_)
    }

    fn status(&self, type_: &str) -> Option<Status> {
        self.find(type_).map(|(_, c)| c.status)
    }

    fn passed_s(&self, since_s: u32) -> u32 {
        if self.now_s == 0 || since_s == 0 { 0 } else { self.now_s.saturating_sub(since_s) }
    }

    /// A positive condition: `False` is `fault`, `Unknown` is unknown.
    fn when(&mut self, type_: &str, fault: Verdict) {
        match self.find(type_) {
            Some((at, c)) if c.status == Status::False => self.claim(fault, Basis::Condition(at)),
            Some((at, c)) if c.status == Status::Unknown => {
                self.claim(Verdict::Unknown, Basis::Condition(at))
            }
            _ => {}
        }
    }

    /// A positive condition that is excused while it has not been false for long.
    fn when_lasting(&mut self, type_: &str) {
        let lasting = self.find(type_).is_some_and(|(_, c)| self.passed_s(c.since_s) > COMING_UP_S);
        self.when(type_, if lasting { Verdict::Degraded } else { Verdict::Progressing });
    }

    fn not_reported(&mut self) {
        let fresh = self.passed_s(self.row.created_s) <= FIRST_REPORT_S && self.now_s != 0;
        self.claim(if fresh { Verdict::Progressing } else { Verdict::Unknown }, Basis::NotReported);
    }

    fn deleting(&mut self) {
        let condition = self.find("Deleting").filter(|(_, c)| c.status == Status::True);
        let why = condition.map_or(Basis::Deleting, |(at, _)| Basis::Condition(at));
        self.claim(Verdict::Progressing, why);
        if let Some((at, ready)) = self.find("Ready")
            && [DELAY_CAUSE, OVERDUE].iter().any(|text| ready.message.contains(text))
        {
            self.claim(Verdict::Blocked, Basis::Condition(at));
        }
        if let Some((at, c)) = condition
            && (c.reason.as_ref() == "InternalError"
                || self.passed_s(self.row.deleting_since_s) > BLOCKED_AFTER_S)
        {
            self.claim(Verdict::Degraded, Basis::Condition(at));
        }
    }

    fn legacy(&mut self) {
        if self.row.conditions.is_empty() {
            return self.not_reported();
        }
        let settled = matches!(self.row.phase.as_ref(), "" | "Provisioned" | "Running" | "Failed");
        for (at, c) in self.row.conditions.iter().enumerate() {
            let moving = LEGACY_MOVES.contains(&c.reason.as_ref());
            let verdict = match (c.status, c.severity) {
                (Status::True, _) => continue,
                (Status::Unknown, _) => Verdict::Unknown,
                (Status::False, Severity::Error) => Verdict::Degraded,
                (Status::False, Severity::Info) => Verdict::Progressing,
                (Status::False, Severity::Warning | Severity::None) if settled && !moving => {
                    Verdict::Degraded
                }
                (Status::False, Severity::Warning | Severity::None) => Verdict::Progressing,
            };
            self.claim(verdict, Basis::Condition(at));
        }
    }

    fn cluster(&mut self) {
        let Facts::Cluster(facts) = &self.row.facts else { return };
        let up = facts.control_plane_initialized && facts.infrastructure_provisioned;
        if !up {
            let late = self.passed_s(self.row.created_s) > COMING_UP_S;
            let verdict = if late { Verdict::Degraded } else { Verdict::Progressing };
            let first = ["InfrastructureReady", "ControlPlaneInitialized", "Available"]
                .iter()
                .find_map(|t| self.find(t).filter(|(_, c)| c.status != Status::True));
            self.claim(verdict, first.map_or(Basis::NotReported, |(at, _)| Basis::Condition(at)));
            return self.topology();
        }
        if let Some((at, c)) = self.find("RemoteConnectionProbe")
            && c.status != Status::True
        {
            // What the controllers say about the workload is then an echo of not knowing.
            self.claim(Verdict::Unknown, Basis::Condition(at));
        } else {
            self.when("ControlPlaneAvailable", Verdict::Degraded);
            self.when_lasting("WorkersAvailable");
        }
        self.when("InfrastructureReady", Verdict::Degraded);
        self.topology();
        self.moves();
        if self.found.verdict <= Verdict::Progressing {
            self.when_lasting("Available");
        }
        for type_ in ["ControlPlaneMachinesUpToDate", "WorkerMachinesUpToDate"] {
            self.when(type_, Verdict::Progressing);
        }
    }

    /// `TopologyReconciled`: waiting for an upgrade step is progress, what an operator holds back or
    /// has to repair is not.
    fn topology(&mut self) {
        let Some((at, c)) = self.find("TopologyReconciled").filter(|(_, c)| c.status != Status::True) else {
            return;
        };
        let verdict = match c.reason.as_ref() {
            "ReconcileFailed" | "ClusterClassNotReconciled" => Verdict::Blocked,
            reason if reason.ends_with("UpgradeDeferred") => Verdict::Blocked,
            _ => Verdict::Progressing,
        };
        self.claim(verdict, Basis::Condition(at));
    }

    fn control_plane(&mut self) {
        let up = self.row.replica_facts().is_some_and(|f| f.initialized == Some(true))
            || self.status("Initialized") == Some(Status::True);
        if !up {
            let late = self.passed_s(self.row.created_s) > COMING_UP_S;
            let at = self.find("Initialized").or(self.find("Available"));
            self.claim(
                if late { Verdict::Degraded } else { Verdict::Progressing },
                at.map_or(Basis::NotReported, |(at, _)| Basis::Condition(at)),
            );
            return self.moves();
        }
        let moving = with_role(Role::Move).any(|t| self.status(t) == Some(Status::True));
        self.when("Available", Verdict::Degraded);
        self.when("CertificatesAvailable", Verdict::Degraded);
        for type_ in ["EtcdClusterHealthy", "ControlPlaneComponentsHealthy"] {
            match self.find(type_) {
                // A machine that comes or goes is unhealthy for a while; what lasts shows on the Machine.
                Some((at, c))
                    if moving && c.status != Status::True && c.reason.as_ref() != "ConnectionDown" =>
                {
                    self.claim(Verdict::Progressing, Basis::Condition(at));
                }
                _ => self.when(type_, Verdict::Degraded),
            }
        }
        self.moves();
    }

    fn deployment(&mut self) {
        match self.find("MachinesReady") {
            // Machines that nobody sees count as not available upstream; here they stay unknown.
            Some((at, c)) if c.status == Status::Unknown => {
                self.claim(Verdict::Unknown, Basis::Condition(at))
            }
            _ => self.when_lasting("Available"),
        }
        self.moves();
    }

    fn moves(&mut self) {
        for type_ in with_role(Role::Move) {
            let Some((at, c)) = self.find(type_) else { continue };
            match c.status {
                Status::False => {}
                Status::Unknown => self.claim(Verdict::Unknown, Basis::Condition(at)),
                Status::True => {
                    let blocked = c.message.contains(BLOCKED_BECAUSE)
                        && (needs_somebody(&c.message) || self.passed_s(c.since_s) > BLOCKED_AFTER_S);
                    let failed = c.reason.as_ref() == "InPlaceUpdateFailed";
                    let verdict = if blocked || failed { Verdict::Blocked } else { Verdict::Progressing };
                    self.claim(verdict, Basis::Condition(at));
                }
            }
        }
        for type_ in ["MachinesReady", "MachinesUpToDate"] {
            match self.find(type_) {
                // The Machines themselves tell progress from fault.
                Some((at, c)) if c.status == Status::False => {
                    self.claim(Verdict::Progressing, Basis::Condition(at));
                }
                Some((at, c)) if c.status == Status::Unknown && self.row.kind == Kind::MachineSet => {
                    self.claim(Verdict::Progressing, Basis::Condition(at));
                }
                _ => {}
            }
        }
    }

    /// A MachinePool has no conditions but `Paused` at v1.14.0: phase and counters speak.
    fn pool(&mut self) {
        match self.row.phase.as_ref() {
            "Failed" => self.claim(Verdict::Degraded, Basis::Phase),
            "Running" => {}
            "" | "Unknown" => self.not_reported(),
            _ => self.claim(Verdict::Progressing, Basis::Phase),
        }
    }

    fn machine(&mut self) {
        if let Some((at, c)) = self.find("OwnerRemediated").filter(|(_, c)| c.status == Status::False) {
            let stuck = c.reason.as_ref() == "CannotBeRemediated";
            self.claim(if stuck { Verdict::Blocked } else { Verdict::Degraded }, Basis::Condition(at));
        }
        self.moves();
        for type_ in MACHINE_READY_PARTS.iter().chain(&CONTROL_PLANE_GATES) {
            if let Some((at, c)) = self.find(type_)
                && c.status != Status::True
            {
                self.claim(self.part(c), Basis::Condition(at));
            }
        }
        if self.found.verdict == Verdict::Ok {
            // Gates that are not in the table above.
            self.when_lasting("Ready");
        }
        for type_ in ["Available", "UpToDate"] {
            if let Some((at, _)) = self.find(type_).filter(|(_, c)| c.status != Status::True) {
                self.claim(Verdict::Progressing, Basis::Condition(at));
            }
        }
    }

    /// A part of a Machine that is not there: late, broken or out of sight?
    fn part(&self, c: &Condition) -> Verdict {
        let row = self.row;
        let has_node = row.machine().is_some_and(|m| m.node.is_some());
        let young = self.passed_s(row.created_s) <= COMING_UP_S;
        let since_start = c.since_s <= row.created_s.saturating_add(COMING_UP_S);
        if BROKEN.contains(&c.reason.as_ref()) {
            Verdict::Degraded
        } else if young && (!has_node || since_start) {
            Verdict::Progressing
        } else if c.status == Status::Unknown && has_node {
            Verdict::Unknown
        } else {
            Verdict::Degraded
        }
    }

    fn counters(&mut self) {
        let Some(c) = self.row.counters() else { return };
        let Some(desired) = c.desired else { return };
        if [c.current, c.ready, c.available, c.up_to_date].into_iter().flatten().any(|n| n != desired) {
            self.claim(Verdict::Progressing, Basis::Counters);
        }
    }
}
