//! A list over the fleet: a row per Cluster, with which the dashboard begins, or per object of another kind. Owns its order,
//! filter and cursor, and what our own columns say of an object.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::chosen::Chosen;
use super::columns::{Columns, Id, List, Needs, mark_verdict, since, verdict};
use super::list::ObjectList;
use super::order::Order;
use super::parts::{counter, counters_of};
use super::reason::reason;
use super::{Context, foot};
use crate::fleet::Verdict;
use crate::fleet::{
    By, Changes, Feed, FeedKey, FeedState, Fleet, HEALTH_CHECK, Item, Listed, Query, Row, RowId, Sort,
    SourceId, Uid, column_word,
};
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, layout, page};
use crate::tui::paint::{Paint, put};
use crate::tui::theme::Scope;
use crate::tui::widget::{counters, table};
use capi_types::columns::Column;
use capstan_base::text;

/// Where a reason stands that has no column of its own.
const BELOW_NAME: u16 = 5;
/// So many more lines the reason for a fault has where lines are free, and that for progress, whose words change.
const MORE_LINES_MAX: usize = 2;
const MORE_LINES_OF_PROGRESS: usize = 1;
/// From so many lines of the screen on there is room for more than a sentence below the list.
const PANE_BELOW_FROM: u16 = 30;

/// What so many rows need, the first ones, decides on the width of columns.
const MEASURED_MAX: usize = 2_000;

/// What may be typed behind `/` besides words.
pub(super) const FILTER_HINT: &str = "!word  ~regex  version:1.34  l:key=value  Available=False>10m  age<2h";

/// What the screen keeps: ids and positions.
pub struct FleetScreen {
    of: Listed,
    query: Query,
    cursor: Cursor<(SourceId, Uid)>,
    order: Order,
    chosen: Chosen,
    columns: Columns,
    /// More than one namespace or source: names need their place.
    places: bool,
}

impl Default for FleetScreen {
    fn default() -> Self {
        Self::of(Listed::Clusters)
    }
}

impl FleetScreen {
    pub fn of(of: Listed) -> Self {
        let sort = Sort { by: By::Verdict, reverse: false };
        Self {
            of,
            query: Query { sort, ..Query::default() },
            cursor: Cursor::default(),
            order: Order::of(of),
            chosen: Chosen::default(),
            columns: Columns::new(List::Over(of), false),
            places: false,
        }
    }

    /// What its rows are.
    pub fn listed(&self) -> Listed {
        self.of
    }

    pub fn filter(&self) -> &str {
        &self.query.text
    }

    pub fn set_filter(&mut self, text: &str) {
        text.clone_into(&mut self.query.text);
        self.order.ask(&self.query);
    }

    pub fn sort(&self) -> Sort {
        self.query.sort
    }

    pub fn set_sort(&mut self, sort: Sort) {
        self.query.sort = sort;
        self.order.ask(&self.query);
    }

    /// A person changed where clusters belong.
    pub fn resort(&mut self) {
        self.order.ask(&self.query);
    }

    /// What it is a list of, and how many rows it has.
    pub fn title(&self) -> String {
        let (word, shown, all) = (self.of.word(), self.order.len(), self.order.total());
        if shown == all { format!("{word} {all}") } else { format!("{word} {shown} of {all}") }
    }

    pub fn shows_faults_only(&self) -> bool {
        self.query.at_least.0 != Verdict::Ok
    }

    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        let (source, uid) = self.cursor.key?;
        fleet.find(source, uid).map(Item::Row)
    }

    /// The rows of a page on this screen.
    fn page(&self, area: Rect) -> usize {
        layout(area).map_or(1, |parts| page(self.arrange(parts).body))
    }

    pub fn note(&mut self, changes: &Changes) {
        self.order.note(changes, &self.query);
    }

    /// Does a change touch what is on the screen? The header counts verdicts.
    pub fn shows(&self, fleet: &Fleet, changes: &Changes, area: Rect) -> bool {
        let mut on_screen = self.order.iter().skip(self.cursor.offset).take(self.page(area));
        // Both are in the order of ids, as they come from a set.
        let is_touched = |id: &RowId| match self.of {
            Listed::Clusters => changes.lines.binary_search(id).is_ok(),
            _ => fleet.cluster_of(*id).is_none_or(|cluster| changes.clusters.binary_search(&cluster).is_ok()),
        };
        changes.overview || changes.verdicts || self.order.is_due() || on_screen.any(is_touched)
    }

    /// Rows have other places as soon as nobody is at the keys.
    pub fn is_waiting(&self, now_s: u32) -> bool {
        self.order.is_waiting(now_s)
    }

    /// When a row that improved takes its place, seconds since the epoch.
    pub fn kept_until_s(&self) -> Option<u32> {
        self.order.kept_until_s()
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        let fleet = context.fleet;
        let is_other_width = self.columns.is_wide() != context.wide;
        if is_other_width {
            self.columns = Columns::new(List::Over(self.of), context.wide);
        }
        let is_other_order = self.order.refresh(fleet, &self.query, context.is_held);
        if is_other_order {
            let mut places = fleet.clusters().iter().filter_map(|id| fleet.row(*id)).map(place);
            let first = places.next();
            self.places = places.any(|place| Some(place) != first);
        }
        if is_other_order || is_other_width {
            self.columns.fit(self.needs(fleet));
        }
        let page = self.page(context.area);
        let Self { cursor, order, .. } = self;
        let find = |(source, uid)| {
            let id = fleet.find(source, uid)?;
            order.iter().position(|other| *other == id)
        };
        cursor.settle(order.len(), page, find, |at| key_of(fleet, *order.get(at)?));
    }

    /// What the rows need, the ones that are not on the screen included.
    fn needs(&self, fleet: &Fleet) -> Needs {
        let measured = || self.order.iter().take(MEASURED_MAX);
        let widest = |cells: &dyn Fn(&Arc<Row>) -> usize| {
            let widest = measured().filter_map(|id| fleet.row(*id)).map(cells).max();
            u16::try_from(widest.unwrap_or(0)).unwrap_or(u16::MAX)
        };
        let counters = measured().filter_map(|id| fleet.row(*id)?.shown_counters());
        let numbers = counters.flat_map(|c| [c.desired, c.current]).flatten();
        let mut versions = measured().flat_map(|id| fleet.versions(*id));
        let first = versions.next();
        Needs {
            name_cells: widest(&|row| text::width(&self.place(fleet, row)) + text::width(&row.name)),
            cluster_cells: widest(&|row| text::width(&row.cluster)),
            digits: numbers.max().map_or(1, |most| most.to_string().len()),
            versions: versions
                .any(|other| first.as_ref().is_some_and(|first| first.version != other.version)),
        }
    }

    /// What stands before the name of an object.
    fn place(&self, fleet: &Fleet, row: &Row) -> String {
        if self.places { place_of(fleet, row) } else { String::new() }
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let page = self.page(context.area);
        let Self { cursor, order, .. } = self;
        cursor.step(motion, order.len(), page, |at| key_of(context.fleet, *order.get(at)?));
    }

    /// The cursor stays on its row from now on.
    pub fn choose(&mut self) {
        self.cursor.choose();
    }

    pub fn click(&mut self, context: &Context<'_>, line: usize) {
        let Some(parts) = layout(context.area).map(|parts| self.arrange(parts)) else { return };
        let paint = Paint::new(context.theme, context.now);
        let placed = self.columns.place(parts.body);
        let mut below = 0;
        let shown = self.on_screen(context.fleet, &placed, parts.body, &paint);
        let at = shown.iter().position(|shown| {
            // Rows are of different heights: a long reason takes lines of its own.
            below += shown.lines.len();
            line < below
        });
        let Some(at) = at.map(|at| self.cursor.offset + at) else { return };
        let page = page(parts.body);
        let Self { cursor, order, .. } = self;
        cursor.go(at, order.len(), page, |at| key_of(context.fleet, *order.get(at)?));
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        let placed = self.columns.place(body);
        label_counters(&placed, layout.rule.y, paint, buffer);
        table::headings(&placed, self.sorted(), body.y, paint, buffer);
        mark_verdict(self.sorted(), body, body.y, paint, buffer);
        if self.order.is_empty() {
            self.view_empty(fleet, paint, body, buffer);
        }
        let mut y = body.y + 1;
        for (at, shown) in self.on_screen(fleet, &placed, body, paint).iter().enumerate() {
            self.view_row(fleet, shown, &placed, Rect { y, height: 1, ..body }, paint, buffer);
            if self.cursor.offset + at == self.cursor.index {
                table::select(body, y, paint, buffer);
            }
            if let Some(row) = fleet.row(shown.id) {
                self.chosen.view(row, Rect { y, height: 1, ..body }, paint, buffer);
            }
            y += u16::try_from(shown.lines.len()).unwrap_or(1);
        }
        let marked = self.order.iter().skip(self.cursor.offset).take(page(body));
        let marked = marked.filter_map(|id| fleet.row(*id)).any(|row| row.legacy);
        foot::view(self.selected(fleet), marked, None, fleet, paint, layout, buffer);
        foot::position(self.cursor.offset, page(body), self.order.len(), paint, layout, buffer);
    }

    /// The rows on the screen with their reasons. While lines are free, a reason has more of them where it would
    /// be cut.
    fn on_screen(
        &self,
        fleet: &Fleet,
        placed: &[table::Placed<Id>],
        body: Rect,
        paint: &Paint<'_>,
    ) -> Vec<Shown> {
        let why = placed.iter().find(|column| column.id == Id::Why).map(|column| usize::from(column.width));
        let below = usize::from(body.width.saturating_sub(BELOW_NAME + 1));
        let page = page(body);
        let mut free = page.saturating_sub(self.order.len());
        let mut shown = Vec::new();
        for id in self.order.iter().skip(self.cursor.offset).take(page) {
            let reason = reason(fleet, *id, paint);
            let is_fault = fleet.verdict(*id) > Verdict::Progressing;
            // What is in progress has other words every second: with many lines for it the rows below would move often.
            let more = free.min(if is_fault { MORE_LINES_MAX } else { MORE_LINES_OF_PROGRESS });
            let mut lines = match why {
                Some(room) => paint.in_lines(&reason, room, 1 + more),
                None => vec![String::new()],
            };
            if why.is_none() && is_fault && more > 0 {
                lines.push(paint.cut(&reason, below));
            }
            free -= lines.len() - 1;
            shown.push(Shown { id: *id, lines });
        }
        shown
    }

    /// The column that rows are ordered by, and whether the other way round.
    fn sorted(&self) -> Option<(Id, bool)> {
        let id = match self.query.sort.by {
            By::Name => Id::Name,
            By::Cluster => Id::Cluster,
            By::Verdict => Id::Verdict,
            By::Since => Id::Since,
            By::Column(column) => match counter(column) {
                Some((prefix, _)) if self.columns.is_wide() => Id::Counters(prefix),
                Some((prefix, _)) => Id::Have(prefix),
                None => Id::Printed(column.name),
            },
        };
        Some((id, self.query.sort.reverse))
    }

    fn view_row(
        &self,
        fleet: &Fleet,
        shown: &Shown,
        placed: &[table::Placed<Id>],
        line: Rect,
        paint: &Paint<'_>,
        buffer: &mut Buffer,
    ) {
        let id = shown.id;
        let Some(row) = fleet.row(id) else { return };
        verdict(fleet.verdict(id), row.legacy, line, line.y, paint, buffer);
        let scope = if fleet.verdict(id) == Verdict::Ok { Scope::Muted } else { Scope::Text };
        for column in placed {
            let room = usize::from(column.width);
            let cell = match column.id {
                // Stands in front of the row.
                Id::Verdict => continue,
                Id::Name => self.name(fleet, row, room, paint),
                Id::Cluster => Line::from(paint.span(Scope::Muted, paint.cut_name(&row.cluster, room))),
                Id::Node => {
                    let node = row.machine().and_then(|machine| machine.node.as_deref()).unwrap_or_default();
                    Line::from(paint.span(Scope::Muted, paint.cut_name(node, room)))
                }
                Id::Have(prefix) => match replicas(row, prefix) {
                    Some(replicas) => counters::have_want(replicas, room, paint),
                    None => continue,
                },
                Id::Version => Line::from(paint.span(Scope::Text, versions(fleet, id, room))),
                Id::Since => since(fleet.since(id), paint),
                Id::Why => Line::from(paint.span(scope, shown.lines[0].as_str())),
                Id::Replicas => match row.shown_counters() {
                    Some(replicas) => counters::of_owner(replicas, self.columns.digits(), paint),
                    None => continue,
                },
                Id::Counters(_) | Id::Printed(_) => self.columns.cell(column.id, row, room, paint),
            };
            table::cell(column, line.y, &cell, buffer);
        }
        let why = placed.iter().find(|column| column.id == Id::Why).map(|column| column.x);
        let x = why.unwrap_or(line.x + BELOW_NAME);
        for (y, more) in (line.y + 1..).zip(shown.lines.iter().skip(1)) {
            let more = Line::from(paint.span(scope, more.as_str()));
            put(buffer, x, y, &more, line.right().saturating_sub(x));
        }
    }

    fn name(&self, fleet: &Fleet, row: &Row, room: usize, paint: &Paint<'_>) -> Line<'static> {
        let place = self.place(fleet, row);
        let mut spans: Vec<Span<'static>> = Vec::new();
        let wanted = text::width(&place) + text::width(&row.name);
        let place = if wanted <= room { place } else { String::new() };
        let left = room - text::width(&place).min(room);
        spans.push(paint.span(Scope::Muted, place));
        spans.push(paint.span(Scope::Strong, paint.cut_name(&row.name, left)));
        Line::from(spans)
    }

    fn view_empty(&self, fleet: &Fleet, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) {
        let feeds: Vec<&Feed> =
            fleet.feeds().filter(|(key, _)| is_feed_of(key, self.of)).map(|(_, feed)| feed).collect();
        let refusal = feeds.iter().find_map(|feed| match &feed.state {
            FeedState::NoAccess { error }
            | FeedState::NotServed { error }
            | FeedState::Silent { error }
            | FeedState::Lost { error } => Some(error.to_string()),
            FeedState::Connecting | FeedState::Listing | FeedState::Live | FeedState::Recorded => None,
        });
        let (one, all) = (self.of.singular(), self.of.word());
        let (scope, text) = match (self.query.trouble(), refusal) {
            (Some(trouble), _) => (Scope::Text, trouble.why),
            _ if self.order.total() > 0 => (Scope::Muted, format!("no {one} matches; esc clears the filter")),
            (_, Some(why)) => (Scope::Text, why),
            _ if feeds.is_empty() || feeds.iter().any(|feed| !feed.listed) => {
                (Scope::Muted, format!("waiting for the first list of {all}"))
            }
            _ => (Scope::Muted, format!("there are no {all} here")),
        };
        let lines = text::wrap(&text, usize::from(body.width.saturating_sub(4)));
        for (y, line) in (body.y + 2..body.bottom()).zip(lines) {
            put(buffer, body.x + 2, y, &Line::from(paint.span(scope, line)), body.width);
        }
    }
}

impl ObjectList for FleetScreen {
    fn toggle_faults(&mut self) {
        let only = self.query.at_least.0 == Verdict::Ok;
        self.query.at_least.0 = if only { Verdict::Unknown } else { Verdict::Ok };
        self.order.ask(&self.query);
    }

    fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    fn chosen_mut(&mut self) -> &mut Chosen {
        &mut self.chosen
    }

    fn listed(&self) -> Vec<RowId> {
        self.order.iter().copied().collect()
    }

    fn arrange(&self, layout: Layout) -> Layout {
        if self.columns.is_wide() {
            return layout;
        }
        let with_pane = layout.with_pane();
        let is_high = layout.footer.bottom() - layout.header.y >= PANE_BELOW_FROM;
        if with_pane == layout && is_high { layout.with_high_foot(self.order.len()) } else { with_pane }
    }

    fn shows_wide(&self, body: Rect) -> bool {
        self.columns.shows_wide(body)
    }

    fn go_to_fault(&mut self, context: &Context<'_>, forward: bool) -> bool {
        let fleet = context.fleet;
        let page = self.page(context.area);
        let Self { cursor, order, .. } = self;
        let (here, len) = (cursor.index, order.len());
        let nth = |step: usize| if forward { (here + step) % len } else { (here + len - step) % len };
        // A fault that a person has acknowledged or shelved is passed over.
        let is_fault =
            |at: &usize| fleet.verdict(order[*at]) > Verdict::Progressing && fleet.mark(order[*at]).is_none();
        let Some(at) = (1..=len).map(nth).find(is_fault) else { return false };
        cursor.go(at, len, page, |at| key_of(fleet, *order.get(at)?));
        true
    }
}

/// Words for what a list can be ordered by, in the order in which `sort-next` goes through them: ours, then upstream's
/// columns.
pub fn sorts(of: Listed, wide: bool) -> impl Iterator<Item = (String, By)> {
    let ours = [("status", By::Verdict), ("name", By::Name), ("cluster", By::Cluster), ("since", By::Since)];
    let ours = ours.into_iter().filter(move |(_, by)| of != Listed::Clusters || *by != By::Cluster);
    let is_offered = move |column: &&Column| (wide || !column.wide) && column.name != "Cluster";
    let columns = of.kind().columns().iter().filter(is_offered);
    ours.map(|(word, by)| (word.to_owned(), by))
        .chain(columns.map(|column| (column_word(column), By::Column(column))))
}

/// Does what a list shows come from this feed? Control planes have a kind for each provider.
fn is_feed_of(key: &FeedKey, of: Listed) -> bool {
    let kind = key.kind.as_ref();
    match of {
        Listed::Clusters => kind == "Cluster",
        Listed::ControlPlanes => kind.ends_with("ControlPlane"),
        Listed::MachineDeployments => kind == "MachineDeployment",
        Listed::MachineSets => kind == "MachineSet",
        Listed::MachinePools => kind == "MachinePool",
        Listed::Machines => kind == "Machine",
        Listed::MachineHealthChecks => kind == HEALTH_CHECK,
    }
}

/// The replicas of an object, or of a part of a Cluster.
fn replicas(row: &Row, prefix: &str) -> Option<crate::fleet::Counters> {
    match row.cluster_facts() {
        Some(facts) if prefix == "CP" => Some(facts.control_plane),
        Some(facts) => Some(facts.workers),
        None => row.shown_counters(),
    }
}

/// One row on the screen.
struct Shown {
    id: RowId,
    /// The reason: in the row as far as there is a column for it, then on lines of their own. At least one.
    lines: Vec<String>,
}

fn key_of(fleet: &Fleet, id: RowId) -> Option<(SourceId, Uid)> {
    fleet.row(id).map(|row| (row.source, row.uid))
}

fn place(row: &Arc<Row>) -> (SourceId, Arc<str>) {
    (row.source, row.namespace.clone())
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

/// Writes which of upstream's counters are whose into the rule above them: upstream's word, or more of it where there is room.
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
