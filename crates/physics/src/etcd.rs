//! The members of one etcd: who is one, who answers, who leads. Owns membership and votes; must not know what is healthy
//! enough for what.

use std::collections::BTreeMap;

/// What one member knows of itself and of its membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// The term in which it became leader last; 0: never.
    pub leader_term: u64,
    /// It was taken out of the list; its process may still run.
    pub is_removed: bool,
    /// Its process runs.
    pub answers: bool,
    pub alarms: Vec<String>,
}

impl Member {
    pub fn new(id: u64) -> Self {
        Self { id, leader_term: 0, is_removed: false, answers: true, alarms: Vec::new() }
    }

    fn votes(&self) -> bool {
        self.answers && !self.is_removed
    }
}

/// Why etcd does not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdRefusal {
    /// Too few members answer, or the leader went and none was elected.
    NoLeader,
    /// Nothing would be left.
    LastMember,
    /// There is no such member.
    NotAMember,
}

/// All members of one cluster, by the name of their Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Etcd {
    members: BTreeMap<String, Member>,
}

impl Etcd {
    /// A member joins, and the first one leads. Joining again changes nothing.
    pub fn join(&mut self, node: &str, id: u64) {
        // Of an etcd of one, the one leads; term 0 is that of members that never did.
        let leader_term = u64::from(self.members.is_empty());
        self.members.entry(node.to_owned()).or_insert(Member { leader_term, ..Member::new(id) });
    }

    /// A member as it was before anybody looked.
    pub fn restore(&mut self, node: &str, member: Member) {
        // In the place of one that joined meanwhile: what was remembered is right.
        self.members.insert(node.to_owned(), member);
    }

    /// Its process ends. Until it is removed it counts for the quorum.
    pub fn end(&mut self, node: &str) {
        if let Some(member) = self.members.get_mut(node) {
            // Kept in the list: etcd itself never takes out a member that is silent.
            member.answers = false;
        }
    }

    /// The member leaves the list with its process, as if it had never been one.
    pub fn forget(&mut self, node: &str) {
        self.members.remove(node);
    }

    pub fn member(&self, node: &str) -> Option<&Member> {
        self.members.get(node)
    }

    pub fn member_mut(&mut self, node: &str) -> Option<&mut Member> {
        self.members.get_mut(node)
    }

    /// Those that were not removed, with the names of their Nodes.
    pub fn listed(&self) -> impl Iterator<Item = (&str, &Member)> {
        self.members.iter().filter(|(_, member)| !member.is_removed).map(|(node, m)| (node.as_str(), m))
    }

    /// Members that answer, and how many have to.
    pub fn votes(&self) -> (usize, usize) {
        // A majority of all that are listed, dead ones among them: these cost the quorum.
        let answering = self.listed().filter(|(_, member)| member.answers).count();
        (answering, self.listed().count() / 2 + 1)
    }

    /// How many members may fail beyond those that did; `None` without any.
    pub fn margin(&self) -> Option<i64> {
        let (answering, quorum) = self.votes();
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.listed().next().map(|_| number(answering) - number(quorum))
    }

    /// The last leader, not the last of those that are left: another one leads only once it is elected. Without a quorum
    /// nobody leads.
    pub fn leader(&self) -> Option<&Member> {
        // Removed ones count here: a leader that was removed leaves none behind until an election.
        let last = self.members.values().filter(|m| m.leader_term > 0).max_by_key(|m| m.leader_term)?;
        let (answering, quorum) = self.votes();
        (last.votes() && answering >= quorum).then_some(last)
    }

    /// The members elect a leader where theirs is gone and enough of them answer.
    pub fn elect(&mut self) {
        let (answering, quorum) = self.votes();
        // A leader that works stays, and a minority cannot elect one.
        if self.leader().is_some() || answering < quorum {
            return;
        }
        let term = self.next_term();
        // The lowest ID: real elections are a matter of chance, and runs are to be alike.
        let first = self.members.values_mut().filter(|member| member.votes()).min_by_key(|member| member.id);
        if let Some(member) = first {
            member.leader_term = term;
        }
    }

    /// Takes a member out. One that is not there is fine.
    ///
    /// # Errors
    /// The last member is refused; without a leader nothing works.
    pub fn remove(&mut self, id: u64) -> Result<(), EtcdRefusal> {
        // Asked first, as in etcd: a change of membership has to be agreed upon.
        self.leader().ok_or(EtcdRefusal::NoLeader)?;
        // After a lost answer a caller removes again.
        if self.listed().all(|(_, member)| member.id != id) {
            return Ok(());
        }
        if self.listed().count() == 1 {
            return Err(EtcdRefusal::LastMember);
        }
        if let Some(member) = self.members.values_mut().find(|m| m.id == id) {
            // Marked and kept, since its pod goes on until its machine is gone.
            member.is_removed = true;
        }
        Ok(())
    }

    /// Makes a member the leader.
    ///
    /// # Errors
    /// No such member; without a leader nothing works.
    pub fn move_leader(&mut self, to: u64) -> Result<(), EtcdRefusal> {
        if self.leader().ok_or(EtcdRefusal::NoLeader)?.id == to {
            return Ok(());
        }
        let term = self.next_term();
        // Found before the term is written: a refusal changes nothing.
        let target = self.members.values_mut().find(|m| m.id == to && !m.is_removed);
        target.ok_or(EtcdRefusal::NotAMember)?.leader_term = term;
        Ok(())
    }

    fn next_term(&self) -> u64 {
        self.members.values().map(|m| m.leader_term).max().unwrap_or(0) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Etcd {
        let mut etcd = Etcd::default();
        for (node, id) in [("a", 1), ("b", 2), ("c", 3)] {
            etcd.join(node, id);
        }
        etcd
    }

    fn leader(etcd: &Etcd) -> Option<u64> {
        etcd.leader().map(|member| member.id)
    }

    #[test]
    fn the_first_leads_until_it_is_moved() {
        let mut etcd = three();
        assert_eq!(leader(&etcd), Some(1));
        assert_eq!(etcd.move_leader(3), Ok(()));
        assert_eq!((leader(&etcd), etcd.move_leader(4)), (Some(3), Err(EtcdRefusal::NotAMember)));
        assert_eq!((etcd.remove(1), etcd.remove(1)), (Ok(()), Ok(())), "gone is fine");
        assert_eq!((etcd.listed().count(), etcd.votes()), (2, (2, 2)));
    }

    #[test]
    fn a_leader_that_goes_leaves_none_before_an_election() {
        for is_removed in [false, true] {
            let mut etcd = three();
            if is_removed {
                assert_eq!(etcd.remove(1), Ok(()));
            } else {
                etcd.end("a");
            }
            assert_eq!((leader(&etcd), etcd.remove(2)), (None, Err(EtcdRefusal::NoLeader)));
            etcd.elect();
            assert_eq!(leader(&etcd), Some(2));
        }
    }

    #[test]
    fn without_a_quorum_nobody_leads_nor_is_elected() {
        let mut etcd = three();
        ["b", "c"].iter().for_each(|node| etcd.end(node));
        etcd.elect();
        assert_eq!((leader(&etcd), etcd.margin()), (None, Some(-1)));
        assert_eq!(etcd.move_leader(1), Err(EtcdRefusal::NoLeader));
    }

    #[test]
    fn the_last_member_stays() {
        let mut etcd = Etcd::default();
        assert_eq!(etcd.margin(), None);
        etcd.join("a", 1);
        assert_eq!((etcd.remove(1), etcd.margin()), (Err(EtcdRefusal::LastMember), Some(0)));
    }
}
