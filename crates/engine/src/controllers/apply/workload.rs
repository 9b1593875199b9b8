//! Calls into workload clusters. Must not decide which.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::Applied;
use crate::controllers::Context;
use crate::engine::ReconcileError;
use crate::workload::{Addon, Eviction, WorkloadError};
use capi_rules::etcd::Member;
use capi_rules::plan::WorkloadCall;
use capi_rules::status::drain::{Evicted, Evictions};
use capi_types::key::ObjectKey;
use capi_types::names::annotation;
use capstan_base::time::rfc3339;

/// How long one round of evictions may take.
const EVICTIONS_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes one call. What came of evictions stands in `applied`.
///
/// # Errors
/// When the workload cluster refuses, or cannot be reached.
pub async fn call(
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
        WorkloadCall::RemoveEtcdMember(member) => {
            context.workload.remove_member(cluster, member.id).await.map_err(failed)?;
        }
        WorkloadCall::MoveEtcdLeader { from, candidates } => {
            move_leader(context, cluster, from, candidates).await?;
        }
        WorkloadCall::SetClusterConfiguration(configuration) => {
            set_cluster_configuration(context, cluster, configuration).await?;
        }
        WorkloadCall::SetKubeProxyImage { image } => {
            context.workload.set_addon_image(cluster, Addon::KubeProxy, image).await.map_err(failed)?;
        }
        WorkloadCall::SetCoreDnsImage { image } => {
            context.workload.set_addon_image(cluster, Addon::CoreDns, image).await.map_err(failed)?;
        }
        WorkloadCall::BindClusterRole(binding) => {
            context.workload.bind_cluster_role(cluster, binding).await.map_err(failed)?;
        }
    }
    Ok(())
}

/// The patch that notes when the certificate of an API server ends.
///
/// # Errors
/// When the API server does not show one.
pub async fn expiry_note(
    context: &Context,
    cluster: &ObjectKey,
    node: &str,
    port: u16,
) -> Result<Value, ReconcileError> {
    let expiry = context.workload.api_server_expiry(cluster, node, port).await.map_err(|error| {
        ReconcileError::failed(format!(
            "read the certificate of the API server on Node {node} of Cluster {cluster}: {error}"
        ))
    })?;
    Ok(json!({"metadata": {"annotations": {annotation::CERTIFICATES_EXPIRY: rfc3339(expiry)}}}))
}

/// The first candidate that accepts leads.
async fn move_leader(
    context: &Context,
    cluster: &ObjectKey,
    from: &str,
    candidates: &[Member],
) -> Result<(), ReconcileError> {
    let mut refusals = Vec::new();
    for candidate in candidates {
        match context.workload.move_leader(cluster, candidate.id).await {
            Ok(()) => return Ok(()),
            Err(error) => refusals.push(format!("{}: {error}", candidate.name)),
        }
    }
    Err(ReconcileError::failed(format!(
        "cannot move etcd leadership away from {from} in Cluster {cluster}: {}",
        refusals.join("; ")
    )))
}

async fn set_cluster_configuration(
    context: &Context,
    cluster: &ObjectKey,
    configuration: &Value,
) -> Result<(), ReconcileError> {
    let text = serde_saphyr::to_string(configuration).map_err(|e| {
        ReconcileError::failed(format!("ClusterConfiguration cannot be written as YAML: {e}"))
    })?;
    let patch = json!({ "data": { "ClusterConfiguration": text } });
    let done = context.workload.patch_kubeadm_config(cluster, &patch).await;
    done.map_err(|error| {
        ReconcileError::failed(format!(
            "update ConfigMap kube-system/kubeadm-config in Cluster {cluster}: {error}"
        ))
    })
}

/// Asks for one after the other, until the time of a round is over.
/// Source: cluster-api `drain.go` (`EvictPods`), v1.14.2.
async fn evict(
    context: &Context,
    cluster: &ObjectKey,
    pods: &[ObjectKey],
    grace_period_s: Option<u32>,
) -> Evictions {
    // One end for all: a budget that answers slowly must not hold the run for each pod.
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
