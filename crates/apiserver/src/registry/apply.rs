//! Server-side apply of an object that may not exist yet: brings the pure algorithm of `managed` to the
//! life of objects. Must not know media types.
//!
//! Source: apiserver `pkg/endpoints/handlers/patch.go` (`applyPatcher`), v0.35.

use bytes::Bytes;
use serde_json::{Value, json};

use super::identity::{check_name, check_precondition};
use super::ownership::text;
use super::{Before, Draft, Part, RACES_MAX, Registry, Subject, Written, present, schema_tag};
use crate::failure::{Failure, Reason};
use crate::managed::Entries;
use crate::managed::apply::{Applied, ApplyError, Conflict, apply};
use crate::managed::last_applied;
use crate::object::{self, Record};
use crate::patch::Wish;
use crate::request::options::{FieldValidation, WriteOptions};
use crate::resource::{Resource, ScalePaths};
use k8s_machinery::validation::cause::{Cause, CauseReason};

impl Wish {
    /// The wish for a Scale as a wish for the object behind it.
    ///
    /// # Errors
    /// 400 when it is not a Scale, 500 when it has fields that a Scale does not have.
    pub fn behind_scale(self, resource: &Resource, paths: &ScalePaths, name: &str) -> Result<Self, Failure> {
        check_kind(&self.object, "autoscaling/v1", "Scale")?;
        let metadata = self.object["metadata"].clone();
        let mut wanted =
            json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": metadata});
        if wanted["metadata"].is_null() {
            wanted["metadata"] = json!({ "name": name });
        }
        let replicas = &self.object["spec"]["replicas"];
        if !replicas.is_null() {
            let at = paths.spec_replicas.trim_start_matches('/').split('/');
            *at.fold(&mut wanted, |at, step| &mut at[step]) = replicas.clone();
        }
        Ok(Self { object: wanted, ..self })
    }
}

/// How applying went: an object to write, or nothing to do.
enum Step {
    Done(Written),
    Write(Value, Bytes),
}

impl Registry {
    /// Applies a wish; the main resource is created when it is not there.
    ///
    /// # Errors
    /// 409 for conflicts and stale versions, 400, 422 and 500 for wishes that cannot be.
    pub async fn apply(
        &self,
        subject: Subject<'_>,
        part: Part,
        options: WriteOptions<'_>,
        wish: &Wish,
    ) -> Result<Written, Failure> {
        check_wish(subject, wish, options)?;
        for _ in 0..RACES_MAX {
            let Some(entry) = self.store.get(&subject.key()).await? else {
                if part != Part::Main {
                    return Err(subject.not_found());
                }
                match self.apply_new(subject, options, wish).await {
                    // Another writer created it meanwhile, so now it is an update.
                    Err(failure) if failure.reason == Reason::AlreadyExists => continue,
                    other => return other,
                }
            };
            let record = Record::read(&entry)?;
            let shown = present(subject.resource, &record)?;
            check_uid(subject, &wish.object, &shown)?;
            let (object, managed) = match self.lay_over(subject, part, options, wish, &record, &shown)? {
                Step::Done(written) => return Ok(written),
                Step::Write(object, managed) => (object, managed),
            };
            let draft = Draft { object, duplicates: Vec::new(), is_patch: true };
            let (draft, warnings) = self.accept(subject, draft, options)?;
            check_precondition(subject, &draft, &shown)?;
            let before = Before { entry: &entry, record: &record, shown: &shown, old: &record.value()? };
            // When another writer was faster, the wish is laid over what that one has left.
            if let Some(written) = self.rewrite(subject, part, options, draft, before, Some(managed)).await? {
                let warnings = [wish.warnings(options), warnings, written.warnings].concat();
                return Ok(Written { warnings, ..written });
            }
        }
        Err(Failure::too_many_requests("the object changes too fast; try again", 1))
    }

    fn lay_over(
        &self,
        subject: Subject<'_>,
        part: Part,
        options: WriteOptions<'_>,
        wish: &Wish,
        record: &Record,
        shown: &Value,
    ) -> Result<Step, Failure> {
        let entries =
            Entries::parse(text(&record.managed)?).map_err(|e| Failure::unexplained(e.to_string()))?;
        // Under another schema paths may be coarser or finer, so the entries are brought in line
        // first.
        let current = record.schema_tag == schema_tag(subject.resource);
        let now = self.now();
        let applied = self.with_rules(subject, part, options, &now, !current, |author, rules| {
            let Applied { object, entries } =
                apply(author, rules, Some(shown), &wish.object, entries, options.force)?;
            Ok((object, Bytes::from(entries.write())))
        });
        let (object, managed) = applied.map_err(|error| refuse(subject, &wish.object, &error))?;
        let unchanged = object.is_none();
        let mut object = object.unwrap_or_else(|| shown.clone());
        last_applied::refresh(options.manager, &mut object, &wish.object);
        // Applying the same again takes no revision, so that a loop of applies wakes no watch.
        if unchanged && current && managed == record.managed && object == *shown {
            let warnings = wish.warnings(options);
            return Ok(Step::Done(Written { object, managed, created: false, warnings }));
        }
        Ok(Step::Write(object, managed))
    }

    async fn apply_new(
        &self,
        subject: Subject<'_>,
        options: WriteOptions<'_>,
        wish: &Wish,
    ) -> Result<Written, Failure> {
        // Source: apiserver 0.36.3 `endpoints/handlers/patch.go` (`createAuthorizerAttributes`).
        if let Some(refusal) = options.creation_refused {
            return Err(refusal.clone());
        }
        let uid = object::text(&wish.object, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            let resource = subject.resource;
            return Err(Failure::conflict(&resource.group, &resource.plural, subject.name, &why));
        }
        // A version is a precondition, which an object that is not there cannot meet.
        if !object::text(&wish.object, "resourceVersion").is_empty() {
            return Err(subject.stale());
        }
        let now = self.now();
        let applied = self.with_rules(subject, Part::Main, options, &now, false, |author, rules| {
            let applied = apply(author, rules, None, &wish.object, Entries::default(), options.force)?;
            Ok((applied.object, Bytes::from(applied.entries.write())))
        });
        let (object, managed) = applied.map_err(|error| refuse(subject, &wish.object, &error))?;
        let object = object.unwrap_or_else(|| wish.object.clone());
        let draft = Draft { object, duplicates: Vec::new(), is_patch: true };
        let mut written = self.create_owned(subject, draft, options, Some(managed)).await?;
        written.warnings.splice(0..0, wish.warnings(options));
        Ok(written)
    }
}

impl Wish {
    fn warnings(&self, options: WriteOptions<'_>) -> Vec<String> {
        if options.field_validation != FieldValidation::Warn {
            return Vec::new();
        }
        self.duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect()
    }
}

/// The wish is for the object and version of the endpoint, and leaves managed fields alone.
fn check_wish(subject: Subject<'_>, wish: &Wish, options: WriteOptions<'_>) -> Result<(), Failure> {
    let object = &wish.object;
    check_kind(object, &subject.resource.api_version(), &subject.resource.kind)?;
    if !object["metadata"]["managedFields"].is_null() {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    check_name(subject, object)?;
    if options.field_validation == FieldValidation::Strict && !wish.duplicates.is_empty() {
        let paths: Vec<String> =
            wish.duplicates.iter().map(|path| format!("key \"{path}\" already set in map")).collect();
        return Err(Failure::bad_request(format!("error strict decoding YAML: {}", paths.join(", "))));
    }
    Ok(())
}

fn check_kind(object: &Value, api_version: &str, kind: &str) -> Result<(), Failure> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    if text("kind").is_empty() || text("apiVersion").is_empty() {
        return Err(Failure::bad_request("Object 'Kind' or 'apiVersion' is missing in the request body"));
    }
    if (text("apiVersion"), text("kind")) == (api_version, kind) {
        return Ok(());
    }
    Err(Failure::bad_request(format!("invalid object type: {}", kind_text(text("apiVersion"), text("kind")))))
}

/// Group, version and kind as Go prints them; the core group is empty.
fn kind_text(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

/// An object that was made anew meanwhile is not the one that is wanted.
fn check_uid(subject: Subject<'_>, wanted: &Value, shown: &Value) -> Result<(), Failure> {
    let uid = &wanted["metadata"]["uid"];
    if uid.as_str().is_none_or(str::is_empty) || *uid == shown["metadata"]["uid"] {
        return Ok(());
    }
    Err(subject.invalid(vec![Cause::invalid("metadata.uid", uid, "field is immutable")]))
}

fn refuse(subject: Subject<'_>, wanted: &Value, error: &ApplyError) -> Failure {
    match error {
        ApplyError::Conflicts(conflicts) => conflict(conflicts),
        ApplyError::Unfit(problems) => {
            let kind = kind_text(&subject.resource.api_version(), &subject.resource.kind);
            let (namespace, name) = (object::text(wanted, "namespace"), object::name(wanted));
            Failure::unexplained(format!(
                "failed to create typed patch object ({namespace}/{name}; {kind}): {problems}"
            ))
        }
        ApplyError::Merge(_) | ApplyError::Problem(_) => Failure::unexplained(error.to_string()),
    }
}

fn conflict(conflicts: &[Conflict]) -> Failure {
    let cause = |c: &Conflict| {
        Cause::new(CauseReason::FieldManagerConflict, &c.path, format!("conflict with {}", c.manager))
    };
    let message = match conflicts {
        [one] => format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, one.path),
        many => {
            let groups: Vec<String> = many
                // The disputes come sorted by manager, so that those of one are neighbours.
                .chunk_by(|a, b| a.manager == b.manager)
                .map(|group| {
                    let paths: Vec<String> = group.iter().map(|c| format!("- {}", c.path)).collect();
                    let manager = group.first().map(|c| c.manager.as_str()).unwrap_or_default();
                    format!("conflicts with {manager}:\n{}", paths.join("\n"))
                })
                .collect();
            format!("Apply failed with {} conflicts: {}", many.len(), groups.join("\n"))
        }
    };
    Failure::apply_conflict(message, conflicts.iter().map(cause).collect())
}
