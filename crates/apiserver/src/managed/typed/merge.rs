//! Laying one value over another. Source: structured-merge-diff v6 `typed/merge.go`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::is_hollow;
use crate::managed::element::Element;
use crate::managed::topology::{Form, ListForm, MapForm, Shape};

/// `over` laid over `under`: units and scalars of `over` win, even when they are null or empty.
///
/// # Errors
/// Items of a list cannot be told apart.
pub fn merge(shape: Shape<'_>, under: &Value, over: &Value) -> Result<Value, String> {
    // Where both are empty, the way in which `over` is empty counts.
    let hollow = is_hollow(under) && is_hollow(over);
    match shape.form(Some(if over.is_null() { under } else { over })) {
        Form::Map(map) if !hollow => match (under.as_object(), over.as_object()) {
            (Some(under), Some(over)) => fields(map, under, over),
            // Null leaves a map that exists as it is.
            (Some(_), None) if over.is_null() => Ok(under.clone()),
            _ => Ok(over.clone()),
        },
        Form::List(list) if !hollow => match (under.as_array(), over.as_array()) {
            (Some(under), Some(over)) => items(list, under, over),
            (Some(_), None) if over.is_null() => Ok(under.clone()),
            _ => Ok(over.clone()),
        },
        _ => Ok(over.clone()),
    }
}

fn fields(map: MapForm<'_>, under: &Map<String, Value>, over: &Map<String, Value>) -> Result<Value, String> {
    let mut out = under.clone();
    for (name, value) in over {
        let shape = map.field(name).unwrap_or(Shape::Deduced);
        let merged = match under.get(name) {
            Some(under) => merge(shape, under, value)?,
            None => value.clone(),
        };
        out.insert(name.clone(), merged);
    }
    Ok(out.into())
}

/// Items that both have follow the order of `over`; the others stay where they are, as far as that
/// allows.
fn items(list: ListForm<'_>, under: &[Value], over: &[Value]) -> Result<Value, String> {
    let (under, over) = (list.index(under)?, list.index(over)?);
    let mut known: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (step, item) in &under {
        // Items that occur twice are not merged with.
        known.entry(step).and_modify(|item| *item = None).or_insert(Some(item));
    }
    let wanted: BTreeSet<&Element> = over.iter().map(|(step, _)| step).collect();
    let mut shared: VecDeque<&Element> =
        over.iter().map(|(step, _)| step).filter(|step| known.contains_key(step)).collect();
    let mut next_shared = shared.pop_front();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let mut out = Vec::with_capacity(under.len().max(over.len()));
    let (mut left, mut right) = (under.iter().peekable(), over.iter().peekable());
    loop {
        let ours = left.peek().copied().map(|(step, _)| step);
        let theirs = right.peek().copied().map(|(step, _)| step);
        if ours.is_none() && theirs.is_none() {
            return Ok(out.into());
        }
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            let due_later = next_shared.is_some_and(|next| next != ours);
            // `over` has this item at another place, and it is taken there.
            if ours != theirs && wanted.contains(ours) && due_later {
                left.next();
                continue;
            }
            if ours == theirs {
                left.next();
            }
        }
        let met = ours.is_some() && ours == theirs;
        if let (Some(ours), false) = (ours, met) {
            if !wanted.contains(ours) {
                out.extend(left.next().map(|(_, item)| (*item).clone()));
                continue;
            }
            if done.contains(ours) {
                left.next();
            }
        }
        let Some((step, item)) = right.next() else { continue };
        done.insert(step);
        out.push(match known.get(step) {
            Some(Some(under)) => merge(list.item(), under, item)?,
            _ => (*item).clone(),
        });
        if met || next_shared == Some(step) {
            next_shared = shared.pop_front();
        }
    }
}
