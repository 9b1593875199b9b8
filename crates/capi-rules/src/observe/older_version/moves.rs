//! One field that went elsewhere, or changed its form on the way. Must not know a kind.

use serde_json::{Map, Value, json};

use capi_types::key::group_of;
use capstan_base::go_duration::GoDuration;

/// What becomes of a value on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    /// It stays as it is.
    Same,
    /// A duration of Go becomes whole seconds.
    Seconds,
    /// A reference with a version names only the group.
    Reference,
    /// A map of flags becomes a list by name.
    Arguments,
    /// A flag says something only where it is true.
    Flag,
}

/// From a path with dots to another one, both from the same object on.
pub(super) type Move = (&'static str, &'static str, Conversion);

/// Carries out the moves; what is not there, or is null, stays away.
pub(super) fn carry_out(moves: &[Move], object: &mut Value) {
    for (from, to, conversion) in moves {
        if let Some(value) = take(object, from)
            && let Some(value) = converted(value, *conversion)
        {
            put(object, to, value);
        }
    }
}

/// Drops fields that have no place any more.
pub(super) fn leave_out(fields: &[&str], object: &mut Value) {
    for field in fields {
        take(object, field);
    }
}

/// The value at a path, out of its object.
pub(super) fn take(object: &mut Value, path: &str) -> Option<Value> {
    let (parents, field) =
        path.rsplit_once('.').map_or((None, path), |(parents, field)| (Some(parents), field));
    let mut at = object;
    for step in parents.into_iter().flat_map(|parents| parents.split('.')) {
        at = at.get_mut(step)?;
    }
    at.as_object_mut()?.remove(field).filter(|value| !value.is_null())
}

/// Puts a value at a path whose objects are made where they are missing.
pub(super) fn put(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for step in path.split('.') {
        // A value in the way has another form than its version: what is known for sure comes instead.
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[step];
    }
    *at = value;
}

fn converted(value: Value, conversion: Conversion) -> Option<Value> {
    match conversion {
        Conversion::Same => Some(value),
        Conversion::Seconds => seconds(&value),
        Conversion::Reference => reference(value),
        Conversion::Arguments => Some(arguments(value)),
        Conversion::Flag => (value == true).then_some(value),
    }
}

/// Fractions are left out, as upstream does.
fn seconds(value: &Value) -> Option<Value> {
    let duration = GoDuration::parse(value.as_str()?)?.to_std()?;
    Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX).into())
}

fn reference(value: Value) -> Option<Value> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    if value["apiGroup"].is_string() || !value.is_object() {
        return Some(value);
    }
    // An empty one is one that is not set.
    if text("kind").is_empty() && text("name").is_empty() {
        return None;
    }
    Some(json!({"apiGroup": group_of(text("apiVersion")), "kind": text("kind"), "name": text("name")}))
}

fn arguments(value: Value) -> Value {
    let Value::Object(flags) = value else { return value };
    let mut flags: Vec<(String, Value)> = flags.into_iter().collect();
    // A map promises no order, and a list has one: by name each reading gives the same list.
    flags.sort_by(|a, b| a.0.cmp(&b.0));
    flags.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

/// The objects of a list.
pub(super) fn each(object: &mut Value, path: &str, change: impl Fn(&mut Value)) {
    let pointer = format!("/{}", path.replace('.', "/"));
    let list = object.pointer_mut(&pointer).and_then(Value::as_array_mut);
    list.into_iter().flatten().for_each(change);
}

/// The object at a path, where there is one.
pub(super) fn at(object: &mut Value, path: &str, change: impl FnOnce(&mut Value)) {
    let pointer = format!("/{}", path.replace('.', "/"));
    if let Some(found) = object.pointer_mut(&pointer).filter(|found| found.is_object()) {
        change(found);
    }
}

/// A map of objects as a list of them, each with its key under `name`.
pub(super) fn listed(map: Value) -> Value {
    let Value::Object(members) = map else { return map };
    let mut members: Vec<(String, Value)> = members.into_iter().collect();
    // As with flags: the order of the list must not depend on that of the map.
    members.sort_by(|a, b| a.0.cmp(&b.0));
    let named = members.into_iter().map(|(name, value)| {
        let mut member = value.as_object().cloned().unwrap_or_else(Map::new);
        member.insert("name".to_owned(), name.into());
        Value::Object(member)
    });
    named.collect()
}
