//! Why an object is as it is, as lines: the chain down to it with the age of each piece of evidence, and what the
//! evidence means in plain words. Must not know which screen shows them.

use ratatui::text::{Line, Span};

use crate::fleet::{Explanation, Fleet, Hop, RowId};
use crate::tui::paint::{Paint, verdict_scope};
use crate::tui::theme::Scope;
use capstan_base::text;

/// Cells before the words of an explanation.
const LABEL_CELLS: usize = 8;
/// An age with the blanks before it.
const AGE_CELLS: usize = 6;
/// Before evidence that stands below its object.
const BELOW: &str = "    ";

/// The chain from `explains`, the object whose state the shown one explains, or from the shown one itself, and what
/// its end means. Empty when it is well.
pub fn lines(
    fleet: &Fleet,
    id: Option<RowId>,
    explains: Option<(RowId, usize)>,
    paint: &Paint<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    let Some(id) = id else { return Vec::new() };
    let (of, at) = explains.unwrap_or((id, 0));
    let causes = fleet.causes(of);
    let Some(cause) = causes.get(at).or_else(|| causes.first()) else { return Vec::new() };
    let mut heading = Line::from(paint.span(Scope::Column, "WHY"));
    if causes.len() > 1 {
        heading.push_span(paint.span(Scope::Muted, format!("  {} of {}", at + 1, causes.len())));
    }
    let mut lines = vec![heading];
    let chain = fleet.chain(of, cause.leaf);
    let end = chain.last().map_or("", |hop| hop.words.as_str());
    for (at, hop) in chain.iter().enumerate() {
        // An object that only repeats the end of the chain is a name on the way to it.
        let words = if at + 1 < chain.len() && hop.words == end { "" } else { &hop.plain };
        lines.extend(hop_lines(fleet, hop, words, paint, width));
    }
    if let Some(said) = chain.last().and_then(Hop::own_words) {
        lines.extend(labelled("says", said, paint, width));
    }
    if cause.count > 1 {
        lines.push(Line::from(paint.span(Scope::Text, paint.cut(&format!("  {}", cause.words), width))));
    }
    if let Some(words) = fleet.explanation(cause.leaf) {
        lines.extend(explanation(words, fleet.goes_as_usual(cause.leaf), paint, width));
    }
    lines
}

/// One object of the chain: its verdict, name, evidence and the age of that. Evidence without room beside the name stands
/// below it.
fn hop_lines(fleet: &Fleet, hop: &Hop, words: &str, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let Some(row) = fleet.row(hop.id) else { return Vec::new() };
    let age = hop.since.filter(|_| !words.is_empty()).map(|at| paint.age(at)).unwrap_or_default();
    let words = text::flat(words);
    let (kind, name) = (format!("{} ", row.gvk.kind), row.name.to_string());
    let room = width.saturating_sub(2 + text::width(&kind) + text::width(&name) + 2 + AGE_CELLS);
    let has_room = text::width(&words) <= room;
    let below =
        if has_room { Vec::new() } else { text::wrap(&words, width.saturating_sub(BELOW.len()).max(1)) };
    let mut spans = vec![
        paint.span(verdict_scope(hop.verdict), format!("{} ", paint.verdict_glyph(hop.verdict))),
        paint.span(Scope::Muted, kind),
        paint.span(Scope::Strong, name),
    ];
    if has_room && !words.is_empty() {
        spans.push(Span::raw("  "));
        spans.extend(paint.linked(Scope::Text, &words));
    }
    spans.extend((!age.is_empty()).then(|| paint.span(Scope::Muted, format!("  {age}"))));
    let below = paint.wrapped(Scope::Text, &words, below).into_iter();
    let below = below.map(|part| Line::from_iter(std::iter::once(Span::raw(BELOW)).chain(part)));
    std::iter::once(Line::from(spans)).chain(below).collect()
}

/// What the evidence means, what is usual, what to check and the runbook, each wrapped behind its word. Of what goes as usual there is
/// nothing to check.
fn explanation(words: &Explanation, is_usual: bool, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let all = [
        ("means", &words.means),
        ("usual", &words.usual),
        ("check", &words.check),
        ("runbook", &words.runbook),
    ];
    let wanted = all.into_iter().filter(|(label, _)| *label != "check" || !is_usual);
    wanted.flat_map(|(label, sentence)| labelled(label, sentence, paint, width)).collect()
}

/// Wrapped behind its word; nothing of what is empty.
fn labelled(label: &str, sentence: &str, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let parts = text::wrap(sentence, width.saturating_sub(LABEL_CELLS).max(1));
    let parts = paint.wrapped(Scope::Text, sentence, parts).into_iter().filter(|_| !sentence.is_empty());
    let lines = parts.enumerate().map(|(at, part)| {
        let label = if at == 0 { label } else { "" };
        let label = paint.span(Scope::Muted, format!("{label:<LABEL_CELLS$}"));
        Line::from_iter(std::iter::once(label).chain(part))
    });
    lines.collect()
}
