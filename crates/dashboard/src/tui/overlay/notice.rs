//! Something that needs more than a line: a failure with what to check, or an overview.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::frame;
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use capstan_base::text;

pub struct Notice {
    title: String,
    text: String,
    is_failure: bool,
    scroll: Scroll,
}

impl Notice {
    pub fn new(title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { is_failure: true, ..Self::overview(title, text.into()) }
    }

    /// Nothing went wrong.
    pub fn overview(title: impl Into<String>, text: impl Into<String>) -> Self {
        let (title, text) = (title.into(), text::sanitize_block(&text.into()));
        Self { title, text, is_failure: false, scroll: Scroll::default() }
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        let lines = text::wrap(&self.text, frame::text_width(area, frame::WIDTH_MAX)).len();
        self.scroll.step(motion, lines, frame::text_height(area));
    }

    pub fn view(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let lines: Vec<Line<'_>> = text::wrap(&self.text, frame::text_width(area, frame::WIDTH_MAX))
            .into_iter()
            .map(|line| Line::from(paint.span(Scope::Overlay, line)))
            .collect();
        let hints = Line::from(vec![paint.span(Scope::Key, " enter "), paint.span(Scope::KeyText, "close ")]);
        let mark = if self.is_failure { format!("{} ", paint.glyphs().degraded) } else { String::new() };
        let title = format!("{mark}{}", self.title);
        let inside = frame::open(&title, &hints, lines.len(), frame::WIDTH_MAX, paint, area, buffer);
        frame::scrolled(&lines, self.scroll, inside, buffer);
    }
}
