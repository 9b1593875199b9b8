//! Rules for a Cluster. Most of what it reports repeats what its parts say; contact and topology are its own.

use super::{APPLY_S, Basis, ECHO_S, HARD_S, IDLE_S, Judgement, RETRIED_S, Rank, Rules, SOFT_S};
use crate::fleet::Verdict;
use crate::fleet::row::Facts;
use capi_types::condition::Status;
use capi_types::condition_types::{Role, with_role};

/// The infrastructure of a cluster may take so long: five times the five minutes that are assumed.
const INFRASTRUCTURE_S: u32 = 25 * 60;

/// What repeats the judgement of the parts.
const ECHOES: [&str; 3] = ["ControlPlaneAvailable", "WorkersAvailable", "Available"];
/// The same where control plane Machines stand alone: there is no object to ask, which controllers call an internal error
/// for ever. The Machines speak for themselves.
const STAND_ALONE_ECHOES: [&str; 1] = ["WorkersAvailable"];

impl Rules<'_> {
    pub(super) fn cluster(&mut self) {
        let Facts::Cluster(facts) = &self.row.facts else { return };
        if facts.control_plane_initialized && facts.infrastructure_provisioned {
            let has_control_plane = facts.control_plane_ref.is_some() || !facts.class.is_empty();
            let control_plane = self.find("ControlPlaneAvailable");
            let is_unasked = control_plane.is_some_and(|(_, c)| c.reason.as_ref() == "InternalError");
            let own: &[&str] = if is_unasked && !has_control_plane { &STAND_ALONE_ECHOES } else { &ECHOES };
            self.part("InfrastructureReady", Verdict::Degraded, SOFT_S);
            // Without contact controllers repeat what they
            // knew, or call it unknown: the probe says more.
            let echoes: &[&str] = if self.has_contact() { own } else { &[] };
            for type_ in echoes {
                if let Some((at, _)) = self.missing(type_) {
                    self.echo(at, ECHO_S);
                }
            }
        } else {
            self.coming_up();
        }
        self.topology();
        let is_held = self.context.is_held;
        let moves = with_role(Role::Move)
            .filter(|t| self.status(t) == Some(Status::True) && !(is_held && *t == "RollingOut"));
        let waits = ["ControlPlaneMachinesUpToDate", "WorkerMachinesUpToDate"]
            .into_iter()
            .filter(|t| self.status(t) == Some(Status::False) && !is_held);
        // The parts show these as well. A Cluster is at fault for them only when none of its parts
        // acts.
        for at in moves.chain(waits).filter_map(|t| self.find(t).map(|(at, _)| at)).collect::<Vec<_>>() {
            self.echo(at, IDLE_S);
        }
    }

    /// What nobody looked at is not well, whatever its Cluster repeats of it: the kind is not served, may not be read or
    /// is not listed yet, or there is no such object.
    pub(super) fn control_plane_not_read(&mut self) {
        self.claim(Judgement {
            verdict: Verdict::Unknown,
            why: Basis::ControlPlaneNotRead,
            rank: Rank::Broken,
            since_s: self.row.created_s,
            delay_s: APPLY_S,
            ..Judgement::WELL
        });
    }

    /// Everything else that the controllers say about a workload without contact echoes that.
    fn has_contact(&mut self) -> bool {
        let Some((at, c)) = self.missing("RemoteConnectionProbe") else { return true };
        let is_lasting = !self.is_paused() && self.has_passed(c.since_s, IDLE_S);
        self.fault(if is_lasting { Verdict::Degraded } else { Verdict::Unknown }, at, 0);
        false
    }

    /// The infrastructure first, then the first Machine of the control plane, which has its own clock.
    fn coming_up(&mut self) {
        let row = self.row;
        if let Some((at, c)) = self.missing("InfrastructureReady") {
            if c.reason.as_ref() == "ObjectDoesNotExist" && self.has_passed(c.since_s, HARD_S) {
                let since_s = c.since_s.max(row.created_s);
                return self.claim(Judgement {
                    verdict: Verdict::Blocked,
                    why: Basis::Condition(at),
                    rank: Rank::Hold,
                    since_s,
                    delay_s: 30,
                    ..Judgement::WELL
                });
            }
            let (why, start_s) = (Basis::Condition(at), row.created_s);
            return self.until(start_s, INFRASTRUCTURE_S, why, Rank::Acting, Verdict::Degraded);
        }
        match ["ControlPlaneInitialized", "Available"].iter().find_map(|t| self.missing(t)) {
            Some((at, _)) => {
                let infrastructure_s = self.find("InfrastructureReady").map_or(0, |(_, c)| c.since_s);
                let start_s = infrastructure_s.max(row.created_s).max(self.context.below_s);
                let why = Basis::Condition(at);
                // What is not well below has a clock of its own, and explains more.
                if self.context.below == Verdict::Ok {
                    self.until(start_s, IDLE_S, why, Rank::Echo, Verdict::Degraded);
                } else {
                    self.progress(why, Rank::Echo);
                }
            }
            None => self.progress(Basis::NotReported, Rank::Echo),
        }
    }

    /// `TopologyReconciled`: waiting for an upgrade step is progress, what a person holds back is as it
    /// should be, what a person has to repair is not.
    fn topology(&mut self) {
        let Some((at, c)) = self.missing("TopologyReconciled") else { return };
        match c.reason.as_ref() {
            "ReconcileFailed" | "ClusterClassNotReconciled" | "NoTopologyController" => {
                self.fault(Verdict::Blocked, at, RETRIED_S);
            }
            // A pause by itself is not a fault; the row has a tag for it.
            "Paused" => {}
            reason if reason.ends_with("UpgradeDeferred") => {}
            _ => self.echo(at, IDLE_S),
        }
    }
}
