//! Deletes the clones of Machines that were never created. Owns finding and deleting them; must not
//! decide which those are, `plan::sweep` does.

use std::time::Duration;

use super::external::{Reader, owned};
use super::status::Outcome;
use super::{Context, cluster_key_of};
use crate::client::{Cache, Mode, Object, Precondition, get};
use crate::engine::ReconcileError;
use capi_rules::plan::sweep::{Candidate, Unused, sweep};
use capi_types::bootstrap::KubeadmConfig;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::names::CONTROL_PLANE_GROUP;
use capi_types::reference::ContractRef;

/// [`run`], when the status of `creator` did not change and it is not being deleted. A status that was
/// written brings another run soon, and while much happens, clones can wait: looking for them takes a walk
/// over all of the Cluster.
///
/// # Errors
/// Of [`run`].
pub async fn at_rest<K: Object>(
    context: &Context,
    creator: &K,
    templates: [Option<&ContractRef>; 2],
    reported: Outcome,
) -> Result<Option<Duration>, ReconcileError> {
    // What an owner in deletion made is collected with it.
    if reported != Outcome::Unchanged || creator.meta().deletion_timestamp.is_some() {
        return Ok(None);
    }
    run(context, creator, templates).await
}

/// Deletes what `creator` cloned from templates of these kinds, or wrote, and no object uses. Answers when to look
/// again, if something may be unused then. Reads the caches; asks the server only about what is to be deleted.
///
/// # Errors
/// When the server refuses; an object that changed is left for the next time.
pub async fn run<K: Object>(
    context: &Context,
    creator: &K,
    templates: [Option<&ContractRef>; 2],
) -> Result<Option<Duration>, ReconcileError> {
    let caches = &context.caches;
    let cluster = cluster_key_of(creator);
    let creator = ObjectRef::of(creator);
    let clones: Vec<ContractRef> = templates.into_iter().flatten().map(clone_kind).collect();
    caches.externals.prepare(Reader::Sweep, clones.iter().map(Some)).await;
    let mut candidates = caches.externals.owned_by(&creator, cluster.as_ref(), &clones);
    // Its bootstrap configurations come from no template, so that no reference names their kind.
    if creator.gvk.group == CONTROL_PLANE_GROUP {
        candidates.extend(configs_of(&caches.kubeadm_configs, &creator, cluster.as_ref()));
        candidates.sort_by(|a, b| a.object.cmp(&b.object));
        candidates.dedup_by(|a, b| a.object == b.object);
    }
    delete_unused(context, &creator, candidates).await
}

/// [`run`] for what was found.
///
/// # Errors
/// When the server refuses; an object that changed is left for the next time.
pub async fn delete_unused(
    context: &Context,
    creator: &ObjectRef,
    candidates: Vec<Candidate>,
) -> Result<Option<Duration>, ReconcileError> {
    if candidates.is_empty() {
        return Ok(None);
    }
    let machines = context.caches.machines.in_namespace(&creator.key.namespace);
    let plan = sweep(creator, candidates, &machines, context.clock.now());
    for unused in &plan.steps {
        delete(context, unused).await?;
    }
    Ok(plan.recheck)
}

/// A template's kind ends with `Template`, by contract.
fn clone_kind(template: &ContractRef) -> ContractRef {
    let kind = template.kind.strip_suffix("Template").unwrap_or(&template.kind).to_owned();
    ContractRef { kind, ..template.clone() }
}

/// A few at most: a Machine takes over its own within moments.
fn configs_of(
    cache: &Cache<KubeadmConfig>,
    creator: &ObjectRef,
    cluster: Option<&ObjectKey>,
) -> Vec<Candidate> {
    let found = owned(cache, creator, cluster);
    let candidate = |config: &KubeadmConfig| Candidate {
        object: ObjectRef::of(config),
        metadata: config.metadata.clone(),
    };
    found.iter().map(|config| candidate(config)).collect()
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
        // A conflict means that somebody has just taken it over or changed it.
        _ => Ok(()),
    }
}
