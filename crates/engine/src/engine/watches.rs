//! Live copies of kinds that are only named while the engine runs, and kinds that may be missing. Owns when a
//! watch starts and ends; must not know which kinds, nor who reads them.

use kube::core::{DynamicResourceScope, NamespaceResourceScope};
use tokio::sync::watch::Receiver;
use tokio_util::task::AbortOnDropHandle;

use super::echo::{Echoes, Listening};
use crate::client::watch::Progress;
use crate::client::{Cache, Client, Definition, Live, Object};
use capi_types::key::{Gvk, ObjectKey};
use capstan_base::rng::Rng;

/// Starts watches. Cheap to clone.
#[derive(Clone)]
pub struct Watches {
    pub(super) client: Client,
    /// Empty: all.
    pub(super) namespace: String,
    pub(super) rng: Rng,
    pub(super) echoes: Echoes,
}

/// A live copy that is kept until this is dropped.
pub struct Watch<K: Live> {
    pub cache: Cache<K>,
    _listening: Listening,
    _feed: AbortOnDropHandle<()>,
}

impl Watches {
    /// Lists and watches the objects of one kind, on a task of its own. Calls `listed` when the first list is
    /// complete.
    pub fn start<K>(
        &self,
        gvk: &Gvk,
        kind: K::DynamicType,
        listed: impl FnOnce() + Send + 'static,
    ) -> Watch<K>
    where
        K: Live + kube::Resource<Scope = DynamicResourceScope>,
        K::DynamicType: Send + Sync + 'static,
    {
        let cache = Cache::<K>::new();
        let rng = self.rng.stream(&format!("watch/{}.{}", gvk.kind, gvk.group));
        let (feed, first) = (cache.clone(), cache.clone());
        let (client, namespace) = (self.client.clone(), self.namespace.clone());
        let work = async move {
            let report = async {
                first.ready().await;
                listed();
            };
            futures::join!(feed.follow_kind(client, &namespace, rng, &kind), report);
        };
        Watch {
            _listening: self.echoes.add(&gvk.group, &gvk.kind, &cache),
            _feed: AbortOnDropHandle::new(tokio::spawn(work)),
            cache,
        }
    }
}

/// A kind that has a definition of its own, which may be missing: it belongs to a provider, and that need not be
/// installed. Its watch lasts as long as the definition.
#[derive(Clone)]
pub(super) struct Installed {
    definitions: Cache<Definition>,
    name: ObjectKey,
}

impl Installed {
    pub(super) fn new(definitions: Cache<Definition>, gvk: &Gvk) -> Self {
        Self { definitions, name: ObjectKey::new("", format!("{}.{}", gvk.plural, gvk.group)) }
    }

    fn is_defined(&self) -> bool {
        self.definitions.get(&self.name).is_some()
    }

    /// The definitions are known, and this one is not among them.
    fn is_missing(&self) -> bool {
        self.definitions.is_ready() && !self.is_defined()
    }

    async fn until(&self, defined: bool) {
        let mut progress = self.definitions.subscribe();
        // The progress is locked during the look: only the contents are asked.
        if progress.wait_for(|p| p.ready && self.is_defined() == defined).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Keeps `cache` up to date whenever the kind is served.
    pub(super) async fn follow<K>(self, cache: Cache<K>, client: Client, namespace: String, rng: Rng)
    where
        K: Object + kube::Resource<Scope = NamespaceResourceScope>,
    {
        loop {
            self.until(true).await;
            tokio::select! {
                // Dropping the watch when the definition goes
                // ends its requests, which all would be 404.
                () = cache.clone().follow_in(client.clone(), &namespace, rng.clone()) => {}
                () = self.until(false) => {}
            }
        }
    }
}

/// A live copy that the engine waits for before it starts.
#[derive(Clone)]
pub(super) struct Awaited {
    pub(super) kind: String,
    pub(super) progress: Receiver<Progress>,
    /// `None`: the kind is always there.
    pub(super) installed: Option<Installed>,
}

impl Awaited {
    /// Complete, or of a kind that is not installed.
    pub(super) fn is_settled(&self) -> bool {
        self.progress.borrow().ready || self.installed.as_ref().is_some_and(Installed::is_missing)
    }

    /// Resolves when it is settled.
    pub(super) async fn settled(mut self) {
        let listed = async {
            if self.progress.wait_for(|p| p.ready).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        match &self.installed {
            None => listed.await,
            Some(installed) => tokio::select! {
                () = listed => {}
                () = installed.until(false) => {}
            },
        }
    }
}
