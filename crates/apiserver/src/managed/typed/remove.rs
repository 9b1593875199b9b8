//! Taking paths out of a value. Source: structured-merge-diff v6 `typed/remove.go`.

use serde_json::{Map, Value};

use crate::managed::element::Element;
use crate::managed::path_set::PathSet;
use crate::managed::topology::{Form, ListForm, MapForm, Shape};

/// The value without the paths. A list or map that loses everything becomes null, and so does a unit
/// of which only a part was to go.
pub fn remove(shape: Shape<'_>, value: &Value, paths: &PathSet) -> Value {
    match (shape.form(Some(value)), value) {
        (Form::Map(map), Value::Object(object)) => fields(map, object, paths),
        (Form::List(list), Value::Array(array)) => items(list, array, paths),
        // Below a scalar there is nothing that could go.
        (Form::Scalar(_), _) => value.clone(),
        _ => Value::Null,
    }
}

fn fields(map: MapForm<'_>, object: &Map<String, Value>, paths: &PathSet) -> Value {
    let mut out = Map::new();
    for (name, value) in object {
        let kept = match paths.get(&Element::field(name)) {
            None => value.clone(),
            Some(branch) if branch.member => continue,
            Some(branch) => remove(map.field(name).unwrap_or(Shape::Deduced), value, &branch.below),
        };
        out.insert(name.clone(), kept);
    }
    if out.is_empty() { Value::Null } else { Value::Object(out) }
}

fn items(list: ListForm<'_>, array: &[Value], paths: &PathSet) -> Value {
    let kept: Vec<Value> = array
        .iter()
        .filter_map(|item| match list.step(item).ok().and_then(|step| paths.get(&step)) {
            None => Some(item.clone()),
            Some(branch) if branch.member => None,
            Some(branch) => Some(remove(list.item(), item, &branch.below)),
        })
        .collect();
    if kept.is_empty() { Value::Null } else { Value::Array(kept) }
}
