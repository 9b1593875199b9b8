//! How a cluster is, why, and what happened to it, as Markdown: for a ticket, or for somebody who was not there. Text of a cluster
//! is sanitised already and cannot become markup. Must not know where the report goes.

use std::fmt::Write as _;

use crate::fleet::Verdict;
use crate::fleet::{Cause, Condition, Fleet, Kind, Row, RowId, Tone};
use capstan_base::text::counted;
use capstan_base::time::{Timestamp, human_duration, rfc3339};

use super::screen::rollout::happened;

/// Objects that are not well, and entries of the timeline, at most.
const OBJECTS_MAX: usize = 100;
const ENTRIES_MAX: usize = 200;

/// The report on a Cluster; `None`: there is no such row.
pub fn report(fleet: &Fleet, cluster: RowId, now: Timestamp) -> Option<String> {
    let row = fleet.row(cluster)?;
    let verdict = fleet.verdict(cluster);
    let mut out = format!("# {}/{}: {}\n\n", plain(&row.namespace), plain(&row.name), verdict.word());
    let since = fleet.since(cluster).map(|at| format!(", so since {}", moment(at, now))).unwrap_or_default();
    let _ = writeln!(out, "As of {}{since}.", rfc3339(now));
    out.push_str(&counters(row));
    causes(fleet, cluster, now, &mut out);
    objects(fleet, cluster, now, &mut out);
    timeline(fleet, cluster, &mut out);
    Some(out)
}

/// `2026-11-26T20:00:00Z (40m ago)`.
fn moment(at: Timestamp, now: Timestamp) -> String {
    format!("{} ({} ago)", rfc3339(at), human_duration((now - at).num_seconds()))
}

fn counters(row: &Row) -> String {
    let Some(facts) = row.cluster_facts() else { return String::new() };
    let of = |counters: crate::fleet::Counters| {
        let number = |n: Option<u32>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        format!("{} of {} available", number(counters.available), number(counters.desired))
    };
    let reported = facts.control_plane_versions.iter().chain(&facts.worker_versions);
    let mut versions: Vec<&str> = reported.map(|count| count.version.as_ref()).collect();
    versions.sort_unstable();
    versions.dedup();
    let versions = if versions.is_empty() { "not known".to_owned() } else { plain(&versions.join(", ")) };
    let (planes, workers) = (of(facts.control_plane), of(facts.workers));
    format!("\n- Versions: {versions}\n- Control plane: {planes}\n- Workers: {workers}\n")
}

fn causes(fleet: &Fleet, cluster: RowId, now: Timestamp, out: &mut String) {
    let causes = fleet.causes(cluster);
    if causes.is_empty() {
        return;
    }
    out.push_str("\n## Why\n");
    for Cause { verdict, leaf, words, since, .. } in causes {
        let since = since.map(|at| format!(", since {}", moment(at, now))).unwrap_or_default();
        let _ = writeln!(out, "\n- **{}**{since}: {}", verdict.word(), plain(&words));
        for hop in fleet.chain(cluster, leaf) {
            let Some(row) = fleet.row(hop.id) else { continue };
            let _ = writeln!(out, "  - {} {}: {}", row.gvk.kind, plain(&row.name), plain(&hop.words));
        }
        let Some(known) = fleet.explanation(leaf) else { continue };
        for (word, sentence) in [("means", &known.means), ("usual", &known.usual), ("check", &known.check)] {
            if !sentence.is_empty() {
                let _ = writeln!(out, "  - {word}: {sentence}");
            }
        }
    }
}

/// Every object below it that is not well by itself, with its conditions that say so.
fn objects(fleet: &Fleet, cluster: RowId, now: Timestamp, out: &mut String) {
    let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Cluster);
    let below = kinds.flat_map(|kind| fleet.members(cluster, kind).iter().copied());
    let is_unwell = |id: &RowId| fleet.own_verdict(*id) != Verdict::Ok;
    let unwell: Vec<RowId> = std::iter::once(cluster).chain(below).filter(is_unwell).collect();
    if unwell.is_empty() {
        return;
    }
    out.push_str("\n## What is not well\n\n| Object | Condition | Since | Reason | Message |\n");
    out.push_str("| --- | --- | --- | --- | --- |\n");
    for row in unwell.iter().take(OBJECTS_MAX).filter_map(|id| fleet.row(*id)) {
        let is_told = |c: &&Condition| Tone::of(&c.type_, c.status) != Tone::Good;
        for condition in row.conditions.iter().filter(is_told) {
            let since = condition.since().map(|at| moment(at, now)).unwrap_or_default();
            let (kind, name, type_) = (&row.gvk.kind, plain(&row.name), plain(&condition.type_));
            let (reason, message) = (plain(&condition.reason), plain(&condition.message));
            let status = condition.status.as_str();
            let _ = writeln!(out, "| {kind} {name} | {type_} {status} | {since} | {reason} | {message} |");
        }
    }
    let more = unwell.len().saturating_sub(OBJECTS_MAX);
    if more > 0 {
        let _ = writeln!(out, "\nand {}.", counted(more, "more object"));
    }
}

fn timeline(fleet: &Fleet, cluster: RowId, out: &mut String) {
    let entries = fleet.timeline(cluster);
    if entries.is_empty() {
        return;
    }
    out.push_str("\n## What happened, newest first\n\n| When | Object | What |\n| --- | --- | --- |\n");
    for entry in entries.iter().take(ENTRIES_MAX) {
        let at = entry.at().map(rfc3339).unwrap_or_default();
        let _ = writeln!(out, "| {at} | {} | {} |", plain(&entry.name), plain(&happened(entry)));
    }
    let more = entries.len().saturating_sub(ENTRIES_MAX);
    if more > 0 {
        let _ = writeln!(out, "\nand {} before.", counted(more, "more line"));
    }
}

/// One line in which nothing is markup.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in capstan_base::text::flat(text).chars() {
        // With what begins tags and entities of HTML, which Markdown passes on.
        if matches!(c, '\\' | '`' | '*' | '_' | '|' | '<' | '>' | '[' | ']' | '#' | '&') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_cluster_is_no_markup() {
        assert_eq!(plain("a|b\n* c <script> [x](y)"), r"a\|b \* c \<script\> \[x\](y)");
        assert_eq!(plain("md-0/plain: text, 1.35"), "md-0/plain: text, 1.35");
    }
}
