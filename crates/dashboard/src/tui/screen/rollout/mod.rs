//! The rollout of one cluster: how far it is, what acts, what comes next, what holds it, how long it took and will take.
//! Owns the cursor and the last picture; the picture is derived again when the cluster or its plans change. Stays as it
//! was when the cluster is gone.

mod ahead;
mod chart;
mod hold;
mod next;
mod outlook;
mod page;
mod sources;
mod words;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use rustc_hash::FxHashSet;

pub use hold::Hold;
pub use outlook::{Acting, RolloutOutlook, outlook};
pub(super) use page::{acting_words, bar, scheduled_words, took_words, versions};
pub(in crate::tui) use words::happened;
pub(super) use words::{arrival as arrival_words, minute_of_day, time_of_day};

use self::page::{LineKey, PageInput, PageLine, log_line, page};
use super::{Context, foot};
use crate::fleet::{Changes, Fleet, Happened, Item, Kind, Rollout, RowId, SourceId, TimelineEntry, Uid};
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, layout};
use crate::tui::paint::{Paint, put};
use crate::tui::plans::Plans;
use crate::tui::subject::PlannedCluster;
use crate::tui::theme::Scope;
use crate::tui::widget::table;

/// From this width on the log stands beside the rest.
const LOG_PANE_FROM: u16 = 140;
/// Lines of the log.
const LOG_MAX: usize = 100;
/// So long before the first owner began the log begins, seconds.
const LOG_LEAD_S: u32 = 5;
/// The picture of a larger cluster is derived once a second at most.
const OFTEN_MACHINES_MAX: usize = 2_000;

pub struct RolloutScreen {
    cluster: (SourceId, Uid),
    /// For when it is gone.
    title: String,
    rollout: Option<Rollout>,
    log: Vec<TimelineEntry>,
    is_stale: bool,
    cursor: Cursor<LineKey>,
    /// As they were made by the last refresh.
    lines: Vec<PageLine>,
    log_lines: Vec<Line<'static>>,
    next_change_s: Option<i64>,
}

impl RolloutScreen {
    /// The rollout of a Cluster; `None` when the row is none.
    pub fn of(fleet: &Fleet, cluster: RowId) -> Option<Self> {
        let row = fleet.row(cluster).filter(|row| row.kind == Kind::Cluster)?;
        Some(Self {
            cluster: (row.source, row.uid),
            title: format!("{}/{}", row.namespace, row.name),
            rollout: None,
            log: Vec::new(),
            is_stale: true,
            cursor: Cursor::default(),
            lines: Vec::new(),
            log_lines: Vec::new(),
            next_change_s: None,
        })
    }

    pub fn title(&self) -> String {
        format!("{} rollout", self.title)
    }

    fn cluster_id(&self, fleet: &Fleet) -> Option<RowId> {
        fleet.find(self.cluster.0, self.cluster.1)
    }

    /// Whose plans belong to this screen; `None` when nothing rolls nor will, or the cluster is too large to be read unasked.
    pub fn planned(&self, fleet: &Fleet) -> Option<PlannedCluster> {
        self.rollout.as_ref().filter(|rollout| rollout.moving().next().is_some())?;
        PlannedCluster::unless_large(fleet, self.cluster_id(fleet)?)
    }

    pub fn note(&mut self, fleet: &Fleet, changes: &Changes) {
        self.is_stale |= self.cluster_id(fleet).is_none_or(|id| changes.clusters.contains(&id));
    }

    /// The object that the selected line is about.
    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        let id = self.lines.get(self.cursor.index)?.item?;
        fleet.row(id).map(|_| Item::Row(id))
    }

    pub fn choose(&mut self) {
        self.cursor.choose();
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let (page, lines) = (height(context.area), &self.lines);
        self.cursor.step(motion, lines.len(), page, |at| lines.get(at).map(|line| line.key));
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        let paint = Paint::new(context.theme, context.now);
        self.derive(context.fleet, &paint);
        self.draw_lines(context, &paint);
        let Self { cursor, lines, .. } = self;
        let find = |key: LineKey| lines.iter().position(|line| line.key == key);
        cursor.settle(lines.len(), height(context.area), find, |at| lines.get(at).map(|line| line.key));
        self.next_change_s = paint.next_change_s();
    }

    /// Derives the picture again when it is not that of the fleet any more.
    fn derive(&mut self, fleet: &Fleet, paint: &Paint<'_>) {
        let Some(cluster) = self.cluster_id(fleet) else { return };
        let now_s = fleet.now_s();
        let turns = self.rollout.as_ref().and_then(Rollout::next_turn_s).is_some_and(|at_s| at_s <= now_s);
        if !self.is_stale && !turns {
            return;
        }
        let is_large = fleet.members(cluster, Kind::Machine).len() > OFTEN_MACHINES_MAX;
        if is_large && self.rollout.as_ref().is_some_and(|rollout| rollout.at_s == now_s && now_s != 0) {
            // It stays stale, so that the frame of the next second derives it.
            return paint.changes_in(1);
        }
        self.rollout = fleet.rollout(cluster);
        self.log = self.rollout.as_ref().map(|rollout| log_of(fleet, rollout)).unwrap_or_default();
        self.is_stale = false;
    }

    fn draw_lines(&mut self, context: &Context<'_>, paint: &Paint<'_>) {
        if self.cluster_id(context.fleet).is_none() {
            return self.freeze(paint);
        }
        let (Some(rollout), Some(parts)) = (&self.rollout, layout(context.area)) else {
            self.lines.clear();
            return;
        };
        if let Some(turn_s) = rollout.next_turn_s() {
            paint.changes_in((i64::from(turn_s) - paint.now.timestamp()).max(1));
        }
        let (left, right) = columns(parts.body);
        let outlook = outlook(context.fleet, rollout, context.plans);
        let input = PageInput {
            fleet: context.fleet,
            plans: context.plans,
            rollout,
            outlook: &outlook,
            log: &self.log,
            keymap: context.keymap,
            is_read_only: context.is_read_only,
            has_log_pane: right.is_some(),
        };
        self.lines =
            page(input, paint, (usize::from(left.width.saturating_sub(3)), usize::from(left.height)));
        let name = context.fleet.row(rollout.cluster).map(|row| row.name.to_string()).unwrap_or_default();
        let log = self.log.iter().filter(|_| right.is_some());
        self.log_lines = log.map(|entry| log_line(entry, &name, paint)).collect();
    }

    /// The cluster is gone: what was seen last stays.
    fn freeze(&mut self, paint: &Paint<'_>) {
        if let Some(first) = self.lines.first_mut() {
            let words = "the cluster is gone; this is what was seen last";
            first.line = Line::from(paint.span(Scope::Stale, words));
        }
        self.lines.iter_mut().for_each(|line| line.item = None);
    }

    pub fn view(
        &self,
        fleet: &Fleet,
        plans: &Plans,
        paint: &Paint<'_>,
        layout: &Layout,
        buffer: &mut Buffer,
    ) {
        paint.rule(layout.rule, buffer);
        if let Some(seconds) = self.next_change_s {
            paint.changes_in(seconds);
        }
        let (left, right) = columns(layout.body);
        let first = self.cursor.offset;
        for (y, (at, line)) in (left.y..left.bottom()).zip(self.lines.iter().enumerate().skip(first)) {
            put(buffer, left.x + 2, y, &line.line, left.width.saturating_sub(3));
            if at == self.cursor.index {
                table::select(Rect { height: left.height, ..left }, y, paint, buffer);
            }
        }
        if let Some(right) = right {
            self.view_log(right, paint, buffer);
        }
        let item = self.selected(fleet);
        foot::view(item, false, foot::plan_of(item, fleet, plans), fleet, paint, layout, buffer);
        foot::position(first, usize::from(left.height), self.lines.len(), paint, layout, buffer);
    }

    fn view_log(&self, area: Rect, paint: &Paint<'_>, buffer: &mut Buffer) {
        let border = paint.glyphs().border.vertical_left;
        for y in area.y..area.bottom() {
            put(buffer, area.x, y, &Line::from(paint.span(Scope::Rule, border)), 1);
        }
        let heading = Line::from(paint.span(Scope::Column, "LOG (UTC)"));
        for (y, line) in (area.y..area.bottom()).zip(std::iter::once(&heading).chain(&self.log_lines)) {
            put(buffer, area.x + 2, y, line, area.width.saturating_sub(3));
        }
    }
}

/// The rest, and the log beside it where there is room.
fn columns(body: Rect) -> (Rect, Option<Rect>) {
    if body.width < LOG_PANE_FROM {
        return (body, None);
    }
    let width = (body.width / 3).clamp(44, 70);
    let left = Rect { width: body.width - width, ..body };
    (left, Some(Rect { x: left.right(), width, ..body }))
}

fn height(area: Rect) -> usize {
    layout(area).map_or(1, |parts| usize::from(parts.body.height))
}

/// What happened since shortly before the rollout began, newest first.
fn log_of(fleet: &Fleet, rollout: &Rollout) -> Vec<TimelineEntry> {
    let finished = rollout.finished().and_then(|finished| finished.began_s);
    let Some(from_s) = rollout.began_s().or(finished) else { return Vec::new() };
    let entries = fleet.timeline(rollout.cluster).into_iter();
    let recent = entries.filter(|entry| entry.at_s >= from_s.saturating_sub(LOG_LEAD_S));
    let all: Vec<TimelineEntry> = recent.filter(words::is_for_log).collect();
    // That a Machine is not ready any more is part of its deletion.
    let goes = |entry: &TimelineEntry| matches!(entry.happened, Happened::Deleted | Happened::Gone);
    let going: FxHashSet<Uid> = all.iter().filter(|entry| goes(entry)).map(|entry| entry.uid).collect();
    let is_kept = |entry: &TimelineEntry| !(words::is_loss(entry) && going.contains(&entry.uid));
    all.into_iter().filter(is_kept).take(LOG_MAX).collect()
}
