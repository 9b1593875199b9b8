//! The text that words are looked for in: the name and the columns of each object of a list, kept by cluster while somebody
//! types; that of a cluster in which something changed is written anew. Owns what counts as text; must not know what is
//! looked for in it.

use rustc_hash::FxHashMap;

use super::row::{Kind, Row, RowId};
use super::{Changes, Fleet};
use crate::fleet::Verdict;
use capstan_base::text::flat;

/// What is known of one object as text, in small letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    pub(super) name: &'a str,
    /// `namespace/name`.
    pub(super) full_name: &'a str,
    /// Both on lines of their own, and on a third one between blanks what else stands in columns.
    pub(super) all: &'a str,
}

/// The texts of one list. A list without a filter has none.
#[derive(Default)]
pub struct Texts(FxHashMap<RowId, Block>);

/// The texts of the objects of one cluster, one after the other.
#[derive(Default)]
pub(super) struct Block {
    text: String,
    ends: Vec<Ends>,
}

/// Where the parts of one object's text end.
struct Ends {
    name: usize,
    full_name: usize,
    all: usize,
}

impl Texts {
    /// What changed is read again when it is looked at next.
    pub fn note(&mut self, changes: &Changes) {
        // The number of a cluster that went may be given to another one.
        if changes.overview || changes.is_replaced {
            self.clear();
        }
        for cluster in &changes.clusters {
            self.0.remove(cluster);
        }
    }

    pub fn clear(&mut self) {
        self.0 = FxHashMap::default();
    }

    /// Of all objects of a cluster that are on the list.
    pub(super) fn of(&mut self, fleet: &Fleet, cluster: RowId, ids: &[RowId]) -> &Block {
        self.0.entry(cluster).or_insert_with(|| Block::of(fleet, ids))
    }
}

impl Block {
    pub(super) fn of(fleet: &Fleet, ids: &[RowId]) -> Self {
        let mut block = Self::default();
        for id in ids {
            block.push(fleet, *id);
        }
        block
    }

    /// The text of the object at a place among those that it was made of.
    pub(super) fn get(&self, at: usize) -> Option<Text<'_>> {
        let start = at.checked_sub(1).map_or(Some(0), |before| Some(self.ends.get(before)?.all))?;
        let ends = self.ends.get(at)?;
        Some(Text {
            name: self.text.get(start..ends.name)?,
            full_name: self.text.get(ends.name + 1..ends.full_name)?,
            all: self.text.get(start..ends.all)?,
        })
    }

    fn push(&mut self, fleet: &Fleet, id: RowId) {
        let Some(row) = fleet.row(id) else {
            let end = self.text.len();
            self.ends.push(Ends { name: end, full_name: end, all: end });
            return;
        };
        self.write(&row.name);
        let name = self.text.len();
        self.text.push('\n');
        self.write(&row.namespace);
        self.text.push('/');
        self.write(&row.name);
        let full_name = self.text.len();
        self.text.push('\n');
        self.columns(fleet, id, row);
        self.text.push_str(" \n");
        self.ends.push(Ends { name, full_name, all: self.text.len() });
    }

    fn columns(&mut self, fleet: &Fleet, id: RowId, row: &Row) {
        let machine = row.machine();
        let facts = row.cluster_facts();
        let verdict = fleet.index.last_verdict(id);
        for word in [
            row.gvk.kind.as_str(),
            &row.cluster,
            &row.phase,
            verdict.word(),
            machine.and_then(|m| m.node.as_deref()).unwrap_or_default(),
            machine.and_then(|m| m.failure_domain.as_deref()).unwrap_or_default(),
            facts.map_or("", |f| &f.class),
            if row.is_deleting() { "deleting" } else { "" },
            if row.paused { "paused" } else { "" },
        ] {
            self.word(word);
        }
        if row.kind == Kind::Machine {
            self.word(&row.version);
        } else {
            fleet.shown_versions(id).for_each(|version| self.word(&version));
        }
        // What is well has nothing to explain.
        if verdict != Verdict::Ok || fleet.index.is_lost(id) {
            self.word(&fleet.why_words(id));
        }
    }

    fn word(&mut self, word: &str) {
        if !word.is_empty() {
            self.text.push(' ');
            self.write(word);
        }
    }

    fn write(&mut self, text: &str) {
        if text.is_ascii() {
            let start = self.text.len();
            self.text.push_str(text);
            self.text[start..].make_ascii_lowercase();
        } else {
            self.text.push_str(&text.to_lowercase());
        }
    }
}

impl Fleet {
    /// What stands under WHY, on one line.
    pub(super) fn why_words(&self, id: RowId) -> String {
        flat(&self.what_is_wrong(id))
    }

    /// The versions that stand under VERSION.
    pub(super) fn shown_versions(&self, id: RowId) -> impl Iterator<Item = std::sync::Arc<str>> + use<> {
        self.versions(id).into_iter().map(|count| count.version)
    }
}
