//! Etcd leadership moves before its member goes: an election costs seconds of write outage, a
//! transfer none. Must not remove anything.
//! Source: KCP-L; `kubeadmcontrolplane_controller.go` (`forwardEtcdLeadership`), v1.14.2.

use std::cmp::Reverse;

use super::{Act, Blocked, Observed, Workload};
use crate::etcd::Member;
use crate::plan::WorkloadCall;
use crate::status::control_plane::OwnedMachine;
use crate::status::control_plane::machine::ETCD_MEMBER;

/// The move that must come before `machine` goes; `None` when it does not lead, or when etcd is not
/// ours. Candidates are tried in order: member healthy, health check passed, up to date, newest.
pub fn forward(observed: &Observed, machine: &OwnedMachine) -> Result<Option<Act>, Blocked> {
    let facts = match &observed.workload {
        Workload::Reached(facts) if observed.etcd_is_managed() => facts,
        // A forecast cannot know the leader, and an external etcd is not ours to move.
        _ => return Ok(None),
    };
    if let Err(error) = &facts.nodes {
        return Err(Blocked::NodesUnknown { detail: format!("{error}; unable to forward etcd leadership") });
    }
    let leader = observed.membership().leader_name().ok_or(Blocked::LeaderUnknown)?;
    if machine.node_name() != Some(leader) {
        return Ok(None);
    }
    let mut machines: Vec<&OwnedMachine> = observed
        .machines
        .iter()
        .filter(|m| m.node_name().is_some() && !m.is_deleting() && m.name() != machine.name())
        .collect();
    // `false` sorts first, so each mark is negated.
    machines.sort_by_key(|m| {
        (
            !m.is_true(ETCD_MEMBER),
            !m.is_true("HealthCheckSucceeded"),
            !m.is_true("UpToDate"),
            Reverse(m.created_at()),
            m.name(),
        )
    });
    let members = observed.membership().members().unwrap_or_default();
    let candidates: Vec<Member> = machines
        .iter()
        // Without a member of its own a Machine cannot lead, however healthy it is.
        .filter_map(|m| members.iter().find(|x| Some(x.name.as_str()) == m.node_name()))
        .cloned()
        .collect();
    if candidates.is_empty() {
        return Err(Blocked::NoLeaderCandidate);
    }
    Ok(Some(Act::Workload(WorkloadCall::MoveEtcdLeader { from: leader.to_owned(), candidates })))
}
