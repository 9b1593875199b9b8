//! The paths a value consists of. Source: structured-merge-diff v6 `typed/tofieldset.go`,
//! `fieldpath/set.go` (`EnsureNamedFieldsAreMembers`).

use serde_json::Value;

use super::is_hollow;
use crate::managed::element::Element;
use crate::managed::path_set::{Branch, PathSet};
use crate::managed::topology::{Form, ListForm, MapForm, Shape};

/// What applying `value` owns: its leaves, the items of lists, keys that the schema does not name,
/// and what was left empty on purpose. Named parents are not in it.
pub fn to_set(shape: Shape<'_>, value: &Value) -> PathSet {
    walk(shape, value).below
}

#[derive(Default)]
struct Found {
    member: bool,
    below: PathSet,
}

fn walk(shape: Shape<'_>, value: &Value) -> Found {
    match (shape.form(Some(value)), value) {
        (Form::Scalar(_) | Form::Atomic(_), _) => Found { member: true, ..Found::default() },
        (Form::Map(map), Value::Object(fields)) => {
            let branches = fields.iter().filter_map(|(name, value)| field(map, name, value)).collect();
            Found { member: false, below: PathSet::from_branches(branches) }
        }
        (Form::List(list), Value::Array(items)) => Found { member: false, below: self::items(list, items) },
        _ => Found::default(),
    }
}

fn field(map: MapForm<'_>, name: &str, value: &Value) -> Option<Branch> {
    let found = walk(map.field(name)?, value);
    // Upstream counts an empty map and a null as left empty on purpose, an empty list not.
    let left_empty = is_hollow(value) && !value.is_array();
    let member = found.member || left_empty || !map.is_named(name);
    Some(Branch { step: Element::field(name), member, below: found.below })
}

/// Items that cannot be told apart are one member, with nothing below.
fn items(list: ListForm<'_>, items: &[Value]) -> PathSet {
    let mut found: Vec<_> = items.iter().filter_map(|item| Some((list.step(item).ok()?, item))).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let branches = found.chunk_by(|a, b| a.0 == b.0).filter_map(|same| {
        let (step, value) = same.first()?;
        let below = if same.len() > 1 { PathSet::default() } else { walk(list.item(), value).below };
        Some(Branch { step: step.clone(), member: true, below })
    });
    PathSet::from_branches(branches.collect())
}

/// The set with every named field that has members below it.
pub fn with_named(set: &PathSet, shape: Option<Shape<'_>>) -> PathSet {
    let branches = set.branches().iter().map(|branch| Branch {
        step: branch.step.clone(),
        member: branch.member
            || (!branch.below.is_empty() && shape.is_some_and(|shape| shape.names(&branch.step))),
        below: with_named(&branch.below, shape.and_then(|shape| shape.at(&branch.step))),
    });
    PathSet::from_branches(branches.collect())
}
