//! Where every row is: by uid, by owner, by cluster; and the verdict of everything under it, kept as
//! counts so that one change costs one walk up. Must not know conditions nor how rows are judged.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::judge::Judgement;
use super::row::{Kind, Row, RowId, SourceId, Uid};
use super::shown::Shown;
use super::usual::{StepSamples, UsualTimes};
use crate::fleet::Verdict;

/// Rows under one parent, counted by verdict; rank of [`Verdict`] is the position.
pub(super) type Tally = [u32; 5];

#[derive(Default)]
pub(super) struct Index {
    slots: Vec<Option<Slot>>,
    free: Vec<RowId>,
    by_uid: FxHashMap<(SourceId, Uid), RowId>,
    /// Controller's uid → what it owns. Present before the owner itself is seen.
    pub(super) owned: FxHashMap<(SourceId, Uid), Owned>,
    clusters: Vec<RowId>,
    pub(super) members_of: FxHashMap<ClusterKey, Members>,
    /// What names no cluster, by kind and name.
    loose: Vec<RowId>,
    now_s: u32,
    /// Everything was listed once: what comes from now on is news.
    pub(super) is_live: bool,
    /// Sources without contact: of what they have, nothing is known any more.
    pub(super) lost: Vec<SourceId>,
    /// Rows to judge again.
    pub(super) dirty: BTreeSet<RowId>,
    /// When time alone may turn which row.
    pub(super) due: BTreeSet<(u32, RowId)>,
    /// What Machines of a kind took that came up before our eyes.
    pub(super) usual: UsualTimes,
    /// When a status of a kind was seen to change last, seconds since the epoch.
    written_s: FxHashMap<(SourceId, Kind), u32>,
}

pub(super) struct Slot {
    pub(super) row: Arc<Row>,
    pub(super) shown: Shown,
    /// As it was judged last, `None`: well, as most are. Time and what is around it make it judged again.
    pub(super) judged: Option<Box<Judgement>>,
    /// When that was.
    pub(super) judged_s: u32,
    /// How the row counts for what is above it: what only repeats or waits its turn counts as well.
    pub(super) effect: Verdict,
    /// Since when the object gives no date for what it waits for; 0 when it does.
    pub(super) undated_s: u32,
    /// Its place in [`Index::due`]; 0: none.
    pub(super) due_s: u32,
    /// Its duration was learnt from.
    pub(super) is_sampled: bool,
}

/// What one object owns.
#[derive(Default)]
pub(super) struct Owned {
    ids: Vec<RowId>,
    pub(super) effects: Tally,
    /// When one of them came, went or turned.
    pub(super) below_s: u32,
    pub(super) samples: Option<Box<StepSamples>>,
}

/// A cluster by name, present before the Cluster itself is seen.
pub(super) type ClusterKey = (SourceId, Arc<str>, Arc<str>);

/// Everything that names one cluster.
#[derive(Default)]
pub(super) struct Members {
    cluster: Option<RowId>,
    by_kind: [Vec<RowId>; Kind::ALL.len()],
    /// What is shown, without kinds that have no place in the tree.
    tally: Tally,
    /// As [`Slot::effect`], without the Cluster itself.
    pub(super) effects: Tally,
    pub(super) below_s: u32,
    /// Of workers, and of the control plane.
    pub(super) samples: [Option<Box<StepSamples>>; 2],
}

/// The row that was put, and which clusters that touched: the one it belongs to, and the one it belonged to before.
pub(super) struct Upserted {
    pub(super) id: RowId,
    pub(super) clusters: [Option<RowId>; 2],
}

impl Index {
    pub(super) fn row(&self, id: RowId) -> Option<&Arc<Row>> {
        self.slot(id).map(|slot| &slot.row)
    }

    pub(super) fn slot(&self, id: RowId) -> Option<&Slot> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(super) fn slot_mut(&mut self, id: RowId) -> Option<&mut Slot> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (RowId, &Arc<Row>)> {
        (0u32..).zip(&self.slots).filter_map(|(at, slot)| slot.as_ref().map(|slot| (RowId(at), &slot.row)))
    }

    pub(super) fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub(super) fn find(&self, source: SourceId, uid: Uid) -> Option<RowId> {
        self.by_uid.get(&(source, uid)).copied()
    }

    pub(super) fn clusters(&self) -> &[RowId] {
        &self.clusters
    }

    pub(super) fn owned_by(&self, row: &Row) -> &[RowId] {
        self.owned.get(&(row.source, row.uid)).map_or(&[], |owned| owned.ids.as_slice())
    }

    pub(super) fn members(&self, cluster: &Row, kind: Kind) -> &[RowId] {
        self.members_of
            .get(&cluster_key(cluster))
            .map_or(&[], |members| members.by_kind[kind as usize].as_slice())
    }

    /// All objects of a kind by cluster, those of each by name: first clusters that are there, then what belongs to none of
    /// them. Those of a group are in one namespace.
    pub(super) fn groups(&self, kind: Kind) -> impl Iterator<Item = (Option<RowId>, &[RowId])> {
        let of_cluster = move |id: &RowId| {
            Some((Some(*id), self.members(self.row(*id)?, kind))).filter(|(_, ids)| !ids.is_empty())
        };
        let is_missing = |(_, members): &(&ClusterKey, &Members)| members.cluster.is_none();
        let mut missing: Vec<(&ClusterKey, &Members)> = self.members_of.iter().filter(is_missing).collect();
        missing.sort_unstable_by_key(|(key, _)| *key);
        let missing =
            missing.into_iter().map(move |(_, members)| (None, members.by_kind[kind as usize].as_slice()));
        let loose = self.loose.chunk_by(|a, b| self.kind_and_namespace(*a) == self.kind_and_namespace(*b));
        let loose = loose
            .filter(move |ids| ids.first().and_then(|id| self.row(*id)).is_some_and(|row| row.kind == kind));
        self.clusters.iter().filter_map(of_cluster).chain(missing).chain(loose.map(|ids| (None, ids)))
    }

    fn kind_and_namespace(&self, id: RowId) -> Option<(Kind, &str)> {
        self.row(id).map(|row| (row.kind, row.namespace.as_ref()))
    }

    pub(super) fn cluster_of(&self, row: &Row) -> Option<RowId> {
        self.members_of.get(&cluster_key(row)).and_then(|members| members.cluster)
    }

    pub(super) fn upsert(&mut self, row: Arc<Row>) -> Upserted {
        let known = self.find(row.source, row.uid);
        let before = known.and_then(|id| self.row(id)).cloned();
        // Before the row moves: the cluster that it leaves has changed, too.
        let cluster = before.as_ref().and_then(|old| self.cluster_of(old));
        if self.is_live && before.as_ref().is_some_and(|old| is_status_written(old, &row)) {
            self.written_s.insert((row.source, row.kind), self.now_s);
        }
        let turns_all = before.as_ref().is_none_or(|old| matters_below(old, &row));
        let stays = before.as_ref().is_some_and(|old| place_of(old) == place_of(&row));
        let id = self.place(known, stays, row.clone());
        let is_new = self.slot(id).is_some_and(|slot| slot.due_s == 0 && slot.shown.is_new());
        // For what is above, an object that comes in is a move, after which its wait counts anew.
        if is_new {
            self.touch(&row);
        }
        self.dirty.insert(id);
        // Of a Machine nothing above it looks at more than how it counts, and when that turns all of it is marked.
        if row.kind != Kind::Machine || !stays {
            self.mark_above(id, &row);
        }
        let is_around =
            matches!(row.kind, Kind::Cluster | Kind::MachineDeployment) || row.health_check().is_some();
        if turns_all && is_around {
            self.mark_members(&row);
        }
        Upserted { id, clusters: [self.cluster_of(&row), cluster] }
    }

    /// Puts a row where its name, owner and cluster say. Most changes leave all three as they are: the row is then
    /// exchanged where it is.
    fn place(&mut self, known: Option<RowId>, stays: bool, row: Arc<Row>) -> RowId {
        if let Some(id) = known.filter(|_| stays)
            && let Some(slot) = self.slot_mut(id)
        {
            slot.row = row;
            return id;
        }
        let slot = match known.and_then(|id| self.unlink(id)) {
            Some(slot) => Slot { row, ..slot },
            None => Self::new_slot(row),
        };
        let id = known.unwrap_or_else(|| self.new_id());
        self.link(id, slot);
        id
    }

    fn new_slot(row: Arc<Row>) -> Slot {
        let shown = Shown::default();
        Slot {
            row,
            shown,
            judged: None,
            judged_s: 0,
            effect: Verdict::Ok,
            undated_s: 0,
            due_s: 0,
            is_sampled: false,
        }
    }

    pub(super) fn remove(&mut self, id: RowId) {
        if let Some(slot) = self.unlink(id) {
            self.due.remove(&(slot.due_s, id));
            self.by_uid.remove(&(slot.row.source, slot.row.uid));
            self.dirty.remove(&id);
            self.touch(&slot.row);
            self.mark_above(id, &slot.row);
            if slot.row.health_check().is_some() {
                self.mark_members(&slot.row);
            }
            // Given to another row only when nothing marks this one any more.
            self.free.push(id);
        }
    }

    /// Something below came or went: now, or, when the fleet was not watched, as late as the row says.
    fn touch(&mut self, row: &Row) {
        let last_s = row.conditions.iter().map(|c| c.since_s).fold(row.created_s, u32::max);
        // In the first list nothing moves: the object's own dates count.
        let at_s = if self.is_live { self.now_s } else { last_s };
        if let Some(owned) = row.owner.as_ref().and_then(|o| self.owned.get_mut(&(row.source, o.uid))) {
            owned.below_s = owned.below_s.max(at_s);
        }
        if row.kind != Kind::Cluster
            && let Some(members) = self.members_of.get_mut(&cluster_key(row))
        {
            members.below_s = members.below_s.max(at_s);
        }
    }

    /// What is shown of a row turned.
    pub(super) fn count_shown(&mut self, row: &Row, was: Verdict, now: Verdict) {
        if is_in_tree(row)
            && let Some(members) = self.members_of.get_mut(&cluster_key(row))
        {
            // The row was counted when it was linked, so that this count is not zero.
            members.tally[was as usize] -= 1;
            members.tally[now as usize] += 1;
        }
    }

    /// How a row counts for what is above it turned.
    pub(super) fn count_effect(&mut self, row: &Row, was: Verdict, now: Verdict, now_s: u32) {
        // While the first lists are read, verdicts turn because of the reading. The dates of the
        // objects count then.
        let at_s = if self.is_live { now_s } else { 0 };
        if let Some(owned) = row.owner.as_ref().and_then(|o| self.owned.get_mut(&(row.source, o.uid))) {
            owned.effects[was as usize] -= 1;
            owned.effects[now as usize] += 1;
            owned.below_s = owned.below_s.max(at_s);
        }
        if is_counted_below(row.kind)
            && let Some(members) = self.members_of.get_mut(&cluster_key(row))
        {
            members.effects[was as usize] -= 1;
            members.effects[now as usize] += 1;
            members.below_s = members.below_s.max(at_s);
        }
    }

    fn new_id(&mut self) -> RowId {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            RowId(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
        })
    }

    fn link(&mut self, id: RowId, slot: Slot) {
        let row = slot.row.clone();
        let (shown, effect) = (slot.shown.verdict(), slot.effect);
        // First, since the lists below are ordered by what the slot holds.
        self.slots[id.0 as usize] = Some(slot);
        self.by_uid.insert((row.source, row.uid), id);
        if let Some(owner) = &row.owner {
            let key = (row.source, owner.uid);
            // Taken out for a moment: finding the place looks at other rows.
            let mut owned = self.owned.remove(&key).unwrap_or_default();
            self.insert_sorted(&mut owned.ids, id);
            owned.effects[effect as usize] += 1;
            self.owned.insert(key, owned);
        }
        if row.kind == Kind::Cluster {
            let mut list = std::mem::take(&mut self.clusters);
            self.insert_sorted(&mut list, id);
            self.clusters = list;
        }
        if row.cluster.is_empty() {
            let mut loose = std::mem::take(&mut self.loose);
            self.insert_sorted(&mut loose, id);
            self.loose = loose;
        } else {
            let mut members = self.members_of.remove(&cluster_key(&row)).unwrap_or_default();
            if row.kind == Kind::Cluster {
                members.cluster = Some(id);
            }
            self.insert_sorted(&mut members.by_kind[row.kind as usize], id);
            if is_in_tree(&row) {
                members.tally[shown as usize] += 1;
            }
            if is_counted_below(row.kind) {
                members.effects[effect as usize] += 1;
            }
            self.members_of.insert(cluster_key(&row), members);
        }
    }

    fn unlink(&mut self, id: RowId) -> Option<Slot> {
        let slot = self.slot(id)?;
        let (row, shown, effect) = (slot.row.clone(), slot.shown.verdict(), slot.effect);
        if let Some(owner) = &row.owner {
            let key = (row.source, owner.uid);
            if let Some(mut owned) = self.owned.remove(&key) {
                self.remove_sorted(&mut owned.ids, id);
                owned.effects[effect as usize] -= 1;
                // An owner without objects is forgotten, or the map would only grow.
                if !owned.ids.is_empty() {
                    self.owned.insert(key, owned);
                }
            }
        }
        if row.kind == Kind::Cluster {
            let mut list = std::mem::take(&mut self.clusters);
            self.remove_sorted(&mut list, id);
            self.clusters = list;
        }
        if row.cluster.is_empty() {
            let mut loose = std::mem::take(&mut self.loose);
            self.remove_sorted(&mut loose, id);
            self.loose = loose;
        } else if let Some(mut members) = self.members_of.remove(&cluster_key(&row)) {
            if members.cluster == Some(id) {
                members.cluster = None;
            }
            self.remove_sorted(&mut members.by_kind[row.kind as usize], id);
            if is_in_tree(&row) {
                members.tally[shown as usize] -= 1;
            }
            if is_counted_below(row.kind) {
                members.effects[effect as usize] -= 1;
            }
            if members.by_kind.iter().any(|ids| !ids.is_empty()) {
                self.members_of.insert(cluster_key(&row), members);
            }
        }
        // Last: finding the places above needs what the slot holds.
        self.slots.get_mut(id.0 as usize)?.take()
    }

    fn insert_sorted(&self, ids: &mut Vec<RowId>, id: RowId) {
        // Lists come in name order, so the end is the usual place.
        let at = match ids.last() {
            Some(last) if self.compare(*last, id) == Ordering::Less => ids.len(),
            None => 0,
            Some(_) => ids.partition_point(|other| self.compare(*other, id) == Ordering::Less),
        };
        ids.insert(at, id);
    }

    fn remove_sorted(&self, ids: &mut Vec<RowId>, id: RowId) {
        let at = ids.partition_point(|other| self.compare(*other, id) == Ordering::Less);
        if ids.get(at) == Some(&id) {
            ids.remove(at);
        }
    }

    fn compare(&self, a: RowId, b: RowId) -> Ordering {
        let key = |id: RowId| {
            // Two objects have one name while one replaces the other. The uid gives each its own
            // place.
            self.row(id).map(|row| (row.source, row.kind, row.namespace.as_ref(), row.name.as_ref(), row.uid))
        };
        key(a).cmp(&key(b))
    }

    pub(super) fn own_verdict(&self, id: RowId) -> Verdict {
        if self.is_lost(id) { Verdict::Unknown } else { self.last_own_verdict(id) }
    }

    /// The same by what was seen last.
    pub(super) fn last_own_verdict(&self, id: RowId) -> Verdict {
        self.slot(id).map_or(Verdict::Unknown, |slot| slot.shown.verdict())
    }

    /// Is what is known of the row only what was seen last?
    pub(super) fn is_lost(&self, id: RowId) -> bool {
        !self.lost.is_empty() && self.row(id).is_some_and(|row| self.lost.contains(&row.source))
    }

    /// With everything below.
    pub(super) fn verdict(&self, id: RowId) -> Verdict {
        if self.is_lost(id) { Verdict::Unknown } else { self.last_verdict(id) }
    }

    /// The same by what was seen last. O(1) for a Cluster and for a Machine; O(children) between them.
    pub(super) fn last_verdict(&self, id: RowId) -> Verdict {
        let Some(slot) = self.slot(id) else { return Verdict::Unknown };
        match slot.row.kind {
            Kind::Cluster => slot.shown.verdict().max(self.worst_member(&slot.row)),
            Kind::Machine | Kind::Other => slot.shown.verdict(),
            _ => self
                .children(id)
                .fold(slot.shown.verdict(), |worst, child| worst.max(self.last_verdict(child))),
        }
    }

    /// What `id` owns, further down the order of kinds: owner references that run in circles end here.
    pub(super) fn children(&self, id: RowId) -> impl Iterator<Item = RowId> + '_ {
        let (owned, kind) = self.row(id).map_or((&[][..], Kind::Other), |row| (self.owned_by(row), row.kind));
        owned.iter().copied().filter(move |child| self.row(*child).is_some_and(|row| row.kind > kind))
    }

    pub(super) fn written_s(&self, source: SourceId, kind: Kind) -> u32 {
        self.written_s.get(&(source, kind)).copied().unwrap_or(0)
    }

    pub(super) fn now_s(&self) -> u32 {
        self.now_s
    }

    /// Time runs forward only: rows that are judged from now on are judged at this time.
    pub(super) fn set_now(&mut self, now_s: u32) {
        self.now_s = self.now_s.max(now_s);
    }

    fn worst_member(&self, cluster: &Row) -> Verdict {
        self.members_of.get(&cluster_key(cluster)).map_or(Verdict::Ok, |members| worst(&members.tally))
    }
}

/// The worst verdict that is counted; well when nothing is.
pub(super) fn worst(tally: &Tally) -> Verdict {
    Verdict::worst(Verdict::ALL.into_iter().filter(|verdict| tally[*verdict as usize] > 0))
}

/// Infrastructure and bootstrap objects speak through their Machines.
pub(super) fn is_in_tree(row: &Row) -> bool {
    row.kind != Kind::Other || row.health_check().is_some()
}

/// The Cluster is above its members, and what has no place in the tree counts for nothing.
fn is_counted_below(kind: Kind) -> bool {
    !matches!(kind, Kind::Cluster | Kind::Other)
}

fn is_status_written(before: &Row, after: &Row) -> bool {
    before.observed_generation != after.observed_generation || before.conditions != after.conditions
}

/// What decides where a row is listed.
fn place_of(row: &Row) -> (SourceId, Kind, &str, &str, &str, Option<Uid>) {
    (row.source, row.kind, &row.namespace, &row.name, &row.cluster, row.owner.as_ref().map(|owner| owner.uid))
}

/// Did something change by which other rows are judged?
fn matters_below(before: &Row, after: &Row) -> bool {
    let clocks = |row: &Row| {
        ["ControlPlaneInitialized", "InfrastructureReady", "RemoteConnectionProbe"]
            .map(|type_| row.condition(type_).map(|c| (c.status, c.since_s)))
    };
    let holds = |row: &Row| (row.paused, row.replica_facts().map(|f| (f.on_delete, f.rollout_after_s)));
    match after.kind {
        Kind::Cluster => clocks(before) != clocks(after),
        Kind::MachineDeployment => holds(before) != holds(after),
        Kind::Other if after.health_check().is_some() => {
            before.facts != after.facts || before.conditions != after.conditions
        }
        _ => false,
    }
}

pub(super) fn cluster_key(row: &Row) -> ClusterKey {
    (row.source, row.namespace.clone(), row.cluster.clone())
}
