//! What a client sees of the etcd of a simulated cluster. Must not know what is healthy enough for what.
//! Source: `test/infrastructure/inmemory/pkg/server/etcd`, v1.14.2. As there: a member is there while
//! its pod is and was not removed, the leader is the one that was made leader last, and there is no
//! election: a leader that goes without `MoveLeader` leaves the cluster without one. Difference: terms
//! are counted, not read from a clock of one second, so there are no ties.

use capstan_engine::workload::{EtcdMember, EtcdView, WorkloadError};
use capstan_physics::etcd::{Etcd, EtcdRefusal, Member};

/// The list of members.
///
/// # Errors
/// [`WorkloadError::NoEtcdLeader`].
pub fn view(etcd: &Etcd) -> Result<EtcdView, WorkloadError> {
    let leader = etcd.leader().ok_or(WorkloadError::NoEtcdLeader)?.id;
    let member = |(name, member): (&str, &Member)| EtcdMember {
        id: member.id,
        name: name.to_owned(),
        // No machine stands behind it.
        peer_urls: Vec::new(),
        learner: false,
        alarms: member.alarms.clone(),
    };
    Ok(EtcdView { members: etcd.listed().map(member).collect(), leader: Some(leader) })
}

/// What a client hears of a request about the member `id` that was refused.
pub fn refused(refusal: EtcdRefusal, id: u64) -> WorkloadError {
    match refusal {
        EtcdRefusal::NoLeader => WorkloadError::NoEtcdLeader,
        EtcdRefusal::LastMember => {
            WorkloadError::Refused("etcd: the last member cannot be removed".to_owned())
        }
        EtcdRefusal::NotAMember => WorkloadError::NotFound(format!("etcd member {id:x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_just_goes_leaves_none_unless_one_led_before_it() {
        let three = || {
            let mut etcd = Etcd::default();
            ["a", "b", "c"].iter().zip(1..).for_each(|(node, id)| etcd.join(node, id));
            etcd
        };
        let mut etcd = three();
        etcd.forget("a");
        assert_eq!(view(&etcd), Err(WorkloadError::NoEtcdLeader));
        let mut etcd = three();
        etcd.move_leader(2).expect("moved");
        etcd.forget("b");
        // "a" led before, and leads again only because the fake looks at the newest term left.
        let seen = view(&etcd).expect("a view");
        assert_eq!((seen.leader, seen.members.len()), (Some(1), 2));
    }
}
