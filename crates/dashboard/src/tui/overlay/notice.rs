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
    keys: Vec<(&'static str, &'static str)>,
    scroll: Scroll,
}

impl Notice {
    pub fn new(title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { is_failure: true, ..Self::overview(title, text.into()) }
    }

    /// Nothing went wrong.
    pub fn overview(title: impl Into<String>, text: impl Into<String>) -> Self {
        let (title, text) = (title.into(), text::sanitize_block(&text.into()));
        Self { title, text, is_failure: false, keys: vec![("enter", "close")], scroll: Scroll::default() }
    }

    /// While something is read.
    pub fn reading(title: impl Into<String>) -> Self {
        Self::overview(title, "reading it from the server").with_keys([("esc", "forget it")])
    }

    /// What keys do here, in a word or two.
    pub fn with_keys(self, keys: impl IntoIterator<Item = (&'static str, &'static str)>) -> Self {
        Self { keys: keys.into_iter().collect(), ..self }
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        let lines = text::wrap(&self.text, frame::text_width(area, frame::WIDTH_MAX)).len();
        self.scroll.step(motion, lines, frame::text_height(area));
    }

    pub fn view(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let lines = text::wrap(&self.text, frame::text_width(area, frame::WIDTH_MAX));
        let lines = paint.wrapped(Scope::Overlay, &self.text, lines);
        let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
        let hint = |(key, word): &(&str, &str)| {
            [paint.span(Scope::Key, format!(" {key} ")), paint.span(Scope::KeyText, format!("{word} "))]
        };
        let hints = Line::from_iter(self.keys.iter().flat_map(hint));
        let mark = if self.is_failure { format!("{} ", paint.glyphs().degraded) } else { String::new() };
        let title = format!("{mark}{}", self.title);
        let inside = frame::open(&title, &hints, lines.len(), frame::WIDTH_MAX, paint, area, buffer);
        frame::scrolled(&lines, self.scroll, inside, buffer);
    }
}
