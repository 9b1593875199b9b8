//! One action on many objects before it is performed: each with what speaks against it and what changes in it, and one
//! confirmation that names how many they are. Each object is asked about and changed on its own, guarded as ever; the first
//! failure ends it. What asks for its name alone is left out.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler as _;

use super::reading::{ReadState, Reading};
use super::{Answer, frame};
use crate::actions::{Order, Preview, Proposal, Request};
use crate::fleet::SourceId;
use crate::operations::diff::Sign;
use crate::operations::{Confirmation, Severity, blocked};
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::effect::Effect;
use crate::tui::paint::{Paint, put};
use crate::tui::theme::Scope;
use capstan_base::text;
use capstan_base::time::Timestamp;

/// So many objects at once are still read.
pub const OBJECTS_MAX: usize = 50;
/// Objects that the server is asked about at the same time.
const ASKED_MAX: usize = 4;
/// Changed lines that are shown of one object.
const CHANGED_MAX: usize = 12;

struct Part {
    ticket: u64,
    source: SourceId,
    request: Request,
    /// Members of a quorum go one by one.
    is_alone: bool,
    preview: Option<Result<Box<Preview>, String>>,
}

impl Part {
    /// Why it is left out; `None` while it is not known, or when it is not.
    fn refusal(&self) -> Option<String> {
        match self.preview.as_ref()? {
            Err(why) => Some(why.clone()),
            Ok(preview) if !preview.is_allowed() => blocked(&preview.findings),
            Ok(_) if self.is_alone => Some("Machines of a control plane are changed one by one".to_owned()),
            Ok(preview) if preview.risk.confirmation() == Confirmation::Name => {
                Some("it asks for its name: change it alone".to_owned())
            }
            Ok(_) => None,
        }
    }

    fn allowed(&self) -> Option<&Preview> {
        let preview = self.preview.as_ref()?.as_deref().ok()?;
        self.refusal().is_none().then_some(preview)
    }
}

/// What comes of an answer.
pub enum Next {
    /// Go on.
    Effects(Vec<Effect>),
    /// Everything was done, in a sentence.
    Done(String),
    /// It ended early: what was done and what was not.
    Failed(String),
}

pub struct ManyBox {
    title: String,
    parts: Vec<Part>,
    /// How many were sent; `None` before it was confirmed.
    sent: Option<usize>,
    done: usize,
    typed: Input,
    /// Enter was pressed behind another word.
    is_missed: bool,
    scroll: Scroll,
    reading: Reading,
}

impl ManyBox {
    /// A dialog about an action on these objects, with the tickets by which answers are told apart; whether each has to be
    /// changed alone. `confirm_after_s`: from its end on the screen to a yes.
    pub fn new(title: String, objects: Vec<(u64, SourceId, Request, bool)>, confirm_after_s: u32) -> Self {
        let part =
            |(ticket, source, request, is_alone)| Part { ticket, source, request, is_alone, preview: None };
        Self {
            title,
            parts: objects.into_iter().map(part).collect(),
            sent: None,
            done: 0,
            typed: Input::default(),
            is_missed: false,
            scroll: Scroll::default(),
            reading: Reading::new(confirm_after_s),
        }
    }

    /// The first questions.
    pub fn begin(&self) -> Vec<Effect> {
        self.parts.iter().take(ASKED_MAX).map(Self::question_about).collect()
    }

    fn question_about(part: &Part) -> Effect {
        Effect::Preview {
            ticket: part.ticket,
            source: part.source,
            order: Order::Action(part.request.clone()),
        }
    }

    pub fn owns(&self, ticket: u64) -> bool {
        self.parts.iter().any(|part| part.ticket == ticket)
    }

    /// An answer about one object: the next question.
    pub fn show(&mut self, ticket: u64, result: Result<Proposal, String>) -> Vec<Effect> {
        let Some(at) = self.parts.iter().position(|part| part.ticket == ticket) else { return Vec::new() };
        self.parts[at].preview = Some(result.and_then(|proposal| match proposal {
            Proposal::Action(preview) => Ok(preview),
            Proposal::Change { .. } => Err("a configuration is not changed with others".to_owned()),
        }));
        let answered = self.parts.iter().filter(|part| part.preview.is_some()).count();
        // As many are open as at the beginning.
        self.parts.get(answered + ASKED_MAX - 1).map(Self::question_about).into_iter().collect()
    }

    fn is_asking(&self) -> bool {
        self.parts.iter().any(|part| part.preview.is_none())
    }

    fn allowed(&self) -> impl Iterator<Item = (&Part, &Preview)> {
        self.parts.iter().filter_map(|part| Some((part, part.allowed()?)))
    }

    /// What has to be typed before enter; `None` while it cannot be confirmed. `is_read`: it was read to its end.
    fn word(&self, is_read: bool) -> Option<String> {
        let count = self.allowed().count();
        let is_ready = !self.is_asking() && is_read && self.sent.is_none() && count > 0;
        is_ready.then(|| format!("yes {count}"))
    }

    /// It was drawn on a screen of this size.
    pub fn was_drawn(&mut self, area: Rect, now: Timestamp) {
        if !self.is_asking() {
            self.reading.was_drawn(self.shows_end(area), now);
        }
    }

    /// Its last line is on a screen of this size.
    fn shows_end(&self, area: Rect) -> bool {
        let (lines, page) = self.extent(area);
        self.scroll.clamped(lines, page) + page >= lines
    }

    pub fn on_key(&mut self, event: KeyEvent) -> Option<Answer> {
        // Before it can be confirmed, keys move about: nothing is typed ahead of what is read.
        let is_right = self.typed.value() == self.word(self.reading.is_done())?;
        self.is_missed = event.code == KeyCode::Enter && !is_right && !self.typed.value().is_empty();
        match (event.code, event.modifiers) {
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'g'), KeyModifiers::CONTROL) => Some(Answer::Close),
            (KeyCode::Enter, _) if is_right => {
                self.sent = Some(0);
                Some(Answer::Effects(self.send_next().into_iter().collect()))
            }
            // The text can be read once more while the word is being typed.
            (KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown, _) => None,
            _ => {
                self.typed.handle_event(&Event::Key(event));
                Some(Answer::Handled)
            }
        }
    }

    pub fn on_paste(&mut self, text: &str) -> Option<Answer> {
        // Nothing is pasted ahead of what is read.
        self.word(self.reading.is_done())?;
        self.typed = Input::new(format!("{}{}", self.typed.value(), text.trim()));
        Some(Answer::Handled)
    }

    fn send_next(&mut self) -> Option<Effect> {
        let sent = self.sent?;
        // After the confirmation no answer changes which ones are allowed, so that a number finds
        // the next.
        let (part, preview) = self.allowed().nth(sent)?;
        let proposal = Proposal::Action(Box::new(preview.clone()));
        let effect = Effect::Perform { ticket: part.ticket, source: part.source, proposal };
        self.sent = Some(sent + 1);
        Some(effect)
    }

    /// One object was changed, or not.
    pub fn performed(&mut self, ticket: u64, result: Result<String, String>) -> Next {
        let all = self.allowed().count();
        match result {
            Ok(_) => {
                self.done += 1;
                match self.send_next() {
                    Some(effect) => Next::Effects(vec![effect]),
                    None => Next::Done(format!("{} of {all} objects were changed", self.done)),
                }
            }
            Err(why) => {
                let name = self.parts.iter().find(|part| part.ticket == ticket);
                let name = name.map(|part| part.request.target.to_string()).unwrap_or_default();
                // The failed one is neither done nor left.
                let left = all - self.done - 1;
                Next::Failed(format!(
                    "{name}: {why}\n\n{} of {all} objects were changed before, and {left} were not touched.",
                    self.done
                ))
            }
        }
    }

    /// Closing now would hide whether something was changed.
    pub fn can_close(&self) -> bool {
        self.sent.is_none()
    }

    pub fn step(&mut self, motion: Motion, area: Rect) {
        let (lines, page) = self.extent(area);
        self.scroll.step(motion, lines, page);
    }

    /// How many lines of text there are, and how many fit above the question.
    fn extent(&self, area: Rect) -> (usize, usize) {
        let lines = self.lines(None, frame::text_width(area, frame::WIDTH_MAX)).len();
        (lines, frame::text_height(area).saturating_sub(2).clamp(1, lines.max(1)))
    }

    /// Without `paint` only the number of lines matters.
    fn lines(&self, paint: Option<&Paint<'_>>, width: usize) -> Vec<Line<'static>> {
        let styled = |scope: Scope, text: String| match paint {
            Some(paint) => Line::from(paint.span(scope, text)),
            None => Line::from(text),
        };
        let mut lines = Vec::new();
        for part in &self.parts {
            let target = &part.request.target;
            let head = format!("{} {}", target.gvk.kind, target.key);
            let refusal = part.refusal();
            let (scope, state) = match (&part.preview, &refusal) {
                (None, _) => (Scope::Muted, "asking the server"),
                (_, Some(_)) => (Scope::NoticeError, "left out"),
                (_, None) => (Scope::Strong, "will be changed"),
            };
            lines.push(styled(scope, text::truncate(&format!("{head}: {state}"), width, "")));
            let mut add = |scope: Scope, words: &str| {
                let words = text::sanitize_line(words);
                for wrapped in text::wrap(&words, width.saturating_sub(2)) {
                    lines.push(styled(scope, format!("  {wrapped}")));
                }
            };
            if let Some(why) = &refusal {
                add(Scope::Text, why);
            }
            let Some(preview) = part.allowed() else { continue };
            let warnings = preview.findings.iter().filter(|finding| finding.severity == Severity::Warning);
            warnings.for_each(|finding| add(Scope::NoticeWarning, &format!("warning: {}", finding.text)));
            let changed = preview.diff.iter().filter(|line| matches!(line.sign, Sign::Added | Sign::Removed));
            let more = changed.clone().count().saturating_sub(CHANGED_MAX);
            for line in changed.take(CHANGED_MAX) {
                let scope = if line.sign == Sign::Added { Scope::DiffAdded } else { Scope::DiffRemoved };
                let text = format!("  {} {}", line.sign.glyph(), line.text.trim_start());
                lines.push(styled(scope, text::truncate(&text, width, "")));
            }
            if more > 0 {
                lines.push(styled(Scope::Muted, format!("  and {more} more changed lines")));
            }
        }
        lines
    }

    /// What is asked, or why nothing is.
    fn question(&self, read: ReadState, paint: &Paint<'_>) -> (Scope, String) {
        let asked = self.parts.iter().filter(|part| part.preview.is_some()).count();
        let (all, allowed) = (self.parts.len(), self.allowed().count());
        match self.sent {
            Some(_) => (Scope::Muted, format!("{} of {allowed} done, waiting for the answer", self.done)),
            None if asked < all => (Scope::Muted, format!("asked about {asked} of {all}")),
            None if allowed == 0 => (Scope::NoticeError, "None of them can be changed now.".to_owned()),
            None => match read.words(Some(paint)) {
                Some(words) => (Scope::NoticeWarning, words),
                None if self.is_missed => {
                    (Scope::NoticeError, format!("That is another word. Type yes {allowed}, then enter: "))
                }
                None => (Scope::NoticeWarning, format!("Type yes {allowed}, then enter: ")),
            },
        }
    }

    pub fn view(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) -> Option<Position> {
        let width = frame::text_width(area, frame::WIDTH_MAX);
        let lines = self.lines(Some(paint), width);
        let esc = if self.sent.is_some() {
            Vec::new()
        } else {
            vec![paint.span(Scope::Key, " esc "), paint.span(Scope::KeyText, "leave them as they are ")]
        };
        let title = paint.cut(&self.title, width);
        let inside =
            frame::open(&title, &Line::from(esc), lines.len() + 2, frame::WIDTH_MAX, paint, area, buffer);
        let page = inside.height.saturating_sub(2);
        frame::scrolled(&lines, self.scroll, Rect { height: page, ..inside }, buffer);
        let shown = self.scroll.clamped(lines.len(), page.into()) + usize::from(page);
        let read = self.reading.state(self.shows_end(area), paint.now());
        let scope = if read == ReadState::Below { Scope::NoticeWarning } else { Scope::Muted };
        let marker = Rect { y: inside.y + page, height: inside.height.min(1), ..inside };
        frame::more_below(lines.len().saturating_sub(shown), scope, marker, paint, buffer);
        if inside.height < 2 {
            return None;
        }
        let y = inside.bottom() - 1;
        let (scope, words) = self.question(read, paint);
        put(buffer, inside.x, y, &Line::from(paint.span(scope, words.clone())), inside.width);
        self.word(read == ReadState::Read)?;
        let after = u16::try_from(text::width(&words)).unwrap_or(u16::MAX);
        let x = inside.x.saturating_add(after);
        let room = inside.right().saturating_sub(x);
        put(buffer, x, y, &Line::from(paint.span(Scope::Prompt, self.typed.value().to_owned())), room);
        let column = u16::try_from(self.typed.visual_cursor()).unwrap_or(u16::MAX);
        Some(Position { x: x.saturating_add(column).min(inside.right().saturating_sub(1)), y })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::edit::Edit;
    use crate::actions::{Action, Outlook, Risk};
    use crate::operations::Finding;
    use crate::operations::diff::DiffLine;
    use crate::tui::keymap::parse_chord;
    use crate::tui::theme::{Theme, Tier};
    use capi_types::key::{Gvk, ObjectKey, ObjectRef};
    use capstan_base::time::Timestamp;

    const AREA: Rect = Rect { x: 0, y: 0, width: 80, height: 24 };

    fn request(name: &str) -> Request {
        let gvk = Gvk {
            group: "cluster.x-k8s.io".to_owned(),
            version: "v1beta2".to_owned(),
            kind: "MachineDeployment".to_owned(),
            plural: "machinedeployments".to_owned(),
            namespaced: true,
        };
        let target = ObjectRef { gvk, key: ObjectKey::new("prod", name), uid: name.to_owned() };
        Request::new(target, Action::Pause)
    }

    fn answer(name: &str, risk: Risk, severity: Severity) -> Result<Proposal, String> {
        let finding = Finding { severity, rule: "rule", text: format!("something about {name}") };
        Ok(Proposal::Action(Box::new(Preview {
            request: request(name),
            summary: String::new(),
            risk,
            findings: vec![finding],
            diff: vec![DiffLine { sign: Sign::Added, text: "  paused: true".to_owned() }],
            outlook: Outlook::NotPlanned,
            edit: Edit::Delete,
            back: None,
            uid: name.to_owned(),
            resource_version: "1".to_owned(),
            shown: serde_json::Value::Null,
            topology: None,
        })))
    }

    /// Objects with these names and whether each goes alone, by tickets from 1 on.
    fn many(objects: &[(&str, bool)]) -> ManyBox {
        let objects = (1..).zip(objects);
        let objects = objects.map(|(ticket, (name, alone))| (ticket, SourceId(0), request(name), *alone));
        ManyBox::new("pause of objects".to_owned(), objects.collect(), 0)
    }

    fn press(many: &mut ManyBox, keys: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        for key in parse_chord(keys).expect("keys") {
            many.was_drawn(AREA, Timestamp::default());
            if let Some(Answer::Effects(more)) = many.on_key(key.event()) {
                effects.extend(more);
            }
        }
        effects
    }

    fn performed(effects: &[Effect]) -> Vec<&str> {
        let performed = effects.iter().filter_map(|effect| match effect {
            Effect::Perform { proposal: Proposal::Action(preview), .. } => {
                Some(preview.request.target.key.name.as_str())
            }
            _ => None,
        });
        performed.collect()
    }

    fn text(many: &ManyBox) -> String {
        let theme = Theme::load("default", None, Tier::None, false).expect("a theme");
        let now = Timestamp::from_timestamp(1_795_168_800, 0).expect("a moment");
        let mut buffer = Buffer::empty(AREA);
        many.view(&Paint::new(&theme, now), AREA, &mut buffer);
        buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    fn report() -> Result<String, String> {
        Ok(String::new())
    }

    #[test]
    fn only_a_few_questions_are_open_at_a_time() {
        let names: Vec<String> = (0..7).map(|at| format!("md-{at}")).collect();
        let objects: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), false)).collect();
        let mut many = many(&objects);
        let mut open: Vec<u64> = tickets(&many.begin());
        let mut asked = open.clone();
        while let Some(ticket) = open.pop() {
            assert!(open.len() < ASKED_MAX);
            let more = tickets(&many.show(ticket, answer("md", Risk::Low, Severity::Note)));
            asked.extend(&more);
            open.extend(more);
        }
        asked.sort_unstable();
        assert_eq!(asked, (1..=7).collect::<Vec<u64>>(), "each once");
    }

    fn tickets(effects: &[Effect]) -> Vec<u64> {
        let ticket = |effect: &Effect| match effect {
            Effect::Preview { ticket, .. } => Some(*ticket),
            _ => None,
        };
        effects.iter().filter_map(ticket).collect()
    }

    #[test]
    fn the_number_confirms_those_that_can_be_changed_and_they_go_one_by_one() {
        let mut many = many(&[("a", false), ("b", false), ("c", false), ("cp", true)]);
        assert!(many.show(1, answer("a", Risk::Low, Severity::Warning)).is_empty());
        many.show(2, answer("b", Risk::Low, Severity::Blocker));
        many.show(4, answer("cp", Risk::Low, Severity::Note));
        assert!(press(&mut many, "y e s space 1 enter").is_empty(), "one has not answered");
        many.show(3, answer("c", Risk::Low, Severity::Note));
        let screen = text(&many);
        assert_eq!(
            many.word(many.reading.is_done()),
            None,
            "what was not on the screen yet cannot be confirmed"
        );
        many.was_drawn(AREA, Timestamp::default());
        assert_eq!(text(&many), screen, "the first picture asks already");
        for part in [
            "prod/a: will be changed",
            "warning: something about a",
            "+ paused: true",
            "prod/b: left out",
            "something about b",
            "prod/cp: left out",
            "changed one by one",
            "Type yes 2, then enter",
        ] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
        assert!(press(&mut many, "enter enter y enter").is_empty(), "no letter is a yes");
        press(&mut many, "backspace");
        let first = press(&mut many, "y e s space 2 enter");
        assert_eq!(performed(&first), ["a"]);
        assert!(!many.can_close());
        let Next::Effects(second) = many.performed(1, report()) else { panic!("another one") };
        assert_eq!(performed(&second), ["c"]);
        let Next::Done(words) = many.performed(3, report()) else { panic!("the last one") };
        assert_eq!(words, "2 of 2 objects were changed");
    }

    #[test]
    fn the_first_failure_ends_it() {
        let mut many = many(&[("a", false), ("b", false), ("c", false)]);
        for (ticket, name) in [(1, "a"), (2, "b"), (3, "c")] {
            many.show(ticket, answer(name, Risk::Low, Severity::Note));
        }
        press(&mut many, "y e s space 3 enter");
        assert!(matches!(many.performed(1, report()), Next::Effects(_)));
        let Next::Failed(words) = many.performed(2, Err("it changed meanwhile".to_owned())) else {
            panic!("a failure")
        };
        assert!(words.contains("prod/b: it changed meanwhile"), "{words}");
        assert!(words.contains("1 of 3 objects were changed before, and 1 were not touched"), "{words}");
    }

    #[test]
    fn what_asks_for_a_name_is_left_out_and_nothing_unread_is_confirmed() {
        let mut many = many(&[("a", false), ("b", false)]);
        many.show(1, answer("a", Risk::High, Severity::Note));
        many.show(2, Err("the server refuses".to_owned()));
        let screen = text(&many);
        assert!(screen.contains("it asks for its name") && screen.contains("the server refuses"), "{screen}");
        assert!(screen.contains("None of them can be changed now."), "{screen}");
        let names: Vec<String> = (0..20).map(|at| format!("md-{at}")).collect();
        let objects: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), false)).collect();
        let mut many = self::many(&objects);
        for ticket in 1..=20 {
            many.show(ticket, answer("md", Risk::Low, Severity::Note));
        }
        assert!(press(&mut many, "y e s space 2 0 enter").is_empty(), "the end was not on the screen");
        many.step(Motion::Bottom, AREA);
        assert_eq!(performed(&press(&mut many, "y e s space 2 0 enter")).len(), 1);
    }
}
