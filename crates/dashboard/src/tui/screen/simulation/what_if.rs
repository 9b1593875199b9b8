//! What is typed behind `:what-if`: `[POOL:]WORD=VALUE`, or `failing=MACHINE`. Owns which object is meant; must not know
//! whether Cluster API takes the change.

use serde_json::Value;

use crate::actions::tried::{SHORT_WORDS, TriedChange, short_edit};
use crate::fleet::{Fleet, Kind, RowId};
use capi_types::key::ObjectRef;
use capstan_base::text::{did_you_mean, sanitize_line};

/// One thing that is tried.
pub(super) enum WhatIf {
    Change(TriedChange),
    /// A Machine, by name.
    Failing(String),
}

const EXAMPLE: &str = "such as surge=2, web:replicas=5, version=v1.35.0 or failing=MACHINE";

/// The pool of what is selected; else the only MachineDeployment.
pub(super) fn pool_of(fleet: &Fleet, cluster: RowId, selected: Option<RowId>) -> Option<RowId> {
    let above = std::iter::successors(selected, |id| fleet.owner_of(*id));
    let is_pool = |id: &RowId| {
        fleet.row(*id).is_some_and(|row| matches!(row.kind, Kind::ControlPlane | Kind::MachineDeployment))
    };
    let only = match fleet.members(cluster, Kind::MachineDeployment) {
        [only] => Some(*only),
        _ => None,
    };
    // A Machine, its set, its deployment, the Cluster: no chain is longer, and circles end here.
    above.take(4).find(is_pool).or(only)
}

/// `about`: the pool that is meant when none is named.
pub(super) fn parse(
    fleet: &Fleet,
    cluster: RowId,
    about: Option<RowId>,
    typed: &str,
) -> Result<WhatIf, String> {
    let (left, value) = typed.split_once('=').ok_or_else(|| format!("`{typed}` tries nothing; {EXAMPLE}"))?;
    let (left, value) = (left.trim(), value.trim());
    if left == "failing" {
        return machine(fleet, cluster, value).map(WhatIf::Failing);
    }
    let (pool, word) = match left.split_once(':') {
        Some((name, word)) => (named(fleet, cluster, name)?, word),
        None => {
            let names = || pools(fleet, cluster).map(|(_, name)| name).collect::<Vec<_>>().join(", ");
            (about.ok_or_else(|| format!("name the pool, as in NAME:{typed}; there are {}", names()))?, left)
        }
    };
    let row = fleet.row(pool).ok_or("the pool is gone")?;
    // What is not JSON is text: versions need no quotes.
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    let edit = short_edit(&row.gvk.kind, word, &value)
        .ok_or_else(|| format!("a {} has no `{word}`; there are {}", row.gvk.kind, SHORT_WORDS.join(", ")))?;
    let object = ObjectRef { gvk: row.gvk.as_ref().clone(), key: row.key(), uid: String::new() };
    Ok(WhatIf::Change(TriedChange { origin: sanitize_line(typed), object, edit }))
}

/// Control planes and MachineDeployments of a cluster.
fn pools(fleet: &Fleet, cluster: RowId) -> impl Iterator<Item = (RowId, &str)> {
    let kinds = [Kind::ControlPlane, Kind::MachineDeployment].into_iter();
    let ids = kinds.flat_map(move |kind| fleet.members(cluster, kind));
    ids.filter_map(|id| Some((*id, fleet.row(*id)?.name.as_ref())))
}

fn named(fleet: &Fleet, cluster: RowId, name: &str) -> Result<RowId, String> {
    let mut all = pools(fleet, cluster);
    let suffix = format!("-{name}");
    let found = all.find(|(_, full)| *full == name || full.ends_with(&suffix));
    found.map(|(id, _)| id).ok_or_else(|| {
        let hint = did_you_mean(name, pools(fleet, cluster).map(|(_, full)| full));
        format!("there is no pool `{name}` in this cluster{hint}")
    })
}

/// A Machine by its name, or by the end of it.
fn machine(fleet: &Fleet, cluster: RowId, name: &str) -> Result<String, String> {
    let rows = fleet.members(cluster, Kind::Machine).iter().filter_map(|id| fleet.row(*id));
    let suffix = format!("-{name}");
    let is_meant = |full: &str| !name.is_empty() && (full == name || full.ends_with(&suffix));
    let found: Vec<&str> = rows.map(|row| row.name.as_ref()).filter(|full| is_meant(full)).collect();
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(format!("there is no Machine `{name}` in this cluster")),
        several => Err(format!("{} Machines end in `{name}`; write the whole name", several.len())),
    }
}
