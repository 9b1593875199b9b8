//! Etcd as a control plane sees it: members, quorum arithmetic, what a change would leave behind, and what the
//! members' own answers say about its health. Must not know how members are asked.
//! Source: cluster-api `controlplane/kubeadm/reconcilers/kubeadmcontrolplane/remediation.go`
//! (`targetEtcdClusterHealthy`), `controlplane/kubeadm/pkg/workload_cluster_conditions.go`, v1.14.2.

pub mod facts;
pub mod findings;
pub mod members;
pub mod report;
#[cfg(test)]
mod tests;

/// One etcd member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// As etcd numbers it; people see it in hexadecimal.
    pub id: u64,
    /// The Node's name; empty until the member has started.
    pub name: String,
    /// It gets the log and has no vote.
    pub learner: bool,
    /// `NOSPACE`, `CORRUPT`.
    pub alarms: Vec<String>,
}

/// What etcd answered when it was asked for its members, or why it did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The members were not read: external etcd, no connection, or a reader without access.
    NotAsked,
    /// No etcd pod could be reached; innermost cause.
    NoClient(String),
    /// There is no Node that could host a member, so there is no member to ask.
    NoNodes,
    /// A member was reached but did not list the members; innermost cause.
    ListFailed(String),
    /// A member was reached and listed the members, but not their alarms; innermost cause.
    AlarmsFailed(String),
    /// The members have no leader, so there is no quorum to trust.
    NoLeader,
    /// No member can be asked, and the Machines' stored conditions are taken as they are: these members follow
    /// from it, and the conditions stay.
    Assumed(Members),
    /// A member listed them, and their alarms.
    Known(Members),
}

/// A known member list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// In the order of the answer.
    pub list: Vec<Member>,
    /// Id of the leader; `None` when it is not known.
    pub leader: Option<u64>,
}

impl Membership {
    /// The list; `None` when it is not known.
    pub fn members(&self) -> Option<&[Member]> {
        match self {
            Self::Known(members) | Self::Assumed(members) => Some(&members.list),
            _ => None,
        }
    }

    /// Name of the leading member's Node.
    pub fn leader_name(&self) -> Option<&str> {
        let Self::Known(members) = self else { return None };
        let id = members.leader?;
        members.list.iter().find(|m| m.id == id).map(|m| m.name.as_str())
    }
}

/// Votes needed among `voters`.
pub fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// Members of `voters` that may fail while the others keep quorum.
pub fn tolerated_failures(voters: usize) -> usize {
    voters.saturating_sub(quorum(voters))
}

/// Members, some of them healthy, as they are or as they would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// They count for the quorum.
    pub voters: usize,
    /// They do not count for the quorum.
    pub learners: usize,
    /// Those that do not vote now; a member that has not started is one of them.
    pub unhealthy: usize,
}

/// A change to the member list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The list stays as it is.
    None,
    /// One voter more, which has not started.
    Add,
    /// By name, which is the Node's.
    Remove(&'a str),
}

impl Projection {
    /// The members after `change`. `healthy` judges a member by name: `Some` when a Machine hosts it,
    /// `None` when none does (then only an alarm makes it unhealthy).
    ///
    /// A nameless member counts as a learner and as unhealthy: it was added and has not started. This is Cluster
    /// API's caution about its own changes, and not what etcd counts: `report` has that. A
    /// member to be added counts as unhealthy once there is more than one, or else 0 → 1 → 2 could
    /// never happen.
    pub fn after(members: &[Member], change: Change<'_>, healthy: impl Fn(&str) -> Option<bool>) -> Self {
        let mut projection = Self::default();
        for member in members {
            if change == Change::Remove(&member.name) {
                continue;
            }
            if member.name.is_empty() {
                projection.learners += 1;
                projection.unhealthy += 1;
                continue;
            }
            if member.learner {
                projection.learners += 1;
            } else {
                projection.voters += 1;
            }
            if !healthy(&member.name).unwrap_or(member.alarms.is_empty()) {
                projection.unhealthy += 1;
            }
        }
        if change == Change::Add {
            projection.voters += 1;
            projection.unhealthy += usize::from(members.len() > 1);
        }
        projection
    }

    /// Quorum holds with the healthy voters alone, and there is no learner.
    pub fn is_safe(&self) -> bool {
        self.learners == 0 && self.voters.saturating_sub(self.unhealthy) >= quorum(self.voters)
    }
}
