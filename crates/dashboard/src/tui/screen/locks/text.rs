//! The lock view as lines: locks, what is odd, controllers by processes, changes of hands. Must not know what is scrolled.

use ratatui::text::{Line, Span};

use super::feed::LockFeed;
use super::table_text::{Heading, TextCell, table};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use crate::tui::widget::table::Align;
use capstan_base::text::{counted, truncate, wrap};
use capstan_base::time::{Timestamp, human_duration};
use leader_migration::lock_view::{HolderChange, LockRow, LockState, LockView};
use leader_migration::look::LockLook;
use leader_migration::matrix::{MatrixCell, matrix};
use leader_migration::process::Process;

/// Changes of hands that are shown, the last ones.
const CHANGES_SHOWN: usize = 20;

/// The whole page for a body of `width` cells.
pub fn page(feed: &LockFeed, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let width = width.saturating_sub(4);
    let Some(look) = &feed.look else { return waiting(feed, paint, width) };
    let view = look.view(&feed.scope.leader_name, paint.now);
    let mut lines = vec![head(feed, &view, paint), Line::default()];
    lines.extend(locks(&view, paint, width));
    section(&mut lines, odd(&view, paint, width));
    section(&mut lines, actors(look, paint, width));
    section(&mut lines, hands(&look.changes, paint, width));
    section(&mut lines, remarks(&look.remarks, paint, width));
    lines
}

fn section(lines: &mut Vec<Line<'static>>, more: Vec<Line<'static>>) {
    if !more.is_empty() {
        lines.push(Line::default());
        lines.extend(more);
    }
}

/// Before the first look.
pub fn waiting(feed: &LockFeed, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let (scope, words) = match &feed.trouble {
        Some(why) => (Scope::Unknown, format!("the locks of {} cannot be seen: {why}", feed.name())),
        None => (Scope::Muted, "the Leases are being read".to_owned()),
    };
    wrap(&words, width).into_iter().map(|part| Line::from(paint.span(scope, part))).collect()
}

fn head(feed: &LockFeed, view: &LockView, paint: &Paint<'_>) -> Line<'static> {
    let count = |state: LockState| view.rows.iter().filter(|row| row.lease.state() == state).count();
    let states = [LockState::Held, LockState::Free, LockState::Stale, LockState::Unknown];
    let states = states.into_iter().filter(|state| count(*state) > 0);
    let states = states.map(|state| format!("{} {}", count(state), state.word())).collect::<Vec<_>>();
    let words = match view.rows.len() {
        0 => "no Leases".to_owned(),
        all => {
            let locks = counted(all, "lock");
            let place = only_namespace(view).map(|namespace| format!(" in {namespace}")).unwrap_or_default();
            format!("{locks}{place}: {}", states.join(", "))
        }
    };
    let mut spans = vec![paint.span(Scope::Strong, words)];
    if !view.anomalies.is_empty() {
        spans.push(paint.span(Scope::Degraded, format!("  {} odd", view.anomalies.len())));
    }
    if let Some(why) = &feed.trouble {
        spans.push(paint.span(Scope::Stale, format!("  not current: {why}")));
    }
    Line::from(spans)
}

/// The namespace that all of them are in: it is said once.
fn only_namespace(view: &LockView) -> Option<&str> {
    let first = view.rows.first()?.lease.namespace.as_str();
    view.rows.iter().all(|row| row.lease.namespace == first).then_some(first)
}

/// What is decided by looking stands before what the holder claims.
const LOCKS: [Heading; 12] = [
    ("LEASE", 0, Align::Left),
    ("STATE", 1, Align::Left),
    ("HOLDER HOST", 2, Align::Left),
    ("CHANGED", 3, Align::Right),
    ("CLAIMED", 4, Align::Right),
    ("KIND", 5, Align::Left),
    ("MOVES", 6, Align::Right),
    ("COMPONENT", 7, Align::Left),
    ("HELD FOR", 8, Align::Right),
    ("LASTS", 9, Align::Right),
    ("STRATEGY", 10, Align::Left),
    ("HOLDER ID", 11, Align::Left),
];

fn locks(view: &LockView, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let is_alone = only_namespace(view).is_some();
    let strategic = view.rows.iter().any(|row| row.lease.strategy.is_some());
    let shown: Vec<usize> = (0..LOCKS.len()).filter(|at| strategic || LOCKS[*at].0 != "STRATEGY").collect();
    let headings: Vec<Heading> = shown.iter().map(|at| LOCKS[*at]).collect();
    let row = |row: &LockRow| {
        let mut cells: Vec<Option<TextCell>> = cells(row, is_alone, paint).into_iter().map(Some).collect();
        shown.iter().filter_map(|at| cells[*at].take()).collect()
    };
    let rows: Vec<Vec<TextCell>> = view.rows.iter().map(row).collect();
    table(&headings, &rows, paint, width)
}

fn state_cell(state: LockState, paint: &Paint<'_>) -> TextCell {
    let (glyph, scope) = match state {
        LockState::Held => (paint.glyphs().ok, Scope::Ok),
        LockState::Free => (paint.glyphs().unknown, Scope::Muted),
        LockState::Stale => (paint.glyphs().degraded, Scope::Degraded),
        LockState::Unknown => (paint.glyphs().unknown, Scope::Unknown),
    };
    TextCell { scope, text: format!("{glyph} {}", state.word()) }
}

/// `is_alone`: no other namespace is shown.
fn cells(row: &LockRow, is_alone: bool, paint: &Paint<'_>) -> [TextCell; 12] {
    let LockRow { lease, kind, component, recent_changes } = row;
    let (host, id) = lease.identity();
    let stated = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let changed = match lease.changed_s.map(i64::try_from) {
        Some(Ok(seconds)) => human_duration(seconds),
        // Without a change since watching began only the least is known.
        _ => format!(">{}", human_duration(i64::try_from(lease.watched_s).unwrap_or(i64::MAX))),
    };
    // Both count up by the second.
    paint.changes_in(1);
    let held_for =
        if lease.holder.is_empty() { "-".to_owned() } else { claimed(lease.acquired_us, paint.now) };
    let moves = match recent_changes {
        0 => lease.transitions.to_string(),
        recent => format!("{} (+{recent} in 10m)", lease.transitions),
    };
    let strategy = lease.strategy.as_ref().map(|strategy| match &lease.preferred_holder {
        Some(preferred) => format!("{strategy} / {preferred}"),
        None => strategy.clone(),
    });
    [
        TextCell { scope: Scope::Strong, text: if is_alone { lease.name.clone() } else { lease.key() } },
        state_cell(lease.state(), paint),
        TextCell::plain(stated(host)),
        TextCell::plain(changed),
        TextCell { scope: Scope::Muted, text: claimed(lease.renewed_us, paint.now) },
        TextCell::plain(kind.word()),
        TextCell::plain(moves),
        TextCell::plain(stated(component)),
        TextCell::plain(held_for),
        TextCell::plain(format!("{}s", lease.duration_s)),
        TextCell::plain(strategy.unwrap_or_else(|| "-".to_owned())),
        TextCell { scope: Scope::Muted, text: stated(id) },
    ]
}

/// How long ago a clock says that something was.
fn claimed(us: Option<i64>, now: Timestamp) -> String {
    us.map_or("-".to_owned(), |us| human_duration(((now.timestamp_micros() - us) / 1_000_000).max(0)))
}

fn odd(view: &LockView, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (lease, what) in &view.anomalies {
        for (at, part) in wrap(&format!("{lease}: {what}"), width.saturating_sub(5)).into_iter().enumerate() {
            let word = if at == 0 { "odd  " } else { "     " };
            lines.push(Line::from(vec![paint.span(Scope::Degraded, word), paint.span(Scope::Text, part)]));
        }
    }
    lines
}

/// Cells for a controller's name, and for one process.
const NAME_CELLS: usize = 20;
const PROCESS_CELLS: usize = 14;

fn actors(look: &LockLook, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let rows = matrix(&look.processes, &look.leases_at(paint.now));
    if rows.is_empty() {
        return Vec::new();
    }
    // Rows are there only where processes are, so that the bounds are in order.
    let fit = (width.saturating_sub(NAME_CELLS) / PROCESS_CELLS).clamp(1, look.processes.len());
    let mut heads = vec![paint.span(Scope::Column, format!("{:<NAME_CELLS$}", "CONTROLLER"))];
    let named = look.processes.iter().take(fit);
    heads.extend(named.map(|process| paint.span(Scope::Column, padded(&short_name(process), paint))));
    if fit < look.processes.len() {
        heads.push(paint.span(Scope::Muted, format!("+{}", look.processes.len() - fit)));
    }
    let mut lines = vec![Line::from(heads)];
    for row in &rows {
        let scope = if row.actors() > 1 { Scope::Blocked } else { Scope::Text };
        let mut spans = vec![paint.span(scope, format!("{:<NAME_CELLS$}", row.function.title()))];
        spans.extend(row.cells.iter().take(fit).map(|cell| matrix_cell(*cell, scope, paint)));
        lines.push(Line::from(spans));
    }
    let note = "derived from flags, files and holders";
    let mark = paint.glyphs().ok;
    lines
        .push(Line::from(paint.span(Scope::Muted, truncate(&format!("{mark} runs now; {note}"), width, ""))));
    lines
}

/// Kind and node; without a node, its own name.
fn short_name(process: &Process) -> String {
    match &process.node {
        Some(node) => format!("{} {node}", process.manager.short()),
        None => process.name.clone(),
    }
}

fn padded(text: &str, paint: &Paint<'_>) -> String {
    let cut = paint.cut_name(text, PROCESS_CELLS - 1);
    format!("{cut}{}", " ".repeat(PROCESS_CELLS - capstan_base::text::width(&cut)))
}

fn matrix_cell(cell: MatrixCell, doubled: Scope, paint: &Paint<'_>) -> Span<'static> {
    let word = cell.placement.map_or("-", |_| cell.word());
    if cell.runs_now {
        let scope = if doubled == Scope::Blocked { Scope::Blocked } else { Scope::Ok };
        return paint.span(scope, padded(&format!("{} {word}", paint.glyphs().ok), paint));
    }
    paint.span(Scope::Muted, padded(&format!("  {word}"), paint))
}

fn hands(changes: &[HolderChange], paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let holder = |holder: &str| if holder.is_empty() { "nobody".to_owned() } else { holder.to_owned() };
    let line = |change: &HolderChange| {
        let (from, to, arrow) = (holder(&change.from), holder(&change.to), paint.glyphs().crumb);
        let words = format!("{}: {from} {arrow} {to}, transition {}", change.lease, change.transitions);
        Line::from(vec![
            paint.span(Scope::Muted, format!("{:<5}", paint.age(change.at))),
            paint.span(Scope::Text, paint.cut(&words, width.saturating_sub(5))),
        ])
    };
    let shown: Vec<Line<'static>> = changes.iter().rev().take(CHANGES_SHOWN).map(line).collect();
    if shown.is_empty() {
        return shown;
    }
    std::iter::once(Line::from(paint.span(Scope::Column, "CHANGED HANDS"))).chain(shown).collect()
}

/// What had to be assumed, or could not be read.
pub fn remarks(remarks: &[String], paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let parts = remarks.iter().flat_map(|remark| wrap(remark, width));
    parts.map(|part| Line::from(paint.span(Scope::Muted, part))).collect()
}
