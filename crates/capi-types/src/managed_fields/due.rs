//! Is an apply due? Compares an intent with the fields that its manager owns and with their values. Total: what
//! cannot be read counts as not owned, and an apply is due. Must not know how applies are sent.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{BEFORE_FIRST_APPLY, is_apply_of};

/// Root fields that are never owned, that no intent has, or that are compared for themselves.
const UNTRACKED: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
/// Fields of metadata that are never owned.
const UNTRACKED_METADATA: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
];

/// Fields of metadata that several managers write: without recorded owners it is not known whether an apply would
/// change them.
const SHARED_METADATA: [&str; 2] = ["finalizers", "ownerReferences"];

/// What an apply would meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The manager owns exactly the fields of the intent, and the object has their values.
    Settled,
    /// Fields or values differ.
    Due,
    /// The manager has never applied, or no owners are recorded: a [`super::Handover`] comes first.
    Unowned,
}

/// What an apply of `intent` (a whole object) by `manager` would meet. An object without `managedFields`, such as
/// one that kubectl printed, is compared by its values alone; the live copies of the engine have at least an
/// empty list.
pub fn standing(live: &Value, intent: &Value, manager: &str) -> Standing {
    let Some(entries) = live["metadata"]["managedFields"].as_array() else {
        let has_all = change(live, intent, manager).is_none();
        return if has_all { Standing::Settled } else { Standing::Due };
    };
    // An owner of everything would keep what the intent gives up.
    if entries.iter().any(|entry| entry["manager"] == BEFORE_FIRST_APPLY) {
        return Standing::Unowned;
    }
    let mut own = entries.iter().filter(|entry| is_apply_of(entry, manager));
    let Some(entry) = own.next() else { return Standing::Unowned };
    // Field names are those of the entry's version; another one is rewritten by the next apply.
    // Two entries are of two versions: the apply leaves one.
    let comparable = own.next().is_none() && entry["apiVersion"] == intent["apiVersion"];
    let owned = fields(entry);
    if comparable && owned.as_object().is_some_and(|owned| root_matches(owned, intent, live)) {
        Standing::Settled
    } else {
        Standing::Due
    }
}

/// The merge patch that an apply amounts to, for people and for forecasts: values that the object lacks or
/// has differently, and fields that the manager owns and the intent no longer has. `None`: no value changes.
pub fn change(live: &Value, intent: &Value, manager: &str) -> Option<Value> {
    let entries = live["metadata"]["managedFields"].as_array();
    let entry = entries.and_then(|all| all.iter().find(|entry| is_apply_of(entry, manager)));
    let owned = entry.map_or(Cow::Owned(Value::Null), fields);
    let mut patch = Map::new();
    // A status is never applied, and the rest names the object.
    for top in ["metadata", "spec"] {
        let shared = SHARED_METADATA.iter().filter(|_| entries.is_none());
        let untracked: Vec<&str> = match top {
            "metadata" => UNTRACKED_METADATA.iter().chain(shared).copied().collect(),
            _ => Vec::new(),
        };
        let below = change_below(&owned[format!("f:{top}").as_str()], &intent[top], &live[top], &untracked);
        if !below.is_empty() {
            patch.insert(top.to_owned(), Value::Object(below));
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn change_below(owned: &Value, intent: &Value, live: &Value, untracked: &[&str]) -> Map<String, Value> {
    let mut patch = Map::new();
    let tracked = |name: &str| !untracked.contains(&name);
    for (name, wanted) in intent.as_object().into_iter().flatten().filter(|(name, _)| tracked(name)) {
        let (owned, found) = (&owned[format!("f:{name}").as_str()], &live[name.as_str()]);
        // As deep as both sides go, so that the patch has only what differs.
        if wanted.is_object() && found.is_object() || is_empty_map(wanted) && found.is_null() {
            let below = change_below(owned, wanted, found, &[]);
            if !below.is_empty() {
                patch.insert(name.clone(), Value::Object(below));
            }
        } else if !has(found, wanted, owned, !untracked.is_empty()) {
            patch.insert(name.clone(), wanted.clone());
        }
    }
    let names = owned.as_object().into_iter().flatten().filter_map(|(name, _)| name.strip_prefix("f:"));
    for name in names.filter(|name| tracked(name)) {
        // Owned and wanted no more: an apply takes it away, which a merge patch says as null.
        if intent.get(name).is_none() && live.get(name).is_some() {
            patch.insert(name.to_owned(), Value::Null);
        }
    }
    patch
}

/// Lists: every wanted item is there, and none beyond those of other managers. Lists of metadata (owners,
/// finalizers) are written by several; one in `spec` whose owners are unknown counts as one writer's.
fn has(found: &Value, wanted: &Value, owned: &Value, shared: bool) -> bool {
    let (Some(wanted), Some(items)) = (wanted.as_array(), found.as_array()) else {
        return covers(found, wanted);
    };
    let all = wanted.iter().all(|wanted| items.iter().any(|item| covers(item, wanted)));
    let surplus = match owned.as_object() {
        // Such a list is owned item by item: the items of others are not a surplus.
        Some(owned) if !is_leaf(owned) => children(owned).count() > wanted.len(),
        Some(_) => items.len() > wanted.len(),
        None => !shared && items.len() > wanted.len(),
    };
    all && !surplus
}

/// The field set of an entry. Live copies keep it as text, see [`super::keep`].
fn fields(entry: &Value) -> Cow<'_, Value> {
    match &entry["fieldsV1"] {
        Value::String(text) => Cow::Owned(serde_json::from_str(text).unwrap_or_default()),
        set => Cow::Borrowed(set),
    }
}

fn root_matches(owned: &Map<String, Value>, intent: &Value, live: &Value) -> bool {
    let Some(root) = intent.as_object() else { return false };
    let nothing = (Map::new(), Value::Object(Map::new()));
    let metadata = match owned.get("f:metadata") {
        None => &nothing.0,
        Some(Value::Object(metadata)) => metadata,
        Some(_) => return false,
    };
    let wanted = root.get("metadata").and_then(Value::as_object).unwrap_or(&nothing.0);
    let found = live.get("metadata").unwrap_or(&nothing.1);
    // Metadata for itself, since it has untracked fields of its own.
    fields_match(metadata, wanted, found, &UNTRACKED_METADATA) && fields_match(owned, root, live, &UNTRACKED)
}

/// `owned` is exactly the set of fields of `wanted`, and `found` has their values. Parents are marked with `.`, or
/// not: either is the same here.
fn matches(owned: &Value, wanted: &Value, found: Option<&Value>) -> bool {
    let Some(owned) = owned.as_object() else { return false };
    // Owned and not stored: so a server leaves an empty map.
    let Some(found) = found else { return is_leaf(owned) && is_empty_map(wanted) };
    // Owned as a whole: whatever is below is compared by value.
    if is_leaf(owned) {
        return covers(found, wanted);
    }
    match wanted {
        Value::Object(fields) => fields_match(owned, fields, found, &[]),
        Value::Array(items) => items_match(owned, items, found),
        _ => false,
    }
}

fn fields_match(
    owned: &Map<String, Value>,
    wanted: &Map<String, Value>,
    found: &Value,
    untracked: &[&str],
) -> bool {
    let tracked = |name: &str| !untracked.contains(&name);
    // Counted, since the loop below meets only what is owned, and nothing wanted may be missing.
    let mut owned_count = 0;
    for (path, below) in children(owned) {
        // Items in the place of fields: the shape has changed, and the next apply rewrites it.
        let Some(name) = path.strip_prefix("f:") else { return false };
        if tracked(name) {
            owned_count += 1;
            let Some(wanted) = wanted.get(name) else { return false };
            if !matches(below, wanted, found.get(name)) {
                return false;
            }
        }
    }
    owned_count == wanted.keys().filter(|name| tracked(name)).count()
}

/// Of a list whose items are owned one by one: by their keys (`k:`), or by value (`v:`).
fn items_match(owned: &Map<String, Value>, wanted: &[Value], found: &Value) -> bool {
    let Some(found) = found.as_array() else { return false };
    let one = |(path, below): (&String, &Value)| match path.split_at_checked(2) {
        Some(("k:", keys)) => {
            let Ok(Value::Object(keys)) = serde_json::from_str(keys) else { return false };
            wanted
                .iter()
                .find(|item| has_keys(item, &keys))
                .is_some_and(|wanted| matches(below, wanted, found.iter().find(|item| has_keys(item, &keys))))
        }
        Some(("v:", value)) => {
            serde_json::from_str(value).is_ok_and(|v: Value| wanted.contains(&v) && found.contains(&v))
        }
        _ => false,
    };
    // As many as wanted, so that an item given up is noticed.
    children(owned).count() == wanted.len() && children(owned).all(one)
}

/// A key that the intent leaves out has its default.
fn has_keys(item: &Value, keys: &Map<String, Value>) -> bool {
    item.is_object() && keys.iter().all(|(key, value)| item.get(key).is_none_or(|found| found == value))
}

/// Every value of `wanted` is in `found`. What a server adds to a field that is owned as a whole, such as a default
/// inside an item of a list, makes no difference.
fn covers(found: &Value, wanted: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(name, wanted)| found.get(name).is_some_and(|found| covers(found, wanted)))
        }
        // Empty: the field itself is owned, and its items are others'.
        (Value::Array(wanted), Value::Array(_)) if wanted.is_empty() => true,
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found).all(|(wanted, found)| covers(found, wanted))
        }
        _ => wanted == found,
    }
}

/// A server does not store one.
fn is_empty_map(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

fn is_leaf(owned: &Map<String, Value>) -> bool {
    children(owned).next().is_none()
}

/// Without the mark of the field itself.
fn children(owned: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    owned.iter().filter(|(path, _)| *path != ".")
}
