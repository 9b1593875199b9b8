//! Deleting: options, finalizers, preconditions, collections. Owns when an object may go; must not
//! know the owners of an object, which is `gc`.
//!
//! Source: apiserver `pkg/registry/generic/registry/store.go` (`Delete`, `deletionFinalizersForGarbageCollection`),
//! `pkg/registry/rest/delete.go`, v0.35.

use serde_json::Value;

use super::crds;
use super::failure::{self, Cause, Failure};
use super::object::{self, Record};
use super::registry::{Registry, Subject};
use super::routes::{Query, WriteOptions, dry_run};
use super::strategy::Strategy;
use crate::store::{Entry, Outcome, Txn};

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

/// Namespaces that the server itself needs.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// What becomes of the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub dry_run: bool,
    /// `None`: what the object's finalizers say, else background.
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// From the body, or from the query when there is none.
    ///
    /// # Errors
    /// 422 for values that mean nothing, or two ways of saying different things.
    pub fn parse(query: &Query, body: Option<&Value>) -> Result<Self, Failure> {
        let mut causes = Vec::new();
        let null = Value::Null;
        let body = body.unwrap_or(&null);
        let text = |field: &str| match body[field].as_str() {
            Some(text) => text.to_owned(),
            None => query.text(field).to_owned(),
        };
        let dry = body["dryRun"][0].as_str().map_or_else(|| query.text("dryRun").to_owned(), str::to_owned);
        let orphan = body["orphanDependents"]
            .as_bool()
            .or_else(|| query.has("orphanDependents").then(|| query.truthy("orphanDependents")));
        let policy = text("propagationPolicy");
        if orphan.is_some() && !policy.is_empty() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid("propagationPolicy", &policy.as_str().into(), detail));
        }
        let propagation = match (policy.as_str(), orphan) {
            ("", None) => None,
            ("Background", _) | ("", Some(false)) => Some(Propagation::Background),
            ("Foreground", _) => Some(Propagation::Foreground),
            ("Orphan", _) | ("", Some(true)) => Some(Propagation::Orphan),
            (other, _) => {
                let known = ["Background", "Foreground", "Orphan"];
                causes.push(Cause::not_supported("propagationPolicy", &other.into(), &known));
                None
            }
        };
        let precondition = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
        let options = Self {
            dry_run: dry_run(&dry, &mut causes),
            propagation,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        };
        if causes.is_empty() { Ok(options) } else { Err(Failure::invalid_options("DeleteOptions", causes)) }
    }
}

/// True when deletion was asked for and nothing holds the object any more.
#[must_use]
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
        loop {
            let entry = self.entry(subject).await?;
            let record = Record::read(&entry)?;
            let old = record.value()?;
            check_preconditions(subject, &old, options)?;
            let mut object = self.mark(subject, &old, options);
            if is_due(&object) {
                if let Some(answer) = self.remove(subject, &entry, &old, options).await? {
                    return Ok(answer);
                }
                continue;
            }
            let write = WriteOptions { dry_run: options.dry_run, ..WriteOptions::default() };
            if let Some(object) = self.commit(subject, &entry, &record, &mut object, write).await? {
                return Ok(object);
            }
        }
    }

    /// The object with deletion asked for.
    fn mark(&self, subject: Subject<'_>, old: &Value, options: &DeleteOptions) -> Value {
        let mut object = old.clone();
        let mut finalizers = object::strings(&object, "finalizers");
        if let Some(propagation) = options.propagation {
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

    /// Removes the object; `None` when it changed meanwhile.
    async fn remove(
        &self,
        subject: Subject<'_>,
        entry: &Entry,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<Option<Value>, Failure> {
        if !options.dry_run {
            match self.store.txn(Txn::delete(entry.key.clone(), entry.modified)).await? {
                Outcome::Committed(_) => self.after_delete(subject.resource, old),
                Outcome::Conflict { .. } => return Ok(None),
            }
        }
        let resource = subject.resource;
        Ok(Some(failure::success(&resource.group, &resource.plural, subject.name, object::text(old, "uid"))))
    }
}

fn check_preconditions(subject: Subject<'_>, old: &Value, options: &DeleteOptions) -> Result<(), Failure> {
    let resource = subject.resource;
    for (wanted, field, what, change) in [
        (&options.uid, "uid", "UID", "deleted and then recreated"),
        (&options.resource_version, "resourceVersion", "ResourceVersion", "modified"),
    ] {
        let found = object::text(old, field);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). \
                 The object might have been {change}"
            );
            return Err(Failure::conflict(&resource.group, &resource.kind, subject.name, &why));
        }
    }
    Ok(())
}
