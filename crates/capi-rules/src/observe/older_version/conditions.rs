//! Conditions of the older kind that mean the same as newer ones. Must not know those that only share a name: `Ready` and `Available`
//! add up something else.
//!
//! Source: cluster-api `api/core/v1beta1/condition_consts.go`, `api/controlplane/kubeadm/v1beta1/condition_consts.go`, and what
//! release 1.8 writes by them.

use serde_json::{Value, json};

/// The older and the newer type, by kind.
const SAME: [(&str, &[(&str, &str)]); 3] = [
    (
        "Cluster",
        &[
            ("ControlPlaneInitialized", "ControlPlaneInitialized"),
            ("InfrastructureReady", "InfrastructureReady"),
        ],
    ),
    (
        "KubeadmControlPlane",
        &[("CertificatesAvailable", "CertificatesAvailable"), ("Available", "Initialized")],
    ),
    (
        "Machine",
        &[
            ("BootstrapReady", "BootstrapConfigReady"),
            ("InfrastructureReady", "InfrastructureReady"),
            ("NodeHealthy", "NodeHealthy"),
            ("APIServerPodHealthy", "APIServerPodHealthy"),
            ("ControllerManagerPodHealthy", "ControllerManagerPodHealthy"),
            ("SchedulerPodHealthy", "SchedulerPodHealthy"),
            ("EtcdPodHealthy", "EtcdPodHealthy"),
            ("EtcdMemberHealthy", "EtcdMemberHealthy"),
            ("HealthCheckSucceeded", "HealthCheckSucceeded"),
            ("OwnerRemediated", "OwnerRemediated"),
        ],
    ),
];

/// Gives an object that was converted and has no newer condition those that its older ones stand for.
pub fn take_over(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some((_, same)) = SAME.iter().find(|(of, _)| *of == kind) else { return };
    // Releases since 1.9 have written newer ones themselves, and those count.
    if object["status"]["conditions"].as_array().is_some_and(|newer| !newer.is_empty()) {
        return;
    }
    let Some(older) = object.pointer("/status/deprecated/v1beta1/conditions").and_then(Value::as_array)
    else {
        return;
    };
    let mut newer: Vec<Value> = older.iter().filter_map(|condition| taken_over(same, condition)).collect();
    if kind == "Machine" {
        newer.extend(available(&newer));
    }
    if !newer.is_empty() {
        object["status"]["conditions"] = newer.into();
    }
}

/// Those releases count a Machine as available as soon as its Node is ready, and have no condition for it.
/// Source: cluster-api `internal/controllers/machineset/machineset_controller.go` (`updateStatus`), v1.8.12.
fn available(conditions: &[Value]) -> Vec<Value> {
    let node = conditions.iter().find(|condition| condition["type"] == "NodeHealthy");
    let Some(node) = node.filter(|node| node["status"] == "True") else { return Vec::new() };
    let of = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "",
            "lastTransitionTime": node["lastTransitionTime"]})
    };
    vec![of("Ready"), of("Available")]
}

fn taken_over(same: &[(&str, &str)], older: &Value) -> Option<Value> {
    let (_, type_) = same.iter().find(|(from, _)| older["type"] == *from)?;
    let text = |field: &str| older[field].as_str().unwrap_or_default();
    Some(
        json!({"type": type_, "status": text("status"), "reason": text("reason"), "message": text("message"),
        "lastTransitionTime": older["lastTransitionTime"]}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, older: &Value, newer: &Value) -> Value {
        json!({"kind": kind, "status": {"conditions": newer, "deprecated": {"v1beta1": {"conditions": older}}}})
    }

    #[test]
    fn older_conditions_stand_for_newer_ones_of_the_same_meaning() {
        let at = "2026-11-20T10:00:00Z";
        let older = |type_: &str| json!({"type": type_, "status": "False", "severity": "Info", "reason": "R", "lastTransitionTime": at});
        let newer = |type_: &str| json!({"type": type_, "status": "False", "reason": "R", "message": "", "lastTransitionTime": at});
        for (kind, from, expected) in [
            ("Machine", "EtcdMemberHealthy", Some("EtcdMemberHealthy")),
            ("Machine", "BootstrapReady", Some("BootstrapConfigReady")),
            ("Machine", "Ready", None),
            ("Cluster", "ControlPlaneInitialized", Some("ControlPlaneInitialized")),
            ("Cluster", "ControlPlaneReady", None),
            ("KubeadmControlPlane", "Available", Some("Initialized")),
            ("MachineDeployment", "Available", None),
        ] {
            let mut seen = object(kind, &json!([older(from)]), &Value::Null);
            take_over(&mut seen);
            let expected = expected.map_or(Value::Null, |type_| json!([newer(type_)]));
            assert_eq!(seen["status"]["conditions"], expected, "{kind} {from}");
        }
        let ready = json!({"type": "NodeHealthy", "status": "True", "lastTransitionTime": at});
        let mut seen = object("Machine", &json!([ready]), &Value::Null);
        take_over(&mut seen);
        let types: Vec<_> =
            seen["status"]["conditions"].as_array().expect("a list").iter().map(|c| &c["type"]).collect();
        assert_eq!(types, ["NodeHealthy", "Ready", "Available"]);
        let own = json!([newer("Ready")]);
        let mut both = object("Machine", &json!([older("EtcdMemberHealthy")]), &own);
        take_over(&mut both);
        assert_eq!(both["status"]["conditions"], own, "what the controllers say themselves counts");
    }
}
