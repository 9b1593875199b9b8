//! One condition across all Machines, of the fleet or of the cluster that is open: how many have which status, and those that
//! are not in their normal state by name. Owns the text; must not know how it is drawn.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::Outcome;
use crate::fleet::{Condition, Kind, Row, RowId, Tone};
use crate::tui::model::Model;
use crate::tui::paint::Paint;
use capi_types::condition::Status;
use capstan_base::text::{counted, did_you_mean, flat};

/// Machines that are named; the rest is counted.
const NAMED_MAX: usize = 200;

/// Shows how the condition `type_` stands; its beginning is enough where no other begins so. Small and capital letters are
/// the same.
pub fn condition(model: &mut Model, type_: &str) -> Outcome {
    let types = types(model);
    let Some(type_) = meant(&types, type_).cloned() else {
        let hint = did_you_mean(type_, types.iter().map(String::as_str));
        return Err(format!("no Machine here has a condition `{type_}`{hint}"));
    };
    let text = overview(model, &type_);
    model.overview(type_, text);
    Ok(Vec::new())
}

fn meant<'a>(types: &'a BTreeSet<String>, begun: &str) -> Option<&'a String> {
    if let Some(whole) = types.iter().find(|known| known.eq_ignore_ascii_case(begun)) {
        return Some(whole);
    }
    // With `get`, because the cut may fall into the middle of a character.
    let begins =
        |known: &&String| known.get(..begun.len()).is_some_and(|head| head.eq_ignore_ascii_case(begun));
    let mut all = types.iter().filter(begins);
    all.next().filter(|_| all.next().is_none())
}

/// The types of conditions that Machines here have.
pub fn types(model: &Model) -> BTreeSet<String> {
    // Equal texts share one copy, so there are few of them, however many Machines.
    let mut seen: FxHashSet<*const u8> = FxHashSet::default();
    let conditions = machines(model).flat_map(|row| row.conditions.iter());
    let new = conditions.filter(|condition| seen.insert(condition.type_.as_ptr()));
    new.map(|condition| condition.type_.to_string()).collect()
}

/// Of the cluster whose tree or object is open; of all on other screens.
fn machines(model: &Model) -> impl Iterator<Item = &Row> {
    let open: Option<RowId> = if model.screen().is_of_all_clusters() {
        None
    } else {
        model.selected().and_then(|item| model.fleet.cluster_of(item.row()))
    };
    let clusters = open.map_or_else(|| model.fleet.clusters().to_vec(), |cluster| vec![cluster]);
    let members = clusters.into_iter().flat_map(|cluster| model.fleet.members(cluster, Kind::Machine));
    members.filter_map(|id| model.fleet.row(*id)).map(AsRef::as_ref)
}

fn overview(model: &Model, type_: &str) -> String {
    let paint = Paint::new(&model.look.theme, model.now);
    let mut counts = [(Status::False, 0usize), (Status::Unknown, 0), (Status::True, 0)];
    let (mut without, mut all) = (0usize, 0usize);
    let mut odd: Vec<(&Row, &Condition)> = Vec::new();
    for row in machines(model) {
        all += 1;
        let Some(condition) = row.condition(type_) else {
            without += 1;
            continue;
        };
        counts
            .iter_mut()
            .filter(|(status, _)| *status == condition.status)
            .for_each(|(_, count)| *count += 1);
        if Tone::of(type_, condition.status) != Tone::Good {
            odd.push((row, condition));
        }
    }
    let some = counts.iter().filter(|(_, count)| *count > 0);
    let mut words: Vec<String> = some.map(|(status, count)| format!("{count} {}", status.as_str())).collect();
    if without > 0 {
        words.push(format!("{without} without it"));
    }
    let mut lines = vec![format!("{}: {}", counted(all, "Machine"), words.join(", "))];
    // What turned last comes first.
    odd.sort_by_key(|(row, condition)| (std::cmp::Reverse(condition.since_s), row.name.clone()));
    for (row, condition) in odd.iter().take(NAMED_MAX) {
        let age = condition.since().map(|at| format!(" for {}", paint.age(at))).unwrap_or_default();
        lines.push(String::new());
        lines.push(format!("{}/{}: {}{age}", row.namespace, row.name, condition.status.as_str()));
        let message = flat(&condition.message);
        let said = [condition.reason.as_ref(), &message].into_iter().filter(|words| !words.is_empty());
        lines.push(format!("  {}", said.collect::<Vec<_>>().join(": ")));
    }
    if odd.len() > NAMED_MAX {
        lines.push(format!("\nand {} more", odd.len() - NAMED_MAX));
    }
    lines.join("\n")
}
