//! Where actions are asked for: access review → preflight → server-side dry run → preview, and after
//! the person's yes → journal → guarded write → journal. Owns the order; the rules are in `preflight`,
//! the change in `edit`.

use serde_json::{Value, json};

use super::diff::diff;
use super::edit::{Edit, edit};
use super::journal::{Entry, Journal, stamp};
use super::preflight::{self, Surroundings};
use super::{Action, ActionError, Outlook, Planner, Preview, Report, Request, Risk};
use crate::api::key::{Gvk, ObjectKey, ObjectRef};
use crate::api::names::{self, label};
use crate::client::access::{Attempt, may};
use crate::client::read::{get_value, list_values};
use crate::client::write::Part;
use crate::client::{Connection, Mode, Precondition, WriteError, Writer, explain};
use crate::time::Clock;

/// Conflicts with writers of the status that are answered by reading again.
const ATTEMPTS: usize = 10;

/// The field manager of what people do through capstan.
const FIELD_MANAGER: &str = "capstan";

/// Asks for and performs actions on one server. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    connection: Connection,
    writer: Writer,
    journal: Journal,
    clock: Clock,
    user: String,
    planner: Planner,
}

impl Desk {
    /// `user` is who stands in the journal: the operating system's name for the person.
    #[must_use]
    pub fn new(connection: Connection, journal: Journal, clock: Clock, user: String) -> Self {
        let writer = Writer::new(connection.client.clone(), FIELD_MANAGER);
        let planner = Planner::new(connection.clone(), clock.clone());
        Self { connection, writer, journal, clock, user, planner }
    }

    /// What happens next on this server.
    #[must_use]
    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// True when no action can succeed here.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.connection.read_only
    }

    /// Everything a person must see before saying yes. Writes nothing.
    ///
    /// # Errors
    /// [`ActionError`]: no right, refused, gone, or the server said no to the dry run.
    pub async fn preview(&self, request: &Request) -> Result<Preview, ActionError> {
        if self.is_read_only() {
            return Err(ActionError::ReadOnly);
        }
        self.check_access(request).await?;
        let object = self.read(request).await?;
        let change = edit(&request.action, &object, self.clock.now())?;
        let around = self.surroundings(object).await;
        let findings = preflight::findings(&request.action, &around, self.clock.now());
        let mut preview = Preview {
            summary: preflight::summary(&request.action, &around),
            risk: preflight::risk(&request.action, &around),
            diff: Vec::new(),
            uid: text_at(&around.object, "/metadata/uid"),
            resource_version: text_at(&around.object, "/metadata/resourceVersion"),
            shown: shown(&around.object),
            request: request.clone(),
            findings,
            outlook: Outlook::NotPlanned,
            edit: change,
        };
        if preview.is_allowed() {
            let after = self.send(&preview, Mode::DryRun).await?;
            if let Some(after) = &after {
                preview.diff = diff(&around.object, after);
            }
            let after = after.unwrap_or_else(|| self.in_deletion(&around.object));
            preview.outlook = self.planner.outlook(&around.object, after).await;
        }
        Ok(preview)
    }

    /// Does what was previewed, guarded by the uid and resourceVersion that were shown.
    ///
    /// # Errors
    /// [`ActionError`]; `Stale` when the object changed in the meantime.
    pub async fn perform(&self, preview: &Preview) -> Result<Report, ActionError> {
        if self.is_read_only() {
            return Err(ActionError::ReadOnly);
        }
        if !preview.is_allowed() {
            let reasons: Vec<&str> = preview.findings.iter().map(|f| f.text.as_str()).collect();
            return Err(ActionError::Refused(reasons.join("; ")));
        }
        self.write_down(preview, "asked", None)?;
        let outcome = self.send(preview, Mode::Real).await;
        match &outcome {
            Ok(_) => self.write_down(preview, "done", None)?,
            // The first error matters more than one about the journal.
            Err(error) => drop(self.write_down(preview, "failed", Some(&error.to_string()))),
        }
        let after = outcome?.unwrap_or_default();
        let target = &preview.request.target;
        Ok(Report {
            text: format!("{} {}: {}", target.gvk.kind, target.key, done_words(&preview.request.action)),
            resource_version: text_at(&after, "/metadata/resourceVersion"),
        })
    }

    fn in_deletion(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["metadata"]["deletionTimestamp"] = crate::time::rfc3339(self.clock.now()).into();
        object
    }

    async fn check_access(&self, request: &Request) -> Result<(), ActionError> {
        let target = &request.target;
        let attempt = Attempt {
            verb: request.action.verb().to_owned(),
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
        Err(ActionError::Forbidden { verb: request.action.verb(), target: target.to_string(), reason })
    }

    async fn read(&self, request: &Request) -> Result<Value, ActionError> {
        let target = &request.target;
        let gone = || ActionError::Gone { target: target.to_string() };
        let object = get_value(&self.connection.client, target)
            .await
            .map_err(|error| server(request, explain(&error, &self.connection.server)))?
            .ok_or_else(gone)?;
        if !target.uid.is_empty() && object["metadata"]["uid"] != target.uid.as_str() {
            return Err(gone());
        }
        Ok(object)
    }

    /// What stands around the object. What cannot be read stays `None`; preflight says so.
    async fn surroundings(&self, object: Value) -> Surroundings {
        let namespace = text_at(&object, "/metadata/namespace");
        let is_cluster = object["kind"] == "Cluster";
        let cluster_name = if is_cluster {
            text_at(&object, "/metadata/name")
        } else {
            text_at(&object, "/spec/clusterName")
        };
        let cluster_name = if cluster_name.is_empty() {
            object["metadata"]["labels"][label::CLUSTER_NAME].as_str().unwrap_or_default().to_owned()
        } else {
            cluster_name
        };
        let client = &self.connection.client;
        let cluster = if is_cluster {
            Some(object.clone())
        } else {
            get_value(client, &core("Cluster", "clusters", &namespace, &cluster_name)).await.ok().flatten()
        };
        let selector = format!("{}={cluster_name}", label::CLUSTER_NAME);
        let machines = core("Machine", "machines", &namespace, "");
        let machines = list_values(client, &machines.gvk, &namespace, &selector).await.ok();
        let owner = match control_plane_owner(&object, &namespace) {
            Some(owner) => get_value(client, &owner).await.ok().flatten(),
            None => None,
        };
        Surroundings { object, cluster, machines, owner }
    }

    /// Sends what was previewed. A conflict is answered by reading again: when only the status moved
    /// on, what the person saw still holds, and the newer version is named instead.
    async fn send(&self, preview: &Preview, mode: Mode) -> Result<Option<Value>, ActionError> {
        let target = &preview.request.target;
        let mut version = preview.resource_version.clone();
        for attempt in 1.. {
            let precondition = Precondition {
                uid: Some(preview.uid.clone()).filter(|uid| !uid.is_empty()),
                resource_version: Some(version.clone()).filter(|version| !version.is_empty()),
            };
            let answer = match &preview.edit {
                Edit::Patch(patch) => {
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

    fn refusal(&self, request: &Request, error: &WriteError) -> ActionError {
        let target = request.target.to_string();
        match error {
            e if e.is_conflict() => ActionError::Stale { target },
            e if e.is_not_found() => ActionError::Gone { target },
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
            action: preview.request.action.name(),
            kind: &target.gvk.kind,
            namespace: &target.key.namespace,
            name: &target.key.name,
            uid: &preview.uid,
            seen: &preview.resource_version,
            patch: match &preview.edit {
                Edit::Patch(patch) => Some(patch),
                Edit::Delete => None,
            },
            error,
        };
        self.journal.append(&entry).map_err(|source| ActionError::Journal {
            path: self.journal.path().display().to_string(),
            reason: source.to_string(),
        })
    }
}

/// Whether a typed name, or one key, is a yes in proportion to `risk`.
#[must_use]
pub fn is_confirmed(risk: Risk, typed: &str, name: &str) -> bool {
    match risk {
        Risk::Low | Risk::Medium => matches!(typed.trim(), "y" | "yes"),
        Risk::High => typed.trim() == name,
    }
}

fn done_words(action: &Action) -> String {
    match action {
        Action::Scale { replicas } => format!("scaled to {replicas}"),
        Action::Restart => "rollout begun".to_owned(),
        Action::RolloutAfter { at } => format!("rollout scheduled for {}", crate::time::rfc3339(*at)),
        Action::SetVersion { version } => format!("version set to {version}"),
        Action::Pause => "paused".to_owned(),
        Action::Resume => "resumed".to_owned(),
        Action::Delete => "deletion begun".to_owned(),
    }
}

fn server(request: &Request, reason: String) -> ActionError {
    ActionError::Server { action: request.action.name(), target: request.target.to_string(), reason }
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

fn core(kind: &str, plural: &str, namespace: &str, name: &str) -> ObjectRef {
    reference(names::CORE_GROUP, kind, plural, namespace, name)
}

fn reference(group: &str, kind: &str, plural: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef {
        gvk: Gvk {
            group: group.to_owned(),
            version: names::VERSION.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced: true,
        },
        key: ObjectKey::new(namespace, name),
        uid: String::new(),
    }
}

/// The KubeadmControlPlane that controls a Machine: it tells stacked from external etcd.
fn control_plane_owner(object: &Value, namespace: &str) -> Option<ObjectRef> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|o| o["controller"] == true && o["kind"] == "KubeadmControlPlane")?;
    let name = owner["name"].as_str()?;
    Some(reference(
        names::CONTROL_PLANE_GROUP,
        "KubeadmControlPlane",
        "kubeadmcontrolplanes",
        namespace,
        name,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_risk_wants_the_name() {
        assert!(is_confirmed(Risk::Medium, "y\n", "cp"));
        assert!(!is_confirmed(Risk::High, "y", "cp"));
        assert!(is_confirmed(Risk::High, "cp\n", "cp"));
    }
}
