//! The fleet: a row per Cluster. Owns its order, filter and cursor, and what our own columns say of a Cluster.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::columns::{Columns, Id, Names, verdict};
use super::parts::{counter, counters_of};
use super::{Context, foot};
use crate::api::columns::Column;
use crate::fleet::{By, Feed, FeedState, Fleet, Item, Kind, Match, Query, Row, RowId, Sort, SourceId, Uid};
use crate::status::verdict::Verdict;
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, page};
use crate::tui::paint::{Paint, put};
use crate::tui::theme::Scope;
use crate::tui::widget::table;

const NAMES: Names = Names { title: "NAME", width_min: 12 };
const OWN: &[Id] = &[Id::Versions, Id::Why];

/// What the screen keeps: ids and positions.
pub struct FleetScreen {
    query: Query,
    cursor: Cursor<(SourceId, Uid)>,
    order: Vec<RowId>,
    columns: Columns,
    /// More than one namespace or source: names need their place.
    places: bool,
    /// Fleet revision that `order` was made from; `None` after a change of the query.
    seen: Option<u64>,
}

impl Default for FleetScreen {
    fn default() -> Self {
        let sort = Sort { by: By::Verdict, reverse: false };
        Self {
            query: Query { matching: Match::Substring, sort, ..Query::default() },
            cursor: Cursor::default(),
            order: Vec::new(),
            columns: columns(false),
            places: false,
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
        let only = self.query.at_least.0 == Verdict::Ok;
        self.query.at_least.0 = if only { Verdict::Unknown } else { Verdict::Ok };
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
        self.query.at_least.0 != Verdict::Ok
    }

    #[must_use]
    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        let (source, uid) = self.cursor.key?;
        fleet.find(source, uid).map(Item::Row)
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        let fleet = context.fleet;
        if self.seen != Some(fleet.revision()) || self.columns.is_wide() != context.wide {
            self.order = fleet.select(Kind::Cluster, None, &self.query);
            self.measure(fleet, context.wide);
            self.seen = Some(fleet.revision());
        }
        let Self { cursor, order, .. } = self;
        let find = |key| order.iter().position(|id| key_of(fleet, *id) == Some(key));
        cursor.settle(order.len(), page(context.area), find, |at| key_of(fleet, *order.get(at)?));
    }

    /// Of all clusters, whatever the filter.
    fn measure(&mut self, fleet: &Fleet, wide: bool) {
        self.columns = columns(wide);
        let rows = || fleet.clusters().iter().filter_map(|id| Some((*id, fleet.row(*id)?)));
        let place = |row: &Row| (row.source, row.namespace.clone());
        let first = rows().next().map(|(_, row)| place(row));
        self.places = rows().any(|(_, row)| Some(place(row)) != first);
        for (id, row) in rows() {
            let place = if self.places { place_of(fleet, row) } else { String::new() };
            self.columns.measure_name(crate::text::width(&place) + crate::text::width(&row.name));
            self.columns.measure_versions(versions(fleet, id, usize::MAX).len());
            self.columns.measure(row);
        }
    }

    /// Has any wide column a place?
    #[must_use]
    pub fn shows_wide(&self, body: Rect) -> bool {
        self.columns.shows_wide(body)
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Self { cursor, order, .. } = self;
        cursor.step(motion, order.len(), page(context.area), |at| key_of(context.fleet, *order.get(at)?));
    }

    /// The cursor stays on its row from now on.
    pub fn choose(&mut self) {
        self.cursor.choose();
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
        let placed = self.columns.place(layout.body);
        label_counters(&placed, layout.rule.y, paint, buffer);
        table::headings(&placed, self.sorted(), layout.body.y, paint, buffer);
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
        foot::view(self.selected(fleet), self.columns.has_legacy(), None, fleet, paint, layout, buffer);
        let page = usize::from(layout.body.height - 1);
        foot::position(self.cursor.offset, page, self.order.len(), paint, layout, buffer);
    }

    /// The column that clusters are ordered by, and whether the other way round.
    fn sorted(&self) -> Option<(Id, bool)> {
        let id = match self.query.sort.by {
            By::Name => Id::Name,
            By::Verdict => Id::Verdict,
            By::Column(column) => {
                counter(column).map_or(Id::Printed(column.name), |(prefix, _)| Id::Counters(prefix))
            }
        };
        Some((id, self.query.sort.reverse))
    }

    fn view_row(
        &self,
        fleet: &Fleet,
        id: RowId,
        placed: &[table::Placed<Id>],
        y: u16,
        paint: &Paint<'_>,
        buffer: &mut Buffer,
    ) {
        let Some(row) = fleet.row(id) else { return };
        for column in placed {
            let room = usize::from(column.width);
            let cell = match column.id {
                Id::Name => self.name(fleet, row, room, paint),
                Id::Verdict => verdict(fleet.verdict(id), row.legacy, paint),
                Id::Versions => Line::from(paint.span(Scope::Text, versions(fleet, id, room))),
                Id::Why => Line::from(paint.span(Scope::Text, paint.cut(&fleet.what_is_wrong(id), room))),
                Id::Counters(_) | Id::Printed(_) => self.columns.cell(column.id, row, room, paint),
            };
            table::cell(column, y, &cell, buffer);
        }
    }

    fn name(&self, fleet: &Fleet, row: &Row, room: usize, paint: &Paint<'_>) -> Line<'static> {
        let place = if self.places { place_of(fleet, row) } else { String::new() };
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
            FeedState::NoAccess { error }
            | FeedState::NotServed { error }
            | FeedState::Silent { error }
            | FeedState::Lost { error } => Some(error.as_ref()),
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

/// Words for what clusters can be ordered by, in the order in which `sort-next` goes through them: ours, then upstream's
/// columns.
pub fn sorts(wide: bool) -> impl Iterator<Item = (String, By)> {
    let ours = [("status".to_owned(), By::Verdict), ("name".to_owned(), By::Name)];
    let word = |column: &Column| column.name.to_lowercase().replace(' ', "-");
    let columns = Kind::Cluster.columns().iter().filter(move |column| wide || !column.wide);
    ours.into_iter().chain(columns.map(move |column| (word(column), By::Column(column))))
}

fn columns(wide: bool) -> Columns {
    Columns::new(NAMES, &[Kind::Cluster], OWN, wide)
}

fn key_of(fleet: &Fleet, id: RowId) -> Option<(SourceId, Uid)> {
    fleet.row(id).map(|row| (row.source, row.uid))
}

/// `context/namespace/`, as far as it tells rows apart.
fn place_of(fleet: &Fleet, row: &Row) -> String {
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

/// Writes which counters are whose into the rule above them: upstream's word, or more of it where there is room.
fn label_counters(placed: &[table::Placed<Id>], y: u16, paint: &Paint<'_>, buffer: &mut Buffer) {
    for column in placed {
        let Id::Counters(prefix) = column.id else { continue };
        let five_letters = column.width >= 9;
        let word = if five_letters { counters_of(prefix) } else { prefix };
        let label = format!(" {word} ");
        let width = u16::try_from(label.len()).unwrap_or(0);
        let x = if five_letters { (column.x + column.width + 1).saturating_sub(width) } else { column.x - 1 };
        put(buffer, x, y, &Line::from(paint.span(Scope::Column, label)), width);
    }
}
