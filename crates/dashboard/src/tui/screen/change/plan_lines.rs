//! A plan, and what differs, as lines: what they say and what a copy of one is. Owns their wrapping; must not know which is selected.

use crate::operations::diff::{Sign, diff};
use crate::tui::theme::{Glyphs, Scope};
use capstan_base::text::{sanitize_line, wrap};
use kubeadm_change::difference::without_secrets;
use kubeadm_change::facts::ClusterFacts;
use kubeadm_change::gate::items_of;
use kubeadm_change::plan::{ChangePlan, PlannedStep};
use kubeadm_change::progress::{ItemState, ProgressItem, state_of};
use kubeadm_change::report;
use kubeadm_change::request::WantedDocument;

pub(super) struct TextLine {
    pub scope: Scope,
    pub text: String,
    /// Without marks and indents.
    pub copied: String,
    /// The state that stands before the text.
    pub state: Option<ItemState>,
}

impl TextLine {
    fn of(scope: Scope, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { scope, copied: text.trim().to_owned(), text, state: None }
    }
}

pub(super) fn mark(state: ItemState, glyphs: &Glyphs) -> (&'static str, Scope) {
    match state {
        ItemState::Done => (glyphs.ok, Scope::Ok),
        ItemState::Manual => (glyphs.footnote, Scope::Muted),
        ItemState::Pending => (glyphs.active, Scope::Muted),
        ItemState::InProgress => (glyphs.progressing, Scope::Progressing),
        ItemState::Unknown => (glyphs.unknown, Scope::Unknown),
        ItemState::Failed => (glyphs.degraded, Scope::Degraded),
    }
}

/// The whole plan. `items`: how far it is, when it was begun.
pub(super) fn of_plan(
    plan: &ChangePlan,
    facts: &ClusterFacts,
    items: Option<&[ProgressItem]>,
    width: usize,
) -> Vec<TextLine> {
    let mut lines = Vec::new();
    let (before, after) = report::sections(plan);
    if items.is_none() {
        lines.extend(report::head_lines(plan, facts).map(|line| TextLine::of(Scope::Muted, shown(&line))));
        add_sections(before, width, &mut lines);
    }
    if !plan.steps.is_empty() {
        heading("STEPS", &mut lines);
    }
    let state = |step| items.map(|items| state_of(items_of(step, items)).0);
    let is_open = |step| !matches!(state(step), Some(ItemState::Done | ItemState::Manual));
    let next = plan.steps.iter().position(is_open);
    for (at, step) in plan.steps.iter().enumerate() {
        add_step(at, step, (state(step), next == Some(at)), width, &mut lines);
    }
    add_sections(after, width, &mut lines);
    lines
}

fn shown(line: &str) -> String {
    sanitize_line(line).replace('\u{2192}', "->")
}

fn heading(title: &str, lines: &mut Vec<TextLine>) {
    if !lines.is_empty() {
        lines.push(TextLine::of(Scope::Text, ""));
    }
    lines.push(TextLine::of(Scope::Column, title));
}

fn add_sections(sections: report::Sections, width: usize, lines: &mut Vec<TextLine>) {
    for (title, texts) in sections.into_iter().filter(|(_, texts)| !texts.is_empty()) {
        heading(title, lines);
        texts.iter().for_each(|text| add_wrapped(Scope::Text, 2, text, width, lines));
    }
}

/// Wrapped with the indent of its beginning; every part is copied as the whole.
fn add_wrapped(scope: Scope, indent: usize, text: &str, width: usize, lines: &mut Vec<TextLine>) {
    let text = shown(text);
    let own = text.len() - text.trim_start().len();
    let margin = " ".repeat(indent + own);
    for part in wrap(text.trim(), width.saturating_sub(margin.len()).max(10)) {
        let line =
            TextLine { copied: text.trim().to_owned(), ..TextLine::of(scope, format!("{margin}{part}")) };
        lines.push(line);
    }
}

fn add_step(
    at: usize,
    step: &PlannedStep,
    (state, is_next): (Option<ItemState>, bool),
    width: usize,
    lines: &mut Vec<TextLine>,
) {
    let nodes = if step.nodes.is_empty() { String::new() } else { format!(" on {}", step.nodes.join(", ")) };
    let who = if step.id.is_by_api() { "  (the API)" } else { "" };
    let text = format!("{:>2}. {}{nodes}{who}", at + 1, step.title);
    let is_over = state == Some(ItemState::Done);
    let first = lines.len();
    let scope = match state {
        Some(ItemState::Done) => Scope::Muted,
        Some(ItemState::Pending) if !is_next => Scope::Text,
        _ => Scope::Strong,
    };
    add_wrapped(scope, 2, &text, width, lines);
    if let Some(line) = lines.get_mut(first) {
        line.state = state;
    }
    // What is done needs no commands any more.
    if is_over {
        return;
    }
    for needed in report::file_lines(step) {
        add_wrapped(Scope::Muted, 6, &needed, width, lines);
    }
    // One of them alone would be done whatever became of those before it.
    let script: Vec<String> = step.script().lines().map(sanitize_line).collect();
    for line in &script {
        let copied = script.join("\n");
        lines.push(TextLine { copied, ..TextLine::of(Scope::Text, format!("      $ {line}")) });
    }
    add_wrapped(Scope::Muted, 6, &format!("then: {}", step.check), width, lines);
}

/// The documents line by line, as they are and as they are wanted; secrets are hidden.
pub(super) fn of_difference(documents: &[WantedDocument]) -> Vec<TextLine> {
    let mut lines = Vec::new();
    for wanted in documents.iter().filter(|wanted| wanted.old != wanted.new) {
        heading(wanted.kind.name(), &mut lines);
        for line in diff(&without_secrets(&wanted.old), &without_secrets(&wanted.new)) {
            let scope = match line.sign {
                Sign::Added => Scope::DiffAdded,
                Sign::Removed => Scope::DiffRemoved,
                Sign::Same | Sign::Gap => Scope::DiffContext,
            };
            let text = format!("{} {}", line.sign.glyph(), line.text);
            lines.push(TextLine { copied: line.text.trim().to_owned(), ..TextLine::of(scope, text) });
        }
    }
    lines
}
