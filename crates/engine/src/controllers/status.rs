//! The deferred status write: only what this controller owns, rebased on what others wrote meanwhile.
//! Owns the retry; must not know what a status means.
//! Source: cluster-api `util/patch/patch.go`, v1.14.2.

use serde_json::{Value, json};

use super::Context;
use crate::client::write::Part;
use crate::client::{Mode, Object, Precondition, WriteError, get};
use capi_rules::status::conditions::patch::ConditionPatch;
use capi_types::condition::{Condition, Conditioned};
use capi_types::key::ObjectRef;
use k8s_machinery::merge::merge_diff;

/// Conflicts that are answered by reading again.
const ATTEMPTS: usize = 5;

/// What became of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Written,
    /// The server has it already.
    Unchanged,
    Gone,
}

/// Writes the difference between the statuses of `before` and `after` as one merge patch. Conditions
/// that did not change stay as the server has them, and so does every other field; of those that did,
/// others are overruled only for types in `owned`. `before` is what was read (or what the last own
/// write returned).
///
/// # Errors
/// When the server refuses, or when others kept changing the object.
pub async fn write<K: Object + Conditioned>(
    context: &Context,
    before: &K,
    after: &K,
    owned: &[&str],
) -> Result<Outcome, WriteError> {
    let target = ObjectRef::of(before);
    let mut latest = before.clone();
    // Worked out once: the difference is what this controller means, over whatever others write.
    let fields = merge_diff(&status_without_conditions(before), &status_without_conditions(after));
    let changes = ConditionPatch::between(before.conditions(), after.conditions());
    for attempt in 1.. {
        let conditions = match changes.apply(latest.conditions(), owned) {
            Ok(conditions) => conditions,
            Err(conflict) => {
                let what = target.to_string();
                return Err(WriteError::Overtaken { what, cause: conflict.to_string() });
            }
        };
        let Some(patch) = status_patch(fields.as_ref(), latest.conditions(), &conditions) else {
            return Ok(Outcome::Unchanged);
        };
        // Conditions are one list, which a merge patch replaces:
        // without the version others' would be lost.
        let guard = Precondition::unchanged(&latest);
        match context.writer.patch_unseen(&target, Part::Status, &patch, &guard, Mode::Real).await {
            Ok(()) => return Ok(Outcome::Written),
            Err(error) if error.is_not_found() => return Ok(Outcome::Gone),
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                match get::<K>(context.writer.client(), &target.key).await {
                    Ok(Some(fresh)) if fresh.meta().uid == before.meta().uid => latest = fresh,
                    // Another uid is another object: this status is not about it.
                    Ok(_) => return Ok(Outcome::Gone),
                    Err(_) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Outcome::Unchanged)
}

fn status_without_conditions<K: Object>(object: &K) -> Value {
    let mut status = serde_json::to_value(object).map_or(Value::Null, |mut value| value["status"].take());
    match status.as_object_mut() {
        Some(map) => {
            map.remove("conditions");
            status
        }
        None => json!({}),
    }
}

fn status_patch(fields: Option<&Value>, stored: &[Condition], conditions: &[Condition]) -> Option<Value> {
    let mut status = fields.cloned().unwrap_or_else(|| json!({}));
    if stored != conditions {
        status["conditions"] = json!(conditions);
    }
    let changed = status.as_object().is_some_and(|map| !map.is_empty());
    changed.then(|| json!({ "status": status }))
}
