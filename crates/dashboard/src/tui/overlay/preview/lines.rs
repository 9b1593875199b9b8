//! The lines of a preview and of its question. Owns their order and colours; must not know what a key does.

use ratatui::text::Line;

use crate::actions::{Outlook, Proposal};
use crate::operations::diff::Sign;
use crate::operations::{Finding, Severity};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use capi_forecast::forecast::in_place::Updates;
use capstan_base::text;

/// A line of the question, perhaps with the field behind it.
pub struct QuestionLine {
    pub scope: Scope,
    pub text: String,
    pub has_field: bool,
}

impl QuestionLine {
    /// Room for what is typed; a field with less gets a line of its own.
    const FIELD_CELLS: usize = 12;

    pub fn blank() -> Self {
        Self { scope: Scope::Text, text: String::new(), has_field: false }
    }

    pub fn all(scope: Scope, words: &str, width: usize, has_field: bool) -> Vec<Self> {
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

pub fn styled(paint: Option<&Paint<'_>>, scope: Scope, text: String) -> Line<'static> {
    match paint {
        Some(paint) => Line::from(paint.span(scope, text)),
        None => Line::from(text),
    }
}

/// Summary, findings (the gravest first) and difference. Without `paint` only the number of lines
/// matters.
pub fn body(preview: &Proposal, paint: Option<&Paint<'_>>, width: usize) -> Vec<Line<'static>> {
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
    let ahead = outlook(preview.outlook(), width);
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
pub fn outlook(outlook: &Outlook, width: usize) -> Vec<(Scope, String)> {
    let mut told: Vec<(Scope, &str, &str)> = Vec::new();
    let known = if let Outlook::Known(change) = outlook { change.updates.as_ref() } else { None };
    let updates = known.map(Updates::lines).unwrap_or_default();
    let assumed = match outlook {
        Outlook::Known(change) => change.assumptions.join("; "),
        Outlook::NotPlanned | Outlook::Unknown(_) => String::new(),
    };
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
            // One paragraph: a line for each of them pushed what is asked off the screen.
            if !assumed.is_empty() {
                told.push((Scope::Muted, "assumed:", &assumed));
            }
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
