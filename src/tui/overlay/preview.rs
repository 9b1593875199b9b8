//! An action before it is performed: what will happen, what speaks against it, the exact difference, and the
//! confirmation that its risk asks for. A blocked action cannot be confirmed.

use crossterm::event::{Event, KeyCode, KeyEvent};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

use super::{Answer, frame};
use crate::actions::diff::Sign;
use crate::actions::{Confirmation, Finding, Outlook, Preview, Request, Severity};
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

    /// The confirmation that is waited for; `None` when none is possible.
    fn confirmation(&self) -> Option<Confirmation> {
        match &self.stage {
            Stage::Ready(preview) if preview.is_allowed() => Some(preview.risk.confirmation()),
            Stage::Asking | Stage::Ready(_) | Stage::Performing(_) => None,
        }
    }

    /// Whether the object's name has to be typed.
    fn wants_name(&self) -> bool {
        self.confirmation() == Some(Confirmation::Name)
    }

    /// Performs the action if `answer` confirms it.
    fn answer(&mut self, answer: &str) -> Vec<Effect> {
        let name = &self.request.target.key.name;
        if self.confirmation().is_some_and(|confirmation| confirmation.accepts(answer, name)) {
            self.perform()
        } else {
            Vec::new()
        }
    }

    pub fn on_key(&mut self, event: KeyEvent) -> Option<Answer> {
        if !self.wants_name() {
            return None;
        }
        match event.code {
            KeyCode::Esc => Some(Answer::Close),
            KeyCode::Enter => {
                let typed = self.typed.value().to_owned();
                Some(Answer::Effects(self.answer(&typed)))
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

    /// A confirmation by one key: `strong` by `y`, otherwise by enter. Nothing happens when that is not
    /// enough for the risk.
    pub fn confirm(&mut self, strong: bool) -> Vec<Effect> {
        self.answer(if strong { "y" } else { "" })
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
            Stage::Ready(p) => (body(p, Some(paint), width), self.question(paint), hints(p, paint)),
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

    fn question(&self, paint: &Paint<'_>) -> Line<'static> {
        let Some(confirmation) = self.confirmation() else {
            return Line::from(paint.span(Scope::NoticeError, "This cannot be done now."));
        };
        match confirmation {
            Confirmation::Enter => Line::from(paint.span(Scope::Text, "Enter or y does it.")),
            Confirmation::Yes => Line::from(paint.span(Scope::Text, "y does it.")),
            Confirmation::Name => Line::from(vec![
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
    lines.extend(outlook(&preview.outlook, width).into_iter().map(|(scope, line)| styled(scope, line)));
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

/// What happens next without the action and after it, after an empty line.
fn outlook(outlook: &Outlook, width: usize) -> Vec<(Scope, String)> {
    let mut told: Vec<(Scope, &str, &str)> = Vec::new();
    match outlook {
        Outlook::NotPlanned => return Vec::new(),
        Outlook::Unknown(why) => told.push((Scope::Muted, "plan not known:", why)),
        Outlook::Known(change) => {
            told.push((Scope::Muted, "now ", &change.before));
            for (at, line) in change.after.iter().enumerate() {
                told.push((Scope::Text, if at == 0 { "then" } else { "    " }, line));
            }
            told.extend(change.assumptions.iter().map(|a| (Scope::Muted, "assumed:", a.as_str())));
        }
    }
    let mut lines = vec![(Scope::Text, String::new())];
    for (scope, label, words) in told {
        let indent = text::width(label) + 1;
        let words = text::sanitize_line(words);
        for (at, part) in text::wrap(&words, width.saturating_sub(indent)).into_iter().enumerate() {
            let lead = if at == 0 { label.to_owned() } else { " ".repeat(indent - 1) };
            lines.push((scope, format!("{lead} {part}")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::diff::DiffLine;
    use crate::actions::edit::Edit;
    use crate::actions::{Action, PlanChange, Risk};
    use crate::api::key::{Gvk, ObjectKey, ObjectRef};
    use crate::time::Timestamp;
    use crate::tui::keymap::parse_chord;
    use crate::tui::theme::{Theme, Tier};

    fn request() -> Request {
        let gvk = Gvk {
            group: "cluster.x-k8s.io".to_owned(),
            version: "v1beta2".to_owned(),
            kind: "MachineDeployment".to_owned(),
            plural: "machinedeployments".to_owned(),
            namespaced: true,
        };
        let target = ObjectRef { gvk, key: ObjectKey::new("prod", "md-0"), uid: "u".to_owned() };
        Request { target, action: Action::Scale { replicas: 5 } }
    }

    fn ready(risk: Risk, severity: Severity) -> PreviewBox {
        let finding = |severity, rule, text: &str| Finding { severity, rule, text: text.to_owned() };
        let line = |sign, text: &str| DiffLine { sign, text: text.to_owned() };
        let mut open = PreviewBox::new(7, SourceId(0), request());
        open.show(Box::new(Preview {
            request: request(),
            summary: "MachineDeployment md-0 goes from 3 to 5 replicas: 2 Machines are created.".to_owned(),
            risk,
            findings: vec![
                finding(Severity::Note, "machines-created", "2 Machines more"),
                finding(
                    severity,
                    "cluster-paused",
                    "the Cluster is paused: nothing moves\x1b[2J until it is resumed",
                ),
            ],
            diff: vec![
                line(Sign::Same, "spec:"),
                line(Sign::Removed, "  replicas: 3"),
                line(Sign::Added, "  replicas: 5"),
            ],
            outlook: Outlook::Known(PlanChange {
                before: "nothing to do".to_owned(),
                after: vec![
                    "next: scale MachineSet md-0-a 3 → 5".to_owned(),
                    "MachineSet md-0-a: next: create 2 Machines\x1b[2J".to_owned(),
                ],
                assumptions: vec!["the template is there".to_owned()],
            }),
            edit: Edit::Delete,
            uid: String::new(),
            resource_version: String::new(),
            shown: serde_json::Value::Null,
        }));
        open
    }

    fn picture(open: &PreviewBox, width: u16, height: u16) -> String {
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        let paint = Paint::new(&theme, Timestamp::default());
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        open.view(&paint, area, &mut buffer);
        let lines = buffer.content().chunks(usize::from(width.max(1)));
        let text = |line: &[ratatui::buffer::Cell]| line.iter().map(|c| c.symbol()).collect::<String>();
        lines.map(|line| text(line).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    fn type_in(open: &mut PreviewBox, text: &str) -> Vec<Answer> {
        let keys = text.chars().map(|c| c.to_string()).collect::<Vec<_>>().join(" ");
        parse_chord(&keys).expect("keys").into_iter().filter_map(|k| open.on_key(k.event())).collect()
    }

    #[test]
    fn everything_that_matters_is_shown() {
        let text = picture(&ready(Risk::Medium, Severity::Warning), 70, 26);
        for part in [
            "scale to 5 MachineDeployment prod/md-0",
            "goes from 3 to 5 replicas",
            "x warning: the Cluster is paused",
            "(cluster-paused)",
            "* note: 2 Machines more",
            "now  nothing to do",
            "then next: scale MachineSet md-0-a 3 → 5",
            "     MachineSet md-0-a: next: create 2 Machines",
            "assumed: the template is there",
            "-   replicas: 3",
            "+   replicas: 5",
            "y does it.",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(text.find("warning:") < text.find("note:"), "the gravest first");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn confirmation_is_in_proportion() {
        for (risk, by_enter, by_y) in
            [(Risk::Low, true, true), (Risk::Medium, false, true), (Risk::High, false, false)]
        {
            assert_eq!(!ready(risk, Severity::Warning).confirm(false).is_empty(), by_enter, "{risk:?}");
            assert_eq!(!ready(risk, Severity::Warning).confirm(true).is_empty(), by_y, "{risk:?}");
        }
    }

    #[test]
    fn high_risk_wants_the_name_and_nothing_else() {
        let enter = parse_chord("enter").expect("a key")[0].event();
        let mut open = ready(Risk::High, Severity::Warning);
        assert!(picture(&open, 70, 20).contains("Type md-0 and enter:"));
        type_in(&mut open, "y");
        let answered = open.on_key(enter);
        assert!(matches!(answered, Some(Answer::Effects(effects)) if effects.is_empty()), "not the name");
        let mut open = ready(Risk::High, Severity::Warning);
        type_in(&mut open, "md-0");
        let Some(Answer::Effects(effects)) = open.on_key(enter) else { panic!("the name is a yes") };
        assert!(matches!(effects.as_slice(), [Effect::Perform { ticket: 7, .. }]));
        assert!(open.confirm(true).is_empty() && !open.can_close(), "it is sent once");
    }

    #[test]
    fn a_blocked_action_cannot_be_confirmed() {
        for risk in [Risk::Low, Risk::Medium, Risk::High] {
            let mut open = ready(risk, Severity::Blocker);
            assert!(open.confirm(true).is_empty() && open.confirm(false).is_empty());
            assert!(type_in(&mut open, "md-0").is_empty(), "there is no field");
            let text = picture(&open, 70, 20);
            assert!(
                text.contains("! blocked: the Cluster is paused") && text.contains("cannot be done now"),
                "{text}"
            );
        }
        let mut asking = PreviewBox::new(1, SourceId(0), request());
        assert!(asking.confirm(true).is_empty(), "nothing is known yet");
    }

    #[test]
    fn no_size_breaks_it() {
        for width in 0..90 {
            for height in 0..24 {
                picture(&ready(Risk::High, Severity::Warning), width, height);
            }
        }
    }
}
