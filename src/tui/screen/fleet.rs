//! The fleet: a row per Cluster. Owns its order, filter and cursor.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Context;
use crate::fleet::{
    Column, Counters, Feed, FeedState, Fleet, Item, Kind, Match, Query, RowId, Sort, SourceId, Uid,
};
use crate::status::health::Health;
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, page};
use crate::tui::paint::{Paint, put};
use crate::tui::screen::foot;
use crate::tui::theme::Scope;
use crate::tui::widget::{counters, table};

/// What the screen keeps: ids and positions.
pub struct FleetScreen {
    query: Query,
    cursor: Cursor<(SourceId, Uid)>,
    order: Vec<RowId>,
    widths: Widths,
    /// Fleet revision that `order` was made from; `None` after a change of the query.
    seen: Option<u64>,
}

/// Widest cells of all rows, so that columns stay where they are while one scrolls.
#[derive(Clone, Copy, Debug, Default)]
struct Widths {
    name: usize,
    version: usize,
    digits: usize,
    /// More than one namespace or source: names need their place.
    places: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Name,
    Status,
    ControlPlane,
    Workers,
    Version,
    Phase,
    Age,
    Why,
}

impl Default for FleetScreen {
    fn default() -> Self {
        let sort = Sort { column: Column::Health, reverse: false };
        Self {
            query: Query { matching: Match::Substring, sort, ..Query::default() },
            cursor: Cursor::default(),
            order: Vec::new(),
            widths: Widths::default(),
            seen: None,
        }
    }
}

impl FleetScreen {
    #[must_use]
    pub fn filter(&self) -> &str {
        &self.query.text
    }

    pub fn set_filter(&mut self, text: &str) {
        text.clone_into(&mut self.query.text);
        self.seen = None;
    }

    #[must_use]
    pub fn sort(&self) -> Sort {
        self.query.sort
    }

    pub fn set_sort(&mut self, sort: Sort) {
        self.query.sort = sort;
        self.seen = None;
    }

    /// Shows everything, or only what is not well. Answers which.
    pub fn toggle_faults(&mut self) -> bool {
        let only = self.query.at_least.0 == Health::Ok;
        self.query.at_least.0 = if only { Health::Unknown } else { Health::Ok };
        self.seen = None;
        only
    }

    /// How many clusters are listed, after the filter.
    #[must_use]
    pub fn count(&self) -> usize {
        self.order.len()
    }

    #[must_use]
    pub fn shows_faults_only(&self) -> bool {
        self.query.at_least.0 != Health::Ok
    }

    #[must_use]
    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        let (source, uid) = self.cursor.key?;
        fleet.find(source, uid).map(Item::Row)
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        let fleet = context.fleet;
        if self.seen != Some(fleet.revision()) {
            self.order = fleet.select(Kind::Cluster, None, &self.query);
            self.widths = Widths::of(fleet);
            self.seen = Some(fleet.revision());
        }
        let Self { cursor, order, .. } = self;
        let find = |key| order.iter().position(|id| key_of(fleet, *id) == Some(key));
        cursor.settle(order.len(), page(context.area), find, |at| key_of(fleet, *order.get(at)?));
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Self { cursor, order, .. } = self;
        cursor.step(motion, order.len(), page(context.area), |at| key_of(context.fleet, *order.get(at)?));
    }

    pub fn click(&mut self, context: &Context<'_>, line: usize) {
        let Self { cursor, order, .. } = self;
        let at = cursor.offset + line;
        if at < order.len() {
            cursor.go(at, order.len(), page(context.area), |at| key_of(context.fleet, *order.get(at)?));
        }
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let placed = self.columns(layout.body);
        label_counters(&placed, layout.rule.y, paint, buffer);
        let sorted = cell_of(self.query.sort.column).map(|cell| (cell, self.query.sort.reverse));
        table::headings(&placed, sorted, layout.body.y, paint, buffer);
        if self.order.is_empty() {
            self.view_empty(fleet, paint, layout.body, buffer);
        }
        let rows = layout.body.y + 1..layout.body.bottom();
        for (y, (at, id)) in rows.zip(self.order.iter().enumerate().skip(self.cursor.offset)) {
            self.view_row(fleet, *id, &placed, y, paint, buffer);
            if at == self.cursor.index {
                table::select(layout.body, y, paint, buffer);
            }
        }
        foot::view(self.selected(fleet), fleet, paint, layout, buffer);
        let page = usize::from(layout.body.height - 1);
        foot::position(self.cursor.offset, page, self.order.len(), paint, layout, buffer);
    }

    fn columns(&self, body: Rect) -> Vec<table::Placed<Cell>> {
        let numbers = counters::width(self.widths.digits);
        let wide = body.width >= 104;
        let column = |id, title: &str, min, natural, rank| table::Column {
            id,
            title: title.to_owned(),
            align: table::Align::Left,
            min,
            natural,
            rank,
            grows: id == Cell::Why,
        };
        let name = u16::try_from(self.widths.name.clamp(7, 40)).unwrap_or(40);
        let version = u16::try_from(self.widths.version.clamp(7, 17)).unwrap_or(17);
        let letters = counters::heading(self.widths.digits);
        let mut columns = vec![
            column(Cell::Name, "CLUSTER", 12, name, 0),
            column(Cell::Status, "STATUS", 13, 13, 1),
            column(Cell::ControlPlane, &letters, numbers, numbers, 2),
            column(Cell::Workers, &letters, numbers, numbers, 3),
            column(Cell::Version, "VERSION", 7, version, 4),
            column(Cell::Phase, "PHASE", 12, 12, 7),
            table::Column { align: table::Align::Right, ..column(Cell::Age, "AGE", 4, 4, 5) },
            column(Cell::Why, "WHY", 24, 24, 6),
        ];
        if !wide {
            columns.retain(|c| c.id != Cell::Phase);
        }
        table::place(&columns, body.x + 2, body.width.saturating_sub(3))
    }

    fn view_row(
        &self,
        fleet: &Fleet,
        id: RowId,
        placed: &[table::Placed<Cell>],
        y: u16,
        paint: &Paint<'_>,
        buffer: &mut Buffer,
    ) {
        let (Some(row), Some(line)) = (fleet.row(id), fleet.line(Item::Row(id))) else { return };
        let digits = self.widths.digits;
        let numbers = |c: Option<Counters>| counters::cell(&c.unwrap_or_default(), digits, paint);
        for column in placed {
            let room = usize::from(column.width);
            let cell = match column.id {
                Cell::Name => self.name(fleet, row, room, paint),
                Cell::Status => Line::from(paint.verdict(line.health)),
                Cell::ControlPlane => numbers(line.control_plane),
                Cell::Workers => numbers(line.workers),
                Cell::Version => Line::from(paint.span(Scope::Text, versions(fleet, id, room))),
                Cell::Phase => Line::from(paint.span(Scope::Muted, line.phase.to_owned())),
                Cell::Age => {
                    let age = line.created.map(|at| paint.age(at)).unwrap_or_default();
                    Line::from(paint.span(Scope::Muted, age))
                }
                Cell::Why => {
                    let why = paint.cut(&fleet.what_is_wrong(id), room);
                    Line::from(paint.span(Scope::Text, why))
                }
            };
            table::cell(column, y, &cell, buffer);
        }
    }

    fn name(&self, fleet: &Fleet, row: &crate::fleet::Row, room: usize, paint: &Paint<'_>) -> Line<'static> {
        let place = if self.widths.places { place_of(fleet, row) } else { String::new() };
        let mut spans: Vec<Span<'static>> = Vec::new();
        let wanted = crate::text::width(&place) + crate::text::width(&row.name);
        let place = if wanted <= room { place } else { String::new() };
        let left = room - crate::text::width(&place).min(room);
        spans.push(paint.span(Scope::Muted, place));
        spans.push(paint.span(Scope::Strong, paint.cut_name(&row.name, left)));
        Line::from(spans)
    }

    fn view_empty(&self, fleet: &Fleet, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) {
        let clusters: Vec<&Feed> =
            fleet.feeds().filter(|(key, _)| key.kind.as_ref() == "Cluster").map(|(_, feed)| feed).collect();
        let refusal = clusters.iter().find_map(|feed| match &feed.state {
            FeedState::NoAccess { error } | FeedState::NotServed { error } | FeedState::Lost { error } => {
                Some(error.as_ref())
            }
            FeedState::Connecting | FeedState::Listing | FeedState::Live => None,
        });
        let (scope, text) = match refusal {
            _ if !fleet.clusters().is_empty() => (Scope::Muted, "no cluster matches; esc clears the filter"),
            Some(why) => (Scope::Text, why),
            None if clusters.is_empty() || clusters.iter().any(|feed| !feed.listed) => {
                (Scope::Muted, "waiting for the first list of clusters")
            }
            None => (Scope::Muted, "there are no clusters here"),
        };
        let lines = crate::text::wrap(text, usize::from(body.width.saturating_sub(4)));
        for (y, line) in (body.y + 2..body.bottom()).zip(lines) {
            put(buffer, body.x + 2, y, &Line::from(paint.span(scope, line)), body.width);
        }
    }
}

impl Widths {
    fn of(fleet: &Fleet) -> Self {
        let mut widths = Self { digits: 1, ..Self::default() };
        let mut first = None;
        let rows = || fleet.clusters().iter().filter_map(|id| Some((*id, fleet.row(*id)?)));
        for (_, row) in rows() {
            let place = (row.source, row.namespace.clone());
            widths.places |= first.get_or_insert_with(|| place.clone()) != &place;
        }
        for (id, row) in rows() {
            let place = if widths.places { place_of(fleet, row) } else { String::new() };
            let name = crate::text::width(&place) + crate::text::width(&row.name);
            widths.name = widths.name.max(name);
            widths.version = widths.version.max(versions(fleet, id, usize::MAX).len());
            if let Some(facts) = row.cluster_facts() {
                for counters in [&facts.control_plane, &facts.workers] {
                    widths.digits = widths.digits.max(counters::digits(counters));
                }
            }
        }
        widths
    }
}

fn key_of(fleet: &Fleet, id: RowId) -> Option<(SourceId, Uid)> {
    fleet.row(id).map(|row| (row.source, row.uid))
}

/// `context/namespace/`, as far as it tells rows apart.
fn place_of(fleet: &Fleet, row: &crate::fleet::Row) -> String {
    let several = fleet.sources().count() > 1;
    let source = fleet.sources().find(|(id, _)| several && *id == row.source).map(|(_, info)| &info.name);
    match source {
        Some(name) => format!("{name}/{}/", row.namespace),
        None => format!("{}/", row.namespace),
    }
}

/// One version, or the lowest and the highest while several run.
fn versions(fleet: &Fleet, id: RowId, room: usize) -> String {
    let all = fleet.versions(id);
    match (all.first(), all.last()) {
        (Some(low), Some(high)) if low.version != high.version => {
            let bare = |v: &str| v.trim_start_matches('v').to_owned();
            let both = format!("{}-{}", bare(&low.version), bare(&high.version));
            if both.len() <= room { both } else { high.version.to_string() }
        }
        (Some(one), _) => one.version.to_string(),
        _ => String::new(),
    }
}

/// Writes which counters are whose into the rule above them, flush with the numbers' right end.
fn label_counters(placed: &[table::Placed<Cell>], y: u16, paint: &Paint<'_>, buffer: &mut Buffer) {
    for (id, label) in [(Cell::ControlPlane, " control plane "), (Cell::Workers, " workers ")] {
        if let Some(column) = placed.iter().find(|c| c.id == id) {
            let width = u16::try_from(label.len()).unwrap_or(0);
            let x = (column.x + column.width + 1).saturating_sub(width);
            put(buffer, x, y, &Line::from(paint.span(Scope::Column, label)), width);
        }
    }
}

fn cell_of(column: Column) -> Option<Cell> {
    match column {
        Column::Name | Column::Cluster => Some(Cell::Name),
        Column::Health => Some(Cell::Status),
        Column::Phase => Some(Cell::Phase),
        Column::Version => Some(Cell::Version),
        Column::Age => Some(Cell::Age),
        _ => None,
    }
}
