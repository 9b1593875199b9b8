//! Which rows, and in which order: filter and sort to row ids. Candidates are taken from the fleet
//! as pointers and ordered by a pure function, so that many can be done aside. Must not know what
//! is on screen.

use std::cmp::Ordering;
use std::sync::Arc;

use frizbee::{Config, Matcher, Matching};

use super::Fleet;
use super::row::{Counters, Kind, Row, RowId};
use crate::status::health::Health;

/// Longer queries are cut: nobody types them, and matching is quadratic in them.
const QUERY_CHARS_MAX: usize = 128;

/// How the words of a query are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// Each word stands somewhere in the row's text: names, kind, version, phase, health, tags.
    #[default]
    Substring,
    /// The letters of each word stand in this order in namespace and name; best matches first.
    Fuzzy,
}

/// What rows are ordered by. Equal ones are ordered by namespace and name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// Source, namespace, name.
    #[default]
    Name,
    /// Worst first.
    Health,
    Cluster,
    Phase,
    Version,
    /// Newest first.
    Age,
    Desired,
    Current,
    Ready,
    Available,
    UpToDate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    pub column: Column,
    pub reverse: bool,
}

/// What somebody wants to see.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Words that all must match; `!word`, `^prefix`, `suffix$` and `'substring` as in fzf.
    pub text: String,
    pub matching: Match,
    /// Only what is at least this bad.
    pub at_least: Floor,
    pub sort: Sort,
}

/// The least health shown; `Ok` (the default) shows everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor(pub Health);

impl Default for Floor {
    fn default() -> Self {
        Self(Health::Ok)
    }
}

/// One row that may be shown.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub id: RowId,
    pub row: Arc<Row>,
    /// With everything under it.
    pub health: Health,
}

/// Rows to choose from: pointers, safe to move to another thread.
#[derive(Clone, Debug, Default)]
pub struct Candidates(pub Vec<Candidate>);

impl Fleet {
    /// All rows of a kind, of the whole fleet or of one cluster, by name.
    #[must_use]
    pub fn candidates(&self, kind: Kind, cluster: Option<RowId>) -> Candidates {
        let clusters = cluster.as_ref().map_or_else(|| self.clusters(), std::slice::from_ref);
        let ids: Vec<RowId> = match kind {
            Kind::Cluster => clusters.to_vec(),
            _ => clusters.iter().flat_map(|c| self.members(*c, kind)).copied().collect(),
        };
        let candidate =
            |id: RowId| self.row(id).map(|row| Candidate { id, row: row.clone(), health: self.health(id) });
        Candidates(ids.into_iter().filter_map(candidate).collect())
    }

    /// Filter and sort at once: right for clusters, and for the members of one.
    #[must_use]
    pub fn select(&self, kind: Kind, cluster: Option<RowId>, query: &Query) -> Vec<RowId> {
        self.candidates(kind, cluster).select(query)
    }
}

impl Candidates {
    /// The ids that match, in order.
    #[must_use]
    pub fn select(mut self, query: &Query) -> Vec<RowId> {
        self.0.retain(|c| c.health >= query.at_least.0);
        let words: String = query.text.chars().take(QUERY_CHARS_MAX).collect();
        if words.trim().is_empty() {
            self.0.sort_by(|a, b| compare(a, b, query.sort));
            return self.0.into_iter().map(|c| c.id).collect();
        }
        let mut scored = matching(self.0, &words, query.matching);
        let by_score = query.matching == Match::Fuzzy && query.sort.column == Column::Name;
        scored.sort_by(|(score_a, a), (score_b, b)| {
            let first = if by_score { score_b.cmp(score_a) } else { Ordering::Equal };
            first.then_with(|| compare(a, b, query.sort))
        });
        scored.into_iter().map(|(_, c)| c.id).collect()
    }
}

fn matching(candidates: Vec<Candidate>, words: &str, how: Match) -> Vec<(u16, Candidate)> {
    let mode = match how {
        Match::Substring => Matching::Substring,
        Match::Fuzzy => Matching::Fuzzy,
    };
    let mut matcher = Matcher::from_query(words, &Config::default().matching(mode));
    let mut text = String::new();
    candidates
        .into_iter()
        .filter_map(|c| {
            haystack(&c, how, &mut text);
            matcher.match_one(&text, 0).map(|found| (found.score, c))
        })
        .collect()
}

fn haystack(c: &Candidate, how: Match, text: &mut String) {
    text.clear();
    text.push_str(&c.row.namespace);
    text.push('/');
    text.push_str(&c.row.name);
    if how == Match::Fuzzy {
        return;
    }
    let machine = c.row.machine();
    let facts = c.row.cluster_facts();
    for word in [
        c.row.gvk.kind.as_str(),
        &c.row.cluster,
        &c.row.version,
        &c.row.phase,
        c.health.word(),
        machine.and_then(|m| m.node.as_deref()).unwrap_or_default(),
        machine.and_then(|m| m.failure_domain.as_deref()).unwrap_or_default(),
        facts.map_or("", |f| &f.class),
    ] {
        text.push(' ');
        text.push_str(word);
    }
    if c.row.is_deleting() {
        text.push_str(" deleting");
    }
    if c.row.paused {
        text.push_str(" paused");
    }
}

fn compare(a: &Candidate, b: &Candidate, sort: Sort) -> Ordering {
    let (x, y) = (a.row.as_ref(), b.row.as_ref());
    let first = match sort.column {
        Column::Name => Ordering::Equal,
        Column::Health => b.health.cmp(&a.health),
        Column::Cluster => x.cluster.cmp(&y.cluster),
        Column::Phase => x.phase.cmp(&y.phase),
        Column::Version => by_version(&x.version, &y.version),
        Column::Age => y.created_s.cmp(&x.created_s),
        Column::Desired => counter(x, |c| c.desired).cmp(&counter(y, |c| c.desired)),
        Column::Current => counter(x, |c| c.current).cmp(&counter(y, |c| c.current)),
        Column::Ready => counter(x, |c| c.ready).cmp(&counter(y, |c| c.ready)),
        Column::Available => counter(x, |c| c.available).cmp(&counter(y, |c| c.available)),
        Column::UpToDate => counter(x, |c| c.up_to_date).cmp(&counter(y, |c| c.up_to_date)),
    };
    let name = || (x.source, &x.namespace, &x.name).cmp(&(y.source, &y.namespace, &y.name));
    if sort.column == Column::Name {
        return if sort.reverse { name().reverse() } else { name() };
    }
    (if sort.reverse { first.reverse() } else { first }).then_with(name)
}

/// A counter of the row; of control plane and workers together for a Cluster.
fn counter(row: &Row, pick: impl Fn(&Counters) -> Option<u32>) -> u32 {
    match row.cluster_facts() {
        Some(c) => pick(&c.control_plane).unwrap_or(0) + pick(&c.workers).unwrap_or(0),
        None => row.counters().as_ref().and_then(pick).unwrap_or(0),
    }
}

/// `v1.9.3` before `v1.10.0`; what is no version by its text, first.
fn by_version(a: &str, b: &str) -> Ordering {
    let parse = |text: &str| semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok();
    parse(a).cmp(&parse(b)).then_with(|| a.cmp(b))
}
