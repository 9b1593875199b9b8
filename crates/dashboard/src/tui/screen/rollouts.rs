//! Every cluster that rolls, whose rollout is scheduled, or that rolled a short while ago: a row each. Owns what is known
//! of each, the filter and the cursor; only clusters that changed are derived again.

use std::collections::BTreeSet;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::rollout::{
    Acting, Hold, acting_words, arrival_words, bar, outlook, scheduled_words, took_words, versions,
};
use super::{Context, foot};
use crate::fleet::{
    Arrival, Changes, FinishedRollout, Fleet, Item, OwnerStage, Rollout, RowId, SourceId, Uid, moment,
};
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, page};
use crate::tui::paint::{Paint, put};
use crate::tui::plans::Plans;
use crate::tui::theme::Scope;
use crate::tui::widget::table::{self, Align, Column, Placed};

/// Cells of a bar.
const BAR: usize = 6;

/// Which group a row is in: what is held first, what is over last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Held,
    UnderWay,
    Scheduled,
    Finished,
}

/// New Machines that are available, of those wanted.
type Share = (u32, u32);

/// What is kept of one cluster.
struct Summary {
    id: RowId,
    uid: (SourceId, Uid),
    place: String,
    standing: Standing,
    control_plane: Option<Share>,
    workers: Option<Share>,
    /// Since when it is so, seconds since the epoch.
    since_s: Option<u32>,
    versions: String,
    arrival: Option<Arrival>,
    acting: Vec<Acting>,
    hold: Option<Hold>,
    /// The next schedule: when, and how many Machines are older.
    scheduled: Option<(u32, u32)>,
    finished: Option<FinishedRollout>,
    next_turn_s: Option<u32>,
}

#[derive(Default)]
pub struct RolloutsScreen {
    /// By standing, then by place.
    all: Vec<Summary>,
    /// Places in `all` that the filter lets through.
    shown: Vec<usize>,
    filter: String,
    cursor: Cursor<(SourceId, Uid)>,
    /// Clusters to look at again.
    stale: BTreeSet<RowId>,
    /// Every cluster has been looked at once.
    is_begun: bool,
    /// Clusters came or went, or the filter changed.
    is_changed: bool,
}

impl RolloutsScreen {
    pub fn title(&self) -> String {
        format!("rollouts {}", self.shown.len())
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn set_filter(&mut self, text: &str) {
        text.clone_into(&mut self.filter);
        self.is_changed = true;
    }

    pub fn note(&mut self, changes: &Changes) {
        self.stale.extend(&changes.clusters);
        self.is_changed |= changes.overview;
    }

    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        let (source, uid) = self.cursor.key?;
        fleet.find(source, uid).map(Item::Row)
    }

    pub fn choose(&mut self) {
        self.cursor.choose();
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Self { cursor, all, shown, .. } = self;
        cursor.step(motion, shown.len(), page(context.area), |at| Some(all[*shown.get(at)?].uid));
    }

    pub fn click(&mut self, context: &Context<'_>, line: usize) {
        let Self { cursor, all, shown, .. } = self;
        cursor.click(line, shown.len(), page(context.area), |at| Some(all[*shown.get(at)?].uid));
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        let fleet = context.fleet;
        if !self.is_begun {
            self.stale.extend(fleet.clusters());
            self.is_begun = true;
        }
        let now_s = fleet.now_s();
        let turned =
            self.all.iter().filter(|s| s.next_turn_s.is_some_and(|at_s| at_s <= now_s)).map(|s| s.id);
        self.stale.extend(turned.collect::<Vec<_>>());
        if !self.stale.is_empty() || self.is_changed {
            self.look_again(fleet, context.plans);
        }
        let Self { cursor, all, shown, .. } = self;
        let key_at = |at: usize| Some(all[*shown.get(at)?].uid);
        let find = |key| (0..shown.len()).find(|at| key_at(*at) == Some(key));
        cursor.settle(shown.len(), page(context.area), find, key_at);
    }

    fn look_again(&mut self, fleet: &Fleet, plans: &Plans) {
        let stale = std::mem::take(&mut self.stale);
        // The number of a row that went may have been given to another cluster.
        self.all.retain(|s| !stale.contains(&s.id) && fleet.find(s.uid.0, s.uid.1) == Some(s.id));
        let clusters = stale.into_iter().filter(|id| fleet.may_roll(*id));
        self.all.extend(clusters.filter_map(|id| summary(fleet, fleet.rollout(id)?, plans)));
        self.all.sort_by(|a, b| (a.standing, &a.place, a.uid).cmp(&(b.standing, &b.place, b.uid)));
        let words = self.filter.to_lowercase();
        let matches =
            |s: &Summary| words.split_whitespace().all(|word| s.place.to_lowercase().contains(word));
        self.shown = (0..self.all.len()).filter(|at| matches(&self.all[*at])).collect();
        self.is_changed = false;
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        // At these moments rows turn without any news.
        let next_turn_s = self.all.iter().filter_map(|s| s.next_turn_s).min();
        if let Some(turn_s) = next_turn_s {
            paint.changes_in((i64::from(turn_s) - paint.now.timestamp()).max(1));
        }
        if self.shown.is_empty() {
            let words = if self.filter.is_empty() {
                "nothing rolls, and nothing is scheduled"
            } else {
                "no rollout matches"
            };
            put(
                buffer,
                body.x + 2,
                body.y,
                &Line::from(paint.span(Scope::Muted, words)),
                body.width.saturating_sub(3),
            );
        } else {
            self.view_rows(fleet, paint, body, buffer);
        }
        let item = self.selected(fleet);
        foot::view(item, false, None, fleet, paint, layout, buffer);
        foot::position(self.cursor.offset, page_of(body), self.shown.len(), paint, layout, buffer);
    }

    fn view_rows(&self, fleet: &Fleet, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) {
        let names = self.all.iter().map(|s| capstan_base::text::width(&s.place)).max().unwrap_or(0);
        let versions = self.all.iter().map(|s| capstan_base::text::width(&s.versions)).max().unwrap_or(0);
        let placed =
            table::place(&columns(names, versions, is_wide(body)), body.x + 2, body.width.saturating_sub(3));
        table::headings(&placed, None, body.y, paint, buffer);
        let rows = self.shown.iter().enumerate().skip(self.cursor.offset);
        for (y, (at, place)) in (body.y + 1..body.bottom()).zip(rows) {
            let summary = &self.all[*place];
            for column in &placed {
                let line = Line::from(cell(summary, column, fleet, paint));
                table::cell(column, y, &line, buffer);
            }
            if at == self.cursor.index {
                table::select(body, y, paint, buffer);
            }
        }
    }
}

/// Is there room for bars?
fn is_wide(body: Rect) -> bool {
    body.width >= 100
}

fn page_of(body: Rect) -> usize {
    usize::from(body.height.saturating_sub(1)).max(1)
}

/// `None` where nothing is to be told.
fn summary(fleet: &Fleet, rollout: Rollout, plans: &Plans) -> Option<Summary> {
    let row = fleet.row(rollout.cluster)?;
    let outlook = outlook(fleet, &rollout, plans);
    let scheduled = rollout.owners.iter().filter_map(|owner| match owner.stage {
        OwnerStage::Scheduled { at_s, older } => Some((at_s, older)),
        _ => None,
    });
    let scheduled = scheduled.min();
    let finished = rollout.finished().filter(|_| rollout.is_news());
    let standing = match (rollout.is_under_way(), outlook.held.is_empty()) {
        (true, false) => Standing::Held,
        (true, true) => Standing::UnderWay,
        _ if scheduled.is_some() => Standing::Scheduled,
        _ if finished.is_some() => Standing::Finished,
        _ => return None,
    };
    // Of those that roll, where any of the kind does.
    let share = |is_control_plane: bool| {
        let of_kind = || rollout.owners.iter().filter(|owner| owner.is_control_plane == is_control_plane);
        of_kind().next()?;
        let any_rolls = of_kind().any(|owner| owner.stage.is_under_way());
        let counted = of_kind().filter(|owner| !any_rolls || owner.stage.is_under_way());
        Some(counted.fold((0, 0), |(done, want), owner| (done + owner.done, want + owner.want)))
    };
    Some(Summary {
        id: rollout.cluster,
        uid: (row.source, row.uid),
        place: format!("{}/{}", row.namespace, row.name),
        standing,
        control_plane: share(true),
        workers: share(false),
        since_s: rollout.began_s().or(finished.as_ref().map(|finished| finished.ended_s)),
        versions: if rollout.is_under_way() { versions(&rollout) } else { String::new() },
        arrival: outlook.arrival,
        acting: outlook.acting.into_iter().take(2).collect(),
        hold: outlook.held.into_iter().next(),
        scheduled,
        finished,
        next_turn_s: rollout.next_turn_s(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Name,
    ControlPlane,
    Workers,
    Since,
    Arrival,
    Versions,
    What,
}

/// The reason has its room before versions and times of arrival; on narrow screens counts stand without their bars.
fn columns(names: usize, versions: usize, is_wide: bool) -> Vec<Column<Part>> {
    let column = |id, title: &str, min: usize, natural: usize, rank: usize| Column {
        id,
        title: title.to_owned(),
        align: Align::Left,
        min: u16::try_from(min).unwrap_or(u16::MAX),
        natural: u16::try_from(natural.max(min)).unwrap_or(u16::MAX),
        late: matches!(id, Part::Versions | Part::Arrival),
        rank,
        grows: id == Part::What,
    };
    let bar = if is_wide { BAR + 1 } else { 0 };
    vec![
        column(Part::Name, "CLUSTER", 12, names + 2, 0),
        column(Part::ControlPlane, "CP", bar + 3, bar + 3, 1),
        column(Part::Workers, "WORK", bar + 5, bar + 7, 2),
        column(Part::Since, "SINCE", 5, 5, 3),
        column(Part::Arrival, "READY (UTC)", 17, 17, 4),
        column(Part::Versions, "VERSION", 8, versions, 5),
        column(Part::What, "WHAT IS GOING ON", 28, 40, 6),
    ]
}

fn cell(summary: &Summary, column: &Placed<Part>, fleet: &Fleet, paint: &Paint<'_>) -> Vec<Span<'static>> {
    let share = |share: Option<Share>| {
        let Some((done, want)) = share else { return Vec::new() };
        let scope = if summary.standing < Standing::Scheduled { Scope::Progressing } else { Scope::Ok };
        let count = paint.span(Scope::Text, format!("{done}/{want}"));
        // A narrow column has no bar.
        if usize::from(column.width) < BAR + 4 {
            return vec![count];
        }
        let [full, left] = bar(done, want, BAR, scope, paint);
        vec![full, left, Span::raw(" "), count]
    };
    match column.id {
        Part::Name => {
            let (glyph, scope) = match summary.standing {
                Standing::Held => (paint.glyphs().blocked, Scope::Blocked),
                Standing::UnderWay => (paint.glyphs().progressing, Scope::Progressing),
                Standing::Scheduled => (paint.glyphs().active, Scope::Muted),
                Standing::Finished => (paint.glyphs().ok, Scope::Ok),
            };
            let name = paint.cut_name(&summary.place, usize::from(column.width.saturating_sub(2)));
            vec![paint.span(scope, format!("{glyph} ")), paint.span(Scope::Strong, name)]
        }
        Part::ControlPlane => share(summary.control_plane),
        Part::Workers => share(summary.workers),
        Part::Since => {
            let since = summary.since_s.and_then(moment).map(|at| paint.age(at));
            vec![paint.span(Scope::Text, since.unwrap_or_default())]
        }
        Part::Arrival => {
            let arrival = summary.arrival.map(|arrival| arrival_words(arrival, paint.now));
            vec![paint.span(Scope::Text, arrival.unwrap_or_default())]
        }
        Part::Versions => {
            vec![paint.span(Scope::Text, paint.cut(&summary.versions, usize::from(column.width)))]
        }
        Part::What => {
            let (words, scope) = what(summary, fleet, paint);
            vec![paint.span(scope, paint.cut(&words, usize::from(column.width)))]
        }
    }
}

fn what(summary: &Summary, fleet: &Fleet, paint: &Paint<'_>) -> (String, Scope) {
    if let Some(hold) = &summary.hold {
        return (format!("held: {} ({})", hold.sentence, hold.rule), Scope::Blocked);
    }
    if let Some(first) = summary.acting.first() {
        let (words, scope) = acting_words(fleet, first, paint);
        let more = if summary.acting.len() > 1 { ", and more" } else { "" };
        return (format!("{words}{more}"), scope);
    }
    if let (Standing::Scheduled, Some((at_s, older))) = (summary.standing, summary.scheduled) {
        return (scheduled_words(at_s, older, paint), Scope::Text);
    }
    match &summary.finished {
        Some(finished) => (format!("finished{}", took_words(finished)), Scope::Muted),
        None => ("the next step is due".to_owned(), Scope::Text),
    }
}
