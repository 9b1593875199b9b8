//! An action after it was confirmed: what is sent of it, guarded by what was shown, and the look whether it is there. Owns how
//! conflicts are answered.

use async_trait::async_trait;
use serde_json::Value;

use super::edit::Edit;
use super::fields::lost;
use super::sent::{read, server, shown, text_at};
use super::{ActionError, Executor, Preview, Report};
use crate::operations::guard::Confirmed;
use crate::operations::journal::About;
use crate::operations::without_secrets;
use capi_rules::status::contract::reference_to;
use capstan_engine::client::read::get_value;
use capstan_engine::client::write::Part;
use capstan_engine::client::{Mode, Precondition, WriteError, explain};

/// Conflicts with writers of the status that are answered by reading again.
const ATTEMPTS: usize = 10;

pub(super) struct ConfirmedAction<'a> {
    executor: &'a Executor,
    preview: &'a Preview,
    /// The patch and the one that takes it back, as the journal may have them.
    noted: (Option<Value>, Option<Value>),
}

#[async_trait]
impl Confirmed for ConfirmedAction<'_> {
    type Written = Report;
    type Error = ActionError;

    fn about(&self) -> About<'_> {
        let preview = self.preview;
        let target = &preview.request.target;
        About {
            server: &self.executor.connection.server,
            action: preview.request.action.info().name,
            api_version: target.gvk.api_version(),
            kind: &target.gvk.kind,
            namespace: &target.key.namespace,
            name: &target.key.name,
            uid: &preview.uid,
            seen: &preview.resource_version,
            patch: self.noted.0.as_ref(),
            back: self.noted.1.as_ref(),
            made: preview.edit.made().iter().map(|made| reference_to(made).to_string()).collect(),
        }
    }

    /// Writes, then looks for what was written: in the answer, and in what is read afterwards as far as that can be read.
    async fn write(&mut self) -> Result<Report, ActionError> {
        let (preview, request) = (self.preview, &self.preview.request);
        let after = self.send(Mode::Real).await?;
        // The write was accepted: that the object cannot be read afterwards is not a failure of it.
        let fresh = get_value(&self.executor.connection.client, &request.target).await.ok().flatten();
        // Another object under the same name shows nothing about this write.
        let fresh = fresh.filter(|fresh| fresh["metadata"]["uid"] == preview.uid.as_str());
        let field = match (preview.edit.patch(), &fresh) {
            // The answer shows what the server took away, the later read what others set back
            // since.
            (Some(patch), _) => after.iter().chain(&fresh).find_map(|stored| lost(patch, stored)),
            (None, Some(there)) if there["metadata"]["deletionTimestamp"].is_null() => {
                Some("metadata.deletionTimestamp".to_owned())
            }
            (None, _) => None,
        };
        let target = &request.target;
        if let Some(field) = field {
            let (action, target) = (request.action.info().name, target.to_string());
            return Err(ActionError::NotKept { action, target, field });
        }
        Ok(Report {
            text: format!("{} {}: {}", target.gvk.kind, target.key, request.action.done()),
            resource_version: text_at(&after.unwrap_or_default(), "/metadata/resourceVersion"),
        })
    }
}

impl<'a> ConfirmedAction<'a> {
    pub(super) fn new(executor: &'a Executor, preview: &'a Preview) -> Self {
        let kind = &preview.request.target.gvk.kind;
        let noted = preview.edit.patch().map(|patch| without_secrets(kind, patch));
        let back = preview.back.as_ref().map(|back| without_secrets(kind, back));
        // What is not known any more cannot be put back.
        let is_whole = noted.as_ref().is_none_or(|(_, is_whole)| *is_whole);
        let back = back.filter(|(_, back_is_whole)| is_whole && *back_is_whole);
        Self { executor, preview, noted: (noted.map(|(patch, _)| patch), back.map(|(back, _)| back)) }
    }

    /// Sends what was previewed. After a conflict the object is read again: when only its status has changed, the
    /// preview still holds, and the newer version is the precondition.
    pub(super) async fn send(&self, mode: Mode) -> Result<Option<Value>, ActionError> {
        let (preview, writer) = (self.preview, &self.executor.writer);
        let target = &preview.request.target;
        let mut version = preview.resource_version.clone();
        // The patch refers to these objects, so they have to be there before it.
        for made in preview.edit.made() {
            self.make(made, mode).await?;
        }
        for attempt in 1.. {
            let precondition = Precondition {
                uid: Some(preview.uid.clone()).filter(|uid| !uid.is_empty()),
                resource_version: Some(version.clone()).filter(|version| !version.is_empty()),
            };
            let answer = match &preview.edit {
                Edit::Patch(patch) | Edit::PatchAfter { patch, .. } => {
                    writer.patch_value(target, Part::Main, patch, &precondition, mode).await.map(Some)
                }
                Edit::Delete => writer.delete_value(target, &precondition, mode).await.map(|()| None),
            };
            match answer {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                    let fresh = read(self.executor, &preview.request).await?;
                    // A person confirmed what was shown: a change of that is not written over.
                    if shown(&fresh) != preview.shown {
                        return Err(ActionError::Stale { target: target.to_string() });
                    }
                    version = text_at(&fresh, "/metadata/resourceVersion");
                }
                other => return other.map_err(|error| self.refusal(&error)),
            }
        }
        Err(ActionError::Stale { target: target.to_string() })
    }

    /// One that is there already with the same spec was made by an attempt before.
    async fn make(&self, object: &Value, mode: Mode) -> Result<(), ActionError> {
        let (request, connection) = (&self.preview.request, &self.executor.connection);
        let target = reference_to(object);
        match self.executor.writer.create_value(&target, object, mode).await {
            Ok(_) => Ok(()),
            Err(error) if error.already_exists() => {
                let there = get_value(&connection.client, &target).await;
                let there = there
                    .map_err(|error| server(request, explain(&error, &connection.server)))?
                    .unwrap_or_default();
                // The name follows from the content, so that a retry meets the template of the
                // attempt before.
                if there["spec"] == object["spec"] {
                    return Ok(());
                }
                Err(server(request, format!("{target} exists already and is another one")))
            }
            Err(error) => Err(self.refusal(&error)),
        }
    }

    fn refusal(&self, error: &WriteError) -> ActionError {
        let (request, connection) = (&self.preview.request, &self.executor.connection);
        let target = request.target.to_string();
        match error {
            e if e.is_conflict() => ActionError::Stale { target },
            e if e.is_not_found() => ActionError::Gone { target },
            e if let Some(unknown) = unknown_fields(&e.message()) => {
                let version = &request.target.gvk.version;
                server(request, format!("{version} has not all that would be written there: {unknown}"))
            }
            WriteError::Refused { source, .. } => server(request, explain(source, &connection.server)),
            other => server(request, other.to_string()),
        }
    }
}

/// Which fields a strict server does not know. The rest of its sentence is the whole object.
fn unknown_fields(message: &str) -> Option<String> {
    message.split_once("strict decoding error: ").map(|(_, fields)| fields.to_owned())
}
