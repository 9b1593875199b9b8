//! Help: the command table with the keys of the loaded keymap, so that it is never stale. What does nothing on this
//! screen, on this object, for this user or under `--read-only` is grey, with the reason.
//! Owns in how many columns; must not know what a command does.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::frame;
use crate::fleet::Verdict;
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::keymap::Keymap;
use crate::tui::paint::{Paint, put, verdict_scope};
use crate::tui::theme::Scope;
use capstan_base::text;

/// Cells for the keys of a command, with a gap.
pub const KEYS_WIDTH: usize = 14;
/// Cells for what a command does, at least, when it stands beside it.
const HELP_WIDTH_MIN: usize = 20;
/// Where it begins when it stands below.
const INDENT: usize = 4;
/// A column of help is at least as wide.
const COLUMN_WIDTH_MIN: usize = 70;
const COLUMNS_MAX: usize = 3;
/// Below this width only the way out is hinted.
const HINTS_WIDTH_MIN: u16 = 60;
const GAP: usize = 3;

/// What the words on screen do not say.
const LEGEND: [&str; 4] = [
    "3/4: three of four wanted replicas are available. 4/3: one more than wanted.",
    "SINCE: for how long it has been so.",
    "A verdict is never better than what is under it.",
    "Commands without a key are in the command line; tab completes.",
];

/// The same of columns that not every screen has.
const LETTERS: &str = "D C R A U: desired, current, ready, available, up-to-date replicas.";

/// One command as help shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandHelp {
    pub keys: String,
    /// The command with its argument.
    pub usage: String,
    pub help: &'static str,
    /// Why it does nothing now.
    pub refusal: Option<String>,
}

/// Commands that belong together, under a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpGroup {
    pub title: &'static str,
    pub entries: Vec<CommandHelp>,
}

/// Help for the open screen and what is selected there, as they were when it was opened.
pub struct Help {
    groups: Vec<HelpGroup>,
    /// The screen counts replicas under letters.
    has_letters: bool,
    /// Only commands with these words.
    filter: String,
    scroll: Scroll,
}

impl Help {
    pub fn new(groups: Vec<HelpGroup>, has_letters: bool) -> Self {
        Self { groups, has_letters, filter: String::new(), scroll: Scroll::default() }
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn set_filter(&mut self, words: &str) {
        self.filter = words.to_lowercase();
        self.scroll = Scroll::default();
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        let height = self.columns(area, None).iter().map(Vec::len).max().unwrap_or(0);
        self.scroll.step(motion, height, frame::text_height(area));
    }

    pub fn view(&self, keymap: &Keymap, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let columns = self.columns(area, Some(paint));
        let height = columns.iter().map(Vec::len).max().unwrap_or(0);
        let title = format!("help: keymap {}, theme {}", keymap.name, paint.theme.name);
        let filter = [paint.span(Scope::Key, "/ "), paint.span(Scope::KeyText, "filter  ")];
        let close = [paint.span(Scope::Key, "esc "), paint.span(Scope::KeyText, "close ")];
        // The count of the lines below stands beside them.
        let shown = if area.width < HINTS_WIDTH_MIN { &[][..] } else { &filter[..] };
        let hints =
            Line::from_iter(std::iter::once(Span::raw(" ")).chain(shown.iter().cloned()).chain(close));
        let inside = frame::open(&title, &hints, height, u16::MAX, paint, area, buffer);
        let page = usize::from(inside.height);
        let first = self.scroll.clamped(height, page);
        let step = (usize::from(inside.width) + GAP) / columns.len().max(1);
        for (column, lines) in columns.iter().enumerate() {
            let x = inside.x + u16::try_from(column * step).unwrap_or(u16::MAX).min(inside.width);
            let width = u16::try_from(step - GAP).unwrap_or(u16::MAX).min(inside.right() - x);
            for (y, line) in (inside.y..inside.bottom()).zip(lines.iter().skip(first)) {
                put(buffer, x, y, line, width);
            }
        }
        if first + page < height {
            let edge = Rect { y: inside.bottom(), height: 1, ..inside };
            frame::more_below(height - first - page, Scope::Muted, edge, paint, buffer);
        }
    }

    /// The lines side by side: the legend first, then a block for each group, none torn apart.
    fn columns(&self, area: Rect, paint: Option<&Paint<'_>>) -> Vec<Vec<Line<'static>>> {
        let inside = frame::text_width(area, u16::MAX);
        let count = ((inside + GAP) / (COLUMN_WIDTH_MIN + GAP)).clamp(1, COLUMNS_MAX);
        let room = ((inside + GAP) / count).saturating_sub(GAP);
        let mut blocks = Vec::new();
        if self.filter.is_empty() {
            blocks.push(self.legend(room, paint));
        }
        blocks.extend(self.groups.iter().map(|group| self.block(group, room, paint)));
        blocks.retain(|block| !block.is_empty());
        let height = blocks.iter().map(|block| block.len() + 1).sum::<usize>().div_ceil(count);
        let mut columns: Vec<Vec<Line<'static>>> = vec![Vec::new()];
        for block in blocks {
            let used = columns.last().map_or(0, Vec::len);
            if used > 0 && used + block.len() > height && columns.len() < count {
                columns.push(Vec::new());
            }
            if let Some(column) = columns.last_mut() {
                if !column.is_empty() {
                    column.push(Line::default());
                }
                column.extend(block);
            }
        }
        if columns == [Vec::new()] {
            columns[0].push(styled(
                paint,
                Scope::Muted,
                "no command with these words has a key here".to_owned(),
            ));
        }
        columns
    }

    /// What glyphs and letters on the screens mean.
    fn legend(&self, room: usize, paint: Option<&Paint<'_>>) -> Vec<Line<'static>> {
        let mut lines = vec![styled(paint, Scope::OverlayTitle, "Reading the screen".to_owned())];
        let mut verdicts = Line::default();
        let all = [Verdict::Ok, Verdict::Progressing, Verdict::Unknown, Verdict::Degraded, Verdict::Blocked];
        for verdict in all {
            let glyph = paint.map_or("?", |p| p.verdict_glyph(verdict));
            let part = styled(paint, verdict_scope(verdict), format!("  {glyph} {}", verdict.word()));
            if verdicts.width() + part.width() > room {
                lines.push(std::mem::take(&mut verdicts));
            }
            verdicts.extend(part);
        }
        lines.push(verdicts);
        let words = self
            .has_letters
            .then_some(&LETTERS)
            .into_iter()
            .chain(&LEGEND)
            .flat_map(|words| capstan_base::text::wrap(&format!("  {words}"), room));
        lines.extend(words.map(|words| styled(paint, Scope::Muted, words)));
        lines
    }

    /// A group of commands under its title; empty without any.
    fn block(&self, group: &HelpGroup, room: usize, paint: Option<&Paint<'_>>) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let entries = || self.groups.iter().flat_map(|group| &group.entries);
        let usage_width = entries().map(|entry| text::width(&entry.usage)).max().unwrap_or(0) + 1;
        for entry in group.entries.iter().filter(|entry| entry.has(&self.filter)) {
            if lines.is_empty() {
                lines.push(styled(paint, Scope::OverlayTitle, group.title.to_owned()));
            }
            lines.extend(entry.lines(room, usage_width, paint));
        }
        lines
    }
}

impl CommandHelp {
    fn has(&self, words: &str) -> bool {
        let text = format!("{} {} {}", self.keys, self.usage, self.help).to_lowercase();
        words.split_whitespace().all(|word| text.contains(word))
    }

    /// Beside the keys and the command what it does; below them where there is little room.
    fn lines(&self, room: usize, usage_width: usize, paint: Option<&Paint<'_>>) -> Vec<Line<'static>> {
        let beside = 2 + KEYS_WIDTH + usage_width;
        let indent = if room < beside + HELP_WIDTH_MIN { INDENT } else { beside };
        let words = self.refusal.as_ref().map_or_else(|| self.help.to_owned(), |why| format!("({why})"));
        let (key, usage) = match self.refusal {
            None => (Scope::Key, Scope::Text),
            Some(_) => (Scope::Muted, Scope::Muted),
        };
        let mut first = Line::default();
        first.extend(styled(paint, key, format!("  {:<KEYS_WIDTH$}", self.keys)));
        first.extend(styled(paint, usage, format!("{:<usage_width$}", self.usage)));
        let mut parts = capstan_base::text::wrap(&words, room.saturating_sub(indent).max(1)).into_iter();
        if indent == beside {
            first.extend(styled(paint, Scope::Muted, parts.next().unwrap_or_default()));
        }
        let more = parts.map(|part| styled(paint, Scope::Muted, format!("{:indent$}{part}", "")));
        std::iter::once(first).chain(more).collect()
    }
}

fn styled(paint: Option<&Paint<'_>>, scope: Scope, text: String) -> Line<'static> {
    match paint {
        Some(paint) => Line::from(paint.span(scope, text)),
        None => Line::from(text),
    }
}
