//! Help: the command table with the keys of the loaded keymap, so that it is never stale.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::frame;
use crate::tui::command::{Command, Scope as Group, TABLE};
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::keymap::{Keymap, Mode};
use crate::tui::model::Model;
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;

/// Help for one mode.
pub struct Help {
    mode: Mode,
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
enum Part {
    Title(&'static str),
    /// A command with the first line of its help.
    Command(&'static Command, String),
    /// Further lines of the same.
    More(String),
    Note(&'static str),
    Blank,
}

impl Help {
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, scroll: Scroll::default() }
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        self.scroll.step(motion, parts(area).len(), frame::text_height(area));
    }

    fn line(&self, part: Part, keymap: &Keymap, paint: &Paint<'_>) -> Line<'static> {
        match part {
            Part::Blank => Line::default(),
            Part::Title(text) => Line::from(paint.span(Scope::OverlayTitle, text)),
            Part::Note(text) => Line::from(paint.span(Scope::Muted, text)),
            Part::More(text) => {
                let indent = 2 + KEYS_WIDTH + USAGE_WIDTH;
                Line::from(paint.span(Scope::Muted, format!("{:indent$}{text}", "")))
            }
            Part::Command(command, help) => {
                let mode = if command.scope == Group::Dialog { Mode::Dialog } else { self.mode };
                let keys = keys_of(keymap, mode, command.name);
                Line::from(vec![
                    paint.span(Scope::Key, format!("  {keys:<KEYS_WIDTH$}")),
                    paint.span(Scope::Text, format!("{:<USAGE_WIDTH$}", command.usage())),
                    paint.span(Scope::Muted, help),
                ])
            }
        }
    }

    pub fn view(&self, model: &Model, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let keymap = &model.look.keymap;
        let lines: Vec<Line<'static>> =
            parts(area).into_iter().map(|part| self.line(part, keymap, paint)).collect();
        let title = format!("help: keymap {}, theme {}", keymap.name, model.look.theme.name);
        let hints = Line::from(vec![
            Span::raw(" "),
            paint.span(Scope::Key, "esc "),
            paint.span(Scope::KeyText, "close "),
        ]);
        let inside = frame::open(&title, &hints, lines.len(), paint, area, buffer);
        frame::scrolled(&lines, self.scroll, inside, buffer);
    }
}

fn parts(area: Rect) -> Vec<Part> {
    let room = frame::text_width(area).saturating_sub(2 + KEYS_WIDTH + USAGE_WIDTH).max(10);
    let mut parts = Vec::new();
    for group in Group::ALL {
        parts.push(Part::Title(group.title()));
        for command in TABLE.iter().filter(|c| c.scope == group) {
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
