//! Help: the command table with the keys of the loaded keymap, so that it is never stale.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::frame;
use crate::tui::command::{Scope as Group, TABLE};
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
const USAGE_WIDTH: usize = 22;

/// What can be read from the words on screen alone.
const LEGEND: [&str; 2] = [
    "D C R A U: desired, current, ready, available, up-to-date replicas.",
    "Rules of a verdict: nothing above looks better than what is under it.",
];

impl Help {
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, scroll: Scroll::default() }
    }

    fn line_count() -> usize {
        TABLE.len() + 2 * Group::ALL.len() + LEGEND.len()
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        self.scroll.step(motion, Self::line_count(), frame::text_height(area));
    }

    fn lines(&self, keymap: &Keymap, paint: &Paint<'_>) -> Vec<Line<'static>> {
        let mut lines: Vec<Line<'static>> = Vec::with_capacity(Self::line_count());
        for group in Group::ALL {
            lines.push(Line::from(paint.span(Scope::OverlayTitle, group.title())));
            let mode = if group == Group::Dialog { Mode::Dialog } else { self.mode };
            for command in TABLE.iter().filter(|c| c.scope == group) {
                let keys = keys_of(keymap, mode, command.name);
                lines.push(Line::from(vec![
                    paint.span(Scope::Key, format!("  {:<KEYS_WIDTH$}", paint.cut(&keys, KEYS_WIDTH - 1))),
                    paint.span(Scope::Text, format!("{:<USAGE_WIDTH$}", command.usage())),
                    paint.span(Scope::Muted, command.help),
                ]));
            }
            lines.push(Line::default());
        }
        lines.extend(LEGEND.map(|text| Line::from(paint.span(Scope::Muted, text))));
        lines
    }

    pub fn view(&self, model: &Model, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let lines = self.lines(&model.look.keymap, paint);
        let title = format!("help: keymap {}, theme {}", model.look.keymap.name, model.look.theme.name);
        let hints = Line::from(vec![
            Span::raw(" "),
            paint.span(Scope::Key, "esc "),
            paint.span(Scope::KeyText, "close "),
        ]);
        let inside = frame::open(&title, &hints, lines.len(), paint, area, buffer);
        frame::scrolled(&lines, self.scroll, inside, buffer);
    }
}

/// The keys of a command, bare or with its line begun in the prompt.
fn keys_of(keymap: &Keymap, mode: Mode, name: &str) -> String {
    let mut keys = keymap.keys_for(mode, name);
    keys.extend(keymap.keys_for(mode, &format!("prompt {name}")));
    keys.join(", ")
}
