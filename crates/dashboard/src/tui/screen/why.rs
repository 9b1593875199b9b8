//! Why an object is as it is, as lines: the chain down to it with the age of each piece of evidence, and what the
//! evidence means in plain words. Must not know which screen shows them.

use ratatui::text::Line;

use crate::fleet::{Explanation, Fleet, Hop, RowId};
use crate::tui::paint::{Paint, verdict_scope};
use crate::tui::theme::Scope;
use capstan_base::text;

/// Cells before the words of an explanation.
const LABEL_CELLS: usize = 8;

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
        let words = if at + 1 < chain.len() && hop.words == end { "" } else { &hop.words };
        lines.extend(hop_line(fleet, hop, words, paint, width));
    }
    if cause.count > 1 {
        lines.push(Line::from(paint.span(Scope::Text, paint.cut(&format!("  {}", cause.words), width))));
    }
    if let Some(words) = fleet.explanation(cause.leaf) {
        lines.extend(explanation(words, fleet.goes_as_usual(cause.leaf), paint, width));
    }
    lines
}

/// One object of the chain: its verdict, name, evidence and the age of that.
fn hop_line(fleet: &Fleet, hop: &Hop, words: &str, paint: &Paint<'_>, width: usize) -> Option<Line<'static>> {
    let row = fleet.row(hop.id)?;
    let age = hop.since.filter(|_| !words.is_empty()).map(|at| paint.age(at)).unwrap_or_default();
    let words: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let (kind, name) = (format!("{} ", row.gvk.kind), row.name.to_string());
    let taken = 2 + text::width(&kind) + text::width(&name) + 2 + 6;
    let words = paint.cut(&words, width.saturating_sub(taken).max(width / 3));
    Some(Line::from(vec![
        paint.span(verdict_scope(hop.verdict), format!("{} ", paint.verdict_glyph(hop.verdict))),
        paint.span(Scope::Muted, kind),
        paint.span(Scope::Strong, name),
        paint.span(Scope::Text, format!("  {words}")),
        paint.span(Scope::Muted, format!("  {age}")),
    ]))
}

/// What the evidence means, what is usual and what to check, each wrapped behind its word. Of what goes as usual there is
/// nothing to check.
fn explanation(words: &Explanation, is_usual: bool, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (label, sentence) in [("means", &words.means), ("usual", &words.usual), ("check", &words.check)] {
        let parts = if sentence.is_empty() || (label == "check" && is_usual) {
            Vec::new()
        } else {
            text::wrap(sentence, width.saturating_sub(LABEL_CELLS).max(1))
        };
        for (at, part) in parts.into_iter().enumerate() {
            let label = if at == 0 { label } else { "" };
            lines.push(Line::from(vec![
                paint.span(Scope::Muted, format!("{label:<LABEL_CELLS$}")),
                paint.span(Scope::Text, part),
            ]));
        }
    }
    lines
}
