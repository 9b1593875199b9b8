//! What every drawing function needs: the theme, the time, and text made of themed pieces. Collects
//! when the next shown age changes, and where links lead to. Must not know screens.

use std::borrow::Cow;
use std::cell::Cell;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::links::{Linker, Links};
use super::theme::{Glyphs, Scope, Theme};
use crate::fleet::Verdict;
use capstan_base::text;
use capstan_base::time::Timestamp;

const MINUTE_S: i64 = 60;

/// One frame's brush.
pub struct Paint<'a> {
    pub theme: &'a Theme,
    pub now: Timestamp,
    next_change_s: Cell<Option<i64>>,
    linker: Linker,
}

impl<'a> Paint<'a> {
    pub fn new(theme: &'a Theme, now: Timestamp) -> Self {
        Self { theme, now, next_change_s: Cell::new(None), linker: Linker::default() }
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn style(&self, scope: Scope) -> Style {
        self.theme.style(scope)
    }

    pub fn glyphs(&self) -> &'static Glyphs {
        self.theme.glyphs
    }

    pub fn span<'t>(&self, scope: Scope, text: impl Into<Cow<'t, str>>) -> Span<'t> {
        Span::styled(text, self.style(scope))
    }

    /// A text from outside whose addresses are links.
    pub fn linked(&self, scope: Scope, text: &str) -> Vec<Span<'static>> {
        self.wrapped(scope, text, vec![text.to_owned()]).remove(0)
    }

    /// The same of a text that was wrapped into these lines.
    pub fn wrapped(&self, scope: Scope, text: &str, lines: Vec<String>) -> Vec<Vec<Span<'static>>> {
        self.linker.spans(self.style(scope), text, lines)
    }

    /// The same of one line of a text, before which so many letters of it stand, blanks not counted.
    pub fn part(&self, scope: Scope, text: &str, letters: usize, line: String) -> Vec<Span<'static>> {
        self.linker.part(self.style(scope), text, letters, line)
    }

    /// The addresses that what was drawn leads to.
    pub fn links(&self) -> Links {
        self.linker.links()
    }

    /// The age of something in one short word, coarse so that a clock tick changes little. Remembers
    /// when it will read differently.
    pub fn age(&self, then: Timestamp) -> String {
        let seconds = (self.now - then).num_seconds();
        let (text, change_s) = short_age(seconds);
        self.changes_in(change_s);
        text
    }

    /// The same where many stand below each other: nothing finer than a minute, so that fresh rows do not redraw by the
    /// second.
    pub fn age_in_list(&self, then: Timestamp) -> String {
        let seconds = (self.now - then).num_seconds();
        if seconds >= MINUTE_S {
            return self.age(then);
        }
        self.changes_in(MINUTE_S - seconds.max(0));
        "<1m".to_owned()
    }

    /// How long it is until then: by the second below a minute, by the minute below a day. Remembers when it will
    /// read differently.
    pub fn until(&self, then: Timestamp) -> String {
        let (text, change_s) = countdown((then - self.now).num_seconds());
        self.changes_in(change_s);
        text
    }

    /// Something on this frame reads differently after so many seconds.
    pub fn changes_in(&self, seconds: i64) {
        let next = self.next_change_s.get().map_or(seconds, |s| s.min(seconds));
        self.next_change_s.set(Some(next));
    }

    /// Seconds until an age on this frame changes; `None` when none was drawn.
    pub fn next_change_s(&self) -> Option<i64> {
        self.next_change_s.get()
    }

    /// A text cut to `cells`.
    pub fn cut(&self, value: &str, cells: usize) -> String {
        text::truncate(value, cells, self.glyphs().ellipsis)
    }

    /// A name cut in its middle: what tells names apart is at the end.
    pub fn cut_name(&self, name: &str, cells: usize) -> String {
        if text::width(name) <= cells {
            return name.to_owned();
        }
        let tail_cells = (cells / 2).saturating_sub(1);
        let skip = name.chars().count().saturating_sub(tail_cells);
        let tail: String = name.chars().skip(skip).collect();
        let head_cells = cells.saturating_sub(text::width(&tail));
        format!("{}{tail}", text::truncate(name, head_cells, self.glyphs().ellipsis))
    }

    /// A text in lines of `room` cells, at most `most` of them: at least one, and the last one cut where there is more.
    pub fn in_lines(&self, text: &str, room: usize, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut rest = text;
        while lines.len() + 1 < most {
            let first = text::wrap(rest, room).into_iter().next().unwrap_or_default();
            let after = rest.strip_prefix(first.as_str()).unwrap_or_default().trim_start();
            if after.is_empty() {
                break;
            }
            lines.push(first);
            rest = after;
        }
        lines.push(self.cut(rest, room));
        lines
    }

    pub fn verdict_glyph(&self, verdict: Verdict) -> &'static str {
        let g = self.glyphs();
        match verdict {
            Verdict::Ok => g.ok,
            Verdict::Progressing => g.progressing,
            Verdict::Unknown => g.unknown,
            Verdict::Degraded => g.degraded,
            Verdict::Blocked => g.blocked,
        }
    }

    /// Glyph and word of a verdict.
    pub fn verdict(&self, verdict: Verdict) -> Span<'static> {
        self.span(verdict_scope(verdict), format!("{} {}", self.verdict_glyph(verdict), verdict.word()))
    }

    /// A horizontal rule over the width of `area`.
    pub fn rule(&self, area: Rect, buffer: &mut Buffer) {
        let line = self.glyphs().rule.repeat(usize::from(area.width));
        if area.height > 0 {
            buffer.set_stringn(area.x, area.y, line, usize::from(area.width), self.style(Scope::Rule));
        }
    }
}

pub fn verdict_scope(verdict: Verdict) -> Scope {
    match verdict {
        Verdict::Ok => Scope::Ok,
        Verdict::Progressing => Scope::Progressing,
        Verdict::Unknown => Scope::Unknown,
        Verdict::Degraded => Scope::Degraded,
        Verdict::Blocked => Scope::Blocked,
    }
}

/// Draws `line` at a position, cut to `width` cells.
pub fn put(buffer: &mut Buffer, x: u16, y: u16, line: &Line<'_>, width: u16) {
    let inside = buffer.area();
    if x < inside.right() && y < inside.bottom() {
        buffer.set_line(x, y, line, width.min(inside.right() - x));
    }
}

/// Draws `left` and, as far as it does not touch it, `right` at the other end.
pub fn put_ends(buffer: &mut Buffer, area: Rect, left: &Line<'_>, right: &Line<'_>) {
    if area.height == 0 {
        return;
    }
    put(buffer, area.x, area.y, left, area.width);
    let (left_width, right_width) = (left.width(), right.width());
    if left_width + right_width + 2 <= usize::from(area.width) {
        let x = area.right() - u16::try_from(right_width).unwrap_or(0);
        put(buffer, x, area.y, right, area.width);
    }
}

/// An age and the seconds until it reads differently: seconds below a minute, minutes below an hour,
/// hours below two days, then days.
fn short_age(seconds: i64) -> (String, i64) {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    // Clocks of servers differ: a moment that is ahead of this clock counts as now.
    let seconds = seconds.max(0);
    let (unit_s, letter) = match seconds {
        s if s < MINUTE => (1, 's'),
        s if s < HOUR => (MINUTE, 'm'),
        s if s < 2 * DAY => (HOUR, 'h'),
        _ => (DAY, 'd'),
    };
    (format!("{}{letter}", seconds / unit_s), unit_s - seconds % unit_s)
}

/// A time that is left, and the seconds until it reads differently.
fn countdown(seconds: i64) -> (String, i64) {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let seconds = seconds.max(0);
    match seconds {
        s if s < MINUTE => (format!("{s}s"), 1),
        // One second more, because the full minute still reads the same.
        s if s < HOUR => (format!("{}m", s / MINUTE), s % MINUTE + 1),
        s if s < DAY => (format!("{}h{:02}m", s / HOUR, s % HOUR / MINUTE), s % MINUTE + 1),
        s => (format!("{}d{:02}h", s / DAY, s % DAY / HOUR), s % HOUR + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::Tier;

    #[test]
    fn countdowns_are_coarse_and_know_when_they_change() {
        for (seconds, text, change) in [
            (-3, "0s", 1),
            (59, "59s", 1),
            (60, "1m", 1),
            (125, "2m", 6),
            (3_600, "1h00m", 1),
            (28_559, "7h55m", 60),
            (90_000, "1d01h", 1),
        ] {
            assert_eq!(countdown(seconds), (text.to_owned(), change), "{seconds}");
        }
    }

    #[test]
    fn ages_are_coarse_and_know_when_they_change() {
        for (seconds, text, change) in [
            (-3, "0s", 1),
            (0, "0s", 1),
            (59, "59s", 1),
            (60, "1m", 60),
            (119, "1m", 1),
            (3_600, "1h", 3_600),
            (172_799, "47h", 1),
            (172_800, "2d", 86_400),
        ] {
            assert_eq!(short_age(seconds), (text.to_owned(), change), "{seconds}");
        }
    }

    #[test]
    fn a_fresh_row_of_a_list_is_drawn_again_after_a_minute() {
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        for (seconds, text, change) in [(-5, "<1m", 60), (0, "<1m", 60), (48, "<1m", 12), (60, "1m", 60)] {
            let paint = Paint::new(&theme, Timestamp::default() + chrono::TimeDelta::seconds(seconds));
            assert_eq!(paint.age_in_list(Timestamp::default()), text, "{seconds}");
            assert_eq!(paint.next_change_s(), Some(change), "{seconds}");
        }
    }

    #[test]
    fn names_keep_their_end() {
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        let paint = Paint::new(&theme, Timestamp::default());
        assert_eq!(paint.cut_name("prod-eu-md-0-x7k2l-abcde", 12), "prod-e~abcde");
        assert_eq!(paint.cut_name("short", 12), "short");
        assert_eq!(paint.cut_name("abcdef", 1), "~");
        assert_eq!(paint.cut_name("abcdef", 0), "");
    }
}
