//! A line in place of a prompt that cannot be opened here. Takes every key until enter or escape: whoever has pressed
//! the key of a prompt goes on typing words, and their letters must not act.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Clear, Widget as _};

use super::Answer;
use crate::tui::paint::{Paint, put_ends};
use crate::tui::theme::Scope;

/// Blanks between the sentence and the key, at least.
const GAP: usize = 2;

pub struct Refusal {
    why: String,
}

impl Refusal {
    pub fn new(why: String) -> Self {
        Self { why }
    }

    pub fn on_key(&mut self, event: KeyEvent) -> Answer {
        match (event.code, event.modifiers) {
            (KeyCode::Esc | KeyCode::Enter, _) | (KeyCode::Char('c' | 'g'), KeyModifiers::CONTROL) => {
                Answer::Close
            }
            _ => Answer::Handled,
        }
    }

    pub fn view(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let line = Rect { y: area.bottom() - 1, height: 1, ..area };
        Clear.render(line, buffer);
        let width = usize::from(area.width);
        let why = format!(" {} {}", paint.glyphs().unknown, self.why);
        let (key, word) = (" enter ", "goes on ");
        // The reason matters more than what the key is for.
        let is_roomy = capstan_base::text::width(&why) + GAP + key.len() + word.len() <= width;
        let word = if is_roomy { word } else { "" };
        let room = width.saturating_sub(GAP + key.len() + word.len());
        let why = Line::from(paint.span(Scope::NoticeWarning, paint.cut(&why, room)));
        // At the other end, or it would be read as the end of the sentence.
        let hint = Line::from(vec![paint.span(Scope::Key, key), paint.span(Scope::KeyText, word)]);
        put_ends(buffer, line, &why, &hint);
    }
}
