//! Ownership after an update of an object: its author owns what changed. Must not know apply.
//!
//! Source: structured-merge-diff v6 `merge/update.go` (`Update`), apimachinery
//! `pkg/util/managedfields/internal/{managedfieldsupdater,stripmeta,skipnonapplied}.go`, v0.35.

use serde_json::{Map, Value};

use super::entries::{Entries, Entry, Operation};
use super::{Author, NEVER_OWNED, Problem, Rules, disown};

/// The entries after `author` made `new` of `live` (`None`: created it). An object without
/// entries stays so until the first apply.
///
/// # Errors
/// [`Problem`]; the caller keeps the entries there were.
pub fn update<'a>(
    author: Author<'a>,
    rules: Rules<'_>,
    live: Option<&Value>,
    new: &Value,
    entries: Entries<'a>,
) -> Result<Entries<'a>, Problem> {
    if live.is_some() && entries.0.is_empty() {
        return Ok(entries);
    }
    track(author, rules, live, new, entries)
}

/// As [`update`], but starts to track an object that is not.
pub(super) fn track<'a>(
    author: Author<'a>,
    rules: Rules<'_>,
    live: Option<&Value>,
    new: &Value,
    mut entries: Entries<'a>,
) -> Result<Entries<'a>, Problem> {
    rules.renew(&mut entries)?;
    let nothing = Value::Object(Map::new());
    let compared = rules.compare(live.unwrap_or(&nothing), new)?;
    let changed = compared.changed();
    let gone = changed.union(&compared.removed);
    // All entries lose it, also one that the same manager had applied: that is another owner.
    for entry in &mut entries.0 {
        disown(entry, &gone)?;
    }
    entries.0.retain(|entry| !entry.is_empty());
    let taken = changed.difference(&NEVER_OWNED);
    if !taken.is_empty() {
        let who = author.identity(Operation::Update);
        let at = entries.position(&who);
        match at.and_then(|at| entries.0.get_mut(at)) {
            Some(entry) => {
                let set = entry.set()?.union(&taken);
                entry.replace(set);
                entry.time = author.time();
            }
            None => entries.0.push(Entry::new(who, author.time(), taken)),
        }
    }
    entries.cap()?;
    Ok(entries)
}
