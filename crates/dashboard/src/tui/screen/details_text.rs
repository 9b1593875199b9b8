//! The texts of the details screen as lines. Must not know what is scrolled or selected.

use ratatui::text::{Line, Span};
use serde_json::Value;

use super::related::{Related, Way};
use super::yaml_folds::Outline;
use super::{about_text, spec_text, timeline_text};
use crate::fleet::watch::{EventLine, FieldManager, ObjectNews};
use crate::fleet::{
    Cell, ConditionLine, Fleet, Item, Reader, Row, RowId, Severity, Target, Tone, condition_lines,
};
use crate::tui::paint::Paint;
use crate::tui::screen::parts::{counter, counters_of};
use crate::tui::theme::Scope;
use crate::tui::widget::counters;
use capi_types::columns::Column;
use capstan_base::text;

/// From here on the parts of the overview stand side by side.
const SIDE_BY_SIDE_MIN: usize = 130;
const EVENTS_SHOWN_MAX: usize = 200;
/// Cells between two of them.
const BETWEEN: usize = 3;

/// The followed object as far as it is known.
#[derive(Default)]
pub struct Full {
    object: Option<Box<Value>>,
    yaml: Option<Vec<String>>,
    outline: Outline,
    events: Option<Vec<EventLine>>,
    writers: Vec<FieldManager>,
    /// Why what is shown may be old.
    trouble: Option<String>,
}

impl Full {
    pub fn take(&mut self, news: &ObjectNews) {
        match news {
            ObjectNews::Object(object) => {
                let yaml: Vec<String> = to_yaml(object).lines().map(str::to_owned).collect();
                self.outline = Outline::of(&yaml);
                self.yaml = Some(yaml);
                self.object = Some(object.clone());
                self.trouble = None;
            }
            ObjectNews::Writers(writers) => self.writers.clone_from(writers),
            ObjectNews::Events(events) => self.events = Some(events.clone()),
            // What was read last stays on the page, below this sentence.
            ObjectNews::Gone => self.trouble = Some("the object does not exist any more".to_owned()),
            ObjectNews::Failed(why) => self.trouble = Some(why.clone()),
            ObjectNews::Unchanged => self.trouble = None,
        }
    }

    pub fn object(&self) -> Option<&Value> {
        self.object.as_deref()
    }

    /// Which lines of the YAML belong to which.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    pub fn yaml(&self) -> Option<&[String]> {
        self.yaml.as_deref()
    }
}

/// As kubectl prints it: long strings stay on one line.
fn to_yaml(object: &Value) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 1_000_000 };
    serde_saphyr::to_string_with_options(object, options)
        .unwrap_or_else(|error| format!("# not printable as YAML: {error}"))
}

/// What becomes of a message of very many lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Long {
    #[default]
    Cut,
    Whole,
}

/// A longer message is cut, and then has so many lines.
const MESSAGE_LINES_MAX: usize = 8;
const MESSAGE_LINES_CUT: usize = 6;

/// Related objects, and which of them is chosen.
#[derive(Clone, Copy)]
pub struct Links<'a> {
    pub all: &'a [Related],
    pub chosen: Option<usize>,
}

/// Conditions, spec beside status, counters and relations: below each other, or side by side where there is room; and
/// the line of the chosen relation.
pub fn overview(
    fleet: &Fleet,
    item: Option<Item>,
    full: &Full,
    links: Links<'_>,
    long: Long,
    paint: &Paint<'_>,
    width: usize,
) -> (Vec<Line<'static>>, Option<usize>) {
    let details = item.and_then(|item| if let Item::Row(id) = item { fleet.details(id) } else { None });
    let mut lines = trouble(full, paint, width);
    let (mut all, legacy) = match &details {
        Some(details) => (details.conditions.clone(), details.row.legacy),
        None => full.object.as_ref().map(|object| condition_lines(object)).unwrap_or_default(),
    };
    // What is wrong comes first; otherwise the object's own order.
    all.sort_by_key(|c| match c.tone {
        Tone::Bad => 0,
        Tone::Unknown => 1,
        Tone::Active => 2,
        Tone::Good => 3,
    });
    if details.is_none() && full.object.is_none() {
        lines.push(Line::from(paint.span(Scope::Muted, "reading the object")));
        return (lines, None);
    }
    let is_wide = width >= SIDE_BY_SIDE_MIN;
    let [left, middle, right] = if is_wide { shares(width) } else { [width; 3] };
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    conditions(&all, legacy, long, paint, left, &mut first);
    if let Some(object) = &full.object {
        second = spec_text::spec_beside_status(object, paint, middle);
    }
    if let Some(details) = &details {
        replicas(details.row, paint, &mut second);
    }
    let mut chosen = relations(links, paint, right, &mut third);
    if let (Some(details), Some(Item::Row(id))) = (&details, item) {
        let about = if is_wide { &mut second } else { &mut third };
        let known = about_text::about(fleet, id, details.row, full.object(), &full.writers, paint);
        facts(known, paint, middle, about);
        if is_wide {
            third.push(Line::default());
            third.extend(timeline_text::latest(fleet, id, paint, right));
        }
    }
    if details.is_none()
        && let Some(page) = about_text::console(fleet, None, full.object())
    {
        facts(
            vec![("console".to_owned(), page)],
            paint,
            middle,
            if is_wide { &mut second } else { &mut third },
        );
    }
    if !is_wide {
        // Below each other, the relations stand under the two columns before them.
        let before = [&first, &second].map(|column| if column.is_empty() { 0 } else { column.len() + 1 });
        chosen = chosen.map(|line| before[0] + before[1] + line);
    }
    let (writers, width) = if is_wide { (&mut second, middle) } else { (&mut third, width) };
    set_by(&full.writers, paint, width, writers);
    let chosen = chosen.map(|line| lines.len() + line);
    let columns = [(first, left), (second, middle), (third, right)];
    lines.extend(if is_wide { side_by_side(columns, paint) } else { below_each_other(columns) });
    (lines, chosen)
}

/// Cells of three columns, with what stands between them left over.
fn shares(width: usize) -> [usize; 3] {
    let (left, middle) = (width * 9 / 20, width * 6 / 20);
    [left, middle, width.saturating_sub(left + middle + 2 * BETWEEN)]
}

fn below_each_other(columns: [(Vec<Line<'static>>, usize); 3]) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (column, _) in columns.into_iter().filter(|(column, _)| !column.is_empty()) {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(column);
    }
    lines
}

fn side_by_side(columns: [(Vec<Line<'static>>, usize); 3], paint: &Paint<'_>) -> Vec<Line<'static>> {
    let height = columns.iter().map(|(column, _)| column.len()).max().unwrap_or(0);
    let rule = format!(" {} ", paint.glyphs().border.vertical_left);
    let line = |y: usize| {
        let mut line = Line::default();
        for (at, (column, width)) in columns.iter().enumerate() {
            if at > 0 {
                line.push_span(paint.span(Scope::Rule, rule.clone()));
            }
            let mut left = *width;
            for span in column.get(y).into_iter().flat_map(|line| &line.spans) {
                let text = paint.cut(&span.content, left);
                left -= text::width(&text).min(left);
                line.push_span(Span::styled(text, span.style));
            }
            // Filled up, so that the rules between the columns stand below each other.
            line.push_span(" ".repeat(left));
        }
        line
    };
    (0..height).map(line).collect()
}

fn trouble(full: &Full, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let text = full.trouble.as_deref().unwrap_or_default();
    let lines = if text.is_empty() { Vec::new() } else { text::wrap(text, width) };
    lines.into_iter().map(|line| Line::from(paint.span(Scope::Stale, line))).collect()
}

fn heading(title: &'static str, paint: &Paint<'_>, lines: &mut Vec<Line<'static>>) {
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines.push(Line::from(paint.span(Scope::Column, title.to_uppercase())));
}

fn conditions(
    all: &[ConditionLine],
    legacy: bool,
    long: Long,
    paint: &Paint<'_>,
    width: usize,
    lines: &mut Vec<Line<'static>>,
) {
    heading("Conditions", paint, lines);
    if let Some(heading) = lines.last_mut().filter(|_| legacy) {
        heading.push_span(paint.span(Scope::Stale, "  deprecated, of v1beta1"));
    }
    if all.is_empty() {
        lines.push(Line::from(paint.span(Scope::Muted, "the object reports none")));
    }
    let widest = |of: fn(&ConditionLine) -> &str| all.iter().map(|c| text::width(of(c))).max().unwrap_or(0);
    let reason_width = widest(|c| &c.reason).min(width / 3);
    let type_width = widest(|c| &c.type_).min(width.saturating_sub(reason_width + 20).max(12));
    for condition in all {
        let (glyph, scope) = match condition.tone {
            Tone::Good => (paint.glyphs().ok, Scope::ConditionGood),
            Tone::Active => (paint.glyphs().progressing, Scope::ConditionInfo),
            Tone::Bad => (paint.glyphs().degraded, Scope::ConditionBad),
            Tone::Unknown => (paint.glyphs().unknown, Scope::Unknown),
        };
        let quiet = condition.tone == Tone::Good;
        let age = condition.since.map(|at| paint.age(at)).unwrap_or_default();
        let type_ = paint.cut(&condition.type_, type_width);
        let reason = paint.cut(&condition.reason, reason_width);
        lines.push(Line::from(vec![
            paint.span(scope, format!("{glyph} ")),
            paint.span(if quiet { Scope::Text } else { Scope::Strong }, format!("{type_:<type_width$}  ")),
            paint.span(scope, format!("{:<7}  ", condition.status.as_str())),
            paint.span(
                scope,
                if legacy { format!("{:<7}  ", severity_word(condition.severity)) } else { String::new() },
            ),
            paint.span(if quiet { Scope::Muted } else { Scope::Text }, format!("{reason:<reason_width$}  ")),
            paint.span(Scope::Muted, format!("{age:>4}")),
        ]));
        let message = if quiet { Scope::Muted } else { Scope::Text };
        lines.extend(message_lines(&condition.message, message, long, paint, width));
    }
}

/// A message below what it is about.
fn message_lines(
    message: &str,
    scope: Scope,
    long: Long,
    paint: &Paint<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    if message.is_empty() {
        return Vec::new();
    }
    let parts = paint.wrapped(scope, message, text::wrap(message, width.saturating_sub(4)));
    let count = parts.len();
    let is_cut = long == Long::Cut && count > MESSAGE_LINES_MAX;
    let shown = if is_cut { MESSAGE_LINES_CUT } else { count };
    let line = |part: Vec<Span<'static>>| Line::from_iter(std::iter::once(Span::raw("    ")).chain(part));
    let mut lines: Vec<Line<'static>> = parts.into_iter().take(shown).map(line).collect();
    if is_cut {
        let more = format!("{} {} more lines; space shows them", paint.glyphs().ellipsis, count - shown);
        lines.push(line(vec![paint.span(Scope::Muted, more)]));
    }
    lines
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::None => "",
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// Upstream's counters of the row in words, a line for each group.
fn replicas(row: &Row, paint: &Paint<'_>, lines: &mut Vec<Line<'static>>) {
    let read = |column: &Column| {
        let (prefix, _) = counter(column)?;
        let word = column.name.trim_start_matches(prefix).trim_start().to_lowercase();
        let number = if let Cell::Number(n) = Reader::of(column)?.read(row) { Some(n) } else { None };
        Some((prefix, word, number))
    };
    let all: Vec<_> = row.kind.columns().iter().filter_map(read).collect();
    if !all.is_empty() {
        heading("Replicas", paint, lines);
    }
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        let whose = counters_of(group[0].0);
        let label = if whose.is_empty() { String::new() } else { format!("{whose:<16}") };
        let mut line = Line::from(paint.span(Scope::Muted, label));
        for (_, word, number) in group {
            let scope = match counters::scope(*number, group[0].2) {
                Scope::Muted => Scope::Text,
                other => other,
            };
            let text = number.map_or_else(|| paint.glyphs().none.to_owned(), |n| n.to_string());
            line.push_span(paint.span(scope, text));
            line.push_span(paint.span(Scope::Muted, format!(" {word}   ")));
        }
        lines.push(line);
    }
}

/// How a Machine differs from what its owner wants.
pub fn outdated(differences: &[String], paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if !differences.is_empty() {
        heading("Not up to date", paint, &mut lines);
    }
    for difference in differences {
        let parts = text::wrap(difference, width);
        lines.extend(parts.into_iter().map(|part| Line::from(paint.span(Scope::Text, part))));
    }
    lines
}

/// Each related object under a heading. Answers the line of the chosen one.
fn relations(
    links: Links<'_>,
    paint: &Paint<'_>,
    width: usize,
    lines: &mut Vec<Line<'static>>,
) -> Option<usize> {
    if links.all.is_empty() {
        return None;
    }
    heading("Related", paint, lines);
    let mut chosen = None;
    for (at, link) in links.all.iter().enumerate() {
        if links.chosen == Some(at) {
            chosen = Some(lines.len());
        }
        let scope = match (links.chosen == Some(at), &link.way) {
            (true, _) => Scope::Match,
            (false, Way::None(_)) => Scope::Muted,
            (false, _) => Scope::Text,
        };
        let mark = if links.chosen == Some(at) { paint.glyphs().cursor } else { "" };
        let word = format!("{:<width$}", link.word, width = 16 - text::width(mark));
        let label = [paint.span(Scope::Match, mark), paint.span(Scope::Muted, word)];
        let kind = paint.span(Scope::Muted, format!("{} ", link.kind));
        let mut spans = Vec::from(label);
        spans.push(kind);
        let used: usize = spans.iter().map(Span::width).sum();
        if used + text::width(&link.name) <= width {
            spans.push(paint.span(scope, link.name.clone()));
            lines.push(Line::from(spans));
        } else {
            lines.push(Line::from(spans));
            let name = paint.cut_name(&link.name, width.saturating_sub(2));
            lines.push(Line::from(vec![Span::raw("  "), paint.span(scope, name)]));
        }
    }
    chosen
}

/// What else is known of it, a word and a value each.
fn facts(all: Vec<(String, String)>, paint: &Paint<'_>, width: usize, lines: &mut Vec<Line<'static>>) {
    heading("About", paint, lines);
    for (word, value) in all {
        let parts = text::wrap(&value, width.saturating_sub(16));
        for (at, part) in paint.wrapped(Scope::Text, &value, parts).into_iter().enumerate() {
            let word = if at == 0 { word.as_str() } else { "" };
            let word = paint.span(Scope::Muted, format!("{word:<16}"));
            lines.push(Line::from_iter(std::iter::once(word).chain(part)));
        }
    }
}

/// Who set which fields, and when last: a line for each writer, and its fields below.
fn set_by(writers: &[FieldManager], paint: &Paint<'_>, width: usize, lines: &mut Vec<Line<'static>>) {
    if writers.is_empty() {
        return;
    }
    heading("Set by", paint, lines);
    for FieldManager { manager, at, fields } in writers {
        let age = at.map(|at| format!("  {} ago", paint.age(at))).unwrap_or_default();
        lines.push(Line::from(vec![
            paint.span(Scope::Text, paint.cut(manager, width.saturating_sub(text::width(&age)))),
            paint.span(Scope::Muted, age),
        ]));
        for line in text::wrap(&fields.join(", "), width.saturating_sub(2)) {
            lines.push(Line::from(paint.span(Scope::Muted, format!("  {line}"))));
        }
    }
}

pub fn yaml(full: &Full, paint: &Paint<'_>) -> Vec<Line<'static>> {
    let mut lines = trouble(full, paint, 120);
    match &full.yaml {
        None if lines.is_empty() => lines.push(Line::from(paint.span(Scope::Muted, "reading the object"))),
        None => {}
        Some(text) => lines.extend(text.iter().map(|line| yaml_line(line, paint))),
    }
    lines
}

fn yaml_line(line: &str, paint: &Paint<'_>) -> Line<'static> {
    let start = line.len() - line.trim_start_matches([' ', '-']).len();
    let is_key = |key: &str| !key.is_empty() && !key.contains([' ', '"', '\'']);
    match line[start..].split_once(':') {
        // A blank or nothing stands behind a key: `nginx:1.29` in a list is a value.
        Some((key, rest)) if is_key(key) && (rest.is_empty() || rest.starts_with(' ')) => {
            let key = [
                paint.span(Scope::Muted, line[..start].to_owned()),
                paint.span(Scope::YamlKey, key.to_owned()),
                paint.span(Scope::Muted, ":"),
            ];
            Line::from_iter(key.into_iter().chain(paint.linked(Scope::YamlValue, rest)))
        }
        _ => Line::from(paint.linked(Scope::YamlValue, line)),
    }
}

/// Events about the object and what is below it, newest first.
pub fn events(
    fleet: &Fleet,
    row: Option<RowId>,
    target: &Target,
    full: &Full,
    long: Long,
    paint: &Paint<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    let mut lines = trouble(full, paint, width);
    let Some(events) = &full.events else {
        if lines.is_empty() {
            lines.push(Line::from(paint.span(Scope::Muted, "reading events")));
        }
        return lines;
    };
    let is_own = |event: &EventLine| event.name == target.name && event.kind == target.kind;
    let concerns =
        |event: &&EventLine| is_own(event) || row.is_some_and(|id| fleet.has_below(id, &event.name));
    let events: Vec<&EventLine> = events.iter().rev().filter(concerns).take(EVENTS_SHOWN_MAX).collect();
    if events.is_empty() {
        lines.push(Line::from(paint.span(
            Scope::Muted,
            "no events about this object, or about what is below it, are kept by the server",
        )));
    }
    for event in events {
        let (glyph, scope) = if event.warning {
            (paint.glyphs().degraded, Scope::ConditionBad)
        } else {
            (paint.glyphs().active, Scope::Muted)
        };
        let age = event.last_seen.map(|at| paint.age(at)).unwrap_or_default();
        let times = if event.count > 1 { format!("  {} times", event.count) } else { String::new() };
        lines.push(Line::from(vec![
            paint.span(scope, format!("{glyph} ")),
            paint.span(Scope::Muted, format!("{age:>4}  ")),
            paint.span(Scope::Strong, event.reason.clone()),
            paint.span(
                Scope::Muted,
                if is_own(event) { String::new() } else { format!("  {} {}", event.kind, event.name) },
            ),
            paint.span(Scope::Muted, format!("  {}{times}", event.from)),
        ]));
        lines.extend(message_lines(&event.message, Scope::Text, long, paint, width));
    }
    lines
}
