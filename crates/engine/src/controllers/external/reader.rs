//! Who reads provider objects, and whom a change of them wakes. Must not know how they are watched.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::ProviderObject;
use crate::client::{Cache, Change, Index, Live, Object};
use crate::controllers::keys_of;
use crate::engine::controller;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::reference::ContractRef;

/// On whose behalf a kind is watched. One controller may be several readers, with a trigger each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reader {
    Cluster,
    Machine,
    MachineDeployment,
    MachineSet,
    /// A MachineSet reads the control plane of its Cluster before it makes a Machine.
    MachineSetPreflight,
    /// What the Machines of a MachineSet refer to. It is woken when their kinds can be read.
    MachineSetClones,
    KubeadmControlPlane,
    /// The infrastructure of a control plane's Machines: the Machines pass on what changes.
    KubeadmControlPlaneHosts,
    KubeadmConfig,
    MachinePool,
    /// The machines that the infrastructure of a MachinePool shows.
    MachinePoolHosts,
    /// A controller that made clones looks for unused ones. No change wakes it.
    Sweep,
}

/// The objects that `owner` owns, of its namespace, or only of the Cluster that it belongs to.
pub fn owned<K: Live>(cache: &Cache<K>, owner: &ObjectRef, cluster: Option<&ObjectKey>) -> Vec<Arc<K>> {
    let Some(cluster) = cluster else {
        return cache.select(&owner.key.namespace, |object| is_owned(object, owner));
    };
    let mut found = cache.of_cluster(cluster);
    found.retain(|object| is_owned(object.as_ref(), owner));
    found
}

/// Whether `owner` is one of the owners, by uid.
fn is_owned<K: Live>(object: &K, owner: &ObjectRef) -> bool {
    object.meta().owner_references.iter().flatten().any(|reference| reference.uid == owner.uid)
}

/// What turned: one object, or the kind as a whole.
#[derive(Clone, Copy)]
pub struct Turned<'a> {
    group: &'a str,
    kind: &'a str,
    object: Option<&'a Change<'a, ProviderObject>>,
}

impl Turned<'_> {
    /// The object before and after; empty when the whole kind turned.
    pub fn objects(&self) -> impl Iterator<Item = &ProviderObject> {
        self.object.into_iter().flat_map(|change| [change.old, change.new]).flatten()
    }

    /// The object as it is, or as it was last.
    pub fn object(&self) -> Option<&ProviderObject> {
        self.object.and_then(|change| change.new.or(change.old))
    }

    fn is_of(&self, reference: &ContractRef) -> bool {
        reference.kind == self.kind && reference.api_group == self.group
    }
}

/// The objects of one kind by what they refer to: each change of a provider's object asks for those that do.
pub struct Referrers<K: Object> {
    all: Cache<K>,
    index: Index<K>,
    references: References<K>,
}

/// What an object refers to.
type References<K> = for<'k> fn(&'k K) -> [Option<&'k ContractRef>; 2];

impl<K: Object> Referrers<K> {
    /// Kept from now on.
    pub fn new(all: &Cache<K>, references: References<K>) -> Self {
        let index = Index::new(all, move |object| {
            let namespace = object.meta().namespace.as_deref().unwrap_or_default();
            let found = references(object).into_iter().flatten();
            found.map(|r| referred(&r.api_group, &r.kind, &ObjectKey::new(namespace, &r.name))).collect()
        });
        Self { all: all.clone(), index, references }
    }

    /// Those that refer to what turned.
    pub fn keys(&self, turned: &Turned<'_>) -> Vec<ObjectKey> {
        match turned.object().map(ObjectKey::of) {
            Some(key) => keys_of(&self.index.get(&referred(turned.group, turned.kind, &key))),
            None => referring(&self.all, turned, self.references),
        }
    }
}

fn referred(group: &str, kind: &str, key: &ObjectKey) -> String {
    format!("{kind}.{group} {key}")
}

/// The objects that refer to anything of the kind that turned.
pub fn referring<K: Object>(
    cache: &Cache<K>,
    turned: &Turned<'_>,
    references: References<K>,
) -> Vec<ObjectKey> {
    let mut all = cache.list();
    all.retain(|object| references(object.as_ref()).into_iter().flatten().any(|r| turned.is_of(r)));
    keys_of(&all)
}

pub fn owners(turned: &Turned<'_>, group: &str, kind: &str) -> Vec<ObjectKey> {
    turned.objects().flat_map(|object| controller::owners(object, group, kind)).collect()
}

/// Puts the keys that a change concerns into a controller's queue.
pub(super) type Listener = Arc<dyn Fn(&Turned<'_>) + Send + Sync>;

/// Those whom one kind wakes.
#[derive(Clone)]
pub(super) struct Listeners(Arc<OfKind>);

struct OfKind {
    group: String,
    kind: String,
    readers: Mutex<BTreeMap<Reader, Listener>>,
}

impl Listeners {
    pub(super) fn new(group: &str, kind: &str) -> Self {
        Self(Arc::new(OfKind { group: group.to_owned(), kind: kind.to_owned(), readers: Mutex::default() }))
    }

    pub(super) fn add(&self, reader: Reader, listener: &Listener) {
        // Every preparation comes here again with the same listener.
        self.0.readers.lock().entry(reader).or_insert_with(|| Arc::clone(listener));
    }

    pub(super) fn object_turned(&self, change: &Change<'_, ProviderObject>) {
        self.notify(Some(change));
    }

    pub(super) fn kind_turned(&self) {
        self.notify(None);
    }

    fn notify(&self, object: Option<&Change<'_, ProviderObject>>) {
        let turned = Turned { group: &self.0.group, kind: &self.0.kind, object };
        for listener in self.0.readers.lock().values() {
            listener(&turned);
        }
    }
}
