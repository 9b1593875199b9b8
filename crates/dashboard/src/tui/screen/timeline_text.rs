//! What happened to an object, as lines, newest first; of a Cluster to everything below it. Must not know what is
//! scrolled.

use ratatui::text::Line;

use super::rollout::{happened, time_of_day};
use crate::fleet::{Fleet, Happened, Item, Kind, Row, RowId, TimelineEntry};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use capi_types::condition::Status;

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

/// What an object was seen to change, or says itself that it did, between two moments: each thing once, from what it was then to what it
/// was at the end.
pub fn kept(
    fleet: &Fleet,
    row: Option<RowId>,
    (from_s, until_s): (u32, u32),
    paint: &Paint<'_>,
) -> Vec<Line<'static>> {
    let mut lines = vec![
        Line::default(),
        Line::from(paint.span(Scope::Column, "BEFORE IT WAS READ HERE, AS FAR AS IT WAS SEEN")),
    ];
    let known = row.map(|id| (id, fleet.timeline(id))).into_iter();
    let mut entries: Vec<TimelineEntry> = known
        .flat_map(|(id, entries)| {
            let uid = fleet.row(id).map(|row| row.uid);
            entries.into_iter().filter(move |entry| Some(entry.uid) == uid)
        })
        .filter(|entry| entry.at_s > from_s && entry.at_s <= until_s)
        .collect();
    entries.reverse();
    let net = net(&entries);
    if net.is_empty() {
        lines.push(Line::from(paint.span(Scope::Muted, "nothing")));
    }
    lines.extend(net.into_iter().map(|(what, from, to)| {
        Line::from(vec![
            paint.span(Scope::Strong, format!("{what}  ")),
            paint.span(Scope::Text, to),
            paint.span(Scope::Muted, format!(" (was {from})")),
        ])
    }));
    lines
}

/// What changed, from what and to what; what was changed back is left out. Of what was not seen before it is not known.
fn net(entries: &[TimelineEntry]) -> Vec<(String, String, String)> {
    let mut all: Vec<(String, String, String)> = Vec::new();
    for entry in entries {
        let (what, from, to) = match &entry.happened {
            Happened::Version { from, to } => ("version".to_owned(), from.to_string(), to.to_string()),
            Happened::Replicas { from, to } => ("replicas".to_owned(), from.to_string(), to.to_string()),
            Happened::Paused(is_paused) => {
                ("paused".to_owned(), (!is_paused).to_string(), is_paused.to_string())
            }
            Happened::Flip(flip) => {
                let word = |status: Option<Status>| status.map_or("not seen", Status::as_str).to_owned();
                let to = flip.to.map_or("not reported", Status::as_str).to_owned();
                (flip.type_.to_string(), word(flip.from), to)
            }
            Happened::Made | Happened::Deleted | Happened::Gone => continue,
        };
        match all.iter_mut().find(|(known, ..)| *known == what) {
            Some((.., last)) => *last = to,
            None => all.push((what, from, to)),
        }
    }
    all.retain(|(_, from, to)| from != to);
    all
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
