//! Which rows, and in which order: filter and sort to row ids. Candidates are taken from the fleet
//! as pointers and ordered by a pure function, so that many can be done aside. Must not know what
//! is on screen.

use std::cmp::Ordering;
use std::sync::Arc;

use frizbee::{Config, Matcher, Matching};

use super::row::{Kind, Row, RowId};
use super::{Cell, Fleet, Reader};
use crate::api::columns::Column;
use crate::status::verdict::Verdict;
use crate::time::Timestamp;

/// Longer queries are cut: nobody types them, and matching is quadratic in them.
const QUERY_CHARS_MAX: usize = 128;

/// How the words of a query are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// Each word stands somewhere in the row's text: names, kind, version, phase, verdict, tags.
    #[default]
    Substring,
    /// The letters of each word stand in this order in namespace and name; best matches first.
    Fuzzy,
}

/// What rows are ordered by. Equal ones are ordered by namespace and name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Source, namespace, name.
    #[default]
    Name,
    /// Worst first.
    Verdict,
    /// What changed last first, by [`Fleet::since`]; without a date last.
    Since,
    /// One of upstream's columns, as [`Cell::order`] has it.
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
    /// Words that all must match; `!word`, `^prefix`, `suffix$` and `'substring` as in fzf.
    pub text: String,
    pub matching: Match,
    /// Only what is at least this bad.
    pub at_least: Floor,
    pub sort: Sort,
}

/// The least verdict shown; `Ok` (the default) shows everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor(pub Verdict);

impl Default for Floor {
    fn default() -> Self {
        Self(Verdict::Ok)
    }
}

/// One row that may be shown.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub id: RowId,
    pub row: Arc<Row>,
    /// With everything under it, by what was seen last: rows do not move because a connection is lost.
    pub verdict: Verdict,
    /// Only where rows are ordered by it.
    since: Option<Timestamp>,
    /// A person put it aside: below all others where the worst is first.
    pub is_shelved: bool,
}

/// Rows to choose from: pointers, safe to move to another thread.
#[derive(Clone, Debug, Default)]
pub struct Candidates(pub Vec<Candidate>);

impl Fleet {
    /// All rows of a kind, of the whole fleet or of one cluster, by name, with what they will be ordered by.
    #[must_use]
    pub fn candidates(&self, kind: Kind, cluster: Option<RowId>, by: By) -> Candidates {
        let clusters = cluster.as_ref().map_or_else(|| self.clusters(), std::slice::from_ref);
        let ids: Vec<RowId> = match kind {
            Kind::Cluster => clusters.to_vec(),
            _ => clusters.iter().flat_map(|c| self.members(*c, kind)).copied().collect(),
        };
        let candidate = |id: RowId| {
            self.row(id).map(|row| Candidate {
                id,
                row: row.clone(),
                verdict: self.index.last_verdict(id),
                since: if by == By::Since { self.since(id) } else { None },
                is_shelved: self.is_shelved(id),
            })
        };
        Candidates(ids.into_iter().filter_map(candidate).collect())
    }

    /// Filter and sort at once: right for clusters, and for the members of one.
    #[must_use]
    pub fn select(&self, kind: Kind, cluster: Option<RowId>, query: &Query) -> Vec<RowId> {
        self.candidates(kind, cluster, query.sort.by).select(query)
    }
}

impl Candidates {
    /// The ids that match, in order.
    #[must_use]
    pub fn select(mut self, query: &Query) -> Vec<RowId> {
        self.0.retain(|c| c.verdict >= query.at_least.0);
        let words: String = query.text.chars().take(QUERY_CHARS_MAX).collect();
        if words.trim().is_empty() {
            let order = Order::of(query.sort);
            self.0.sort_by(|a, b| order.compare(a, b));
            return self.0.into_iter().map(|c| c.id).collect();
        }
        let mut scored = matching(self.0, &words, query.matching);
        let by_score = query.matching == Match::Fuzzy && query.sort.by == By::Name;
        let order = Order::of(query.sort);
        scored.sort_by(|(score_a, a), (score_b, b)| {
            let first = if by_score { score_b.cmp(score_a) } else { Ordering::Equal };
            first.then_with(|| order.compare(a, b))
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
        c.verdict.word(),
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

/// A [`Sort`] ready to compare.
#[derive(Clone, Copy)]
struct Order {
    sort: Sort,
    reader: Option<Reader>,
}

impl Order {
    fn of(sort: Sort) -> Self {
        let reader = if let By::Column(column) = sort.by { Reader::of(column) } else { None };
        Self { sort, reader }
    }

    fn cell(self, row: &Row) -> Cell<'_> {
        self.reader.map_or(Cell::Nothing, |reader| reader.read(row))
    }

    fn compare(self, a: &Candidate, b: &Candidate) -> Ordering {
        let names = || compare_names(&a.row, &b.row);
        let first = match self.sort.by {
            By::Name => names(),
            By::Verdict => a.is_shelved.cmp(&b.is_shelved).then_with(|| b.verdict.cmp(&a.verdict)),
            By::Since => b.since.cmp(&a.since),
            By::Column(_) => self.cell(&a.row).order(self.cell(&b.row)),
        };
        (if self.sort.reverse { first.reverse() } else { first }).then_with(names)
    }
}

fn compare_names(x: &Row, y: &Row) -> Ordering {
    (x.source, &x.namespace, &x.name).cmp(&(y.source, &y.namespace, &y.name))
}
