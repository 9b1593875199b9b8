//! Which columns a list of rows shows, how wide they are, and what stands in them: ours, and with `wide` upstream's
//! ([`capi_types::columns`]) of the kinds on the list, to the right of the reason. Everything depends on the list, the
//! width of the screen and what the rows have needed so far: a column gets wider for a longer name and never narrower, so
//! columns rest while data changes. Owns which give way first when there is little room, and how a value looks; must
//! not know filter, order nor cursor.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use rustc_hash::FxHashSet;

use super::chosen_columns::word_of;
use super::parts::{AGE_WIDTH, Part, Printed, counters_of, parts};
use crate::fleet::Verdict;
use crate::fleet::{Cell, Changes, ConditionText, Kind, Listed, Row, Tone};
use crate::tui::paint::{Paint, put, verdict_scope};
use crate::tui::theme::Scope;
use crate::tui::widget::{counters, table};
use capi_types::columns::{Column, Type};
use capi_types::condition_types;
use capstan_base::time::Timestamp;

/// One column on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// Ours: the glyph of the verdict, in front of the name.
    Verdict,
    /// Ours: the name, in a tree with its kind and branches.
    Name,
    /// Ours: the cluster of an object.
    Cluster,
    /// Ours: the Node of a Machine.
    Node,
    /// Ours: how the condition stands that the list is about.
    Status,
    /// Ours: how one of the conditions of a matrix stands, by its place among them.
    Condition(usize),
    /// Ours: available of wanted replicas: of an owner, or of the part of a Cluster that counters with this prefix count.
    Have(&'static str),
    /// Ours: all numbers of replicas of an owner, and whether a Machine counts among them.
    Replicas,
    /// Ours: the versions that run in a cluster, or the version of an object in a tree.
    Version,
    /// Ours: since when the verdict holds.
    Since,
    /// Ours: what is going on, in a few words.
    Why,
    /// Upstream's numbers of replicas side by side, a letter each: those whose heading begins so.
    Counters(&'static str),
    /// Any other of upstream's, by its heading.
    Printed(&'static str),
}

/// Cells in front of the first column: the cursor's mark, the glyph of the verdict, and one between.
const LEAD: u16 = 3;
/// A list over the fleet has names of at least this room, as far as it has data.
const NAME_MIN: u16 = 8;
/// From here on the reason stands in its row.
const WHY_FROM: u16 = 60;
/// The reason is not shown with less, and has this much before less important columns are shown at all.
const WHY_MIN: u16 = 20;
const WHY_WIDTH: u16 = 28;
/// Beside more columns.
const WHY_WIDTH_BESIDE_MORE: u16 = 22;
/// From here on counters of four digits have room.
const ROOMY_FROM: u16 = 100;
/// Cells of a condition of a matrix: enough to tell types apart by how they begin.
const TYPE_MIN: u16 = 5;
/// Digits of one of upstream's counters.
const DIGITS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Over the whole fleet.
    Over(Listed),
    /// The same with one condition of each object.
    Condition(Listed),
    /// The same with a column for each condition.
    Matrix(Listed),
    Tree,
}

/// What stands below a Cluster, whose own columns are those of the list of clusters.
const BELOW: &[Kind] =
    &[Kind::ControlPlane, Kind::MachineDeployment, Kind::MachineSet, Kind::MachinePool, Kind::Machine];

/// What the rows of a list need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Cells of the longest name.
    pub name_cells: u16,
    /// Cells of the longest name of a cluster, where it stands in a column of its own.
    pub cluster_cells: u16,
    /// A column for versions explains something: not all are the same.
    pub versions: bool,
    /// Digits of the greatest number of replicas.
    pub digits: usize,
}

impl Default for Needs {
    fn default() -> Self {
        Self { name_cells: NAME_MIN, cluster_cells: NAME_MIN, versions: false, digits: 1 }
    }
}

/// The columns of one list.
pub struct Columns {
    list: List,
    /// Upstream's; none without `wide`.
    parts: Vec<Part>,
    wide: bool,
    /// The most that rows have needed so far; a share of the screen while nothing is known.
    needs: Option<Needs>,
    /// The conditions of a matrix, in the order in which objects list them.
    types: Vec<TypeColumn>,
    /// The columns that a person wants beside the names, as they are typed; `None`: those that there is room for.
    chosen: Option<Vec<String>>,
}

/// A condition type with a column of its own.
#[derive(Clone, Debug)]
struct TypeColumn {
    type_: Arc<str>,
    /// Some row was seen on which it is not as it should be: it has its place before the others.
    is_odd: bool,
}

impl Columns {
    pub fn new(list: List, wide: bool) -> Self {
        Self::choosing(list, wide, None)
    }

    /// Those of a person's choice, upstream's among them.
    pub fn choosing(list: List, wide: bool, chosen: Option<Vec<String>>) -> Self {
        let has_upstreams = wide || chosen.is_some();
        let mut parts = match list {
            List::Over(listed) if has_upstreams => parts(&[listed.kind()], true),
            List::Tree if has_upstreams => parts(BELOW, true),
            List::Over(_) | List::Tree | List::Condition(_) | List::Matrix(_) => Vec::new(),
        };
        // They have a column of ours.
        parts.retain(|part| !matches!(part, Part::Group(group) if group.prefix.is_empty()));
        Self { list, parts, wide, needs: None, types: Vec::new(), chosen }
    }

    pub fn chosen(&self) -> Option<&[String]> {
        self.chosen.as_deref()
    }

    /// All columns that may be chosen, as they are typed.
    pub fn names(&self) -> Vec<String> {
        let all = Self { chosen: None, ..Self::choosing(self.list, false, Some(Vec::new())) };
        let all = Self { types: self.types.clone(), ..all };
        let columns = all.of_width(ROOMY_FROM).into_iter().filter(|column| column.id != Id::Name);
        let mut names: Vec<String> = columns.map(|column| name_of(&column)).collect();
        let mut seen = FxHashSet::default();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    pub fn is_wide(&self) -> bool {
        self.wide
    }

    /// Rows of another fleet, or of another moment, need no room any more.
    pub fn note(&mut self, changes: &Changes) {
        if changes.is_replaced {
            self.needs = None;
            self.types.clear();
        }
    }

    /// Makes room for rows with these needs, beside those before.
    pub fn fit(&mut self, rows: Needs) {
        let so_far = self.needs.unwrap_or_default();
        self.needs = Some(Needs {
            name_cells: so_far.name_cells.max(rows.name_cells),
            cluster_cells: so_far.cluster_cells.max(rows.cluster_cells),
            versions: so_far.versions || rows.versions,
            digits: so_far.digits.max(rows.digits),
        });
    }

    /// Makes room for the conditions of these rows, beside those of rows before.
    pub fn fit_types<'a>(&mut self, rows: impl Iterator<Item = &'a Row>) {
        // Equal conditions share their text.
        let mut seen: FxHashSet<*const ConditionText> = FxHashSet::default();
        for text in rows.flat_map(|row| &row.conditions).map(|condition| &condition.text) {
            if !seen.insert(Arc::as_ptr(text)) {
                continue;
            }
            let is_odd = Tone::of(&text.type_, text.status) != Tone::Good;
            match self.types.iter_mut().find(|known| known.type_ == text.type_) {
                Some(known) => known.is_odd |= is_odd,
                None => self.types.push(TypeColumn { type_: text.type_.clone(), is_odd }),
            }
        }
        let place = |type_: &str| (condition_types::rank(type_), type_.to_owned());
        self.types.sort_by_cached_key(|column| place(&column.type_));
    }

    /// The condition type of a column of a matrix.
    pub fn type_at(&self, at: usize) -> Option<&Arc<str>> {
        self.types.get(at).map(|column| &column.type_)
    }

    /// Where which column stands in `body`.
    pub fn place(&self, body: Rect) -> Vec<table::Placed<Id>> {
        let mut columns = if self.chosen.is_some() {
            self.of_width(body.width.max(ROOMY_FROM))
        } else {
            self.of_width(body.width)
        };
        if let Some(chosen) = &self.chosen {
            let place = |column: &table::Column<Id>| chosen.iter().position(|name| *name == name_of(column));
            columns.retain(|column| column.id == Id::Name || place(column).is_some());
            for column in &mut columns {
                // What was named first has room first, beside the names.
                column.rank = place(column).map_or(0, |place| place + 1);
            }
        }
        table::place(&columns, body.x + LEAD, body.width.saturating_sub(LEAD + 1))
    }

    /// Ours, as they are typed, where there is room for all of them.
    pub fn usual(&self) -> Vec<String> {
        let ours = self.ours(ROOMY_FROM).into_iter().filter(|column| column.id != Id::Name);
        ours.map(|column| name_of(&column)).collect()
    }

    /// Ours and upstream's. What a person chose has its place on narrow screens as well.
    fn of_width(&self, width: u16) -> Vec<table::Column<Id>> {
        self.ours(width).into_iter().chain(self.parts.iter().map(upstreams)).collect()
    }

    /// Ours, the more important ones first to be given room.
    fn ours(&self, width: u16) -> Vec<table::Column<Id>> {
        let roomy = width >= ROOMY_FROM;
        let mut columns = match self.list {
            List::Over(Listed::Clusters) => self.of_clusters(width),
            List::Over(listed) => self.of_objects(listed, width),
            List::Condition(listed) => self.of_condition(listed, width),
            List::Matrix(listed) => return self.of_matrix(listed, width),
            List::Tree => self.of_tree(width),
        };
        for (rank, column) in columns.iter_mut().enumerate() {
            column.rank = rank;
        }
        if self.list == List::Over(Listed::Machines) && roomy && !self.wide {
            columns.push(late(column(Id::Node, "NODE", 20), usize::MAX));
        }
        // On narrow screens the reason has the room.
        let is_told = match self.list {
            List::Over(Listed::Clusters) => {
                roomy && (self.wide || self.chosen.is_some() || self.needs.is_none_or(|needs| needs.versions))
            }
            List::Over(Listed::MachineHealthChecks) | List::Condition(_) | List::Matrix(_) => false,
            List::Over(_) => roomy,
            List::Tree => true,
        };
        if is_told {
            // Of several Machines it is the lowest and the highest one.
            let is_range = !matches!(self.list, List::Tree | List::Over(Listed::Machines));
            columns.push(late(column(Id::Version, "VERSION", if is_range { 13 } else { 8 }), usize::MAX - 1));
        }
        // Who asks for wide columns wants those before the version.
        columns.push(late(right(Id::Since, "SINCE", 5), 0));
        if width >= WHY_FROM {
            let is_of_clusters = self.list == List::Over(Listed::Clusters);
            let why = column(Id::Why, "WHY", if is_of_clusters { WHY_WIDTH } else { WHY_WIDTH_BESIDE_MORE });
            columns.push(table::Column { min: WHY_MIN, grows: true, ..why });
        }
        columns
    }

    /// The width of names: a share of the screen where the reason stands beside them, or all that the columns `beside` them
    /// leave.
    fn name_width(width: u16, share: u16, most: u16, beside: u16) -> u16 {
        let has_why = width >= WHY_FROM;
        if has_why { share.clamp(NAME_MIN, most) } else { width.saturating_sub(LEAD + 1 + beside).max(8) }
    }

    /// As much of the screen as the names need: the reason has a third and more, and SINCE its place.
    fn share_of_names(&self, width: u16) -> u16 {
        self.needs.map_or(width / 4, |needs| needs.name_cells.min(width * 7 / 24))
    }

    fn of_clusters(&self, width: u16) -> Vec<table::Column<Id>> {
        let roomy = width >= ROOMY_FROM;
        vec![
            column(Id::Name, "NAME", Self::name_width(width, self.share_of_names(width), 60, 16)),
            right(Id::Have("CP"), "CP", if roomy { 5 } else { self.of_two_numbers(2) }),
            right(
                Id::Have("W"),
                if roomy { "WORKERS" } else { "WORK" },
                if roomy { 9 } else { self.of_two_numbers(4) },
            ),
        ]
    }

    /// `3/3`, below a heading of so many cells: where there is little room, the reason has what these leave.
    fn of_two_numbers(&self, heading: u16) -> u16 {
        let digits = u16::try_from(self.digits()).unwrap_or(u16::MAX);
        digits.saturating_mul(2).saturating_add(1).clamp(heading, 7)
    }

    fn of_objects(&self, listed: Listed, width: u16) -> Vec<table::Column<Id>> {
        let replicas = match listed {
            Listed::Machines => None,
            _ if width >= ROOMY_FROM => Some(self.replicas()),
            _ => Some(right(Id::Have(""), "HAVE", 7)),
        };
        let beside = 2 + replicas.as_ref().map_or(0, |column| column.natural + 2);
        let name = Self::name_width(width, self.share_of_names(width), 60, beside);
        let mut columns = vec![column(Id::Name, "NAME", name)];
        columns.extend(self.cluster(listed, width));
        columns.extend(replicas);
        columns
    }

    /// A Cluster is in no other.
    fn cluster(&self, listed: Listed, width: u16) -> Option<table::Column<Id>> {
        let cells = self.needs.unwrap_or_default().cluster_cells;
        (width >= WHY_FROM && listed != Listed::Clusters)
            .then(|| column(Id::Cluster, "CLUSTER", cells.min(width * 4 / 24).max(NAME_MIN)))
    }

    fn of_condition(&self, listed: Listed, width: u16) -> Vec<table::Column<Id>> {
        let mut columns =
            vec![column(Id::Name, "NAME", Self::name_width(width, self.share_of_names(width), 60, 11))];
        columns.extend(self.cluster(listed, width));
        columns.push(column(Id::Status, "STATUS", 9));
        columns
    }

    /// Conditions that are not as they should be somewhere have room first; each has a part of its type at least.
    fn of_matrix(&self, listed: Listed, width: u16) -> Vec<table::Column<Id>> {
        let mut columns =
            vec![column(Id::Name, "NAME", Self::name_width(width, self.share_of_names(width), 60, 14))];
        columns.extend(self.cluster(listed, width).filter(|_| width >= ROOMY_FROM));
        let types = self.types.iter().enumerate().map(|(at, known)| {
            let title = column(Id::Condition(at), &known.type_, TYPE_MIN);
            let natural = u16::try_from(known.type_.len()).unwrap_or(u16::MAX).max(TYPE_MIN);
            let rank = if known.is_odd { 2 + at } else { 2 + self.types.len() + at };
            table::Column { natural, rank, ..title }
        });
        columns.extend(types);
        columns
    }

    fn of_tree(&self, width: u16) -> Vec<table::Column<Id>> {
        let replicas = self.replicas();
        let name = Self::name_width(width, width * 7 / 20, 44, replicas.natural + 2);
        vec![column(Id::Name, "OBJECT", name), replicas]
    }

    fn replicas(&self) -> table::Column<Id> {
        let heading = counters::heading(&counters::LETTERS, self.digits());
        right(Id::Replicas, &heading, u16::try_from(heading.len()).unwrap_or(u16::MAX))
    }

    /// Digits of the numbers of replicas.
    pub fn digits(&self) -> usize {
        self.needs.unwrap_or_default().digits
    }

    /// Has any of upstream's columns a place in `body`?
    pub fn shows_wide(&self, body: Rect) -> bool {
        self.place(body).iter().any(|placed| matches!(placed.id, Id::Counters(_) | Id::Printed(_)))
    }

    fn printed(&self, name: &str) -> Option<&Printed> {
        self.parts.iter().find_map(|part| match part {
            Part::Printed(printed) if printed.column.name == name => Some(printed),
            _ => None,
        })
    }

    /// What a row has in one of upstream's columns; nothing in ours.
    pub fn cell(&self, id: Id, row: &Row, room: usize, paint: &Paint<'_>) -> Line<'static> {
        match id {
            Id::Counters(prefix) => {
                let of_prefix = |part: &Part| match part {
                    Part::Group(group) if group.prefix == prefix => Some(group.numbers(row)),
                    _ => None,
                };
                let numbers = self.parts.iter().find_map(of_prefix).unwrap_or_default();
                counters::cell(&numbers, digits(prefix), paint)
            }
            Id::Printed(name) => {
                let cell = self.printed(name).map_or(Cell::Nothing, |printed| printed.read(row));
                value(cell, name, room, paint)
            }
            Id::Verdict
            | Id::Name
            | Id::Cluster
            | Id::Node
            | Id::Status
            | Id::Condition(_)
            | Id::Have(_)
            | Id::Replicas
            | Id::Version
            | Id::Since
            | Id::Why => Line::default(),
        }
    }
}

fn column(id: Id, title: &str, width: u16) -> table::Column<Id> {
    table::Column {
        id,
        title: title.to_owned(),
        align: table::Align::Left,
        min: width,
        natural: width,
        late: false,
        rank: 0,
        grows: false,
    }
}

fn right(id: Id, title: &str, width: u16) -> table::Column<Id> {
    table::Column { align: table::Align::Right, ..column(id, title, width) }
}

/// The column has to wait for those that matter more.
fn late(column: table::Column<Id>, rank: usize) -> table::Column<Id> {
    table::Column { late: true, rank, ..column }
}

/// A column as it is typed.
fn name_of(column: &table::Column<Id>) -> String {
    match column.id {
        Id::Replicas | Id::Have("") | Id::Counters("") => "replicas".to_owned(),
        Id::Have(prefix) | Id::Counters(prefix) => word_of(counters_of(prefix)),
        Id::Verdict
        | Id::Name
        | Id::Cluster
        | Id::Node
        | Id::Status
        | Id::Condition(_)
        | Id::Version
        | Id::Since
        | Id::Why
        | Id::Printed(_) => word_of(&column.title),
    }
}

/// One of upstream's. Those that only the wide list has come before those that repeat ours.
fn upstreams(part: &Part) -> table::Column<Id> {
    match part {
        Part::Group(group) => {
            let digits = digits(group.prefix);
            let width = counters::width(group.letters.len(), digits);
            let heading = counters::heading(&group.letters, digits);
            let width = u16::try_from(width).unwrap_or(u16::MAX);
            late(column(Id::Counters(group.prefix), &heading, width), if group.wide { 1 } else { 2 })
        }
        Part::Printed(printed) => {
            let Column { name, wide, .. } = *printed.column;
            let title = name.to_uppercase();
            let width = natural(printed.column).max(u16::try_from(title.len()).unwrap_or(u16::MAX));
            let is_date = printed.column.type_ == Type::Date;
            let of = if is_date { right } else { column };
            late(of(Id::Printed(name), &title, width), if wide { 1 } else { 3 })
        }
    }
}

/// A control plane has no more than a few Machines.
fn digits(prefix: &str) -> usize {
    if prefix == "CP" { 2 } else { DIGITS }
}

/// Cells for what usually stands in one of upstream's columns.
fn natural(column: &Column) -> u16 {
    match (column.type_, column.name) {
        (Type::Date, _) => AGE_WIDTH,
        (_, "Version") => 8,
        (_, "Phase") => 12,
        (_, "Node Name") => 20,
        (_, "Provider ID") => 32,
        (_, "Internal-IP" | "External-IP") => 15,
        (_, "OS-Image") => 22,
        (_, "ClusterClass" | "Failure domain") => 14,
        // `Unknown`, the longest status of a condition.
        _ => 7,
    }
}

/// Draws the glyph of a verdict in front of a row, with a mark when it comes from conditions of the older kind.
pub fn verdict(verdict: Verdict, legacy: bool, body: Rect, y: u16, paint: &Paint<'_>, buffer: &mut Buffer) {
    let mut line = Line::from(paint.span(verdict_scope(verdict), paint.verdict_glyph(verdict)));
    if legacy {
        line.push_span(paint.span(Scope::Muted, paint.glyphs().footnote));
    }
    put(buffer, body.x + 1, y, &line, 2);
}

/// Marks the place of the glyphs when rows are ordered by verdict. `sorted`: by what, and whether the other way round.
pub fn mark_verdict(sorted: Option<(Id, bool)>, body: Rect, y: u16, paint: &Paint<'_>, buffer: &mut Buffer) {
    if let Some((Id::Verdict, reverse)) = sorted {
        let mark = if reverse { paint.glyphs().descending } else { paint.glyphs().ascending };
        put(buffer, body.x + 1, y, &Line::from(paint.span(Scope::ColumnSorted, mark)), 1);
    }
}

/// Since when, as an age.
pub fn since(at: Option<Timestamp>, paint: &Paint<'_>) -> Line<'static> {
    Line::from(paint.span(Scope::Muted, at.map(|at| paint.age_in_list(at)).unwrap_or_default()))
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
    // Names differ in their ends; sentences are read from the start.
    let text = if text.contains(' ') { paint.cut(&text, room) } else { paint.cut_name(&text, room) };
    Line::from(paint.span(scope, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(list: List, wide: bool, width: u16) -> String {
        let placed = Columns::new(list, wide).place(Rect::new(0, 0, width, 20));
        let of = |p: &table::Placed<Id>| format!("{}{}", p.title.to_lowercase(), p.width);
        placed.iter().map(of).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn without_rows_columns_depend_on_list_and_width() {
        assert_eq!(picture(List::Over(Listed::Clusters), false, 40), "name20 cp3 work4");
        assert_eq!(picture(List::Over(Listed::Clusters), false, 60), "name15 cp3 work4 why28");
        assert_eq!(picture(List::Over(Listed::Clusters), false, 80), "name20 cp3 work4 since5 why36");
        assert_eq!(
            picture(List::Over(Listed::Clusters), false, 120),
            "name30 cp5 workers9 version13 since5 why44"
        );
        assert_eq!(picture(List::Tree, false, 40), "object25 d c r a u9");
        assert_eq!(picture(List::Tree, false, 80), "object28 d c r a u9 since5 why28");
        assert_eq!(picture(List::Tree, false, 120), "object42 d c r a u9 version8 since5 why44");
    }

    #[test]
    fn names_have_what_they_need_and_columns_never_get_narrower() {
        let mut columns = Columns::new(List::Over(Listed::Clusters), false);
        let picture = |columns: &Columns, width| {
            let placed = columns.place(Rect::new(0, 0, width, 20));
            placed
                .iter()
                .map(|p| format!("{}{}", p.title.to_lowercase(), p.width))
                .collect::<Vec<_>>()
                .join(" ")
        };
        columns.fit(Needs { name_cells: 4, ..Needs::default() });
        assert_eq!(picture(&columns, 80), "name8 cp3 work4 since5 why48");
        assert_eq!(picture(&columns, 120), "name8 cp5 workers9 since5 why81");
        columns.fit(Needs { name_cells: 31, versions: true, ..Needs::default() });
        columns.fit(Needs { name_cells: 5, ..Needs::default() });
        assert_eq!(picture(&columns, 80), "name23 cp3 work4 since5 why33");
        assert_eq!(picture(&columns, 120), "name31 cp5 workers9 version13 since5 why43");
    }

    /// At 200 columns `wide` took the reason away for the provider's id.
    #[test]
    fn the_reason_has_room_from_sixty_columns_on_and_upstreams_stand_behind_it() {
        for (list, wide) in [
            (List::Over(Listed::Clusters), false),
            (List::Over(Listed::Clusters), true),
            (List::Tree, false),
            (List::Tree, true),
        ] {
            for width in WHY_FROM..250 {
                let placed = Columns::new(list, wide).place(Rect::new(0, 0, width, 20));
                let why = placed.iter().position(|p| p.id == Id::Why).expect("a reason");
                assert!(placed[why].width >= WHY_MIN, "{width}");
                let (before, after) = (&placed[..why], &placed[why + 1..]);
                let is_upstreams = |p: &table::Placed<Id>| matches!(p.id, Id::Counters(_) | Id::Printed(_));
                assert!(!before.iter().any(is_upstreams) && after.iter().all(is_upstreams), "{width}");
            }
        }
    }
}
