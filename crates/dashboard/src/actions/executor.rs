//! Performs actions on one server. A preview: the version that the server offers, access review, reading, checks, the server's
//! dry run, the plan before and after. After the confirmation: journal, guarded write, a look whether it is there, journal.
//! Owns that order; the checks are in `preflight` and `rules`, the change in `edit`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::edit::{Edit, edit, inverse, nothing, summary, undo};
use super::fields::{Fields, lost};
use super::in_place::TemplatePart;
use super::outlook::AfterAction;
use super::preflight;
use super::quorum::takes_member;
use super::related::Related;
use super::risk::risk;
use super::{Action, ActionError, Outlook, Planner, Preview, Report, Request, rules};
use crate::operations::diff::{DiffLine, diff};
use crate::operations::journal::{Entry, Journal, stamp};
use crate::operations::{ConfigurationReader, EtcdReader, LockReader};
use capi_rules::etcd::report::Report as Etcd;
use capi_rules::status::contract::reference_to;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::names::VERSION;
use capstan_base::time::Clock;
use capstan_engine::client::access::{Attempt, may};
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::clusters::{Lists, cluster_named_by, list_around};
use capstan_engine::client::read::get_value;
use capstan_engine::client::write::Part;
use capstan_engine::client::{Connection, Mode, Precondition, WriteError, Writer, explain};

/// Conflicts with writers of the status that are answered by reading again.
const ATTEMPTS: usize = 10;

/// The field manager of what people do through capstan.
const FIELD_MANAGER: &str = "capstan";

/// Previews and performs actions on one server. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    pub(super) connection: Connection,
    writer: Writer,
    journal: Journal,
    clock: Clock,
    user: String,
    planner: Planner,
    etcd: Option<Arc<dyn EtcdReader>>,
    locks: Option<Arc<dyn LockReader>>,
    configuration: Option<Arc<dyn ConfigurationReader>>,
}

impl Executor {
    /// `user`: the operating system's name for the person, for the journal.
    pub fn new(connection: Connection, journal: Journal, clock: Clock, user: String) -> Self {
        let writer = Writer::new(connection.client.clone(), FIELD_MANAGER).strict();
        let planner = Planner::new(connection.clone(), clock.clone());
        Self {
            connection,
            writer,
            journal,
            clock,
            user,
            planner,
            etcd: None,
            locks: None,
            configuration: None,
        }
    }

    /// Previews of what takes a member ask etcd, too.
    pub fn with_etcd(self, reader: impl EtcdReader) -> Self {
        Self { etcd: Some(Arc::new(reader)), ..self }
    }

    /// What asks the etcd of the clusters of this server.
    pub fn etcd(&self) -> Option<&dyn EtcdReader> {
        self.etcd.as_deref()
    }

    /// Screens can show locks.
    pub fn with_locks(self, reader: impl LockReader) -> Self {
        Self { locks: Some(Arc::new(reader)), ..self }
    }

    /// What watches the locks of this server and of its clusters.
    pub fn locks(&self) -> Option<&dyn LockReader> {
        self.locks.as_deref()
    }

    /// Screens read what clusters store of their kubeadm configuration, too.
    pub fn with_configuration(self, reader: impl ConfigurationReader) -> Self {
        Self { configuration: Some(Arc::new(reader)), ..self }
    }

    /// What reads the kubeadm configuration of the clusters of this server.
    pub fn configuration(&self) -> Option<&dyn ConfigurationReader> {
        self.configuration.as_deref()
    }

    /// The plans of the clusters of this server.
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// True when no action can succeed here.
    pub fn is_read_only(&self) -> bool {
        self.connection.read_only
    }

    /// What a person sees before the confirmation. Writes nothing.
    ///
    /// # Errors
    /// [`ActionError`]: not taken by the kind, no right, refused, gone, or refused by the dry run, which must change
    /// something.
    pub async fn preview(&self, request: &Request) -> Result<Preview, ActionError> {
        if self.is_read_only() {
            return Err(ActionError::ReadOnly);
        }
        request.action.info().check_kind(&request.target.gvk.kind)?;
        let request = &self.served(request).await?;
        self.check_access(request).await?;
        let object = self.read(request).await?;
        let change = self.change(&request.action, &object).await?;
        let lists = self.lists(&object).await;
        let mut related = self.related(object, &lists).await;
        let meant = preflight::amounts_to(&request.action, &change);
        related.etcd = self.look_at_etcd(request, &meant, &related).await;
        let object = &related.object;
        let mut findings = rules::findings(&self.connection, &request.target.gvk, object, &change).await;
        findings.extend(preflight::findings(&meant, &related, self.clock.now()));
        if matches!(&change, Edit::Patch(patch) if preflight::ends_pause(patch)) {
            findings.retain(|finding| finding.rule != preflight::PAUSED);
        }
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let mut preview = Preview {
            summary: summary(&request.action, object),
            risk: risk(&request.action, &related),
            diff: Vec::new(),
            uid: text_at(object, "/metadata/uid"),
            resource_version: text_at(object, "/metadata/resourceVersion"),
            shown: shown(object),
            request: request.clone(),
            findings,
            outlook: Outlook::NotPlanned,
            back: change.patch().map(|patch| inverse(patch, object)),
            edit: change,
        };
        if preview.is_allowed() {
            let after = self.send(&preview, Mode::DryRun).await?;
            if let Some(after) = &after {
                preview.diff = changed(&preview, object, after)?;
            }
            let change = AfterAction {
                after: after.unwrap_or_else(|| self.in_deletion(object)),
                made: preview.edit.made().to_vec(),
                asks_extensions: request.asks_extensions
                    || matches!(request.action, Action::UpdateInPlace(_)),
            };
            preview.outlook = self.planner.outlook(lists, object, change).await;
            if let Action::UpdateInPlace(change) = &request.action {
                preview.findings.extend(change.finding(&preview.outlook));
                preview.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
            }
        }
        Ok(preview)
    }

    /// The same request about the version that the server offers, whatever the one is that was asked about.
    async fn served(&self, request: &Request) -> Result<Request, ActionError> {
        let target = &request.target;
        let found = Catalog::new(self.connection.client.clone());
        let gvk =
            found.resolve(&target.gvk.group, &target.gvk.kind).await.map_err(|missing| match missing {
                Missing::NotServed(why) => server(request, why),
                Missing::Unreachable(error) => server(request, explain(&error, &self.connection.server)),
            })?;
        Ok(Request { target: ObjectRef { gvk, ..target.clone() }, ..request.clone() })
    }

    /// What stands around an object. Without `lists`, which plans need, in whatever version it can be read.
    async fn related(&self, object: Value, lists: &Result<Lists, String>) -> Related {
        if let Ok(lists) = lists {
            return Related::among(object, lists);
        }
        let Some(name) = cluster_named_by(&object) else { return Related::alone(object) };
        let key = ObjectKey::new(text_at(&object, "/metadata/namespace"), name);
        let around = list_around(&self.connection, &key).await;
        Related::among(object, &around)
    }

    /// The templates that `object` refers to, as far as they are edited.
    async fn templates(
        &self,
        object: &Value,
        parts: Vec<TemplatePart>,
    ) -> Result<Vec<(TemplatePart, Value)>, ActionError> {
        let catalog = Catalog::new(self.connection.client.clone());
        let mut found = Vec::new();
        for part in parts {
            let Some(reference) = part.reference(object) else { continue };
            let text = |field: &str| reference[field].as_str().unwrap_or_default();
            let unread = |why: String| {
                ActionError::Refused(format!(
                    "{} {} cannot be read, and fields are changed through a copy of it: {why}",
                    text("kind"),
                    text("name")
                ))
            };
            let gvk = match catalog.resolve(text("apiGroup"), text("kind")).await {
                Ok(gvk) => gvk,
                Err(Missing::NotServed(why)) => return Err(unread(why)),
                Err(Missing::Unreachable(error)) => {
                    return Err(unread(explain(&error, &self.connection.server)));
                }
            };
            let key = ObjectKey::new(text_at(object, "/metadata/namespace"), text("name"));
            let target = ObjectRef { gvk: gvk.clone(), key, uid: String::new() };
            let read = get_value(&self.connection.client, &target).await;
            let read = read.map_err(|error| unread(explain(&error, &self.connection.server)))?;
            let mut template = read.ok_or_else(|| unread("it does not exist".to_owned()))?;
            template["apiVersion"] = gvk.api_version().into();
            template["kind"] = gvk.kind.into();
            found.push((part, template));
        }
        Ok(found)
    }

    async fn change(&self, action: &Action, object: &Value) -> Result<Edit, ActionError> {
        if let Action::UpdateInPlace(change) = action {
            let kind = text_at(object, "/kind");
            action.info().check_kind(&kind)?;
            Fields::of(object)?.check_updates_in_place()?;
            let templates = self.templates(object, change.edited_parts()).await?;
            return change.edit(&kind, object, &templates);
        }
        if *action != Action::Undo {
            return edit(action, object, self.clock.now());
        }
        action.info().check_kind(&text_at(object, "/kind"))?;
        let last = self.journal.last_done(&self.connection.server, &text_at(object, "/metadata/uid"));
        let last = last.map_err(|source| ActionError::Journal {
            path: self.journal.path().display().to_string(),
            reason: source.to_string(),
        })?;
        undo(last, object)
    }

    /// The etcd, where the action may cost it a member.
    async fn look_at_etcd(
        &self,
        request: &Request,
        meant: &Action,
        related: &Related,
    ) -> Option<Result<Etcd, String>> {
        let reader = self.etcd().filter(|_| takes_member(meant, related))?;
        let cluster = cluster_named_by(&related.object)?;
        if request.target.gvk.version != VERSION {
            return Some(Err(format!("members are asked only where the server offers {VERSION}")));
        }
        let key = ObjectKey::new(text_at(&related.object, "/metadata/namespace"), cluster);
        Some(reader.look(&key).await.map(|facts| Etcd::of(&facts, None)))
    }

    /// The objects of the Cluster that `object` belongs to, or why they are not known.
    async fn lists(&self, object: &Value) -> Result<Lists, String> {
        let cluster = cluster_named_by(object)
            .ok_or_else(|| "the object does not say which Cluster it belongs to".to_owned())?;
        self.planner.lists(&ObjectKey::new(text_at(object, "/metadata/namespace"), cluster)).await
    }

    /// Does what was previewed, guarded by the uid and resourceVersion that were shown.
    ///
    /// # Errors
    /// [`ActionError`]; `Stale` when the object changed in the meantime, `NotKept` when it was done and is not there.
    pub async fn perform(&self, preview: &Preview) -> Result<Report, ActionError> {
        if self.is_read_only() {
            return Err(ActionError::ReadOnly);
        }
        if !preview.is_allowed() {
            let reasons: Vec<&str> = preview.findings.iter().map(|f| f.text.as_str()).collect();
            return Err(ActionError::Refused(reasons.join("; ")));
        }
        self.write_down(preview, "asked", None)?;
        let outcome = self.carry_out(preview).await;
        match &outcome {
            Ok(_) => self.write_down(preview, "done", None)?,
            // The first error matters more than one about the journal.
            Err(error) => drop(self.write_down(preview, "failed", Some(&error.to_string()))),
        }
        let after = outcome?.unwrap_or_default();
        let target = &preview.request.target;
        Ok(Report {
            text: format!("{} {}: {}", target.gvk.kind, target.key, preview.request.action.done()),
            resource_version: text_at(&after, "/metadata/resourceVersion"),
        })
    }

    /// Writes, then looks for what was written: in the answer, and in what is read afterwards as far as that can be read.
    async fn carry_out(&self, preview: &Preview) -> Result<Option<Value>, ActionError> {
        let after = self.send(preview, Mode::Real).await?;
        let request = &preview.request;
        let fresh = get_value(&self.connection.client, &request.target).await.ok().flatten();
        let fresh = fresh.filter(|fresh| fresh["metadata"]["uid"] == preview.uid.as_str());
        let field = match (preview.edit.patch(), &fresh) {
            (Some(patch), _) => after.iter().chain(&fresh).find_map(|stored| lost(patch, stored)),
            (None, Some(there)) if there["metadata"]["deletionTimestamp"].is_null() => {
                Some("metadata.deletionTimestamp".to_owned())
            }
            (None, _) => None,
        };
        let (action, target) = (request.action.info().name, request.target.to_string());
        field.map_or(Ok(after), |field| Err(ActionError::NotKept { action, target, field }))
    }

    fn in_deletion(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["metadata"]["deletionTimestamp"] = capstan_base::time::rfc3339(self.clock.now()).into();
        object
    }

    async fn check_access(&self, request: &Request) -> Result<(), ActionError> {
        let target = &request.target;
        let attempt = Attempt {
            verb: request.action.info().access_verb.to_owned(),
            group: target.gvk.group.clone(),
            resource: target.gvk.plural.clone(),
            namespace: target.key.namespace.clone(),
            name: target.key.name.clone(),
            ..Attempt::default()
        };
        let access = may(&self.connection.client, &attempt)
            .await
            .map_err(|error| server(request, explain(&error, &self.connection.server)))?;
        if access.allowed {
            return Ok(());
        }
        let reason =
            if access.reason.is_empty() { "the server gave no reason".to_owned() } else { access.reason };
        Err(ActionError::Forbidden {
            verb: request.action.info().access_verb,
            target: target.to_string(),
            reason,
        })
    }

    async fn read(&self, request: &Request) -> Result<Value, ActionError> {
        let target = &request.target;
        let gone = || match target.uid.as_str() {
            "" => ActionError::NotFound { target: target.to_string() },
            _ => ActionError::Gone { target: target.to_string() },
        };
        let object = get_value(&self.connection.client, target)
            .await
            .map_err(|error| server(request, explain(&error, &self.connection.server)))?
            .ok_or_else(gone)?;
        if !target.uid.is_empty() && object["metadata"]["uid"] != target.uid.as_str() {
            return Err(gone());
        }
        Ok(object)
    }

    /// Sends what was previewed. After a conflict the object is read again: when only its status has changed, the
    /// preview still holds, and the newer version is the precondition.
    async fn send(&self, preview: &Preview, mode: Mode) -> Result<Option<Value>, ActionError> {
        let target = &preview.request.target;
        let mut version = preview.resource_version.clone();
        for made in preview.edit.made() {
            self.make(&preview.request, made, mode).await?;
        }
        for attempt in 1.. {
            let precondition = Precondition {
                uid: Some(preview.uid.clone()).filter(|uid| !uid.is_empty()),
                resource_version: Some(version.clone()).filter(|version| !version.is_empty()),
            };
            let answer = match &preview.edit {
                Edit::Patch(patch) | Edit::PatchAfter { patch, .. } => {
                    self.writer.patch_value(target, Part::Main, patch, &precondition, mode).await.map(Some)
                }
                Edit::Delete => self.writer.delete_value(target, &precondition, mode).await.map(|()| None),
            };
            match answer {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                    let fresh = self.read(&preview.request).await?;
                    if shown(&fresh) != preview.shown {
                        return Err(ActionError::Stale { target: target.to_string() });
                    }
                    version = text_at(&fresh, "/metadata/resourceVersion");
                }
                other => return other.map_err(|error| self.refusal(&preview.request, &error)),
            }
        }
        Err(ActionError::Stale { target: target.to_string() })
    }

    /// One that is there already with the same spec was made by an attempt before.
    async fn make(&self, request: &Request, object: &Value, mode: Mode) -> Result<(), ActionError> {
        let target = reference_to(object);
        match self.writer.create_value(&target, object, mode).await {
            Ok(_) => Ok(()),
            Err(error) if error.already_exists() => {
                let there = get_value(&self.connection.client, &target).await;
                let there = there
                    .map_err(|error| server(request, explain(&error, &self.connection.server)))?
                    .unwrap_or_default();
                if there["spec"] == object["spec"] {
                    return Ok(());
                }
                Err(server(request, format!("{target} exists already and is another one")))
            }
            Err(error) => Err(self.refusal(request, &error)),
        }
    }

    fn refusal(&self, request: &Request, error: &WriteError) -> ActionError {
        let target = request.target.to_string();
        match error {
            e if e.is_conflict() => ActionError::Stale { target },
            e if e.is_not_found() => ActionError::Gone { target },
            e if let Some(unknown) = unknown_fields(&e.message()) => {
                let version = &request.target.gvk.version;
                server(request, format!("{version} has not all that would be written there: {unknown}"))
            }
            WriteError::Refused { source, .. } => server(request, explain(source, &self.connection.server)),
            other => server(request, other.to_string()),
        }
    }

    fn write_down(&self, preview: &Preview, outcome: &str, error: Option<&str>) -> Result<(), ActionError> {
        let target = &preview.request.target;
        let entry = Entry {
            at: stamp(self.clock.now()),
            outcome,
            user: &self.user,
            server: &self.connection.server,
            action: preview.request.action.info().name,
            api_version: &target.gvk.api_version(),
            kind: &target.gvk.kind,
            namespace: &target.key.namespace,
            name: &target.key.name,
            uid: &preview.uid,
            seen: &preview.resource_version,
            patch: preview.edit.patch(),
            made: preview.edit.made().iter().map(|made| reference_to(made).to_string()).collect(),
            back: preview.back.as_ref(),
            error,
        };
        self.journal.append(&entry).map_err(|source| ActionError::Journal {
            path: self.journal.path().display().to_string(),
            reason: source.to_string(),
        })
    }
}

fn server(request: &Request, reason: String) -> ActionError {
    ActionError::Server { action: request.action.info().name, target: request.target.to_string(), reason }
}

/// Which fields a strict server does not know. The rest of its sentence is the whole object.
fn unknown_fields(message: &str) -> Option<String> {
    message.split_once("strict decoding error: ").map(|(_, fields)| fields.to_owned())
}

/// What the answer to a dry run changes. One that changes nothing, or not what was asked for, is refused.
fn changed(preview: &Preview, object: &Value, after: &Value) -> Result<Vec<DiffLine>, ActionError> {
    let Request { target, action, .. } = &preview.request;
    if let Some(field) = preview.edit.patch().and_then(|patch| lost(patch, after)) {
        let (version, target) = (target.gvk.version.clone(), target.to_string());
        return Err(ActionError::NotStored { action: action.info().name, target, field, version });
    }
    let lines = diff(object, after);
    if lines.is_empty() { Err(nothing(object, "is as asked for already")) } else { Ok(lines) }
}

/// What a person decides about: everything but the status and what every write changes.
fn shown(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "uid": metadata["uid"],
        "generation": metadata["generation"],
        "labels": metadata["labels"],
        "annotations": metadata["annotations"],
        "deletionTimestamp": metadata["deletionTimestamp"],
        "spec": object["spec"],
    })
}

fn text_at(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
