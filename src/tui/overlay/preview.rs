//! An action before it is done: what will happen, what speaks against it, the exact difference, and
//! a confirmation in proportion. A blocked action cannot be confirmed at all.

use crossterm::event::{Event, KeyCode, KeyEvent};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

use super::{Answer, frame};
use crate::actions::diff::Sign;
use crate::actions::{Finding, Preview, Request, Risk, Severity};
use crate::fleet::SourceId;
use crate::text;
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::effect::Effect;
use crate::tui::paint::{Paint, put};
use crate::tui::theme::Scope;

/// How far the conversation is.
enum Stage {
    /// Access review, preflight and dry run are under way.
    Asking,
    /// To be confirmed or not.
    Ready(Box<Preview>),
    /// Sent; the answer is on its way.
    Performing(Box<Preview>),
}

pub struct PreviewBox {
    pub ticket: u64,
    source: SourceId,
    request: Request,
    stage: Stage,
    /// The name typed so far, where one has to be typed.
    typed: Input,
    scroll: Scroll,
}

impl PreviewBox {
    #[must_use]
    pub fn new(ticket: u64, source: SourceId, request: Request) -> Self {
        Self {
            ticket,
            source,
            request,
            stage: Stage::Asking,
            typed: Input::default(),
            scroll: Scroll::default(),
        }
    }

    pub fn show(&mut self, preview: Box<Preview>) {
        self.stage = Stage::Ready(preview);
    }

    /// Whether the object's name has to be typed.
    fn wants_name(&self) -> bool {
        matches!(&self.stage, Stage::Ready(p) if p.is_allowed() && p.risk == Risk::High)
    }

    pub fn on_key(&mut self, event: KeyEvent) -> Option<Answer> {
        if !self.wants_name() {
            return None;
        }
        match event.code {
            KeyCode::Esc => Some(Answer::Close),
            KeyCode::Enter if self.typed.value() == self.request.target.key.name => {
                Some(Answer::Effects(self.perform()))
            }
            KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown => None,
            _ => {
                self.typed.handle_event(&Event::Key(event));
                Some(Answer::Handled)
            }
        }
    }

    pub fn on_paste(&mut self, text: &str) -> Option<Answer> {
        if !self.wants_name() {
            return None;
        }
        self.typed = Input::new(format!("{}{}", self.typed.value(), text.trim()));
        Some(Answer::Handled)
    }

    /// A yes by one key: `strong` by `y`, otherwise by enter. Nothing happens when that is not
    /// enough for the risk.
    pub fn confirm(&mut self, strong: bool) -> Vec<Effect> {
        let enough = match &self.stage {
            Stage::Ready(p) if p.is_allowed() => match p.risk {
                Risk::Low => true,
                Risk::Medium => strong,
                Risk::High => false,
            },
            _ => false,
        };
        if enough { self.perform() } else { Vec::new() }
    }

    fn perform(&mut self) -> Vec<Effect> {
        match std::mem::replace(&mut self.stage, Stage::Asking) {
            Stage::Ready(preview) => {
                self.stage = Stage::Performing(preview.clone());
                vec![Effect::Perform { ticket: self.ticket, source: self.source, preview }]
            }
            other => {
                self.stage = other;
                Vec::new()
            }
        }
    }

    /// Closing now would hide whether something was changed.
    #[must_use]
    pub fn can_close(&self) -> bool {
        !matches!(self.stage, Stage::Performing(_))
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        let lines = match &self.stage {
            Stage::Asking => 1,
            Stage::Ready(p) | Stage::Performing(p) => body(p, None, frame::text_width(area)).len(),
        };
        self.scroll.step(motion, lines, frame::text_height(area).saturating_sub(2));
    }

    pub fn view(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) -> Option<Position> {
        let title = format!("{} {}", self.request.action, self.request.target);
        let width = frame::text_width(area);
        let (lines, question, hints) = match &self.stage {
            Stage::Asking => {
                let line = Line::from(paint.span(Scope::Muted, "asking the server what would happen"));
                (vec![line], Line::default(), keys(paint, &[("esc", "forget it")]))
            }
            Stage::Performing(p) => {
                let line = Line::from(paint.span(Scope::Muted, "sent, waiting for the answer"));
                (body(p, Some(paint), width), line, Line::default())
            }
            Stage::Ready(p) => (body(p, Some(paint), width), self.question(p, paint), hints(p, paint)),
        };
        let title = paint.cut(&title, width);
        let wanted = lines.len() + 2;
        let inside = frame::open(&title, &hints, wanted, paint, area, buffer);
        let text = Rect { height: inside.height.saturating_sub(2), ..inside };
        frame::scrolled(&lines, self.scroll, text, buffer);
        let y = inside.bottom().saturating_sub(1);
        if inside.height == 0 {
            return None;
        }
        put(buffer, inside.x, y, &question, inside.width);
        self.wants_name().then(|| {
            let x =
                question.width().saturating_sub(text::width(self.typed.value())) + self.typed.visual_cursor();
            let x = u16::try_from(x).unwrap_or(u16::MAX).min(inside.width.saturating_sub(1));
            Position { x: inside.x + x, y }
        })
    }

    fn question(&self, preview: &Preview, paint: &Paint<'_>) -> Line<'static> {
        if !preview.is_allowed() {
            return Line::from(paint.span(Scope::NoticeError, "This cannot be done now."));
        }
        match preview.risk {
            Risk::Low => Line::from(paint.span(Scope::Text, "Enter or y does it.")),
            Risk::Medium => Line::from(paint.span(Scope::Text, "y does it.")),
            Risk::High => Line::from(vec![
                paint
                    .span(Scope::NoticeWarning, format!("Type {} and enter: ", self.request.target.key.name)),
                paint.span(Scope::Prompt, self.typed.value().to_owned()),
            ]),
        }
    }
}

fn hints(preview: &Preview, paint: &Paint<'_>) -> Line<'static> {
    if preview.is_allowed() {
        keys(paint, &[("esc", "leave it as it is")])
    } else {
        keys(paint, &[("esc", "close")])
    }
}

fn keys(paint: &Paint<'_>, all: &[(&'static str, &'static str)]) -> Line<'static> {
    let mut spans = vec![Span::raw(" ")];
    for (key, text) in all {
        spans.push(paint.span(Scope::Key, format!("{key} ")));
        spans.push(paint.span(Scope::KeyText, format!("{text} ")));
    }
    Line::from(spans)
}

/// Summary, findings (the gravest first) and difference. Without `paint` only the number of lines
/// matters.
fn body(preview: &Preview, paint: Option<&Paint<'_>>, width: usize) -> Vec<Line<'static>> {
    let styled = |scope: Scope, text: String| match paint {
        Some(paint) => Line::from(paint.span(scope, text)),
        None => Line::from(text),
    };
    let mut lines: Vec<Line<'static>> = text::wrap(&text::sanitize_block(&preview.summary), width)
        .into_iter()
        .map(|l| styled(Scope::Strong, l))
        .collect();
    let mut findings: Vec<&Finding> = preview.findings.iter().collect();
    findings.sort_by_key(|f| std::cmp::Reverse(f.severity));
    if !findings.is_empty() {
        lines.push(Line::default());
    }
    for finding in findings {
        let (glyph, word, scope) = match finding.severity {
            Severity::Blocker => (paint.map_or("x", |p| p.glyphs().blocked), "blocked", Scope::NoticeError),
            Severity::Warning => {
                (paint.map_or("!", |p| p.glyphs().degraded), "warning", Scope::NoticeWarning)
            }
            Severity::Note => (paint.map_or("-", |p| p.glyphs().active), "note", Scope::Text),
        };
        let text = format!("{word}: {} ({})", text::sanitize_line(&finding.text), finding.rule);
        for (at, part) in text::wrap(&text, width.saturating_sub(2)).into_iter().enumerate() {
            let lead = if at == 0 { glyph } else { " " };
            lines.push(styled(scope, format!("{lead} {part}")));
        }
    }
    if !preview.diff.is_empty() {
        lines.push(Line::default());
    }
    for line in &preview.diff {
        let scope = match line.sign {
            Sign::Added => Scope::DiffAdded,
            Sign::Removed => Scope::DiffRemoved,
            Sign::Same | Sign::Gap => Scope::DiffContext,
        };
        lines.push(styled(scope, text::truncate(&format!("{} {}", line.sign.glyph(), line.text), width, "")));
    }
    lines
}
