//! Which columns a list of rows shows, and what stands in them: upstream's ([`crate::api::columns`]) of the kinds on the
//! list, with its words and order, and four of our own. Owns which give way first when there is little room, and how a
//! value looks; must not know filter, order nor cursor.

use ratatui::layout::Rect;
use ratatui::text::Line;

use super::parts::{AGE_WIDTH, Part, Printed, parts};
use crate::api::columns::Type;
use crate::fleet::{Cell, Kind, Row, Tone};
use crate::status::verdict::Verdict;
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use crate::tui::widget::{counters, table};

/// One column on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// Ours: the name, in a tree with its kind and branches.
    Name,
    /// Ours: how the object is with all under it.
    Verdict,
    /// Upstream's numbers of replicas side by side, a letter each: those whose heading begins so.
    Counters(&'static str),
    /// Any other of upstream's, by its heading.
    Printed(&'static str),
    /// Ours: the versions that run in a cluster. Upstream's says which one its topology asks for.
    Versions,
    /// Ours: what is wrong, in a few words.
    Why,
}

/// No cell takes more room than this, but for names and reasons.
const WIDTH_MAX: usize = 40;
/// What [`Id::Why`] gets before less important columns are shown at all.
const WHY_WIDTH: u16 = 44;
/// Which columns get room first. Those not named here come after all others, in upstream's order.
const EARLY: [Id; 8] = [
    Id::Name,
    Id::Verdict,
    Id::Counters(""),
    Id::Counters("CP"),
    Id::Counters("W"),
    Id::Versions,
    Id::Printed("Age"),
    Id::Printed("Version"),
];
/// The same of what is shown when those and the reason have all they need.
const LATER: [&str; 6] = ["Phase", "Available", "Version", "Ready", "Up-to-date", "Node Name"];

/// The heading over names, and the room below which a list is of no use.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    pub title: &'static str,
    pub width_min: usize,
}

/// The columns of one list. Widths are those of all its rows, so that columns stay where they are while one scrolls.
pub struct Columns {
    parts: Vec<Part>,
    wide: bool,
    own: &'static [Id],
    names: Names,
    name: usize,
    versions: usize,
    digits: usize,
    legacy: bool,
}

impl Columns {
    /// Those of `kinds`; `own` are the ones of ours besides name and verdict.
    #[must_use]
    pub fn new(names: Names, kinds: &[Kind], own: &'static [Id], wide: bool) -> Self {
        Self {
            parts: parts(kinds, wide),
            wide,
            own,
            names,
            name: names.title.len(),
            versions: 0,
            digits: 1,
            legacy: false,
        }
    }

    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.wide
    }

    /// Some row is judged by conditions of the older kind.
    #[must_use]
    pub fn has_legacy(&self) -> bool {
        self.legacy
    }

    /// Makes room for a name so wide.
    pub fn measure_name(&mut self, width: usize) {
        self.name = self.name.max(width);
    }

    /// Makes room for versions so wide.
    pub fn measure_versions(&mut self, width: usize) {
        self.versions = self.versions.max(width);
    }

    /// Makes room for upstream's values of a row.
    pub fn measure(&mut self, row: &Row) {
        self.legacy |= row.legacy;
        for part in &mut self.parts {
            match part {
                Part::Group(group) => {
                    self.digits = self.digits.max(counters::digits(&group.numbers(row)));
                }
                Part::Printed(printed) => printed.measure(row),
            }
        }
    }

    /// Where which column stands in `body`.
    #[must_use]
    pub fn place(&self, body: Rect) -> Vec<table::Placed<Id>> {
        let verdict = if self.legacy { 15 } else { 13 };
        let mut columns = vec![
            self.column(Id::Name, self.names.title, self.names.width_min, self.name),
            self.column(Id::Verdict, "STATUS", verdict, verdict),
        ];
        for part in &self.parts {
            match part {
                Part::Group(group) => {
                    let width = counters::width(group.letters.len(), self.digits);
                    let heading = counters::heading(&group.letters, self.digits);
                    columns.push(self.column(Id::Counters(group.prefix), &heading, width, width));
                }
                Part::Printed(printed) if printed.widest > 0 => {
                    let name = printed.column.name;
                    let width = printed.widest.max(name.len()).min(WIDTH_MAX);
                    columns.push(self.column(Id::Printed(name), &name.to_uppercase(), width, width));
                }
                Part::Printed(_) => {}
            }
        }
        for id in self.own {
            columns.push(match id {
                Id::Versions => self.column(*id, "VERSIONS", 8, self.versions.clamp(8, 17)),
                _ => self.column(*id, "WHY", 24, usize::from(WHY_WIDTH)),
            });
        }
        table::place(&columns, body.x + 2, body.width.saturating_sub(3))
    }

    /// Has any of the wide columns a place in `body`?
    #[must_use]
    pub fn shows_wide(&self, body: Rect) -> bool {
        let wide_group = |prefix| {
            self.parts
                .iter()
                .any(|part| matches!(part, Part::Group(group) if group.prefix == prefix && group.wide))
        };
        self.place(body).iter().any(|placed| match placed.id {
            Id::Counters(prefix) => wide_group(prefix),
            id => self.printed(id).is_some_and(|printed| printed.column.wide),
        })
    }

    fn column(&self, id: Id, title: &str, min: usize, natural: usize) -> table::Column<Id> {
        let cells = |width: usize| u16::try_from(width.min(64)).unwrap_or(64);
        let date = self.printed(id).is_some_and(|printed| printed.column.type_ == Type::Date);
        let (late, rank) = self.rank(id);
        table::Column {
            id,
            title: title.to_owned(),
            align: if date { table::Align::Right } else { table::Align::Left },
            min: cells(min),
            natural: if date { AGE_WIDTH } else { cells(natural) },
            late,
            rank,
            grows: id == Id::Why,
        }
    }

    /// Whether the column has to wait, and its turn. Who asks for wide columns wants those before the reason.
    fn rank(&self, id: Id) -> (bool, usize) {
        // Where there are the versions that run, the wanted one can wait.
        let can_wait = id == Id::Printed("Version") && self.own.contains(&Id::Versions);
        if let Some(turn) = EARLY.iter().position(|early| *early == id).filter(|_| !can_wait) {
            return (false, turn);
        }
        let wide = self.printed(id).is_some_and(|printed| printed.column.wide);
        match id {
            Id::Why => (self.wide, usize::MAX),
            Id::Printed(_) if wide => (true, 0),
            Id::Printed(name) => (true, 1 + LATER.iter().position(|l| *l == name).unwrap_or(LATER.len())),
            _ => (true, usize::MAX),
        }
    }

    fn printed(&self, id: Id) -> Option<&Printed> {
        let Id::Printed(name) = id else { return None };
        self.parts.iter().find_map(|part| match part {
            Part::Printed(printed) if printed.column.name == name => Some(printed),
            _ => None,
        })
    }

    /// What a row has in one of upstream's columns; nothing in ours.
    #[must_use]
    pub fn cell(&self, id: Id, row: &Row, room: usize, paint: &Paint<'_>) -> Line<'static> {
        match id {
            Id::Counters(prefix) => {
                let of_prefix = |part: &Part| match part {
                    Part::Group(group) if group.prefix == prefix => Some(group.numbers(row)),
                    _ => None,
                };
                let numbers = self.parts.iter().find_map(of_prefix).unwrap_or_default();
                counters::cell(&numbers, self.digits, paint)
            }
            Id::Printed(name) => {
                let cell = self.printed(id).map_or(Cell::Nothing, |printed| printed.read(row));
                value(cell, name, room, paint)
            }
            Id::Name | Id::Verdict | Id::Versions | Id::Why => Line::default(),
        }
    }
}

/// The verdict, with a mark when it comes from conditions of the older kind.
#[must_use]
pub fn verdict(verdict: Verdict, legacy: bool, paint: &Paint<'_>) -> Line<'static> {
    let mut line = Line::from(paint.verdict(verdict));
    if legacy {
        line.push_span(paint.span(Scope::Muted, format!(" {}", paint.glyphs().footnote)));
    }
    line
}

/// One value, as text and in its colour.
fn value(cell: Cell<'_>, name: &str, room: usize, paint: &Paint<'_>) -> Line<'static> {
    let scope = match cell {
        Cell::Condition(c) => match Tone::of(&c.type_, c.status) {
            Tone::Good => Scope::Muted,
            Tone::Active => Scope::ConditionInfo,
            Tone::Bad => Scope::ConditionBad,
            Tone::Unknown => Scope::Unknown,
        },
        _ if name == "Version" => Scope::Text,
        _ => Scope::Muted,
    };
    let text = match cell {
        // In steps that leave a quiet screen alone.
        Cell::Moment(then) => paint.age(then),
        other => other.print(paint.now).into_owned(),
    };
    // The end is what tells names apart; sentences are read from the start.
    let text = if text.contains(' ') { paint.cut(&text, room) } else { paint.cut_name(&text, room) };
    Line::from(paint.span(scope, text))
}
