//! Where the items of a list stand, by what tells them apart: a lookup costs the same in a long list
//! as in a short one. Must not know patches.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

/// The places of items by the value of one field. Hashes are seeded: clients choose the keys.
pub(super) struct Places(HashMap<Value, BTreeSet<usize>>);

impl Places {
    pub(super) fn of(items: &[Value], key: &str) -> Self {
        let mut places = Self(HashMap::with_capacity(items.len()));
        items.iter().enumerate().for_each(|(at, item)| places.add(at, item.get(key)));
        places
    }

    /// An item without the key cannot be found.
    pub(super) fn add(&mut self, at: usize, key: Option<&Value>) {
        let Some(key) = key else { return };
        match self.0.get_mut(key) {
            Some(places) => drop(places.insert(at)),
            None => drop(self.0.insert(key.clone(), BTreeSet::from([at]))),
        }
    }

    /// The first item with this key.
    pub(super) fn first(&self, key: &Value) -> Option<usize> {
        self.0.get(key)?.first().copied()
    }

    /// The item that had the key `old` has `new` now.
    pub(super) fn moved(&mut self, at: usize, old: &Value, new: Option<&Value>) {
        if new == Some(old) {
            return;
        }
        if let Some(places) = self.0.get_mut(old) {
            places.remove(&at);
        }
        self.add(at, new);
    }
}

/// The first place of each key in a list.
pub(super) fn first_places<'a>(
    items: &'a [Value],
    key: impl Fn(&'a Value) -> Option<&'a Value>,
) -> HashMap<&'a Value, usize> {
    let mut places = HashMap::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        if let Some(key) = key(item) {
            places.entry(key).or_insert(at);
        }
    }
    places
}
