//! The pane that follows the cursor: how the selected object is, why, what to check, what holds it, what is next, which keys
//! help, and what changed last. Everything is read from the fleet and from plans that are known already: nothing is asked for. Must not know
//! where on the screen it stands.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::parts::{is_mark, mark_words, tags_beside_phase};
use super::plan_text;
use crate::fleet::Verdict;
use crate::fleet::{Condition, Fleet, Hop, Item, RowId, Tone};
use crate::tui::paint::{Paint, put, verdict_scope};
use crate::tui::plans::Plans;
use crate::tui::theme::Scope;
use capstan_base::text;

/// Behind a label.
const INDENT: usize = 6;
/// Lines for the evidence of one part, and changes that are shown.
const EVIDENCE_LINES_MAX: usize = 4;
const CHANGES_MAX: usize = 6;
/// What changed longer ago and is as it should be is not news.
const NEWS_S: i64 = 24 * 3_600;

/// What the pane is about.
#[derive(Clone, Copy)]
pub struct Pane<'a> {
    pub fleet: &'a Fleet,
    pub plans: &'a Plans,
    pub item: Option<Item>,
    /// Keys that do something with what is selected, with a word for each, the most useful first; none where the line below
    /// has them.
    pub keys: &'a [(String, &'static str)],
}

/// Draws the pane from the top of `area`; what does not fit is left out from its end.
pub fn view(pane: Pane<'_>, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
    let lines = Page { pane, paint, width: usize::from(area.width), lines: Vec::new() }.lines();
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        put(buffer, area.x, y, line, area.width);
    }
}

struct Page<'a, 'b> {
    pane: Pane<'a>,
    paint: &'a Paint<'b>,
    width: usize,
    lines: Vec<Line<'static>>,
}

impl Page<'_, '_> {
    fn lines(mut self) -> Vec<Line<'static>> {
        let Some(item) = self.pane.item else { return Vec::new() };
        let fleet = self.pane.fleet;
        let Some(line) = fleet.line(item) else { return Vec::new() };
        // Asking for the verdict of an owner looks at all that it owns: once is enough.
        let chain = match item {
            Item::Row(id) if line.verdict != Verdict::Ok => fleet.cause(id),
            _ => Vec::new(),
        };
        self.title(item, &line);
        if let Item::Row(id) = item {
            self.why(&chain);
            // Of what goes as usual, what comes next says more than what it means.
            if chain.last().is_some_and(|leaf| fleet.goes_as_usual(leaf.id)) {
                self.plan(id);
                self.advice(&chain);
            } else {
                self.advice(&chain);
                self.plan(id);
            }
            // What to check matters more where there is little room.
            if let Some(said) = chain.last().and_then(Hop::own_words) {
                self.limited("SAYS", said, Scope::Muted, EVIDENCE_LINES_MAX);
            }
            self.keys();
            self.last(id);
        } else if let Some(status) = line.status {
            self.paragraph("WHY", &words_of(status), Scope::Text);
        }
        self.lines
    }

    /// Name, verdict, and what else there is to know in a word each.
    fn title(&mut self, item: Item, line: &crate::fleet::Line<'_>) {
        let (fleet, paint) = (self.pane.fleet, self.paint);
        let scope = verdict_scope(line.verdict);
        let glyph = format!("{} ", paint.verdict_glyph(line.verdict));
        let name = paint.cut_name(line.name, self.width.saturating_sub(text::width(&glyph)));
        self.lines.push(Line::from(vec![paint.span(scope, glyph), paint.span(Scope::Strong, name)]));
        let since = match item {
            // As in the column, or one thing would have two ages.
            Item::Row(id) => fleet.since(id).map(|at| format!(" {}", paint.age(at))),
            Item::Group { .. } | Item::Reference { .. } => None,
        };
        let verdict = format!("{}{}", line.verdict.word(), since.unwrap_or_default());
        let node = if line.node == line.name { "" } else { line.node };
        let named = [("", line.kind), ("", line.phase), ("node ", node), ("zone ", line.failure_domain)];
        let named = named.into_iter().filter(|(_, word)| !word.is_empty());
        let mut more: Vec<String> = named.map(|(what, word)| format!("{what}{word}")).collect();
        more.extend(tags_beside_phase(line).filter(|tag| !is_mark(*tag)).map(|tag| tag.word().to_owned()));
        if let Item::Row(id) = item {
            more.extend(fleet.mark(id).map(|mark| mark_words(mark, paint)));
        }
        let separator = format!(" {} ", paint.glyphs().separator);
        let room = self.width.saturating_sub(2 + verdict.len());
        let more: String = more.iter().flat_map(|word| [separator.as_str(), word]).collect();
        let more = paint.cut(&more, room);
        let verdict = vec![Span::raw("  "), paint.span(scope, verdict), paint.span(Scope::Muted, more)];
        self.lines.push(Line::from(verdict));
    }

    /// From the object down to what explains it. A part's name is without what the name before has already.
    fn why(&mut self, chain: &[Hop]) {
        let fleet = self.pane.fleet;
        let last = chain.len().saturating_sub(1);
        let mut above = String::new();
        for (at, hop) in chain.iter().enumerate() {
            let Some(row) = fleet.row(hop.id) else { continue };
            let short = row.name.strip_prefix(above.as_str()).map(|rest| rest.trim_start_matches('-'));
            let short = short.filter(|rest| !rest.is_empty()).unwrap_or(&row.name).to_owned();
            above = row.name.to_string();
            let words = text::flat(&hop.plain);
            let is_last = at == last;
            // The object itself stands in the title, and what is above the cause mostly repeats it.
            if words.is_empty() || (at == 0 && !is_last) {
                continue;
            }
            let words = if at == 0 { words } else { format!("{words} ({short})") };
            if is_last {
                self.limited("WHY", &words, Scope::Text, EVIDENCE_LINES_MAX);
            } else {
                let words = self.paint.cut(&words, self.width.saturating_sub(INDENT));
                self.limited("WHY", &words, Scope::Muted, 1);
            }
        }
    }

    /// What to check, or else what it means, where that is known; of what goes as usual, what it means and how long that lasts.
    fn advice(&mut self, chain: &[Hop]) {
        let fleet = self.pane.fleet;
        let Some(leaf) = chain.last() else { return };
        let Some(words) = fleet.explanation(leaf.id) else { return };
        let told = match (fleet.goes_as_usual(leaf.id), words.check.is_empty()) {
            (true, _) => vec![("MEANS", &words.means), ("USUAL", &words.usual)],
            (false, true) => vec![("MEANS", &words.means)],
            (false, false) => vec![("CHECK", &words.check)],
        };
        let told = told.into_iter().chain([("BOOK", &words.runbook)]);
        for (label, sentence) in told.filter(|(_, sentence)| !sentence.is_empty()) {
            self.limited(label, sentence, Scope::Text, EVIDENCE_LINES_MAX);
        }
    }

    fn plan(&mut self, id: RowId) {
        let plans = self.pane.plans;
        let Some(plan) = self.pane.fleet.row(id).and_then(|row| plans.of_row(row)) else { return };
        if !plans.is_current() || plan_text::brief(plan).is_none() {
            return;
        }
        let (steps, held) = (plan.steps_in_words(), plan.held_in_words());
        if !held.is_empty() {
            self.paragraph("HELD", &held, Scope::Text);
        }
        if !steps.is_empty() {
            self.paragraph("NEXT", &steps, Scope::Text);
        }
    }

    fn keys(&mut self) {
        let paint = self.paint;
        let mut line = Line::default();
        for (keys, word) in self.pane.keys {
            let width = text::width(keys) + text::width(word) + 3;
            if INDENT + line.width() + width > self.width && line.width() > 0 {
                self.labelled("DO", std::mem::take(&mut line));
            }
            line.push_span(paint.span(Scope::Key, keys.clone()));
            line.push_span(paint.span(Scope::KeyText, format!(" {word}  ")));
        }
        if line.width() > 0 {
            self.labelled("DO", line);
        }
    }

    /// The conditions that changed last, by the object's own account.
    fn last(&mut self, id: RowId) {
        let Some(row) = self.pane.fleet.row(id) else { return };
        let is_news = |c: &&Condition| {
            let is_young = c.since().is_some_and(|at| (self.paint.now - at).num_seconds() < NEWS_S);
            c.since_s != 0 && (is_young || Tone::of(&c.type_, c.status) != Tone::Good)
        };
        let mut conditions: Vec<&Condition> = row.conditions.iter().filter(is_news).collect();
        conditions.sort_by_key(|c| std::cmp::Reverse(c.since_s));
        for condition in conditions.into_iter().take(CHANGES_MAX) {
            let scope = match Tone::of(&condition.type_, condition.status) {
                Tone::Good => Scope::Muted,
                Tone::Active => Scope::ConditionInfo,
                Tone::Bad => Scope::ConditionBad,
                Tone::Unknown => Scope::Unknown,
            };
            let age = condition.since().map(|at| self.paint.age_in_list(at)).unwrap_or_default();
            let what = format!("{} {}", condition.type_, condition.status.as_str());
            let what = self.paint.cut(&what, self.width.saturating_sub(INDENT + 6));
            let line =
                vec![self.paint.span(Scope::Muted, format!("{age:>4}  ")), self.paint.span(scope, what)];
            self.labelled("LAST", Line::from(line));
        }
    }

    /// A label, and text wrapped beside it.
    fn paragraph(&mut self, label: &'static str, words: &str, scope: Scope) {
        self.limited(label, words, scope, usize::MAX);
    }

    fn limited(&mut self, label: &'static str, words: &str, scope: Scope, most: usize) {
        let room = self.width.saturating_sub(INDENT).max(1);
        let paint = self.paint;
        for part in paint.wrapped(scope, words, text::wrap(words, room)).into_iter().take(most) {
            self.labelled(label, Line::from(part));
        }
    }

    /// A line behind its label, which is left out where the line before has it.
    fn labelled(&mut self, label: &'static str, line: Line<'static>) {
        let is_first =
            !self.lines.iter().any(|line| line.spans.first().is_some_and(|s| s.content.trim_end() == label));
        let lead = if is_first { label } else { "" };
        let mut spans = vec![self.paint.span(Scope::Column, format!("{lead:<INDENT$}"))];
        spans.extend(line.spans);
        self.lines.push(Line::from(spans));
    }
}

fn words_of(condition: &Condition) -> String {
    let message = text::flat(&condition.message);
    if message.is_empty() { condition.reason.to_string() } else { message }
}
