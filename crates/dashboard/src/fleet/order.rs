//! Which rows, and in which order: filter and sort to row ids. Must not know what is on screen.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::filter::{Candidate, Filter, FilterError};
use super::listed::Listed;
use super::row::{Kind, Row, RowId};
use super::texts::{Block, Texts};
use super::{Cell, Fleet, Reader, Tone, moment};
use crate::fleet::Verdict;
use capi_types::columns::Column;

/// Longer queries are cut: nobody types them.
const QUERY_CHARS_MAX: usize = 128;

/// What rows are ordered by. Equal ones are ordered by namespace, cluster and name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Source, namespace, name.
    #[default]
    Name,
    /// Source, namespace, cluster, name.
    Cluster,
    /// Worst first.
    Verdict,
    /// What changed last first, by [`Fleet::since`]; without a date last.
    Since,
    /// By one condition, [`Query::condition`]: what is not as it should be first, and of that what changed last.
    Condition,
    /// One of upstream's columns, as `Cell::rank` has it.
    Column(&'static Column),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    pub by: By,
    pub reverse: bool,
}

/// What somebody wants to see.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Words and terms that all have to hold: docs/filter.md.
    pub text: String,
    /// Only what is in this namespace.
    pub namespace: Option<Arc<str>>,
    /// Only what is at least this bad.
    pub at_least: Floor,
    pub sort: Sort,
    /// The type that [`By::Condition`] is about.
    pub condition: Option<Arc<str>>,
}

impl Query {
    /// Why the text asks for nothing; `None`: it can be understood.
    pub fn trouble(&self) -> Option<FilterError> {
        self.filter().err()
    }

    /// Some rows may be left out.
    pub fn is_choosy(&self) -> bool {
        !self.text.trim().is_empty() || self.at_least.0 != Verdict::Ok
    }

    fn filter(&self) -> Result<Filter, FilterError> {
        let end = self.text.char_indices().nth(QUERY_CHARS_MAX).map_or(self.text.len(), |(at, _)| at);
        Filter::parse(self.text.get(..end).unwrap_or_default())
    }
}

/// The least verdict shown; `Ok` (the default) shows everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor(pub Verdict);

impl Default for Floor {
    fn default() -> Self {
        Self(Verdict::Ok)
    }
}

/// Rows to choose from.
#[derive(Debug, Default)]
pub struct Candidates<'a> {
    pub all: Vec<Candidate<'a>>,
    /// How many rows the list has without a filter.
    pub total: usize,
}

impl Fleet {
    /// The rows of a list that the text lets through, by namespace, cluster and name, with what they will be chosen and
    /// ordered by. None when the text cannot be understood.
    pub fn candidates(&self, of: Listed, query: &Query, texts: &mut Texts) -> Candidates<'_> {
        let filter = query.filter();
        let mut candidates = Candidates::default();
        let is_in_scope = |ids: &[RowId]| {
            let namespace = ids.first().and_then(|id| self.row(*id)).map(|row| &row.namespace);
            query.namespace.is_none() || query.namespace.as_ref() == namespace
        };
        // All of a group are in one namespace.
        for (cluster, ids) in self.index.groups(of.kind()).filter(|(_, ids)| is_in_scope(ids)) {
            let Ok(filter) = &filter else {
                candidates.total += ids.len();
                continue;
            };
            let orphans;
            let block = match cluster {
                _ if !filter.has_words() => None,
                Some(cluster) => Some(texts.of(self, cluster, ids)),
                None => {
                    orphans = Block::of(self, ids);
                    Some(&orphans)
                }
            };
            self.choose(of, ids, block, (filter, query.sort), &mut candidates);
        }
        candidates
    }

    /// Those of one cluster.
    fn choose<'a>(
        &'a self,
        of: Listed,
        ids: &[RowId],
        block: Option<&Block>,
        (filter, sort): (&Filter, Sort),
        found: &mut Candidates<'a>,
    ) {
        // Only where it is asked for: the causes of each object are searched for it.
        let needs_since = sort.by == By::Since || filter.needs_since();
        let now = moment(self.now_s()).unwrap_or_default();
        for (at, id) in ids.iter().enumerate() {
            let is_listed = |row: &&Arc<Row>| of.kind() != Kind::Other || of.has(row);
            let Some(row) = self.row(*id).filter(is_listed) else { continue };
            found.total += 1;
            if !block.is_none_or(|block| block.get(at).is_some_and(|text| filter.matches(text))) {
                continue;
            }
            let verdict = self.index.last_verdict(*id);
            let since = if needs_since { self.since(*id) } else { None };
            let candidate = Candidate { id: *id, row, verdict, since, is_shelved: self.is_shelved(*id) };
            if filter.holds(self, &candidate, now) {
                found.all.push(candidate);
            }
        }
    }

    /// The rows of a list at once, in order.
    pub fn select(&self, of: Listed, query: &Query) -> Vec<RowId> {
        self.candidates(of, query, &mut Texts::default()).select(query)
    }

    /// All that belongs to one cluster and matches, the Cluster itself included, in no order.
    pub fn select_in(&self, cluster: RowId, query: &Query) -> Vec<RowId> {
        let Ok(filter) = query.filter() else { return Vec::new() };
        let mut found = Candidates::default();
        for of in Listed::ALL {
            let ids = self.members(cluster, of.kind());
            let block = filter.has_words().then(|| Block::of(self, ids));
            self.choose(of, ids, block.as_ref(), (&filter, query.sort), &mut found);
        }
        found.all.into_iter().map(|candidate| candidate.id).collect()
    }
}

impl Candidates<'_> {
    /// The ids of those that are bad enough, in order.
    pub fn select(mut self, query: &Query) -> Vec<RowId> {
        self.all.retain(|c| c.verdict >= query.at_least.0);
        match (&query.condition, query.sort) {
            (Some(type_), Sort { by: By::Condition, reverse }) => by_condition(&mut self.all, type_, reverse),
            (_, order) => sort(&mut self.all, order),
        }
        self.all.into_iter().map(|c| c.id).collect()
    }
}

/// Every order is stable: equal rows stay by namespace, cluster and name, also when it is turned round.
fn sort(all: &mut [Candidate<'_>], sort: Sort) {
    let turned = |order: Ordering| if sort.reverse { order.reverse() } else { order };
    match sort.by {
        By::Name => all.sort_by(|a, b| turned(names(a).cmp(&names(b)))),
        // They come so.
        By::Cluster if !sort.reverse => {}
        By::Cluster => all.sort_by(|a, b| turned(cluster_of(a).cmp(&cluster_of(b)))),
        By::Verdict => all.sort_by(|a, b| {
            let badness = |c: &Candidate<'_>| (c.is_shelved, Reverse(c.verdict));
            turned(badness(a).cmp(&badness(b)))
        }),
        By::Since => all.sort_by(|a, b| turned(b.since.cmp(&a.since))),
        // There is no type to order them by.
        By::Condition => {}
        By::Column(column) => by_column(all, column, sort.reverse),
    }
}

fn names<'a>(candidate: &Candidate<'a>) -> (super::SourceId, &'a str, &'a str) {
    (candidate.row.source, &candidate.row.namespace, &candidate.row.name)
}

fn cluster_of<'a>(candidate: &Candidate<'a>) -> (super::SourceId, &'a str, &'a str) {
    (candidate.row.source, &candidate.row.namespace, &candidate.row.cluster)
}

fn by_condition(all: &mut [Candidate<'_>], type_: &Arc<str>, reverse: bool) {
    all.sort_by_cached_key(|candidate| {
        let condition = candidate.row.condition_of(type_);
        let badness = condition.map_or(4, |c| match Tone::of(&c.type_, c.status) {
            Tone::Bad => 0,
            Tone::Unknown => 1,
            Tone::Active => 2,
            Tone::Good => 3,
        });
        let since_s = condition.map_or(0, |c| c.since_s);
        let place = (badness << 32) | u64::from(u32::MAX - since_s);
        if reverse { u64::MAX - place } else { place }
    });
}

/// Each cell gets its rank first: many rows have few different texts, whose order as versions is dear to find.
fn by_column(all: &mut [Candidate<'_>], column: &Column, reverse: bool) {
    let Some(reader) = Reader::of(column) else { return };
    let mut ranks: FxHashMap<&str, u32> = FxHashMap::default();
    for candidate in all.iter() {
        if let Cell::Text(text) = reader.read(candidate.row) {
            ranks.entry(text).or_default();
        }
    }
    let mut texts: Vec<&str> = ranks.keys().copied().collect();
    texts.sort_by_cached_key(|text| Cell::version_of(text));
    ranks.extend(texts.into_iter().zip(0..));
    all.sort_by_cached_key(|candidate| {
        let rank = reader.read(candidate.row).rank(|text| ranks.get(text).copied().unwrap_or_default());
        if reverse { u64::MAX - rank } else { rank }
    });
}
