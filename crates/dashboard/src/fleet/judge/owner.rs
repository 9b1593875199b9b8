//! Rules for what owns Machines: control planes, deployments, sets, pools. They add a fault of their own only
//! where no Machine can explain it: a missing template, a version that nobody asked for, certificates,
//! standing still.

use super::{APPLY_S, Basis, ECHO_S, HARD_S, IDLE_S, Judgement, RETRIED_S, Rank, Rules};
use crate::fleet::Verdict;
use crate::fleet::row::{Condition, Kind};
use capi_rules::status::conditions::wording::{BLOCKED_BECAUSE, DO_NOT_EXIST, DOES_NOT_EXIST};
use capi_types::condition::Status;
use capi_types::condition_types::{Role, with_role};
use capi_types::preflight::PreflightCheck;

/// What a blocked move waits for.
enum Wait {
    /// A template that does not exist.
    Template,
    /// A version that somebody has to set, or a control plane that has to finish.
    ControlPlane,
    /// Parts that are judged by themselves.
    Parts,
}

impl Rules<'_> {
    pub(super) fn control_plane(&mut self) {
        let is_up = self.row.replica_facts().is_some_and(|f| f.initialized == Some(true))
            || self.status("Initialized") == Some(Status::True);
        if let Some((at, c)) = self.missing("CertificatesAvailable")
            && is_up
            && c.status == Status::False
        {
            self.fault(Verdict::Blocked, at, HARD_S);
        }
        // Control planes of other providers have the older summary, or both.
        let parts =
            ["EtcdClusterHealthy", "ControlPlaneComponentsHealthy", "Available", "Ready", "Initialized"];
        if ["Available", "Ready"].iter().all(|summary| self.find(summary).is_none()) {
            self.not_reported();
        }
        let has_external_etcd = self.row.replica_facts().is_some_and(|facts| facts.external_etcd);
        for type_ in parts {
            // Upstream's controller does not examine an external etcd, so this condition keeps its first value.
            let is_not_examined = |c: &Condition| {
                type_ == "EtcdClusterHealthy" && has_external_etcd && c.status == Status::Unknown
            };
            if let Some((at, _)) = self.missing(type_).filter(|(_, c)| !is_not_examined(c)) {
                self.echo(at, if is_up { ECHO_S } else { IDLE_S });
            }
        }
        self.moves();
    }

    /// Deployments and sets.
    pub(super) fn workers(&mut self) {
        if let Some((at, _)) = self.missing("Available") {
            self.echo(at, IDLE_S);
        }
        self.moves();
    }

    fn moves(&mut self) {
        for type_ in with_role(Role::Move) {
            let Some((at, c)) = self.find(type_).filter(|(_, c)| c.status != Status::False) else { continue };
            if type_ == "RollingOut" && self.context.is_held {
                continue;
            }
            match wait_of(c) {
                Wait::Template => self.hold(at, APPLY_S),
                // While the control plane is on its way, or has a fault of its own, this waits for it.
                Wait::ControlPlane if self.is_curable(c) => self.progress(Basis::Condition(at), Rank::Echo),
                Wait::ControlPlane => self.hold(at, RETRIED_S),
                Wait::Parts => self.echo(at, IDLE_S),
            }
        }
        for type_ in ["MachinesReady", "MachinesUpToDate"] {
            // Machines of a MachineSet on its own never report whether they are up to date.
            if let Some((at, c)) = self.missing(type_)
                && (type_ == "MachinesReady" || (c.status == Status::False && !self.context.is_held))
            {
                if type_ == "MachinesUpToDate" && self.row.kind == Kind::MachineSet {
                    // They wait for the deployment, which has the clock.
                    self.progress(Basis::Condition(at), Rank::Queued);
                    continue;
                }
                self.echo(at, IDLE_S);
            }
        }
    }

    fn hold(&mut self, at: usize, delay_s: u32) {
        let since_s = self.row.conditions[at].since_s;
        let (verdict, why, rank) = (Verdict::Blocked, Basis::Condition(at), Rank::Hold);
        self.claim(Judgement { verdict, why, rank, since_s, delay_s, ..Judgement::WELL });
    }

    /// Will what the control plane does end this wait? A version skew ends with a person only, except while
    /// versions move. One that was never reached has clocks of its own, which say more than this wait.
    fn is_curable(&self, c: &Condition) -> bool {
        let is_skew = PreflightCheck::named_in(&c.message).any(PreflightCheck::needs_another_version);
        let of = self.context.control_plane;
        if is_skew { of == Verdict::Progressing } else { of != Verdict::Ok || !self.context.is_initialized }
    }

    /// A MachinePool has no conditions but `Paused` at v1.14.2: phase and counters speak.
    pub(super) fn pool(&mut self) {
        match self.row.phase.as_ref() {
            // Given up, which is judged for every kind.
            "Failed" | "Running" => {}
            "" | "Unknown" => self.not_reported(),
            _ => self.progress(Basis::Phase, Rank::Acting),
        }
    }
}

/// A missing Pod, in parentheses, comes back by itself; a missing template does not.
fn wait_of(c: &Condition) -> Wait {
    if !c.message.contains(BLOCKED_BECAUSE) {
        return Wait::Parts;
    }
    if c.message.lines().any(|line| [DOES_NOT_EXIST, DO_NOT_EXIST].iter().any(|end| line.ends_with(end))) {
        Wait::Template
    } else if PreflightCheck::named_in(&c.message).next().is_some() {
        Wait::ControlPlane
    } else {
        Wait::Parts
    }
}
