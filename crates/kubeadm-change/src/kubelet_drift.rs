//! Kubelets that run otherwise than the stored KubeletConfiguration says. Owns what counts as stored; must not know how a kubelet is
//! asked.

use serde_json::Value;

use super::difference::{FieldChange, differences};
use super::document::DocumentKind;
use super::schema::Schema;

/// Fields that are pointers in Go: their zero is a value of its own, and only their absence stands for the default.
/// Source: kubelet `config/v1beta1/types.go` (`KubeletConfiguration`), v0.36.3.
const ZERO_IS_A_VALUE: [&str; 19] = [
    "containerLogMaxFiles",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "cpuCFSQuotaPeriod",
    "crashLoopBackOff.maxContainerRestartPeriod",
    "eventRecordQPS",
    "healthzPort",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "iptablesDropBit",
    "iptablesMasqueradeBit",
    "kubeAPIQPS",
    "maxParallelImagePulls",
    "memoryThrottlingFactor",
    "nodeStatusMaxImages",
    "oomScoreAdj",
    "podPidsLimit",
    "registryPullQPS",
    "userNamespaces.idsPerPod",
];

/// The fields that are stored and that a kubelet of 1.`minor` has otherwise, from what it has to what is stored. `live` has all
/// defaults; a stored field that is zero or empty stands for the default, which is the kubelet's own.
pub fn find(stored: &Value, live: &Value, minor: Option<u64>) -> Vec<String> {
    let changes = differences(DocumentKind::Kubelet, live, stored);
    let said = changes.iter().filter(|change| !becomes_default(change) && !is_ignored(change, minor));
    said.map(|change| format!("{}: {} → {}", change.path, change.old_text(), change.new_text())).collect()
}

/// Does the new value stand for the kubelet's own default? kubeadm stores a duration that was not set as `0s`.
pub fn becomes_default(change: &FieldChange) -> bool {
    // In a field without a pointer zero and absence are one for the kubelet.
    let is_pointer = ZERO_IS_A_VALUE.contains(&change.path.to_string().as_str());
    if is_pointer { change.new.is_null() } else { is_zero(&change.new) }
}

/// Is it a field that a kubelet of 1.`minor` does not read? `change.old` is what the kubelet has in effect.
pub fn is_ignored(change: &FieldChange, minor: Option<u64>) -> bool {
    let is_read = |minor| Schema::embedded().is_read(DocumentKind::Kubelet.name(), &change.path, minor);
    // What the kubelet shows, it reads, whatever the table says.
    change.old.is_null() && minor.is_some_and(|minor| !is_read(minor))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => matches!(text.as_str(), "" | "0" | "0s"),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_stored_counts() {
        let live = json!({"maxPods": 110, "syncFrequency": "1m0s", "clusterDNS": ["10.96.0.10"], "failSwapOn": true, "podsPerCore": 0,
            "eventRecordQPS": 50});
        for (stored, expected) in [
            (json!({"maxPods": 110, "syncFrequency": "0s", "clusterDNS": ["10.96.0.10"]}), vec![]),
            (json!({"maxPods": 50, "syncFrequency": "60s"}), vec!["maxPods: 110 → 50"]),
            (json!({"failSwapOn": false}), vec!["failSwapOn: true → false"]),
            (json!({"logging": {"flushFrequency": 0, "verbosity": 0}, "evictionHard": {}}), vec![]),
            (json!({"eventRecordQPS": 0}), vec!["eventRecordQPS: 50 → 0"]),
        ] {
            assert_eq!(find(&stored, &live, Some(36)), expected, "{stored}");
        }
    }

    #[test]
    fn what_the_release_of_a_kubelet_ignores_is_not_drift() {
        let live = json!({"maxPods": 110});
        let stored = json!({"maxPods": 50, "crashLoopBackOff": {"maxContainerRestartPeriod": "60s"}});
        let pods = "maxPods: 110 → 50".to_owned();
        let period = "crashLoopBackOff.maxContainerRestartPeriod: (none) → 60s".to_owned();
        for (minor, expected) in [
            (Some(31), vec![pods.clone()]),
            (Some(32), vec![period.clone(), pods.clone()]),
            (None, vec![period, pods]),
        ] {
            assert_eq!(find(&stored, &live, minor), expected, "{minor:?}");
        }
        // A table that lags behind does not hide what the kubelet itself shows.
        let newer = json!({"fieldOfTomorrow": 1});
        assert_eq!(find(&json!({"fieldOfTomorrow": 2}), &newer, Some(99)).len(), 1);
    }
}
