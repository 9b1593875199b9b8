//! How a rollout stands: for each control plane and MachineDeployment of a cluster which Machines are old, new, on
//! their way or going, since when, what holds it as far as rows show it, and how long Machines took. Derived from
//! rows alone. Must not know plans, nor how it is drawn.

mod finished;
mod machine;
mod over_time;
mod owner;
mod times;

use std::sync::Arc;

use super::row::{Kind, Row, RowId};
use super::{FeedState, Fleet};

pub use finished::FinishedRollout;
pub use machine::{MachinePhase, RollingMachine};
pub use over_time::MachinesThen;
pub use owner::{OwnerRollout, OwnerStage};
pub use times::{Arrival, UpTimes};

/// A finished rollout is news for so long, seconds.
const NEWS_S: u32 = 3600;
/// What waits for a control plane looks at it so often, with some room.
const LOOK_AGAIN_S: u32 = 30;

/// What replaces Machines, in the order in which it is shown.
const OWNERS: [Kind; 3] = [Kind::ControlPlane, Kind::MachineDeployment, Kind::MachinePool];

/// One cluster: everything in it that may roll.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    pub cluster: RowId,
    /// The version that the Cluster asks for; empty without a topology.
    pub topology_version: Arc<str>,
    /// Control planes, then MachineDeployments, then MachinePools, by name.
    pub owners: Vec<OwnerRollout>,
    /// What is not known because it could not be read, or not yet, in sentences.
    pub unread: Vec<String>,
    /// The moment it was derived at, seconds since the epoch.
    pub at_s: u32,
}

impl Rollout {
    /// Owners that are not settled.
    pub fn moving(&self) -> impl Iterator<Item = &OwnerRollout> {
        self.owners.iter().filter(|owner| owner.stage.is_rollout())
    }

    /// Something rolls now, waits for its turn, or is held: not only scheduled.
    pub fn is_under_way(&self) -> bool {
        self.owners.iter().any(|owner| owner.stage.is_under_way())
    }

    /// A control plane of this cluster replaces Machines, or did until a moment ago: what waits for it looks again in a
    /// while.
    pub fn control_plane_rolls(&self) -> bool {
        let ended = |owner: &OwnerRollout| {
            owner.finished.as_ref().is_some_and(|f| f.ended_s.saturating_add(LOOK_AGAIN_S) > self.at_s)
        };
        let mut planes = self.owners.iter().filter(|owner| owner.is_control_plane);
        planes.any(|plane| plane.stage == OwnerStage::Rolling || ended(plane))
    }

    /// When the first of what is under way began, seconds since the epoch.
    pub fn began_s(&self) -> Option<u32> {
        let began = self.owners.iter().filter(|owner| owner.stage.is_under_way()).map(|owner| owner.began_s);
        began.filter(|s| *s != 0).min()
    }

    /// The next moment at which time alone changes it, seconds since the epoch: a schedule that begins, or a finished
    /// rollout that is no news any more.
    pub fn next_turn_s(&self) -> Option<u32> {
        let scheduled = self.owners.iter().filter_map(|owner| match owner.stage {
            OwnerStage::Scheduled { at_s, .. } => Some(at_s),
            _ => None,
        });
        let ended = self.owners.iter().filter_map(|owner| Some(owner.finished.as_ref()?.ended_s));
        let ended =
            ended.flat_map(|ended_s| [LOOK_AGAIN_S, NEWS_S].map(|after_s| ended_s.saturating_add(after_s)));
        // A moment that is over would wake the screen without end.
        scheduled.chain(ended).filter(|at_s| *at_s > self.at_s).min()
    }

    /// The rollout that ended last, where none is under way.
    pub fn finished(&self) -> Option<FinishedRollout> {
        self.ended().map(|(finished, _)| finished)
    }

    /// The owners that took part in it: another may have rolled out weeks before.
    pub fn finished_owners(&self) -> impl Iterator<Item = &OwnerRollout> {
        let parts = self.ended().map(|(_, parts)| parts).unwrap_or_default();
        self.owners.iter().filter(move |owner| {
            owner.finished.as_ref().is_some_and(|own| parts.iter().any(|part| std::ptr::eq(*part, own)))
        })
    }

    fn ended(&self) -> Option<(FinishedRollout, Vec<&FinishedRollout>)> {
        if self.is_under_way() {
            return None;
        }
        finished::together(self.owners.iter().filter_map(|owner| owner.finished.as_ref()))
    }

    /// Its end was not long ago.
    pub fn is_news(&self) -> bool {
        self.finished().is_some_and(|finished| self.at_s < finished.ended_s.saturating_add(NEWS_S))
    }
}

impl Fleet {
    /// How the rollout of a cluster stands; `None` when the row is not a Cluster.
    /// Costs O(Machines of the cluster).
    pub fn rollout(&self, cluster: RowId) -> Option<Rollout> {
        let row = self.row(cluster).filter(|row| row.kind == Kind::Cluster)?;
        let owners = OWNERS.into_iter().flat_map(|kind| self.members(cluster, kind));
        Some(Rollout {
            cluster,
            topology_version: row.version.clone(),
            owners: owners.filter_map(|id| self.owner_rollout(cluster, *id)).collect(),
            unread: self.unread_parts(cluster, row),
            at_s: self.now_s(),
        })
    }

    /// Does anything in a cluster roll, is it scheduled, or did it roll a short while ago? Costs O(owners): Machines
    /// are not looked at.
    pub fn may_roll(&self, cluster: RowId) -> bool {
        let mut owners =
            OWNERS.into_iter().flat_map(|kind| self.members(cluster, kind)).filter_map(|id| self.row(*id));
        owners.any(|row| owner::may_roll(row, self.now_s()))
    }

    /// What cannot be seen of a cluster.
    fn unread_parts(&self, cluster: RowId, row: &Row) -> Vec<String> {
        let mut unread = Vec::new();
        for kind in ["MachineDeployment", "MachineSet", "Machine"] {
            let Some(feed) = self.feed(row.source, kind) else { continue };
            match &feed.state {
                FeedState::NoAccess { .. } => unread.push(format!("{kind} objects may not be read")),
                FeedState::NotServed { .. } => unread.push(format!("the server has no {kind} objects")),
                _ if !feed.listed => unread.push(format!("{kind} objects are being read")),
                _ => {}
            }
        }
        if self.members(cluster, Kind::ControlPlane).is_empty() {
            let named = row.cluster_facts().and_then(|facts| facts.control_plane_ref.as_ref());
            unread.extend(named.map(|reference| format!("the {} was not read", reference.kind.kind)));
        }
        if !self.members(cluster, Kind::MachinePool).is_empty() {
            unread.push(
                "MachinePools replace their Machines by themselves: what is next in them is not known"
                    .to_owned(),
            );
        }
        unread
    }
}

/// The part of a Machine's or MachineSet's name that its owner's name does not say: without the owner's name, and
/// without the hash of its MachineSet.
pub fn short_name<'a>(name: &'a str, owner: &str) -> &'a str {
    rest_of_name(name, owner).map_or(name, |rest| rest.rsplit('-').next().unwrap_or(rest))
}

/// What a name says after its owner's name and a hyphen.
pub fn rest_of_name<'a>(name: &'a str, owner: &str) -> Option<&'a str> {
    name.strip_prefix(owner)?.strip_prefix('-').filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_what_the_owner_says() {
        for (name, owner, expected) in [
            ("prod-cp-8gtlh", "prod-cp", "8gtlh"),
            ("prod-md-0-x4k9p-zz41d", "prod-md-0", "zz41d"),
            ("prod-md-0-x4k9p", "prod-md-0", "x4k9p"),
            ("by-hand", "prod-cp", "by-hand"),
            ("prod-cp-", "prod-cp", "prod-cp-"),
            ("prod-cp", "prod-cp", "prod-cp"),
        ] {
            assert_eq!(short_name(name, owner), expected);
        }
    }
}
