//! The `Paused` condition and whether a run may go on. Owns nothing but that; every controller asks
//! it right after it found the Cluster.
//! Source: cluster-api `util/paused/paused.go` (`EnsurePausedCondition`), v1.14.0.

use super::Context;
use super::finalizer;
use super::status::{Outcome, write};
use crate::api::cluster::Cluster;
use crate::api::condition::{Conditioned, find};
use crate::api::names::annotation;
use crate::client::{Object, WriteError};
use crate::status::conditions::setter;

/// May the run go on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Not paused, and the object says so.
    Running,
    /// Paused, or the condition was just written: the run ends here, its own echo starts the next one.
    Stop,
}

/// What ends a run before it looks at anything else: first a missing `finalizer`, then a pause.
///
/// # Errors
/// When the server refuses a write.
pub async fn may_run<K>(
    context: &Context,
    object: &K,
    cluster: &Cluster,
    finalizer: &str,
) -> Result<bool, WriteError>
where
    K: Object + Conditioned,
{
    Ok(!finalizer::ensure(context, object, finalizer).await?
        && check(context, object, Some(cluster)).await? == Pause::Running)
}

/// Compares the stored `Paused` condition with what it should be and writes it when it turned.
///
/// # Errors
/// When the condition cannot be written.
pub async fn check<K>(context: &Context, object: &K, cluster: Option<&Cluster>) -> Result<Pause, WriteError>
where
    K: Object + Conditioned,
{
    let cluster_paused = cluster.is_some_and(|c| c.spec.paused == Some(true));
    let annotated =
        object.meta().annotations.as_ref().is_some_and(|all| all.contains_key(annotation::PAUSED));
    let desired = setter::paused(&K::kind(&()), cluster_paused, annotated);
    let generation = object.meta().generation;
    let paused = desired.status == "True";
    let stored = find(object.conditions(), "Paused");
    let same = stored.is_some_and(|c| {
        (&c.status, &c.reason, &c.message) == (&desired.status, &desired.reason, &desired.message)
            && (!paused || c.observed_generation == generation)
    });
    if same {
        return Ok(if paused { Pause::Stop } else { Pause::Running });
    }
    let mut after = object.clone();
    setter::set(after.conditions_mut(), desired, generation, context.clock.now());
    match write(context, object, &after, &["Paused"]).await? {
        Outcome::Written | Outcome::Unchanged | Outcome::Gone => Ok(Pause::Stop),
    }
}
