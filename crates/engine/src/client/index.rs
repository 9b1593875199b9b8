//! The objects of a live copy by a term that they contain, such as a provider ID. Owns the index; must not know what the term
//! means.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Cache, Change, Live};
use capi_types::key::ObjectKey;

/// The terms by which an object is found.
type Terms<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// Where each of many asks for its own, looking through all of them would cost the square of their number.
/// Cheap to clone; all clones are the same.
pub struct Index<K: Live> {
    cache: Cache<K>,
    terms: Terms<K>,
    keys: Arc<Mutex<BTreeMap<String, BTreeSet<ObjectKey>>>>,
}

impl<K: Live> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), terms: Arc::clone(&self.terms), keys: Arc::clone(&self.keys) }
    }
}

impl<K: Live> Index<K> {
    /// Kept from now on with every change of the copy.
    pub fn new(cache: &Cache<K>, terms: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        let index = Self { cache: cache.clone(), terms: Arc::new(terms), keys: Arc::default() };
        // Not a clone of the copy: it would keep itself alive.
        let (keys, terms) = (Arc::clone(&index.keys), Arc::clone(&index.terms));
        cache.on_change(move |change| note(&mut keys.lock(), &*terms, change));
        index
    }

    /// The objects that have `term` now, by namespace and name.
    pub fn get(&self, term: &str) -> Vec<Arc<K>> {
        let keys: Vec<ObjectKey> = self.keys.lock().get(term).into_iter().flatten().cloned().collect();
        let found = keys.iter().filter_map(|key| self.cache.get(key));
        // The copy is a moment ahead of its index.
        found.filter(|object| (self.terms)(object).iter().any(|has| has == term)).collect()
    }
}

fn note<K: Live>(
    keys: &mut BTreeMap<String, BTreeSet<ObjectKey>>,
    terms: &(dyn Fn(&K) -> Vec<String> + Send + Sync),
    change: &Change<'_, K>,
) {
    let of = |object: Option<&K>| object.map(terms).unwrap_or_default();
    let (mut before, mut after) = (of(change.old), of(change.new));
    if before == after {
        return;
    }
    before.sort_unstable();
    after.sort_unstable();
    let Some(key) = change.new.or(change.old).map(ObjectKey::of) else { return };
    for term in before.iter().filter(|term| after.binary_search(term).is_err()) {
        if let Some(known) = keys.get_mut(term) {
            known.remove(&key);
            if known.is_empty() {
                keys.remove(term);
            }
        }
    }
    after.retain(|term| before.binary_search(term).is_err());
    for term in after {
        keys.entry(term).or_default().insert(key.clone());
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_found_by_the_terms_that_they_have_now() {
        let cache = Cache::new();
        let colour = |map: &ConfigMap| map.data.iter().flatten().map(|(_, colour)| colour.clone()).collect();
        let map = |name: &str, colours: serde_json::Value| -> ConfigMap {
            serde_json::from_value(json!({"metadata": {"name": name}, "data": colours})).expect("a ConfigMap")
        };
        cache.upsert(map("early", json!({"a": "red"})));
        let index = Index::new(&cache, colour);
        let found = |term: &str| -> Vec<String> {
            index.get(term).iter().filter_map(|map| map.metadata.name.clone()).collect()
        };
        cache.upsert(map("a", json!({"a": "red", "b": "blue"})));
        assert_eq!(
            (found("red"), found("blue"), found("green")),
            (vec!["a".into(), "early".into()], vec!["a".into()], vec![])
        );
        cache.upsert(map("a", json!({"b": "green"})));
        assert_eq!(
            (found("red"), found("blue"), found("green")),
            (vec!["early".into()], vec![], vec!["a".into()])
        );
        cache.remove(&ObjectKey::new("", "a"));
        cache.remove(&ObjectKey::new("", "early"));
        assert!(index.keys.lock().is_empty(), "nothing is left of them");
    }
}
