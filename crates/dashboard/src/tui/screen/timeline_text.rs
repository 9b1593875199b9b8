//! What happened to an object, as lines, newest first; of a Cluster to everything below it. Must not know what is
//! scrolled.

use ratatui::text::Line;

use super::rollout::{happened, time_of_day};
use crate::fleet::{Fleet, Item, Kind, Row, RowId, TimelineEntry};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;

/// Entries in a column.
const LATEST_MAX: usize = 30;

/// The timeline of the object, or why there is none.
pub fn timeline(fleet: &Fleet, item: Option<Item>, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let row = item.and_then(|item| if let Item::Row(id) = item { Some((id, fleet.row(id)?)) } else { None });
    let Some((id, row)) = row else {
        let why = "nothing is kept of this object: only what the dashboard follows has a timeline";
        return vec![Line::from(paint.span(Scope::Muted, why))];
    };
    let is_cluster = row.kind == Kind::Cluster;
    let heading = if is_cluster { "EVERYTHING BELOW IT, TIMES ARE UTC" } else { "TIMES ARE UTC" };
    let mut lines = vec![Line::from(paint.span(Scope::Column, heading))];
    lines.extend(fleet.timeline(id).iter().map(|entry| line(entry, row, paint, width)));
    lines
}

/// The newest entries under a heading, for a column beside the rest.
pub fn latest(fleet: &Fleet, id: RowId, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
    let Some(row) = fleet.row(id) else { return Vec::new() };
    let mut lines = vec![Line::from(paint.span(Scope::Column, "TIMELINE (UTC)"))];
    lines.extend(fleet.latest(id, LATEST_MAX).iter().map(|entry| line(entry, row, paint, width)));
    lines
}

/// When, whose unless it is the object's own, and what.
fn line(entry: &TimelineEntry, row: &Row, paint: &Paint<'_>, width: usize) -> Line<'static> {
    let is_cluster = row.kind == Kind::Cluster;
    let at = entry.at().map(|at| paint.age_in_list(at)).unwrap_or_default();
    let head = format!("{:<12}{at:>4}  ", time_of_day(entry.at_s, paint.now));
    let mut spans = vec![paint.span(Scope::Muted, head)];
    let name = entry.name.strip_prefix(row.name.as_ref()).and_then(|rest| rest.strip_prefix('-'));
    let is_itself = entry.uid == row.uid;
    let name = match (is_itself, name) {
        (true, _) if is_cluster => "cluster".to_owned(),
        (true, _) => String::new(),
        (false, Some(rest)) => rest.to_owned(),
        (false, None) => entry.name.to_string(),
    };
    if !name.is_empty() {
        spans.push(paint.span(Scope::Strong, format!("{} ", paint.cut_name(&name, width / 3))));
    }
    spans.push(paint.span(Scope::Text, happened(entry)));
    Line::from(spans)
}
