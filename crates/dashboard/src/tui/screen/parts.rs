//! Upstream's columns ([`capi_types::columns`]) as a list of several kinds shows them: one order for all kinds, counters side
//! by side under a letter each, and how a row is read for them. Must not know what is on the screen, nor where.

use crate::fleet::{Cell, Kind, Line, Mark, Reader, Row, Tag, moment};
use crate::tui::paint::Paint;
use capi_types::columns::{Column, Type};

/// The longest age on the screen.
pub(super) const AGE_WIDTH: u16 = 4;

/// How each kind has a column.
type Readers = [Option<Reader>; Kind::ALL.len()];

/// Upstream's counters with one prefix.
pub(super) struct Group {
    pub(super) prefix: &'static str,
    pub(super) letters: Vec<char>,
    readers: Vec<Readers>,
    pub(super) wide: bool,
}

/// One of upstream's columns that is not a counter.
pub(super) struct Printed {
    pub(super) column: &'static Column,
    readers: Readers,
}

pub(super) enum Part {
    Group(Group),
    Printed(Printed),
}

/// What a list of these kinds shows of upstream's columns, in an order that keeps each kind's.
pub(super) fn parts(kinds: &[Kind], wide: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    for column in union(kinds, wide) {
        let readers = readers(column);
        let Some((prefix, letter)) = counter(column) else {
            parts.push(Part::Printed(Printed { column, readers }));
            continue;
        };
        match parts.last_mut() {
            Some(Part::Group(group)) if group.prefix == prefix => {
                group.letters.push(letter);
                group.readers.push(readers);
                group.wide |= column.wide;
            }
            _ => parts.push(Part::Group(Group {
                prefix,
                letters: vec![letter],
                readers: vec![readers],
                wide: column.wide,
            })),
        }
    }
    parts
}

impl Group {
    /// Empty for a row that has none of them.
    pub(super) fn numbers(&self, row: &Row) -> Vec<Option<u32>> {
        let readers = self.readers.iter().map(|readers| readers[row.kind as usize]);
        let read = |reader: Option<Reader>| match reader.map(|reader| reader.read(row)) {
            Some(Cell::Number(number)) => Some(number),
            _ => None,
        };
        if readers.clone().all(|reader| reader.is_none()) { Vec::new() } else { readers.map(read).collect() }
    }
}

impl Printed {
    pub(super) fn read<'a>(&self, row: &'a Row) -> Cell<'a> {
        self.readers[row.kind as usize].map_or(Cell::Nothing, |reader| reader.read(row))
    }
}

/// The columns of several kinds in an order that keeps each kind's. The cluster is left out: the screen says which.
fn union(kinds: &[Kind], wide: bool) -> Vec<&'static Column> {
    let mut all: Vec<&'static Column> = Vec::new();
    for kind in kinds {
        let mut next = 0;
        for column in kind.columns().iter().filter(|c| (wide || !c.wide) && c.name != "Cluster") {
            match all.iter().position(|known| is_same(known, column)) {
                Some(at) => next = at + 1,
                None => {
                    all.insert(next, column);
                    next += 1;
                }
            }
        }
    }
    all
}

/// Counters and conditions may share a word.
fn is_same(a: &Column, b: &Column) -> bool {
    a.name == b.name && (a.type_ == Type::Integer) == (b.type_ == Type::Integer)
}

fn readers(column: &Column) -> Readers {
    Kind::ALL.map(|kind| kind.columns().iter().find(|c| is_same(c, column)).and_then(Reader::of))
}

/// What stands before the last word of a counter's heading, and that word's letter.
pub fn counter(column: &Column) -> Option<(&'static str, char)> {
    let (prefix, word) = column.name.rsplit_once(' ').unwrap_or(("", column.name));
    word.chars().next().filter(|_| column.type_ == Type::Integer).map(|letter| (prefix, letter))
}

/// Whose replicas counters with this prefix count, in full; empty for the object's own.
pub fn counters_of(prefix: &'static str) -> &'static str {
    match prefix {
        "CP" => "control plane",
        "W" => "workers",
        other => other,
    }
}

/// What a person noted of an object: seen, or shelved for so long and why.
pub fn mark_words(mark: &Mark, paint: &Paint<'_>) -> String {
    let word = tag_of(mark).word();
    match (&mark.reason, moment(mark.until_s)) {
        (Some(reason), Some(until)) => format!("{word} {} ({reason})", paint.until(until)),
        _ => word.to_owned(),
    }
}

/// Stands for a mark, which says more than its tag.
pub fn is_mark(tag: Tag) -> bool {
    matches!(tag, Tag::Acknowledged | Tag::Shelved)
}

/// Tags that say more than the phase beside them: `Deleting` and `ScalingUp` are phases, too.
pub fn tags_beside_phase<'a>(line: &'a Line<'_>) -> impl Iterator<Item = Tag> + 'a {
    let is_phase = |tag: Tag| tag.word().replace(' ', "").eq_ignore_ascii_case(line.phase);
    line.tags.iter().copied().filter(move |tag| !is_phase(*tag))
}

fn tag_of(mark: &Mark) -> Tag {
    if mark.is_shelf() { Tag::Shelved } else { Tag::Acknowledged }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kinds: &[Kind], wide: bool) -> String {
        let of = |part: &Part| match part {
            Part::Group(group) => format!("{}[{}]", group.prefix, group.letters.iter().collect::<String>()),
            Part::Printed(printed) => printed.column.name.to_owned(),
        };
        parts(kinds, wide).iter().map(of).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn lists_have_upstreams_columns_in_upstreams_order() {
        const BELOW: &[Kind] = &[
            Kind::ControlPlane,
            Kind::MachineDeployment,
            Kind::MachineSet,
            Kind::MachinePool,
            Kind::Machine,
        ];
        assert_eq!(
            words(&[Kind::Cluster], false),
            "ClusterClass, Available, CP[DAU], W[DAU], Phase, Age, Version"
        );
        assert_eq!(
            words(&[Kind::Cluster], true),
            "ClusterClass, Available, CP[DCRAU], W[DCRAU], Paused, Phase, Age, Version"
        );
        assert_eq!(
            words(BELOW, false),
            "Node Name, Failure domain, Ready, Available, Up-to-date, [DCRAU], Phase, Initialized, Age, Version"
        );
        assert_eq!(
            words(BELOW, true),
            "Node Name, Provider ID, Failure domain, Ready, Available, Up-to-date, Internal-IP, External-IP, OS-Image, \
             [DCRAU], Paused, Phase, Initialized, Age, Version"
        );
    }
}
