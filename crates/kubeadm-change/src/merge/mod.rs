//! Strategic merge of a patch into a configuration document. Owns the rules for maps and the directives
//! (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`); lists are `lists`. Must not know
//! what a field means, only its type.
//!
//! Source: apimachinery `pkg/util/strategicpatch/patch.go`. The Go types of kubeadm name no strategy for any list,
//! so upstream's own merge would replace each list as a whole; here the schema says which lists have keys
//! (docs/differences.md). An intent that upstream drops in silence is taken, or refused with a reason.

mod lists;

use serde_json::{Map, Value};

use super::path::FieldPath;
use super::schema::{Schema, Type};

/// Why a patch cannot be merged: the place in it, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("patch: {}{message}", if .path.0.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct MergeError {
    path: FieldPath,
    message: String,
}

impl MergeError {
    fn new(path: &FieldPath, message: impl Into<String>) -> Self {
        Self { path: path.clone(), message: message.into() }
    }
}

/// The document that comes out, with what a person should know about how it did.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The base with the patch in it.
    pub value: Value,
    /// Lists that were replaced as a whole, maps that were emptied, keys that were ignored.
    pub notes: Vec<String>,
}

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into `base`, a document of the schema's structure `kind`. Neither is changed.
///
/// # Errors
/// [`MergeError`]: a directive that is unknown or stands where it has no meaning, an item without its key, a value
/// of another type.
pub fn merge(schema: &Schema, kind: &str, base: &Value, patch: &Value) -> Result<Merged, MergeError> {
    let mut merger = Merger { schema, notes: Vec::new() };
    let empty = Map::new();
    let Value::Object(patch) = patch else {
        return Err(MergeError::new(&FieldPath::default(), "expected a map"));
    };
    let base = base.as_object().unwrap_or(&empty);
    let value = merger.map(&FieldPath::default(), base, patch, &Type::Struct(kind.to_owned()))?;
    Ok(Merged { value: Value::Object(value), notes: merger.notes })
}

struct Merger<'s> {
    schema: &'s Schema,
    notes: Vec<String>,
}

impl Merger<'_> {
    /// The type of a field; what the schema does not know is merged as maps are and replaced as lists are.
    fn field_type(&self, type_: &Type, name: &str) -> Type {
        match type_ {
            Type::Struct(structure) => {
                let known = self.schema.fields(structure).and_then(|fields| fields.get(name));
                known.map_or(Type::Any, |field| field.type_.clone())
            }
            Type::Map(inner) => (**inner).clone(),
            _ => Type::Any,
        }
    }

    fn map(
        &mut self,
        path: &FieldPath,
        base: &Map<String, Value>,
        patch: &Map<String, Value>,
        type_: &Type,
    ) -> Result<Map<String, Value>, MergeError> {
        if let Some(directive) = patch.get(PATCH) {
            // The directive decides about the whole map: `$retainKeys` beside it has no meaning.
            return self.directive(path, directive, patch, type_);
        }
        let mut result = retained(path, base, patch)?;
        // Maps are sorted here, and `$` stands before letters: directives of a list come before the
        // list itself.
        for (name, value) in patch.iter().filter(|(name, _)| *name != RETAIN) {
            if let Some(list) = name.strip_prefix(DELETE_FROM) {
                remove_scalars(&path.field(list), &mut result, list, value)?;
            } else if let Some(list) = name.strip_prefix(ORDER) {
                // With the list beside it the order is applied where that list is merged.
                if !patch.contains_key(list) {
                    let items = result.get(list).cloned().unwrap_or_default();
                    let type_ = self.field_type(type_, list);
                    result.insert(list.to_owned(), lists::reorder(&path.field(list), &items, value, &type_)?);
                }
            } else {
                let order = patch.get(&format!("{ORDER}{name}"));
                self.entry(&path.field(name), &mut result, name, value, order, type_)?;
            }
        }
        Ok(result)
    }

    fn entry(
        &mut self,
        path: &FieldPath,
        result: &mut Map<String, Value>,
        name: &str,
        value: &Value,
        order: Option<&Value>,
        type_: &Type,
    ) -> Result<(), MergeError> {
        if value.is_null() {
            result.remove(name);
            return Ok(());
        }
        let type_ = self.field_type(type_, name);
        expect(path, value, &type_)?;
        let merged = match (result.get(name), value) {
            (Some(Value::Object(base)), Value::Object(patch)) => {
                let base = base.clone();
                Value::Object(self.map(path, &base, patch, &type_)?)
            }
            (None | Some(Value::Null), Value::Object(patch)) => {
                // To delete what is not there must not leave an empty map behind.
                let is_delete = patch.get(PATCH).and_then(Value::as_str) == Some("delete");
                if is_delete {
                    return Ok(());
                }
                Value::Object(self.map(path, &Map::new(), patch, &type_)?)
            }
            (base, Value::Array(items)) => {
                let live = base.and_then(Value::as_array).cloned().unwrap_or_default();
                self.list(path, &live, items, order, &type_)?
            }
            (Some(base), _) if base.is_object() != value.is_object() => {
                return Err(MergeError::new(path, "expected a map, as the stored value is"));
            }
            _ => value.clone(),
        };
        result.insert(name.to_owned(), merged);
        Ok(())
    }

    fn directive(
        &mut self,
        path: &FieldPath,
        directive: &Value,
        patch: &Map<String, Value>,
        type_: &Type,
    ) -> Result<Map<String, Value>, MergeError> {
        let others = patch.keys().filter(|key| *key != PATCH).count();
        match directive.as_str() {
            Some("replace") => {
                // Upstream would store such a directive as a field of the document.
                if let Some(inner) = patch.iter().find_map(|(key, value)| marker_in(value, &path.field(key)))
                {
                    return Err(MergeError::new(&inner, "a directive cannot stand below `$patch: replace`"));
                }
                let content: Map<String, Value> = patch
                    .iter()
                    .filter(|(key, _)| *key != PATCH)
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                // Merged into nothing: nulls below are dropped, as in every map that is new.
                self.map(path, &Map::new(), &content, type_)
            }
            Some("delete") => {
                let ignored = if others > 0 {
                    format!("; {others} keys beside `$patch: delete` are ignored")
                } else {
                    String::new()
                };
                self.notes.push(format!("{path} is emptied{ignored}"));
                Ok(Map::new())
            }
            _ => Err(MergeError::new(
                path,
                format!("`$patch: {directive}` is unknown; expected replace or delete"),
            )),
        }
    }
}

/// The stored keys that stay under `$retainKeys`.
fn retained(
    path: &FieldPath,
    base: &Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, MergeError> {
    let Some(keys) = patch.get(RETAIN) else { return Ok(base.clone()) };
    let keys: Option<Vec<&str>> = keys.as_array().and_then(|keys| keys.iter().map(Value::as_str).collect());
    let Some(keys) = keys else {
        return Err(MergeError::new(path, "`$retainKeys` is not a list of names"));
    };
    // Directives are not keys of the document.
    let unlisted = patch.keys().find(|key| !key.starts_with('$') && !keys.contains(&key.as_str()));
    if let Some(key) = unlisted {
        return Err(MergeError::new(path, format!("`{key}` is set and not listed in `$retainKeys`")));
    }
    Ok(base
        .iter()
        .filter(|(key, _)| keys.contains(&key.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect())
}

fn remove_scalars(
    path: &FieldPath,
    result: &mut Map<String, Value>,
    name: &str,
    removed: &Value,
) -> Result<(), MergeError> {
    let Some(removed) = removed.as_array() else {
        return Err(MergeError::new(path, "`$deleteFromPrimitiveList` is not a list"));
    };
    if let Some(Value::Array(items)) = result.get_mut(name) {
        items.retain(|item| !removed.contains(item));
    }
    Ok(())
}

fn marker_in(value: &Value, path: &FieldPath) -> Option<FieldPath> {
    match value {
        Value::Object(map) => map.iter().find_map(|(key, value)| {
            if key.starts_with('$') { Some(path.clone()) } else { marker_in(value, &path.field(key)) }
        }),
        Value::Array(items) => items.iter().find_map(|item| marker_in(item, path)),
        _ => None,
    }
}

/// A patch that puts a value of another shape somewhere is a mistake, not an intent.
fn expect(path: &FieldPath, value: &Value, type_: &Type) -> Result<(), MergeError> {
    let fits = match type_ {
        Type::Any => true,
        Type::Map(_) | Type::Struct(_) => value.is_object(),
        Type::List(..) => value.is_array(),
        _ => !value.is_object() && !value.is_array(),
    };
    if fits { Ok(()) } else { Err(MergeError::new(path, format!("expected {}", type_.expectation()))) }
}

#[cfg(test)]
mod tests;
