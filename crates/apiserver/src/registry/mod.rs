//! Objects over a store: created, read, updated, deleted, listed. Owns the life of an object, and here what its
//! stages share; must not know paths, media types or connections.
//!
//! Source: apiserver `pkg/registry/generic/registry/store.go`, `pkg/registry/rest`, v0.35.

mod admit;
pub mod apply;
mod create;
pub mod definitions;
pub mod deletion;
mod fence;
pub mod gc;
pub mod housekeeping;
pub mod identity;
pub mod kubelets;
pub mod list;
pub mod metrics;
pub mod offload;
mod ownership;
mod update;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use self::identity::check_type;
use self::kubelets::Kubelets;
use self::metrics::Metrics;
use self::offload::Offload;
use crate::failure::Failure;
use crate::object::{self, Record, metadata};
use crate::request::options::{FieldValidation, WriteOptions};
use crate::resource::strategy::Strategy;
use crate::resource::{Catalog, Resource};
use crate::schema::Schema;
use crate::schema::decode::Findings;
use crate::schema::native;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, rfc3339};
use capstan_store::{self as store, Entry, Key, Revision, Store};
use k8s_machinery::admission::{Admission, AdmitAll};
use k8s_machinery::validation::cause::Cause;

/// Lost races before a writer is refused with a conflict.
const RACES_MAX: usize = 16;

/// Everything that is served, over the store it is kept in.
pub struct Registry {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub rng: Rng,
    pub catalog: ArcSwap<Catalog>,
    /// The latest revision at which each definition is known, those that are gone as well. Held while what is served
    /// changes, so that changes are taken in one order.
    pub definitions_at: Mutex<BTreeMap<String, Revision>>,
    /// Wakes the watches of a resource that may be served differently from now on.
    pub catalog_changed: watch::Sender<()>,
    pub metrics: Metrics,
    pub offload: Offload,
    /// Asked about each write that a client sends.
    pub admission: Arc<dyn Admission>,
    /// The nodes of the cluster, when it has some.
    pub kubelets: Option<Arc<dyn Kubelets>>,
    /// False while something that a client needs to find the server is not written yet.
    pub announced: AtomicBool,
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
    pub fn key(&self) -> Key {
        self.resource.key(self.namespace, self.name)
    }

    pub fn not_found(&self) -> Failure {
        Failure::not_found(&self.resource.group, &self.resource.plural, self.name)
    }

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
            store::Error::Write { .. }
            | store::Error::Unsynced { .. }
            | store::Error::NotSealed(_)
            | store::Error::Damaged(_) => Self::internal(error),
            // No Retry-After: clients would repeat it by themselves for half a minute before they say why.
            store::Error::Unavailable { .. }
            | store::Error::Untrusted { .. }
            | store::Error::HalfRestored { .. }
            | store::Error::Suspended { .. } => Self::unavailable(error.to_string(), 0),
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
        // In `events.k8s.io` an event has other field names than those it is kept under.
        && !(matches!(resource.strategy, Strategy::Event) && !resource.group.is_empty())
}

/// A stored object as the resource's version shows it.
pub(super) fn present(resource: &Resource, record: &Record) -> Result<Value, Failure> {
    let mut object = record.value()?;
    if !shows_as_stored(resource, record) {
        resource.read_stored(&mut object);
        if resource.is_custom() {
            // It was stored under another schema: what that one let through goes, what is new is
            // filled in.
            schema(resource)?.decode(&mut object)?;
        }
    }
    Ok(object)
}

impl Registry {
    /// Serves the built-in kinds; see `definitions` for the others.
    pub fn new(store: Arc<dyn Store>, clock: Clock, rng: Rng) -> Self {
        let catalog = ArcSwap::from_pointee(Catalog::built_in());
        Self {
            store,
            clock,
            rng,
            catalog,
            catalog_changed: watch::Sender::new(()),
            metrics: Metrics::default(),
            offload: Offload::default(),
            admission: Arc::new(AdmitAll),
            kubelets: None,
            announced: AtomicBool::new(true),
            definitions_at: Mutex::default(),
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
        // An object of another kind is named as such, before its fields are held against this
        // schema.
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
        // As upstream, a patch is refused with 422 and a whole object with 400.
        Err(if draft.is_patch {
            findings.refuse_patch(&resource.group, &resource.kind, subject.name, &object)
        } else {
            findings.refuse(&resource.kind, &resource.version)
        })
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
            // As upstream, a write of the status is held against the schema of the status alone.
            (Part::Status, Some(old)) => schema(resource)?.validate_status(object, old),
            _ => schema(resource)?.validate(object, old),
        });
        causes.extend(resource.validate(object, old));
        if causes.is_empty() {
            Ok(())
        } else {
            // A generated name is known to the object only.
            Err(Subject { name: object::name(object), ..subject }.invalid(causes))
        }
    }
}
