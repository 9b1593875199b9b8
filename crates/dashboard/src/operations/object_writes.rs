//! Objects that are made, patched or deleted together. Owns what is asked and tried before, and the writes with what was read as their
//! precondition. Which objects, and why, is the caller's.

use async_trait::async_trait;
use serde_json::Value;

use super::Finding;
use super::diff::diff;
use super::guard::{Confirmed, DryRun, Proposed, Refusal};
use super::journal::About;
use capi_types::key::ObjectRef;
use capstan_engine::client::access::{Attempt, may};
use capstan_engine::client::read::get_value;
use capstan_engine::client::write::{Part, WriteError};
use capstan_engine::client::{Client, Mode, Precondition, Writer, explain};

/// The field manager of what is written.
const MANAGER: &str = "capstan";

/// Why objects cannot be written, in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum ObjectWriteError {
    #[error(transparent)]
    Refusal(#[from] Refusal),
    #[error("{0}")]
    Read(String),
    #[error("{0} was changed by somebody else since it was read: nothing more is written; look again")]
    Changed(ObjectRef),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What becomes of an object.
#[derive(Clone, Debug)]
pub enum Write {
    /// Made; one of its name must not be there.
    Create(Value),
    /// Made, or brought to this content.
    Apply(Value),
    Patch {
        patch: Value,
        inverse: Value,
    },
    Delete,
}

/// One object, as it was read.
#[derive(Clone, Debug)]
struct ObjectWrite {
    target: ObjectRef,
    write: Write,
    /// `None`: it is not there.
    before: Option<Value>,
}

/// Objects to write, with what was read of each.
pub struct ObjectWrites<'a> {
    writer: Writer,
    server: &'a str,
    /// The command's name, for the journal.
    action: &'a str,
    writes: Vec<ObjectWrite>,
}

impl<'a> ObjectWrites<'a> {
    /// Reads the objects. `None`: nothing is left to write.
    ///
    /// # Errors
    /// [`ObjectWriteError::Read`].
    pub async fn read(
        (client, server): (&Client, &'a str),
        action: &'a str,
        wanted: Vec<(ObjectRef, Write)>,
    ) -> Result<Option<Self>, ObjectWriteError> {
        let mut writes = Vec::new();
        for (target, write) in wanted {
            let before = get_value(client, &target).await;
            let before = before.map_err(|error| ObjectWriteError::Read(explain(&error, server)))?;
            writes.push(ObjectWrite { target, write, before });
        }
        // A deletion of what is not there is done already.
        writes.retain(|write| !matches!((&write.write, &write.before), (Write::Delete, None)));
        let step = Self { writer: Writer::new(client.clone(), MANAGER), server, action, writes };
        Ok((!step.writes.is_empty()).then_some(step))
    }

    /// Would it change anything? Asked of the server.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn changes(&self) -> Result<bool, ObjectWriteError> {
        for write in &self.writes {
            let after = self.send(write, Mode::DryRun).await?;
            if !diff(&before(write), &after).is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Its objects, for people.
    pub fn objects(&self) -> Vec<String> {
        self.writes.iter().map(|write| write.target.to_string()).collect()
    }

    /// The object as it is afterwards: `null` when it is gone.
    async fn send(&self, write: &ObjectWrite, mode: Mode) -> Result<Value, ObjectWriteError> {
        let ObjectWrite { target, .. } = write;
        // A status may change at any moment: only the write asks for what was read.
        let seen = if mode == Mode::DryRun { Precondition::default() } else { seen(write) };
        let sent = match &write.write {
            Write::Create(content) => self.writer.create_value(target, content, mode).await,
            Write::Apply(content) if write.before.is_none() => {
                // Created, not applied: what somebody makes meanwhile is not taken over.
                self.writer.create_value(target, content, mode).await
            }
            Write::Apply(content) => self.writer.apply_value(target, content, MANAGER, &seen, mode).await,
            Write::Patch { patch, .. } => {
                self.writer.patch_value(target, Part::Main, patch, &seen, mode).await
            }
            Write::Delete => self.writer.delete_value(target, &seen, mode).await.map(|()| Value::Null),
        };
        sent.map_err(|error| match error {
            error if error.is_conflict() => ObjectWriteError::Changed(target.clone()),
            error => error.into(),
        })
    }
}

fn before(write: &ObjectWrite) -> Value {
    write.before.clone().unwrap_or_default()
}

/// As it was read.
fn seen(write: &ObjectWrite) -> Precondition {
    let text = |field: &str| {
        let metadata = write.before.as_ref().map(|object| &object["metadata"][field]);
        metadata.and_then(Value::as_str).map(str::to_owned)
    };
    Precondition { uid: text("uid"), resource_version: text("resourceVersion") }
}

#[async_trait]
impl Proposed for ObjectWrites<'_> {
    type Error = ObjectWriteError;

    async fn rights(&mut self) -> Result<Vec<Finding>, ObjectWriteError> {
        let mut missing = Vec::new();
        for write in &self.writes {
            let verb = match (&write.write, &write.before) {
                (Write::Create(_), _) | (Write::Apply(_), None) => "create",
                (Write::Apply(_) | Write::Patch { .. }, _) => "patch",
                (Write::Delete, _) => "delete",
            };
            let ObjectRef { gvk, key, .. } = &write.target;
            // A right to create cannot be limited to a name.
            let name = if verb == "create" { String::new() } else { key.name.clone() };
            let attempt = Attempt {
                verb: verb.to_owned(),
                group: gvk.group.clone(),
                resource: gvk.plural.clone(),
                namespace: key.namespace.clone(),
                name,
                ..Attempt::default()
            };
            // A server that does not answer such questions counts as allowing.
            let access = may(self.writer.client(), &attempt).await;
            if access.is_ok_and(|access| !access.allowed) {
                let text =
                    format!("missing right: {verb} {} in {} at {}", gvk.plural, key.namespace, self.server);
                missing.push(Finding::blocker("missing-right", text));
            }
        }
        Ok(missing)
    }

    async fn preflight(&mut self) -> Result<Vec<Finding>, ObjectWriteError> {
        let is_taken = |it: &&ObjectWrite| matches!(it.write, Write::Create(_)) && it.before.is_some();
        let taken = self.writes.iter().filter(is_taken);
        Ok(taken.map(|it| Finding::blocker("exists", format!("{} is there already", it.target))).collect())
    }

    async fn dry_run(&mut self) -> Result<DryRun, ObjectWriteError> {
        let mut shown = DryRun::default();
        for write in &self.writes {
            match self.send(write, Mode::DryRun).await {
                Ok(after) => shown.diff.extend(diff(&before(write), &after)),
                Err(error) => shown.findings.push(Finding::blocker("dry-run", error.to_string())),
            }
        }
        Ok(shown)
    }
}

#[async_trait]
impl Confirmed for ObjectWrites<'_> {
    type Written = ();
    type Error = ObjectWriteError;

    /// The first object, with the others as made.
    fn about(&self) -> About<'_> {
        let Some(first) = self.writes.first() else { return About::default() };
        let ObjectRef { gvk, key, .. } = &first.target;
        let metadata = |field: &str| {
            let value = first.before.as_ref().map(|object| &object["metadata"][field]);
            value.and_then(Value::as_str).unwrap_or_default()
        };
        let (patch, back) = match &first.write {
            Write::Patch { patch, inverse } => (Some(patch), Some(inverse)),
            Write::Create(content) | Write::Apply(content) => (Some(content), None),
            Write::Delete => (None, None),
        };
        let others = self.writes.iter().skip(1).map(|write| &write.target);
        About {
            server: self.server,
            action: self.action,
            api_version: gvk.api_version(),
            kind: &gvk.kind,
            namespace: &key.namespace,
            name: &key.name,
            uid: metadata("uid"),
            seen: metadata("resourceVersion"),
            patch,
            back,
            made: others.map(|other| format!("{}/{}", other.gvk.kind, other.key.name)).collect(),
        }
    }

    async fn write(&mut self) -> Result<(), ObjectWriteError> {
        for write in &self.writes {
            self.send(write, Mode::Real).await?;
        }
        Ok(())
    }
}
