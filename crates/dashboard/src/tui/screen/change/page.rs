//! How the pages of a configuration are drawn. Owns their layout; must not know what an edit means.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::attributes::{Attribute, Row};
use super::plan_lines::{TextLine, mark};
use super::{ChangeScreen, Judged, PAGES, Page, state_words};
use crate::fleet::Fleet;
use crate::tui::layout::Layout;
use crate::tui::paint::{Paint, put, put_ends};
use crate::tui::screen::foot;
use crate::tui::theme::Scope;
use crate::tui::widget::{table, tree};
use capstan_base::text::{sanitize_line, width, wrap};
use kubeadm_change::gate::NextMove;
use kubeadm_change::plan::PlanState;
use kubeadm_change::rules::Judgement;

/// Lines above the list: the pages, what is to be said, and a blank one.
const ABOVE: u16 = 3;
/// Lines of the pane below it: its first one is blank.
const PANE: u16 = 4;
const EVIDENCE: u16 = 7;
/// Cells between labels and values, and what labels may take of a line.
const GAP: usize = 2;
const LABEL_PART: usize = 2;

impl ChangeScreen {
    fn pane_height(&self) -> u16 {
        match self.page() {
            Page::Configuration => PANE,
            Page::Nodes => EVIDENCE,
            Page::Difference | Page::Plan => 0,
        }
    }

    /// Lines of the list on a body so high.
    pub(super) fn list_height(&self, body: u16) -> u16 {
        let headings = u16::from(self.page() == Page::Nodes);
        body.saturating_sub(ABOVE + self.pane_height() + headings)
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        self.view_head(paint, body, buffer);
        if self.reading.is_none() {
            foot::view(self.selected(fleet), false, None, fleet, paint, layout, buffer);
            return;
        }
        let height = self.list_height(body.height);
        let list = Rect { y: body.y + ABOVE, height, ..body };
        let at = self.selected[self.page];
        let first = first_line(self.length(), at, usize::from(height));
        match self.page() {
            Page::Configuration => self.view_tree(first, paint, list, buffer),
            Page::Difference => self.view_lines(&self.difference, first, paint, list, buffer),
            Page::Plan => self.view_lines(&self.plan_lines, first, paint, list, buffer),
            Page::Nodes => {
                let with_headings = Rect { height: height + 1, ..list };
                self.matrix.view(first, at, with_headings, paint, buffer);
            }
        }
        let pane = Rect {
            y: body.bottom().saturating_sub(self.pane_height()) + 1,
            height: self.pane_height().saturating_sub(1),
            ..body
        };
        match self.page() {
            Page::Configuration => self.view_meaning(paint, pane, buffer),
            Page::Nodes => self.matrix.view_evidence(at, pane, paint, buffer),
            Page::Difference | Page::Plan => {}
        }
        foot::view(self.selected(fleet), false, None, fleet, paint, layout, buffer);
    }

    fn view_head(&self, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) {
        let mut tabs = Vec::new();
        for (at, (_, title)) in PAGES.iter().enumerate() {
            let scope = if at == self.page { Scope::TabOpen } else { Scope::Tab };
            tabs.push(paint.span(scope, (*title).to_owned()));
            tabs.push(Span::raw("   "));
        }
        let area = Rect { x: body.x + 2, width: body.width.saturating_sub(4), height: 1, ..body };
        put_ends(buffer, area, &Line::from(tabs), &Line::from(self.readings.age(paint)));
        let (scope, words) = self.state_words();
        let room = usize::from(area.width);
        // With nothing below, there is room for all of it.
        let lines =
            if self.reading.is_none() { wrap(&words, room.max(1)) } else { vec![paint.cut(&words, room)] };
        for (y, words) in (body.y + 1..body.bottom()).zip(lines) {
            put(buffer, area.x, y, &Line::from(paint.span(scope, words)), area.width);
        }
    }

    /// What there is to know and to do, in a sentence.
    fn state_words(&self) -> (Scope, String) {
        match (&self.judged, &self.reading, self.readings.trouble()) {
            (_, None, Some(why)) => (Scope::Unknown, format!("cannot be read: {why}")),
            (_, None, None) => (Scope::Muted, "the configuration is being read".to_owned()),
            (Judged::Wrong(why), ..) => (Scope::Blocked, sanitize_line(why)),
            (Judged::Plan(judged), ..) => {
                let typed = self.draft.as_ref().is_some_and(|draft| draft.contains('='));
                let (plan, edits) = (&judged.0, self.staged.len() + usize::from(typed));
                let noun =
                    if edits == 1 { "1 edit staged".to_owned() } else { format!("{edits} edits staged") };
                let (scope, what_then) = match plan.state {
                    PlanState::Nothing => (Scope::Muted, String::new()),
                    PlanState::Ready => {
                        (Scope::Ok, format!(", {} steps; :apply carries out", plan.steps.len()))
                    }
                    PlanState::NeedsAcknowledgement => {
                        (Scope::Degraded, format!(", {} steps; :apply shows why and asks", plan.steps.len()))
                    }
                    PlanState::Invalid | PlanState::Blocked => {
                        (Scope::Blocked, "; page Plan says why".to_owned())
                    }
                };
                (scope, format!("{noun}: {}{what_then}", state_words(plan)))
            }
            (Judged::Nothing, Some(reading), _) => {
                match (self.underway_words(), self.record(), reading.gaps.first()) {
                    (Some(words), ..) => words,
                    (None, Some(open), Some(gap)) if open.is_open() => (Scope::Unknown, sanitize_line(gap)),
                    (None, Some(last), _) if last.completed.is_some() => {
                        let words = format!(
                            "change {} of {} is complete; :rollback takes it back, :set PATH=VALUE stages the next",
                            last.id, last.by
                        );
                        (Scope::Muted, sanitize_line(&words))
                    }
                    _ => (Scope::Muted, "nothing is staged; :set PATH=VALUE stages an edit".to_owned()),
                }
            }
        }
    }

    /// How far the change is that was begun, and what is next.
    fn underway_words(&self) -> Option<(Scope, String)> {
        let underway = self.underway()?;
        let steps = &underway.plan.steps;
        let (scope, words) = match &underway.next {
            NextMove::Finished => (Scope::Ok, "everything of the change shows; :apply closes it".to_owned()),
            NextMove::Confirm(at) => {
                let step = &underway.plan.steps[*at];
                let words =
                    format!("for you: {}; then capstan change apply --done {}", step.title, step.id.name());
                (Scope::Progressing, words)
            }
            NextMove::Stop(why) => (Scope::Degraded, format!("the change is stopped: {why}")),
            NextMove::Wait(why) => (Scope::Progressing, format!("the change waits: {why}")),
            NextMove::Do(at) => {
                let step = steps.get(*at)?;
                let who = match (step.id.is_by_api(), step.nodes.as_slice()) {
                    (true, _) => ":apply goes on with".to_owned(),
                    (false, []) => "your turn:".to_owned(),
                    (false, nodes) => format!("your turn on {}:", nodes.join(", ")),
                };
                (Scope::Strong, format!("step {} of {}, {who} {}", at + 1, steps.len(), step.title))
            }
        };
        Some((scope, sanitize_line(&words)))
    }

    fn view_tree(&self, first: usize, paint: &Paint<'_>, list: Rect, buffer: &mut Buffer) {
        let cells = usize::from(list.width.saturating_sub(3));
        let lead = |row: &Row| usize::from(row.shape.depth) * 2 + 2;
        let widest = self.rows.iter().map(|row| lead(row) + width(&row.label)).max().unwrap_or(0);
        let labels = (widest + GAP).min(cells / LABEL_PART);
        let line = |row: &Row| {
            let room = labels.saturating_sub(lead(row));
            match &row.attribute {
                Some(attribute) => {
                    attribute_line(&row.label, attribute, room, cells.saturating_sub(labels), paint)
                }
                None => branch_line(row, room, paint),
            }
        };
        let visible = self.rows.iter().skip(first).take(usize::from(list.height));
        let visible: Vec<_> = visible.map(|row| (row.shape, line(row))).collect();
        let mut above = Vec::new();
        // The ancestors of the first line are needed for the branches that are drawn.
        let mut depth = self.rows.get(first).map_or(0, |row| row.shape.depth);
        for row in self.rows.iter().take(first).rev() {
            if row.shape.depth < depth {
                depth = row.shape.depth;
                above.push((row.shape, Line::default()));
            }
        }
        above.reverse();
        let inner = Rect { x: list.x + 2, width: list.width.saturating_sub(3), ..list };
        tree::draw(above, visible, paint.glyphs(), inner, buffer);
        self.mark_selected(first, paint, list, buffer);
    }

    fn view_lines(
        &self,
        lines: &[TextLine],
        first: usize,
        paint: &Paint<'_>,
        list: Rect,
        buffer: &mut Buffer,
    ) {
        if lines.is_empty() {
            let words = paint
                .span(Scope::Muted, "there is nothing to do: nothing is staged, and no change is under way");
            put(buffer, list.x + 2, list.y, &Line::from(words), list.width.saturating_sub(3));
            return;
        }
        let cells = usize::from(list.width.saturating_sub(4));
        for (y, line) in (list.y..list.bottom()).zip(lines.iter().skip(first)) {
            let text = paint.span(line.scope, paint.cut(&line.text, cells));
            put(buffer, list.x + 2, y, &Line::from(text), list.width.saturating_sub(3));
            if let Some(state) = line.state {
                let (glyph, scope) = mark(state, paint.glyphs());
                put(buffer, list.x + 2, y, &Line::from(paint.span(scope, glyph)), 1);
            }
        }
        self.mark_selected(first, paint, list, buffer);
    }

    fn mark_selected(&self, first: usize, paint: &Paint<'_>, list: Rect, buffer: &mut Buffer) {
        let down = self.selected[self.page].saturating_sub(first);
        let y = list.y.saturating_add(u16::try_from(down).unwrap_or(u16::MAX));
        table::select(list, y, paint, buffer);
    }

    /// What is said about the attribute under the cursor.
    fn view_meaning(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let row = self.rows.get(self.selected[0]);
        let Some(attribute) = row.and_then(|row| row.attribute.as_ref()) else { return };
        let cells = usize::from(area.width.saturating_sub(4));
        let mut lines = Vec::new();
        for (scope, words) in [(Scope::Text, &attribute.message), (Scope::Muted, &attribute.touches)] {
            let wrapped = wrap(&sanitize_line(words), cells);
            lines.extend(wrapped.into_iter().map(|part| Line::from(paint.span(scope, part))));
        }
        for (y, line) in (area.y..area.bottom()).zip(lines) {
            put(buffer, area.x + 2, y, &line, area.width.saturating_sub(3));
        }
    }
}

/// The first line that is seen, so that the selected one is.
fn first_line(length: usize, selected: usize, height: usize) -> usize {
    let last = length.saturating_sub(height);
    selected.saturating_sub(height / 2).min(last)
}

fn branch_line(row: &Row, room: usize, paint: &Paint<'_>) -> Line<'static> {
    let scope = if row.shape.depth == 0 { Scope::Column } else { Scope::Text };
    let label = paint.span(scope, paint.cut(&row.label, room.saturating_sub(1)));
    let pad = " ".repeat(room.saturating_sub(width(&label.content)));
    let words = match row.changes {
        0 => Span::raw(""),
        1 => paint.span(Scope::Strong, "1 change below"),
        many => paint.span(Scope::Strong, format!("{many} changes below")),
    };
    // What is open shows them itself.
    if row.shape.open { Line::from(label) } else { Line::from(vec![label, Span::raw(pad), words]) }
}

fn attribute_line(
    label: &str,
    attribute: &Attribute,
    room: usize,
    cells: usize,
    paint: &Paint<'_>,
) -> Line<'static> {
    let (glyph, word, scope) = match attribute.verdict {
        Some(Judgement::Ok) => (paint.glyphs().ok, "ok", Scope::Ok),
        Some(Judgement::Advise) => (paint.glyphs().degraded, "advise", Scope::Degraded),
        Some(Judgement::Block) => (paint.glyphs().blocked, "block", Scope::Blocked),
        None => (paint.glyphs().unknown, "?", Scope::Unknown),
    };
    let label = paint.cut(label, room.saturating_sub(1));
    let pad = " ".repeat(room.saturating_sub(width(&label)));
    let value = match &attribute.new {
        Some(new) => format!("{} -> {new}", attribute.value),
        None => attribute.value.clone(),
    };
    let value_scope = if attribute.new.is_some() { Scope::Strong } else { Scope::Text };
    Line::from(vec![
        paint.span(Scope::Text, format!("{label}{pad}")),
        paint.span(scope, format!("{glyph} {word:<8}")),
        paint.span(value_scope, paint.cut(&value, cells.saturating_sub(10))),
    ])
}
