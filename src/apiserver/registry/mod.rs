//! Objects over a store: create, read, the one guarded update, delete. Owns the life of an object;
//! must not know paths, media types or connections.
//!
//! Source: apiserver `pkg/registry/generic/registry/store.go`, `pkg/registry/rest`, v0.35.

mod admit;
pub mod apply;
pub mod definitions;
pub mod deletion;
pub mod gc;
pub mod housekeeping;
pub mod identity;
pub mod list;
mod metrics;
mod ownership;

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use self::identity::{check_precondition, check_type, set_namespace};
use self::metrics::Metrics;
use crate::apiserver::admission;
use crate::apiserver::failure::{Cause, Failure};
use crate::apiserver::object::metadata;
use crate::apiserver::object::{self, Record};
use crate::apiserver::request::routes::{FieldValidation, WriteOptions};
use crate::apiserver::resource::crds;
use crate::apiserver::resource::strategy::{Strategy, copy_field};
use crate::apiserver::resource::{Catalog, Resource};
use crate::apiserver::schema::Schema;
use crate::apiserver::schema::decode::Findings;
use crate::apiserver::schema::native;
use crate::rng::Rng;
use crate::store::{self, Entry, Key, Outcome, Revision, Store, Txn, Write};
use crate::time::{Clock, rfc3339};

/// Lost races before a writer is told to come again.
const RACES_MAX: usize = 16;
/// Random suffixes tried before a generated name is given up.
const NAMES_MAX: usize = 8;

/// Everything that is served, over the store it is kept in.
pub struct Registry {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub rng: Rng,
    pub catalog: ArcSwap<Catalog>,
    /// Wakes whoever serves a resource that may be served differently from now on.
    pub catalog_changed: watch::Sender<()>,
    pub metrics: Metrics,
}

/// Which object a request is about.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub resource: &'a Arc<Resource>,
    /// Empty for cluster-scoped resources.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Subject<'_> {
    #[must_use]
    pub fn key(&self) -> Key {
        self.resource.key(self.namespace, self.name)
    }

    #[must_use]
    pub fn not_found(&self) -> Failure {
        Failure::not_found(&self.resource.group, &self.resource.plural, self.name)
    }

    #[must_use]
    pub fn stale(&self) -> Failure {
        Failure::stale(&self.resource.group, &self.resource.plural, self.name)
    }

    pub(super) fn invalid(&self, causes: Vec<Cause>) -> Failure {
        Failure::invalid(&self.resource.group, &self.resource.kind, self.name, causes)
    }
}

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Main,
    /// The main part, through the scale subresource: admission was asked about the replicas alone.
    Scale,
    Status,
    /// A namespace's finalizers.
    Finalize,
}

/// An object as it is after a write.
#[derive(Debug)]
pub struct Written {
    /// Without managed fields.
    pub object: Value,
    /// The managed fields as JSON text; empty for none.
    pub managed: Bytes,
    pub created: bool,
    pub warnings: Vec<String>,
}

/// What a client sent, before anything was filled in.
#[derive(Clone, Debug)]
pub struct Draft {
    pub object: Value,
    /// Keys that occurred twice in the text.
    pub duplicates: Vec<String>,
    /// A patch is refused in other words than an object.
    pub is_patch: bool,
}

/// A stored object: its bytes, as it is kept, and as the resource's version shows it.
#[derive(Clone, Copy)]
pub(super) struct Before<'a> {
    pub entry: &'a Entry,
    pub record: &'a Record,
    pub old: &'a Value,
    pub shown: &'a Value,
}

/// An object as it will be stored, with its managed fields as JSON text.
#[derive(Clone, Debug)]
pub(super) struct Revised {
    pub object: Value,
    pub managed: Bytes,
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Compacted { .. } => {
                Self::expired("The resourceVersion for the provided list is too old.")
            }
            store::Error::Future { asked, current } => Self::too_large_resource_version(asked, current),
            store::Error::Write { .. } | store::Error::Damaged(_) => Self::internal(error),
            // No Retry-After: clients would repeat it by themselves for half a minute before they say why.
            store::Error::Unavailable { .. } => Self::unavailable(error.to_string(), 0),
            store::Error::TooLarge { .. } => Self::request_too_large(error),
            store::Error::Closed => Self::unavailable("the server is shutting down", 1),
        }
    }
}

/// The schema of what a resource serves.
pub(super) fn schema(resource: &Resource) -> Result<&Schema, Failure> {
    match &resource.strategy {
        Strategy::Custom(custom) => custom.schema.get().map_err(|causes| {
            let first = causes.first().map(Cause::to_string).unwrap_or_default();
            Failure::internal(format!("the schema of {} cannot be used: {first}", custom.definition))
        }),
        _ => native::schema(&resource.group, &resource.version, &resource.kind)
            .ok_or_else(|| Failure::internal(format!("no schema for {}", resource.kind))),
    }
}

pub(super) fn schema_tag(resource: &Resource) -> u32 {
    match &resource.strategy {
        Strategy::Custom(custom) => custom.schema_tag,
        _ => 0,
    }
}

/// True when stored bytes are what this version shows, with no work on them.
pub(super) fn shows_as_stored(resource: &Resource, record: &Record) -> bool {
    resource.version == resource.storage_version
        && record.schema_tag == schema_tag(resource)
        && !(matches!(resource.strategy, Strategy::Event) && !resource.group.is_empty())
}

/// A stored object as the resource's version shows it.
pub(super) fn present(resource: &Resource, record: &Record) -> Result<Value, Failure> {
    let mut object = record.value()?;
    if !shows_as_stored(resource, record) {
        resource.read_stored(&mut object);
        if resource.is_custom() {
            schema(resource)?.decode(&mut object)?;
        }
    }
    Ok(object)
}

impl Registry {
    /// Serves the built-in kinds; see `definitions` for the others.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock, rng: Rng) -> Self {
        let catalog = ArcSwap::from_pointee(Catalog::built_in());
        Self {
            store,
            clock,
            rng,
            catalog,
            catalog_changed: watch::Sender::new(()),
            metrics: Metrics::default(),
        }
    }

    pub(super) fn now(&self) -> String {
        rfc3339(self.clock.now())
    }

    /// The stored object, or 404.
    pub async fn entry(&self, subject: Subject<'_>) -> Result<Entry, Failure> {
        self.store.get(&subject.key()).await?.ok_or_else(|| subject.not_found())
    }

    /// Checks what came in against the endpoint and makes it fit the schema.
    pub(super) fn accept(
        &self,
        subject: Subject<'_>,
        draft: Draft,
        options: WriteOptions<'_>,
    ) -> Result<(Value, Vec<String>), Failure> {
        let resource = subject.resource;
        let mut object = draft.object;
        check_type(resource, &object)?;
        let unknown = schema(resource)?.decode(&mut object)?;
        resource.check_decoded(&object)?;
        resource.drop_empty(&mut object);
        let findings = Findings { unknown, duplicate: draft.duplicates };
        if findings.is_empty() || options.field_validation == FieldValidation::Ignore {
            return Ok((object, Vec::new()));
        }
        if options.field_validation == FieldValidation::Warn {
            return Ok((object, findings.warnings()));
        }
        Err(if draft.is_patch {
            findings.refuse_patch(&resource.group, &resource.kind, subject.name, &object)
        } else {
            findings.refuse(&resource.kind, &resource.version)
        })
    }

    /// Creates an object. `subject.name` may be empty; the object then names itself.
    pub async fn create(
        &self,
        subject: Subject<'_>,
        draft: Draft,
        options: WriteOptions<'_>,
    ) -> Result<Written, Failure> {
        self.create_owned(subject, draft, options, None).await
    }

    /// As `create`; `applied` says who owns what, when that was worked out already.
    pub(super) async fn create_owned(
        &self,
        subject: Subject<'_>,
        draft: Draft,
        options: WriteOptions<'_>,
        applied: Option<Bytes>,
    ) -> Result<Written, Failure> {
        let resource = subject.resource;
        let (mut object, mut warnings) = self.accept(subject, draft, options)?;
        if !object::text(&object, "resourceVersion").is_empty() {
            return Err(Failure::unexplained("resourceVersion should not be set on objects to be created"));
        }
        if resource.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Failure::forbidden(&resource.group, &resource.plural, object::name(&object), why));
        }
        set_namespace(subject, &mut object)?;
        if !subject.name.is_empty() && object::name(&object).is_empty() {
            object::set(&mut object, "name", subject.name.into());
        }
        metadata::wipe_system_fields(&mut object);
        warnings.extend(metadata::dedupe_owners(&mut object));
        object::set(&mut object, "creationTimestamp", self.now().into());
        object::set(&mut object, "uid", self.rng.uuid().to_string().into());
        let claim = ownership::claim(&mut object);
        resource.to_stored(&mut object);
        resource.prepare_create(&mut object);
        let managed =
            applied.unwrap_or_else(|| self.owners(subject, Part::Main, options, None, &object, claim));
        admission::mutate(&subject.request(None, options.dry_run), &mut object)?;
        let object = self.insert(subject, object, &managed, options, &mut warnings).await?;
        warnings.extend(resource.warnings(&object, None));
        Ok(Written { object, managed, created: true, warnings })
    }

    /// Names, fills in, checks and stores a new object.
    async fn insert(
        &self,
        subject: Subject<'_>,
        mut object: Value,
        managed: &[u8],
        options: WriteOptions<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Failure> {
        let resource = subject.resource;
        let prefix = object::text(&object, "generateName").to_owned();
        let generated = object::name(&object).is_empty() && !prefix.is_empty();
        // Whoever creates in a missing namespace hears of that first, whatever else is wrong.
        let mut namespace = self.open_namespace(Subject { name: object::name(&object), ..subject }).await?;
        for _ in 0..NAMES_MAX {
            if generated {
                let name = metadata::name_prefix(&prefix) + &self.rng.suffix(metadata::SUFFIX_CHARS);
                object::set(&mut object, "name", name.into());
            }
            resource.prepare_create(&mut object);
            if matches!(resource.strategy, Strategy::Definition) {
                crds::establish(&mut object, &self.catalog.load(), &self.now());
            }
            self.validate(subject, Part::Main, &object, None)?;
            let admitted = self.admit(subject, None, &object, options.dry_run).await?;
            let name = object::name(&object).to_owned();
            let subject = Subject { name: &name, ..subject };
            match self.try_insert(subject, &object, managed, options, &mut namespace).await? {
                Inserted::At(revision) => {
                    if let Some(revision) = revision {
                        object::set(&mut object, "resourceVersion", revision.to_string().into());
                        self.after_write(resource, &object);
                    }
                    resource.read_stored(&mut object);
                    warnings.extend(admitted);
                    return Ok(object);
                }
                Inserted::Taken(failure) if !generated => return Err(failure),
                Inserted::Taken(_) => {}
            }
        }
        let mut failure = Failure::already_exists(&resource.group, &resource.plural, object::name(&object));
        failure.message += ", the server was not able to generate a unique name for the object";
        failure.details.retry_after_s = 1;
        Err(failure)
    }

    async fn try_insert(
        &self,
        subject: Subject<'_>,
        object: &Value,
        managed: &[u8],
        options: WriteOptions<'_>,
        namespace: &mut Option<(Key, Revision)>,
    ) -> Result<Inserted, Failure> {
        let key = subject.key();
        let encoded = object::encode(object, managed, schema_tag(subject.resource))?;
        for _ in 0..RACES_MAX {
            let mut expect = vec![(key.clone(), 0)];
            expect.extend(namespace.clone());
            if options.dry_run {
                return match self.store.get(&key).await? {
                    Some(taken) => Ok(Inserted::Taken(already_exists(subject, &taken)?)),
                    None => Ok(Inserted::At(None)),
                };
            }
            let writes = vec![Write::Put(key.clone(), encoded.clone())];
            match self.store.txn(Txn { expect, writes }).await? {
                Outcome::Committed(revision) => return Ok(Inserted::At(Some(revision))),
                Outcome::Conflict { key: lost, current: Some(taken) } if lost == key => {
                    return Ok(Inserted::Taken(already_exists(subject, &taken)?));
                }
                // The namespace changed meanwhile: look again.
                Outcome::Conflict { .. } => *namespace = self.open_namespace(subject).await?,
            }
        }
        Err(Failure::too_many_requests("the namespace changes too fast; try again", 1))
    }

    /// The namespace an object is created in, as something the transaction depends on.
    async fn open_namespace(&self, subject: Subject<'_>) -> Result<Option<(Key, Revision)>, Failure> {
        if !subject.resource.namespaced {
            return Ok(None);
        }
        let (group, plural) = (&subject.resource.group, &subject.resource.plural);
        let key: Key = format!("/registry/namespaces/{}", subject.namespace).into();
        let Some(entry) = self.store.get(&key).await? else {
            return Err(Failure::not_found("", "namespaces", subject.namespace));
        };
        if Record::read(&entry)?.metadata()?.deletion_timestamp.is_some() {
            return Err(Failure::namespace_terminating(group, plural, subject.name, subject.namespace));
        }
        Ok(Some((key, entry.modified)))
    }

    /// Everything wrong with a prepared object.
    fn validate(
        &self,
        subject: Subject<'_>,
        part: Part,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        let resource = subject.resource;
        let mut causes = metadata::validate(object, resource.namespaced, resource.name_rule());
        if let Some(old) = old {
            causes.extend(metadata::validate_update(object, old));
        }
        causes.extend(match (part, old) {
            (Part::Status, Some(old)) => schema(resource)?.validate_status(object, old),
            _ => schema(resource)?.validate(object, old),
        });
        causes.extend(resource.validate(object, old));
        if causes.is_empty() {
            Ok(())
        } else {
            Err(Subject { name: object::name(object), ..subject }.invalid(causes))
        }
    }

    /// The one guarded update: reads, lets `change` make the new object from the old, checks, and
    /// writes if nobody was faster; otherwise starts over. Nothing is written when nothing changed.
    pub async fn update(
        &self,
        subject: Subject<'_>,
        part: Part,
        options: WriteOptions<'_>,
        change: &(dyn Fn(&Value) -> Result<Draft, Failure> + Send + Sync),
    ) -> Result<Written, Failure> {
        for _ in 0..RACES_MAX {
            let entry = self.entry(subject).await?;
            let record = Record::read(&entry)?;
            let mut shown = present(subject.resource, &record)?;
            if let (true, Some(managed)) = (options.sees_managed_fields, record.managed_fields()?) {
                object::set(&mut shown, "managedFields", managed);
            }
            let (mut draft, mut warnings) = self.accept(subject, change(&shown)?, options)?;
            check_precondition(subject, &draft, &shown)?;
            if matches!(part, Part::Main | Part::Scale) {
                warnings.extend(metadata::dedupe_owners(&mut draft));
            }
            let before = Before { entry: &entry, record: &record, shown: &shown, old: &record.value()? };
            if let Some(written) = self.rewrite(subject, part, options, draft, before, None).await? {
                warnings.extend(written.warnings);
                return Ok(Written { warnings, ..written });
            }
        }
        Err(Failure::too_many_requests("the object changes too fast; try again", 1))
    }

    /// Revises, admits and writes; `None` when somebody was faster. `applied` says who owns what, when
    /// that was worked out already.
    pub(super) async fn rewrite(
        &self,
        subject: Subject<'_>,
        part: Part,
        options: WriteOptions<'_>,
        object: Value,
        before: Before<'_>,
        applied: Option<Bytes>,
    ) -> Result<Option<Written>, Failure> {
        let Before { entry, record, old, .. } = before;
        let revised = self.revise(subject, part, options, object, before, applied)?;
        let mut warnings = Vec::new();
        if part == Part::Main {
            warnings.extend(self.admit(subject, Some(old), &revised.object, options.dry_run).await?);
        }
        let written = self.commit(subject, entry, record, revised, options).await?;
        Ok(written.map(|written| {
            warnings.extend(subject.resource.warnings(&written.object, Some(old)));
            Written { warnings, ..written }
        }))
    }

    /// From what the client wants to what will be stored; `applied` as above.
    fn revise(
        &self,
        subject: Subject<'_>,
        part: Part,
        options: WriteOptions<'_>,
        mut object: Value,
        before: Before<'_>,
        applied: Option<Bytes>,
    ) -> Result<Revised, Failure> {
        let resource = subject.resource;
        let Before { record, shown, old, .. } = before;
        let whole = matches!(part, Part::Main | Part::Scale);
        let claim = ownership::claim(&mut object);
        match part {
            Part::Main | Part::Scale => {
                metadata::carry_over(&mut object, shown);
            }
            Part::Status => {
                let mut whole = shown.clone();
                copy_field(&mut whole, &object, "status");
                object = whole;
            }
            Part::Finalize => {
                let mut whole = shown.clone();
                whole["spec"]["finalizers"] = object["spec"]["finalizers"].clone();
                object = whole;
            }
        }
        resource.to_stored(&mut object);
        if whole {
            resource.prepare_update(&mut object, old);
        }
        let managed = applied
            .unwrap_or_else(|| self.owners(subject, part, options, Some((record, old)), &object, claim));
        if part == Part::Main {
            admission::mutate(&subject.request(Some(old), options.dry_run), &mut object)?;
        }
        if matches!(resource.strategy, Strategy::Definition)
            && part == Part::Main
            && object["spec"] != old["spec"]
        {
            crds::establish(&mut object, &self.catalog.load(), &self.now());
        }
        let changed = || !object::same_content(&object, old, resource.has_status);
        if whole && resource.counts_generations() && changed() {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            object::set(&mut object, "generation", generation.into());
        }
        self.validate(subject, part, &object, Some(old))?;
        Ok(Revised { object, managed })
    }

    /// Writes an object over `entry`; `None` when somebody was faster. An object that has nothing
    /// left to wait for is removed instead. Nothing is written when only times in the managed fields
    /// would change.
    pub(super) async fn commit(
        &self,
        subject: Subject<'_>,
        entry: &Entry,
        record: &Record,
        revised: Revised,
        options: WriteOptions<'_>,
    ) -> Result<Option<Written>, Failure> {
        let resource = subject.resource;
        let Revised { mut object, mut managed } = revised;
        let encoded = object::encode(&object, &managed, schema_tag(resource))?;
        let same_object = Record::decode(&encoded, 0).is_some_and(|new| new.same_object(record));
        let same = same_object && ownership::same_owners(&managed, &record.managed);
        if same {
            managed = record.managed.clone();
        }
        let done = deletion::is_due(&object);
        let mut revision = entry.modified;
        if !options.dry_run && (done || !same) {
            let key = entry.key.clone();
            let txn = if done { Txn::delete(key, revision) } else { Txn::update(key, revision, encoded) };
            match self.store.txn(txn).await? {
                // A removed object is shown as it was asked for, at its last revision.
                Outcome::Committed(_) if done => self.after_delete(resource, &object),
                Outcome::Committed(now) => {
                    revision = now;
                    self.after_write(resource, &object);
                }
                Outcome::Conflict { .. } => return Ok(None),
            }
        }
        object::set(&mut object, "resourceVersion", revision.to_string().into());
        resource.read_stored(&mut object);
        Ok(Some(Written { object, managed, created: false, warnings: Vec::new() }))
    }
}

enum Inserted {
    /// At this revision; `None` for a dry run.
    At(Option<Revision>),
    Taken(Failure),
}

fn already_exists(subject: Subject<'_>, taken: &Entry) -> Result<Failure, Failure> {
    let mut failure =
        Failure::already_exists(&subject.resource.group, &subject.resource.plural, subject.name);
    if Record::read(taken)?.metadata()?.deletion_timestamp.is_some() {
        failure.message = format!("object is being deleted: {}", failure.message);
    }
    Ok(failure)
}
