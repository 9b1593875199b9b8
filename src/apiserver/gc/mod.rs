//! What disappears by itself: dependents of owners that are gone, the content of namespaces and
//! definitions that are being deleted. Owns the graph of owner references; must not know kinds.
//!
//! The graph follows the store's changes, in order, so an owner that is not in it does not exist at
//! that revision: no look-ups are needed to tell "absent" from "not seen yet".
//!
//! Source: kubernetes `pkg/controller/garbagecollector`, `pkg/controller/namespace/deletion`,
//! apiextensions-apiserver `pkg/controller/finalizer`, v1.35.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

mod graph;

use graph::{Graph, Ownership};

use super::crds;
use super::deletion::{DeleteOptions, FOREGROUND, ORPHAN, Propagation};
use super::failure::{Failure, Reason};
use super::object;
use super::registry::{Draft, Part, Registry, Subject};
use super::resource::{CRD_GROUP, CRD_PLURAL, Resource};
use super::routes::WriteOptions;
use super::strategy::Strategy;
use crate::store::{self, Key, Range};

/// Objects judged at the same time: enough to share a commit.
const WORKERS: usize = 64;
const RETRY_AFTER: Duration = Duration::from_secs(1);
const PAGE: usize = 5_000;

/// Runs until dropped; starts over from a fresh look when it cannot follow.
pub async fn run(registry: Arc<Registry>) {
    loop {
        if let Err(error) = follow(&registry).await {
            tracing::debug!(%error, "garbage collection starts over");
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

async fn follow(registry: &Registry) -> Result<(), store::Error> {
    let mut graph = Graph::default();
    let (mut after, mut at) = (String::new(), None);
    loop {
        let range = Range { prefix: "/registry/", after: &after, limit: PAGE, at };
        let page = registry.store.range(range).await?;
        page.entries.iter().for_each(|entry| graph.put(entry));
        at = Some(page.revision);
        match page.entries.last() {
            Some(last) if page.remaining > 0 => after = last.key.to_string(),
            _ => break,
        }
    }
    let mut watch = registry.store.watch("/registry/", at.unwrap_or(0)).await?;
    let mut due = graph.all_due();
    loop {
        let failed = Collector { registry, graph: &graph }.judge_all(due).await;
        let changes = if failed.is_empty() {
            watch.next().await?
        } else {
            tokio::time::timeout(RETRY_AFTER, watch.next()).await.unwrap_or_else(|_| Ok(Vec::new()))?
        };
        due = failed;
        for change in &changes {
            due.extend(graph.change(change));
        }
    }
}

/// One pass over the objects that something happened to.
struct Collector<'a> {
    registry: &'a Registry,
    graph: &'a Graph,
}

impl Collector<'_> {
    /// Judges every key; answers with those that have to be tried again.
    async fn judge_all(&self, due: BTreeSet<Key>) -> BTreeSet<Key> {
        futures::stream::iter(due)
            .map(|key| async move {
                match self.judge(&key).await {
                    Ok(()) => None,
                    // Whoever was faster has left a change that brings the key back here.
                    Err(failure) if matches!(failure.reason, Reason::NotFound | Reason::Conflict) => None,
                    Err(failure) => {
                        tracing::warn!(%key, %failure, "garbage collection will try again");
                        Some(key)
                    }
                }
            })
            .buffer_unordered(WORKERS)
            .filter_map(|failed| async { failed })
            .collect()
            .await
    }

    async fn judge(&self, key: &Key) -> Result<(), Failure> {
        let catalog = self.registry.catalog.load_full();
        let Some(resource) = catalog.of_key(key) else { return Ok(()) };
        let Some(node) = self.graph.get(key) else { return Ok(()) };
        let (namespace, name) = place(resource, key);
        let subject = Subject { resource, namespace, name };
        if node.terminating {
            if node.orphan {
                self.orphan(subject, key).await?;
            }
            if node.foreground && !self.graph.has_blocking_dependents(key) {
                self.drop_finalizer(subject, FOREGROUND).await?;
            }
            match resource.strategy {
                Strategy::Namespace => return self.drain_namespace(subject).await,
                Strategy::Definition => return self.drain_definition(subject).await,
                _ => {}
            }
        }
        let serves = |kind: &str| {
            let (group, kind) = kind.split_once(' ').unwrap_or(("", kind));
            catalog.serves_kind(group, kind)
        };
        match self.graph.ownership(key, serves) {
            Ownership::Kept => Ok(()),
            Ownership::Partly { lost } => self.drop_owners(subject, &lost).await,
            Ownership::Lost { waiting } if !node.terminating => {
                let foreground = waiting && self.graph.has_dependents(key);
                let options = DeleteOptions {
                    propagation: foreground.then_some(Propagation::Foreground),
                    uid: Some(node.uid.to_string()),
                    ..DeleteOptions::default()
                };
                self.registry.delete(subject, &options).await.map(|_| ())
            }
            Ownership::Lost { .. } => Ok(()),
        }
    }

    /// Takes the owner out of its dependents, then lets it go.
    async fn orphan(&self, subject: Subject<'_>, key: &Key) -> Result<(), Failure> {
        let catalog = self.registry.catalog.load_full();
        let Some(owner) = self.graph.get(key) else { return Ok(()) };
        for dependent in self.graph.dependents(key) {
            let Some(resource) = catalog.of_key(dependent) else { continue };
            let (namespace, name) = place(resource, dependent);
            let lost = [owner.uid.to_string()];
            match self.drop_owners(Subject { resource, namespace, name }, &lost).await {
                Err(failure) if failure.reason != Reason::NotFound => return Err(failure),
                _ => {}
            }
        }
        self.drop_finalizer(subject, ORPHAN).await
    }

    async fn drop_owners(&self, subject: Subject<'_>, lost: &[String]) -> Result<(), Failure> {
        self.edit(subject, Part::Main, |object| {
            if let Some(owners) =
                object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut)
            {
                owners.retain(|owner| !lost.iter().any(|uid| owner["uid"] == uid.as_str()));
                if owners.is_empty() {
                    object::unset(object, "ownerReferences");
                }
            }
        })
        .await
    }

    async fn drop_finalizer(&self, subject: Subject<'_>, finalizer: &str) -> Result<(), Failure> {
        self.edit(subject, Part::Main, |object| {
            let mut names = object::strings(object, "finalizers");
            names.retain(|name| name != finalizer);
            object::set(object, "finalizers", names.into());
        })
        .await
    }

    async fn edit(
        &self,
        subject: Subject<'_>,
        part: Part,
        change: impl Fn(&mut Value) + Send + Sync,
    ) -> Result<(), Failure> {
        let change = |old: &Value| {
            let mut object = old.clone();
            change(&mut object);
            Ok(Draft { object, duplicates: Vec::new(), is_patch: true })
        };
        self.registry.update(subject, part, WriteOptions::default(), &change).await.map(|_| ())
    }

    /// Deletes what is in a namespace, and the namespace once it is empty.
    async fn drain_namespace(&self, subject: Subject<'_>) -> Result<(), Failure> {
        let catalog = self.registry.catalog.load_full();
        let mut left = 0;
        for resource in catalog.stored().filter(|resource| resource.namespaced) {
            left += self.drain(resource, subject.name).await?;
        }
        if left > 0 {
            return Ok(());
        }
        self.edit(subject, Part::Finalize, |object| object["spec"]["finalizers"] = Value::Array(Vec::new()))
            .await
    }

    /// Deletes the objects of a definition, and the definition once there are none.
    async fn drain_definition(&self, subject: Subject<'_>) -> Result<(), Failure> {
        let catalog = self.registry.catalog.load_full();
        let (plural, group) = subject.name.split_once('.').unwrap_or((subject.name, ""));
        let kept = catalog.all().find(|r| r.group == group && r.plural == plural);
        let left = match kept {
            Some(resource) => self.drain(resource, "").await?,
            None => 0,
        };
        if left > 0 {
            return Ok(());
        }
        let now = self.registry.now();
        self.edit(subject, Part::Status, |object| crds::set_terminating(object, false, &now)).await?;
        self.drop_finalizer(subject, crds::CLEANUP_FINALIZER).await
    }

    /// Asks for the deletion of everything under a resource; answers with how much is still there.
    async fn drain(&self, resource: &Arc<Resource>, namespace: &str) -> Result<usize, Failure> {
        let prefix = resource.range_prefix(namespace);
        let page = self.registry.store.range(Range { prefix: &prefix, ..Range::default() }).await?;
        // What is on its way out already waits for somebody else.
        let leaving = |key: &Key| self.graph.get(key).is_some_and(|node| node.terminating);
        let keys: Vec<Key> =
            page.entries.into_iter().map(|entry| entry.key).filter(|key| !leaving(key)).collect();
        let background = Some(Propagation::Background);
        let options = &DeleteOptions { propagation: background, ..DeleteOptions::default() };
        let results: Vec<_> = futures::stream::iter(keys)
            .map(|key| async move {
                let (namespace, name) = place(resource, &key);
                self.registry.delete(Subject { resource, namespace, name }, options).await
            })
            .buffer_unordered(WORKERS)
            .collect()
            .await;
        for result in results {
            match result {
                Err(failure) if failure.reason != Reason::NotFound => return Err(failure),
                _ => {}
            }
        }
        let rest = self.registry.store.range(Range { prefix: &prefix, limit: 1, ..Range::default() }).await?;
        Ok(rest.entries.len() + rest.remaining)
    }
}

/// Namespace and name from a key.
fn place<'a>(resource: &Resource, key: &'a str) -> (&'a str, &'a str) {
    let rest = key.strip_prefix(resource.prefix.as_str()).unwrap_or(key);
    if resource.namespaced { rest.split_once('/').unwrap_or(("", rest)) } else { ("", rest) }
}

/// Keys of definitions start with this.
fn is_definition(key: &str) -> bool {
    key.strip_prefix("/registry/")
        .and_then(|rest| rest.strip_prefix(CRD_GROUP))
        .is_some_and(|rest| rest.trim_start_matches('/').starts_with(CRD_PLURAL))
}
