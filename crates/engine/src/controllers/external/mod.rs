//! Objects of providers' kinds, whichever they are: one live copy per kind, in the version that its definition
//! promises for the contract, from the first reference to it. Owns which kinds are watched and who is
//! woken by them; must not know any provider, nor judge an object.
//! Source: cluster-api `controllers/external`, `internal/contract`, v1.14.2.

mod object;
mod reader;
mod tracked;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube::Resource as _;
use parking_lot::Mutex;

pub use object::ProviderObject;
pub use reader::{Reader, Referrers, Turned, owned, owners, referring};

use crate::client::{Cache, Change, Definition};
use crate::engine::watches::Watches;
use crate::engine::{Engine, Trigger};
use capi_rules::plan::sweep::Candidate;
use capi_rules::status::contract::definition;
use capi_rules::status::contract::{External, Provided};
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::reference::ContractRef;
use reader::{Listener, Listeners};
use tracked::Tracked;

/// How long a run waits for the first list of a kind. Whoever gave up is woken when it is complete.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The copies of all kinds. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Externals(Arc<Shared>);

struct Shared {
    definitions: Cache<Definition>,
    watches: Watches,
    listeners: Mutex<BTreeMap<Reader, Listener>>,
    /// By group and kind.
    kinds: Mutex<BTreeMap<(String, String), Tracked>>,
}

impl Externals {
    /// Nothing is watched but the definitions.
    pub fn of(engine: &mut Engine) -> Self {
        let definitions = engine.definitions();
        let shared = Arc::new(Shared {
            definitions: definitions.clone(),
            watches: engine.watches(),
            listeners: Mutex::default(),
            kinds: Mutex::default(),
        });
        // Weak: the copy of the definitions belongs to what it would keep alive.
        let tracker = Arc::downgrade(&shared);
        definitions.on_change(move |change| redefine(&tracker, change));
        Self(shared)
    }

    /// Wakes up `reader` on every change of an object of a kind that it prepared, and when such a kind as a whole
    /// turned: became readable, or ceased to be.
    pub fn trigger(
        &self,
        reader: Reader,
        keys: impl Fn(&Turned<'_>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Trigger {
        let tracker = Arc::downgrade(&self.0);
        Trigger::new(move |enqueue| {
            let listener: Listener =
                Arc::new(move |turned| keys(turned).into_iter().for_each(|key| enqueue(key)));
            if let Some(tracker) = tracker.upgrade() {
                tracker.listeners.lock().insert(reader, listener);
            }
        })
    }

    /// Has the kinds that `references` name watched from now on, on behalf of `reader`, and waits until they can
    /// be read, or until it is known why not.
    pub async fn prepare(&self, reader: Reader, references: impl IntoIterator<Item = Option<&ContractRef>>) {
        // A MachineSet asks with a reference per Machine, to two kinds.
        let by_kind = references.into_iter().flatten().map(|r| ((&r.api_group, &r.kind), r));
        let kinds: BTreeMap<_, _> = by_kind.collect();
        let caches: Vec<_> = kinds.into_values().filter_map(|r| self.watch(Some(reader), r)).collect();
        for cache in caches {
            let mut progress = cache.subscribe();
            let listed = progress.wait_for(|p| p.ready || p.trouble.is_some());
            // Giving up shows in what is read.
            let _ = tokio::time::timeout(LIST_TIMEOUT, listed).await;
        }
    }

    /// What a reference leads to.
    pub fn get(&self, namespace: &str, reference: Option<&ContractRef>) -> External {
        let Some(reference) = reference.filter(|r| !r.name.is_empty()) else { return External::NotSet };
        let key = ObjectKey::new(namespace, &reference.name);
        self.with(None, reference, |tracked| tracked.get(&key))
    }

    /// The objects in a namespace, of the kind that `of_kind` names, that `wanted` picks; ordered by name. A kind that cannot
    /// be read has none.
    pub fn select(
        &self,
        reader: Reader,
        of_kind: &ContractRef,
        namespace: &str,
        wanted: impl Fn(&ProviderObject) -> bool,
    ) -> Vec<Provided> {
        let found = self.watch(Some(reader), of_kind).map(|cache| cache.select(namespace, wanted));
        found.unwrap_or_default().iter().map(|object| object.provided().clone()).collect()
    }

    /// What `owner` owns in its namespace, of the kinds that `references` name; of `cluster` only, where it has one.
    pub fn owned_by(
        &self,
        owner: &ObjectRef,
        cluster: Option<&ObjectKey>,
        references: &[ContractRef],
    ) -> Vec<Candidate> {
        let caches = references.iter().filter_map(|reference| self.watch(None, reference));
        let found = caches.flat_map(|cache| owned(&cache, owner, cluster));
        found.map(|o| Candidate { object: o.provided().reference(), metadata: o.meta().clone() }).collect()
    }

    fn watch(&self, reader: Option<Reader>, reference: &ContractRef) -> Option<Cache<ProviderObject>> {
        self.with(reader, reference, |tracked| tracked.cache().cloned())
    }

    /// Looks at the kind that a reference names; the first look starts its watch.
    fn with<T>(
        &self,
        reader: Option<Reader>,
        reference: &ContractRef,
        look: impl FnOnce(&Tracked) -> T,
    ) -> T {
        let (group, kind) = (&reference.api_group, &reference.kind);
        let mut kinds = self.0.kinds.lock();
        let tracked = kinds.entry((group.clone(), kind.clone())).or_insert_with(|| {
            let name = ObjectKey::new("", definition::name_of(group, kind));
            let mut new = Tracked::new(group, kind);
            // Changes of definitions reach only kinds that
            // are tracked already, so this one is read here.
            new.redefine(self.0.definitions.get(&name).as_deref(), &self.0.watches);
            new
        });
        if let Some(reader) = reader
            && let Some(listener) = self.0.listeners.lock().get(&reader)
        {
            tracked.wakes(reader, listener);
        }
        look(tracked)
    }
}

/// A definition came, changed or went: the kind is read anew when that matters.
fn redefine(tracker: &Weak<Shared>, change: &Change<'_, Definition>) {
    let Some(tracker) = tracker.upgrade() else { return };
    let Some(name) = change.new.or(change.old).and_then(|d| d.metadata.name.as_deref()) else { return };
    let turned: Vec<Listeners> = {
        let mut kinds = tracker.kinds.lock();
        let defined = kinds.values_mut().filter(|tracked| tracked.is_defined_by(name));
        defined.filter_map(|tracked| tracked.redefine(change.new, &tracker.watches)).collect()
    };
    turned.iter().for_each(Listeners::kind_turned);
}
