//! Where every row is: by uid, by owner, by cluster; and the verdict of everything under it, kept as
//! counts so that one change costs one walk up. Must not know conditions nor what is shown.

use std::cmp::Ordering;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::judge::judge;
use super::row::{Kind, Row, RowId, SourceId, Uid};
use crate::status::verdict::Verdict;

/// Rows under one parent, counted by verdict; rank of [`Verdict`] is the position.
type Tally = [u32; 5];

#[derive(Default)]
pub(super) struct Index {
    slots: Vec<Option<Slot>>,
    free: Vec<RowId>,
    by_uid: FxHashMap<(SourceId, Uid), RowId>,
    /// Controller's uid → what it owns. Present before the owner itself is seen.
    owned: FxHashMap<(SourceId, Uid), Vec<RowId>>,
    clusters: Vec<RowId>,
    members_of: FxHashMap<ClusterKey, Members>,
    now_s: u32,
}

struct Slot {
    row: Arc<Row>,
    own: Verdict,
}

/// A cluster by name, present before the Cluster itself is seen.
type ClusterKey = (SourceId, Arc<str>, Arc<str>);

/// Everything that names one cluster.
#[derive(Default)]
struct Members {
    cluster: Option<RowId>,
    by_kind: [Vec<RowId>; Kind::ALL.len()],
    /// Without kinds that have no place in the tree.
    tally: Tally,
}

/// Which clusters an upsert touched: the one it belongs to, and the one it belonged to before.
pub(super) struct Upserted {
    pub(super) clusters: [Option<RowId>; 2],
}

impl Index {
    pub(super) fn row(&self, id: RowId) -> Option<&Arc<Row>> {
        self.slot(id).map(|slot| &slot.row)
    }

    fn slot(&self, id: RowId) -> Option<&Slot> {
        self.slots.get(id.0 as usize)?.as_ref()
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
        self.owned.get(&(row.source, row.uid)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn members(&self, cluster: &Row, kind: Kind) -> &[RowId] {
        self.members_of
            .get(&cluster_key(cluster))
            .map_or(&[], |members| members.by_kind[kind as usize].as_slice())
    }

    pub(super) fn cluster_of(&self, row: &Row) -> Option<RowId> {
        self.members_of.get(&cluster_key(row)).and_then(|members| members.cluster)
    }

    pub(super) fn upsert(&mut self, row: Arc<Row>) -> Upserted {
        let before = self.find(row.source, row.uid).map(|id| {
            let cluster = self.row(id).and_then(|old| self.cluster_of(old));
            self.unlink(id);
            (id, cluster)
        });
        let id = before.map_or_else(|| self.new_id(), |(id, _)| id);
        let own = judge(&row, self.now_s).verdict;
        self.link(id, Slot { row, own });
        let now = self.row(id).and_then(|row| self.cluster_of(row));
        Upserted { clusters: [now, before.and_then(|(_, cluster)| cluster)] }
    }

    pub(super) fn remove(&mut self, id: RowId) {
        if let Some(slot) = self.unlink(id) {
            self.by_uid.remove(&(slot.row.source, slot.row.uid));
            self.free.push(id);
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
        let own = slot.own;
        self.slots[id.0 as usize] = Some(slot);
        self.by_uid.insert((row.source, row.uid), id);
        if let Some(owner) = &row.owner {
            let key = (row.source, owner.uid);
            let mut list = self.owned.remove(&key).unwrap_or_default();
            self.insert_sorted(&mut list, id);
            self.owned.insert(key, list);
        }
        if row.kind == Kind::Cluster {
            let mut list = std::mem::take(&mut self.clusters);
            self.insert_sorted(&mut list, id);
            self.clusters = list;
        }
        if !row.cluster.is_empty() {
            let mut members = self.members_of.remove(&cluster_key(&row)).unwrap_or_default();
            if row.kind == Kind::Cluster {
                members.cluster = Some(id);
            }
            self.insert_sorted(&mut members.by_kind[row.kind as usize], id);
            if row.kind != Kind::Other {
                members.tally[own as usize] += 1;
            }
            self.members_of.insert(cluster_key(&row), members);
        }
    }

    fn unlink(&mut self, id: RowId) -> Option<Slot> {
        let slot = self.slot(id)?;
        let (row, own) = (slot.row.clone(), slot.own);
        if let Some(owner) = &row.owner {
            let key = (row.source, owner.uid);
            if let Some(mut list) = self.owned.remove(&key) {
                self.remove_sorted(&mut list, id);
                if !list.is_empty() {
                    self.owned.insert(key, list);
                }
            }
        }
        if row.kind == Kind::Cluster {
            let mut list = std::mem::take(&mut self.clusters);
            self.remove_sorted(&mut list, id);
            self.clusters = list;
        }
        if let Some(mut members) = self.members_of.remove(&cluster_key(&row)) {
            if members.cluster == Some(id) {
                members.cluster = None;
            }
            self.remove_sorted(&mut members.by_kind[row.kind as usize], id);
            if row.kind != Kind::Other {
                members.tally[own as usize] -= 1;
            }
            if members.by_kind.iter().any(|ids| !ids.is_empty()) {
                self.members_of.insert(cluster_key(&row), members);
            }
        }
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
            self.row(id).map(|row| (row.source, row.kind, row.namespace.as_ref(), row.name.as_ref(), row.uid))
        };
        key(a).cmp(&key(b))
    }

    pub(super) fn own_verdict(&self, id: RowId) -> Verdict {
        self.slot(id).map_or(Verdict::Unknown, |slot| slot.own)
    }

    /// O(1) for a Cluster and for a Machine; O(children) between them.
    pub(super) fn verdict(&self, id: RowId) -> Verdict {
        let Some(slot) = self.slot(id) else { return Verdict::Unknown };
        match slot.row.kind {
            Kind::Cluster => slot.own.max(self.worst_member(&slot.row)),
            Kind::Machine | Kind::Other => slot.own,
            _ => self.children(id).fold(slot.own, |worst, child| worst.max(self.verdict(child))),
        }
    }

    /// What `id` owns, further down the order of kinds: owner references that run in circles end here.
    pub(super) fn children(&self, id: RowId) -> impl Iterator<Item = RowId> + '_ {
        let (owned, kind) = self.row(id).map_or((&[][..], Kind::Other), |row| (self.owned_by(row), row.kind));
        owned.iter().copied().filter(move |child| self.row(*child).is_some_and(|row| row.kind > kind))
    }

    pub(super) fn now_s(&self) -> u32 {
        self.now_s
    }

    /// Time runs forward only: rows that are judged from now on are judged at this time.
    pub(super) fn set_now(&mut self, now_s: u32) {
        self.now_s = self.now_s.max(now_s);
    }

    /// Judges what was on its way again, at a later time. Returns the clusters in which something turned.
    pub(super) fn advance(&mut self, now_s: u32) -> Vec<RowId> {
        self.set_now(now_s);
        let turned: Vec<(RowId, Verdict)> = self
            .rows()
            .filter(|(id, _)| self.own_verdict(*id) != Verdict::Ok)
            .map(|(id, row)| (id, judge(row, self.now_s).verdict))
            .filter(|(id, verdict)| *verdict != self.own_verdict(*id))
            .collect();
        let mut clusters = std::collections::BTreeSet::new();
        for (id, verdict) in turned {
            let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else { continue };
            let was = std::mem::replace(&mut slot.own, verdict);
            if let Some(members) = self.members_of.get_mut(&cluster_key(&slot.row)) {
                if slot.row.kind != Kind::Other {
                    members.tally[was as usize] -= 1;
                    members.tally[verdict as usize] += 1;
                }
                clusters.extend(members.cluster);
            }
        }
        clusters.into_iter().collect()
    }

    fn worst_member(&self, cluster: &Row) -> Verdict {
        let Some(members) = self.members_of.get(&cluster_key(cluster)) else { return Verdict::Ok };
        Verdict::ALL
            .into_iter()
            .rev()
            .find(|verdict| members.tally[*verdict as usize] > 0)
            .unwrap_or(Verdict::Ok)
    }
}

fn cluster_key(row: &Row) -> ClusterKey {
    (row.source, row.namespace.clone(), row.cluster.clone())
}
