//! A stage of a leader migration as lines: state, evidence, edits with their inverse, the way back. Must not judge it.

use std::fmt::Write as _;

use ratatui::text::Line;

use super::feed::LockFeed;
use super::text::remarks;
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use capstan_base::text::{sanitize_block, sanitize_line, wrap};
use leader_migration::edits::{StageEdit, StageEdits, edits};
use leader_migration::stages::{NodeWait, StageReport, StageState, Walkthrough};

/// How far all of it is, and how current.
pub fn head(feed: &LockFeed, reports: &[StageReport], paint: &Paint<'_>) -> Line<'static> {
    let done = reports.iter().filter(|report| report.state == StageState::Done).count();
    let words = match reports.iter().find(|report| report.state != StageState::Done) {
        Some(report) => format!("stage {} {}, {done} done", report.stage as usize, report.state.word()),
        None => "every stage is done".to_owned(),
    };
    let mut spans = vec![paint.span(Scope::Strong, words)];
    if let Some(why) = &feed.trouble {
        spans.push(paint.span(Scope::Stale, format!("  not current: {why}")));
    }
    Line::from(spans)
}

/// Number, state and what the stage is about; the rest before the next node.
pub fn stage_line(report: &StageReport, paint: &Paint<'_>, width: usize) -> Line<'static> {
    let (glyph, scope) = match report.state {
        StageState::Done => (paint.glyphs().ok, Scope::Ok),
        StageState::InProgress(_) | StageState::Todo(_) => (paint.glyphs().progressing, Scope::Progressing),
        StageState::Blocked(_) => (paint.glyphs().blocked, Scope::Blocked),
        StageState::Later => (paint.glyphs().separator, Scope::Muted),
    };
    let wait = report.wait.as_ref().map(|wait| {
        // It counts down by the second.
        paint.changes_in(1);
        format!("  wait {} s", wait.left_s)
    });
    let wait = wait.unwrap_or_default();
    let room = width.saturating_sub(18 + wait.len());
    Line::from(vec![
        paint.span(Scope::Muted, format!("{} ", report.stage as usize)),
        paint.span(scope, format!("{glyph} {:<13}", report.state.word())),
        paint.span(Scope::Strong, paint.cut(report.stage.title(), room)),
        paint.span(Scope::Degraded, wait),
    ])
}

pub fn details(feed: &LockFeed, report: &StageReport, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let width = width.saturating_sub(4);
    let mut lines = Vec::new();
    let scope = if matches!(report.state, StageState::Blocked(_)) { Scope::Blocked } else { Scope::Text };
    words(&mut lines, report.state.reason(), scope, paint, width);
    if let Some(NodeWait { after, left_s }) = &report.wait {
        let text = format!("wait {left_s} s before the next restart: {after} was restarted last");
        words(&mut lines, &text, Scope::Degraded, paint, width);
    }
    if let Some(look) = feed.look.as_ref().filter(|_| report.state != StageState::Later) {
        let age = paint.age(look.at);
        lines.push(Line::from(paint.span(Scope::Column, format!("EVIDENCE, seen {age} ago"))));
        for proof in &report.proofs {
            words(&mut lines, &format!("{}: {}", proof.object, proof.value), Scope::Text, paint, width);
        }
        lines.extend(remarks(&look.remarks, paint, width));
    }
    let StageEdits { edits, omitted, .. } = stage_edits(feed, report);
    for StageEdit { title, text, inverse, .. } in edits {
        lines.push(Line::from(paint.span(Scope::Column, paint.cut(&sanitize_line(&title), width))));
        lines.extend(block(&text, Scope::DiffAdded, paint, width));
        lines.push(Line::from(paint.span(Scope::Muted, "taken back by:")));
        lines.extend(block(&inverse, Scope::DiffRemoved, paint, width));
    }
    for what in omitted {
        words(&mut lines, &format!("not printed: {what}"), Scope::Muted, paint, width);
    }
    lines.push(Line::from(paint.span(Scope::Column, "WAY BACK")));
    words(&mut lines, report.stage.rollback(), Scope::Text, paint, width);
    lines
}

fn block(text: &str, scope: Scope, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let lines = sanitize_block(text);
    lines.lines().map(|line| Line::from(paint.span(scope, paint.cut(&format!("  {line}"), width)))).collect()
}

fn words(lines: &mut Vec<Line<'static>>, text: &str, scope: Scope, paint: &Paint<'_>, width: usize) {
    if !text.is_empty() {
        let parts = wrap(&sanitize_line(text), width).into_iter();
        lines.extend(parts.map(|part| Line::from(paint.span(scope, part))));
    }
}

/// A stage that must not be begun has no edits to offer.
fn stage_edits(feed: &LockFeed, report: &StageReport) -> StageEdits {
    match &feed.look {
        Some(look) if !matches!(report.state, StageState::Blocked(_) | StageState::Done) => {
            edits(report.stage, &look.settings(&feed.scope, None))
        }
        _ => StageEdits::default(),
    }
}

pub fn edits_text(feed: &LockFeed, report: &StageReport) -> Option<String> {
    feed.look.as_ref()?;
    let mut all = String::new();
    for StageEdit { title, text, .. } in stage_edits(feed, report).edits {
        let _ = write!(all, "# {title}\n{text}");
    }
    Some(sanitize_block(&all))
}

/// There is nothing to migrate, or nobody to judge.
pub fn nothing(
    feed: &LockFeed,
    walkthrough: Option<&Walkthrough>,
    paint: &Paint<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    match walkthrough {
        Some(Walkthrough::NothingToMigrate { oldest }) => {
            let why = format!(
                "nothing to migrate: no kube-controller-manager ({oldest}) has a cloud provider in it; node IPAM alone can move"
            );
            words(&mut lines, &why, Scope::Ok, paint, width);
        }
        _ => {
            let name = feed.name();
            let why = format!(
                "no pod of kube-controller-manager or cloud-controller-manager is in {} of {name}",
                feed.scope.namespace
            );
            words(&mut lines, &why, Scope::Unknown, paint, width);
        }
    }
    let said = feed.look.as_ref().map(|look| look.remarks.as_slice()).unwrap_or_default();
    lines.extend(remarks(said, paint, width));
    lines
}
