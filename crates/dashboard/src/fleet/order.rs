//! Which rows, and in which order: filter and sort to row ids. Candidates are taken from the fleet
//! as pointers and ordered by a pure function, so that many can be done aside. Must not know what
//! is on screen.

use std::cmp::Ordering;

use frizbee::{Config, Matcher, Matching};

use super::filter::{Candidate, Filter};
use super::row::{Kind, Row, RowId};
use super::{Cell, Fleet, Reader};
use crate::fleet::Verdict;
use capi_types::columns::Column;

/// Longer queries are cut: nobody types them, and matching is quadratic in them.
const QUERY_CHARS_MAX: usize = 128;

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
    /// Words that all must stand in the row's text (names, kind, version, phase, verdict, tags); `!word`, `^prefix`, `suffix$` and `'substring` as in fzf. And terms: docs/filter.md.
    pub text: String,
    /// Only what is at least this bad.
    pub at_least: Floor,
    pub sort: Sort,
}

impl Query {
    /// Why the text asks for nothing, in a sentence; `None`: it can be understood.
    pub fn trouble(&self) -> Option<String> {
        Filter::parse(&self.short_text()).err()
    }

    fn short_text(&self) -> String {
        self.text.chars().take(QUERY_CHARS_MAX).collect()
    }

    fn filter(&self) -> Filter {
        // Whoever shows the list says the error, by way of `trouble`.
        Filter::parse(&self.short_text()).unwrap_or_default()
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

/// Rows to choose from: pointers, safe to move to another thread.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    pub all: Vec<Candidate>,
    /// The time that ages are counted to, seconds since the epoch.
    now_s: u32,
}

impl Fleet {
    /// All rows of a kind, of the whole fleet or of one cluster, by name, with what they will be chosen and ordered by.
    pub fn candidates(&self, kind: Kind, cluster: Option<RowId>, query: &Query) -> Candidates {
        // Only where it is asked for: the causes of each object are searched for it.
        let needs_since = query.sort.by == By::Since || query.filter().needs_since();
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
                since: if needs_since { self.since(id) } else { None },
                is_shelved: self.is_shelved(id),
            })
        };
        Candidates { all: ids.into_iter().filter_map(candidate).collect(), now_s: self.now_s() }
    }

    /// Filter and sort at once: right for clusters, and for the members of one.
    pub fn select(&self, kind: Kind, cluster: Option<RowId>, query: &Query) -> Vec<RowId> {
        self.candidates(kind, cluster, query).select(query)
    }
}

impl Candidates {
    /// The ids that match, in order; none when the text cannot be understood.
    pub fn select(mut self, query: &Query) -> Vec<RowId> {
        let Ok(filter) = Filter::parse(&query.short_text()) else { return Vec::new() };
        let now_s = self.now_s;
        self.all.retain(|c| c.verdict >= query.at_least.0 && filter.holds(c, || shown_text(c), now_s));
        if !filter.words.is_empty() {
            keep_matching(&mut self.all, &filter.words);
        }
        let order = Order::of(query.sort);
        self.all.sort_by(|a, b| order.compare(a, b));
        self.all.into_iter().map(|c| c.id).collect()
    }
}

fn keep_matching(candidates: &mut Vec<Candidate>, words: &str) {
    let mut matcher = Matcher::from_query(words, &Config::default().matching(Matching::Substring));
    let mut text = String::new();
    candidates.retain(|c| {
        write_text(c, &mut text);
        matcher.match_one(&text, 0).is_some()
    });
}

fn shown_text(c: &Candidate) -> String {
    let mut text = String::new();
    write_text(c, &mut text);
    text
}

/// What words are looked for in.
fn write_text(c: &Candidate, text: &mut String) {
    text.clear();
    text.push_str(&c.row.namespace);
    text.push('/');
    text.push_str(&c.row.name);
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
        // Names are not reversed with it: among equals they go the usual way.
        (if self.sort.reverse { first.reverse() } else { first }).then_with(names)
    }
}

fn compare_names(x: &Row, y: &Row) -> Ordering {
    (x.source, &x.namespace, &x.name).cmp(&(y.source, &y.namespace, &y.name))
}
