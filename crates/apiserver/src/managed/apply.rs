//! Server-side apply: an object as a manager wants it laid over the object as it is, with what it no
//! longer wants taken out, unless others want it.
//!
//! Source: structured-merge-diff v6 `merge/update.go` (`Apply`, `prune`), apimachinery
//! `pkg/util/managedfields/internal/{structuredmerge,skipnonapplied,managedfieldsupdater}.go`, v0.35.
//! Intended difference: entries of other served versions are compared in the version of the request;
//! versions here hold the same fields.

use serde_json::{Map, Value};

use super::entries::{Entries, Entry, Operation};
use super::path_set::PathSet;
use super::typed::{self, to_set, with_named};
use super::{Author, Disputes, NEVER_OWNED, Problem, Rules, disown, last_applied, update};

/// Owner of what was there before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Conflicts that are named.
const CONFLICTS_MAX: usize = 1_000;

/// What applying came to.
#[derive(Debug)]
pub struct Applied<'a> {
    /// `None`: the object is already as wanted.
    pub object: Option<Value>,
    pub entries: Entries<'a>,
}

/// One field that another manager has as he wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// As [`super::entries::Identity`] prints.
    pub manager: String,
    pub path: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The wanted object does not fit the schema.
    #[error("{0}")]
    Unfit(String),
    #[error("failed to merge config: {0}")]
    Merge(String),
    #[error("conflicts")]
    Conflicts(Vec<Conflict>),
    #[error(transparent)]
    Problem(#[from] Problem),
}

impl From<super::Undecodable> for ApplyError {
    fn from(error: super::Undecodable) -> Self {
        Self::Problem(error.into())
    }
}

/// Applies `config` to `live` (`None`: there is no object). With `force`, conflicting fields change
/// hands.
///
/// # Errors
/// [`ApplyError`].
pub fn apply<'a>(
    author: Author<'a>,
    rules: Rules<'_>,
    live: Option<&Value>,
    config: &Value,
    entries: Entries<'a>,
    force: bool,
) -> Result<Applied<'a>, ApplyError> {
    unfit(typed::check(rules.shape, config))?;
    let nothing = Value::Object(Map::new());
    let (live, entries) = match live {
        // Fields that were never tracked have no known owner, so a manager of their own makes them a
        // conflict.
        Some(live) if entries.0.is_empty() => {
            let before = Author { manager: BEFORE_FIRST_APPLY, ..author };
            (live, update::track(before, rules, None, live, entries)?)
        }
        other => (other.unwrap_or(&nothing), entries),
    };
    match lay_over(author, rules, live, config, entries.clone(), force)? {
        Outcome::Applied(applied) => Ok(applied),
        Outcome::Conflicts(found) => {
            let left = last_applied::unsolved(author, rules.shape, live, &found);
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(conflicts(&left)));
            }
            // All that was disputed had been `kubectl`'s own, so force takes nothing from others.
            match lay_over(author, rules, live, config, entries, true)? {
                Outcome::Applied(applied) => Ok(applied),
                Outcome::Conflicts(found) => Err(ApplyError::Conflicts(conflicts(&found))),
            }
        }
    }
}

/// Several problems are listed below a word, as upstream does.
fn unfit(problems: Vec<String>) -> Result<(), ApplyError> {
    match problems.as_slice() {
        [] => Ok(()),
        [one] => Err(ApplyError::Unfit(one.clone())),
        many => Err(ApplyError::Unfit(format!("errors:\n  {}", many.join("\n  ")))),
    }
}

fn conflicts(disputes: &Disputes) -> Vec<Conflict> {
    let of = |(manager, set): &(String, PathSet)| -> Vec<Conflict> {
        let paths = set.texts(CONFLICTS_MAX).into_iter();
        paths.map(|path| Conflict { manager: manager.clone(), path }).collect()
    };
    disputes.iter().flat_map(of).take(CONFLICTS_MAX).collect()
}

enum Outcome<'a> {
    Applied(Applied<'a>),
    Conflicts(Disputes),
}

fn lay_over<'a>(
    author: Author<'a>,
    rules: Rules<'_>,
    live: &Value,
    config: &Value,
    mut entries: Entries<'a>,
    force: bool,
) -> Result<Outcome<'a>, ApplyError> {
    rules.renew(&mut entries)?;
    let mut merged = typed::merge(rules.shape, live, config).map_err(ApplyError::Merge)?;
    // What this endpoint does not write cannot be owned through it.
    let wanted = to_set(rules.shape, config).difference_below(rules.reset);
    let who = author.identity(Operation::Apply);
    let mut own = match entries.position(&who) {
        Some(at) => entries.0.remove(at),
        None => Entry::new(who, None, PathSet::default()),
    };
    // A manager that applies has one set, so its entry follows the version of the request.
    own.who.api_version = author.api_version.into();
    let last = own.set()?.into_owned();
    if !last.is_subset(&wanted) {
        merged = prune(rules, merged, &last, &wanted, &entries)?;
    }
    let compared = rules.compare(live, &merged)?;
    let changed = compared.changed();
    // Only what changes can be disputed: what others own is never taken out.
    let disputes = disputes(&entries, &changed)?;
    if !force && !disputes.is_empty() {
        return Ok(Outcome::Conflicts(disputes));
    }
    let gone = changed.union(&compared.removed);
    for entry in &mut entries.0 {
        disown(entry, &gone)?;
    }
    let differs = !typed::equal(&merged, live);
    // As upstream: an apply without effect keeps its time, so that the object stays the same.
    if differs {
        own.time = author.time();
    }
    own.replace(wanted.difference(&NEVER_OWNED));
    entries.0.push(own);
    entries.0.retain(|entry| !entry.is_empty());
    Ok(Outcome::Applied(Applied { object: differs.then_some(merged), entries }))
}

/// What others own of what would change.
fn disputes(entries: &Entries<'_>, changed: &PathSet) -> Result<Disputes, ApplyError> {
    let mut disputes = Vec::new();
    for entry in entries.0.iter().filter(|entry| !changed.is_empty() && entry.may_own(changed)) {
        let set = entry.set()?.intersection(changed);
        if !set.is_empty() {
            disputes.push((entry.who.to_string(), set));
        }
    }
    disputes.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(disputes)
}

/// Takes out of `merged` what the author had applied and no longer wants, if no other manager owns it.
/// What went along with its list item or map and was not the author's comes back, with the item.
fn prune(
    rules: Rules<'_>,
    merged: Value,
    last: &PathSet,
    wanted: &PathSet,
    others: &Entries<'_>,
) -> Result<Value, ApplyError> {
    let named = |set: &PathSet| with_named(set, Some(rules.shape));
    let members = |value: &Value| named(&to_set(rules.shape, value));
    let last = named(last);
    let mut owners = vec![wanted.clone()];
    for entry in &others.0 {
        owners.push(entry.set()?.into_owned());
    }
    let owned = PathSet::union_all(owners);
    let all = members(&merged);
    let without = typed::remove(rules.shape, &merged, &last);
    let kept = members(&without).union(&named(&owned));
    let without = typed::remove(rules.shape, &merged, &all.difference(&kept));
    // What lay below an item that goes and was never the author's comes back with it.
    let dropped = all.difference(&members(&without)).intersection(&last);
    Ok(typed::remove(rules.shape, &merged, &dropped))
}
