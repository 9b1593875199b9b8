//! What disappears by itself: dependents of owners that are gone, the content of namespaces and
//! definitions that are being deleted. Owns the graph of owner references; must not know kinds.
//!
//! The graph follows the store's changes, in order, so an owner that is not in it does not exist at
//! that revision: no look-ups are needed to tell "absent" from "not seen yet".
//!
//! Source: kubernetes `pkg/controller/garbagecollector`, `pkg/controller/namespace/deletion`,
//! apiextensions-apiserver `pkg/controller/finalizer`, v1.35.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

mod graph;
mod namespace;

use graph::{Graph, Node, Ownership};
use namespace::Remaining;

use super::deletion::{DeleteOptions, Propagation};
use super::{Draft, Part, Registry, Subject};
use crate::failure::{Failure, Reason};
use crate::object::metadata::{FOREGROUND, ORPHAN};
use crate::object::{self, Record};
use crate::request::options::WriteOptions;
use crate::resource::crds;
use crate::resource::strategy::Strategy;
use crate::resource::{CRD_GROUP, CRD_PLURAL, Resource};
use capstan_store::{self as store, Key, Range};

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
        // All pages and the watch have one revision, so that no change is missed between them.
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
    let mut catalog = registry.catalog_changed.subscribe();
    let mut due = graph.all_due();
    loop {
        due = Collector { registry, graph: &graph }.judge_all(due).await;
        // With nothing to try again only a change is waited for.
        let retry = if due.is_empty() { Duration::MAX } else { RETRY_AFTER };
        tokio::select! {
            biased;
            // Changes come first, so that what is tried again is judged by the newest graph.
            changes = watch.next() => {
                for change in &changes? {
                    due.extend(graph.change(change));
                }
            }
            // Owners of a kind that was not served could not be judged.
            Ok(()) = catalog.changed() => due.extend(graph.unresolved()),
            () = tokio::time::sleep(retry) => {}
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
            // While these two drain, their own owners do not matter.
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
                // As upstream: below an owner that waits, an object with dependents waits for them,
                // too.
                let foreground = waiting && self.graph.has_dependents(key);
                if foreground && self.graph.is_in_circle(key) {
                    self.unblock(subject).await?;
                }
                self.collect(subject, node, foreground).await
            }
            Ownership::Lost { .. } => Ok(()),
        }
    }

    /// Deletes objects whose owners are all gone, unless they changed since they were judged.
    async fn collect(&self, subject: Subject<'_>, node: &Node, foreground: bool) -> Result<(), Failure> {
        let options = DeleteOptions {
            propagation: foreground.then_some(Propagation::Foreground),
            uid: Some(node.uid.to_string()),
            // `unblock` may have written the object just now, so its revision is not a precondition
            // then.
            resource_version: Some(node.revision.to_string()).filter(|_| !foreground),
            ..DeleteOptions::default()
        };
        self.registry.delete(subject, &options).await.map(|_| ())
    }

    /// One that waits for its own owner, round a circle, must not hold it up.
    async fn unblock(&self, subject: Subject<'_>) -> Result<(), Failure> {
        self.edit(subject, Part::Main, |object| {
            let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
            for owner in owners.into_iter().flatten().filter(|owner| owner["blockOwnerDeletion"] == true) {
                owner["blockOwnerDeletion"] = false.into();
            }
        })
        .await
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
        // The finalizer goes last: without it the owner is removed, and what still names it is
        // collected.
        self.drop_finalizer(subject, ORPHAN).await
    }

    async fn drop_owners(&self, subject: Subject<'_>, lost: &[String]) -> Result<(), Failure> {
        self.edit(subject, Part::Main, |object| {
            if let Some(owners) =
                object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut)
            {
                let lost: HashSet<&str> = lost.iter().map(String::as_str).collect();
                owners.retain(|owner| owner["uid"].as_str().is_none_or(|uid| !lost.contains(uid)));
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
        self.registry
            .update(subject, part, WriteOptions::by("kube-controller-manager"), &change)
            .await
            .map(|_| ())
    }

    /// Deletes what is in a namespace, and the namespace once it is empty; until then its conditions give the reason.
    async fn drain_namespace(&self, subject: Subject<'_>) -> Result<(), Failure> {
        let catalog = self.registry.catalog.load_full();
        let mut left = Remaining::default();
        let mut failed = None;
        for resource in catalog.stored().filter(|resource| resource.namespaced) {
            // One resource that fails does not hold up the others; the condition names it.
            if let Err(failure) = self.drain(resource, subject.name).await {
                left.failures.push(failure.to_string());
                failed = Some(failure);
            }
            self.take_stock(resource, subject.name, &mut left).await?;
        }
        if left.is_empty() {
            let empty = |object: &mut Value| object["spec"]["finalizers"] = Value::Array(Vec::new());
            return self.edit(subject, Part::Finalize, empty).await;
        }
        let now = self.registry.now();
        let conditions = left.conditions(&now);
        self.edit(subject, Part::Status, |object| {
            conditions.iter().for_each(|condition| crds::set_condition(object, condition.clone()));
        })
        .await?;
        // The error makes the namespace due again; where nothing changed, no change would.
        failed.map_or(Ok(()), Err)
    }

    /// Counts what a namespace still holds of a resource, and what holds it.
    async fn take_stock(
        &self,
        resource: &Resource,
        namespace: &str,
        left: &mut Remaining,
    ) -> Result<(), Failure> {
        let prefix = resource.range_prefix(namespace);
        let page = self.registry.store.range(Range { prefix: &prefix, ..Range::default() }).await?;
        if page.entries.is_empty() {
            return Ok(());
        }
        left.objects.insert(format!("{}.{}", resource.plural, resource.group), page.entries.len());
        for entry in &page.entries {
            for finalizer in Record::read(entry)?.metadata()?.finalizers {
                *left.finalizers.entry(finalizer).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Deletes the objects of a definition, and the definition once there are none.
    async fn drain_definition(&self, subject: Subject<'_>) -> Result<(), Failure> {
        let catalog = self.registry.catalog.load_full();
        let (plural, group) = subject.name.split_once('.').unwrap_or((subject.name, ""));
        let kept = catalog.all().find(|r| r.group == group && r.plural == plural);
        if let Some(resource) = kept {
            self.drain(resource, "").await?;
            let prefix = resource.range_prefix("");
            let rest =
                self.registry.store.range(Range { prefix: &prefix, limit: 1, ..Range::default() }).await?;
            if !rest.entries.is_empty() {
                return Ok(());
            }
        }
        let now = self.registry.now();
        self.edit(subject, Part::Status, |object| crds::set_terminating(object, false, &now)).await?;
        self.drop_finalizer(subject, crds::CLEANUP_FINALIZER).await
    }

    /// Deletes every object of a resource that has no deletion timestamp yet: what is on
    /// its way out already waits for its finalizers.
    async fn drain(&self, resource: &Arc<Resource>, namespace: &str) -> Result<(), Failure> {
        let prefix = resource.range_prefix(namespace);
        let page = self.registry.store.range(Range { prefix: &prefix, ..Range::default() }).await?;
        // The graph may be behind; an object that is deleted once more stays as it is.
        let leaving = |key: &Key| self.graph.get(key).is_some_and(|node| node.terminating);
        let keys = page.entries.into_iter().map(|entry| entry.key).filter(|key| !leaving(key));
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
        let failed = results.into_iter().filter_map(Result::err);
        failed.filter(|failure| failure.reason != Reason::NotFound).map(Err).next().unwrap_or(Ok(()))
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
