//! How two values differ. Source: structured-merge-diff v6 `typed/compare.go`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{equal, is_hollow};
use crate::managed::element::Element;
use crate::managed::path_set::{Branch, PathSet};
use crate::managed::topology::{Form, ListForm, MapForm, Shape};

/// No path is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub removed: PathSet,
    pub modified: PathSet,
    pub added: PathSet,
}

impl Comparison {
    /// Without what is at and below the given paths.
    pub fn without(self, paths: &PathSet) -> Self {
        Self {
            removed: self.removed.difference_below(paths),
            modified: self.modified.difference_below(paths),
            added: self.added.difference_below(paths),
        }
    }

    /// What the new value brings.
    pub fn changed(&self) -> PathSet {
        self.modified.union(&self.added)
    }
}

/// Compares two values of one shape. Order in lists of items that can be told apart does not count.
///
/// # Errors
/// Items of a list cannot be told apart.
pub fn compare(shape: Shape<'_>, old: &Value, new: &Value) -> Result<Comparison, String> {
    let mut found = Found::default();
    found.walk(shape, Some(old), Some(new))?;
    let set = PathSet::from_branches;
    Ok(Comparison { removed: set(found.removed), modified: set(found.modified), added: set(found.added) })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Removed,
    Modified,
    Added,
}

impl Change {
    /// `None` when nothing changed.
    fn of(old: Option<&Value>, new: Option<&Value>) -> Option<Self> {
        match (old, new) {
            (None, _) => Some(Self::Added),
            (_, None) => Some(Self::Removed),
            (Some(old), Some(new)) => (!equal(old, new)).then_some(Self::Modified),
        }
    }
}

/// What was found at one path and below.
#[derive(Default)]
struct Found {
    own: Option<Change>,
    removed: Vec<Branch>,
    modified: Vec<Branch>,
    added: Vec<Branch>,
}

impl Found {
    /// At least one of the values is there.
    fn walk(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<(), String> {
        let (of_old, of_new) = (shape.form(old), shape.form(new));
        let same_kind = match (old, new) {
            (Some(old), Some(new)) => {
                std::mem::discriminant(&of_old) == std::mem::discriminant(&of_new)
                    || old.is_null()
                    || new.is_null()
            }
            _ => true,
        };
        let mut leaf = false;
        if !same_kind {
            // Where the kind changed, both forms are gone through: one finds what goes, the other
            // what comes.
            leaf |= self.enter(of_old, old, new)?;
        }
        // Where the new value is missing or null, only the old one says what there is to go down
        // into.
        let form =
            if new.is_none() || (same_kind && new.is_some_and(Value::is_null)) { of_old } else { of_new };
        leaf |= self.enter(form, old, new)?;
        if !leaf && (old.is_none() || new.is_none()) {
            // A container that comes or goes is a change of its own, beside what is in it.
            self.own = Change::of(old, new);
        }
        Ok(())
    }

    /// True when the value was taken as one unit.
    fn enter(&mut self, form: Form<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<bool, String> {
        // Two empty values have nothing below them, but null and empty are not the same.
        let hollow = || old.is_none_or(is_hollow) && new.is_none_or(is_hollow);
        match form {
            Form::Map(map) if !hollow() => {
                self.fields(map, old.and_then(Value::as_object), new.and_then(Value::as_object))?;
                Ok(false)
            }
            Form::List(list) if !hollow() => {
                let items = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
                // Most lists are the same on both sides, and an index costs more than this
                // comparison.
                if items(old) + items(new) > 0 && old != new {
                    self.items(list, old, new)?;
                }
                Ok(false)
            }
            _ => {
                self.own = self.own.or(Change::of(old, new));
                Ok(true)
            }
        }
    }

    fn fields(
        &mut self,
        map: MapForm<'_>,
        old: Option<&serde_json::Map<String, Value>>,
        new: Option<&serde_json::Map<String, Value>>,
    ) -> Result<(), String> {
        let shape = |name: &str| map.field(name).unwrap_or(Shape::Deduced);
        for (name, was) in old.into_iter().flatten() {
            let is = new.and_then(|fields| fields.get(name));
            self.child(|| Element::field(name), shape(name), Some(was), is)?;
        }
        for (name, is) in new.into_iter().flatten() {
            if old.is_none_or(|fields| !fields.contains_key(name)) {
                self.child(|| Element::field(name), shape(name), None, Some(is))?;
            }
        }
        Ok(())
    }

    fn child(
        &mut self,
        step: impl FnOnce() -> Element,
        shape: Shape<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<(), String> {
        let mut found = Self::default();
        found.walk(shape, old, new)?;
        self.attach(step, found);
        Ok(())
    }

    fn attach(&mut self, step: impl FnOnce() -> Element, found: Self) {
        let own = found.own;
        let nothing = found.removed.is_empty() && found.modified.is_empty() && found.added.is_empty();
        if own.is_none() && nothing {
            return;
        }
        // Made only for what differs: most of an object does not.
        let step = step();
        for (change, below, list) in [
            (Change::Removed, found.removed, &mut self.removed),
            (Change::Modified, found.modified, &mut self.modified),
            (Change::Added, found.added, &mut self.added),
        ] {
            if own == Some(change) || !below.is_empty() {
                let below = PathSet::from_branches(below);
                list.push(Branch { step: step.clone(), member: own == Some(change), below });
            }
        }
    }

    fn items(&mut self, list: ListForm<'_>, old: Option<&Value>, new: Option<&Value>) -> Result<(), String> {
        let mut all: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (step, item) in list.index(old.and_then(Value::as_array).map_or(&[], Vec::as_slice))? {
            all.entry(step).or_default().0.push(item);
        }
        for (step, item) in list.index(new.and_then(Value::as_array).map_or(&[], Vec::as_slice))? {
            all.entry(step).or_default().1.push(item);
        }
        for (step, (old, new)) in all {
            self.same_step(list, step, &old, &new)?;
        }
        Ok(())
    }

    /// The items under one step. Several on one side are one opaque thing.
    fn same_step(
        &mut self,
        list: ListForm<'_>,
        step: Element,
        old: &[&Value],
        new: &[&Value],
    ) -> Result<(), String> {
        let item = list.item();
        let marker = |change| Self { own: Some(change), ..Self::default() };
        match (old, new) {
            ([] | [_], [] | [_]) => {
                self.child(|| step, item, old.first().copied(), new.first().copied())?;
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| equal(old, new));
                if !same {
                    self.attach(|| step, marker(Change::Modified));
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    self.child(|| step.clone(), item, None, Some(new))?;
                }
                self.attach(|| step, marker(Change::Removed));
            }
            (_, _) => {
                if let Some(old) = old.first() {
                    self.child(|| step.clone(), item, Some(old), None)?;
                }
                self.attach(|| step, marker(Change::Added));
            }
        }
        Ok(())
    }
}
