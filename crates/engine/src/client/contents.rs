//! What a live copy holds: objects by name, and by the label of their Cluster. Owns both, and that they agree; must not know
//! where objects come from, nor who reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Live;
use capi_types::key::{ObjectKey, cluster_label};

pub(super) struct Contents<K> {
    readable: BTreeMap<ObjectKey, Arc<K>>,
    /// Objects that do not decode as `K`, with the reason.
    pub(super) unreadable: BTreeMap<ObjectKey, String>,
    /// The objects with the label of each Cluster, by name. `None` until the first question: looking through
    /// all of them for every Cluster would cost the square of their number.
    by_cluster: Option<BTreeMap<ObjectKey, BTreeMap<String, Arc<K>>>>,
}

impl<K> Default for Contents<K> {
    fn default() -> Self {
        Self { readable: BTreeMap::new(), unreadable: BTreeMap::new(), by_cluster: None }
    }
}

impl<K: Live> Contents<K> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        self.readable.get(key)
    }

    /// Ordered by namespace and name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<K>> {
        self.readable.values()
    }

    /// Of those that cannot be read, too.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.readable.keys().chain(self.unreadable.keys())
    }

    /// Ordered by name.
    pub(super) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<K>> {
        let from_here = self.readable.range(ObjectKey::new(namespace, "")..);
        from_here.take_while(move |(key, _)| key.namespace == namespace).map(|(_, object)| object)
    }

    /// Those with the label of a Cluster, ordered by name. `None`: there is no index yet.
    pub(super) fn of_cluster(&self, cluster: &ObjectKey) -> Option<Vec<Arc<K>>> {
        let found = self.by_cluster.as_ref()?.get(cluster);
        Some(found.into_iter().flat_map(BTreeMap::values).cloned().collect())
    }

    pub(super) fn index_clusters(&mut self) {
        let mut index = BTreeMap::<ObjectKey, BTreeMap<String, Arc<K>>>::new();
        for (key, object) in &self.readable {
            if let Some(cluster) = cluster_of(key, object.as_ref()) {
                index.entry(cluster).or_default().insert(key.name.clone(), Arc::clone(object));
            }
        }
        self.by_cluster = Some(index);
    }

    /// Answers with what was there.
    pub(super) fn insert(&mut self, key: ObjectKey, object: Arc<K>) -> Option<Arc<K>> {
        self.unreadable.remove(&key);
        let old = self.readable.insert(key.clone(), Arc::clone(&object));
        self.reindex(&key, old.as_ref(), Some(object));
        old
    }

    /// Answers with what was there.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Arc<K>> {
        self.unreadable.remove(key);
        let old = self.readable.remove(key)?;
        self.reindex(key, Some(&old), None);
        Some(old)
    }

    fn reindex(&mut self, key: &ObjectKey, old: Option<&Arc<K>>, new: Option<Arc<K>>) {
        let Some(index) = &mut self.by_cluster else { return };
        let from = old.and_then(|old| cluster_of(key, old.as_ref()));
        let to = new.as_ref().and_then(|new| cluster_of(key, new.as_ref()));
        // With the same Cluster the insertion below replaces the entry.
        if let Some(from) = from.filter(|from| to.as_ref() != Some(from))
            && let Some(objects) = index.get_mut(&from)
        {
            objects.remove(&key.name);
            if objects.is_empty() {
                index.remove(&from);
            }
        }
        if let (Some(to), Some(new)) = (to, new) {
            index.entry(to).or_default().insert(key.name.clone(), new);
        }
    }
}

fn cluster_of<K: Live>(key: &ObjectKey, object: &K) -> Option<ObjectKey> {
    cluster_label(object).map(|name| ObjectKey::new(&key.namespace, name))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use capi_types::names::label::CLUSTER_NAME;

    fn map(name: &str, cluster: Option<&str>) -> ConfigMap {
        let labels = cluster.map(|cluster| json!({ CLUSTER_NAME: cluster }));
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns", "labels": labels}}))
            .expect("a ConfigMap")
    }

    /// Every change is made with and without the index, which must not make a difference.
    #[test]
    fn the_index_says_what_the_labels_say() {
        let (mut indexed, mut late) = (Contents::default(), Contents::default());
        indexed.index_clusters();
        let changes = [
            ("b", Some(Some("x"))),
            ("a", Some(Some("x"))),
            ("c", Some(None)),
            ("b", Some(Some("y"))),
            ("b", Some(Some("y"))),
            ("c", Some(Some("y"))),
            ("a", Some(None)),
            ("b", None),
            ("a", Some(Some("x"))),
            ("a", None),
            ("c", None),
        ];
        for (name, change) in changes {
            for contents in [&mut indexed, &mut late] {
                let key = ObjectKey::new("ns", name);
                match change {
                    Some(cluster) => contents.insert(key, Arc::new(map(name, cluster))),
                    None => contents.remove(&key),
                };
            }
            late.by_cluster = None;
            assert_eq!(late.of_cluster(&ObjectKey::new("ns", "x")), None);
            late.index_clusters();
            assert_eq!(late.by_cluster, indexed.by_cluster, "after {name} {change:?}");
        }
        assert_eq!(indexed.by_cluster, Some(BTreeMap::new()), "nothing is left of what went");
    }
}
