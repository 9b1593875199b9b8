//! Deleting: options, finalizers, preconditions, collections. Owns when an object may go; must not
//! know the owners of an object, which is `gc`.
//!
//! Source: apiserver `pkg/registry/generic/registry/store.go` (`Delete`, `deletionFinalizersForGarbageCollection`),
//! `pkg/registry/rest/delete.go`, v0.35.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use serde_json::Value;

use super::list::Listing;
use super::{Registry, Revised, Subject};
use crate::failure::{self, Failure, Reason};
use crate::object::metadata::{FOREGROUND, ORPHAN};
use crate::object::{self, Metadata, Record};
use crate::request::fence::HeldLease;
use crate::request::options::{ListOptions, Query, WriteOptions, dry_run};
use crate::resource::Resource;
use crate::resource::crds;
use crate::resource::strategy::Strategy;
use capstan_store::{Entry, Outcome, Revision, Txn};
use k8s_machinery::validation::cause::Cause;

/// Deletions of a collection under way at the same time: enough to fill a group commit.
const DELETES_AT_ONCE: usize = 256;

/// Namespaces that the server itself needs: those of upstream, which lets `kube-node-lease` go.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// What becomes of the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// What a client may say about a deletion, from the body and the query together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub dry_run: bool,
    /// `None`: what the object's finalizers say, else background.
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    /// Dependents were asked to go in the words of old: what has to wait is answered with 202.
    pub says_accepted: bool,
    /// Leases that the deletion rests on.
    pub held: Vec<HeldLease>,
}

/// The options as a client writes them, in a body or in the query.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire {
    kind: String,
    dry_run: Vec<String>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Preconditions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Wire {
    fn of_query(query: &Query) -> Self {
        let text = |name: &str| Some(query.text(name).to_owned()).filter(|text| !text.is_empty());
        Self {
            dry_run: query.texts("dryRun").to_vec(),
            propagation_policy: text("propagationPolicy"),
            orphan_dependents: query.has("orphanDependents").then(|| query.truthy("orphanDependents")),
            ..Self::default()
        }
    }

    /// What of it cannot be honoured.
    fn causes(&self) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let Some(policy) = &self.propagation_policy {
            const FIELD: &str = "propagationPolicy";
            let value = policy.as_str().into();
            if self.orphan_dependents.is_some() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                causes.push(Cause::invalid(FIELD, &value, detail));
            }
            if Propagation::read(policy).is_none() {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                causes.push(Cause::not_supported(FIELD, &value, &known));
            }
        }
        dry_run(&self.dry_run, &mut causes);
        causes
    }
}

impl Propagation {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "Background" => Self::Background,
            "Foreground" => Self::Foreground,
            "Orphan" => Self::Orphan,
            _ => return None,
        })
    }
}

impl DeleteOptions {
    /// From the body, or from the query when there is none. Intended difference: `dryRun` in the query
    /// counts beside a body too, where upstream would delete.
    ///
    /// # Errors
    /// 400 for a body that is something else; 422 for values that mean nothing, or two ways of saying
    /// different things.
    pub fn parse(query: &Query, body: Option<Value>) -> Result<Self, Failure> {
        let asked = Wire::of_query(query);
        let wire = match body {
            None => asked,
            Some(body) => {
                let mut wire: Wire = serde_json::from_value(body).map_err(|error| {
                    Failure::bad_request(format!("error decoding DeleteOptions: {error}"))
                })?;
                if !matches!(wire.kind.as_str(), "" | "DeleteOptions") {
                    return Err(Failure::bad_request("decoded object cannot be converted to DeleteOptions"));
                }
                wire.dry_run.extend(asked.dry_run);
                wire
            }
        };
        let causes = wire.causes();
        if !causes.is_empty() {
            return Err(Failure::invalid_options("DeleteOptions", causes));
        }
        let of_old = wire.orphan_dependents.map(|orphan| match orphan {
            true => Propagation::Orphan,
            false => Propagation::Background,
        });
        Ok(Self {
            dry_run: !wire.dry_run.is_empty(),
            propagation: wire.propagation_policy.as_deref().and_then(Propagation::read).or(of_old),
            uid: wire.preconditions.uid,
            resource_version: wire.preconditions.resource_version,
            says_accepted: wire.orphan_dependents == Some(false),
            held: Vec::new(),
        })
    }
}

/// True when deletion was asked for and nothing holds the object any more.
pub fn is_due(object: &Value) -> bool {
    let held = |list: &Value| list.as_array().is_some_and(|names| !names.is_empty());
    let namespace = object["kind"] == "Namespace" && object["apiVersion"] == "v1";
    object::is_terminating(object)
        && !held(&object["metadata"]["finalizers"])
        && !(namespace && held(&object["spec"]["finalizers"]))
}

impl Registry {
    /// Deletes, or asks for deletion when finalizers remain. Answers with the object in the second
    /// case, with a `Status` in the first.
    pub async fn delete(&self, subject: Subject<'_>, options: &DeleteOptions) -> Result<Value, Failure> {
        if matches!(subject.resource.strategy, Strategy::Namespace) && IMMORTAL.contains(&subject.name) {
            let why = "this namespace may not be deleted";
            return Err(Failure::forbidden("", "namespaces", subject.name, why));
        }
        // A conflict begins anew: what was judged must hold for the object that is removed.
        loop {
            let entry = self.entry(subject).await?;
            let Ok((record, metadata)) = Record::read(&entry).and_then(|r| r.metadata().map(|m| (r, m)))
            else {
                if self.remove_unreadable(subject, &entry, options).await? {
                    return Ok(removed(subject, ""));
                }
                continue;
            };
            check_preconditions(subject, &metadata.uid, record.revision, options)?;
            self.admit_delete(subject, &record).await?;
            if holds_nothing(subject, &metadata, options) {
                if self.remove(subject, &entry, options).await?.is_some() {
                    return Ok(removed(subject, &metadata.uid));
                }
                continue;
            }
            let old = record.value()?;
            let object = self.mark(subject, &old, options);
            if is_due(&object) {
                if let Some(revision) = self.remove(subject, &entry, options).await? {
                    if !options.dry_run {
                        self.after_delete(subject.resource, &old, revision);
                    }
                    return Ok(removed(subject, &metadata.uid));
                }
                continue;
            }
            let (dry_run, held) = (options.dry_run, options.held.as_slice());
            let write = WriteOptions { dry_run, held, ..WriteOptions::default() };
            let revised = Revised { object, managed: record.managed.clone() };
            if let Some(mut written) = self.commit(subject, &entry, &record, revised, write).await? {
                // Managed fields are kept beside the object, and the answer shows them.
                if let Some(managed) = record.managed_fields()? {
                    object::set(&mut written.object, "managedFields", managed);
                }
                return Ok(written.object);
            }
        }
    }

    /// The object with deletion asked for.
    fn mark(&self, subject: Subject<'_>, old: &Value, options: &DeleteOptions) -> Value {
        let mut object = old.clone();
        let mut finalizers = object::strings(&object, "finalizers");
        if let Some(propagation) = options.propagation {
            // This policy takes the place of the one that an earlier deletion left.
            finalizers.retain(|name| name != FOREGROUND && name != ORPHAN);
            match propagation {
                Propagation::Background => {}
                Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
                Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
            }
        }
        let now = self.now();
        let definition = matches!(subject.resource.strategy, Strategy::Definition);
        if definition && !object::is_terminating(old) {
            if !finalizers.iter().any(|name| name == crds::CLEANUP_FINALIZER) {
                finalizers.push(crds::CLEANUP_FINALIZER.to_owned());
            }
            crds::set_terminating(&mut object, true, &now);
        }
        if finalizers.is_empty() {
            object::unset(&mut object, "finalizers");
        } else {
            object::set(&mut object, "finalizers", finalizers.into());
        }
        // As upstream's `markAsDeleting`: no grace is left, and the generation shows the change to
        // controllers.
        if !object::is_terminating(old) {
            object::set(&mut object, "deletionTimestamp", now.into());
            object::set(&mut object, "deletionGracePeriodSeconds", 0.into());
            if let Some(generation) = old["metadata"]["generation"].as_i64().filter(|g| *g > 0) {
                object::set(&mut object, "generation", (generation + 1).into());
            }
        }
        if matches!(subject.resource.strategy, Strategy::Namespace) {
            object["status"]["phase"] = "Terminating".into();
        }
        object
    }

    /// Removes what lies at the key of an object and is not one (another program wrote it, or it is
    /// damaged): it has no finalizers and no owners that could be asked. Intended difference: upstream
    /// wants an option for it.
    async fn remove_unreadable(
        &self,
        subject: Subject<'_>,
        entry: &Entry,
        options: &DeleteOptions,
    ) -> Result<bool, Failure> {
        check_preconditions(subject, "", entry.modified, options)?;
        let removed = self.remove(subject, entry, options).await?.is_some();
        if removed && !options.dry_run {
            tracing::warn!("{} was deleted; its value was not an object", entry.key);
        }
        Ok(removed)
    }

    /// Removes the object. The revision of that, which a dry run does not move; nothing when the object changed
    /// meanwhile.
    async fn remove(
        &self,
        subject: Subject<'_>,
        entry: &Entry,
        options: &DeleteOptions,
    ) -> Result<Option<Revision>, Failure> {
        if options.dry_run {
            return Ok(Some(entry.modified));
        }
        let txn = Txn::delete(entry.key.clone(), entry.modified);
        Ok(match self.commit_held(subject, txn, &options.held).await? {
            Outcome::Committed(revision) => Some(revision),
            Outcome::Conflict { .. } => None,
        })
    }

    /// Deletes every object a list finds, each on its own, many at once so that they share commits: one
    /// transaction for all would give several changes one resource version, and a watch that resumes
    /// between them would lose some. Answers with the list.
    ///
    /// # Errors
    /// The first failure; an object that is gone already is none.
    pub async fn delete_collection(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Listing, Failure> {
        let listing = self.list(resource, namespace, list).await?;
        futures::stream::iter(&listing.entries)
            .map(Ok)
            .try_for_each_concurrent(DELETES_AT_ONCE, |entry| async move {
                let metadata = Record::read(entry)?.metadata()?;
                let subject = Subject { resource, namespace: &metadata.namespace, name: &metadata.name };
                match self.delete(subject, options).await {
                    Err(failure) if failure.reason != Reason::NotFound => Err(failure),
                    _ => Ok(()),
                }
            })
            .await?;
        Ok(listing)
    }
}

/// Nothing stands between this object and its end: most deletions need to read no more of it.
fn holds_nothing(subject: Subject<'_>, metadata: &Metadata, options: &DeleteOptions) -> bool {
    let plain = !matches!(subject.resource.strategy, Strategy::Namespace | Strategy::Definition);
    plain
        && metadata.finalizers.is_empty()
        && matches!(options.propagation, None | Some(Propagation::Background))
}

fn removed(subject: Subject<'_>, uid: &str) -> Value {
    let resource = subject.resource;
    failure::success(&resource.group, &resource.plural, subject.name, uid)
}

fn check_preconditions(
    subject: Subject<'_>,
    uid: &str,
    revision: Revision,
    options: &DeleteOptions,
) -> Result<(), Failure> {
    let resource = subject.resource;
    for (wanted, found, what, change) in [
        (&options.uid, uid, "UID", "deleted and then recreated"),
        (&options.resource_version, revision.to_string().as_str(), "ResourceVersion", "modified"),
    ] {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). \
                 The object might have been {change}"
            );
            // Upstream puts the kind where the resource belongs.
            return Err(Failure::conflict(&resource.group, &resource.kind, subject.name, &why));
        }
    }
    Ok(())
}
