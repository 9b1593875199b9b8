//! Some or all objects of one kind by their Cluster. Owns the index; must not know who asks.

use std::sync::Arc;

use super::keys_of;
use crate::client::{Cache, Index, Object};
use capi_types::key::ObjectKey;

/// Where the label that [`Cache::of_cluster`] goes by is not enough: it comes with an object's first run, and all have it.
pub struct ByCluster<K: Object>(Index<K>);

impl<K: Object> Clone for ByCluster<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Object> ByCluster<K> {
    /// Kept from now on. `cluster` is the name of the Cluster of an object that counts.
    pub fn new(all: &Cache<K>, cluster: for<'k> fn(&'k K) -> Option<&'k str>) -> Self {
        Self(Index::new(all, move |object| {
            let namespace = object.meta().namespace.as_deref().unwrap_or_default();
            cluster(object).map(|name| ObjectKey::new(namespace, name).to_string()).into_iter().collect()
        }))
    }

    /// By name.
    pub fn get(&self, cluster: &ObjectKey) -> Vec<Arc<K>> {
        self.0.get(&cluster.to_string())
    }

    pub fn keys(&self, cluster: &ObjectKey) -> Vec<ObjectKey> {
        keys_of(&self.get(cluster))
    }
}
