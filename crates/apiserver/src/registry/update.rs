//! Changing what is there: the one guarded update, by which everything else writes too. Must not know what
//! the change is.
//!
//! Source: apiserver `pkg/registry/generic/registry/store.go` (`Update`), `pkg/registry/rest/update.go`, v0.35.

use bytes::Bytes;
use serde_json::Value;

use super::identity::check_precondition;
use super::{
    Before, Draft, Part, RACES_MAX, Registry, Revised, Subject, Written, deletion, ownership, present,
    schema_tag,
};
use crate::failure::Failure;
use crate::object::{self, Record, metadata};
use crate::request::options::WriteOptions;
use crate::resource::crds;
use crate::resource::strategy::{Strategy, copy_field};
use capstan_store::{Entry, Outcome, Txn};

impl Registry {
    /// The one guarded update: reads, lets `change` make the new object from the old, checks, and
    /// writes if the object did not change meanwhile; otherwise starts over. Nothing is written when nothing changed.
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
            // Parsing them costs, so only a patch that changes them gets them.
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

    /// Revises, admits and writes; `None` when another write was faster. `applied` are the managed fields, when
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
        // Webhooks register for the main resource and not for its subresources.
        if part == Part::Main {
            warnings.extend(self.admit(subject, Some(old), &revised.object, options.dry_run).await?);
            self.admit_grants(subject, options.grants, Some(old), &revised.object)?;
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
        if part == Part::Scale {
            self.admit_scale(subject, shown, &object)?;
        }
        let claim = ownership::claim(&mut object);
        match part {
            Part::Main | Part::Scale => {
                metadata::carry_over(&mut object, shown);
            }
            Part::Status => {
                // As upstream, labels and finalizers that come with a status are ignored like the
                // spec.
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
        // Everything from here on compares with `old`, which is in the stored version.
        resource.to_stored(&mut object);
        if whole {
            resource.prepare_update(&mut object, old);
        }
        let managed = applied
            .unwrap_or_else(|| self.owners(subject, part, options, Some((record, old)), &object, claim));
        if part == Part::Main {
            self.admission.mutate(&subject.request(Some(old), options.dry_run), &mut object)?;
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

    /// Writes an object over `entry`; `None` when another write was faster. An object that has nothing
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
        // Compared as text, which has one order of keys; what another program stored in another order
        // is written once more, and no harm is done.
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
            match self.commit_held(subject, txn, options.held).await? {
                // A removed object is shown as it was asked for, at its last revision.
                Outcome::Committed(now) if done => self.after_delete(resource, &object, now),
                Outcome::Committed(now) => {
                    revision = now;
                    self.after_write(resource, &object, now);
                }
                Outcome::Conflict { .. } => return Ok(None),
            }
        }
        object::set(&mut object, "resourceVersion", revision.to_string().into());
        resource.read_stored(&mut object);
        Ok(Some(Written { object, managed, created: false, warnings: Vec::new() }))
    }
}
