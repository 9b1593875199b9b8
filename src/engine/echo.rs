//! Read your own writes: after a run, its key is held until the caches have seen what it wrote.
//! Owns the wait; must not know the kinds. Source: cluster-api `util/controller` consistency store, v1.14.0.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::client::Object;
use crate::client::watch::{Cache, Progress, parse_version};
use crate::client::write::{Written, gvk_of};

/// An echo that does not come within this time is given up, so that a broken watch cannot stop a key
/// for ever; the controllers are safe against acting on old data, only less calm.
const PATIENCE: Duration = Duration::from_secs(10);

/// The caches by group and kind.
#[derive(Clone, Default)]
pub struct Echoes(BTreeMap<(String, String), Arc<dyn Ear>>);

/// A cache as far as echoes are concerned.
trait Ear: Send + Sync {
    fn subscribe(&self) -> watch::Receiver<Progress>;
    /// Asked from inside a look at the progress, which is locked then: `seen` comes from there, because
    /// looking again would wait for a writer that waits for us.
    fn has(&self, written: &Written, seen: u64) -> bool;
}

impl<K: Object> Ear for Cache<K> {
    fn subscribe(&self) -> watch::Receiver<Progress> {
        Self::subscribe(self)
    }

    fn has(&self, written: &Written, seen: u64) -> bool {
        let Some(version) = &written.resource_version else {
            let object = self.get(&written.key);
            return object.is_none_or(|o| o.meta().uid.as_deref() != Some(written.uid.as_str()));
        };
        seen >= parse_version(version)
    }
}

impl Echoes {
    pub fn add<K: Object>(&mut self, cache: &Cache<K>) {
        let gvk = gvk_of::<K>();
        self.0.insert((gvk.group, gvk.kind), Arc::new(cache.clone()));
    }

    /// Resolves when every write has been seen. Kinds without a cache are not waited for.
    pub async fn heard(&self, writes: Vec<Written>) {
        for written in writes {
            let Some(ear) = self.0.get(&(written.group.clone(), written.kind.clone())) else { continue };
            let mut progress = ear.subscribe();
            let wait = progress.wait_for(|p| ear.has(&written, p.seen));
            if tokio::time::timeout(PATIENCE, wait).await.is_err() {
                tracing::warn!(kind = written.kind, key = %written.key, "the watch did not show our own write in time");
            }
        }
    }
}
