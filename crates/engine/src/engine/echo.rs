//! Read your own writes: after a run, its key is held until the caches have seen what it wrote.
//! Owns the wait; must not know the kinds. Source: cluster-api `util/controller` consistency store, v1.14.2.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::watch;

use crate::client::Live;
use crate::client::watch::{Cache, Progress, parse_version};
use crate::client::write::Written;

/// An echo that does not come within this time is given up, so that a broken watch cannot stop a key
/// for ever; the controllers are safe against acting on old data, only less calm.
const PATIENCE: Duration = Duration::from_secs(10);

type GroupKind = (String, String);

/// The caches by group and kind; one kind may have several. Cheap to clone; all clones are the same list.
#[derive(Clone, Default)]
pub struct Echoes(Arc<RwLock<BTreeMap<GroupKind, Vec<Arc<dyn CacheProgress>>>>>);

/// A cache as far as echoes are concerned.
trait CacheProgress: Send + Sync {
    fn subscribe(&self) -> watch::Receiver<Progress>;
    /// Asked from inside a look at the progress, which is locked then: `seen` comes from there, because
    /// looking again would wait for a writer that waits for us.
    fn has(&self, written: &Written, seen: u64) -> bool;
}

impl<K: Live> CacheProgress for Cache<K> {
    fn subscribe(&self) -> watch::Receiver<Progress> {
        Self::subscribe(self)
    }

    fn has(&self, written: &Written, seen: u64) -> bool {
        let Some(version) = &written.resource_version else {
            let object = self.get(&written.key);
            // Another uid is an object of the same name that was made after the deletion.
            return object.is_none_or(|o| o.meta().uid.as_deref() != Some(written.uid.as_str()));
        };
        seen >= parse_version(version)
    }
}

/// A cache that counts for echoes until this is dropped.
pub struct Listening {
    echoes: Echoes,
    kind: GroupKind,
    cache: Arc<dyn CacheProgress>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(caches) = self.echoes.0.write().get_mut(&self.kind) {
            caches.retain(|cache| !Arc::ptr_eq(cache, &self.cache));
        }
    }
}

impl Echoes {
    /// Waits for `cache`, too, from now on until what this returns is dropped.
    pub fn add<K: Live>(&self, group: &str, kind: &str, cache: &Cache<K>) -> Listening {
        let kind = (group.to_owned(), kind.to_owned());
        let cache: Arc<dyn CacheProgress> = Arc::new(cache.clone());
        self.0.write().entry(kind.clone()).or_default().push(Arc::clone(&cache));
        Listening { echoes: self.clone(), kind, cache }
    }

    /// Resolves when every write has been seen. Kinds without a cache are not waited for, nor are caches whose
    /// first list is not complete: nothing was read from them.
    pub async fn seen_by_watches(&self, writes: Vec<Written>) {
        for written in writes {
            let kind = (written.group.clone(), written.kind.clone());
            // Copied, so that no lock is held over the wait below.
            let caches = self.0.read().get(&kind).cloned().unwrap_or_default();
            for cache in caches {
                let mut progress = cache.subscribe();
                // One write after the other: all echoes are needed, so their order does not matter.
                let wait = progress.wait_for(|p| !p.ready || cache.has(&written, p.seen));
                if tokio::time::timeout(PATIENCE, wait).await.is_err() {
                    tracing::warn!(kind = written.kind, key = %written.key, "the watch did not show our own write in time");
                }
            }
        }
    }
}
