//! The command and filter line, with completion below the cursor's word and history.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Clear, Widget as _};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

use super::Answer;
use crate::fleet::{FilterError, Query};
use crate::operations::PathError;
use crate::tui::cursor::Motion;
use crate::tui::paint::{Paint, put};
use crate::tui::screen::chosen_columns::ChosenColumns;
use crate::tui::theme::Scope;

/// Completions shown at once.
const SHOWN_MAX: usize = 8;
const LINE_WIDTH: usize = 24;
/// A line of paths begins so, which are judged as one types.
const COLUMNS: &str = "columns";

/// Longest line that is taken; a paste may be anything.
const LINE_CHARS_MAX: usize = 256;

/// One line that may be meant, with what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub line: String,
    /// Or why it does nothing here.
    pub note: String,
    pub is_refused: bool,
}

/// What the line is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    Command,
    /// Narrows the screen while one types; holds what it was before, and what may be typed.
    Filter {
        before: String,
        hint: &'static str,
    },
}

pub struct Prompt {
    purpose: Purpose,
    input: Input,
    completions: Vec<Completion>,
    /// Which completion stands in the line; `None` while one types.
    chosen: Option<usize>,
    /// Steps back in the history; 0 is the line one types.
    back: usize,
}

impl Prompt {
    pub fn command(line: &str) -> Self {
        Self::new(Purpose::Command, line)
    }

    pub fn filter(before: &str, hint: &'static str) -> Self {
        Self::new(Purpose::Filter { before: before.to_owned(), hint }, before)
    }

    fn new(purpose: Purpose, line: &str) -> Self {
        Self { purpose, input: Input::new(line.to_owned()), completions: Vec::new(), chosen: None, back: 0 }
    }

    /// The command line as typed, when completions for it are wanted.
    pub fn wants_completions(&self) -> Option<&str> {
        // While one steps through the completions, they stay those of what was typed.
        (self.purpose == Purpose::Command && self.chosen.is_none()).then(|| self.input.value())
    }

    pub fn set_completions(&mut self, completions: Vec<Completion>) {
        self.completions = completions;
    }

    pub fn on_key(&mut self, event: KeyEvent, history: &[String]) -> Answer {
        let is_command = self.purpose == Purpose::Command;
        match (event.code, event.modifiers) {
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'g'), KeyModifiers::CONTROL) => return self.cancel(),
            (KeyCode::Backspace, _) if self.input.value().is_empty() => return self.cancel(),
            (KeyCode::Enter, _) if is_command => {
                let line = self.input.value().trim().to_owned();
                return if line.is_empty() { Answer::Close } else { Answer::Run(line) };
            }
            (KeyCode::Enter, _) => return Answer::Close,
            // A filter has no history, and its rows can be moved through while one types.
            (KeyCode::Up, _) if !is_command => return Answer::Move(Motion::Up),
            (KeyCode::Down, _) if !is_command => return Answer::Move(Motion::Down),
            (KeyCode::PageUp, _) => return Answer::Move(Motion::PageUp),
            (KeyCode::PageDown, _) => return Answer::Move(Motion::PageDown),
            (KeyCode::Tab, _) => self.choose(1),
            (KeyCode::BackTab, _) => self.choose(-1),
            (KeyCode::Up, _) => self.recall(1, history),
            (KeyCode::Down, _) => self.recall(-1, history),
            _ => {
                if self.input.handle_event(&Event::Key(event)).is_some_and(|change| change.value) {
                    self.typed();
                    return self.changed();
                }
            }
        }
        Answer::Handled
    }

    pub fn on_paste(&mut self, text: &str) -> Answer {
        let (before, after): (String, String) = {
            let at = self.input.cursor();
            (self.input.value().chars().take(at).collect(), self.input.value().chars().skip(at).collect())
        };
        let line: String = format!("{before}{text}{after}").chars().take(LINE_CHARS_MAX).collect();
        let cursor = (before.chars().count() + text.chars().count()).min(line.chars().count());
        self.input = Input::new(line).with_cursor(cursor);
        self.typed();
        self.changed()
    }

    fn typed(&mut self) {
        self.chosen = None;
        self.back = 0;
    }

    fn changed(&self) -> Answer {
        match self.purpose {
            Purpose::Command => Answer::Handled,
            Purpose::Filter { .. } => Answer::Filter(self.input.value().to_owned()),
        }
    }

    /// Escape puts back what the filter was.
    fn cancel(&self) -> Answer {
        match &self.purpose {
            Purpose::Filter { before, .. } => Answer::CloseWithFilter(before.clone()),
            Purpose::Command => Answer::Close,
        }
    }

    fn choose(&mut self, step: isize) {
        let count = self.completions.len();
        if count == 0 {
            return;
        }
        let next = match self.chosen {
            None if step > 0 => 0,
            None => count - 1,
            Some(at) => (at + count).saturating_add_signed(step) % count,
        };
        self.chosen = Some(next);
        self.input = Input::new(self.completions[next].line.clone());
    }

    fn recall(&mut self, step: isize, history: &[String]) {
        self.back = self.back.saturating_add_signed(step).min(history.len());
        let line = if self.back == 0 { String::new() } else { history[history.len() - self.back].clone() };
        self.input = Input::new(line);
        self.chosen = None;
    }

    pub fn view(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) -> Option<Position> {
        if area.is_empty() {
            return None;
        }
        let y = area.bottom() - 1;
        let line_area = Rect { y, height: 1, ..area };
        Clear.render(line_area, buffer);
        let mark = if self.purpose == Purpose::Command { ":" } else { "/" };
        let room = usize::from(area.width.saturating_sub(3));
        let scroll = self.input.visual_scroll(room);
        let shown: String = self.input.value().chars().skip(scroll).collect();
        let line = Line::from(vec![
            paint.span(Scope::Key, format!(" {mark}")),
            paint.span(Scope::Prompt, capstan_base::text::truncate(&shown, room, "")),
        ]);
        put(buffer, area.x, y, &line, area.width);
        self.view_completions(paint, area, buffer);
        if let Some(error) = self.trouble() {
            self.view_trouble(&error, scroll, paint, area, buffer);
        }
        if let Purpose::Filter { hint, .. } = self.purpose
            && self.input.value().is_empty()
        {
            let hint = paint.cut(hint, room);
            let x =
                area.right().saturating_sub(u16::try_from(capstan_base::text::width(&hint) + 1).unwrap_or(0));
            put(buffer, x.max(area.x + 4), y, &Line::from(paint.span(Scope::Muted, hint)), area.width);
        }
        let column = self.input.visual_cursor().max(scroll) - scroll + 2;
        let x = area.x + u16::try_from(column).unwrap_or(u16::MAX).min(area.width - 1);
        Some(Position { x, y })
    }

    /// The part of a filter, or of columns, that cannot be understood. A filter without a hint takes any words.
    fn trouble(&self) -> Option<FilterError> {
        match &self.purpose {
            Purpose::Filter { hint, .. } if !hint.is_empty() => {
                Query { text: self.input.value().to_owned(), ..Query::default() }.trouble()
            }
            Purpose::Filter { .. } => None,
            Purpose::Command => {
                let (name, typed) = self.input.value().split_once(' ')?;
                if name != COLUMNS {
                    return None;
                }
                let PathError { at, length, why } = ChosenColumns::parse(typed).err()?;
                Some(FilterError { at: at + COLUMNS.len() + 1, length, why })
            }
        }
    }

    /// Marks the part in the line, and says above it what is wrong with it.
    fn view_trouble(
        &self,
        error: &FilterError,
        scroll: usize,
        paint: &Paint<'_>,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let cells = |from: usize, to: usize| {
            let between: String = self.input.value().chars().take(to).skip(from).collect();
            u16::try_from(capstan_base::text::width(&between)).unwrap_or(u16::MAX)
        };
        let end = error.at + error.length;
        let start = area.x.saturating_add(2).saturating_add(cells(scroll, error.at)).min(area.right());
        let width = cells(error.at.max(scroll), end).min(area.right() - start);
        let y = area.bottom() - 1;
        buffer.set_style(Rect { x: start, y, width, height: 1 }, paint.style(Scope::NoticeError));
        let Some(y) = y.checked_sub(1).filter(|y| *y >= area.y) else { return };
        let line = Rect { y, height: 1, ..area };
        Clear.render(line, buffer);
        let why = paint.cut(&error.why, usize::from(area.width.saturating_sub(2)));
        let needed = u16::try_from(capstan_base::text::width(&why) + 1).unwrap_or(u16::MAX);
        // Above its part, or as near as it fits.
        let x = start.min(area.right().saturating_sub(needed));
        put(buffer, x, y, &Line::from(paint.span(Scope::NoticeError, why)), area.width);
    }

    fn view_completions(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let shown = self.completions.len().min(SHOWN_MAX).min(usize::from(area.height.saturating_sub(1)));
        let skip = self.chosen.map_or(0, |at| (at + 1).saturating_sub(shown));
        let height = u16::try_from(shown).unwrap_or(0);
        let block = Rect { y: area.bottom() - 1 - height, height, ..area };
        Clear.render(block, buffer);
        let rows = self.completions.iter().enumerate().skip(skip);
        // The notes stand below each other, and have room.
        let widest =
            rows.clone().take(shown).map(|(_, completion)| capstan_base::text::width(&completion.line)).max();
        let most = (usize::from(area.width) / 2).max(LINE_WIDTH);
        let column = widest.unwrap_or(0).clamp(LINE_WIDTH, most);
        let room = usize::from(area.width).saturating_sub(column + 4);
        let hidden = self.completions.len().saturating_sub(skip + shown);
        for (y, (at, completion)) in (block.y..block.bottom()).zip(rows) {
            let is_last = y + 1 == block.bottom();
            let note = if is_last && hidden > 0 && completion.note.is_empty() {
                format!("and {hidden} more")
            } else {
                paint.cut(&completion.note, room)
            };
            let name = paint.cut(&completion.line, column);
            let line = Line::from(vec![
                paint.span(
                    if completion.is_refused { Scope::Muted } else { Scope::Suggestion },
                    format!("  {name:<column$} "),
                ),
                paint.span(Scope::Muted, note),
            ]);
            put(buffer, area.x, y, &line, area.width);
            if self.chosen == Some(at) {
                buffer.set_style(Rect { y, height: 1, ..area }, paint.style(Scope::Selection));
            }
        }
    }
}
