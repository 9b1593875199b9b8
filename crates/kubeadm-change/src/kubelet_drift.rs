//! Kubelets that run otherwise than the stored KubeletConfiguration says. Owns what counts as stored; must not know how a kubelet is
//! asked.

use serde_json::Value;

use super::difference::{FieldChange, differences};
use super::document::DocumentKind;

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

/// The fields that are stored and that a kubelet has otherwise, from what it has to what is stored. `live` has all defaults; a
/// stored field that is zero or empty stands for the default, which is the kubelet's own.
pub fn find(stored: &Value, live: &Value) -> Vec<String> {
    let changes = differences(DocumentKind::Kubelet, live, stored);
    let said = changes.iter().filter(|change| !becomes_default(change));
    said.map(|change| format!("{}: {} → {}", change.path, change.old_text(), change.new_text())).collect()
}

/// Does the new value stand for the kubelet's own default? kubeadm stores a duration that was not set as `0s`.
pub fn becomes_default(change: &FieldChange) -> bool {
    // In a field without a pointer zero and absence are one for the kubelet.
    let is_pointer = ZERO_IS_A_VALUE.contains(&change.path.to_string().as_str());
    if is_pointer { change.new.is_null() } else { is_zero(&change.new) }
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
            assert_eq!(find(&stored, &live), expected, "{stored}");
        }
    }
}
