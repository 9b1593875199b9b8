//! An action before it is performed: what will happen, what speaks against it, the exact difference, and
//! a confirmation in proportion: enter twice, `yes`, or the object's name. No letter alone is a yes, as
//! letters move about everywhere else. What was not on the screen to its end cannot be confirmed, and a
//! blocked action not at all. Owns the keys and how far the conversation is; must not know how a write is sent.

mod lines;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

use self::lines::{QuestionLine, body, styled};
use super::reading::{ReadState, Reading};
use super::{Answer, frame};
use crate::actions::{Order, Outlook, PatchFile, Proposal, Request};
use crate::fleet::SourceId;
use crate::operations::Confirmation;
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::effect::Effect;
use crate::tui::paint::{Paint, put};
use crate::tui::theme::Scope;
use capi_types::key::ObjectKey;
use capstan_base::text;
use capstan_base::time::Timestamp;

/// How far the conversation is.
enum Stage {
    /// Access review, preflight and dry run are under way.
    Asking,
    /// To be confirmed or not.
    Ready(Proposal),
    /// Sent; the answer is on its way.
    Performing(Proposal),
}

/// How far the first yes of two is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    No,
    /// The last key was it.
    Last,
    /// The key before this one was it.
    Before,
}

pub struct PreviewBox {
    pub ticket: u64,
    source: SourceId,
    order: Order,
    stage: Stage,
    /// What was typed so far, where a word has to be typed.
    typed: Input,
    /// Enter was pressed behind another word.
    is_missed: bool,
    scroll: Scroll,
    reading: Reading,
    first: First,
}

impl PreviewBox {
    /// `confirm_after_s`: from its end on the screen to a yes.
    pub fn new(ticket: u64, source: SourceId, order: Order, confirm_after_s: u32) -> Self {
        Self {
            ticket,
            source,
            order,
            stage: Stage::Asking,
            typed: Input::default(),
            is_missed: false,
            scroll: Scroll::default(),
            reading: Reading::new(confirm_after_s),
            first: First::No,
        }
    }

    /// What the server is asked before anything is shown.
    pub fn question(&self) -> Effect {
        Effect::Preview { ticket: self.ticket, source: self.source, order: self.order.clone() }
    }

    pub fn show(&mut self, proposal: Proposal) {
        self.stage = Stage::Ready(proposal);
    }

    /// The Cluster whose configuration is changed.
    pub fn changed_cluster(&self) -> Option<(SourceId, &ObjectKey)> {
        match &self.order {
            Order::Change { cluster, .. } => Some((self.source, cluster)),
            Order::Action(_) => None,
        }
    }

    /// It was drawn on a screen of this size.
    pub fn was_drawn(&mut self, area: Rect, now: Timestamp) {
        if matches!(self.stage, Stage::Ready(_)) {
            self.reading.was_drawn(self.shows_end(area), now);
        }
    }

    /// Its last line is on a screen of this size.
    fn shows_end(&self, area: Rect) -> bool {
        let (lines, page) = self.extent(area);
        self.scroll.clamped(lines, page) + page >= lines
    }

    /// What can be confirmed now; `None` while something is not known or was not read.
    fn confirmable(&self) -> Option<&Proposal> {
        match &self.stage {
            Stage::Ready(preview) if preview.is_allowed() && self.reading.is_done() => Some(preview),
            _ => None,
        }
    }

    /// What has to be typed before enter; `None`: nothing, or it cannot be confirmed.
    fn word(&self) -> Option<&str> {
        self.word_for(self.confirmable()?)
    }

    fn word_for(&self, preview: &Proposal) -> Option<&str> {
        match preview.confirmation() {
            Confirmation::Enter => None,
            Confirmation::Yes => Some("yes"),
            Confirmation::Name => Some(self.order.name()),
        }
    }

    pub fn on_key(&mut self, event: KeyEvent) -> Option<Answer> {
        // Every key between two yeses takes the first one back.
        self.first = if self.first == First::Last { First::Before } else { First::No };
        // Without a word to type, or before the end was seen, keys move about.
        let is_right = self.typed.value() == self.word()?;
        self.is_missed = event.code == KeyCode::Enter && !is_right && !self.typed.value().is_empty();
        match (event.code, event.modifiers) {
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'g'), KeyModifiers::CONTROL) => Some(Answer::Close),
            // The bindings of this key and of those below hold while the word is being typed.
            (KeyCode::Char('s'), KeyModifiers::CONTROL) => None,
            (KeyCode::Enter, _) if is_right => Some(Answer::Effects(self.perform())),
            (KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown | KeyCode::Tab, _) => None,
            _ => {
                self.typed.handle_event(&Event::Key(event));
                Some(Answer::Handled)
            }
        }
    }

    pub fn on_paste(&mut self, text: &str) -> Option<Answer> {
        // Nothing is pasted ahead of what is read.
        self.word()?;
        self.typed = Input::new(format!("{}{}", self.typed.value(), text.trim()));
        Some(Answer::Handled)
    }

    /// A yes by key: the second of two in a row does it, where no word has to be typed.
    pub fn confirm(&mut self) -> Vec<Effect> {
        if self.confirmable().is_none_or(|preview| self.word_for(preview).is_some()) {
            return Vec::new();
        }
        if self.first == First::Before {
            return self.perform();
        }
        self.first = First::Last;
        Vec::new()
    }

    /// Are there extensions that could be asked, and were not?
    fn can_ask(&self) -> bool {
        let (Order::Action(_), Stage::Ready(preview)) = (&self.order, &self.stage) else { return false };
        match preview.outlook() {
            Outlook::Known(change) => change.updates.as_ref().is_some_and(|updates| !updates.asked),
            Outlook::NotPlanned | Outlook::Unknown(_) => false,
        }
    }

    /// The change as a patch, where there is one.
    fn patch_file(&self) -> Option<PatchFile> {
        let Stage::Ready(Proposal::Action(preview)) = &self.stage else { return None };
        preview.patch_file()
    }

    /// Somebody else sets what is changed, so that a patch is the better way.
    fn belongs_elsewhere(&self) -> bool {
        let Stage::Ready(Proposal::Action(preview)) = &self.stage else { return false };
        preview.belongs_elsewhere() && self.patch_file().is_some()
    }

    /// Writes the change as a patch into a new file of the folder that the program runs in.
    ///
    /// # Errors
    /// It is not known yet, or is not a patch.
    pub fn save_patch(&self) -> Result<Vec<Effect>, String> {
        let PatchFile { name, text } = self.patch_file().ok_or_else(|| {
            "there is no patch to write: it is not known yet, or is not a change of fields".to_owned()
        })?;
        Ok(vec![Effect::Write { path: name.into(), text }])
    }

    /// The same preview once more, after the extensions were asked.
    ///
    /// # Errors
    /// There is nobody to ask.
    pub fn ask_extensions(&mut self, ticket: u64) -> Result<Vec<Effect>, String> {
        let Order::Action(request) = &self.order else {
            return Err("no extension is asked about it".to_owned());
        };
        if !self.can_ask() {
            return Err("there is no extension to ask about it, or it was asked".to_owned());
        }
        let request = Request { asks_extensions: true, ..request.clone() };
        // From the beginning: what is confirmed has to be the preview that has their answers.
        *self = Self::new(ticket, self.source, Order::Action(request), self.reading.wait_s());
        Ok(vec![self.question()])
    }

    fn perform(&mut self) -> Vec<Effect> {
        // The stage goes with the proposal, so that nothing is sent twice.
        match std::mem::replace(&mut self.stage, Stage::Asking) {
            Stage::Ready(proposal) => {
                let (ticket, source) = (self.ticket, self.source);
                self.stage = Stage::Performing(proposal.clone());
                vec![Effect::Perform { ticket, source, proposal }]
            }
            other => {
                self.stage = other;
                Vec::new()
            }
        }
    }

    /// Closing now would hide whether something was changed.
    pub fn can_close(&self) -> bool {
        !matches!(self.stage, Stage::Performing(_))
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        let (lines, page) = self.extent(area);
        self.scroll.step(motion, lines, page);
    }

    /// How many lines of text there are, and how many fit above the question.
    fn extent(&self, area: Rect) -> (usize, usize) {
        let width = frame::text_width(area, frame::WIDTH_MAX);
        let read = if self.reading.is_done() { ReadState::Read } else { ReadState::Below };
        let (lines, below) = (self.lines(None, width).len(), 1 + self.asked(width, read, None).len());
        (lines, frame::text_height(area).saturating_sub(below).clamp(1, lines.max(1)))
    }

    fn lines(&self, paint: Option<&Paint<'_>>, width: usize) -> Vec<Line<'static>> {
        match &self.stage {
            Stage::Asking => {
                vec![styled(paint, Scope::Muted, "asking the server what would happen".to_owned())]
            }
            Stage::Ready(preview) | Stage::Performing(preview) => body(preview, paint, width),
        }
    }

    pub fn view(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) -> Option<Position> {
        let width = frame::text_width(area, frame::WIDTH_MAX);
        let title = paint.cut(&self.order.to_string(), width);
        let read = self.reading.state(self.shows_end(area), paint.now());
        let (lines, question) = (self.lines(Some(paint), width), self.asked(width, read, Some(paint)));
        let wanted = lines.len() + 1 + question.len();
        let inside = frame::open(&title, &self.hints(paint), wanted, frame::WIDTH_MAX, paint, area, buffer);
        let asked = u16::try_from(question.len()).unwrap_or(u16::MAX).min(inside.height);
        let page = inside.height.saturating_sub(asked + 1);
        frame::scrolled(&lines, self.scroll, Rect { height: page, ..inside }, buffer);
        let shown = self.scroll.clamped(lines.len(), page.into()) + usize::from(page);
        let scope = if read == ReadState::Below { Scope::NoticeWarning } else { Scope::Muted };
        let marker = Rect { y: inside.y + page, height: inside.height.min(1), ..inside };
        frame::more_below(lines.len().saturating_sub(shown), scope, marker, paint, buffer);
        let first = inside.bottom() - asked;
        let mut cursor = None;
        for (y, part) in (first..inside.bottom()).zip(&question) {
            put(buffer, inside.x, y, &Line::from(paint.span(part.scope, part.text.clone())), inside.width);
            if part.has_field {
                cursor =
                    self.view_field(text::width(&part.text), Rect { y, height: 1, ..inside }, paint, buffer);
            }
        }
        cursor
    }

    /// What was typed, behind the words of the question; answers where the cursor belongs.
    fn view_field(
        &self,
        after: usize,
        line: Rect,
        paint: &Paint<'_>,
        buffer: &mut Buffer,
    ) -> Option<Position> {
        let room = usize::from(line.width).saturating_sub(after + 1);
        let scroll = self.typed.visual_scroll(room);
        let shown: String = self.typed.value().chars().skip(scroll).collect();
        let x = line.x + u16::try_from(after).unwrap_or(u16::MAX).min(line.width);
        put(buffer, x, line.y, &Line::from(paint.span(Scope::Prompt, shown)), line.right().saturating_sub(x));
        let column = u16::try_from(self.typed.visual_cursor().saturating_sub(scroll)).unwrap_or(u16::MAX);
        Some(Position { x: x.saturating_add(column).min(line.right().saturating_sub(1)), y: line.y })
    }

    /// What is asked, or why nothing is, in lines.
    fn asked(&self, width: usize, read: ReadState, paint: Option<&Paint<'_>>) -> Vec<QuestionLine> {
        let plain = |scope, words: &str| QuestionLine::all(scope, words, width, false);
        match &self.stage {
            Stage::Asking => Vec::new(),
            Stage::Performing(_) => plain(Scope::Muted, "sent, waiting for the answer"),
            Stage::Ready(preview) if !preview.is_allowed() => {
                plain(Scope::NoticeError, "This cannot be done now.")
            }
            Stage::Ready(preview) => {
                let Some(words) = read.words(paint) else { return self.confirmation(preview, width) };
                let mut parts = plain(Scope::NoticeWarning, &words);
                // As high as what is said and asked then, so that the end stays on the screen.
                let later = [ReadState::Below, ReadState::Waits(self.reading.wait_s())];
                let said = later.iter().filter_map(|state| state.words(None));
                let said = said.map(|words| plain(Scope::Text, &words).len()).max().unwrap_or(0);
                parts.resize_with(said.max(self.confirmation(preview, width).len()), QuestionLine::blank);
                parts
            }
        }
    }

    fn confirmation(&self, preview: &Proposal, width: usize) -> Vec<QuestionLine> {
        let (scope, words) = match self.word_for(preview) {
            Some(word) if self.is_missed => {
                (Scope::NoticeError, format!("That is another word. Type {word}, then enter: "))
            }
            Some(word) => (Scope::NoticeWarning, format!("Type {word}, then enter: ")),
            None if self.first == First::Last => (Scope::NoticeWarning, "Enter again does it.".to_owned()),
            None => (Scope::Text, "Enter twice does it.".to_owned()),
        };
        QuestionLine::all(scope, &words, width, self.word_for(preview).is_some())
    }

    fn hints(&self, paint: &Paint<'_>) -> Line<'static> {
        let words = match &self.stage {
            Stage::Performing(_) => return Line::default(),
            Stage::Asking => "forget it",
            Stage::Ready(preview) if preview.is_allowed() => "leave it as it is",
            Stage::Ready(_) => "close",
        };
        let mut keys = vec![paint.span(Scope::Key, " esc "), paint.span(Scope::KeyText, format!("{words} "))];
        if self.can_ask() {
            keys.push(paint.span(Scope::Key, " tab "));
            keys.push(paint.span(Scope::KeyText, "ask extensions ".to_owned()));
        }
        if self.belongs_elsewhere() {
            keys.push(paint.span(Scope::Key, " ctrl-s "));
            keys.push(paint.span(Scope::KeyText, "write it as a patch file instead ".to_owned()));
        }
        Line::from(keys)
    }
}

#[cfg(test)]
mod tests;
