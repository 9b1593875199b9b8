//! Creating: who may name an object, in which namespace, and what the server fills in first. Owns the one
//! insert; must not know updates.
//!
//! Source: apiserver `pkg/registry/generic/registry/store.go` (`Create`), `pkg/registry/rest/create.go`, v0.35.

use bytes::Bytes;
use serde_json::Value;

use super::identity::set_namespace;
use super::{Draft, Part, RACES_MAX, Registry, Subject, Written, ownership, schema_tag};
use crate::failure::Failure;
use crate::object::{self, Record, metadata};
use crate::request::options::WriteOptions;
use crate::resource::crds;
use crate::resource::strategy::Strategy;
use capstan_store::{Entry, Key, Outcome, Revision, Txn, Write};

/// Random suffixes tried before a generated name is given up.
const NAMES_MAX: usize = 8;

impl Registry {
    /// Creates an object. `subject.name` may be empty; the object then names itself.
    pub async fn create(
        &self,
        subject: Subject<'_>,
        draft: Draft,
        options: WriteOptions<'_>,
    ) -> Result<Written, Failure> {
        self.create_owned(subject, draft, options, None).await
    }

    /// As `create`; `applied` are the managed fields, when they were worked out already.
    pub(super) async fn create_owned(
        &self,
        subject: Subject<'_>,
        draft: Draft,
        options: WriteOptions<'_>,
        applied: Option<Bytes>,
    ) -> Result<Written, Failure> {
        let resource = subject.resource;
        let (mut object, mut warnings) = self.accept(subject, draft, options)?;
        // Upstream's store refuses this with a plain error, which becomes 500.
        if !object::text(&object, "resourceVersion").is_empty() {
            return Err(Failure::unexplained("resourceVersion should not be set on objects to be created"));
        }
        if resource.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Failure::forbidden(&resource.group, &resource.plural, object::name(&object), why));
        }
        set_namespace(subject, &mut object)?;
        // As upstream, a POST to a name creates the object of that name.
        if !subject.name.is_empty() && object::name(&object).is_empty() {
            object::set(&mut object, "name", subject.name.into());
        }
        metadata::wipe_system_fields(&mut object);
        warnings.extend(metadata::dedupe_owners(&mut object));
        object::set(&mut object, "creationTimestamp", self.now().into());
        object::set(&mut object, "uid", self.rng.uuid().to_string().into());
        // The list leaves the object here: from now on it is compared and stored apart.
        let claim = ownership::claim(&mut object);
        resource.to_stored(&mut object);
        resource.prepare_create(&mut object);
        // Ownership comes before admission, as upstream: what a webhook fills in is not the
        // client's.
        let managed =
            applied.unwrap_or_else(|| self.owners(subject, Part::Main, options, None, &object, claim));
        self.admission.mutate(&subject.request(None, options.dry_run), &mut object)?;
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
        // A name that is given wins; `generateName` stays in the object all the same.
        let generated = object::name(&object).is_empty() && !prefix.is_empty();
        // Whoever creates in a missing namespace hears of that first, whatever else is wrong.
        let mut namespace = self.open_namespace(Subject { name: object::name(&object), ..subject }).await?;
        for _ in 0..NAMES_MAX {
            if generated {
                let name = metadata::name_prefix(&prefix) + &self.rng.suffix(metadata::SUFFIX_CHARS);
                object::set(&mut object, "name", name.into());
            }
            // Once more with the name, which a namespace carries as a label.
            resource.prepare_create(&mut object);
            if matches!(resource.strategy, Strategy::Definition) {
                crds::establish(&mut object, &self.catalog.load(), &self.now());
            }
            self.validate(subject, Part::Main, &object, None)?;
            // Validation comes first, as in upstream's store: a validating webhook sees valid
            // objects only.
            let admitted = self.admit(subject, None, &object, options.dry_run).await?;
            let name = object::name(&object).to_owned();
            let subject = Subject { name: &name, ..subject };
            self.admit_grants(subject, options.grants, None, &object)?;
            match self.try_insert(subject, &object, managed, options, &mut namespace).await? {
                Inserted::At(revision) => {
                    if let Some(revision) = revision {
                        object::set(&mut object, "resourceVersion", revision.to_string().into());
                        self.after_write(resource, &object, revision);
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
        // As upstream, so that clients try again, which draws other names.
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
            // With the namespace in the transaction, nothing slips in once its deletion has begun.
            expect.extend(namespace.clone());
            // Nothing is going to be written, so the name has to be looked for.
            if options.dry_run {
                return match self.store.get(&key).await? {
                    Some(taken) => Ok(Inserted::Taken(already_exists(subject, &taken)?)),
                    None => Ok(Inserted::At(None)),
                };
            }
            let writes = vec![Write::Put(key.clone(), encoded.clone())];
            match self.commit_held(subject, Txn { expect, writes }, options.held).await? {
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
