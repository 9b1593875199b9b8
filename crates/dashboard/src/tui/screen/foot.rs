//! The foot: what is selected and why it is as it is, in two lines.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::parts::tags_beside_phase;
use super::plan_text;
use crate::fleet::Verdict;
use crate::fleet::{FeedState, Fleet, Item, Kind};
use crate::tui::layout::Layout;
use crate::tui::paint::{Paint, put, verdict_scope};
use crate::tui::plans::Plans;
use crate::tui::theme::Scope;
use capstan_base::text;

/// Draws the rule with what could not be read in it, and, where no pane has it, the cause chain of the selected object. `marked`: some verdict
/// above carries the mark that is explained here. `plan`: what happens next to the object, where it says more than the
/// cause does.
pub fn view(
    item: Option<Item>,
    marked: bool,
    plan: Option<String>,
    fleet: &Fleet,
    paint: &Paint<'_>,
    layout: &Layout,
    buffer: &mut Buffer,
) {
    if layout.foot_rule.height == 0 {
        return;
    }
    paint.rule(layout.foot_rule, buffer);
    let mut warnings = warnings(fleet);
    if marked {
        warnings.insert(0, format!("{} by deprecated v1beta1 conditions", paint.glyphs().footnote));
    }
    if !warnings.is_empty() {
        let warning = warnings.join("; ");
        let room = usize::from(layout.foot_rule.width.saturating_sub(6));
        let label = format!(" {} ", paint.cut(&warning, room));
        let line = Line::from(paint.span(Scope::Stale, label));
        put(
            buffer,
            layout.foot_rule.x + 2,
            layout.foot_rule.y,
            &line,
            layout.foot_rule.width.saturating_sub(4),
        );
    }
    // A higher foot has the pane in it.
    let Some(item) = item.filter(|_| !layout.has_high_foot()) else { return };
    let width = usize::from(layout.foot.width.saturating_sub(4));
    let lines = sentence(item, plan, fleet, paint, width);
    for (y, line) in (layout.foot.y..layout.foot.bottom()).zip(lines) {
        put(buffer, layout.foot.x + 2, y, &line, layout.foot.width.saturating_sub(2));
    }
}

/// Which part of something longer is shown, at the right end of the rule below it.
pub fn position(
    first: usize,
    page: usize,
    len: usize,
    paint: &Paint<'_>,
    layout: &Layout,
    buffer: &mut Buffer,
) {
    if len <= page || layout.foot_rule.height == 0 {
        return;
    }
    let text = format!(" {}-{} of {len} ", first + 1, (first + page).min(len));
    let width = u16::try_from(text.len()).unwrap_or(0);
    let x = layout.foot_rule.right().saturating_sub(width + 2);
    put(buffer, x, layout.foot_rule.y, &Line::from(paint.span(Scope::Muted, text)), width);
}

/// What could not be read, and what else a source has to tell, one sentence each.
pub fn warnings(fleet: &Fleet) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let lost = fleet.feeds().filter_map(|(_, feed)| match &feed.state {
        FeedState::Lost { error } | FeedState::Silent { error } => Some(error.to_string()),
        _ => None,
    });
    for error in lost {
        // A server that is lost has every feed say the same.
        if !all.contains(&error) {
            all.push(error);
        }
    }
    let refused = |state: &FeedState| matches!(state, FeedState::NoAccess { .. });
    let mut kinds: Vec<&str> =
        fleet.feeds().filter(|(_, f)| refused(&f.state)).map(|(key, _)| key.kind.as_ref()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if !kinds.is_empty() {
        all.push(format!("no access: {}", kinds.join(", ")));
    }
    all.extend(fleet.sources().filter_map(|(_, info)| info.notice.as_deref().map(str::to_owned)));
    all
}

/// The same at length: with the server's words for every kind that it refused.
pub fn explanation(fleet: &Fleet) -> String {
    let refusals = fleet.feeds().filter_map(|(key, feed)| match &feed.state {
        FeedState::NoAccess { error } => Some(format!("{}: {error}", key.kind)),
        _ => None,
    });
    warnings(fleet).into_iter().chain(refusals).collect::<Vec<_>>().join("\n\n")
}

/// What an object does next or why it does not, where it rolls, scales or is stuck. Of a Machine only what no
/// condition shows.
pub fn plan_of(item: Option<Item>, fleet: &Fleet, plans: &Plans) -> Option<String> {
    let Some(Item::Row(id)) = item.filter(|_| plans.is_current()) else { return None };
    let row = fleet.row(id)?;
    if row.kind == Kind::Machine && fleet.own_verdict(id) != Verdict::Ok {
        return None;
    }
    plan_text::brief(plans.of_row(row)?)
}

/// From the object down to the cause, one hop after another, wrapped to two lines.
fn sentence(
    item: Item,
    plan: Option<String>,
    fleet: &Fleet,
    paint: &Paint<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    let Some(line) = fleet.line(item) else { return Vec::new() };
    let mut head = vec![
        paint.span(verdict_scope(line.verdict), format!("{} ", paint.verdict_glyph(line.verdict))),
        paint
            .span(Scope::Muted, if line.kind.is_empty() { String::new() } else { format!("{} ", line.kind) }),
        paint.span(Scope::Strong, paint.cut_name(line.name, width / 2)),
    ];
    let mut more: Vec<String> = Vec::new();
    if !line.phase.is_empty() {
        more.push(line.phase.to_owned());
    }
    if !line.node.is_empty() && line.node != line.name {
        more.push(format!("node {}", line.node));
    }
    if !line.failure_domain.is_empty() {
        more.push(format!("zone {}", line.failure_domain));
    }
    more.extend(tags_beside_phase(&line).map(|tag| tag.word().to_owned()));
    if !more.is_empty() {
        let separator = format!(" {} ", paint.glyphs().separator);
        head.push(Span::raw("  "));
        head.push(paint.span(Scope::Muted, more.join(&separator)));
    }
    let second = match plan {
        Some(plan) => Line::from(paint.span(Scope::Text, paint.cut(&plan, width))),
        None => why(item, fleet, paint, width, line.verdict),
    };
    vec![Line::from(head), second]
}

fn why(item: Item, fleet: &Fleet, paint: &Paint<'_>, width: usize, verdict: Verdict) -> Line<'static> {
    let Item::Row(id) = item else {
        let status = fleet.line(item).and_then(|l| l.status.map(|c| format!("{} {}", c.reason, c.message)));
        return Line::from(
            paint.span(Scope::Text, paint.cut(&text::flat(&status.unwrap_or_default()), width)),
        );
    };
    let chain = fleet.cause(id);
    let (Some(leaf), false) = (chain.last(), verdict == Verdict::Ok) else { return Line::default() };
    let names: Vec<String> =
        chain.iter().skip(1).filter_map(|hop| fleet.row(hop.id).map(|row| row.name.to_string())).collect();
    let crumb = format!(" {} ", paint.glyphs().crumb);
    let path = if names.is_empty() { String::new() } else { format!("{}: ", names.join(&crumb)) };
    // The evidence matters more than the way to it.
    let words = text::flat(&leaf.words);
    let room = width.saturating_sub(text::width(&words)).max(width / 3);
    let path = if text::width(&path) <= room { path } else { short_path(&names, room, paint) };
    let left = width.saturating_sub(text::width(&path));
    Line::from(vec![paint.span(Scope::Muted, path), paint.span(Scope::Text, paint.cut(&words, left))])
}

/// Only the last name of a path that is too long.
fn short_path(names: &[String], room: usize, paint: &Paint<'_>) -> String {
    let last = names.last().map(String::as_str).unwrap_or_default();
    format!("{}: ", paint.cut_name(last, room.saturating_sub(2)))
}
