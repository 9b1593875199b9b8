//! Conditions over the fleet, or of the cluster that is open: one of them on all objects of a kind, or all of them as a matrix.
//! Owns which condition and which objects are meant; must not know how they are drawn.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Outcome;
use crate::fleet::{Listed, RowId};
use crate::tui::model::Model;
use crate::tui::screen::Screen;
use crate::tui::screen::fleet::FleetScreen;
use capstan_base::text::did_you_mean;

/// To complete what is typed, so many objects of a kind are looked at.
const COMPLETED_OF_MAX: usize = 2_000;

/// Shows how a condition stands: `TYPE`, or `TYPE KIND`. The beginning of a type is enough where no other begins so; small
/// and capital letters are the same. Without a kind: of the open list, else of Machines, else of the first kind that has it.
pub fn condition(model: &mut Model, typed: &str) -> Outcome {
    let (type_, kind) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    let kinds = match kind.trim() {
        "" => likely(model),
        kind => vec![listed(kind)?],
    };
    let mut known = BTreeMap::new();
    for listed in kinds {
        let types = types(model, listed, usize::MAX);
        if let Some(type_) = meant(&types, type_).cloned() {
            return open(model, FleetScreen::of_condition(listed, type_));
        }
        known.extend(types);
    }
    let hint = did_you_mean(type_, known.keys().map(String::as_str));
    Err(format!("no object here has a condition `{type_}`{hint}"))
}

/// Shows all conditions of the objects of a kind.
pub fn conditions(model: &mut Model, kind: &str) -> Outcome {
    let listed = match kind {
        "" => of_open_list(model).unwrap_or(Listed::Machines),
        kind => listed(kind)?,
    };
    open(model, FleetScreen::of_conditions(listed))
}

/// The types of conditions that may be written, as far as some objects show them.
pub fn known_types(model: &Model) -> Vec<String> {
    let mut known = BTreeMap::new();
    likely(model).into_iter().for_each(|listed| known.extend(types(model, listed, COMPLETED_OF_MAX)));
    known.into_keys().collect()
}

fn listed(kind: &str) -> Result<Listed, String> {
    Listed::named(kind).ok_or_else(|| {
        let known: Vec<&str> = Listed::ALL.iter().map(|listed| listed.command()).collect();
        format!("there is no list `{kind}`; known: {}", known.join(", "))
    })
}

/// Of objects below the clusters.
fn of_open_list(model: &Model) -> Option<Listed> {
    model.screen().as_fleet().map(FleetScreen::listed).filter(|listed| *listed != Listed::Clusters)
}

/// All kinds, the ones that are meant first.
fn likely(model: &Model) -> Vec<Listed> {
    let mut kinds: Vec<Listed> = of_open_list(model).into_iter().chain([Listed::Machines]).collect();
    let others: Vec<Listed> = Listed::ALL.into_iter().filter(|listed| !kinds.contains(listed)).collect();
    kinds.extend(others);
    kinds
}

fn meant<'a>(types: &'a BTreeMap<String, Arc<str>>, begun: &str) -> Option<&'a Arc<str>> {
    let whole = types.iter().find(|(known, _)| known.eq_ignore_ascii_case(begun));
    if let Some((_, whole)) = whole {
        return Some(whole);
    }
    // With `get`, because the cut may fall into the middle of a character.
    let begins =
        |known: &String| known.get(..begun.len()).is_some_and(|head| head.eq_ignore_ascii_case(begun));
    let mut all = types.iter().filter(|(known, _)| begins(known)).map(|(_, type_)| type_);
    all.next().filter(|_| all.next().is_none())
}

/// The cluster whose tree or object is open; `None` where all are.
fn open_cluster(model: &Model) -> Option<RowId> {
    let item = model.selected().filter(|_| !model.screen().is_of_all_clusters())?;
    model.fleet.cluster_of(item.row())
}

/// The types of conditions of a kind, of so many objects at most.
fn types(model: &Model, listed: Listed, most: usize) -> BTreeMap<String, Arc<str>> {
    let fleet = &model.fleet;
    let clusters = open_cluster(model).map_or_else(|| fleet.clusters().to_vec(), |cluster| vec![cluster]);
    let of_cluster = |cluster: RowId| match listed {
        Listed::Clusters => vec![cluster],
        _ => fleet.members(cluster, listed.kind()).to_vec(),
    };
    let rows = clusters.into_iter().flat_map(of_cluster).filter_map(|id| fleet.row(id));
    let rows = rows.filter(|row| listed.has(row)).take(most);
    // Equal texts share one copy, so there are few of them, however many objects.
    let mut seen: BTreeMap<*const u8, Arc<str>> = BTreeMap::new();
    for row in rows {
        for condition in &row.conditions {
            seen.entry(condition.type_.as_ptr()).or_insert_with(|| condition.type_.clone());
        }
    }
    seen.into_values().map(|type_| (type_.to_string(), type_)).collect()
}

/// Over a list of the same objects, of those that it shows; in a tree, of what is in that cluster.
fn open(model: &mut Model, mut screen: FleetScreen) -> Outcome {
    if let Some(list) = model.screen().as_fleet().filter(|list| list.listed() == screen.listed()) {
        screen.set_filter(list.filter());
    }
    if let Some(row) = open_cluster(model).and_then(|id| model.fleet.row(id)) {
        screen.set_filter(&format!("ns:^{}$ cluster:^{}$", row.namespace, row.name));
    }
    model.open(Screen::Fleet(screen));
    Ok(Vec::new())
}
