//! Objects of any kind that a server has, with the columns that the server prints: read while the list is open. Owns which rows
//! are shown, their order and the cursor; must not read them, and must not know any kind.

use std::cmp::Ordering;
use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::chosen_columns::{ChosenColumns, word_of};
use super::{Context, foot};
use crate::fleet::{Fleet, SourceId, Target, Uid};
use crate::operations::{ObjectQuery, ObjectTable, PathColumn, ROWS_MAX, TableColumn, TableRow};
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, page};
use crate::tui::paint::{Paint, put};
use crate::tui::reads::Reading;
use crate::tui::subject::{ObjectsSubject, Subject, Want};
use crate::tui::theme::Scope;
use crate::tui::widget::table::{self, Align, Placed};
use capstan_base::text::{sanitize_line, width, wrap};
use capstan_base::time::{Timestamp, parse_duration};

/// The rest between two readings.
const REST_MS: u64 = 5_000;
/// The same where objects are read whole.
const REST_OF_WHOLE_MS: u64 = 30_000;
/// A column is not shown with less, nor given more while others want room.
const CELLS_MIN: usize = 6;
const CELLS_MAX: usize = 40;

/// The place of a row's cells, or its namespace in front of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    Namespace,
    Cell(usize),
}

pub struct ObjectsScreen {
    subject: ObjectsSubject,
    table: Option<ObjectTable>,
    /// Why the last reading failed; what was read before stays.
    trouble: Option<String>,
    read_at: Option<Timestamp>,
    /// What is under way is about another namespace.
    version: u64,
    filter: String,
    /// By which column, and whether the other way round; `None`: as the server has them.
    sort: Option<(usize, bool)>,
    /// Places of the rows that are shown, in their order.
    shown: Vec<usize>,
    cursor: Cursor<Uid>,
    wide: bool,
    /// Names of the columns that are shown, in their order; `None`: the usual ones.
    chosen: Option<Vec<String>>,
    /// What the list is called in place of its kind.
    title: Option<String>,
    /// A column by which the first answer is ordered, greatest first.
    order_by: Option<String>,
    /// Other columns are to be read.
    is_due: bool,
}

impl ObjectsScreen {
    /// `named`: the kind, as a person names it.
    pub fn of(source: SourceId, named: &str) -> Self {
        let query = ObjectQuery { named: named.to_owned(), ..ObjectQuery::default() };
        Self {
            subject: ObjectsSubject { source, query },
            title: None,
            order_by: None,
            table: None,
            trouble: None,
            read_at: None,
            version: 0,
            filter: String::new(),
            sort: None,
            shown: Vec::new(),
            cursor: Cursor::default(),
            wide: false,
            chosen: None,
            is_due: false,
        }
    }

    /// The same of another kind where the server does not have that one.
    pub fn or_of(mut self, otherwise: &'static str) -> Self {
        self.subject.query.otherwise = otherwise;
        self
    }

    /// Objects with these labels in one namespace, under a name of their own, with these columns, the greatest in the first of them first.
    pub fn of_labels(
        source: SourceId,
        named: &str,
        (namespace, selector): (&str, String),
        title: String,
        columns: &ChosenColumns,
    ) -> Self {
        let mut screen = Self::of(source, named);
        namespace.clone_into(&mut screen.subject.query.namespace);
        screen.subject.query.selector = selector;
        screen.title = Some(title);
        screen.order_by = columns.own().next().map(|first| word_of(&first.name));
        screen.chosen = Some(columns.words());
        screen.subject.query.own = columns.own().cloned().collect();
        screen
    }

    /// Shows these columns. Without any, those of the server.
    ///
    /// # Errors
    /// A column that there is not, in a sentence.
    pub fn choose_columns(&mut self, columns: &ChosenColumns) -> Result<(), String> {
        if columns.wanted.is_empty() {
            self.chosen = None;
            self.read_other(Vec::new());
            return Ok(());
        }
        if self.table.is_some() {
            columns.check(&self.sorts())?;
        }
        let mut own = if columns.adds { self.subject.query.own.clone() } else { Vec::new() };
        for column in columns.own() {
            own.retain(|known| known.name != column.name);
            own.push(column.clone());
        }
        let added = columns.words().into_iter();
        // Beside the usual ones a column of one's own comes by itself.
        self.chosen = match (columns.adds, self.chosen.take()) {
            (true, None) if columns.names().next().is_none() => None,
            (true, None) => Some(self.sorts().into_iter().chain(added).collect()),
            (true, Some(shown)) => Some(shown.into_iter().chain(added).collect()),
            (false, _) => Some(added.collect()),
        };
        self.read_other(own);
        Ok(())
    }

    fn read_other(&mut self, own: Vec<PathColumn>) {
        if self.subject.query.own != own {
            self.subject.query.own = own;
            self.version += 1;
            (self.is_due, self.sort) = (true, None);
        }
    }

    /// The kind and how many objects of it there are.
    pub fn title(&self) -> String {
        let Some(table) = &self.table else { return self.subject.query.named.clone() };
        let kind = self.title.as_ref().unwrap_or(&table.gvk.plural);
        let (shown, read) = (self.shown.len(), table.rows.len());
        let all = match table.more {
            None => read.to_string(),
            Some(Some(more)) => (read as u64).saturating_add(more).to_string(),
            Some(None) => format!("more than {read}"),
        };
        if shown == read && table.more.is_none() {
            format!("{kind} {all}")
        } else {
            format!("{kind} {shown} of {all}")
        }
    }

    pub fn want(&self) -> Want {
        let is_read = self.read_at.is_some() || self.trouble.is_some();
        let wait_ms = match (is_read && !self.is_due, self.subject.query.own.is_empty()) {
            (false, _) => 0,
            (true, true) => REST_MS,
            (true, false) => REST_OF_WHOLE_MS,
        };
        Want { subject: Subject::Objects(self.subject.clone()), version: self.version, wait_ms }
    }

    /// An answer. One about another kind or namespace is not for this screen.
    pub fn take(&mut self, of: &Subject, reading: &Reading, now: Timestamp) {
        let (Subject::Objects(of), Reading::Objects(read)) = (of, reading) else { return };
        if *of != self.subject {
            return;
        }
        self.is_due = false;
        match read {
            Ok(table) => {
                (self.table, self.trouble, self.read_at) = (Some((**table).clone()), None, Some(now));
            }
            Err(why) => self.trouble = Some(sanitize_line(why)),
        }
        if let Some(place) =
            self.order_by.as_ref().and_then(|by| self.sorts().iter().position(|name| name == by))
        {
            self.order_by = None;
            self.sort = Some((place, true));
        }
        self.choose_rows();
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn set_filter(&mut self, text: &str) {
        text.clone_into(&mut self.filter);
        self.choose_rows();
    }

    /// What the details of the selected object are about.
    pub fn target(&self) -> Option<Target> {
        let table = self.table.as_ref()?;
        let row = table.rows.get(*self.shown.get(self.cursor.index)?)?;
        let (group, kind) = (table.gvk.group.clone(), table.gvk.kind.clone());
        let (namespace, name) = (row.namespace.clone(), row.name.clone());
        Some(Target { source: self.subject.source, group, kind, namespace, name })
    }

    /// The columns by which it can be ordered, as they are typed.
    pub fn sorts(&self) -> Vec<String> {
        self.columns().iter().map(|column| word_of(&column.name)).collect()
    }

    /// By the column at this place of [`Self::sorts`]; the one after the last of them is as the server has it.
    pub fn sort_by(&mut self, at: usize) {
        self.sort = (at < self.columns().len()).then_some((at, false));
        self.choose_rows();
    }

    pub fn sort_next(&mut self) {
        self.sort_by(self.sort.map_or(0, |(at, _)| at + 1));
    }

    pub fn sort_reverse(&mut self) {
        self.sort = self.sort.map(|(at, is_reversed)| (at, !is_reversed));
        self.choose_rows();
    }

    fn columns(&self) -> &[TableColumn] {
        self.table.as_ref().map_or(&[], |table| &table.columns)
    }

    /// Words that all stand in a row, and none of those with `!` before them.
    fn choose_rows(&mut self) {
        let Some(table) = &self.table else { return };
        let words = self.filter.to_lowercase();
        let holds = |text: &str, word: &str| match word.strip_prefix('!') {
            Some(word) => word.is_empty() || !text.contains(word),
            None => text.contains(word),
        };
        let matches = |row: &TableRow| {
            let text = format!("{}/{} {}", row.namespace, row.name, row.cells.join(" ")).to_lowercase();
            words.split_whitespace().all(|word| holds(&text, word))
        };
        self.shown = (0..table.rows.len()).filter(|at| matches(&table.rows[*at])).collect();
        if let Some((column, is_reversed)) = self.sort {
            self.shown.sort_by(|a, b| {
                let cell = |at: usize| table.rows[at].cells.get(column).map_or("", String::as_str);
                let order = compare(cell(*a), cell(*b));
                if is_reversed { order.reverse() } else { order }
            });
        }
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        self.wide = context.wide;
        let namespace = context.namespace.map(Arc::as_ref).unwrap_or_default();
        // What is chosen by labels is in its own.
        if self.subject.query.selector.is_empty() && self.subject.query.namespace != namespace {
            namespace.clone_into(&mut self.subject.query.namespace);
            (self.table, self.read_at, self.trouble) = (None, None, None);
            self.version += 1;
            self.shown.clear();
        }
        let page = page_of(context.area);
        let Self { cursor, shown, table, .. } = self;
        let key_at = |at: usize| key(table.as_ref()?.rows.get(*shown.get(at)?)?);
        let find = |wanted| (0..shown.len()).find(|at| key_at(*at) == Some(wanted));
        cursor.settle(shown.len(), page, find, key_at);
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Self { cursor, shown, table, .. } = self;
        let key_at = |at: usize| key(table.as_ref()?.rows.get(*shown.get(at)?)?);
        cursor.step(motion, shown.len(), page_of(context.area), key_at);
    }

    pub fn click(&mut self, context: &Context<'_>, line: usize) {
        let Self { cursor, shown, table, .. } = self;
        let key_at = |at: usize| key(table.as_ref()?.rows.get(*shown.get(at)?)?);
        cursor.click(line, shown.len(), page_of(context.area), key_at);
    }

    /// The cursor stays on its row from now on.
    pub fn choose(&mut self) {
        self.cursor.choose();
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        if self.shown.is_empty() {
            self.view_empty(paint, body, buffer);
        } else {
            self.view_rows(paint, body, buffer);
        }
        foot::view(None, false, None, fleet, paint, layout, buffer);
        self.view_foot(paint, layout, buffer);
        foot::position(self.cursor.offset, page(body), self.shown.len(), paint, layout, buffer);
    }

    fn view_empty(&self, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) {
        let words = match (&self.table, &self.trouble) {
            (Some(table), _) if !table.rows.is_empty() => {
                "no object matches; esc clears the filter".to_owned()
            }
            (_, Some(why)) => why.clone(),
            (Some(table), None) if self.subject.query.namespace.is_empty() => {
                format!("there are no {} here", table.gvk.plural)
            }
            (Some(table), None) => format!(
                "there are no {} in the namespace {}; `:ns all` shows all",
                table.gvk.plural, self.subject.query.namespace
            ),
            (None, None) => format!("{} are being read", self.subject.query.named),
        };
        let scope = if self.trouble.is_some() { Scope::Text } else { Scope::Muted };
        let lines = wrap(&words, usize::from(body.width.saturating_sub(4)));
        for (y, line) in (body.y + 1..body.bottom()).zip(lines) {
            put(buffer, body.x + 2, y, &Line::from(paint.span(scope, line)), body.width);
        }
    }

    fn view_rows(&self, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) {
        let Some(table) = &self.table else { return };
        let placed = table::place(&self.layout_columns(table), body.x + 2, body.width.saturating_sub(3));
        let sorted = self.sort.map(|(at, is_reversed)| (Id::Cell(at), is_reversed));
        table::headings(&placed, sorted, body.y, paint, buffer);
        let rows = self.shown.iter().enumerate().skip(self.cursor.offset);
        for (y, (at, place)) in (body.y + 1..body.bottom()).zip(rows) {
            for column in &placed {
                table::cell(column, y, &Line::from(cell(&table.rows[*place], column, paint)), buffer);
            }
            if at == self.cursor.index {
                table::select(body, y, paint, buffer);
            }
        }
    }

    /// Each as wide as its widest cell, as far as there is room; the server's first columns have theirs first.
    fn layout_columns(&self, table: &ObjectTable) -> Vec<table::Column<Id>> {
        let rows = || self.shown.iter().map(|at| &table.rows[*at]);
        let column = |id: Id, title: &str, cells: usize, rank: usize| {
            let natural = cells.max(width(title)).clamp(1, CELLS_MAX);
            table::Column {
                id,
                title: title.to_uppercase(),
                align: Align::Left,
                min: u16::try_from(natural.min(CELLS_MIN)).unwrap_or(u16::MAX),
                natural: u16::try_from(natural).unwrap_or(u16::MAX),
                late: false,
                rank,
                grows: false,
            }
        };
        let mut namespaces = rows().map(|row| row.namespace.as_str());
        let first = namespaces.next();
        let has_several = namespaces.any(|other| Some(other) != first);
        let cells = rows().map(|row| width(&row.namespace)).max().unwrap_or(0);
        let namespace = has_several.then(|| column(Id::Namespace, "namespace", cells, 1));
        let columns = self.shown_columns(table).into_iter().enumerate().map(|(rank, (at, shown))| {
            let cells = rows().filter_map(|row| row.cells.get(at)).map(|cell| width(cell)).max();
            column(Id::Cell(at), &shown.name, cells.unwrap_or(0), if rank == 0 { 0 } else { rank + 1 })
        });
        namespace.into_iter().chain(columns).collect()
    }

    /// The columns that are wanted, in their order, each with the place of its cells. The first one says what a row is, and is always there.
    fn shown_columns<'a>(&self, table: &'a ObjectTable) -> Vec<(usize, &'a TableColumn)> {
        let all = || table.columns.iter().enumerate();
        let Some(chosen) = &self.chosen else {
            return all().filter(|(_, column)| self.wide || !column.is_wide).collect();
        };
        let mut shown: Vec<_> = all().take(1).collect();
        for name in chosen {
            let wanted = all().find(|(_, column)| word_of(&column.name) == *name);
            shown.extend(wanted.filter(|(at, _)| !shown.iter().any(|(known, _)| known == at)));
        }
        shown
    }

    /// What is not on the list, and how old it is.
    fn view_foot(&self, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        let age = self.read_at.map(|at| match self.trouble {
            Some(_) => paint.span(Scope::Stale, format!("read {} ago, not since", paint.age(at))),
            None => paint.span(Scope::Muted, format!("read {} ago", paint.age(at))),
        });
        let is_cut = self.table.as_ref().is_some_and(|table| table.more.is_some());
        let cut = is_cut.then(|| {
            let words = format!("the first {ROWS_MAX} are shown; `:ns NAME` reads one namespace");
            paint.span(Scope::Text, format!("  {words}"))
        });
        let spans: Vec<Span<'static>> = age.into_iter().chain(cut).collect();
        let lines = [Line::from(spans), Line::from(paint.span(Scope::Text, self.not_since()))];
        for (y, line) in (layout.foot.y..layout.foot.bottom()).zip(lines) {
            put(buffer, layout.foot.x + 2, y, &line, layout.foot.width.saturating_sub(2));
        }
    }

    /// Why the rows are not read again; empty where no rows are, which show it themselves.
    fn not_since(&self) -> String {
        self.trouble.clone().filter(|_| !self.shown.is_empty()).unwrap_or_default()
    }
}

fn page_of(area: Rect) -> usize {
    crate::tui::layout::layout(area).map_or(1, |parts| page(parts.body))
}

fn key(row: &TableRow) -> Option<Uid> {
    // Some tables have no uid; the place says as much.
    Some(if row.uid.is_empty() {
        Uid::parse(&format!("{}/{}", row.namespace, row.name))
    } else {
        Uid::parse(&row.uid)
    })
}

fn cell(row: &TableRow, column: &Placed<Id>, paint: &Paint<'_>) -> Span<'static> {
    let room = usize::from(column.width);
    match column.id {
        Id::Namespace => paint.span(Scope::Muted, paint.cut_name(&row.namespace, room)),
        Id::Cell(at) => {
            let text = row.cells.get(at).map_or("", String::as_str);
            let scope = if at == 0 { Scope::Strong } else { Scope::Text };
            // Names differ in their ends; sentences are read from the start.
            let text = if text.contains(' ') { paint.cut(text, room) } else { paint.cut_name(text, room) };
            paint.span(scope, text)
        }
    }
}

/// Numbers and times by their size, everything else as text.
fn compare(a: &str, b: &str) -> Ordering {
    let number = |text: &str| text.parse::<f64>().ok();
    match (number(a), number(b), parse_duration(a), parse_duration(b)) {
        (Some(a), Some(b), ..) => a.total_cmp(&b),
        (_, _, Some(a), Some(b)) => a.cmp(&b),
        _ => a.cmp(b),
    }
}
