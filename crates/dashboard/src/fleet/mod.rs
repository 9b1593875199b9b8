//! The model people look at: rows, relations, order, history. Synchronous; only `watch` is async.
//! Must not know the terminal nor the engine.
//!
//! One [`Fleet`] is owned by whoever shows it. Feeds send batches of [`Delta`]; [`Fleet::apply`]
//! takes them in; everything else reads. All text in it is already sanitised.

mod around;
mod cause;
mod cell;
mod conditions;
mod console;
pub mod decode;
mod delta;
mod details;
mod evidence;
mod explanation;
mod filter;
mod index;
mod intern;
mod judge;
pub mod kept;
mod line;
mod listed;
mod marks;
mod mention;
mod names;
mod news;
mod order;
mod pending;
mod plain_words;
mod provider;
mod rollout;
mod row;
mod shown;
mod texts;
mod timeline;
mod tree;
mod turned;
mod usual;
mod verdict;
pub mod watch;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

pub use cause::{Cause, Hop};
pub use cell::{Cell, Reader};
pub use conditions::conditions_of;
pub use console::Consoles;
pub use delta::{Delta, Feed, FeedKey, FeedState};
pub use details::{ConditionLine, Details, Link, Relation, Target, Tone, condition_lines};
pub use explanation::{Explanation, Explanations};
pub use filter::{Candidate, FilterError, column_word};
pub use intern::Interner;
pub use judge::{Basis, Context, Judgement, Rank, Slow, judge};
pub use line::{Line, Tag};
pub use listed::Listed;
pub use marks::Mark;
pub use names::Names;
pub use news::{News, NewsChanges};
pub use order::{By, Candidates, Floor, Query, Sort};
pub use provider::{PROVIDER_KIND, PROVIDERS_GROUP, cluster_api_of};
pub use rollout::{
    Arrival, FinishedRollout, MachinePhase, MachinesThen, OwnerRollout, OwnerStage, RollingMachine, Rollout,
    UpTimes, short_name,
};
pub use row::{
    ClusterFacts, Condition, ConditionText, Counters, DeletionFacts, Facts, GroupKind, HEALTH_CHECK, Host,
    Kind, Labels, MachineFacts, Misshapen, Owner, Reference, ReplicaFacts, Row, RowId, Severity, SourceId,
    Uid, VersionCount, moment,
};
pub use texts::Texts;
pub use timeline::{Flip, Happened, Kept, PastEntry, TimelineEntry};
pub use tree::{Alike, Group, Item, ItemKey, Node, Part, Relative, SiblingOrder, Tree, TreeOptions};
pub use turned::{Faults, RunMark, RunPart, Turned};
pub use usual::{PoolTimes, Step, UsualTime};
pub use verdict::Verdict;

use capi_types::key::ObjectKey;
use index::Index;
use kept::KeptTimes;
use marks::Marks;
use timeline::Timeline;
use turned::Turns;

/// What was seen last of a source is believed for so long without contact, seconds.
const LOST_S: u32 = 30;

/// Everything known about all clusters of all sources.
#[derive(Default)]
pub struct Fleet {
    index: Index,
    feeds: BTreeMap<FeedKey, Feed>,
    sources: BTreeMap<SourceId, SourceInfo>,
    timeline: Timeline,
    turns: Turns,
    revision: u64,
    marks: Marks,
    /// Usual times of an earlier run, of sources that were not opened in this one.
    earlier: KeptTimes,
    /// `None`: those that are built in.
    explanations: Option<Explanations>,
    /// `None`: those that are built in.
    consoles: Option<Consoles>,
}

/// What is known about one source besides its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceInfo {
    /// As people know it: the kubeconfig context, or the file. Empty until it is told.
    pub name: Box<str>,
    /// Something to tell the operator about it.
    pub notice: Option<Box<str>>,
    /// The version of Cluster API that looks after its clusters, where clusterctl noted it.
    pub cluster_api: Option<Box<str>>,
}

/// What one call of [`Fleet::apply`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Clusters in which something changed; ids of removed clusters are not in it.
    pub clusters: Vec<RowId>,
    /// Of them those whose line in a list of clusters may be another one. It is not when a Machine that is well stays well,
    /// and nothing of it is told in the timeline.
    pub lines: Vec<RowId>,
    /// A Cluster came or went, or a feed's state, a name or a notice changed.
    pub overview: bool,
    /// A Cluster itself changed, not only what is below one.
    pub cluster_rows: bool,
    /// An object came or went, or belongs to another cluster now.
    pub members: bool,
    /// A verdict that is shown may have turned.
    pub verdicts: bool,
    /// Rows added, changed or removed.
    pub rows: usize,
    /// A server's history was replaced: what is shown is read again.
    pub is_replaced: bool,
}

impl Changes {
    /// Everything that is there may be another thing than before.
    pub fn of_everything(fleet: &Fleet) -> Self {
        let clusters = fleet.clusters().to_vec();
        Self {
            lines: clusters.clone(),
            clusters,
            overview: true,
            cluster_rows: true,
            members: true,
            verdicts: true,
            rows: fleet.len(),
            is_replaced: true,
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.overview && self.rows == 0 && !self.is_replaced
    }
}

impl Fleet {
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty fleet that explains reasons in these words, and knows these consoles.
    pub fn explained_by(explanations: Explanations, consoles: Consoles) -> Self {
        Self { explanations: Some(explanations), consoles: Some(consoles), ..Self::default() }
    }

    /// Explains in other words from now on. What is told of verdicts stays as it is.
    pub fn explain_by(&mut self, explanations: Explanations, consoles: Consoles) -> Changes {
        self.explanations = Some(explanations);
        self.consoles = Some(consoles);
        self.revision += 1;
        Changes { is_replaced: false, ..Changes::of_everything(self) }
    }

    /// The page of a provider's console about the machine with this provider id.
    pub fn console_page(&self, provider_id: &str) -> Option<String> {
        self.consoles.as_ref().unwrap_or_else(|| Consoles::built_in()).page(provider_id)
    }

    /// An empty fleet in place of this one: it explains in the same words, and no picture of it is taken for one of this.
    pub fn anew(&self) -> Self {
        Self {
            explanations: self.explanations.clone(),
            consoles: self.consoles.clone(),
            revision: self.revision + 1,
            ..Self::default()
        }
    }

    pub(in crate::fleet) fn explanations(&self) -> &Explanations {
        self.explanations.as_ref().unwrap_or_else(|| Explanations::built_in())
    }

    /// Takes a batch in, in order. Each row costs O(log n).
    pub fn apply(&mut self, deltas: Vec<Delta>) -> Changes {
        let mut touched = Touched::default();
        for delta in deltas {
            self.apply_one(delta, &mut touched);
        }
        // Once for the whole batch: a row that changes several times is judged once.
        let turned = self.index.settle();
        touched.verdicts |= !turned.is_empty();
        touched.clusters.extend(&turned);
        touched.lines.extend(turned);
        let still_well = std::mem::take(&mut touched.well);
        let no_longer = still_well.into_iter().filter(|(machine, _)| !self.is_well(*machine));
        touched.lines.extend(no_longer.map(|(_, cluster)| cluster));
        touched.overview |= self.settle_contact();
        let was_live = self.index.is_live;
        // After the judging: what came with the last of the first lists is not news.
        self.index.is_live =
            !self.feeds.is_empty() && self.feeds.values().all(|f| f.listed || f.is_refused());
        if touched.verdicts || touched.overview {
            touched.overview |= self.settle_marks();
        }
        if touched.verdicts || touched.overview || !was_live {
            self.note_turns();
        }
        let changes = Changes {
            clusters: touched.clusters.into_iter().filter(|id| self.row(*id).is_some()).collect(),
            lines: touched.lines.into_iter().filter(|id| self.row(*id).is_some()).collect(),
            overview: touched.overview,
            cluster_rows: touched.cluster_rows,
            members: touched.members,
            verdicts: touched.verdicts,
            rows: touched.rows,
            is_replaced: touched.is_replaced,
        };
        if !changes.is_empty() {
            self.revision += 1;
        }
        changes
    }

    fn apply_one(&mut self, delta: Delta, touched: &mut Touched) {
        match delta {
            Delta::Upsert(row) => self.upsert(row, touched),
            Delta::Remove { source, uid } => {
                if let Some(id) = self.index.find(source, uid) {
                    self.remove(id, touched);
                }
            }
            Delta::Listed { feed, uids } => self.vanish(&feed, uids, touched),
            Delta::Feed { feed, state, at } => {
                self.index.set_now(seconds(at));
                touched.overview |= self.set_feed(feed, state, at);
            }
            Delta::Replaced { .. } => touched.is_replaced = true,
            Delta::Notice { source, text } => {
                self.sources.entry(source).or_default().notice = text;
                touched.overview = true;
            }
            Delta::ClusterApi { source, version } => {
                self.sources.entry(source).or_default().cluster_api = Some(version);
                touched.overview = true;
            }
            Delta::Source { source, name } => {
                self.open_usual_times(source, &name);
                self.sources.entry(source).or_default().name = name;
                touched.overview = true;
            }
        }
    }

    fn upsert(&mut self, row: Arc<Row>, touched: &mut Touched) {
        let known = self.index.find(row.source, row.uid).and_then(|id| self.index.row(id));
        // A new list names every object again, changed or not.
        if known.is_some_and(|old| old.as_ref() == row.as_ref()) {
            return;
        }
        let (now_s, is_live) = (self.index.now_s(), self.index.is_live);
        let is_told = self.timeline.record(known.map(Arc::as_ref), &row, now_s, is_live);
        let was_well = self.index.find(row.source, row.uid).is_some_and(|id| self.is_well(id));
        let may_stay_well = was_well && row.kind == Kind::Machine && !is_told;
        let is_cluster = row.kind == Kind::Cluster;
        touched.cluster_rows |= is_cluster;
        touched.overview |= is_cluster && known.is_none();
        touched.members |= known.is_none_or(|old| old.cluster != row.cluster);
        // A row that moves to another cluster may turn both.
        touched.verdicts |= known.is_some_and(|old| old.cluster != row.cluster);
        if is_cluster && known.is_none() {
            self.timeline.welcome(&row);
        }
        touched.rows += 1;
        let upserted = self.index.upsert(row);
        let clusters = upserted.clusters.into_iter().flatten();
        touched.clusters.extend(clusters.clone());
        if may_stay_well {
            touched.well.extend(clusters.map(|cluster| (upserted.id, cluster)));
        } else {
            touched.lines.extend(clusters);
        }
    }

    /// As it was judged last, nothing is the matter with it.
    fn is_well(&self, id: RowId) -> bool {
        self.index.judgement(id) == Some(Judgement::WELL)
    }

    fn remove(&mut self, id: RowId, touched: &mut Touched) {
        let Some(row) = self.row(id).cloned() else { return };
        touched.overview |= row.kind == Kind::Cluster;
        touched.members = true;
        // A fault that goes with its object may turn what is above it.
        touched.verdicts |= self.own_verdict(id) != Verdict::Ok;
        touched.rows += 1;
        touched.clusters.extend(self.index.cluster_of(&row));
        touched.lines.extend(self.index.cluster_of(&row));
        self.timeline.record_gone(&row, self.index.now_s());
        self.index.remove(id);
    }

    fn vanish(&mut self, feed: &FeedKey, uids: Vec<Uid>, touched: &mut Touched) {
        let kept: FxHashSet<Uid> = uids.into_iter().collect();
        let gone: Vec<RowId> = self
            .index
            .rows()
            .filter(|(_, row)| row.source == feed.source && row.is_of(&feed.group, &feed.kind))
            .filter(|(_, row)| !kept.contains(&row.uid))
            .map(|(id, _)| id)
            .collect();
        for id in gone {
            self.remove(id, touched);
        }
    }

    fn set_feed(&mut self, key: FeedKey, state: FeedState, at: capstan_base::time::Timestamp) -> bool {
        let Some(feed) = self.feeds.get_mut(&key) else {
            let listed = matches!(state, FeedState::Live | FeedState::Recorded);
            self.feeds.insert(key, Feed { state, since: at, last_good: None, listed });
            return true;
        };
        // `since` is the beginning of a state, so that the same state again does not move it.
        if feed.state == state {
            return false;
        }
        if feed.state == FeedState::Live {
            feed.last_good = Some(at);
        }
        if state == FeedState::Live {
            feed.last_good = None;
            feed.listed = true;
        }
        feed.state = state;
        feed.since = at;
        true
    }

    /// Takes the time: what takes too long turns from progress into a fault, what held long enough is shown.
    /// Costs what is due, see [`Fleet::next_due_s`].
    pub fn advance(&mut self, now: capstan_base::time::Timestamp) -> Changes {
        let touched = self.index.advance(seconds(now));
        let mut overview = self.settle_contact();
        let is_due = self.marks.until_s().is_some_and(|until_s| until_s <= self.now_s());
        if is_due || overview || !touched.is_empty() {
            overview |= self.settle_marks();
            self.note_turns();
        }
        let (rows, verdicts) = (touched.len(), !touched.is_empty());
        let lines = touched.clone();
        let changes = Changes { rows, clusters: touched, lines, verdicts, overview, ..Changes::default() };
        if !changes.is_empty() {
            self.revision += 1;
        }
        changes
    }

    /// The next moment at which a verdict may turn by itself, seconds since the epoch.
    pub fn next_due_s(&self) -> Option<u32> {
        let now_s = self.now_s();
        let lost = self.feeds.values().filter_map(Feed::lost_s).map(|at_s| at_s.saturating_add(LOST_S));
        // What is over already would wake the screen without end.
        let later = lost.chain(self.marks.until_s()).filter(|at_s| *at_s > now_s);
        self.index.next_due_s().into_iter().chain(later).min()
    }

    /// Notes which sources have had no contact for too long. Answers whether that changed.
    fn settle_contact(&mut self) -> bool {
        let now_s = self.now_s();
        let is_over = |feed: &Feed| feed.lost_s().is_some_and(|at_s| at_s.saturating_add(LOST_S) <= now_s);
        let mut lost: Vec<SourceId> =
            self.feeds.iter().filter(|(_, feed)| is_over(feed)).map(|(key, _)| key.source).collect();
        // Feeds are ordered by their source first, so equal ones stand together.
        lost.dedup();
        let is_changed = lost != self.index.lost;
        self.index.lost = lost;
        is_changed
    }

    /// How the object taken alone is judged now; what is shown follows when that held.
    pub fn judgement(&self, id: RowId) -> Option<Judgement> {
        self.index.judgement(id)
    }

    /// The time that judgements are made at, seconds since the epoch; 0 before it is known.
    pub fn now_s(&self) -> u32 {
        self.index.now_s()
    }

    /// Grows with every batch that changed something: equal revisions mean an equal picture.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn row(&self, id: RowId) -> Option<&Arc<Row>> {
        self.index.row(id)
    }

    /// All rows, in no order.
    pub fn rows(&self) -> impl Iterator<Item = (RowId, &Arc<Row>)> {
        self.index.rows()
    }

    pub fn find(&self, source: SourceId, uid: Uid) -> Option<RowId> {
        self.index.find(source, uid)
    }

    /// All clusters, by source, namespace and name.
    pub fn clusters(&self) -> &[RowId] {
        self.index.clusters()
    }

    /// The Cluster that an object belongs to; itself for a Cluster.
    pub fn cluster_of(&self, id: RowId) -> Option<RowId> {
        self.row(id).and_then(|row| self.index.cluster_of(row))
    }

    /// What owns an object, where that is in the fleet.
    pub fn owner_of(&self, id: RowId) -> Option<RowId> {
        let row = self.row(id)?;
        let owner = row.owner.as_ref()?;
        self.index.find(row.source, owner.uid)
    }

    /// Everything was listed once: verdicts that turn before that turn because of the reading.
    pub fn is_live(&self) -> bool {
        self.index.is_live
    }

    /// What an object's controller owns, by kind and name.
    pub fn owned_by(&self, id: RowId) -> &[RowId] {
        self.row(id).map_or(&[], |row| self.index.owned_by(row))
    }

    /// Members of a cluster of one kind, by name.
    pub fn members(&self, cluster: RowId, kind: Kind) -> &[RowId] {
        self.row(cluster).map_or(&[], |row| self.index.members(row, kind))
    }

    /// The verdict of one object with everything under it: never better than its worst part.
    pub fn verdict(&self, id: RowId) -> Verdict {
        self.index.verdict(id)
    }

    /// The verdict that is shown of the object taken alone.
    pub fn own_verdict(&self, id: RowId) -> Verdict {
        self.index.own_verdict(id)
    }

    /// Takes in the usual times of an earlier run. They are used for the source of the same name.
    pub fn set_usual_times(&mut self, kept: KeptTimes) {
        self.earlier = kept;
        let named: Vec<_> = self.sources.iter().map(|(id, info)| (*id, info.name.clone())).collect();
        named.iter().for_each(|(id, name)| self.open_usual_times(*id, name));
    }

    fn open_usual_times(&mut self, source: SourceId, name: &str) {
        for time in self.earlier.usual.extract_if(.., |time| time.source.as_ref() == name) {
            self.index.usual.open(source, time);
        }
        for pool in self.earlier.pools.extract_if(.., |pool| pool.source.as_ref() == name) {
            self.index.usual.open_pool(source, pool);
        }
    }

    /// How long the Machines of each pool of a cluster took, those of earlier runs included.
    pub fn pool_times(&self, source: SourceId, cluster: &ObjectKey) -> Vec<PoolTimes> {
        self.index.usual.pools(
            |id| self.source_name(id),
            |key| key.0 == source && *key.1 == *cluster.namespace && *key.2 == *cluster.name,
        )
    }

    fn source_name(&self, source: SourceId) -> Box<str> {
        self.sources.get(&source).map(|info| info.name.clone()).unwrap_or_default()
    }

    /// Usual times of all sources, those of an earlier run included, where a Machine came up since this was asked last.
    pub fn unsaved_usual_times(&mut self) -> Option<KeptTimes> {
        if !self.index.usual.take_changed() {
            return None;
        }
        let mut usual = self.index.usual.all(|source| self.source_name(source));
        usual.extend(self.earlier.usual.iter().cloned());
        let mut pools = self.index.usual.pools(|source| self.source_name(source), |_| true);
        pools.extend(self.earlier.pools.iter().cloned());
        Some(KeptTimes { usual, pools })
    }

    /// How many clusters, of all namespaces or of one, have which verdict, in the order of [`Verdict::ALL`].
    pub fn cluster_counts(&self, namespace: Option<&str>) -> [usize; 5] {
        let mut counts = [0; 5];
        let is_meant = |id: &&RowId| {
            namespace.is_none_or(|wanted| self.row(**id).is_some_and(|row| *row.namespace == *wanted))
        };
        for id in self.clusters().iter().filter(is_meant) {
            counts[self.verdict(*id) as usize] += 1;
        }
        counts
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn feeds(&self) -> impl Iterator<Item = (&FeedKey, &Feed)> {
        self.feeds.iter()
    }

    /// The feed that a kind of row comes from, whatever its state.
    pub fn feed(&self, source: SourceId, kind: &str) -> Option<&Feed> {
        self.feeds.iter().find(|(k, _)| k.source == source && k.kind.as_ref() == kind).map(|(_, feed)| feed)
    }

    pub(in crate::fleet) fn source(&self, source: SourceId) -> Option<&SourceInfo> {
        self.sources.get(&source)
    }

    pub fn sources(&self) -> impl Iterator<Item = (SourceId, &SourceInfo)> {
        self.sources.iter().map(|(id, info)| (*id, info))
    }
}

fn seconds(at: capstan_base::time::Timestamp) -> u32 {
    u32::try_from(at.timestamp()).unwrap_or(0)
}

#[derive(Default)]
struct Touched {
    clusters: std::collections::BTreeSet<RowId>,
    lines: std::collections::BTreeSet<RowId>,
    /// Machines that were well, and the clusters in which they are.
    well: Vec<(RowId, RowId)>,
    overview: bool,
    cluster_rows: bool,
    members: bool,
    verdicts: bool,
    rows: usize,
    is_replaced: bool,
}
