//! What the facts of one look at an etcd amount to: members joined with Machines, quorum, how many more may be
//! lost, what a removal leaves, and findings. Pure: the rules are in `findings`.

use serde::Serialize;

use super::facts::Facts;
use super::findings::{self, Finding, Grade};
use super::members::{MemberRow, Role, View};
use super::{Change, Member, Projection, quorum};

/// How an etcd is as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EtcdState {
    /// It serves, and every voter votes.
    Healthy,
    /// It serves, and something needs attention.
    Degraded,
    /// It does not serve, or will not for long.
    Critical,
    /// No member answered.
    Unknown,
}

/// One look at an etcd, judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The gravest of what was found.
    pub state: EtcdState,
    /// Such as `3 voters, healthy 3, can lose 1 more`.
    pub summary: String,
    /// Hexadecimal, as etcd's tools print it; empty when no member states it.
    pub cluster_id: String,
    /// They count for the quorum.
    pub voters: usize,
    /// They do not count for the quorum.
    pub learners: usize,
    /// Votes that are needed.
    pub quorum: usize,
    /// Voters that vote.
    pub healthy: usize,
    /// Voters that may still be lost; `None` when quorum is lost or nothing is known.
    pub can_lose: Option<usize>,
    /// The leader's name.
    pub leader: Option<String>,
    /// The leader first, then by name.
    pub members: Vec<MemberRow>,
    /// The gravest first.
    pub findings: Vec<Finding>,
    /// What the removal of each voter would leave.
    pub removals: Vec<Removal>,
}

/// What is left without one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// As the member's row shows it.
    pub name: String,
    /// Those that would be left.
    pub voters: usize,
    /// Votes that would be needed.
    pub quorum: usize,
    /// Of those left, the voters that vote now.
    pub healthy: usize,
    /// `None`: quorum would be lost.
    pub can_lose: Option<usize>,
    /// The rest keeps its quorum, also by the rule by which the control plane's controller allows it, which takes a
    /// member that has not started for a learner, and one with an alarm for unhealthy.
    pub is_safe: bool,
}

impl Removal {
    /// Such as `without cp-1: 2 voters, healthy 2, can lose 0 more`.
    pub fn words(&self) -> String {
        if self.voters == 0 {
            return format!("without {}: no voter is left", self.name);
        }
        let rest = match self.can_lose {
            Some(n) => format!("can lose {n} more"),
            None => format!("quorum of {} would be lost", self.quorum),
        };
        let plural = if self.voters == 1 { "" } else { "s" };
        format!("without {}: {} voter{plural}, healthy {}, {rest}", self.name, self.voters, self.healthy)
    }
}

impl Report {
    /// Judges one look. With the look before it, what passes by itself (an election, a member that has not
    /// heard of a change yet) is a finding only when both show it.
    pub fn of(facts: &Facts, previous: Option<&Facts>) -> Self {
        let view = View::of(facts);
        let members = view.rows();
        let voters = members.iter().filter(|row| row.role.is_voter()).count();
        let healthy = members.iter().filter(|row| row.is_healthy).count();
        let learners = members.iter().filter(|row| row.role.is_learner()).count();
        let findings = findings::findings(&view, &members, previous.map(View::of).as_ref());
        let state = state(&view, &findings);
        let holds = state != EtcdState::Unknown && !findings.iter().any(|f| f.rule == findings::QUORUM_LOST);
        // Not by the numbers alone: an answer that proves a
        // quorum outweighs members that were not reached.
        let can_lose = if holds { Some(healthy.saturating_sub(quorum(voters))) } else { None };
        let leader = members.iter().find(|row| row.role == Role::Leader).map(|row| row.name.clone());
        // 0 comes from simulated members, which have no cluster ID.
        let cluster_id = view.cluster_id().filter(|id| *id != 0);
        let removals = removals(&view, &members);
        let summary = summary(state, voters, healthy, learners, can_lose);
        Self {
            state,
            summary,
            cluster_id: cluster_id.map_or_else(String::new, |id| format!("{id:x}")),
            voters,
            learners,
            quorum: quorum(voters),
            healthy,
            can_lose,
            leader,
            members,
            findings,
            removals,
        }
    }

    /// An election, or a member that has not heard of a change yet, may be over a moment later.
    pub fn may_pass(&self) -> bool {
        let passes = |f: &Finding| findings::PASSING.contains(&f.rule) || f.rule == findings::QUORUM_LOST;
        self.findings.iter().any(passes)
    }

    /// What the removal of this member would leave; `None` when it is not a voter.
    pub fn without(&self, name: &str) -> Option<&Removal> {
        self.removals.iter().find(|removal| removal.name == name)
    }
}

fn state(view: &View<'_>, findings: &[Finding]) -> EtcdState {
    if view.statuses().next().is_none() {
        return EtcdState::Unknown;
    }
    match findings.iter().map(|f| f.grade).max() {
        Some(Grade::Critical) => EtcdState::Critical,
        Some(Grade::High | Grade::Medium) => EtcdState::Degraded,
        Some(Grade::Low) | None => EtcdState::Healthy,
    }
}

fn summary(
    state: EtcdState,
    voters: usize,
    healthy: usize,
    learners: usize,
    can_lose: Option<usize>,
) -> String {
    if state == EtcdState::Unknown {
        return "no member answered".to_owned();
    }
    let plural = if voters == 1 { "" } else { "s" };
    let learners = match learners {
        0 => String::new(),
        1 => ", 1 learner".to_owned(),
        n => format!(", {n} learners"),
    };
    let rest = match can_lose {
        Some(n) => format!("can lose {n} more"),
        None => format!("quorum of {} is lost", quorum(voters)),
    };
    format!("{voters} voter{plural}{learners}, healthy {healthy}, {rest}")
}

fn removals(view: &View<'_>, rows: &[MemberRow]) -> Vec<Removal> {
    // A member with an alarm votes, but must not be what the others rely on.
    let is_well = |row: &MemberRow| row.is_healthy && row.alarms.is_empty();
    let is_healthy = |name: &str| rows.iter().find(|row| row.name == name).map(is_well);
    let voters: Vec<&MemberRow> = rows.iter().filter(|row| row.role.is_voter()).collect();
    let without = |row: &&MemberRow| {
        // Not below zero: `row` is one of them.
        let left = voters.len() - 1;
        let healthy = voters.iter().filter(|other| other.is_healthy && other.id != row.id).count();
        let can_lose = healthy.checked_sub(quorum(left));
        let others = view.list.iter().filter(|listed| format!("{:x}", listed.id) != row.id);
        let others: Vec<Member> = others.map(|listed| view.member(listed)).collect();
        Removal {
            name: row.shown_name().to_owned(),
            voters: left,
            quorum: quorum(left),
            healthy,
            can_lose,
            is_safe: can_lose.is_some() && Projection::after(&others, Change::None, is_healthy).is_safe(),
        }
    };
    voters.iter().map(without).collect()
}
