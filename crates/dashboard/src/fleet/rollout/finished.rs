//! What a rollout took that is over: from the timeline where its begin was seen, else from its Machines' own moments.
//! Must not judge.

use super::machine::RollingMachine;
use crate::fleet::Fleet;
use crate::fleet::row::{Kind, Row, RowId};
use crate::fleet::timeline::Happened;
use capi_types::condition::Status;

/// A set or Machine that is so much younger than its owner was not made with it.
const WITH_ITS_OWNER_S: u32 = 120;

/// A rollout that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRollout {
    /// `None`: it began before anybody watched, and nothing shows when.
    pub began_s: Option<u32>,
    /// The begin was not seen: it is when the oldest of the new Machines was made.
    pub began_is_guessed: bool,
    pub ended_s: u32,
    /// New Machines.
    pub machines: u32,
    /// The Machine that took longest from creation to ready, and that time in seconds.
    pub slowest: Option<(Box<str>, u32)>,
}

/// The last rollout of an owner; `None` where none is known.
pub(super) fn of(
    fleet: &Fleet,
    id: RowId,
    machines: &[RollingMachine],
    ended_s: u32,
) -> Option<FinishedRollout> {
    let row = fleet.row(id)?;
    let seen = began_s(fleet, row, ended_s);
    let began = seen.or_else(|| oldest(fleet, id, row, machines));
    let is_of_it = |m: &&RollingMachine| {
        !m.is_old
            // Upstream may write the condition after the first Machine is made, and moments have
            // whole seconds.
            && began.is_some_and(|began| m.created_s.saturating_add(2) >= began)
            && m.created_s <= ended_s.saturating_add(60)
    };
    let new: Vec<&RollingMachine> = machines.iter().filter(is_of_it).collect();
    let measured = new.iter().filter_map(|m| Some((m.id, m.up_s()?)));
    let slowest = measured.max_by_key(|(_, up_s)| *up_s);
    let slowest = slowest.and_then(|(id, up_s)| Some((fleet.row(id)?.name.clone(), up_s)));
    let ready_s = new.iter().map(|m| m.ready_s).max().unwrap_or(0);
    Some(FinishedRollout {
        began_s: began,
        began_is_guessed: seen.is_none(),
        // A Machine that turned ready much later did so once more, which is not the end of the
        // rollout.
        ended_s: ended_s.max(if ready_s <= ended_s.saturating_add(3600) { ready_s } else { 0 }),
        machines: u32::try_from(new.len()).unwrap_or(u32::MAX),
        slowest,
    })
}

/// The last time before `until_s` at which an owner was seen to begin.
pub(super) fn began_s(fleet: &Fleet, row: &Row, until_s: u32) -> Option<u32> {
    let mut entries = fleet.seen_in_cluster_of(row).rev();
    let began = entries.find(|entry| {
        let begins = matches!(&entry.happened, Happened::Flip(flip)
            if flip.type_.as_ref() == "RollingOut" && flip.to == Some(Status::True));
        entry.uid == row.uid && begins && entry.at_s <= until_s
    });
    began.map(|entry| entry.at_s)
}

/// When the oldest new Machine was made, or the newest MachineSet, if that was not with the owner itself.
fn oldest(fleet: &Fleet, id: RowId, row: &Row, machines: &[RollingMachine]) -> Option<u32> {
    let made = match row.kind {
        Kind::MachineDeployment => {
            let sets = fleet.index.children(id).filter_map(|set| fleet.row(set));
            sets.map(|set| set.created_s).max()
        }
        _ => machines.iter().filter(|m| !m.is_old).map(|m| m.created_s).min(),
    };
    made.filter(|made_s| *made_s > row.created_s.saturating_add(WITH_ITS_OWNER_S))
}

/// Several owners' rollouts as one: of those that overlap or follow each other, the last. With those of which it was made.
pub(super) fn together<'a>(
    all: impl Iterator<Item = &'a FinishedRollout>,
) -> Option<(FinishedRollout, Vec<&'a FinishedRollout>)> {
    let mut all: Vec<&FinishedRollout> = all.collect();
    all.sort_by_key(|finished| std::cmp::Reverse(finished.ended_s));
    let last = *all.first()?;
    let (mut found, mut parts) = (last.clone(), vec![last]);
    for other in &all[1..] {
        let Some(began) = found.began_s else { break };
        // Workers follow their control plane within minutes.
        if other.ended_s.saturating_add(super::NEWS_S / 6) < began {
            continue;
        }
        parts.push(other);
        let Some(other_began) = other.began_s else { continue };
        found.began_is_guessed |= other_began < began && other.began_is_guessed;
        found.began_s = Some(began.min(other_began));
        found.machines += other.machines;
        found.slowest =
            found.slowest.into_iter().chain(other.slowest.clone()).max_by_key(|(_, took_s)| *took_s);
    }
    Some((found, parts))
}
