//! What changed since a moment: a row for each cluster that turned, or in which something happened. Owns what is known of each,
//! the filter and the cursor; only clusters that changed are looked at again.

use std::collections::BTreeSet;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::rollout::minute_of_day;
use super::{Context, foot};
use crate::fleet::{Changes, Fleet, Item, News, NewsChanges, RowId, Uid, Verdict, moment};
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, page};
use crate::tui::paint::{Paint, put, verdict_scope};
use crate::tui::theme::Scope;
use crate::tui::widget::table::{self, Align, Column, Placed};
use capstan_base::text::{counted, width};
use capstan_base::time::Timestamp;

pub struct SinceScreen {
    since_s: u32,
    /// What turned for the worse first, then what turned, then the rest; the newest first in each.
    all: Vec<News>,
    /// Places in `all` that the filter lets through.
    shown: Vec<usize>,
    filter: String,
    cursor: Cursor<Uid>,
    /// Clusters to look at again.
    stale: BTreeSet<RowId>,
    is_begun: bool,
    is_changed: bool,
}

impl SinceScreen {
    pub fn of(since_s: u32) -> Self {
        Self {
            since_s,
            all: Vec::new(),
            shown: Vec::new(),
            filter: String::new(),
            cursor: Cursor::default(),
            stale: BTreeSet::new(),
            is_begun: false,
            is_changed: false,
        }
    }

    pub fn title(&self, now: Timestamp) -> String {
        format!("{} changed since {}", self.shown.len(), minute_of_day(self.since_s, now))
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

    pub fn selected(&self) -> Option<Item> {
        let (id, _) = self.at(self.cursor.index)?.cluster?;
        Some(Item::Row(id))
    }

    pub fn choose(&mut self) {
        self.cursor.choose();
    }

    fn at(&self, at: usize) -> Option<&News> {
        self.all.get(*self.shown.get(at)?)
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
        if !self.is_begun {
            self.stale.extend(context.fleet.clusters());
            self.is_begun = true;
        }
        if !self.stale.is_empty() || self.is_changed {
            self.look_again(context.fleet);
        }
        let Self { cursor, all, shown, .. } = self;
        let key_at = |at: usize| Some(all[*shown.get(at)?].uid);
        let find = |key| (0..shown.len()).find(|at| key_at(*at) == Some(key));
        cursor.settle(shown.len(), page(context.area), find, key_at);
    }

    fn look_again(&mut self, fleet: &Fleet) {
        let stale = std::mem::take(&mut self.stale);
        let turned = fleet.turned_since(self.since_s);
        self.all.retain(|news| {
            // The number of a row that went may have been given to another cluster.
            news.cluster
                .is_some_and(|(id, source)| !stale.contains(&id) && fleet.find(source, news.uid) == Some(id))
        });
        for id in stale {
            let uid = fleet.row(id).map(|row| row.uid);
            let of_it = turned.iter().find(|turned| Some(turned.cluster) == uid);
            self.all.extend(fleet.news_of(id, self.since_s, of_it));
        }
        self.all.extend(turned.into_iter().filter(|turned| turned.to.is_none()).map(News::from));
        let rank = |news: &News| {
            let is = news.cluster.map(|(id, _)| fleet.verdict(id));
            let worse = news.was.filter(|was| is > *was).and(is);
            (
                std::cmp::Reverse((worse, news.was.is_some(), news.last_s)),
                news.namespace.clone(),
                news.name.clone(),
            )
        };
        self.all.sort_by_cached_key(rank);
        let words = self.filter.to_lowercase();
        let matches = |news: &News| {
            let place = format!("{}/{}", news.namespace, news.name).to_lowercase();
            words.split_whitespace().all(|word| place.contains(word))
        };
        self.shown = (0..self.all.len()).filter(|at| matches(&self.all[*at])).collect();
        self.is_changed = false;
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        if self.shown.is_empty() {
            let words = if self.filter.is_empty() {
                format!("nothing changed since {}", minute_of_day(self.since_s, paint.now))
            } else {
                "nothing that changed matches".to_owned()
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
        foot::view(self.selected(), false, None, fleet, paint, layout, buffer);
        foot::position(self.cursor.offset, page(body), self.shown.len(), paint, layout, buffer);
    }

    fn view_rows(&self, fleet: &Fleet, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) {
        let names =
            self.all.iter().map(|news| width(&news.namespace) + 1 + width(&news.name)).max().unwrap_or(0);
        let placed = table::place(&columns(names), body.x + 2, body.width.saturating_sub(3));
        table::headings(&placed, None, body.y, paint, buffer);
        let rows = (0..self.shown.len()).skip(self.cursor.offset);
        for (y, at) in (body.y + 1..body.bottom()).zip(rows) {
            let Some(news) = self.at(at) else { continue };
            for column in &placed {
                table::cell(column, y, &cell(news, column, fleet, paint), buffer);
            }
            if at == self.cursor.index {
                table::select(body, y, paint, buffer);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Name,
    Was,
    Last,
    What,
}

fn columns(names: usize) -> Vec<Column<Part>> {
    let column = |id, title: &str, min: u16, natural: usize, rank: usize| Column {
        id,
        title: title.to_owned(),
        align: Align::Left,
        min,
        natural: u16::try_from(natural).unwrap_or(u16::MAX).max(min),
        late: false,
        rank,
        grows: id == Part::What,
    };
    vec![
        column(Part::Name, "CLUSTER", 14, names + 2, 0),
        column(Part::Was, "WAS", 11, 11, 2),
        column(Part::Last, "LAST", 4, 4, 3),
        column(Part::What, "WHAT CHANGED", 16, 40, 1),
    ]
}

fn cell(news: &News, column: &Placed<Part>, fleet: &Fleet, paint: &Paint<'_>) -> Line<'static> {
    let room = usize::from(column.width);
    match column.id {
        Part::Name => {
            let place = format!("{}/{}", news.namespace, news.name);
            let (glyph, scope) = match news.cluster {
                Some((id, _)) => {
                    let verdict = fleet.verdict(id);
                    (paint.verdict_glyph(verdict), verdict_scope(verdict))
                }
                None => (paint.glyphs().none, Scope::Muted),
            };
            let name = paint.cut_name(&place, room.saturating_sub(2));
            Line::from(vec![paint.span(scope, format!("{glyph} ")), paint.span(Scope::Strong, name)])
        }
        Part::Was => match news.was {
            Some(Some(verdict)) => Line::from(paint.span(verdict_scope(verdict), verdict.word())),
            Some(None) => Line::from(paint.span(Scope::Muted, "not there")),
            None => Line::default(),
        },
        Part::Last => {
            let age = moment(news.last_s).map(|at| paint.age_in_list(at)).unwrap_or_default();
            Line::from(paint.span(Scope::Text, age))
        }
        Part::What => Line::from(paint.span(Scope::Text, paint.cut(&words(news, fleet), room))),
    }
}

/// Why it stands as it does, where it turned for the worse; and what happened.
fn words(news: &News, fleet: &Fleet) -> String {
    let Some((id, _)) = news.cluster else { return "is gone".to_owned() };
    let verdict = fleet.verdict(id);
    let is_fault = verdict > Verdict::Progressing && news.was.is_some();
    let why = is_fault.then(|| fleet.what_is_wrong(id)).filter(|why| !why.is_empty());
    let turned = (news.was.is_some() && why.is_none()).then(|| format!("is {verdict} now"));
    let parts: Vec<String> = why.into_iter().chain(turned).chain(happened(&news.changes)).collect();
    parts.join("; ")
}

fn happened(changes: &NewsChanges) -> impl Iterator<Item = String> {
    let version = changes.version.as_ref().map(|(from, to)| format!("version {from} to {to}"));
    let scaled = changes.scaled.first().map(|(name, from, to)| {
        let more = changes.scaled.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{name} scaled {from} to {to}{more}")
    });
    let paused = changes.paused.map(|is_paused| if is_paused { "paused" } else { "resumed" }.to_owned());
    let machines = match (changes.made, changes.gone) {
        (0, 0) => None,
        (made, 0) => Some(format!("{} came", counted(made, "Machine"))),
        (0, gone) => Some(format!("{} went", counted(gone, "Machine"))),
        (made, gone) => Some(format!("{} came, {gone} went", counted(made, "Machine"))),
    };
    [version, scaled, paused, machines].into_iter().flatten()
}
