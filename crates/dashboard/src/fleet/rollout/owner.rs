//! One control plane or MachineDeployment of a rollout: its Machines, its stage, its times. Must not know plans nor
//! other owners.

use std::sync::Arc;

use super::finished::{self, FinishedRollout};
use super::machine::{Around, MachinePhase, RollingMachine, true_since};
use super::times::{Arrival, Estimate, UpTimes, up_times};
use crate::fleet::Fleet;
use crate::fleet::row::{Condition, Kind, Row, RowId};
use crate::fleet::usual::{Limits, Step};
use capi_rules::status::conditions::wording::BLOCKED_BECAUSE;
use capi_types::condition::Status;

/// A condition of an object that is younger was set when the object was made: it reports no end of a rollout.
const FIRST_REPORT_S: u32 = 60;
/// A Machine made so long before or after the last old one went belongs to the same rollout.
const LAST_MACHINES_S: u32 = 60;

/// How far an owner is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerStage {
    /// Nothing to replace.
    Settled,
    /// It replaces Machines.
    Rolling,
    /// It would, and something has to come first.
    Waiting {
        /// The name of the check that fails, if the reason names one.
        check: Option<String>,
        /// The first reason.
        reason: String,
        /// The object whose condition gives it.
        of: RowId,
        since_s: u32,
    },
    /// Machines made before this moment are replaced from then on.
    Scheduled { at_s: u32, older: u32 },
    /// It would, and is paused.
    Paused,
    /// Old Machines are replaced when somebody deletes them.
    OnDelete,
    /// Its new version follows when what stands before it in the topology is through.
    FollowsTopology,
    /// It is being deleted.
    Deleting,
    /// Its Machines were not read.
    Unread,
}

impl OwnerStage {
    /// Something to say in a rollout.
    pub fn is_rollout(&self) -> bool {
        self.is_under_way() || matches!(self, Self::Scheduled { .. })
    }

    /// There is something to replace now.
    pub fn is_under_way(&self) -> bool {
        matches!(
            self,
            Self::Rolling | Self::Waiting { .. } | Self::Paused | Self::OnDelete | Self::FollowsTopology
        )
    }
}

/// One control plane, MachineDeployment or MachinePool.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerRollout {
    pub id: RowId,
    pub is_control_plane: bool,
    /// The version that it wants; empty: it names none.
    pub version: Arc<str>,
    /// Other versions that its old Machines have.
    pub old_versions: Vec<Arc<str>>,
    pub stage: OwnerStage,
    pub want: u32,
    /// New Machines that are available.
    pub done: u32,
    pub machines: Vec<RollingMachine>,
    /// When it began, seconds since the epoch; 0: not known, or it did not.
    pub began_s: u32,
    pub up: Option<UpTimes>,
    /// What other Machines of the kind took from creation to ready.
    usual: Option<Limits>,
    /// Its last rollout, where none is under way.
    pub finished: Option<FinishedRollout>,
}

impl OwnerRollout {
    /// Machines beyond those that are wanted, without those that go.
    pub fn surging(&self) -> usize {
        (self.machines.len() - self.deleting()).saturating_sub(self.want as usize)
    }

    pub fn deleting(&self) -> usize {
        self.machines.iter().filter(|m| matches!(m.phase, MachinePhase::Deleting { .. })).count()
    }

    /// Old Machines, with those that go.
    pub fn old(&self) -> impl Iterator<Item = &RollingMachine> {
        self.machines.iter().filter(|m| m.is_old)
    }

    /// Machines that something happens to.
    pub fn moving(&self) -> impl Iterator<Item = &RollingMachine> {
        self.machines.iter().filter(|m| m.phase.is_moving())
    }

    /// When it will be through if it begins between these two moments, seconds since the epoch. `None` when nothing is
    /// known to estimate from, or nothing ends it but a person.
    pub fn arrival(&self, start: (u32, u32)) -> Option<Arrival> {
        let is_free = matches!(
            self.stage,
            OwnerStage::Rolling | OwnerStage::Waiting { .. } | OwnerStage::FollowsTopology
        );
        let Self { machines, want, began_s, up, usual, .. } = self;
        let estimate = Estimate { machines, want: *want, began_s: *began_s, start, up: *up, usual: *usual };
        if is_free { estimate.arrival() } else { None }
    }
}

/// By the owner's own account, without its Machines.
pub(super) fn may_roll(row: &Row, now_s: u32) -> bool {
    let Some(facts) = row.replica_facts() else { return false };
    let rolling = row.condition("RollingOut");
    let other_versions = facts.versions.iter().any(|v| v.replicas > 0 && v.version != row.version);
    let is_behind = facts.counters.up_to_date.zip(facts.counters.current).is_some_and(|(new, all)| new < all);
    rolling.is_some_and(|c| c.status == Status::True)
        || (other_versions && !row.version.is_empty())
        || is_behind
        || facts.rollout_after_s.is_some_and(|at_s| at_s > now_s)
        || ended_s(row).is_some_and(|at_s| at_s.saturating_add(super::NEWS_S) > now_s)
}

/// When its last rollout ended, by its own account.
fn ended_s(row: &Row) -> Option<u32> {
    let c = row.condition("RollingOut").filter(|c| c.status == Status::False)?;
    (c.since_s > row.created_s.saturating_add(FIRST_REPORT_S)).then_some(c.since_s)
}

impl Fleet {
    pub(super) fn owner_rollout(&self, cluster: RowId, id: RowId) -> Option<OwnerRollout> {
        let (row, cluster_row) = (self.row(id)?, self.row(cluster)?);
        let is_control_plane = row.kind == Kind::ControlPlane;
        let facts = row.replica_facts()?;
        let machines = self.rolling_machines(cluster_row, row, id);
        let is_read = !machines.is_empty() || facts.counters.current.unwrap_or(0) == 0;
        let want = facts.counters.desired.unwrap_or_else(|| count(machines.iter().filter(|m| !m.is_old)));
        // Without the Machines the owner's own count is all there is.
        let done = match is_read {
            true => count(machines.iter().filter(|m| m.phase == MachinePhase::Ok)),
            false => facts.counters.up_to_date.unwrap_or(0),
        };
        let rolling = row.condition("RollingOut").filter(|c| c.status == Status::True);
        let mut owner = OwnerRollout {
            id,
            is_control_plane,
            version: row.version.clone(),
            old_versions: self.old_versions(row, &machines),
            stage: OwnerStage::Settled,
            want,
            done,
            machines,
            began_s: 0,
            up: None,
            usual: self.usual_total(cluster, is_control_plane),
            finished: None,
        };
        owner.stage = self.stage(cluster_row, row, &owner, is_read);
        if owner.stage.is_under_way() {
            owner.began_s = rolling.map_or_else(|| self.began_s(row, &owner), |c| c.since_s);
            owner.up = up_times(&owner.machines, owner.began_s);
        } else if let Some(ended_s) = ended_s(row) {
            owner.finished = finished::of(self, id, &owner.machines, ended_s);
        }
        Some(owner)
    }

    fn rolling_machines(&self, cluster: &Row, owner: &Row, id: RowId) -> Vec<RollingMachine> {
        let is_control_plane = owner.kind == Kind::ControlPlane;
        let initialized_s = true_since(cluster, "ControlPlaneInitialized");
        let around = |row: &Row| Around {
            version: owner.version.clone(),
            infrastructure_s: true_since(cluster, "InfrastructureReady"),
            // The first one was there before.
            initialized_s: if is_control_plane && row.created_s <= initialized_s { 0 } else { initialized_s },
        };
        let mut machines = Vec::new();
        // A control plane owns its Machines itself, a deployment through its sets.
        let sets = self.index.children(id).chain(std::iter::once(id));
        for machine in sets.flat_map(|set| self.index.children(set)) {
            let Some(row) = self.row(machine).filter(|row| row.kind == Kind::Machine) else { continue };
            let limits = self.index.limits(row, self.index.cover(row));
            machines.push(around(row).machine(machine, row, limits, self.own_verdict(machine)));
        }
        machines
    }

    fn old_versions(&self, row: &Row, machines: &[RollingMachine]) -> Vec<Arc<str>> {
        let mut versions: Vec<Arc<str>> = Vec::new();
        for old in machines.iter().filter(|m| m.is_old) {
            let Some(version) = self.row(old.id).map(|row| &row.version) else { continue };
            if *version != row.version && !version.is_empty() && !versions.contains(version) {
                versions.push(version.clone());
            }
        }
        versions.sort();
        versions
    }

    /// What ready Machines of a cluster took from their creation, where there are any.
    fn usual_total(&self, cluster: RowId, is_control_plane: bool) -> Option<Limits> {
        let row = self.row(cluster)?;
        let members = self.index.members_of.get(&crate::fleet::index::cluster_key(row))?;
        let samples = &members.samples[usize::from(is_control_plane)].as_deref()?[Step::Total as usize];
        (samples.count() > 0).then(|| samples.limits(1))
    }

    fn stage(&self, cluster: &Row, row: &Row, owner: &OwnerRollout, is_read: bool) -> OwnerStage {
        let facts = row.replica_facts();
        let is_rolling = row.condition("RollingOut").is_some_and(|c| c.status == Status::True);
        if row.is_deleting() {
            return OwnerStage::Deleting;
        }
        if owner.old().next().is_none() && !is_rolling && !is_completing(row, owner) {
            let scheduled = facts.and_then(|f| f.rollout_after_s).filter(|at_s| *at_s > self.now_s());
            return match scheduled {
                _ if !is_read => OwnerStage::Unread,
                Some(at_s) => {
                    let older = count(owner.machines.iter().filter(|m| m.created_s < at_s));
                    OwnerStage::Scheduled { at_s, older }
                }
                None if follows_topology(cluster, row) => OwnerStage::FollowsTopology,
                None => OwnerStage::Settled,
            };
        }
        if row.paused || cluster.paused {
            return OwnerStage::Paused;
        }
        // Before the waits: what moves shows that the owner is not held.
        if owner.moving().next().is_some() {
            return OwnerStage::Rolling;
        }
        if facts.is_some_and(|facts| facts.on_delete) {
            return OwnerStage::OnDelete;
        }
        // Between two replacements there is a moment in which nothing moves.
        self.waiting(row, owner.id).unwrap_or(OwnerStage::Rolling)
    }

    /// What the owner or one of its MachineSets says it waits for.
    fn waiting(&self, row: &Row, id: RowId) -> Option<OwnerStage> {
        let sets = self.index.children(id).filter_map(|set| Some((set, self.row(set)?.as_ref())));
        let mut all = std::iter::once((id, row)).chain(sets.filter(|(_, set)| set.kind == Kind::MachineSet));
        all.find_map(|(of, row)| {
            let blocked = row.conditions.iter().find(|c| c.message.contains(BLOCKED_BECAUSE))?;
            let (check, reason) = first_reason(blocked)?;
            Some(OwnerStage::Waiting { check, reason, of, since_s: blocked.since_s })
        })
    }

    /// When it began, where its condition does not say: when it was seen to, else when its first new Machine was made.
    fn began_s(&self, row: &Row, owner: &OwnerRollout) -> u32 {
        finished::began_s(self, row, u32::MAX)
            .or_else(|| owner.moving().filter(|m| !m.is_old).map(|m| m.created_s).min())
            .unwrap_or_else(|| self.now_s())
    }
}

/// No old Machine is left, and a new one that took the place of the last is not up yet.
fn is_completing(row: &Row, owner: &OwnerRollout) -> bool {
    let Some(ended_s) = ended_s(row) else { return false };
    let belongs = |m: &RollingMachine| {
        m.phase.is_moving() && m.created_s.abs_diff(ended_s) <= LAST_MACHINES_S && !m.is_old
    };
    owner.machines.iter().any(belongs)
}

/// A Cluster with a topology asks for a version that this part of it does not have yet.
fn follows_topology(cluster: &Row, row: &Row) -> bool {
    let has_class = cluster.cluster_facts().is_some_and(|facts| !facts.class.is_empty());
    has_class && !cluster.version.is_empty() && !row.version.is_empty() && cluster.version != row.version
}

/// The first line after "is blocked because", and the name in quotes of the check that gave it.
fn first_reason(blocked: &Condition) -> Option<(Option<String>, String)> {
    let lines = blocked.message.lines().skip_while(|line| !line.contains(BLOCKED_BECAUSE)).skip(1);
    let mut reasons =
        lines.map(|line| line.trim_start_matches([' ', '*']).trim_end()).filter(|line| !line.is_empty());
    let reason = reasons.next()?;
    let check = reason.split("(\"").nth(1).and_then(|rest| rest.split('"').next());
    Some((check.map(str::to_owned), reason.to_owned()))
}

fn count<'a>(machines: impl Iterator<Item = &'a RollingMachine>) -> u32 {
    u32::try_from(machines.count()).unwrap_or(u32::MAX)
}
