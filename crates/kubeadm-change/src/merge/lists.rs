//! Merging lists: replaced, united, by key, by group; and the order of the result. Must not know fields.

use serde_json::{Map, Value};

use super::super::network::canonical_name;
use super::super::path::FieldPath;
use super::super::schema::{ListMerge, Type};
use super::{MergeError, Merger, PATCH};

impl Merger<'_> {
    pub(super) fn list(
        &mut self,
        path: &FieldPath,
        live: &[Value],
        patch: &[Value],
        order: Option<&Value>,
        type_: &Type,
    ) -> Result<Value, MergeError> {
        let (item, strategy) = match type_ {
            Type::List(item, strategy) => ((**item).clone(), strategy.clone()),
            _ => (Type::Any, ListMerge::Atomic),
        };
        let merged = match &strategy {
            ListMerge::Atomic => {
                if patch.iter().any(|item| item.get(PATCH).is_some()) {
                    return Err(MergeError::new(
                        path,
                        "a directive cannot stand in this list: it is replaced as a whole",
                    ));
                }
                if !live.is_empty() && live != patch {
                    self.notes.push(format!("{path} is replaced as a whole"));
                }
                patch.to_vec()
            }
            ListMerge::Set => united(live, patch),
            ListMerge::Keyed(keys) => self.keyed(path, live, patch, keys, &item)?,
            ListMerge::Grouped(key) => grouped(path, live, patch, key)?,
        };
        match order {
            Some(order) => {
                subset_in_order(path, patch, order, &strategy)?;
                reorder(path, &Value::Array(merged), order, type_)
            }
            None => Ok(Value::Array(merged)),
        }
    }

    fn keyed(
        &mut self,
        path: &FieldPath,
        live: &[Value],
        patch: &[Value],
        keys: &[String],
        item: &Type,
    ) -> Result<Vec<Value>, MergeError> {
        let entries: Vec<Entry> =
            patch.iter().map(|item| entry(path, item, keys)).collect::<Result<_, _>>()?;
        let replaces = entries.iter().any(|e| matches!(e, Entry::Replace));
        let mut rest: Vec<Value> = if replaces { Vec::new() } else { live.to_vec() };
        // Before anything is taken out: the stored order decides where what is left goes.
        let order: Vec<Identity> = rest.iter().filter_map(|item| key_of(item, keys)).collect();
        let mut named = Vec::new();
        for entry in entries {
            match entry {
                Entry::Replace => {}
                Entry::Delete(key) => rest.retain(|item| key_of(item, keys).as_ref() != Some(&key)),
                Entry::Item(key, value) => {
                    let at = rest.iter().position(|item| key_of(item, keys).as_ref() == Some(&key));
                    let base = at.map(|at| rest.remove(at)).unwrap_or_default();
                    let base = base.as_object().cloned().unwrap_or_default();
                    named.push((key, Value::Object(self.map(path, &base, value, item)?)));
                }
            }
        }
        let rest = rest.into_iter().map(|item| (key_of(&item, keys).unwrap_or_default(), item)).collect();
        Ok(interleave(&order, named, rest))
    }
}

/// The values by which an item is known.
type Identity = Vec<Value>;

enum Entry<'p> {
    Replace,
    Delete(Identity),
    Item(Identity, &'p Map<String, Value>),
}

fn entry<'p>(path: &FieldPath, item: &'p Value, keys: &[String]) -> Result<Entry<'p>, MergeError> {
    let Value::Object(map) = item else {
        return Err(MergeError::new(path, "an item is not a map"));
    };
    let directive = map.get(PATCH).map(|directive| directive.as_str().unwrap_or_default());
    // `replace` is about the whole list, and has no key.
    if directive == Some("replace") {
        return Ok(Entry::Replace);
    }
    let Some(key) = key_of(item, keys) else {
        return Err(MergeError::new(
            path,
            format!("an item has no `{}`, which is the key of the list", keys.join("` and `")),
        ));
    };
    match directive {
        None => Ok(Entry::Item(key, map)),
        Some("delete") => Ok(Entry::Delete(key)),
        Some(other) => {
            Err(MergeError::new(path, format!("`$patch: {other}` is unknown; expected replace or delete")))
        }
    }
}

fn key_of(item: &Value, keys: &[String]) -> Option<Identity> {
    keys.iter().map(|key| item.get(key).cloned()).collect()
}

/// Items that the patch names keep its order, the others theirs; two that are both stored keep the stored order,
/// and where that is free the patch comes first.
fn interleave(live: &[Identity], named: Vec<(Identity, Value)>, rest: Vec<(Identity, Value)>) -> Vec<Value> {
    let stored = |identity: &Identity| live.iter().position(|known| known == identity);
    let mut result = Vec::new();
    let mut rest = rest.into_iter().peekable();
    for (identity, value) in named {
        if let Some(at) = stored(&identity) {
            while let Some((_, before)) =
                rest.next_if(|(other, _)| stored(other).is_some_and(|other| other < at))
            {
                result.push(before);
            }
        }
        result.push(value);
    }
    result.extend(rest.map(|(_, value)| value));
    result
}

/// Scalars of both, each once; names of certificates are compared in their canonical form.
fn united(live: &[Value], patch: &[Value]) -> Vec<Value> {
    let identity = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), canonical_name);
        vec![Value::from(text)]
    };
    let mut named: Vec<(Identity, Value)> = Vec::new();
    for value in patch {
        if !named.iter().any(|(known, _)| *known == identity(value)) {
            // The stored spelling stays.
            let spelled = live.iter().find(|known| identity(known) == identity(value)).unwrap_or(value);
            named.push((identity(value), spelled.clone()));
        }
    }
    let order: Vec<Identity> = live.iter().map(identity).collect();
    let is_named = |value: &&Value| named.iter().any(|(known, _)| *known == identity(value));
    let rest =
        live.iter().filter(|value| !is_named(value)).map(|value| (identity(value), value.clone())).collect();
    interleave(&order, named, rest)
}

/// All items of a name are replaced together; the place of the first stays.
fn grouped(path: &FieldPath, live: &[Value], patch: &[Value], key: &str) -> Result<Vec<Value>, MergeError> {
    let keys = [key.to_owned()];
    let entries: Vec<Entry> = patch.iter().map(|item| entry(path, item, &keys)).collect::<Result<_, _>>()?;
    let mut result: Vec<Value> =
        if entries.iter().any(|e| matches!(e, Entry::Replace)) { Vec::new() } else { live.to_vec() };
    let mut placed: Vec<Identity> = Vec::new();
    for entry in &entries {
        match entry {
            Entry::Replace => {}
            Entry::Delete(name) => result.retain(|item| key_of(item, &keys).as_ref() != Some(name)),
            Entry::Item(name, value) => {
                let item = Value::Object((*value).clone());
                let is_name = |item: &Value| key_of(item, &keys).as_ref() == Some(name);
                if placed.contains(name) {
                    // A flag may stand several times: the patch's first one takes the place of all
                    // stored ones, and the others follow it in the patch's order.
                    let last = result.iter().rposition(is_name).map_or(result.len(), |at| at + 1);
                    result.insert(last, item);
                } else {
                    let first = result.iter().position(is_name).unwrap_or(result.len());
                    result.retain(|item| !is_name(item));
                    result.insert(first.min(result.len()), item);
                    placed.push(name.clone());
                }
            }
        }
    }
    Ok(result)
}

/// The items in the order of `$setElementOrder`; those that it does not name stand behind.
pub(super) fn reorder(
    path: &FieldPath,
    items: &Value,
    order: &Value,
    type_: &Type,
) -> Result<Value, MergeError> {
    let Some(order) = order.as_array() else {
        return Err(MergeError::new(path, "`$setElementOrder` is not a list"));
    };
    let keys = keys_of(type_);
    let identity = |item: &Value| if keys.is_empty() { Some(vec![item.clone()]) } else { key_of(item, keys) };
    let order: Vec<Option<Identity>> = order.iter().map(identity).collect();
    let mut items = items.as_array().cloned().unwrap_or_default();
    // The sort is stable, so items that the order does not name keep theirs.
    items.sort_by_key(|item| order.iter().position(|key| *key == identity(item)).unwrap_or(usize::MAX));
    Ok(Value::Array(items))
}

fn keys_of(type_: &Type) -> &[String] {
    match type_ {
        Type::List(_, ListMerge::Keyed(keys)) => keys,
        Type::List(_, ListMerge::Grouped(key)) => std::slice::from_ref(key),
        _ => &[],
    }
}

fn subset_in_order(
    path: &FieldPath,
    patch: &[Value],
    order: &Value,
    strategy: &ListMerge,
) -> Result<(), MergeError> {
    let keys: &[String] = match strategy {
        ListMerge::Keyed(keys) => keys,
        ListMerge::Grouped(key) => std::slice::from_ref(key),
        _ => &[],
    };
    let identity = |item: &Value| if keys.is_empty() { Some(vec![item.clone()]) } else { key_of(item, keys) };
    let order: Vec<Option<Identity>> = order.as_array().into_iter().flatten().map(identity).collect();
    let mut last = 0;
    // What is deleted has no place in the result.
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        match order.iter().position(|key| *key == identity(item)) {
            Some(at) if at >= last => last = at,
            _ => {
                return Err(MergeError::new(
                    path,
                    "the patch's items are not in the order of `$setElementOrder`",
                ));
            }
        }
    }
    Ok(())
}
