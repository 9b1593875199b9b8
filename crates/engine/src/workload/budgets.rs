//! The disruption budgets of a workload cluster that let no pod go, and the pods that they hold. Owns what is read for that: the budgets,
//! and of the pods only those that such a budget holds. Must not know which Machines are to go.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, ListParams};

use super::connect_to;
use crate::client::{Client, explain};
use capi_types::key::ObjectKey;
use capstan_base::text::sanitize_line;
use k8s_machinery::selector;

/// How long all of it may take: whoever asks does not wait for a cluster that is out of reach.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// Budgets that are looked at, those that are told, and pods of each.
const BUDGETS_MAX: u32 = 500;
const HELD_MAX: usize = 10;
const PODS_MAX: u32 = 500;

/// A budget that lets none of its pods go now. Text is sanitised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBudget {
    /// `NAMESPACE/NAME`.
    pub budget: String,
    /// Its pods that a drain would evict: `NAMESPACE/NAME`, and the Node.
    pub pods: Vec<(String, String)>,
}

/// The budgets of a Cluster that let no pod go, by the kubeconfig in its Secret. Nothing is written there.
///
/// # Errors
/// Why they could not be read, in a sentence.
pub async fn held_budgets(management: &Client, cluster: &ObjectKey) -> Result<Vec<HeldBudget>, String> {
    let late = |_| Err(format!("there was no answer within {} s", LOOK_TIMEOUT.as_secs()));
    let reading = async { held(&connect_to(management, cluster, true).await?).await };
    tokio::time::timeout(LOOK_TIMEOUT, reading).await.unwrap_or_else(late)
}

async fn held(workload: &Client) -> Result<Vec<HeldBudget>, String> {
    let unread = |error: kube::Error| explain(&error, "the workload cluster");
    let budgets: Api<PodDisruptionBudget> = Api::all(workload.clone());
    let listed = budgets.list(&ListParams::default().limit(BUDGETS_MAX)).await.map_err(unread)?;
    let mut all = Vec::new();
    for budget in listed.items.iter().filter(|budget| lets_none_go(budget)).take(HELD_MAX) {
        let namespace = budget.metadata.namespace.clone().unwrap_or_default();
        let Some(chosen) = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { continue };
        let pods: Api<Pod> = Api::namespaced(workload.clone(), &namespace);
        let params = ListParams::default().labels(&selector::to_text(chosen)).limit(PODS_MAX);
        let pods = pods.list(&params).await.map_err(unread)?;
        let pods = pods.items.iter().filter(|pod| is_evicted(pod)).filter_map(placed).collect();
        all.push(HeldBudget { budget: named(&ObjectKey::of(budget)), pods });
    }
    Ok(all)
}

/// One that nobody counted yet has no room either, but has it in a moment.
fn lets_none_go(budget: &PodDisruptionBudget) -> bool {
    let status = budget.status.as_ref();
    status.is_some_and(|status| status.disruptions_allowed == 0 && status.expected_pods > 0)
}

/// A drain leaves the pods of DaemonSets and static ones where they are, and those that are done hold nothing.
/// Source: cluster-api `internal/controllers/machine/drain/filters.go`, v1.14.2.
fn is_evicted(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let is_mirror =
        pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key("kubernetes.io/config.mirror"));
    !matches!(phase, Some("Succeeded" | "Failed"))
        && !owners.any(|owner| owner.kind == "DaemonSet")
        && !is_mirror
}

fn placed(pod: &Pod) -> Option<(String, String)> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    Some((named(&ObjectKey::of(pod)), sanitize_line(node)))
}

fn named(key: &ObjectKey) -> String {
    sanitize_line(&key.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_budget_without_room_holds_what_a_drain_would_evict() {
        let budget = |status| {
            let value = json!({"metadata": {"name": "b", "namespace": "n"}, "status": status});
            serde_json::from_value::<PodDisruptionBudget>(value).expect("a budget")
        };
        let counts = |allowed: i32, expected: i32| json!({"disruptionsAllowed": allowed, "expectedPods": expected, "currentHealthy": 1, "desiredHealthy": 1});
        for (status, expected) in
            [(counts(0, 1), true), (counts(1, 2), false), (counts(0, 0), false), (json!(null), false)]
        {
            assert_eq!(lets_none_go(&budget(status.clone())), expected, "{status}");
        }
        let pod = |more: serde_json::Value| {
            let mut value = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [], "nodeName": "a"}});
            for (key, part) in more.as_object().expect("an object") {
                value[key] = part.clone();
            }
            serde_json::from_value::<Pod>(value).expect("a pod")
        };
        let owner = json!({"name": "p", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]});
        let mirror = json!({"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}});
        for (more, expected) in [
            (json!({}), true),
            (json!({"status": {"phase": "Succeeded"}}), false),
            (json!({"metadata": owner}), false),
            (json!({"metadata": mirror}), false),
        ] {
            assert_eq!(is_evicted(&pod(more.clone())), expected, "{more}");
        }
        assert_eq!(placed(&pod(json!({}))), Some(("n/p".to_owned(), "a".to_owned())));
        assert_eq!(placed(&pod(json!({"spec": {"containers": []}}))), None);
    }
}
