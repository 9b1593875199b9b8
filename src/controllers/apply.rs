//! Performs the steps of a plan: writes through the one write path, calls into workload clusters,
//! events. Must not decide anything.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::Context;
use crate::api::key::{Gvk, ObjectKey, ObjectRef};
use crate::client::write::Part;
use crate::client::{Mode, Precondition};
use crate::engine::ReconcileError;
use crate::plan::{Step, WorkloadCall, Write};
use crate::status::drain::{Evicted, Evictions};
use crate::time::{rfc3339, to_k8s_micro};
use crate::workload::{Eviction, WorkloadError};

/// How long one round of evictions may take.
const EVICTIONS_TIMEOUT: Duration = Duration::from_secs(10);

/// What came of a plan's steps.
#[derive(Debug, Default)]
pub struct Applied {
    /// Objects as the server stored them, newest last.
    pub stored: Vec<(ObjectRef, Value)>,
    pub evictions: Evictions,
    pub failure: Option<Failure>,
}

/// A step that failed.
#[derive(Debug)]
pub struct Failure {
    /// The rule that asked for it.
    pub rule: &'static str,
    pub error: ReconcileError,
}

impl Failure {
    /// Several as one: `[first, second]`, each text once, under the rule of the last.
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
        Some(Self { rule: last.rule, error: ReconcileError::failed(format!("[{}]", words.join(", "))) })
    }
}

impl Applied {
    /// The object as the last write to it left it; `None` when nothing wrote to it.
    #[must_use]
    pub fn latest<K: DeserializeOwned>(&self, object: &ObjectRef) -> Option<K> {
        let (_, value) = self.stored.iter().rfind(|(r, _)| r.gvk == object.gvk && r.key == object.key)?;
        serde_json::from_value(value.clone()).ok()
    }

    /// This and then `other`.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.stored.extend(other.stored);
        self.evictions.extend(other.evictions);
        self.failure = Failure::together(self.failure.into_iter().chain(other.failure).collect());
        self
    }

    /// # Errors
    /// The failure, if there was one.
    pub fn into_result(self) -> Result<(), ReconcileError> {
        self.failure.map_or(Ok(()), |failure| Err(failure.error))
    }
}

/// Performs every one of `steps`, for they do not need each other.
pub async fn apply_each(context: &Context, steps: &[Step]) -> Applied {
    let (mut all, mut failures) = (Applied::default(), Vec::new());
    for step in steps {
        let mut one = apply(context, std::slice::from_ref(step)).await;
        failures.extend(one.failure.take());
        all = all.and(one);
    }
    all.failure = Failure::together(failures);
    all
}

/// Performs `steps` in order, up to the first failure.
pub async fn apply(context: &Context, steps: &[Step]) -> Applied {
    let mut applied = Applied::default();
    for step in steps {
        tracing::debug!(rule = step.reason.rule, "{step}");
        if let Err(error) = perform(context, &step.write, &mut applied).await {
            if is_patch_of_nothing(&step.write, &error) {
                tracing::debug!(rule = step.reason.rule, "{step}: it is gone");
                break;
            }
            applied.failure = Some(Failure { rule: step.reason.rule, error });
            break;
        }
    }
    applied
}

async fn perform(context: &Context, write: &Write, applied: &mut Applied) -> Result<(), ReconcileError> {
    let writer = &context.writer;
    match write {
        Write::Create { object, content } => {
            let stored = writer.create_value(object, content, Mode::Real).await?;
            applied.stored.push((object.clone(), stored));
        }
        Write::Patch { object, body } => {
            let stored = writer.patch_value(object, Part::Main, body, &guard(object), Mode::Real).await?;
            applied.stored.push((object.clone(), stored));
        }
        Write::PatchStatus { object, body } => {
            let stored = writer.patch_value(object, Part::Status, body, &guard(object), Mode::Real).await?;
            applied.stored.push((object.clone(), stored));
        }
        Write::Delete { object } => writer.delete_value(object, &guard(object), Mode::Real).await?,
        Write::Event { about, warning, reason, message } => {
            event(context, about, *warning, reason, message).await;
        }
        Write::Workload { cluster, call } => call_workload(context, cluster, call, applied).await?,
    }
    Ok(())
}

/// The object went away while the plan for it was made: the rest is moot, and nothing failed.
fn is_patch_of_nothing(write: &Write, error: &ReconcileError) -> bool {
    matches!(write, Write::Patch { .. } | Write::PatchStatus { .. })
        && matches!(error, ReconcileError::Write(error) if error.is_not_found())
}

fn guard(object: &ObjectRef) -> Precondition {
    Precondition { uid: (!object.uid.is_empty()).then(|| object.uid.clone()), resource_version: None }
}

async fn call_workload(
    context: &Context,
    cluster: &ObjectKey,
    call: &WorkloadCall,
    applied: &mut Applied,
) -> Result<(), ReconcileError> {
    let failed =
        |error: WorkloadError| ReconcileError::failed(format!("{call} in Cluster {cluster}: {error}"));
    match call {
        WorkloadCall::PatchNode { node, body } => {
            context.workload.patch_node(cluster, node, body).await.map_err(failed)?;
        }
        WorkloadCall::DeleteNode { node, must } => {
            match context.workload.delete_node(cluster, node).await.map_err(failed) {
                Err(error) if !must => tracing::warn!("{error}; the Node is left behind"),
                outcome => outcome?,
            }
        }
        WorkloadCall::StoreToken { token, expires } => {
            context.workload.store_bootstrap_token(cluster, token, *expires).await.map_err(failed)?;
        }
        WorkloadCall::Evict { pods, grace_period_s, .. } => {
            applied.evictions.extend(evict(context, cluster, pods, *grace_period_s).await);
        }
    }
    Ok(())
}

/// Asks for one after the other, until the time of a round is over.
/// Source: cluster-api `drain.go` (`EvictPods`), v1.14.0.
async fn evict(
    context: &Context,
    cluster: &ObjectKey,
    pods: &[ObjectKey],
    grace_period_s: Option<u32>,
) -> Evictions {
    let end = Instant::now() + EVICTIONS_TIMEOUT;
    let mut evictions = Evictions::new();
    for pod in pods {
        let refused = |words: &str| Evicted::Refused(words.to_owned());
        let outcome = if Instant::now() >= end {
            refused("eviction timeout of 10s reached, eviction will be retried")
        } else {
            match timeout_at(end, context.workload.evict(cluster, pod, grace_period_s)).await {
                Ok(Ok(Eviction::Started)) => Evicted::Started,
                Ok(Ok(Eviction::Gone)) => Evicted::Gone,
                Ok(Ok(Eviction::Refused(words))) => Evicted::Refused(words),
                Ok(Err(error)) => refused(&error.to_string()),
                Err(_) => refused("context deadline exceeded"),
            }
        };
        evictions.insert(pod.clone(), outcome);
    }
    evictions
}

/// Events are for people: one that cannot be stored is logged and nothing else.
async fn event(context: &Context, about: &ObjectRef, warning: bool, reason: &str, message: &str) {
    let now = context.clock.now();
    let name = format!("{}.{}", about.key.name, context.rng.suffix(10));
    let gvk = Gvk::of::<k8s_openapi::api::core::v1::Event>();
    let target = ObjectRef { gvk, key: ObjectKey::new(&about.key.namespace, name), uid: String::new() };
    let content = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": target.key.name, "namespace": target.key.namespace},
        "involvedObject": {
            "apiVersion": about.gvk.api_version(),
            "kind": about.gvk.kind,
            "namespace": about.key.namespace,
            "name": about.key.name,
            "uid": about.uid,
        },
        "type": if warning { "Warning" } else { "Normal" },
        "reason": reason,
        "message": message,
        "source": {"component": "capstan"},
        "reportingComponent": "capstan",
        "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now),
        "eventTime": to_k8s_micro(now),
        "count": 1,
    });
    if let Err(error) = context.writer.create_value(&target, &content, Mode::Real).await {
        tracing::warn!("event {reason} about {about} was not stored: {error}");
    }
}
