//! An action before it is performed: what will happen, what speaks against it, the exact difference, and
//! a confirmation in proportion: enter twice, `yes`, or the object's name. No letter alone is a yes, as
//! letters move about everywhere else. What was not on the screen to its end cannot be confirmed, and a
//! blocked action not at all.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

use super::{Answer, frame};
use crate::actions::{Outlook, Preview, Request};
use crate::fleet::SourceId;
use crate::operations::diff::{DiffLine, Sign};
use crate::operations::{ChangeOrder, ChangePreview, Confirmation, Finding, Severity};
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::effect::Effect;
use crate::tui::paint::{Paint, put};
use crate::tui::subject::PlannedCluster;
use crate::tui::theme::Scope;
use capi_forecast::forecast::in_place::Updates;
use capstan_base::text;

/// What is about to be done.
enum Subject {
    /// An action on an object.
    Action(SourceId, Request),
    /// A change of the kubeadm configuration of a cluster.
    Change(PlannedCluster, ChangeOrder),
}

impl Subject {
    fn title(&self) -> String {
        match self {
            Self::Action(_, request) => format!("{} {}", request.action, request.target),
            Self::Change(cluster, order) => format!("{} a change of Cluster {}", order.words(), cluster.key),
        }
    }

    /// The name that has to be typed where much can break.
    fn name(&self) -> &str {
        match self {
            Self::Action(_, request) => &request.target.key.name,
            Self::Change(cluster, _) => &cluster.key.name,
        }
    }
}

/// What a person must see before.
enum Shown {
    Action(Box<Preview>),
    Change(Box<ChangePreview>),
}

impl Shown {
    fn is_allowed(&self) -> bool {
        match self {
            Self::Action(preview) => preview.is_allowed(),
            Self::Change(preview) => preview.is_allowed(),
        }
    }

    fn confirmation(&self) -> Confirmation {
        match self {
            Self::Action(preview) => preview.risk.confirmation(),
            Self::Change(preview) => preview.confirmation,
        }
    }

    fn summary(&self) -> &str {
        match self {
            Self::Action(preview) => &preview.summary,
            Self::Change(preview) => &preview.summary,
        }
    }

    fn findings(&self) -> &[Finding] {
        match self {
            Self::Action(preview) => &preview.findings,
            Self::Change(preview) => &preview.findings,
        }
    }

    fn diff(&self) -> &[DiffLine] {
        match self {
            Self::Action(preview) => &preview.diff,
            Self::Change(preview) => &preview.diff,
        }
    }

    fn outlook(&self) -> Option<&Outlook> {
        if let Self::Action(preview) = self { Some(&preview.outlook) } else { None }
    }

    /// What is done, line by line, where that is several things.
    fn steps(&self) -> &[String] {
        if let Self::Change(preview) = self { &preview.steps } else { &[] }
    }
}

/// How far the conversation is.
enum Stage {
    /// Access review, preflight and dry run are under way.
    Asking,
    /// To be confirmed or not.
    Ready(Shown),
    /// Sent; the answer is on its way.
    Performing(Shown),
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
    subject: Subject,
    stage: Stage,
    /// What was typed so far, where a word has to be typed.
    typed: Input,
    scroll: Scroll,
    /// The last line was on the screen: nothing is confirmed that could not be read.
    is_read: bool,
    first: First,
}

impl PreviewBox {
    pub fn new(ticket: u64, source: SourceId, request: Request) -> Self {
        Self::about(ticket, Subject::Action(source, request))
    }

    /// The same about a change of the configuration of a cluster.
    pub fn of_change(ticket: u64, cluster: PlannedCluster, order: ChangeOrder) -> Self {
        Self::about(ticket, Subject::Change(cluster, order))
    }

    fn about(ticket: u64, subject: Subject) -> Self {
        Self {
            ticket,
            subject,
            stage: Stage::Asking,
            typed: Input::default(),
            scroll: Scroll::default(),
            is_read: false,
            first: First::No,
        }
    }

    pub fn show(&mut self, preview: Box<Preview>) {
        self.stage = Stage::Ready(Shown::Action(preview));
    }

    pub fn show_change(&mut self, preview: Box<ChangePreview>) {
        self.stage = Stage::Ready(Shown::Change(preview));
    }

    /// It was drawn on a screen of this size.
    pub fn was_drawn(&mut self, area: Rect) {
        self.is_read |= matches!(self.stage, Stage::Ready(_)) && self.shows_end(area);
    }

    /// Its last line is on a screen of this size.
    fn shows_end(&self, area: Rect) -> bool {
        let (lines, page) = self.extent(area);
        self.scroll.clamped(lines, page) + page >= lines
    }

    /// What can be confirmed now; `None` while something is not known or was not read.
    fn confirmable(&self) -> Option<&Shown> {
        match &self.stage {
            Stage::Ready(preview) if preview.is_allowed() && self.is_read => Some(preview),
            _ => None,
        }
    }

    /// What has to be typed before enter; `None`: nothing, or it cannot be confirmed.
    fn word(&self) -> Option<&str> {
        self.word_for(self.confirmable()?)
    }

    fn word_for(&self, preview: &Shown) -> Option<&str> {
        match preview.confirmation() {
            Confirmation::Enter => None,
            Confirmation::Yes => Some("yes"),
            Confirmation::Name => Some(self.subject.name()),
        }
    }

    pub fn on_key(&mut self, event: KeyEvent) -> Option<Answer> {
        self.first = if self.first == First::Last { First::Before } else { First::No };
        let is_right = self.typed.value() == self.word()?;
        match (event.code, event.modifiers) {
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'g'), KeyModifiers::CONTROL) => Some(Answer::Close),
            (KeyCode::Enter, _) if is_right => Some(Answer::Effects(self.perform())),
            (KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown | KeyCode::Tab, _) => None,
            _ => {
                self.typed.handle_event(&Event::Key(event));
                Some(Answer::Handled)
            }
        }
    }

    pub fn on_paste(&mut self, text: &str) -> Option<Answer> {
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
        let Stage::Ready(preview) = &self.stage else { return false };
        match preview.outlook() {
            Some(Outlook::Known(change)) => change.updates.as_ref().is_some_and(|updates| !updates.asked),
            Some(Outlook::NotPlanned | Outlook::Unknown(_)) | None => false,
        }
    }

    /// The same preview once more, after the extensions were asked.
    ///
    /// # Errors
    /// There is nobody to ask.
    pub fn ask_extensions(&mut self, ticket: u64) -> Result<Vec<Effect>, String> {
        let Subject::Action(source, request) = &self.subject else {
            return Err("no extension is asked about it".to_owned());
        };
        if !self.can_ask() {
            return Err("there is no extension to ask about it, or it was asked".to_owned());
        }
        let (source, request) = (*source, Request { asks_extensions: true, ..request.clone() });
        *self = Self::new(ticket, source, request.clone());
        Ok(vec![Effect::Preview { ticket, source, request }])
    }

    fn perform(&mut self) -> Vec<Effect> {
        match std::mem::replace(&mut self.stage, Stage::Asking) {
            Stage::Ready(shown) => {
                let effect = self.effect(&shown);
                self.stage = Stage::Performing(shown);
                effect.into_iter().collect()
            }
            other => {
                self.stage = other;
                Vec::new()
            }
        }
    }

    fn effect(&self, shown: &Shown) -> Option<Effect> {
        let ticket = self.ticket;
        match (&self.subject, shown) {
            (Subject::Action(source, _), Shown::Action(preview)) => {
                Some(Effect::Perform { ticket, source: *source, preview: preview.clone() })
            }
            (Subject::Change(cluster, _), Shown::Change(preview)) => {
                Some(Effect::CarryOutChange { ticket, cluster: cluster.clone(), preview: preview.clone() })
            }
            _ => None,
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
        let (lines, below) = (self.lines(None, width).len(), 1 + self.question(width, self.is_read).len());
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
        let title = paint.cut(&self.subject.title(), width);
        // What is seen to its end with this picture can be confirmed as soon as it was drawn.
        let is_read = self.is_read || self.shows_end(area);
        let (lines, question) = (self.lines(Some(paint), width), self.question(width, is_read));
        let wanted = lines.len() + 1 + question.len();
        let inside = frame::open(&title, &self.hints(paint), wanted, frame::WIDTH_MAX, paint, area, buffer);
        let asked = u16::try_from(question.len()).unwrap_or(u16::MAX).min(inside.height);
        let page = inside.height.saturating_sub(asked + 1);
        frame::scrolled(&lines, self.scroll, Rect { height: page, ..inside }, buffer);
        let shown = self.scroll.clamped(lines.len(), page.into()) + usize::from(page);
        let scope = if is_read { Scope::Muted } else { Scope::NoticeWarning };
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
    fn question(&self, width: usize, is_read: bool) -> Vec<Part> {
        let plain = |scope, words: &str| Part::all(scope, words, width, false);
        match &self.stage {
            Stage::Asking => Vec::new(),
            Stage::Performing(_) => plain(Scope::Muted, "sent, waiting for the answer"),
            Stage::Ready(preview) if !preview.is_allowed() => {
                plain(Scope::NoticeError, "This cannot be done now.")
            }
            Stage::Ready(preview) if !is_read => {
                let mut parts = plain(Scope::NoticeWarning, "Scroll to the end first (down).");
                // As high as what is asked then, so that the end stays on the screen when it is.
                parts.resize_with(parts.len().max(self.confirmation(preview, width).len()), || Part {
                    scope: Scope::Text,
                    text: String::new(),
                    has_field: false,
                });
                parts
            }
            Stage::Ready(preview) => self.confirmation(preview, width),
        }
    }

    fn confirmation(&self, preview: &Shown, width: usize) -> Vec<Part> {
        let (scope, words) = match self.word_for(preview) {
            Some(word) => (Scope::NoticeWarning, format!("Type {word}, then enter: ")),
            None if self.first == First::Last => (Scope::NoticeWarning, "Enter again does it.".to_owned()),
            None => (Scope::Text, "Enter twice does it.".to_owned()),
        };
        Part::all(scope, &words, width, self.word_for(preview).is_some())
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
        Line::from(keys)
    }
}

/// A line of the question, perhaps with the field behind it.
struct Part {
    scope: Scope,
    text: String,
    has_field: bool,
}

impl Part {
    /// Room for what is typed; a field with less gets a line of its own.
    const FIELD_CELLS: usize = 12;

    fn all(scope: Scope, words: &str, width: usize, has_field: bool) -> Vec<Self> {
        let plain = |text| Self { scope, text, has_field: false };
        if !has_field || text::width(words) + Self::FIELD_CELLS <= width {
            let mut parts: Vec<Self> = text::wrap(words, width).into_iter().map(plain).collect();
            parts.iter_mut().for_each(|part| part.has_field = has_field);
            return parts;
        }
        let mut parts: Vec<Self> = text::wrap(words.trim_end(), width).into_iter().map(plain).collect();
        parts.push(Self { scope, text: String::new(), has_field: true });
        parts
    }
}

fn styled(paint: Option<&Paint<'_>>, scope: Scope, text: String) -> Line<'static> {
    match paint {
        Some(paint) => Line::from(paint.span(scope, text)),
        None => Line::from(text),
    }
}

/// Summary, findings (the gravest first) and difference. Without `paint` only the number of lines
/// matters.
fn body(preview: &Shown, paint: Option<&Paint<'_>>, width: usize) -> Vec<Line<'static>> {
    let styled = |scope: Scope, text: String| styled(paint, scope, text);
    let mut lines: Vec<Line<'static>> = text::wrap(&text::sanitize_block(preview.summary()), width)
        .into_iter()
        .map(|l| styled(Scope::Strong, l))
        .collect();
    let mut findings: Vec<&Finding> = preview.findings().iter().collect();
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
    if !preview.steps().is_empty() {
        lines.push(Line::default());
    }
    for step in preview.steps() {
        let parts = text::wrap(&text::sanitize_line(step), width);
        lines.extend(parts.into_iter().map(|part| styled(Scope::Text, part)));
    }
    let ahead = preview.outlook().map(|known| outlook(known, width)).unwrap_or_default();
    lines.extend(ahead.into_iter().map(|(scope, line)| styled(scope, line)));
    if !preview.diff().is_empty() {
        lines.push(Line::default());
    }
    for line in preview.diff() {
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
    let known = if let Outlook::Known(change) = outlook { change.updates.as_ref() } else { None };
    let updates = known.map(Updates::lines).unwrap_or_default();
    match outlook {
        Outlook::NotPlanned => return Vec::new(),
        Outlook::Unknown(why) => told.push((Scope::Muted, "plan not known:", why)),
        Outlook::Known(change) => {
            told.push((Scope::Muted, "now ", &change.before));
            for (at, line) in change.after.iter().enumerate() {
                told.push((Scope::Text, if at == 0 { "then" } else { "    " }, line));
            }
            told.extend(updates.iter().map(|(word, line)| (Scope::Text, *word, line.as_str())));
            for (at, line) in change.course.iter().enumerate() {
                told.push((Scope::Text, if at == 0 { "after" } else { "     " }, line));
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
    use crate::actions::edit::Edit;
    use crate::actions::{Action, PlanChange, Risk};
    use crate::operations::diff::DiffLine;
    use crate::tui::keymap::parse_chord;
    use crate::tui::theme::{Theme, Tier};
    use capi_types::key::{Gvk, ObjectKey, ObjectRef};
    use capstan_base::time::Timestamp;

    fn request() -> Request {
        let gvk = Gvk {
            group: "cluster.x-k8s.io".to_owned(),
            version: "v1beta2".to_owned(),
            kind: "MachineDeployment".to_owned(),
            plural: "machinedeployments".to_owned(),
            namespaced: true,
        };
        let target = ObjectRef { gvk, key: ObjectKey::new("prod", "md-0"), uid: "u".to_owned() };
        Request::new(target, Action::Scale { replicas: 5 })
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
                updates: None,
                course: Vec::new(),
                assumptions: vec!["the template is there".to_owned()],
            }),
            back: None,
            edit: Edit::Delete,
            uid: String::new(),
            resource_version: String::new(),
            shown: serde_json::Value::Null,
        }));
        open
    }

    /// Draws it, and once more as it is after that.
    fn picture(open: &mut PreviewBox, width: u16, height: u16) -> String {
        drawn(open, width, height);
        open.was_drawn(Rect::new(0, 0, width, height));
        drawn(open, width, height)
    }

    fn drawn(open: &PreviewBox, width: u16, height: u16) -> String {
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        let paint = Paint::new(&theme, Timestamp::default());
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        open.view(&paint, area, &mut buffer);
        let lines = buffer.content().chunks(usize::from(width.max(1)));
        let text = |line: &[ratatui::buffer::Cell]| line.iter().map(|c| c.symbol()).collect::<String>();
        lines.map(|line| text(line).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_fits_is_asked_in_the_first_picture_and_confirmed_after_it() {
        let mut open = ready(Risk::Low, Severity::Note);
        assert!(open.confirmable().is_none(), "it was not on the screen yet");
        let first = drawn(&open, 80, 30);
        assert!(first.contains("Enter twice does it.") && !first.contains("Scroll"), "{first}");
        assert_eq!(picture(&mut open, 80, 30), first);
        assert!(open.confirmable().is_some());
    }

    #[test]
    fn extensions_are_asked_by_key_and_only_where_there_are_any() {
        let mut open = ready(Risk::Medium, Severity::Warning);
        assert!(!picture(&mut open, 80, 30).contains("ask extensions"));
        assert!(open.ask_extensions(8).is_err());
        let Stage::Ready(Shown::Action(preview)) = &mut open.stage else { panic!("it is ready") };
        let Outlook::Known(change) = &mut preview.outlook else { panic!("it is planned") };
        change.updates = Some(Updates {
            machines: Vec::new(),
            handlers: vec!["can-update-machine-set.ext\x1b[2J".to_owned()],
            asked: false,
            availability: "in place at least 2 of 3 Machines stay available, by replacement 3".to_owned(),
        });
        let shown = picture(&mut open, 100, 40);
        assert!(shown.contains("tab ask extensions"), "{shown}");
        assert!(shown.contains("ask can-update-machine-set.ext"), "{shown}");
        assert!(shown.contains("cost in place at least 2 of 3"), "{shown}");
        let tab = parse_chord("tab").expect("a key")[0].event();
        assert!(open.on_key(tab).is_none(), "the keymap says what it does");
        let effects = open.ask_extensions(8).expect("there is one to ask");
        let asked = |effect: &Effect| matches!(effect, Effect::Preview { ticket: 8, request, .. } if request.asks_extensions);
        assert!(effects.len() == 1 && effects.iter().all(asked));
        assert!(picture(&mut open, 100, 40).contains("asking the server"));
    }

    fn type_in(open: &mut PreviewBox, text: &str) -> Vec<Answer> {
        let keys = text.chars().map(|c| c.to_string()).collect::<Vec<_>>().join(" ");
        parse_chord(&keys).expect("keys").into_iter().filter_map(|k| open.on_key(k.event())).collect()
    }

    #[test]
    fn everything_that_matters_is_shown() {
        let text = picture(&mut ready(Risk::Medium, Severity::Warning), 70, 26);
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
            "Type yes, then enter:",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(text.find("warning:") < text.find("note:"), "the gravest first");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn how_long_it_takes_stands_below_the_plan() {
        let course = vec![
            "done in about 40 to 90 seconds, never below 3 available".to_owned(),
            "1 member of etcd may fail at any moment\x1b[2J".to_owned(),
        ];
        let change = PlanChange { before: "nothing to do".to_owned(), course, ..PlanChange::default() };
        let lines: Vec<String> =
            outlook(&Outlook::Known(change), 70).into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            lines[1..],
            [
                "now  nothing to do",
                "after done in about 40 to 90 seconds, never below 3 available",
                "      1 member of etcd may fail at any moment\u{fffd}[2J",
            ]
        );
    }

    /// As the dashboard does: what the dialog does not take itself may be bound to a yes.
    fn enter(open: &mut PreviewBox) -> Vec<Effect> {
        let event = parse_chord("enter").expect("a key")[0].event();
        match open.on_key(event) {
            Some(Answer::Effects(effects)) => effects,
            Some(_) => Vec::new(),
            None => open.confirm(),
        }
    }

    fn read(risk: Risk, severity: Severity) -> PreviewBox {
        let mut open = ready(risk, severity);
        picture(&mut open, 70, 26);
        open
    }

    #[test]
    fn enter_twice_in_a_row_confirms_what_can_break_little() {
        let mut open = read(Risk::Low, Severity::Warning);
        assert!(enter(&mut open).is_empty());
        assert!(picture(&mut open, 70, 26).contains("Enter again does it."));
        assert!(matches!(enter(&mut open).as_slice(), [Effect::Perform { ticket: 7, .. }]));
        assert!(enter(&mut open).is_empty() && !open.can_close(), "it is sent once");
        let mut open = read(Risk::Low, Severity::Warning);
        assert!(enter(&mut open).is_empty() && type_in(&mut open, "j").is_empty());
        assert!(enter(&mut open).is_empty(), "another key came between");
        assert!(!enter(&mut open).is_empty());
    }

    /// `y` was both "YAML" and "yes": whoever went on typing confirmed.
    #[test]
    fn no_letter_confirms() {
        for risk in [Risk::Low, Risk::Medium, Risk::High] {
            for letter in ('a'..='z').chain('A'..='Z') {
                let mut open = read(risk, Severity::Warning);
                let answers = type_in(&mut open, &letter.to_string());
                assert!(answers.iter().all(|a| matches!(a, Answer::Handled)), "{letter}");
                assert!(enter(&mut open).is_empty(), "{letter}");
            }
        }
    }

    #[test]
    fn more_risk_wants_a_word() {
        for (risk, word, other) in [(Risk::Medium, "yes", "md-0"), (Risk::High, "md-0", "yes")] {
            let mut open = read(risk, Severity::Warning);
            assert!(picture(&mut open, 70, 26).contains(&format!("Type {word}, then enter:")));
            assert!(enter(&mut open).is_empty() && enter(&mut open).is_empty(), "nothing was typed");
            type_in(&mut open, other);
            assert!(enter(&mut open).is_empty(), "{other}");
            let mut open = read(risk, Severity::Warning);
            type_in(&mut open, word);
            assert!(matches!(enter(&mut open).as_slice(), [Effect::Perform { ticket: 7, .. }]));
            assert!(enter(&mut open).is_empty() && !open.can_close(), "it is sent once");
        }
    }

    /// At 40x8 the warning was below the edge, and the dialog took the confirmation.
    #[test]
    fn what_was_not_shown_cannot_be_confirmed() {
        for risk in [Risk::Low, Risk::Medium, Risk::High] {
            let area = Rect::new(0, 0, 40, 8);
            let mut open = ready(risk, Severity::Warning);
            type_in(&mut open, "yes");
            assert!(enter(&mut open).is_empty() && enter(&mut open).is_empty(), "never drawn");
            let text = picture(&mut open, 40, 8);
            assert!(text.contains("more lines below") && text.contains("Scroll to the end first"), "{text}");
            type_in(&mut open, "md-0");
            assert!(enter(&mut open).is_empty() && enter(&mut open).is_empty());
            while picture(&mut open, 40, 8).contains("Scroll to the end") {
                open.step(Motion::Down, area);
            }
            let text = picture(&mut open, 40, 8);
            assert!(text.contains("+   replicas: 5"), "{text}");
            let asked = ["Enter twice does it.", "Type yes, then enter:", "Type md-0, then enter:"];
            assert!(text.contains(asked[risk as usize]) && text.contains("esc leave it as it is"), "{text}");
            assert!(open.typed.value().is_empty(), "what was typed before counts for nothing");
        }
    }

    #[test]
    fn a_blocked_action_cannot_be_confirmed() {
        for risk in [Risk::Low, Risk::Medium, Risk::High] {
            let mut open = read(risk, Severity::Blocker);
            assert!(enter(&mut open).is_empty() && enter(&mut open).is_empty());
            assert!(type_in(&mut open, "md-0").is_empty(), "there is no field");
            let text = picture(&mut open, 70, 20);
            assert!(
                text.contains("! blocked: the Cluster is paused") && text.contains("cannot be done now"),
                "{text}"
            );
        }
        let mut asking = PreviewBox::new(1, SourceId(0), request());
        picture(&mut asking, 70, 20);
        assert!(enter(&mut asking).is_empty() && enter(&mut asking).is_empty(), "nothing is known yet");
    }

    #[test]
    fn no_size_breaks_it() {
        for width in 0..90 {
            for height in 0..24 {
                picture(&mut ready(Risk::High, Severity::Warning), width, height);
            }
        }
    }
}
