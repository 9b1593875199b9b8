//! The etcd of one simulated cluster: members, leader, alarms. Owns membership as upstream's fake has
//! it; must not know what is healthy enough for what.
//! Source: `test/infrastructure/inmemory/pkg/server/etcd`, v1.14.0. As there: a member is there while
//! its pod is and was not removed, the leader is the one that was made leader last, and there is no
//! election: a leader that goes without `MoveLeader` leaves the cluster without one. Difference: terms
//! are counted, not read from a clock of one second, so there are no ties.

use std::collections::BTreeMap;

use capstan_engine::workload::{EtcdMember, EtcdView, WorkloadError};

/// One member, by the name of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// The term in which it became leader last; 0: never.
    pub leader_term: u64,
    /// Taken out by `MemberRemove`; the process may still run.
    pub removed: bool,
    pub alarms: Vec<String>,
}

/// All members of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Etcd {
    members: BTreeMap<String, Member>,
}

impl Etcd {
    /// A member starts. The first one leads. Starting again changes nothing.
    pub fn start(&mut self, node: &str, id: u64) {
        if self.members.contains_key(node) {
            return;
        }
        let leader_term = if self.members.is_empty() { 1 } else { 0 };
        self.members.insert(node.to_owned(), Member { id, leader_term, removed: false, alarms: Vec::new() });
    }

    /// A member as it was before this process started.
    pub fn restore(&mut self, node: &str, member: Member) {
        self.members.insert(node.to_owned(), member);
    }

    /// The pod is gone, and with it the member.
    pub fn stop(&mut self, node: &str) {
        self.members.remove(node);
    }

    pub fn member(&self, node: &str) -> Option<&Member> {
        self.members.get(node)
    }

    pub fn member_mut(&mut self, node: &str) -> Option<&mut Member> {
        self.members.get_mut(node)
    }

    fn leader(&self) -> Option<&Member> {
        // The last leader, not the last of those that are left: simulated members do not elect.
        self.members
            .values()
            .filter(|m| m.leader_term > 0)
            .max_by_key(|m| m.leader_term)
            .filter(|m| !m.removed)
    }

    /// What a client sees.
    ///
    /// # Errors
    /// [`WorkloadError::NoEtcdLeader`].
    pub fn view(&self) -> Result<EtcdView, WorkloadError> {
        let leader = self.leader().ok_or(WorkloadError::NoEtcdLeader)?.id;
        let members = self.members.iter().filter(|(_, m)| !m.removed).map(|(name, m)| EtcdMember {
            id: m.id,
            name: name.clone(),
            learner: false,
            alarms: m.alarms.clone(),
        });
        Ok(EtcdView { members: members.collect(), leader: Some(leader) })
    }

    /// Takes a member out. One that is not there is fine.
    ///
    /// # Errors
    /// The last member is refused; without a leader nothing works.
    pub fn remove(&mut self, id: u64) -> Result<(), WorkloadError> {
        let view = self.view()?;
        if !view.members.iter().any(|m| m.id == id) {
            return Ok(());
        }
        if view.members.len() == 1 {
            return Err(WorkloadError::Refused("etcd: the last member cannot be removed".to_owned()));
        }
        if let Some(member) = self.members.values_mut().find(|m| m.id == id) {
            member.removed = true;
        }
        Ok(())
    }

    /// Makes a member the leader.
    ///
    /// # Errors
    /// No such member; without a leader nothing works.
    pub fn move_leader(&mut self, to: u64) -> Result<(), WorkloadError> {
        let view = self.view()?;
        if view.leader == Some(to) {
            return Ok(());
        }
        let term = self.members.values().map(|m| m.leader_term).max().unwrap_or(0) + 1;
        let target = self.members.values_mut().find(|m| m.id == to && !m.removed);
        let target = target.ok_or_else(|| WorkloadError::NotFound(format!("etcd member {to:x}")))?;
        target.leader_term = term;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Etcd {
        let mut etcd = Etcd::default();
        for (node, id) in [("a", 1), ("b", 2), ("c", 3)] {
            etcd.start(node, id);
        }
        etcd
    }

    #[test]
    fn the_first_leads_until_it_is_moved() {
        let mut etcd = three();
        assert_eq!(etcd.view().expect("a view").leader, Some(1));
        etcd.move_leader(3).expect("moved");
        assert_eq!(etcd.view().expect("a view").leader, Some(3));
        etcd.remove(1).expect("removed");
        etcd.remove(1).expect("gone is fine");
        assert_eq!(etcd.view().expect("a view").members.len(), 2);
    }

    #[test]
    fn a_leader_that_just_goes_leaves_none() {
        let mut etcd = three();
        etcd.move_leader(2).expect("moved");
        etcd.stop("b");
        // "a" led before, and leads again only because the fake looks at the newest term left.
        assert_eq!(etcd.view().expect("a view").leader, Some(1));
        let mut etcd = three();
        etcd.stop("a");
        assert_eq!(etcd.view(), Err(WorkloadError::NoEtcdLeader));
        assert_eq!(etcd.remove(2), Err(WorkloadError::NoEtcdLeader));
    }

    #[test]
    fn the_last_member_stays() {
        let mut etcd = Etcd::default();
        etcd.start("a", 1);
        assert!(matches!(etcd.remove(1), Err(WorkloadError::Refused(_))));
    }
}
