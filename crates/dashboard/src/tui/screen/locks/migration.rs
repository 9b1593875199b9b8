//! The walkthrough of a leader migration: eight stages, the selected one with its evidence, edits and way back. Owns which
//! stage is selected; how far each is comes from the cluster, anew with every look.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::feed::LockFeed;
use super::migration_text::{details, edits_text, head, nothing, stage_line};
use super::text::waiting;
use crate::fleet::Fleet;
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::layout::{Layout, layout};
use crate::tui::paint::{Paint, put};
use crate::tui::screen::{Context, foot};
use capstan_base::time::Timestamp;
use leader_migration::stages::{StageReport, StageState, Walkthrough};

pub struct MigrationScreen {
    pub feed: LockFeed,
    /// Until somebody chooses, the first stage that is not done.
    chosen: Option<usize>,
    scroll: Scroll,
}

impl MigrationScreen {
    pub fn of(feed: LockFeed) -> Self {
        Self { feed, chosen: None, scroll: Scroll::default() }
    }

    pub fn title(&self) -> String {
        format!("leader migration of {}", self.feed.name())
    }

    fn judge(&self, now: Timestamp) -> Option<Walkthrough> {
        let look = self.feed.look.as_ref()?;
        // A cluster whose processes cannot be seen is not judged.
        (!look.processes.is_empty()).then(|| look.situation(&self.feed.scope, now).judge())
    }

    fn selected(&self, reports: &[StageReport]) -> usize {
        let first = || reports.iter().position(|report| report.state != StageState::Done);
        self.chosen.or_else(first).unwrap_or(0).min(reports.len().saturating_sub(1))
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Some(Walkthrough::Stages(reports)) = self.judge(context.now) else { return };
        let at = self.selected(&reports);
        match motion {
            Motion::Up | Motion::Down | Motion::Top | Motion::Bottom => {
                self.choose(motion.apply(at, reports.len(), 1));
            }
            // The stages fit on one page, so that pages move the text below them.
            _ => {
                let Some(parts) = layout(context.area) else { return };
                let paint = Paint::new(context.theme, context.now);
                let page = usize::from(below(parts.body, reports.len()).height);
                let lines = details(&self.feed, &reports[at], &paint, usize::from(parts.body.width)).len();
                self.scroll.step(motion, lines, page);
            }
        }
    }

    fn choose(&mut self, at: usize) {
        if self.chosen != Some(at) {
            (self.chosen, self.scroll) = (Some(at), Scroll::default());
        }
    }

    /// A click on a line of the body, whose first one stands above it.
    pub fn click(&mut self, context: &Context<'_>, line: usize) {
        if let Some(Walkthrough::Stages(reports)) = self.judge(context.now)
            && line < reports.len()
        {
            self.choose(line);
        }
    }

    /// The edits of the selected stage, for the clipboard.
    pub fn edits(&self, now: Timestamp) -> Option<String> {
        let Some(Walkthrough::Stages(reports)) = self.judge(now) else { return None };
        edits_text(&self.feed, &reports[self.selected(&reports)]).filter(|text| !text.is_empty())
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        foot::view(None, false, None, fleet, paint, layout, buffer);
        let (body, width) = (layout.body, usize::from(layout.body.width));
        match self.judge(paint.now) {
            Some(Walkthrough::Stages(reports)) => self.view_stages(&reports, paint, layout, buffer),
            other => {
                let lines = match other {
                    None if self.feed.look.is_none() => waiting(&self.feed, paint, width.saturating_sub(4)),
                    other => nothing(&self.feed, other.as_ref(), paint, width.saturating_sub(4)),
                };
                put_lines(&lines, body, buffer);
            }
        }
    }

    fn view_stages(&self, reports: &[StageReport], paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        let (body, selected) = (layout.body, self.selected(reports));
        let width = usize::from(body.width);
        let mut lines = vec![head(&self.feed, reports, paint)];
        lines.extend(reports.iter().map(|report| stage_line(report, paint, width.saturating_sub(4))));
        put_lines(&lines, body, buffer);
        let y = body.y + 1 + u16::try_from(selected).unwrap_or(0);
        if y < body.bottom() {
            crate::tui::widget::table::select(body, y, paint, buffer);
        }
        let (area, report) = (below(body, reports.len()), &reports[selected]);
        let lines = details(&self.feed, report, paint, width);
        let page = usize::from(area.height);
        let first = self.scroll.clamped(lines.len(), page);
        put_lines(&lines[first.min(lines.len())..], area, buffer);
        foot::position(first, page, lines.len(), paint, layout, buffer);
    }
}

/// The room below the stages, with a blank line between.
fn below(body: Rect, stages: usize) -> Rect {
    let used = u16::try_from(stages + 2).unwrap_or(u16::MAX).min(body.height);
    Rect { y: body.y + used, height: body.height - used, ..body }
}

fn put_lines(lines: &[Line<'static>], area: Rect, buffer: &mut Buffer) {
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        put(buffer, area.x + 2, y, line, area.width.saturating_sub(3));
    }
}
