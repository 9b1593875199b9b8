//! How one object is doing, from its own conditions and counters and from a few facts about what is around
//! it. Owns the rules and their order; must not know where those facts are kept, for how long a verdict has
//! to hold before it is shown, nor how it is shown.
//!
//! Three rules carry the rest. A condition that is not true is only news when its object is older than its
//! usual time for that step. A wait has the verdict of what it waits for. Progress always has an end: a
//! moment after which it counts as a fault.
//!
//! Where upstream distinguishes two situations only by fixed wording (a blocked scale up, a stuck deletion),
//! the rule looks for the fragment that `status` itself writes; a test lets `status` write and this module
//! read.

mod certificates;
mod cluster;
mod cover;
mod deletion;
mod host;
mod legacy;
mod machine;
mod owner;

pub use certificates::are_ending;
pub use cover::{Cover, Ending};
pub use machine::Starts;

use super::pending::pending;
use super::row::{Condition, FAILURE, Kind, Misshapen, Row};
use super::usual::Limits;
use crate::fleet::Verdict;
use capi_types::condition::Status;
use capi_types::condition_types::{Role, with_role};

/// An object whose controllers said nothing for so long after its creation is unknown.
const FIRST_REPORT_S: u32 = 2 * 60;
/// What owns Machines stands still when nothing under it changed for so long.
const IDLE_S: u32 = 5 * 60;
/// A control plane that is not well though its Machines are, for so long. Upstream's own windows.
const ECHO_S: u32 = 2 * 60;
/// A deletion that takes longer is never calm. Upstream's own text changes then.
const DELETION_S: u32 = 15 * 60;
/// No progress without a nearer end lasts longer.
const PROGRESS_MAX_S: u32 = 2 * 3600;

/// How long a fault has to last before it is shown, seconds: a fact that ends only by somebody's doing, a fact
/// that comes and goes, and an error that the controllers try to get over.
const HARD_S: u32 = 5;
const SOFT_S: u32 = 15;
const RETRIED_S: u32 = 60;

/// What is missing may only be late: manifests are applied one by one.
const APPLY_S: u32 = 30;

/// What controllers report of a workload cluster that does not answer, before they call it `ConnectionDown`.
const ECHOES_OF_PROBE: [&str; 2] = ["InternalError", "InspectionFailed"];

/// Why a judgement is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    Nothing,
    /// Index into the row's conditions.
    Condition(usize),
    /// The controllers have not said anything yet.
    NotReported,
    /// The control plane that a Cluster names was not read.
    ControlPlaneNotRead,
    Deleting,
    /// `observedGeneration` is behind.
    Behind,
    /// Counters differ from what is wanted.
    Counters,
    Phase,
    /// Paused before everything was there.
    Pending,
    /// Its certificates end soon, or have ended.
    Certificates,
    /// A part of it cannot be decoded.
    Misshapen,
}

/// How much a judgement explains: the greater, the rather it is the cause of what is above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Waits its turn.
    #[default]
    Queued,
    /// Repeats what another object says.
    Echo,
    /// On its way.
    Acting,
    /// Takes longer than it may.
    Overdue,
    Broken,
    /// Names who has to do something.
    Hold,
}

/// A step that takes longer than usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Seconds since the epoch.
    pub since_s: u32,
    /// What is usual, seconds.
    pub low_s: u32,
    pub high_s: u32,
}

/// One object's verdict, and the strongest reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    pub why: Basis,
    pub rank: Rank,
    /// Since when the evidence holds by the object's own account, seconds since the epoch; 0: not known.
    pub since_s: u32,
    /// How long the evidence has to hold before the verdict is shown.
    pub delay_s: u32,
    /// The next moment at which time alone may change the verdict; 0: none.
    pub due_s: u32,
    pub slow: Option<Slow>,
}

impl Judgement {
    pub(in crate::fleet) const WELL: Self = Self {
        verdict: Verdict::Ok,
        why: Basis::Nothing,
        rank: Rank::Echo,
        since_s: 0,
        delay_s: 0,
        due_s: 0,
        slow: None,
    };

    /// It rests on what was not read. Whatever the reading then shows was not seen before, however old it is.
    pub(in crate::fleet) fn is_unread(&self) -> bool {
        self.why == Basis::ControlPlaneNotRead
    }
}

/// What is around an object.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Seconds since the epoch; 0 when time is unknown, which then excuses nothing and accuses nothing.
    pub now_s: u32,
    /// The workload cluster answers its probe, as far as the Cluster says.
    pub has_contact: bool,
    /// The control plane of the cluster was reached once; since when, 0 when not known.
    pub is_initialized: bool,
    pub initialized_s: u32,
    /// Since when the infrastructure of the cluster is ready; 0 when not known.
    pub infrastructure_s: u32,
    /// The infrastructure of the cluster was ready once.
    pub is_provisioned: bool,
    /// The worst of what acts or is broken below the object, and, for a Cluster, of what belongs to it.
    pub below: Verdict,
    /// When that last changed; 0 when not known.
    pub below_s: u32,
    /// The control plane of the cluster, with its Machines; unknown when it is not seen.
    pub control_plane: Verdict,
    /// Of a Cluster: it names a control plane that is not among what was read.
    pub lacks_control_plane: bool,
    /// Of a Machine: its owner replaces it before its certificates end.
    pub renews_certificates: bool,
    /// A person holds the rollout back: on delete, later, or paused.
    pub is_held: bool,
    /// Since when the object gives no date for what it waits for; 0 when it does.
    pub undated_s: u32,
    /// When a status of an object of this kind was seen to change last, seconds since the epoch; 0: never.
    pub written_s: u32,
    /// What the MachineHealthChecks that cover the object say.
    pub cover: Cover,
    /// Of a MachineHealthCheck: a Machine that it found unhealthy waits for it.
    pub is_waited_for: bool,
    /// Of the steps in [`super::usual::Step::ALL`].
    pub limits: [Option<Limits>; 4],
}

impl Default for Context {
    fn default() -> Self {
        Self {
            now_s: 0,
            has_contact: true,
            is_initialized: true,
            initialized_s: 0,
            infrastructure_s: 0,
            is_provisioned: true,
            below: Verdict::Ok,
            below_s: 0,
            control_plane: Verdict::Unknown,
            lacks_control_plane: false,
            renews_certificates: false,
            is_held: false,
            undated_s: 0,
            written_s: 0,
            cover: Cover::default(),
            is_waited_for: false,
            limits: [None; 4],
        }
    }
}

/// Judges `row` among what is around it.
pub fn judge(row: &Row, context: &Context) -> Judgement {
    let mut rules = Rules { row, context, found: Judgement::WELL, due_s: 0 };
    rules.run();
    Judgement { due_s: rules.due_s, ..rules.found }
}

struct Rules<'a> {
    row: &'a Row,
    context: &'a Context,
    found: Judgement,
    due_s: u32,
}

impl<'a> Rules<'a> {
    fn run(&mut self) {
        let row = self.row;
        if row.health_check().is_some() {
            return self.health_check();
        }
        if row.host_use().is_some() {
            return self.host();
        }
        if row.misshapen != Misshapen::Nothing {
            let (verdict, why, rank) = (Verdict::Unknown, Basis::Misshapen, Rank::Broken);
            return self.claim(Judgement { verdict, why, rank, ..Judgement::WELL });
        }
        // Parts go away in a deletion, so that the rules about missing parts do not apply.
        if row.is_deleting() {
            return self.deleting();
        }
        if self.context.lacks_control_plane {
            self.control_plane_not_read();
        }
        // Before the conditions, since these hold in whatever version the object was read.
        self.given_up();
        self.certificates();
        if row.legacy {
            return self.legacy();
        }
        // `Paused` is written before anything is looked at, so that it alone reports nothing. A
        // MachinePool never has another condition.
        if !row.conditions.iter().any(|c| c.type_.as_ref() != "Paused") && row.kind != Kind::MachinePool {
            return self.not_reported();
        }
        match row.kind {
            Kind::Cluster => self.cluster(),
            Kind::ControlPlane => self.control_plane(),
            Kind::MachineDeployment | Kind::MachineSet => self.workers(),
            Kind::MachinePool => self.pool(),
            Kind::Machine => self.machine(),
            Kind::Other => self.part("Ready", Verdict::Degraded, SOFT_S),
        }
        self.counters();
        self.pending();
        self.behind();
    }

    /// The worst claim stays; of equal ones the one that explains more, then the first.
    fn claim(&mut self, claim: Judgement) {
        if (claim.verdict, claim.rank) > (self.found.verdict, self.found.rank) {
            self.found = Judgement { slow: claim.slow.or(self.found.slow), ..claim };
        }
    }

    fn fault(&mut self, verdict: Verdict, at: usize, delay_s: u32) {
        let rank = if verdict == Verdict::Blocked { Rank::Hold } else { Rank::Broken };
        let since_s = self.row.conditions[at].since_s;
        self.claim(Judgement {
            verdict,
            why: Basis::Condition(at),
            rank,
            since_s,
            delay_s,
            ..Judgement::WELL
        });
    }

    fn progress(&mut self, why: Basis, rank: Rank) {
        let since_s = if let Basis::Condition(at) = why { self.row.conditions[at].since_s } else { 0 };
        self.claim(Judgement {
            verdict: Verdict::Progressing,
            why,
            rank,
            since_s,
            // A move that is over within two seconds is not shown.
            delay_s: 2,
            ..Judgement::WELL
        });
    }

    /// Progress until `limit_s` after `start_s`, then the verdict `after`. The clock stands while paused, and
    /// when a person holds the rollout back.
    fn until(&mut self, start_s: u32, limit_s: u32, why: Basis, rank: Rank, after: Verdict) {
        let is_over = !self.is_paused() && self.has_passed(start_s, limit_s);
        if !is_over {
            return self.progress(why, rank);
        }
        let since_s = start_s.saturating_add(limit_s);
        let rank = if after == Verdict::Blocked { Rank::Hold } else { Rank::Overdue };
        self.claim(Judgement { verdict: after, why, rank, since_s, ..Judgement::WELL });
    }

    /// More than `limit_s` passed since `start_s`; where not yet, the moment is noted as due. Every clock starts
    /// again when a pause ends.
    fn has_passed(&mut self, start_s: u32, limit_s: u32) -> bool {
        let resumed_s =
            self.find("Paused").filter(|(_, c)| c.status == Status::False).map_or(0, |(_, c)| c.since_s);
        let end_s = start_s.max(resumed_s).saturating_add(limit_s);
        // Without a time, or a beginning, nothing is late.
        if self.context.now_s == 0 || start_s == 0 {
            return false;
        }
        if self.context.now_s > end_s {
            return true;
        }
        if self.due_s == 0 || end_s < self.due_s {
            // A limit has passed only when more than it is over.
            self.due_s = end_s + 1;
        }
        false
    }

    fn find(&self, type_: &str) -> Option<(usize, &'a Condition)> {
        self.row.conditions.iter().enumerate().find(|(_, c)| c.type_.as_ref() == type_)
    }

    /// The condition, unless it is true.
    fn missing(&self, type_: &str) -> Option<(usize, &'a Condition)> {
        self.find(type_).filter(|(_, c)| c.status != Status::True)
    }

    fn status(&self, type_: &str) -> Option<Status> {
        self.find(type_).map(|(_, c)| c.status)
    }

    fn is_paused(&self) -> bool {
        // `spec.paused` of a MachineDeployment only holds its rollout.
        let own = self.row.paused && self.row.kind != Kind::MachineDeployment;
        own || self.status("Paused") == Some(Status::True)
    }

    /// A positive condition of an object that was well before: `False` is `fault`; `Unknown` becomes one when
    /// it lasts.
    fn part(&mut self, type_: &str, fault: Verdict, delay_s: u32) {
        let Some((at, c)) = self.missing(type_) else { return };
        match c.status {
            Status::False => self.fault(fault, at, delay_s),
            _ => self.out_of_sight(at),
        }
    }

    /// What cannot be seen is unknown after a minute, and a fault when it stays so.
    fn out_of_sight(&mut self, at: usize) {
        let c = &self.row.conditions[at];
        let reason = c.reason.as_ref();
        let is_echo = !self.context.has_contact && ECHOES_OF_PROBE.contains(&reason);
        if reason == "ConnectionDown" || is_echo {
            // The probe of the Cluster speaks for all of them.
            let (why, since_s) = (Basis::Condition(at), c.since_s);
            let (verdict, rank) = (Verdict::Unknown, Rank::Acting);
            return self.claim(Judgement { verdict, why, rank, since_s, ..Judgement::WELL });
        }
        if self.has_passed(c.since_s, IDLE_S) && !self.is_paused() {
            return self.fault(Verdict::Degraded, at, 0);
        }
        self.fault(Verdict::Unknown, at, RETRIED_S);
    }

    /// A failure that controllers do not get over by themselves, whatever the conditions still repeat.
    fn given_up(&mut self) {
        // A provider may have a condition of that name, which is well when it is false.
        let failure = self.find(FAILURE).filter(|(_, c)| c.status == Status::True);
        let (why, rank) = match failure {
            Some((at, _)) => (Basis::Condition(at), Rank::Broken),
            // The phase alone gives no reason: a condition that does comes before it.
            None if self.row.phase.as_ref() == "Failed" => (Basis::Phase, Rank::Overdue),
            None => return,
        };
        let verdict = Verdict::Degraded;
        self.claim(Judgement { verdict, why, rank, delay_s: HARD_S, ..Judgement::WELL });
    }

    fn not_reported(&mut self) {
        // Where the time is unknown, nothing says that the object is young.
        if self.context.now_s == 0 || self.has_passed(self.row.created_s, FIRST_REPORT_S) {
            let (verdict, why, rank) = (Verdict::Unknown, Basis::NotReported, Rank::Broken);
            return self.claim(Judgement { verdict, why, rank, ..Judgement::WELL });
        }
        self.progress(Basis::NotReported, Rank::Acting);
    }

    /// Something that what is below explains better: progress while that moves, and progress as well while
    /// that is not well, because that is judged by itself. A fault when everything below is well for `limit_s`.
    fn echo(&mut self, at: usize, limit_s: u32) {
        let why = Basis::Condition(at);
        let can_begin = match self.row.kind {
            Kind::Cluster => true,
            Kind::ControlPlane => self.context.is_provisioned,
            _ => self.context.is_initialized,
        };
        if self.context.below != Verdict::Ok || !can_begin {
            return self.repeat(why);
        }
        // Unseen since contact was lost: the probe of the Cluster speaks for it.
        let has_lost_contact = self.context.is_initialized && !self.context.has_contact;
        if has_lost_contact && self.row.conditions[at].status == Status::Unknown {
            return self.out_of_sight(at);
        }
        let start_s = self.idle_since_s(at);
        self.until(start_s, limit_s, why, Rank::Echo, Verdict::Degraded);
    }

    /// When the object or what is below it last moved.
    fn idle_since_s(&self, at: usize) -> u32 {
        let moves = with_role(Role::Move);
        let moved_s = moves.filter_map(|t| self.find(t)).map(|(_, c)| c.since_s).max().unwrap_or(0);
        let own_s = self.row.conditions[at].since_s.max(self.row.created_s);
        own_s.max(moved_s).max(self.context.below_s)
    }

    fn counters(&mut self) {
        let Some(c) = self.row.counters() else { return };
        let Some(desired) = c.desired else { return };
        // A MachineSet does not bring its Machines up to date: its deployment does, and has the clock.
        let up_to_date = c.up_to_date.filter(|_| self.row.kind != Kind::MachineSet);
        let counts = [c.current, c.ready, c.available, up_to_date];
        if !counts.into_iter().flatten().any(|n| n != desired) || self.context.is_held {
            return;
        }
        if self.context.below == Verdict::Ok && self.context.is_initialized {
            let start_s = self.context.undated_s.max(self.context.below_s);
            // Counters have no date: the clock begins when they were first seen to differ.
            let start_s = if self.context.undated_s == 0 { 0 } else { start_s };
            self.until(start_s, IDLE_S, Basis::Counters, Rank::Echo, Verdict::Degraded);
        } else {
            self.repeat(Basis::Counters);
        }
    }

    /// What repeats a fault below is not shown before that is, or a fault that passes would be seen as a move.
    fn repeat(&mut self, why: Basis) {
        self.progress(why, Rank::Echo);
        if self.context.below > Verdict::Progressing && (self.found.why, self.found.rank) == (why, Rank::Echo)
        {
            // Longer than any fault below waits before it is shown.
            self.found.delay_s = RETRIED_S + HARD_S;
        }
    }

    /// Under a pause nobody counts any more: what the spec asks for waits. Machines wait with what owns them, and a
    /// Cluster with its parts.
    fn pending(&mut self) {
        let is_owner = self.row.replica_facts().is_some();
        if is_owner && self.is_paused() && pending(self.row) > 0 {
            self.progress(Basis::Pending, Rank::Hold);
        }
    }

    /// A status that stays behind its spec. Under a pause that proves nothing. A controller that writes other
    /// objects meanwhile fails at this one; one that writes nothing may be gone.
    fn behind(&mut self) {
        if !self.row.status_is_behind() || self.is_paused() {
            return;
        }
        if self.context.undated_s != 0 && self.has_passed(self.context.undated_s, IDLE_S) {
            let is_at_work = self.context.written_s > self.context.undated_s;
            let verdict = if is_at_work { Verdict::Degraded } else { Verdict::Unknown };
            let (why, rank) = (Basis::Behind, Rank::Broken);
            return self.claim(Judgement { verdict, why, rank, ..Judgement::WELL });
        }
        let claim = Judgement {
            verdict: Verdict::Progressing,
            why: Basis::Behind,
            rank: Rank::Acting,
            // Every change of a spec is behind for a moment.
            delay_s: 10,
            ..Judgement::WELL
        };
        self.claim(claim);
    }
}
