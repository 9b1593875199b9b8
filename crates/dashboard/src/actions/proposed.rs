//! An action before it is confirmed: the version that the server offers and the access review, then reading and checks, then the
//! server's dry run and the plan before and after. Owns what is read for that; the checks are in `preflight` and `rules`, the change in
//! `edit`.

use async_trait::async_trait;
use serde_json::Value;

use super::confirmed::ConfirmedAction;
use super::control_plane::{is_control_plane, is_typed, rollout_after};
use super::edit::{Edit, edit, inverse, nothing, summary, undo};
use super::fields::{Fields, lost};
use super::in_place::TemplatePart;
use super::outlook::AfterAction;
use super::quorum::takes_member;
use super::related::Related;
use super::risk::{Risk, risk};
use super::sent::{read, server, shown, text_at};
use super::topology::{self, TopologyPlace};
use super::{Action, ActionError, Executor, Outlook, Preview, Request, budgets, owners, preflight, rules};
use crate::operations::diff::{DiffLine, diff};
use crate::operations::guard::{DryRun, Looked, Proposed, Refusal};
use crate::operations::{Finding, HeldBudget};
use capi_rules::etcd::report::Report as Etcd;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::names::VERSION;
use capstan_engine::client::access::{Attempt, may};
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::clusters::{Lists, cluster_named_by, list_around};
use capstan_engine::client::read::get_value;
use capstan_engine::client::{Mode, explain};

/// A request that is being looked at.
pub(super) struct ProposedAction<'a> {
    executor: &'a Executor,
    /// In the version that the server offers, once that is known.
    request: Request,
    seen: Option<Seen>,
}

/// What was read for it.
struct Seen {
    /// So far without findings and difference.
    preview: Preview,
    object: Value,
    /// The objects of its Cluster, or why they are not known.
    lists: Result<Lists, String>,
}

#[async_trait]
impl Proposed for ProposedAction<'_> {
    type Error = ActionError;

    async fn rights(&mut self) -> Result<Vec<Finding>, ActionError> {
        let gvk = &self.request.target.gvk;
        // A kind that does not take the action is refused before a request is sent. Of a kind
        // without types only the object shows whether it is a control plane: `fields` checks it.
        if is_typed(gvk) {
            self.request.action.info().check_kind(&gvk.kind, false)?;
        }
        self.request = self.served().await?;
        self.check_access().await?;
        Ok(Vec::new())
    }

    async fn preflight(&mut self) -> Result<Vec<Finding>, ActionError> {
        let (executor, request) = (self.executor, self.request.clone());
        let object = read(executor, &request).await?;
        let change = self.change(&object).await?;
        let lists = self.lists(&object).await;
        let mut related = self.related(object, &lists).await;
        let meant = preflight::amounts_to(&request.action, &change, &request.target.gvk.kind);
        related.etcd = self.look_at_etcd(&meant, &related).await;
        related.budgets = self.look_at_budgets(&meant, &related).await;
        let object = &related.object;
        let mut findings = rules::findings(&executor.connection, &request.target.gvk, object, &change).await;
        findings.extend(preflight::findings(&meant, &related, executor.guard.clock.now()));
        findings.extend(owners::findings(&meant, object, change.patch()));
        let topology = TopologyPlace::of(&related, change.patch());
        findings.extend(topology.as_ref().and_then(TopologyPlace::finding));
        findings.extend(topology::unnamed(&related, change.patch()));
        // To undo a pause is to resume, and what is resumed needs no warning that it is paused.
        if matches!(&change, Edit::Patch(patch) if preflight::ends_pause(patch)) {
            findings.retain(|finding| finding.rule != preflight::PAUSED);
        }
        let preview = Preview {
            summary: summary(&request.action, object),
            risk: self.risk(&meant, &related),
            findings: Vec::new(),
            diff: Vec::new(),
            uid: text_at(object, "/metadata/uid"),
            resource_version: text_at(object, "/metadata/resourceVersion"),
            shown: shown(object),
            request,
            outlook: Outlook::NotPlanned,
            back: change.patch().map(|patch| inverse(patch, object)),
            edit: change,
            topology,
        };
        self.seen = Some(Seen { preview, object: related.object, lists });
        Ok(findings)
    }

    async fn dry_run(&mut self) -> Result<DryRun, ActionError> {
        let executor = self.executor;
        let Some(Seen { preview, object, lists }) = &mut self.seen else { return Ok(DryRun::default()) };
        let after = ConfirmedAction::new(executor, &*preview).send(Mode::DryRun).await?;
        let diff = match &after {
            Some(after) => changed(preview, object, after)?,
            None => Vec::new(),
        };
        let asks =
            preview.request.asks_extensions || matches!(preview.request.action, Action::UpdateInPlace(_));
        let change = AfterAction {
            after: after.unwrap_or_else(|| in_deletion(executor, object)),
            made: preview.edit.made().to_vec(),
            asks_extensions: asks,
        };
        // Given away and not copied: a Cluster may have many objects.
        let lists = std::mem::replace(lists, Err(String::new()));
        preview.outlook = executor.planner().outlook(lists, object, change).await;
        let findings = match &preview.request.action {
            Action::UpdateInPlace(change) => change.finding(&preview.outlook).into_iter().collect(),
            _ => Vec::new(),
        };
        Ok(DryRun { diff, findings })
    }
}

impl<'a> ProposedAction<'a> {
    pub(super) fn new(executor: &'a Executor, request: &Request) -> Self {
        Self { executor, request: request.clone(), seen: None }
    }

    /// The object as it is, in the version that the server offers, if this user may change it.
    pub(super) async fn object(mut self) -> Result<(ObjectRef, Value), ActionError> {
        self.executor.guard.check_writable()?;
        self.rights().await?;
        let object = read(self.executor, &self.request).await?;
        Ok((self.request.target, object))
    }

    /// All of it, for the person who decides.
    pub(super) fn preview(self, looked: Looked) -> Result<Preview, ActionError> {
        let Looked { findings, diff } = looked;
        let seen = self.seen.ok_or_else(|| Refusal::Blocked("it was not looked at".to_owned()))?;
        Ok(Preview { findings, diff, ..seen.preview })
    }

    /// What it amounts to may be graver than what it is called, and is never taken for less.
    fn risk(&self, meant: &Action, related: &Related) -> Risk {
        if self.executor.connection.setting.is_production() {
            return Risk::High;
        }
        risk(&self.request.action, related).max(risk(meant, related))
    }

    /// The same request about the version that the server offers, whatever the one is that was asked about.
    async fn served(&self) -> Result<Request, ActionError> {
        let (request, connection) = (&self.request, &self.executor.connection);
        let target = &request.target;
        let found = Catalog::new(connection.client.clone());
        let gvk =
            found.resolve(&target.gvk.group, &target.gvk.kind).await.map_err(|missing| match missing {
                Missing::NotServed(why) => server(request, why),
                Missing::Unreachable(error) => server(request, explain(&error, &connection.server)),
            })?;
        Ok(Request { target: ObjectRef { gvk, ..target.clone() }, ..request.clone() })
    }

    /// What stands around an object. Without `lists`, which plans need, in whatever version it can be read.
    async fn related(&self, object: Value, lists: &Result<Lists, String>) -> Related {
        if let Ok(lists) = lists {
            return Related::among(object, lists);
        }
        let Some(cluster) = cluster_of(&object) else { return Related::alone(object) };
        let around = list_around(&self.executor.connection, &cluster).await;
        Related::among(object, &around)
    }

    /// Where the object keeps what actions change. A kind without types here must be that of a control plane.
    async fn fields(&self, object: &Value) -> Result<Fields, ActionError> {
        let Request { action, target: ObjectRef { gvk, .. }, .. } = &self.request;
        let connection = &self.executor.connection;
        if action.info().takes_every_kind() {
            return Ok(Fields::none());
        }
        if is_typed(gvk) {
            action.info().check_kind(&text_at(object, "/kind"), false)?;
            return Fields::of(object);
        }
        let is_control_plane = is_control_plane(connection, object).await;
        let is_control_plane = is_control_plane.map_err(|why| server(&self.request, why))?;
        action.info().check_kind(&gvk.kind, is_control_plane)?;
        // The schema is a request of its own, and only these actions have to know the field.
        let begins_rollout =
            matches!(action, Action::Restart | Action::RolloutAfter { .. } | Action::ClearSchedule);
        let moment = if begins_rollout { rollout_after(connection, gvk).await } else { Err(String::new()) };
        Ok(Fields::of_control_plane(moment))
    }

    /// The templates that `object` refers to, as far as they are edited.
    async fn templates(
        &self,
        object: &Value,
        parts: Vec<TemplatePart>,
    ) -> Result<Vec<(TemplatePart, Value)>, ActionError> {
        let connection = &self.executor.connection;
        let catalog = Catalog::new(connection.client.clone());
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
                    return Err(unread(explain(&error, &connection.server)));
                }
            };
            let key = ObjectKey::new(text_at(object, "/metadata/namespace"), text("name"));
            let target = ObjectRef { gvk: gvk.clone(), key, uid: String::new() };
            let read = get_value(&connection.client, &target).await;
            let read = read.map_err(|error| unread(explain(&error, &connection.server)))?;
            let mut template = read.ok_or_else(|| unread("it does not exist".to_owned()))?;
            template["apiVersion"] = gvk.api_version().into();
            template["kind"] = gvk.kind.into();
            found.push((part, template));
        }
        Ok(found)
    }

    async fn change(&self, object: &Value) -> Result<Edit, ActionError> {
        let (action, guard) = (&self.request.action, &self.executor.guard);
        let fields = self.fields(object).await?;
        if let Action::UpdateInPlace(change) = action {
            fields.check_updates_in_place()?;
            let templates = self.templates(object, change.edited_parts()).await?;
            return change.edit(&text_at(object, "/kind"), object, &templates);
        }
        if *action != Action::Undo {
            return edit(action, object, &fields, guard.clock.now());
        }
        let last =
            guard.journal.last_done(&self.executor.connection.server, &text_at(object, "/metadata/uid"));
        let last = last.map_err(|source| Refusal::Journal {
            path: guard.journal.path().display().to_string(),
            reason: source.to_string(),
        })?;
        undo(last, object)
    }

    /// The etcd, where the action may cost it a member.
    async fn look_at_etcd(&self, meant: &Action, related: &Related) -> Option<Result<Etcd, String>> {
        let reader = self.executor.etcd().filter(|_| takes_member(meant, related))?;
        let cluster = cluster_of(&related.object)?;
        // The reader takes the objects of the Cluster as types of this version.
        if self.request.target.gvk.version != VERSION {
            return Some(Err(format!("members are asked only where the server offers {VERSION}")));
        }
        Some(reader.look(&cluster).await.map(|facts| Etcd::of(&facts, None)))
    }

    /// The disruption budgets, where the action has Nodes drained.
    async fn look_at_budgets(
        &self,
        meant: &Action,
        related: &Related,
    ) -> Option<Result<Vec<HeldBudget>, String>> {
        let reader = self.executor.budgets().filter(|_| budgets::drains(meant, related))?;
        Some(reader.held(&cluster_of(&related.object)?).await)
    }

    /// The objects of the Cluster that `object` belongs to, or why they are not known.
    async fn lists(&self, object: &Value) -> Result<Lists, String> {
        let cluster = cluster_of(object)
            .ok_or_else(|| "the object does not say which Cluster it belongs to".to_owned())?;
        self.executor.planner().lists(&cluster).await
    }

    async fn check_access(&self) -> Result<(), ActionError> {
        let (request, connection) = (&self.request, &self.executor.connection);
        let target = &request.target;
        let attempt = Attempt {
            verb: request.action.info().access_verb.to_owned(),
            group: target.gvk.group.clone(),
            resource: target.gvk.plural.clone(),
            namespace: target.key.namespace.clone(),
            name: target.key.name.clone(),
            ..Attempt::default()
        };
        let access = may(&connection.client, &attempt)
            .await
            .map_err(|error| server(request, explain(&error, &connection.server)))?;
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
}

/// The Cluster that an object belongs to, where it says so.
fn cluster_of(object: &Value) -> Option<ObjectKey> {
    let name = cluster_named_by(object)?;
    Some(ObjectKey::new(text_at(object, "/metadata/namespace"), name))
}

/// As it is once it was deleted.
fn in_deletion(executor: &Executor, object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["deletionTimestamp"] = capstan_base::time::rfc3339(executor.guard.clock.now()).into();
    object
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
