//! Who owns whom, by uid, as of the last change that was seen. Plain data; must not know the store's
//! contents beyond metadata.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::is_definition;
use crate::object::metadata::{FOREGROUND, ORPHAN};
use crate::object::{Metadata, Record};
use capstan_store::{Change, Entry, Key, Revision};

type Uid = Arc<str>;

/// Owners remembered after they are gone: their kind may be withdrawn before their dependents are judged.
const GONE_MAX: usize = 4_096;

/// What the collector knows of one object.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) uid: Uid,
    pub(super) revision: Revision,
    pub(super) terminating: bool,
    pub(super) foreground: bool,
    pub(super) orphan: bool,
    owners: Box<[Edge]>,
}

#[derive(Clone, Debug)]
struct Edge {
    owner: Uid,
    /// Group and kind of the owner, with a space between.
    kind: Arc<str>,
    blocks: bool,
}

/// Whether the owners of an object keep it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// No owners, or all of them are there.
    Kept,
    /// Some owner is there; these are not.
    Partly { lost: Vec<String> },
    /// No owner is there. `waiting`: one is only waiting for its dependents to go.
    Lost { waiting: bool },
}

#[derive(Default)]
pub(super) struct Graph {
    nodes: FxHashMap<Key, Node>,
    keys: FxHashMap<Uid, Key>,
    dependents: FxHashMap<Uid, BTreeSet<Key>>,
    /// Terminating namespaces and definitions by the prefix or name that brings them back.
    draining: FxHashSet<Key>,
    /// Owners that were seen and are gone, the latest of them.
    gone: VecDeque<Uid>,
    /// Repeated texts.
    kinds: FxHashSet<Arc<str>>,
}

impl Graph {
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.nodes.get(key)
    }

    /// Objects that own something, or are owned, or are on their way out: what to look at first.
    pub(super) fn all_due(&self) -> BTreeSet<Key> {
        let interesting = |node: &Node| node.terminating || !node.owners.is_empty();
        self.nodes.iter().filter(|(_, node)| interesting(node)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn put(&mut self, entry: &Entry) {
        self.remove(&entry.key);
        let Some(metadata) = Record::read(entry).ok().and_then(|record| record.metadata().ok()) else {
            tracing::warn!(key = %entry.key, "garbage collection cannot read an object");
            return;
        };
        let node = self.node(&metadata, entry.modified);
        for edge in &node.owners {
            self.dependents.entry(edge.owner.clone()).or_default().insert(entry.key.clone());
        }
        self.keys.insert(node.uid.clone(), entry.key.clone());
        if node.terminating && (is_namespace(&entry.key) || is_definition(&entry.key)) {
            self.draining.insert(entry.key.clone());
        }
        self.nodes.insert(entry.key.clone(), node);
    }

    fn node(&mut self, metadata: &Metadata, revision: Revision) -> Node {
        let has = |finalizer: &str| metadata.finalizers.iter().any(|name| name == finalizer);
        let owners = metadata.owner_references.iter().map(|owner| {
            // The version does not tell kinds apart: an object is served in each of them.
            let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            let text: Arc<str> = format!("{group} {}", owner.kind).into();
            let kind = match self.kinds.get(&text) {
                Some(known) => known.clone(),
                None => {
                    self.kinds.insert(text.clone());
                    text
                }
            };
            // Edges share the text: thousands of dependents may name one owner.
            let owner_uid = match self.keys.get_key_value(owner.uid.as_str()) {
                Some((known, _)) => known.clone(),
                None => owner.uid.as_str().into(),
            };
            Edge { owner: owner_uid, kind, blocks: owner.block_owner_deletion }
        });
        Node {
            uid: metadata.uid.as_str().into(),
            revision,
            terminating: metadata.deletion_timestamp.is_some(),
            foreground: has(FOREGROUND),
            orphan: has(ORPHAN),
            owners: owners.collect(),
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Node> {
        let node = self.nodes.remove(key)?;
        for edge in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&edge.owner) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(&edge.owner);
                }
            }
        }
        self.keys.remove(&node.uid);
        self.draining.remove(key);
        Some(node)
    }

    /// Takes a change in; answers with the keys to judge because of it.
    pub(super) fn change(&mut self, change: &Change) -> BTreeSet<Key> {
        let mut due = BTreeSet::new();
        let before = self.remove(&change.key);
        if let Some(entry) = &change.current {
            self.put(entry);
        }
        let after = self.nodes.get(&change.key);
        if let Some(node) = after.filter(|node| node.terminating || !node.owners.is_empty()) {
            due.insert(change.key.clone());
            if node.foreground && node.terminating {
                due.extend(self.dependents_of(&node.uid).cloned());
            }
        }
        // Owners on their way out wait for it to go, or to let go of them.
        for edge in before.iter().chain(after).flat_map(|node| &node.owners) {
            let owner = self.keys.get(&edge.owner);
            due.extend(owner.filter(|key| self.nodes.get(*key).is_some_and(|n| n.terminating)).cloned());
        }
        // Gone, or replaced by another object of the same name.
        if let Some(before) = before.filter(|before| after.is_none_or(|after| after.uid != before.uid)) {
            due.extend(self.dependents_of(&before.uid).cloned());
            due.extend(self.draining.iter().filter(|holder| holds(holder, &change.key)).cloned());
            // Only an owner whose dependents are still to be judged is worth remembering.
            if self.dependents.contains_key(&before.uid) {
                self.gone.push_back(before.uid);
                if self.gone.len() > GONE_MAX {
                    self.gone.pop_front();
                }
            }
        }
        due
    }

    /// Objects with an owner that is not known to exist.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = Key> {
        let unknown = |node: &Node| node.owners.iter().any(|edge| !self.keys.contains_key(&edge.owner));
        self.nodes.iter().filter(move |(_, node)| unknown(node)).map(|(key, _)| key.clone())
    }

    fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(uid).into_iter().flatten()
    }

    pub(super) fn dependents(&self, key: &str) -> impl Iterator<Item = &Key> {
        self.nodes.get(key).into_iter().flat_map(|node| self.dependents_of(&node.uid))
    }

    pub(super) fn has_dependents(&self, key: &str) -> bool {
        self.dependents(key).next().is_some()
    }

    /// Does a dependent that blocks its owner's deletion still exist? Nothing waits for itself.
    pub(super) fn has_blocking_dependents(&self, key: &str) -> bool {
        let Some(owner) = self.nodes.get(key) else { return false };
        let blocks = |node: &Node| node.owners.iter().any(|edge| edge.owner == owner.uid && edge.blocks);
        let others = self.dependents_of(&owner.uid).filter(|dependent| ***dependent != *key);
        others.filter_map(|dependent| self.nodes.get(dependent)).any(blocks)
    }

    /// Does a dependent already wait for its own dependents, which this may be one of, round a circle?
    pub(super) fn is_in_circle(&self, key: &str) -> bool {
        let waits = |node: &Node| node.terminating && node.foreground;
        self.dependents(key).filter_map(|dependent| self.nodes.get(dependent)).any(waits)
    }

    /// `serves` says whether a kind is served: an owner of an unknown kind may exist elsewhere.
    pub(super) fn ownership(&self, key: &str, serves: impl Fn(&str) -> bool) -> Ownership {
        let Some(node) = self.nodes.get(key).filter(|node| !node.owners.is_empty()) else {
            return Ownership::Kept;
        };
        let (mut solid, mut waiting, mut lost) = (false, false, Vec::new());
        for edge in &node.owners {
            match self.keys.get(&edge.owner).filter(|owner| may_own(owner, key)) {
                // An owner whose kind is not served may exist all the same, unless it was seen to
                // go.
                None if !serves(&edge.kind) && !self.gone.contains(&edge.owner) => solid = true,
                None => lost.push(edge.owner.to_string()),
                Some(owner) => match self.nodes.get(owner) {
                    // As upstream, an owner that waits for its dependents to go keeps none of them.
                    Some(owner) if owner.terminating && owner.foreground => {
                        waiting = true;
                        lost.push(edge.owner.to_string());
                    }
                    _ => solid = true,
                },
            }
        }
        match (solid, lost.is_empty()) {
            (true, true) => Ownership::Kept,
            (true, false) => Ownership::Partly { lost },
            (false, _) => Ownership::Lost { waiting },
        }
    }
}

fn is_namespace(key: &str) -> bool {
    key.starts_with("/registry/namespaces/")
}

/// Is `key` in the namespace, or of the definition, whose key is `holder`?
fn holds(holder: &str, key: &str) -> bool {
    let name = holder.rsplit('/').next().unwrap_or_default();
    if is_namespace(holder) {
        // A cluster-scoped key may match by the name of its resource, which costs one look more.
        return key.rsplit('/').nth(1) == Some(name);
    }
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    let mut parts = key.trim_start_matches("/registry/").split('/');
    (parts.next(), parts.next()) == (Some(group), Some(plural))
}

/// An owner is in the same namespace, or in none. Keys of namespaced objects have one part more
/// than keys of cluster-scoped ones, whose owner must be cluster-scoped too.
fn may_own(owner: &str, dependent: &str) -> bool {
    let namespace = |key: &str| -> Option<String> {
        let parts: Vec<&str> = key.trim_start_matches("/registry/").split('/').collect();
        match parts.as_slice() {
            // A group with cluster-scoped kinds has a dot, which tells it from a core resource.
            [resource, namespace, _] if !resource.contains('.') => Some((*namespace).to_owned()),
            [_, _, namespace, _] => Some((*namespace).to_owned()),
            _ => None,
        }
    };
    let owner = namespace(owner);
    owner.is_none() || owner == namespace(dependent)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object;
    use capstan_store::Blob;

    fn entry(key: &str, metadata: Value) -> Entry {
        let object = json!({ "metadata": metadata });
        let value = Blob::pack(&object::encode(&object, b"", 0).unwrap());
        Entry { key: key.into(), created: 1, modified: 1, value }
    }

    fn owner(uid: &str, kind: &str, blocks: bool) -> Value {
        json!({ "apiVersion": "g.io/v1", "kind": kind, "name": "x", "uid": uid, "blockOwnerDeletion": blocks })
    }

    fn graph(entries: &[Entry]) -> Graph {
        let mut graph = Graph::default();
        entries.iter().for_each(|entry| graph.put(entry));
        graph
    }

    #[test]
    fn owners_decide_who_stays() {
        let child = |owners: Value| {
            entry("/registry/g.io/b/ns/child", json!({ "uid": "c", "ownerReferences": owners }))
        };
        let alive = entry("/registry/g.io/a/ns/alive", json!({ "uid": "alive" }));
        let elsewhere = entry("/registry/g.io/a/other/far", json!({ "uid": "far" }));
        let cluster = entry("/registry/namespaces/n", json!({ "uid": "cluster" }));
        let leaving = entry(
            "/registry/g.io/a/ns/leaving",
            json!({ "uid": "leaving", "deletionTimestamp": "x", "finalizers": [FOREGROUND] }),
        );
        for (owners, expected) in [
            (json!([]), Ownership::Kept),
            (json!([owner("alive", "A", false)]), Ownership::Kept),
            (json!([owner("cluster", "A", false)]), Ownership::Kept),
            (json!([owner("far", "A", false)]), Ownership::Lost { waiting: false }),
            (json!([owner("gone", "A", false)]), Ownership::Lost { waiting: false }),
            (json!([owner("gone", "Unserved", false)]), Ownership::Kept),
            (json!([owner("leaving", "A", false)]), Ownership::Lost { waiting: true }),
            (
                json!([owner("alive", "A", false), owner("gone", "A", false)]),
                Ownership::Partly { lost: vec!["gone".to_owned()] },
            ),
        ] {
            let graph = graph(&[
                alive.clone(),
                elsewhere.clone(),
                cluster.clone(),
                leaving.clone(),
                child(owners.clone()),
            ]);
            let found = graph.ownership("/registry/g.io/b/ns/child", |kind| kind == "g.io A");
            assert_eq!(found, expected, "{owners}");
        }
    }

    #[test]
    fn a_vanished_owner_brings_its_dependents_up() {
        let parent = entry("/registry/g.io/a/ns/parent", json!({ "uid": "p" }));
        let child = entry(
            "/registry/g.io/b/ns/child",
            json!({ "uid": "c", "ownerReferences": [owner("p", "A", true)] }),
        );
        let mut graph = graph(&[parent.clone(), child]);
        assert!(graph.has_blocking_dependents("/registry/g.io/a/ns/parent"));
        let gone = Change { revision: 2, key: parent.key.clone(), current: None, previous: Some(parent) };
        let due = graph.change(&gone);
        assert_eq!(due.iter().map(|key| &**key).collect::<Vec<_>>(), ["/registry/g.io/b/ns/child"]);
    }

    #[test]
    fn an_owner_that_waits_is_judged_when_a_dependent_lets_go() {
        let parent = entry(
            "/registry/g.io/a/ns/parent",
            json!({ "uid": "p", "deletionTimestamp": "x", "finalizers": [FOREGROUND] }),
        );
        let key = "/registry/g.io/b/ns/child";
        let held = entry(key, json!({ "uid": "c", "ownerReferences": [owner("p", "A", true)] }));
        let free = entry(key, json!({ "uid": "c", "ownerReferences": [owner("p", "A", false)] }));
        let mut graph = graph(&[parent, held.clone()]);
        let change = Change { revision: 2, key: key.into(), current: Some(free), previous: Some(held) };
        assert!(graph.change(&change).contains("/registry/g.io/a/ns/parent"));
        assert!(!graph.has_blocking_dependents("/registry/g.io/a/ns/parent"));
    }

    #[test]
    fn an_owner_that_was_seen_to_go_is_gone_even_when_its_kind_is_withdrawn() {
        let parent = entry("/registry/g.io/a/ns/parent", json!({ "uid": "p" }));
        let key = "/registry/g.io/b/ns/child";
        let child = entry(key, json!({ "uid": "c", "ownerReferences": [owner("p", "A", true)] }));
        let mut graph = graph(&[parent.clone(), child]);
        let gone = Change { revision: 2, key: parent.key.clone(), current: None, previous: Some(parent) };
        graph.change(&gone);
        assert_eq!(graph.unresolved().count(), 1);
        assert_eq!(graph.ownership(key, |_| false), Ownership::Lost { waiting: false });
    }

    #[test]
    fn a_draining_namespace_is_looked_at_when_something_in_it_goes() {
        let namespace = entry("/registry/namespaces/ns", json!({ "uid": "n", "deletionTimestamp": "x" }));
        let secret = entry("/registry/secrets/ns/s", json!({ "uid": "s" }));
        let mut graph = graph(&[namespace, secret.clone()]);
        let gone = Change { revision: 2, key: secret.key.clone(), current: None, previous: Some(secret) };
        assert!(graph.change(&gone).contains("/registry/namespaces/ns"));
    }
}
