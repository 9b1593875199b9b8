//! Deletes the clones of Machines that were never created. Owns finding and deleting them; must not
//! decide which those are, `plan::sweep` does.

use std::time::Duration;

use super::Context;
use super::status::Outcome;
use crate::api::key::{ObjectKey, ObjectRef};
use crate::api::machine::Machine;
use crate::client::{Cache, Mode, Object, Precondition, get};
use crate::engine::ReconcileError;
use crate::plan::sweep::{Candidate, Unused, sweep};

/// [`run`], when the status of `creator` did not change and it is not being deleted. A status that was
/// written brings another run soon, and while much happens, clones can wait: looking for them takes a walk
/// over all of the namespace.
///
/// # Errors
/// Of [`run`].
pub async fn at_rest<K: Object>(
    context: &Context,
    creator: &K,
    reported: Outcome,
) -> Result<Option<Duration>, ReconcileError> {
    if reported != Outcome::Unchanged || creator.meta().deletion_timestamp.is_some() {
        return Ok(None);
    }
    run(context, creator).await
}

/// Deletes what `creator` cloned and nobody uses. Answers when to look again, if something may be
/// unused then. Reads the caches; asks the server only about what is to be deleted.
///
/// # Errors
/// When the server refuses; an object that changed is left for the next time.
pub async fn run<K: Object>(context: &Context, creator: &K) -> Result<Option<Duration>, ReconcileError> {
    let caches = &context.caches;
    let creator = ObjectRef::of(creator);
    let mut candidates = owned_by(&caches.kubeadm_configs, &creator);
    candidates.extend(owned_by(&caches.dev_machines, &creator));
    if candidates.is_empty() {
        return Ok(None);
    }
    let machines = caches.machines.in_namespace(&creator.key.namespace);
    let plan = sweep(&creator, candidates, &machines, context.clock.now());
    for unused in &plan.steps {
        delete(context, unused).await?;
    }
    Ok(plan.recheck)
}

/// A few at most: a Machine takes over its own within moments.
fn owned_by<K: Object>(cache: &Cache<K>, creator: &ObjectRef) -> Vec<Candidate> {
    let is_owned =
        |object: &K| object.meta().owner_references.iter().flatten().any(|owner| owner.uid == creator.uid);
    let found = cache.select(&creator.key.namespace, is_owned);
    let candidate = |object: &K| Candidate { object: ObjectRef::of(object), metadata: object.meta().clone() };
    found.iter().map(|object| candidate(object)).collect()
}

async fn delete(context: &Context, unused: &Unused) -> Result<(), ReconcileError> {
    let target = &unused.candidate.object;
    // The copy of the Machines may be behind that of the clones. A Machine has the name of its clones.
    let machine = ObjectKey::new(&target.key.namespace, &target.key.name);
    if get::<Machine>(context.writer.client(), &machine).await?.is_some() {
        return Ok(());
    }
    tracing::info!(rule = unused.reason.rule, "{unused}");
    let guard = Precondition {
        uid: Some(target.uid.clone()),
        resource_version: unused.candidate.metadata.resource_version.clone(),
    };
    match context.writer.delete_value(target, &guard, Mode::Real).await {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(()),
    }
}
