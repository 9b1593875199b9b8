//! How a condition looks in a list: its status, what it says, and the glyph that stands for it in a matrix. Must not know which
//! objects are on the list.

use ratatui::text::Line;

use crate::fleet::{Condition, Tone, Verdict};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use capstan_base::text;

/// What a condition says besides its status.
pub fn message_of(condition: &Condition) -> String {
    let message = text::flat(condition.message.trim_start_matches("* "));
    let words = [condition.reason.as_ref(), &message].into_iter().filter(|words| !words.is_empty());
    words.collect::<Vec<_>>().join(": ")
}

/// The glyph and the colour of a condition that stands so.
fn mark_of(condition: &Condition, paint: &Paint<'_>) -> (&'static str, Scope) {
    match Tone::of(&condition.type_, condition.status) {
        Tone::Good => (paint.verdict_glyph(Verdict::Ok), Scope::Muted),
        Tone::Active => (paint.verdict_glyph(Verdict::Progressing), Scope::ConditionInfo),
        Tone::Bad => (paint.verdict_glyph(Verdict::Degraded), Scope::ConditionBad),
        Tone::Unknown => (paint.verdict_glyph(Verdict::Unknown), Scope::Unknown),
    }
}

pub fn status(condition: &Condition, paint: &Paint<'_>) -> Line<'static> {
    let (glyph, scope) = mark_of(condition, paint);
    Line::from(paint.span(scope, format!("{glyph} {}", condition.status.as_str())))
}

/// A glyph, and where there is room since when it is not as it should be.
pub fn in_matrix(condition: Option<&Condition>, room: usize, paint: &Paint<'_>) -> Line<'static> {
    let Some(condition) = condition else {
        return Line::from(paint.span(Scope::Muted, paint.glyphs().none));
    };
    let (glyph, scope) = mark_of(condition, paint);
    let is_good = Tone::of(&condition.type_, condition.status) == Tone::Good;
    let age = condition.since().filter(|_| !is_good).map(|at| paint.age_in_list(at));
    let with_age = age.map(|age| format!("{glyph} {age}")).filter(|text| text::width(text) <= room);
    Line::from(paint.span(scope, with_age.unwrap_or_else(|| glyph.to_owned())))
}
