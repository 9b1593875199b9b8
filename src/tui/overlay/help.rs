//! Help: the commands with the keys of the loaded keymap, so that it is never stale. Must not know what a command
//! does.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::frame;
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::keymap::{Keymap, Mode};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;

/// One command as help shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandHelp {
    pub name: &'static str,
    /// With its argument.
    pub usage: String,
    pub help: &'static str,
    /// It answers dialogs, whatever screen is below.
    pub in_dialogs: bool,
}

/// Commands that belong together, under a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpGroup {
    pub title: &'static str,
    pub entries: Vec<CommandHelp>,
}

/// Help for one mode.
pub struct Help {
    mode: Mode,
    groups: Vec<HelpGroup>,
    scroll: Scroll,
}

const KEYS_WIDTH: usize = 14;
const USAGE_WIDTH: usize = 20;

/// What the words on screen do not say.
const LEGEND: [&str; 2] = [
    "D C R A U: desired, current, ready, available, up-to-date replicas.",
    "A verdict is never better than what is under it.",
];

/// One line before it has colours.
enum Part<'a> {
    Title(&'static str),
    /// A command with the first line of its help.
    Command(&'a CommandHelp, String),
    /// Further lines of the same.
    More(String),
    Note(&'static str),
    Blank,
}

impl Help {
    #[must_use]
    pub fn new(mode: Mode, groups: Vec<HelpGroup>) -> Self {
        Self { mode, groups, scroll: Scroll::default() }
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        let lines = parts(&self.groups, area).len();
        self.scroll.step(motion, lines, frame::text_height(area));
    }

    fn line(&self, part: Part<'_>, keymap: &Keymap, paint: &Paint<'_>) -> Line<'static> {
        match part {
            Part::Blank => Line::default(),
            Part::Title(text) => Line::from(paint.span(Scope::OverlayTitle, text)),
            Part::Note(text) => Line::from(paint.span(Scope::Muted, text)),
            Part::More(text) => {
                let indent = 2 + KEYS_WIDTH + USAGE_WIDTH;
                Line::from(paint.span(Scope::Muted, format!("{:indent$}{text}", "")))
            }
            Part::Command(command, help) => {
                let mode = if command.in_dialogs { Mode::Dialog } else { self.mode };
                let keys = keys_of(keymap, mode, command.name);
                Line::from(vec![
                    paint.span(Scope::Key, format!("  {keys:<KEYS_WIDTH$}")),
                    paint.span(Scope::Text, format!("{:<USAGE_WIDTH$}", command.usage)),
                    paint.span(Scope::Muted, help),
                ])
            }
        }
    }

    pub fn view(&self, keymap: &Keymap, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let lines: Vec<Line<'static>> =
            parts(&self.groups, area).into_iter().map(|part| self.line(part, keymap, paint)).collect();
        let title = format!("help: keymap {}, theme {}", keymap.name, paint.theme.name);
        let hints = Line::from(vec![
            Span::raw(" "),
            paint.span(Scope::Key, "esc "),
            paint.span(Scope::KeyText, "close "),
        ]);
        let inside = frame::open(&title, &hints, lines.len(), paint, area, buffer);
        frame::scrolled(&lines, self.scroll, inside, buffer);
    }
}

fn parts(groups: &[HelpGroup], area: Rect) -> Vec<Part<'_>> {
    let room = frame::text_width(area).saturating_sub(2 + KEYS_WIDTH + USAGE_WIDTH).max(10);
    let mut parts = Vec::new();
    for group in groups {
        parts.push(Part::Title(group.title));
        for command in &group.entries {
            let mut lines = crate::text::wrap(command.help, room).into_iter();
            parts.push(Part::Command(command, lines.next().unwrap_or_default()));
            parts.extend(lines.map(Part::More));
        }
        parts.push(Part::Blank);
    }
    parts.extend(LEGEND.map(Part::Note));
    parts
}

/// The keys of a command, bare or with its line begun in the prompt.
fn keys_of(keymap: &Keymap, mode: Mode, name: &str) -> String {
    let mut keys = keymap.keys_for(mode, name);
    keys.extend(keymap.keys_for(mode, &format!("prompt {name}")));
    let mut text = String::new();
    for key in keys {
        let more = if text.is_empty() { key } else { format!("{text}, {key}") };
        // As many as fit: each is another way to the same.
        if more.len() < KEYS_WIDTH {
            text = more;
        }
    }
    text
}
