//! Server-side applies and what precedes the first of them. Owns the retry, and the memory of applies that changed
//! nothing; must not decide what is applied.
//! Source: cluster-api `internal/util/ssa` (`cache.go`, `patch.go`, `managedfields.go`), v1.14.2.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Applied, Context, guard};
use crate::client::errors::chain;
use crate::client::read::get_value;
use crate::client::write::Part;
use crate::client::{Mode, Precondition};
use crate::engine::ReconcileError;
use capi_types::key::ObjectRef;
use capi_types::managed_fields::Handover;

/// Objects that are remembered at most: few have values that a server turns into others.
const REMEMBERED_MAX: usize = 10_000;
/// Handovers that lose a race are tried again; the next pass has another go.
const ATTEMPTS: usize = 3;

/// One manager's wish for one object.
pub struct Intent<'a> {
    pub object: &'a ObjectRef,
    pub intent: &'a Value,
    pub manager: &'static str,
}

/// Applies that changed nothing although they looked due, such as those with a value that the server turns into
/// another: not sent again before the object or the intent changes. Cheap to clone.
#[derive(Clone, Default)]
pub struct Unchanged(Arc<Mutex<HashMap<(ObjectRef, &'static str), (String, u64)>>>);

impl Unchanged {
    fn holds(&self, intent: &Intent<'_>, version: &str) -> bool {
        let known = self.0.lock();
        let known = known.get(&(intent.object.clone(), intent.manager));
        known.is_some_and(|(seen, hash)| seen == version && *hash == hash_of(intent.intent))
    }

    fn remember(&self, intent: &Intent<'_>, version: &str) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert((intent.object.clone(), intent.manager), (version.to_owned(), hash_of(intent.intent)));
    }
}

fn hash_of(intent: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    intent.to_string().hash(&mut hasher);
    hasher.finish()
}

/// What the server stored; `None` when it is known that nothing would change. `read` is the resourceVersion that
/// the intent was compared with.
pub async fn apply(
    context: &Context,
    intent: &Intent<'_>,
    read: Option<&str>,
) -> Result<Option<Value>, ReconcileError> {
    if read.is_some_and(|version| context.unchanged.holds(intent, version)) {
        return Ok(None);
    }
    let (object, writer) = (intent.object, &context.writer);
    let stored =
        writer.apply_value(object, intent.intent, intent.manager, &guard(object), Mode::Real).await?;
    // An apply without an effect leaves the version: a value that
    // the server turns into another looks due in every pass.
    if let (Some(before), Some(after)) = (read, stored["metadata"]["resourceVersion"].as_str())
        && before == after
    {
        context.unchanged.remember(intent, after);
    }
    Ok(Some(stored))
}

/// Guarded by the resourceVersion, for the list of owners is replaced as a whole. One that is lost to others'
/// writes is left to the next pass.
pub async fn hand_over(
    context: &Context,
    object: &ObjectRef,
    handover: &Handover,
    applied: &mut Applied,
) -> Result<(), ReconcileError> {
    // What this pass stored is newer than any copy, and saves a read.
    let own = applied.stored.iter().rposition(|(r, _)| r.gvk == object.gvk && r.key == object.key);
    let mut at_hand = own.and_then(|at| applied.stored.get(at)).map(|(_, stored)| stored.clone());
    for _ in 0..ATTEMPTS {
        let live = match at_hand.take() {
            Some(live) => live,
            None => match get_value(context.writer.client(), object).await {
                Ok(Some(live)) => live,
                Ok(None) => return Ok(()),
                Err(error) => {
                    let why = format!("{object} cannot be read: {}", chain(&error));
                    return Err(ReconcileError::failed(why));
                }
            },
        };
        let Some(entries) = handover.of(&live) else { return Ok(()) };
        let text = |field: &str| live["metadata"][field].as_str().map(str::to_owned);
        let unchanged = Precondition { uid: text("uid"), resource_version: text("resourceVersion") };
        let body = json!({ "metadata": { "managedFields": entries } });
        match context.writer.patch_value(object, Part::Main, &body, &unchanged, Mode::Real).await {
            Ok(stored) => {
                // Later steps and the status begin from it, with its new version.
                if let Some((_, held)) = own.and_then(|at| applied.stored.get_mut(at)) {
                    *held = stored;
                }
                return Ok(());
            }
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
    tracing::debug!("{object}: its fields are handed over with the next pass, others are writing");
    Ok(())
}
