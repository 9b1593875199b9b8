//! What a controller is to the engine: a name, triggers, and one function of a key.
//! Must not know any kind; closures made by the controllers do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::client::errors::chain;
use crate::client::watch::Cache;
use crate::client::{Error, Live, Object, WriteError};
use capi_types::key::{ObjectKey, refers_to};

/// Brings the objects of one kind from what they are to what they should be.
#[async_trait]
pub trait Controller: Send + Sync + 'static {
    /// Short and stable: `machine`, `kubeadm-control-plane`. Names the queue and the trace.
    fn name(&self) -> &'static str;

    /// Called at every win of the right that it runs under (once without a lease), when every cache is complete and before any
    /// controller of that right runs: the place to begin anew what lives in memory only. Must not wait.
    fn prepare(&self) {}

    /// What wakes it up. Asked once.
    fn triggers(&self) -> Vec<Trigger>;

    /// One run for one key; never two at a time for the same key. An object that is gone is not an
    /// error. Everything must be safe to repeat.
    ///
    /// # Errors
    /// The run is repeated after a growing wait.
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError>;

    /// Two runs of one key start at least this far apart (real time; divided by the time scale).
    /// Source: upstream's rate limiting, 1 s for all but MachineHealthCheck (15 s).
    fn rate_interval(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How many keys run at once.
    fn concurrency(&self) -> usize {
        10
    }
}

/// What a run wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until a trigger fires.
    Done,
    /// Again after this long, or earlier when a trigger fires.
    RequeueAfter(Duration),
    /// Again after this long, and not earlier even when a trigger fires.
    /// Source: upstream's "defer next reconcile" (preflight 5 s, drain and volume detach 20 s).
    NotBefore(Duration),
}

impl Outcome {
    /// Both wishes as one: the sooner timer, a stated delay over none, and a hold over everything.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::RequeueAfter(a), Self::RequeueAfter(b)) => Self::RequeueAfter(a.min(b)),
            (Self::NotBefore(a), Self::NotBefore(b)) => Self::NotBefore(a.max(b)),
            (hold @ Self::NotBefore(_), _) | (_, hold @ Self::NotBefore(_)) => hold,
            (wait, Self::Done) | (Self::Done, wait) => wait,
        }
    }
}

/// A run that failed. Every kind is repeated with backoff; the kinds differ in what is logged.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("{0}")]
    Write(#[from] WriteError),
    #[error("reading failed: {}", chain(.0))]
    Read(#[from] Error),
    /// In the controller's words.
    #[error("{0}")]
    Failed(String),
}

impl ReconcileError {
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// Another writer was first: expected now and then, cured by reading again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_conflict())
    }
}

/// Puts keys into a controller's queue.
pub type Enqueue = Arc<dyn Fn(ObjectKey) + Send + Sync>;

/// Something that turns events into keys. It is started once with the controller's queue.
pub struct Trigger(pub(super) Box<dyn FnOnce(Enqueue) + Send>);

impl Trigger {
    /// Anything else that wakes up: `start` is called once, with the controller's queue.
    pub fn new(start: impl FnOnce(Enqueue) + Send + 'static) -> Self {
        Self(Box::new(start))
    }

    /// On every change of a cached kind: `keys(old, new)` are the keys to run.
    pub fn on<K: Object>(
        cache: &Cache<K>,
        keys: impl Fn(Option<&K>, Option<&K>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let cache = cache.clone();
        Self(Box::new(move |enqueue| {
            cache.on_change(move |change| {
                keys(change.old, change.new).into_iter().for_each(|key| enqueue(key));
            });
        }))
    }

    /// On every change of the controller's own kind: the object's own key.
    pub fn own<K: Object>(cache: &Cache<K>) -> Self {
        Self::on(cache, |old, new| new.or(old).map(ObjectKey::of).into_iter().collect())
    }

    /// On every change of objects that `kind` owns (any owner reference of that kind): the owner's key.
    pub fn owned_by<K: Object>(cache: &Cache<K>, group: &'static str, kind: &'static str) -> Self {
        Self::on(cache, move |old, new| {
            // Both, since an object may go from one owner to another.
            [old, new].into_iter().flatten().flat_map(|object| owners(object, group, kind)).collect()
        })
    }

    /// On everything that another part announces, such as changes in workload clusters. `missed` stands for
    /// announcements that came too fast to be read.
    pub fn announced<A: Clone + Send + Sync + 'static>(
        mut receiver: tokio::sync::broadcast::Receiver<A>,
        missed: A,
        keys: impl Fn(&A) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        use tokio::sync::broadcast::error::RecvError;
        Self(Box::new(move |enqueue| {
            tokio::spawn(async move {
                loop {
                    let announcement = match receiver.recv().await {
                        Ok(announcement) => announcement,
                        Err(RecvError::Lagged(_)) => missed.clone(),
                        Err(RecvError::Closed) => return,
                    };
                    keys(&announcement).into_iter().for_each(|key| enqueue(key));
                }
            });
        }))
    }
}

/// Keys of the owners of this group and kind, whether they control or not.
pub fn owners<K: Live>(object: &K, group: &str, kind: &str) -> Vec<ObjectKey> {
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    let references = object.meta().owner_references.iter().flatten();
    references
        .filter(|r| refers_to(r, group, kind))
        .map(|r| ObjectKey::new(namespace.clone(), r.name.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tokio::sync::broadcast;

    use super::*;

    #[tokio::test]
    async fn announcements_that_came_too_fast_wake_everything() {
        let (sender, receiver) = broadcast::channel(2);
        let all = || vec![ObjectKey::new("ns", "a"), ObjectKey::new("ns", "b")];
        let trigger = Trigger::announced(receiver, None, move |name: &Option<&'static str>| {
            name.map_or_else(all, |name| vec![ObjectKey::new("ns", name)])
        });
        for name in ["1", "2", "3"] {
            sender.send(Some(name)).expect("a listener");
        }
        drop(sender);
        let woken = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&woken);
        (trigger.0)(Arc::new(move |key: ObjectKey| seen.lock().push(key.name)));
        while Arc::strong_count(&woken) > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(*woken.lock(), ["a", "b", "2", "3"]);
    }
}
