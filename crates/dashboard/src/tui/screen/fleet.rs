//! A list over the fleet: a row per Cluster, with which the dashboard begins, or per object of another kind. Owns its order,
//! filter and cursor, and what our own columns say of an object.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::chosen::Chosen;
use super::chosen_columns::ChosenColumns;
use super::columns::{Columns, Id, List, Needs, mark_verdict, since, verdict};
use super::condition_cells::{in_matrix, message_of, status};
use super::empty_list::why_empty;
use super::list::ObjectList;
use super::order::Order;
use super::parts::{counter, counters_of};
use super::reason::reason;
use super::row_cells::{place_of, replicas, versions};
use super::{Context, foot};
use crate::fleet::Verdict;
use crate::fleet::{
    By, Changes, Condition, Fleet, Item, Listed, Query, Row, RowId, Sort, SourceId, Uid, column_word,
};
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, layout, page};
use crate::tui::paint::{Paint, put};
use crate::tui::theme::Scope;
use crate::tui::widget::{counters, table};
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

/// What a list shows of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shows {
    /// How they are, and why.
    State,
    /// How one condition of each stands.
    Condition(Arc<str>),
    /// A column for each condition.
    Matrix,
}

/// What the screen keeps: ids and positions.
pub struct FleetScreen {
    of: Listed,
    shows: Shows,
    query: Query,
    cursor: Cursor<(SourceId, Uid)>,
    order: Order,
    chosen: Chosen,
    columns: Columns,
    /// Columns of a person's choice.
    wanted: Option<Vec<String>>,
    /// More than one namespace or source: names need their place.
    places: bool,
    /// How many rows have the condition that the list is about as true, false and unknown.
    counts: Option<[usize; 3]>,
}

impl Default for FleetScreen {
    fn default() -> Self {
        Self::of(Listed::Clusters)
    }
}

impl FleetScreen {
    pub fn of(of: Listed) -> Self {
        Self::showing(of, Shows::State)
    }

    /// How one condition stands, what is not as it should be first.
    pub fn of_condition(of: Listed, type_: Arc<str>) -> Self {
        let mut screen = Self::showing(of, Shows::Condition(type_.clone()));
        screen.query.condition = Some(type_);
        screen.query.sort.by = By::Condition;
        screen
    }

    /// All conditions, a column for each.
    pub fn of_conditions(of: Listed) -> Self {
        Self::showing(of, Shows::Matrix)
    }

    fn showing(of: Listed, shows: Shows) -> Self {
        let sort = Sort { by: By::Verdict, reverse: false };
        let list = list_of(of, &shows);
        Self {
            of,
            shows,
            counts: None,
            query: Query { sort, ..Query::default() },
            cursor: Cursor::default(),
            order: Order::of(of),
            chosen: Chosen::default(),
            columns: Columns::new(list, false),
            wanted: None,
            places: false,
        }
    }

    /// The columns that may be chosen, as they are typed.
    pub fn column_names(&self) -> Vec<String> {
        self.columns.names()
    }

    /// Shows these columns beside the names, as far as they are named. Without any, those that there is room for.
    ///
    /// # Errors
    /// A column that there is not, in a sentence.
    pub fn choose_columns(&mut self, columns: &ChosenColumns) -> Result<(), String> {
        columns.check(&self.column_names())?;
        let names = columns.names().map(str::to_owned);
        self.wanted = match (columns.adds, self.wanted.take()) {
            _ if columns.wanted.is_empty() => None,
            (true, Some(shown)) => Some(shown.into_iter().chain(names).collect()),
            (true, None) => Some(self.columns.usual().into_iter().chain(names).collect()),
            (false, _) => Some(names.collect()),
        };
        Ok(())
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

    /// Words for what the list can be ordered by, in the order in which `sort-next` goes through them: ours, then upstream's
    /// columns.
    pub fn sorts(&self, wide: bool) -> Vec<(String, By)> {
        let ours = [
            ("condition", By::Condition),
            ("status", By::Verdict),
            ("name", By::Name),
            ("cluster", By::Cluster),
            ("since", By::Since),
        ];
        let is_offered = |by: By| match by {
            By::Condition => self.query.condition.is_some(),
            By::Cluster => self.of != Listed::Clusters,
            By::Name | By::Verdict | By::Since | By::Column(_) => true,
        };
        let ours = ours.into_iter().filter(|(_, by)| is_offered(*by)).map(|(word, by)| (word.to_owned(), by));
        let columns = self.of.kind().columns().iter();
        let columns = columns.filter(|column| (wide || !column.wide) && column.name != "Cluster");
        ours.chain(columns.map(|column| (column_word(column), By::Column(column)))).collect()
    }

    pub fn set_sort(&mut self, sort: Sort) {
        self.query.sort = sort;
        self.order.ask(&self.query);
    }

    /// A person changed where clusters belong.
    pub fn resort(&mut self) {
        self.order.ask(&self.query);
    }

    /// A row opens the tree of its cluster: in the list with which the dashboard begins.
    pub fn opens_trees(&self) -> bool {
        self.of == Listed::Clusters && self.shows == Shows::State
    }

    /// It shows the state of these objects, and not their conditions.
    pub fn is_list_of(&self, listed: Listed) -> bool {
        self.of == listed && self.shows == Shows::State
    }

    /// What it is a list of, and how many rows it has.
    pub fn title(&self) -> String {
        let (word, shown, all) = (self.of.word(), self.order.len(), self.order.total());
        let rows = if shown == all { format!("{word} {all}") } else { format!("{word} {shown} of {all}") };
        match (&self.shows, self.counts) {
            (Shows::State, _) => rows,
            (Shows::Matrix, _) => format!("conditions of {rows}"),
            (Shows::Condition(type_), None) => format!("{type_} of {rows}"),
            (Shows::Condition(type_), Some([is_true, is_false, unknown])) => {
                let counts = [(is_false, "False"), (unknown, "Unknown"), (is_true, "True")];
                let counts = counts.into_iter().filter(|(count, _)| *count > 0);
                let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
                format!("{type_} of {rows}: {}", counts.join(", "))
            }
        }
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
        self.columns.note(changes);
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
        let is_other_width =
            self.columns.is_wide() != context.wide || self.columns.chosen() != self.wanted.as_deref();
        if is_other_width {
            let list = list_of(self.of, &self.shows);
            self.columns = Columns::choosing(list, context.wide, self.wanted.clone());
        }
        if self.query.namespace.as_ref() != context.namespace {
            self.query.namespace = context.namespace.cloned();
            self.order.ask(&self.query);
        }
        let is_other_order = self.order.refresh(fleet, &self.query, context.is_held);
        if is_other_order {
            let mut places = fleet.clusters().iter().filter_map(|id| fleet.row(*id)).map(place);
            let first = places.next();
            self.places = places.any(|place| Some(place) != first);
        }
        if is_other_order || is_other_width {
            self.columns.fit(self.needs(fleet));
            self.look_at_conditions(fleet);
        }
        let page = self.page(context.area);
        let Self { cursor, order, .. } = self;
        let find = |(source, uid)| {
            let id = fleet.find(source, uid)?;
            order.iter().position(|other| *other == id)
        };
        cursor.settle(order.len(), page, find, |at| key_of(fleet, *order.get(at)?));
    }

    /// Which conditions there are, or how many rows have the one that the list is about.
    fn look_at_conditions(&mut self, fleet: &Fleet) {
        let rows = || self.order.iter().filter_map(|id| fleet.row(*id)).map(Arc::as_ref);
        match &self.shows {
            Shows::State => {}
            Shows::Matrix => self.columns.fit_types(rows().take(MEASURED_MAX)),
            Shows::Condition(type_) => {
                let mut counts = [0; 3];
                rows().filter_map(|row| row.condition_of(type_)).for_each(|c| counts[c.status as usize] += 1);
                self.counts = Some(counts);
            }
        }
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
            let reason = self.reason(fleet, *id, paint);
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

    fn reason(&self, fleet: &Fleet, id: RowId, paint: &Paint<'_>) -> String {
        match (&self.shows, fleet.row(id)) {
            (Shows::Condition(type_), Some(row)) => {
                row.condition_of(type_).map(message_of).unwrap_or_default()
            }
            (Shows::State | Shows::Matrix | Shows::Condition(_), _) => reason(fleet, id, paint),
        }
    }

    /// The column that rows are ordered by, and whether the other way round.
    fn sorted(&self) -> Option<(Id, bool)> {
        let id = match self.query.sort.by {
            By::Name => Id::Name,
            By::Cluster => Id::Cluster,
            By::Verdict => Id::Verdict,
            By::Since => Id::Since,
            By::Condition => Id::Status,
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
                Id::Status => match self.condition(row) {
                    Some(condition) => status(condition, paint),
                    None => Line::from(paint.span(Scope::Muted, paint.glyphs().none)),
                },
                Id::Condition(at) => {
                    let condition = self.columns.type_at(at).and_then(|type_| row.condition_of(type_));
                    in_matrix(condition, room, paint)
                }
                Id::Have(prefix) => match replicas(row, prefix) {
                    Some(replicas) => counters::have_want(replicas, room, paint),
                    None => continue,
                },
                Id::Version => Line::from(paint.span(Scope::Text, versions(fleet, id, room))),
                Id::Since => match &self.shows {
                    Shows::Condition(_) => since(self.condition(row).and_then(Condition::since), paint),
                    Shows::State | Shows::Matrix => since(fleet.since(id), paint),
                },
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

    /// The condition that the list is about.
    fn condition<'a>(&self, row: &'a Row) -> Option<&'a Condition> {
        if let Shows::Condition(type_) = &self.shows { row.condition_of(type_) } else { None }
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
        let (scope, words) = why_empty(fleet, self.of, &self.query, self.order.total());
        let lines = text::wrap(&words, usize::from(body.width.saturating_sub(4)));
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
        // Columns of conditions have the width.
        let with_pane = if self.shows == Shows::Matrix { layout } else { layout.with_pane() };
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

fn list_of(of: Listed, shows: &Shows) -> List {
    match shows {
        Shows::State => List::Over(of),
        Shows::Condition(_) => List::Condition(of),
        Shows::Matrix => List::Matrix(of),
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
