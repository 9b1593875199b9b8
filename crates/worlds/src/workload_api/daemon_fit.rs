//! On which Nodes a DaemonSet's pod may run: by its selector and its tolerations. Must not know DaemonSets.
//!
//! Source: kubernetes `pkg/controller/daemon/daemon_controller.go`, `pkg/controller/daemon/util/daemonset_util.go`, v1.35.

use k8s_openapi::api::core::v1::{Node, PodSpec, Taint, Toleration};

/// Taints that every DaemonSet's pods tolerate.
const TOLERATED: [&str; 7] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
];

/// Does a pod of this template belong on the Node?
pub(super) fn fits(node: &Node, template: Option<&PodSpec>) -> bool {
    let Some(template) = template else { return false };
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let is_chosen =
        template.node_selector.iter().flatten().all(|(label, value)| labels.get(label) == Some(value));
    let tolerations = template.tolerations.as_deref().unwrap_or_default();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    is_chosen && taints.iter().all(|taint| is_tolerated(taint, tolerations))
}

fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    // A preference keeps no pod away from the only node that is meant for it.
    let is_soft = taint.effect == "PreferNoSchedule";
    is_soft
        || TOLERATED.contains(&taint.key.as_str())
        || tolerations.iter().any(|given| tolerates(given, taint))
}

fn tolerates(given: &Toleration, taint: &Taint) -> bool {
    let has_effect = given.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
    let key = given.key.as_deref().unwrap_or_default();
    let is_any = given.operator.as_deref() == Some("Exists");
    // An empty key with `Exists` tolerates every taint.
    let has_key = key == taint.key || key.is_empty() && is_any;
    let value = given.value.as_deref().unwrap_or_default();
    has_effect && has_key && (is_any || value == taint.value.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn selectors_and_tolerations_choose_the_nodes() {
        let node = json!({"metadata": {"labels": {"role": "cp"}}, "spec": {"taints": [
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}});
        let node: Node = serde_json::from_value(node).expect("a Node");
        let tolerated = json!([{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]);
        for (spec, expected) in [
            (json!({"containers": []}), false),
            (json!({"containers": [], "tolerations": tolerated}), true),
            (json!({"containers": [], "tolerations": [{"operator": "Exists"}]}), true),
            (
                json!({"containers": [], "tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}),
                false,
            ),
            (json!({"containers": [], "tolerations": tolerated, "nodeSelector": {"role": "cp"}}), true),
            (json!({"containers": [], "tolerations": tolerated, "nodeSelector": {"role": "worker"}}), false),
        ] {
            let described: Value = spec.clone();
            let template: PodSpec = serde_json::from_value(spec).expect("a pod's spec");
            assert_eq!(fits(&node, Some(&template)), expected, "{described}");
        }
    }
}
