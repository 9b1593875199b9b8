//! Performs the steps of a plan: writes through the one write path, calls into workload clusters, keys, events.
//! Must not decide anything.

mod event;
mod fields;
mod workload;

pub use event::Sent;
pub use fields::Unchanged;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Context, keys, status};
use crate::client::write::Part;
use crate::client::{Mode, Precondition};
use crate::engine::ReconcileError;
use capi_rules::plan::{Shown, Step, Write};
use capi_rules::status::conditions::setter;
use capi_rules::status::drain::Evictions;
use capi_types::condition::Condition;
use capi_types::key::ObjectRef;

/// What came of a plan's steps.
#[derive(Debug, Default)]
pub struct Applied {
    /// Objects as the server stored them, newest last.
    pub stored: Vec<(ObjectRef, Value)>,
    pub evictions: Evictions,
    /// What went away while the plan was made: the steps after it were not tried.
    pub gone: Option<ObjectRef>,
    pub failure: Option<Failure>,
}

/// One or more steps that failed.
#[derive(Debug)]
pub struct Failure {
    /// Where the status of the planned object shows it.
    pub shown: Option<Shown>,
    pub error: ReconcileError,
}

impl Failure {
    /// Several as one: `[first, second]`, each text once.
    fn together(mut failures: Vec<Self>) -> Option<Self> {
        let last = failures.pop()?;
        if failures.is_empty() {
            return Some(last);
        }
        let mut words: Vec<String> = Vec::new();
        for failure in failures.iter().chain([&last]) {
            let text = failure.error.to_string();
            if !words.contains(&text) {
                words.push(text);
            }
        }
        // The last one wins, since it ended the pass.
        let shown = last.shown.or_else(|| failures.iter().rev().find_map(|failure| failure.shown));
        Some(Self { shown, error: ReconcileError::failed(format!("[{}]", words.join(", "))) })
    }
}

impl Applied {
    /// The object as the last write to it left it; `None` when nothing wrote to it.
    pub fn latest<K: DeserializeOwned>(&self, object: &ObjectRef) -> Option<K> {
        let (_, value) = self.stored.iter().rfind(|(r, _)| r.gvk == object.gvk && r.key == object.key)?;
        serde_json::from_value(value.clone()).ok()
    }

    /// Where the status of the planned object shows a failure.
    pub fn shown(&self) -> Option<Shown> {
        self.failure.as_ref()?.shown
    }

    /// # Errors
    /// The failure, if there was one.
    pub fn into_result(self) -> Result<(), ReconcileError> {
        self.failure.map_or(Ok(()), |failure| Err(failure.error))
    }
}

/// Performs `steps` of the plan for `about` in order, up to the first that fails; those that are independent of
/// the others are tried all the same.
pub async fn apply(context: &Context, about: &ObjectRef, steps: &[Step]) -> Applied {
    let mut applied = Applied::default();
    let (mut failures, mut is_over) = (Vec::new(), false);
    for step in steps.iter().filter(|step| !step.writes.is_empty()) {
        if is_over && !step.on_failure.is_independent {
            continue;
        }
        log(about, step);
        match perform(context, step, &mut applied).await {
            Ok(None) => continue,
            Ok(Some(gone)) => {
                tracing::debug!(rule = step.reason.rule, "{about}: {step}: {gone} is gone");
                applied.gone = Some(gone);
            }
            Err(error) => {
                if let Some(complaint) = &step.on_failure.event {
                    let message = format!("{}: {error}", complaint.tried);
                    event::send(context, &complaint.about, true, complaint.reason, &message).await;
                }
                failures.push(Failure { shown: step.on_failure.shown, error });
            }
        }
        // An independent step that failed holds up nothing.
        is_over |= !step.on_failure.is_independent;
    }
    applied.failure = Failure::together(failures);
    applied
}

/// Steps that say what they do are few, and people follow them.
fn log(about: &ObjectRef, step: &Step) {
    if step.action.is_some() {
        tracing::info!(rule = step.reason.rule, "{about}: {step}");
    } else {
        tracing::debug!(rule = step.reason.rule, "{about}: {step}");
    }
}

/// The writes of one step, in order. `Some`: this object went away meanwhile, and the rest is moot.
async fn perform(
    context: &Context,
    step: &Step,
    applied: &mut Applied,
) -> Result<Option<ObjectRef>, ReconcileError> {
    let before = applied.stored.len();
    for write in &step.writes {
        let Err(error) = send(context, write, applied).await else { continue };
        if let Some(gone) = patched_nothing(write, &error) {
            return Ok(Some(gone.clone()));
        }
        if step.on_failure.is_undone {
            let created = applied.stored.split_off(before);
            // Last made, first taken away: later ones may refer to earlier ones.
            for (object, content) in created.iter().rev() {
                take_away(context, object, content).await;
            }
        }
        return Err(error);
    }
    Ok(None)
}

async fn send(context: &Context, write: &Write, applied: &mut Applied) -> Result<(), ReconcileError> {
    let writer = &context.writer;
    match write {
        Write::Create { object, content, manager: None } => {
            let stored = writer.create_value(object, content, Mode::Real).await?;
            applied.stored.push((object.clone(), stored));
        }
        Write::Create { object, content, manager: Some(manager) } => {
            // Applied, not created: the manager then owns the fields, and can take them away later.
            let stored = writer.apply_value(object, content, manager, &guard(object), Mode::Real).await?;
            applied.stored.push((object.clone(), stored));
        }
        Write::Apply { object, intent, manager, read, .. } => {
            let intent = fields::Intent { object, intent, manager };
            let stored = fields::apply(context, &intent, read.as_deref()).await?;
            applied.stored.extend(stored.map(|stored| (object.clone(), stored)));
        }
        Write::Handover { object, handover } => fields::hand_over(context, object, handover, applied).await?,
        Write::Patch { object, body } => {
            let stored = writer.patch_value(object, Part::Main, body, &guard(object), Mode::Real).await?;
            applied.stored.push((object.clone(), stored));
        }
        Write::PatchStatus { object, body } => {
            let stored = writer.patch_value(object, Part::Status, body, &guard(object), Mode::Real).await?;
            applied.stored.push((object.clone(), stored));
        }
        Write::MachineCondition { machine, type_, condition } => {
            turn(context, machine, type_, condition.as_deref()).await?;
        }
        Write::MachineConditions { read, conditions, owned } => {
            let mut after = read.as_ref().clone();
            let list = &mut after.status.get_or_insert_default().conditions;
            let (generation, now) = (read.metadata.generation, context.clock.now());
            conditions.iter().for_each(|condition| setter::set(list, condition.clone(), generation, now));
            status::write(context, read.as_ref(), &after, owned).await?;
        }
        Write::Delete { object } => writer.delete_value(object, &guard(object), Mode::Real).await?,
        Write::Event { about, warning, reason, message } => {
            event::send(context, about, *warning, reason, message).await;
        }
        Write::Workload { cluster, call } => workload::call(context, cluster, call, applied).await?,
        Write::NoteExpiry { cluster, node, port, config } => {
            let body = workload::expiry_note(context, cluster, node, *port).await?;
            writer.patch_value(config, Part::Main, &body, &guard(config), Mode::Real).await?;
        }
        Write::Keys { cluster, owner, call } => keys::call(context, cluster, owner, call).await?,
    }
    Ok(())
}

/// What a patch or an apply was meant for that is not there any more.
fn patched_nothing<'a>(write: &'a Write, error: &ReconcileError) -> Option<&'a ObjectRef> {
    let ReconcileError::Write(error) = error else { return None };
    match write {
        Write::Patch { object, .. } | Write::PatchStatus { object, .. } => {
            error.is_not_found().then_some(object)
        }
        // An apply that names the uid of an object that is gone is a conflict.
        Write::Apply { object, .. } => (error.is_not_found() || error.is_conflict()).then_some(object),
        _ => None,
    }
}

fn guard(object: &ObjectRef) -> Precondition {
    Precondition { uid: (!object.uid.is_empty()).then(|| object.uid.clone()), resource_version: None }
}

/// Deletes what a step created that could not be finished.
async fn take_away(context: &Context, object: &ObjectRef, content: &Value) {
    // Guarded by the uid: another object may have the name by now.
    let uid = content["metadata"]["uid"].as_str().map(str::to_owned);
    let guard = Precondition { uid, resource_version: None };
    if let Err(error) = context.writer.delete_value(object, &guard, Mode::Real).await {
        tracing::warn!("{object} is left behind by a step that could not be finished: {error}");
    }
}

/// Sets or removes one condition of a Machine, over what others have written since it was read.
async fn turn(
    context: &Context,
    machine: &ObjectRef,
    type_: &str,
    new: Option<&Condition>,
) -> Result<(), ReconcileError> {
    let Some(before) = context.caches.machines.get(&machine.key) else { return Ok(()) };
    let mut after = (*before).clone();
    let list = &mut after.status.get_or_insert_default().conditions;
    match new {
        Some(condition) => {
            let generation = before.metadata.generation;
            setter::set(list, condition.clone(), generation, context.clock.now());
        }
        None => setter::remove(list, type_),
    }
    status::write(context, &*before, &after, &[type_]).await?;
    Ok(())
}
