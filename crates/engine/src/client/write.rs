//! The one write path: create, merge patch, server-side apply, delete; preconditions, field manager, dry run.
//! Owns how a change is sent and counted; must not know why it is made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kube::core::params::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, ValidationDirective};
use kube::core::{Request, Status};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::errors::{Cause, chain, classify};
use super::strict::strictly;
use super::{Object, path_of};
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use k8s_machinery::lease::{FENCE_HEADER, Fence};
use k8s_machinery::merge::merge_diff;

/// Whether a write is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Real,
    /// Everything but storing: admission, defaulting, validation (`dryRun=All`).
    DryRun,
}

/// What must still hold on the server when the write arrives. Empty parts are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl Precondition {
    /// The same object, unchanged since it was read.
    pub fn unchanged<K: kube::Resource>(object: &K) -> Self {
        Self { uid: object.meta().uid.clone(), resource_version: object.meta().resource_version.clone() }
    }
}

/// Which part of an object a patch addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Main,
    Status,
    Scale,
}

/// A write that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("{what} was not written: this process does not lead (another engine holds the lease)")]
    NotLeading { what: String },
    #[error("{what} cannot be written as JSON: {source}")]
    Encode { what: String, source: serde_json::Error },
    /// Somebody else wrote the same thing differently; it is not for this writer to overrule them.
    #[error("{what}: {cause}")]
    Overtaken { what: String, cause: String },
    #[error("{verb} {what}: {}", chain(source))]
    Refused { verb: &'static str, what: String, source: kube::Error },
}

impl WriteError {
    fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { source: kube::Error::Api(status), .. } => Some(status),
            _ => None,
        }
    }

    /// Somebody else changed it first; reading again and deciding again is the cure.
    pub fn is_conflict(&self) -> bool {
        // A name that is taken is a 409, too, but reading again would not free it.
        self.status().is_some_and(|s| s.code == 409 && s.reason != "AlreadyExists")
    }

    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// The client's identity may not do it.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(|s| s.code == 403)
    }

    /// There was no answer, or a server in trouble gave it: the write may have been taken or not.
    pub fn is_unanswered(&self) -> bool {
        let Self::Refused { source, .. } = self else { return false };
        matches!(classify(source), Cause::Unreachable | Cause::Proxy | Cause::TimedOut | Cause::ServerTrouble)
    }

    pub fn already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// The server does not take the content, whoever sends it and whenever: it is invalid, or forbidden.
    pub fn is_refusal(&self) -> bool {
        self.status().is_some_and(|s| s.reason == "Invalid" || s.reason == "Forbidden")
    }

    /// The server's own words when it refused, for a condition's or an event's message.
    pub fn message(&self) -> String {
        self.status().map_or_else(|| self.to_string(), |s| s.message.clone())
    }
}

/// How many writes were sent, by verb. Dry runs are not counted.
#[derive(Debug, Default)]
pub struct Counts {
    pub creates: AtomicU64,
    pub patches: AtomicU64,
    pub deletes: AtomicU64,
    pub failures: AtomicU64,
}

impl Counts {
    /// Creates, patches and deletes together.
    pub fn total(&self) -> u64 {
        [&self.creates, &self.patches, &self.deletes].iter().map(|c| c.load(Ordering::Relaxed)).sum()
    }
}

/// One successful write, as the engine needs it to wait for its echo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub group: String,
    pub kind: String,
    pub key: ObjectKey,
    pub uid: String,
    /// `None`: the object was deleted at once, so its absence is the echo.
    pub resource_version: Option<String>,
}

/// What of an answer tells which write it was.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Stored {
    metadata: StoredMetadata,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredMetadata {
    uid: String,
    resource_version: Option<String>,
}

/// The writes of one reconcile, in order.
#[derive(Clone, Debug, Default)]
pub struct WriteLog(Arc<Mutex<Vec<Written>>>);

tokio::task_local! {
    /// Set by the engine around one reconcile. Task-local, so that controllers need not carry a log
    /// through every call and cannot forget it.
    static LOG: WriteLog;
}

impl WriteLog {
    /// Runs `work`; every write made inside it (same task) is recorded here.
    pub async fn record<T>(&self, work: impl Future<Output = T>) -> T {
        LOG.scope(self.clone(), work).await
    }

    /// What was recorded so far; the log is empty afterwards.
    pub fn take(&self) -> Vec<Written> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Says whether writes may leave: true while leading. See `engine::lease`.
pub type Permit = Arc<dyn Fn() -> bool + Send + Sync>;

/// The holdings of Leases that a write rests on, for a server that compares them.
pub type Fences = Arc<dyn Fn() -> Vec<Fence> + Send + Sync>;

/// The write path of one field manager. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    manager: Arc<str>,
    counts: Arc<Counts>,
    permit: Option<Permit>,
    fences: Option<Fences>,
    is_strict: bool,
}

impl Writer {
    /// A writer whose field manager is `manager` (at most 128 characters).
    pub fn new(client: kube::Client, manager: &str) -> Self {
        let (manager, counts) = (manager.into(), Arc::default());
        Self { client, manager, counts, permit: None, fences: None, is_strict: false }
    }

    /// The server refuses patches, and objects that are made, with a field that it does not know, where it would drop
    /// that field (`fieldValidation=Strict`; Kubernetes 1.25 and newer).
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// Refuses every write while `permit` says no.
    pub fn with_permit(mut self, permit: Permit) -> Self {
        self.permit = Some(permit);
        self
    }

    /// Sends what every write rests on along with it.
    pub fn with_fences(mut self, fences: Fences) -> Self {
        self.fences = Some(fences);
        self
    }

    /// The same path, counts and permit under another field manager.
    pub fn managed_by(&self, manager: &str) -> Self {
        Self { manager: manager.into(), ..self.clone() }
    }

    /// The same field manager, counts and permit for another server, which does not have the Leases.
    pub fn on(&self, client: kube::Client) -> Self {
        Self { client, fences: None, ..self.clone() }
    }

    /// May it write now?
    pub fn permitted(&self) -> bool {
        self.permit.as_ref().is_none_or(|permit| permit())
    }

    /// The holdings of Leases that the right to write rests on now, none where it needs no Lease; `None` without the right.
    pub fn term(&self) -> Option<Vec<Fence>> {
        self.permitted().then(|| self.fences.iter().flat_map(|fences| fences()).collect())
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The client under it, for reads.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Creates `object` and returns what the server stored.
    ///
    /// # Errors
    /// [`WriteError`]; `already_exists()` when the name is taken.
    pub async fn create<K: Object>(&self, object: &K, mode: Mode) -> Result<K, WriteError> {
        let what = describe(object);
        let data =
            serde_json::to_vec(object).map_err(|source| WriteError::Encode { what: what.clone(), source })?;
        let params =
            PostParams { dry_run: mode == Mode::DryRun, field_manager: Some(self.manager.to_string()) };
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        let request = Request::new(path_of::<K>(namespace)).create(&params, data);
        let created: K = self.send("create", what, request, mode, |c| &c.creates).await?;
        record(&created, mode);
        Ok(created)
    }

    /// Sends the difference between what was read and what it should be: the main resource first,
    /// then the status subresource; nothing when there is no difference. Returns the object as the
    /// server has it now. The precondition rides on the first patch (uid and, when asked, the
    /// resourceVersion), so a conflict writes nothing.
    ///
    /// # Errors
    /// [`WriteError`]; `is_conflict()` when the precondition failed.
    pub async fn patch<K: Object>(
        &self,
        before: &K,
        after: &K,
        precondition: &Precondition,
        mode: Mode,
    ) -> Result<K, WriteError> {
        let what = describe(before);
        let encode = |k: &K| {
            serde_json::to_value(k).map_err(|source| WriteError::Encode { what: what.clone(), source })
        };
        let mut current = before.clone();
        let Some(difference) = merge_diff(&encode(before)?, &encode(after)?) else { return Ok(current) };
        let (mut main, status) = split_status(difference);
        let mut precondition = precondition.clone();
        if !is_empty(&main) {
            guard(&mut main, &precondition);
            current = self.patch_part::<K>(&ObjectKey::of(before), Part::Main, &main, mode).await?;
            // The first patch moved the version; the second one is guarded by the new one.
            precondition.resource_version =
                precondition.resource_version.and_then(|_| current.meta().resource_version.clone());
        }
        if let Some(status) = status {
            let mut body = json!({ "status": status });
            guard(&mut body, &precondition);
            current = self.patch_part::<K>(&ObjectKey::of(before), Part::Status, &body, mode).await?;
        }
        Ok(current)
    }

    /// Sends one merge patch to one part of a typed object.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn patch_part<K: Object>(
        &self,
        key: &ObjectKey,
        part: Part,
        patch: &Value,
        mode: Mode,
    ) -> Result<K, WriteError> {
        let what = format!("{} {key}", K::kind(&()));
        let request = self.patch_request(path_of::<K>(&key.namespace), &key.name, part, patch, mode);
        let patched: K = self.send("patch", what, request, mode, |c| &c.patches).await?;
        record(&patched, mode);
        Ok(patched)
    }

    /// Sends one merge patch to any kind, known to the type system or not.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn patch_value(
        &self,
        target: &ObjectRef,
        part: Part,
        patch: &Value,
        precondition: &Precondition,
        mode: Mode,
    ) -> Result<Value, WriteError> {
        let mut body = patch.clone();
        guard(&mut body, precondition);
        let request = self.patch_request(value_path(target), &target.key.name, part, &body, mode);
        let patched: Value = self.send("patch", target.to_string(), request, mode, |c| &c.patches).await?;
        record_value(&target.gvk, &target.key, &patched, mode);
        Ok(patched)
    }

    /// [`Self::patch_value`] for those who do not look at the answer: most of it is not decoded.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn patch_unseen(
        &self,
        target: &ObjectRef,
        part: Part,
        patch: &Value,
        precondition: &Precondition,
        mode: Mode,
    ) -> Result<(), WriteError> {
        let mut body = patch.clone();
        guard(&mut body, precondition);
        let request = self.patch_request(value_path(target), &target.key.name, part, &body, mode);
        let Stored { metadata } =
            self.send("patch", target.to_string(), request, mode, |c| &c.patches).await?;
        push(mode, || Written {
            group: target.gvk.group.clone(),
            kind: target.gvk.kind.clone(),
            key: target.key.clone(),
            uid: metadata.uid,
            resource_version: metadata.resource_version,
        });
        Ok(())
    }

    /// Server-side apply of `intent` as `manager`, with force: the object is made when there is none, gets the
    /// intent's values, and loses what the manager applied before and the intent no longer has. With a uid the
    /// object must exist. Returns the object as the server has it, with the same resourceVersion when nothing
    /// changed.
    ///
    /// # Errors
    /// [`WriteError`]; `is_conflict()` when the precondition failed.
    pub async fn apply_value(
        &self,
        target: &ObjectRef,
        intent: &Value,
        manager: &str,
        precondition: &Precondition,
        mode: Mode,
    ) -> Result<Value, WriteError> {
        let mut body = intent.clone();
        guard(&mut body, precondition);
        let params = PatchParams { dry_run: mode == Mode::DryRun, ..PatchParams::apply(manager).force() };
        let request = Request::new(value_path(target)).patch(&target.key.name, &params, &Patch::Apply(&body));
        let applied: Value = self.send("apply", target.to_string(), request, mode, |c| &c.patches).await?;
        record_value(&target.gvk, &target.key, &applied, mode);
        Ok(applied)
    }

    /// Creates any kind from its JSON; the address is `target`'s.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn create_value(
        &self,
        target: &ObjectRef,
        object: &Value,
        mode: Mode,
    ) -> Result<Value, WriteError> {
        let what = target.to_string();
        let data =
            serde_json::to_vec(object).map_err(|source| WriteError::Encode { what: what.clone(), source })?;
        let params =
            PostParams { dry_run: mode == Mode::DryRun, field_manager: Some(self.manager.to_string()) };
        let request = Request::new(value_path(target)).create(&params, data);
        // The client's parameters of a create, unlike those of a patch, have no field validation.
        let request = request.map(|request| if self.is_strict { strictly(request) } else { request });
        let created: Value = self.send("create", what, request, mode, |c| &c.creates).await?;
        record_value(&target.gvk, &target.key, &created, mode);
        Ok(created)
    }

    /// Asks for deletion (background propagation). An object that is already gone is fine.
    ///
    /// # Errors
    /// [`WriteError`]; `is_conflict()` when the precondition failed.
    pub async fn delete<K: Object>(
        &self,
        key: &ObjectKey,
        precondition: &Precondition,
        mode: Mode,
    ) -> Result<(), WriteError> {
        let gvk = gvk_of::<K>();
        let target = ObjectRef { gvk, key: key.clone(), uid: precondition.uid.clone().unwrap_or_default() };
        self.delete_value(&target, precondition, mode).await
    }

    /// [`Self::delete`] for any kind.
    ///
    /// # Errors
    /// [`WriteError`]; `is_conflict()` when the precondition failed.
    pub async fn delete_value(
        &self,
        target: &ObjectRef,
        precondition: &Precondition,
        mode: Mode,
    ) -> Result<(), WriteError> {
        let params = DeleteParams {
            dry_run: mode == Mode::DryRun,
            preconditions: preconditions(precondition),
            ..DeleteParams::background()
        };
        let request = Request::new(value_path(target)).delete(&target.key.name, &params);
        match self.send::<Value>("delete", target.to_string(), request, mode, |c| &c.deletes).await {
            Ok(answer) => {
                record_value(&target.gvk, &target.key, &answer, mode);
                Ok(())
            }
            // A deletion that is repeated has reached its goal.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn patch_request(
        &self,
        path: String,
        name: &str,
        part: Part,
        patch: &Value,
        mode: Mode,
    ) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
        let params = PatchParams {
            dry_run: mode == Mode::DryRun,
            field_manager: Some(self.manager.to_string()),
            field_validation: self.is_strict.then_some(ValidationDirective::Strict),
            ..PatchParams::default()
        };
        let request = Request::new(path);
        match part {
            Part::Main => request.patch(name, &params, &Patch::Merge(patch)),
            Part::Status => request.patch_subresource("status", name, &params, &Patch::Merge(patch)),
            Part::Scale => request.patch_subresource("scale", name, &params, &Patch::Merge(patch)),
        }
    }

    /// A fence that no header can hold ends the write: without it a leader of before could write as well.
    fn fenced(&self, mut request: http::Request<Vec<u8>>) -> Result<http::Request<Vec<u8>>, kube::Error> {
        let unfit = |error: http::header::InvalidHeaderValue| {
            kube::Error::BuildRequest(kube::core::request::Error::BuildRequest(error.into()))
        };
        for fence in self.fences.iter().flat_map(|fences| fences()) {
            let value = http::HeaderValue::from_str(&fence.text()).map_err(unfit)?;
            request.headers_mut().append(FENCE_HEADER, value);
        }
        Ok(request)
    }

    async fn send<T: serde::de::DeserializeOwned>(
        &self,
        verb: &'static str,
        what: String,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        mode: Mode,
        counter: impl Fn(&Counts) -> &AtomicU64,
    ) -> Result<T, WriteError> {
        // Asked for each write: a reconcile may outlast the right that it began with.
        if !self.permitted() {
            return Err(WriteError::NotLeading { what });
        }
        let sent = match request.map_err(kube::Error::BuildRequest).and_then(|request| self.fenced(request)) {
            Ok(request) => self.client.request(request).await,
            Err(error) => Err(error),
        };
        if mode == Mode::Real {
            let counter = if sent.is_ok() { counter(&self.counts) } else { &self.counts.failures };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        sent.map_err(|source| WriteError::Refused { verb, what, source })
    }
}

/// Group, version, kind and plural of a typed kind. Whether it is namespaced is not known to the
/// type; it is taken as namespaced, which only the empty namespace of a key overrules.
pub fn gvk_of<K: Object>() -> Gvk {
    Gvk {
        group: K::group(&()).into_owned(),
        version: K::version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        plural: K::plural(&()).into_owned(),
        namespaced: true,
    }
}

/// The path of the collection that holds `target`.
pub(super) fn value_path(target: &ObjectRef) -> String {
    collection_path(&target.gvk, &target.key.namespace)
}

/// The path of a kind's collection: of one namespace, or of all when `namespace` is empty.
pub(super) fn collection_path(gvk: &Gvk, namespace: &str) -> String {
    let namespace = (gvk.namespaced && !namespace.is_empty()).then_some(namespace);
    <kube::core::DynamicObject as kube::Resource>::url_path(&gvk.api_resource(), namespace)
}

fn describe<K: Object>(object: &K) -> String {
    format!("{} {}", K::kind(&()), ObjectKey::of(object))
}

/// A patch that changes nothing.
fn is_empty(patch: &Value) -> bool {
    patch.as_object().is_none_or(serde_json::Map::is_empty)
}

/// `status` has a subresource of its own.
fn split_status(mut patch: Value) -> (Value, Option<Value>) {
    let status = patch.as_object_mut().and_then(|map| map.remove("status"));
    (patch, status)
}

/// A uid or resourceVersion inside a merge patch makes the server answer 409 when it differs.
fn guard(patch: &mut Value, precondition: &Precondition) {
    for (field, value) in [("uid", &precondition.uid), ("resourceVersion", &precondition.resource_version)] {
        if let Some(value) = value {
            patch["metadata"][field] = json!(value);
        }
    }
}

fn preconditions(precondition: &Precondition) -> Option<Preconditions> {
    (*precondition != Precondition::default()).then(|| Preconditions {
        uid: precondition.uid.clone(),
        resource_version: precondition.resource_version.clone(),
    })
}

fn record<K: Object>(object: &K, mode: Mode) {
    push(mode, || Written {
        group: K::group(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        key: ObjectKey::of(object),
        uid: object.meta().uid.clone().unwrap_or_default(),
        resource_version: object.meta().resource_version.clone(),
    });
}

/// A deletion answers with the object while finalizers hold it, else with a `Status`.
fn record_value(gvk: &Gvk, key: &ObjectKey, answer: &Value, mode: Mode) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    // The `Status` names the uid, too: an echo of a successor has the same name and another uid.
    let gone = answer["kind"] == "Status" && gvk.kind != "Status";
    push(mode, || Written {
        group: gvk.group.clone(),
        kind: gvk.kind.clone(),
        key: key.clone(),
        uid: text(&answer["metadata"]["uid"]).or_else(|| text(&answer["details"]["uid"])).unwrap_or_default(),
        resource_version: if gone { None } else { text(&answer["metadata"]["resourceVersion"]) },
    });
}

fn push(mode: Mode, written: impl FnOnce() -> Written) {
    if mode == Mode::Real {
        // Outside an engine no controller waits for the echo, and there is no log.
        let _ = LOG.try_with(|log| log.0.lock().push(written()));
    }
}
